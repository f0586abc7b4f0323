"""What a run costs: prices of a file, judges included, and the most that may be spent."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.judge_server import JUDGE, Server, command, quiz, server
from tests.support.viewer_driving import TOKEN, Asking

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.openai_compatible.usage import read_usage
from eval_toolkit.models.prices import Spending, cost_of, read_prices
from eval_toolkit.report.viewer import create_app
from eval_toolkit.runs import Run, read_progress, run_state

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command", "quiz", "server"]  # fixtures


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    text = 'currency = "EUR"\n[models]\nm = [10_000, 0]\n"openai:judge" = [0, 50_000]\n'
    path.write_text(text, "utf-8")
    return path


def test_judges_are_in_the_totals_and_in_the_first_line(
    command: Command, server: Server, quiz: Path, prices: Path, tmp_path: Path
) -> None:
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--prices", prices)
    asked = (*asked, "--grader", JUDGE, "--out", tmp_path / "r")
    code, out, err = command(*asked, "--limit", 1)
    assert code == 0
    assert "0 answers stored, 1 to request, about €" in err
    # 10 tokens of the prompt at 10,000 per million; 2 of the verdict at 50,000
    assert "cost €0.10, with judges €0.20" in out
    code, out, err = command(*asked)
    assert "1 answers stored, 1 to request" in err
    assert "cost €0.10 now, €0.20 in total, with judges €0.40" in out


def test_a_dry_run_counts_tokens_and_cost_of_judges(
    command: Command, server: Server, quiz: Path, prices: Path
) -> None:
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--prices", prices)
    code, out, err = command(*asked, "--grader", JUDGE, "--dry-run", "--max-tokens", 5)
    assert (code, err) == (0, "")
    assert "requests to the judge correctness         2" in out
    # two verdicts of 512 tokens at most
    assert "cost of the judge correctness, at most    €51.20" in out
    assert not server.asked


def test_a_run_ends_before_it_costs_more_and_goes_on_with_more(
    command: Command, server: Server, quiz: Path, prices: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--prices", prices)
    asked = (*asked, "--out", out, "--concurrency", 1)
    code, _, err = command(*asked, "--max-cost", 0.15)
    assert code == 3
    why = "requests stopped: --max-cost is €0.15, and €0.10 was spent on 1 answers"
    assert f"error: m: {why}" in err
    assert "interrupted" not in err
    stored = why.replace("--max-cost", "max_cost")
    assert stored in read_progress(out).stopped
    assert stored in run_state(out)
    pages = Asking(create_app(tmp_path, token=TOKEN))
    listed = pages("/")
    (address,) = set(re.findall(r'href="(/runs/r-\w+)"', listed.text))
    assert stored in listed.text
    assert stored in pages(address).text
    assert "1 of 2 requests are answered and kept" in err
    assert len(server.asked) == 1
    code, _, err = command(*asked, "--max-cost", 0.15)
    assert code == 0, err
    assert len(server.asked) == 2
    assert read_progress(out).stopped == ""
    assert sorted(path.name for path in out.glob("*.json")) == ["manifest.json", "results.json"]


def test_judges_spend_from_the_same_purse(
    command: Command, server: Server, quiz: Path, prices: Path
) -> None:
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--prices", prices)
    code, _, err = command(
        *asked, "--grader", JUDGE, "--max-cost", 0.35, "--concurrency", 1, "--no-store"
    )
    assert code == 3
    assert "--max-cost is €0.35" in err
    assert [one["model"] for one in server.asked] == ["m", "m", "judge"]


def test_without_prices_there_is_nothing_to_count(
    command: Command, server: Server, quiz: Path, prices: Path
) -> None:
    asked = ("run", quiz, "--base-url", server.url, "--max-cost", 1, "--no-store")
    code, _, err = command(*asked, "--model", "openai:m")
    assert (code, "needs --prices" in err) == (2, True)
    code, _, err = command(*asked, "--model", "openai:other", "--prices", prices)
    assert (code, "needs prices for openai:other" in err) == (2, True)
    code, _, err = command(*asked, "--model", "openai:m", "--prices", "1,2", "--grader", JUDGE)
    assert (code, "needs prices for openai:judge" in err) == (2, True)
    assert not server.asked


def test_a_finished_run_costs_what_its_tokens_cost(
    command: Command, server: Server, quiz: Path, prices: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--out", out)
    code, page, err = command(*asked)
    assert code == 0, err
    assert ", cost " not in page
    assert Run.open(out).manifest["usage"]["cost"] is None
    replay = ("run", quiz, "--replay", out, "--no-store")
    for arguments in (asked, replay, ("rescore", out, "--grader", "includes")):
        code, page, err = command(*arguments, "--prices", prices)
        assert code == 0, err
        assert "cost €0 now, €0.20 in total" in page  # 20 tokens in prompts
        code, page, err = command(*arguments, "--prices", "10_000,0")
        assert "cost $0 now, $0.20 in total" in page
        assert "tokens per answer" not in err
    _, _, err = command(*replay, "--model", "openai:m", "--base-url", server.url)
    assert "prompts go to" not in err
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('currency = "EUR"', r"no table \[models\]"),
        ("[models]\nm = [1]", r"\[models\] m is \[1\]; write \[IN, OUT\]"),
        ("[models]\nm = [1, -2]", r"\[models\] m"),
        ("[models]\nm = [1, 1e300]", r"must lie in \[0, 1e\+09\]"),
        ("curency = 1\n[models]\nm = [1, 2]", "'curency' is not a valid key"),
        ("currency = 1\n[models]\nm = [1, 2]", "currency is 1"),
    ],
)
def test_what_is_no_file_of_prices(tmp_path: Path, text: str, said: str) -> None:
    path: Any = tmp_path / "prices.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidInputError, match=said):
        read_prices(path)


def test_a_run_ends_before_it_uses_more_tokens(
    command: Command, server: Server, quiz: Path, tmp_path: Path
) -> None:
    """Each answer has 12 tokens, and each verdict; no prices are needed."""
    out = tmp_path / "r"
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--concurrency", 1)
    code, _, err = command(*asked, "--out", out, "--max-tokens-total", 20)
    assert code == 3
    assert "--max-tokens-total is 20, and 12 were used by 1 answers; raise it" in err
    assert len(server.asked) == 1
    code, _, err = command(*asked, "--out", out, "--max-tokens-total", 12)
    assert code == 0, err
    assert len(server.asked) == 2
    code, _, err = command(*asked, "--grader", JUDGE, "--max-tokens-total", 36, "--no-store")
    assert code == 3
    assert "--max-tokens-total is 36, and 36 were used by 3 answers" in err


@pytest.mark.parametrize(
    ("usage", "tokens", "cost"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 50}, (100, 50, 0, 0), 600.0),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (100, 50, 40, 30),
            600.0 - 40 * 0.5 + 30 * 2,
        ),
        (  # reasoning beside the answer
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 150,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (100, 50, 0, 30),
            600.0 + 30 * 2,
        ),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 20}, (9, None, 9, 0), 9 * 0.5),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": 3},
            (9, 1, 0, 0),
            19.0,
        ),
    ],
)
def test_cached_and_reasoning_tokens_have_their_prices(
    usage: dict[str, Any], tokens: tuple[int | None, ...], cost: float
) -> None:
    found = read_usage({"usage": usage})
    assert tuple(found) == tokens
    given, made, cached, reasoning = found
    prices = (1e6, 10e6, 0.5e6, 12e6)
    assert cost_of(prices, given or 0, made or 0, cached, reasoning) == pytest.approx(cost)
    plain = (given or 0) + 10 * (made or 0)
    assert cost_of(prices[:2], given or 0, made or 0, cached, reasoning) == pytest.approx(plain)


def test_a_run_counts_and_pays_for_cached_and_reasoning_tokens(
    command: Command, server: Server, quiz: Path, tmp_path: Path
) -> None:
    server.usage |= {
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    out = tmp_path / "r"
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url, "--out", out)
    code, page, err = command(*asked, "--prices", "10000,20000,5000,40000")
    assert code == 0, err
    told = Run.open(out).manifest["usage"]
    assert (told["prompt_tokens"], told["cached_tokens"]) == (20, 12)
    assert (told["completion_tokens"], told["reasoning_tokens"]) == (4, 2)
    assert told["cost"] == pytest.approx(8 * 0.01 + 12 * 0.005 + 2 * 0.02 + 2 * 0.04)
    assert "cost $0.26" in page
    code, _, err = command(*asked, "--prices", "1,2,3,4,5")
    assert (code, "two to four numbers" in err) == (2, True)


def test_few_requests_are_in_flight_until_the_cost_of_one_is_known() -> None:
    spending = Spending(1.0)

    async def used() -> tuple[int, int]:
        waiting = [asyncio.create_task(spending.admit()) for _ in range(20)]
        await asyncio.sleep(0.2)
        first = sum(one.done() for one in waiting)
        spending.book(0.2)
        await asyncio.wait(waiting[:4])
        await asyncio.sleep(0.2)
        second = sum(one.done() for one in waiting)
        for one in waiting:
            one.cancel()
        return first, second

    # One of four was answered for 0.2: with three in flight, a fifth would end at 1.0 exactly.
    assert asyncio.run(used()) == (4, 5)
    assert spending.n_answers == 1
