"""Load splitters, checks, selectors and files by name, for commands that inspect data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from eval_toolkit._internal import frames, tables
from eval_toolkit.cli._data import Data, stem_of, with_origin
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, PluginError
from eval_toolkit.harness.loading import load_selector
from eval_toolkit.leakage import LeakageFinding
from eval_toolkit.leakage.loading import load_check
from eval_toolkit.loaders.loading import load_loader, loaded_splits
from eval_toolkit.plugins import name_and_options
from eval_toolkit.slices import EvalSlice
from eval_toolkit.thresholds import ThresholdResult


def loaded_data(spec: str) -> dict[str, Data]:
    """Return the splits of a loader by name.

    Error messages refer to the loader instead of a file.
    """
    loader = load_loader(spec)
    name = name_and_options(spec)[0]
    return {split: _data(name, part) for split, part in loaded_splits(loader, name).items()}


def _data(loader: str, part: EvalSlice) -> Data:
    roles = {column for _, column in part._roles()}
    others = tuple(column for column in frames.names(part.df) if column not in roles)
    labels = frozenset(map(str, set(part.y_true.tolist())))
    rows = with_origin(part)
    return Data(Path(loader), rows, others, labels, None, np.zeros(part.n, dtype=np.bool_))


def named_files(given: Sequence[str]) -> dict[str, Path]:
    """Return the files by split name."""
    named: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = "", text
        found = tables.expand_paths(path)
        if name and len(found) > 1:
            raise InvalidInputError(f"{text}: matches {len(found)} files; a split must be one file")
        for file in found:
            key = name or stem_of(file)[0]
            if key in named:
                raise InvalidInputError(
                    f"{file}: the split {key!r} is already {named[key]}; write NAME={file}"
                )
            named[key] = file
    return named


class _Named:
    """Plugin given on the command line; error messages include its name."""

    kind = ""

    def __init__(self, spec: str, made: Any) -> None:
        self._spec = spec
        self._made = made

    def __getattr__(self, name: str) -> Any:  # version for manifests
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._made, name)

    def _fails(self, words: str, cause: Exception | None = None) -> NoReturn:
        raise PluginError(f"{self.kind} {self._spec!r}: {words}") from cause

    def _called(self, method: str, *given: Any, gives: type) -> Any:
        try:
            found = getattr(self._made, method)(*given)
        except EvalToolkitError:
            raise
        except Exception as error:  # third-party code may fail in any way
            self._fails(f"{method} failed: {type(error).__name__}: {error}", error)
        if not isinstance(found, gives):
            self._fails(
                f"{method} returned a {type(found).__name__}; it must return a {gives.__name__}"
            )
        return found


class NamedCheck(_Named):
    """A leakage check loaded by name."""

    kind = "check"

    def __init__(self, spec: str) -> None:
        super().__init__(spec, load_check(spec))

    @property
    def name(self) -> str:
        """Name of the check."""
        return str(self._made.name)

    def validate(self, splits: Mapping[str, Any]) -> LeakageFinding:
        """Return the findings of the check; raise if they refer to rows that do not exist."""
        found: LeakageFinding = self._called("validate", splits, gives=LeakageFinding)
        for split, rows in (found.drop_indices or {}).items():
            if split not in splits:
                self._fails(
                    f"it returned rows of {split!r}, which does not exist; the splits are "
                    f"{', '.join(splits)}"
                )
            n = len(splits[split].y_true)
            for row in rows:
                if not 0 <= row < n:
                    self._fails(f"it returned row {row} of {split!r}, which has {n} rows")
        return found


class NamedSelector(_Named):
    """A threshold selector loaded by name."""

    kind = "selector"

    def __init__(self, spec: str) -> None:
        super().__init__(spec, load_selector(spec))

    @property
    def criterion(self) -> str:
        """Return the name of the selector."""
        return str(self._made.criterion)

    def select(self, y_true: Any, y_score: Any) -> ThresholdResult:
        """Return the selected threshold."""
        chosen: ThresholdResult = self._called("select", y_true, y_score, gives=ThresholdResult)
        return chosen


def check_folds(spec: str, splitter: Any, rows: EvalSlice) -> None:
    """Raise a `PluginError` that names the splitter if it fails on these rows."""
    what = f"splitter {spec!r}"
    try:
        folds = list(splitter.iter_folds(rows))
    except EvalToolkitError:
        raise
    except Exception as error:  # third-party code may fail in any way
        raise PluginError(f"{what}: iter_folds failed: {type(error).__name__}: {error}") from error
    for fold in folds:
        parts = fold.values() if isinstance(fold, Mapping) else [fold]
        odd = next((part for part in parts if not isinstance(part, EvalSlice)), None)
        if odd is not None:
            raise PluginError(
                f"{what}: iter_folds yielded a {type(odd).__name__}; a fold is a dict of "
                "EvalSlice with 'train' and 'test'"
            )
