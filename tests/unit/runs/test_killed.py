"""Nothing lost: a process killed while it writes a run leaves the old one, the new one, or a wreck
that says so."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs import Run, run_state, write_run
from eval_toolkit.scorecards import Records

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a writer per trial")

# Writes run after run over each other. `fork` gives a fresh writer at no cost of imports: for each
# line on stdin one is started and its process id printed; with a number it ends by itself, without
# any clean-up, at that step of its first run.
SERVER = """
import os, pathlib, sys
import duckdb
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records

def write(folder, number):
    results = {"schema_version": "v1", "run_id": f"r{number}", "config": {}, "by_slice": {}}
    records = Records.from_columns({"score": [float(number)] * 50})
    write_run(folder, results=results, results_full=results, manifest={},
              records={("s", "m"): records}, overwrite=True)

def counted(function, limit, steps=[0]):
    def call(*args, **kwargs):
        steps[0] += 1
        if steps[0] == limit:
            os._exit(9)
        return function(*args, **kwargs)
    return call

for line in sys.stdin:
    folder, number, limit = line.split()
    child = os.fork()
    if not child:
        if int(limit):
            os.fsync = os.fstat  # a step all the same, without a wait for the disk
            for owner, name in ((os, "open"), (os, "fsync"), (pathlib.Path, "replace"),
                                (pathlib.Path, "unlink"), (os, "write"), (pathlib.Path, "mkdir")):
                setattr(owner, name, counted(getattr(owner, name), int(limit)))
            write(folder, int(number))
            os._exit(0)
        while True:
            write(folder, int(number))
            number = int(number) + 1
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Writers:
    """Starts writers and says how they ended."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, folder, number, limit=0):
        self.process.stdin.write(f"{folder} {number} {limit}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def ended(self):
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def writers():
    made = Writers()
    yield made
    made.close()


def write_old(folder):
    results = {"schema_version": "v1", "run_id": "r0", "config": {}, "by_slice": {}}
    records = Records.from_columns({"score": [0.0] * 50})
    write_run(folder, results=results, manifest={}, records={("s", "m"): records})


def found(folder):
    """Return the number of the run that is there, or None if it says that it is unfinished."""
    state = run_state(folder)
    if state == "complete":
        run = Run.open(folder)
        number = int(run.run_id[1:])
        assert run.results["run_id"] == run.run_id, "results of another run"
        assert set(run.records("s", "m").columns["score"].tolist()) == {float(number)}
        if number:
            assert run.results_full == run.results
        return number
    nothing = not folder.exists() or not list(folder.iterdir())
    assert state == "not a run" if nothing else state.startswith("incomplete: "), state
    with pytest.raises(ArtifactError):
        Run.open(folder)
    return None


@pytest.mark.parametrize("fresh", [True, False])
def test_ended_at_every_step_in_turn(writers, tmp_path, fresh):
    outcomes = []
    write_old(tmp_path / "old")
    for limit in range(1, 200):
        folder = tmp_path / f"run{limit}"
        if not fresh:
            shutil.copytree(tmp_path / "old", folder)
        writers.start(folder, 1, limit)
        status = writers.ended()
        outcomes.append(found(folder))
        assert status in (0, 9)
        if outcomes[-1] is None and limit % 6 == 0:  # what is left behind is no obstacle
            write_run(folder, results={"run_id": "r2"}, manifest={}, overwrite=not fresh)
            assert run_state(folder) == "complete"
        if status == 0:
            break
    assert outcomes[-1] == 1, "the last writer came to its end"
    assert len(outcomes) > 20, "steps were counted"
    assert set(outcomes) == ({None, 1} if fresh else {0, None, 1})
    if not fresh:
        unfinished = outcomes.index(None)
        assert set(outcomes[:unfinished]) == {0}, "the old run stands until the renames begin"


def wait_for_run(folder, number):
    """Wait until a writer has finished its first run, however busy the machine is."""
    for _ in range(60_000):
        with contextlib.suppress(ArtifactError):
            if int(Run.open(folder, verify=False).run_id[1:]) >= number:
                return
        time.sleep(0.01)
    raise AssertionError("the writer never finished a run")


def test_killed_at_random_moments(writers, tmp_path):
    chance = random.Random(20240611)  # noqa: S311
    folder = tmp_path / "run"
    outcomes = []
    number = 0
    for trial in range(32):
        number += 1000
        pid = writers.start(folder, number)
        if trial % 3 == 0:
            wait_for_run(folder, number)
        time.sleep(chance.uniform(0.0, 0.06))
        os.kill(pid, signal.SIGKILL)
        assert writers.ended() == -signal.SIGKILL
        outcomes.append(found(folder))
    finished = [n for n in outcomes if n is not None]
    assert finished == sorted(finished), "never an older run than one seen before"
    assert len(set(finished)) > 5, json.dumps(outcomes)
