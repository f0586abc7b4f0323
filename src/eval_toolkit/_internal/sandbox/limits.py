"""Resource limits that a sandboxed process sets for itself."""

import math
import sys
from dataclasses import asdict, dataclass
from typing import Any

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None

_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a sandboxed process.

    Parameters
    ----------
    seconds : float, default 5.0
        Wall-clock seconds per call.
    memory_mb : int, optional
        Address space of the process in MB; None for no limit.
    file_mb : int, default 16
        Maximum size of a written file in MB.
    open_files : int, default 64
        Maximum number of open files.

    Examples
    --------
    >>> Limits(seconds=1.0).memory_mb
    1024
    >>> "time" in Limits().applied
    True
    """

    seconds: float = 5.0
    memory_mb: int | None = 1024
    file_mb: int = 16
    open_files: int = 64

    @property
    def applied(self) -> tuple[str, ...]:
        """Limits enforced on this platform; the time limit is always enforced.

        macOS accepts a memory limit but does not enforce it.
        """
        if resource is None:
            return ("time",)
        memory = ("memory",) if self.memory_mb and sys.platform != "darwin" else ()
        return ("time", *memory, "file size", "open files")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return asdict(self)


def hold(limits: Limits, *, cpu_seconds: float | None = None, processes: int | None = None) -> None:
    """Set the limits of this process permanently, if the platform supports them.

    The caller enforces the time limit. ``processes`` limits the processes and threads of the user;
    it has no effect for root.
    """
    if resource is None:
        return
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_mb * _MB,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    if limits.memory_mb and sys.platform != "darwin":
        wanted[resource.RLIMIT_AS] = limits.memory_mb * _MB
    if processes is not None:
        wanted[resource.RLIMIT_NPROC] = processes
    for what, most in wanted.items():
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    if cpu_seconds is not None:  # the soft limit sends a signal that identifies the cause
        most = math.ceil(cpu_seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
