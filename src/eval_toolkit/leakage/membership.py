"""Checks of split membership: groups in several splits, and overlapping time ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from eval_toolkit._internal import frames, validation
from eval_toolkit._internal.hashing import canonical_value
from eval_toolkit._internal.times import Clock, Times, read_times
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.leakage._parts import (
    EVIDENCE_CAP,
    BuiltInCheck,
    checked_severity,
    chosen_splits,
    count,
    in_order,
    names_tuple,
    nothing_found,
)
from eval_toolkit.leakage.findings import LeakageFinding, Severity
from eval_toolkit.slices import EvalSlice


def _column(split: str, part: EvalSlice, name: str, check: str) -> NDArray[Any]:
    try:
        return frames.column(part.df, name)
    except MissingColumnError as error:
        raise MissingColumnError(f"{check}: split {split!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class GroupLeakageCheck(BuiltInCheck):
    """LK007: a group (author, patient, template, session) with rows in more than one split.

    Parameters
    ----------
    group_col : str
        Column of group ids, compared as strings: 7 and "7" are the same group. Rows without an id
        belong to no group.
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of the finding.
    keep : {"none", "first"}, default "none"
        Rows of such a group to keep: none, or those in its first split (the training split, if the
        group occurs there). After a random split, nearly every group occurs in several splits;
        "first" then keeps the training data, but splitting again by group is better.
    train_split : str, default "train"
        Split that takes precedence for ``keep="first"``.

    Examples
    --------
    >>> train = EvalSlice("train", {"text": ["a", "b"], "label": [0, 1], "user": [7, 8]})
    >>> test = EvalSlice("test", {"text": ["c", "d"], "label": [0, 1], "user": [8, 9]})
    >>> finding = GroupLeakageCheck("user").validate({"train": train, "test": test})
    >>> finding.drop_indices, finding.evidence["violating_groups"]
    ({'train': [1], 'test': [0]}, ['8'])
    """

    group_col: str
    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    keep: Literal["none", "first"] = field(default="none", kw_only=True)
    train_split: str = field(default="train", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_splits", names_tuple(self.target_splits, "target_splits"))
        checked_severity(self.severity, "severity")
        validation.choice(self.keep, "keep", ("none", "first"))

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the rows of groups that occur in several splits; ``evidence`` lists the groups."""
        parts = in_order(chosen_splits(splits, self.target_splits, self.name), self.train_split)
        members: dict[str, dict[str, list[int]]] = {}
        without = 0
        for split, part in parts.items():
            groups = _column(split, part, self.group_col, self.name).astype(object).tolist()
            for row, group in enumerate(groups):
                if validation.is_missing(group):
                    without += 1
                    continue
                try:
                    hash(group)
                except TypeError:
                    raise InvalidTypeError(
                        f"{self.name}: split {split!r}: {self.group_col}[{row}] is {group!r}; "
                        "group ids must be strings, numbers or other hashable values"
                    ) from None
                # Some splits may have ids as text, or as floats because of missing values.
                members.setdefault(str(canonical_value(group)), {}).setdefault(split, []).append(
                    row
                )
        straddling = {group: rows for group, rows in members.items() if len(rows) > 1}
        return self._finding(straddling, without)

    def _finding(self, straddling: dict[str, dict[str, list[int]]], without: int) -> LeakageFinding:
        drop: dict[str, list[int]] = {}
        for by_split in straddling.values():
            for split, rows in list(by_split.items())[1 if self.keep == "first" else 0 :]:
                drop.setdefault(split, []).extend(rows)
        evidence: dict[str, Any] = {
            "group_col": self.group_col,
            "n_violating_groups": len(straddling),
            "violating_groups": list(straddling)[:EVIDENCE_CAP],
            "keep": self.keep,
            "n_without_group": without,
            "listed_at_most": EVIDENCE_CAP,
        }
        aside = f"; skipped {count(without, 'row')} without {self.group_col}" if without else ""
        if not straddling:
            message = f"no {self.group_col} in more than one split{aside}"
            return nothing_found(self, self.severity, evidence, message)
        n = sum(map(len, drop.values()))
        message = (
            f"{count(len(straddling), 'group')} of {self.group_col} in more than one split "
            f"({count(n, 'row')}){aside}"
        )
        ordered = {split: sorted(found) for split, found in drop.items()}
        return self.finding(self.severity, ordered, evidence, message, n)


@dataclass(frozen=True, slots=True)
class TemporalLeakageCheck(BuiltInCheck):
    """LK008: rows of a later split that precede the end of an earlier split.

    Parameters
    ----------
    time_col : str
        Column of times: numbers, dates, timestamps or ISO 8601 strings. Rows without a time are
        counted but not checked.
    split_order : sequence of str
        Splits from the earliest to the latest, at least two.
    severity : {"error", "warning", "info"}, default "error"
        Severity of the finding.

    Raises
    ------
    InvalidInputError
        If the order has fewer than two splits, a value is not a time, or numbers, dates and dates
        with a time zone are mixed.

    Notes
    -----
    Splits overlap if max(earlier) > min(later), where "earlier" combines all preceding splits; rows
    of the later split up to max(earlier) are then dropped. If max(earlier) = min(later), the
    order is unknown: such rows are not violations, but are reported in the message and in
    ``evidence["ties"]``. The splitters of `eval_toolkit.splits` do not produce ties.

    Examples
    --------
    >>> train = EvalSlice("train", {"text": ["a", "b"], "label": [0, 1], "day": [1, 5]})
    >>> test = EvalSlice("test", {"text": ["c", "d"], "label": [0, 1], "day": [4, 6]})
    >>> check = TemporalLeakageCheck("day", ["train", "test"])
    >>> check.validate({"train": train, "test": test}).drop_indices
    {'test': [0]}
    """

    time_col: str
    split_order: Sequence[str]
    severity: Severity = "error"

    def __post_init__(self) -> None:
        order = names_tuple(self.split_order, "split_order") or ()
        if len(order) < 2:
            raise InvalidInputError(
                f"`split_order` is {list(order)}; it must name at least two splits, earliest first"
            )
        object.__setattr__(self, "split_order", order)
        checked_severity(self.severity, "severity")

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the rows of later splits that are too early; ``evidence`` lists the overlaps."""
        parts = chosen_splits(splits, self.split_order, self.name)
        clocks: dict[Clock, str] = {}
        drop: dict[str, list[int]] = {}
        violations: list[dict[str, Any]] = []
        ties: list[dict[str, Any]] = []
        latest: Any = None
        without = 0
        for split in self.split_order:
            read = self._times(split, parts[split])
            rows, times = read.rows, read.values
            without += read.n - len(rows)
            if not len(rows):
                continue
            self._same_clock(clocks, read.kind, split)
            if latest is not None and latest > times.min():
                early = times <= latest
                drop[split] = rows[early].tolist()
                violations.append(
                    {
                        "split": split,
                        "max_earlier": str(latest),
                        "min_later": str(times.min()),
                        "n_rows": int(early.sum()),
                    }
                )
            elif latest is not None and latest == times.min():
                at_once = int((times == latest).sum())
                ties.append({"split": split, "time": str(latest), "n_rows": at_once})
            latest = times.max() if latest is None else max(latest, times.max())
        evidence = {
            "time_col": self.time_col,
            "split_order": list(self.split_order),
            "violations": violations,
            "ties": ties,
            "n_without_time": without,
        }
        aside = "".join(
            f"; {count(tie['n_rows'], 'row')} of {tie['split']} at {tie['time']}, the latest "
            f"{self.time_col} of an earlier split"
            for tie in ties
        )
        aside += f"; skipped {count(without, 'row')} without {self.time_col}" if without else ""
        if not violations:
            message = f"no {self.time_col} before the end of an earlier split{aside}"
            return nothing_found(self, self.severity, evidence, message)
        n = sum(map(len, drop.values()))
        where = ", ".join(f"{split} {len(found)}" for split, found in drop.items())
        message = f"{count(n, 'row')} not after the end of an earlier split ({where}){aside}"
        return self.finding(self.severity, drop, evidence, message, n)

    def _same_clock(self, clocks: "dict[Clock, str]", clock: Clock, split: str) -> None:
        clocks.setdefault(clock, split)
        if len(clocks) > 1:
            (kind, first), (other, second) = list(clocks.items())[:2]
            raise InvalidInputError(
                f"{self.name}: {self.time_col} is a {kind} in split {first!r} but a {other} in "
                f"{second!r}; they cannot be ordered"
            )

    def _times(self, split: str, part: EvalSlice) -> Times:
        values = _column(split, part, self.time_col, self.name)
        try:
            return read_times(values, self.time_col)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.name}: split {split!r}: {error}") from None
