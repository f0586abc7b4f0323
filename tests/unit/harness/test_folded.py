"""`evaluate_folded`: fitting, nested thresholds, fold summaries, out-of-fold records."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.artifacts import validate_results
from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    LeakageError,
    MissingColumnError,
)
from eval_toolkit.harness import RunResult, evaluate_folded
from eval_toolkit.harness.scorers import as_scorer
from eval_toolkit.leakage import CrossSplitLeakageCheck, GroupLeakageCheck, LeakageFinding
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import (
    GroupKFoldSplitter,
    HoldoutSplitter,
    StratifiedGroupKFoldSplitter,
    StratifiedKFoldSplitter,
)
from eval_toolkit.thresholds import MaxF1Selector

SEEN: dict[str, list[list[str]]] = {"fit": [], "score": [], "select": []}
"""What the recording scorer and selector saw, call by call."""


@pytest.fixture(autouse=True)
def _forget() -> None:
    for calls in SEEN.values():
        calls.clear()


def parent(n: int = 60, **roles: Any) -> EvalSlice:
    rng = np.random.default_rng(3)
    label = np.tile([0, 1], n // 2)
    score = np.clip(0.35 + 0.3 * label + rng.normal(0, 0.2, n), 0, 1).round(4)
    data = {
        "text": [f"{value}|row {i}" for i, value in enumerate(score)],
        "label": label.tolist(),
        "author": [f"a{i // 4}" for i in range(n)],
        "key": [f"k{i:02d}" for i in range(n)],
    }
    return EvalSlice("all", data, **roles)


class Fixed:
    version = "fixed-1"

    def predict_proba(self, X: Any) -> Any:
        return np.array([float(text.split("|")[0]) for text in X])


class Fits(Fixed):
    """Remembers what it saw; its scores depend on how often it was fitted."""

    version = "fits-1"

    def __init__(self) -> None:
        self.n_fits = 0
        self.shift = 0.0

    def fit(self, X: Any, y: Any) -> None:
        SEEN["fit"].append(list(X))
        self.n_fits += 1
        self.shift = float(np.mean(super().predict_proba(X))) / 10

    def predict_proba(self, X: Any) -> Any:
        SEEN["score"].append(list(X))
        assert self.n_fits == 1
        return np.clip(super().predict_proba(X) + self.shift, 0, 1)


@dataclass(frozen=True)
class Recording:
    criterion: str = "recording"

    def select(self, y_true: Any, y_score: Any) -> Any:
        SEEN["select"].append(
            [f"{label:d}/{score:.6f}" for label, score in zip(y_true, y_score, strict=True)]
        )
        return MaxF1Selector().select(y_true, y_score)


def run(scorer: Any = None, splitter: Any = None, slice_: Any = None, **options: Any) -> Any:
    options = {"run_id": "r", "n_resamples": 20, **options}
    return evaluate_folded(
        {"m": Fixed() if scorer is None else scorer},
        splitter or StratifiedKFoldSplitter(k=5),
        slice_ or parent(),
        **options,
    )


def values(result: Any, metric: str = "roc_auc", split: str = "test") -> list[float]:
    return [
        fold["by_slice"][split]["by_scorer"]["m"][metric]["value"]
        for fold in result.by_fold.values()
    ]


class TestShape:
    def test_keys_and_config(self) -> None:
        result = run()
        assert list(result.by_fold) == [f"fold={i}" for i in range(5)]
        assert list(result.by_slice["test"]["parts"]) == list(result.by_fold)
        assert result.by_slice["test"]["n"] == 60
        assert result.config["n_folds"] == 5
        assert result.config["seeds"] == [42]
        assert result.config["fitted"] == []
        assert result.config["splitter"].startswith("StratifiedKFoldSplitter(k=5")
        fold = result.by_fold["fold=0"]
        assert (fold["seed"], fold["fold"], fold["n_train"]) == (42, 0, 48)

    def test_the_payload_satisfies_its_schema(self) -> None:
        pytest.importorskip("jsonschema")
        result = run(
            Fits(),
            thresholds=MaxF1Selector(),
            leakage_checks=[CrossSplitLeakageCheck()],
            on_leakage="record",
        )
        validate_results(result.to_dict())

    def test_every_metric_is_summarised_unless_told(self) -> None:
        assert "brier" in run().fold_summary["test"]["m"]
        assert list(run(summary_metrics=["pr_auc"]).fold_summary["test"]["m"]) == ["pr_auc"]
        with pytest.raises(
            MissingColumnError, match="`summary_metrics`: no metric 'f1'; the metrics are"
        ):
            run(summary_metrics=["f1"])

    def test_versions(self) -> None:
        versions = run(
            Fits, leakage_checks=[CrossSplitLeakageCheck()], on_leakage="record"
        ).versions
        assert versions["scorer:m"] == "fits-1"
        assert versions["splitter:StratifiedKFoldSplitter"]
        assert versions["check:CrossSplitLeakageCheck"]

    def test_progress_counts_folds(self) -> None:
        told: list[tuple[int, int, str]] = []
        run(progress=lambda *what: told.append(what))
        assert told[0] == (1, 5, "fold=0")
        assert told[-1][:2] == (5, 5)


class TestFitting:
    def test_each_fold_fits_a_copy_on_its_training_part(self) -> None:
        scorer = Fits()
        result = run(scorer)
        assert scorer.n_fits == 0
        assert [len(rows) for rows in SEEN["fit"]] == [48] * 5
        for fitted, scored in zip(SEEN["fit"], SEEN["score"], strict=True):
            assert not set(fitted) & set(scored)
        assert result.config["fitted"] == ["m"]

    def test_a_class_or_a_function_makes_a_new_one_for_each_fold(self) -> None:
        assert values(run(Fits)) == values(run(Fits()))
        assert values(run(lambda: Fits())) == values(run(Fits()))

    def test_fit_false_evaluates_as_it_is(self) -> None:
        scorer = Fits()
        scorer.fit(parent().features, parent().y_true)
        SEEN["fit"].clear()
        run(scorer, fit=False)
        assert SEEN["fit"] == []

    def test_bad_fit(self) -> None:
        with pytest.raises(
            InvalidTypeError, match="a Fixed without a `fit` method, but `fit` is True"
        ):
            run(fit=True)
        with pytest.raises(
            InvalidInputError,
            match="] is a class or function that returns a new scorer, but `fit` is False; pass a fitted scorer",
        ):
            run(Fits, fit=False)
        with pytest.raises(InvalidTypeError, match="`fit` is 'yes'"):
            run(fit="yes")

    def test_an_estimator_forgets_what_it_learnt_before(self) -> None:
        # Labels are noise: no scorer fitted on the training part alone beats 0.5 by much.
        rng = np.random.default_rng(0)
        x, label = rng.normal(size=(80, 3)), np.tile([0, 1], 40)
        noise = EvalSlice("all", {"x": list(x), "label": label}, feature_col="x")
        ensemble = pytest.importorskip("sklearn.ensemble")
        forest = ensemble.RandomForestClassifier(20, warm_start=True, random_state=0)
        forest.fit(x, label)
        for scorer in (forest, as_scorer(forest)):
            found = run(scorer, slice_=noise).fold_summary["test"]["m"]["roc_auc"]["mean"]
            assert 0.2 < found < 0.8
        assert forest.predict_proba(x)[:, 1][label == 1].min() > 0.5

    def test_what_as_scorer_was_told_is_kept(self) -> None:
        linear_model = pytest.importorskip("sklearn.linear_model")

        class Words(linear_model.LogisticRegression):  # type: ignore[misc, name-defined]
            def fit(self, X: Any, y: Any) -> Any:
                return super().fit([[float(t.split("|")[0])] for t in X], np.where(y, "bad", "ok"))

            def predict_proba(self, X: Any) -> Any:
                return super().predict_proba([[float(t.split("|")[0])] for t in X])

        model = Words()
        model.version = "words-3"
        result = run(as_scorer(model, positive="bad"))
        assert result.fold_summary["test"]["m"]["roc_auc"]["mean"] > 0.5
        assert result.versions["scorer:m"].startswith("words-3")

    def test_the_version_of_an_estimator_is_that_of_its_recipe(self) -> None:
        naive_bayes = pytest.importorskip("sklearn.naive_bayes")
        rows = {
            "x": [[float(i % 7)] for i in range(60)],
            "label": [int(i % 7 > 3) for i in range(60)],
        }
        slice_ = EvalSlice("all", rows, feature_col="x")
        recipe = as_scorer(naive_bayes.GaussianNB()).version
        for scorer in (naive_bayes.GaussianNB, naive_bayes.GaussianNB()):
            assert run(scorer, slice_=slice_).versions["scorer:m"] == recipe

    def test_an_estimator_that_cannot_be_cloned_says_so(self) -> None:
        class Odd(Fits):
            def get_params(self, deep: bool = True) -> dict[str, Any]:
                return {"unknown": 1}

        with pytest.raises(
            InvalidTypeError, match=r"scorer 'm' cannot be copied .* pass a function"
        ):
            run(Odd())

    def test_what_cannot_be_copied_says_so(self) -> None:
        import threading

        class Holds(Fits):
            def __init__(self) -> None:
                super().__init__()
                self.lock = threading.Lock()

        with pytest.raises(InvalidTypeError, match=r"cannot be copied .* pass a function"):
            run(Holds())

    def test_a_fold_without_a_training_part(self) -> None:
        class TestOnly:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                for fold in StratifiedKFoldSplitter(k=3).iter_folds(slice_):
                    yield {"test": fold["test"]}

            def get_n_splits(self, slice_: Any) -> int:
                return 3

        assert len(run(splitter=TestOnly()).by_fold) == 3
        with pytest.raises(MissingColumnError, match="the fold has no 'train' part"):
            run(Fits(), TestOnly())

    def test_a_failing_fit_follows_the_policy(self) -> None:
        class FailsOnce(Fits):
            def fit(self, X: Any, y: Any) -> None:
                super().fit(X, y)
                if len(SEEN["fit"]) == 2:
                    raise RuntimeError("diverged")

        with pytest.raises(RuntimeError, match="diverged") as caught:
            run(FailsOnce())
        assert "while fitting scorer 'm'" in caught.value.__notes__
        SEEN["fit"].clear()
        result = run(FailsOnce(), on_scorer_error="record")
        bad = result.by_fold["fold=1"]["by_slice"]["test"]["by_scorer"]["m"]
        assert bad["error"] == "RuntimeError: diverged"
        summary = result.fold_summary["test"]["m"]["roc_auc"]
        assert (summary["n_folds"], summary["n_failed"]) == (4, 1)
        assert summary["failures"] == ["RuntimeError: diverged"]
        assert summary["ci_low"] < summary["mean"] < summary["ci_high"]


class TestSummary:
    def test_students_t_where_folds_share_nothing(self) -> None:
        result = run()
        found = np.array(values(result))
        summary = result.fold_summary["test"]["m"]["roc_auc"]
        # mean ± t_{0.975, 4} · sd / √5, within the metric's bounds
        reach = stats.t.ppf(0.975, 4) * found.std(ddof=1) / math.sqrt(5)
        assert summary["method"] == "cv_t"
        assert summary["mean"] == pytest.approx(found.mean())
        assert summary["ci_low"] == pytest.approx(found.mean() - reach)
        assert summary["ci_high"] == pytest.approx(min(1.0, found.mean() + reach))
        assert summary["sd"] == pytest.approx(found.std(ddof=1))

    def test_nadeau_bengio_where_training_parts_overlap(self) -> None:
        result = run(Fits())
        found = np.array(values(result, "brier"))
        summary = result.fold_summary["test"]["m"]["brier"]
        # the variance of the mean is (1/5 + 12/48) sd²
        reach = stats.t.ppf(0.975, 4) * found.std(ddof=1) * math.sqrt(1 / 5 + 12 / 48)
        assert summary["method"] == "nadeau-bengio"
        assert summary["ci_low"] == pytest.approx(max(0.0, found.mean() - reach))
        assert summary["ci_high"] == pytest.approx(found.mean() + reach)

    def test_two_halves_share_no_training_rows(self) -> None:
        result = run(Fits(), StratifiedKFoldSplitter(k=2))
        assert result.fold_summary["test"]["m"]["brier"]["method"] == "cv_t"

    def test_rows_tested_twice_are_not_independent(self) -> None:
        result = run(seeds=(1, 2))
        assert result.fold_summary["test"]["m"]["brier"]["method"] == "nadeau-bengio"

    def test_equal_rows_of_the_parent_are_different_rows(self) -> None:
        slice_ = parent()
        twice = EvalSlice("all", {k: list(v) * 2 for k, v in slice_.df.items()})
        assert run(slice_=twice).fold_summary["test"]["m"]["brier"]["method"] == "cv_t"

    def test_zero_spread_does_not_raise(self) -> None:
        class Perfect:
            def predict_proba(self, X: Any) -> Any:
                return np.array([int(text.split("row ")[1]) % 2 for text in X], dtype=float)

        summary = run(Perfect()).fold_summary["test"]["m"]["pr_auc"]
        assert (summary["mean"], summary["ci_low"], summary["ci_high"]) == (1.0, 1.0, 1.0)
        assert "zero variance" in summary["reason"]

    def test_a_fold_without_a_value_does_not_void_the_rest(self) -> None:
        class OneClassFold:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                folds = list(StratifiedKFoldSplitter(k=3).iter_folds(slice_))
                positives = np.flatnonzero(slice_.y_true == 1)
                folds.append({"train": slice_, "test": slice_.take(positives, name="test")})
                yield from folds

            def get_n_splits(self, slice_: Any) -> int:
                return 4

        summary = run(splitter=OneClassFold()).fold_summary["test"]["m"]
        assert (summary["roc_auc"]["n_folds"], summary["roc_auc"]["n_failed"]) == (3, 1)
        assert "undefined" in summary["roc_auc"]["failures"][0]
        assert summary["brier"]["n_folds"] == 4

    def test_one_fold_has_a_mean_and_no_interval(self) -> None:
        summary = run(splitter=HoldoutSplitter(0.4)).fold_summary["test"]["m"]["brier"]
        assert "ci_low" not in summary
        assert summary["mean"] > 0
        assert summary["skipped"] == "only one fold has a value; an interval needs at least two"

    def test_a_scorer_that_never_works_still_has_its_row(self) -> None:
        class Broken:
            def predict_proba(self, X: Any) -> Any:
                raise OSError("gone")

        summary = run(Broken(), on_scorer_error="record")
        cell = summary.fold_summary["test"]["m"]["pr_auc"]
        assert (cell["skipped"], cell["n_folds"], cell["n_failed"]) == ("OSError: gone", 0, 5)


class TestSeeds:
    def test_several_seeds_make_different_folds(self) -> None:
        result = run(seeds=(1, 2))
        assert list(result.by_fold)[5] == "seed=2&fold=0"
        first, second = (
            set(result.by_fold[f"seed={seed}&fold=0"]["by_slice"]["test"]["unit_ids"])
            for seed in (1, 2)
        )
        assert first != second

    def test_one_seed_leaves_the_splitter_alone(self) -> None:
        splitter = StratifiedKFoldSplitter(k=5, seed=7)
        direct = next(iter(splitter.iter_folds(parent())))["test"].features
        result = run(splitter=splitter, slice_=parent(id_col="key"))
        ids = result.by_fold["fold=0"]["by_slice"]["test"]["unit_ids"]
        assert ids == [f"k{int(text.split('row ')[1]):02d}" for text in direct]

    def test_reseed_splitter(self) -> None:
        made: list[int] = []

        def reseed(splitter: Any, seed: int) -> Any:
            made.append(seed)
            return splitter.reseeded(seed)

        run(seeds=(3,), reseed_splitter=reseed)
        assert made == [3]

    def test_a_splitter_without_seeds(self) -> None:
        class Plain:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                yield from StratifiedKFoldSplitter(k=2).iter_folds(slice_)

            def get_n_splits(self, slice_: Any) -> int:
                return 2

        assert len(run(splitter=Plain()).by_fold) == 2
        with pytest.raises(InvalidInputError, match=r"Plain has no reseeded\(seed\)"):
            run(splitter=Plain(), seeds=(1, 2))

    def test_bad_seeds(self) -> None:
        for seeds in ((), (1, 1)):
            with pytest.raises(InvalidInputError, match="must contain at least one seed"):
                run(seeds=seeds)
        with pytest.raises(InvalidTypeError, match="`seeds` is 42; it must be a sequence"):
            run(seeds=42)

    def test_what_is_split_must_be_a_slice(self) -> None:
        with pytest.raises(InvalidTypeError, match="`slice_` is a list; it must be a slice"):
            run(slice_=[1, 2])

    def test_bad_splitters(self) -> None:
        with pytest.raises(InvalidTypeError, match="it must have iter_folds"):
            run(splitter=StratifiedKFoldSplitter)

        class Nothing:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                yield from ()

            def get_n_splits(self, slice_: Any) -> int:
                return 0

        with pytest.raises(InvalidInputError, match="Nothing yielded no folds"):
            run(splitter=Nothing())

    def test_groups_reach_the_splitter(self) -> None:
        groups = parent().df["author"]
        result = run(splitter=GroupKFoldSplitter(k=3), groups=groups)
        assert len(result.by_fold) == 3


class TestGroups:
    """The groups that made the folds are the groups of the intervals."""

    def cells(self, splitter: Any, slice_: EvalSlice, **options: Any) -> list[dict[str, Any]]:
        result = run(splitter=splitter, slice_=slice_, n_resamples=100, **options)
        return [
            fold["by_slice"]["test"]["by_scorer"]["m"]["roc_auc"]
            for fold in result.by_fold.values()
        ]

    def test_a_splitters_column_and_an_argument_count_like_the_slices_own(self) -> None:
        own = self.cells(GroupKFoldSplitter(k=3), parent(group_col="author"))
        assert [cell["n_groups"] for cell in own] == [5, 5, 5]
        assert self.cells(GroupKFoldSplitter(k=3, group_col="author"), parent()) == own
        passed = parent().df["author"]
        assert self.cells(GroupKFoldSplitter(k=3), parent(), groups=passed) == own

    @pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "columns"])
    def test_an_argument_works_for_every_frame(self, library: str) -> None:
        from eval_toolkit._internal import frames

        if library != "columns":
            pytest.importorskip(library)
        columns = {**parent().df, "groups": ["taken"] * 60}
        frame = frames.from_columns(columns, library)
        for groups in (columns["author"], np.repeat(np.arange(15), 4)):
            cells = self.cells(GroupKFoldSplitter(k=3), EvalSlice("all", frame), groups=groups)
            assert [cell["n_groups"] for cell in cells] == [5, 5, 5]
        assert frames.names(frame) == list(columns)

    def test_an_argument_goes_before_the_splitters_column(self) -> None:
        pairs = np.repeat(np.arange(30), 2)
        splitter = GroupKFoldSplitter(k=3, group_col="author")
        cells = self.cells(splitter, parent(), groups=pairs)
        assert [cell["n_groups"] for cell in cells] == [10, 10, 10]

    def test_records_carry_them(self) -> None:
        splitter = GroupKFoldSplitter(k=3, group_col="author")
        records = run(splitter=splitter).records["test", "m"]
        assert sorted(set(records.group)) == sorted(set(parent().df["author"]))

    def test_bad_groups(self) -> None:
        for groups, message in (
            (["a"] * 59, "`groups` has 59 rows but the data has 60"),
            ([None] * 60, r"groups\[0\] is missing"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                run(splitter=GroupKFoldSplitter(k=3), groups=groups)

    def test_a_missing_group_is_refused_before_anything_is_fitted(self) -> None:
        slice_ = parent()
        slice_.df["author"][3] = None
        bad = EvalSlice("all", slice_.df, group_col="author")
        with pytest.raises(InvalidInputError, match=r"slice 'all': author\[3\] is missing"):
            run(Fits(), slice_=bad)
        assert SEEN["fit"] == []

    @pytest.mark.parametrize("column", [None, "key"])
    def test_nested_thresholds_keep_the_groups_together(self, column: str | None) -> None:
        # With a column of its own the splitter still has to be told: the argument goes first.
        author = dict(zip(parent().features, parent().df["author"], strict=True))
        run(
            Fits(),
            GroupKFoldSplitter(k=3, group_col=column),
            groups=parent().df["author"],
            thresholds=Recording(),
        )
        assert [len(call) for call in SEEN["select"]] == [40, 40, 40]
        for fold in range(3):  # fits on its training part and inside it, scores inside and then out
            outer, *inner = SEEN["fit"][fold * 4 : fold * 4 + 4]
            scored = SEEN["score"][fold * 4 : fold * 4 + 4]
            for fitted, held_out in zip([*inner, outer], scored, strict=True):
                assert not {author[text] for text in fitted} & {author[text] for text in held_out}


class TestLeakage:
    def test_checks_see_the_whole_fold(self) -> None:
        seen: list[list[str]] = []

        class Looks:
            name = "looks"

            def validate(self, splits: Any) -> LeakageFinding:
                seen.append(list(splits))
                return LeakageFinding("looks", "info", {}, {}, "nothing", 0)

        result = run(leakage_checks=[Looks()])
        assert seen == [["train", "test"]] * 5
        assert list(result.fold_summary) == ["test"]

    def test_a_group_in_both_parts_is_found(self) -> None:
        check = GroupLeakageCheck("author")
        with pytest.raises(LeakageError, match="GroupLeakageCheck") as caught:
            run(leakage_checks=[check])
        assert "in fold=0" in caught.value.__notes__
        slice_ = parent(group_col="author")
        clean = run(
            splitter=StratifiedGroupKFoldSplitter(k=3), slice_=slice_, leakage_checks=[check]
        )
        assert len(clean.by_fold) == 3

    def test_drop_inside_folds(self) -> None:
        slice_ = parent()
        twice = EvalSlice("all", {k: [*v, *v[:6]] for k, v in slice_.df.items()})
        check = CrossSplitLeakageCheck(threshold=0.99)
        result = run(slice_=twice, leakage_checks=[check], on_leakage="drop")
        dropped = [fold["n_dropped"]["test"] for fold in result.by_fold.values()]
        tested = [fold["by_slice"]["test"]["n"] for fold in result.by_fold.values()]
        assert sum(dropped) > 0
        assert sum(tested) + sum(dropped) == 66


class TestThresholds:
    def test_nested_selection_never_sees_a_test_row(self) -> None:
        result = run(Fits(), thresholds=Recording())
        assert len(SEEN["select"]) == 5
        texts = {text.split("row ")[1]: text for text in parent().features}
        for key, fold in result.by_fold.items():
            number = int(key.rsplit("=", 1)[1])
            # a fold fits once on its training part and five times inside it
            outer = SEEN["fit"][number * 6]
            tested = set(texts.values()) - set(outer)
            assert len(tested) == 12
            for fitted in SEEN["fit"][number * 6 : number * 6 + 6]:
                assert not tested & set(fitted)
            assert len(SEEN["select"][number]) == 48
            (entry,) = fold["threshold_policy"]["thresholds"]
            assert (entry["fitted_on_slice"], entry["n_fit"]) == ("train_inner", 48)
            assert entry["applied_to_slices"] == ["test"]
        # scoring: inner test parts lie in the training part, the test part is scored last
        for number in range(5):
            *inner, last = SEEN["score"][number * 6 : number * 6 + 6]
            assert not {text for part in inner for text in part} & set(last)

    def test_the_threshold_is_that_of_the_inner_scores(self) -> None:
        result = run(thresholds=MaxF1Selector())
        fold = result.by_fold["fold=0"]
        train = next(iter(StratifiedKFoldSplitter(k=5).iter_folds(parent())))["train"]
        chosen = MaxF1Selector().select(train.y_true, Fixed().predict_proba(train.features))
        cell = fold["by_slice"]["test"]["by_scorer"]["m"]["op_f1_at_max_f1_fitted_on_train"]
        assert cell["details"]["threshold"] == chosen.threshold
        assert "op_f1_at_max_f1_fitted_on_train" in result.fold_summary["test"]["m"]

    def test_chosen_on_a_part_of_the_fold(self) -> None:
        class WithVal:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                for fold in StratifiedKFoldSplitter(k=3).iter_folds(slice_):
                    (inner,) = HoldoutSplitter(0.25).iter_folds(fold["train"])
                    yield {"train": inner["train"], "val": inner["test"], "test": fold["test"]}

            def get_n_splits(self, slice_: Any) -> int:
                return 3

        result = run(Fits(), WithVal(), thresholds=Recording(), threshold_slice="val")
        assert [len(call) for call in SEEN["select"]] == [10, 10, 10]
        fold = result.by_fold["fold=0"]
        assert list(fold["by_slice"]) == ["test"]
        assert "op_f1_at_recording_fitted_on_val" in fold["by_slice"]["test"]["by_scorer"]["m"]
        with pytest.raises(MissingColumnError, match="`threshold_slice`: no slice 'dev'"):
            run(Fits(), WithVal(), thresholds=Recording(), threshold_slice="dev")

    def test_inner_splitter(self) -> None:
        run(Fits(), thresholds=Recording(), inner_splitter=HoldoutSplitter(0.25))
        assert [len(call) for call in SEEN["select"]] == [12] * 5

    def test_a_scorer_that_fails_inside_has_no_threshold(self) -> None:
        class Small(Fits):
            def fit(self, X: Any, y: Any) -> None:
                super().fit(X, y)
                if len(X) < 48:
                    raise ValueError("too few rows")

        result = run(Small(), thresholds=MaxF1Selector(), on_scorer_error="record")
        found = result.by_fold["fold=0"]["by_slice"]["test"]["by_scorer"]["m"]
        cell = found["op_f1_at_max_f1_fitted_on_train_inner"]
        assert cell["status"] == "skipped"
        assert "too few rows" in cell["reason"]
        assert found["roc_auc"]["status"] == "ok"


class TestOutOfFold:
    def test_each_row_once(self) -> None:
        result = run(slice_=parent(id_col="key"))
        records = result.records["test", "m"]
        assert records.unit_id.tolist() == parent().df["key"]
        assert records.columns["label"].tolist() == parent().df["label"]
        assert (
            records.columns["score"].tolist() == Fixed().predict_proba(parent().features).tolist()
        )
        assert len(set(records.slices["fold"])) == 5

    def test_several_seeds_are_attempts(self) -> None:
        records = run(seeds=(1, 2)).records["test", "m"]
        assert len(records) == 120
        assert sorted(set(records.attempt.tolist())) == [1, 2]
        assert len(set(records.unit_id)) == 60

    def test_equal_rows_stay_apart(self) -> None:
        slice_ = parent()
        twice = EvalSlice("all", {k: list(v) * 2 for k, v in slice_.df.items()})
        records = run(slice_=twice).records["test", "m"]
        assert len(set(records.unit_id)) == 120
        assert set(records.attempt.tolist()) == {1}

    def test_groups_are_kept(self) -> None:
        slice_ = parent(group_col="author")
        records = run(splitter=StratifiedGroupKFoldSplitter(k=3), slice_=slice_).records[
            "test", "m"
        ]
        assert len(set(records.group)) == 15

    def test_roles_that_a_splitter_forgets_are_restored(self) -> None:
        class Forgets:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                for fold in StratifiedGroupKFoldSplitter(k=3).iter_folds(slice_):
                    yield {name: EvalSlice(name, part.df) for name, part in fold.items()}

            def get_n_splits(self, slice_: Any) -> int:
                return 3

        result = run(splitter=Forgets(), slice_=parent(group_col="author", id_col="key"))
        fold = result.by_fold["fold=0"]["by_slice"]["test"]
        assert fold["unit_ids"][0].startswith("k")
        assert fold["by_scorer"]["m"]["brier"]["n_groups"] == 5

    def test_failures_are_records_too(self) -> None:
        class Broken:
            def predict_proba(self, X: Any) -> Any:
                raise OSError("gone")

        records = run(Broken(), on_scorer_error="record").records["test", "m"]
        assert set(records.status["score"]) == {"error"}

    def test_a_declined_split_has_none(self) -> None:
        class Declines(Fixed):
            def should_score_slice(self, slice_name: str) -> bool:
                return False

        result = run(Declines())
        assert result.records == {}
        assert "declined" in result.fold_summary["test"]["m"]["pr_auc"]["skipped"]

    def test_rows_from_elsewhere_get_ids_of_their_own(self) -> None:
        class Pools:
            def iter_folds(self, slice_: Any, *, groups: Any = None) -> Iterator[dict[str, Any]]:
                for fold in StratifiedKFoldSplitter(k=2).iter_folds(slice_):
                    rows = {"text": ["0.1|new", "0.9|new"] * 6, "label": [0, 1] * 6}
                    yield {**fold, "pool": EvalSlice("pool", rows)}

            def get_n_splits(self, slice_: Any) -> int:
                return 2

        records = run(splitter=Pools(), eval_split_names=("test", "pool")).records["pool", "m"]
        assert len(records) == 24
        assert len(set(records.unit_id)) == 2


def test_results_have_the_keys_and_arguments_of_the_contract():
    """by_fold and fold_summary are arguments of RunResult and keys of to_dict, as documented."""
    fold = {
        "seed": 42,
        "fold": 0,
        "n_train": 8,
        "by_slice": {"test": {"n": 4, "n_positive": 2, "by_scorer": {"a": {"f1": 0.5}}}},
    }
    mean = {"mean": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n_folds": 2, "n_failed": 0}
    made = RunResult(
        "r", None, {}, by_fold={"seed=42/fold=0": fold}, fold_summary={"test": {"a": {"f1": mean}}}
    )
    told = made.to_dict()
    assert {"by_slice", "by_fold", "fold_summary", "claim_report"} <= told.keys()
    assert told["fold_summary"]["test"]["a"]["f1"]["mean"] == 0.5
    assert made["f1 @ fold=0"].value == 0.5
    assert len(made.by_fold) == 1
    assert RunResult.from_dict(told).to_dict() == told
