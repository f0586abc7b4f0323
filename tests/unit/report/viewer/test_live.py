"""A run under way on a page: how far it is, that it is followed, and what it turns into."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.viewer_driving import Answer, Asking, plain_run
from tests.support.viewer_serving import served

from eval_toolkit.report import Wanted
from eval_toolkit.report.viewer import report_page, run_list
from eval_toolkit.runs import open_run
from eval_toolkit.runs.interim import SO_FAR, ValueSoFar

TASK = """
[task]
name = "sums"
data = "sums.jsonl"

[prompt]
instruction = "What is {a} + 1?"
answer = "answer"

[graders.number_match]
"""
MODEL = """
import pathlib, time
from eval_toolkit.errors import ModelError
from eval_toolkit.models import ScriptedModel

asked = []

def answer(request):
    asked.append(request)
    while len(asked) > 3 and not pathlib.Path("go").exists():
        time.sleep(0.02)
    if len(asked) == 2:
        raise ModelError("down <b>today</b>", kind="server")
    return "<script>alert(1)</script> 4"

model = ScriptedModel(answer, name="slow")
"""


@pytest.fixture(autouse=True)
def _every_request_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "_LOOK_AGAIN_S", -1.0)
    monkeypatch.setattr(report_page, "wanted_here", lambda: Wanted(charts=False))


def follow_of(answer: Answer) -> str:
    found = re.findall(r'data-follow="([^"]*)"', answer.text)
    return str(found[0]) if found else ""


def page_of(ask: Callable[[str], Answer]) -> Answer:
    """The page of the only run, as the list links to it."""
    (key,) = set(re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text))
    return ask(f"/runs/{key}")


def until(made: Callable[[], Answer], fits: Callable[[Answer], bool]) -> Answer:
    for _ in range(2400):
        answer = made()
        if fits(answer):
            return answer
        time.sleep(0.05)
    raise AssertionError(f"it never came to that: {answer.words[:600]}")


# --- a real task that another process runs ----------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path, runs_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Five requests, of which three are answered until the file ``go`` is there."""
    lines = [json.dumps({"id": f"q{i}", "a": i, "answer": str(i + 1)}) for i in range(5)]
    (tmp_path / "sums.jsonl").write_text("\n".join(lines))
    (tmp_path / "sums.toml").write_text(TASK)
    (tmp_path / "slow.py").write_text(MODEL)
    process = _started(tmp_path, runs_dir)
    yield process
    process.kill()
    process.wait()


def _started(place: Path, runs_dir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "eval_toolkit", "run", "sums.toml", "--model", "slow:model"),
            *("--out", str(runs_dir / "sums"), "--concurrency", "1"),
        ],
        cwd=place,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *sys.path])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_task_is_followed_until_its_page_is_the_report(
    running: subprocess.Popen[bytes], tmp_path: Path, runs_dir: Path
) -> None:
    with served(runs_dir) as viewer:
        until(lambda: viewer("/"), lambda answer: 'href="/runs/' in answer.text)
        page = until(lambda: page_of(viewer), lambda answer: "3 of 5 requests done" in answer.words)
        assert page.status == 200
        assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page.text
        assert 'aria-valuemax="5" aria-valuenow="3"' in page.text
        assert 'style="width: 60.0%"' in page.text
        assert "answered 2 failed 1" in page.words
        assert "server: down <b>today</b> 1" in page.words
        assert "<script>alert(1)</script> 4" in page.words
        for hostile in ("<b>today", "<script>alert"):
            assert hostile not in page.text
        part = viewer(follow_of(page))
        assert part.headers["x-follow"] == "go on"
        assert "<html" not in part.text
        assert "3 of 5 requests done" in part.words
        (tmp_path / "go").touch()
        until(lambda: viewer(follow_of(page)), lambda now: now.headers["x-follow"] == "reload")
        assert running.wait(600) == 3  # too many failed; the run is complete all the same
        report = page_of(viewer)
        assert follow_of(report) == ""
        assert "refresh" not in report.text
        assert "number_match" in report.words


def test_an_interrupted_task_says_how_to_go_on(
    running: subprocess.Popen[bytes], tmp_path: Path, runs_dir: Path
) -> None:
    with served(runs_dir) as viewer:
        until(lambda: viewer("/"), lambda answer: 'href="/runs/' in answer.text)
        page = until(lambda: page_of(viewer), lambda answer: "3 of 5 requests done" in answer.words)
        running.send_signal(signal.SIGKILL)
        running.wait()
        part = viewer(follow_of(page))
        assert part.headers["x-follow"] == "stop"
        stopped = page_of(viewer)
        assert "Stopped after 3 of 5 requests" in stopped.words
        assert "run the same command again to resume" in stopped.words
        assert follow_of(stopped) == ""
        # And so it does: the three are not asked again, and the page is the report.
        (tmp_path / "go").touch()
        again = _started(tmp_path, runs_dir)
        assert again.wait(600) == 3
        assert "number_match" in page_of(viewer).words


# --- journals written by hand -----------------------------------------------------------------------


def line(unit: str, **more: object) -> bytes:
    told = {"unit_id": unit, "attempt": 1, "step": "", "hash": unit, **more}
    return json.dumps(told).encode() + b"\n"


def test_what_a_journal_tells(ask: Asking, runs_dir: Path) -> None:
    manifest = {"run_id": "r1", "kind": "task"}
    with open_run(runs_dir / "r1", manifest=manifest) as opened:
        empty = page_of(ask)
        assert "0 requests done" in empty.words
        assert "No answer yet." in empty.words
        assert "progressbar" not in empty.text  # nobody knows of how many
        usage = {"prompt_tokens": 1200, "completion_tokens": 34}
        lines = [line(f"q{i}", response={"text": f"answer {i}"}, usage=usage) for i in range(12)]
        lines.append(line("q3", step="judge:strict", response={"text": "Yes"}))
        opened.journal_path.write_bytes(b'{"journal":1}\n' + b"".join(lines) + b"garbled\n")
        page = page_of(ask)
        assert "12 requests done" in page.words
        assert "tokens in 14,400 tokens out 408" in page.words  # 12 of 1200 and of 34
        assert "judges' requests 1" in page.words
        assert "1 line of the journal cannot be read" in page.words
        last = re.findall(r"<h3>(q\d+)</h3>", page.text)
        assert last == ["q3", *[f"q{i}" for i in range(11, 2, -1)]]  # ten, the latest first


def test_a_complete_run_is_told_so_to_who_still_follows(ask: Asking, runs_dir: Path) -> None:
    plain_run(runs_dir / "r1", "r1", 0.5)
    key = page_key(ask)
    part = ask(f"/runs/{key}/live")
    assert part.headers["x-follow"] == "reload"
    assert "The run is complete." in part.words


def test_a_damaged_run_is_not_loaded_again_and_again(ask: Asking, runs_dir: Path) -> None:
    run = plain_run(runs_dir / "r1", "r1", 0.5)
    (run.path / "results.json").unlink()
    key = page_key(ask)
    page, part = ask(f"/runs/{key}"), ask(f"/runs/{key}/live")
    assert part.headers["x-follow"] == "stop"
    assert follow_of(page) == ""
    assert "results.json is missing" in page.words
    assert str(runs_dir) not in page.words


def test_a_journal_of_a_later_version_is_told(ask: Asking, runs_dir: Path) -> None:
    with open_run(runs_dir / "r1", manifest={"run_id": "r1"}) as opened:
        opened.journal_path.write_bytes(b'{"journal":99}\n')
        page = page_of(ask)
        assert page.status == 200
        assert "This run cannot be shown." in page.words
        assert follow_of(page) == ""


def test_an_unknown_run_is_not_found(ask: Asking) -> None:
    assert ask("/runs/nope/live").status == 404


def page_key(ask: Asking) -> str:
    (key,) = set(re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text))
    return str(key)


def test_the_script_is_ours_and_is_served(ask: Asking, runs_dir: Path) -> None:
    with open_run(runs_dir / "r1", manifest={"run_id": "r1"}):
        page = page_of(ask)
    (address,) = re.findall(r'src="(/static/follow\.js[^"]*)"', page.text)
    script = ask(address)
    assert script.status == 200
    assert script.headers["content-type"].startswith("text/javascript")
    assert "innerHTML" not in script.text


def test_the_value_so_far_is_shown_with_its_interval(ask: Asking, runs_dir: Path) -> None:
    told = ValueSoFar(
        metric="<b>right",
        value=0.75,
        ci_low=0.6,
        ci_high=0.85,
        confidence=0.95,
        n_units=40,
        n_planned=90,
    )
    with open_run(runs_dir / "r1", manifest={"run_id": "r1"}) as opened:
        page = page_of(ask)
        assert "so far" not in page.words
        (opened.path / SO_FAR).write_text(json.dumps(told.to_dict()))
        for answer in (page_of(ask), ask(follow_of(page))):
            assert "<b>right so far: 0.750 [0.600, 0.850] The first 40 of 90 units" in answer.words
            assert "<b>right" not in answer.text
