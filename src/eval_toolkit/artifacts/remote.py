"""Files at addresses that fsspec knows: fetched, sent, and named without their secrets."""

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

__all__ = [
    "address_of",
    "exists",
    "fetch",
    "folder_of",
    "is_remote",
    "joined",
    "local_path",
    "name_of",
    "remove",
    "send",
    "without_secrets",
]

_NAME = r"[A-Za-z][A-Za-z0-9+.-]+"
_SCHEME = re.compile(rf"(?:{_NAME}::)*{_NAME}://")
_USER = re.compile(r"(?<=://)[^/?#\s]*@")
_REST = re.compile(r"([?#]).*", re.DOTALL)
_GIVEN_USER = re.compile(r"://([^/?#\s]*)@")
# In a text an address may have one slash, as a path writes it, and ends with the word.
_USER_IN_TEXT = re.compile(rf"({_NAME}://?)[^/?#\s]*@")
_REST_IN_TEXT = re.compile(rf"({_NAME}:/[^\s?#'\"<>]*[?#])(?!…)[^\s'\"<>]*?(?=:?(?:[\s'\"<>]|$))")
_SHORTEST_SECRET = 4
_TEMPLATED = re.compile(r"(?:^|::)reference:", re.IGNORECASE)
"""Addresses whose files hold Jinja templates, which older versions of fsspec run without a sandbox."""


def is_remote(uri: str) -> bool:
    """Return whether a URI is an address rather than a path."""
    return bool(_SCHEME.match(uri)) and not uri.lower().startswith("file://")


def local_path(uri: str, base: str | Path | None = None) -> Path:
    """Return the path that a local URI means; relative ones start at ``base``."""
    if uri.lower().startswith("file://"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise ArtifactError(f"{uri}: a file on another host cannot be read")
        return Path(unquote(parts.path))
    return Path(uri) if base is None else Path(base) / uri


def address_of(uri: str) -> str:
    """Return an address as it may be shown and stored: user, password and query left out.

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
    """Return a text that may be shown: addresses in it, and what is secret in given ones.

    Parameters
    ----------
    text : str
        What is to be shown.
    given : iterable of str
        What the user wrote. User, password and query of an address in it are taken out of the text
        wherever they stand: an argument may have been cut before it came into a message.

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
    """Return what comes before the address of the file itself, that address, and what comes after.

    In ``zip://p.csv::https://host/x.zip`` the file is in the first, in ``simplecache::https://…``
    in the second.
    """
    where, mark, query = uri.partition("?")
    before = re.match(rf"(?:{_NAME}::)*", where)
    start = before.end() if before else 0
    inner, chain, outer = where[start:].partition("::")
    return where[:start], inner, chain + outer + mark + query


def name_of(uri: str) -> str:
    """Return the last part of an address, a file's name."""
    name = PurePosixPath(_parts(uri)[1]).name
    return "" if name == ".." else name


def joined(uri: str, name: str) -> str:
    """Return the address of a file in a folder; a query stays at the end."""
    before, folder, after = _parts(uri)
    slash = "" if folder.endswith("://") else "/"
    return f"{before}{folder if not slash else folder.rstrip('/')}{slash}{name}{after}"


def folder_of(uri: str) -> str:
    """Return the address of the folder that a file is in."""
    before, file, after = _parts(uri)
    folder = file.removesuffix(PurePosixPath(file).name)
    return f"{before}{folder if folder.endswith('://') else folder.rstrip('/')}{after}"


def fetch(uri: str, target: Path) -> None:
    """Copy the file at an address to this machine.

    Raises
    ------
    ArtifactError
        If it cannot be read, or is larger than 16 GiB.
    MissingExtraError
        If fsspec or the package for this kind of address is not installed.
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
            f"{address_of(uri)}: has more than {limits.FETCHED_BYTES:,} bytes; copy it here "
            "yourself and name the copy"
        )


def send(source: Path, uri: str) -> None:
    """Copy a file of this machine to an address, whatever is there."""
    with _failing(uri, "written") as fsspec:
        system, path = fsspec.core.url_to_fs(uri)
        system.makedirs(system._parent(path), exist_ok=True)
        system.put_file(str(source), path)


def exists(uri: str) -> bool:
    """Return whether there is something at an address."""
    with _failing(uri, "looked at") as fsspec:
        system, path = fsspec.core.url_to_fs(uri)
        return bool(system.exists(path))


def remove(uri: str) -> None:
    """Remove the file at an address."""
    with _failing(uri, "removed") as fsspec:
        system, path = fsspec.core.url_to_fs(uri)
        system.rm_file(path)


@contextlib.contextmanager
def _failing(uri: str, doing: str) -> Iterator[Any]:
    """Yield fsspec; say in one line what went wrong, and no secret.

    The errors stand alone: those they come from name the address with all that is in it.
    """
    shown = address_of(uri)
    if _TEMPLATED.search(uri):
        raise ArtifactError(
            f"{shown}: cannot be {doing}: reference:// fills in templates; name a file"
        )
    fsspec = require("fsspec", feature=shown, extra="remote")
    try:
        yield fsspec
    except ImportError as error:  # s3fs, gcsfs … come apart from fsspec
        raise MissingExtraError(f"{shown}: cannot be {doing}: {_said(error, uri)}") from None
    except Exception as error:  # every kind of address has errors of its own
        why: BaseException = error
        while isinstance(why, FileNotFoundError) and why.__cause__:
            why = why.__cause__  # "not found" may hide that it was refused or not reached
        absent = isinstance(why, FileNotFoundError) or getattr(why, "status", None) == 404
        said = "it is not there" if absent else _said(why, uri)
        raise ArtifactError(f"{shown}: cannot be {doing}: {said}") from None


def _said(error: BaseException, uri: str) -> str:
    said = " ".join(str(error).replace(uri, address_of(uri)).split()) or type(error).__name__
    safe: str = redact_secrets(without_secrets(said, [uri]))
    return safe
