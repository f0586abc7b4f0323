"""What there is to say, whoever shows it: a page of tables and notes, for people and as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Page", "Table"]


@dataclass(frozen=True)
class Table:
    """A header and rows of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Page:
    """All that a command has to say, for people and as data."""

    title: str
    payload: Mapping[str, Any]
    """What ``--json`` prints."""
    lead: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
