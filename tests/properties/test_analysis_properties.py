"""Order is no identity: shuffled files and records give the same bits."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.analysis import (
    bootstrap_metric_from_predictions,
    compare_records,
    drift,
    paired_diff_from_prediction_refs,
    rows_at,
)
from eval_toolkit.artifacts import write_predictions
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import correct_p_values
from eval_toolkit.scorecards import Records


@st.composite
def tables(draw):
    """Labels, two sets of scores with ties, groups, and two orders of the rows."""
    n = draw(st.integers(12, 30))
    labels = [0, 1] + [draw(st.integers(0, 1)) for _ in range(n - 2)]
    grid = st.integers(0, 8).map(lambda k: k / 8)
    scores = [[draw(grid) for _ in range(n)] for _ in range(2)]
    orders = [draw(st.permutations(range(n))) for _ in range(2)]
    return np.array(labels), np.array(scores), [np.array(order) for order in orders]


def written(folder, name, labels, scores, order, *, ids=True, grouped=False):
    n = len(labels)
    columns = {"row_ids": np.array([f"r{i}" for i in range(n)])[order]} if ids else {}
    if ids:
        columns["content_hashes"] = np.array([f"h{i}" for i in range(n)])[order]
    if grouped:
        columns["groups"] = np.array([f"g{i % 11}" for i in range(n)])[order]
    return write_predictions(
        Path(folder) / name, labels=labels[order], scores=scores[order], **columns
    )


def difference(a, b, **options):
    """Return the difference of areas, or why there is none: fewer than three of a class."""
    try:
        return paired_diff_from_prediction_refs(a, b, metric="roc_auc", n_resamples=30, **options)
    except UndefinedMetricError as error:
        return str(error)


@settings(max_examples=6)
@given(tables(), st.booleans())
def test_pairing_is_free_of_order(table, grouped):
    labels, (a, b), (first, second) = table
    plain = np.arange(len(labels))
    with tempfile.TemporaryDirectory() as folder:
        refs = [
            written(folder, f"{name}.csv", labels, scores, order, grouped=grouped)
            for name, scores, order in (
                *(("a", a, plain), ("b", b, plain), ("c", a, first), ("d", b, second)),
            )
        ]
        assert difference(refs[0], refs[1]) == difference(refs[2], refs[3])
        straight = difference(refs[0], refs[1], method="percentile")
        assert grouped or isinstance(straight, dict) or min(labels.sum(), (1 - labels).sum()) < 3
        assert straight == difference(refs[2], refs[3], method="percentile")
        assert drift(refs[0], refs[1]) == drift(refs[2], refs[3])
        assert drift(refs[0], refs[2]).same
        assert rows_at(refs[0], max_fpr=0.2).row_ids == rows_at(refs[2], max_fpr=0.2).row_ids


@settings(max_examples=8)
@given(tables(), st.booleans(), st.booleans())
def test_an_interval_is_free_of_order_with_and_without_ids(table, ids, grouped):
    labels, (a, _), (order, _) = table
    with tempfile.TemporaryDirectory() as folder:
        one, other = (
            bootstrap_metric_from_predictions(
                written(folder, name, labels, a, rows, ids=ids, grouped=grouped),
                metric="brier",
                n_resamples=30,
            )
            for name, rows in (("p.csv", np.arange(len(labels))), ("q.csv", order))
        )
    assert one == other


@given(tables())
def test_records_are_compared_free_of_order_and_the_sign_turns_with_the_sides(table):
    labels, scores, orders = table
    n = len(labels)

    def records(values, order):
        return Records.from_columns(
            {"label": labels[order].astype(float), "score": values[order]},
            unit_id=np.array([f"u{i}" for i in range(n)], dtype=object)[order],
            content_hash=np.array([f"h{i}" for i in range(n)], dtype=object)[order],
        )

    plain = np.arange(n)
    metrics = ["pr_auc", "brier"]
    straight = compare_records(
        *({"t": records(values, plain)} for values in scores), metrics, n_resamples=30
    )
    shuffled = compare_records(
        *({"t": records(v, o)} for v, o in zip(scores, orders, strict=True)),
        metrics,
        n_resamples=30,
    )
    assert straight.to_dict() == shuffled.to_dict()
    back = compare_records(
        *({"t": records(values, plain)} for values in scores[::-1]), metrics, n_resamples=30
    )
    for one, other in zip(straight.cells, back.cells, strict=True):
        assert one.delta == -other.delta
        assert (one.value_a, one.value_b) == (other.value_b, other.value_a)
        assert (one.p_value is None) == (other.p_value is None)
        if one.metric == "brier":  # not drawn; rows are drawn in the order of A's scores
            assert one.p_value == (other.p_value and pytest.approx(other.p_value))


@given(tables(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
@settings(max_examples=10)
def test_rows_at_is_the_largest_set_within_the_rate(table, limit):
    labels, (scores, _), _ = table
    with tempfile.TemporaryDirectory() as folder:
        found = rows_at(
            written(folder, "p.csv", labels, scores, np.arange(len(labels))), max_fpr=limit
        )
    n_negative = int((labels == 0).sum())
    feasible = [
        np.flatnonzero(scores >= t)
        for t in np.unique(scores)
        if (labels[scores >= t] == 0).sum() / n_negative <= limit
    ]
    largest = max(feasible, key=len, default=np.array([], dtype=int))
    assert sorted(found.rows.tolist()) == largest.tolist()


@settings(max_examples=25)
@given(st.data())
def test_only_slices_that_contain_all_others_leave_the_family(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    values = rng.integers(0, 2, (2, 24)).astype(float)
    parts = data.draw(st.lists(st.sets(st.integers(0, 23), min_size=2), min_size=1, max_size=4))
    if data.draw(st.booleans()):
        parts.append(set().union(*parts))
    a, b = (
        {
            f"s{number}": Records.from_columns(
                {"correct": side[sorted(part)]}, unit_id=[f"u{row:02d}" for row in sorted(part)]
            )
            for number, part in enumerate(parts)
        }
        for side in values
    )
    cells = compare_records(a, b, ["correct"]).cells
    wholes = [all(part >= other for other in parts) for part in parts]
    family = [cell.p_value for cell, whole in zip(cells, wholes, strict=True) if not whole]
    corrected = iter(correct_p_values(family, method="holm") if family else ())
    for cell, whole in zip(cells, wholes, strict=True):
        assert cell.p_adjusted == (cell.p_value if whole else next(corrected))
