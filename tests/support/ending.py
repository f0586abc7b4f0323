"""A limit for code that would run for hours if its cost grew with the square of its input."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def must_end(cpu_seconds: float = 120.0) -> Iterator[None]:
    """Fail when the body needs more processor time than this.

    The limit is no measurement: it is far above what the body needs on a slow machine and far below what
    it would need if its cost grew faster than it should.
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
