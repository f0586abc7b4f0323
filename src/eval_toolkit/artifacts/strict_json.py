"""Strict JSON: conversion to JSON types, atomic writing, and strict reading."""

import json
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import parse_json, read_up_to, write_atomic
from eval_toolkit._internal.files.limits import TEXT_BYTES
from eval_toolkit._internal.plain import plain, where
from eval_toolkit.artifacts.states import skipped_metric
from eval_toolkit.errors import ArtifactError, InvalidInputError

_STRATEGIES = ("skipped", "null", "raise")


def sanitize_for_json(payload: Any, *, nan_strategy: str = "skipped") -> Any:
    """Return the payload as JSON types without NaN or infinities.

    Parameters
    ----------
    payload : object
        Mappings (keys become strings), sequences, sets, numpy scalars and arrays, dataclasses and
        objects with ``to_dict``; anything else becomes ``str(value)``.
    nan_strategy : {"skipped", "null", "raise"}, default "skipped"
        Whether a non-finite number becomes a skipped cell, becomes None, or raises.

    Returns
    -------
    object
        dict, list, str, int, float, bool or None.

    Raises
    ------
    InvalidInputError
        If two keys of a mapping become the same string, or a number is not finite and the
        strategy is "raise".

    Examples
    --------
    >>> sanitize_for_json({1: (2, 3.5)})
    {'1': [2, 3.5]}
    >>> sanitize_for_json(float("nan"))["status"]
    'skipped'
    """
    validation.choice(nan_strategy, "nan_strategy", _STRATEGIES)

    def absent(value: Any, place: tuple[str, ...]) -> Any:
        if nan_strategy == "raise":
            raise InvalidInputError(f"{where(place)} is {value}; JSON numbers must be finite")
        return None if nan_strategy == "null" else skipped_metric(f"non-finite value: {value}")

    return plain(payload, absent)


def json_bytes(payload: Any, *, indent: int | None = 2, sort_keys: bool = False) -> bytes:
    r"""Return the payload as strict JSON in UTF-8 with a trailing line break.

    Examples
    --------
    >>> json_bytes({"a": [1, None]}, indent=None)
    b'{"a": [1, null]}\n'
    """
    return plain_bytes(sanitize_for_json(payload), indent=indent, sort_keys=sort_keys)


def plain_bytes(clean: Any, *, indent: int | None = 2, sort_keys: bool = False) -> bytes:
    """Return the same bytes as `json_bytes` for an already sanitised payload."""
    for ascii_only in (False, True):  # lone surrogates can only be escaped
        encoder = json.JSONEncoder(sort_keys=sort_keys, ensure_ascii=ascii_only, allow_nan=False)
        if indent is None:
            text = encoder.encode(clean)
        else:
            text = _indented(clean, encoder, " " * indent, "\n")
        try:
            return (text + "\n").encode("utf-8")
        except UnicodeEncodeError:
            continue
    raise InvalidInputError("the payload cannot be written as UTF-8")  # pragma: no cover


def _indented(value: Any, encoder: json.JSONEncoder, step: str, line: str) -> str:
    """Return indented JSON, several times as fast as the standard library.

    The C encoder of the standard library does not support indentation.
    """
    inner = line + step
    if isinstance(value, dict) and value:
        items = sorted(value.items()) if encoder.sort_keys else value.items()
        parts = [f"{encoder.encode(k)}: {_indented(v, encoder, step, inner)}" for k, v in items]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}"
    if isinstance(value, list) and value:
        parts = [_indented(one, encoder, step, inner) for one in value]
        return f"[{inner}{f',{inner}'.join(parts)}{line}]"
    return repr(value) if type(value) in (int, float) else encoder.encode(value)


def write_json_strict(
    payload: Any, path: str | Path, *, indent: int | None = 2, sort_keys: bool = False
) -> Path:
    """Write a sanitised payload as strict JSON, atomically; missing folders are created.

    Parameters
    ----------
    payload : object
        Payload, as accepted by `sanitize_for_json`.
    path : path
        Target file; replaced if it exists.
    indent : int or None, default 2
        Spaces per level; None for one line.
    sort_keys : bool, default False
        Whether to sort the keys; otherwise their order is kept.

    Returns
    -------
    Path
        ``path``.

    Raises
    ------
    InvalidInputError
        As in `sanitize_for_json`.

    Examples
    --------
    >>> import tempfile
    >>> path = write_json_strict({"pr_auc": float("nan")}, tempfile.mkdtemp() + "/a/cell.json")
    >>> read_json(path)["pr_auc"]["reason"]
    'non-finite value: nan'
    """
    return write_atomic(path, json_bytes(payload, indent=indent, sort_keys=sort_keys))


def read_json(path: str | Path) -> Any:
    """Read a JSON file; NaN and infinities are rejected.

    Parameters
    ----------
    path : path
        JSON file in UTF-8.

    Returns
    -------
    object
        Content of the file.

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
    try:  # also accepts pipes, which users may pass and can interrupt
        with Path(path).open("rb") as stream:
            data = read_up_to(stream, TEXT_BYTES + 1)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > TEXT_BYTES:
        raise ArtifactError(f"{path}: is larger than {TEXT_BYTES} bytes, the limit for JSON files")
    return parse_bytes(data, path)


def parse_bytes(data: bytes, name: str | Path) -> Any:
    """Parse the strict JSON content of a file; ``name`` is used in error messages."""
    if not data:
        raise ArtifactError(f"{name}: the file is empty (0 bytes)")
    return parse_json(data, name)
