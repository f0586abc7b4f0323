"""Removal of secrets from child environments and ``/proc/self/environ``."""

import os
import sys
from collections.abc import Mapping

from eval_toolkit._internal.redaction import names_a_secret


def secret_variables() -> dict[str, str]:
    """Return environment variables whose names suggest a key, token or password.

    Examples
    --------
    >>> os.environ["SOME_API_KEY"] = "hush"
    >>> "SOME_API_KEY" in secret_variables(), "SOME_API_KEY" in child_environment()
    (True, False)
    >>> del os.environ["SOME_API_KEY"]
    """
    return {name: value for name, value in os.environ.items() if _is_secret(name)}


def child_environment(others: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment for a child process, without secrets and with ``others`` added."""
    kept = {name: value for name, value in os.environ.items() if not _is_secret(name)}
    return {**kept, **(others or {})}


def _is_secret(name: str) -> bool:
    return names_a_secret(name) or name.lower().endswith(("_key", "_keys"))


def hide_secrets() -> None:
    """Overwrite secrets in the process memory behind ``/proc/PID/environ`` (Linux).

    The secrets remain in `os.environ`, but child processes started without an explicit
    environment do not inherit them. Only the command line uses this: a library must not modify its host
    process.
    """
    if not sys.platform.startswith("linux") or not secret_variables():
        return
    import ctypes

    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - read once, early
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[47]), int(fields[48])  # env_start and env_end, of proc(5)
    except (OSError, IndexError, ValueError):
        return
    if not 0 < start < end:
        return
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and value and _is_secret(os.fsdecode(name)):
            ctypes.memset(at + len(name) + 1, 0, len(value))
        at += len(entry) + 1
