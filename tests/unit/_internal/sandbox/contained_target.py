"""Functions for tests of contained calls."""

import os
import time
from pathlib import Path


def tell_and_sleep(path: str) -> None:
    """Write the process id, then sleep forever."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


def meet(folder: str, name: str, n: int) -> int:
    """Wait until the given number of callers is present at the same time."""
    (Path(folder) / name).touch()
    while (found := len(list(Path(folder).iterdir()))) < n:
        time.sleep(0.01)
    return found
