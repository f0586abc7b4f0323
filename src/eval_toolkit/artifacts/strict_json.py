"""Strict JSON: any payload made of plain types, written whole, read back without surprises."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from eval_toolkit import _validate
from eval_toolkit._files import write_atomic
from eval_toolkit._plain import plain, where
from eval_toolkit.artifacts.states import skipped_metric
from eval_toolkit.errors import ArtifactError, InvalidInputError

__all__ = ["json_bytes", "read_json", "sanitize_for_json", "write_json_strict"]

_STRATEGIES = ("skipped", "null", "raise")


def sanitize_for_json(payload: Any, *, nan_strategy: str = "skipped") -> Any:
    """Return the payload in plain JSON types, with no NaN or infinity left.

    Parameters
    ----------
    payload : object
        Mappings (keys become text), sequences, sets, numpy scalars and arrays, dataclasses and
        objects with ``to_dict``; anything else becomes ``str(value)``.
    nan_strategy : {"skipped", "null", "raise"}, default "skipped"
        A number that is not finite becomes a skipped cell, None, or an error.

    Returns
    -------
    object
        dict, list, str, int, float, bool or None.

    Raises
    ------
    InvalidInputError
        If two keys of a mapping become the same text, or a number is not finite and the
        strategy is "raise".

    Examples
    --------
    >>> sanitize_for_json({1: (2, 3.5)})
    {'1': [2, 3.5]}
    >>> sanitize_for_json(float("nan"))["status"]
    'skipped'
    """
    _validate.choice(nan_strategy, "nan_strategy", _STRATEGIES)

    def absent(value: Any, place: tuple[str, ...]) -> Any:
        if nan_strategy == "raise":
            raise InvalidInputError(f"{where(place)} is {value}; JSON numbers must be finite")
        return None if nan_strategy == "null" else skipped_metric(f"non-finite value: {value}")

    return plain(payload, absent)


def json_bytes(payload: Any, *, indent: int | None = 2, sort_keys: bool = False) -> bytes:
    r"""Return the payload as strict JSON in UTF-8, ending in a line break.

    Examples
    --------
    >>> json_bytes({"a": [1, None]}, indent=None)
    b'{"a": [1, null]}\n'
    """
    clean = sanitize_for_json(payload)
    for ascii_only in (False, True):  # escapes alone can carry half of a surrogate pair
        text = json.dumps(
            clean, indent=indent, sort_keys=sort_keys, ensure_ascii=ascii_only, allow_nan=False
        )
        try:
            return (text + "\n").encode("utf-8")
        except UnicodeEncodeError:
            continue
    raise InvalidInputError("the payload cannot be written as UTF-8")  # pragma: no cover


def write_json_strict(
    payload: Any, path: str | Path, *, indent: int | None = 2, sort_keys: bool = False
) -> Path:
    """Write a payload as strict JSON: sanitised, whole or not at all, folders created.

    Parameters
    ----------
    payload : object
        What `sanitize_for_json` takes.
    path : path
        The file; replaced if it exists.
    indent : int or None, default 2
        Spaces per level; None for one line.
    sort_keys : bool, default False
        Otherwise keys keep their order.

    Returns
    -------
    Path
        ``path``.

    Raises
    ------
    InvalidInputError
        As `sanitize_for_json`.

    Examples
    --------
    >>> import tempfile
    >>> path = write_json_strict({"pr_auc": float("nan")}, tempfile.mkdtemp() + "/a/cell.json")
    >>> read_json(path)["pr_auc"]["reason"]
    'non-finite value: nan'
    """
    return write_atomic(path, json_bytes(payload, indent=indent, sort_keys=sort_keys))


def read_json(path: str | Path) -> Any:
    """Read a JSON file; NaN and infinity, which are not JSON, are refused.

    Parameters
    ----------
    path : path
        A file in UTF-8.

    Returns
    -------
    object
        What the file holds.

    Raises
    ------
    ArtifactError
        If the file is missing, empty or malformed; the message names the file and the line.

    Examples
    --------
    >>> import tempfile
    >>> read_json(write_json_strict([1, 2], tempfile.mkdtemp() + "/list.json"))
    [1, 2]
    """
    try:  # also from a pipe: a person may hand one over, and can end the wait
        data = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_json(data, path)


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a run's file, or raise one line; what is no plain file is refused."""
    try:
        # A pipe without a writer would block for ever, already when it is opened.
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArtifactError(f"{path}: cannot be read: not a regular file")
            return file.read()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parse_json(data: bytes, name: str | Path) -> Any:
    """Return what strict JSON bytes hold; ``name`` is for the error message."""

    def refuse(constant: str) -> Any:
        raise ArtifactError(f"{name}: {constant} is not JSON; store absence as a skipped cell")

    if not data:
        raise ArtifactError(f"{name}: the file is empty (0 bytes)")
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ArtifactError(
            f"{name}: line {error.lineno}: malformed JSON: {error.msg} (column {error.colno})"
        ) from error
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{name}: not UTF-8 at byte {error.start}") from error
    except ArtifactError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise ArtifactError(f"{name}: malformed JSON: {error}") from None
    except RecursionError:
        raise ArtifactError(f"{name}: malformed JSON: nested too deeply") from None
