"""Access to remote files through fsspec, and redaction of their URLs."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from eval_toolkit._internal.files import limits
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError, MissingExtraError

_NAME = r"[A-Za-z][A-Za-z0-9+.-]+"
_SCHEME = re.compile(rf"(?:{_NAME}::)*{_NAME}://")
_USER = re.compile(r"(?<=://)[^/?#\s]*@")
_REST = re.compile(r"([?#]).*", re.DOTALL)
_GIVEN_USER = re.compile(r"://([^/?#\s]*)@")
# Within text, an address may have a single slash, as in paths, and ends at whitespace.
_USER_IN_TEXT = re.compile(rf"({_NAME}://?)[^/?#\s]*@")
_REST_IN_TEXT = re.compile(rf"({_NAME}:/[^\s?#'\"<>]*[?#])(?!…)[^\s'\"<>]*?(?=:?(?:[\s'\"<>]|$))")
_SHORTEST_SECRET = 4
_TEMPLATED = re.compile(r"(?:^|::)reference:", re.IGNORECASE)
"""Addresses of files with Jinja templates, which older fsspec versions render without a sandbox."""


def is_remote(uri: str) -> bool:
    """Return whether a URI is a URL rather than a path."""
    return bool(_SCHEME.match(uri)) and not uri.lower().startswith("file://")


def local_path(uri: str, base: str | Path | None = None) -> Path:
    """Return the path of a local URI; relative paths are resolved against ``base``."""
    if uri.lower().startswith("file://"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise ArtifactError(f"{uri}: a file on another host cannot be read")
        return Path(unquote(parts.path))
    return Path(uri) if base is None else Path(base) / uri


def address_of(uri: str) -> str:
    """Return a URL for display and storage, without user, password and query.

    Examples
    --------
    >>> address_of("https://me:secret@host/p.csv?token=abc")
    'https://host/p.csv?…'
    >>> address_of("runs/r1")
    'runs/r1'
    """
    if not is_remote(uri):
        return uri
    return _REST.sub(r"\1…", _USER.sub("", uri))


def without_secrets(text: str, given: Iterable[str] = ()) -> str:
    """Return a string without the secrets of URLs in it and of the given URLs.

    User, password and query of the ``given`` URLs are removed wherever they occur, since
    messages may contain truncated arguments.

    Examples
    --------
    >>> without_secrets("hunter2: no such folder", ["b=https://me:pass@host/r1?token=hunter2"])
    '…: no such folder'
    """
    secrets: set[str] = set()
    for uri in given:
        users = _GIVEN_USER.findall(uri)
        queries = re.split("[?#]", uri.partition("://")[2], maxsplit=1)[1:]
        secrets.update(users, queries)
        secrets.update(user.partition(":")[2] for user in users)
        for query in queries:
            secrets.update(pair.partition("=")[2] for pair in (query, *re.split("[&#]", query)))
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "…")
    return _REST_IN_TEXT.sub(r"\1…", _USER_IN_TEXT.sub(r"\1", text))


def _parts(uri: str) -> tuple[str, str, str]:
    """Split a chained URL into the URL of the file itself and the surrounding parts.

    The URL of the file is the first of ``zip://p.csv::https://host/x.zip``, and the second of
    ``simplecache::https://…``.
    """
    where, mark, query = uri.partition("?")
    before = re.match(rf"(?:{_NAME}::)*", where)
    start = before.end() if before else 0
    inner, chain, outer = where[start:].partition("::")
    return where[:start], inner, chain + outer + mark + query


def name_of(uri: str) -> str:
    """Return the last part of a URL, the file name."""
    name = PurePosixPath(_parts(uri)[1]).name
    return "" if name == ".." else name


def joined(uri: str, name: str) -> str:
    """Return the URL of a file in a folder; a query is kept at the end."""
    before, folder, after = _parts(uri)
    slash = "" if folder.endswith("://") else "/"
    return f"{before}{folder if not slash else folder.rstrip('/')}{slash}{name}{after}"


def folder_of(uri: str) -> str:
    """Return the URL of the folder of a file."""
    before, file, after = _parts(uri)
    folder = file.removesuffix(PurePosixPath(file).name)
    return f"{before}{folder if folder.endswith('://') else folder.rstrip('/')}{after}"


def fetch(uri: str, target: Path) -> None:
    """Copy a remote file to this machine.

    Files larger than 16 GiB are rejected.
    """
    left = limits.FETCHED_BYTES
    with (
        _failing(uri, "fetched") as fsspec,
        fsspec.open(uri, "rb") as source,
        target.open("wb") as copy,
    ):
        while left >= 0 and (piece := source.read(1 << 20)):
            left -= len(piece)
            copy.write(piece)
    if left < 0:
        target.unlink()
        raise ArtifactError(
            f"{address_of(uri)}: the file is larger than {limits.FETCHED_BYTES:,} bytes; download "
            "it yourself and pass the local copy"
        )


def send(source: Path, uri: str) -> None:
    """Copy a local file to a URL, replacing any existing file."""
    with _failing(uri, "written") as fsspec:
        system, path = fsspec.core.url_to_fs(uri)
        system.makedirs(system._parent(path), exist_ok=True)
        system.put_file(str(source), path)


def exists(uri: str) -> bool:
    """Return whether the file at a URL exists."""
    with _failing(uri, "accessed") as fsspec:
        system, path = fsspec.core.url_to_fs(uri)
        return bool(system.exists(path))


def remove(uri: str) -> None:
    """Remove the file at a URL."""
    with _failing(uri, "removed") as fsspec:
        system, path = fsspec.core.url_to_fs(uri)
        system.rm_file(path)


@contextlib.contextmanager
def _failing(uri: str, doing: str) -> Iterator[Any]:
    """Yield fsspec; convert its errors to one-line messages without secrets.

    Errors are raised without the original exception, which may contain the full URL.
    """
    shown = address_of(uri)
    if _TEMPLATED.search(uri):
        raise ArtifactError(
            f"{shown}: cannot be {doing}: reference:// URLs can contain templates; pass the URL "
            f"of a file"
        )
    fsspec = require("fsspec", feature=shown, extra="remote")
    try:
        yield fsspec
    except ImportError as error:  # s3fs, gcsfs … are separate packages
        raise MissingExtraError(f"{shown}: cannot be {doing}: {_error_text(error, uri)}") from None
    except Exception as error:  # every file system raises its own exceptions
        why: BaseException = error
        while isinstance(why, FileNotFoundError) and why.__cause__:
            why = why.__cause__  # "not found" may hide a refused or failed connection
        absent = isinstance(why, FileNotFoundError) or getattr(why, "status", None) == 404
        reason = "it does not exist" if absent else _error_text(why, uri)
        raise ArtifactError(f"{shown}: cannot be {doing}: {reason}") from None


def _error_text(error: BaseException, uri: str) -> str:
    reason = " ".join(str(error).replace(uri, address_of(uri)).split()) or type(error).__name__
    safe: str = redact_secrets(without_secrets(reason, [uri]))
    return safe
