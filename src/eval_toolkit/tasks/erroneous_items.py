"""Handling of items that a dataset marks as erroneous: exclusion or correction."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.answers import Choices, right_choices
from eval_toolkit.tasks.types import Item

_NO_FLAG = "no mark"


@dataclasses.dataclass(slots=True)
class Flags:
    """Error marks of a dataset, and statistics of excluded and corrected items.

    ``ok`` contains the marks of items without errors; case, ``_`` and ``-`` are ignored. Marked
    items with exactly one correction are kept, and all others are excluded.

    Examples
    --------
    >>> item = Item({"error_type": "Wrong Groundtruth"})
    >>> Flags("error_type", ("ok",)).mark(item)
    'wrong groundtruth'
    """

    field: str
    ok: Sequence[str]
    correction: str | None = None
    n_items: int = 0
    """Number of items read from the sample split."""
    n_without: int = 0
    """Number of items in files without the error field, which are used as published."""
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    """Number of excluded items of the sample split, by mark."""
    corrected: dict[str, int] = dataclasses.field(default_factory=dict)
    """Zero-based index of the corrected choice, by unit id."""
    n_corrected: int = 0
    """Number of items in the sample split that are used with a correction."""

    def mark(self, item: Item) -> str:
        """Return the normalised mark of an item."""
        return _plain(item.get(self.field)) or _NO_FLAG

    def kept(
        self, items: Sequence[Item], choices: Callable[[Item], Choices], *, counted: bool
    ) -> list[Item]:
        """Return the items of a split and subject that can be used.

        ``choices`` returns the choices of a marked item that has a correction. With ``counted``,
        for the sample split, the items are included in `describe` and `notes`.
        """
        if not any(self.field in item for item in items):
            self.n_items += counted * len(items)
            self.n_without += counted * len(items)
            return list(items)
        fine = {_plain(mark) for mark in self.ok}
        left: Counter[str] = Counter()
        found, n_corrected = [], 0
        for item in items:
            mark = self.mark(item)
            if mark in fine:
                found.append(item)
            elif self._correct(item, choices):
                found.append(item)
                n_corrected += 1
            else:
                left[mark] += 1
        if not found:
            raise InvalidInputError(
                f"{items[0].place}: all items are excluded: the field {self.field!r} marks them as "
                f"{_counts(left)}, and only items marked {', '.join(map(repr, self.ok))} are used"
            )
        if counted:
            self.n_items += len(items)
            self.left_out += left
            self.n_corrected += n_corrected
        return found

    def _correct(self, item: Item, choices: Callable[[Item], Choices]) -> bool:
        """Store the correction of a marked item; return False unless there is exactly one."""
        given = None if self.correction is None else item.get(self.correction)
        if given is None or str(given).strip() == "":
            return False
        found, places = choices(item), set()
        for kind in ("text", "letter" if str(given).isalpha() else "index"):
            try:
                places.add(right_choices(given, found, kind, {}, item.place))
            except InvalidInputError:  # "A,C" is neither a letter nor the text of a choice
                continue
        if len(places) != 1:
            return False
        self.corrected[item.unit_id] = places.pop()
        return True

    def describe(self) -> dict[str, Any]:
        """Return the manifest entry, as a JSON-serialisable dict."""
        return {
            "field": self.field,
            "asked": list(self.ok),
            "correction": self.correction,
            "n_items": self.n_items,
            "n_without_field": self.n_without,
            "n_corrected": self.n_corrected,
            "n_left_out": dict(sorted(self.left_out.items())),
        }

    @property
    def notes(self) -> list[str]:
        """Return notes about excluded and corrected items."""
        notes = []
        if self.n_without:
            notes.append(
                f"{self.n_without} of {self.n_items} items have no field {self.field!r}, so it is "
                "unknown which of them are erroneous; they are graded with their published answers"
            )
        if n := self.left_out.total():
            notes.append(
                f"{n} of {self.n_items} items are excluded, because the field {self.field!r} "
                f"marks them as {_counts(self.left_out)}"
            )
        if self.n_corrected:
            notes.append(
                f"{self.n_corrected} of {self.n_items} items are graded with {self.correction!r} "
                "instead of their published answers"
            )
        return notes


def _plain(mark: Any) -> str:
    """Normalise a mark to lower case, with words separated by single spaces."""
    text = "" if mark is None else str(mark)
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


def _counts(left: Counter[str]) -> str:
    return ", ".join(
        f"{mark} ({n})" for mark, n in sorted(left.items(), key=lambda one: (-one[1], one[0]))
    )
