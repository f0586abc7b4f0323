"""Targets that violate the rule in every possible way, for tests of the fuzzer."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.target import Target

from eval_toolkit.errors import InvalidInputError

__all__ = ["FAULTY"]


def _read(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()


def _fails(folder: Path, name: str) -> None:
    if b"{" not in _read(folder, name):
        raise KeyError("no brace")


def _dies(folder: Path, name: str) -> None:
    if b"{" not in _read(folder, name):
        os.abort()


def _stays(folder: Path, name: str) -> None:
    while b"{" not in _read(folder, name):
        time.sleep(0.01)


def _works(folder: Path, name: str) -> None:
    while b"{" not in _read(folder, name):
        pass


def _lets_work(folder: Path, name: str) -> None:
    if b"{" not in _read(folder, name):
        subprocess.run([sys.executable, "-c", "while True: pass"], check=True)


def _waits(folder: Path, name: str) -> None:
    if b"{" not in _read(folder, name):
        time.sleep(0.7)


def _grows(folder: Path, name: str) -> None:
    if b"{" not in _read(folder, name):
        bytearray(1 << 30)


def _refuses(folder: Path, name: str) -> None:
    if b"{" not in _read(folder, name):
        raise InvalidInputError("no brace")


def _corpus(folder: Path) -> None:
    (folder / "a.json").write_text('{"a": [1, 2]}')


FAULTY = {
    run.__name__: Target(run.__name__, "", run, _corpus, ("a.json",))
    for run in (_fails, _dies, _stays, _works, _lets_work, _waits, _grows, _refuses)
}
