"""Loaders, checks and files by name, for the commands that look at the data itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit import _frames, _tables
from eval_toolkit.cli._data import Data, stem_of, with_origin
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, PluginError
from eval_toolkit.leakage import LeakageFinding
from eval_toolkit.leakage.loading import load_check
from eval_toolkit.loaders.loading import load_loader, loaded_splits
from eval_toolkit.plugins import name_and_options
from eval_toolkit.slices import EvalSlice

__all__ = ["NamedCheck", "loaded_data", "named_files"]


def loaded_data(spec: str) -> dict[str, Data]:
    """Return the splits of the loader that a name stands for, by their names.

    Where a message names a file, it names the loader.
    """
    loader = load_loader(spec)
    name = name_and_options(spec)[0]
    return {split: _data(name, part) for split, part in loaded_splits(loader, name).items()}


def _data(loader: str, part: EvalSlice) -> Data:
    roles = {column for _, column in part._roles()}
    others = tuple(column for column in _frames.names(part.df) if column not in roles)
    labels = frozenset(map(str, set(part.y_true.tolist())))
    rows = with_origin(part)
    return Data(Path(loader), rows, others, labels, None, np.zeros(part.n, dtype=np.bool_))


def named_files(given: Sequence[str]) -> dict[str, Path]:
    """Return the files by the names of their splits."""
    named: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = "", text
        found = _tables.expand_paths(path)
        if name and len(found) > 1:
            raise InvalidInputError(f"{text}: matches {len(found)} files; a split is one file")
        for file in found:
            key = name or stem_of(file)[0]
            if key in named:
                raise InvalidInputError(
                    f"{file}: the split {key!r} is {named[key]} already; write NAME={file}"
                )
            named[key] = file
    return named


class NamedCheck:
    """A check from the command line: what goes wrong in it names it."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._check = load_check(spec)

    @property
    def name(self) -> str:
        """The check's own name."""
        return self._check.name

    def __getattr__(self, name: str) -> Any:  # its version, for manifests
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._check, name)

    def validate(self, splits: Mapping[str, Any]) -> LeakageFinding:
        """Return what the check finds."""
        try:
            found = self._check.validate(splits)
        except EvalToolkitError:
            raise
        except Exception as error:  # somebody else's check may fail in any way
            raise PluginError(
                f"check {self._spec!r}: validate failed: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, LeakageFinding):
            raise PluginError(
                f"check {self._spec!r}: validate gave a {type(found).__name__}; it must give a "
                "LeakageFinding"
            )
        return found
