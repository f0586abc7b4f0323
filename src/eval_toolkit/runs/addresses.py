"""Addresses of cells: ``metric @ part / system``, as in ``roc_auc @ language=de / guard``.

Part and system may be omitted if there is no ambiguity; the part then defaults to the whole slice.
Spaces around ``@`` and the slash are optional. An ``@`` that is not followed by a part belongs to
the metric (``f1@0.5``, ``exact_match_pass@4``), and so does ``@fpr=`` without spaces around the
sign (``recall@fpr=0.01``, whereas ``recall @ fpr=0.01`` refers to a part by the column fpr).
Everything after the slash belongs to the system (``org/model``). A metric that contains a slash,
and any other ambiguous name, is written as a JSON string.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.scorecards.parts import PART_START, format_part, json_string, read_part

_AT_FPR = re.compile(r"\S@fpr=", re.IGNORECASE)
"""Matches the constraint in a metric such as ``recall@fpr=0.01``; see `metric_specs.names`."""
_QUOTED_SYSTEM = re.compile(r'/\s*"')


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a cell: its metric, part and system.

    Examples
    --------
    >>> address = Address.parse("exact_match @ subject=Africa / org/model-b")
    >>> address.metric, dict(address.part), address.system
    ('exact_match', {'subject': 'Africa'}, 'org/model-b')
    >>> print(Address("tox/mean", {"topic": "R&D"}, "m"))
    "tox/mean" @ topic="R&D" / m
    """

    metric: str
    part: Mapping[str, str] | None = None
    """Values that define the part; empty for the whole slice, None if not specified."""
    system: str | None = None
    """Scorer, model or target; None if not specified."""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse an address.

        Parameters
        ----------
        text : str
            ``metric``, ``metric @ part``, ``metric / system`` or ``metric @ part / system``.

        Returns
        -------
        Address
            Parsed address, whose ``str`` is the canonical form.

        Raises
        ------
        InvalidInputError
            If the string is not an address; the message gives the reason.

        Examples
        --------
        >>> Address.parse("pass@4@fold=3/m").metric, Address.parse("f1").part
        ('pass@4', None)
        >>> Address.parse("recall@fpr=0.01 @ language=de").metric
        'recall@fpr=0.01'
        """
        if not isinstance(text, str):
            raise InvalidTypeError(f"an address must be a string, got {text!r:.80}")
        metric, rest = _metric(text.strip())
        if not metric:
            raise _malformed(text, "it has no metric")
        part = None
        if rest.startswith("@"):
            part, rest = read_part(rest[1:])
        if not rest:
            return cls(metric, part)
        return cls(metric, part, _system(rest, text))

    def __str__(self) -> str:
        part = None if self.part is None else format_part(self.part)
        return written(self.metric, part, self.system)


def written(metric: str, part: str | None = None, system: str | None = None) -> str:
    """Format an address as a string, with names quoted if needed.

    ``part`` must be formatted by `format_part`.

    Examples
    --------
    >>> written("pass@4", "language=de", "org/model")
    'pass@4 @ language=de / org/model'
    """
    odd = _needs_quotes(metric) or "/" in metric or '"' in metric
    odd = odd or _part_sign(f"{metric} ", len(metric)) is not None
    text = json_string(metric) if odd else metric
    text += "" if part is None else f" @ {part}"
    if system is None:
        return text
    odd = _needs_quotes(system) or (part is None and "@" in system)
    return f"{text} / {json_string(system) if odd else system}"


def _needs_quotes(name: str) -> bool:
    return name != name.strip() or not name.isprintable() or not name or name[0] == '"'


def _part_sign(text: str, end: int) -> int | None:
    """Return the index of the first @, before a given position, that introduces a part."""
    at = text.find("@", 0, end)
    while at >= 0:
        if PART_START.match(text, at + 1) and not _AT_FPR.match(text, at - 1):
            return at
        at = text.find("@", at + 1, end)
    return None


def _metric(text: str) -> tuple[str, str]:
    """Split an address into the metric and the rest, which is empty, a part or a system."""
    if text.startswith('"'):
        name, rest = _string(text)
        if rest and rest[0] not in "@/":
            raise _malformed(text, f"expected @ or / after the metric, got {rest!r:.40}")
        return name, rest
    named = _QUOTED_SYSTEM.search(text)
    at = _part_sign(text, len(text) if named is None else named.start())
    if at is None:
        at = text.find("/")
    return (text, "") if at < 0 else (text[:at].strip(), text[at:])


def _system(rest: str, text: str) -> str:
    name = rest[1:].strip()
    if not name:
        raise _malformed(text, "no system after the slash")
    if not name.startswith('"'):
        return name
    system, rest = _string(name)
    if rest:
        raise _malformed(text, f"unexpected {rest!r:.40} after the system")
    return system


def _string(text: str) -> tuple[str, str]:
    try:
        name, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        raise _malformed(
            text, "a double quote is not closed, or a backslash is not part of a valid escape"
        ) from None
    return str(name), text[end:].strip()


def _malformed(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text.strip()!r:.200} is not the address of a cell: {why}; write metric @ part / system, as in "
        "roc_auc @ language=de / guard"
    )
