"""Functions for contained calls: what a test cannot find in the standard library."""

import os
import time
from pathlib import Path


def tell_and_sleep(path: str) -> None:
    """Say which process this is, then do not end."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)
