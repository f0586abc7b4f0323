"""Killed while judging and started again: no answer and no finished verdict is asked for twice."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.faults.judged_run import CONCURRENCY, N_ITEMS

SCRIPT = str(Path(__file__).with_name("judged_run.py"))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def asked(folder: Path) -> list[str]:
    return lines(folder / "asked.txt")


def judged(folder: Path) -> set[str]:
    """Return the units with a verdict in the journal."""
    found = set()
    for line in lines(folder / "run" / "journal.jsonl"):
        try:
            entry = json.loads(line)
        except ValueError:  # the torn last line
            continue
        if entry.get("step") == "judge:correctness" and "response" in entry:
            found.add(entry["unit_id"])
    return found


def kill_while_judging(folder: Path, more: int) -> None:
    """Start the run and kill it so many verdicts later."""
    enough = len(judged(folder)) + more
    process = subprocess.Popen([sys.executable, SCRIPT, str(folder)])
    try:
        while len(judged(folder)) < enough:
            assert process.poll() is None, "it came to its end before it could be killed"
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL


def test_killed_while_judging_and_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    for more in (5, 14):
        before = judged(folder)
        n_asked = len(asked(folder))
        kill_while_judging(folder, more)
        new = asked(folder)[n_asked:]
        again = before & {line.split()[1] for line in new if line.startswith("verdict")}
        assert not again, f"judged twice: {sorted(again)}"
    said = asked(folder)
    assert sorted(said[:N_ITEMS]) == sorted(f"answer {n}" for n in range(N_ITEMS))
    assert not [line for line in said[N_ITEMS:] if line.startswith("answer")]
    assert len(said) - N_ITEMS <= len(judged(folder)) + 2 * CONCURRENCY, "written at once"

    before = judged(folder)
    subprocess.run([sys.executable, SCRIPT, str(folder)], check=True, timeout=900)
    last = asked(folder)[len(said) :]
    assert {line.split()[1] for line in last} == {str(n) for n in range(N_ITEMS)} - before
    assert len(last) == N_ITEMS - len(before)

    subprocess.run([sys.executable, SCRIPT, str(tmp_path / "calm")], check=True, timeout=900)
    for name in ("records.parquet", "results.json"):
        disturbed, calm = (tmp_path / one / "run" / name for one in ("killed", "calm"))
        assert disturbed.read_bytes() == calm.read_bytes()
