"""Hosted models on the command line: runs, keys, judges beside models of other servers, prices."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.batch_server import BatchApp
from tests.support.hosted_servers import KEY, AnthropicApp, Emulated, OpenAIApp
from tests.support.judge_server import command

from eval_toolkit.models.openai_compatible import batches
from eval_toolkit.runs import Run

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command"]  # a fixture
ROWS = "question,answer\n" + "".join(f"What is {n} + 1?,{n + 1}\n" for n in range(4))


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THE_KEY", KEY)
    path = tmp_path / "sums.csv"
    path.write_text(ROWS, "utf-8")
    return path


def test_a_run_stores_answers_and_timings_but_no_key(
    command: Command, rows: Path, tmp_path: Path
) -> None:
    with Emulated(AnthropicApp(cached=1)) as server:
        model = ("--model", "anthropic:claude-test", "--base-url", server.url)
        options = ("--api-key-env", "THE_KEY", "--model-arg", "stream=true", "--prices", "3,15")
        out = tmp_path / "run"
        code, shown, err = command("run", rows, *model, *options, "--out", out)
        assert code == 0, err
        assert (
            f"anthropic:claude-test: prompts go to {server.url}/v1, with the key in THE_KEY" in err
        )
        assert "1.000" in shown
        again = command("run", rows, *model, *options, "--out", out)
        assert again[0] == 0
    assert len(server.app.bodies) == 4
    usages = Run.open(out).table("responses.parquet")["usage"].tolist()
    assert all('"first_token_s":' in usage and '"cached_tokens":1' in usage for usage in usages)
    files = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in content for content in files)
    assert KEY not in shown + err


def test_two_services_in_one_command(command: Command, rows: Path, tmp_path: Path) -> None:
    """The address is for the OpenAI-compatible model; the other's name says where it is."""
    with Emulated(AnthropicApp()) as other, Emulated(OpenAIApp()) as server:
        hosted = f"anthropic:claude-test{{base_url='{other.url}', api_key_env=THE_KEY}}"
        models = ("--model", "openai:gpt-test", "--model", hosted)
        where = ("--base-url", f"{server.url}/v1", "--out", tmp_path / "runs")
        code, _, err = command("run", rows, *models, *where)
        assert code == 0, err
    assert (len(server.app.bodies), len(other.app.bodies)) == (4, 4)
    assert "x-api-key" not in server.app.requests[0].headers


def test_the_address_of_a_hosted_model_is_not_that_of_judges(
    command: Command, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Emulated(AnthropicApp()) as other, Emulated(OpenAIApp(text="yes")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        hosted = f"anthropic:claude-test{{base_url='{other.url}', api_key_env=THE_KEY}}"
        judge = "judge{model=openai:gpt-test}"
        code, _, err = command("run", rows, "--model", hosted, "--grader", judge, "--no-store")
        assert code == 0, err
    assert (len(server.app.bodies), len(other.app.bodies)) == (4, 4)


def test_log_likelihoods_end_a_run_at_once(command: Command) -> None:
    app = AnthropicApp()
    with Emulated(app) as server:
        model = f"anthropic:claude-test{{base_url='{server.url}'}}"
        code, _, err = command("run", "capitals", "--model", model, "--no-store", "--limit", "3")
    assert code == 3
    assert "anthropic:claude-test: the Anthropic API does not return log-likelihoods" in err
    assert app.bodies == []


def test_batches_on_the_command_line(
    command: Command, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_FIRST_PAUSE_S", 0.01)
    app = BatchApp()
    with Emulated(app) as server:
        options = ("--model", "openai:toy", "--base-url", f"{server.url}/v1", "--batch")
        code, out, err = command("run", rows, *options, "--out", tmp_path / "run")
        assert code == 0, err
        assert "toy: 4 requests are in the batch batch-1; if this command ends" in err
        assert "1.000" in out
        code, _, err = command("run", rows, *options, "--out", tmp_path / "run", "--limit", "9")
        assert (code, len(app.batches)) == (0, 1)
    for more in (("--no-store",), ("--concurrency", "4"), ("--until-width", "0.1")):
        code, _, err = command("run", rows, *options, *more)
        assert code == 2
        assert "--batch sends all requests together" in err
    code, _, err = command("run", rows, "--model", "scripted:4", "--batch", "--out", tmp_path / "x")
    assert code == 2
    assert "batches require an openai:NAME model, not ScriptedModel; remove --batch" in err
