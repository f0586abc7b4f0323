"""The page of a run: its report, whether it was altered, and what is kept of it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.viewer_driving import Answer, Asking, plain_run, rollout_run, rows_run, task_run

from eval_toolkit.errors import ArtifactError
from eval_toolkit.report import Wanted
from eval_toolkit.report.viewer import report_page, run_page
from eval_toolkit.report.viewer.report_page import made_apart
from eval_toolkit.report.viewer.run_list import RunList
from eval_toolkit.report.viewer.state import Kept
from eval_toolkit.scorecards import Records


def run_page_of(ask: Asking, more: str = "") -> Answer:
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    return ask(f"/runs/{key}{more}")


@pytest.mark.parametrize("make", [task_run, rollout_run])
def test_the_report_is_shown_inside_the_viewer(
    ask: Asking, runs_dir: Path, make: type[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "wanted_here", lambda: Wanted(charts=False))
    make(runs_dir / "r1")  # type: ignore[call-arg]
    answer = run_page_of(ask)
    assert answer.status == 200
    assert "The answer" in answer.words
    assert "could not be shown" not in answer.words
    assert '<link rel="stylesheet" href="/static/style.css' in answer.text
    assert "<script>" not in answer.text


def test_a_page_is_made_once(ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_run(runs_dir / "r1", "r1", 0.5)
    made: list[str] = []
    monkeypatch.setattr(run_page, "page_of", lambda run, whole: made.append(run.key) or "page")
    assert run_page_of(ask).text == run_page_of(ask).text == "page"
    assert len(made) == 1
    (runs_dir / "r1" / "results.json").touch()
    run_page_of(ask)
    assert len(made) == 2


def test_an_altered_run_says_so(ask: Asking, runs_dir: Path) -> None:
    run = plain_run(runs_dir / "r1", "r1", 0.5)
    assert "altered" not in run_page_of(ask).words
    path = run.path / "results.json"
    path.write_text(path.read_text().replace("0.5", "0.9"))
    answer = run_page_of(ask)
    assert answer.status == 200
    assert "This run was altered after it was written." in answer.words
    assert "results.json: the file has changed" in answer.words


def test_a_torn_run_says_what_is_wrong(ask: Asking, runs_dir: Path) -> None:
    run = plain_run(runs_dir / "torn", "torn", 0.5)
    (run.path / "results.json").unlink()
    answer = run_page_of(ask)
    assert answer.status == 200
    assert "results.json is missing" in answer.words


def test_a_large_run_shows_first_what_is_quick(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 60).astype(float)
    rows_run(runs_dir / "r1", Records.from_columns({"label": labels, "score": rng.random(60)}))
    for module in (report_page, run_page):
        monkeypatch.setattr(module, "LARGE", 50)
    monkeypatch.setattr(
        run_page, "made_apart", lambda folder, run, what: f"whole {what} of {run.run_id}"
    )
    quick, whole = run_page_of(ask), run_page_of(ask, "?whole=1")
    assert "This run has 60 records" in quick.words
    assert "The answer" in quick.words
    assert "separate the classes" not in quick.words
    assert whole.text == "whole page of r1"
    assert run_page_of(ask, "/report.html").text == "whole file of r1"


def test_a_page_can_be_made_by_a_process_of_its_own(runs_dir: Path) -> None:
    plain_run(runs_dir / "<r1>", "<r1>", 0.5)
    (run,) = RunList(runs_dir).runs()
    assert "accuracy 0.500" in made_apart(runs_dir, run, "page")
    with pytest.raises(ArtifactError, match="could not be created: there is no such run"):
        made_apart(runs_dir, replace(run, key="none"), "page")


def test_what_is_kept_is_bounded_in_number_and_size() -> None:
    kept: Kept[str] = Kept(3, 100)
    for at in range(10):
        kept.keep(at, str(at), 10)
    assert [at for at in range(10) if kept.get(at)] == [7, 8, 9]
    kept.get(7)  # asked for again, it stays longest
    kept.keep("big", "big", 85)
    assert kept.get(7) == "7"
    assert kept.get(8) is None
    kept.keep("huge", "huge", 1000)
    assert kept.get("huge") is None


def test_the_report_can_be_saved_as_one_file(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_run(runs_dir / "r1", "r1", 0.5)
    monkeypatch.setattr(report_page, "wanted_here", lambda: Wanted(charts=False))
    answer = run_page_of(ask, "/report.html")
    assert answer.status == 200
    assert re.fullmatch(
        r'attachment; filename="report-[a-z0-9-]+\.html"', answer.headers["content-disposition"]
    )
    assert answer.text.startswith("<!doctype html>")
