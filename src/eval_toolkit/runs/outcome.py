"""Outcome of an evaluation of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError

if TYPE_CHECKING:
    from eval_toolkit.runs.folder import Run
    from eval_toolkit.scorecards import Records, Scorecard

__all__ = ["Outcome", "Subject"]

Subject: TypeAlias = tuple[str, str]
"""A slice and a system."""

_NUMBERS = (
    *("n_requests", "n_asked", "n_reused", "n_cached", "n_replayed", "n_failed_requests"),
    *("n_calls", "n_errors", "n_skipped", "error_rate", "too_many_errors"),
)


_T = TypeVar("_T")


def _only(found: Mapping[Subject, _T], name: str) -> _T:
    if len(found) != 1:
        raise InvalidInputError(
            f"the outcome has {len(found)} pairs of slice and system; look one up in `{name}`"
        )
    return next(iter(found.values()))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome(Displayed):
    """Records, cells and counts of an evaluation, and the stored run.

    Examples
    --------
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> system = System(["Please."], ["No."], lambda texts: [0.1] * len(texts))
    >>> done = run_rollouts(system, ["Tell a secret", "Tell another"], depth=1)
    >>> done.card["attack_success"].value, done.counts["n_rollouts"]
    (0.0, 2)
    """

    subjects: Mapping[Subject, Records] = field(repr=False)
    """The records of each system on each slice, one line per unit and attempt."""
    cards: Mapping[Subject, Scorecard]
    """The cells of each system on each slice; those of parts in their ``slices``."""
    results: Mapping[str, Any] = field(repr=False)
    """What ``results.json`` holds."""
    attempts: tuple[Any, ...] = field(default=(), repr=False)
    """The raw attempts, where they are objects: the graphs of rollouts."""
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Curves, tables and distributions: what ``results_full.json`` adds."""
    run: Run | None = None
    """The stored run; None where nothing was written."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the kind's own, such as samples, seeds or rollouts."""
    n_requests: int = 0
    """Requests that the attempts need, wherever the answers come from; judges' are apart."""
    n_asked: int = 0
    """Requests that were sent to a model now."""
    n_reused: int = 0
    """Answers that the folder held already."""
    n_cached: int = 0
    """Answers out of the cache."""
    n_replayed: int = 0
    """Requests to stored answers instead of a model."""
    n_failed_requests: int = 0
    n_calls: int = 0
    """Calls of a model or a function; a batch counts once."""
    n_errors: int = 0
    """Attempts without a result because something failed."""
    n_skipped: int = 0
    """Attempts without a result because they were cut short."""
    error_rate: float = 0.0
    """Share of attempts that failed."""
    too_many_errors: bool = False
    """Whether that share is above the tolerated one."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of all answers of the run, as recorded when they were asked for."""
    usage_now: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of the answers that were asked for now."""
    stopping: Mapping[str, Any] | None = None
    """What a stopping rule decided: why the run stopped, and how many samples that saved."""
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By judge: its model, the counts of its requests, and their usage."""
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> Records:
        """Records, if one system was evaluated on one slice."""
        return _only(self.subjects, "subjects")

    @property
    def card(self) -> Scorecard:
        """Cells, if one system was evaluated on one slice."""
        return _only(self.cards, "cards")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, without records and attempts."""
        return {
            "run_id": self.results["run_id"],
            "path": None if self.run is None else str(self.run.path),
            "results": dict(self.results),
            **dict(self.more),
            **dict(self.counts),
            **{name: getattr(self, name) for name in _NUMBERS},
            "usage": dict(self.usage),
            "usage_now": dict(self.usage_now),
            "judges": {name: dict(judge) for name, judge in self.judges.items()},
            "stopping": None if self.stopping is None else dict(self.stopping),
            "elapsed_s": self.elapsed_s,
            "notes": list(self.notes),
        }
