"""Functions for contained calls: what a test cannot find in the standard library."""

import os
import time
from pathlib import Path


def tell_and_sleep(path: str) -> None:
    """Say which process this is, then do not end."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)


def meet(folder: str, name: str, n: int) -> int:
    """Return when so many callers are here at the same time, and not before."""
    (Path(folder) / name).touch()
    while (found := len(list(Path(folder).iterdir()))) < n:
        time.sleep(0.01)
    return found
