"""The C kernel releases the GIL: Python goes on while it works."""

import threading
import time

import numpy as np
import pytest

from eval_toolkit import _kernel

needs_native = pytest.mark.skipif(_kernel.native is None, reason="the C kernel was not built")


def longest_pause_during_a_draw(n: int) -> float:
    """Return the longest pause of this thread's loop, as a share of the draw's duration."""
    counts = np.empty((n, _kernel.LANES), dtype=np.uint8)
    counts[:] = 0  # page faults are not the kernel's
    took = []

    def draw() -> None:
        started = time.perf_counter()
        _kernel.draw(counts, seed=1, first=0, strata=np.array([0, n]))
        took.append(time.perf_counter() - started)

    thread = threading.Thread(target=draw)
    ticks = [time.perf_counter()]
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
    thread.join()
    return float(np.diff(ticks).max()) / took[0]


@needs_native
def test_the_gil_is_released() -> None:
    # With the GIL held the pause would be the whole draw. One quiet try in ten is enough: a busy
    # machine may well stop this thread for a while.
    with _kernel.using("native"):
        assert min(longest_pause_during_a_draw(1_000_000) for _ in range(10)) < 0.5
