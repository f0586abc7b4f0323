"""The C kernel releases the GIL: Python goes on while it works."""

import threading
import time

import numpy as np
import pytest

from eval_toolkit._internal import kernel

needs_native = pytest.mark.skipif(kernel.native is None, reason="the C kernel was not built")


def runs_during_a_draw(n: int) -> bool:
    """Return whether this thread's loop went round in the middle of a draw of another thread."""
    counts = np.empty((n, kernel.LANES), dtype=np.uint8)
    counts[:] = 0  # page faults are not the kernel's
    ends: list[float] = []

    def draw() -> None:
        ends.append(time.perf_counter())
        kernel.draw(counts, seed=1, first=0, strata=np.array([0, n]))
        ends.append(time.perf_counter())

    thread = threading.Thread(target=draw)
    ticks = []
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
    thread.join()
    begun, ended = ends
    margin = (ended - begun) / 10  # at both ends Python itself runs
    return any(begun + margin < tick < ended - margin for tick in ticks)


@needs_native
def test_the_gil_is_released() -> None:
    # With the GIL held this thread would stand still for the whole draw, every time. On a busy
    # machine it may do so once or twice all the same.
    with kernel.using("native"):
        assert any(runs_during_a_draw(1_000_000) for _ in range(200))
