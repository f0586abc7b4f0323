"""Disk usage of programs, including removed files that are still open."""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

_MOST_BYTES, _MOST_FILES = 64 * 1024 * 1024, 1024
_MOST_MAPPED = 4
"""Prefixes of removed files that are used as memory; their size cannot be read."""
_REMOVED = re.compile(r"^\S+ \S+ \S+ (\S+ [1-9]\d*) +/.* \(deleted\)$", re.MULTILINE)


def written_too_much(folder: Path, processes: Iterable[int] = ()) -> bool:
    """Return whether programs have written more than their limit.

    Removed files that ``processes`` keep open also count. Paths that are too long to inspect count
    as exceeding the limit.
    """
    wrong: list[OSError] = []
    n = size = 0
    for place, folders, names in os.walk(folder, onerror=wrong.append):
        n += len(folders) + len(names)
        if n > _MOST_FILES:
            return True
        for name in names:
            try:
                size += _bytes((Path(place) / name).lstat())
            except OSError as error:
                wrong.append(error)
    for process in processes:
        size += _removed_bytes(process)
    # Files that have vanished count as nothing; any other error could hide content.
    hidden = any(not isinstance(error, FileNotFoundError) for error in wrong)
    return hidden or size > _MOST_BYTES


def _bytes(about: os.stat_result) -> int:
    return about.st_blocks * 512


def _removed_bytes(process: int) -> int:
    """Return the total size of removed files that a process keeps open."""
    size = 0
    try:
        with os.scandir(f"/proc/{process}/fd") as entries:
            for entry in entries:
                about = entry.stat()
                if stat.S_ISREG(about.st_mode) and not about.st_nlink:
                    size += _bytes(about)
        maps = Path(f"/proc/{process}/maps").read_text("utf-8", "replace")
    except OSError:  # the process has ended, or there is no /proc
        return size
    mapped = {found[1] for found in _REMOVED.finditer(maps)}
    return size if len(mapped) <= _MOST_MAPPED else _MOST_BYTES + 1
