"""Shared code of the built-in checks: selecting and ordering splits, and copies of rows."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.leakage.findings import LEAKAGE_CODES, SEVERITIES, LeakageFinding, Severity
from eval_toolkit.slices import EvalSlice

Scope: TypeAlias = Literal["both", "within", "across"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

EVIDENCE_CAP = 100
"""Maximum length of lists in the evidence of a finding; counts always include all entries."""


class BuiltInCheck:
    """Name, code and version of a built-in check."""

    __slots__ = ()
    version: ClassVar[str] = "1"

    @property
    def name(self) -> str:
        """Name of the check in findings."""
        return type(self).__name__

    @property
    def code(self) -> str:
        """Stable code of the check, see `LEAKAGE_CODES`."""
        return LEAKAGE_CODES[type(self).__name__]

    def finding(
        self,
        severity: Severity,
        drop_indices: dict[str, list[int]] | None,
        evidence: dict[str, Any],
        message: str,
        n_affected: int,
    ) -> LeakageFinding:
        """Return a finding of this check."""
        return LeakageFinding(
            self.name, severity, drop_indices, evidence, message, n_affected, self.code
        )


def nothing_found(
    check: BuiltInCheck, severity: Severity, evidence: dict[str, Any], message: str
) -> LeakageFinding:
    """Return an empty finding."""
    return check.finding(severity, {}, evidence, message, 0)


def count(n: int, what: str) -> str:
    """Return a count with a noun: ``1 row``, ``2 rows``, ``3 copies``."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"1 {what}" if n == 1 else f"{n or 'no'} {many}"


def most_severe(severities: Iterable[Severity]) -> Severity:
    """Return the most severe of several severities."""
    return min(severities, key=SEVERITIES.index)


def checked_severity(severity: str, name: str) -> None:
    """Raise if the severity is invalid."""
    validation.choice(severity, name, SEVERITIES)


def names_tuple(names: Sequence[str] | None, argument: str) -> tuple[str, ...] | None:
    """Return names as a tuple; raise for a bare string."""
    if names is None:
        return None
    if isinstance(names, str):
        raise InvalidTypeError(f"`{argument}` is the string {names!r}; pass a list of names")
    result = tuple(names)
    if len(set(result)) < len(result):
        raise InvalidInputError(f"`{argument}` contains duplicate names: {list(result)}")
    return result


def chosen_splits(
    splits: Mapping[str, Any], names: Sequence[str] | None, check: str
) -> dict[str, EvalSlice]:
    """Return the named splits (all by default) in the order of the mapping."""
    if not isinstance(splits, Mapping):
        raise InvalidTypeError(
            f"`splits` is a {type(splits).__name__}; pass a dict of split name to EvalSlice"
        )
    for name in names or ():
        if name not in splits:
            raise MissingColumnError(
                f"{check}: there is no split {name!r}; the splits are "
                f"{', '.join(map(repr, splits)) or 'none'}"
            )
    chosen = {name: part for name, part in splits.items() if names is None or name in names}
    for name, part in chosen.items():
        if not isinstance(part, EvalSlice):
            raise InvalidTypeError(
                f"splits[{name!r}] is a {type(part).__name__}; wrap it: EvalSlice({name!r}, df)"
            )
    return chosen


def in_order(splits: Mapping[str, EvalSlice], train_split: str) -> dict[str, EvalSlice]:
    """Return the splits in order of precedence, starting with the training split.

    Copies in the first split are kept.
    """
    first = {train_split: splits[train_split]} if train_split in splits else {}
    return first | dict(splits)


def texts_of(split: str, part: EvalSlice, check: str) -> list[str]:
    """Return the features of a split as strings; raise for non-string features."""
    if not isinstance(part.feature_col, str):
        raise InvalidTypeError(
            f"split {split!r} has several feature columns; {check} compares texts "
            "(use ExactDuplicateCheck for other values)"
        )
    texts = part.inputs
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            missing = validation.is_missing(text)
            fix = "drop or fill it first" if missing else "use ExactDuplicateCheck for other values"
            what = "missing" if missing else f"{text!r}, not text"
            raise InvalidTypeError(
                f"split {split!r}: {part.feature_col}[{row}] is {what}; {check} compares texts ({fix})"
            )
    return texts


@dataclass(slots=True)
class Copies:
    """Rows to drop and the rows they duplicate, by split."""

    within: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Pairs (row to drop, kept row of the same split), by split."""
    across: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    """Triples (row to drop, split of the kept row, kept row), by split."""

    def add_within(self, split: str, row: int, kept: int) -> None:
        """Add a row that duplicates a row of the same split."""
        self.within.setdefault(split, []).append((row, kept))

    def add_across(self, split: str, row: int, kept_split: str, kept: int) -> None:
        """Add a row that duplicates a row of an earlier split."""
        self.across.setdefault(split, []).append((row, kept_split, kept))

    def drop_indices(self) -> dict[str, list[int]]:
        """Return the sorted rows to drop, by split."""
        rows: dict[str, set[int]] = {}
        for split, pairs in self.within.items():
            rows.setdefault(split, set()).update(row for row, _ in pairs)
        for split, triples in self.across.items():
            rows.setdefault(split, set()).update(row for row, _, _ in triples)
        return {split: sorted(found) for split, found in rows.items()}

    def evidence(self, within_key: str) -> dict[str, Any]:
        """Return the numbers of copies, and lists of the first copies."""
        within = {split: sorted(pairs) for split, pairs in self.within.items()}
        across = {split: sorted(triples) for split, triples in self.across.items()}
        listed = [
            {"split": split, "row": row, "copy_of": {"split": kept_split, "row": kept}}
            for split, triples in across.items()
            for row, kept_split, kept in triples[:EVIDENCE_CAP]
        ]
        return {
            "within": {split: len(pairs) for split, pairs in within.items()},
            "across": {split: len(triples) for split, triples in across.items()},
            within_key: {
                split: [list(pair) for pair in pairs[:EVIDENCE_CAP]]
                for split, pairs in within.items()
            },
            "across_splits": listed[:EVIDENCE_CAP],
            "listed_at_most": EVIDENCE_CAP,
        }

    def finding(
        self,
        check: BuiltInCheck,
        within_key: str,
        what: str,
        severities: tuple[Severity, Severity],
        evidence: dict[str, Any] | None = None,
    ) -> LeakageFinding:
        """Return the finding; ``severities`` apply to copies within and across splits."""
        drop = self.drop_indices()
        known = self.evidence(within_key) | (evidence or {})
        n = sum(map(len, drop.values()))
        if not n:
            return nothing_found(check, severities[0], known, count(0, what))
        present = [
            severity
            for severity, found in zip(severities, (self.within, self.across), strict=True)
            if found
        ]
        where = [f"{len(pairs)} within {split}" for split, pairs in self.within.items()]
        for split, triples in self.across.items():
            sources = Counter(kept_split for _, kept_split, _ in triples)
            where += [f"{n_rows} in {split} from {source}" for source, n_rows in sources.items()]
        message = f"{count(n, what)} ({', '.join(where)})"
        return check.finding(most_severe(present), drop, known, message, n)


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Concatenated rows of several splits, with equal codes for equal rows."""

    splits: list[str]
    owner: IntArray
    """Index into ``splits`` of each row's split."""
    row: IntArray
    """Row number within the split."""
    code: IntArray
    """Code of each row, equal for equal rows."""

    def code_within(self) -> IntArray:
        """Return codes that are equal only for equal rows of the same split."""
        combined = self.code * len(self.splits) + self.owner
        codes: IntArray = np.unique(combined, return_inverse=True)[1]
        return codes

    def rows_by_split(self, at: NDArray[Any]) -> dict[str, list[int]]:
        """Return the selected rows by split; ``at`` contains positions or a mask."""
        owner, row = self.owner[at], self.row[at]
        found = {split: row[owner == place] for place, split in enumerate(self.splits)}
        return {split: rows.tolist() for split, rows in found.items() if len(rows)}


def equal_rows(keys: Mapping[str, Sequence[Hashable]]) -> EqualRows:
    """Return the rows of all splits, with one code per distinct key."""
    sizes = [len(values) for values in keys.values()]
    return EqualRows(
        list(keys),
        np.repeat(np.arange(len(sizes)), sizes),
        np.concatenate([np.arange(size) for size in [0, *sizes]]),
        _codes(list(chain.from_iterable(keys.values()))),
    )


def _codes(keys: list[Hashable]) -> IntArray:
    """Return, for each row, the first row with the same key.

    Only rows with a repeated hash are compared by key, because sorting hashes is cheaper than a
    dict of a million strings.
    """
    hashes = np.fromiter(map(hash, keys), dtype=np.int64, count=len(keys))
    _, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    codes = np.arange(len(keys))
    first: dict[Hashable, int] = {}
    for row in np.flatnonzero(counts[places] > 1).tolist():
        codes[row] = first.setdefault(keys[row], row)
    return codes


def _first(codes: IntArray) -> IntArray:
    """Return, for each row, the first row with the same code."""
    first = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment wins, i.e. the first row
    return first[codes]


def bucket_copies(keys: Mapping[str, Sequence[Hashable]], scope: Scope) -> Copies:
    """Return the rows that share a key with an earlier row.

    Splits are in order of precedence. Among rows with equal keys, the first row of each split is kept
    within the split, and the rows of the first split are kept across splits.
    """
    rows = equal_rows(keys)
    first, first_in_split = _first(rows.code), _first(rows.code_within())
    later = first_in_split != np.arange(len(first))
    foreign = rows.owner[first] != rows.owner
    copies = Copies()
    for place, split in enumerate(rows.splits):
        mine = rows.owner == place
        at = np.flatnonzero(mine & later)
        if scope != "across" and len(at):
            kept = first_in_split[at]
            copies.within[split] = _zipped(rows.row[at], rows.row[kept])
        at = np.flatnonzero(mine & foreign)
        if scope != "within" and len(at):
            kept = first[at]
            names = np.array(rows.splits, dtype=object)[rows.owner[kept]]
            copies.across[split] = _zipped(rows.row[at], names, rows.row[kept])
    return copies


def _zipped(*columns: NDArray[Any]) -> list[Any]:
    return list(zip(*(column.tolist() for column in columns), strict=True))
