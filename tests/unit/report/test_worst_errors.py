"""The worst errors are the worst ones, found again by plain loops."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.report_runs import written_rows

from eval_toolkit.report import worst_errors
from eval_toolkit.report.scored_rows import Scored, scored_of
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run


def expected(one: Scored, threshold: float, label: int) -> list[tuple[str, float]]:
    """Rows of a label on the wrong side of the threshold, by how far the score is off."""
    rows = zip(one.unit_ids.tolist(), one.labels.tolist(), one.scores.tolist(), strict=True)
    wrong = [
        (unit, score) for unit, own, score in rows if own == label and (score >= threshold) != own
    ]
    return sorted(wrong, key=lambda row: (-abs(row[1] - label), row[0]))


def test_errors_are_the_largest_ones(rows_run: Run) -> None:
    section = worst_errors.build(rows_run, Wanted(n_samples=6))
    assert section is not None
    thresholds = {
        entry["scorer_name"]: entry["threshold"]
        for entry in rows_run.results["threshold_policy"]["thresholds"]
    }
    for one, lists in zip(scored_of(rows_run), section.data["errors"], strict=True):
        for label, listed in enumerate(lists):
            wrong = expected(one, thresholds[one.scorer], label)
            assert [(row["unit"], [*map(str, row["scores"])]) for row in listed["rows"]] == [
                (unit, [f"{score:.3f}"]) for unit, score in wrong[:3]
            ]
            assert {row["label"] for row in listed["rows"]} == {str(label)}
            n = len(wrong)
            told = f"3 of {n} are shown." if n > 3 else f"all {n} are shown."
            assert listed["said"].endswith(told)


def test_a_row_that_two_seeds_scored_is_shown_once(twice_run: Run) -> None:
    section = worst_errors.build(twice_run, Wanted(n_samples=80))
    assert section is not None
    (one,) = scored_of(twice_run)
    for label, listed in enumerate(section.data["errors"][0]):
        wrong = list(dict.fromkeys(unit for unit, _ in expected(one, 0.5, label)))
        assert len(wrong) < len(expected(one, 0.5, label))  # some are wrong for both seeds
        assert [row["unit"] for row in listed["rows"]] == wrong
        assert listed["said"].endswith(f"all {len(wrong)} are shown.")


def test_rows_are_shown_with_what_they_say(rows_run: Run, shown: Callable[[Section], Any]) -> None:
    section = worst_errors.build(rows_run, Wanted(n_samples=6))
    assert section is not None
    assert rows_run.inputs is not None
    row = section.data["errors"][0][0]["rows"][0]
    assert row["text"] == rows_run.inputs.text_of("test", row["unit"])
    page = shown(section)
    texts = [one["text"] for one in page.all("div", class_="text")]
    assert texts.count(row["text"]) >= 1
    assert not page.all("b")  # the texts have <b> in them
    assert "language: " in page.all("p", class_="facts")[0]["text"]


def test_disagreements_are_the_rows_farthest_apart(rows_run: Run) -> None:
    section = worst_errors.build(rows_run, Wanted(n_samples=6))
    assert section is not None
    good, bad = scored_of(rows_run)
    gaps = [
        (-abs(a - b), unit, f"{a:.3f}", f"{b:.3f}")
        for unit, a, b in zip(
            good.unit_ids.tolist(), good.scores.tolist(), bad.scores.tolist(), strict=True
        )
    ]
    (listed,) = section.data["disagreements"]
    assert [(row["unit"], *map(str, row["scores"])) for row in listed["rows"]] == [
        gap[1:] for gap in sorted(gaps)[:6]
    ]
    assert listed["title"] == "Where good and bad disagree"


def test_without_texts_there_is_a_table(tmp_path: Path, shown: Callable[[Section], Any]) -> None:
    run = written_rows(tmp_path, [0, 1] * 10, [0.9, 0.1] * 10)
    section = worst_errors.build(run, Wanted(n_samples=4))
    assert section is not None
    page = shown(section)
    assert not page.all("article")
    cells = [one["text"] for one in page.all("th", scope="row")]
    assert cells == ["u00000", "u00002", "u00001", "u00003"]
    assert "--text" in section.lead


def test_no_error_is_said(tmp_path: Path) -> None:
    run = written_rows(tmp_path, [0, 1] * 10, [0.1, 0.9] * 10)
    section = worst_errors.build(run, Wanted())
    assert section is not None
    alarms, misses = section.data["errors"][0]
    assert alarms["rows"] == misses["rows"] == []
    assert alarms["said"] == (
        "No false alarms: there are no negative rows with the highest scores, at a threshold of 0.5."
    )


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_scores_without_a_threshold_are_ranked(tmp_path: Path, shift: float) -> None:
    scores = [shift + 3.0 * i for i in range(20)]
    run = written_rows(tmp_path, [0, 1] * 10, scores)
    section = worst_errors.build(run, Wanted(n_samples=4))
    assert section is not None
    alarms, misses = section.data["errors"][0]
    assert [row["unit"] for row in alarms["rows"]] == ["u00018", "u00016"]
    assert [row["unit"] for row in misses["rows"]] == ["u00001", "u00003"]
    assert "threshold" not in alarms["said"]
