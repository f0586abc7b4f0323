"""What holds for every scorecard and every table of records."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.strategies import Rows, labelled_scores
from tests.support.html_cells import Cells

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit._internal.kernel import native, using
from eval_toolkit._internal.words import visible
from eval_toolkit.inference import BootstrapCI
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, scorecard, summarise
from eval_toolkit.thresholds import MaxF1Selector

few = settings(max_examples=25, deadline=None)

SPECS = [
    ms.pr_auc,
    ms.roc_auc,
    ms.recall_at_fpr(0.1),
    ms.brier,
    ms.log_loss,
    ms.ece(n_bins=4),
    op.op_f1(0.5),
    op.op_precision(0.7),
    op.op_mcc(0.3),
    op.op_recall(MaxF1Selector(), ci_policy="fixed"),
]
RANKING = [ms.pr_auc, ms.roc_auc, ms.recall_at_fpr(0.1)]


@few
@given(labelled_scores(max_rows=25, both_classes=False))
def test_every_cell_says_what_it_is(rows: Rows) -> None:
    card = scorecard(*rows, metrics=SPECS, n_resamples=64)
    assert list(card) == [spec.name for spec in SPECS]
    json.dumps(card.to_dict(), allow_nan=False)
    for cell in card.values():
        assert cell.n_units == len(rows[0])
        if cell.status == "ok":
            assert cell.value is not None
            assert math.isfinite(cell.value)
            no_interval = ("no interval: ", "bootstrap unavailable: ")
            assert cell.ci is not None or cell.reason.startswith(no_interval)
        else:
            assert cell.status == "skipped"  # usable rows: nothing may fail
            assert cell.value is None
            assert cell.ci is None
            assert "undefined" in cell.reason
        if cell.ci is not None:
            assert cell.ci.ci_low < cell.ci.ci_high  # never of zero width
            assert cell.ci.point_estimate == cell.value


@few
@given(labelled_scores(min_rows=10), st.integers(0, 2**32))
def test_a_seed_gives_the_same_card_again(rows: Rows, seed: int) -> None:
    one, two = (scorecard(*rows, metrics=SPECS, n_resamples=64, seed=seed) for _ in range(2))
    assert one == two


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(12, 40),
    st.sampled_from([(0.1, 0.5, 0.9), (0.2, 0.7), (0.3, 0.6, 0.8, 1.0)]),
    st.sampled_from([None, "BCa", "percentile", "basic"]),
    st.booleans(),
)
def test_a_cell_is_the_same_in_any_company_and_on_any_kernel(
    seed: int, n: int, scores: tuple[float, ...], method: str | None, grouped: bool
) -> None:
    """With few scores many resamples are the estimate itself, but for the order of addition."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2, n), generator.choice(scores, n)
    options: dict[str, Any] = {"method": method, "n_resamples": 200, "seed": seed}
    options["groups"] = np.arange(n) // 2 if grouped and n >= 20 else None
    cards = [scorecard(*rows, metrics=SPECS, **options)]
    if native is not None:
        with using("numpy"):
            cards.append(scorecard(*rows, metrics=SPECS, **options))
    cards.append(
        {spec.name: scorecard(*rows, metrics=[spec], **options)[spec.name] for spec in SPECS}
    )
    for name, cell in cards[0].items():
        for card in cards[1:]:
            assert _plain(card[name]) == pytest.approx(_plain(cell), abs=1e-9)


def _plain(cell: MetricResult) -> dict[str, Any]:
    ends = {} if cell.ci is None else {"low": cell.ci.ci_low, "high": cell.ci.ci_high}
    how = None if cell.ci is None else cell.ci.method
    return {"value": cell.value, "status": cell.status, "reason": cell.reason, "method": how} | ends


@few
@given(labelled_scores(min_rows=10))
def test_ranking_metrics_see_only_the_order_of_the_scores(rows: Rows) -> None:
    labels, scores = rows
    one = scorecard(labels, scores, metrics=RANKING, n_resamples=64)
    assert scorecard(labels, np.exp(3 * scores), metrics=RANKING, n_resamples=64) == one


@few
@given(labelled_scores(min_rows=10))
def test_groups_of_one_row_are_rows(rows: Rows) -> None:
    options: dict[str, Any] = {"metrics": RANKING, "n_resamples": 64, "method": "percentile"}
    plain = scorecard(*rows, **options)
    grouped = scorecard(*rows, groups=np.arange(len(rows[0])), **options)
    for name, cell in plain.items():
        assert grouped[name].value == cell.value
        if cell.ci is not None and cell.ci.method == "percentile":
            ci = grouped[name].ci
            assert ci is not None
            assert (ci.ci_low, ci.ci_high) == (cell.ci.ci_low, cell.ci.ci_high)


@few
@given(labelled_scores(max_rows=25), st.randoms(use_true_random=False))
def test_records_have_no_order(rows: Rows, random: Any) -> None:
    labels, scores = rows
    ids = [f"u{i}" for i in range(len(labels))]
    order = list(range(len(labels)))
    random.shuffle(order)
    specs = [*SPECS, ms.mean_of("score")]
    straight = Records.from_rows(labels, scores, unit_id=ids)
    mixed = Records.from_rows(labels[order], scores[order], unit_id=[ids[i] for i in order])
    assert summarise(straight, specs, n_resamples=64) == summarise(mixed, specs, n_resamples=64)


STATES = st.sampled_from(["ok", "ok", "ok", "error", "skipped"])


@few
@given(st.lists(st.tuples(st.integers(0, 8), st.floats(0, 1), STATES), min_size=1, max_size=40))
def test_nothing_is_dropped_silently(lines: list[tuple[int, float, str]]) -> None:
    units, values, states = (list(part) for part in zip(*lines, strict=True))
    records = Records.from_columns({"x": values}, unit_id=units, status={"x": states})
    spec = [ms.mean_of("x", higher_is_better=True)]
    cell = summarise(records, spec, n_resamples=64)["x"]
    assert (cell.n_errors, cell.n_skipped) == (states.count("error"), states.count("skipped"))
    measured = {unit for unit, _, state in lines if state == "ok"}
    assert cell.n_units == len(measured)
    assert (cell.status == "ok") == bool(measured)
    zeroed = summarise(records, spec, on_error="as_zero", n_resamples=64)["x"]
    assert zeroed.n_units == len({unit for unit, _, state in lines if state != "skipped"})
    if "error" not in states:
        assert zeroed == cell
    # Where no direction is known, neither is the value of a failure: it is left out, and said.
    unknown = summarise(records, [ms.mean_of("x")], on_error="as_zero", n_resamples=64)["x"]
    assert (unknown.n_units, unknown.n_errors) == (cell.n_units, cell.n_errors)
    assert ("errors are excluded" in unknown.reason) == ("error" in states and bool(measured))


TEXT = st.text(st.characters(exclude_categories=["C"], include_characters="\n"), max_size=20)


@few
@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=4))
def test_tables_hold_any_text(reasons: dict[str, str]) -> None:
    ci = BootstrapCI(0.5, 0.4, 0.6, 0.95, 9, "BCa")
    cells = {name: MetricResult(None, "error", why) for name, why in reasons.items()}
    card = Scorecard({**cells, "ok": MetricResult(0.5, "ok", ci=ci)})
    parser = Cells("td")
    parser.feed(card._repr_html_())
    assert parser.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert parser.cells[::5] == [visible(name) for name in card]
    for line in card.to_markdown().split("\n"):
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 6
    assert len(card.to_markdown().split("\n")) == len(card) + 2
    assert len(card.to_latex().split("\n")) == len(card) + 6
    assert card.to_pandas().shape == (len(card), 10)
    assert card.to_pandas()["metric"].to_list() == list(card)
    assert card.to_polars()["metric"].to_list() == list(card)
