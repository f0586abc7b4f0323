"""Differences of metrics whose columns, including labels, differ between the two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import paired_bootstrap_diff
from eval_toolkit.inference.bootstrap_intervals import (
    MAX_UNDEFINED,
    PLAN_NOTES,
    bootstrap_problem,
    finite,
    undefined_error,
)
from eval_toolkit.inference.column_statistics import Statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.paired_intervals import combined_difference
from eval_toolkit.inference.plans import groups_plan, rows_plan
from eval_toolkit.inference.resampling import Executor, Problem, replicate
from eval_toolkit.inference.results import PairedBootstrapCI
from eval_toolkit.inference.score_intervals import effective_rows
from eval_toolkit.inference.statistics import AtThreshold, statistic_for
from eval_toolkit.metric_specs import StatisticSpec, SumsSpec
from eval_toolkit.protocols import MetricSpec


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Metric computed on the columns of A and of B for the same units.

    Resamples are represented by counts of units, so two problems with the same plan and seed draw
    the same units, regardless of how these are ranked by score.
    """

    spec: MetricSpec
    sides: tuple[tuple[Statistic, Columns], tuple[Statistic, Columns]]

    @classmethod
    def of(
        cls, spec: MetricSpec, a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]]
    ) -> "Redrawn":
        """Prepare the metric on the columns of each side.

        The metric is undefined if the attempts at a unit have different labels, or if a statistic
        is given several attempts per unit.
        """
        return cls(spec, (_side(spec, a), _side(spec, b)))

    def values(self) -> tuple[float, float]:
        """Return the value of each side; raise `UndefinedMetricError` if one is undefined."""
        a, b = (finite(statistic.point(data), self.spec.name) for statistic, data in self.sides)
        return a, b

    def difference(
        self,
        groups: NDArray[Any] | None,
        *,
        n_resamples: int,
        confidence: float,
        seed: int,
        executor: Executor | None,
    ) -> PairedBootstrapCI:
        """Return B − A with its interval, resampling whole groups if there are any.

        If both sides have the same labels, the result is that of `paired_bootstrap_diff`.
        """
        (_, data_a), (_, data_b) = self.sides
        if data_a.rank is not None and np.array_equal(data_a.labels, data_b.labels):
            return paired_bootstrap_diff(
                data_a.labels,
                data_a.scores,
                data_b.scores,
                self.spec,
                n_resamples=n_resamples,
                confidence=confidence,
                seed=seed,
                groups=groups,
                executor=executor,
            )
        value_a, value_b = self.values()
        plan = rows_plan(self.sides[0][1].n) if groups is None else groups_plan(groups)
        problems = [Problem((data,), (of,), plan, seed) for of, data in self.sides]
        samples = np.stack(
            [replicate(one, n_resamples, executor=executor)[0, 0] for one in problems]
        )
        undefined = int(np.count_nonzero(np.isnan(samples).any(axis=0)))
        if undefined > MAX_UNDEFINED * n_resamples:
            raise undefined_error(self.sides[0][0], undefined, n_resamples)
        a, b = (
            bootstrap_problem(
                one,
                n_resamples=n_resamples,
                confidence=confidence,
                method=None,
                samples=drawn[None, None],
            )[0][0]
            for one, drawn in zip(problems, samples, strict=True)
        )
        effective = min(effective_rows(of, data, plan) for of, data in self.sides)
        delta = value_b - value_a
        rates = isinstance(self.sides[0][0], AtThreshold) and plan.is_independent
        low, high, p_value = combined_difference(a, b, samples, delta, effective, rates=rates)
        return PairedBootstrapCI(
            delta,
            low,
            high,
            low <= 0.0 <= high,
            confidence,
            n_resamples - undefined,
            "mover" + PLAN_NOTES[plan.kind],
            undefined,
            p_value,
            value_a=value_a,
            value_b=value_b,
        )


def _side(spec: MetricSpec, columns: Sequence[NDArray[Any]]) -> tuple[Statistic, Columns]:
    if isinstance(spec, (SumsSpec, StatisticSpec)):
        if any(isinstance(value, tuple) for column in columns for value in column.tolist()):
            raise UndefinedMetricError(
                f"{spec.name} is compared unit by unit, but there are several attempts at one unit"
            )
        return spec.statistic, spec.data_of(dict(zip(spec.columns, columns, strict=True)))
    labels, scores = columns
    if not np.isin(labels, (0.0, 1.0)).all():
        raise UndefinedMetricError(
            f"{spec.name} is compared unit by unit, but attempts at one unit have different labels"
        )
    return statistic_for(spec), Columns.scored(labels == 1.0, scores)
