"""Answers that are not whole are told by finish reason: in the table, the report and the results."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fault_server import FaultServer
from tests.support.judge_server import command

from eval_toolkit.artifacts import read_json
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report import write_report
from eval_toolkit.tasks import run_task

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command"]  # a fixture


def questions(path: Path, n: int) -> Path:
    rows = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_fifty_empty_answers_are_not_zero_without_errors(command: Command, tmp_path: Path) -> None:
    quiz, out = questions(tmp_path / "quiz.jsonl", 50), tmp_path / "r"
    with FaultServer(script={"What": ["length"]}) as server:
        asked = ("run", quiz, "--model", "openai:toy", "--base-url", server.url, "--out", out)
        code, page, err = command(*asked)
    assert code == 0, err
    assert "0, 50 cut (length)" in page
    assert (
        "50 of 50 answers were truncated: 50 at the token limit; 50 are empty and graded as such; raise "
        "max_tokens" in " ".join((page + err).split())
    )
    assert read_json(out / "results.json")["cut_answers"] == {"length": 50, "empty": 50}
    write_report(out, tmp_path / "r.html")
    report = (tmp_path / "r.html").read_text("utf-8")
    assert "50 of 50 answers were truncated: 50 at the token limit" in report
    code, page, _ = command("rescore", out, "--grader", "includes")
    assert code == 0
    assert "0, 50 cut (length)" in page


@pytest.mark.parametrize(("n_cut", "noted"), [(0, False), (1, False), (2, True)])
def test_above_one_percent_there_is_a_note(tmp_path: Path, n_cut: int, noted: bool) -> None:
    def reply(request: object) -> RawCompletion:
        text = request.prompt[-1].content  # type: ignore[attr-defined]
        at = int(text.split()[2])
        reason = ("length", "content_filter")[at % 2] if at < n_cut else "stop"
        return RawCompletion(str(at + 1), finish_reason=reason)

    done = run_task(questions(tmp_path / "quiz.jsonl", 100), ScriptedModel(reply, name="m"))
    notes = [note for note in done.notes if "were truncated" in note]
    want = "2 of 100 answers were truncated: 1 at the token limit, 1 by a content filter; raise max_tokens"
    assert notes == ([want] if noted else [])
    cut = {"length": 1, "content_filter": 1} if n_cut == 2 else {"length": 1} if n_cut else None
    assert done.results.get("cut_answers") == cut
    assert ("1 answers truncated (length)" in str(done)) is bool(n_cut)
