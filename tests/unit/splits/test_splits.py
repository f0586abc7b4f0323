"""Splitters: folds, messages, and what is promised about frames and seeds."""

import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.protocols import Splitter, Versioned
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import (
    GroupKFoldSplitter,
    HoldoutSplitter,
    PurgedKFoldSplitter,
    SourceDisjointKFoldSplitter,
    StratifiedGroupKFoldSplitter,
    StratifiedKFoldSplitter,
    TimeSeriesSplitter,
    compute_label_overlap,
    iter_folds_with_pool,
    split_slice,
)

COLUMNS = {
    "text": [f"r{i}" for i in range(24)],
    "label": [i % 2 for i in range(24)],
    "author": [f"a{i // 4}" for i in range(24)],
    "source": [f"s{i % 3}" for i in range(24)],
    "timestamp": list(range(24))[::-1],
    "key": [f"k{i}" for i in range(24)],
}
ROLES = {
    "strata_col": "source",
    "group_col": "author",
    "id_col": "key",
    "time_col": "timestamp",
}
ALL = [
    HoldoutSplitter(),
    StratifiedKFoldSplitter(k=3, ignore_groups=True),
    GroupKFoldSplitter(k=3),
    StratifiedGroupKFoldSplitter(k=3),
    SourceDisjointKFoldSplitter("source"),
    TimeSeriesSplitter(k=3, ignore_groups=True),
    PurgedKFoldSplitter(n_splits=3, ignore_groups=True),
]


def whole(**roles: str) -> EvalSlice:
    return EvalSlice("all", dict(COLUMNS), **roles)


def named(splitter: object) -> str:
    return type(splitter).__name__


@pytest.mark.parametrize("splitter", ALL, ids=named)
@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pl.DataFrame, pa.table, dict],
    ids=["pandas", "polars", "pyarrow", "dict"],
)
def test_folds_keep_the_kind_of_frame_and_every_role(splitter, make):
    parent = EvalSlice("all", make(COLUMNS), "what it is", **ROLES)
    folds = list(splitter.iter_folds(parent))
    assert len(folds) == splitter.get_n_splits(parent)
    for fold in folds:
        assert list(fold) == ["train", "test"]
        for name, part in fold.items():
            assert part.name == name
            assert type(part.df) is type(parent.df)
            assert part.description == "what it is"
            assert {role: getattr(part, role) for role in ROLES} == ROLES
            assert part.n > 0
            if make is pd.DataFrame:
                assert part.df.index.tolist() == list(range(part.n))
        assert not set(fold["train"].ids) & set(fold["test"].ids)


@pytest.mark.parametrize("splitter", ALL, ids=named)
def test_splitters_are_frozen_protocol_objects_with_a_version(splitter):
    assert isinstance(splitter, Splitter)
    assert isinstance(splitter, Versioned)
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        splitter.k = 9
    with pytest.raises(InvalidTypeError, match="`slice_` is a list; it must be an EvalSlice"):
        next(splitter.iter_folds([1, 2]))
    empty = EvalSlice("none", {"text": [], "label": [], "source": [], "timestamp": []})
    with pytest.raises(InvalidInputError, match="slice 'none' has no rows"):
        next(splitter.iter_folds(empty))


@pytest.mark.parametrize(
    "splitter",
    [s for s in ALL if hasattr(s, "reseeded")],
    ids=named,
)
def test_reseeded_changes_the_seed_alone(splitter):
    again = splitter.reseeded(7)
    assert again.seed == 7
    assert again.reseeded(splitter.seed) == splitter
    assert splitter.reseeded(np.random.default_rng(0)).seed > 0
    parent = whole(id_col="key", group_col="author")
    if isinstance(splitter, StratifiedKFoldSplitter):
        first = [set(fold["test"].ids) for fold in splitter.iter_folds(parent)]
        assert first == [set(fold["test"].ids) for fold in splitter.iter_folds(parent)]
        assert first != [set(fold["test"].ids) for fold in again.iter_folds(parent)]


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (StratifiedKFoldSplitter, "StratifiedGroupKFoldSplitter"),
        (TimeSeriesSplitter, "GroupKFoldSplitter"),
        (PurgedKFoldSplitter, "GroupKFoldSplitter"),
    ],
)
def test_splitters_of_rows_refuse_a_slice_with_groups(make, instead):
    parent = whole(group_col="author")
    with pytest.raises(
        InvalidInputError,
        match=rf"slice 'all' has group_col='author'; use {instead}, or .*ignore_groups=True\)",
    ):
        next(make(3).iter_folds(parent))
    folds = list(make(3, ignore_groups=True).iter_folds(parent))
    plain = list(make(3).iter_folds(whole()))
    assert [fold["test"].features for fold in folds] == [fold["test"].features for fold in plain]
    assert len(list(make(3, ignore_groups=True).iter_folds(whole(), groups=COLUMNS["author"]))) == 3


def test_wide_seeds_reach_scikit_learn():
    parent = whole(id_col="key")
    tests = [
        frozenset(next(HoldoutSplitter(seed=seed).iter_folds(parent))["test"].ids)
        for seed in (2**40, 2**40 + 2**32, 2**63)
    ]
    assert len(set(tests)) == 3


@each(
    ("make", "message"),
    [
        (lambda: StratifiedKFoldSplitter(k=1), "`k` is 1; it must be at least 2"),
        (lambda: GroupKFoldSplitter(k=0), "`k` is 0; it must be at least 2"),
        (lambda: StratifiedGroupKFoldSplitter(k=True), "`k` must be an integer, got True"),
        (lambda: SourceDisjointKFoldSplitter("s", k=1), "`k` is 1; it must be at least 2"),
        (lambda: TimeSeriesSplitter(k=1), "`k` is 1; it must be at least 2"),
        (lambda: PurgedKFoldSplitter(n_splits=1), "`n_splits` is 1; it must be at least 2"),
        (lambda: PurgedKFoldSplitter(purge_gap=-1), "`purge_gap` is -1; it must be at least 0"),
        (lambda: PurgedKFoldSplitter(embargo_pct=1.0), r"`embargo_pct` is 1.0; it must lie in"),
        (lambda: HoldoutSplitter(test_size=1.0), r"`test_size` is 1.0; it must lie in \(0, 1\)"),
        (lambda: HoldoutSplitter(test_size=5), r"`test_size` is 5; it must lie in \(0, 1\)"),
        (lambda: HoldoutSplitter(seed=-1), "`seed` is -1; it must not be negative"),
    ],
)
def test_bad_arguments_are_refused_at_construction(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_too_few_rows_of_a_class():
    few = EvalSlice("few", {"text": list("abcdefg"), "label": [0, 0, 0, 0, 0, 1, 1]})
    with pytest.raises(
        InvalidInputError, match=r"'few' has 2 row\(s\) of label 1 for k=3 folds.*use k <= 2"
    ):
        next(StratifiedKFoldSplitter(k=3).iter_folds(few))
    one = EvalSlice("one", {"text": list("abc"), "label": [0, 0, 1]})
    with pytest.raises(InvalidInputError, match=r"1 row\(s\) of label 1 for k=2 folds"):
        next(HoldoutSplitter().iter_folds(one))
    fold = next(HoldoutSplitter(stratify=False, test_size=0.34).iter_folds(one))
    assert (fold["train"].n, fold["test"].n) == (1, 2)


def test_holdout_too_small():
    two = EvalSlice("two", {"text": list("abcd"), "label": [0, 0, 1, 1]})
    with pytest.raises(InvalidInputError, match="gives 3 training and 1 test row"):
        next(HoldoutSplitter(test_size=0.1).iter_folds(two))
    single = EvalSlice("single", {"text": ["a"], "label": [0]})
    with pytest.raises(InvalidInputError, match="leaves no training row"):
        next(HoldoutSplitter(stratify=False).iter_folds(single))


def test_one_class_can_be_split():
    attacks = EvalSlice("attacks", {"text": [str(i) for i in range(10)], "label": [1] * 10})
    fold = next(HoldoutSplitter().iter_folds(attacks))
    assert (fold["train"].n, fold["test"].n) == (8, 2)
    assert len(list(StratifiedKFoldSplitter().iter_folds(attacks))) == 5


def test_holdout_keeps_groups_together():
    for options in ({"groups": COLUMNS["author"]}, {}):
        parent = whole() if options else whole(group_col="author")
        [fold] = HoldoutSplitter(test_size=0.33).iter_folds(parent, **options)
        train, test = (set(fold[name].df["author"]) for name in ("train", "test"))
        assert not train & test
        assert fold["test"].n == 8
        assert fold["test"].n_positive == 4


def test_groups_come_from_argument_splitter_or_slice():
    by_argument = list(GroupKFoldSplitter(k=3).iter_folds(whole(), groups=COLUMNS["author"]))
    by_splitter = list(GroupKFoldSplitter(k=3, group_col="author").iter_folds(whole()))
    by_slice = list(GroupKFoldSplitter(k=3).iter_folds(whole(group_col="author")))
    texts = [
        [fold["test"].features for fold in folds] for folds in (by_argument, by_splitter, by_slice)
    ]
    assert texts[0] == texts[1] == texts[2]
    # the argument goes before the splitter's column, which goes before the slice's
    other = list(GroupKFoldSplitter(k=3, group_col="source").iter_folds(whole(group_col="author")))
    assert {tuple(sorted(set(fold["test"].df["source"]))) for fold in other} == {
        ("s0",),
        ("s1",),
        ("s2",),
    }


@pytest.mark.parametrize("kind", [GroupKFoldSplitter, StratifiedGroupKFoldSplitter])
def test_group_messages(kind):
    with pytest.raises(
        InvalidInputError, match=f"{kind.__name__} needs groups, but slice 'all' has no"
    ):
        next(kind(k=3).iter_folds(whole()))
    with pytest.raises(KeyError, match="slice 'all': there is no column 'team'; the columns are"):
        next(kind(k=3, group_col="team").iter_folds(whole()))
    with pytest.raises(
        InvalidInputError, match=r"'all' has 6 group\(s\) for k=7 folds.*use k <= 6"
    ):
        next(kind(k=7).iter_folds(whole(group_col="author")))
    with pytest.raises(InvalidInputError, match=r"groups\[3\] is missing"):
        next(kind(k=2).iter_folds(whole(), groups=["a", "b", "c", None] * 6))
    with pytest.raises(InvalidInputError, match="`groups` has 2 rows but the data has 24"):
        next(kind(k=2).iter_folds(whole(), groups=["a", "b"]))


def test_groups_that_would_be_torn_apart_are_refused():
    with pytest.raises(InvalidInputError, match="use StratifiedGroupKFoldSplitter"):
        next(StratifiedKFoldSplitter(k=2).iter_folds(whole(), groups=COLUMNS["author"]))
    for splitter in (TimeSeriesSplitter(k=2), PurgedKFoldSplitter(n_splits=2)):
        with pytest.raises(InvalidInputError, match="does not keep groups together"):
            next(splitter.iter_folds(whole(), groups=COLUMNS["author"]))
    with pytest.raises(InvalidInputError, match="splits by its source_col"):
        next(SourceDisjointKFoldSplitter("source").iter_folds(whole(), groups=COLUMNS["author"]))


def test_fewer_sources_than_folds_warns():
    splitter = SourceDisjointKFoldSplitter("source", k=5)
    assert splitter.get_n_splits(whole()) == 3
    with pytest.warns(
        UserWarning, match="'all' has 3 sources in 'source'; yielding 3 folds instead of 5"
    ):
        folds = list(splitter.iter_folds(whole()))
    assert len(folds) == 3
    one = EvalSlice("one", {"text": ["a", "b"], "label": [0, 1], "source": ["x", "x"]})
    with pytest.raises(InvalidInputError, match="'one' has one source in 'source'"):
        next(splitter.iter_folds(one))
    with pytest.raises(KeyError, match="there is no column 'origin'"):
        next(SourceDisjointKFoldSplitter("origin").iter_folds(whole()))


def dated(values: list) -> EvalSlice:
    n = len(values)
    return EvalSlice(
        "dated",
        {"text": [str(i) for i in range(n)], "label": [i % 2 for i in range(n)], "when": values},
    )


@each(
    "times",
    [
        [3, 1, 2],
        [3.5, 1.0, 2.0],
        ["2026-03-01", "2026-01-01", "2026-02-01"],
        ["2026-01-01T12:00:00+02:00", "2026-01-01T09:00:00+00:00", "2026-01-01T10:30:00+01:00"],
        [date(2026, 3, 1), date(2026, 1, 1), date(2026, 2, 1)],
        [datetime(2026, 3, 1), datetime(2026, 1, 1), datetime(2026, 2, 1)],
        np.array(["2026-03", "2026-01", "2026-02"], dtype="M8[D]"),
        pd.to_datetime(["2026-03-01", "2026-01-01", "2026-02-01"]).tz_localize("UTC").to_list(),
    ],
)
def test_times_in_every_spelling(times):
    folds = list(TimeSeriesSplitter(k=2, time_col="when").iter_folds(dated(times)))
    assert [fold["train"].features for fold in folds] == [["1"], ["1", "2"]]
    assert [fold["test"].features for fold in folds] == [["2"], ["0"]]


def test_pandas_and_polars_times():
    days = pd.to_datetime(["2026-03-01", "2026-01-01", "2026-02-01"])
    rows = {"text": list("012"), "label": [0, 1, 0]}
    frames = [
        pd.DataFrame({**rows, "when": days}),
        pd.DataFrame({**rows, "when": days.tz_localize("Europe/Berlin")}),
        pl.DataFrame({**rows, "when": days.to_pydatetime()}),
        pa.table({**rows, "when": list(days.to_pydatetime())}),
    ]
    for frame in frames:
        folds = list(TimeSeriesSplitter(k=2).iter_folds(EvalSlice("t", frame, time_col="when")))
        assert folds[-1]["test"].features == ["0"], type(frame)


@each(
    ("times", "message"),
    [
        ([1, None, 2], r"when\[1\] is missing; every row needs a time"),
        ([1.0, float("nan"), 2.0], r"when\[1\] is missing; every row needs a time"),
        (
            np.array(["2026", "NaT", "2027"], dtype="M8[D]"),
            r"when\[1\] is missing; every row needs a time",
        ),
        (
            ["1/2/2026", "2/2/2026", "3/2/2026"],
            r"when\[0\] is '1/2/2026'; times must be numbers, dates or ISO",
        ),
        ([1, "2026-01-01", 2], r"when\[1\] is '2026-01-01', a date, but when\[0\] is a number"),
        (
            [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2)],
            "a date with a time zone, but",
        ),
        ([[1], [2], [3]], r"when\[0\] is \[1\]; times must be"),
        ([1.0, math.inf, 2.0], r"when\[1\] is inf; a time must be finite"),
        ([True, False, True], r"when\[0\] is True; times must be numbers"),
    ],
)
def test_unusable_times(times, message):
    with pytest.raises(InvalidInputError, match=message):
        next(TimeSeriesSplitter(k=2, time_col="when").iter_folds(dated(times)))


@pytest.mark.parametrize(
    "times",
    [
        [Decimal("2.5"), Decimal(1), Decimal(3)],
        [np.datetime64("2026-01-02"), np.datetime64("2026-01-01"), np.datetime64("2026-01-03")],
        [2**60 + 1, 2**60, 2**60 + 2],
        np.array([2**64 - 4096, 5, 2**64 - 1], dtype=np.uint64),
    ],
)
def test_times_of_every_type_are_sorted(times):
    column = times if isinstance(times, np.ndarray) else np.array(times, dtype=object)
    fold = next(TimeSeriesSplitter(k=2, time_col="when").iter_folds(dated(column)))
    assert fold["train"].features + fold["test"].features == ["1", "0"]


def test_time_columns():
    with pytest.raises(MissingColumnError, match=r"there is no column 'timestamp'.*time_col=…"):
        next(PurgedKFoldSplitter(n_splits=2).iter_folds(dated([1, 2, 3])))
    # the slice's own time column goes before the default name
    rows = {
        "text": list("abcd"),
        "label": [0, 1, 0, 1],
        "timestamp": [1, 2, 3, 4],
        "when": [4, 3, 2, 1],
    }
    folds = list(PurgedKFoldSplitter(n_splits=2).iter_folds(EvalSlice("x", rows, time_col="when")))
    assert folds[0]["test"].features == ["d", "c"]
    # no time column at all: rows are taken to be in order
    plain = EvalSlice("x", {"text": list("abc"), "label": [0, 1, 0]})
    assert next(TimeSeriesSplitter(k=2).iter_folds(plain))["test"].features == ["b"]
    with pytest.raises(
        InvalidInputError, match=r"3 row\(s\) for k=3 folds in time; at least k \+ 1 = 4"
    ):
        next(TimeSeriesSplitter(k=3).iter_folds(plain))


def test_purge_and_embargo_by_hand():
    rows = {"text": [str(i) for i in range(20)], "label": [0, 1] * 10, "timestamp": list(range(20))}
    splitter = PurgedKFoldSplitter(n_splits=4, purge_gap=2, embargo_pct=0.1)
    folds = list(splitter.iter_folds(EvalSlice("x", rows)))
    # block 5..9: rows 3, 4 before and 10, 11 (gap), 12, 13 (embargo of 10 % of 20) after are omitted
    assert [int(text) for text in folds[1]["train"].features] == [0, 1, 2, 14, 15, 16, 17, 18, 19]
    assert [int(text) for text in folds[1]["test"].features] == [5, 6, 7, 8, 9]
    with pytest.raises(
        InvalidInputError, match=r"fold 0 of 2 has no training row left: purge_gap=9"
    ):
        list(
            PurgedKFoldSplitter(n_splits=2, purge_gap=9, embargo_pct=0.0).iter_folds(
                EvalSlice("y", {k: v[:19] for k, v in rows.items()})
            )
        )
    with pytest.raises(InvalidInputError, match=r"has 20 row\(s\) for n_splits=21"):
        next(PurgedKFoldSplitter(n_splits=21).iter_folds(EvalSlice("x", rows)))


def test_label_overlap():
    assert compute_label_overlap([0, 2, 5], [1, 5], 2).tolist() == [
        [True, False],
        [True, False],
        [False, True],
    ]
    assert not compute_label_overlap([1], [1], 0).any()
    days = np.array(["2026-01-01", "2026-01-05"], dtype="M8[D]")
    assert compute_label_overlap(days, days, timedelta(days=4)).tolist() == [
        [True, False],
        [False, True],
    ]
    assert compute_label_overlap(np.array([3], dtype=np.uint8), [5], 3).all()
    with pytest.raises(ValueError, match="`horizon` is -1; it must lie in"):
        compute_label_overlap([1], [1], -1)
    with pytest.raises(ValueError, match="must not be negative"):
        compute_label_overlap(days, days, timedelta(days=-1))
    with pytest.raises(TypeError, match="it must be a timedelta for dates"):
        compute_label_overlap(days, days, 4)
    with pytest.raises(
        InvalidInputError, match="contains dates and `t_test` numbers; they must have the same type"
    ):
        compute_label_overlap(days, [1, 2], 4)


class HalfPool:
    def __init__(self, result=None):
        self.result = result
        self.seen = []

    def build(self, train, *, fold_idx):
        self.seen.append((fold_idx, train.n))
        if self.result is not None:
            return self.result
        half = train.n // 2
        return {
            "train": train.take(range(half)),
            "val": train.take(range(half, train.n)),
            "extra": train,
        }


def test_pools():
    pool = HalfPool()
    folds = list(iter_folds_with_pool(StratifiedKFoldSplitter(k=2), whole(), pool_builder=pool))
    assert pool.seen == [(0, 12), (1, 12)]
    assert [list(fold) for fold in folds] == [["train", "val", "extra", "test"]] * 2
    plain = [fold["test"].features for fold in StratifiedKFoldSplitter(k=2).iter_folds(whole())]
    assert [fold["test"].features for fold in folds] == plain
    with pytest.raises(
        InvalidInputError,
        match=r"HalfPool.build for fold 0 returned \['train'\]: it lacks \['val'\]",
    ):
        next(
            iter_folds_with_pool(
                StratifiedKFoldSplitter(k=2), whole(), pool_builder=HalfPool({"train": 1})
            )
        )
    bad = {"train": 1, "val": 2, "test": 3}
    with pytest.raises(InvalidInputError, match="which the splitter provides"):
        next(
            iter_folds_with_pool(StratifiedKFoldSplitter(k=2), whole(), pool_builder=HalfPool(bad))
        )
    with pytest.raises(InvalidInputError, match="returned a list"):
        next(
            iter_folds_with_pool(StratifiedKFoldSplitter(k=2), whole(), pool_builder=HalfPool([1]))
        )
    grouped = iter_folds_with_pool(
        GroupKFoldSplitter(k=2), whole(), pool_builder=HalfPool(), groups=COLUMNS["author"]
    )
    assert len(list(grouped)) == 2


def test_a_custom_splitter_as_the_extending_guide_writes_it():
    from sklearn.model_selection import StratifiedShuffleSplit

    @dataclass(frozen=True, slots=True)
    class StratifiedShuffleSplitter:
        """A small Splitter wrapping sklearn.StratifiedShuffleSplit."""

        n_splits: int = 5
        test_size: float = 0.2
        seed: int = 42

        def iter_folds(self, slice_, *, groups=None) -> Iterator[dict[str, EvalSlice]]:
            sss = StratifiedShuffleSplit(
                n_splits=self.n_splits, test_size=self.test_size, random_state=self.seed
            )
            y = slice_.y_true
            x_dummy = np.arange(len(y)).reshape(-1, 1)
            for train_idx, test_idx in sss.split(x_dummy, y):
                yield {
                    "train": EvalSlice(
                        name="train",
                        df=slice_.df.iloc[train_idx].reset_index(drop=True),
                        feature_col=slice_.feature_col,
                        label_col=slice_.label_col,
                        strata_col=slice_.strata_col,
                    ),
                    "test": EvalSlice(
                        name="test",
                        df=slice_.df.iloc[test_idx].reset_index(drop=True),
                        feature_col=slice_.feature_col,
                        label_col=slice_.label_col,
                        strata_col=slice_.strata_col,
                    ),
                }

        def get_n_splits(self, slice_) -> int:
            return self.n_splits

    df = pd.DataFrame({"text": [f"r{i}" for i in range(40)], "label": [i % 2 for i in range(40)]})
    parent = EvalSlice(name="all", df=df)
    splitter = StratifiedShuffleSplitter(n_splits=3, test_size=0.25)
    assert isinstance(splitter, Splitter)
    sizes = [(len(fold["train"].df), len(fold["test"].df)) for fold in splitter.iter_folds(parent)]
    assert sizes == [(30, 10)] * 3


def test_split_slice_sizes_roles_and_order():
    parts = split_slice(
        whole(id_col="key", strata_col="source"), {"train": 0.5, "val": 0.25, "test": 0.25}
    )
    assert {name: (part.n, part.n_positive) for name, part in parts.items()} == {
        "train": (12, 6),
        "val": (6, 3),
        "test": (6, 3),
    }
    assert [part.name for part in parts.values()] == ["train", "val", "test"]
    assert parts["val"].strata_col == "source"
    rows = [int(text[1:]) for text in parts["train"].features]
    assert rows == sorted(rows)
    assert list(
        split_slice(EvalSlice("x", {"text": [str(i) for i in range(50)], "label": [0, 1] * 25}))
    ) == ["train", "val", "test"]


def test_split_slice_rounding_does_not_starve_the_last_part():
    ten = EvalSlice("ten", {"text": [str(i) for i in range(10)], "label": [0, 1] * 5})
    parts = split_slice(ten, {"train": 0.8, "val": 0.1, "test": 0.1})
    assert {name: part.n for name, part in parts.items()} == {"train": 8, "val": 1, "test": 1}


def test_split_slice_by_another_seed_and_with_equal_rows():
    same = EvalSlice("same", {"text": ["x"] * 10, "label": [0, 1] * 5})
    assert split_slice(same, {"a": 0.5, "b": 0.5})["a"].n == 5
    parts = [
        tuple(split_slice(whole(), {"a": 0.5, "b": 0.5}, seed=seed)["a"].features)
        for seed in range(5)
    ]
    assert len(set(parts)) == 5


def test_split_slice_links_groups_and_duplicates():
    # groups {0,1}, {2,3}, {4,5}, {6,7}; codes tie row 1 to row 2: rows 0-3 are one block
    rows = {"text": list("abcdefgh"), "label": [0, 1] * 4, "g": [0, 0, 1, 1, 2, 2, 3, 3]}
    codes = [10, 11, 11, 12, 13, 14, 15, 16]
    for seed in range(10):
        parts = split_slice(
            EvalSlice("x", rows, group_col="g"),
            {"a": 0.5, "b": 0.5},
            keep_together=codes,
            seed=seed,
        )
        where = {text: name for name, part in parts.items() for text in part.features}
        assert len({where[text] for text in "abcd"}) == 1
        assert where["e"] == where["f"]
        assert where["g"] == where["h"]
        assert parts["a"].n == 4


def test_large_groups_are_tested_as_often_as_their_share_says():
    # one group of 30 rows among 70 single ones; test is 40 %, so the large one fits either part
    rows = {"text": list(range(100)), "label": [0, 1] * 50, "g": [0] * 30 + list(range(1, 71))}
    slice_ = EvalSlice("x", rows, group_col="g")
    tested = 0
    for seed in range(100):
        parts = split_slice(slice_, {"train": 0.6, "test": 0.4}, seed=seed)
        assert (parts["test"].n, parts["test"].n_positive) == (40, 20)
        tested += 0 in parts["test"].groups
    assert 25 <= tested <= 55  # 40 expected, standard deviation 4.9


def test_split_slice_is_order_free_when_texts_repeat():
    rows = {
        "text": [f"t{i % 7}" for i in range(42)],
        "label": [i % 7 % 2 for i in range(42)],
        "author": [f"a{i * i % 13}" for i in range(42)],
        "line": list(range(42)),
    }
    codes = np.arange(42) // 2
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(42)
        shuffled = {name: [values[i] for i in order] for name, values in rows.items()}
        for roles, options, again in [
            ({}, {}, {}),
            ({"group_col": "author"}, {}, {}),
            ({}, {"stable": True}, {"stable": True}),
            ({}, {"keep_together": codes}, {"keep_together": codes[order]}),
        ]:
            one, two = (
                split_slice(EvalSlice("x", given, **roles), {"a": 0.6, "b": 0.4}, seed=seed, **how)
                for given, how in ((rows, options), (shuffled, again))
            )
            for name in ("a", "b"):
                assert sorted(one[name].df["line"]) == sorted(two[name].df["line"])


def test_split_slice_stable_does_not_move_old_rows_when_an_equal_one_comes_first():
    old = {"text": ["t"] * 3 + list("abcdefgh"), "label": [0] * 11, "line": list(range(11))}
    new = {"text": ["t", *old["text"]], "label": [0] * 12, "line": [-1, *old["line"]]}
    for seed in range(20):
        try:
            before = split_slice(EvalSlice("x", old), {"a": 0.5, "b": 0.5}, stable=True, seed=seed)
        except InvalidInputError:
            continue
        after = split_slice(EvalSlice("x", new), {"a": 0.5, "b": 0.5}, stable=True, seed=seed)
        for name, part in before.items():
            assert set(part.df["line"]) <= set(after[name].df["line"])


def test_split_slice_stable_refuses_an_empty_part():
    three = EvalSlice("three", {"text": list("abc"), "label": [0, 1, 0]})
    with pytest.raises(
        InvalidInputError,
        match=r"slice 'three' cannot fill the part '\w+' \(0.1 .*another seed or stable=False",
    ):
        split_slice(three, stable=True)


def test_split_slice_stable_does_not_move_old_rows():
    def assigned(n: int) -> dict[str, str]:
        rows = {
            "text": [f"t{i}" for i in range(n)],
            "label": [i % 2 for i in range(n)],
            "g": [i // 3 for i in range(n)],
        }
        parts = split_slice(EvalSlice("x", rows, group_col="g"), stable=True, seed=3)
        return {text: name for name, part in parts.items() for text in part.features}

    before, after = assigned(600), assigned(1000)
    assert all(after[text] == name for text, name in before.items())
    share = sum(name == "train" for name in after.values()) / 1000
    assert 0.7 < share < 0.9  # 334 groups: the standard error is 0.022
    assert len({after[f"t{i}"] for i in (0, 1, 2)}) == 1


@each(
    ("options", "message"),
    [
        ({"sizes": {"train": 0.8, "test": 0.3}}, "`sizes` sum to 1.1; the shares must sum to 1"),
        ({"sizes": {"train": 1.0}}, "at least two parts are needed"),
        (
            {"sizes": {"train": 1.0, "test": 0.0}},
            r"`sizes\['train'\]` is 1.0; it must lie in \(0, 1\)",
        ),
        ({"sizes": [0.8, 0.2]}, "`sizes` is .*; it must be a dict like"),
        (
            {"sizes": {"a": 0.99, "b": 0.01}},
            r"24 row\(s\) cannot fill the part 'b' \(0.01 of the rows\)",
        ),
        ({"group": "team"}, "slice 'all': there is no column 'team'"),
        ({"group": [1, 2]}, "`group` has 2 rows but the data has 24"),
        ({"keep_together": [1, None] * 12}, r"keep_together\[1\] is missing"),
        ({"group": [0] * 24}, r"1 group\(s\) cannot fill the part 'val'"),
    ],
)
def test_split_slice_messages(options, message):
    sizes = options.pop("sizes", {"train": 0.5, "val": 0.25, "test": 0.25})
    with pytest.raises(ValueError, match=message):
        split_slice(whole(), sizes, **options)


def test_importing_splits_imports_no_scikit_learn():
    import subprocess
    import sys

    code = "import sys, eval_toolkit.splits, eval_toolkit.loaders; print([m for m in ('sklearn', 'pandas', 'duckdb', 'scipy', 'yaml', 'datasets', 'narwhals') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_rows_of_the_time_that_is_tested_are_not_trained_on():
    rows = {"text": list("abcdefgh"), "label": [0, 1] * 4, "day": [1, 1, 2, 2, 2, 3, 3, 4]}
    slice_ = EvalSlice("all", rows)
    folds = TimeSeriesSplitter(k=3, time_col="day").iter_folds(slice_)
    assert [("".join(f["train"].features), "".join(f["test"].features)) for f in folds] == [
        ("ab", "cd"),
        ("ab", "ef"),  # c and d are of day 2 like e
        ("abcde", "gh"),  # f is of day 3 like g
    ]
    folds = PurgedKFoldSplitter(n_splits=4, time_col="day").iter_folds(slice_)
    assert [("".join(f["train"].features), "".join(f["test"].features)) for f in folds] == [
        ("cdefgh", "ab"),
        ("abfgh", "cd"),
        ("abh", "ef"),
        ("abcde", "gh"),
    ]


def test_equal_times_leave_nothing_to_train_on():
    slice_ = EvalSlice("all", {"text": list("abcd"), "label": [0, 1, 0, 1], "day": [7] * 4})
    told = r"fold 0 of 2 has no training row: no time is before 7, the first test time; use a"
    with pytest.raises(InvalidInputError, match=told):
        list(TimeSeriesSplitter(k=2, time_col="day").iter_folds(slice_))
    with pytest.raises(InvalidInputError, match="and equal times exclude all"):
        list(PurgedKFoldSplitter(n_splits=2, time_col="day").iter_folds(slice_))
