"""Memory and CPU time per sample of long runs, and time to resume a run.

``python -m benchmarks.run_memory 5000 20000`` runs each number of samples of 9 kB (prompt and answer)
in a separate process; ``--resume`` measures the CPU time from resuming a run that was interrupted near
its end to its next request.
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from eval_toolkit.models.runner import Progress
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import run_task


class Begun(BaseException):
    """The resumed run is about to send its first request."""


def questions(folder: Path, n: int, padding: int) -> Path:
    path = folder / "questions.jsonl"
    with path.open("w") as stream:
        for i in range(n):
            text = f"What is {i} + 1? {'pad ' * padding}"
            stream.write(json.dumps({"id": f"q{i}", "question": text, "answer": str(i + 1)}) + "\n")
    return path


def measure(n: int, *, resume: bool) -> dict[str, Any]:
    asked = 0

    def answer(_: Any) -> str:
        nonlocal asked
        asked += 1
        if resume and asked == n - 10:
            raise KeyboardInterrupt
        return "4" if resume else "word " * 400

    def begun(_: Progress) -> None:
        raise Begun

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows, model = questions(folder, n, 0 if resume else 1750), ScriptedModel(answer)
        options: dict[str, Any] = {"graders": ["exact_match"], "formatter": "plain"}
        before = time.process_time()
        try:
            run_task(rows, model, folder / "run", **options)
        except KeyboardInterrupt:
            before = time.process_time()
            with contextlib.suppress(Begun):
                run_task(rows, model, folder / "run", on_progress=begun, **options)
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"n": n, "cpu_s": seconds, "cpu_ms_per_sample": 1e3 * seconds / n, "peak_mib": peak}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int, nargs="+")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for n in given.n:
        if given.here:
            print(json.dumps(measure(n, resume=given.resume)))
            continue
        more = ["--resume"] * given.resume
        command = [sys.executable, "-m", "benchmarks.run_memory", str(n), "--here", *more]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
