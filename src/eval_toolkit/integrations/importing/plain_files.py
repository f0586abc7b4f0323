"""JSON of other tools as it is found, and the values in it: each wrong one is one clear line.

Their JSON may hold ``NaN``, which strict JSON does not know. It is let through here: among the
numbers that a log states about itself it is a note, as the value of a sample it is refused.
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

__all__ = [
    "as_list",
    "as_mapping",
    "as_prompt",
    "even_attempts",
    "finite",
    "head_of",
    "list_or_empty",
    "load_json",
    "load_lines",
    "number_or_none",
    "ok_values",
    "same",
    "settings_of",
    "shown",
    "text_or_none",
]

TOLERANCE = 1e-12
_HEAD = 65_536


def head_of(path: Path, n: int = _HEAD) -> bytes:
    """Return a file's first bytes, none of what is no plain file or cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(n)
    except OSError:
        return b""


def load_json(path: Path) -> Any:
    """Return what a JSON file holds; ``NaN`` and ``Infinity`` are numbers here.

    Raises
    ------
    ArtifactError
        If the file is missing, empty or malformed; the line names the file.

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
    r"""Return the objects of a JSONL file with their lines, and a note where the last is torn.

    A process that was stopped leaves the start of a line at the end of its file. That one is left
    out and named; any other bad line is an error.

    Raises
    ------
    ArtifactError
        If the file is missing or another line than the last is no JSON object.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "output.jsonl"
    >>> _ = path.write_text('{"id": 0}\n{"id": 1')
    >>> rows, note = load_lines(path)
    >>> rows, note
    ([(1, {'id': 0})], 'output.jsonl: line 2, the last, is torn and was left out')
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
            # Only what was still being written: a line that ends is one that was meant so.
            if at != last or at != len(lines):
                raise
            return rows, f"{path.name}: line {at}, the last, is torn and was left out"
    return rows, ""


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return an object of the JSON, or raise one line."""
    if not isinstance(value, Mapping):
        raise ArtifactError(f"{where}: is {shown(value)}; it must be an object")
    return value


def as_list(value: Any, where: str) -> Sequence[Any]:
    """Return a list of the JSON, or raise one line."""
    if not isinstance(value, (list, tuple)):
        raise ArtifactError(f"{where}: is {shown(value)}; it must be a list")
    return value


def finite(value: Any, where: str) -> float:
    """Return a finite number (true and false count as 1 and 0), or raise one line.

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
    """Return a finite number, None for all else, texts of numbers too.

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
    """Return a list as it is, an empty one for all else."""
    return value if isinstance(value, list) else []


def shown(value: Any) -> str:
    """Return a value for a message, cut short."""
    return f"{value!r:.60}"


def text_or_none(value: Any) -> str | None:
    """Return a text as it is, None for all else."""
    return value if isinstance(value, str) else None


def as_prompt(value: Any) -> str | tuple[Message, ...] | None:
    """Return a prompt: a text, or messages where they are ones that we know.

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
    """Return what a log says under these names, in plain JSON and without secrets."""
    kept = {name: told[name] for name in names if told.get(name) not in (None, "", [], {})}
    return dict(redact_secrets(plain(kept)))


def ok_values(samples: Iterable[LoggedSample], column: str) -> list[float]:
    """Return a column's numbers, without those that are not there."""
    found = (sample.values.get(column) for sample in samples)
    return [value for value in found if isinstance(value, float)]


def even_attempts(samples: Iterable[LoggedSample], column: str) -> bool:
    """Return whether every item has a column's number equally often.

    Then the mean over tries, which tools state, is the mean over items of their means.
    """
    there = (one.unit_id for one in samples if isinstance(one.values.get(column), float))
    return len(set(Counter(there).values())) <= 1


def same(first: float, second: float) -> bool:
    """Return whether two numbers are one to 1e-12, of their size where that is above 1."""
    return abs(first - second) <= TOLERANCE * max(1.0, abs(first), abs(second))
