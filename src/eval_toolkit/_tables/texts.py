"""Whole files as text and strict JSON, read without duckdb: rows whose nested values stay."""

import gzip
import json
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError

__all__ = ["parsed_json", "read_text"]


def read_text(path: Path) -> str:
    """Return what a file says, gunzipped where its name ends in ``.gz``.

    Parameters
    ----------
    path : Path
        UTF-8, with or without a mark at its beginning.

    Returns
    -------
    str
        Never without a visible character.

    Raises
    ------
    ArtifactError
        If the file cannot be read, is not UTF-8, or is empty.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_text("hello", encoding="utf-8-sig")
    >>> read_text(path)
    'hello'
    """
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            text = str(stream.read(), "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: byte {error.start} is not UTF-8") from None
    except (OSError, EOFError) as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error
    if not text.strip():
        raise ArtifactError(f"{path}: the file is empty")
    return text


def parsed_json(text: str, place: str) -> Any:
    """Return what strict JSON stands for; NaN and Infinity are none.

    Parameters
    ----------
    text : str
        One JSON value.
    place : str
        Where it stands, for the message.

    Returns
    -------
    object
        In JSON types.

    Raises
    ------
    ArtifactError
        If it is no JSON.

    Examples
    --------
    >>> parsed_json('{"a": [1]}', "line 1")
    {'a': [1]}
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{place}: not JSON: {error}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
