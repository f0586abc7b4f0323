"""Cross-validation: `evaluate_folded` fits and evaluates every fold and summarises over folds."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    LeakageError,
    MissingColumnError,
)
from eval_toolkit.harness.cells import CellSettings
from eval_toolkit.harness.core import (
    Options,
    Part,
    ScoredPart,
    checked_pairs,
    collected_versions,
    measure_part,
    score_part,
)
from eval_toolkit.harness.evaluation import described, merged_config
from eval_toolkit.harness.fitting import (
    Candidate,
    fit_candidates,
    named_candidates,
    nested_thresholds,
)
from eval_toolkit.harness.kind import graded_rows
from eval_toolkit.harness.leakage_guard import checked_checks, guarded
from eval_toolkit.harness.outoffold import Identities, OutOfFold
from eval_toolkit.harness.progress import ProgressFn, Ticker, showing
from eval_toolkit.harness.result import RunResult, checked_run_id
from eval_toolkit.harness.roles import with_groups, with_parent_roles
from eval_toolkit.harness.rows import Rows, chosen_slices, named_slices
from eval_toolkit.harness.scoring import Scoring
from eval_toolkit.harness.summary import SharedRows, checked_summary_metrics, folded_slices
from eval_toolkit.harness.thresholding import FittedThresholds, checked_selectors
from eval_toolkit.inference.resampling import Executor
from eval_toolkit.protocols import (
    EvalSliceLike,
    LeakageCheck,
    MetricSpec,
    Splitter,
    ThresholdSelector,
)
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.units import Unit
from eval_toolkit.scorecards.parts import FOLD, SEED, format_part
from eval_toolkit.seeds import resolve_seed

_TRAIN = "train"
_FOUND = ("leakage_report", "leakage_report_before_drop", "n_dropped")
"""Findings of the leakage checks on one fold."""


def evaluate_folded(
    scorers: Mapping[str, Any],
    splitter: Splitter,
    slice_: Any,
    *,
    run_id: str,
    git_sha: str | None = None,
    seeds: Sequence[int] = (42,),
    n_resamples: int = 1000,
    paired_diffs: Sequence[tuple[str, str]] | None = None,
    leakage_checks: Sequence[LeakageCheck] = (),
    on_leakage: str = "raise",
    on_scorer_error: str = "raise",
    eval_split_names: Sequence[str] = ("test",),
    summary_metrics: Sequence[str] | None = None,
    reseed_splitter: Callable[[Any, int], Splitter] | None = None,
    fit: bool | None = None,
    metrics: Sequence[MetricSpec | str] | None = None,
    paired_metric: MetricSpec | None = None,
    confidence: float = 0.95,
    groups: ArrayLike | None = None,
    thresholds: ThresholdSelector | Sequence[ThresholdSelector] | None = None,
    threshold_slice: str | None = None,
    inner_splitter: Splitter | None = None,
    extra_config: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    cache: Any = None,
    progress: bool | ProgressFn | None = None,
    executor: Executor | None = None,
) -> RunResult:
    """Cross-validate scorers, with leakage checks and threshold selection in every fold.

    Parameters
    ----------
    scorers : mapping of str to scorer, class or function
        Scorers with a ``fit`` method are copied and fitted on the training part of each fold:
        scikit-learn estimators are cloned; other scorers are copied unchanged, and their ``fit``
        must start from scratch. A class, or a function that returns a new scorer, is called once
        per fold, and the scorer it returns is fitted if it has a ``fit`` method. All other scorers
        are evaluated as is.
    splitter : Splitter
        Cross-validation splitter; each fold is a dict of slices.
    slice_ : EvalSlice
        Rows to split.
    run_id, git_sha, n_resamples, confidence, paired_diffs, paired_metric, metrics, extra_config
        As in `evaluate`.
    seeds : sequence of int, default (42,)
        Random seeds of the confidence intervals. With several seeds, the splitter is reseeded with
        each of them, and the folds of all seeds are used; with one seed, the splitter keeps its
        own.
    leakage_checks, on_leakage
        As in `evaluate`; each check receives all parts of a fold.
    on_scorer_error : {"raise", "record"}, default "raise"
        As in `evaluate`; also applies to fitting. A fold that fails does not invalidate the
        summary.
    eval_split_names : sequence of str, default ("test",)
        Parts of each fold to evaluate.
    summary_metrics : sequence of str, optional
        Metrics to summarise over folds; by default all.
    reseed_splitter : callable, optional
        Function ``reseed_splitter(splitter, seed)`` that returns the splitter for a seed; by
        default ``splitter.reseeded(seed)``.
    fit : bool, optional
        None fits every scorer that has a ``fit`` method, False evaluates all scorers as is, and
        True requires every scorer to have a ``fit`` method.
    groups : array-like, optional
        Groups passed to the splitter, including for inner splits. By default, the splitter's
        ``group_col``, or else the groups of the slice. Rows of a group are resampled together.
    thresholds : ThresholdSelector or sequence of them, optional
        Selectors applied in each fold without its test part. F1, precision, recall and
        false-positive rate at the selected threshold are reported on the test part.
    threshold_slice : str, optional
        Part of the fold on which thresholds are selected ("val"). By default the training part is
        split again by ``inner_splitter``, a copy of the scorer is fitted on each inner training
        part, and thresholds are selected on the pooled inner test parts.
    inner_splitter : Splitter, optional
        Splitter of the training part; by default ``splitter`` itself, so groups and time order are
        respected.
    batch_size, cache, executor
        As in `evaluate`. The cache distinguishes scorers fitted on different rows.
    progress : bool or callable, optional
        As in `evaluate`; a function is called with (folds done, total folds, description).

    Returns
    -------
    RunResult
        ``result["roc_auc"]`` is the mean over folds, and ``result["roc_auc @ fold=0"]`` is the cell
        of one fold; with several seeds, a fold is named ``seed=42&fold=0``.
        ``by_fold["fold=0"]["by_slice"]`` has the format of ``by_slice`` in `evaluate`;
        ``fold_summary[split][scorer][metric]`` has mean, ci_low, ci_high, sd, method, n_folds and
        n_failed; ``records`` contains the out-of-fold scores.

    Raises
    ------
    InvalidInputError, InvalidTypeError, MissingColumnError
        If an argument is invalid or a name is unknown.
    LeakageError
        If a check found an error and the policy is "raise".

    Notes
    -----
    If the folds share no rows, the interval of the mean is Student's t. If the folds of a fitted
    scorer share training rows, or rows are tested more than once, the folds are not independent,
    and the corrected variance of Nadeau and Bengio, ``(1/K + n_test/n_train) sd²``, is used;
    ``method`` states which.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from eval_toolkit.slices import EvalSlice
    >>> from eval_toolkit.splits import StratifiedKFoldSplitter
    >>> rows = {"x": [i % 7 for i in range(60)], "label": [int(i % 7 > 3) for i in range(60)]}
    >>> parent = EvalSlice("all", rows, feature_col=["x"])
    >>> class Model:
    ...     def fit(self, X, y):
    ...         self.cut = X["x"][y == 1].min()
    ...     def predict_proba(self, X):
    ...         return (X["x"] >= self.cut).astype(float)
    >>> result = evaluate_folded(
    ...     {"cut": Model()}, StratifiedKFoldSplitter(k=3), parent, run_id="demo"
    ... )
    >>> summary = result.fold_summary["test"]["cut"]["roc_auc"]
    >>> summary["mean"], summary["method"], list(result.by_fold)[0]
    (1.0, 'nadeau-bengio', 'fold=0')
    """
    checked_run_id(run_id)
    if not isinstance(slice_, EvalSliceLike):
        raise InvalidTypeError(
            f"`slice_` is a {type(slice_).__name__}; it must be a slice (see EvalSlice)"
        )
    candidates = named_candidates(scorers, fit)
    selectors = checked_selectors(thresholds)
    if threshold_slice is not None and not selectors:
        raise InvalidInputError("`threshold_slice` requires `thresholds`")
    options = Options(
        Scoring.of(batch_size, cache, on_scorer_error),
        CellSettings.of(
            metrics,
            n_resamples=n_resamples,
            confidence=confidence,
            seed=None,
            rng=None,
            executor=executor,
            paired_metric=paired_metric,
        ),
        checked_pairs(paired_diffs, candidates),
        selectors,
        threshold_slice,
    )
    specs = options.measuring.specs
    names = checked_summary_metrics(summary_metrics, specs, bool(selectors))
    checks = checked_checks(leakage_checks)
    seeded = _seeded(splitter, seeds, reseed_splitter)
    slice_ = with_groups(slice_, splitter, groups)
    rows = Rows(slice_.name, slice_)
    rows.check()
    if rows.strata is not None and rows.part_name in (FOLD, SEED):
        raise InvalidInputError(
            f"slice {rows.name!r} has the strata column {rows.part_name!r}, a name reserved for the "
            "folds of this run; rename the column"
        )
    run = _Folds(candidates, rows, options, checks, on_leakage, groups is not None)
    settings = {
        **run.described(),
        **run.found(),
        "seeds": list(seeded),
        "splitter": _described_splitter(splitter),
        "summary_metrics": names,
    }
    config = merged_config(settings, extra_config)  # raises before the work starts
    total = sum(int(one.get_n_splits(slice_)) for one in seeded.values())
    with showing(progress, total) as ticker:

        def folds() -> Iterator[_Fold]:
            for seed, one in seeded.items():
                for number, fold in enumerate(_folds(one, slice_, groups)):
                    of_seed = {SEED: str(seed)} if len(seeded) > 1 else {}
                    key = {**of_seed, FOLD: str(number)}
                    parts = {name: with_parent_roles(part, slice_) for name, part in fold.items()}
                    yield run.scored(
                        key, seed, number, parts, eval_split_names, inner_splitter or one
                    )
                    ticker.advance(1, format_part(key))
            if not ticker.done:
                raise InvalidInputError(f"{type(splitter).__name__} yielded no folds")

        kind = FoldsKind(config, run, names, folds)
        done = drive(kind, name=run_id)
    return RunResult(
        run_id,
        git_sha,
        config | run.found(),
        by_slice=done.results["by_slice"],
        folds=run.folds,
        records=done.subjects,
        versions={**run.versions, **collected_versions({}, options, checks, splitter)},
    )


@dataclass(frozen=True)
class _Fold:
    """A fitted and scored fold."""

    key: Mapping[str, str]
    part: ScoredPart
    slices: Mapping[str, Any]
    fitted_on: Rows | None
    about: Mapping[str, Any]


@dataclass(frozen=True)
class FoldsKind(Kind[list[_Fold]]):
    """Kind of evaluation for cross-validation."""

    settings: Mapping[str, Any]
    run: "_Folds" = field(repr=False)
    names: Sequence[str] | None
    folds: Callable[[], Iterator[_Fold]] = field(repr=False)

    name = "rows"
    asks = False

    def config(self) -> Mapping[str, Any]:
        """Return the settings stored in the run's configuration."""
        return self.settings

    def units(self) -> Sequence[Unit]:
        """Return an empty list: rows are identified by their records."""
        return ()

    def produce(self, context: Any) -> list[_Fold]:
        """Fit and score the scorers on every fold."""
        return list(self.folds())

    def grade(self, attempts: list[_Fold]) -> Graded:
        """Compute the metrics of every fold and summarise them over folds."""
        for fold in attempts:
            self.run.measure(fold)
        measuring = self.run.options.measuring
        by_slice = folded_slices(
            self.run.by_slice,
            names=self.names,
            specs=measuring.specs,
            confidence=measuring.confidence,
            shared=self.run.shared_rows(),
        )
        return graded_rows(Part(records=self.run.records()), by_slice, {"folds": self.run.folds})


@dataclass
class _Folds:
    """Results of the folds evaluated so far."""

    candidates: Mapping[str, Candidate]
    parent: Rows
    options: Options
    checks: Sequence[LeakageCheck]
    on_leakage: str
    groups_given: bool = False
    by_slice: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Results by fold and slice."""
    folds: dict[str, Any] = field(default_factory=dict)
    """Seed, index and training size of each fold."""
    out_of_fold: dict[str, OutOfFold] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    trained: Identities | None = None
    n_trained: int = 0

    def scored(
        self,
        key: Mapping[str, str],
        seed: int,
        number: int,
        fold: Mapping[str, Any],
        shown: Sequence[str],
        inner_splitter: Any,
    ) -> _Fold:
        """Check, fit and score one fold."""
        chosen = list(chosen_slices(fold, shown, "eval_split_names"))
        try:
            safe = guarded(fold, self.checks, self.on_leakage)
        except LeakageError as error:
            error.add_note(f"in {format_part(key)}")
            raise
        train = Rows(_TRAIN, safe.slices[_TRAIN]) if _TRAIN in safe.slices else None
        measuring = replace(self.options.measuring, seed=resolve_seed(seed))
        fitted = fit_candidates(self.candidates, train, self.options.scoring.on_scorer_error)
        options = replace(
            self.options,
            measuring=measuring,
            scoring=replace(self.options.scoring, fitted_on=fitted.fitted_on),
        )
        if options.threshold_slice is not None:
            chosen_slices(safe.slices, [options.threshold_slice], "threshold_slice")
        part = score_part(
            fitted.scorers,
            safe.slices,
            chosen,
            options,
            Ticker(0),
            thresholds=self._nested(train, inner_splitter),
        )
        others = {name: one for name, one in fitted.scorers.items() if name not in fitted.recipes}
        self.versions |= collected_versions(others, options)
        self.versions |= {f"scorer:{name}": recipe for name, recipe in fitted.recipes.items()}
        about = {
            "seed": seed,
            "fold": number,
            "n_train": None if train is None else train.n,
            **{name: safe.config[name] for name in _FOUND if name in safe.config},
        }
        return _Fold(key, part, safe.slices, train if fitted.fitted_on else None, about)

    def measure(self, fold: _Fold) -> None:
        """Compute the metrics of a scored fold."""
        part = measure_part(fold.part)
        self._keep(fold.key, part, fold.slices, fold.fitted_on)
        name = format_part(fold.key)
        self.by_slice[name] = part.by_slice
        policy = {"threshold_policy": part.threshold_policy} if part.thresholds else {}
        self.folds[name] = {**fold.about, **policy}

    def _nested(self, train: Rows | None, inner_splitter: Any) -> dict[str, FittedThresholds]:
        options = self.options
        if not options.selectors or options.threshold_slice is not None:
            return {}
        if train is None:
            raise MissingColumnError(
                "`thresholds` are selected within the 'train' part of the fold, which does not exist; "
                "pass another part as `threshold_slice`"
            )
        # Groups passed as an argument must be forwarded; group columns are part of the rows.
        groups = train.groups if self.groups_given else None
        return {
            name: nested_thresholds(
                candidate, train, inner_splitter, options.selectors, options.scoring, groups
            )
            for name, candidate in self.candidates.items()
        }

    def _keep(
        self,
        key: Mapping[str, str],
        part: Part,
        slices: Mapping[str, Any],
        train: Rows | None,
    ) -> None:
        """Record which rows of a fold were scored and which were used for training."""
        for name, entry in part.by_slice.items():
            if name not in self.out_of_fold:
                self.out_of_fold[name] = OutOfFold(Identities(self.parent))
            self.out_of_fold[name].add(key, Rows(name, slices[name]), entry["by_scorer"])
        if train is not None:
            self.trained = self.trained or Identities(self.parent)
            self.trained.of(train)
            self.n_trained += train.n

    def shared_rows(self) -> dict[tuple[str, str], SharedRows]:
        """Return the (split, scorer) pairs whose folds share rows, with their sizes."""
        k = len(self.folds)
        shared = {}
        for split, collected in self.out_of_fold.items():
            n_test = max(1, round(collected.n_rows / k))
            # A scorer that is not fitted has no training rows; use the untested rows instead.
            n_train = max(1, round(self.n_trained / k) or self.parent.n - n_test)
            for name, candidate in self.candidates.items():
                fitted_on_shared = (
                    candidate.is_fitted_here and self.trained is not None and self.trained.any_twice
                )
                if fitted_on_shared or collected.identities.any_twice:
                    shared[split, name] = SharedRows(n_train, n_test)
        return shared

    def described(self) -> dict[str, Any]:
        """Return the settings stored in the run's configuration."""
        config = described(self.options)
        del config["seed"]  # each fold has its own
        if self.checks:
            names = [check.name for check in self.checks]
            config |= {"on_leakage": self.on_leakage, "leakage_checks": names}
        return config | {
            "scorers": list(self.candidates),
            "fitted": [name for name, one in self.candidates.items() if one.is_fitted_here],
            "on_scorer_error": self.options.scoring.on_scorer_error,
        }

    def found(self) -> dict[str, Any]:
        """Return the evaluated parts and the number of folds."""
        return {"eval_split_names": list(self.out_of_fold), "n_folds": len(self.folds)}

    def records(self) -> dict[tuple[str, str], Any]:
        """Return the out-of-fold records, keyed by (split, scorer)."""
        found = {
            (split, name): collected.records(name)
            for split, collected in self.out_of_fold.items()
            for name in self.candidates
        }
        return {subject: records for subject, records in found.items() if records is not None}


def _folds(splitter: Any, slice_: Any, groups: ArrayLike | None) -> Iterator[dict[str, Any]]:
    for fold in splitter.iter_folds(slice_, groups=groups):
        yield named_slices(fold)


def _seeded(
    splitter: Any, seeds: Any, reseed: Callable[[Any, int], Splitter] | None
) -> dict[int, Any]:
    """Return one splitter per seed."""
    if isinstance(splitter, type) or not isinstance(splitter, Splitter):
        raise InvalidTypeError(
            f"`splitter` is {splitter!r}; it must have iter_folds(slice_) and get_n_splits(slice_)"
        )
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise InvalidTypeError(f"`seeds` is {seeds!r}; it must be a sequence of integers")
    given = [validation.integer(seed, "seeds") for seed in seeds]
    if not given or len(set(given)) != len(given):
        raise InvalidInputError(
            f"`seeds` is {given}; it must contain at least one seed and no duplicates"
        )
    if reseed is None:
        if len(given) == 1:
            return {given[0]: splitter}
        reseed = _reseeded
    return {seed: reseed(splitter, seed) for seed in given}


def _reseeded(splitter: Any, seed: int) -> Any:
    if not callable(getattr(splitter, "reseeded", None)):
        raise InvalidInputError(
            f"`seeds` has several seeds, but {type(splitter).__name__} has no reseeded(seed), so all "
            "folds would be equal; pass reseed_splitter, or one seed"
        )
    return splitter.reseeded(seed)


def _described_splitter(splitter: Any) -> str:
    # The repr of other objects may contain a memory address, which differs between runs.
    return repr(splitter) if dataclasses.is_dataclass(splitter) else type(splitter).__name__
