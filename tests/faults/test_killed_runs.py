"""Killed at any moment and started again: nothing finished is asked for again, nothing is lost."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

N_KILLS = 6


@dataclass(frozen=True)
class Command:
    """A command that can be killed and started again on the same folder."""

    argv: Callable[[Path], list[str]]
    """May fail requests for a while; a failed one counts as not finished."""
    steady_argv: Callable[[Path], list[str]]
    """Fails none: what the last run uses."""
    asked: Callable[[Path], list[str]]
    """Units asked for so far, in order, over all runs on the folder."""
    measured: Callable[[Path], bytes]
    """What must come out the same, byte by byte."""
    concurrency: int
    """So many requests can be under way when it is killed, and no more may be asked twice."""


def scripted(*flags: str) -> Callable[[Path], list[str]]:
    script = str(Path(__file__).with_name("scripted_run.py"))
    return lambda folder: [sys.executable, script, str(folder), *flags]


SCRIPTED = Command(
    argv=scripted("flaky"),
    steady_argv=scripted(),
    asked=lambda folder: _text(folder / "asked.txt").split(),
    measured=lambda folder: (folder / "measured.json").read_bytes(),
    concurrency=8,
)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def journalled(journal: Path) -> list[tuple[str, bool]]:
    """Return unit and success of every line, read in another way than the journal does."""
    entries = []
    *whole, torn = _text(journal).split("\n")
    for line in whole:
        entry = json.loads(line)  # no line but the last may be torn
        if "unit_id" in entry:
            entries.append((entry["unit_id"], "response" in entry))
    if torn.endswith("}}"):  # all but its line break is there
        entries.append((json.loads(torn)["unit_id"], '"response"' in torn))
    return entries


def kill_in_the_middle(command: Command, folder: Path, draw: random.Random) -> bool:
    """Start the command, kill it some lines later than it began; False if it ended before."""
    journal = folder / "journal.jsonl"
    lines = _text(journal).count("\n")
    enough = lines + draw.randint(1, 25)
    process = subprocess.Popen(command.argv(folder))
    try:
        while process.poll() is None and _text(journal).count("\n") < enough:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.01))
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


@pytest.mark.parametrize("command", [pytest.param(SCRIPTED, id="scripted")])
def test_killed_and_run_again(command: Command, tmp_path: Path) -> None:
    draw = random.Random(20)  # noqa: S311
    folder = tmp_path / "killed"
    journal = folder / "journal.jsonl"
    finished: set[str] = set()
    n_asked = n_lines = 0

    def check() -> None:
        """Check what was asked and what was written since the last time."""
        nonlocal n_asked, n_lines
        asked, lines = command.asked(folder), journalled(journal)
        again = finished.intersection(asked[n_asked:])
        assert not again, f"asked again although finished: {sorted(again)}"
        under_way = (len(asked) - n_asked) - (len(lines) - n_lines)
        assert 0 <= under_way <= command.concurrency, "answers were not written at once"
        assert finished <= {unit for unit, ok in lines if ok}, "what was finished is gone"
        n_asked, n_lines = len(asked), len(lines)

    for kill in range(N_KILLS):
        killed = kill_in_the_middle(command, folder, draw)
        check()
        if not killed:  # on a busy machine kills come late, and there is not enough for all of them
            assert kill > N_KILLS // 2
            break
        if kill % 2:  # a power cut on top: the last line is torn, too
            journal.write_bytes(journal.read_bytes()[: -draw.randint(1, 120)])
        lines = journalled(journal)
        finished, n_lines = {unit for unit, ok in lines if ok}, len(lines)
    assert len(finished) > N_KILLS, "something was finished in between"

    subprocess.run(command.steady_argv(folder), check=True, timeout=900)
    check()
    units = [unit for unit, ok in journalled(journal) if ok]
    assert len(units) == len(set(units)), "none doubled"
    subprocess.run(command.steady_argv(tmp_path / "undisturbed"), check=True, timeout=900)
    assert command.measured(folder) == command.measured(tmp_path / "undisturbed")
