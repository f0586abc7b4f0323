"""Contracts for loaders, leakage checks, splitters, pools and readers."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eval_toolkit._internal import frames as _frames
from eval_toolkit.errors import EvalToolkitError, LeakageError
from eval_toolkit.leakage import LeakageFinding, drop_until_clean
from eval_toolkit.protocols import (
    DatasetLoader,
    LeakageCheck,
    PoolBuilder,
    PredictionReader,
    Splitter,
)
from eval_toolkit.slices import EvalSlice
from eval_toolkit.testing.inputs import ODD_TEXTS, leaky_splits, parent_slice
from eval_toolkit.testing.rules import (
    Suite,
    check_json,
    check_keys,
    describes_itself,
    expect,
    has_members,
    is_named,
    version_if_any,
)

__all__ = ["LEAKAGE_CHECK", "LOADER", "POOL_BUILDER", "PREDICTION_READER", "SPLITTER"]

_ROLES = ("feature_col", "label_col", "strata_col", "group_col", "id_col", "time_col")
_CROISSANT = ("name", "description", "citeAs", "license", "url", "distribution")


def _rows_of(part: EvalSlice) -> list[tuple[Any, ...]]:
    """Return the rows of a slice as tuples of input, label and other roles."""
    roles = (part.ids, part.groups, part.strata, part.times)
    told = [[None] * part.n if role is None else role.tolist() for role in roles]
    return list(zip(part.content_hashes, *told, strict=True))


def _all_rows_of(splits: Mapping[str, EvalSlice]) -> dict[str, list[tuple[Any, ...]]]:
    return {name: _rows_of(part) for name, part in splits.items()}


# --- loaders ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Nothing:
    """Empty inputs: loaders provide their own data."""


def returns_named_slices(loader: Any, given: _Nothing) -> None:
    """`load_splits` returns a non-empty dict of non-empty slices, keyed by their names."""
    splits = loader.load_splits()
    expect(isinstance(splits, Mapping) and splits, "`load_splits()`", splits)
    for name, part in splits.items():
        expect(isinstance(name, str) and name, "the name of a split", name)
        expect(isinstance(part, EvalSlice), f"the split {name!r}", part)
        expect(part.name == name, f"the split {name!r}", f"a slice named {part.name!r}")
        expect(part.n, f"the split {name!r}", "no row")


def loading_is_deterministic(loader: Any, given: _Nothing) -> None:
    """Repeated loads return the same rows in the same order with the same ids."""
    first, again = _all_rows_of(loader.load_splits()), _all_rows_of(loader.load_splits())
    expect(first == again, "`load_splits()` twice", "other rows")


def result_is_independent(loader: Any, given: _Nothing) -> None:
    """Modifying the returned dict does not affect later loads."""
    first = loader.load_splits()
    names = list(first)
    if isinstance(first, dict):
        first.clear()
    again = list(loader.load_splits())
    expect(again == names, f"the splits {names}", again)


def description_is_croissant(loader: Any, given: _Nothing) -> None:
    """`describe()` returns Croissant metadata, including a list of files and a non-blank name."""
    told = loader.describe()
    lacking = [key for key in _CROISSANT if key not in told]
    expect(not lacking, f"the keys {', '.join(_CROISSANT)}", f"no {', '.join(lacking)}")
    expect(isinstance(told["distribution"], list), "`distribution`", told["distribution"])
    expect(isinstance(told["name"], str) and told["name"].strip(), "`name`", told["name"])


LOADER = Suite(
    "loader",
    (
        has_members(DatasetLoader),
        version_if_any,
        returns_named_slices,
        loading_is_deterministic,
        result_is_independent,
        describes_itself,
        description_is_croissant,
    ),
    _Nothing,
)


# --- leakage checks -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Splits:
    """Splits that contain leakage."""

    splits: Mapping[str, EvalSlice] = field(default_factory=leaky_splits)

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", dict(self.splits))

    def with_texts(self, texts: Sequence[str]) -> dict[str, EvalSlice] | None:
        """Return the splits with some texts replaced; None if rows are not texts."""
        changed = {}
        for name, part in self.splits.items():
            if not isinstance(part.feature_col, str) or part.n < len(texts):
                return None
            column = [*texts, *part.features[len(texts) :]]
            frame = _frames.with_column(part.df, part.feature_col, np.array(column, dtype=object))
            changed[name] = replace(part, df=frame)
        return changed


def returns_finding(check: Any, given: _Splits) -> None:
    """`validate` returns a LeakageFinding with the check's name and a one-line message."""
    found = check.validate(given.splits)
    expect(isinstance(found, LeakageFinding), "splits", found)
    expect(found.check_name == check.name, f"the name {check.name!r}", found.check_name)
    message = found.message
    expect(isinstance(message, str) and message and "\n" not in message, "`message`", message)


def accepts_any_splits(check: Any, given: _Splits) -> None:
    """Single or renamed splits are validated, or rejected with an EvalToolkitError."""
    renamed = {f"part {n}": p for n, p in enumerate(given.splits.values())}
    for splits in ({"part 0": renamed["part 0"]} if renamed else {}, renamed):
        mine = {name: part.renamed(name) for name, part in splits.items()}
        try:
            found = check.validate(mine)
        except EvalToolkitError:
            continue
        expect(isinstance(found, LeakageFinding), f"the splits {list(mine)}", found)


def flagged_rows_exist(check: Any, given: _Splits) -> None:
    """The rows to drop exist in the splits and are listed only once."""
    for split, rows in (check.validate(given.splits).drop_indices or {}).items():
        expect(split in given.splits, f"the splits {list(given.splits)}", f"rows of {split!r}")
        n = given.splits[split].n
        expect(all(0 <= row < n for row in rows), f"{n} rows in {split!r}", rows)
        expect(len(set(rows)) == len(rows), f"unique rows of {split!r}", rows)


def counts_flagged_rows(check: Any, given: _Splits) -> None:
    """`n_affected` is at least the number of rows to drop."""
    found = check.validate(given.splits)
    if found.drop_indices is not None:
        named = sum(map(len, found.drop_indices.values()))
        expect(found.n_affected >= named, f"{named} rows to drop", found.n_affected)


def accepts_empty_splits(check: Any, given: _Splits) -> None:
    """Splits without rows are accepted and have no findings."""
    found = check.validate({name: part.take([]) for name, part in given.splits.items()})
    expect(found.n_affected == 0, "splits without rows", found.n_affected)
    rows = [row for at in (found.drop_indices or {}).values() for row in at]
    expect(not rows, "splits without rows", rows)


def finding_is_json(check: Any, given: _Splits) -> None:
    """The finding can be serialised as strict JSON with string keys."""
    found = check.validate(given.splits)
    check_json(found.to_dict(), "`to_dict()` of the finding")
    check_keys(found.evidence, "`evidence`")


def finding_is_deterministic(check: Any, given: _Splits) -> None:
    """The same splits give the same finding."""
    first, again = (check.validate(given.splits).to_dict() for _ in range(2))
    expect(first == again, "the same splits", (first, again))


def does_not_modify_splits(check: Any, given: _Splits) -> None:
    """Validation modifies neither the splits nor their rows."""
    mine = dict(given.splits)
    frames = {name: copy.deepcopy(part.df) for name, part in mine.items()}
    check.validate(mine)
    expect(list(mine) == list(given.splits), list(given.splits), list(mine))
    for name, part in given.splits.items():
        for column in _frames.names(frames[name]):
            before, after = _frames.column(frames[name], column), _frames.column(part.df, column)
            expect(before.tolist() == after.tolist(), f"{column!r} of {name!r}", after.tolist())


def dropping_removes_findings(check: Any, given: _Splits) -> None:
    """Dropping the flagged rows, in at most five rounds, leaves no rows to drop."""
    found = check.validate(given.splits)
    if found.drop_indices is None:
        return
    try:
        drop_until_clean([check], given.splits, max_rounds=5)
    except LeakageError as error:
        expect(False, "splits without the flagged rows", str(error))


def checks_unusual_texts(check: Any, given: _Splits) -> None:
    """Empty, long and unusual texts are validated like any other."""
    n = min((part.n for part in given.splits.values()), default=0)
    for start in range(0, len(ODD_TEXTS), max(n, 1)):
        splits = given.with_texts(ODD_TEXTS[start : start + n])
        if splits is not None:
            found = check.validate(splits)
            expect(isinstance(found, LeakageFinding), "odd texts", found)


LEAKAGE_CHECK = Suite(
    "leakage_check",
    (
        has_members(LeakageCheck),
        is_named,
        version_if_any,
        returns_finding,
        accepts_any_splits,
        flagged_rows_exist,
        counts_flagged_rows,
        accepts_empty_splits,
        finding_is_json,
        finding_is_deterministic,
        does_not_modify_splits,
        dropping_removes_findings,
        checks_unusual_texts,
    ),
    _Splits,
)


# --- splitters and pools ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parent:
    """Rows to split."""

    slice_: EvalSlice = field(default_factory=parent_slice)
    groups: Any = None

    def folds(self, splitter: Any) -> list[Any]:
        """Return the folds of a splitter."""
        return list(splitter.iter_folds(self.slice_, groups=self.groups))


def _counted(parts: Iterable[EvalSlice]) -> Counter[str]:
    """Count how often each row occurs in the given parts, by id or by content."""
    rows: Counter[str] = Counter()
    for part in parts:
        rows.update(part.content_hashes if part.ids is None else part.ids.tolist())
    return rows


def folds_are_dicts_of_slices(splitter: Any, given: _Parent) -> None:
    """Every fold is a dict with non-empty slices under "train" and "test"."""
    folds = given.folds(splitter)
    if given.groups is None:
        folds += splitter.iter_folds(given.slice_)  # `groups` must be optional
    for number, fold in enumerate(folds):
        expect(isinstance(fold, Mapping), f"fold {number}", fold)
        for name in ("train", "test"):
            part = fold.get(name)
            expect(isinstance(part, EvalSlice), f"{name!r} of fold {number}", part)
            expect(part.n, f"{name!r} of fold {number}", "no row")


def number_of_folds_matches(splitter: Any, given: _Parent) -> None:
    """`get_n_splits` returns the number of folds, which is at least one."""
    told, n = splitter.get_n_splits(given.slice_), len(given.folds(splitter))
    expect(told == n and n, f"get_n_splits() = {told}", f"{n} folds")


def parts_are_disjoint(splitter: Any, given: _Parent) -> None:
    """No row is in two parts of a fold."""
    whole = _counted([given.slice_])
    for number, fold in enumerate(given.folds(splitter)):
        twice = _counted(fold.values()) - whole
        expect(not twice, f"fold {number}", f"{sum(twice.values())} repeated rows")


def parts_keep_roles(splitter: Any, given: _Parent) -> None:
    """Every part keeps the columns of the input and their roles: label, group, id and others."""
    columns = set(_frames.names(given.slice_.df))
    for number, fold in enumerate(given.folds(splitter)):
        for name, part in fold.items():
            for role in _ROLES:
                mine, theirs = getattr(given.slice_, role), getattr(part, role)
                expect(mine == theirs, f"{role} {mine!r}", f"{theirs!r} in {name!r}, fold {number}")
            lost = columns - set(_frames.names(part.df))
            expect(not lost, f"the columns {sorted(columns)}", f"no {sorted(lost)} in {name!r}")


def parts_contain_input_rows(splitter: Any, given: _Parent) -> None:
    """Every row of a part equals an input row in text, label, id, group, stratum and time."""
    whole = set(_rows_of(given.slice_))
    for number, fold in enumerate(given.folds(splitter)):
        for name, part in fold.items():
            others = [row for row in _rows_of(part) if row not in whole]
            expect(not others, f"{name!r} of fold {number}", f"rows such as {others[:1]}")


def keeps_groups_together(splitter: Any, given: _Parent) -> None:
    """With a `group_col` or `groups`, no group is in both "train" and "test"."""
    column: Any = getattr(splitter, "group_col", None)
    of_row: dict[Any, Any] = {}
    if given.groups is not None:
        of_row = dict(zip(_rows_of(given.slice_), np.asarray(given.groups).tolist(), strict=True))
    elif column is None or getattr(splitter, "ignore_groups", False):
        return
    for number, fold in enumerate(given.folds(splitter)):
        train, test = (
            {of_row[row] for row in _rows_of(fold[name])}
            if of_row
            else set(_frames.column(fold[name].df, column).tolist())
            for name in ("train", "test")
        )
        both = sorted(train & test, key=str)
        expect(not both, f"fold {number}", f"{both[:3]} in both")


def split_is_deterministic(splitter: Any, given: _Parent) -> None:
    """Splitting the same rows again gives the same folds."""
    first, again = (
        [{name: _counted([part]) for name, part in fold.items()} for fold in given.folds(splitter)]
        for _ in range(2)
    )
    expect(first == again, "the same rows", "other folds")


def does_not_modify_slice(splitter: Any, given: _Parent) -> None:
    """Splitting does not modify the rows."""
    before = copy.deepcopy(given.slice_.df)
    given.folds(splitter)
    for column in _frames.names(before):
        old, new = _frames.column(before, column), _frames.column(given.slice_.df, column)
        expect(old.tolist() == new.tolist(), f"the column {column!r}", new.tolist())


def reseeded_returns_copy(splitter: Any, given: _Parent) -> None:
    """`reseeded(seed)`, if defined, returns a splitter and leaves the original unchanged."""
    reseed = getattr(splitter, "reseeded", None)
    if not callable(reseed):
        return
    before = [_counted([fold["test"]]) for fold in given.folds(splitter)]
    other = reseed(7)
    expect(isinstance(other, Splitter), "reseeded(7)", other)
    after = [_counted([fold["test"]]) for fold in given.folds(splitter)]
    expect(before == after, "the splitter after `reseeded`", "other folds")


SPLITTER = Suite(
    "splitter",
    (
        has_members(Splitter),
        version_if_any,
        folds_are_dicts_of_slices,
        number_of_folds_matches,
        parts_keep_roles,
        parts_are_disjoint,
        keeps_groups_together,
        split_is_deterministic,
        does_not_modify_slice,
        parts_contain_input_rows,
        reseeded_returns_copy,
    ),
    _Parent,
)


def builds_train_and_val(builder: Any, given: _Parent) -> None:
    """`build` returns a dict with slices under "train" and "val", and none under "test"."""
    pool = builder.build(given.slice_, fold_idx=0)
    expect(isinstance(pool, Mapping), "training rows", pool)
    expect("test" not in pool, "training rows", "a part 'test', which only splitters create")
    for name in ("train", "val"):
        expect(isinstance(pool.get(name), EvalSlice), f"the part {name!r}", pool.get(name))


def train_and_val_are_disjoint(builder: Any, given: _Parent) -> None:
    """No row is in more than one part."""
    twice = _counted(builder.build(given.slice_, fold_idx=0).values()) - _counted([given.slice_])
    expect(not twice, "training rows", f"{sum(twice.values())} repeated rows")


def build_is_deterministic(builder: Any, given: _Parent) -> None:
    """The same rows and fold index give the same parts."""
    first, again = (
        {n: _counted([p]) for n, p in builder.build(given.slice_, fold_idx=1).items()}
        for _ in range(2)
    )
    expect(first == again, "the same rows", "other parts")


POOL_BUILDER = Suite(
    "pool_builder",
    (
        has_members(PoolBuilder),
        version_if_any,
        builds_train_and_val,
        train_and_val_are_disjoint,
        build_is_deterministic,
    ),
    _Parent,
)


# --- readers of predictions ---------------------------------------------------------------------


@dataclass(frozen=True)
class _StoredFile:
    """A file that the reader supports, and its expected content by column."""

    uri: str
    expected: Mapping[str, Sequence[Any]]
    columns: Mapping[str, str] = field(
        default_factory=lambda: {"label": "label", "score": "score", "row_id": "id"}
    )


def reads_requested_columns(reader: Any, given: _StoredFile) -> None:
    """The reader returns the requested columns, named as in the file."""
    found = reader.read_predictions(given.uri, columns=given.columns)
    wanted = set(given.columns.values())
    expect(isinstance(found, Mapping) and wanted <= set(found), sorted(wanted), found)


def reads_all_rows(reader: Any, given: _StoredFile) -> None:
    """Every column has one value per row, equal to the stored one."""
    found = reader.read_predictions(given.uri, columns=given.columns)
    for name in given.columns.values():
        values = list(np.asarray(found[name]).tolist())
        expect(values == list(given.expected[name]), list(given.expected[name]), values)


PREDICTION_READER = Suite(
    "prediction_reader",
    (
        has_members(PredictionReader),
        version_if_any,
        reads_requested_columns,
        reads_all_rows,
    ),
    _StoredFile,
)
