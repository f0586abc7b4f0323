"""When the target failed: the curve, the turns, the attacks."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.report_asked_runs import SCORER, SEEDS
from tests.support.report_runs import WANTED, Page

from eval_toolkit._internal.display import Estimate
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import kaplan_meier
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report.cells import main_block
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.report.survival import _every_turn, build
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.runs import Run

Shown = Callable[[Section], Page]
PLAIN = replace(WANTED, charts=False)


def section_of(run: Run, wanted: Wanted = PLAIN) -> Section:
    section = build(run, wanted)
    assert section is not None
    return section


def test_the_numbers_are_kaplan_meier(rollout_run: Run) -> None:
    table = section_of(rollout_run).data["tables"][0]
    # One of eight broke in turn 1 and was never seen; 2 of 7 failed at once, then 2 of 5.
    rows = [[*row[:4], row[5]] for row in table.texts()]
    assert rows == [["1", "7", "2", "0.286", "0.714"], ["2", "5", "2", "0.571", "0.429"]]


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12),
    n_groups=st.none() | st.integers(1, 4),
    weighted=st.booleans(),
    more=st.integers(0, 2),
)
def test_every_turn_has_the_share_and_interval_of_the_curve(
    rows: list[tuple[int, bool]], n_groups: int | None, weighted: bool, more: int
) -> None:
    times = [time for time, _ in rows]
    assume(max(times) > 0)
    curve = kaplan_meier(
        times,
        [failed and time > 0 for time, failed in rows],
        groups=None if n_groups is None else [at % n_groups for at in range(len(rows))],
        weights=[1 + at % 2 for at in range(len(rows))] if weighted and n_groups else None,
    )
    depth = max(times) + more
    shown = _every_turn({"status": "ok", "depth": depth, **curve.to_dict()})
    assert shown is not None
    # What the terminal and the cells of failures by turn show.
    wanted = {}
    for turn in range(1, depth + 1):
        with contextlib.suppress(UndefinedMetricError):
            wanted[turn] = curve.failure_by(turn)
    assert shown["times"] == list(wanted)
    for at, found in enumerate(wanted.values()):
        held = (1 - found.point_estimate, 1 - found.ci_high, 1 - found.ci_low)
        told = tuple(shown[name][at] for name in ("survival", "ci_low", "ci_high"))
        assert told == pytest.approx(held, abs=1e-12)
    assert sum(shown["n_events"]) == pytest.approx(curve.n_events.sum())


@pytest.mark.parametrize(("reply", "share"), [("No.", 0.0), ("You fool.", 1.0)])
def test_the_section_shows_the_cells(tmp_path: Path, reply: str, share: float) -> None:
    system = System(Static(), ScriptedModel(reply, name="target"), SCORER)
    run = run_rollouts(system, SEEDS[:4], tmp_path / "r", depth=3).run
    assert run is not None
    section = section_of(run)
    table, block = section.data["tables"][0], main_block(run)
    assert block is not None
    cells = [block.cells[f"failed_by_turn_{turn}"] for turn in (1, 2, 3)]
    assert [row[0] for row in table.texts()] == ["1", "2", "3"]
    assert [" ".join(row[3:5]) for row in table.texts()] == [
        str(Estimate(cell.value, cell.low, cell.high)) for cell in cells
    ]
    # Wilson's interval of 0 or 4 of 4, which needs no warning about few.
    assert table.texts()[0][4] == ("[0.510, 1.000]" if share else "[0.000, 0.490]")
    assert section.notes == []


def test_few_conversations_are_called_so(rollout_run: Run) -> None:
    (note,) = [note for note in section_of(rollout_run).notes if "fewer" in note]
    assert note == "7 conversations: with fewer than 20, intervals may undercover"


def test_a_scorer_of_the_end_says_nothing_before() -> None:
    curve = kaplan_meier([3, 3, 3], [1, 0, 0]).to_dict()
    shown = _every_turn({"status": "ok", "depth": 3, **curve}, at_the_end=True)
    assert shown is not None
    assert shown["times"] == [3]


def test_the_lead_says_when(rollout_run: Run) -> None:
    assert section_of(rollout_run).lead == (
        "By turn 1 the target had failed in 29 % of conversations, by turn 2 in 57 %. "
        "Half of them had failed by turn 2."
    )


def test_charts_bring_their_numbers(rollout_run: Run) -> None:
    pytest.importorskip("altair")
    section = section_of(rollout_run, WANTED)
    figures = section.data["figures"]
    assert [figure.id for figure in figures] == ["survival", "survival-own"]
    plain = section_of(rollout_run).data["tables"][0]
    assert figures[0].table.texts() == plain.texts()


def test_what_happened_in_each_turn(rollout_run: Run) -> None:
    (table,) = [
        one for one in section_of(rollout_run).data["tables"] if one.title.startswith("By turn")
    ]
    columns = dict(zip(table.header, zip(*table.texts(), strict=True), strict=True))
    assert columns["broke"] == ("1", "0")
    # Of the seven, 2 and then 4 replies have the word.
    assert columns["share that failed"] == ("0.286", "0.571")


def test_attacks_side_by_side(tree_run: Run, rollout_run: Run) -> None:
    (table,) = [one for one in section_of(tree_run).data["tables"] if "attack" in one.title]
    assert [row[:4] for row in table.texts()] == [
        ["role_play", "4", "4", "4"],
        ["static", "4", "4", "0"],
    ]
    # Wilson's interval of 4 of 4: from 4 / (4 + 1.96²).
    assert [row[4:] for row in table.texts()] == [
        ["1.000", "[0.510, 1.000]"],
        ["0.000", "[0.000, 0.490]"],
    ]
    assert not any("attack" in one.title for one in section_of(rollout_run).data["tables"])


def test_no_scorer_no_curve(tmp_path: Path, shown: Shown) -> None:
    system = System(Static(), ScriptedModel("No.", name="target"), refusal=False)
    run = run_rollouts(system, SEEDS, tmp_path / "r", depth=1).run
    assert run is not None
    section = section_of(run, WANTED)
    assert section.data["figures"] == []
    page = shown(section)
    assert len(page.all("span", class_="status-skipped")) == 2
    assert page.all("span", class_="status-error") == []


def test_one_turn(tmp_path: Path) -> None:
    system = System(Static(), ScriptedModel("You fool.", name="target"), SCORER)
    run = run_rollouts(system, SEEDS, tmp_path / "r", depth=1).run
    assert run is not None
    assert section_of(run).lead == "By turn 1 the target had failed in 100 % of conversations."


def test_runs_of_other_kinds_have_none(rows_run: Run, judged_run: Run) -> None:
    assert build(rows_run, WANTED) is None
    assert build(judged_run, WANTED) is None
