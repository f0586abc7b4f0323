"""Remove local paths from stored data before it is shared."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PureWindowsPath
from typing import Any

from eval_toolkit.runs import Run

_FULL = re.compile(r"(?:/|~/|[A-Za-z]:[\\/])[^\n]*[^\n\\/][\\/][^\n]*")
"""Matches absolute paths and paths from the home folder, with at least one folder."""
_IN_WORDS = re.compile(r"""(?<![^\s'"(=\[`])~?(?:/[^\s/:;,'"()\[\]`]+){2,}""")
_OF_DATA = ("artifacts", "leakage_report", "leakage_report_before_drop")
"""Keys of entries that contain column names or quoted rows, not paths."""


class Places:
    """Assigns unique display names to files, without their paths.

    Examples
    --------
    >>> places = Places()
    >>> places.named("/home/ann/a/test.csv"), places.named("/home/ann/b/test.csv"), places.named("a/b")
    ('test.csv', 'test.csv (2)', 'a/b')
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def named(self, path: str) -> str:
        """Return the name of a file or folder; other strings are returned unchanged."""
        if path not in self._names and _FULL.fullmatch(path):
            last = PureWindowsPath(path).name or path  # handles both kinds of separators
            n = sum(PureWindowsPath(other).name == last for other in self._names)
            self._names[path] = f"{last} ({n + 1})" if n else last
        return self._names.get(path, path)

    def command(self, line: str) -> str:
        """Return a command line with paths replaced by file names."""
        try:
            words = shlex.split(line)
        except ValueError:
            return without_folders(line)
        told = []
        for word in words:
            option, sign, value = word.partition("=")
            named = option.startswith("-") and sign
            told.append(f"{option}={self.named(value)}" if named else self.named(word))
        return shlex.join(told) if told != words else line

    def within(self, value: Any) -> Any:
        """Return settings in which absolute or known paths are replaced by names."""
        if isinstance(value, Mapping):
            return {
                self.within(key): one if key in _OF_DATA else self.within(one)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self.within(one) for one in value]
        if isinstance(value, str) and (value in self._names or not re.search(r"\s", value)):
            return self.named(value)
        return value  # text with spaces may be a prompt


def without_folders(text: str) -> str:
    """Return a message with absolute paths replaced by file names.

    Examples
    --------
    >>> without_folders("cannot read '/home/ann/x.csv': see https://e.org/a/b and 1/2/3")
    "cannot read 'x.csv': see https://e.org/a/b and 1/2/3"
    """
    return _IN_WORDS.sub(lambda found: found[0].rpartition("/")[2], text)


@dataclass(frozen=True, eq=False, repr=False)
class SharedRun(Run):
    """Run without local paths in its command, settings and reasons; its data is unchanged."""

    @classmethod
    def of(cls, run: Run) -> "SharedRun":
        """Return a copy of a run without local paths."""
        places = Places()
        told = dict(run.manifest)
        if isinstance(told.get("command"), str):
            told["command"] = places.command(told["command"])
        for path in told["data_hashes"] if isinstance(told.get("data_hashes"), Mapping) else ():
            places.named(str(path))
        if isinstance(told.get("notes"), list):
            told["notes"] = [without_folders(str(note)) for note in told["notes"]]
        return cls(run.path, places.within(told), run.verify)

    @cached_property
    def results(self) -> dict[str, Any]:
        """Content of ``results.json`` without local paths in reasons."""
        return _reasons(super().results)  # type: ignore[no-any-return]


def _reasons(value: Any) -> Any:
    if isinstance(value, list):
        return [_reasons(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: without_folders(one) if name == "reason" and isinstance(one, str) else _reasons(one)
        for name, one in value.items()
    }
