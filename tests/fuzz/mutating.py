"""Mutation of inputs: changes to bytes, text, and the values in a document.

All choices use the given generator, so a seed determines the inputs.
"""

import copy
import csv
import gzip
import io
import json
import math
import random
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml
from tests.support.hostile import SHORT

__all__ = ["MARK", "Changing"]

MARK = "zqmark"
"""Name of an element or attribute that a page can contain only if data was not escaped."""
_MARKED = (
    f"<{MARK}>",
    f"\"><{MARK} x='1'>",
    f"'><{MARK}/>",
    f'" {MARK}="1',
    f"' {MARK}='1",
    f"x {MARK}=1",
    f"</script></style></title></textarea><{MARK}>",
    f"--><{MARK}><!--",
    f"javascript:{MARK}()",
)
_LONGEST = 300_000
"""Maximum size of an input in bytes; the cost of long inputs is tested separately."""
_NUMBERS: tuple[Any, ...] = (
    *(0, -0.0, 1, -1, 2, 0.5, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *(2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**25, 10**310),
)
_TEXTS = (
    *(
        "",
        " ",
        "x",
        "0",
        "-1",
        "1e999",
        "nan",
        "inf",
        "true",
        "null",
        "none",
        "[]",
        "{}",
        "a" * 9999,
    ),
    *(
        "2001-13-45",
        "9999999999999999999",
        "0x1f",
        "1_000",
        "٣",
        "½",
        "²",
        "\ufffe",
        "\x00",
        "\ud800",
    ),
    *(
        "../../x",
        "/",
        ".",
        "a:b",
        "os:system",
        "{x}",
        "{}",
        "{{x}}",
        "{0.__class__}",
        "%s",
        "*",
        "\\",
        "(",
    ),
    *(
        "(a+)+$",
        "[[:alpha:]]",
        "<think>",
        "</think>",
        "\r\n",
        "\u2028",
        "é" * 300,
        "'\"",
        "𝔘𝔫𝔦",
        "ǅ ß İ",
    ),
)
_EMPTY: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": 1},
    [{}],
    [1, "x"],
)
_TOKENS = tuple(
    token.encode()
    for token in (
        *("{", "}", "[", "]", '"', "'", ",", ":", "=", "\n", "\r\n", "\t", "#", "&a ", "*a", "!!int ", "---\n"),
        *("null", "true", "NaN", "Infinity", "-", "1e999", "9" * 400, "\\u0000", "\\ud800", "\\x", "\ufeff"),
        *("{{ ", " }}", "{% ", " %}", "{% for a in range(9) %}", "{% endfor %}", "|join", ".__class__", "**"),
        *('"""', "'''", "<<: ", "? ", "| ", "> ", "@", "`", "%", "\x00", "\u202e", "\u0085", "[" * 150),
    )
)  # fmt: skip
_WORD = re.compile(rb"[A-Za-z_][\w.:/-]{1,30}")
_NUMERAL = re.compile(rb"-?\d+(?:\.\d+)?")

Place = tuple[Any, ...]


class Changing:
    """Mutator of known inputs.

    Parameters
    ----------
    rng : random.Random
        Source of all random choices.
    known : sequence of (str, bytes)
        Names and contents of inputs; the suffix of a name determines the format.
    """

    def __init__(self, rng: random.Random, known: Sequence[tuple[str, bytes]]) -> None:
        self.rng = rng
        self.known = list(known)
        self._words = sorted({word for _, data in known for word in _WORD.findall(data)})[:5000]

    def changed(self, name: str, data: bytes) -> bytes:
        """Return the input with one to five changes, usually one."""
        for _ in range(self.rng.choice((1, 1, 1, 2, 3, 5))):
            data = self._once(name, data)[:_LONGEST]
        return data

    def _once(self, name: str, data: bytes) -> bytes:
        suffix = PurePosixPath(name).suffix.lower()
        for form in (suffix, "." + name.rpartition("/")[2].partition(".")[2].lower()):
            if form in _PACKED and self.rng.random() < 0.8:
                return self._inside(form, name, data)
            if form in _FORMS and self.rng.random() < 0.65:
                read, write = _FORMS[form]
                try:
                    return write(self._tree(read(data)))
                except Exception:
                    break  # no such document, whatever its reader raises: go on with its bytes
        return self._bytes(data)

    def _inside(self, form: str, name: str, data: bytes) -> bytes:
        unpack, pack = _PACKED[form]
        try:
            parts = unpack(name, data)
            inner = self.rng.choice(sorted(parts))
            return pack({**parts, inner: self.changed(inner, parts[inner])})
        except Exception:  # damaged by an earlier change: go on with its bytes
            return self._bytes(data)

    # --- values of documents --------------------------------------------------------------------

    def _tree(self, tree: Any) -> Any:
        tree = copy.deepcopy(tree)
        places = list(_places(tree))
        if not places:
            return self._value()
        place = self.rng.choice(places)
        holder = _at(tree, place[:-1])
        key, change = place[-1], self.rng.randrange(10)
        old = holder[key]
        if change == 0:
            del holder[key]
        elif change == 1:
            holder[key] = copy.deepcopy(_at(tree, self.rng.choice(places)))
        elif change == 2:
            holder[key] = self.rng.choice(([old], {"a": old}, {str(old)[:50]: old}, [old, old]))
        elif change == 3 and isinstance(holder, dict):
            del holder[key]
            holder[self._name(key)] = old
        elif change == 3:
            self.rng.shuffle(holder)
        elif change == 4 and isinstance(holder, list):
            holder[key:key] = [old] * self.rng.choice((1, 2, 40))
        elif change == 4:
            holder[self._name(key)] = copy.deepcopy(old)
        elif change == 5 and isinstance(old, str):
            holder[key] = self._text(old)
        elif change == 5 and type(old) in (int, float):
            holder[key] = self.rng.choice((-old, old + 1, old * 1e300, str(old), [old], old / 3))
        elif change == 6:
            for _ in range(self.rng.choice((3, 30, 120))):
                old = [old] if self.rng.random() < 0.5 else {"a": old}
            holder[key] = old
        else:
            holder[key] = self._value()
        return tree

    def _value(self) -> Any:
        kind = self.rng.randrange(6)
        if kind == 0:
            return self.rng.choice(_NUMBERS)
        if kind == 1:
            return copy.deepcopy(self.rng.choice(_EMPTY))
        if kind == 2 and self._words:
            return self.rng.choice(self._words).decode()
        return self.rng.choice((_TEXTS, _MARKED, tuple(SHORT.values()))[kind % 3])

    def _name(self, key: Any) -> str:
        made = self._value()
        return made if isinstance(made, str) else self._text(str(key))

    def _text(self, text: str) -> str:
        at = self.rng.randrange(len(text) + 1)
        return self.rng.choice(
            (
                text[:at],
                text * 2,
                text[::-1],
                text.swapcase(),
                text[:at] + str(self._value())[:500] + text[at:],
                text[:at]
                + chr(self.rng.choice((0, 10, 0x85, 0x202E, 0xFFFE, 0x1F600)))
                + text[at:],
                self.rng.choice(_MARKED),
            )
        )

    # --- bytes ----------------------------------------------------------------------------------

    def _bytes(self, data: bytes) -> bytes:
        rng = self.rng
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        change = rng.randrange(9)
        if change == 0 and at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        if change == 1:
            return data[:at] + rng.randbytes(end - at) + data[end:]
        if change == 2:
            return data[:at] + data[end:]
        if change == 3:
            return data[:at] + data[at:end] * rng.choice((2, 3, 50)) + data[end:]
        if change == 4:
            return data[:at]
        if change == 5:
            other = rng.choice(self.known)[1]
            start = rng.randrange(len(other) + 1)
            return data[:at] + other[start : start + rng.choice((8, 64, 4096))] + data[end:]
        if change == 6 and (found := list(_NUMERAL.finditer(data))):
            match = rng.choice(found[:2000])
            return data[: match.start()] + str(rng.choice(_NUMBERS)).encode() + data[match.end() :]
        if change == 7 and (found := list(_WORD.finditer(data))):
            match = rng.choice(found[:2000])
            return data[: match.start()] + rng.choice(self._words or [b"x"]) + data[match.end() :]
        return data[:at] + rng.choice(_TOKENS) + data[at:]


# --- documents as values and back -------------------------------------------------------------------


def _places(tree: Any) -> Iterator[Place]:
    waiting: list[tuple[Place, Any]] = [((), tree)]
    while waiting:
        place, value = waiting.pop()
        if place:
            yield place
        if isinstance(value, dict) and len(place) < 30:
            waiting += [((*place, key), inner) for key, inner in value.items()]
        elif isinstance(value, list) and len(place) < 30:
            waiting += [((*place, at), inner) for at, inner in enumerate(value[:60])]


def _at(tree: Any, place: Place) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def _json(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def _jsonl(data: bytes) -> Any:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def _as_jsonl(tree: Any) -> bytes:
    return b"".join(_json(line) + b"\n" for line in (tree if isinstance(tree, list) else [tree]))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(str(key))} = {_toml(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return str(value)
    return '""' if value is None else json.dumps(value)


def _as_toml(tree: Any) -> bytes:
    lines = (f"{json.dumps(str(key))} = {_toml(value)}\n" for key, value in tree.items())
    return "".join(lines).encode("utf-8", "surrogatepass")


def _cells(data: bytes) -> Any:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def _as_cells(tree: Any) -> bytes:
    stream = io.StringIO(newline="")
    rows = [row if isinstance(row, list) else [row] for row in tree]
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode("utf-8", "surrogatepass")


def _body(data: bytes) -> Any:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    return {"head": lines, "body": json.loads(body)}


def _as_answer(tree: Any) -> bytes:
    body = _json(tree.get("body"))
    head = "\r\n".join(map(str, tree.get("head", []))).encode("utf-8", "replace")
    return re.sub(rb"(?i)(content-length: )\d+", rb"\g<1>%d" % len(body), head) + b"\r\n\r\n" + body


def _as_yaml(tree: Any) -> bytes:
    return yaml.safe_dump(tree, allow_unicode=False, sort_keys=False).encode()


Form = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]
_FORMS: dict[str, Form] = {
    ".json": (json.loads, _json),
    ".jsonl": (_jsonl, _as_jsonl),
    ".toml": (lambda data: tomllib.loads(data.decode()), _as_toml),
    ".yaml": (yaml.safe_load, _as_yaml),
    ".csv": (_cells, _as_cells),
    ".http": (_body, _as_answer),
}


def _unzipped(name: str, data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {member: opened.read(member) for member in opened.namelist()}


def _zipped(parts: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for member, data in parts.items():
            made.writestr(zipfile.ZipInfo(member), data)
    return stream.getvalue()


_PACKED: dict[str, tuple[Callable[[str, bytes], dict[str, bytes]], Callable[..., bytes]]] = {
    ".gz": (
        lambda name, data: {name.removesuffix(".gz"): gzip.decompress(data)},
        lambda parts: gzip.compress(next(iter(parts.values())), mtime=0),
    ),
    ".eval": (_unzipped, _zipped),
}
