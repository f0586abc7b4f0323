"""Evaluation of scorers on slices: `evaluate` and `evaluate_scorer_on_slice`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from eval_toolkit import metric_specs as ms
from eval_toolkit import metrics as metric_functions
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.calibration import Calibrator
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.harness.cells import CellSettings, scored_block
from eval_toolkit.harness.core import Options, checked_pairs, collected_versions, score_part
from eval_toolkit.harness.kind import RowsKind
from eval_toolkit.harness.leakage_guard import checked_checks, guarded
from eval_toolkit.harness.progress import ProgressFn, Ticker, showing
from eval_toolkit.harness.result import RunResult, checked_run_id
from eval_toolkit.harness.rows import Rows, chosen_slices, named_slices
from eval_toolkit.harness.scorers import checked_scores
from eval_toolkit.harness.scoring import Scoring, named_scorers, score_rows, usable_scorer
from eval_toolkit.harness.thresholding import checked_op_specs, checked_selectors
from eval_toolkit.inference.calibration_statistics import EqualMassError
from eval_toolkit.inference.resampling import Executor
from eval_toolkit.metric_specs.scores import ScoreSpec
from eval_toolkit.protocols import (
    EvalSliceLike,
    LeakageCheck,
    MetricSpec,
    Scorer,
    ThresholdSelector,
)
from eval_toolkit.runs.driver import drive
from eval_toolkit.scorecards import Records, sanity_notes
from eval_toolkit.seeds import SeedLike
from eval_toolkit.thresholds.operating_points import OperatingPointSpec


def evaluate(
    scorers: Mapping[str, Scorer] | Any,
    slices: Sequence[EvalSliceLike] | Mapping[str, EvalSliceLike] | Mapping[str, Any],
    *,
    run_id: str = "evaluation",
    git_sha: str | None = None,
    n_resamples: int = 1000,
    paired_diffs: Sequence[tuple[str, str]] | None = None,
    rng: SeedLike = None,
    extra_config: Mapping[str, Any] | None = None,
    leakage_checks: Sequence[LeakageCheck] = (),
    on_leakage: str = "raise",
    on_scorer_error: str = "raise",
    operating_point_specs: Sequence[OperatingPointSpec] = (),
    metrics: Sequence[MetricSpec | str] | None = None,
    paired_metric: MetricSpec | None = None,
    confidence: float = 0.95,
    seed: SeedLike = None,
    eval_split_names: Sequence[str] | None = None,
    thresholds: ThresholdSelector | Sequence[ThresholdSelector] | None = None,
    threshold_slice: str | None = None,
    precomputed_scores: Mapping[tuple[str, str], ArrayLike] | None = None,
    batch_size: int | None = None,
    cache: Any = None,
    progress: bool | ProgressFn | None = None,
    executor: Executor | None = None,
    label: str | None = None,
    positive: Any = None,
) -> RunResult:
    """Evaluate scorers on slices, with confidence intervals and paired differences.

    Parameters
    ----------
    scorers : mapping of str to Scorer
        Objects with ``predict_proba``, including scikit-learn classifiers. Alternatively, pass a
        table (pandas, polars, pyarrow) as the first argument, and a dict that maps names to score
        columns, functions of the texts, or scorers as the second: ``evaluate(frame, {"old": "p",
        "new": "p2"})``. The label column is then detected by name.
    slices : sequence or mapping of EvalSlice
        List of slices, or a fold's dict as yielded by a splitter. Any objects with ``name``,
        ``y_true``, ``features`` and ``strata`` are accepted. Rows that share a group are resampled
        together; rows without a stratum belong to the part "unlabeled".
    run_id : str, default "evaluation"
        Name of the run.
    git_sha : str, optional
        Git commit of the code, stored in the result.
    n_resamples, confidence, executor
        As in `bootstrap_ci`; ``n_resamples=0`` disables confidence intervals.
    paired_diffs : sequence of (a, b), optional
        Pairs of scorers to compare; the key ``"b_minus_a"`` contains the difference in
        ``paired_metric``.
    rng, seed : int, Generator, …, default 42
        Random seed or generator; pass only one of the two.
    extra_config : mapping, optional
        Entries added to the result's ``config``.
    leakage_checks : sequence of LeakageCheck
        Leakage checks, run first on all slices together.
    on_leakage : {"raise", "record", "skip", "drop"}, default "raise"
        How to handle leakage errors: raise them; record the report in ``config`` and continue; skip
        the checks; or drop the affected rows and continue.
    on_scorer_error : {"raise", "record"}, default "raise"
        How to handle a scorer that fails or does not return one probability per row: raise the
        exception, or record it as an error. MemoryError and AssertionError always propagate.
    operating_point_specs : sequence of OperatingPointSpec
        Thresholds to select on one slice and apply to others, without confidence intervals. Results
        are skipped on the slice used for selection.
    metrics : sequence of MetricSpec or str, optional
        Metrics to compute, or names such as ``f1@0.5``; by default PR-AUC, ROC-AUC, Brier score and
        log-loss.
    paired_metric : MetricSpec, optional
        Metric of the paired differences; by default PR-AUC.
    eval_split_names : sequence of str, optional
        Slices to report; all others are used only for leakage checks and threshold selection. By
        default, all slices are reported.
    thresholds : ThresholdSelector or sequence of them, optional
        Selectors applied to ``threshold_slice``. F1, precision, recall and false-positive rate at
        the selected threshold are reported on all other slices, with confidence intervals.
    threshold_slice : str, optional
        Slice on which thresholds are selected.
    precomputed_scores : mapping of (slice, scorer) to array-like, optional
        Scores to use instead of calling the scorer.
    batch_size : int, optional
        Number of rows per scorer call; by default, all rows at once.
    cache : dict, ScoreCache or path of a folder, optional
        Cache of scores, keyed by scorer name, scorer version and input. Every scorer needs a
        ``version``.
    progress : bool or callable, optional
        True shows a progress bar if stderr is a terminal; a function is called with (rows done,
        total rows, description).
    label, positive : str, optional
        Label column of a table, and the label of the positive class if labels are words.

    Returns
    -------
    RunResult
        ``by_slice[slice]["by_scorer"][scorer][metric]`` is a cell: value, status, reason and ci;
        ``notes`` lists inferred settings and warns about suspicious data.

    Raises
    ------
    InvalidInputError, InvalidTypeError, MissingColumnError
        If an argument is invalid or a name is unknown.
    LeakageError
        If a check finds an error and ``on_leakage`` is "raise".

    Notes
    -----
    Batch size, cache, executor and row order do not affect the results. To report a metric at a
    threshold selected on the same rows, request it in the metric:
    ``op_f1(MaxF1Selector(), ci_policy="refit")``.

    Examples
    --------
    >>> from eval_toolkit.slices import EvalSlice
    >>> class Length:
    ...     version = "1"
    ...     def predict_proba(self, X):
    ...         return [min(len(text), 10) / 10 for text in X]
    >>> texts = ["a" * (i % 10) for i in range(40)]
    >>> test = EvalSlice("test", {"text": texts, "label": [int(i % 10 > 4) for i in range(40)]})
    >>> result = evaluate({"length": Length()}, [test], run_id="demo")
    >>> cell = result.by_slice["test"]["by_scorer"]["length"]["roc_auc"]
    >>> cell["value"], cell["status"]
    (1.0, 'ok')
    """
    notes: tuple[str, ...] = ()
    if hasattr(scorers, "columns") or hasattr(scorers, "column_names"):
        from eval_toolkit.harness.short_form import PlainRows

        plain = PlainRows.of(scorers, slices, label, positive)
        scorers, slices, notes = plain.scorers, plain.slices, plain.notes
        precomputed_scores = {**plain.scores, **(precomputed_scores or {})}
    checked_run_id(run_id)
    named = named_scorers(scorers)
    everything = named_slices(slices)
    shown = list(chosen_slices(everything, eval_split_names, "eval_split_names"))
    selectors = checked_selectors(thresholds)
    options = Options(
        Scoring.of(batch_size, cache, on_scorer_error),
        CellSettings.of(
            metrics,
            n_resamples=n_resamples,
            confidence=confidence,
            seed=seed,
            rng=rng,
            executor=executor,
            paired_metric=paired_metric,
        ),
        checked_pairs(paired_diffs, named),
        selectors,
        _threshold_slice(selectors, threshold_slice, everything),
        checked_op_specs(operating_point_specs, everything, shown, named),
    )
    _known_subjects(precomputed_scores, everything, named)
    checks = checked_checks(leakage_checks)
    sizes = {name: len(slice_.y_true) for name, slice_ in everything.items()}
    safe = guarded(everything, checks, on_leakage)
    config = merged_config(
        {
            **described(options),
            "scorers": list(named),
            "slices": shown,
            "on_scorer_error": on_scorer_error,
            **safe.config,
        },
        extra_config,
    )
    total = len(named) * sum(len(safe.slices[name].y_true) for name in options.needed(shown))
    with showing(progress, total) as ticker:
        scoring = partial(
            score_part,
            named,
            safe.slices,
            shown,
            options,
            ticker,
            precomputed=safe.precomputed(precomputed_scores or {}, sizes),
        )
        done = drive(RowsKind(config, scoring), name=run_id)
    return RunResult(
        run_id,
        git_sha,
        config,
        by_slice=done.results["by_slice"],
        threshold_policy=done.results["threshold_policy"],
        records=done.subjects,
        versions=collected_versions(named, options, checks),
        leakage_report=safe.config.get("leakage_report"),
        notes=(*notes, *_doubts(done.subjects)),
    )


def _doubts(subjects: Mapping[tuple[str, str], Records]) -> Iterator[str]:
    """Yield warnings about suspicious scores."""
    for (slice_name, scorer), records in subjects.items():
        columns = records.columns
        if len(records):
            for note in sanity_notes(columns["label"], columns["score"]):
                yield f"{scorer} on {slice_name}: {note}"


def described(options: Options) -> dict[str, Any]:
    """Return the settings that affect the results; batch size, cache and executor do not."""
    measuring = options.measuring
    described: dict[str, Any] = {
        "n_resamples": measuring.n_resamples,
        "seed": measuring.seed,
        "confidence": measuring.confidence,
        "metrics": [spec.name for spec in measuring.specs],
        "paired_diffs": [list(pair) for pair in options.pairs],
        "paired_metric": measuring.paired_spec.name,
    }
    if options.selectors:
        described["thresholds"] = [selector.criterion for selector in options.selectors]
        described["threshold_slice"] = options.threshold_slice
    return described


def merged_config(config: dict[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge the caller's entries into the configuration; they must not override existing keys."""
    if extra is not None and not isinstance(extra, Mapping):
        raise InvalidTypeError(f"`extra_config` is {extra!r}; it must be a dict")
    own: dict[str, Any] = sanitize_for_json(extra or {})
    reserved = sorted(set(config) & set(own))
    if reserved:
        raise InvalidInputError(
            f"`extra_config` has the key {reserved[0]!r}, which is reserved for the run's own settings"
        )
    return config | own


def _threshold_slice(
    selectors: Sequence[ThresholdSelector], name: str | None, slices: Iterable[str]
) -> str | None:
    if not selectors:
        if name is not None:
            raise InvalidInputError("`threshold_slice` requires `thresholds`")
        return None
    known = ", ".join(map(repr, slices))
    if name is None:
        raise InvalidInputError(
            "`thresholds` requires `threshold_slice`, the slice on which thresholds are "
            f"selected; pass one of {known}"
        )
    if name not in slices:
        raise MissingColumnError(f"`threshold_slice` is {name!r}; the slices are {known}")
    return name


def _known_subjects(
    precomputed: Mapping[tuple[str, str], ArrayLike] | None,
    slices: Mapping[str, Any],
    scorers: Mapping[str, Any],
) -> None:
    for key in precomputed or {}:
        if not (isinstance(key, tuple) and len(key) == 2) or not (
            key[0] in slices and key[1] in scorers
        ):
            raise MissingColumnError(
                f"`precomputed_scores` has the key {key!r}; keys must be (slice, scorer), with the "
                f"slices {list(slices)} and the scorers {list(scorers)}"
            )


def evaluate_scorer_on_slice(
    scorer: Scorer,
    slice_: EvalSliceLike,
    *,
    n_resamples: int = 1000,
    rng: SeedLike = None,
    on_scorer_error: str = "raise",
    precomputed_scores: ArrayLike | None = None,
    attack_style: str | None = None,
    fpr_ladder: Sequence[float] | None = None,
    compute_mce: bool = False,
    compute_brier: bool = False,
    calibrator: Calibrator | None = None,
    metrics: Sequence[MetricSpec | str] | None = None,
    confidence: float = 0.95,
    seed: SeedLike = None,
    batch_size: int | None = None,
    cache: Any = None,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Evaluate one scorer on one slice and return its results.

    Parameters
    ----------
    scorer : Scorer
        Object with ``predict_proba``.
    slice_ : EvalSlice
        Slice with labels and features.
    n_resamples, rng, seed, confidence, metrics, on_scorer_error, batch_size, cache, executor
        As in `evaluate`.
    precomputed_scores : array-like of shape (n,), optional
        Scores to use instead of calling the scorer.
    attack_style : str, optional
        Value stored under the key ``attack_style``.
    fpr_ladder : sequence of float, optional
        False-positive rates at which recall is reported, as ``recall_at_fpr_<rate>``.
    compute_mce, compute_brier : bool, default False
        Whether to add ``mce``, the maximum calibration error, and ``brier`` if it is not in
        ``metrics``.
    calibrator : callable, optional
        Function that maps scores to calibrated scores; every metric is also computed on the
        calibrated scores, with the suffix ``_calibrated``.

    Returns
    -------
    dict
        Metric name → cell (value, status, reason, ci), with ``n``, ``n_positive``,
        ``is_single_class``, ``headline`` and ``scores`` in the order of the rows.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is invalid.

    Notes
    -----
    Every number is a cell that includes its interval: ``pr_auc`` and ``roc_auc`` are cells (there
    is no separate ``pr_auc_ci`` or ``roc_auc_ci``), a calibration error is the cell
    ``ece_n_bins_15_strategy_uniform``, the Brier score is ``brier``, the maximum calibration error
    is ``mce``, and recall at a false-positive rate is one cell ``recall_at_fpr_<rate>`` per rate
    (there is no dict ``tpr_at_fpr``). Plain numbers without intervals are in ``headline``, as
    returned by `headline_metrics`.

    Examples
    --------
    >>> from eval_toolkit.slices import EvalSlice
    >>> slice_ = EvalSlice("test", {"text": ["a"] * 20 + ["b"] * 20, "label": [0, 1] * 20})
    >>> class Half:
    ...     def predict_proba(self, X):
    ...         return [0.5] * len(X)
    >>> block = evaluate_scorer_on_slice(Half(), slice_, fpr_ladder=[0.01])
    >>> block["roc_auc"]["value"], block["recall_at_fpr_0.01"]["value"]
    (0.5, 0.0)
    """
    name = type(scorer).__name__
    rows = Rows(slice_.name, slice_)
    rows.check()
    extra: list[MetricSpec] = [ms.recall_at_fpr(rate) for rate in fpr_ladder or ()]
    extra += [_MAXIMUM_GAP] if compute_mce else []
    given = CellSettings.of(
        metrics,
        n_resamples=n_resamples,
        confidence=confidence,
        seed=seed,
        rng=rng,
        executor=executor,
    )
    if compute_brier and ms.brier.name not in {spec.name for spec in given.specs}:
        extra.append(ms.brier)
    usable = scorer if precomputed_scores is not None else usable_scorer(scorer, name)
    how = Scoring.of(batch_size, cache, on_scorer_error)
    scored = score_rows(usable, name, rows, how, Ticker(0), precomputed_scores)
    if scored.scores is None:
        return scored.block
    unit_ids = rows.unit_ids([scored.scores])
    block, _ = scored_block(
        rows, scored.scores, rows.records(scored.scores, unit_ids), given, extra
    )
    if calibrator is not None and rows.n:
        mapped = checked_scores(calibrator(scored.scores), rows.n, "calibrator")
        again, _ = scored_block(rows, mapped, rows.records(mapped, unit_ids), given, extra)
        shared = ("n", "n_positive", "is_single_class")
        block |= {f"{key}_calibrated": cell for key, cell in again.items() if key not in shared}
    return block | ({} if attack_style is None else {"attack_style": attack_style})


_MAXIMUM_GAP = ScoreSpec(
    "mce",
    metric_functions.maximum_calibration_error,
    EqualMassError(10, "max"),
    higher_is_better=False,
)
