"""Compare a stored run with the requested one, to resume, keep or refuse it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs.folder import RESULTS, Run
from eval_toolkit.runs.table import to_table
from eval_toolkit.runs.writing import run_content
from eval_toolkit.scorecards import Records


def holds(
    run: Run | None, results: Mapping[str, Any], records: Mapping[tuple[str, str], Records]
) -> bool:
    """Return whether a finished run has exactly these results and records."""
    if run is None or list(records) != run.subjects:
        return False
    content = run_content(results, None, None, None)
    if content.files[RESULTS] != (run.path / RESULTS).read_bytes():
        return False
    new, _ = to_table(records)
    old, _ = to_table({subject: run.records(*subject) for subject in run.subjects})
    return new.keys() == old.keys() and all(
        np.array_equal(new[name], old[name], equal_nan=new[name].dtype.kind == "f") for name in new
    )


def refuse_changed(
    folder: Path, there: Mapping[str, Any], config: Mapping[str, Any], names: Iterable[str]
) -> None:
    """Raise an error if the stored configuration differs."""
    for name in names:
        path = difference(there.get(name), config.get(name), name)
        if path is not None:
            place, old, new = path
            raise ArtifactError(
                f"{folder}: contains a run with {place} = {shown_setting(old)}, but this one has "
                f"{shown_setting(new)}; choose another folder"
            )


def difference(old: Any, new: Any, place: str) -> tuple[str, Any, Any] | None:
    """Return the first difference between two settings, with both values.

    Examples
    --------
    >>> difference({"a": {"b": 1}}, {"a": {"b": 2}}, "config")
    ('config.a.b', 1, 2)
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*new, *(name for name in old if name not in new)]:
            found = difference(old.get(name), new.get(name), f"{place}.{name}")
            if found is not None:
                return found
        return None
    return None if old == new else (place, old, new)


def shown_setting(value: Any) -> str:
    """Format a setting as a short JSON string for messages."""
    text = canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
