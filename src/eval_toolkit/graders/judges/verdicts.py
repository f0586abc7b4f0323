"""Parsing of verdicts from judge replies; ambiguous replies are errors.

A reply without a verdict or with contradictory verdicts is an error that quotes the reply; no
number is ever guessed.

Verdict words are searched in the first and last line of a reply, ignoring case and markup:

- A word counts if it is isolated: it follows the start of the line or a sentence, a colon or a
  dash, and precedes punctuation or the end of the line. "Yes, it does", "It does. Yes." and
  "Verdict: yes" mean yes; "No doubt" and "not yes" are no verdicts.
- In a short reply with no other verdict word, a word after "the answer is", "the verdict is", "I'd
  say" and similar phrases also counts: "The answer is yes."
- Another verdict word before punctuation, preceded by at most two words, contradicts the verdict of
  the line: "Yes (or no)", "No, wait, yes" and "Yes/no" have no verdict.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.base import ColumnInfo, Grade

READ_LIMIT = 20_000
"""Maximum number of characters parsed, counted from the end of a reply."""
_SHOWN = 80
_MOST_OBJECTS = 500
"""Maximum number of opening braces tried as the start of an object."""
_MARKUP = " \t*_`\"'“”‘’()[]"
_CLOSING = "*_`\"'”’)]"
_ENDS = ".,:;!?"
_AFTER = re.compile(rf"\s*$|[{_ENDS}]|\s*[/–—]|\s+[-(]")
"""Allowed after a verdict word: nothing, punctuation, or a dash after a space."""
_BEFORE = re.compile(r"(?:^|[.:;!?–—]|(?:^|\s)-)$")
"""Allowed before a verdict word: nothing, the end of a sentence, a colon, or a dash."""
_LEADING = re.compile(r"[^.,:;!?()\[\]/–—]*$")
"""Matches the text after the last punctuation."""
_IS_SAID = re.compile(
    r"(?:(?:so|thus|hence|therefore|overall) )?(?:the |my |our )?"
    r"(?:final |overall |correct |right |short |best )?"
    r"(?:answer|verdict|judge?ment|decision|conclusion|assessment|evaluation|rating|label|result)"
    r" (?:is|would be|should be)"
    r"|(?:so )?i(?:['’]d| would)? (?:say|answer|reply)"
)
"""Allowed before a verdict word in a short reply."""
_SHORT_REPLY = 25
"""Maximum number of words of a short reply."""
_NEAR = 80
"""Number of characters inspected around a word."""
_FEW = 2
"""Maximum number of words before a verdict word that contradicts the verdict."""
_IN_BRACKETS = re.compile(r"\[\[([^\[\]]{1,100})\]\]")
_NUMBER = re.compile(r"[-+]?\d{1,12}(?:\.\d{1,12})?")
_WHERE = ("label", "json", "brackets", "tag")


class _UnreadableError(InvalidInputError):
    """Raised when no verdict can be parsed; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Verdict format: one of several words, each mapped to a number.

    Parameters
    ----------
    numbers : mapping of str to float
        Mapping of at least two words to numbers; case is ignored.
    higher_is_better : bool or None, default True
        Whether higher values are better; None if neither direction is better.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are fewer than two words, one is empty, or two differ only in case.

    Examples
    --------
    >>> Labels({"yes": 1, "no": 0}).read("No")
    0.0
    """

    numbers: Mapping[str, float]
    higher_is_better: bool | None = True

    def __post_init__(self) -> None:
        if not isinstance(self.numbers, Mapping):
            raise InvalidTypeError(f"`numbers` is {self.numbers!r}; it must map words to numbers")
        read = {
            _plain(word): validation.number(value, f"numbers[{word!r}]")
            for word, value in self.numbers.items()
        }
        if len(read) < 2 or len(read) != len(self.numbers) or "" in read:
            raise InvalidInputError(
                f"`numbers` has the words {', '.join(map(repr, self.numbers)) or 'none'}; it needs "
                "at least two that differ in more than case"
            )
        object.__setattr__(self, "numbers", read)

    @property
    def info(self) -> ColumnInfo:
        """Description of the column of verdicts."""
        values = list(self.numbers.values())
        bounds = (min(values), max(values))
        return ColumnInfo(self.higher_is_better, bounds, binary=set(values) == {0.0, 1.0})

    @property
    def asked(self) -> str:
        """Instruction to the judge."""
        *most, last = self.numbers
        return f"{', '.join(most)} or {last}"

    def read(self, value: Any) -> float:
        """Return the number mapped to a word; true and false count as yes and no."""
        spellings = {True: ("true", "yes"), False: ("false", "no")}
        words = spellings[value] if isinstance(value, bool) else (_plain(str(value)),)
        for word in words:
            if word in self.numbers:
                return self.numbers[word]
        raise _UnreadableError(f"it is not one of {', '.join(self.numbers)}")

    def said_in(self, reply: str) -> list[str]:
        """Return the verdict words in a reply, including words that contradict each other.

        Parameters
        ----------
        reply : str
            Reply of the judge; only its first and last lines are parsed.

        Returns
        -------
        list of str
            Verdict words. The list is empty if there is no verdict; contradictory words have
            different numbers.

        Examples
        --------
        >>> labels = Labels({"yes": 1, "no": 0})
        >>> labels.said_in("Yes, no doubt."), labels.said_in("Yes (or no)")
        (['yes'], ['yes', 'no'])
        """
        lines = [" ".join(line.casefold().split()) for line in reply.strip().splitlines()]
        lines = [line for line in lines if line]
        find = _words(tuple(self.numbers)).finditer
        short = len(reply.split()) <= _SHORT_REPLY
        alone = len({self.numbers[place[0]] for line in lines for place in find(line)}) == 1
        found: list[str] = []
        for line in dict.fromkeys(lines[:1] + lines[-1:]):
            said, against = [], []
            for place in find(line):
                stands = _occurrence(line, *place.span())
                if stands == "alone" or (stands == "introduced" and short and alone):
                    said.append(place[0])
                elif stands:
                    against.append(place[0])
            found += [*said, *against] if said else []
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {"labels": dict(self.numbers), "higher_is_better": self.higher_is_better}


@dataclass(frozen=True, slots=True)
class Scale:
    """Verdict format: a number in a range.

    Parameters
    ----------
    low, high : float
        Bounds of the range; numbers outside are invalid.
    scaled : bool, default True
        Whether to rescale the column to the range 0 to 1.
    higher_is_better : bool or None, default True
        Whether higher values are better; None if neither direction is better.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``high`` is not above ``low``.

    Examples
    --------
    >>> Scale(1, 5).read("4"), Scale(1, 5, scaled=False).read("4/5")
    (0.75, 4.0)
    """

    low: float
    high: float
    scaled: bool = True
    higher_is_better: bool | None = True

    def __post_init__(self) -> None:
        low = validation.number(self.low, "low")
        object.__setattr__(self, "low", low)
        high = validation.number(self.high, "high", low=low, include_low=False)
        object.__setattr__(self, "high", high)

    @property
    def info(self) -> ColumnInfo:
        """Description of the column of verdicts."""
        bounds = (0.0, 1.0) if self.scaled else (self.low, self.high)
        return ColumnInfo(self.higher_is_better, bounds)

    @property
    def asked(self) -> str:
        """Instruction to the judge."""
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, value: Any) -> float:
        """Return the number; raise an error if it is not a number or out of range."""
        text = "" if isinstance(value, bool) else str(value).strip()
        number, slash, most = text.partition("/")
        if not _NUMBER.fullmatch(number.strip()) or (slash and most.strip() != f"{self.high:g}"):
            raise _UnreadableError(f"it is not {self.asked}")
        found = float(number)
        if not self.low <= found <= self.high:
            raise _UnreadableError(f"{found:g} is not between {self.low:g} and {self.high:g}")
        return (found - self.low) / (self.high - self.low) if self.scaled else found

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        ends = [self.low, self.high]
        return {"scale": ends, "scaled": self.scaled, "higher_is_better": self.higher_is_better}


@dataclass(frozen=True, slots=True)
class VerdictFormat:
    """Location of the verdict in a reply, and the format of each field.

    Parameters
    ----------
    where : {"label", "json", "brackets", "tag"}
        "label": an isolated word in the first or last line, as described in this module. "json":
        the fields of an object. "brackets": ``[[7]]``. "tag": ``<name>7</name>``.
    fields : mapping of str to Labels or Scale
        Format of each field, by name. "label" and "brackets" have one field.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is invalid or there are too many fields.

    Examples
    --------
    >>> form = VerdictFormat("brackets", {"rating": Scale(1, 10, scaled=False)})
    >>> form.read("Clear and short. [[8]]")["rating"].value
    8.0
    >>> form.read("Clear and short.")["rating"].reason
    "unparsable verdict: there is no [[…]]: 'Clear and short.'"
    """

    where: str
    fields: Mapping[str, Labels | Scale]

    def __post_init__(self) -> None:
        validation.choice(self.where, "where", _WHERE)
        if not isinstance(self.fields, Mapping) or not self.fields:
            raise InvalidTypeError(
                f"`fields` is {self.fields!r}; it must map names to Labels or Scale"
            )
        for name, reading in self.fields.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise InvalidInputError(f"a field is named {name!r}; it must be an identifier")
            if not isinstance(reading, (Labels, Scale)):
                raise InvalidTypeError(
                    f"fields[{name!r}] is {reading!r}; it must be Labels or a Scale"
                )
        if self.where in ("label", "brackets") and len(self.fields) > 1:
            raise InvalidInputError(
                f"`fields` has {len(self.fields)} fields, but {self.where!r} allows only one; use "
                "'json' or 'tag'"
            )
        if self.where == "label" and not isinstance(next(iter(self.fields.values())), Labels):
            raise InvalidInputError(
                "`where` is 'label', but the field is not a Labels; use 'brackets'"
            )
        object.__setattr__(self, "fields", dict(self.fields))

    @property
    def asked(self) -> str:
        """Instruction to the judge about the reply format."""
        first = next(iter(self.fields.values()))
        if self.where == "label":
            return f"Reply with one word and nothing else: {first.asked}."
        if self.where == "brackets":
            return f"End your reply with the verdict in double brackets, {first.asked}: [[verdict]]"
        if self.where == "tag":
            tags = "\n".join(f"<{name}>{one.asked}</{name}>" for name, one in self.fields.items())
            return f"End your reply with:\n{tags}"
        parts = ", ".join(f'"{name}": {one.asked}' for name, one in self.fields.items())
        return f"Reply with one JSON object and nothing else: {{{parts}}}"

    def read(self, text: str) -> dict[str, Grade]:
        """Parse the number of each field; the grade is an error if parsing fails.

        Parameters
        ----------
        text : str
            Reply of the judge; its last 20,000 characters are parsed.

        Returns
        -------
        dict of str to Grade
            Grade of each field, "ok" or "error".
        """
        part = text[-READ_LIMIT:]
        pairs = [pair for one in _objects(part) for pair in one] if self.where == "json" else []
        return {name: self._read(name, part, pairs) for name in self.fields}

    def _read(self, name: str, text: str, pairs: list[tuple[str, Any]]) -> Grade:
        try:
            found = self._found(name, text, pairs)
            numbers = {self.fields[name].read(value) for value in found}
            if len(numbers) > 1:
                raise _UnreadableError("it contains two verdicts")
            return Grade(numbers.pop())
        except _UnreadableError as why:
            return Grade.error(f"unparsable verdict: {why}: {short_cut(text)}")

    def _found(self, name: str, text: str, pairs: list[tuple[str, Any]]) -> list[Any]:
        """Return the substrings of a reply that may be the verdict of a field."""
        reading = self.fields[name]
        if isinstance(reading, Labels) and self.where == "label":
            found: list[Any] = list(reading.said_in(text))
            missing = f"neither its first nor its last line is {reading.asked}"
        elif self.where == "json":
            found = [value for key, value in pairs if key == name]
            missing = f"there is no JSON object with {name!r}"
        elif self.where == "tag":
            found = re.findall(rf"<{name}>([^<>]{{1,100}})</{name}>", text, re.IGNORECASE)
            missing = f"there is no <{name}>…</{name}>"
        else:
            found = _IN_BRACKETS.findall(text)
            missing = "there is no [[…]]"
        if not found:
            raise _UnreadableError(missing)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        fields = {name: reading.to_dict() for name, reading in self.fields.items()}
        return {"where": self.where, "fields": fields}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "VerdictFormat":
        """Create a format from a mapping with ``where``, and ``labels``, ``scale`` or ``fields``.

        Parameters
        ----------
        given : mapping
            ``labels`` (word to number) or ``scale`` (two bounds), with optional ``scaled`` and
            ``higher_is_better``, define one field named "verdict"; ``fields`` contains such
            mappings by name.

        Returns
        -------
        VerdictFormat
            Format described by the mapping.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the mapping is invalid.

        Examples
        --------
        >>> VerdictFormat.from_dict({"labels": {"yes": 1, "no": 0}}).where
        'label'
        """
        table = dict(given)
        where = table.pop("where", None)
        fields = table.pop("fields", None)
        if fields is not None and (table or not isinstance(fields, Mapping)):
            raise InvalidInputError(
                f"`fields` is {fields!r:.60}; it must map field names to mappings, and be the "
                f"only key"
            )
        read = {name: _reading(one) for name, one in (fields or {"verdict": table}).items()}
        if where is None:
            one = next(iter(read.values()), None)
            where = "json" if len(read) > 1 else "label" if isinstance(one, Labels) else "brackets"
        return cls(where, read)


def _reading(given: Any) -> Labels | Scale:
    table = dict(given) if isinstance(given, Mapping) else {}
    kinds = [name for name in ("labels", "scale") if name in table]
    if len(kinds) != 1:
        raise InvalidInputError(
            f"the verdict {given!r:.60} needs `labels` (word to number) or `scale` (two bounds)"
        )
    (kind,) = kinds
    definition = table.pop(kind)
    unknown = sorted(table.keys() - {"higher_is_better", *(["scaled"] if kind == "scale" else [])})
    if unknown:
        raise InvalidInputError(f"a verdict with {kind} has no option {unknown[0]!r}")
    if kind == "labels":
        return Labels(definition, **table)
    if not isinstance(definition, (list, tuple)) or len(definition) != 2:
        raise InvalidInputError(
            f"`scale` is {definition!r}; it must have two bounds, such as [1, 10]"
        )
    return Scale(*definition, **table)


def _plain(word: Any) -> str:
    return str(word).strip(_MARKUP + _ENDS + "\n").casefold()


@lru_cache(maxsize=64)
def _words(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds words in a line, longest first, but not parts of numbers."""
    longest = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.compile(rf"(?<!\w)(?<!\d[.,:/])(?:{longest})(?!\w)(?!(?<=\d)[.,:/]\d)")


def _occurrence(line: str, start: int, end: int) -> str:
    """Return how a word occurs: "alone", "introduced" by a phrase, "near" punctuation, or ""."""
    if not _AFTER.match(line[end : end + _NEAR].lstrip(_CLOSING)):
        return ""  # "No doubt about it" does not mean "no"
    before = line[max(0, start - _NEAR) : start].rstrip(_MARKUP)
    if _BEFORE.search(before):
        return "alone"
    leading = _LEADING.findall(before)[0].strip(_MARKUP)
    if _IS_SAID.fullmatch(leading):
        return "introduced"
    return "near" if len(leading.split()) <= _FEW else ""


def _objects(text: str) -> Iterator[list[tuple[str, Any]]]:
    """Yield the outermost JSON objects in a string as lists of pairs, since keys may repeat."""
    decoder = json.JSONDecoder(object_pairs_hook=list)
    at = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        end = at + 1
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = []  # unparsable parts are skipped
        yield found
        at = text.find("{", end)


def short_cut(text: str, most: int = _SHOWN) -> str:
    """Return the end of a string, where verdicts usually are, quoted on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else f"…{line[1 - most :]}") if line else "nothing"
