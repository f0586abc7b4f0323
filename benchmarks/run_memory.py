"""Memory and CPU time per sample of long runs, and time to resume a run.

``python -m benchmarks.run_memory 20000 100000`` runs each number of samples of 9 kB (prompt and
answer) in a process of its own. ``--resume`` interrupts a run of short samples before its last ten
answers, and measures the CPU time and the memory of a new process until it sends its next request.
"""

import argparse
import contextlib
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import run_task

OPTIONS: dict[str, Any] = {"graders": ["exact_match"], "formatter": "plain"}
left = [0]
"""Number of requests until the process ends."""


def questions(folder: Path, n: int, padding: int) -> Path:
    path = folder / "questions.jsonl"
    with path.open("w") as stream:
        for i in range(n):
            text = f"What is {i} + 1? {'pad ' * padding}"
            stream.write(json.dumps({"id": f"q{i}", "question": text, "answer": str(i + 1)}) + "\n")
    return path


def long_answer(_: Any) -> str:
    return "word " * 400


def short_answer(_: Any) -> str:
    left[0] -= 1
    if left[0] == 0:
        raise KeyboardInterrupt
    return "4"


def measured(n: int, seconds: float) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"n": n, "cpu_s": seconds, "cpu_ms_per_sample": 1e3 * seconds / n, "peak_mib": peak}


def whole(folder: Path, n: int) -> dict[str, Any]:
    rows = questions(folder, n, 1750)
    before = time.process_time()
    run_task(rows, ScriptedModel(long_answer), folder / "run", **OPTIONS)
    return measured(n, time.process_time() - before)


def until_interrupted(folder: Path, n: int, n_answered: int) -> dict[str, Any]:
    """Run until so many answers are given; imports are part of the time."""
    left[0] = n_answered + 1
    with contextlib.suppress(KeyboardInterrupt):
        run_task(folder / "questions.jsonl", ScriptedModel(short_answer), folder / "run", **OPTIONS)
    return measured(n, time.process_time())


def in_a_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.run_memory", *arguments, "--here"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int, nargs="+")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--folder", help="place of the data; a temporary folder by default")
    parser.add_argument("--answers", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        gc.set_threshold(200_000, 20, 20)  # as on the command line
        folder, n = Path(given.folder), given.n[0]
        made = until_interrupted(folder, n, given.answers) if given.resume else whole(folder, n)
        print(json.dumps(made))
        return
    for n in given.n:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            here = (str(n), "--folder", os.fspath(folder))
            if given.resume:
                questions(Path(folder), n, 0)
                in_a_process(*here, "--resume", "--answers", str(n - 10))
                print(json.dumps(in_a_process(*here, "--resume", "--answers", "0")))
            else:
                print(json.dumps(in_a_process(*here)))


if __name__ == "__main__":
    main()
