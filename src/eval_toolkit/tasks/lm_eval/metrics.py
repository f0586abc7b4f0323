"""Parsing and validation of the metrics of lm-eval tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_DEFAULT = {
    "generate_until": ("exact_match",),
    "multiple_choice": ("acc", "acc_norm"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}
_MEAN = ("mean", "nanmean")
_OWN_AGGREGATION = {
    "f1": "f1",
    "mcc": "matthews_corrcoef",
    "brier_score": "brier_score",
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    **{name: name for name in ("bleu", "chrf", "chrf++", "ter")},
}
"""Default aggregation of metrics that are not means over documents."""
_OF_TYPE = {
    "generate_until": ("exact_match", "bleu", "chrf", "chrf++", "ter"),
    "multiple_choice": (
        *("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match"),
        *("f1", "mcc", "brier_score"),
    ),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}
_LOWER = ("brier_score", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "ter")
_ABOUT = ("metric", "aggregation", "higher_is_better", "hf_evaluate", "weight_by_size")
_MATCH = ("regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers")
_OF_VALUES = (*_MEAN, "median", "perplexity", "weighted_perplexity", "bits_per_byte")
"""Aggregations supported for the values of a task's own function."""
_PAIRS = ("acc", "f1", "mcc", "brier_score", "bleu", "chrf", "chrf++", "ter")
"""Metrics whose values for a generated answer are pairs of the reference and the answer."""
_SINGLE = ("accuracy", "f1", "precision", "recall")
"""Metrics of `evaluate` that are 1 for an answer equal to the reference, else 0."""


@dataclass(frozen=True, slots=True)
class MetricConfig:
    """Entry of a task's ``metric_list``."""

    name: str
    aggregation: str | Callable[..., Any] = "mean"
    """Name of the aggregation, or a function of the task of the list of values."""
    higher_is_better: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    """Metric function of the task, called with ``references`` and ``predictions``."""
    evaluated: bool = False
    """Whether the metric is that of the library `evaluate`."""


def read_metrics(
    config: Mapping[str, Any], output_type: str, problems: list[str]
) -> tuple[MetricConfig, ...]:
    """Parse the metrics of a task, appending unsupported metrics to ``problems``.

    The output type determines which metrics are supported, and the default metrics.

    Examples
    --------
    >>> problems = []
    >>> _ = read_metrics({"metric_list": [{"metric": "rouge"}]}, "generate_until", problems)
    >>> problems
    ["metric_list[0], the metric 'rouge' (there are exact_match, bleu, chrf, chrf++, ter)"]
    """
    given = config.get("metric_list")
    if given is None:
        return tuple(_metric({"metric": name}) for name in _DEFAULT[output_type])
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        problems.append("metric_list, which must be a list of tables")
        return ()
    own = config.get("process_results") is not None
    for at, one in enumerate(given):
        problem = _own_problem(one) if own else _problem(one, output_type)
        if problem:
            problems.append(f"metric_list[{at}], {problem}")
    return tuple(_metric(one) for one in given)


def _metric(given: Mapping[str, Any]) -> MetricConfig:
    named, aggregation = given.get("metric"), given.get("aggregation")
    function = named if callable(named) else None
    name = str(getattr(named, "__name__", named))
    up = given.get("higher_is_better")
    kept = aggregation if callable(aggregation) else str(aggregation) if aggregation else None
    return MetricConfig(
        name,
        kept or _OWN_AGGREGATION.get(name, "mean"),
        name not in _LOWER if up is None else bool(up),
        {key: value for key, value in given.items() if key not in _ABOUT},
        function,
        bool(given.get("hf_evaluate")),
    )


def _own_problem(given: Mapping[str, Any]) -> str:
    """Describe the problem with a metric function, or return "" if there is none."""
    aggregation = given.get("aggregation") or "mean"
    if callable(aggregation) or aggregation in _OF_VALUES:
        return ""
    return f"the aggregation {aggregation!r} of {given.get('metric')!r}"


def _problem(given: Mapping[str, Any], output_type: str) -> str:
    name, known = given.get("metric"), _OF_TYPE[output_type]
    aggregation, texts = given.get("aggregation"), output_type == "generate_until"
    if callable(name):
        return _own_problem(given) if texts else "a function as a metric"
    if texts and given.get("hf_evaluate"):
        return _evaluate_problem(given)
    if callable(aggregation) and (name in known or (texts and name in _PAIRS)):
        return ""
    if name not in known:
        return f"the metric {name!r} (there are {', '.join(known)})"
    allowed = (_OWN_AGGREGATION[name],) if name in _OWN_AGGREGATION else (*_MEAN, "median")
    if aggregation is not None and aggregation not in allowed:
        return f"the aggregation {aggregation!r} of {name!r} (there is {', '.join(allowed)})"
    return _option_problem(given) if texts else ""  # other types do not read the options


def _evaluate_problem(given: Mapping[str, Any]) -> str:
    """Describe the problem with a metric of `evaluate` for one answer; "" if there is none."""
    name, options = given.get("metric"), {key for key in given if key not in _ABOUT}
    if name == "exact_match":
        return _option_problem(given)
    averaged = given.get("average") in ("micro", "macro", "weighted")
    equal = name == "accuracy" or (name in _SINGLE and averaged)
    if not equal or options - {"average"} or given.get("aggregation", "mean") not in _MEAN:
        return f"the metric {name!r} of the library evaluate"
    return ""


def _option_problem(given: Mapping[str, Any]) -> str:
    """Describe the problem with the options of a metric of answers; "" if there is none."""
    name = given.get("metric")
    ignored = given.get("regexes_to_ignore") or []
    if not isinstance(ignored, list) or not all(isinstance(one, str) for one in ignored):
        return f"the regexes_to_ignore of {name!r}, which must be a list of patterns"
    options = [key for key in given if key not in _ABOUT]
    if name == "exact_match":
        options = [key for key in options if key not in _MATCH]
    return f"the option {options[0]!r} of {name!r}" if options else ""
