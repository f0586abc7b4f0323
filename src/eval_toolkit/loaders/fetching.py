"""Files pinned by SHA-256 hash."""

import hashlib
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from eval_toolkit._internal.files import is_file, replace_atomic
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.errors import ArtifactError

_CHUNK = 1 << 20


def default_cache_dir() -> Path:
    """Return ``~/.cache/eval-toolkit/ood``, or its equivalent under XDG_CACHE_HOME."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "eval-toolkit" / "ood"


def local_path(url: str, base: Path) -> Path | None:
    """Return the local file that a URL or path denotes; None for http(s)."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ArtifactError(f"{url}: a file:// URL must name a file on this machine")
        return Path(urllib.request.url2pathname(parts.path))
    if len(parts.scheme) > 1:  # a single letter is a Windows drive
        raise ArtifactError(
            f"{url}: {parts.scheme}:// cannot be fetched; use http(s)://, file:// or a local path"
        )
    return base / url


def cached_path(url: str, sha256: str, cache_dir: Path) -> Path:
    """Return the cache path of a download: its hash, with the suffixes of the format."""
    suffixes = "".join(Path(unquote(urlsplit(url).path)).suffixes[-2:])
    return cache_dir / f"{sha256}{suffixes}"


def pinned_file(
    url: str, sha256: str, *, base: Path, cache_dir: Path, max_bytes: int, timeout_s: float
) -> Path:
    """Return a local file with the given hash; it is downloaded unless it is cached."""
    local = local_path(url, base)
    if local is not None:
        if not is_file(local):
            raise ArtifactError(f"{url}: no such file: {local}")
        _check(url, sha256_file(local), sha256)
        return local
    target = cached_path(url, sha256, cache_dir)
    if is_file(target) and sha256_file(target) == sha256:
        return target
    with replace_atomic(target) as temporary:
        _check(url, _download(url, temporary, max_bytes, timeout_s), sha256)
    return target


def _check(url: str, found: str, expected: str) -> None:
    if found != expected:
        raise ArtifactError(
            f"{url}: sha256 is {found} but the manifest states {expected}; the file has changed, "
            "or the manifest is wrong"
        )


def _download(url: str, target: Path, max_bytes: int, timeout_s: float) -> str:
    """Download a URL to a file and return its SHA-256 hash; stop at the maximum size."""
    digest = hashlib.sha256()
    size = 0
    try:
        # Only http(s) URLs get here, and urllib does not follow redirects to local files.
        with (
            urllib.request.urlopen(url, timeout=timeout_s) as answer,  # noqa: S310
            target.open("wb") as stream,
        ):
            while piece := answer.read(_CHUNK):
                size += len(piece)
                if size > max_bytes:
                    raise ArtifactError(
                        f"{url}: more than {max_bytes} bytes; raise max_bytes to fetch it"
                    )
                digest.update(piece)
                stream.write(piece)
    except urllib.error.HTTPError as error:
        raise ArtifactError(
            f"{url}: the server returned status {error.code} {error.reason}"
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ArtifactError(f"{url}: cannot be fetched: {reason}") from error
    return digest.hexdigest()
