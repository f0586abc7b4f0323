"""Metrics and differences computed from stored predictions, without running a model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.artifacts import (
    PredictionArrays,
    PredictionArtifactRef,
    load_predictions,
    pair_predictions,
)
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.inference import (
    MetricFn,
    PairedBootstrapCI,
    bootstrap_ci,
    delong_ci,
    delong_roc_variance,
    paired_bootstrap_diff,
)
from eval_toolkit.inference.options import RESAMPLING, Resampling
from eval_toolkit.metric_specs.names import named
from eval_toolkit.protocols import MetricSpec, PredictionReader

Ref: TypeAlias = PredictionArtifactRef | Mapping[str, Any]
"""Reference to stored predictions, or its ``to_dict()``."""

Metric: TypeAlias = str | MetricSpec | MetricFn


def reference(ref: Ref, *, groups: str | None = None) -> PredictionArtifactRef:
    """Return the reference, with the group column replaced if another one is given."""
    made = ref if isinstance(ref, PredictionArtifactRef) else PredictionArtifactRef.from_dict(ref)
    return made if groups is None else replace(made, columns=replace(made.columns, group=groups))


def one_subject(
    arrays: PredictionArrays,
    *,
    scorer: str | None = None,
    slice: str | None = None,  # noqa: A002 - the column's name
    name: str = "the file",
    option: str = "scorer",
) -> IntArray:
    """Return the rows of one scorer on one slice; raise if there are several.

    ``name`` (the file) and ``option`` (which selects a scorer) are used in messages.
    """
    rows: IntArray = np.arange(len(arrays), dtype=np.int64)
    chosen = ((option, "scorers", scorer), ("slice", "slices", slice))
    for argument, field, selected in chosen:
        have = np.array(getattr(arrays, field), dtype=object)
        known = sorted(set(have.tolist()))
        if selected is None and len(known) > 1:
            raise InvalidInputError(
                f"{name} contains {len(known)} {field}, {_listed(known)}; choose one with {argument}="
            )
        if selected is not None and selected not in known:
            has = _listed(known) if known else f"no column of {field}"
            raise MissingColumnError(f"`{argument}`: {name} has no {selected!r}; it has {has}")
        if selected is not None:
            rows = rows[have[rows] == selected]
    if not len(rows):
        raise MissingColumnError(f"{name} has no row of scorer {scorer!r} on slice {slice!r}")
    _refuse_repeated(arrays, rows, name)
    return rows


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")


def _refuse_repeated(arrays: PredictionArrays, rows: IntArray, name: str) -> None:
    first: dict[str, int] = {}
    for row in rows.tolist() if arrays.row_ids else ():
        key = arrays.row_ids[row]
        if first.setdefault(key, row) != row:
            raise ArtifactError(
                f"{name}: rows {first[key] + 1} and {row + 1} have the row id {key!r}; ids must be "
                "unique (in a file of several scorers or slices, name their columns)"
            )


def load_prediction_arrays(ref: Ref, *, reader: PredictionReader | None = None) -> PredictionArrays:
    """Load labels, scores and ids of stored predictions; check the hash and the row count.

    Parameters
    ----------
    ref : PredictionArtifactRef or mapping
        Reference or its ``to_dict()``; its ``media_type`` selects the reader.
    reader : PredictionReader, optional
        Custom reader for other formats.

    Returns
    -------
    PredictionArrays
        Arrays with ``labels`` and ``scores``, in the order of the file.

    Raises
    ------
    ArtifactError
        If the file is missing, altered or malformed.
    InvalidInputError
        If a column is missing, a label is neither 0 nor 1, a score is not finite, or there is no
        built-in reader for the media type.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.artifacts import write_predictions
    >>> ref = write_predictions(tempfile.mkdtemp() + "/p.csv", labels=[0, 1], scores=[0.2, 0.9])
    >>> load_prediction_arrays(ref.to_dict()).scores
    array([0.2, 0.9])
    """
    return load_predictions(ref, reader=reader)


@gathers(Resampling, **RESAMPLING)
def bootstrap_metric_from_predictions(
    ref: Ref,
    *,
    reader: PredictionReader | None = None,
    metric: Metric = "pr_auc",
    method: str | None = None,
    groups: str | None = None,
    scorer: str | None = None,
    slice: str | None = None,  # noqa: A002 - the column's name
    **resampling: Unpack[Resampling],
) -> dict[str, Any]:
    """Compute a metric with an interval from stored predictions, without running a model.

    Parameters
    ----------
    ref : PredictionArtifactRef or mapping
        Reference or its ``to_dict()``.
    reader : PredictionReader, optional
        Custom reader for other formats.
    n_resamples, confidence, executor
        As in `bootstrap_ci`.
    rng, seed : int, Generator, …, default 42
        Random seed or generator; pass only one of the two.
    metric : str, MetricSpec or callable, default "pr_auc"
        Name such as ``f1@0.5``, as accepted by `metric_specs.named`, spec, or function of (y_true, y_score).
    method : str, optional
        "BCa", "percentile", "basic", "studentized", or "delong" for ``roc_auc``, which needs no
        resampling; by default as in `bootstrap_ci`.
    groups : str, optional
        Column of groups to resample as a whole. By default, the group column of the reference, if
        there is one.
    scorer, slice : str, optional
        Scorer and slice to use; required if the file contains several.

    Returns
    -------
    dict
        ``point_estimate``, ``ci_low``, ``ci_high``, ``ci_95`` (the same pair), ``confidence``,
        ``n_resamples``, ``method``, ``metric`` and other keys. Rows are sorted by id (by score without
        ids) before resampling, so the order of the file does not matter.

    Raises
    ------
    ArtifactError, InvalidInputError
        As in `load_prediction_arrays`; also if the metric or the method is unknown, the file contains
        several scorers or slices and none is selected, or a row id is duplicated.
    UndefinedMetricError
        If the metric is undefined for the data.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.artifacts import write_predictions
    >>> ref = write_predictions(
    ...     tempfile.mkdtemp() + "/p.csv", labels=[0, 1] * 10, scores=[0.3, 0.6, 0.5, 0.4] * 5
    ... )
    >>> ci = bootstrap_metric_from_predictions(ref, metric="roc_auc", n_resamples=200)
    >>> ci["point_estimate"], ci["method"]
    (0.75, 'score')
    """
    loaded = load_predictions(reference(ref, groups=groups), reader=reader)
    arrays = in_order(loaded.take(one_subject(loaded, scorer=scorer, slice=slice)))
    chosen, name = _metric(metric)
    if _is_delong(method, name):
        _ungrouped(arrays.groups)
        ci = delong_ci(arrays.labels, arrays.scores, confidence=resampling["confidence"])
    else:
        ci = bootstrap_ci(
            arrays.labels,
            arrays.scores,
            chosen,
            method=method,
            groups=_groups(arrays.groups),
            **resampling,
        )
    return {"metric": name, **ci.to_dict(), "n_rows": len(arrays)}


class _Testing(Resampling, total=False):
    """Test settings of a paired difference."""

    method: str | None


@gathers(_Testing, method=None, **RESAMPLING)
def paired_diff_from_prediction_refs(
    baseline_ref: Ref,
    candidate_ref: Ref,
    *,
    baseline_reader: PredictionReader | None = None,
    candidate_reader: PredictionReader | None = None,
    metric: Metric = "pr_auc",
    groups: str | None = None,
    baseline_scorer: str | None = None,
    candidate_scorer: str | None = None,
    slice: str | None = None,  # noqa: A002 - the column's name
    **testing: Unpack[_Testing],
) -> dict[str, Any]:
    """Compare two stored sets of predictions for the same rows: candidate − baseline.

    Parameters
    ----------
    baseline_ref, candidate_ref : PredictionArtifactRef or mapping
        References or their ``to_dict()``. Rows are joined on ``row_id`` in any order; content
        hashes and labels must agree.
    baseline_reader, candidate_reader : PredictionReader, optional
        Custom readers for other formats.
    n_resamples, confidence, executor
        As in `paired_bootstrap_diff`.
    rng, seed : int, Generator, …, default 42
        Random seed or generator; pass only one of the two.
    metric, groups
        As in `bootstrap_metric_from_predictions`.
    method : {"percentile", "delong"}, optional
        "percentile" uses quantiles of the bootstrapped differences, "delong" DeLong's test for
        ``roc_auc``; by default, the interval of `paired_bootstrap_diff` is used.
    baseline_scorer, candidate_scorer, slice : str, optional
        Scorers and slice to use; required if a file contains several. Both references may point to the
        same file.

    Returns
    -------
    dict
        ``delta``, ``ci_low``, ``ci_high``, ``ci_95`` (the same pair), ``p_value``, ``value_a`` of
        the baseline, ``value_b`` of the candidate, ``n_resamples``, ``method``, ``metric`` and so
        on. ``pairing`` lists the checks that could not be performed; it is "" if all were.

    Raises
    ------
    ArtifactError
        If a row is in only one file, or its hash or label differs (also a ValueError); see also
        `load_prediction_arrays`.
    InvalidInputError
        If the metric or the method is unknown, or a file contains several scorers or slices and none
        is selected.
    UndefinedMetricError
        If the metric is undefined for the data.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.artifacts import write_predictions
    >>> folder, ids = tempfile.mkdtemp(), [f"r{i}" for i in range(20)]
    >>> old = write_predictions(
    ...     folder + "/old.csv", labels=[0, 1] * 10, scores=[0.3, 0.6, 0.5, 0.4] * 5, row_ids=ids
    ... )
    >>> new = write_predictions(
    ...     folder + "/new.csv", labels=[0, 1] * 10, scores=[0.2, 0.9] * 10, row_ids=ids
    ... )
    >>> paired_diff_from_prediction_refs(old, new, metric="roc_auc")["delta"]
    0.25
    """
    sides = []
    for name, ref, reader, scorer in (
        ("baseline", baseline_ref, baseline_reader, baseline_scorer),
        ("candidate", candidate_ref, candidate_reader, candidate_scorer),
    ):
        side = load_predictions(reference(ref, groups=groups), reader=reader)
        rows = one_subject(side, scorer=scorer, slice=slice, name=name, option=f"{name}_scorer")
        sides.append(side.take(rows))
    baseline, candidate = sides
    paired = pair_predictions(baseline, candidate)
    chosen, name = _metric(metric)
    if _is_delong(testing["method"], name):
        _ungrouped(paired.groups)
        diff = _delong(paired.labels, paired.scores_a, paired.scores_b, testing["confidence"])
    else:
        validation.choice(testing["method"] or "percentile", "method", ("percentile", "delong"))
        diff = paired_bootstrap_diff(
            paired.labels,
            paired.scores_a,
            paired.scores_b,
            chosen,
            groups=_groups(paired.groups),
            **testing,
        )
    return {"metric": name, **diff.to_dict(), "n_rows": len(paired), "pairing": paired.note}


def _delong(labels: Any, a: Any, b: Any, confidence: float) -> PairedBootstrapCI:
    """Return DeLong's difference as a paired difference."""
    result = delong_roc_variance(labels, a, b, confidence=confidence)
    return PairedBootstrapCI(
        delta=result.delta_auc,
        ci_low=result.ci_low,
        ci_high=result.ci_high,
        overlaps_zero=result.ci_low <= 0.0 <= result.ci_high,
        confidence=result.confidence,
        n_resamples=0,
        method="delong",
        p_value=result.p_value,
        value_a=result.auc_a,
        value_b=result.auc_b,
        reason=result.reason,
    )


def in_order(arrays: PredictionArrays) -> PredictionArrays:
    """Return the rows sorted by id, score, label and group, regardless of the file's order.

    Rows that agree in all four are interchangeable.
    """
    keys: list[NDArray[Any]] = [arrays.labels, arrays.scores]
    if arrays.groups:
        keys.insert(0, np.array(arrays.groups))
    if arrays.row_ids:
        keys.append(np.array(arrays.row_ids))
    return arrays.take(np.lexsort(keys))


def _metric(metric: Metric) -> tuple[Any, str]:
    if isinstance(metric, str):
        return named(metric), metric
    name = getattr(metric, "name", None) or getattr(metric, "__name__", type(metric).__name__)
    return metric, str(name)


def _is_delong(method: str | None, name: str) -> bool:
    if method == "delong" and name not in ("roc_auc", "auroc"):
        raise InvalidInputError(
            f"`method` is 'delong', which applies to roc_auc only; {name} needs a bootstrap method"
        )
    return method == "delong"


def _ungrouped(groups: tuple[str, ...]) -> None:
    if len(set(groups)) < len(groups):
        raise InvalidInputError(
            "`method` is 'delong', which assumes independent rows; use a bootstrap method for "
            "rows in groups"
        )


def _groups(groups: tuple[str, ...]) -> list[str] | None:
    return list(groups) or None
