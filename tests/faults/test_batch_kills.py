"""kill -9 of `run --batch` between any two steps: one batch, every request paid for once."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.batch_server import BatchApp
from tests.support.hosted_servers import Emulated

from eval_toolkit.runs import Run

N = 3_000
STEPS = [
    "POST /v1/files",
    "POST /v1/batches",
    "GET /v1/batches",
    "GET /v1/batches/ID",
    "GET /v1/files/ID/content",
]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")


def test_a_client_that_is_killed_anywhere_collects_its_batch(tmp_path: Path) -> None:
    rows, out = tmp_path / "sums.jsonl", tmp_path / "run"
    lines = [json.dumps({"question": f"What is {n} + 1?", "answer": n + 1}) for n in range(N)]
    rows.write_text("\n".join(lines), "utf-8")
    left = [(step, when) for step in STEPS for when in ("before", "after")]
    clients: list[subprocess.Popen[str]] = []

    def strike(number: int, when: str) -> bool:
        if not left or left[0] != (app.log[number - 1], when):
            return False
        left.pop(0)
        os.kill(clients[-1].pid, signal.SIGKILL)
        return True

    app = BatchApp(strike=strike)
    with Emulated(app) as server:
        model = ["--model", "openai:toy", "--base-url", f"{server.url}/v1", "--max-tokens", "9"]
        command = [sys.executable, "-m", "eval_toolkit", "run", str(rows), *model, "--batch"]
        codes, said = [], ""
        while left or not codes or codes[-1] < 0:
            client = subprocess.Popen(
                [*command, "--out", str(out)],
                text=True,
                stderr=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            clients.append(client)
            if not left and codes.count(-9) == 2 * len(STEPS):  # and once while it stores answers
                journal = out / "journal.jsonl"
                while client.poll() is None and not (
                    journal.exists() and journal.stat().st_size > 9_999
                ):
                    time.sleep(0.001)
                client.kill()
            shown, said = client.communicate(timeout=300)
            codes.append(client.returncode)
            assert len(codes) < 20, said
    assert codes == [-9] * (2 * len(STEPS) + 1) + [0], said
    assert len(app.batches) == 1
    assert len(app.paid) == N
    assert set(app.paid.values()) == {1}
    # A file that was uploaded before its name was noted costs nothing.
    assert app.log.count("POST /v1/files") == 3
    assert "1.000" in shown
    answers = Run.open(out).table("responses.parquet")
    assert len(answers["unit_id"]) == N
    stored = (out / "batches.jsonl").read_text("utf-8")
    assert re.search(r'"batch": "batch-1"', stored)
    assert "What is" not in stored
