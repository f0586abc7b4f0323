"""Fixtures to run the command line in this process, and small prediction files."""

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
"""Matches lines of the progress display if standard error is not a terminal."""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _interrupts_as_before() -> Iterator[None]:
    """Restore the signal handlers, since an interrupted command ignores further interrupts."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command; return its exit code, standard output, and standard error without progress."""

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
    """Run a command with ``--json`` and return its strict JSON output; fail if it does not succeed."""

    def run(*args: object) -> Any:
        code, out, err = command(*args, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=refuse_constant)

    return run


@pytest.fixture
def unread() -> Callable[..., tuple[int, str]]:
    """Run a command with closed standard output; return its exit code and standard error."""

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
    """Return columns with two scorers of different quality, three sources and ids."""
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
    """Write predictions to a CSV file."""
    return tables.write_table(columns, tmp_path / "preds.csv")
