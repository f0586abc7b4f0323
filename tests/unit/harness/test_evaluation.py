"""`evaluate` and `evaluate_scorer_on_slice`: cells, policies, thresholds, skips and failures."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as ops
from eval_toolkit.artifacts import validate_results
from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    LeakageError,
    MissingColumnError,
)
from eval_toolkit.harness import evaluate, evaluate_scorer_on_slice
from eval_toolkit.leakage import ExactDuplicateCheck, LeakageFinding
from eval_toolkit.slices import EvalSlice
from eval_toolkit.thresholds import MaxF1Selector, TargetPrecisionSelector
from eval_toolkit.thresholds.operating_points import OperatingPointSpec


class Told:
    """A scorer that reads its score off the input: ``"0.25|anything"``."""

    version = "told-1"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def predict_proba(self, X: Any) -> Any:
        self.calls.append(len(X))
        return np.array([float(text.split("|")[0]) for text in X])


class Raises(Told):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def predict_proba(self, X: Any) -> Any:
        raise self.error


class Returns(Told):
    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self.make = make

    def predict_proba(self, X: Any) -> Any:
        return self.make(len(X))


def rows(n: int = 60, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    label = np.tile([0, 1], n // 2)
    score = np.clip(0.35 + 0.3 * label + rng.normal(0, 0.2, len(label)), 0, 1).round(3)
    return {
        "text": [f"{value}|row {i}" for i, value in enumerate(score)],
        "label": label.tolist(),
        "source": ["web" if i % 3 else "mail" for i in range(len(label))],
        "author": [f"a{i // 2}" for i in range(len(label))],
        "key": [f"k{i:03d}" for i in range(len(label))],
    }


def part(name: str = "test", n: int = 60, seed: int = 0, **roles: Any) -> EvalSlice:
    return EvalSlice(name, rows(n, seed), **roles)


def run(scorer: Any = None, slices: Any = None, **options: Any) -> Any:
    options = {"run_id": "r", "n_resamples": 50, **options}
    return evaluate({"m": scorer or Told()}, [part()] if slices is None else slices, **options)


def block(result: Any, slice_name: str = "test", scorer: str = "m") -> dict[str, Any]:
    found: dict[str, Any] = result.by_slice[slice_name]["by_scorer"][scorer]
    return found


class TestCells:
    def test_a_cell_for_every_default_metric(self) -> None:
        found = block(run())
        for name in ("pr_auc", "roc_auc", "brier", "log_loss"):
            assert found[name]["status"] == "ok"
            assert found[name]["ci"]["ci_low"] <= found[name]["ci"]["ci_high"]
            assert found[name]["n_units"] == 60
        assert (found["n"], found["n_positive"], found["is_single_class"]) == (60, 30, False)
        assert found["headline"]["roc_auc"] == pytest.approx(found["roc_auc"]["value"])

    def test_the_payload_satisfies_its_schema(self) -> None:
        pytest.importorskip("jsonschema")
        scorers = {"m": Told(), "bad": Raises(RuntimeError("no"))}
        result = evaluate(
            scorers,
            [part(strata_col="source"), part("val", seed=1), part("empty", n=0)],
            run_id="r",
            n_resamples=30,
            paired_diffs=[("m", "bad")],
            on_scorer_error="record",
            thresholds=MaxF1Selector(),
            threshold_slice="val",
            operating_point_specs=[OperatingPointSpec("val", ["test"], [MaxF1Selector()])],
        )
        validate_results(result.to_dict())

    def test_metrics_can_be_chosen(self) -> None:
        found = block(run(metrics=[ms.roc_auc, ops.op_recall(0.5)], confidence=0.9))
        assert "pr_auc" not in found
        assert found["op_recall_at_0.5"]["ci"]["confidence"] == 0.9

    def test_a_metric_may_not_take_a_key_of_the_block(self) -> None:
        class Named:
            name = "scores"

            def compute(self, y_true: Any, y_score: Any) -> float:
                return 0.0

        with pytest.raises(
            InvalidInputError, match="`metrics` contains a metric named 'scores', which is reserved"
        ):
            run(metrics=[Named()])

    def test_one_class_gives_skipped_cells(self) -> None:
        data = rows()
        data["label"] = [1] * 60
        found = block(run(slices=[EvalSlice("test", data)]))
        assert found["pr_auc"]["status"] == "skipped"
        assert found["brier"]["status"] == "ok"
        assert found["is_single_class"]

    def test_few_rows_give_a_value_and_the_reason_for_no_interval(self) -> None:
        cells = block(run(slices=[part(n=4)]))
        cell = cells["pr_auc"]
        assert cell["status"] == "ok"
        assert "ci" not in cell
        assert re.fullmatch(
            r"no interval: 2 (posi|nega)tive rows; an interval for pr_auc needs at least 3 of each class",
            cell["reason"],
        )

    def test_an_empty_slice_has_its_row(self) -> None:
        result = run(slices=[part(n=0)])
        assert block(result)["pr_auc"]["reason"] == "the slice has no rows"
        assert (block(result)["n"], block(result)["scores"]) == (0, [])
        assert len(result.records["test", "m"]) == 0

    def test_groups_are_resampled(self) -> None:
        cell = block(run(slices=[part(group_col="author")]))["pr_auc"]
        assert (cell["n_units"], cell["n_groups"]) == (60, 30)
        assert "group" in cell["ci"]["method"]

    def test_strata_have_cells_of_their_own(self) -> None:
        result = run(slices=[part(strata_col="source")])
        parts = result.by_slice["test"]["parts"]
        sizes = {name: entry["n"] for name, entry in parts.items()}
        assert sizes == {"source=mail": 20, "source=web": 40}
        data = rows()
        alone = run(
            slices=[
                EvalSlice("test", data).take([i for i in range(60) if data["source"][i] == "web"])
            ]
        )
        web = parts["source=web"]["by_scorer"]["m"]
        assert web["roc_auc"]["value"] == pytest.approx(block(alone)["roc_auc"]["value"])
        assert result["roc_auc @ source=web"].value == web["roc_auc"]["value"]

    @pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT")])
    def test_rows_without_a_stratum_are_the_part_unlabeled(self, missing: Any) -> None:
        data = rows()
        data["source"] = ["web"] * 50 + [missing] * 10
        result = run(slices=[EvalSlice("test", data, strata_col="source")])
        parts = result.by_slice["test"]["parts"]
        sizes = {name: entry["n"] for name, entry in parts.items()}
        assert sizes == {"source=unlabeled": 10, "source=web": 50}
        recall = block(result)["headline"]["per_stratum_recall_at_max_f1"]
        assert sorted(recall) == ["unlabeled", "web"]

    def test_a_missing_group_is_refused_before_anything_is_scored(self) -> None:
        data = rows()
        data["author"][7] = None
        scorer = Told()
        slice_ = EvalSlice("test", data, group_col="author")
        message = r"slice 'test': author\[7\] is missing; every row needs a group"
        with pytest.raises(InvalidInputError, match=message):
            run(scorer, [slice_])
        with pytest.raises(InvalidInputError, match=message):
            evaluate_scorer_on_slice(scorer, slice_)
        assert scorer.calls == []

    def test_groups_and_parts_are_one_per_row(self) -> None:
        class Plain:
            name = "plain"
            y_true = np.array([0, 1] * 20)
            features = ["0.5|x"] * 40
            strata = np.array(["a"] * 39)

        with pytest.raises(InvalidInputError, match="40 labels but 39 values in 'stratum'"):
            run(slices=[Plain()])

    def test_a_scorer_without_scores_has_its_row_in_the_strata(self) -> None:
        result = run(
            Raises(RuntimeError("no")),
            [part(strata_col="source")],
            on_scorer_error="record",
        )
        entry = result.by_slice["test"]["parts"]["source=web"]["by_scorer"]["m"]
        assert entry["error"] == "RuntimeError: no"

    def test_scores_are_in_the_order_of_the_rows_and_of_the_ids(self) -> None:
        slice_ = part(id_col="key")
        entry = run(slices=[slice_]).by_slice["test"]
        assert entry["unit_ids"] == rows()["key"]
        assert entry["by_scorer"]["m"]["scores"] == [
            float(text.split("|")[0]) for text in slice_.features
        ]

    def test_equal_rows_are_known_by_the_ids_of_their_slice(self) -> None:
        data = {"text": ["0.5|same"] * 12, "label": [1] * 12, "note": list("lkjihgfedcba")}
        slice_ = EvalSlice("test", data)
        assert slice_.unit_ids[-1] == slice_.content_hashes[0][:16]
        assert run(slices=[slice_]).by_slice["test"]["unit_ids"] == slice_.unit_ids

    def test_config(self) -> None:
        config = run(extra_config={"note": "x"}, seed=7).config
        assert config["scorers"] == ["m"]
        assert config["slices"] == ["test"]
        assert (config["seed"], config["n_resamples"], config["note"]) == (7, 50, "x")
        with pytest.raises(InvalidInputError, match="the key 'seed', which is reserved"):
            run(extra_config={"seed": 1})
        with pytest.raises(InvalidTypeError, match="`extra_config` is 3; it must be a dict"):
            run(extra_config=3)

    def test_seed_and_rng_are_one_argument(self) -> None:
        assert run(seed=3).to_dict() == run(rng=3).to_dict()
        with pytest.raises(InvalidInputError, match="not both"):
            run(seed=3, rng=3)

    def test_an_executor_changes_nothing(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(2) as pool:
            assert run(executor=pool).to_dict() == run().to_dict()

    def test_versions_are_collected(self) -> None:
        class Metric:
            name, version = "mine", "m-7"

            def compute(self, y_true: Any, y_score: Any) -> float:
                return 0.5

        result = run(metrics=[Metric()], leakage_checks=[ExactDuplicateCheck()])
        assert result.versions["scorer:m"] == "told-1"
        assert result.versions["metric:mine"] == "m-7"
        assert result.versions["check:ExactDuplicateCheck"]


class TestInput:
    def test_a_folds_dict(self) -> None:
        fold = {"train": part("train"), "test": part("test", seed=1)}
        assert list(run(slices=fold).by_slice) == ["train", "test"]
        assert list(run(slices=fold, eval_split_names=("test",)).by_slice) == ["test"]

    def test_the_key_is_the_name(self) -> None:
        result = run(slices={"holdout": part("something")})
        assert list(result.by_slice) == ["holdout"]

    def test_any_object_with_labels_and_features(self) -> None:
        class Plain:
            name = "plain"
            y_true = np.array([0, 1] * 20)
            features = tuple(f"{0.2 + 0.6 * (i % 2)}|{i}" for i in range(40))
            strata = None

        assert block(run(slices=[Plain()]), "plain")["roc_auc"]["value"] == 1.0

    def test_features_of_an_object_may_be_an_array(self) -> None:
        class Plain:
            name = "plain"
            y_true = np.array([0, 1] * 20)
            features = np.tile([[0.2], [0.8]], (20, 1))
            strata = None

        class First:
            def predict_proba(self, X: Any) -> Any:
                return X[:, 0]

        result = run(First(), [Plain()], batch_size=7)
        assert block(result, "plain")["roc_auc"]["value"] == 1.0

    @pytest.mark.parametrize(
        ("slices", "error", "message"),
        [
            ([], InvalidInputError, "`slices` is empty"),
            ([part(), part()], InvalidInputError, "two slices have the name 'test'"),
            ([object()], InvalidTypeError, r"slices\[0\] is a object; a slice must have"),
            ({"a": 3}, InvalidTypeError, r"slices\['a'\] is a int; a slice must have"),
            (3, InvalidTypeError, "`slices` is 3; it must be a list or a dict"),
        ],
    )
    def test_bad_slices(self, slices: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            run(slices=slices)

    def test_a_slice_alone(self) -> None:
        with pytest.raises(
            InvalidTypeError, match=r"a single slice, 'test'; pass a list: \[slice_"
        ):
            run(slices=part())

    @pytest.mark.parametrize(
        ("scorers", "error", "message"),
        [
            ({}, InvalidInputError, "`scorers` is empty"),
            (Told(), InvalidTypeError, "`scorers` is a Told; it must map names to scorers"),
            ({"": Told()}, InvalidInputError, "`scorers` has the name ''"),
            ({"m": 3}, InvalidTypeError, r"scorers\['m'\] is a int without predict_proba"),
            ({"m": Told}, InvalidTypeError, "is the class Told; pass an instance"),
        ],
    )
    def test_bad_scorers(self, scorers: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            evaluate(scorers, [part()], run_id="r")

    def test_bad_options(self) -> None:
        for options, message in (
            ({"n_resamples": -1}, "`n_resamples` is -1"),
            ({"confidence": 1.0}, "`confidence` is 1.0"),
            ({"batch_size": 0}, "`batch_size` is 0"),
            ({"on_leakage": "ignore"}, "`on_leakage` is 'ignore'"),
            ({"on_scorer_error": "ignore"}, "`on_scorer_error` is 'ignore'"),
            ({"run_id": ""}, "`run_id` is ''"),
            ({"eval_split_names": []}, "`eval_split_names` is empty"),
            ({"eval_split_names": ["tset"]}, "no slice 'tset'; the slices are 'test'"),
            ({"progress": 3}, "`progress` is 3"),
            ({"cache": 3}, "`cache` is a int"),
            ({"precomputed_scores": {("test", "x"): []}}, r"the key \('test', 'x'\)"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                run(**options)

    def test_a_fitted_scikit_learn_model_as_it_is(self) -> None:
        linear_model = pytest.importorskip("sklearn.linear_model")
        x = np.linspace(0, 1, 40)
        data = {"x": x, "label": (np.arange(40) % 4 > 1).astype(int)}
        slice_ = EvalSlice("test", {"x": list(x[:, None]), "label": data["label"]}, feature_col="x")
        model = linear_model.LogisticRegression().fit(x[:, None], data["label"])
        found = block(run(model, [slice_]))
        assert found["scores"] == pytest.approx(model.predict_proba(x[:, None])[:, 1])
        version = run(model, [slice_]).versions["scorer:m"]
        assert "LogisticRegression" in version

    def test_a_model_that_knows_one_class_is_read_by_its_classes(self) -> None:
        # Two columns or one: the position says nothing, `classes_` does.
        naive_bayes = pytest.importorskip("sklearn.naive_bayes")
        model = naive_bayes.GaussianNB().fit([[0.0], [1.0]], [0, 0])
        slice_ = EvalSlice("test", {"x": [[0.0], [1.0]], "label": [0, 1]}, feature_col="x")
        with pytest.raises(InvalidInputError, match="which do not include 1"):
            run(model, [slice_])


class TestScorerOutput:
    def test_two_columns(self) -> None:
        found = block(run(Returns(lambda n: np.tile([0.3, 0.7], (n, 1)))))
        assert set(found["scores"]) == {0.7}

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda n: np.zeros(n - 1), r"scorer 'm' returned shape \(59,\) for 60 rows"),
            (lambda n: np.zeros((n, 3)), r"returned shape \(60, 3\)"),
            (lambda n: np.full(n, 1.5), r"score\[0\] is 1.5; scores must be finite"),
            (lambda n: np.full(n, np.nan), r"score\[0\] is nan"),
            (lambda n: ["high"] * n, "scores must be numbers"),
        ],
    )
    def test_bad_output_follows_the_policy(self, make: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message) as caught:
            run(Returns(make))
        assert "while scoring slice 'test' with scorer 'm'" in caught.value.__notes__
        result = run(Returns(make), on_scorer_error="record")
        assert block(result)["exc_type"] == "InvalidInputError"

    def test_a_failure_is_recorded(self) -> None:
        slices = [part(), part("other", seed=1)]
        result = run(Raises(RuntimeError("quota")), slices, on_scorer_error="record")
        found = block(result)
        assert found["error"] == "RuntimeError: quota"
        assert found["error_state"]["status"] == "error"
        assert found["exc_type"] == "RuntimeError"
        assert "quota" in found["traceback"]
        files = re.findall(r'File "(.*)", line \d+', found["traceback"])
        assert Path(__file__).name in files, "the scorer's file and line are told"
        assert not any("/" in name or "\\" in name for name in files), "and not where it lies"
        assert (found["n"], found["n_positive"], found["scores"]) == (60, 30, [])
        records = result.records["test", "m"]
        assert set(records.status["score"]) == {"error"}
        assert set(records.reason["score"]) == {"RuntimeError: quota"}

    @pytest.mark.parametrize("error", [MemoryError(), AssertionError("stop"), KeyboardInterrupt()])
    def test_some_errors_always_propagate(self, error: BaseException) -> None:
        with pytest.raises(type(error)):
            run(Raises(error), on_scorer_error="record")

    def test_the_hook_is_honoured(self) -> None:
        class Choosy(Told):
            def should_score_slice(self, slice_name: str) -> bool:
                return slice_name == "test"

        scorer = Choosy()
        result = run(scorer, [part(), part("ood", n=40)])
        assert scorer.calls == [60]
        found = block(result, "ood")
        assert found == {
            "skipped": "the scorer declined this slice (should_score_slice returned False)",
            "n": 40,
            "n_positive": 20,
            "scores": [],
        }
        assert list(result.records) == [("test", "m")]

    def test_the_hook_must_return_a_bool(self) -> None:
        class Vague(Told):
            def should_score_slice(self, slice_name: str) -> Any:
                return "yes"

        with pytest.raises(TypeError, match="returned 'yes'; it must return True or False"):
            run(Vague(), on_scorer_error="record")


class TestPaired:
    class Worse(Told):
        def predict_proba(self, X: Any) -> Any:
            return np.abs(super().predict_proba(X) - 0.4)

    def diffs(self, **options: Any) -> dict[str, Any]:
        scorers = {"a": self.Worse(), "b": Told(), "broken": Raises(RuntimeError("no"))}
        options = {"slices": [part()], "paired_diffs": [("a", "b"), ("a", "broken")], **options}
        result = evaluate(scorers, run_id="r", n_resamples=50, on_scorer_error="record", **options)
        found: dict[str, Any] = result.by_slice["test"]["paired_diffs"]
        return found

    def test_without_intervals(self) -> None:
        """``n_resamples=0``: values alone, in slices, parts, folds' means and differences."""
        scorers = {"a": self.Worse(), "b": Told()}
        slices = [part(strata_col="source")]
        options: dict[str, Any] = {"run_id": "r", "paired_diffs": [("a", "b")]}
        found = evaluate(scorers, slices, n_resamples=0, **options)
        usual = evaluate(scorers, slices, n_resamples=50, **options)
        validate_results(found.to_dict())
        for theirs, ours in zip(
            [usual.by_slice["test"], *usual.by_slice["test"]["parts"].values()],
            [found.by_slice["test"], *found.by_slice["test"]["parts"].values()],
            strict=True,
        ):
            for name in ("pr_auc", "roc_auc", "brier", "log_loss"):
                cell = ours["by_scorer"]["b"][name]
                assert cell["value"] == theirs["by_scorer"]["b"][name]["value"]
                assert "ci" not in cell
        diff = found.by_slice["test"]["paired_diffs"]["b_minus_a"]
        assert diff == {"skipped": "no interval requested (`n_resamples` is 0)"}
        block = evaluate_scorer_on_slice(Told(), part(), n_resamples=0)
        assert "ci" not in block["pr_auc"]

    def test_b_minus_a(self) -> None:
        diff = self.diffs()["b_minus_a"]
        assert diff["delta"] > 0
        assert diff["metric"] == "pr_auc"
        assert diff["mde_at_80_power"] > 0

    def test_another_metric(self) -> None:
        assert self.diffs(paired_metric=ms.brier)["b_minus_a"]["metric"] == "brier"

    def test_groups_count(self) -> None:
        diff = self.diffs(slices=[part(group_col="author")])["b_minus_a"]
        assert "group" in diff["method"]

    def test_what_cannot_be_compared_says_why(self) -> None:
        assert self.diffs()["broken_minus_a"] == {"skipped": "RuntimeError: no"}
        assert "at least 10" in self.diffs(slices=[part(n=8)])["b_minus_a"]["skipped"]
        assert self.diffs(slices=[part(n=0)])["b_minus_a"]["skipped"] == "the slice has no rows"
        data = rows()
        data["label"] = [0] * 60
        one_class = self.diffs(slices=[EvalSlice("test", data)])["b_minus_a"]
        assert "undefined" in one_class["skipped"]

    def test_a_scorer_against_its_equal(self) -> None:
        result = evaluate(
            {"a": Told(), "b": Told()},
            [part()],
            run_id="r",
            n_resamples=50,
            paired_diffs=[("a", "b")],
        )
        diff = result.by_slice["test"]["paired_diffs"]["b_minus_a"]
        assert diff["delta"] == 0.0
        # Equal scores do not show equal scorers: 2.8 standard errors of the interval.
        se = (diff["ci_high"] - diff["ci_low"]) / (2 * 1.959964)
        assert diff["mde_at_80_power"] == pytest.approx((1.959964 + 0.841621) * se, rel=1e-5)
        assert diff["ci_low"] < 0.0 < diff["ci_high"]

    def test_unknown_names_are_errors(self) -> None:
        with pytest.raises(MissingColumnError, match=r"paired_diffs\[0\]: no scorer 'x'"):
            run(paired_diffs=[("m", "x")])
        with pytest.raises(InvalidInputError, match="compares 'm' with itself"):
            run(paired_diffs=[("m", "m")])
        with pytest.raises(InvalidInputError, match=r"is 'ab'; it must be a pair \(a, b\)"):
            run(paired_diffs=["ab"])
        with pytest.raises(InvalidTypeError, match="`paired_diffs` is 3"):
            run(paired_diffs=3)


class TestLeakage:
    @pytest.fixture
    def leaky(self) -> list[EvalSlice]:
        data = rows(40)
        twice = {name: values + values[:4] for name, values in data.items()}
        return [part("train", seed=5), EvalSlice("test", twice)]

    def test_raise(self, leaky: list[EvalSlice]) -> None:
        check = ExactDuplicateCheck(severity="error")
        with pytest.raises(LeakageError, match="ExactDuplicateCheck"):
            run(slices=leaky, leakage_checks=[check])

    def test_record(self, leaky: list[EvalSlice]) -> None:
        check = ExactDuplicateCheck(severity="error")
        result = run(slices=leaky, leakage_checks=[check], on_leakage="record")
        assert result.config["leakage_report"]["findings"][0]["n_affected"] == 4
        assert result.by_slice["test"]["n"] == 44

    def test_skip_runs_no_check(self, leaky: list[EvalSlice]) -> None:
        class Never:
            name = "never"

            def validate(self, splits: Any) -> Any:
                raise AssertionError("called")

        result = run(slices=leaky, leakage_checks=[Never()], on_leakage="skip")
        assert result.config["on_leakage"] == "skip"
        assert "leakage_report" not in result.config

    def test_bad_checks(self) -> None:
        with pytest.raises(InvalidTypeError, match=r"leakage_checks\[0\] is <class"):
            run(leakage_checks=[ExactDuplicateCheck])
        with pytest.raises(InvalidTypeError, match="it must be a list of checks"):
            run(leakage_checks="exact")

    def test_drop(self, leaky: list[EvalSlice]) -> None:
        check = ExactDuplicateCheck(severity="error")
        result = run(slices=leaky, leakage_checks=[check], on_leakage="drop")
        assert result.by_slice["test"]["n"] == 40
        assert result.config["n_dropped"] == {"train": 0, "test": 4}
        assert result.config["leakage_report"]["findings"][0]["n_affected"] == 0
        before = result.config["leakage_report_before_drop"]
        assert before["findings"][0]["n_affected"] == 4

    def test_dropped_rows_take_their_precomputed_scores_along(self, leaky: list[EvalSlice]) -> None:
        given = np.linspace(0, 1, 44)
        result = run(
            slices=leaky,
            leakage_checks=[ExactDuplicateCheck()],
            on_leakage="drop",
            precomputed_scores={("test", "m"): given},
        )
        assert block(result)["scores"] == given[:40].tolist()
        with pytest.raises(InvalidInputError, match="the slice has 44 rows"):
            run(
                slices=leaky,
                leakage_checks=[ExactDuplicateCheck()],
                on_leakage="drop",
                precomputed_scores={("test", "m"): given[:40]},
            )

    def test_checks_see_slices_that_are_not_reported(self) -> None:
        seen: list[list[str]] = []

        class Looks:
            name = "looks"

            def validate(self, splits: Any) -> LeakageFinding:
                seen.append(list(splits))
                return LeakageFinding("looks", "info", {}, {}, "nothing", 0)

        run(
            slices={"train": part("train"), "test": part()},
            eval_split_names=("test",),
            leakage_checks=[Looks()],
        )
        assert seen == [["train", "test"]]


class TestThresholds:
    def test_chosen_on_one_slice_and_reported_on_others(self) -> None:
        val, test = part("val", seed=1), part("test", seed=2)
        result = run(slices=[val, test], thresholds=MaxF1Selector(), threshold_slice="val")
        chosen = MaxF1Selector().select(
            val.y_true, [float(text.split("|")[0]) for text in val.features]
        )
        cell = block(result)["op_recall_at_max_f1_fitted_on_val"]
        assert cell["details"]["threshold"] == chosen.threshold
        assert cell["details"]["fitted_on_slice"] == "val"
        assert cell["ci"]["method"] == "wilson"
        (entry,) = result.threshold_policy["thresholds"]
        assert entry["threshold"] == chosen.threshold
        assert entry["applied_to_slices"] == ["test"]
        assert (entry["n_fit"], entry["scorer_name"]) == (60, "m")

    def test_never_on_the_rows_it_was_chosen_on(self) -> None:
        result = run(slices=[part("val")], thresholds=MaxF1Selector(), threshold_slice="val")
        cell = block(result, "val")["op_f1_at_max_f1_fitted_on_val"]
        assert (cell["status"], cell["reason"]) == (
            "skipped",
            "the threshold was selected on these rows",
        )

    def test_nor_on_parts_of_them(self) -> None:
        val = part("val", strata_col="source")
        test = part(seed=1, strata_col="source")
        result = run(slices=[val, test], thresholds=MaxF1Selector(), threshold_slice="val")
        name = "op_f1_at_max_f1_fitted_on_val"
        for slice_name, reported in (("val", False), ("test", True)):
            web = result.by_slice[slice_name]["parts"]["source=web"]["by_scorer"]["m"]
            assert (name in web) is reported

    def test_unless_the_metric_says_so(self) -> None:
        spec = ops.op_f1(MaxF1Selector(), ci_policy="fixed")
        cell = block(run(metrics=[spec]))["op_f1_at_max_f1"]
        assert cell["details"]["threshold_source"] == "selected on the evaluated rows"

    def test_the_slice_of_the_choice_need_not_be_reported(self) -> None:
        result = run(
            slices=[part("val", seed=1), part()],
            eval_split_names=["test"],
            thresholds=[MaxF1Selector()],
            threshold_slice="val",
        )
        assert list(result.by_slice) == ["test"]
        assert "op_f1_at_max_f1_fitted_on_val" in block(result)

    def test_a_selector_that_finds_nothing_does_not_stop_the_others(self) -> None:
        class Broken:
            criterion = "broken"

            def select(self, y_true: Any, y_score: Any) -> Any:
                raise ZeroDivisionError("oops")

        data = rows(seed=1)
        data["text"] = ["0.5|same"] * 60  # precision one half at best
        selectors = [TargetPrecisionSelector(0.9), Broken(), MaxF1Selector()]
        result = run(
            slices=[EvalSlice("val", data), part()], thresholds=selectors, threshold_slice="val"
        )
        found = block(result)
        assert found["op_f1_at_max_f1_fitted_on_val"]["status"] == "ok"
        assert found["op_f1_at_precision_0.90_fitted_on_val"]["status"] == "skipped"
        assert found["op_f1_at_broken_fitted_on_val"]["reason"] == "ZeroDivisionError: oops"
        assert len(result.threshold_policy["thresholds"]) == 3

    def test_bad_arguments(self) -> None:
        with pytest.raises(InvalidInputError, match=r"requires `threshold_slice`.* one of 'test'"):
            run(thresholds=MaxF1Selector())
        with pytest.raises(
            MissingColumnError, match="`threshold_slice` is 'x'; the slices are 'test'"
        ):
            run(thresholds=MaxF1Selector(), threshold_slice="x")
        with pytest.raises(InvalidInputError, match="`threshold_slice` requires `thresholds`"):
            run(threshold_slice="test")
        with pytest.raises(InvalidTypeError, match="must be a ThresholdSelector or a list"):
            run(thresholds=0.5, threshold_slice="test")
        with pytest.raises(InvalidInputError, match="have the criterion 'max_f1'"):
            run(thresholds=[MaxF1Selector()] * 2, threshold_slice="test")

    def test_operating_point_specs(self) -> None:
        spec = OperatingPointSpec("val", ["test"], [MaxF1Selector()], name="locked")
        result = run(slices=[part("val", seed=1), part()], operating_point_specs=[spec])
        points = block(result)["transferred_operating_points"]["locked"]["max_f1"]
        assert points["threshold_provenance"]["fitted_on_slice"] == "val"
        assert points["threshold_provenance"]["applied_to_slice"] == "test"
        assert "transferred_operating_points" not in block(result, "val")
        assert result.threshold_policy["thresholds"][0]["spec"] == "locked"

    def test_an_operating_point_is_not_measured_on_the_rows_it_was_chosen_on(self) -> None:
        spec = OperatingPointSpec("test", ["test", "other"], [MaxF1Selector()])
        result = run(slices=[part(), part("other", seed=1)], operating_point_specs=[spec])
        point = block(result)["transferred_operating_points"]["transferred"]["max_f1"]
        assert (point["status"], point["reason"]) == (
            "skipped",
            "the threshold was selected on these rows",
        )
        assert "f1" not in point
        assert (
            "f1" in block(result, "other")["transferred_operating_points"]["transferred"]["max_f1"]
        )
        (entry,) = result.threshold_policy["thresholds"]
        assert entry["applied_to_slices"] == ["other"]

    def test_operating_point_specs_name_what_is_there(self) -> None:
        for spec, message in (
            (OperatingPointSpec("val", ["test"], [MaxF1Selector()]), "no slice 'val'"),
            (OperatingPointSpec("test", ["x"], [MaxF1Selector()]), "no reported slice 'x'"),
            (
                OperatingPointSpec("test", ["test"], [MaxF1Selector()], scorer_names=["q"]),
                "no scorer 'q'; the scorers are 'm'",
            ),
        ):
            with pytest.raises(MissingColumnError, match=message):
                run(operating_point_specs=[spec])


class TestPrecomputed:
    def test_the_scorer_is_not_called(self) -> None:
        given = np.linspace(0, 1, 60)
        result = run(Raises(RuntimeError("called")), precomputed_scores={("test", "m"): given})
        assert block(result)["scores"] == given.tolist()

    def test_wrong_shape(self) -> None:
        with pytest.raises(ValueError, match=r"shape \(3,\) for 60 rows"):
            run(precomputed_scores={("test", "m"): [0, 1, 0]}, on_scorer_error="record")

    def test_equal_rows_are_told_apart_by_their_scores_not_by_position(self) -> None:
        labels, given = [0, 1] * 20, np.linspace(0, 1, 40)
        order = np.random.default_rng(1).permutation(40)
        cells = []
        for at in (np.arange(40), order):
            slice_ = EvalSlice("test", {"text": ["same"] * 40, "label": np.array(labels)[at]})
            result = run(slices=[slice_], precomputed_scores={("test", "m"): given[at]})
            cells.append({k: v for k, v in block(result).items() if k != "scores"})
        assert cells[0] == cells[1]


class TestProgress:
    def test_a_function_is_told(self) -> None:
        told: list[tuple[int, int, str]] = []
        run(batch_size=25, progress=lambda *what: told.append(what))
        assert [done for done, _, _ in told] == [25, 50, 60, 60]
        assert {total for _, total, _ in told} == {60}
        assert told[0][2] == "test / m"

    def test_no_bar_where_there_is_no_terminal(self, capfd: pytest.CaptureFixture[str]) -> None:
        run(progress=True)
        assert capfd.readouterr() == ("", "")

    def test_a_bar_on_a_terminal_goes_to_stderr(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        import sys

        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        run(progress=True)
        assert capsys.readouterr().out == ""


class TestOneOnOne:
    def one(self, scorer: Any = None, **options: Any) -> dict[str, Any]:
        return evaluate_scorer_on_slice(scorer or Told(), part(), n_resamples=50, **options)

    def test_the_block_of_evaluate(self) -> None:
        assert self.one() == block(run())

    def test_extras(self) -> None:
        found = self.one(
            fpr_ladder=[0.01, 0.1], compute_mce=True, attack_style="jailbreak", metrics=[ms.pr_auc]
        )
        assert found["recall_at_fpr_0.1"]["value"] >= found["recall_at_fpr_0.01"]["value"]
        assert found["mce"]["status"] == "ok"
        assert found["mce"]["ci"]["method"] == "norm-ball"
        assert found["attack_style"] == "jailbreak"
        assert "brier" not in found
        assert "brier" in self.one(compute_brier=True, metrics=[ms.pr_auc])

    def test_a_calibrator_repeats_every_cell(self) -> None:
        found = self.one(calibrator=lambda scores: scores**2)
        assert found["roc_auc_calibrated"]["value"] == found["roc_auc"]["value"]
        assert found["brier_calibrated"]["value"] != found["brier"]["value"]
        assert found["scores_calibrated"][0] == pytest.approx(found["scores"][0] ** 2)
        with pytest.raises(InvalidInputError, match="'calibrator' returned shape"):
            self.one(calibrator=lambda scores: scores[:3])

    def test_precomputed_scores_need_no_scorer(self) -> None:
        found = evaluate_scorer_on_slice(
            None,  # type: ignore[arg-type]
            part(),
            n_resamples=20,
            precomputed_scores=np.linspace(0, 1, 60),
        )
        assert found["scores"][-1] == 1.0

    def test_failures_and_skips(self) -> None:
        assert self.one(Raises(ValueError("x")), on_scorer_error="record")["error"] == (
            "ValueError: x"
        )
        with pytest.raises(ValueError, match="x"):
            self.one(Raises(ValueError("x")))
