"""A shard that is killed in the middle goes on, and is merged to the bytes of one run."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eval_toolkit.models.runner import Journal

FILES = ("results.json", "records.parquet", "units.parquet", "responses.parquet")
SLOW = ("--model-arg", "delay_s=0.05", "--concurrency", "1")
"""A twentieth of a second for each answer, one after another: long enough to be killed."""


def started(folder: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    line = ["run", "quiz.jsonl", "--model", "scripted:4", *SLOW, "--quiet", "--out", out, *more]
    return subprocess.Popen(
        [sys.executable, "-m", "eval_toolkit", *line], cwd=folder, stdout=subprocess.DEVNULL
    )


def lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def kill_later(folder: Path, out: str, n: int, *more: str) -> None:
    """Kill a run once its journal has some lines more than it had."""
    journal = folder / out / "journal.jsonl"
    enough = lines(journal) + n
    process = started(folder, out, *more)
    while process.poll() is None and lines(journal) < enough:
        pass
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert Journal(journal).read()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_killed_shards_are_merged_to_the_bytes_of_one_run(tmp_path: Path) -> None:
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(120)]
    (tmp_path / "quiz.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert started(tmp_path, "one/run").wait() == 0
    for i in (1, 2, 3):
        shard = ("--shard", f"{i}/3")
        for n in range(i):  # the third is killed three times
            kill_later(tmp_path, f"s/{i}", 3 + n, *shard)
        assert started(tmp_path, f"s/{i}", *shard).wait() == 0
    merge = ["merge", "s/1", "s/2", "s/3", "--out", "all/run"]
    subprocess.run(
        [sys.executable, "-m", "eval_toolkit", *merge], cwd=tmp_path, check=True, timeout=300
    )
    for name in FILES:
        whole, merged = (tmp_path / place / "run" / name for place in ("one", "all"))
        assert whole.read_bytes() == merged.read_bytes(), name
