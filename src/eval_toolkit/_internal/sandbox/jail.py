"""Namespaces: an unprivileged process without other processes, network or most files.

`enter_jail` does it by itself; `bubblewrap_command` says how bubblewrap, where it is installed, is
asked for the same. Inside are the files of a `View`, read-only, and one empty folder, `HOME`, that
holds 64 MB and is gone with the process. There is no ``/proc``.
"""

import ctypes
import os
import signal
import struct
import sys
from functools import cache
from pathlib import Path
from typing import NoReturn

from eval_toolkit._internal.sandbox.view import DEVICES, View

__all__ = [
    "HOME",
    "bubblewrap_command",
    "drop_privileges",
    "end_with_parent",
    "enter_jail",
    "go_on_in_a_child",
]

HOME = "/eval-toolkit"
_NAME = "jail"
_MB = 1024 * 1024
_HOME_MB, _HOME_FILES = 64, 4096

_NAMESPACES = 0x10000000 | 0x40000000 | 0x00020000 | 0x08000000 | 0x20000000 | 0x04000000
"""Namespaces to create: user, network, mount, IPC, PID, host name."""
_NEW_CGROUPS = 0x02000000
_READ_ONLY, _NO_SUID, _NO_DEVICES = 0x1, 0x2, 0x4
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 0x1000, 0x4000, 0x40000, 0x2
_MOUNT_SETATTR, _HERE, _ALL_BELOW = 442, -100, 0x8000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PARENT_DEATH = 1
_ORDINARY, _NOBODY = 1000, 65534
"""User and group ids inside, and outside if started by root."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def enter_jail(folder: str, view: View) -> None:
    """Move into new namespaces; the caller continues inside, as a child of their first process.

    The process must have one thread. It stays outside and waits, and so does the first one inside:
    a first process is spared by most signals, its own alarm among them. Each ends with its parent.

    Parameters
    ----------
    folder : str
        Empty folder for the new root.
    view : View
        Visible part of the file system.

    Raises
    ------
    OSError
        Where the system refuses; what was done up to then is not undone.
    """
    libc = _libc()
    is_another = _unshare(libc)
    libc.unshare(_NEW_CGROUPS)  # what it hides are names
    libc.sethostname(_NAME.encode(), len(_NAME))
    _build_root(libc, folder, view)
    if is_another:
        os.setgroups([])
        os.setresgid(_ORDINARY, _ORDINARY, _ORDINARY)
        os.setresuid(_ORDINARY, _ORDINARY, _ORDINARY)
    go_on_in_a_child()  # the first process of the namespace …
    go_on_in_a_child()  # … and one that its own alarm can end


def _unshare(libc: ctypes.CDLL) -> bool:
    """Leave the system's namespaces; return whether the user inside differs from the own one.

    Root becomes nobody there, whom limits of processes bind; that needs somebody outside to say so.
    Anybody else stays who he is, under another number.
    """
    reading, writing = os.pipe()
    outside = os.fork() if os.getuid() == 0 else 0
    if os.getuid() == 0 and outside == 0:
        os._exit(_map_users(os.getppid(), reading))
    user, group = os.getuid(), os.getgid()
    _checked(libc.unshare(_NAMESPACES), "unshare")
    os.write(writing, b"x")
    mapped = bool(outside) and os.waitpid(outside, 0)[1] == 0
    os.close(reading)
    os.close(writing)
    if not mapped:
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"{_ORDINARY} {user} 1")
        (own / "gid_map").write_text(f"{_ORDINARY} {group} 1")
    return mapped


def _map_users(process: int, reading: int) -> int:
    try:
        os.read(reading, 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{process}/{name}").write_text(f"0 0 1\n{_ORDINARY} {_NOBODY} 1")
    except OSError:
        return 1
    return 0


def _build_root(libc: ctypes.CDLL, root: str, view: View) -> None:
    """Build a new root in a folder, with the visible files mounted in it."""

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        told = [os.fsencode(text) for text in (source, target, kind)]
        _checked(libc.mount(*told, flags, os.fsencode(options)), f"mount {target}")

    mount("none", "/", "none", _RECURSIVE | _PRIVATE)
    mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
    for path in (*view.readable, *DEVICES):
        place = Path(root + path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if Path(path).is_symlink() and path.count("/") == 1:  # /lib is usr/lib mostly
            place.symlink_to(Path(path).readlink())
            continue
        if Path(path).is_dir():
            place.mkdir()
        else:
            place.touch()
        mount(os.path.realpath(path), str(place), "none", _BIND | _RECURSIVE)
        _set_read_only(libc, str(place), below=True)
    home = Path(root + HOME)
    home.mkdir()
    owner = f"uid={_ORDINARY},gid={_ORDINARY},mode=700"
    size = f"size={_HOME_MB}m,nr_inodes={_HOME_FILES},{owner}"
    mount("tmpfs", str(home), "tmpfs", _NO_SUID | _NO_DEVICES, size)
    if not any(path.startswith("/tmp/") for path in view.readable):  # noqa: S108
        Path(root, "tmp").symlink_to(HOME)
    os.chdir(root)
    call = _PIVOT_ROOT[os.uname().machine]
    _checked(libc.syscall(call, b".", b"."), "pivot_root")
    _checked(libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")
    _set_read_only(libc, "/", below=False)
    os.chdir(HOME)


def _set_read_only(libc: ctypes.CDLL, path: str, *, below: bool) -> None:
    told = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    flags = _ALL_BELOW if below else 0
    changed = libc.syscall(_MOUNT_SETATTR, _HERE, os.fsencode(path), flags, told, len(told))
    _checked(changed, "mount_setattr")


def go_on_in_a_child() -> None:
    """Return in a child, which ends with this process; this one waits for it and ends as it does."""
    child = os.fork()
    if child:
        _wait_for(child)
    end_with_parent()


def _wait_for(child: int) -> NoReturn:
    """Close all files and exit with the status of the child."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, 1024)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def bubblewrap_command(view: View) -> list[str] | None:
    """Return the start of a bubblewrap command, or None if bubblewrap is not installed."""
    import shutil  # for the caller; what a worker imports, each of its forks copies

    program = shutil.which("bwrap") if sys.platform.startswith("linux") else None
    if program is None:
        return None
    command = [program, "--unshare-user", "--uid", str(_ORDINARY), "--gid", str(_ORDINARY)]
    command += ["--unshare-ipc", "--unshare-pid", "--unshare-net"]
    command += ["--unshare-uts", "--unshare-cgroup-try", "--as-pid-1", "--new-session"]
    command += ["--hostname", _NAME, "--cap-drop", "ALL"]
    for path in view.readable:
        if Path(path).is_symlink() and path.count("/") == 1:
            command += ["--symlink", str(Path(path).readlink()), path]
        else:
            command += ["--ro-bind", os.path.realpath(path), path]
    for path in DEVICES:
        command += ["--dev-bind", path, path]
    command += ["--size", str(_HOME_MB * _MB), "--tmpfs", HOME]
    if not any(path.startswith("/tmp/") for path in view.readable):  # noqa: S108
        command += ["--symlink", HOME, "/tmp"]  # noqa: S108
    return [*command, "--remount-ro", "/", "--chdir", HOME]


def drop_privileges() -> None:
    """Drop privileges that root or a new user namespace grants."""
    if sys.platform.startswith("linux"):
        header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
        _checked(_libc().capset(header, nothing), "capset")


def end_with_parent() -> None:
    """Request to be killed when the parent ends, if the system supports it."""
    if sys.platform.startswith("linux"):
        _checked(_libc().prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0), "prctl")
