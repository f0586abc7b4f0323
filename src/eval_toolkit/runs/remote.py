"""Copy runs to and from addresses supported by fsspec."""

import shutil
import tempfile
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import private_folder, read_regular
from eval_toolkit.artifacts.remote import (
    address_of,
    exists,
    fetch,
    folder_of,
    is_remote,
    joined,
    name_of,
    remove,
    send,
)
from eval_toolkit.artifacts.strict_json import parse_bytes
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.runs.folder import MANIFEST, Run

COPIES: dict[str, str] = {}
"""Original addresses of private copies, for display, by folder."""


def push_run(run: Run | str | Path, uri: str, *, overwrite: bool = False) -> str:
    """Copy a finished run to an address; an interrupted copy is never a valid run.

    Parameters
    ----------
    run : Run or path
        Run to copy; every file is first verified against its hash.
    uri : str
        Target folder, such as ``s3://bucket/runs/r7`` or another URL supported by fsspec.
    overwrite : bool, default False
        Whether to replace an existing run.

    Returns
    -------
    str
        Address without user, password and query, for display.

    Raises
    ------
    ArtifactError
        If the target already contains a run, writing fails, or a file of the run was modified.
    MissingExtraError
        If fsspec or the package for this type of address (s3fs, gcsfs, …) is not installed.

    Notes
    -----
    The manifest is copied last, and the manifest of a replaced run is removed first. An interrupted
    copy therefore has no manifest, and `Run.open` rejects it.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> run = write_run(tempfile.mkdtemp() + "/r1", results=results, manifest={"run_id": "r1"})
    >>> push_run(run, "memory://runs/r1", overwrite=True)
    'memory://runs/r1'
    >>> Run.open("memory://runs/r1").results == run.results
    True
    """
    _check_address(uri)
    finished = Run.open(run.path if isinstance(run, Run) else run)
    seal = joined(uri, MANIFEST)
    if exists(seal):
        if not overwrite:
            raise ArtifactError(
                f"{address_of(uri)}: already contains a run; pass overwrite=True to replace it"
            )
        remove(seal)
    for name in finished.manifest["artifacts"]:
        send(finished.path / name, joined(uri, name))
    send(finished.path / MANIFEST, seal)
    return address_of(uri)


def pull_run(uri: str, run_dir: str | Path) -> Run:
    """Copy a finished run from an address to a folder, and verify every file against its hash.

    Parameters
    ----------
    uri : str
        Address of the run's folder or its ``manifest.json``.
    run_dir : path
        Local folder, which must not exist.

    Returns
    -------
    Run
        Local copy of the run.

    Raises
    ------
    ArtifactError
        If there is no finished run, a file differs from its hash, or the folder exists; no partial
        copy remains.
    MissingExtraError
        If fsspec or the package for this type of address is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r2", "config": {}, "by_slice": {}}
    >>> folder = tempfile.mkdtemp()
    >>> run = write_run(folder + "/r2", results=results, manifest={"run_id": "r2"})
    >>> _ = push_run(run, "memory://runs/r2", overwrite=True)
    >>> pull_run("memory://runs/r2", folder + "/again").manifest == run.manifest
    True
    """
    _check_address(uri)
    folder = Path(run_dir)
    if folder.exists():
        raise ArtifactError(f"{folder}: already exists; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pulled-", dir=folder.parent) as staging:
        copy = Path(staging) / "run"
        _fetch_run(uri, copy)
        copy.rename(folder)
    return Run.open(folder)


def temporary_folder() -> tuple[Path, Callable[[], Any]]:
    """Create a folder that is removed at exit; also return a function that removes it earlier."""
    folder = tempfile.mkdtemp(prefix="eval-toolkit-")
    # atexit is skipped by pool workers and inherited by forked processes
    return Path(folder), Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)


def private_copy(uri: str, *, verify: bool = True) -> Path:
    """Copy a run to a temporary folder that only this user can read, and return the folder."""
    folder, clean = temporary_folder()
    copy = folder / (name_of(_folder(uri)) or "run")
    try:
        _fetch_run(uri, copy, verify=verify)
    except BaseException:
        clean()
        raise
    COPIES[str(copy)] = address_of(_folder(uri))
    return copy


def _fetch_run(uri: str, copy: Path, *, verify: bool = True) -> None:
    """Copy the files listed in the manifest and verify them."""
    uri = _folder(uri)
    private_folder(copy)
    fetch(joined(uri, MANIFEST), copy / MANIFEST)
    try:
        for name in _names(parse_bytes(read_regular(copy / MANIFEST), copy / MANIFEST)):
            fetch(joined(uri, name), copy / name)
        Run.open(copy, verify=verify)
    except ArtifactError as error:
        # name the user's address, not the temporary copy
        raise ArtifactError(str(error).replace(str(copy), address_of(uri))) from None


def _names(manifest: Any) -> list[str]:
    """Return the files of a run; raise an error if one is outside the folder."""
    listed = manifest.get("artifacts") if isinstance(manifest, dict) else None
    names = list(listed) if isinstance(listed, dict) else []
    for name in names:
        odd = not name.isprintable() or any(sign in name for sign in "/\\:")  # C: is a drive
        if odd or name in ("", ".", "..", MANIFEST):
            raise ArtifactError(
                f"{MANIFEST} names the file {name!r}; it must be in the folder of the run"
            )
    return names


def _folder(uri: str) -> str:
    return folder_of(uri) if name_of(uri) == MANIFEST else uri


def _check_address(uri: Any) -> None:
    if not isinstance(uri, str) or not is_remote(uri):
        raise InvalidInputError(
            f"`uri` is {uri!r}; it must be an address such as s3://bucket/runs/r7"
        )
