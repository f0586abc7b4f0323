"""Isolation by Linux namespaces: no network, no other processes and only a few files.

`enter_jail` sets up the namespaces itself; `bubblewrap_command` returns the equivalent bubblewrap
command, if bubblewrap is installed. The jail contains the files of a `View` (read-only) and an
empty, temporary `HOME` folder of 64 MB. There is no ``/proc``.
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

HOME = "/eval-toolkit"
_NAME = "jail"
_MB = 1024 * 1024
_HOME_MB, _HOME_FILES = 64, 4096

_NAMESPACES = 0x10000000 | 0x40000000 | 0x00020000 | 0x08000000 | 0x20000000 | 0x04000000
"""Namespaces to create: user, network, mount, IPC, PID and UTS."""
_NEW_CGROUPS = 0x02000000
_READ_ONLY, _NO_SUID, _NO_DEVICES = 0x1, 0x2, 0x4
_BIND, _RECURSIVE, _PRIVATE, _DETACH = 0x1000, 0x4000, 0x40000, 0x2
_MOUNT_SETATTR, _HERE, _ALL_BELOW = 442, -100, 0x8000
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PARENT_DEATH = 1
_ORDINARY, _NOBODY = 1000, 65534
"""User and group id inside the jail (also outside, if started by root)."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def enter_jail(folder: str, view: View) -> None:
    """Enter new namespaces; the caller continues as a child of their first process.

    The calling process must be single-threaded. It stays outside the jail and waits for its child.
    The first process inside also only waits, because the kernel shields process 1 from most signals,
    including its own alarm. Each process is killed when its parent exits.

    The empty ``folder`` becomes the root. Completed steps are not undone if a later step fails.
    """
    libc = _libc()
    is_another = _unshare(libc)
    libc.unshare(_NEW_CGROUPS)  # may fail: it only hides cgroup names
    libc.sethostname(_NAME.encode(), len(_NAME))
    _build_root(libc, folder, view)
    if is_another:
        os.setgroups([])
        os.setresgid(_ORDINARY, _ORDINARY, _ORDINARY)
        os.setresuid(_ORDINARY, _ORDINARY, _ORDINARY)
    continue_in_child()  # process 1 of the namespace …
    continue_in_child()  # … and a child that its own alarm can kill


def _unshare(libc: ctypes.CDLL) -> bool:
    """Enter new namespaces; return whether the user inside is mapped to a different user.

    Root is mapped to ``nobody``, which is subject to process limits; a process outside must write
    that mapping. Other users keep their identity under a different user id.
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
    """Build a new root in a folder and mount the visible files in it."""

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        arguments = [os.fsencode(text) for text in (source, target, kind)]
        _checked(libc.mount(*arguments, flags, os.fsencode(options)), f"mount {target}")

    mount("none", "/", "none", _RECURSIVE | _PRIVATE)
    mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
    for path in (*view.readable, *DEVICES):
        place = Path(root + path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if Path(path).is_symlink() and path.count("/") == 1:  # /lib is usually a link to usr/lib
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
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    flags = _ALL_BELOW if below else 0
    changed = libc.syscall(
        _MOUNT_SETATTR, _HERE, os.fsencode(path), flags, attributes, len(attributes)
    )
    _checked(changed, "mount_setattr")


def continue_in_child() -> None:
    """Fork; continue in the child, while this process waits and exits with its status."""
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
    """Return a bubblewrap command prefix, or None if bubblewrap is not installed."""
    import shutil  # called by the caller only; every import of a worker is copied to its forks

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
    """Drop privileges granted by root or a new user namespace."""
    if sys.platform.startswith("linux"):
        header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
        _checked(_libc().capset(header, nothing), "capset")


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent exits, if supported."""
    if sys.platform.startswith("linux"):
        _checked(_libc().prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0), "prctl")
