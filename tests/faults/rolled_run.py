"""Rollout run to be killed: ``python rolled_run.py FOLDER [flaky | dying]``.

Tester, target and judge are models that log every request in ``asked.txt`` before they answer.
Requests are identified by a mark: tester and target repeat it in their responses, so that it is in the
journal, and a judge request has the mark of the judged answer.

"flaky" makes some requests fail. "dying" starts a small run in a separate folder for each durable
operation (syncing or renaming a file), kills it immediately before that operation and resumes it;
``before.jsonl`` is the journal after the kill.
"""

import asyncio
import os
import random
import re
import shutil
import signal
import sys
from pathlib import Path

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import ModelError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import SeedPrompt, System, run_rollouts
from eval_toolkit.rollouts.attacks import Refinement
from eval_toolkit.rollouts.scorers import JudgeScorer

N_SEEDS, ATTEMPTS, DEPTH = 20, 2, 3
N_REQUESTS = 3 * DEPTH * ATTEMPTS * N_SEEDS
"""Number of requests of the run; each turn has a probe, an answer and a verdict."""
CONCURRENCY = 8
MARK = re.compile(r"[pt][0-9a-f]{12}")

OPTIONS: dict = {"folder": Path(), "asked": -1, "flaky": False, "quick": False}


def mark_of(request, kind):
    said = [(message.role.value, message.content) for message in request.prompt]
    return kind + sha256_text(canonical_json([said, request.seed]))[:12]


async def noted(line, steady=False):
    os.write(OPTIONS["asked"], f"{line}\n".encode())
    if not OPTIONS["quick"]:
        # slow enough to be killed in time on a busy machine
        await asyncio.sleep(random.uniform(0.005, 0.03))  # noqa: S311
    if OPTIONS["flaky"] and not steady and random.random() < 0.02:  # noqa: S311
        raise ModelError("the connection was reset", kind="connection")


async def probe(request):
    mark = mark_of(request, "p")
    await noted(mark)
    return f"<prompt>Please, {mark}.</prompt>"


async def answer(request):
    mark = mark_of(request, "t")
    await noted(mark)
    return f"{'Grr!' if int(mark[1:], 16) % 4 == 0 else 'No.'} {mark}"


async def verdict(request):
    judged = [mark for mark in MARK.findall(request.prompt[-1].content) if mark[0] == "t"][-1]
    # A verdict that fails and comes later changes what the tester is told, and so what it says.
    await noted(f"judged {judged}", steady=True)
    return "yes" if int(judged[1:], 16) % 4 == 0 else "no"


def run(folder, n_seeds=N_SEEDS, attempts=ATTEMPTS, depth=DEPTH):
    """Start or resume the run; return its result."""
    folder.mkdir(parents=True, exist_ok=True)
    OPTIONS["asked"] = os.open(folder / "asked.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    random.seed(os.fstat(OPTIONS["asked"]).st_size)  # another one each time it goes on
    tester, target, judge = (
        ScriptedModel(said, name=said.__name__, concurrency=CONCURRENCY)
        for said in (probe, answer, verdict)
    )
    system = System(Refinement(tester), target, JudgeScorer(Judge("harmfulness", judge)))
    seeds = [SeedPrompt(f"goal {n}", id=f"s{n:02d}", category="ab"[n % 2]) for n in range(n_seeds)]
    try:
        return run_rollouts(
            system, seeds, folder / "run", rollouts_per_seed=attempts, depth=depth, asr_at=[1]
        )
    finally:
        os.close(OPTIONS["asked"])


def die_at(moment):
    """Kill this process immediately before the given durable operation, counted from 1."""
    left = [moment]

    def before(real):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    os.fsync, os.replace, os.rename = map(before, (os.fsync, os.replace, os.rename))
    Path.replace = before(Path.replace)


def die_everywhere(folder):
    """Kill a run before each of its durable operations, and resume all of them."""
    # Here, not in every child:
    import duckdb  # noqa: F401

    import eval_toolkit._internal.tables.writing
    import eval_toolkit.rollouts.scorers.scoring
    import eval_toolkit.runs.query_driver  # noqa: F401

    small = {"n_seeds": 2, "attempts": 1, "depth": 2}
    OPTIONS["quick"] = True
    os.fsync = os.fstat  # nobody cuts the power: no need to wait for the disk
    n_killed = 0
    while True:  # children first: a process with threads does not fork well
        child = os.fork()
        if child == 0:
            die_at(n_killed + 1)
            run(folder / str(n_killed), **small)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
        n_killed += 1
    for n in range(n_killed):
        journal = folder / str(n) / "run" / "journal.jsonl"
        if journal.exists():
            shutil.copy(journal, folder / str(n) / "before.jsonl")
        run(folder / str(n), **small)


if __name__ == "__main__":
    OPTIONS["flaky"] = "flaky" in sys.argv
    (die_everywhere if "dying" in sys.argv else run)(Path(sys.argv[1]))
