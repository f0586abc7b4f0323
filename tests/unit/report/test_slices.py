"""Slices: what the results hold is what is drawn, and absence says what it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.report_runs import plain, stored_cells

from eval_toolkit.report import slices
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run, write_run

OK = {"value": 0.8, "status": "ok", "ci": {"ci_low": 0.7, "ci_high": 0.9}, "n_units": 40}


def stored(folder: Path, by_slice: dict[str, Any]) -> Run:
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": by_slice}
    return write_run(folder / "r", results=results, manifest={"run_id": "r"})


def part(cell: Any, scorer: str = "model") -> dict[str, Any]:
    return {"n": 40, "by_scorer": {scorer: {"accuracy": cell}}}


def test_numbers_are_those_of_the_results(rows_run: Run) -> None:
    section = slices.build(rows_run, Wanted(charts=False))
    assert section is not None
    parts = rows_run.results["by_slice"]["test"]["parts"]
    good = section.data["tables"][0]
    assert good.title == "good"
    assert [row[0] for row in good.texts()] == [
        "test",
        *(f"language={name}" for name in ("de", "en", "fr")),
    ]
    for row in good.texts()[1:]:
        cells = parts[row[0]]["by_scorer"]["good"]
        assert row[1] == str(parts[row[0]]["n"])
        for name, told in zip(good.header[2:], row[2:], strict=True):
            ci = cells[name]["ci"]
            expected = f"{cells[name]['value']:.3f} [{ci['ci_low']:.3f}, {ci['ci_high']:.3f}]"
            assert told == expected


def test_the_forest_has_every_part_with_its_interval(rows_run: Run) -> None:
    section = slices.build(rows_run, Wanted())
    assert section is not None
    figure = section.data["figures"][0]
    entry = rows_run.results["by_slice"]["test"]
    values = {"test": entry["by_scorer"]["good"]["pr_auc"]} | {
        name: one["by_scorer"]["good"]["pr_auc"] for name, one in entry["parts"].items()
    }
    for name, cell in values.items():
        low, high = cell["ci"]["ci_low"], cell["ci"]["ci_high"]
        said = f"{name}: {cell['value']:.3f} [{low:.3f}, {high:.3f}]"
        assert said in figure.spec["description"]


def test_an_error_and_a_skipped_slice_never_look_alike(
    tmp_path: Path, shown: Callable[[Section], Any]
) -> None:
    run = stored(
        tmp_path,
        {
            "all": part(OK),
            "de": part({"value": None, "status": "skipped", "reason": "one class only"}),
            "fr": part({"value": None, "status": "error", "reason": "ValueError: <i>no</i>"}),
        },
    )
    section = slices.build(run, Wanted())
    assert section is not None
    page = shown(section)
    (quiet,) = [li for li in page.all("li") if "one class only" in li["text"]]
    (loud,) = [li for li in page.all("li") if "ValueError" in li["text"]]
    assert plain(quiet["text"]) == "skipped de: one class only"
    assert plain(loud["text"]) == "error fr: ValueError: <i>no</i>"
    assert not page.all("i")
    for state in ("error", "skipped"):  # in the rows for phones, in the table, and below it
        shown_as = [one["text"] for one in page.all("span", class_=f"status-{state}")]
        assert shown_as == [state] * 3
    described = section.data["figures"][0].spec["description"]
    assert "de: skipped, one class only." in described
    assert "fr: error, ValueError" in described


def test_a_scorer_that_raised_is_an_error(tmp_path: Path) -> None:
    broken = {"n": 40, "by_scorer": {"model": {"error": "KeyError: 'x'", "n": 40, "scores": []}}}
    run = stored(tmp_path, {"all": part(OK), "de": broken})
    section = slices.build(run, Wanted(charts=False))
    assert section is not None
    assert section.data["absent"] == [
        {"status": "error", "reason": "KeyError: 'x'", "slices": "de"}
    ]
    assert section.data["tables"][0].texts()[1][2] == "error"


@pytest.mark.parametrize("higher", [True, False])
def test_of_many_slices_the_worst_are_drawn(tmp_path: Path, higher: bool) -> None:
    def cell(value: float) -> dict[str, Any]:
        return {"value": value, "status": "ok", "details": {"higher_is_better": higher}}

    run = stored(
        tmp_path, {"all": part(cell(0.5))} | {f"s{i:02}": part(cell(i / 60)) for i in range(60)}
    )
    section = slices.build(run, Wanted(n_samples=5))
    assert section is not None
    worst = [0, 1, 2, 3] if higher else [56, 57, 58, 59]
    described = section.data["figures"][0].spec["description"]
    assert all(f" s{i:02}: " in described for i in worst)
    assert described.count(": 0.") == 5
    assert section.notes == ["model: 61 slices, of which the 5 with the worst accuracy are drawn"]
    assert len(section.data["tables"][0].texts()) == 61


def test_the_least_favourable_brier_is_the_highest(tmp_path: Path) -> None:
    """Cells of rows do not store a direction: the name of the metric says it."""
    given = {f"s{i:02}": {"model": {"brier": i / 60}} for i in range(60)}
    section = slices.build(stored_cells(tmp_path, given), Wanted(n_samples=4))
    assert section is not None
    assert section.notes == ["model: 60 slices, of which the 4 with the worst brier are drawn"]
    described = section.data["figures"][0].spec["description"]
    assert [f"s{i:02}: " in described for i in (0, 55, 56, 59)] == [False, False, True, True]


def test_without_a_direction_nothing_is_called_worst(tmp_path: Path) -> None:
    given = {f"s{i:02}": {"model": {"reward": i / 60}} for i in range(60)}
    section = slices.build(stored_cells(tmp_path, given), Wanted(n_samples=4))
    assert section is not None
    assert section.notes == ["model: 60 slices, of which the first 4 are drawn"]
    described = section.data["figures"][0].spec["description"]
    assert [f"s{i:02}: " in described for i in (0, 3, 4, 59)] == [True, True, False, False]


def test_a_slice_beside_others_is_no_whole(tmp_path: Path) -> None:
    """The first slice has the highest value; it is one of the range, and nothing to compare with."""
    values = {"ones": 0.9, "de": 0.5, "en": 0.7}
    given = {name: {"model": {"accuracy": value}} for name, value in values.items()}
    section = slices.build(stored_cells(tmp_path, given), Wanted())
    assert section is not None
    assert section.lead.startswith("3 slices: model ranges from 0.500 on de to 0.900 on ones.")
    assert "dashed" not in section.data["figures"][0].caption
    of_all = stored_cells(tmp_path / "all", {"de": given["de"], "all": given["en"]} | given)
    section = slices.build(of_all, Wanted())
    assert section is not None
    assert section.lead.startswith(
        "all and 3 slices: model ranges from 0.500 on de to 0.900 on ones"
    )
    assert section.data["figures"][0].caption == "The dashed line is all."


def test_a_scorer_that_raised_everywhere_has_no_chart(tmp_path: Path) -> None:
    cells = {"broken": {"error": "KeyError: 'x'"}, "good": {"accuracy": 0.5}}
    section = slices.build(stored_cells(tmp_path, {"de": cells, "en": cells}), Wanted())
    assert section is not None
    assert section.title == "accuracy by slice"
    assert [figure.title for figure in section.data["figures"]] == ["accuracy of good"]
    assert section.data["absent"] == [
        {"status": "error", "reason": "KeyError: 'x'", "slices": "broken on de, broken on en"}
    ]


def test_one_slice_alone_needs_no_section(tmp_path: Path) -> None:
    assert slices.build(stored(tmp_path, {"all": part(OK)}), Wanted()) is None
    assert slices.build(stored(tmp_path / "empty", {}), Wanted()) is None


def test_subjects_of_a_task_are_slices(tmp_path: Path) -> None:
    whole = part(OK) | {"strata": {"subject=Africa": part(OK), "subject=Asia": part(OK)}}
    section = slices.build(stored(tmp_path, {"capitals": whole}), Wanted(charts=False))
    assert section is not None
    names = [row[0] for row in section.data["tables"][0].texts()]
    assert names == ["capitals", "subject=Africa", "subject=Asia"]


def test_folds_are_shown_below_their_mean(tmp_path: Path) -> None:
    def fold(value: float) -> dict[str, Any]:
        return {"by_slice": {"test": part(OK | {"value": value})}}

    summary = {"mean": 0.75, "ci_low": 0.6, "ci_high": 0.9, "confidence": 0.95, "n_folds": 2}
    results = {
        "schema_version": "v1",
        "run_id": "r",
        "config": {},
        "by_slice": {},
        "by_fold": {"fold=0": fold(0.7), "fold=1": fold(0.8)},
        "fold_summary": {"test": {"model": {"accuracy": summary, "f1": {"reason": "none"}}}},
    }
    run = write_run(tmp_path / "r", results=results, manifest={"run_id": "r"})
    section = slices.build(run, Wanted(charts=False))
    assert section is not None
    assert section.title == "accuracy by fold"
    assert section.lead.startswith(
        "test, mean of 2 folds and 2 folds: model ranges from 0.700 on fold=0 to 0.800 on fold=1."
    )
    (table,) = section.data["tables"]
    assert [row[:3] for row in table.texts()] == [
        ["test, mean of 2 folds", "", "0.750 [0.600, 0.900]"],
        ["fold=0", "40", "0.700 [0.700, 0.900]"],
        ["fold=1", "40", "0.800 [0.700, 0.900]"],
    ]
