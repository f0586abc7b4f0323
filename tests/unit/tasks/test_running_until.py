"""Runs that stop early: by width, by a decision against another run; resumed, measured again."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eval_toolkit.analysis import compare_runs, leaderboard
from eval_toolkit.cli.main import cli
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import (
    BaseTask,
    ResponseType,
    UntilDecided,
    UntilWidth,
    measure_run,
    run_task,
)
from eval_toolkit.tasks.perturbations import Perturbation, perturbed
from eval_toolkit.tasks.robustness_comparison import robustness


class Words(BaseTask[str]):
    NAME = "words"
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = ("exact_match",)

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return str(item["q"])

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["a"])


def words(n: int = 1000, right: int = 900, **options: Any) -> Words:
    """The answer "x" is right for ``right`` of the items."""
    rows = [{"q": f"item {i}", "a": "x" if i < right else "y"} for i in range(n)]
    return Words(rows=rows, **options)


def content(folder: Path) -> tuple[bytes, bytes]:
    return tuple((folder / name).read_bytes() for name in ("records.parquet", "results.json"))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that stopped by width; to be read only."""
    folder = tmp_path_factory.mktemp("stopped") / "r"
    return run_task(words(), ScriptedModel("x"), folder, until=UntilWidth(0.12))


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A whole run "a" and beside it "b", which a decision against it stopped; to be read only."""
    folder, task = tmp_path_factory.mktemp("decided"), words(1000, 700)
    run_task(task, ScriptedModel("x", name="first"), folder / "a")
    rule = UntilDecided(folder / "a")
    return run_task(task, ScriptedModel("y", name="second"), folder / "b", until=rule)


class TestWidth:
    def test_stops_before_the_end_and_says_what_it_saved(self, stopped: Any):
        done = stopped
        told = done.results["stopping"]
        assert told["n_used"] < 1000
        assert told["n_saved"] == 1000 - told["n_used"]
        assert len(done.records) == told["n_used"]
        assert done.n_asked == told["n_used"] + done.stopping["n_beyond"]
        cell = done.card["exact_match"]
        assert cell.ci.ci_high - cell.ci.ci_low <= 0.12
        assert cell.ci.ci_low <= 0.9 <= cell.ci.ci_high
        assert cell.details["n_saved"] == told["n_saved"]
        assert done.run.manifest["config"]["until"]["width"] == 0.12

    def test_bytes_do_not_depend_on_concurrency(self, tmp_path: Path):
        for name, at_once in (("one", 1), ("many", 200)):
            run_task(
                words(400, 360),
                ScriptedModel("x"),
                tmp_path / name,
                until=UntilWidth(0.2),
                concurrency=at_once,
                run_id="r",
            )
        assert content(tmp_path / "one") == content(tmp_path / "many")

    def test_going_on_asks_the_rest_alone(self, stopped: Any, tmp_path: Path):
        first = stopped
        shutil.copytree(first.run.path, tmp_path / "r")
        again = run_task(words(), ScriptedModel("x"), tmp_path / "r", until=UntilWidth(0.12))
        assert again.n_asked == 0
        assert again.results["stopping"]["n_used"] == first.results["stopping"]["n_used"]
        whole = run_task(words(), ScriptedModel("x"), tmp_path / "r")
        assert whole.n_asked == 1000 - first.n_asked
        assert whole.stopping is None
        assert "stopping" not in whole.results
        assert whole.card["exact_match"].value == pytest.approx(0.9)

    def test_measured_again_counts_the_same_samples(self, tmp_path: Path):
        until = UntilWidth(0.2)
        done = run_task(words(400, 360), ScriptedModel("X"), tmp_path / "r", until=until)
        again = measure_run(done.run, words(400, 360), graders=["exact_match{ignore_case=true}"])
        assert len(again.records) == len(done.records) < 400
        assert again.results["stopping"]["n_saved"] == done.results["stopping"]["n_saved"]
        assert "sequence" in again.card["exact_match"].ci.method
        assert again.card["exact_match"].value > 0.8

    def test_answers_that_fail_widen_instead_of_stopping(self):
        def answer(request: Any) -> str:
            if int(str(request.prompt[-1].content).split()[-1]) % 5 == 0:
                raise ValueError("no")
            return "x"

        whole = run_task(
            words(150, 150), ScriptedModel(answer), until=UntilWidth(0.12), give_up_after=None
        )
        assert whole.results["stopping"]["n_used"] == 150
        assert "all 150 units are used" in whole.results["stopping"]["reason"]

    def test_judges_are_watched_too(self):
        judge = Judge(rubric="refusal", model=ScriptedModel("no"))
        done = run_task(words(), ScriptedModel("x"), graders=[judge], until=UntilWidth(0.12))
        assert done.results["stopping"]["n_used"] < 1000
        assert done.judges[judge.name]["n_asked"] == done.n_asked

    def test_few_are_asked_beyond_the_last_that_counts(self):
        done = run_task(words(), ScriptedModel("x"), until=UntilWidth(0.5), concurrency=1)
        assert done.n_asked <= done.stopping["n_used"] + 8
        assert done.stopping["n_saved"] == 1000 - done.n_asked

    def test_failures_in_a_row_count_over_parts(self):
        def answer(request: Any) -> str:
            raise ValueError("no")

        with pytest.raises(ModelError, match="failed in a row"):
            run_task(words(), ScriptedModel(answer), until=UntilWidth(0.2), concurrency=1)

    def test_the_order_of_the_file_is_refused(self):
        with pytest.raises(InvalidInputError, match="not a random sample"):
            run_task(words(), ScriptedModel("x"), until=UntilWidth(0.1), order="file")


class TestDecided:
    def test_a_clear_difference_is_told_early(self, decided: Any):
        told = decided.results["stopping"]
        assert told["verdict"] == "worse"
        assert told["n_used"] < 500
        assert told["interval"]["ci_high"] < 0.0

    def test_samples_that_the_other_run_lacks_are_counted(self, tmp_path: Path):
        run_task(words(200, 100), ScriptedModel("x"), tmp_path / "a", limit=50)
        rule = UntilDecided(tmp_path / "a")
        done = run_task(words(200, 100), ScriptedModel("x"), tmp_path / "b", until=rule)
        assert done.results["stopping"]["n_total"] == 50
        assert any(
            note.startswith("150 samples are excluded, because the other run lacks them")
            for note in done.notes
        )

    def test_a_run_is_not_compared_with_itself(self, tmp_path: Path):
        run_task(words(20, 10), ScriptedModel("x"), tmp_path / "a")
        rule = UntilDecided(tmp_path / "a")
        with pytest.raises(InvalidInputError, match="the folder of this run"):
            run_task(words(20, 10), ScriptedModel("x"), tmp_path / "a", until=rule)

    def test_no_difference_goes_to_the_end(self, tmp_path: Path):
        task = words(200, 100)
        run_task(task, ScriptedModel("x"), tmp_path / "a")
        done = run_task(
            task, ScriptedModel("x"), tmp_path / "b", until=UntilDecided(tmp_path / "a")
        )
        assert done.results["stopping"]["n_used"] == 200
        assert done.results["stopping"]["verdict"] == "undecided"

    def test_comparing_says_that_a_run_was_stopped(self, decided: Any):
        comparison = compare_runs(decided.run.path.with_name("a"), decided.run.path)
        assert any("stopped early" in line for line in comparison.notes)

    def test_a_leaderboard_says_that_a_run_was_stopped(self, decided: Any):
        folders = [str(decided.run.path.with_name(one)) for one in "ab"]
        (note,) = leaderboard(folders, n_draws=2000).notes
        assert note.startswith("words: second was stopped early, after ")
        shown = CliRunner().invoke(cli, ["leaderboard", *folders])
        assert note in " ".join(shown.output.split())

    def test_robustness_says_that_a_run_was_stopped(self, tmp_path: Path):
        task = words(400, 360)
        run_task(task, ScriptedModel("x"), tmp_path / "a", until=UntilWidth(0.2))
        run_task(perturbed(task, Perturbation("upper")), ScriptedModel("x"), tmp_path / "b")
        found = robustness(tmp_path / "a", [tmp_path / "b"])
        assert [note.partition(", after")[0] for note in found.notes] == [
            "the unperturbed run was stopped early"
        ]
        assert found.to_dict()["notes"] == list(found.notes)
        shown = CliRunner().invoke(cli, ["robustness", *(str(tmp_path / one) for one in "ab")])
        assert found.notes[0] in " ".join(shown.output.split())


class TestSubjects:
    class Parts(Words):
        SUBJECTS = ("a", "b", "c")

    @pytest.mark.parametrize("sizes", [(500, 500, 3), (1000, 1, 3)])
    def test_each_planned_subject_has_its_row_on_disk(self, tmp_path: Path, sizes: tuple[int, ...]):
        rows = [
            {"q": f"{name} {i}", "a": "y" if name == "c" else "x", "subject": name}
            for name, n in zip("abc", sizes, strict=True)
            for i in range(n)
        ]
        task = self.Parts(rows=rows)
        done = run_task(task, ScriptedModel("x"), tmp_path / "r", until=UntilWidth(0.1))
        parts = done.run.results["by_slice"]["words"]["parts"]
        assert list(parts) == ["subject=a", "subject=b", "subject=c"]
        assert parts["subject=c"]["n"] == 0
        (cells,) = parts["subject=c"]["by_scorer"].values()
        assert cells["exact_match"]["reason"] == "not reached before the run stopped"
        macro = done.card["exact_match_macro"]
        assert macro.value < 0.9
        assert "of 3 subjects not reached" in macro.reason
        assert measure_run(done.run, task).card == done.card
