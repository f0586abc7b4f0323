"""Folds equal scikit-learn's for the same seed (the oracle is scikit-learn itself)."""

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    train_test_split,
)

from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import (
    GroupKFoldSplitter,
    HoldoutSplitter,
    StratifiedGroupKFoldSplitter,
    StratifiedKFoldSplitter,
    TimeSeriesSplitter,
)

N = 157


@pytest.fixture(params=range(3))
def seed(request) -> int:
    return request.param


@pytest.fixture
def data(seed):
    rng = np.random.default_rng(seed)
    labels = (rng.random(N) < 0.3).astype(int)
    groups = rng.integers(0, 25, N)
    times = rng.random(N)
    columns = {"text": np.arange(N), "label": labels, "group": groups, "time": times}
    return EvalSlice("all", columns, group_col=None), labels, groups, times


def rows_of(folds):
    return [(fold["train"].features, fold["test"].features) for fold in folds]


def lists(folds):
    return [(train.tolist(), test.tolist()) for train, test in folds]


@pytest.mark.parametrize("shuffle", [True, False])
def test_stratified_k_fold(data, seed, shuffle):
    slice_, labels, _, _ = data
    oracle = StratifiedKFold(4, shuffle=shuffle, random_state=seed if shuffle else None)
    ours = StratifiedKFoldSplitter(k=4, shuffle=shuffle, seed=seed)
    assert rows_of(ours.iter_folds(slice_)) == lists(oracle.split(labels, labels))


def test_group_k_fold(data):
    slice_, labels, groups, _ = data
    ours = GroupKFoldSplitter(k=4, group_col="group")
    assert rows_of(ours.iter_folds(slice_)) == lists(GroupKFold(4).split(labels, labels, groups))


@pytest.mark.parametrize("shuffle", [True, False])
def test_stratified_group_k_fold(data, seed, shuffle):
    slice_, labels, groups, _ = data
    oracle = StratifiedGroupKFold(4, shuffle=shuffle, random_state=seed if shuffle else None)
    ours = StratifiedGroupKFoldSplitter(k=4, group_col="group", shuffle=shuffle, seed=seed)
    assert rows_of(ours.iter_folds(slice_)) == lists(oracle.split(labels, labels, groups))


@pytest.mark.parametrize("stratify", [True, False])
@pytest.mark.parametrize("test_size", [0.2, 0.31])
def test_holdout(data, seed, stratify, test_size):
    slice_, labels, _, _ = data
    train, test = train_test_split(
        np.arange(N),
        test_size=test_size,
        stratify=labels if stratify else None,
        random_state=seed,
    )
    ours = HoldoutSplitter(test_size=test_size, stratify=stratify, seed=seed)
    assert rows_of(ours.iter_folds(slice_)) == [(sorted(train.tolist()), sorted(test.tolist()))]


def test_time_series(data):
    slice_, _, _, times = data
    order = np.argsort(times, kind="stable")
    expected = [(order[a].tolist(), order[b].tolist()) for a, b in TimeSeriesSplit(5).split(order)]
    assert rows_of(TimeSeriesSplitter(k=5, time_col="time").iter_folds(slice_)) == expected
