"""Parsing of journal lines."""

import zlib
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import parse_json
from eval_toolkit.errors import ArtifactError

JOURNAL_VERSION = 1
"""Version of the journal format."""


def check_version(path: Path, version: Any) -> None:
    """Raise `ArtifactError` if a journal has an unsupported version."""
    if version != JOURNAL_VERSION:
        raise ArtifactError(
            f"{path}: the journal has version {version!r}, but this version of eval-toolkit reads "
            f"only version {JOURNAL_VERSION}"
        )


_SEAL = b'{"crc":"'
SEALED = len(_SEAL) + 8 + len('",')
"""Size of the checksum at the beginning of a line."""


def sealed_line(text: str) -> bytes:
    r"""Encode a JSON object as a line that begins with a checksum of the object.

    Examples
    --------
    >>> sealed_line('{"a":1}')
    b'{"crc":"561bacaf","a":1}\n'
    """
    data = text.encode("ascii")
    return b'%s%08x",%s\n' % (_SEAL, zlib.crc32(data), data[1:])


def parsed_line(line: bytes) -> Any:
    """Parse a line; return None if it is not JSON or does not match its checksum.

    Lines written by earlier versions have no checksum.

    Examples
    --------
    >>> parsed_line(b'{"a": 1}'), parsed_line(b'{"a": NaN}'), parsed_line(b'{"a"')
    ({'a': 1}, None, None)
    >>> parsed_line(sealed_line('{"a":1}').replace(b"1}", b"2}")) is None
    True
    """
    if line.startswith(_SEAL):
        seal, line = line[len(_SEAL) : SEALED], b"{" + line[SEALED:].rstrip()
        if seal != b'%08x",' % zlib.crc32(line):
            return None
    try:
        return parse_json(line, "line")
    except ArtifactError:
        return None


def request_of(found: Any) -> dict[str, Any] | None:
    """Return a parsed line if it represents a finished request with an answer or an error.

    Examples
    --------
    >>> line = {"unit_id": "q1", "attempt": 1, "step": "", "hash": "ab"}
    >>> request_of(line | {"response": {}}) is not None, request_of(line)
    (True, None)
    """
    if not isinstance(found, dict):
        return None
    key = tuple(map(found.get, ("unit_id", "attempt", "step", "hash")))
    what = found.get("error") if found.get("response") is None else found["response"]
    fits = tuple(map(type, key)) == (str, int, str, str) and isinstance(what, dict)
    return found if fits else None
