"""Shared helpers for viewer tests: requests to the app without a server, and small runs."""

import asyncio
import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner import Job, JobResult, to_columns
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.viewer.security import session_of
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.seeds.stored import seed_units
from eval_toolkit.rollouts.turns import TURNS, turns_table
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.units import UNITS, Unit, units_table
from eval_toolkit.scorecards import Records

PORT = 8123
TOKEN = "token-of-the-tests"  # noqa: S105 - of nothing


@dataclass(frozen=True)
class Answer:
    """Response of the app."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """Return the visible text, without tags and with entities decoded."""
        shown = re.sub(r"<(script|style)\b.*?</\1>", " ", self.text, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown.replace("<wbr>", ""))).split())


@dataclass(frozen=True)
class Asking:
    """Client for an ASGI app, with a browser's session cookie by default."""

    app: Any

    def __call__(
        self,
        address: str,
        *,
        method: str = "GET",
        hosts: tuple[bytes, ...] = (f"127.0.0.1:{PORT}".encode(),),
        cookie: bytes | None = f"eval_toolkit_view_{PORT}={session_of(TOKEN)}".encode(),
        more: tuple[tuple[bytes, bytes], ...] = (),
    ) -> Answer:
        parts = urlsplit(address)
        headers = [*((b"host", host) for host in hosts), *more]
        if cookie is not None:
            headers.append((b"cookie", cookie))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode("utf-8", "surrogatepass"),
            "query_string": parts.query.encode(),
            "headers": headers,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", PORT),
            "root_path": "",
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        try:
            asyncio.run(self.app(scope, receive, send))
        except Exception:
            if not sent:  # starlette answers first, then raises for the log
                raise
        begin = sent[0]
        return Answer(
            begin["status"],
            {name.decode(): value.decode() for name, value in begin["headers"]},
            b"".join(message.get("body", b"") for message in sent[1:]),
        )


def cell(value: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "status": "ok", "n_units": 10, **more}


def results(run_id: str, metrics: dict[str, Any], slice_name: str = "all") -> dict[str, Any]:
    return {
        "schema_version": "v1",
        "run_id": run_id,
        "config": {},
        "by_slice": {slice_name: {"n": 10, "by_scorer": {"model": metrics}}},
    }


def plain_run(folder: Path, run_id: str, value: float, **manifest: Any) -> Run:
    """Write a run with one cell and no records."""
    return write_run(
        folder,
        results=results(run_id, {"accuracy": cell(value)}),
        manifest={"run_id": run_id, **manifest},
    )


def rows_run(folder: Path, records: Records, texts: dict[str, str] | None = None) -> Run:
    """Write a run on rows, with inputs if texts are given."""
    units = [Unit(id=unit, input=text) for unit, text in (texts or {}).items()]
    columns, about = units_table({("all", "model"): records}, units)
    return write_run(
        folder,
        results=results(folder.name, {"roc_auc": cell(0.75)}),
        manifest={"run_id": folder.name, "config": {"command": "score"}, "units": about},
        records={("all", "model"): records},
        tables={UNITS: columns},
    )


def task_run(folder: Path, text: str = "Paris, of course") -> Run:
    """Write a task run with an answer, a multiple-choice item, a failure and a judge's verdict."""
    same = "What is the capital of France?"
    outcomes = [
        JobResult(Job("q1", 1, GenerateRequest(same)), RawCompletion(text, finish_reason="stop")),
        JobResult(
            Job("q2", 1, GenerateRequest(same)), error=ErrorInfo("timeout", "no answer in 60 s")
        ),
        JobResult(
            Job("q3", 1, LoglikelihoodRequest("2 + 2 =", [" four", " five"])),
            RawLoglikelihood([-1.0, -3.0], [" four", " five"]),
        ),
        JobResult(
            Job("q1", 1, GenerateRequest("Is it right?"), "judge:strict"), RawCompletion("Yes.")
        ),
    ]
    records = Records.from_columns(
        {"exact_match": [1.0, None, 0.0]},
        unit_id=["q1", "q2", "q3"],
        status={"exact_match": ["ok", "error", "ok"]},
        reason={"exact_match": ["", "no answer in 60 s", ""]},
    )
    return write_run(
        folder,
        results=results(folder.name, {"exact_match": cell(0.5)}, "capitals"),
        manifest={"run_id": folder.name, "kind": "task", "config": {"kind": "task"}},
        records={("capitals", "model"): records},
        tables={RESPONSES: to_columns(outcomes)},
    )


def rollout_run(folder: Path, reply: str = "Certainly not.") -> Run:
    """Write a run with one rollout: one turn, then two branches, one with a failure."""
    bad = Node("", "And now?", "You fool.", scores={"toxicity": 0.9}, event=True)
    lost = Node("", "Really?", None, status="error", reason="the target: no answer in 60 s")
    first = Node("", "Be rude.", reply, children=[bad, lost], scores={"toxicity": 0.1}, event=False)
    graph = Graph("Insult me", [first], "s1")
    records = Records.from_columns({"attack_success": [1.0]}, unit_id=["s1"])
    units, _ = units_table(
        {("seeds", "model"): records}, seed_units([SeedPrompt("Insult me", id="s1")])
    )
    return write_run(
        folder,
        results=results(folder.name, {"attack_success": cell(1.0)}, "seeds"),
        manifest={"run_id": folder.name, "kind": "rollout", "config": {"kind": "rollout"}},
        records={("seeds", "model"): records},
        tables={TURNS: turns_table([graph]), UNITS: units},
    )
