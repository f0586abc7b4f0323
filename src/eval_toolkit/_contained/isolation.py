"""What Linux lets an ordinary process give up: network, writing, new processes. Containment, no jail.

`leave` moves the process into namespaces of its own, where it has no network and can write
nowhere but in one small folder that is gone with it. `forbid` puts a filter before the system's
calls: no new processes, no sockets, no signals to others, no other program. Neither needs
privileges; a system that refuses one of them says so by what is returned. Reading files is not
prevented, and neither is anything that a fault of the kernel allows.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from pathlib import Path

__all__ = ["drop_privileges", "end_with_parent", "forbid", "leave"]

_NEW_USER, _NEW_NET, _NEW_MOUNTS, _NEW_IPC = 0x10000000, 0x40000000, 0x00020000, 0x08000000
_NO_SUID, _NO_DEVICES, _RECURSIVE, _PRIVATE = 0x2, 0x4, 0x4000, 0x40000
_MOUNT_SETATTR, _HERE, _ALL_BELOW = 442, -100, 0x8000
_TMPFS = b"size=64m,nr_inodes=4096,mode=700"
_PARENT_DEATH, _NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 1, 38, 22, 2
_THREAD = 0x10000
_ALLOW, _KILL, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
"""Answers of the filter; refusing is EPERM, not knowing is ENOSYS."""

# Numbers of the system's calls, from the kernel's tables: what starts processes and programs,
# signals or reads others, opens sockets, mounts, and changes namespaces or limits. clone is apart:
# it also starts threads, which are allowed; so is clone3, whose flags a filter cannot read.
_CALLS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "x86_64": (
        0xC000003E,
        56,
        (
            *(57, 58, 59, 322),  # fork, vfork, execve, execveat
            *(62, 200, 234, 129, 297, 424, 434),  # kill, tkill, tgkill, …queueinfo, pidfd_…
            *(101, 310, 311, 302),  # ptrace, process_vm_…, prlimit64
            *(41, 425),  # socket, io_uring_setup
            *(165, 166, 155, 442, 428, 429, 430, 272, 308),  # mount …, unshare, setns
        ),
    ),
    "aarch64": (
        0xC00000B7,
        220,
        (
            *(221, 281),
            *(129, 130, 131, 138, 240, 424, 434),
            *(117, 270, 271, 261),
            *(198, 425),
            *(40, 39, 41, 442, 428, 429, 430, 97, 268),
        ),
    ),
}
_CLONE3 = 435
_X32 = 0x40000000
"""Calls of x86-64's other numbering begin here."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def leave(folder: str) -> bool:
    """Give up the network and, but for one folder, writing; return whether it could be done.

    The process must have one thread. The folder is empty afterwards, holds 64 MB at most, and
    nobody else sees what is written there.

    Parameters
    ----------
    folder : str
        An empty folder; it becomes the current one.

    Returns
    -------
    bool
        False where the system refuses; nothing has changed then.
    """
    if not sys.platform.startswith("linux"):
        return False
    # Half done cannot be undone, so a child tries it first.
    trial = os.fork()
    if trial == 0:
        try:
            _leave(folder)
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(trial, 0)[1] != 0:
        return False
    _leave(folder)
    return True


def _leave(folder: str) -> None:
    libc, user, group = _libc(), os.getuid(), os.getgid()
    _checked(libc.unshare(_NEW_USER | _NEW_NET | _NEW_MOUNTS | _NEW_IPC), "unshare")
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")
    _checked(libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None), "mount")
    read_only = struct.pack("QQQQ", 1, 0, 0, 0)
    _checked(
        libc.syscall(_MOUNT_SETATTR, _HERE, b"/", _ALL_BELOW, read_only, len(read_only)),
        "mount_setattr",
    )
    place = os.fsencode(folder)
    _checked(libc.mount(b"tmpfs", place, b"tmpfs", _NO_SUID | _NO_DEVICES, _TMPFS), "mount")
    os.chdir(folder)


def drop_privileges() -> None:
    """Give up what a new user namespace, or being root, allows beyond an ordinary user."""
    if sys.platform.startswith("linux"):
        header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
        _checked(_libc().capset(header, nothing), "capset")


def end_with_parent() -> None:
    """Be killed when the parent ends, where that can be asked for."""
    if sys.platform.startswith("linux"):
        _checked(_libc().prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0), "prctl")


def forbid() -> bool:
    """Refuse new processes, programs, sockets and signals; return whether it could be done.

    What is refused fails with EPERM, as if the user had no right to it. Threads are allowed.

    Returns
    -------
    bool
        False on systems and processors this is not written for.
    """
    calls = _CALLS.get(platform.machine()) if sys.platform.startswith("linux") else None
    if calls is None or sys.maxsize < 2**32:
        return False
    libc, rules = _libc(), _rules(*calls)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    program = ctypes.create_string_buffer(rules, len(rules))
    told = struct.pack("HxxxxxxP", len(rules) // 8, ctypes.addressof(program))
    return bool(libc.prctl(_SECCOMP, _FILTER, told, 0, 0) == 0)


def _rules(machine: int, clone: int, refused: tuple[int, ...]) -> bytes:
    """Return the filter in the kernel's own small language (classic BPF)."""
    number, architecture, first_argument = 0, 4, 16

    def load(what: int) -> bytes:
        return struct.pack("HBBI", 0x20, 0, 0, what)

    def unless(test: int, value: int, skip: int = 1) -> bytes:
        return struct.pack("HBBI", test, 0, skip, value)

    def answer(what: int) -> bytes:
        return struct.pack("HBBI", 0x06, 0, 0, what)

    equal, at_least, has_bits = 0x15, 0x35, 0x45
    rules = [load(architecture), struct.pack("HBBI", equal, 1, 0, machine), answer(_KILL)]
    rules += [load(number), unless(at_least, _X32), answer(_REFUSE)]
    for call in refused:
        rules += [unless(equal, call), answer(_REFUSE)]
    rules += [unless(equal, _CLONE3), answer(_UNKNOWN)]
    rules += [unless(equal, clone, 4), load(first_argument)]
    rules += [unless(has_bits, _THREAD), answer(_ALLOW), answer(_REFUSE), answer(_ALLOW)]
    return b"".join(rules)


def _checked(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
