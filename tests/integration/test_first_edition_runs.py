"""Runs that the first edition wrote: every reader says of them what it said then.

``tests/fixtures/first_edition`` holds the runs and what was said. Places of cells are compared as
`tests.support.first_edition_cells` spells them, so that a change of spelling is made there alone.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.first_edition import asked
from tests.support import first_edition_readers as readers
from tests.support.first_edition_cells import (
    Cell,
    Known,
    assertion_misses,
    csv_cells,
    gate_misses,
    is_shown,
    page_of,
    payload_cells,
    records_of,
    row_cells,
    stored_cells,
)
from tests.support.first_edition_readers import HERE, PAIRS, RUNS, copied, differences, expected

from eval_toolkit.rollouts import rescore_rollouts
from eval_toolkit.runs import Run, run_state
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.tasks import run_task


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all runs, which are only read."""
    return Path(shutil.copytree(HERE / "runs", tmp_path_factory.mktemp("first") / "runs"))


@pytest.fixture
def run(request: pytest.FixtureRequest, runs: Path) -> Run:
    """One of the finished runs."""
    return Run.open(runs / request.param)


@pytest.fixture(autouse=True)
def _nobody_asked() -> Iterator[None]:
    """Forget what models were asked, and whom a test let fail."""
    asked.ASKED.clear()
    yield
    asked.ENDS_AFTER.clear()
    asked.FAILS[:] = [True]


every_run = pytest.mark.parametrize("run", RUNS, indirect=True)


def some_runs(names: Sequence[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", names, indirect=True)


def name_of(run: Run) -> str:
    return next(name for name in RUNS if str(run.path).endswith(f"/{name}"))


def by_place(rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows by the place they begin with."""
    found = {" · ".join(map(str, row[:4])): list(row[4:]) for row in rows}
    assert len(found) == len(rows), "two cells at one place"
    return found


def without_tests_of_macros(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return differences without tests of macro means, which have none today (ADR 0020).

    The other p-values of the whole are adjusted again, by Holm's method written out.
    """
    changed = [list(row) for row in rows]
    whole = [row for row in changed if row[1] == "all"]
    macros = [row for row in whole if row[3].endswith("_macro")]
    tested = [row for row in whole if row not in macros and row[13] is not None]
    for row in macros:
        row[13:15] = [None, None]
    highest = 0.0
    for rank, row in enumerate(sorted(tested, key=lambda row: row[13])) if macros else ():
        highest = max(highest, min(1.0, (len(tested) - rank) * row[13]))
        row[14] = highest
    return changed


def wanted_cells(name: str, key: str = "cells") -> dict[tuple[Any, ...], Cell]:
    """Return the cells that were there, by place."""
    cells = [Cell(*row[:10]) for row in expected(name)[key]]
    return {cell.place: cell for cell in cells}


def cell_differences(found: Sequence[Cell], wanted: Mapping[Any, Cell]) -> list[str]:
    return differences(by_place(found), by_place(list(wanted.values())))


# --- one run ----------------------------------------------------------------------------------------


def test_all_of_them_are_there() -> None:
    kinds = Counter(expected(name)["about"][1] for name in RUNS)
    assert kinds == {"rows": 9, "task": 18, "rollout": 5}


@every_run
def test_it_opens(run: Run) -> None:
    assert run_state(run.path) == "complete"
    systems = sorted({system for _, system in run.subjects})
    assert [run.run_id, readers.kind_of(run), systems] == expected(name_of(run))["about"]


@every_run
def test_cells(run: Run) -> None:
    assert not cell_differences(stored_cells(run), wanted_cells(name_of(run)))


@every_run
@pytest.mark.parametrize(("reader", "read"), [("rows", row_cells), ("csv", csv_cells)])
def test_rows_and_exported_rows(run: Run, reader: str, read: Any) -> None:
    """A reader says what is stored, of all the cells that it said something of and maybe of more."""
    name = name_of(run)
    wanted, found = wanted_cells(name), read(run)
    reached = {tuple(row[:4]) for row in expected(name)["cells"] if reader in row[10].split()}
    assert not reached - {cell.place for cell in found}
    said = {cell.place: wanted[cell.place] for cell in found}
    assert not cell_differences(found, said)


@every_run
def test_records_and_tables(run: Run) -> None:
    wanted = expected(name_of(run))
    assert not differences(by_place(records_of(run)), by_place(wanted["records"]))
    assert not differences(readers.stored_tables(run), wanted["tables"])


@every_run
def test_gate_and_assertions_reach_the_cells(run: Run, tmp_path: Path) -> None:
    cells = list(wanted_cells(name_of(run)).values())
    assert gate_misses(run, cells, tmp_path / "claims.toml") == []
    assert assertion_misses(run, cells) == []


@every_run
def test_claims_about_the_run(run: Run, tmp_path: Path) -> None:
    found, wanted = readers.claims_held(run, tmp_path), expected(name_of(run))["claims"]
    if readers.kind_of(run) != "rows":  # the number of their units was not read
        first = run.cells.slices[0]
        assert found.pop("twenty") is (run.cells.entry(first).get("n", 0) >= 20)
        wanted.pop("twenty")
    assert found == wanted


@every_run
def test_report(run: Run, tmp_path: Path) -> None:
    name = name_of(run)
    wanted, page = wanted_cells(name), page_of(run, tmp_path / "report.html")
    reached = {tuple(row[:4]) for row in expected(name)["cells"] if "report" in row[10].split()}
    assert not reached - {cell.place for cell, _ in page.shown}
    for cell, text in page.shown:
        stored = wanted.get(cell.place) or wanted[*cell.place[:3], ""]  # a system that failed
        assert is_shown(text, stored.numbers), (cell.place, text)
    assert page.headline
    for metric, system, text in page.headline:
        alike = [c for c in wanted.values() if c.metric == metric and system in ("", c.system)]
        assert any(is_shown(text, cell.numbers) for cell in alike), (metric, system, text)
    if name in readers.REPORTED:
        assert not differences(page.others, expected(name)["report"])


WIDER = {"score-a": [f"/all · source=chat · strong · {name}[1]" for name in ("brier", "log_loss")]}
"""Lower ends that are lower now: in these groups the mean goes with the size (ADR 0018)."""


@some_runs(list(readers.SCORED))
def test_scored_again(run: Run) -> None:
    name = name_of(run)
    found = {cell.place: cell for cell in readers.scored_again(run, readers.SCORED[name])}
    wanted = wanted_cells(name, "scored")
    assert not wanted.keys() - found.keys()
    lines = cell_differences([found[place] for place in wanted], wanted)
    assert [line.partition(":")[0] for line in lines] == WIDER.get(name, [])
    assert all(found[place].low <= wanted[place].low for place in wanted if name in WIDER)


@some_runs(readers.TALKED)
def test_transcripts(run: Run) -> None:
    assert not differences(readers.conversations(run), expected(name_of(run))["transcripts"])


@some_runs(readers.EXPORTED)
def test_exports(run: Run, tmp_path: Path) -> None:
    codes = {kind: readers.exported(run, kind, tmp_path) for kind in readers.FORMATS}
    assert codes == expected(name_of(run))["exports"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("score-a", "text 0 in <b>bold</b>"),
        ("evaluate-a", "ood 0 S="),
        ("task-a", "What is the capital of"),
        ("task-choices", "Springfield"),
        ("rollouts-tree", "You clown."),
        ("import-lm-eval-a", "0 + 0?"),
    ],
)
def test_viewer(name: str, shown: str, runs: Path) -> None:
    pytest.importorskip("starlette")
    from tests.support.viewer_driving import TOKEN, Asking

    from eval_toolkit.report.viewer import create_app

    ask = Asking(create_app(runs, token=TOKEN))
    (address,) = set(re.findall(rf'"(/runs/{name}-[0-9a-f]+)"', ask("/").text))
    first = re.findall(
        r'href="(/runs/[^"]*/sample\?[^"]*)"', ask(f"{address}/samples?sort=unit").text
    )[0]
    assert shown in ask(unescape(first)).words


# --- two runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAIRS)
def test_two_runs(name: str, runs: Path, tmp_path: Path) -> None:
    a, b = (Run.open(runs / one) for one in PAIRS[name][:2])
    found, wanted = readers.pair_said(name, a, b, tmp_path), expected(f"pair-{name}")
    for key in ("compare", "python"):
        then = by_place(without_tests_of_macros(wanted.pop(key)))
        assert not differences(by_place(found.pop(key)), then, key)
    held = wanted.pop("claims")  # claims reach parts that they did not
    assert {name: found["claims"].get(name) for name in held} == held
    assert found.pop("claims").keys() >= held.keys()
    assert not differences(found, wanted)


@pytest.mark.parametrize("name", ["score", "task", "rollouts", "lm-eval"])
def test_report_about_two_runs(name: str, runs: Path, tmp_path: Path) -> None:
    a, b = (Run.open(runs / one) for one in PAIRS[name][:2])
    page = page_of(a, tmp_path / "report.html", b)
    wanted, about = expected(f"pair-{name}"), ("slice", "part", "scorer", "metric")
    turns = {str(turn): numbers for turn, _, *numbers in wanted.get("survival", [])}
    assert page.differences
    for row, text in page.differences:
        if "by turn" in row:
            assert is_shown(text, turns[row["by turn"]]), (row, text)
            continue
        alike = [
            (cell[11], cell[12], *cell[4:7])
            for cell in wanted["compare"]
            if all(row.get(key, cell[at]) == cell[at] for at, key in enumerate(about))
        ]
        assert any(is_shown(text, numbers) for numbers in alike), (row, text)


# --- stored answers to new numbers ------------------------------------------------------------------


def test_rescored(runs: Path) -> None:
    found = readers.rescored(Run.open(runs / "rollouts-a"))
    assert not cell_differences(found, wanted_cells("redone", "rescored"))
    tree = Run.open(runs / "rollouts-tree")
    done = rescore_rollouts(tree, asked.CLOWN, refusal=False)
    cells = payload_cells(done.results, Known.of(tree))
    assert not cell_differences(cells, wanted_cells("rollouts-rescored"))
    assert asked.ASKED == []


def test_measured(runs: Path) -> None:
    found = readers.measured(Run.open(runs / "task-a"))
    assert not cell_differences(found, wanted_cells("redone", "measured"))
    parity = Run.open(runs / "suite" / "parity")
    options = ("--measure", parity.path, "--grader", "exact_match", "--grader", "f1")
    found = readers.measured_by_command(parity, *options)
    assert not cell_differences(found, wanted_cells("redone", "measured by command"))
    assert asked.ASKED == []


def test_replayed(runs: Path) -> None:
    parity = Run.open(runs / "suite" / "parity")
    found = readers.measured_by_command(parity, "--replay", parity.path, "--no-store")
    assert not cell_differences(found, wanted_cells("suite/parity"))
    choices = Run.open(runs / "task-choices")
    done = run_task(asked.Choices(rows=asked.ITEMS), replay=choices.path)
    cells = payload_cells(done.results, Known.of(choices))
    assert not cell_differences(cells, wanted_cells("task-choices"))
    assert asked.ASKED == []


# --- runs that go on --------------------------------------------------------------------------------


def journalled(folder: Path) -> list[tuple[str, int, str]]:
    """Return unit, attempt and step of every answer in a journal; a torn line is none."""
    found = []
    for line in (folder / "journal.jsonl").read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if "response" in entry:
            found.append((entry["unit_id"], entry["attempt"], entry["step"]))
    return found


def unfinished(name: str, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(HERE / "runs" / f"unfinished-{name}", tmp_path / name))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["status"] == "running"
    assert run_state(folder).startswith("incomplete")
    return folder


def finished(folder: Path, wanted: Mapping[Any, Cell]) -> None:
    assert run_state(folder) == "complete"
    assert not (folder / "journal.jsonl").exists()
    assert not cell_differences(stored_cells(Run.open(folder)), wanted)


def test_an_unfinished_task_asks_what_is_missing(tmp_path: Path) -> None:
    folder = unfinished("task", tmp_path)
    answered = Counter(unit.partition("/")[2] for unit, _, _ in journalled(folder))
    asked.attempts(folder, asked.modest)
    countries = [re.findall(r"capital of (\w+)\?", mark)[0].lower() for mark in asked.ASKED]
    every = Counter({str(item["id"]): 3 for item in asked.ITEMS})
    assert sum(answered.values()) == 19
    assert Counter(countries) == every - answered
    finished(folder, wanted_cells("task-a"))


def test_unfinished_judging_asks_the_judge_alone(tmp_path: Path) -> None:
    folder = unfinished("judged", tmp_path)
    assert len(journalled(folder)) == 18 + 7
    asked.ENDS_AFTER["modest"] = 0  # it must not be asked
    asked.judged(folder)
    assert len(asked.ASKED) == 18 - 7
    finished(folder, wanted_cells("task-judged"))


def test_unfinished_rollouts_ask_what_is_missing(tmp_path: Path) -> None:
    folder = unfinished("rollouts", tmp_path)
    n_answered = len(journalled(folder))
    done = asked.refined(folder)
    assert 0 < n_answered < 24
    assert len(asked.ASKED) == 24 - n_answered  # a probe, a reply and a verdict in 8 turns
    assert len(set(asked.ASKED)) == len(asked.ASKED)
    finished(folder, wanted_cells("redone", "refined"))
    spoken = expected("redone")["refined, spoken"]
    assert not differences(readers.conversations(done.run), spoken)


def test_what_failed_is_asked_again(tmp_path: Path) -> None:
    (run,) = copied(tmp_path, "task-errors")
    asked.FAILS.clear()
    asked.broken(run.path)
    assert len(asked.ASKED) == 2
    finished(run.path, wanted_cells("redone", "healthy"))


def test_more_attempts_add_to_a_run(tmp_path: Path) -> None:
    (run,) = copied(tmp_path, "task-plain")
    task = asked.Countries(rows=asked.ITEMS)
    done = run_task(task, asked.model(asked.literal), run.path, attempts=2)
    assert (len(asked.ASKED), done.n_requests) == (18, 36)


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("task-a", lambda folder: asked.attempts(folder, asked.modest)),
        ("task-judged", asked.judged),
        ("task-stopped", asked.stopped),
        ("task-perturbed", asked.shouted),
        ("task-choices", asked.chosen),
        ("rollouts-b", lambda folder: asked.rolled(folder, asked.sturdy)),
        ("rollouts-tree", asked.branched),
    ],
)
def test_the_same_call_asks_nothing(name: str, again: Any, tmp_path: Path) -> None:
    (run,) = copied(tmp_path, name)
    again(run.path)
    assert asked.ASKED == []
    finished(run.path, wanted_cells(name))


def answers_by_place(folder: Path) -> dict[Any, Any]:
    return {one.job.key: one for one in outcomes_of(Run.open(folder))}


def test_the_same_suite_asks_nothing(tmp_path: Path) -> None:
    copied(tmp_path, "suite/parity", "suite/oddness")
    runs = [path.parent for path in tmp_path.rglob("responses.parquet")]
    before = [answers_by_place(run) for run in runs]
    assert not differences(readers.suite_said(tmp_path), expected("redone")["suite"])
    assert [answers_by_place(run) for run in runs] == before  # stored in another order now
    for name in ("suite/parity", "suite/oddness"):
        finished(tmp_path / name, wanted_cells(name))
