"""What a run costs: prices of a file, judges included, and the most that may be spent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.judge_server import JUDGE, Server, command, quiz, server

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.prices import read_prices
from eval_toolkit.runs import Run

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
    assert "--max-cost is €0.15, and €0.10 was spent on 1 answers" in err
    assert "1 of 2 requests are answered and kept" in err
    assert len(server.asked) == 1
    code, _, err = command(*asked, "--max-cost", 0.15)
    assert code == 0, err
    assert len(server.asked) == 2


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
    assert (code, "needs the prices of openai:other" in err) == (2, True)
    code, _, err = command(*asked, "--model", "openai:m", "--prices", "1,2", "--grader", JUDGE)
    assert (code, "needs the prices of openai:judge" in err) == (2, True)
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
        ("curency = 1\n[models]\nm = [1, 2]", "'curency' is not a key"),
        ("currency = 1\n[models]\nm = [1, 2]", "currency is 1"),
    ],
)
def test_what_is_no_file_of_prices(tmp_path: Path, text: str, said: str) -> None:
    path: Any = tmp_path / "prices.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidInputError, match=said):
        read_prices(path)
