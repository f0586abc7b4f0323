"""Rollouts killed at any moment, or out of disk, and started again: nothing finished is asked again.

A conversation hangs on every answer before it, so that one answer lost, doubled or put in the wrong
place would change all that follows: the bytes of an undisturbed run are the oracle.
"""

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.faults import rolled_run
from tests.faults.rolled_run import CONCURRENCY, MARK, N_REQUESTS
from tests.support.fault_server import FaultServer

from eval_toolkit.errors import ArtifactError
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.runs import Run

SCRIPT = str(Path(__file__).with_name("rolled_run.py"))
N_KILLS = 6
FILES = ("records.parquet", "turns.parquet", "results.json")


def asked(folder: Path) -> list[str]:
    path = folder / "asked.txt"
    return path.read_text().splitlines() if path.exists() else []


def n_lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def finished(journal: Path) -> set[str]:
    """Return what has an answer in the journal, by its mark, read in another way than it does."""
    entries = []
    for line in journal.read_text().splitlines() if journal.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # torn
        if "response" in entry:
            entries.append(entry)
    marks, judged = {}, []
    for entry in entries:
        unit, step = (entry["unit_id"], entry["attempt"]), entry["step"]
        if step.startswith("judge:"):
            judged.append((*unit, step.rpartition(":")[2]))
        else:
            (mark,) = MARK.findall(entry["response"]["text"])
            place, part = step.split(":")
            marks[(*unit, place, part)] = mark
    return {*marks.values(), *(f"judged {marks[*place, 'response']}" for place in judged)}


def kill_in_the_middle(folder: Path, more: int, wait_s: float) -> None:
    """Start the run and kill it so many lines of the journal later."""
    journal = folder / "run" / "journal.jsonl"
    enough = n_lines(journal) + more
    process = subprocess.Popen([sys.executable, SCRIPT, str(folder), "flaky"])
    try:
        while n_lines(journal) < enough:
            assert process.poll() is None, "it came to its end before it could be killed"
            time.sleep(0.001)
        time.sleep(wait_s)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL


def same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_killed_and_run_again(tmp_path: Path) -> None:
    draw = random.Random(6)  # noqa: S311
    folder, journal = tmp_path / "killed", tmp_path / "killed" / "run" / "journal.jsonl"
    known: set[str] = set()
    for kill in range(N_KILLS):
        if n_lines(journal) > N_REQUESTS - 150:  # on a busy machine a kill comes late
            assert kill > N_KILLS // 2
            break
        n_asked, n_written = len(asked(folder)), n_lines(journal)
        kill_in_the_middle(folder, draw.randint(4, 60), draw.uniform(0, 0.01))
        new = asked(folder)[n_asked:]
        assert not known.intersection(new), "asked again although finished"
        assert known <= finished(journal), "what was finished is gone"
        # the first line of all says who is asked
        under_way = len(new) - (n_lines(journal) - n_written - (kill == 0))
        assert 0 <= under_way <= CONCURRENCY + 1, "answers were not written at once"
        if kill % 2:  # a power cut on top: the last line is torn
            journal.write_bytes(journal.read_bytes()[: -draw.randint(2, 60)])
        known = finished(journal)
    assert {mark[0] for mark in known} == {"p", "t", "j"}, "probes, answers and verdicts are there"

    n_asked = len(asked(folder))
    subprocess.run([sys.executable, SCRIPT, str(folder)], check=True, timeout=900)
    last = asked(folder)[n_asked:]
    assert not known.intersection(last)
    assert len(last) == len(set(last)) == N_REQUESTS - len(known)

    subprocess.run([sys.executable, SCRIPT, str(tmp_path / "calm")], check=True, timeout=900)
    assert set(asked(tmp_path / "calm")) == known | set(last)
    same_bytes(folder / "run", tmp_path / "calm" / "run")


def test_killed_before_each_moment_that_lasts(tmp_path: Path) -> None:
    """From the first manifest to the last move of a file: the folder is resumed, or done."""
    subprocess.run([sys.executable, SCRIPT, str(tmp_path), "dying"], check=True, timeout=900)
    folders = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    *killed, whole = folders
    assert len(killed) > 20
    n_done = 0
    for folder in killed:
        marks = asked(folder)
        # 2 seeds, 2 turns: a probe, an answer and a verdict each. Nothing was under way.
        assert sorted(marks) == sorted(asked(whole))
        assert len(marks) == 12
        n_done += len(finished(folder / "before.jsonl")) == 12
        same_bytes(folder / "run", whole / "run")
        assert Run.open(folder / "run").manifest["status"] == "complete"
    assert 0 < n_done < len(killed), "killed while asking, and while writing"


# --- a disk that gives out ------------------------------------------------------------------------


def short_of_room(monkeypatch: pytest.MonkeyPatch, n_entries: int) -> None:
    """Let the disk be full in the middle of an entry of the journal, after so many whole ones."""
    write, full = os.write, set()
    n_written = 0

    def limited(file: int, data: Any) -> int:
        nonlocal n_written
        if file in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if b'"unit_id"' in bytes(data):
            n_written += 1
            if n_written > n_entries:
                full.add(file)
                return write(file, bytes(data)[: len(data) // 2])
        return write(file, data)

    monkeypatch.setattr(os, "write", limited)


@pytest.mark.parametrize("n_entries", [2, 8, 14], ids=["probing", "answering", "judging"])
def test_a_full_disk_says_so_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_entries: int
) -> None:
    monkeypatch.setitem(rolled_run.OPTIONS, "quick", True)
    small = {"n_seeds": 5, "attempts": 1, "depth": 2}
    journal = tmp_path / "r" / "run" / "journal.jsonl"
    with monkeypatch.context() as patched:
        short_of_room(patched, n_entries)
        with pytest.raises(ArtifactError) as caught:
            rolled_run.run(tmp_path / "r", **small)
    assert str(caught.value) == (
        f"{journal}: the journal cannot be written: No space left on device; finished requests "
        "are kept; repeat the run to resume"
    )
    known, n_asked = finished(journal), len(asked(tmp_path / "r"))
    assert len(known) == n_entries
    done = rolled_run.run(tmp_path / "r", **small)
    assert not known.intersection(asked(tmp_path / "r")[n_asked:])
    assert len(asked(tmp_path / "r")) - n_asked == 5 * 2 * 3 - n_entries
    assert done.n_errors == 0
    rolled_run.run(tmp_path / "calm", **small)
    same_bytes(tmp_path / "r" / "run", tmp_path / "calm" / "run")


def growls(states: list[str]) -> list[str]:
    return ["Grr."] * len(states)


def test_a_full_disk_under_a_target_that_is_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system: System[Any, Any] = System(["a", "b"], growls)
    with monkeypatch.context() as patched:
        short_of_room(patched, 3)
        with pytest.raises(ArtifactError, match="No space left on device"):
            run_rollouts(system, ["x", "y"], tmp_path / "r", depth=2)
    done = run_rollouts(system, ["x", "y"], tmp_path / "r", depth=2)
    assert (done.n_reused, done.n_asked) == (3, 1)


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    path = tmp_path / "sums.txt"
    path.write_text("".join(f"What is {n} + {n}?\n" for n in range(10)))
    return path


def command(seeds: Path, server: FaultServer, out: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "eval_toolkit", "rollout", "--tester", "static"),
        *("--target", "openai:m", "--base-url", server.url, "--seeds", str(seeds)),
        *("--scorer", "keywords:6", "--depth", "2", "--concurrency", "2", "--quiet"),
        *("--out", str(out)),
    ]


def test_ctrl_c_keeps_what_was_said(seeds: Path, tmp_path: Path) -> None:
    journal = tmp_path / "r" / "journal.jsonl"
    with FaultServer(latency_s=0.2) as server:
        process = subprocess.Popen(
            command(seeds, server, tmp_path / "r"),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and n_lines(journal) < 5:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 130
        assert (
            f"finished answers are stored in {tmp_path / 'r'}; run the same command again to resume"
            in err
        )
        assert "Traceback" not in err
        assert not out
        kept = n_lines(journal) - 1
        done = subprocess.run(
            command(seeds, server, tmp_path / "r"),
            capture_output=True,
            text=True,
            check=True,
            timeout=900,
        )
    assert f"{20 - kept} requests sent, {kept} cached answers" in done.stdout
    assert Run.open(tmp_path / "r").manifest["counts"]["n_requests"] == 20


def test_a_limit_of_the_system_is_no_usage_error(seeds: Path, tmp_path: Path) -> None:
    """A limit on file size makes the journal's writes fail for good, as a full disk does."""
    out = tmp_path / "r"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))

    many = tmp_path / "many.txt"
    many.write_text("".join(f"What is {n} + {n}?\n" for n in range(100)))
    with FaultServer() as server:
        stopped = subprocess.run(
            command(many, server, out),
            capture_output=True,
            text=True,
            # Byte code that does not fit would be cut, kept, and break whatever imports it next.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=limited,
            check=False,
            timeout=900,
        )
        assert stopped.returncode == 3, stopped.stderr
        assert "the journal cannot be written: File too large" in stopped.stderr
        assert "run the same command again to resume" in stopped.stderr
        assert "Traceback" not in stopped.stderr
        kept = n_lines(out / "journal.jsonl") - 1
        done = subprocess.run(
            command(many, server, out), capture_output=True, text=True, check=True, timeout=900
        )
    assert 0 < kept < 200
    assert f"{200 - kept} requests sent, {kept} cached answers" in done.stdout
