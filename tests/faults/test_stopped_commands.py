"""Commands that are stopped by a signal keep what they have paid for; a thousand requests at once."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.fault_server import FaultServer
from tests.support.night_run import night_model, run_night, sums
from tests.support.night_server import NightServer
from tests.support.virtual_time import VirtualClock


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = ({"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(400))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("ignores_interrupts", [False, True])  # as after & in a script
def test_answers_under_way_are_stored_when_the_command_is_terminated(
    questions: Path, tmp_path: Path, ignores_interrupts: bool
) -> None:
    out = tmp_path / "run"
    how = signal.SIG_IGN if ignores_interrupts else signal.default_int_handler
    with FaultServer(latency_s=1.0) as server:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "eval_toolkit", "run", str(questions), "--quiet"),
                *("--model", "openai:m", "--base-url", server.url, "--concurrency", "8"),
                *("--grader", "exact_match", "--out", str(out)),
            ],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, how),
        )
        deadline = time.monotonic() + 300
        while sum(server.app.answered.values()) < 16 or server.app.in_flight < 4:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)
        n_answered = sum(server.app.answered.values())
        assert server.app.asked == server.app.answered  # none was sent and left
    assert process.returncode not in (0, -signal.SIGTERM)
    assert "run the same command again to resume" in said
    lines = (out / "journal.jsonl").read_text().splitlines()
    assert sum("response" in json.loads(line) for line in lines) == n_answered < 400


def test_a_thousand_requests_are_under_way_at_once() -> None:
    server = NightServer(VirtualClock(), latency_s=20.0)
    model = night_model(concurrency=1000)
    most = 0

    def look(_: object) -> None:
        nonlocal most
        most = max(most, model.totals().in_flight)

    found = run_night(server, sums(4000), model, concurrency=1000, on_progress=look)
    assert found.n_errors == 0
    assert set(server.answered.values()) == {1}
    assert most >= 950
    assert server.clock.now < 4 * 20.0 + 25.0
