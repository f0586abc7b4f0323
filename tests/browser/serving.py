"""The viewer in a separate process, runs for it, and raw requests."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb

from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.report.viewer.security import session_of
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.table import Layout

__all__ = ["MILLION", "Served", "million", "served"]

MILLION = 1_000_000
_ROWS = """
    SELECT 'items' AS slice, 'model' AS scorer, format('u{:07d}', i) AS unit_id,
        format('{:064x}', i) AS content_hash, format('u{:07d}', i) AS "group",
        1::BIGINT AS attempt, ['de', 'en', 'fr'][i % 3 + 1] AS "part:language",
        CASE WHEN i % 1000 = 7 THEN NULL ELSE (i * 7919 % 10007) / 10007.0 END AS score,
        CASE WHEN i % 1000 = 7 THEN 'error' ELSE 'ok' END AS "score.status",
        CASE WHEN i % 1000 = 7 THEN format('timeout after {} ms', i % 777) ELSE '' END
            AS "score.reason"
    FROM range(?) AS t(i)
"""


@dataclass(frozen=True)
class Served:
    """A running viewer."""

    address: str
    """URL with the token."""

    @property
    def origin(self) -> str:
        return self.address.partition("/?")[0]

    @property
    def port(self) -> int:
        return int(str(urlsplit(self.address).port))

    def ask(
        self, target: str, *, host: str | None = None, token: str | None = "", method: str = "GET"
    ) -> tuple[int, str]:
        """Send a raw request and return status and body; "" sends the valid token."""
        if token == "":
            token = parse_qs(urlsplit(self.address).query)["token"][0]
        headers = {"Host": f"127.0.0.1:{self.port}" if host is None else host}
        if token is not None:
            headers["Cookie"] = f"eval_toolkit_view_{self.port}={session_of(token)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        finally:
            connection.close()


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Run ``eval-toolkit view`` until the end of the block."""
    command = [sys.executable, "-m", "eval_toolkit", "view", str(folder), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), address
            yield Served(address)
        finally:
            process.terminate()
            process.wait(600)


def million(folder: Path, n: int = MILLION) -> Run:
    """Write a finished run of a million records, faster than with the library's writer."""
    name = folder.name
    cell = {"value": 0.5, "status": "ok", "reason": None, "n_units": n}
    by_slice = {"items": {"by_scorer": {"model": {"score_mean": cell}}}}
    results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": by_slice}
    run = write_run(folder, results=results, manifest={"run_id": name})
    records = folder / "records.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({_ROWS}) TO '{records}' (FORMAT parquet)", [n])
    subject = {"slice": "items", "scorer": "model", "n_rows": n}
    layout = Layout(
        subjects=[{**subject, "columns": ["score"], "parts": ["language"]}],
        columns={"score": "score"},
        parts={"language": "part:language"},
    )
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    described = {"sha256": sha256_file(records), "n_rows": n, **layout.to_dict()}
    manifest["artifacts"]["records.parquet"] = described
    (folder / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))
    return Run.open(run.path)
