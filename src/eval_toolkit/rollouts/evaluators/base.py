"""Base class of evaluators."""

import dataclasses
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import write_atomic
from eval_toolkit._internal.plain import plain, where
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    ModelError,
    UndefinedMetricError,
)
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.rollouts.evaluators.kind import EvaluatedKind
from eval_toolkit.rollouts.evaluators.rolling import Tell, goal_of, judged, one_line, rolled
from eval_toolkit.rollouts.evaluators.runs import (
    EvaluatedRollout,
    EvaluatorRun,
    GraphMetrics,
    Identity,
    JSONLike,
    identities,
)
from eval_toolkit.rollouts.evaluators.specs import is_first_turn, mean_specs, of_shares
from eval_toolkit.rollouts.graphs import ActionT, Graph, StateT, as_graph
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.scorecards import Records

__all__ = ["Evaluator", "EvaluatorRun", "GraphMetrics", "JSONLike", "RolloutCountError"]

SeedT = TypeVar("SeedT")


class RolloutCountError(InvalidInputError, AssertionError):
    """Raised if there are fewer seeds than requested rollouts; a subclass of ``AssertionError``."""


class Evaluator(ABC, Generic[StateT, ActionT, SeedT]):
    """Base class of evaluators, which sample rollouts from seeds and aggregate their metrics.

    A subclass defines the metrics of one rollout (`compute_metrics`) and their aggregation
    (`aggregate_metrics`). `evaluate` returns the aggregate unchanged; records, confidence intervals
    and failures are in `run`.

    Parameters
    ----------
    sampler : object
        Object with an attribute ``system`` and a method ``eval_rollout(seed)`` that returns a
        `Graph` or an astra-rl graph. If it also has ``eval_rollouts(seeds, attempts=…)``, that
        method is called once for all rollouts.
    seeds : sequence, optional
        Seeds of the rollouts: prompts, `SeedPrompt` objects or numbers. By default 0, 1, 2, ….
    env : object, optional
        Alias of ``sampler``.
    rollouts_per_seed : int, default 1
        Number of rollouts per seed, which count as attempts at the same unit.
    confidence : float, default 0.95
        Confidence level of the intervals in `run`.

    Raises
    ------
    InvalidInputError
        If ``sampler`` is missing, or passed together with its alias ``env``.
    InvalidTypeError
        If the sampler has no ``eval_rollout`` or no ``system``, or the seeds are not a sequence. An
        incomplete subclass raises ``TypeError``.

    Examples
    --------
    >>> from eval_toolkit.rollouts.evaluators.ast import ASTSampler
    >>> from eval_toolkit.rollouts.toys import TOY_PROMPTS, toy_system
    >>> class Turns(Evaluator[str, str, str]):
    ...     def compute_metrics(self, g):
    ...         return GraphMetrics(overall={"turns": len(g.first_path())}, per_turn=[])
    ...
    ...     def aggregate_metrics(self, all_metrics):
    ...         return {"most": max(m.overall["turns"] for m in all_metrics)}
    >>> evaluator = Turns(ASTSampler(toy_system(), TOY_PROMPTS), seeds=TOY_PROMPTS)
    >>> evaluator.evaluate(n_rollouts=4, progress=False)
    {'most': 3}
    >>> evaluator.run.estimates["turns"]["value"], evaluator.run.n_errors
    (3.0, 0)
    """

    def __init__(
        self,
        sampler: Any = None,
        seeds: Sequence[SeedT] | None = None,
        *,
        env: Any = None,
        rollouts_per_seed: int = 1,
        confidence: float = 0.95,
    ) -> None:
        if sampler is not None and env is not None:
            raise InvalidInputError("`env` is an alias of `sampler`; pass only one of them")
        given = env if sampler is None else sampler
        if given is None:
            raise InvalidInputError(
                "`sampler` is missing; pass an object with `eval_rollout(seed)`"
            )
        for name in ("eval_rollout", "system"):
            if not hasattr(given, name):
                raise InvalidTypeError(f"the sampler {type(given).__name__} has no `{name}`")
        if isinstance(seeds, str) or not (seeds is None or isinstance(seeds, Sequence)):
            raise InvalidTypeError(f"`seeds` is {seeds!r:.60}; it must be a sequence of seeds")
        self.sampler = given
        self.seeds = seeds
        self.rollouts_per_seed = validation.integer(rollouts_per_seed, "rollouts_per_seed", low=1)
        self.confidence = validation.fraction(confidence, "confidence")
        self.run: EvaluatorRun | None = None

    @property
    def env(self) -> Any:
        """Alias of the sampler."""
        return self.sampler

    @abstractmethod
    def compute_metrics(self, g: Graph[StateT, ActionT]) -> GraphMetrics:
        """Compute the metrics of one rollout.

        Implementations may raise `UndefinedMetricError` if the metrics are not defined for a
        rollout, and `ModelError` if a required answer is missing; the rollout is then counted but
        excluded from averages.
        """

    @abstractmethod
    def aggregate_metrics(self, all_metrics: list[GraphMetrics]) -> JSONLike:
        """Aggregate the metrics of all rollouts, which are in the order of the seeds."""

    def record_values(self, metrics: GraphMetrics) -> Mapping[str, Any]:
        """Return the values to store as columns of the records; numbers get confidence intervals.

        By default, all of ``overall``, and for each ``first_…_turn`` a column
        ``pct_rollouts_with_…`` that indicates whether there is such a turn (its mean is a rate from
        0 to 1).
        """
        values = dict(metrics.overall)
        for name, value in metrics.overall.items():
            if is_first_turn(name):
                values.setdefault(f"pct_rollouts_with_{name[6:-5]}", value is not None)
        return values

    def summary_specs(self, columns: Sequence[str]) -> list[MetricSpec]:
        """Return the metrics that summarise the columns in `run`.

        By default, the mean of each column except ``first_…_turn``, whose mean would ignore the
        rollouts without such a turn.
        """
        return mean_specs(columns)

    def evaluate(self, n_rollouts: int | None = None, progress: bool = True) -> JSONLike:
        """Sample rollouts, measure them and aggregate their metrics.

        Parameters
        ----------
        n_rollouts : int, optional
            Number of seeds to use, starting with the first; by default, all. Required if the
            evaluator has no seeds.
        progress : bool, default True
            Whether to show a progress bar and failures on standard error if it is a terminal.

        Returns
        -------
        dict or list
            Result of `aggregate_metrics`. Rollouts that failed, in one turn or as a whole, appear
            only in `run`.

        Raises
        ------
        RolloutCountError
            If there are no seeds, or fewer than requested.
        ModelError
            If no rollout could be measured.
        Exception
            Any exception raised by `compute_metrics`, with a note that names the seed.
        """
        seeds = self._used_seeds(n_rollouts)
        return self._combined(lambda: self._rolled(seeds, progress), progress)

    def _rolled(self, seeds: list[Any], progress: bool) -> list[EvaluatedRollout]:
        """Sample a rollout from every seed and measure it."""
        done: list[EvaluatedRollout] = []
        with _bar(len(seeds) * self.rollouts_per_seed, progress) as tell:
            for rollout in rolled(self.sampler, seeds, self.rollouts_per_seed, tell):
                done.append(self._measured(rollout))
                tell(len(done))
        return done

    def evaluate_graphs(self, graphs: Sequence[Graph[StateT, ActionT]]) -> JSONLike:
        """Measure existing rollouts and aggregate their metrics.

        Parameters
        ----------
        graphs : sequence of Graph
            Rollouts, identified by their ``unit_id`` or their prompt.

        Returns
        -------
        dict or list
            As in `evaluate`.

        Raises
        ------
        RolloutCountError
            If there are no rollouts.
        ModelError
            If no rollout could be measured.
        """
        if not graphs:
            raise RolloutCountError("`graphs` is empty; pass at least one rollout")
        return self._combined(lambda: self._read(graphs), progress=False)

    def _read(self, graphs: Sequence[Graph[StateT, ActionT]]) -> list[EvaluatedRollout]:
        """Measure existing rollouts."""
        seen: dict[str, int] = {}
        done = []
        graphs = [as_graph(graph) for graph in graphs]
        for graph, known in zip(graphs, identities([goal_of(g) for g in graphs]), strict=True):
            name = graph.unit_id or known.content_hash[:16]
            digest = known.content_hash
            seen[name] = attempt = seen.get(name, 0) + 1
            identity = Identity(name, digest, digest[:16])
            seed = goal_of(graph) if graph.seed is None else graph.seed
            done.append(self._measured(judged(EvaluatedRollout(seed, identity, attempt, graph))))
        return done

    @staticmethod
    def write_json(data: Any, path: str | Path) -> Path:
        """Write data to a file atomically as strict JSON, in UTF-8 and indented by 4 spaces.

        Parameters
        ----------
        data : object
            Nested dicts, lists, dataclasses, numpy numbers and arrays; non-finite numbers become
            null.
        path : path
            Target file; missing folders are created.

        Returns
        -------
        Path
            ``path``.

        Raises
        ------
        InvalidInputError
            If a value has no JSON representation; the message gives its location.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> path = Evaluator.write_json({"mean": float("nan")}, f"{folder}/new/metrics.json")
        >>> print(path.read_text())
        {
            "mean": null
        }
        <BLANKLINE>
        """
        _check_json(data, (), ())
        return write_atomic(path, json_bytes(plain(data), indent=4))

    def _used_seeds(self, n_rollouts: int | None) -> list[Any]:
        """Return the seeds to use in an evaluation."""
        if n_rollouts is not None:
            try:
                n_rollouts = validation.integer(n_rollouts, "n_rollouts", low=1)
            except InvalidTypeError:
                raise
            except InvalidInputError as error:
                raise RolloutCountError(str(error)) from None
        if self.seeds is None:
            if n_rollouts is None:
                raise RolloutCountError("`n_rollouts` is required without `seeds`")
            return list(range(n_rollouts))
        if len(self.seeds) == 0:
            raise RolloutCountError("`seeds` is empty; pass at least one seed")
        if n_rollouts is not None and n_rollouts > len(self.seeds):
            raise RolloutCountError(
                f"`n_rollouts` is {n_rollouts}, but there are only {len(self.seeds)} seeds"
            )
        return list(self.seeds[:n_rollouts])

    def _measured(self, rollout: EvaluatedRollout) -> EvaluatedRollout:
        """Compute the metrics of a rollout, adding a note with the seed to exceptions."""
        if rollout.status != "ok" or rollout.graph is None:
            return rollout
        try:
            metrics = self.compute_metrics(rollout.graph)
            if not isinstance(getattr(metrics, "overall", None), Mapping):
                raise InvalidTypeError(
                    f"compute_metrics returned {metrics!r:.60}; it must return GraphMetrics"
                )
            values = self.record_values(metrics)
        except UndefinedMetricError as error:
            return dataclasses.replace(rollout, status="skipped", reason=one_line(error))
        except Exception as error:
            if isinstance(error, ModelError) and not error.fatal:
                return dataclasses.replace(rollout, status="error", reason=one_line(error))
            error.add_note(f"while measuring the rollout from seed {rollout.seed!r:.200}")
            raise
        return dataclasses.replace(rollout, metrics=metrics, values=values)

    def _specs(self, records: Records | None, done: Sequence[EvaluatedRollout]) -> list[MetricSpec]:
        columns = [] if records is None else list(records.numbers)
        return of_shares(self.summary_specs(columns), [one.values for one in done])

    def _combined(self, roll: Callable[[], list[EvaluatedRollout]], progress: bool) -> JSONLike:
        """Run the driver to obtain records and estimates, and aggregate the metrics."""
        summary = SummarySpec(confidence=self.confidence)
        kind = EvaluatedKind(type(self).__name__, roll, self._specs, summary)
        outcome = drive(kind, name=type(self).__name__)
        done: tuple[EvaluatedRollout, ...] = outcome.attempts
        records = outcome.records if outcome.subjects else None
        specs = tuple(self._specs(records, done))
        self.run = EvaluatorRun(done, None, records, specs, self.confidence, outcome)
        if not self.run.metrics:
            raise ModelError(
                f"none of {len(done)} rollouts could be measured; the first, from seed "
                f"{done[0].seed!r:.100}: {done[0].reason}"
            )
        result = self.aggregate_metrics(self.run.metrics)
        self.run = dataclasses.replace(self.run, result=result)
        for note in self.run.notes if progress else ():
            sys.stderr.write(f"{note}\n")
        return result


_ENDS = (str, bool, int, float, np.generic, Enum, Path, type(None))


def _check_json(value: Any, place: tuple[str, ...], above: tuple[int, ...]) -> None:
    """Raise an error if a value cannot be represented in JSON."""
    if isinstance(value, _ENDS):
        return
    if id(value) in above:
        raise InvalidInputError(f"{where(place)} contains itself; JSON cannot represent that")
    inside = (*above, id(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return
    if not isinstance(value, type) and callable(getattr(value, "to_dict", None)):
        _check_json(value.to_dict(), place, inside)
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_json(item, (*place, str(key)), inside)
    elif isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        for at, item in enumerate(value):
            _check_json(item, (*place, str(at)), inside)
    else:
        raise InvalidInputError(
            f"{where(place)} has type {type(value).__name__}, which JSON cannot represent"
        )


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Tell]:
    """Show a progress bar on standard error if it is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("rolling out", total=total)
        yield lambda done: bars.update(task, completed=done)
