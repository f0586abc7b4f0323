"""Event loop whose clock jumps to the next timer, so long runs finish quickly.

All events must occur within the process, as with `NightServer`; no code may wait for a socket. The
clock is `loop.time` and continues in later loops.
"""

import asyncio
import selectors
from typing import Any


class VirtualClock:
    """Seconds since the start, advanced by the loops that use it."""

    def __init__(self) -> None:
        self.now = 0.0

    def new_loop(self) -> "VirtualLoop":
        return VirtualLoop(self)


class _Selector(selectors.SelectSelector):
    """Selector that advances the clock instead of waiting for the timeout."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        # None: nothing is due, so only another thread can go on, through the loop's own socket.
        ready = super().select(None if timeout is None else 0.0)
        if not ready and timeout is not None and timeout > 0.0:
            self._clock.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop with the time of a `VirtualClock`."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_Selector(clock))
        self._clock = clock
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._clock.now
