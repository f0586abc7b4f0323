"""CPU time limit for detecting code of quadratic complexity."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def must_end(cpu_seconds: float = 120.0) -> Iterator[None]:
    """Fail if the body exceeds a CPU time.

    The limit is far above the time needed on a slow machine, and far below the time needed if the
    complexity were too high.
    """

    def fail(signum: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it did not end within {cpu_seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
