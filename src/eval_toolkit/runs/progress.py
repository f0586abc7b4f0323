"""Progress of a running or interrupted run, read from its journal."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.models.runner.journal_tail import (
    JournalEntry,
    JournalSoFar,
    RequestCounts,
    last_entries,
    read_on,
)
from eval_toolkit.runs.folder import MANIFEST, kind_of, run_head
from eval_toolkit.runs.lock import LOCK, lock_holder
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.runs.stopped import why_stopped

_WINDOW_S = 30.0
_SHORTEST_S = 1.0
"""Shortest time span in seconds over which a rate is estimated."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Position:
    """Position in a journal with the counts up to it; for use by `read_progress` only.

    Examples
    --------
    >>> Position().so_far.offset
    0
    """

    so_far: JournalSoFar = field(default_factory=JournalSoFar)
    seen: tuple[tuple[float, int], ...] = ()
    """Times, each with the number of requests finished by then."""
    rate: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class RunProgress(Displayed):
    """Progress of a run at one point in time, as returned by `read_progress`.

    Examples
    --------
    >>> told = RunProgress(Path("r1"), "r1", "running", n_done=30, n_planned=50, rate=4.0)
    >>> told.eta_s
    5.0
    """

    path: Path
    run_id: str
    state: str
    """"running", "incomplete" (interrupted; run the same command to resume) or "complete"."""
    holder: str | None = None
    """Process that is writing the run, if any."""
    kind: str = "rows"
    """Kind of evaluation, as in `Run.kind`."""
    n_done: int | None = None
    """Answered or failed requests, without judges; None for a finished run without requests."""
    n_planned: int | None = None
    """Maximum number of requests, without judges; None if unknown."""
    n_errors: int = 0
    """Number of requests that failed and have not been answered since."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Most common reasons for failures and their counts, most common first."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    judges: RequestCounts = field(default_factory=RequestCounts)
    """Counts of the requests to judges."""
    n_garbled: int = 0
    """Number of unreadable lines in the journal, not counting an incomplete last line."""
    started_at: str | None = None
    """Start time in UTC; for a resumed run, the time at which it was first started."""
    stopped: str = ""
    """Reason why an incomplete run ended, such as its maximum cost; "" if unknown."""
    last_at: str | None = None
    """Time of the last finished request in UTC."""
    rate: float | None = None
    """Requests per second over the last half minute; None if unknown."""
    position: Position = field(default_factory=Position, repr=False, compare=False)
    """Position to pass as ``since`` in the next call."""

    @property
    def eta_s(self) -> float | None:
        """Estimated remaining time in seconds at the current rate; None if unknown."""
        if self.state == "complete":
            return 0.0
        if self.n_done is None or self.n_planned is None or self.state != "running":
            return None
        left = self.n_planned - self.n_done
        if left <= 0:
            return 0.0
        return left / self.rate if self.rate else None

    def tail(self, n: int = 20) -> list[JournalEntry]:
        """Return the last finished requests, latest last.

        Parameters
        ----------
        n : int, default 20
            Number of requests.

        Returns
        -------
        list of JournalEntry
            At most ``n`` requests from the last 16 MiB of the journal; empty for a complete run.

        Raises
        ------
        InvalidInputError
            If ``n`` is below 1.
        ArtifactError
            If the journal cannot be read.
        """
        return last_entries(self.path / JOURNAL, validation.integer(n, "n", low=1))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, without the position."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "position"}
        more = {"path": str(self.path), "reasons": [list(reason) for reason in self.reasons]}
        return fields | more | {"judges": self.judges.to_dict(), "eta_s": self.eta_s}


def read_progress(folder: str | Path, *, since: Position | None = None) -> RunProgress:
    r"""Read the progress of a run, which another process may be writing.

    Parameters
    ----------
    folder : path
        Folder of the run; it is only read.
    since : Position, optional
        ``position`` of an earlier result; only newer journal entries are read, unless the journal
        was replaced.

    Returns
    -------
    RunProgress
        Current progress. For a finished run, it is read from the manifest, and files are not
        verified.

    Raises
    ------
    ArtifactError
        If the folder is not a run, or its journal has a later version.
    InvalidTypeError
        If ``since`` is not a `Position`.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import open_run
    >>> line = b'{"unit_id":"q1","attempt":1,"step":"","hash":"ab","response":{"text":"4"}}'
    >>> with open_run(tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}) as opened:
    ...     _ = opened.journal_path.write_bytes(b'{"journal":1}\n' + line + b"\n")
    ...     told = read_progress(opened.path)
    ...     told.state, told.n_done, told.n_planned, told.tail(1)[0].text
    ('running', 1, None, '4')
    """
    if since is not None and not isinstance(since, Position):
        raise InvalidTypeError(
            f"`since` is {type(since).__name__}; it must be the `position` of a RunProgress"
        )
    path, manifest = run_head(folder)
    holder = lock_holder(path)
    if manifest.get("status") == "complete" and (holder is None or not (path / JOURNAL).exists()):
        return _finished(path, manifest)
    before = since or Position()
    so_far = read_on(path / JOURNAL, before.so_far)
    if so_far.modified is None:
        manifest = run_head(folder)[1]
        if manifest.get("status") == "complete":  # just finished
            return _finished(path, manifest)
    answers = so_far.answers.counts()
    position = _timed(replace(before, so_far=so_far), answers.n_done, path, holder)
    return RunProgress(
        path,
        str(manifest.get("run_id") or path.resolve().name),
        "incomplete" if holder is None else "running",
        holder,
        kind_of(manifest),
        n_done=answers.n_done,
        n_planned=_planned(manifest, answers.n_done),
        n_errors=answers.n_errors,
        reasons=answers.reasons,
        prompt_tokens=answers.prompt_tokens,
        completion_tokens=answers.completion_tokens,
        judges=so_far.judges.counts(),
        n_garbled=so_far.n_garbled,
        started_at=manifest.get("captured_at"),
        stopped=why_stopped(path) if holder is None else "",
        last_at=None if so_far.modified is None else _utc(so_far.modified),
        rate=None if holder is None else position.rate,
        position=position,
    )


def _finished(path: Path, manifest: Mapping[str, Any]) -> RunProgress:
    """Read the progress of a finished run from its manifest."""
    counts, usage = _mapping(manifest, "counts"), _mapping(manifest, "usage")
    judges = [judge for judge in _mapping(manifest, "judges").values() if isinstance(judge, dict)]
    spent = [_mapping(judge, "usage") for judge in judges]
    written = path / MANIFEST
    return RunProgress(
        path,
        str(manifest["run_id"]),
        "complete",
        kind=kind_of(manifest),
        n_done=_whole(counts.get("n_requests")),
        n_planned=_whole(counts.get("n_requests")),
        n_errors=_sum([counts], "n_failed_requests"),
        prompt_tokens=_sum([usage], "prompt_tokens"),
        completion_tokens=_sum([usage], "completion_tokens"),
        judges=RequestCounts(
            _sum(judges, "n_requests"),
            _sum(judges, "n_failed_requests"),
            prompt_tokens=_sum(spent, "prompt_tokens"),
            completion_tokens=_sum(spent, "completion_tokens"),
        ),
        started_at=manifest.get("captured_at"),
        last_at=_utc(written.stat().st_mtime) if written.exists() else None,
    )


def _sum(counts: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(_whole(one.get(name)) or 0 for one in counts)


def _whole(value: Any) -> int | None:
    """Return a count from a manifest; None if it is invalid."""
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _planned(manifest: Mapping[str, Any], n_done: int) -> int | None:
    """Return the planned number of requests; a resumed run may already have more."""
    if manifest.get("status") != "running":
        return None
    planned = _mapping(manifest, "counts").get("n_planned")
    return planned if isinstance(planned, int) and planned >= n_done else None


def _mapping(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}


def _timed(position: Position, n_done: int, path: Path, holder: str | None) -> Position:
    """Add the current time and rate to a position."""
    now = time.time()
    # The count drops if the journal was replaced or a request is repeated.
    seen = [(then, n) for then, n in position.seen if n <= n_done and then <= now]
    seen.append((now, n_done))
    while len(seen) > 2 and seen[1][0] <= now - _WINDOW_S:
        del seen[0]
    span = now - seen[0][0]
    rate = position.rate
    if span >= _SHORTEST_S:
        rate = (n_done - seen[0][1]) / span
    elif holder is not None and rate is None:
        rate = _rate_from_the_start(path, n_done, now)
    return replace(position, seen=tuple(seen), rate=rate)


def _rate_from_the_start(path: Path, n_done: int, now: float) -> float | None:
    """Return the rate since the start of a run that was never interrupted."""
    try:
        locked, written = ((path / name).stat().st_mtime for name in (LOCK, MANIFEST))
    except OSError:
        return None
    # The lock precedes the manifest, except in a resumed run, whose manifest already exists.
    return n_done / (now - locked) if locked <= written and now - locked >= _SHORTEST_S else None


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
