"""Run a command with kernel features disabled: ``refusing.py WHAT COMMAND...``.

WHAT is ``namespaces``, as in a container with default settings; ``landlock``, which also disables
Landlock, as on an old kernel; or ``filters``, which also disables system call filters.
"""

import ctypes
import os
import struct
import sys

_UNSHARE, _SETNS, _CLONE, _CLONE3 = ((272, 97), (308, 268), (56, 220), (435, 435))
_LANDLOCK, _PRCTL, _SECCOMP = (444, 444), (157, 167), (317, 277)
_NEW = 0x7E020000
"""All clone flags that create a namespace."""
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _HAS_BITS, _ANSWER = 0x20, 0x15, 0x45, 0x06


def main(what: str, *command: str) -> None:
    """Install the filter, then execute the command."""
    arm = int(os.uname().machine == "aarch64")
    rules = [(_LOAD, 0, 0, 0)]
    for call, answer in ((_UNSHARE, _REFUSE), (_SETNS, _REFUSE), (_CLONE3, _UNKNOWN)):
        rules += [(_EQUAL, 0, 1, call[arm]), (_ANSWER, 0, 0, answer)]
    if what in ("landlock", "filters"):
        rules += [(_EQUAL, 0, 1, _LANDLOCK[arm]), (_ANSWER, 0, 0, _UNKNOWN)]
    if what == "filters":
        rules += [(_EQUAL, 0, 1, _SECCOMP[arm]), (_ANSWER, 0, 0, _UNKNOWN)]
        rules += [(_EQUAL, 0, 4, _PRCTL[arm]), (_LOAD, 0, 0, 16), (_EQUAL, 0, 1, 22)]
        rules += [(_ANSWER, 0, 0, _REFUSE), (_ANSWER, 0, 0, _ALLOW)]
    rules += [(_EQUAL, 0, 3, _CLONE[arm]), (_LOAD, 0, 0, 16), (_HAS_BITS, 0, 1, _NEW)]
    rules += [(_ANSWER, 0, 0, _REFUSE), (_ANSWER, 0, 0, _ALLOW)]
    packed = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    program = ctypes.create_string_buffer(packed, len(packed))
    told = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, told, 0, 0):
        raise SystemExit(f"no filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)  # noqa: S606 - what this file is for


if __name__ == "__main__":
    main(*sys.argv[1:])
