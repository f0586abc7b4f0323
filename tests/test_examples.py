"""`make test` has the same examples every time; `make explore` has others, and ten times as many."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
NOTED = "EXAMPLES_NOTED_IN"


@settings(max_examples=20)
@given(st.integers(0, 10**12))
def test_examples_may_be_noted(number: int) -> None:
    if NOTED in os.environ:
        with Path(os.environ[NOTED]).open("a") as file:
            file.write(f"{number}\n")


def noted(path: Path, *options: str) -> list[str]:
    """Return the examples of the test above in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options),
            f"{Path(__file__)}::test_examples_may_be_noted",
        ],
        env={**os.environ, NOTED: str(path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return path.read_text().split()


def test_the_same_every_time_unless_exploring(tmp_path: Path) -> None:
    once, again = noted(tmp_path / "once"), noted(tmp_path / "again")
    assert once == again
    assert len(once) == 20
    explored = noted(tmp_path / "explored", "--hypothesis-profile=explore")
    assert len(explored) >= 10 * 20
    assert set(explored) != set(noted(tmp_path / "other", "--hypothesis-profile=explore"))


@pytest.mark.parametrize(
    ("target", "option"),
    [("test", "--randomly-seed=1"), ("explore", "--hypothesis-profile=explore")],
)
def test_targets(target: str, option: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(rf"^{target}:.*\n\t(.*)$", makefile, flags=re.MULTILINE)
    assert option in recipe
