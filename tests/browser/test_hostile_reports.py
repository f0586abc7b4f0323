"""Reports of runs whose every field is hostile: nothing runs, nothing is asked for, all is read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser import hostile_runs
from tests.browser.conftest import Opens
from tests.browser.driving import DESK, PHONE
from tests.browser.hostile_runs import HALVES, NAME, NAMES, Given
from tests.support.hostile import HOSTILE, PRODUCT

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.harness import evaluate, save_run
from eval_toolkit.report import write_report
from eval_toolkit.rollouts import SeedPrompt
from eval_toolkit.slices import EvalSlice

RUNS = tuple(maker.__name__ for maker in hostile_runs.RUNS)


@pytest.fixture(scope="session")
def hostile_report(
    made: Callable[..., Path], hostile_run: Callable[[str], Path]
) -> Callable[[str], Path]:
    """The report of a hostile run, both made once."""
    return lambda name: made(
        f"hostile-reports/{name}.html", lambda path: write_report(hostile_run(name), path)
    )


READ = {"metrics": NAMES, "cells": NAMES, "long": [], "longest": []}
"""Texts that a run's report shows all of; the name of the run where nothing is said."""


@pytest.mark.parametrize("name", RUNS)
def test_nothing_happens(opened: Opens, hostile_report: Callable[[str], Path], name: str) -> None:
    page = opened(hostile_report(name), width=PHONE, scheme="dark")
    page.unfold()
    page.scroll_through()
    assert page.wider() == ""
    assert page.odd() == ""
    assert page.evaluate("() => document.querySelectorAll('h1, main').length") == 2
    assert page.unread(READ.get(name, [NAME])) == []
    page.looks("light", DESK)
    assert page.wider() == ""


def test_a_report_stays_small(hostile_report: Callable[[str], Path]) -> None:
    assert {
        name: hostile_report(name).stat().st_size < 3_000_000 for name in RUNS
    } == dict.fromkeys(RUNS, True)


def test_it_would_be_seen(opened: Opens, tmp_path: Path) -> None:
    # The tests above could pass because nothing is watched: here everything happens.
    path = tmp_path / "open.html"
    text = "".join(
        HOSTILE[name] for name in ("script", "image that fails", "image from elsewhere", "dialog")
    )
    path.write_text(f"<html><body>{text}<p>{PRODUCT}</p><marquee>x</marquee></body></html>")
    page = opened(path)
    page.on.wait_for_timeout(100)
    assert page.evaluate("() => window.__pwned") == 1
    assert any(address.startswith("https://pwned.invalid/") for address in page.requests)
    assert {said.partition(":")[0] for said in page.complaints} >= {"dialog", "error"}
    assert "element marquee" in page.odd()
    with pytest.raises(AssertionError):
        page.check()
    page.forgive()


class TestRefused:
    """What the writers do not take: empty names, and halves of characters in tables."""

    @pytest.mark.parametrize("name", sorted(HALVES))
    def test_halves_of_characters(self, tmp_path: Path, name: str) -> None:
        columns = {"text": ["a", "b"], "label": [0, 1]}
        result = evaluate(
            {"plain": Given()}, [EvalSlice(HOSTILE[name], columns)], run_id="r", n_resamples=20
        )
        with pytest.raises(ArtifactError, match="cannot encode"):
            save_run(result, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        with pytest.raises(InvalidInputError, match="surrogate"):
            SeedPrompt("a goal", id=HOSTILE[name])

    def test_empty_names(self) -> None:
        columns = {"text": ["a", "b"], "label": [0, 1]}
        with pytest.raises(InvalidInputError, match="it must be a non-empty string"):
            EvalSlice("", columns)
        with pytest.raises(InvalidInputError, match="non-empty"):
            evaluate({"": Given()}, [EvalSlice("s", columns)], run_id="r")
        with pytest.raises(InvalidInputError, match="non-empty"):
            evaluate({"s": Given()}, [EvalSlice("s", columns)], run_id="")
        with pytest.raises(InvalidInputError, match="empty"):
            SeedPrompt("")
