"""Landlock (Linux 5.13 and later): file access limits for processes without namespaces."""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE = (1 << 4) | (1 << 5)
_MAKE = (1 << 7) | (1 << 8) | (1 << 12)  # folders, files, symbolic links
_REFER, _TRUNCATE, _DEVICE_CALLS = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_HANDLED = (1 << 13) - 1
"""Access rights of the first version: execute, read, write, create and remove."""
_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _DEVICE_CALLS}
_TCP_SINCE, _TCP = 4, 3
_SCOPES_SINCE, _SCOPES = 6, 3


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Return the Landlock version of the kernel, or 0."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, 0, _VERSION)))


def restrict_files(readable: Iterable[str], devices: Iterable[str], folder: str) -> bool:
    """Permanently give up access to all other files; return whether this succeeded.

    If the kernel supports it, also blocks TCP connections, and signals and abstract sockets to
    other processes. Landlock does not cover file modes, times and existence.

    ``devices`` can be read and written; ``folder`` is fully accessible.
    """
    version = landlock_version()
    if not version:
        return False
    handled = _HANDLED | sum(bit for since, bit in _SINCE.items() if version >= since)
    attributes = struct.pack("Q", handled)
    if version >= _TCP_SINCE:
        attributes += struct.pack("Q", _TCP)
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("Q", _SCOPES)
    libc = _libc()
    rules = libc.syscall(_CREATE, attributes, len(attributes), 0)
    if rules < 0:
        return False
    inside = _OF_FILES | _READ_DIR | _REMOVE | _MAKE | _REFER
    allowed = [
        *((path, _READ_FILE | (_READ_DIR if Path(path).is_dir() else 0)) for path in readable),
        *((path, _READ_FILE | _WRITE_FILE) for path in devices),
        (folder, inside),
    ]
    try:
        for path, rights in allowed:
            if not _added(libc, rules, path, rights & handled):
                return False
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _added(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> bool:
    at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return bool(libc.syscall(_ADD, rules, _BENEATH, struct.pack("=Qi", rights, at), 0) == 0)
    finally:
        os.close(at)
