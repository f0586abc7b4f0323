"""Metrics that average an evaluator's columns, and their directions."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit.protocols import MetricSpec

_SHARE = (0.0, 1.0)
_ANY = (-math.inf, math.inf)
_RATES = ("adversarial_toxicity_rate", "target_toxicity_rate")


def is_first_turn(name: str) -> bool:
    """Return whether a column contains the turn of a first event.

    Examples
    --------
    >>> is_first_turn("first_refusal_turn"), is_first_turn("num_turns")
    (True, False)
    """
    return name.startswith("first_") and name.endswith("_turn")


def mean_specs(columns: Sequence[str], *, higher_is_worse: bool = True) -> list[MetricSpec]:
    """Return a metric for the mean of each column except ``first_…_turn``.

    The mean of a first turn would ignore rollouts without such a turn. Use the rate of rollouts
    that have one instead, or `rollouts.survival` for the time until the event.

    Unless ``higher_is_worse`` is false, lower target toxicity is better, and so is a lower rate of
    rollouts with a toxic response. Other columns, including those of probes, have no direction.

    Examples
    --------
    >>> names = ["avg_target_toxicity", "first_target_toxicity_turn", "num_turns"]
    >>> [(spec.name, spec.higher_is_better) for spec in mean_specs(names)]
    [('avg_target_toxicity', False), ('num_turns', None)]
    """
    specs: list[MetricSpec] = []
    for name in columns:
        if is_first_turn(name):
            continue
        share = name.startswith("pct_rollouts_with_") or name in _RATES
        better = None
        if "toxicity" in name and "adversarial" not in name:
            better = not (share or higher_is_worse)
        specs.append(ms.mean_of(name, higher_is_better=better, bounds=_SHARE if share else _ANY))
    return specs


def of_shares(specs: Sequence[MetricSpec], values: Sequence[Mapping[str, Any]]) -> list[MetricSpec]:
    """Return the specs, with binary columns bounded as proportions.

    Examples
    --------
    >>> specs = mean_specs(["hit", "words"])
    >>> [spec.bounds for spec in of_shares(specs, [{"hit": True, "words": 1}])]
    [(0.0, 1.0), (-inf, inf)]
    """
    return [
        dataclasses.replace(spec, bounds=_SHARE, kind="share")
        if isinstance(spec, ms.ColumnSpec)
        and spec.bounds == _ANY
        and _is_yes_or_no([value.get(spec.column) for value in values])
        else spec
        for spec in specs
    ]


def _is_yes_or_no(values: Sequence[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, (bool, np.bool_)) for value in present)
