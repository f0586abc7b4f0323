"""Conversion of results written by eval-toolkit 1 to the current format.

These formats are handled only in this module:

- ``by_slice["language=de"]`` next to ``by_slice["all"]``: rows scored by a column of a file, and
  rows imported with parts; ``config["by"]`` lists the columns. ``score RUN --by`` printed
  ``by_slice["quiz/subject=Africa"]``.
- ``by_slice["test"]["strata"]["de"]``: slices with a column of strata, whose name is found only in
the records.
- ``by_slice["quiz"]["strata"]["subject=Africa"]``: tasks, rollouts and imported logs.
- ``by_fold["seed=42/fold=0"]["by_slice"]["test"]`` and ``fold_summary["test"][scorer][metric]``:
  runs over folds and their means; the records have the part ``fold`` with the values
  ``seed=42/fold=0``.

All are converted to ``by_slice[slice]["parts"][part]``, with parts named as in `scorecards.parts`;
the mean over folds becomes the whole slice.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.scorecards.parts import FOLD, SEED, format_part, parse_part, rows_of_folds

_FOLD_KEY = re.compile(r"(?:seed=(-?\d+)/)?fold=(\d+)")
_UNNAMED = "stratum"
"""Key of parts whose column is not stored."""
_MEAN = ("mean", "ci_low", "ci_high", "confidence", "sd", "method", "reason", "skipped")
_Slices = dict[str, Any]


def in_one_shape(
    payload: Mapping[str, Any], part_columns: Mapping[str, Sequence[str]] | None = None
) -> tuple[_Slices, dict[str, Any]]:
    """Convert the slices of results to the current format; also return details of the folds.

    ``part_columns`` contains the names of the partitions in the records of each slice. The details
    are the seed, number and training rows of each fold, by the name of its part.

    Examples
    --------
    >>> old = {"by_slice": {"quiz": {"strata": {"subject=Africa": {"n": 4}}}}}
    >>> in_one_shape(old)[0]
    {'quiz': {'parts': {'subject=Africa': {'n': 4}}}}
    """
    config = _mapping(payload.get("config"))
    slices = _gathered(dict(_mapping(payload.get("by_slice"))), config.get("by"))
    folds = dict(_mapping(payload.get("folds")))
    columns = part_columns or {}
    named = isinstance(config.get("kind"), str)
    slices = {
        name: _with_parts(entry, columns.get(name, ()), named) for name, entry in slices.items()
    }
    if not slices and (payload.get("by_fold") or payload.get("fold_summary")):
        return _of_folds(payload, columns)
    return slices, folds


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _gathered(slices: _Slices, by: Any) -> _Slices:
    """Nest parts in their slices."""
    columns = [name for name in by if isinstance(name, str)] if isinstance(by, list) else []
    parts = {name: part for name in slices if (part := _named_part(name, columns)) is not None}
    wholes = [name for name in slices if name not in parts]
    if not parts or not wholes:
        return slices
    gathered = {name: slices[name] for name in wholes}
    for name, (whole, pairs) in parts.items():
        owner = whole or (wholes[0] if len(wholes) == 1 else None)
        entry = gathered.get(owner) if owner is not None else None
        if owner is None or not isinstance(entry, Mapping):
            gathered[name] = slices[name]
            continue
        inside = {**_mapping(entry.get("parts")), format_part(pairs): slices[name]}
        gathered[owner] = {**entry, "parts": inside}
    return gathered


def _named_part(name: str, columns: Sequence[str]) -> tuple[str, dict[str, str]] | None:
    """Return the slice and part that a name such as ``language=de`` refers to."""
    for column in sorted(columns, key=len, reverse=True):
        if name.startswith(f"{column}="):
            return "", {column: name[len(column) + 1 :]}
        whole, sign, value = name.partition(f"/{column}=")
        if sign and whole:
            return whole, {column: value}
    return None


def _with_parts(entry: Any, columns: Sequence[str], named: bool) -> Any:
    """Rename the parts of a slice's entry to their current names."""
    if not isinstance(entry, Mapping) or not ("strata" in entry or "parts" in entry):
        return entry
    parts = {_usual(name): part for name, part in _mapping(entry.get("parts")).items()}
    strata = _mapping(entry.get("strata"))
    for name, pairs in _stratum_parts(list(strata), columns, named).items():
        parts[format_part(pairs)] = strata[name]
    rest = {key: value for key, value in entry.items() if key not in ("strata", "parts")}
    return {**rest, **({"parts": parts} if parts else {})}


def _usual(name: str) -> str:
    """Return the name of a part in canonical form."""
    try:
        return format_part(parse_part(name))
    except InvalidInputError:
        return format_part({_UNNAMED: name})


def _stratum_parts(
    names: Sequence[str], columns: Sequence[str], named: bool
) -> dict[str, dict[str, str]]:
    """Return the part of each stratum; its column comes from the name or from the records."""
    known = [column for column in columns if column not in (FOLD, SEED)]
    of_column = {name: _named_part(name, known) for name in names}
    if all(of_column.values()):
        return {name: found[1] for name, found in of_column.items() if found}
    if (named or not known) and all(name.partition("=")[1] and name[0] != "=" for name in names):
        return {name: {key: value} for name in names for key, _, value in [name.partition("=")]}
    column = known[0] if len(known) == 1 else _UNNAMED
    return {name: {column: name} for name in names}


# --- folds ----------------------------------------------------------------------------------------


def _of_folds(
    payload: Mapping[str, Any], columns: Mapping[str, Sequence[str]]
) -> tuple[_Slices, dict[str, Any]]:
    by_fold = {
        key: fold
        for key, fold in _mapping(payload.get("by_fold")).items()
        if isinstance(fold, Mapping)
    }
    summary = _mapping(payload.get("fold_summary"))
    pairs = _fold_parts(by_fold)
    names = dict.fromkeys([*summary, *(n for f in by_fold.values() for n in _slices_of(f))])
    slices: _Slices = {}
    for name in names:
        parts: _Slices = {}
        for key, fold in by_fold.items():
            entry = _slices_of(fold).get(name)
            if isinstance(entry, Mapping):
                parts |= _fold_entries(entry, pairs[key], columns.get(name, ()))
        slices[name] = {
            **rows_of_folds(parts),
            "by_scorer": {
                scorer: {
                    metric: mean_over_folds(stored)
                    for metric, stored in _mapping(metrics).items()
                    if isinstance(stored, Mapping)
                }
                for scorer, metrics in _mapping(summary.get(name)).items()
            },
            "parts": parts,
        }
    details = {
        format_part(pairs[key]): {k: v for k, v in fold.items() if k != "by_slice"}
        for key, fold in by_fold.items()
    }
    return slices, details


def _slices_of(fold: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(fold.get("by_slice"))


def _fold_parts(by_fold: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the part of each fold: its number, and its seed if there are several seeds."""
    numbers = {}
    for key, fold in by_fold.items():
        match = _FOLD_KEY.fullmatch(str(key))
        seed, number = match.groups() if match else (fold.get(SEED), fold.get(FOLD))
        numbers[key] = (seed, key if number is None else number)
    several = len({seed for seed, _ in numbers.values()}) > 1
    return {
        key: {SEED: str(seed), FOLD: str(number)} if several else {FOLD: str(number)}
        for key, (seed, number) in numbers.items()
    }


def _fold_entries(
    entry: Mapping[str, Any], fold: Mapping[str, str], columns: Sequence[str]
) -> _Slices:
    """Return the entries of a fold and of its parts, by name."""
    known = _with_parts(entry, columns, named=False)
    own = {key: value for key, value in known.items() if key != "parts"}
    inside = {
        format_part({**fold, **parse_part(name)}): part
        for name, part in _mapping(known.get("parts")).items()
    }
    return {format_part(fold): own, **inside}


def mean_over_folds(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a mean over folds to a cell that reports missing folds.

    Examples
    --------
    >>> mean_over_folds({"mean": 0.8, "ci_low": 0.7, "ci_high": 0.9, "n_failed": 1})["n_errors"]
    1
    """
    mean = stored.get("mean")
    known = isinstance(mean, int | float) and not isinstance(mean, bool)
    reason = str(stored.get("reason") or stored.get("skipped") or "")
    details = {"over": "folds", **{k: v for k, v in stored.items() if k not in _MEAN}}
    if "sd" in stored:
        details["sd"] = stored["sd"]
    cell: dict[str, Any] = {
        "value": mean if known else None,
        "status": "ok" if known else "skipped",
        "reason": reason if known else reason or "no fold has a value",
    }
    if known and isinstance(stored.get("ci_low"), int | float):
        ends = {key: stored[key] for key in ("ci_low", "ci_high", "confidence") if key in stored}
        cell["ci"] = {"point_estimate": mean, **ends, "n_resamples": 0}
        cell["ci"] |= {"method": stored["method"]} if "method" in stored else {}
    return {**cell, "n_errors": int(stored.get("n_failed") or 0), "details": details}


def parts_of_records(slices: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the parts of records, with fold numbers and seeds in separate columns.

    Examples
    --------
    >>> parts_of_records({"fold": np.array(["seed=42/fold=0", "seed=42/fold=1"], dtype=object)})
    {'fold': array(['0', '1'], dtype=object)}
    """
    matches = [_FOLD_KEY.fullmatch(str(value)) for value in slices.get(FOLD, ())]
    if not matches or not all(match and match[1] for match in matches):
        return dict(slices)
    seeds = np.array([match[1] for match in matches if match], dtype=object)
    folds = np.array([match[2] for match in matches if match], dtype=object)
    rest = {name: values for name, values in slices.items() if name != FOLD}
    return {**({SEED: seeds} if len(set(seeds.tolist())) > 1 else {}), FOLD: folds, **rest}
