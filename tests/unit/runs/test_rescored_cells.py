"""A rescored run says the same about the same columns as the run whose attempts it has."""

import io
import shutil
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fixtures.first_edition import asked

from eval_toolkit import EvalSlice, StratifiedKFoldSplitter, evaluate_folded, score_predictions
from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_runs
from eval_toolkit.cli import main
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.harness import save_run
from eval_toolkit.metric_specs.columns import mean_as_stated, stated_bounds
from eval_toolkit.rollouts import System, rescore_rollouts, run_rollouts
from eval_toolkit.rollouts.scorers import load_scorer
from eval_toolkit.runs import Run, drive, rescore
from eval_toolkit.runs import units as stored_units
from eval_toolkit.runs.kind_display import BUILT_IN_KINDS
from eval_toolkit.runs.kinds import Kind
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.runs.units import Unit

STORED = Path(__file__).resolve().parents[2] / "fixtures" / "first_edition" / "runs"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of today, and one of the first edition."""
    folder = tmp_path_factory.mktemp("runs")
    asked.rolled(folder / "rollouts", asked.fragile)
    asked.branched(folder / "tree")
    asked.attempts(folder / "task", asked.modest)
    asked.chosen(folder / "choices")
    asked.judged(folder / "judged")
    shutil.copytree(STORED / "rollouts-a", folder / "first-edition")
    return folder


def seen(cell: Any) -> Any:
    """Return value and interval of a stored cell, without digits that differ between processors."""
    ci = cell.get("ci") or {}
    numbers = (cell["value"], ci.get("ci_low"), ci.get("ci_high"))
    return *(None if one is None else float(f"{one:.10g}") for one in numbers), ci.get("method")


def whole(run: Any) -> Mapping[str, Any]:
    """Return the cells of the only system on the only slice."""
    (entry,) = run.results["by_slice"].values()
    (block,) = entry["by_scorer"].values()
    return {name: cell for name, cell in block.items() if isinstance(cell, dict)}


NAMES = ("rollouts", "tree", "task", "choices", "judged", "first-edition")


class TestColumns:
    @pytest.mark.parametrize("name", NAMES)
    def test_the_interval_of_a_column_is_that_of_the_run(self, name: str, runs: Path) -> None:
        run = Run.open(runs / name)
        own = whole(run)
        columns = [name for name in run.records(*run.subjects[0]).numbers if name in own]
        assert columns
        again = whole(rescore(run, metrics=columns))
        assert {n: seen(again[n]) for n in columns} == {n: seen(own[n]) for n in columns}

    def test_failures_come_from_the_survival_curve(self, runs: Path) -> None:
        cell = rescore(runs / "first-edition", metrics=["attack_success"]).card["attack_success"]
        assert f"{cell.ci:.3f}" == "0.700 [0.238, 0.995]"

    def test_parts_of_rollouts_are_those_of_the_run(self, runs: Path) -> None:
        run = Run.open(runs / "rollouts")
        done = rescore(run, metrics=["attack_success", "words_mean"], by="category")
        ours, theirs = (one.results["by_slice"]["seeds"]["parts"] for one in (done, run))
        assert ours.keys() == theirs.keys()
        for part, entry in ours.items():
            for system, block in entry["by_scorer"].items():
                for name in ("attack_success", "words_mean"):
                    assert seen(block[name]) == seen(theirs[part]["by_scorer"][system][name])

    def test_a_chosen_method_is_that_of_means(self, runs: Path) -> None:
        how = SummarySpec(method="t")
        done = rescore(runs / "rollouts", metrics=["attack_success"], summary=how)
        assert "censored" not in done.card["attack_success"].details
        assert "censored" in whole(Run.open(runs / "rollouts"))["attack_success"]["details"]

    def test_confidence_and_policy_are_those_of_the_run(self, tmp_path: Path) -> None:
        class Halving(Kind[Any]):
            name = "halving"
            summary = SummarySpec(confidence=0.8, on_error="as_zero")

            def config(self) -> dict[str, Any]:
                return {"system": "half", **self.summary.to_dict()}

            def units(self) -> list[Unit]:
                return [Unit(id=f"u{n:02}", input=n, reference=n) for n in range(30)]

            def respond(self, inputs: list[int]) -> list[int]:
                return [n % 7 for n in inputs]

            def score(self, unit: Unit, output: int) -> dict[str, float]:
                return {"stars": 1.0 + 4.0 / (output and 2)}

            def metrics(self) -> list[Any]:
                return [ms.mean_of("stars", bounds=(0.0, 5.0), higher_is_better=True)]

        done = drive(Halving(), tmp_path / "r", name="halving")
        again = rescore(done.run, metrics=["stars"])
        assert seen(whole(again)["stars"]) == seen(whole(done)["stars"])
        assert done.card["stars"].n_errors == 5
        assert again.card["stars"].ci.confidence == 0.8

    def test_details_that_say_nothing_usable_are_not_believed(self) -> None:
        for details in (
            {"kind": "share", "bounds": [3, 4]},
            {"kind": ["x"], "bounds": 7},
            {"bounds": "ab"},
            {"bounds": [2, 1]},
            {"bounds": [1, 2, 3]},
            {"kind": "bounded", "bounds": [None, 1]},
            {"bounds": [float("nan"), 1.0]},
        ):
            assert stated_bounds(mean_as_stated("x", details, None)) == {"bounds": [None, None]}


class TestFolds:
    @pytest.fixture
    def folded(self, tmp_path: Path) -> Run:
        rng = np.random.default_rng(0)
        label = [n % 2 for n in range(120)]
        score = (0.5 * np.array(label) + rng.normal(0, 0.4, 120)).clip(0.0, 1.0)
        rows = {"x": score.tolist(), "label": label}

        class Given:
            version = "1"

            def predict_proba(self, X: Any) -> Any:
                return np.asarray(X["x"], dtype=float)

        result = evaluate_folded(
            {"m": Given()},
            StratifiedKFoldSplitter(k=4, seed=1),
            EvalSlice("all", rows, feature_col=["x"]),
            run_id="folded",
            seeds=(1, 2),
            reseed_splitter=lambda _, seed: StratifiedKFoldSplitter(k=4, seed=seed),
            fit=False,
        )
        save_run(result, tmp_path / "folded")
        return Run.open(tmp_path / "folded")

    def test_the_mean_over_folds_stays(self, folded: Run, tmp_path: Path) -> None:
        done = rescore(folded, tmp_path / "again", metrics=["pr_auc", "brier"])
        own, again = whole(folded), whole(Run.open(tmp_path / "again"))
        for name in ("pr_auc", "brier"):
            assert seen(again[name]) == seen(own[name])
            assert again[name]["ci"]["method"] == "nadeau-bengio"
        assert done.card["brier"].value == own["brier"]["value"]
        parts = Run.open(tmp_path / "again").results["by_slice"]["test"]["parts"]
        assert parts.keys() == folded.results["by_slice"]["test"]["parts"].keys()

    def test_the_command_keeps_the_means_and_score_pools(self, folded: Run) -> None:
        lead = {}
        for name in ("rescore", "score"):
            out = io.StringIO()
            with redirect_stdout(out), pytest.raises(SystemExit) as caught:
                main([name, str(folded.path), "--metric", "pr_auc"])
            assert caught.value.code in (None, 0)
            lead[name] = out.getvalue()
        assert "means over folds; " in lead["rescore"]
        assert "pooled out-of-fold rows, not means over folds" in lead["score"]
        mean = whole(folded)["pr_auc"]["value"]
        assert f"{mean:.3f}" in lead["rescore"]
        pooled = rescore(folded, metrics=["pr_auc"], pooled=True).card["pr_auc"]
        assert f"{pooled.value:.3f}" in lead["score"]
        assert pooled.value != mean

    def test_it_is_compared_with_its_source_fold_by_fold(self, folded: Run, tmp_path: Path) -> None:
        rescore(folded, tmp_path / "again", metrics=["pr_auc"])
        for pair in ((folded.path, tmp_path / "again"), (tmp_path / "again", folded.path)):
            cell = compare_runs(*pair, metrics=["pr_auc"])["test", "m", "pr_auc"]
            assert (cell.status, cell.delta, cell.n_folds) == ("ok", 0.0, 8)


class TestStoredScores:
    @pytest.mark.parametrize("name", ["rollouts", "tree", "first-edition"])
    def test_without_a_scorer_the_scores_stay(self, name: str, runs: Path, tmp_path: Path) -> None:
        run = Run.open(runs / name)
        done = rescore(run, tmp_path / "again")
        own, again = whole(run), whole(done)
        assert {n: seen(cell) for n, cell in again.items()} == {n: seen(own[n]) for n in own}
        assert done.results["config"]["scored_by"] == run.results["config"]["scored_by"]
        note = f"conversations and scores are from run {run.run_id}; no model was queried"
        assert note in done.notes
        assert done.n_asked == 0
        compared = compare_runs(run, tmp_path / "again", metrics=["attack_success"])
        assert [cell.delta for cell in compared.cells] == [0.0]

    def test_other_options_count(self, runs: Path) -> None:
        done = rescore_rollouts(runs / "rollouts", asr_at=[1])
        assert "asr@1" in done.card
        assert "asr@2" not in done.card

    def test_a_judge_keeps_its_verdicts(self, tmp_path: Path) -> None:
        judge = load_scorer("judge:harmfulness@scripted:yes")
        system = System(["Please."], ["You fool."], judge)
        done = run_rollouts(system, ["Do it", "Do that"], tmp_path / "r", depth=1)
        again = rescore(done.run, tmp_path / "again")
        assert again.judges.keys() == done.judges.keys() != set()
        assert again.results["by_slice"] == done.results["by_slice"]
        assert sum(told["n_asked"] for told in again.judges.values()) == 0

    def test_a_refusal_alone_is_refused_in_one_line(self, runs: Path) -> None:
        with pytest.raises(InvalidInputError, match="`refusal` is passed without `scorer`") as it:
            rescore(runs / "rollouts", refusal=False)
        assert "\n" not in str(it.value)


class TestUnits:
    def test_the_table_of_units_is_made_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = {"id": [f"r{n}" for n in range(20)], "label": [0, 1] * 10, "score": [0.2, 0.8] * 10}
        done = score_predictions(rows, ["roc_auc"], out=tmp_path / "r")
        monkeypatch.setattr(stored_units, "units_table", lambda *given: pytest.fail("made again"))
        again = rescore(done.run, tmp_path / "again", metrics=["brier"])
        name = "units.parquet"
        assert (again.run.path / name).read_bytes() == (done.run.path / name).read_bytes()

    def test_what_the_manifest_says_of_units_stays(self, runs: Path, tmp_path: Path) -> None:
        run = Run.open(runs / "task")
        again = rescore(run, tmp_path / "again", metrics=["f1"])
        assert run.manifest["units"]["max_chars"]
        assert again.run.manifest["units"] == run.manifest["units"]


def test_one_table_has_what_shows_and_what_rescores_each_kind() -> None:
    from eval_toolkit.plugins import TYPED, load_plugin

    for name, classes in BUILT_IN_KINDS.items():
        for place in classes:
            found = load_plugin("kinds", name, {name: place}, origin=TYPED)
            assert Kind in found.__mro__
        assert "stored" in vars(found)
