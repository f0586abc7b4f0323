"""Benchmarks of viewer pages for a run of a million records, requested from a real server."""

import http.client
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from benchmarks._case import Bar, Case, Measurement
from benchmarks._timing import Effort, Timing
from eval_toolkit.runs import Unit, write_run
from eval_toolkit.runs.units import UNITS, units_table
from eval_toolkit.scorecards import Records

N_RECORDS = 1_000_000
LIMIT_S, LIMIT_MB = 0.3, 500
SENTENCE = "A row about {} and {}, written to be searched for, number {}."
WORDS = ("rivers", "bridges", "lakes", "mountains", "gardens", "harbours", "forests", "islands")


def _objects(values: list[str]) -> NDArray[np.object_]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _write(folder: Path) -> None:
    """Write a run with two columns, one part, failures and inputs."""
    rng = np.random.default_rng(42)
    n = N_RECORDS
    ids = _objects([f"unit-{at:07d}" for at in range(n)])
    ok, empty = _objects(["ok"] * n), _objects([""] * n)
    failed = rng.random(n) < 0.001
    first, second = rng.integers(0, len(WORDS), (2, n))
    texts = [
        SENTENCE.format(WORDS[a], WORDS[b], at)
        for at, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
    ]
    records = Records(
        unit_id=ids,
        content_hash=empty,
        group=ids,
        attempt=np.ones(n, dtype=np.int64),
        slices={"language": _objects(np.array(["de", "en", "fr", "it"])[first % 4].tolist())},
        columns={
            "label": (rng.random(n) < 0.1).astype(float),
            "score": np.where(failed, 0.0, rng.random(n)),
        },
        status={"label": ok, "score": _objects(np.where(failed, "error", "ok").tolist())},
        reason={"label": empty, "score": _objects(np.where(failed, "empty row", "").tolist())},
    )
    units = [
        Unit(id=unit, input=text, slice="all", row=row)
        for row, (unit, text) in enumerate(zip(ids.tolist(), texts, strict=True))
    ]
    columns, about = units_table({("all", "score"): records}, units)
    cell = {"value": 0.5, "status": "ok", "n_units": n}
    write_run(
        folder / "million",
        results={
            "schema_version": "v1",
            "run_id": "million",
            "config": {},
            "by_slice": {"all": {"n": n, "by_scorer": {"score": {"roc_auc": cell}}}},
        },
        manifest={"run_id": "million", "units": about},
        records={("all", "score"): records},
        tables={UNITS: columns},
    )


@contextmanager
def _served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], "_Browser"]]:
    command = [sys.executable, "-m", "eval_toolkit", "view", str(folder), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    )
    try:
        address = process.stdout.readline().strip() if process.stdout else ""
        yield process, _Browser(address)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


class _Browser:
    """Client that requests pages with the session cookie, with a new connection each."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.place = parts.netloc
        self.cookie = ""
        self.cookie = self._answer(f"/?{parts.query}")[1].partition(";")[0]

    def page(self, target: str) -> tuple[str, float]:
        """Return a page and its response time in nanoseconds."""
        start = time.perf_counter_ns()
        body, _ = self._answer(target)
        return body, float(time.perf_counter_ns() - start)

    def _answer(self, target: str) -> tuple[str, str]:
        connection = http.client.HTTPConnection(self.place, timeout=120)
        connection.request("GET", target, headers={"Cookie": self.cookie} if self.cookie else {})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        if answer.status not in (200, 303):
            raise ValueError(f"{target}: {answer.status}")
        return body, answer.getheader("set-cookie") or ""


def _kinds(samples: str, at: int) -> dict[str, str]:
    """Return the URL of a different page of each kind per round."""
    deep = N_RECORDS // 50 - at
    return {
        "near the end": f"{samples}s?page={deep}",
        "in the middle, by score": f"{samples}s?sort=-score&page={deep // 2}",
        "of a part, by score": f"{samples}s?part.language=de&sort=score&page={deep // 8}",
        "of failures": f"{samples}s?status=error&page={1 + at % 15}",
        "of a search": f"{samples}s?q=lakes+and+bridges&page={deep // 100}",
        "of 200, by score": f"{samples}s?sort=-score&size=200&page={deep // 8}",
        "one sample": f"{samples}?row={N_RECORDS // 2 + at}&at={N_RECORDS // 2 + at}",
    }


def _pages(effort: Effort) -> Measurement:
    """Time pages of every kind; the best round of the slowest kind is compared with the bar."""
    with tempfile.TemporaryDirectory() as name:
        _write(Path(name))
        with _served(Path(name)) as (process, browser):
            listed, _ = browser.page("/")
            key = listed.partition('href="/runs/')[2].partition('"')[0]
            samples = f"/runs/{key}/sample"
            first = {kind: browser.page(target)[1] for kind, target in _kinds(samples, 1).items()}
            rounds: dict[str, list[float]] = {kind: [] for kind in first}
            for at in range(2, 2 + effort.rounds):
                for kind, target in _kinds(samples, at).items():
                    rounds[kind].append(browser.page(target)[1])
            peak_mb = _peak_mb(process.pid)
    if peak_mb > LIMIT_MB:
        raise ValueError(f"the server took {peak_mb:.0f} MB; {LIMIT_MB} MB are allowed")
    slowest = max(rounds, key=lambda kind: min(rounds[kind]))
    told = ", ".join(
        f"{kind} {min(took) / 1e6:.0f} (first {first[kind] / 1e6:.0f})"
        for kind, took in rounds.items()
    )
    note = f"ms of wall time by kind of page: {told}; peak memory of the server {peak_mb:.0f} MB"
    return Measurement(Timing(tuple(rounds[slowest])), note=note)


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


CASES = (
    Case(
        "viewer-pages",
        "a page of a run of 1 000 000 records, whole request to a server on loopback, wall time",
        Bar("seconds", LIMIT_S),
        _pages,
    ),
)
