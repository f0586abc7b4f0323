"""Sandbox levels, determined by testing the isolation available on this system.

jailed
    Namespaces: a program sees no other processes and no network; its file system contains only the
    interpreter with its libraries, three devices and an empty folder. A filter rejects all system
    calls that are not on an allow list. Uses bubblewrap if installed.
contained
    Fallback if namespaces are not permitted, as in most containers: the same filter, with Landlock
    to block all other files. The program shares the process table and the network with the user,
    but can access neither.
refused
    Insufficient isolation: model-written programs are not run.
"""

import os
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from eval_toolkit._internal.sandbox import ALLOW_WEAKER
from eval_toolkit._internal.sandbox.errors import Failed, Overrun
from eval_toolkit._internal.sandbox.jail import bubblewrap_command
from eval_toolkit._internal.sandbox.landlock import landlock_version
from eval_toolkit._internal.sandbox.limits import Limits
from eval_toolkit._internal.sandbox.view import BUBBLEWRAP, LANDLOCK, NAMESPACES, Sandbox, shown
from eval_toolkit._internal.sandbox.workers import Contained
from eval_toolkit.errors import EvalToolkitError

_OURS = str(Path(__file__).parents[2])
_WAYS = (BUBBLEWRAP, NAMESPACES, LANDLOCK)
if (
    getattr(os, "geteuid", lambda: 1)() == 0
):  # under bubblewrap root stays root and is not subject to limits
    _WAYS = (NAMESPACES, BUBBLEWRAP, LANDLOCK)
_SETTINGS = {
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Sysctl settings that restrict user namespaces, with the values that permit them."""
_LOCK = threading.Lock()
_PATIENCE = 20.0


class Level(StrEnum):
    """Degrees of isolation, best first."""

    JAILED = "jailed"
    CONTAINED = "contained"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Measured:
    """Isolation available on this system.

    ``way`` is "bubblewrap", "namespaces", "Landlock" or empty. ``reasons`` explains why each better
    mechanism failed.
    """

    level: Level
    way: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)

    def advice(self) -> str:
        """Return advice on how to reach a higher level, or ""."""
        if self.level == Level.JAILED:
            return ""
        if not os.path.exists("/proc/self/status"):  # noqa: PTH110
            return "run eval-toolkit on Linux, or in a Linux virtual machine or container"
        return _advice()


_FOUND: list[Measured] = []


def measured_level() -> Measured:
    """Return the best level on this system, determined on the first call.

    Examples
    --------
    >>> measured_level().level in set(Level)
    True
    """
    with _LOCK:
        if not _FOUND:
            _FOUND.append(_measured())
        return _FOUND[0]


def required_level() -> Measured:
    """Return the sandbox level for model-written programs.

    Raises `EvalToolkitError` if the level is weaker than *jailed* and the user has not allowed it.
    """
    found = measured_level()
    if found.level == Level.JAILED:
        return found
    why = "; ".join(f"{way}: {reason}" for way, reason in found.reasons.items())
    if found.level == Level.REFUSED:
        raise EvalToolkitError(
            f"model-written programs are not run: no sandbox is available ({why}); {found.advice()}"
        )
    if os.environ.get(ALLOW_WEAKER) != "1":
        raise EvalToolkitError(
            "model-written programs need the sandbox level 'jailed', but this system offers 'contained' "
            f"({why}); "
            f"{found.advice()}, or allow it with --allow-weaker-sandbox ({ALLOW_WEAKER}=1)"
        )
    return found


@cache
def program_sandbox(way: str, *, packages: bool = False, forks: bool = True) -> Sandbox:
    """Return the sandbox for a mechanism."""
    return Sandbox(way, shown(_OURS, packages=packages), forks)


def best_sandbox() -> Sandbox | None:
    """Return the best available sandbox for built-in code on model output, or None."""
    way = measured_level().way
    return program_sandbox(way, packages=True, forks=False) if way else None


def _measured() -> Measured:
    contained, reasons = None, {}
    for way in _WAYS:
        if reason := _missing(way):
            reasons[way] = reason
            continue
        try:
            held = _tried(way)
        except (Failed, Overrun, OSError) as error:
            reasons[way] = _reason(error)
            continue
        broken = [name for name, holds in held.items() if not holds]
        if not broken:
            return Measured(Level.JAILED, way, reasons)
        if broken == ["see other processes"]:
            contained = contained or way
        reasons[way] = f"a program can {', '.join(broken)}"
    if contained:
        return Measured(Level.CONTAINED, contained, reasons)
    return Measured(Level.REFUSED, "", reasons)


def _reason(error: Exception) -> str:
    """Extract the system error, e.g. "unshare: Operation not permitted"."""
    message = " ".join(str(error).split())
    message = re.sub(r"^.*?(?:ended with code -?\d+: |Error: (?:\[Errno \d+\] )?)", "", message)
    return re.split(r", likely|\. See|; see", message)[0][:200]


def _missing(way: str) -> str:
    if way == BUBBLEWRAP and bubblewrap_command(shown(_OURS, packages=False)) is None:
        return "not installed"
    if way == LANDLOCK and not landlock_version():
        return "not supported by the kernel"
    if not hasattr(os, "fork"):
        return "this system does not support fork"
    return ""


def _tried(way: str) -> dict[str, bool]:
    sandbox = program_sandbox(way)
    worker, limits = Limits(_PATIENCE, None), Limits(_PATIENCE / 2)
    measure = Contained("eval_toolkit._internal.sandbox.programs:measure", worker, sandbox)
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-") as folder:
        file = Path(folder, "file")
        file.write_text("outside")
        outside: dict[str, Any] = {"file": str(file), "folder": folder, "pid": os.getpid()}
        held = measure(outside, limits.to_dict(), way, sandbox.view.to_dict())
    return dict(held)


def _advice() -> str:
    install = "" if shutil.which("bwrap") else "install bubblewrap, or "
    for file, bad in _SETTINGS.items():
        try:
            value = Path(file).read_text("ascii").strip()
        except OSError:
            continue
        if value == bad:
            name, good = file.removeprefix("/proc/sys/").replace("/", "."), 1 - int(bad)
            return f"to reach the level 'jailed', {install}set sysctl {name}={good}"
    return (
        f"to reach the level 'jailed', {install}start the container with --security-opt "
        "seccomp=unconfined --security-opt apparmor=unconfined"
    )
