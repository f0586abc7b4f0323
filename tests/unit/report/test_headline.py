"""The answer of a run: which number comes first, what is said about it, how metrics are grouped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.report_asked_runs import SCORER, SEEDS, rollout_run, stopped_run
from tests.support.report_runs import WANTED, Page, plain, written_rows
from tests.support.report_runs import stored_cells as stored

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report import headline
from eval_toolkit.report.cells import Block, Cell, main_block
from eval_toolkit.report.headline import build, main_cell
from eval_toolkit.report.metric_groups import grouped, meaning_of
from eval_toolkit.report.sections import Section
from eval_toolkit.rollouts import Budget, System, run_rollouts
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.runs import Run

Shown = Callable[[Section], Page]


def block(**cells: Any) -> Block:
    made = {
        name: Cell(name=name, value=value, status="skipped" if value is None else "ok", details={})
        for name, value in cells.items()
    }
    return Block(slice="all", scorer="m", n=4, n_positive=None, cells=made)


def section_of(run: Run) -> Section:
    section = build(run, WANTED)
    assert section is not None
    return section


class TestMainCell:
    def test_what_people_ask_for_first(self) -> None:
        assert main_cell(block(f1=0.2, exact_match=0.1)).name == "exact_match"  # type: ignore[union-attr]
        assert main_cell(block(brier=0.2, roc_auc=0.9)).name == "roc_auc"  # type: ignore[union-attr]
        assert main_cell(block(own=0.5)).name == "own"  # type: ignore[union-attr]

    def test_one_with_a_value_before_one_without(self) -> None:
        assert main_cell(block(pr_auc=None, brier=0.2)).name == "brier"  # type: ignore[union-attr]
        assert main_cell(block(pr_auc=None)).status == "skipped"  # type: ignore[union-attr]
        assert main_cell(block()) is None

    def test_of_rollouts_nothing_but_failures_and_refusals(self) -> None:
        cells = block(attack_success=None, probe_flagged=1.0, failed_by_turn_2=0.4)
        assert main_cell(cells).name == "failed_by_turn_2"  # type: ignore[union-attr]
        later = block(attack_success=None, failed_by_turn_2=0.4, failed_by_turn_10=0.5)
        assert main_cell(later).name == "failed_by_turn_10"  # type: ignore[union-attr]
        only = block(attack_success=None, probe_flagged=1.0)
        assert main_cell(only).name == "attack_success"  # type: ignore[union-attr]


class TestRollouts:
    def test_the_answer_says_what_the_number_means(self, rollout_run: Run) -> None:
        data = section_of(rollout_run).data
        # One of the 8 conversations broke.
        assert data["said"].startswith("4 of 7 prompts got through [")
        assert data["how"][0].startswith("attack_success 0.571 [")
        assert data["how"][1].startswith("Fails if words ≥ 0.5, tester static, target target")

    def test_what_broke_has_one_name(self, rollout_run: Run, shown: Shown) -> None:
        header = [plain(one["text"]) for one in shown(section_of(rollout_run)).all("th")]
        assert "broke" in header
        assert "failed" not in header

    def test_missing_outcomes_have_bounds(self, rollout_run: Run) -> None:
        # 1 of 8 broke: it may have failed (5 of 8) or not (4 of 8).
        said = section_of(rollout_run).data["how"][2]
        assert said.startswith("1 conversation broke")
        assert "between 0.500 and 0.625" in said

    def test_what_broke_is_a_tile_in_the_colour_of_bugs(
        self, rollout_run: Run, shown: Shown
    ) -> None:
        page = shown(section_of(rollout_run))
        tiles = [plain(tile["text"]) for tile in page.all("div", class_="tile")]
        assert "broke1no outcome, see below" in tiles
        assert [plain(one["text"]) for one in page.all("span", class_="status-error")] == ["1"]

    def test_a_budget_shows_the_last_turn_that_was_seen(self, tmp_path: Path) -> None:
        system = System(Static(), ScriptedModel("No.", name="target"), SCORER)
        run = run_rollouts(
            system, SEEDS, tmp_path / "r", depth=3, budget=Budget(calls=12), max_error_rate=1.0
        ).run
        assert run is not None
        data = section_of(run).data
        assert data["said"].startswith("0 of 8 prompts got through by turn ")
        assert data["how"][-1].startswith("It is unknown whether the target failed by the end: ")

    def test_every_metric_is_in_one_group_and_one_is_open(self, rollout_run: Run) -> None:
        whole = main_block(rollout_run)
        assert whole is not None
        groups = grouped(rollout_run, [whole])
        names = [name for group in groups for name in group.names]
        assert sorted(names) == sorted(whole.cells)
        assert [group.open for group in groups] == [True] + [False] * (len(groups) - 1)
        assert len(groups[0].names) <= 14

    def test_reasons_that_repeat_stand_once(self, rollout_run: Run, shown: Shown) -> None:
        page = shown(section_of(rollout_run))
        notes = [plain(li["text"]) for ol in page.all("ol") for li in page.all("li")]
        whole = main_block(rollout_run)
        assert whole is not None
        reason = whole.cells["attack_success"].reason
        assert reason
        assert sum(reason in note for note in set(notes)) == 1
        assert all(reason not in cell["text"] for cell in page.all("td"))
        targets = {link["href"] for link in page.all("a")}
        assert targets <= {f"#{name}" for name in page.ids}


class TestTasks:
    def test_the_answer(self, judged_run: Run) -> None:
        data = section_of(judged_run).data
        # 8 of the 11 sums that have an answer are right.
        assert data["said"].startswith("Answers 8 of 11 questions correctly [")
        assert data["how"][0].startswith("exact_match 0.727 [")
        assert data["how"][0].endswith("on Sums")
        # The missing one is right or wrong: 8 or 9 of 12.
        assert "between 0.667 and 0.750" in data["how"][2]

    def test_macro_means_are_explained_and_closed(self, judged_run: Run, shown: Shown) -> None:
        page = shown(section_of(judged_run))
        (macro,) = [one for one in page.all("details") if "Macro means" in one["text"]]
        assert "open" not in macro
        assert "every subject has equal weight" in macro["text"]
        assert "exact_match_macro" in macro["text"]

    def test_a_run_that_was_stopped_says_so(self, tmp_path: Path) -> None:
        run = stopped_run(tmp_path)
        used = run.results["stopping"]["n_used"]
        said = section_of(run).data["how"][-1]
        assert said.startswith(
            f"Stopped early: {used} of 400 samples were used, {400 - used} were saved"
        )

    def test_agreement_of_votes_is_told(self, tmp_path: Path) -> None:
        from tests.support.report_asked_runs import ROWS, Sums

        from eval_toolkit.graders.judges import Judge
        from eval_toolkit.tasks import run_task

        said = iter(["yes", "yes", "no"] * 4)
        critic = ScriptedModel(lambda request: next(said), name="critic", concurrency=1)
        judge = Judge("correctness", critic, votes=3, temperature=1.0)
        run = run_task(Sums(rows=ROWS[:4]), ScriptedModel("1"), tmp_path / "r", graders=[judge]).run
        assert run is not None
        # Of two for and one against, 1 of the 3 pairs agrees.
        (fact,) = [one for one in section_of(run).data["trust"] if one.name == "judge"]
        assert fact.said.startswith("correctness: 0.333 of pairs of its votes agree")
        assert fact.tone == "unknown"


class TestRows:
    def test_several_scorers_stand_side_by_side(self, rows_run: Run, shown: Shown) -> None:
        section = section_of(rows_run)
        page = shown(section)
        header = [plain(one["text"]) for one in page.all("th", scope="col")][:4]
        assert header == ["metric", *section.data["scorers"], "n"]
        # The better one is named first.
        assert section.data["said"].startswith("good: catches ")
        assert section.data["how"][0].startswith("PR-AUC: good 0.")
        assert ", bad 0." in section.data["how"][0]

    def test_a_column_of_nothing_but_ok_is_marked_for_narrow_screens(
        self, tmp_path: Path, shown: Shown
    ) -> None:
        fine = {"roc_auc": {"value": 0.75, "status": "ok"}}
        skipped = {"value": None, "status": "skipped", "reason": "one class only"}
        for name, cells in (("fine", fine), ("not", {**fine, "pr_auc": skipped})):
            run = written_rows(tmp_path / name, [0, 1], [0.2, 0.8], cells=cells)
            (table,) = shown(section_of(run)).all("table", class_="metrics")
            assert ("all-ok" in table["class"].split()) == (name == "fine")

    def test_errors_are_bugs_and_skipped_is_quiet(self, tmp_path: Path, shown: Shown) -> None:
        cells = {
            "roc_auc": {"value": 0.75, "status": "ok"},
            "pr_auc": {"value": None, "status": "skipped", "reason": "one class only"},
            "brier": {"value": None, "status": "error", "reason": "ZeroDivisionError"},
        }
        run = written_rows(tmp_path, [0, 1], [0.2, 0.8], cells=cells)
        section = section_of(run)
        page = shown(section)
        assert section.data["how"][0] == "ROC-AUC 0.750"
        assert "bug" in page.all("div", class_="answer")[0]["class"]
        (row,) = page.all("tr", class_="has-error")
        assert "ZeroDivisionError" in row["text"]
        assert page.all("tbody")[0]["text"].index("brier") < page.all("tbody")[0]["text"].index(
            "roc"
        )
        assert [one["text"] for one in page.all("span", class_="status-skipped")] == ["skipped"]
        assert any("brier: failed with an exception" in note for note in section.notes)

    @pytest.mark.parametrize("order", [("broken", "bad", "good"), ("good", "bad", "broken")])
    def test_a_broken_scorer_stands_beside_the_answer(
        self, tmp_path: Path, order: tuple[str, ...], shown: Shown
    ) -> None:
        raised = {
            "error": "RuntimeError: boom",
            "error_state": {"value": None, "status": "error", "reason": "RuntimeError: boom"},
        }
        cells = {"broken": raised, "bad": {"pr_auc": 0.5}, "good": {"pr_auc": 0.7}}
        by_scorer = {name: cells[name] for name in order}
        run = stored(tmp_path, {"val": by_scorer, "test": by_scorer})
        section = section_of(run)
        assert section.data["said"] == "PR-AUC on test: good 0.700, bad 0.500"
        assert section.data["how"][0].startswith("good on test")
        assert section.notes == ["broken: failed with an exception, which may be a bug"]
        page = shown(section)
        assert "bug" in page.all("div", class_="answer")[0]["class"]
        (told,) = [plain(li["text"]) for li in page.all("li") if "boom" in li["text"]]
        assert told == "broken: error RuntimeError: boom"
        assert "error_state" not in page.all("table")[0]["text"]

    def test_nothing_but_a_broken_scorer(self, tmp_path: Path) -> None:
        run = stored(tmp_path, {"all": {"m": {"error": "KeyError: 'x'"}}})
        assert section_of(run).data["said"] == "m: error, KeyError: 'x'"

    def test_no_results_no_headline(self, tmp_path: Path) -> None:
        from eval_toolkit.runs import write_run

        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        run = write_run(tmp_path / "r", results=results, manifest={"run_id": "r"})
        assert build(run, WANTED) is None

    def test_many_metrics_are_no_wall(self, tmp_path: Path, shown: Shown) -> None:
        cells = {f"m{at:02}": {"value": at / 40, "status": "ok"} for at in range(40)}
        run = written_rows(tmp_path, [0, 1], [0.2, 0.8], cells=cells)
        page = shown(section_of(run))
        (more,) = page.all("details")
        assert "28 more metrics" in more["text"]
        assert "m39" in more["text"]
        assert "m11" not in more["text"]


@given(k=st.integers(1, 10**6))
def test_meanings_name_their_number(k: int) -> None:
    assert meaning_of(f"asr@{k}") == f"the target failed in at least one of {k} rollouts"
    assert meaning_of(f"right_pass@{k}") == f"at least one of {k} attempts is correct"


@pytest.mark.parametrize("kind", ["rows", "task", "rollout"])
def test_a_manifest_that_says_little_is_no_bug(tmp_path: Path, kind: str) -> None:
    run = written_rows(tmp_path, [0, 1], [0.2, 0.8], kind=kind, counts=None)
    section = headline.build(run, WANTED)
    assert section is not None
    assert section.data["said"].startswith("roc_auc: skipped")


def test_rollouts_without_a_scorer(tmp_path: Path) -> None:
    system = System(Static(), ScriptedModel("No.", name="target"), refusal=False)
    run = run_rollouts(system, SEEDS, tmp_path / "r", depth=1).run
    assert run is not None
    assert section_of(run).data["said"].startswith("attack_success: skipped")


def test_one_branch_has_no_second_name_for_its_success(tmp_path: Path) -> None:
    whole = main_block(run := rollout_run(tmp_path))
    assert whole is not None
    assert "attack_success_any" not in grouped(run, [whole])[0].names
