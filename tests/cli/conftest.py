"""Running the command in this process, and small files of predictions."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit._internal import tables
from eval_toolkit.cli import main

PROGRESS = re.compile(r"^[\d,]+ of [\d,]+ requests.*\n", re.MULTILINE)
"""Lines of the progress display where standard error is not a terminal."""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _interrupts_as_before() -> Iterator[None]:
    """An interrupted command ends deaf to a second one; later tests and their children are not."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line: exit code, standard output, standard error without progress."""

    def run(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, out, PROGRESS.sub("", err)

    return run


def refuse_constant(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture
def as_json(command: Command) -> Callable[..., Any]:
    """Run a command with ``--json``; it must succeed and print strict JSON."""

    def run(*args: object) -> Any:
        code, out, err = command(*args, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=refuse_constant)

    return run


@pytest.fixture
def unread() -> Callable[..., tuple[int, str]]:
    """Run a command whose standard output nobody reads: exit code, standard error."""

    def run(*args: object) -> tuple[int, str]:
        with subprocess.Popen(
            [sys.executable, "-m", "eval_toolkit", *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            err = process.stderr.read()
        return process.returncode, err

    return run


def columns_of(n: int = 200, seed: int = 3) -> dict[str, Any]:
    """Two scorers of different worth, in three sources, with ids."""
    generator = np.random.default_rng(seed)
    label = (generator.random(n) < 0.4).astype(np.int64)
    evidence = generator.normal(size=(2, n)) + np.array([[1.0], [2.5]]) * label
    score, better = 1.0 / (1.0 + np.exp(-evidence))
    return {
        "id": np.array([f"r{i:04d}" for i in range(n)], dtype=object),
        "label": label,
        "score": score,
        "better": better,
        "source": generator.choice(np.array(["chat", "mail", "web"], dtype=object), n),
        "author": generator.choice(np.array([f"u{i}" for i in range(40)], dtype=object), n),
    }


@pytest.fixture
def columns() -> dict[str, Any]:
    return columns_of()


@pytest.fixture
def preds(tmp_path: Path, columns: dict[str, Any]) -> Path:
    """Predictions as a CSV file."""
    return tables.write_table(columns, tmp_path / "preds.csv")
