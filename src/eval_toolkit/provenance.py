"""Provenance of a run: git state, file hashes, hardware and versions, without secrets."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.command_line import capture_command
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.environment import child_environment
from eval_toolkit._internal.files import private_folder
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.redaction import REDACTED, redact_secrets
from eval_toolkit.errors import InvalidInputError

__all__ = [
    "REDACTED",
    "FileHash",
    "FileHashMissing",
    "FileHashResult",
    "capture_command",
    "capture_cuda_version",
    "capture_git_dirty",
    "capture_git_sha",
    "capture_gpu_info",
    "capture_hardware",
    "compute_file_hash",
    "figure_metadata",
    "file_sha256",
    "make_run_dir",
    "package_versions",
    "redact_secrets",
]

_TIMEOUT_S = 10.0
_GIT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",  # never fetch missing objects from a remote
    "GIT_ALLOW_PROTOCOL": "none",
}
_GIT_PROGRAMS = r"^(core\.fsmonitor|filter\..*\.(clean|smudge|process|required))$"
"""Repository settings that make ``git status`` run programs."""
_OWN = ("local", "worktree")
_PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "torch": "torch",
    "transformers": "transformers",
}
"""Packages whose version can change a result: import name → distribution."""


def _output(
    command: list[str], cwd: str | Path | None = None, variables: Mapping[str, str] | None = None
) -> str | None:
    """Return the output of a command, or None if it is missing, fails or hangs."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell
            command,
            cwd=cwd,
            env=child_environment({**_GIT, **(variables or {}), "LC_ALL": "C"}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


# --- code ---------------------------------------------------------------------------------------


def capture_git_sha(repo_root: str | Path | None = None) -> str | None:
    """Return the full sha of HEAD, or None outside git.

    Parameters
    ----------
    repo_root : path, optional
        Folder of the repository; by default the current folder.

    Returns
    -------
    str or None
        None outside git, without commits, or if git is not installed.

    Examples
    --------
    >>> import tempfile
    >>> capture_git_sha(tempfile.mkdtemp()) is None
    True
    """
    return _output(["git", "rev-parse", "--verify", "HEAD"], repo_root) or None


def capture_git_dirty(repo_root: str | Path | None = None) -> bool:
    """Return whether tracked files differ from HEAD; False outside git.

    Untracked files are ignored, because a run folder inside the repository would always make it
    dirty. Programs configured in the repository (``core.fsmonitor``, filters) are not run.

    Examples
    --------
    >>> import tempfile
    >>> capture_git_dirty(tempfile.mkdtemp())
    False
    """
    what = ["--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"]
    return bool(_output(["git", "status", *what], repo_root, _without_programs(repo_root)))


def _without_programs(repo_root: str | Path | None) -> dict[str, str]:
    """Return environment variables that disable programs configured in a repository.

    Needed because a folder from an untrusted source may contain a ``.git`` folder. The user's
    global configuration still applies.
    """
    query = ["git", "config", "--show-scope", "--name-only", "-z", "--get-regexp", _GIT_PROGRAMS]
    parts = (_output(query, repo_root) or "").split("\0")
    named = {name for scope, name in zip(parts[::2], parts[1::2], strict=False) if scope in _OWN}
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(named))}
    for at, name in enumerate(sorted(named), first):
        flag = name.endswith((".fsmonitor", ".required"))
        variables |= {
            f"GIT_CONFIG_KEY_{at}": name,
            f"GIT_CONFIG_VALUE_{at}": "false" if flag else "",
        }
    return variables


_version = cache(version)  # which reads and parses a file


def package_versions() -> dict[str, str]:
    """Return the versions of packages that can change a result, without importing them.

    Examples
    --------
    >>> "numpy" in package_versions()
    True
    """
    found = {}
    for name, distribution in _PACKAGES.items():
        try:
            found[name] = _version(distribution)
        except PackageNotFoundError:
            continue
    return found


# --- files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileHash(Displayed):
    """SHA-256 hash of an existing file."""

    sha256: str


@dataclass(frozen=True, slots=True)
class FileHashMissing(Displayed):
    """Reason why a file could not be hashed."""

    reason: Literal["missing", "not_a_file"]
    path: Path


FileHashResult: TypeAlias = FileHash | FileHashMissing


def compute_file_hash(path: str | Path) -> FileHashResult:
    """Return the SHA-256 hash of a file, or the reason why it could not be hashed.

    Parameters
    ----------
    path : path
        File to hash.

    Returns
    -------
    FileHash or FileHashMissing
        Distinguish them with ``isinstance`` or ``match``.

    Examples
    --------
    >>> compute_file_hash("no/such/file").reason
    'missing'
    """
    file = Path(path)
    if file.is_file():
        return FileHash(sha256_file(file))
    return FileHashMissing("not_a_file" if file.exists() else "missing", file)


def file_sha256(path: str | Path, *, strict: bool = False) -> str | None:
    """Return the hexadecimal SHA-256 hash of a file, or None if it does not exist.

    Parameters
    ----------
    path : path
        File to hash.
    strict : bool, default False
        Whether to raise instead of returning None.

    Returns
    -------
    str or None
        64 hexadecimal digits.

    Raises
    ------
    FileNotFoundError
        If ``strict`` is True and the file does not exist.

    Examples
    --------
    >>> file_sha256("no/such/file") is None
    True
    """
    found = compute_file_hash(path)
    if isinstance(found, FileHash):
        return found.sha256
    if strict:
        raise FileNotFoundError(f"{path}: {found.reason.replace('_', ' ')}")
    return None


def make_run_dir(base: str | Path, prefix: str = "run") -> Path:
    """Create a folder named ``{prefix}_YYYY-MM-DD_HHMMSS`` and return its path.

    Parameters
    ----------
    base : path
        Parent folder; created if needed.
    prefix : str, default "run"
        Prefix of the folder name.

    Returns
    -------
    Path
        New empty folder; a second folder created within the same second has the suffix ``_2``.

    Raises
    ------
    InvalidInputError
        If the prefix is empty or not a plain name.

    Examples
    --------
    >>> import tempfile
    >>> folder = make_run_dir(tempfile.mkdtemp())
    >>> folder.is_dir(), folder.name.startswith("run_20")
    (True, True)
    """
    if not prefix or Path(prefix).name != prefix or "\\" in prefix:
        raise InvalidInputError(f"`prefix` is {prefix!r}; it must be a plain name")
    stem = f"{prefix}_{datetime.now(UTC).strftime('%Y-%m-%d_%H%M%S')}"
    Path(base).mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        folder = Path(base) / (stem if number == 1 else f"{stem}_{number}")
        try:
            private_folder(folder, exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return folder


def figure_metadata(provenance: Mapping[str, Any], dpi: int = 300) -> dict[str, Any]:
    """Return metadata for a figure: provenance, time, matplotlib version, dpi.

    Examples
    --------
    >>> figure_metadata({"run_id": "r1"})["figure_dpi"]
    300
    """
    try:
        matplotlib: str | None = version("matplotlib")
    except PackageNotFoundError:
        matplotlib = None
    return {
        **provenance,
        "timestamp_utc": utc_now(),
        "matplotlib_version": matplotlib,
        "figure_dpi": validation.integer(dpi, "dpi", low=1),
    }


def utc_now() -> str:
    """Return the current UTC time as ``YYYY-MM-DDTHH:MM:SSZ``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- machine ------------------------------------------------------------------------------------


def capture_hardware() -> dict[str, Any]:
    """Return the CPU model, the number of cores and the memory in GB.

    Examples
    --------
    >>> sorted(capture_hardware())
    ['cpu', 'cpu_count', 'memory_gb']
    """
    return {"cpu": _cpu_model(), "cpu_count": os.cpu_count(), "memory_gb": _memory_gb()}


def _cpu_model() -> str | None:
    if sys.platform == "darwin":
        return _output(["sysctl", "-n", "machdep.cpu.brand_string"])
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    found = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or None


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def capture_gpu_info() -> dict[str, Any] | None:
    """Return ``{name, count, memory_gb, driver_version}`` of the NVIDIA GPUs, or None.

    Names of different models are joined with ``+``; the memory is that of the smallest device.

    Examples
    --------
    >>> info = capture_gpu_info()
    >>> info is None or info["count"] >= 1
    True
    """
    query = "--query-gpu=name,memory.total,driver_version"
    listing = _output(["nvidia-smi", query, "--format=csv,noheader,nounits"])
    devices = [[cell.strip() for cell in line.split(",")] for line in (listing or "").splitlines()]
    devices = [device for device in devices if len(device) == 3]
    if not devices:
        return None
    mebibytes = [float(memory) for _, memory, _ in devices if memory.replace(".", "", 1).isdigit()]
    info: dict[str, Any] = {
        "name": " + ".join(dict.fromkeys(name for name, _, _ in devices)),
        "count": len(devices),
        "driver_version": devices[0][2],
    }
    if mebibytes:
        info["memory_gb"] = round(min(mebibytes) * 2**20 / 1e9, 1)
    return info


def capture_cuda_version() -> str | None:
    """Return torch's CUDA version if torch is loaded, otherwise the driver's CUDA version.

    For the driver version, see `capture_gpu_info`.

    Examples
    --------
    >>> cuda = capture_cuda_version()
    >>> cuda is None or "." in cuda
    True
    """
    torch = sys.modules.get("torch")
    built = getattr(getattr(torch, "version", None), "cuda", None)
    if built:
        return str(built)
    found = re.search(r"CUDA (?:\w+ )?Version\s*:\s*([0-9.]+)", _output(["nvidia-smi"]) or "")
    return found[1] if found else None
