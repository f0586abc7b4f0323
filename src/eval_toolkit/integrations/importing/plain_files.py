"""Read JSON files from other tools leniently, with one-line errors for invalid values.

These files may contain ``NaN``, which is not valid JSON but is accepted here. A reported number
that is NaN becomes a note; a sample value that is NaN is an error.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import parse_json, read_regular
from eval_toolkit._internal.plain import plain
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.importing.logs import LoggedSample
from eval_toolkit.models.messages import Message

TOLERANCE = 1e-12
_HEAD = 65_536


def head_of(path: Path, n: int = _HEAD) -> bytes:
    """Return the first bytes of a file; empty if it is not a regular file or is unreadable."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(n)
    except OSError:
        return b""


def load_json(path: Path) -> Any:
    """Return the content of a JSON file, accepting ``NaN`` and ``Infinity``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "stats.json"
    >>> _ = path.write_text('{"mean": NaN}')
    >>> load_json(path)
    {'mean': nan}
    """
    data = read_regular(path)
    if not data:
        raise ArtifactError(f"{path}: the file is empty (0 bytes)")
    return parse_json(data, path, strict=False)


def load_lines(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    r"""Return the objects of a JSONL file by line, and a note if the last line is incomplete.

    An interrupted process leaves an incomplete last line, which is skipped with a note. Any other
    invalid line is an error.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "output.jsonl"
    >>> _ = path.write_text('{"id": 0}\n{"id": 1')
    >>> rows, note = load_lines(path)
    >>> rows, note
    ([(1, {'id': 0})], 'output.jsonl: line 2, the last, is incomplete and was skipped')
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    lines = read_regular(path).split(b"\n")
    last = max((at for at, line in enumerate(lines, 1) if line.strip()), default=0)
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}: line {at}"
        try:
            rows.append((at, dict(as_mapping(parse_json(line, where, strict=False), where))))
        except (ArtifactError, InvalidInputError):
            # Only an unterminated line is incomplete; a terminated line was written on purpose.
            if at != last or at != len(lines):
                raise
            return rows, f"{path.name}: line {at}, the last, is incomplete and was skipped"
    return rows, ""


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a JSON object; raise a one-line error for other values."""
    if not isinstance(value, Mapping):
        raise ArtifactError(f"{where}: is {shown(value)}; it must be an object")
    return value


def as_list(value: Any, where: str) -> Sequence[Any]:
    """Return a JSON list; raise a one-line error for other values."""
    if not isinstance(value, (list, tuple)):
        raise ArtifactError(f"{where}: is {shown(value)}; it must be a list")
    return value


def finite(value: Any, where: str) -> float:
    """Return a finite number (booleans count as 1 and 0); raise a one-line error otherwise.

    Examples
    --------
    >>> finite(True, "a.json: row 1: 'acc'")
    1.0
    """
    number = number_or_none(value)
    if number is None:
        raise InvalidInputError(f"{where} is {shown(value)}; it must be a finite number")
    return number


def number_or_none(value: Any) -> float | None:
    """Return a finite number, and None for other values, including numeric strings.

    Examples
    --------
    >>> number_or_none(3), number_or_none(float("nan")), number_or_none("3")
    (3.0, None, None)
    """
    if not isinstance(value, (bool, int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def list_or_empty(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for other values."""
    return value if isinstance(value, list) else []


def shown(value: Any) -> str:
    """Return a truncated representation of a value for messages."""
    return f"{value!r:.60}"


def text_or_none(value: Any) -> str | None:
    """Return a string unchanged, and None for other values."""
    return value if isinstance(value, str) else None


def as_prompt(value: Any) -> str | tuple[Message, ...] | None:
    """Return a prompt: a string, or messages if their format is known.

    Examples
    --------
    >>> as_prompt([{"role": "user", "content": "Hi", "type": None}])[0].content
    'Hi'
    >>> as_prompt([{"role": "tool", "content": "Hi"}]) is None
    True
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or not value:
        return None
    found = []
    for message in value:
        role = message.get("role") if isinstance(message, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            return None
        found.append(Message(role, content))
    return tuple(found)


def settings_of(told: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the named settings as JSON values without secrets."""
    kept = {name: told[name] for name in names if told.get(name) not in (None, "", [], {})}
    return dict(redact_secrets(plain(kept)))


def ok_values(samples: Iterable[LoggedSample], column: str) -> list[float]:
    """Return the available numbers of a column."""
    found = (sample.values.get(column) for sample in samples)
    return [value for value in found if isinstance(value, float)]


def even_attempts(samples: Iterable[LoggedSample], column: str) -> bool:
    """Return whether every item has equally many numbers in a column.

    In that case, the mean over attempts, which tools report, equals the mean of the item means.
    """
    there = (one.unit_id for one in samples if isinstance(one.values.get(column), float))
    return len(set(Counter(there).values())) <= 1


def same(first: float, second: float) -> bool:
    """Return whether two numbers agree to within 1e-12, relative to their size if it exceeds 1."""
    return abs(first - second) <= TOLERANCE * max(1.0, abs(first), abs(second))
