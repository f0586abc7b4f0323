"""Supervision of fuzzing processes, one at a time per target."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.working import LIMITS, Limits, Tally, digest, store, told

__all__ = ["fuzz"]

_SLICE_S = 120.0
"""Lifetime of a process in seconds; a new process limits the effect of leaks on memory findings."""
_ROOT = Path(__file__).parents[2]


def fuzz(
    names: Sequence[str],
    *,
    seconds: float,
    jobs: int,
    seed: int,
    findings: Path,
    limits: Limits = LIMITS,
) -> dict[str, Tally]:
    """Fuzz targets for a total time; return the counts of each.

    Parameters
    ----------
    names : sequence of str
        Names of the targets.
    seconds : float
        Total wall-clock time.
    jobs : int
        Number of parallel processes.
    seed : int
        Random seed.
    findings : path
        Folder to which inputs of findings are written.
    limits : Limits
        Limits of one execution.
    """
    share = seconds * jobs / len(names)
    rounds = max(1, round(share / _SLICE_S))
    tallies = {name: Tally() for name in names}

    def one(task: tuple[int, str]) -> None:
        number, name = task
        one_slice = _slice(name, seed * 10_000 + number * 100, share / rounds, findings, limits)
        tallies[name].add(one_slice)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [(number, name) for number in range(rounds) for name in names]))
    return tallies


def _slice(name: str, seed: int, seconds: float, findings: Path, limits: Limits) -> Tally:
    """Fuzz a target, with a new process if one dies."""
    total, end = Tally(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        while total.n < limits.least or end - time.monotonic() > min(1.0, seconds / 2):
            seed += 1
            left = end - time.monotonic()
            tally, ended = _process(name, seed, time.time() + left, findings, limits, Path(scratch))
            total.add(tally)
            if not ended:
                total.n_findings += 1
    return total


def _process(
    name: str, seed: int, end: float, findings: Path, limits: Limits, scratch: Path
) -> tuple[Tally, bool]:
    current, words = scratch / f"{seed}", scratch / f"{seed}.txt"
    given = (name, seed, end, current, findings, *vars(limits).values())
    with words.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.working", *map(str, given)],
            cwd=_ROOT,
            env={**os.environ, "MALLOC_ARENA_MAX": "2", "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        why = _watched(process, current, limits)
    if not current.exists() or not current.stat().st_size:
        raise RuntimeError(f"the target {name} cannot be set up: {words.read_text()[-2000:]}")
    tally, at, done = told(current)
    if not done:
        store(findings, name, f"{why}-{digest(at[1])}", at, words.read_text(errors="replace"))
    return tally, done


def _watched(process: "subprocess.Popen[bytes]", current: Path, limits: Limits) -> str:
    """Wait for a process, kill it if it hangs, and return how it ended."""
    why = ""
    while process.poll() is None:
        time.sleep(0.2)
        still = time.time() - current.stat().st_mtime if current.exists() else 0.0
        if still > limits.wall + 30:  # it could have seen for itself
            why = "hangs"
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # and what it may have started
    code = process.wait()
    return why or (f"signal-{-code}" if code < 0 else f"exit-{code}")
