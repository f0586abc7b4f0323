"""Read the results reported in the header of an Inspect log."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.integrations.importing.inspect_values import is_known, mean_of
from eval_toolkit.integrations.importing.logs import LoggedSample, Stated

_MEANS = ("accuracy", "mean")
_ERRORS = {"stderr": "sample sd / sqrt(n)", "bootstrap_stderr": "bootstrap"}
_ERRORS["bootstrap_std"] = "bootstrap"  # name of the metric until 2025
_OF_ALL_TRIES = "mean of all attempts"
_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class Results:
    """Reported values, and notes on omitted values."""

    stated: list[Stated]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Metric:
    key: str
    name: str
    group: str
    value: Any
    cluster: str | None


def read_results(
    results: Mapping[str, Any],
    columns: Collection[str],
    scorers: Any,
    *,
    unreduced: bool,
) -> Results:
    """Read the scores in the results of a header.

    ``results`` and ``scorers`` are entries of the header; the latter distinguishes built-in from
    custom metrics. ``columns`` is empty if the samples are not read. With ``unreduced``, each epoch
    counts as an item. Values that are not finite or have no column are omitted with a note.
    """
    named = set(_metric_names(scorers))
    own = {name for name in _MEANS if name in named and f"inspect_ai/{name}" not in named}
    stated: list[Stated] = []
    notes: list[str] = []
    for score in _scores(results):
        scorer, name = (_name(score.get(key)) for key in ("scorer", "name"))
        scorer, name = scorer or name or "score", name or scorer or "score"
        column = _column(scorer, name, columns)
        metrics = list(_metrics(score.get("metrics")))
        if column is None:
            notes += [
                f"{scorer}: the log reports {metric.key} {metric.value!r:.30}; omitted, because the "
                f"samples have no single value for {name!r}"
                for metric in metrics
            ]
            continue
        reducer = score.get("reducer") if isinstance(score.get("reducer"), str) else None
        how = _OF_ALL_TRIES if unreduced and reducer is None else _mean_over(reducer)
        n = score.get("scored_samples")
        stated += _stated(column, metrics, how, reducer, n if isinstance(n, int) else None, own)
        notes += [
            f"{column}: the log reports {metric.value!r:.30} as its {metric.key}, which is not a finite number; omitted"
            for metric in metrics
            if _finite(metric.value) is None
        ]
    return Results(stated, notes)


def _mean_over(reducer: str | None) -> str:
    return "mean" if reducer in (None, "mean") else f"mean of {reducer}"


def _stated(
    column: str,
    metrics: Sequence[_Metric],
    how: str,
    reducer: str | None,
    n: int | None,
    own: Collection[str],
) -> Iterator[Stated]:
    """Yield means with their standard errors, and other values individually."""
    means = [one for one in metrics if one.name in _MEANS and not one.group and one.name not in own]
    errors = [one for one in metrics if one.name in _ERRORS and not one.group]
    error = errors[0] if means and errors else None
    suffix = f" ({reducer})" if reducer else ""
    for metric in metrics:
        value = _finite(metric.value)
        if value is None or metric is error:
            continue
        is_mean = metric in means
        spread = None if error is None or not is_mean else _finite(error.value)
        yield Stated(
            column=column,
            name=f"{metric.key}{suffix}",
            value=value,
            stderr=spread,
            n=n if is_mean else None,
            aggregation=how if is_mean else _aggregation(metric, reducer),
            stderr_name="" if spread is None or error is None else _stderr_name(error),
        )


def _aggregation(metric: _Metric, reducer: str | None) -> str:
    made = f"{metric.group} {metric.name}".strip()
    if made in _MEANS:
        made = f"the task's own {made}"
    return made if reducer in (None, "mean") else f"{made} of {reducer}"


def _stderr_name(metric: _Metric) -> str:
    if metric.cluster is not None:
        return f"clustered by {metric.cluster!r}"
    return _ERRORS[metric.name]


def reduction_notes(
    stated: Sequence[Stated],
    samples: Sequence[LoggedSample],
    reduced: Mapping[str, Sequence[LoggedSample]],
) -> list[str]:
    """Describe which means over other reductions can be reproduced from the samples.

    Means over epochs are checked elsewhere. For logs that contain reductions instead of samples,
    ``reduced`` contains these by reducer. Returns one note per value that differs, and one note for
    all values that match.
    """
    lines, same = [], 0
    for one in stated:
        is_recomputed, found = _again(one, samples, reduced)
        if not is_recomputed:
            continue
        if found is not None and math.isclose(found, one.value, rel_tol=_SAME, abs_tol=_SAME):
            same += 1
            continue
        again = "no value" if found is None else f"{found:.12g}"
        lines.append(
            f"{one.column}: the log reports {one.name} {one.value:.12g} "
            f"({one.aggregation}); from the samples it is {again}"
        )
    if same:
        lines.append(f"{same} means over other reductions of the epochs match the samples")
    return lines


def _again(
    one: Stated,
    samples: Sequence[LoggedSample],
    reduced: Mapping[str, Sequence[LoggedSample]],
) -> tuple[bool, float | None]:
    """Return whether a value can be recomputed from the samples, and the result."""
    if not samples:
        return False, None
    if one.aggregation == _OF_ALL_TRIES:
        return True, mean_of(samples, one.column, None)
    reducer = one.aggregation.removeprefix("mean of ")
    if reducer == one.aggregation:
        return False, None
    if reducer in reduced:
        return True, mean_of(reduced[reducer], one.column, "mean")
    return is_known(reducer), mean_of(samples, one.column, reducer)


def _scores(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    scores = results.get("scores")
    if scores is None and isinstance(results.get("scorer"), Mapping):  # format until 2024
        scores = [{"metrics": results.get("metrics"), **results["scorer"]}]
    found = scores if isinstance(scores, list) else []
    return [one for one in found if isinstance(one, Mapping)]


def first_scorer(results: Mapping[str, Any]) -> str:
    """Return the name of the first scorer; "score" if there is none.

    Examples
    --------
    >>> first_scorer({"scores": [{"name": "match", "metrics": {}}]}), first_scorer({})
    ('match', 'score')
    """
    names = (_name(one.get("name")) for one in _scores(results))
    return next((name for name in names if name), "score")


def _metrics(given: Any) -> Iterator[_Metric]:
    for key, metric in given.items() if isinstance(given, Mapping) else ():
        told = metric if isinstance(metric, Mapping) else {"value": metric}
        params = told.get("params") or told.get("options")
        cluster = params.get("cluster") if isinstance(params, Mapping) else None
        name = (_name(told.get("name")) or _name(key) or "").removeprefix("inspect_ai/")
        group = _name(told.get("group")) or ""
        cluster = cluster if isinstance(cluster, str) else None
        yield _Metric(whole_text(key), name, group, told.get("value"), cluster)


def _metric_names(given: Any) -> Iterator[str]:
    """Yield every metric name in nested lists and dicts."""
    for scorer in given if isinstance(given, list) else ():
        pending = [scorer.get("metrics")] if isinstance(scorer, Mapping) else []
        while pending:
            one = pending.pop()
            if isinstance(one, list):
                pending += one
            elif isinstance(one, Mapping) and isinstance(one.get("name"), str):
                yield one["name"]
            elif isinstance(one, Mapping):
                pending += one.values()


def _column(scorer: str, name: str, columns: Collection[str]) -> str | None:
    """Return the column of a score in the header."""
    likely = [scorer, f"{scorer}.{name}"] if name == scorer else [f"{scorer}.{name}", name]
    return next((one for one in likely if one in columns), None if columns else likely[0])


def _name(value: Any) -> str | None:
    return whole_text(value) if isinstance(value, str) and value else None


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
