"""Units of two tools' runs: paired by what their items say, never by a number in a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.analysis import MatchSpec, RunComparison, compare_runs, leaderboard
from eval_toolkit.analysis.matching import renamed
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.units import UNITS, Unit, units_table
from eval_toolkit.scorecards import Records

QUESTIONS = [f"What is {n} + {n}?" for n in range(30)]
TARGETS = [str(2 * n) for n in range(30)]


def stored(
    folder: Path,
    name: str,
    *,
    ids: list[str],
    values: list[float],
    order: Any = None,
    questions: list[str] | None = None,
    targets: list[str] | None = None,
    task: str = "sums",
    metric: str = "exact_match",
    tool: str | None = "lm-eval",
) -> Run:
    """A run as an importer writes it; the n-th id, question and value belong together."""
    asked, right = questions or QUESTIONS, targets or TARGETS
    places = list(range(len(ids))) if order is None else list(order)
    records = Records.from_columns(
        {metric: [values[at] for at in places]},
        unit_id=[ids[at] for at in places],
        content_hash=[content_hash(asked[at], right[at]) for at in places],
    )
    units = [Unit(id=ids[at], input=asked[at], reference=right[at]) for at in places]
    columns, about = units_table({(task, name): records}, units)
    config: dict[str, Any] = {"kind": "task"} | ({"imported": {"tool": tool}} if tool else {})
    cell = {"value": float(np.mean(values)), "status": "ok", "reason": ""}
    results = {
        "schema_version": "v1",
        "run_id": name,
        "config": config,
        "by_slice": {task: {"n": len(ids), "by_scorer": {name: {metric: cell}}}},
    }
    return write_run(
        folder / name,
        results=results,
        manifest={"run_id": name, "config": config, "units": about},
        records={(task, name): records},
        tables={UNITS: columns},
    )


GOOD = [float(n % 3 != 0) for n in range(30)]
BETTER = [1.0 if n % 6 else value for n, value in enumerate(GOOD)]


def only(result: RunComparison) -> Any:
    (cell,) = result.cells
    return cell


class TestTwoTools:
    def test_units_are_paired_by_content_where_ids_are_other_numbers(self, tmp_path: Path) -> None:
        # Ids of both tools are whole numbers and overlap: 3 is another question in each.
        a = stored(tmp_path, "a", ids=[str(n) for n in range(30)], values=GOOD)
        shuffled = np.random.default_rng(1).permutation(30)
        b = stored(
            tmp_path, "b", ids=[str(n + 1) for n in range(30)], values=BETTER, order=shuffled
        )
        cell = only(result := compare_runs(a, b))
        assert cell.n_units == 30
        assert cell.delta == pytest.approx(np.mean(BETTER) - np.mean(GOOD), abs=1e-12)
        same = stored(tmp_path, "c", ids=[str(n) for n in range(30)], values=BETTER)
        by_id = only(compare_runs(a, same))
        assert (cell.ci_low, cell.ci_high, cell.p_value) == (
            by_id.ci_low,
            by_id.ci_high,
            by_id.p_value,
        )
        assert result.notes == (
            "sums: 30 units were paired by their input and target, as ids differ",
        )

    def test_units_are_paired_by_input_where_targets_are_written_differently(
        self, tmp_path: Path
    ) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
        b = stored(
            tmp_path,
            "b",
            ids=[str(n) for n in range(30)],
            values=BETTER,
            questions=[f"  {question}\n" for question in QUESTIONS],
            targets=[f"#### {target}" for target in TARGETS],
        )
        result = compare_runs(a, b)
        assert only(result).n_units == 30
        assert "input only, since ids or targets are written differently" in result.notes[0]

    def test_other_names_of_the_task_and_its_only_metric_are_no_hindrance(
        self, tmp_path: Path
    ) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
        b = stored(tmp_path, "b", ids=QUESTIONS, values=BETTER, task="evals/sums", metric="match")
        cell = only(result := compare_runs(a, b))
        assert (cell.slice, cell.metric, cell.n_units) == ("sums", "exact_match", 30)
        assert "B's match is compared with A's exact_match" in result.notes[0]
        told = MatchSpec(slices={"sums": "evals/sums"}, metrics={"exact_match": "match"})
        assert only(compare_runs(a, b, match=told)).delta == cell.delta

    def test_units_of_one_side_alone_are_counted(self, tmp_path: Path) -> None:
        a = stored(tmp_path, "a", ids=[str(n) for n in range(30)], values=GOOD)
        b = stored(
            tmp_path,
            "b",
            ids=[str(n) for n in range(20)],
            values=GOOD[10:],
            questions=QUESTIONS[10:],
            targets=TARGETS[10:],
        )
        cell = only(compare_runs(a, b))
        assert (cell.n_units, cell.n_only_a, cell.n_only_b) == (20, 10, 0)
        assert cell.delta == 0.0

    def test_units_that_cannot_be_told_apart_are_left_out_and_counted(self, tmp_path: Path) -> None:
        # A question asked about 4 passages: B has 2 of them, and which ones nothing tells.
        said = ["what?", "what?", "what?", "what?", "who?"]
        a = stored(tmp_path, "a", ids=list("abcde"), values=[1, 1, 0, 0, 1], questions=said)
        b = stored(tmp_path, "b", ids=list("vwx"), values=[0, 0, 1], questions=said[2:])
        result = compare_runs(a, b, match=MatchSpec(units="input"))
        assert (only(result).n_units, only(result).delta) == (1, 0.0)
        assert "omitted: 4 of A and 2 of B (equal input)" in result.notes[1]

    def test_long_inputs_are_told_apart_by_their_ends(self, tmp_path: Path) -> None:
        # What is stored for people to read is cut at 20 000 characters.
        long = ["word " * 4_500 + question for question in QUESTIONS]
        other = [f"#### {target}" for target in TARGETS]
        a = stored(tmp_path, "a", ids=[f"{n:02}" for n in range(30)], values=GOOD, questions=long)
        b = stored(
            tmp_path,
            "b",
            ids=[f"{30 - n:02}" for n in range(30)],
            values=GOOD,
            questions=long,
            targets=other,
        )
        cell = only(compare_runs(a, b))
        assert (cell.n_units, cell.delta) == (30, 0.0)
        # Tango's interval of no discordant pair among 30 at 95 %: ±z²/(n + z²).
        assert cell.ci_high == pytest.approx(3.8414588 / 33.8414588, abs=1e-6)

    def test_an_id_that_is_another_item_decides_nothing(self, tmp_path: Path) -> None:
        ids = [str(n) for n in range(30)]
        changed = ["another question", *QUESTIONS[1:]]
        a = stored(tmp_path, "a", ids=ids, values=GOOD)
        b = stored(tmp_path, "b", ids=ids, values=GOOD, questions=changed)
        cell = only(compare_runs(a, b))
        assert (cell.n_units, cell.n_only_a, cell.n_only_b) == (29, 1, 1)

    def test_ids_of_two_tools_alone_pair_nothing_unasked(self, tmp_path: Path) -> None:
        ids = [str(n) for n in range(30)]
        a = stored(tmp_path, "a", ids=ids, values=GOOD)
        config = {"imported": {"tool": "predictions"}}
        records = {("sums", "a"): Records.from_columns({"exact_match": GOOD}, unit_id=ids)}
        results = {"schema_version": "v1", "run_id": "b", "config": config, "by_slice": {}}
        b = write_run(
            tmp_path / "b",
            results=results,
            manifest={"run_id": "b", "config": config},
            records=records,
        )
        with pytest.raises(InvalidInputError, match="B does not store its inputs"):
            compare_runs(a, b, metrics=["exact_match"])
        told = MatchSpec(units="id")
        assert only(compare_runs(a, b, metrics=["exact_match"], match=told)).n_units == 30

    def test_other_targets_of_one_input_are_counted(self, tmp_path: Path) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
        relabelled = ["7 or so", *TARGETS[1:]]
        b = stored(tmp_path, "b", ids=TARGETS, values=GOOD, targets=relabelled)
        notes = compare_runs(a, b, match=MatchSpec(units="input")).notes
        assert "1 of these 30 have a different target in B" in notes[-1]

    @pytest.mark.parametrize(
        ("pair", "run"), [({"exact_match": "nope"}, "b"), ({"nope": "exact_match"}, "a")]
    )
    def test_a_metric_that_is_not_there_is_named(
        self, tmp_path: Path, pair: dict[str, str], run: str
    ) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
        b = stored(tmp_path, "b", ids=QUESTIONS, values=GOOD)
        with pytest.raises(MissingColumnError, match=f"run '{run}' has no metric 'nope'"):
            compare_runs(a, b, match=MatchSpec(metrics=pair))

    def test_a_leaderboard_of_two_tools(self, tmp_path: Path) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
        b = stored(tmp_path, "b", ids=[str(n) for n in range(30)], values=BETTER)
        board = leaderboard([a, b], n_draws=100)
        assert board.tasks[0].n_units == 30
        assert board.tasks[0].values == pytest.approx({"a": np.mean(GOOD), "b": np.mean(BETTER)})
        assert "paired by their input and target" in board.notes[0]


def test_a_run_of_ours_is_compared_with_a_log(tmp_path: Path) -> None:
    a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD, tool=None)
    versions = {"task:sums": "3", "grader:exact_match": "1"}
    a = write_run(
        tmp_path / "own",
        results={**a.results, "run_id": "own"},
        manifest={**a.manifest, "run_id": "own", "versioned_objects": versions},
        records={("sums", "a"): a.records("sums", "a")},
        tables={UNITS: a.table(UNITS)},
    )
    b = stored(tmp_path, "b", ids=[str(n) for n in range(30)], values=BETTER)
    result = compare_runs(a, b)
    assert only(result).n_units == 30
    assert result.version_changes == {}
    assert result.notes[0].startswith("A was created by eval-toolkit and B was created by lm-eval:")


class TestOwnRuns:
    def test_an_id_with_another_content_is_still_refused(self, tmp_path: Path) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD, tool=None)
        b = stored(tmp_path, "b", ids=QUESTIONS[::-1], values=GOOD, tool=None)
        with pytest.raises(ArtifactError, match="different content hash in B"):
            compare_runs(a, b)
        assert only(compare_runs(a, b, match=MatchSpec(units="content"))).n_units == 30

    def test_other_slices_have_nothing_in_common(self, tmp_path: Path) -> None:
        a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD, tool=None)
        b = stored(tmp_path, "b", ids=QUESTIONS, values=GOOD, tool=None, task="other")
        with pytest.raises(MissingColumnError, match="nothing in common"):
            compare_runs(a, b)


def test_what_a_run_does_not_store_cannot_pair(tmp_path: Path) -> None:
    a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
    records = {("sums", "b"): Records.from_columns({"exact_match": GOOD}, unit_id=QUESTIONS)}
    results = {"schema_version": "v1", "run_id": "b", "config": {}, "by_slice": {}}
    b = write_run(tmp_path / "b", results=results, manifest={"run_id": "b"}, records=records)
    for units in ("content", "input"):
        with pytest.raises(
            InvalidInputError, match=f"paired by {units}, which run B does not store"
        ):
            compare_runs(a, b, metrics=["exact_match"], match=MatchSpec(units=units))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"units": "order"}, "`units`"),
        ({"slices": {"a": "x", "b": "x"}}, "maps two names in A to the same name in B"),
        ({"metrics": "acc=match"}, "must map names in A"),
    ],
)
def test_a_match_that_means_nothing_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MatchSpec(**given)


def test_a_slice_that_is_not_there_is_named(tmp_path: Path) -> None:
    a = stored(tmp_path, "a", ids=QUESTIONS, values=GOOD)
    b = stored(tmp_path, "b", ids=QUESTIONS, values=GOOD)
    with pytest.raises(MissingColumnError, match="has no slice 'nope'"):
        compare_runs(a, b, match=MatchSpec(slices={"sums": "nope"}))


@given(st.permutations(list("abcdef")), st.dictionaries(st.sampled_from("abcxyz"), st.integers()))
def test_renaming_keeps_every_entry_of_a_name_that_is_not_taken(
    names: list[str], entries: dict[str, int]
) -> None:
    pairs = {names[0]: names[1]}
    found = renamed(entries, pairs)
    if names[1] in entries:
        assert found[names[0]] == entries[names[1]]
        assert set(found) == (set(entries) - {names[1]}) | {names[0]}
    else:
        assert found == entries
