"""Safe file names from arbitrary names."""

import re
from collections.abc import Iterable

_LONGEST = 80


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return a file name for each name, unique regardless of case.

    File names consist of letters, digits, "_", "-" and "." and do not begin with a dot.

    Examples
    --------
    >>> file_names(["org/model", "org:model", "../x", ""])
    {'org/model': 'org__model', 'org:model': 'org__model~2', '../x': '_.__x', '': '_'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "__", name)[:_LONGEST]
        plain = re.sub(r"^\.", "_", plain) or "_"
        candidate, number = plain, 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{plain}~{number}"
        taken.add(candidate.lower())
        found[name] = candidate
    return found
