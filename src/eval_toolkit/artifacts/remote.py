"""Files at addresses that fsspec knows: fetched, sent, and named without their secrets."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from eval_toolkit._optional import require
from eval_toolkit._redaction import redact_secrets
from eval_toolkit.errors import ArtifactError, MissingExtraError

__all__ = [
    "address_of",
    "exists",
    "fetch",
    "is_remote",
    "joined",
    "local_path",
    "name_of",
    "remove",
    "send",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_USER = re.compile(r"(?<=://)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=[^\s:/])\?[^\s'\"<>]*")


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
    return _QUERY.sub("?…", _USER.sub("", uri))


def name_of(uri: str) -> str:
    """Return the last part of an address, a file's name."""
    inner = uri.partition("::")[0]  # zip://p.csv::https://host/x.zip
    name = PurePosixPath(inner.partition("?")[0]).name
    return "" if name == ".." else name


def joined(uri: str, name: str) -> str:
    """Return the address of a file in a folder; a query stays at the end."""
    folder, mark, query = uri.partition("?")
    return f"{folder.rstrip('/')}/{name}{mark}{query}"


def fetch(uri: str, target: Path) -> None:
    """Copy the file at an address to this machine.

    Raises
    ------
    ArtifactError
        If it cannot be read.
    MissingExtraError
        If fsspec or the package for this kind of address is not installed.
    """
    with (
        _failing(uri, "fetched") as fsspec,
        fsspec.open(uri, "rb") as source,
        target.open("wb") as copy,
    ):
        while piece := source.read(1 << 20):
            copy.write(piece)


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
    fsspec = require("fsspec", feature=shown, extra="remote")
    try:
        yield fsspec
    except ImportError as error:  # s3fs, gcsfs … come apart from fsspec
        raise MissingExtraError(f"{shown}: cannot be {doing}: {_said(error, uri)}") from None
    except Exception as error:  # every kind of address has errors of its own
        raise ArtifactError(f"{shown}: cannot be {doing}: {_said(error, uri)}") from None


def _said(error: Exception, uri: str) -> str:
    said = " ".join(str(error).replace(uri, address_of(uri)).split()) or type(error).__name__
    safe: str = redact_secrets(_QUERY.sub("?…", _USER.sub("", said)))
    return safe
