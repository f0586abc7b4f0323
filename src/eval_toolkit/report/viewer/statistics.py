"""Paired statistics of two runs as printed by ``eval-toolkit compare``, cached."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal.display import Table
from eval_toolkit._internal.display.to_json import json_table, table_of_json
from eval_toolkit._internal.environment import child_environment
from eval_toolkit.errors import EvalToolkitError

CONFIDENCE, N_RESAMPLES, SEED = 0.95, 1000, 42
"""Defaults of ``eval-toolkit compare``."""
_IN_A_PROCESS_FROM = 50_000
"""Number of records above which runs are compared in a separate process, to free its memory."""
_TIMEOUT_S = 300
_KEPT = 64
_WAIT_S = 1.5
"""Seconds that a page waits for statistics before it is shown without them."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """Result of a comparison, as printed by the command."""

    reply: Sequence[str] = ("", "", "")
    """Verdict as a CSS class, a symbol and a short text."""
    lead: Sequence[str] = ()
    """Summary sentences, starting with the verdict."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    refused: str = ""
    """Reason why the runs cannot be compared; all other fields are then empty."""
    bug: bool = False
    """Whether the reason is a bug."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "reply": list(self.reply),
            "lead": list(self.lead),
            "tables": list(map(json_table, self.tables)),
            "notes": list(self.notes),
            "refused": self.refused,
            "bug": self.bug,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Told":
        """Return the object for a dict created by `to_dict`."""
        tables = list(map(table_of_json, told["tables"]))
        rest = {name: told[name] for name in ("lead", "notes", "refused", "bug")}
        return cls(tables=tables, reply=tuple(told["reply"]), **rest)


def compared(a: Path, b: Path) -> Told:
    """Compare two runs as ``eval-toolkit compare A B`` does, using their names instead of A and B.

    The result contains the comparison page, or the reason why the runs cannot be compared.
    """
    from eval_toolkit._internal.words import intervals_made
    from eval_toolkit.analysis.configs import run_names
    from eval_toolkit.report.comparison_page import compared_runs, run_comparison_page
    from eval_toolkit.report.differences import stated
    from eval_toolkit.report.run_names import named_table, named_text
    from eval_toolkit.runs import Run

    try:
        runs = [Run.open(a), Run.open(b)]
        result = compared_runs(runs, confidence=CONFIDENCE, n_resamples=N_RESAMPLES, seed=SEED)
        drawn = [cell.n_resamples for cell in result.cells]
        made = intervals_made(CONFIDENCE, N_RESAMPLES, SEED, drawn)
        page = run_comparison_page(runs, result, made)
        first, second = run_names(runs)
        pair = (first, second)
        answer = stated(runs, pair, result, CONFIDENCE, made)
    except EvalToolkitError as error:
        # Locations of runs do not belong on a page that may be shared.
        return Told(refused=_without(str(error), a, b))
    except Exception as error:  # a bug: the samples below can still be shown
        return Told(refused=f"unexpected {type(error).__name__}: {error}", bug=True)
    return Told(
        reply=answer["reply"],
        lead=[answer["said"], *answer["how"]],
        tables=[named_table(table, pair) for table in page.tables],
        notes=[named_text(note, pair) for note in page.notes],
    )


def _without(text: str, *folders: Path) -> str:
    for folder in folders:
        text = text.replace(str(folder), folder.name)
    return text.replace("with `pairs`", "by eval-toolkit compare A B --pair A=B")


@dataclass
class _Job:
    done: threading.Event = field(default_factory=threading.Event)
    told: Told | None = None


class Statistics:
    """Paired statistics by key; each is computed once, in the background, one at a time.

    Examples
    --------
    >>> told = Statistics().of("key", Path("no-a"), Path("no-b"), wait_s=60)
    >>> told.refused
    'no-a: no such folder'
    """

    def __init__(self) -> None:
        self._jobs: dict[object, _Job] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def of(
        self, key: object, a: Path, b: Path, *, n_records: int = 0, wait_s: float | None = None
    ) -> Told | None:
        """Return the statistics of two runs; None while they are being computed.

        The key must change whenever a run changes. Comparisons of many records run in a separate
        process. By default, the first request waits briefly in case the comparison is quick.
        """
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _Job()
                while len(self._jobs) > _KEPT:
                    del self._jobs[next(iter(self._jobs))]
                soon = n_records < _IN_A_PROCESS_FROM
                make = compared if soon else _apart
                threading.Thread(target=self._make, args=[job, make, a, b], daemon=True).start()
            else:
                soon = False
        job.done.wait(wait_s if wait_s is not None else _WAIT_S if soon else 0)
        if (
            job.told is not None and job.told.bug
        ):  # report a bug only once; the next request tries again
            with self._lock:
                if self._jobs.get(key) is job:
                    del self._jobs[key]
        return job.told

    def _make(self, job: _Job, make: Callable[[Path, Path], Told], a: Path, b: Path) -> None:
        try:
            with self._turn:  # two at once would take twice the memory
                job.told = make(a, b)
        except Exception as error:
            job.told = Told(refused=f"unexpected {type(error).__name__}: {error}", bug=True)
        finally:
            job.done.set()


def _apart(a: Path, b: Path) -> Told:
    """Return the result of `compared`, computed in a separate process."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import child; child()"]
    try:
        ran = subprocess.run(  # noqa: S603 - our own code, called with the folders of two runs
            [*command, str(a), str(b)],
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        why = f"the comparison took longer than {_TIMEOUT_S} s; run eval-toolkit compare, which has no time limit"
        return Told(refused=why)
    if ran.returncode != 0:
        last = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Told(
            refused=f"the comparison failed with exit status {ran.returncode}: {last}", bug=True
        )
    return Told.from_dict(json.loads(ran.stdout))


def child() -> None:
    """Print the comparison of the two runs given on the command line."""
    a, b = map(Path, sys.argv[1:3])
    sys.stdout.write(json.dumps(compared(a, b).to_dict()))
