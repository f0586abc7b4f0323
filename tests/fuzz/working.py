"""Fuzzing process for one target: limits, findings and coverage."""

import ctypes
import hashlib
import json
import os
import random
import re
import resource
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.fuzz.mutating import Changing
from tests.fuzz.target import REFUSALS, SEEN, BrokenError, Input, Place, Target, placed

import eval_toolkit

__all__ = ["LIMITS", "Limits", "Tally", "check", "store", "work"]

_POOL = 400
_OURS = str(Path(eval_toolkit.__file__).parent)
_SHRINKING_S = 8.0
_SUBREAPER = 36


class TooLongError(BaseException):
    """An execution exceeded its time limit; a BaseException, so that readers do not catch it."""


class Limits:
    """Limits of one execution, and the minimum number of executions.

    Parameters
    ----------
    seconds : float
        CPU time including child processes, so that other load does not make an input slow.
    wall : float
        Wall-clock seconds, for executions that wait.
    memory : int
        Memory in bytes.
    least : int
        Minimum number of executions.
    """

    def __init__(
        self, seconds: float = 10.0, wall: float = 60.0, memory: int = 2 << 30, least: int = 0
    ) -> None:
        self.seconds = seconds
        self.wall = wall
        self.memory = memory
        self.least = least


LIMITS = Limits()


class Tally:
    """Numbers of executions by outcome."""

    def __init__(self, **counts: float) -> None:
        self.n_read = int(counts.get("n_read", 0))
        self.n_refused = int(counts.get("n_refused", 0))
        self.n_findings = int(counts.get("n_findings", 0))
        self.slowest = counts.get("slowest", 0.0)

    @property
    def n(self) -> int:
        """Total number of executions."""
        return self.n_read + self.n_refused + self.n_findings

    def add(self, other: "Tally") -> None:
        """Add the counts of another process."""
        self.n_read += other.n_read
        self.n_refused += other.n_refused
        self.n_findings += other.n_findings
        self.slowest = max(self.slowest, other.slowest)


def _processor_seconds() -> float:
    """Return the CPU time of this process and its descendants."""
    total, tick = sum(os.times()[:4]), os.sysconf("SC_CLK_TCK")
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return total  # there are none below it, and to look at all of a system takes time
    below: dict[int, list[tuple[int, float]]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may just have ended
            told = (place / "stat").read_text().rpartition(")")[2].split()
            used = sum(map(int, told[11:15])) / tick
            below.setdefault(int(told[1]), []).append((int(place.name), used))
    parents = [os.getpid()]
    while parents:
        for child, used in below.get(parents.pop(), ()):
            total += used
            parents.append(child)
    return total


def _keep_orphans() -> None:
    """Adopt orphaned descendants, so that their CPU time is counted."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


class _Clock:
    """CPU and wall-clock time of an execution."""

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), _processor_seconds()

    @property
    def seconds(self) -> float:
        """CPU seconds so far."""
        return _processor_seconds() - self._processor

    def look(self, limits: Limits) -> None:
        seconds, wall = self.seconds, time.monotonic() - self._wall
        if seconds > limits.seconds or wall > limits.wall:
            signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)  # once more, if this one is swallowed
            raise TooLongError(f"took {wall:.1f} s, {seconds:.1f} s of the processor")


@contextmanager
def _within(limits: Limits) -> Iterator[_Clock]:
    clock = _Clock()
    before = signal.signal(signal.SIGALRM, lambda number, frame: clock.look(limits))
    every = min(0.5, limits.seconds / 2, limits.wall / 2)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield clock
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check(
    place: Place, given: Input, limits: Limits = LIMITS
) -> tuple[BaseException | None, float]:
    """Execute a target once; return the error (None if the input was accepted) and the time.

    Raises
    ------
    BaseException
        For a finding: any other error, or too much time or memory.
    """
    try:
        with _within(limits) as clock:
            place.execute(given)
    except REFUSALS as refusal:
        if len(str(refusal)) > 10_000:
            raise BrokenError(f"a message of {len(str(refusal))} characters") from refusal
        return refusal, clock.seconds
    return None, clock.seconds


# --- what tells executions apart ------------------------------------------------------------------


def _frames(trace: TracebackType | None) -> list[str]:
    """Return the lines of the package in an error's traceback."""
    found = traceback.extract_tb(trace)
    return [f"{Path(f.filename).stem}:{f.lineno}" for f in found if _OURS in f.filename]


def key_of(error: BaseException) -> str:
    """Return a name for a finding, shared by findings with the same cause."""
    frames = _frames(error.__traceback__)
    words = "" if frames else re.sub(r"[^a-z]+", "-", str(error).lower())[:40]
    where = (
        frames[-1] if frames and not isinstance(error, BrokenError) else words or str(error)[:60]
    )
    if isinstance(error, (TooLongError, MemoryError)):
        where = next((f for f in frames if not f.startswith(("main:", "target:"))), "")
    return re.sub(r"[^\w.-]+", "-", f"{type(error).__name__}-{where}")[:90].strip("-")


def store(folder: Path, target: str, key: str, given: Input, words: str) -> None:
    """Store the first input of a finding, with the error."""
    place = folder / target / key
    if not place.exists():
        (place / given[0]).parent.mkdir(parents=True, exist_ok=True)
        (place / given[0]).write_bytes(given[1])
        (folder / target / f"{key}.txt").write_text(words, "utf-8", "backslashreplace")


def shrunk(given: Input, is_same: Callable[[Input], bool]) -> Input:
    """Return a shorter input with the same finding, without irrelevant parts."""
    name, data = given
    size, end = len(data) // 2, time.monotonic() + _SHRINKING_S
    while size and time.monotonic() < end:
        at = 0
        while at < len(data) and time.monotonic() < end:
            shorter = data[:at] + data[at + size :]
            if is_same((name, shorter)):
                data = shorter
            else:
                at += size
        size //= 2
    return name, data


# --- the loop -------------------------------------------------------------------------------------


class _Current:
    """File with the current input and the counts, read if this process dies."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def tell(self, tally: Tally, given: Input, *, done: bool = False) -> None:
        head = {**vars(tally), "name": given[0], "done": done}
        data = json.dumps(head).encode() + b"\n" + given[1]
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)


def told(path: Path) -> tuple[Tally, Input, bool]:
    """Return the counts, the last input and the success of a finished process."""
    head, _, data = path.read_bytes().partition(b"\n")
    found = json.loads(head or b"{}")
    name, done = found.pop("name", ""), found.pop("done", False)
    return Tally(**found), (name, data), done


def _limit_memory(limits: Limits) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + limits.memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def work(
    target: Target, *, seed: int, end: float, current: Path, findings: Path, limits: Limits
) -> None:
    """Execute a target on its corpus, then on mutated inputs until the time limit."""
    _keep_orphans()
    tally, telling = Tally(), _Current(current)
    with placed(target) as place:
        known = [*place.corpus, *target.regressions()]
        rng = random.Random(f"{target.name} {seed}")  # noqa: S311
        changing = Changing(rng, known)
        reached: set[tuple[str, ...]] = set()
        with suppress(*REFUSALS):
            place.execute(known[0])  # what is loaded on first use is no input's cost
        _limit_memory(limits)
        waiting = list(known)
        while waiting or time.time() < end or tally.n < limits.least:
            given = waiting.pop() if waiting else _chosen(rng, known, changing)
            telling.tell(tally, given)
            try:
                refusal, seconds = check(place, given, limits)
            except Exception as error:
                tally.n_findings += 1
                _found(place, given, error, findings, limits)
                continue
            except TooLongError as error:
                tally.n_findings += 1
                store(findings, target.name, key_of(error), given, traceback.format_exc())
                continue
            tally.slowest = max(tally.slowest, seconds)
            tally.n_read += refusal is None
            tally.n_refused += refusal is not None
            # An input that was refused at a new place is worth changing further.
            refusals = [refusal] if refusal else SEEN
            ways = {tuple(_frames(one.__traceback__)) for one in refusals} - reached
            if ways and len(changing.known) < len(known) + _POOL:
                reached |= ways
                changing.known.append(given)
        telling.tell(tally, ("", b""), done=True)


def _chosen(rng: random.Random, known: list[Input], changing: Changing) -> Input:
    """Mutate an input from the corpus or an input with new coverage, with equal probability."""
    name, data = rng.choice(known if rng.random() < 0.5 else changing.known)
    return name, changing.changed(name, data)


def _found(place: Place, given: Input, error: Exception, findings: Path, limits: Limits) -> None:
    key = key_of(error)
    if (findings / place.target.name / key).exists():
        return
    words = "".join(traceback.format_exception(error))

    def is_same(shorter: Input) -> bool:
        try:
            check(place, shorter, limits)
        except Exception as other:
            return key_of(other) == key
        except TooLongError:
            return False
        return False

    store(findings, place.target.name, key, shrunk(given, is_same), words)


def main(arguments: list[str]) -> None:
    """Run the process; arguments are target, seed, end, current, findings and limits."""
    warnings.simplefilter("error")
    socket.getaddrinfo = _only_here  # an address in an input reaches no other machine
    name, seed, end, current, findings, *limits = arguments
    work(
        _target(name),
        seed=int(seed),
        end=float(end),
        current=Path(current),
        findings=Path(findings),
        limits=Limits(*map(float, limits[:2]), *map(int, limits[2:])),
    )


def _target(name: str) -> Target:
    from tests.fuzz.faulty import FAULTY

    if name in FAULTY:
        return FAULTY[name]
    from tests.fuzz.targets import TARGETS

    return TARGETS[name]


def _only_here(host: Any, *args: Any, **options: Any) -> Any:
    if host not in ("127.0.0.1", "localhost", b"127.0.0.1"):
        raise socket.gaierror(socket.EAI_NONAME, "no names are looked up here")
    return _LOOK_UP(host, *args, **options)


_LOOK_UP = socket.getaddrinfo


def digest(data: bytes) -> str:
    """Return a short name for an input."""
    return hashlib.sha256(data).hexdigest()[:8]


if __name__ == "__main__":
    main(sys.argv[1:])
