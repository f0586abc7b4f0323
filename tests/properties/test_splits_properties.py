"""What every splitter promises, on any data it accepts."""

import warnings

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.leakage import TemporalLeakageCheck
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import (
    GroupKFoldSplitter,
    HoldoutSplitter,
    PurgedKFoldSplitter,
    SourceDisjointKFoldSplitter,
    StratifiedGroupKFoldSplitter,
    StratifiedKFoldSplitter,
    TimeSeriesSplitter,
    split_slice,
)


@st.composite
def tables(draw, min_size=2, max_size=60):
    n = draw(st.integers(min_size, max_size))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    groups = draw(st.lists(st.sampled_from("abcdefgh"), min_size=n, max_size=n))
    times = draw(st.lists(st.integers(-3, 9), min_size=n, max_size=n))
    return {
        "text": list(range(n)),
        "label": labels,
        "group": groups,
        "time": times,
        "id": [f"u{i}" for i in range(n)],
    }


def sliced(columns, **roles):
    return EvalSlice("all", columns, id_col="id", **roles)


def folds_of(splitter, slice_):
    """Return the folds as lists of row numbers, or nothing where the splitter refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            folds = list(splitter.iter_folds(slice_))
        except InvalidInputError:
            assume(False)
    return [(fold["train"].features, fold["test"].features) for fold in folds]


seeds = st.integers(0, 2**40)


@settings(max_examples=40)
@given(tables(), st.integers(2, 5), seeds)
def test_k_folds_partition_the_rows(columns, k, seed):
    slice_ = sliced(columns, group_col="group", time_col="time")
    for splitter in (
        StratifiedKFoldSplitter(k=k, seed=seed, ignore_groups=True),
        GroupKFoldSplitter(k=k),
        StratifiedGroupKFoldSplitter(k=k, seed=seed),
        SourceDisjointKFoldSplitter("group", k=k, seed=seed),
        PurgedKFoldSplitter(n_splits=k, ignore_groups=True),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                folds = list(splitter.iter_folds(slice_))
        except InvalidInputError:
            continue
        assert sorted(row for fold in folds for row in fold["test"].features) == columns["text"]
        for fold in folds:
            # without a purge the two parts are all rows, each once; but for rows of equal time
            both = sorted(fold["train"].features + fold["test"].features)
            if isinstance(splitter, PurgedKFoldSplitter):
                assert len(set(both)) == len(both)
            else:
                assert both == columns["text"]


@settings(max_examples=40)
@given(tables(min_size=10), st.integers(2, 5), seeds)
def test_stratification_within_one(columns, k, seed):
    slice_ = sliced(columns)
    for train, test in folds_of(StratifiedKFoldSplitter(k=k, seed=seed), slice_):
        for label in (0, 1):
            total = columns["label"].count(label)
            in_test = sum(columns["label"][row] == label for row in test)
            assert abs(in_test - total / k) < 1
            assert in_test + sum(columns["label"][row] == label for row in train) == total


@settings(max_examples=40)
@given(tables(), st.integers(2, 4), seeds)
def test_groups_and_sources_are_disjoint(columns, k, seed):
    slice_ = sliced(columns, group_col="group")
    for splitter in (
        GroupKFoldSplitter(k=k),
        StratifiedGroupKFoldSplitter(k=k, seed=seed),
        SourceDisjointKFoldSplitter("group", k=k, seed=seed),
        HoldoutSplitter(test_size=0.4, seed=seed),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                folds = list(splitter.iter_folds(slice_))
        except InvalidInputError:
            continue
        for fold in folds:
            train, test = (set(fold[name].groups.tolist()) for name in ("train", "test"))
            assert test
            assert not train & test


@settings(max_examples=40)
@given(tables(), st.integers(2, 5))
def test_time_order_is_respected(columns, k):
    times = columns["time"]
    tested: list[int] = []
    for train, test in folds_of(TimeSeriesSplitter(k=k, time_col="time"), sliced(columns)):
        first = min(times[row] for row in test)
        assert max(times[row] for row in train) < first
        assert {row for row in tested if times[row] < first} <= set(train)
        tested += test
    check = TemporalLeakageCheck("time", ["train", "test"])
    for fold in TimeSeriesSplitter(k=k, time_col="time").iter_folds(sliced(columns)):
        found = check.validate(fold)
        assert (found.n_affected, found.evidence["ties"]) == (0, [])


@settings(max_examples=40)
@given(
    tables(),
    st.integers(2, 4),
    st.integers(0, 4),
    st.floats(0, 0.3),
)
def test_gap_and_embargo_are_respected(columns, k, gap, embargo):
    splitter = PurgedKFoldSplitter(n_splits=k, purge_gap=gap, embargo_pct=embargo, time_col="time")
    order = np.argsort(columns["time"], kind="stable").tolist()
    place = {row: i for i, row in enumerate(order)}
    n = len(order)
    for train, test in folds_of(splitter, sliced(columns)):
        first, last = place[test[0]], place[test[-1]]
        assert [place[row] for row in test] == list(range(first, last + 1))
        far = [i for i in range(n) if i < first - gap or i > last + gap + int(embargo * n)]
        ends = [columns["time"][order[i]] for i in (first, last)]
        assert [place[row] for row in train] == [
            i for i in far if not ends[0] <= columns["time"][order[i]] <= ends[1]
        ]


@settings(max_examples=40)
@given(tables(), st.integers(2, 4), seeds, st.randoms(use_true_random=False))
def test_order_free_where_promised(columns, k, seed, random):
    order = list(range(len(columns["text"])))
    random.shuffle(order)
    shuffled = {name: [values[i] for i in order] for name, values in columns.items()}
    for splitter in (GroupKFoldSplitter(k=k), SourceDisjointKFoldSplitter("group", k=k, seed=seed)):
        one = folds_of(splitter, sliced(columns, group_col="group"))
        two = folds_of(splitter, sliced(shuffled, group_col="group"))
        assert [set(test) for _, test in one] == [set(test) for _, test in two]


@settings(max_examples=40)
@given(
    tables(min_size=8),
    seeds,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_split_slice_is_order_free_and_complete(columns, seed, grouped, stable, stratify, random):
    roles = {"group_col": "group"} if grouped else {}
    options = {"seed": seed, "stable": stable, "stratify": stratify}
    sizes = {"train": 0.6, "val": 0.2, "test": 0.2}
    order = list(range(len(columns["text"])))
    random.shuffle(order)
    shuffled = {name: [values[i] for i in order] for name, values in columns.items()}
    try:
        one = split_slice(sliced(columns, **roles), sizes, **options)
        two = split_slice(sliced(shuffled, **roles), sizes, **options)
    except InvalidInputError:
        assume(False)
    assert {name: set(part.features) for name, part in one.items()} == {
        name: set(part.features) for name, part in two.items()
    }
    assert sorted(row for part in one.values() for row in part.features) == columns["text"]
    if grouped:
        seen = [set(part.groups.tolist()) for part in one.values()]
        assert sum(map(len, seen)) == len(set().union(*seen))


@settings(max_examples=40)
@given(tables(min_size=10), seeds)
def test_split_slice_without_groups_is_exact(columns, seed):
    sizes = {"train": 0.6, "val": 0.25, "test": 0.15}
    try:
        parts = split_slice(sliced(columns), sizes, seed=seed)
    except InvalidInputError:
        assume(False)
    for name, part in parts.items():
        assert abs(part.n - sizes[name] * len(columns["text"])) < 2
        for label in (0, 1):
            share = sizes[name] * columns["label"].count(label)
            assert abs(int((part.y_true == label).sum()) - share) < 1 + 1e-6


@settings(max_examples=40)
@given(tables(min_size=20), seeds)
def test_split_slice_with_groups_is_close(columns, seed):
    sizes = {"train": 0.6, "test": 0.4}
    try:
        parts = split_slice(sliced(columns, group_col="group"), sizes, seed=seed, stratify=False)
    except InvalidInputError:
        assume(False)
    largest = max(columns["group"].count(group) for group in columns["group"])
    assert abs(parts["test"].n - 0.4 * len(columns["text"])) <= largest
