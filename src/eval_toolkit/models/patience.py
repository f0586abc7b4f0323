"""Patience of a run with a server that is away."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

PATIENCE_S = 1800.0
"""Default seconds for which a run waits for a server that has answered before."""


@dataclass(slots=True)
class Patience:
    """How long a run waits for a server that is away, and since when it is.

    Examples
    --------
    >>> Patience(60.0).away_since is None
    True
    """

    seconds: float = 0.0
    from_start: bool = False
    """Whether to wait also for a server that has not answered yet."""
    away_since: datetime | None = None
    changed: Callable[[], object] | None = None
    """Called when a server goes away, at each further try, and when it is back."""
    stopping: bool = False
    """Whether the run was interrupted: requests under way may end, but none is sent."""

    def tell(self, since: datetime | None) -> None:
        """Report that a server is away since some time, or back."""
        self.away_since = since
        if self.changed is not None:
            self.changed()


_PATIENCE: ContextVar[Patience] = ContextVar("patience", default=Patience())  # noqa: B039 - empty


def the_patience() -> Patience:
    """Return the patience of the current run; none outside of runs."""
    return _PATIENCE.get()


def be_patient(patience: Patience) -> None:
    """Set the patience in the current context and its later tasks."""
    _PATIENCE.set(patience)
