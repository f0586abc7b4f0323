"""How long a run waits for an unavailable server."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

PATIENCE_S = 1800.0
"""Default time in seconds that a run waits for a server that has answered before."""


@dataclass(slots=True)
class Patience:
    """How long a run waits for an unavailable server, and when the outage began.

    Examples
    --------
    >>> Patience(60.0).away_since is None
    True
    """

    seconds: float = 0.0
    from_start: bool = False
    """Whether to also wait for a server that has not answered yet."""
    away_since: datetime | None = None
    changed: Callable[[], object] | None = None
    """Callback for when a server becomes unavailable, at each retry, and when it is back."""
    stopping: bool = False
    """Whether the run was interrupted: requests in flight may finish, but no new ones are sent."""

    def tell(self, since: datetime | None) -> None:
        """Report that a server has been unavailable since a given time, or is available again."""
        self.away_since = since
        if self.changed is not None:
            self.changed()


_PATIENCE: ContextVar[Patience] = ContextVar("patience", default=Patience())  # noqa: B039 - empty


def the_patience() -> Patience:
    """Return the patience of the current run; none outside of runs."""
    return _PATIENCE.get()


def be_patient(patience: Patience) -> None:
    """Set the patience in the current context and in tasks created from it."""
    _PATIENCE.set(patience)
