"""Run of a slow model, to be killed: ``python scripted_run.py FOLDER [flaky]``.

Every request is logged in ``asked.txt`` before it is answered; the results, which depend only on the
answers, are written to ``measured.json`` at the end.
"""

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from eval_toolkit.errors import ModelError
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.runner import Job, Journal, run_jobs
from eval_toolkit.models.scripted import ScriptedModel

N_JOBS = 1200


async def answer(request):
    number = request.prompt.split()[1]
    os.write(ASKED, f"q{number}\n".encode())
    await asyncio.sleep(random.uniform(0.001, 0.006))  # noqa: S311
    if FLAKY and random.random() < 0.05:  # noqa: S311
        raise ModelError("the connection was reset", kind="connection")
    return f"answer {int(number) ** 2}\n" + "x" * (int(number) % 50)


def main():
    jobs = [Job(f"q{n}", 1, GenerateRequest(f"question {n}")) for n in range(N_JOBS)]
    model = ScriptedModel(answer, concurrency=8)
    outcomes = run_jobs(jobs, model, journal=Journal(FOLDER / "journal.jsonl"))
    measured = {
        outcome.job.unit_id: None if outcome.error else len(outcome.response.text)
        for outcome in outcomes
    }
    (FOLDER / "measured.json").write_text(json.dumps(measured))


if __name__ == "__main__":
    FOLDER, FLAKY = Path(sys.argv[1]), "flaky" in sys.argv
    FOLDER.mkdir(parents=True, exist_ok=True)
    ASKED = os.open(FOLDER / "asked.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    random.seed(os.fstat(ASKED).st_size)  # another one each time it goes on
    main()
