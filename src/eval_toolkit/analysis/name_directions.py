"""Directions of metrics, based on their names."""

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metric_specs.names import named, quantity_of
from eval_toolkit.metrics import CATALOGUE
from eval_toolkit.metrics.directions import known_direction

metric_named = named
"""Former name of `metric_specs.named`."""


def higher_is_better(name: str) -> bool | None:
    """Return whether higher is better for a metric, based on its name; None if unknown.

    Names of built-in metrics are looked up; others are inferred by `known_direction`.

    Examples
    --------
    >>> higher_is_better("pr_auc"), higher_is_better("brier"), higher_is_better("reward")
    (True, False, None)
    >>> higher_is_better("val_loss"), higher_is_better("exact_match,none")
    (False, True)
    """
    name = quantity_of(name) or name
    if name in CATALOGUE:
        return CATALOGUE[name].higher_is_better
    try:
        return bool(named(name).higher_is_better)  # type: ignore[attr-defined]
    except InvalidInputError:
        return known_direction(name)
