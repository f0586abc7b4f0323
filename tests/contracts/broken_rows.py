"""Scorers, selectors, metrics, loaders, checks and splitters that each violate one rule."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tests.contracts.broken import Method, Mutants, counting, like

from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.leakage import ExactDuplicateCheck, LeakageFinding
from eval_toolkit.metrics import ThresholdResult, metrics_at_threshold
from eval_toolkit.slices import EvalSlice
from eval_toolkit.testing import ODD_TEXTS, TEXTS
from eval_toolkit.text_dedup import JaccardNgramStrategy


class Length:
    """Scorer that classifies long texts as positive."""

    version = "1"

    def predict_proba(self, X: Any) -> Any:
        return [min(len(text), 80) / 80 for text in X]


class Share(Length):
    """Scorer that returns the fraction of positives in its training data."""

    def __init__(self) -> None:
        self.labels: list[int] = []

    def fit(self, X: Any, y: Any) -> None:
        self.labels = [int(label) for label in y]

    def predict_proba(self, X: Any) -> Any:
        return [np.mean(self.labels) if self.labels else 0.5] * len(X)


def remembering(self: Any, X: Any, y: Any) -> None:
    self.labels = [*self.labels, *y]


def clearing(self: Any, X: Any) -> Any:
    scores = Length.predict_proba(self, X)
    X.clear()
    return scores


def first_texts_alone(self: Any, X: Any) -> Any:
    if X[0] not in TEXTS:
        raise ZeroDivisionError("no such text")
    return Length.predict_proba(self, X)


SCORERS: Mutants = {
    "version_if_any": (like(Length, version=None),),
    "one_score_per_input": (
        like(Length, predict_proba=lambda self, X: [[0.2, 0.3, 0.5]] * len(X)),
        # nothing holds of numbers that are not there
        "probabilities",
        "accepts_unusual_texts",
    ),
    "probabilities": (
        like(Length, predict_proba=lambda self, X: [2.0 * (text in TEXTS) for text in X]),
    ),
    "scores_are_deterministic": (
        like(Length, predict_proba=counting(lambda n, X: [0.5 + n * 1e-9] * len(X))),
    ),
    "input_order_invariant": (
        # the first text is told apart from the others by its place alone
        like(Length, predict_proba=lambda self, X: [0.5 + 0.1 * (n == 5) for n in range(len(X))]),
        "batch_invariant",
    ),
    "batch_invariant": (like(Length, predict_proba=lambda self, X: [1 / len(X)] * len(X)),),
    "does_not_modify_inputs": (like(Length, predict_proba=clearing),),
    "accepts_unusual_texts": (like(Length, predict_proba=first_texts_alone),),
    "slice_selection_is_boolean": (like(Length, should_score_slice=lambda self, name: "yes"),),
    "fit_discards_previous_fits": (like(Share, fit=remembering),),
}


class Half:
    """Selector of the threshold 0.5."""

    criterion = "half"
    threshold = 0.5

    def select(self, y_true: Any, y_score: Any) -> Any:
        there = metrics_at_threshold(y_true, y_score, self.threshold)
        told = [float(there[name]) for name in ("f1", "precision", "recall")]
        return ThresholdResult(self.threshold, *told, self.criterion)


def selecting(change: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a selector that changes its result or its input."""

    def select(self: Any, y_true: Any, y_score: Any) -> Any:
        return change(Half.select(self, y_true, y_score), y_true, y_score)

    return like(Half, select=select)


def _first_score(result: Any, y_true: Any, y_score: Any) -> Any:
    return like(Half, threshold=float(np.asarray(y_score)[0])).select(y_true, y_score)


def _sorted_in_place(result: Any, y_true: Any, y_score: Any) -> Any:
    if isinstance(y_score, np.ndarray):
        y_score[0] = y_score[0] / 2
    return result


def _both_classes(result: Any, y_true: Any, y_score: Any) -> Any:
    return 1 / (len(set(np.asarray(y_true).tolist())) - 1) and result


def _arrays_alone(result: Any, y_true: Any, y_score: Any) -> Any:
    shifted = 0.5 if isinstance(y_score, np.ndarray) else 0.75
    return like(Half, threshold=shifted).select(y_true, y_score)


SELECTORS: Mutants = {
    "version_if_any": (like(Half, version=3),),
    "returns_threshold_result": (
        selecting(lambda result, y, s: 0.5),
        # nothing holds of a result that is none
        "records_its_criterion",
        "reported_metrics_match",
        "threshold_is_deterministic",
        "takes_lists",
        "handles_single_class",
    ),
    "records_its_criterion": (
        selecting(lambda r, y, s: ThresholdResult(r.threshold, r.f1, r.precision, r.recall, "x")),
    ),
    "reported_metrics_match": (
        selecting(
            lambda r, y, s: ThresholdResult(r.threshold, 0.123, r.precision, r.recall, "half")
        ),
    ),
    "threshold_is_deterministic": (selecting(_first_score),),
    "takes_lists": (selecting(_arrays_alone),),
    "does_not_modify_rows": (selecting(_sorted_in_place),),
    "handles_single_class": (selecting(_both_classes),),
}


class Mean:
    """Metric that returns the mean score of positives."""

    name = "mean"

    def compute(self, y_true: Any, y_score: Any) -> float:
        if not (y_true == 1).any():
            raise UndefinedMetricError("there are no positives")
        return float(np.mean(y_score[y_true == 1]))


def _spoiling(self: Any, y_true: Any, y_score: Any) -> float:
    value = Mean.compute(self, y_true, y_score)
    y_score[y_true == 0] = 0.0  # of negatives, which do not count
    return value


class Local(Mean):
    """Metric that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("stays here")


_KEPT: dict[str, Any] = {}


def _kept(key: str) -> Any:
    return _KEPT[key]


def metric(key: str, **members: Any) -> Any:
    """Return a picklable metric by its key."""
    made = like(Mean, __reduce__=lambda self: (_kept, (key,)), **members)
    _KEPT[key] = made
    return made


METRICS: Mutants = {
    "is_named": (metric("name", name="two\nlines"),),
    "version_if_any": (metric("version", version=""),),
    "value_is_finite": (
        metric("array", compute=lambda self, y, s: np.inf if len(set(y)) > 1 else 0.5),
    ),
    "value_is_deterministic": (
        metric("counts", compute=counting(lambda n, y, s: 0.5 + n * 1e-12)),
        "is_picklable",
    ),
    "row_order_invariant": (metric("first", compute=lambda self, y, s: float(s[0] + y[0])),),
    "metric_does_not_modify_rows": (metric("halves", compute=_spoiling),),
    "undefined_raises": (
        metric(
            "nan",
            compute=lambda self, y, s: float(np.mean(s[y == 1])) if (y == 1).any() else np.nan,
        ),
    ),
    "is_picklable": (Local(),),
}


class Rows:
    """Slice with two rows."""

    name = "two"
    y_true = np.array([0, 1])
    features: Any = ("a", "b")
    strata = None


SLICES: Mutants = {
    "is_named": (like(Rows, name=""),),
    "labels_are_0_and_1": (like(Rows, y_true=np.array([0, 2])),),
    "one_input_per_label": (like(Rows, features=["a"]),),
    "one_stratum_per_label": (like(Rows, strata=np.array(["x"])),),
    "access_is_repeatable": (like(Rows, features=property(counting(lambda n: [str(n), "b"]))),),
}


# --- data ---------------------------------------------------------------------------------------


class Loader:
    """Loader of one slice."""

    rows = EvalSlice("test", {"text": ["a", "b"], "label": [0, 1]})

    def load_splits(self) -> Any:
        return {"test": self.rows}

    def describe(self) -> Any:
        keys = ("description", "citeAs", "license", "url")
        return {"name": "mine", "distribution": [], **dict.fromkeys(keys, "")}


def _other_rows(n: int) -> Any:
    return {"test": EvalSlice("test", {"text": ["a", str(n)], "label": [0, 1]})}


def described(**changed: Any) -> Any:
    return like(Loader, describe=lambda self: {**Loader().describe(), **changed})


LOADERS: Mutants = {
    "version_if_any": (like(Loader, version=1.0),),
    "returns_named_slices": (like(Loader, load_splits=lambda self: {"other": self.rows}),),
    "loading_is_deterministic": (like(Loader, load_splits=counting(_other_rows)),),
    "result_is_independent": (
        like(Loader, kept={"test": Loader.rows}, load_splits=lambda self: self.kept),
    ),
    "describes_itself": (described(when=float("nan")),),
    "description_is_croissant": (described(distribution="a.csv"),),
}


class Copies:
    """Leakage check that finds copies."""

    name = "Copies"

    def validate(self, splits: Any) -> Any:
        return _with(ExactDuplicateCheck().validate(splits), check_name=self.name)


def finding(change: Callable[[Any, Any], Any]) -> Any:
    """Return a check that changes its finding or its input."""

    def validate(self: Any, splits: Any) -> Any:
        return change(Copies.validate(self, splits), splits)

    return like(Copies, validate=validate)


def _with(found: LeakageFinding, **changed: Any) -> LeakageFinding:
    return LeakageFinding.from_dict({**found.to_dict(), **changed})


def _never_cured(found: LeakageFinding, splits: Any) -> LeakageFinding:
    drop = {name: [0] for name, part in splits.items() if part.n}
    return _with(found, drop_indices=drop, n_affected=len(drop))


def _spoils(found: LeakageFinding, splits: Any) -> LeakageFinding:
    for part in splits.values():
        if part.n:
            part.df["answer"][0] += "!"
    return found


def _no_odd_text(found: LeakageFinding, splits: Any) -> LeakageFinding:
    if any(text in ODD_TEXTS for part in splits.values() for text in part.features):
        raise ZeroDivisionError("what is that")
    return found


def _json_fault(found: LeakageFinding, splits: Any) -> LeakageFinding:
    return LeakageFinding(
        found.check_name, found.severity, found.drop_indices, {1: "one"}, found.message,
        found.n_affected,
    )  # fmt: skip


def _beyond(found: LeakageFinding, splits: Any) -> LeakageFinding:
    """Return a finding with a nonexistent row if the test split has many rows."""
    n = splits["test"].n if "test" in splits else 0
    return _with(found, drop_indices={"test": [n]}, n_affected=1) if n > 7 else found


_FOUND = itertools.count()
CHECKS: Mutants = {
    "is_named": (like(Copies, name=""),),
    "version_if_any": (like(Copies, version=""),),
    "returns_finding": (finding(lambda found, splits: _with(found, message="two\nlines")),),
    "flagged_rows_exist": (finding(_beyond), "dropping_removes_findings"),
    "accepts_any_splits": (finding(lambda found, splits: (found, splits["test"])[0]),),
    "counts_flagged_rows": (
        finding(lambda found, splits: _with(found, n_affected=min(found.n_affected, 1))),
    ),
    "accepts_empty_splits": (
        finding(lambda found, splits: _with(found, n_affected=found.n_affected or 1)),
    ),
    "finding_is_json": (finding(_json_fault),),
    "finding_is_deterministic": (
        finding(lambda found, splits: _with(found, message=f"found {next(_FOUND)}")),
    ),
    "does_not_modify_splits": (finding(_spoils),),
    "dropping_removes_findings": (finding(_never_cured),),
    "checks_unusual_texts": (finding(_no_odd_text),),
}


class Thirds:
    """Splitter into three folds by position."""

    def iter_folds(self, slice_: Any, *, groups: Any = None) -> Any:
        for fold in range(3):
            test = np.arange(slice_.n) % 3 == fold
            yield {
                "train": slice_.take(~test, name="train"),
                "test": slice_.take(test, name="test"),
            }

    def get_n_splits(self, slice_: Any) -> int:
        return 3


def folding(change: Callable[[dict[str, Any], Any], Any]) -> Any:
    """Return a splitter that changes its folds."""

    def iter_folds(self: Any, slice_: Any, *, groups: Any = None) -> Any:
        for fold in Thirds().iter_folds(slice_):
            yield change(fold, slice_)

    return like(Thirds, iter_folds=iter_folds)


def _bare(part: Any) -> EvalSlice:
    return EvalSlice(part.name, part.df, id_col="id", strata_col="source", time_col="time")


def _shifted() -> Any:
    count = itertools.count()

    def iter_folds(self: Any, slice_: Any, *, groups: Any = None) -> Any:
        shift = next(count)
        for fold in range(3):
            test = (np.arange(slice_.n) + shift) % 3 == fold
            yield {
                "train": slice_.take(~test, name="train"),
                "test": slice_.take(test, name="test"),
            }

    return like(Thirds, iter_folds=iter_folds)


def _renumbers(fold: dict[str, Any], whole: Any) -> dict[str, Any]:
    whole.df.loc[whole.df.index[0], "time"] += 1.0
    return fold


def _flipped(fold: dict[str, Any], whole: Any) -> dict[str, Any]:
    """Flip the labels of the test part but keep the ids."""
    test = fold["test"]
    return {**fold, "test": replace(test, df=test.df.assign(label=1 - test.df["label"]))}


class Seeded(Thirds):
    """Splitter that reseeds itself instead of returning a copy."""

    seed = 0

    def iter_folds(self, slice_: Any, *, groups: Any = None) -> Any:
        for fold in range(3):
            test = (np.arange(slice_.n) + self.seed) % 3 == fold
            yield {
                "train": slice_.take(~test, name="train"),
                "test": slice_.take(test, name="test"),
            }

    def reseeded(self, seed: int) -> Any:
        self.seed += seed
        return self


SPLITTERS: Mutants = {
    "version_if_any": (like(Thirds, version=None),),
    "folds_are_dicts_of_slices": (
        folding(lambda fold, whole: {**fold, "train": whole.take([], name="train")}),
    ),
    "number_of_folds_matches": (like(Thirds, get_n_splits=lambda self, slice_: 4),),
    "parts_are_disjoint": (folding(lambda fold, whole: {**fold, "train": whole}),),
    "parts_keep_roles": (
        folding(lambda fold, whole: {name: _bare(part) for name, part in fold.items()}),
        "parts_contain_input_rows",
    ),
    "parts_contain_input_rows": (folding(_flipped),),
    "keeps_groups_together": (like(Thirds, group_col="author"),),
    "split_is_deterministic": (_shifted(),),
    "does_not_modify_slice": (folding(_renumbers), "parts_contain_input_rows"),
    "reseeded_returns_copy": (Seeded(),),
}


class Pool:
    """Pool builder that uses every fourth row for validation."""

    def build(self, train: Any, *, fold_idx: int) -> Any:
        val = np.arange(train.n) % 4 == 0
        return {"train": train.take(~val), "val": train.take(val)}


def _turning() -> Method:
    count = itertools.count()

    def build(self: Any, train: Any, *, fold_idx: int) -> Any:
        val = np.arange(train.n) % 4 == next(count) % 4
        return {"train": train.take(~val), "val": train.take(val)}

    return build


POOLS: Mutants = {
    "version_if_any": (like(Pool, version=" "),),
    "builds_train_and_val": (
        like(
            Pool,
            build=lambda self, train, fold_idx: {
                **Pool().build(train, fold_idx=0),
                "test": train.take([]),
            },
        ),
    ),
    "train_and_val_are_disjoint": (
        like(Pool, build=lambda self, train, fold_idx: {"train": train, "val": train.take([0])}),
    ),
    "build_is_deterministic": (like(Pool, build=_turning()),),
}


class Similar(JaccardNgramStrategy):
    """Similarity strategy based on n-grams."""


def comparing(change: Callable[[Any, Any], Any], **members: Any) -> Any:
    """Return a strategy that changes its similarities and indices."""

    def pairs_within(self: Any, texts: list[str], k_neighbors: int) -> Any:
        return change(*JaccardNgramStrategy.pairs_within(self, texts, k_neighbors))

    def pairs_across(self: Any, query: list[str], reference: list[str], k_neighbors: int) -> Any:
        return change(*JaccardNgramStrategy.pairs_across(self, query, reference, k_neighbors))

    return like(Similar, pairs_within=pairs_within, pairs_across=pairs_across, **members)


def _second_first(similarities: Any, indices: Any) -> Any:
    """Swap the first two neighbours if they are equally similar."""
    tied = similarities[:, 0] == similarities[:, 1]
    order = np.where(tied[:, None], [[1, 0, *range(2, indices.shape[1])]], range(indices.shape[1]))
    return similarities, np.take_along_axis(indices, order, axis=1)


def _without_copies(similarities: Any, indices: Any) -> Any:
    """Treat copies as ordinary neighbours."""
    changed = similarities.copy()
    changed[:, 1:] = np.minimum(changed[:, 1:], 0.5)
    return changed, indices


def _pops(self: Any, texts: list[str], k_neighbors: int) -> Any:
    found = JaccardNgramStrategy.pairs_within(self, list(texts), k_neighbors)
    texts.reverse()
    return found


def _plain_texts_alone(self: Any, texts: list[str], k_neighbors: int) -> Any:
    return 1 / all(text.strip() for text in texts) and JaccardNgramStrategy.pairs_within(
        self, texts, k_neighbors
    )


def _wobbling() -> Any:
    count = itertools.count()
    return comparing(lambda s, i: (np.where(s < 1, s * (1 - 1e-9 * next(count)), s), i))


SIMILARITIES: Mutants = {
    "version_if_any": (like(Similar, version=0),),
    "one_row_per_text": (
        like(
            Similar,
            pairs_within=lambda self, texts, k: JaccardNgramStrategy.pairs_within(
                self, texts, k + 1
            ),
        ),
    ),
    "indices_are_valid": (comparing(lambda s, i: (s, i.astype(np.float64))),),
    "similarities_within_bounds": (comparing(lambda s, i: (np.where(s < 1, s - 2, s), i)),),
    "neighbours_are_sorted": (
        comparing(lambda s, i: (np.where(np.arange(s.shape[1]) == s.shape[1] - 1, 1.0, s), i)),
    ),
    "self_is_first_neighbour": (comparing(_second_first),),
    "finds_copies": (comparing(_without_copies),),
    "neighbours_are_deterministic": (_wobbling(),),
    "does_not_modify_lists": (like(Similar, pairs_within=_pops),),
    "compares_unusual_texts": (like(Similar, pairs_within=_plain_texts_alone),),
}


MUTANTS = {
    "leakage_check": CHECKS,
    "loader": LOADERS,
    "metric_spec": METRICS,
    "pool_builder": POOLS,
    "scorer": SCORERS,
    "selector": SELECTORS,
    "similarity": SIMILARITIES,
    "slice": SLICES,
    "splitter": SPLITTERS,
}
FINE = {
    "leakage_check": Copies(),
    "loader": Loader(),
    "metric_spec": Mean(),
    "pool_builder": Pool(),
    "scorer": Share(),
    "selector": Half(),
    "similarity": Similar(),
    "slice": Rows(),
    "splitter": Thirds(),
}
"""Valid objects from which the violations are derived."""
