"""Batches, the score cache, results on disk and runs."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.harness import (
    RunResult,
    ScoreCache,
    evaluate,
    evaluate_folded,
    save_run,
    with_claim_report,
    write_run_result,
)
from eval_toolkit.runs import Run
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedKFoldSplitter


class Counting:
    """Scores by length; counts the inputs it is asked about."""

    version = "1"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def predict_proba(self, X: Any) -> Any:
        self.calls.append(len(X))
        return np.array([len(text) % 10 / 10 for text in X])


def part(name: str = "test", n: int = 40, start: int = 0) -> EvalSlice:
    texts = ["x" * (start + 7 * i % 29) + str(i % 20) for i in range(n)]
    return EvalSlice(name, {"text": texts, "label": [int(i % 3 == 0) for i in range(n)]})


def run(scorer: Any, *slices: EvalSlice, **options: Any) -> RunResult:
    options = {"run_id": "r", "n_resamples": 20, **options}
    return evaluate({"m": scorer}, list(slices) or [part()], **options)


class TestBatches:
    def test_batches_change_nothing(self) -> None:
        scorer = Counting()
        result = run(scorer, batch_size=15)
        assert scorer.calls == [15, 15, 10]
        assert result.to_dict() == run(Counting()).to_dict()

    def test_a_bad_batch_is_named(self) -> None:
        class Late(Counting):
            def predict_proba(self, X: Any) -> Any:
                scores = super().predict_proba(X)
                return scores if len(self.calls) < 3 else scores + 2

        with pytest.raises(InvalidInputError) as caught:
            run(Late(), batch_size=15)
        assert "in the batch that starts at row 30" in caught.value.__notes__

    @pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
    def test_frames_of_features_are_cut(self, library: str) -> None:
        pytest.importorskip(library)
        from eval_toolkit._internal import frames

        columns = {"a": [0.1, 0.9] * 10, "b": [1.0] * 20, "label": [0, 1] * 10}
        slice_ = EvalSlice("test", frames.from_columns(columns, library), feature_col=["a", "b"])

        class OfFrame:
            version = "1"

            def predict_proba(self, X: Any) -> Any:
                return frames.column(X, "a") * frames.column(X, "b")

        whole = run(OfFrame(), slice_)
        assert run(OfFrame(), slice_, batch_size=7).to_dict() == whole.to_dict()
        assert run(OfFrame(), slice_, cache={}).to_dict() == whole.to_dict()


class TestCache:
    def test_each_input_is_scored_once(self) -> None:
        cache: dict[str, float] = {}
        first, second = Counting(), Counting()
        without = run(Counting())
        assert run(first, cache=cache).to_dict() == without.to_dict()
        assert sum(first.calls) == len(set(part().features))
        assert run(second, cache=cache).to_dict() == without.to_dict()
        assert second.calls == []

    def test_another_slice_asks_about_new_inputs_alone(self) -> None:
        cache: dict[str, float] = {}
        run(Counting(), part(n=20), cache=cache)
        scorer = Counting()
        run(scorer, part(n=40), cache=cache)
        new = set(part(n=40).features) - set(part(n=20).features)
        assert sum(scorer.calls) == len(new)

    def test_another_version_starts_anew(self) -> None:
        cache: dict[str, float] = {}
        run(Counting(), cache=cache)
        newer = Counting()
        newer.version = "2"
        run(newer, cache=cache)
        assert newer.calls

    def test_equal_values_under_other_columns_are_other_inputs(self) -> None:
        class First:
            version = "1"

            def predict_proba(self, X: Any) -> Any:
                return np.asarray(X["a"])

        cache: dict[str, float] = {}
        low, high, label = [0.1] * 20, [0.9] * 20, [0, 1] * 10
        for columns in (["a", "b"], ["b", "a"]):
            data = {columns[0]: low, columns[1]: high, "label": label}
            slice_ = EvalSlice("test", data, feature_col=columns)
            scores = run(First(), slice_, cache=cache).by_slice["test"]["by_scorer"]["m"]["scores"]
            assert scores == data["a"]

    def test_two_scorers_of_one_version_do_not_share(self) -> None:
        class Other(Counting):
            def predict_proba(self, X: Any) -> Any:
                return 1 - super().predict_proba(X)

        result = evaluate(
            {"a": Counting(), "b": Other()}, [part()], run_id="r", n_resamples=20, cache={}
        )
        blocks = result.by_slice["test"]["by_scorer"]
        assert blocks["a"]["scores"] != blocks["b"]["scores"]

    def test_a_scorer_without_a_version_is_refused(self) -> None:
        class Plain:
            def predict_proba(self, X: Any) -> Any:
                return [0.5] * len(X)

        with pytest.raises(InvalidInputError, match="scorer 'm' has no `version`; add one"):
            run(Plain(), cache={})

    def test_two_fits_of_one_estimator_do_not_share(self) -> None:
        linear_model = pytest.importorskip("sklearn.linear_model")
        slice_ = EvalSlice("test", {"x": [[0.0], [1.0]] * 8, "label": [0, 1] * 8}, feature_col="x")
        cache: dict[str, float] = {}
        for labels in ([0, 1], [1, 0], [0, 1]):
            model = linear_model.LogisticRegression().fit([[0.0], [1.0]], labels)
            scores = run(model, slice_, cache=cache).by_slice["test"]["by_scorer"]["m"]["scores"]
            assert scores[:2] == model.predict_proba([[0.0], [1.0]])[:, 1].tolist()
        assert len(cache) == 4

    def test_an_estimator_that_cannot_say_what_it_is_made_of_is_refused(self) -> None:
        linear_model = pytest.importorskip("sklearn.linear_model")
        model = linear_model.LogisticRegression().fit([[0.0], [1.0]], [0, 1])
        model.lock_ = threading.Lock()
        slice_ = EvalSlice("test", {"x": [[0.0], [1.0]] * 8, "label": [0, 1] * 8}, feature_col="x")
        with pytest.raises(InvalidInputError, match="scorer 'm' has no `version`"):
            run(model, slice_, cache={})

    def test_inputs_without_an_identity_are_refused(self) -> None:
        class Sized:
            version = "1"

            def predict_proba(self, X: Any) -> Any:
                return [0.5] * len(X)

        slice_ = EvalSlice("test", {"x": [object(), object()], "label": [0, 1]}, feature_col="x")
        with pytest.raises(InvalidTypeError, match="inputs of type object cannot be cached"):
            run(Sized(), slice_, cache={})

    def test_folds_do_not_mix_fitted_scorers(self) -> None:
        class Fits(Counting):
            def fit(self, X: Any, y: Any) -> None:
                self.shift = len("".join(X)) % 97 / 1000

            def predict_proba(self, X: Any) -> Any:
                return super().predict_proba(X) / 2 + self.shift

        def folded(**options: Any) -> RunResult:
            return evaluate_folded(
                {"m": Fits()},
                StratifiedKFoldSplitter(k=3),
                part(),
                run_id="r",
                n_resamples=20,
                seeds=(1, 2),
                **options,
            )

        cache: dict[str, float] = {}
        assert folded(cache=cache).to_dict() == folded().to_dict()
        assert folded(cache=cache).to_dict() == folded().to_dict()


class TestScoreCache:
    def test_a_folder(self, tmp_path: Path) -> None:
        run(Counting(), cache=tmp_path / "scores")
        scorer = Counting()
        result = run(scorer, cache=ScoreCache(tmp_path / "scores"))
        assert scorer.calls == []
        assert result.to_dict() == run(Counting()).to_dict()

    def test_numbers_survive_to_the_last_bit(self, tmp_path: Path) -> None:
        scores = {str(i): float(v) for i, v in enumerate(np.random.default_rng(0).random(100))}
        ScoreCache(tmp_path).update(scores)
        assert dict(ScoreCache(tmp_path)) == scores

    def test_a_torn_line_is_scored_again(self, tmp_path: Path) -> None:
        cache = ScoreCache(tmp_path)
        cache.update({"a": 0.1, "b": 0.2})
        cache.path.write_bytes(cache.path.read_bytes()[:-4])
        torn = ScoreCache(tmp_path)
        assert dict(torn) == {"a": 0.1}
        torn.update({"b": 0.3})
        assert dict(ScoreCache(tmp_path)) == {"a": 0.1, "b": 0.3}

    def test_a_crash_loses_one_batch(self, tmp_path: Path) -> None:
        class Dies(Counting):
            def predict_proba(self, X: Any) -> Any:
                if len(self.calls) == 2:
                    raise ConnectionError("lost")
                return super().predict_proba(X)

        with pytest.raises(ConnectionError):
            run(Dies(), cache=tmp_path, batch_size=10)
        assert len(ScoreCache(tmp_path)) == 20

    def test_what_it_says_of_itself(self, tmp_path: Path) -> None:
        cache = ScoreCache(tmp_path)
        cache.update({})
        assert not cache.path.exists()
        cache.update({"a": 1})
        assert repr(cache) == f"ScoreCache({str(tmp_path)!r}, 1 scores)"
        assert cache["a"] == 1.0


def folded(**options: Any) -> RunResult:
    return evaluate_folded(
        {"m": Counting()},
        StratifiedKFoldSplitter(k=3),
        part(),
        run_id="cv",
        n_resamples=20,
        **options,
    )


def written_of(result):
    """Return what is written of a result: folds are parts of its slices, and written once."""
    return {k: v for k, v in result.to_dict().items() if k not in ("by_fold", "fold_summary")}


class TestResults:
    def test_round_trip(self) -> None:
        for result in (run(Counting()), folded()):
            payload = result.to_dict()
            json.dumps(payload, allow_nan=False)
            assert RunResult.from_dict(payload).to_dict() == payload

    def test_a_result_read_back_is_equal_whatever_its_configuration_holds(self) -> None:
        given = {"sizes": (1, 2), "where": Path("data"), "k": np.int64(3), 7: {"x"}}
        result = run(Counting(), extra_config=given)
        assert result.config["sizes"] == [1, 2]
        for made in (result, with_claim_report(result, {"claims": ("a",)}), folded()):
            assert RunResult.from_dict(made.to_dict()) == made

    def test_what_cannot_be_stored_is_refused_before_the_work(self) -> None:
        scorer = Counting()
        for extra, message in (
            ({1: "a", "1": "b"}, "two keys that become '1'"),
            ({"seeds": 1}, "seed"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                evaluate_folded(
                    {"m": scorer},
                    StratifiedKFoldSplitter(k=3),
                    part(),
                    run_id="r",
                    extra_config=extra,
                )
        assert scorer.calls == []

    def test_from_dict_checks(self) -> None:
        with pytest.raises(ArtifactError, match="has no 'run_id'"):
            RunResult.from_dict({"config": {}})
        with pytest.raises(ArtifactError, match="schema_version is 'v9'"):
            RunResult.from_dict({"run_id": "r", "config": {}, "schema_version": "v9"})
        with pytest.raises(InvalidTypeError, match="it must be a dict"):
            RunResult.from_dict([])  # type: ignore[arg-type]
        old = RunResult.from_dict({"run_id": "r", "config": {}, "new_field": 1})
        assert (old.git_sha, old.by_slice) == (None, {})

    def test_claim_report(self) -> None:
        class Report:
            def to_dict(self) -> dict[str, Any]:
                return {"claims": [], "has_failures": True}

        result = run(Counting())
        assert with_claim_report(result, Report()).claim_report["has_failures"] is True
        assert result.claim_report == {}
        with pytest.raises(InvalidTypeError, match="must be a ClaimReport or a dict"):
            with_claim_report(result, 3)

    def test_compact_results_have_no_scores_anywhere(self, tmp_path: Path) -> None:
        for result in (run(Counting()), folded()):
            compact, full = write_run_result(result, tmp_path / result.run_id)
            assert (compact.name, full.name) == ("results.json", "results_full.json")
            assert '"scores"' not in compact.read_text()
            assert '"unit_ids"' not in compact.read_text()
            assert json.loads(full.read_text()) == written_of(result)

    def test_secrets_are_redacted_as_in_a_run(self, tmp_path: Path) -> None:
        secret = "sk-AbCdEf0123456789" + "ABCDEFGH"

        class Refused(Counting):
            def predict_proba(self, X: Any) -> Any:
                raise RuntimeError(f"401: {secret}")

        result = run(
            Refused(), on_scorer_error="record", extra_config={"api_key": "hunter2", "n": 3}
        )
        paths = write_run_result(result, tmp_path / "files")
        for path in paths:
            assert secret not in path.read_text()
            assert "hunter2" not in path.read_text()
            assert json.loads(path.read_text())["config"]["n"] == 3
        stored = save_run(result, tmp_path / "run")
        assert json.loads(paths[0].read_text()) == stored.results
        assert json.loads(paths[1].read_text()) == stored.results_full

    def test_a_slice_may_be_named_scores(self, tmp_path: Path) -> None:
        result = evaluate({"scores": Counting()}, [part("unit_ids")], run_id="r", n_resamples=20)
        compact, _ = write_run_result(result, tmp_path)
        block = json.loads(compact.read_text())["by_slice"]["unit_ids"]["by_scorer"]["scores"]
        assert block["brier"]["status"] == "ok"
        assert "scores" not in block

    def test_no_result(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidTypeError, match="`result` is a dict; it must be a RunResult"):
            write_run_result({}, tmp_path)  # type: ignore[arg-type]


class TestRuns:
    def test_a_run_read_back_is_the_run_written(self, tmp_path: Path) -> None:
        for result in (run(Counting()), folded(seeds=(1, 2))):
            save_run(result, tmp_path / result.run_id)
            opened = Run.open(tmp_path / result.run_id)
            assert opened.results_full == written_of(result)
            assert RunResult.from_dict(opened.results_full).to_dict() == result.to_dict()
            assert opened.subjects == list(result.records)
            (subject,) = result.records
            stored, made = opened.records(*subject), result.records[subject]
            for name in ("unit_id", "content_hash", "group", "attempt"):
                assert getattr(stored, name).tolist() == getattr(made, name).tolist()
            assert stored.columns["score"].tolist() == made.columns["score"].tolist()

    def test_the_manifest_knows_versions_config_and_seeds(self, tmp_path: Path) -> None:
        class Extra:
            version = "9"

        made = save_run(
            run(Counting(), seed=5),
            tmp_path / "r",
            metadata={"who": "me"},
            versioned={"tokenizer": Extra()},
        )
        assert made.manifest["versioned_objects"]["scorer:m"] == "1"
        assert made.manifest["versioned_objects"]["tokenizer"] == "9"
        assert made.manifest["seeds"] == {"seed_0": 5}
        assert made.manifest["metadata"] == {"who": "me"}
        assert made.manifest["config"]["scorers"] == ["m"]

    def test_a_run_is_not_replaced_by_accident(self, tmp_path: Path) -> None:
        save_run(run(Counting()), tmp_path / "r")
        with pytest.raises(ArtifactError, match="overwrite=True"):
            save_run(run(Counting()), tmp_path / "r")
        save_run(run(Counting()), tmp_path / "r", overwrite=True)

    def test_a_failed_scorer_is_stored_too(self, tmp_path: Path) -> None:
        class Broken(Counting):
            def predict_proba(self, X: Any) -> Any:
                raise OSError("gone")

        made = save_run(run(Broken(), on_scorer_error="record"), tmp_path / "r")
        assert set(made.records("test", "m").status["score"]) == {"error"}
        assert made.results["by_slice"]["test"]["by_scorer"]["m"]["error"] == "OSError: gone"

    def test_equal_runs_give_equal_bytes(self, tmp_path: Path) -> None:
        save_run(run(Counting()), tmp_path / "a")
        save_run(run(Counting(), batch_size=7, cache={}), tmp_path / "b")
        for name in ("results.json", "results_full.json", "records.parquet"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
