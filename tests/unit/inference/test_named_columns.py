"""Statistics of named columns, defined outside the package, against naive resampling loops.

Every statistic is evaluated on the rows that the same counts draw, one resample after the other in
plain Python; replicates, intervals and cells must agree.
"""

import math
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal.kernel import LANES
from eval_toolkit.analysis import compare_records
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import Block, Columns, ColumnStatistic, Needs, Term
from eval_toolkit.inference.bootstrap_intervals import bootstrap_problem
from eval_toolkit.inference.intervals import percentile_interval
from eval_toolkit.inference.plans import Plan, groups_plan, rows_plan, two_level_plan
from eval_toolkit.inference.resampling import Problem, delete_blocks, replicate
from eval_toolkit.inference.statistics import RocAuc
from eval_toolkit.scorecards import Records, summarise

N, R, SEED = 180, 130, 42


# --- statistics of somebody else ------------------------------------------------------------------


class Accuracy(ColumnStatistic):
    """Share of rows whose answer is the class; any number of classes, as texts."""

    name, columns, bounds = "accuracy", ("gold", "answer"), (0.0, 1.0)
    hit = Term(lambda gold, answer: gold == answer, columns)
    needs = Needs(sums=(hit,))

    def point(self, data: Columns) -> float:
        return float(self.hit.of(data).mean())

    def replicate(self, block: Block) -> Any:
        return block.total(self.hit) / block.size()


class WeightedRmse(ColumnStatistic):
    """Root of the weighted mean squared error of a regression."""

    name, columns = "rmse", ("truth", "guess", "weight")
    bounds = (0.0, math.inf)
    loss = Term(lambda truth, guess, weight: weight * (guess - truth) ** 2, columns)
    needs = Needs(sums=(loss, "weight"))

    def point(self, data: Columns) -> float:
        return float(np.sqrt(self.loss.of(data).sum() / data["weight"].sum()))

    def replicate(self, block: Block) -> Any:
        return np.sqrt(block.total(self.loss) / block.total("weight"))


class MeanNdcg(ColumnStatistic):
    """nDCG of each query's ranking, averaged over queries; queries are to be drawn whole."""

    name, columns, bounds = "ndcg", ("query", "gain", "rank_score"), (0.0, 1.0)

    def of_queries(self, data: Columns) -> tuple[Any, Any]:
        """Return the first row and the value of each query."""
        _, first, codes = np.unique(data["query"], return_index=True, return_inverse=True)
        values = []
        for code in range(len(first)):
            mine = codes == code
            shown = data["gain"][mine][np.argsort(-data["rank_score"][mine], kind="stable")]
            discount = np.log2(np.arange(len(shown)) + 2.0)
            values.append((shown / discount).sum() / (np.sort(shown)[::-1] / discount).sum())
        return first, np.array(values)

    def point(self, data: Columns) -> float:
        return float(self.of_queries(data)[1].mean())

    def replicate(self, block: Block) -> Any:
        first, values = self.of_queries(block.view.data)
        counts = block.row_counts()[first].astype(np.float64)
        return values @ counts / counts.sum(axis=0)


def macro_f1(gold: Any, answer: Any) -> float:
    """Mean of the classes' F1, a function of the rows."""
    scores = []
    for one in sorted({*gold.tolist(), *answer.tolist()}):
        hits = int(((gold == one) & (answer == one)).sum())
        scores.append(2 * hits / (int((gold == one).sum()) + int((answer == one).sum())))
    return float(np.mean(scores))


# --- the same in plain Python ---------------------------------------------------------------------


def naive_accuracy(rows: list[dict[str, Any]]) -> float:
    return sum(row["gold"] == row["answer"] for row in rows) / len(rows)


def naive_rmse(rows: list[dict[str, Any]]) -> float:
    loss = sum(row["weight"] * (row["guess"] - row["truth"]) ** 2 for row in rows)
    return math.sqrt(loss / sum(row["weight"] for row in rows))


def naive_ndcg(rows: list[dict[str, Any]]) -> float:
    """A query drawn k times has every row k times; its value counts k times."""
    queries = defaultdict(list)
    for row in rows:
        queries[row["query"]].append(row)
    total, n = 0.0, 0
    for drawn in queries.values():
        once = {row["at"]: row for row in drawn}.values()
        times = len(drawn) // len(once)
        shown = [
            row["gain"] for row in sorted(once, key=lambda row: (-row["rank_score"], row["at"]))
        ]
        best = sorted(shown, reverse=True)
        dcg, ideal = (
            sum(gain / math.log2(at + 2) for at, gain in enumerate(order))
            for order in (shown, best)
        )
        total, n = total + times * dcg / ideal, n + times
    return total / n


def naive_f1(rows: list[dict[str, Any]]) -> float:
    scores = []
    for one in {row[name] for row in rows for name in ("gold", "answer")}:
        hits = sum(row["gold"] == row["answer"] == one for row in rows)
        all_of = sum(row[name] == one for row in rows for name in ("gold", "answer"))
        scores.append(2 * hits / all_of)
    return sum(scores) / len(scores)


def made() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    gold = rng.choice(["cat", "cow", "dog", "né"], N)
    truth = rng.normal(size=N)
    return {
        "gold": gold.astype(object),
        "answer": np.where(rng.random(N) < 0.7, gold, "cat").astype(object),
        "truth": truth,
        "guess": truth + rng.normal(0.2, 0.5, N),
        "weight": rng.random(N) + 0.2,
        "query": np.array([f"q{at // 6:02d}" for at in range(N)], dtype=object),
        "gain": rng.integers(0, 4, N).astype(float) + 0.1,
        "rank_score": rng.random(N).round(1),
        "at": np.arange(N),
    }


DATA = made()
GROUPS = DATA["query"]
STATISTICS = {
    "accuracy": (Accuracy(), naive_accuracy),
    "rmse": (WeightedRmse(), naive_rmse),
    "ndcg": (MeanNdcg(), naive_ndcg),
}
PLANS = {"rows": rows_plan(N), "groups": groups_plan(GROUPS), "two-level": two_level_plan(GROUPS)}


def resampled(plan: Plan, naive: Any, columns: dict[str, Any], n_resamples: int = R) -> Any:
    """Return the naive value of every resample, from the rows that the plan's counts draw."""
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    counts = np.empty((plan.count_rows(), LANES), dtype=np.uint8)
    values = []
    for first in range(0, n_resamples, LANES):
        plan.draw(counts, seed=SEED, first=first)
        by_row = counts if plan.unit_of_row is None else counts[plan.unit_of_row]
        for lane in range(LANES):
            drawn = [
                row for row, k in zip(rows, by_row[:, lane].tolist(), strict=True) for _ in range(k)
            ]
            values.append(naive(drawn))
    return np.array(values[:n_resamples])


# --- the engine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "plan"),
    [("ndcg", "groups"), *((name, plan) for name in ("accuracy", "rmse") for plan in PLANS)],
)
def test_replicates_and_intervals_are_those_of_a_loop(name: str, plan: str) -> None:
    statistic, naive = STATISTICS[name]
    expected = resampled(PLANS[plan], naive, DATA)
    problem = Problem((Columns(DATA),), (statistic,), PLANS[plan], SEED)
    assert replicate(problem, R)[0, 0] == pytest.approx(expected, abs=1e-12)
    ((ci,),) = bootstrap_problem(problem, n_resamples=R, confidence=0.9, method="percentile")
    assert (ci.ci_low, ci.ci_high) == pytest.approx(percentile_interval(expected, 0.9), abs=1e-12)
    assert ci.point_estimate == pytest.approx(
        naive([dict(zip(DATA, row, strict=True)) for row in zip(*DATA.values(), strict=True)]),
        abs=1e-12,
    )


def test_left_out_blocks_serve_bca() -> None:
    problem = Problem((Columns(DATA),), (WeightedRmse(), Accuracy()), PLANS["groups"], SEED)
    blocks = delete_blocks(problem)[0]
    queries = np.unique(GROUPS)
    rows = [dict(zip(DATA, row, strict=True)) for row in zip(*DATA.values(), strict=True)]
    for at, naive in enumerate((naive_rmse, naive_accuracy)):
        expected = [naive([row for row in rows if row["query"] != one]) for one in queries]
        assert sorted(blocks[at]) == pytest.approx(sorted(expected), abs=1e-12)
    for ci, _ in bootstrap_problem(problem, n_resamples=R, confidence=0.95, method="BCa"):
        assert ci.method == "BCa, groups"


def test_statistics_share_draws_with_those_of_labels_and_scores() -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.random(N) < 0.4, rng.random(N).round(1)
    both = Columns({"label": labels, "score": scores, **DATA}, "score")
    together = replicate(Problem((both,), (RocAuc(), Accuracy()), PLANS["groups"], SEED), R)
    alone = replicate(Problem.scored(labels, [scores], [RocAuc()], PLANS["groups"], SEED), R)
    assert np.array_equal(together[:, 0], alone[:, 0])


def test_the_order_of_rows_does_not_move_a_ranked_table() -> None:
    rng = np.random.default_rng(0)
    values = {"label": rng.random(N) < 0.4, "score": rng.random(N).round(1), **DATA}
    order = rng.permutation(N)
    shuffled = {name: column[order] for name, column in values.items()}
    one, other = (
        bootstrap_problem(
            Problem((Columns(given, "score"),), (WeightedRmse(), Accuracy()), rows_plan(N), SEED),
            n_resamples=R,
            confidence=0.95,
            method="percentile",
        )[0]
        for given in (values, shuffled)
    )
    assert [ci.to_dict() for ci in one] == [
        {
            **ci.to_dict(),
            **{k: pytest.approx(v) for k, v in mine.to_dict().items() if k.startswith("point")},
        }
        for ci, mine in zip(other, one, strict=True)
    ]


def test_columns_say_what_is_wrong() -> None:
    with pytest.raises(InvalidInputError, match="equal lengths; 'a' has 2, 'b' has 1"):
        Columns({"a": np.zeros(2), "b": np.zeros(1)})
    with pytest.raises(InvalidInputError, match="equal lengths; there are no columns"):
        Columns({})
    with pytest.raises(InvalidInputError, match="there is no column 'gold'; the columns are 'a'"):
        Problem((Columns({"a": np.zeros(9)}),), (Accuracy(),), rows_plan(9), 0)
    with pytest.raises(InvalidTypeError, match="the column 'gold' is not numeric"):
        Columns(DATA).summed("gold")


# --- cells ----------------------------------------------------------------------------------------


SPECS = {
    "accuracy": ms.from_columns("accuracy", ["gold", "answer"], Accuracy()),
    "rmse": ms.from_columns("rmse", ["truth", "guess", "weight"], WeightedRmse()),
    "ndcg": ms.from_columns("ndcg", ["query_text", "gain", "rank_score"], MeanNdcg()),
    "macro_f1": ms.from_columns("macro_f1", ["gold", "answer"], macro_f1, bounds=(0.0, 1.0)),
}
NAIVE = {name: naive for name, (_, naive) in STATISTICS.items()} | {"macro_f1": naive_f1}


def records(**more: Any) -> Records:
    columns = {name: column for name, column in DATA.items() if name not in ("query", "at")}
    ids = [f"u{at:03d}" for at in range(N)]
    parts = {"half": ["a" if at % 12 < 6 else "b" for at in range(N)]}
    return Records.from_columns(
        {**columns, "query_text": DATA["query"]}, unit_id=ids, group=GROUPS, slices=parts, **more
    )


@pytest.mark.parametrize("name", SPECS)
def test_cells_of_groups_are_those_of_a_loop(name: str) -> None:
    card = summarise(records(), [SPECS[name]], by="half", method="percentile", n_resamples=R)
    for cell, kept in [
        (card[name], np.ones(N, bool)),
        *((card.slices[part][name], records().slices["half"] == part) for part in "ab"),
    ]:
        part = {column: values[kept] for column, values in DATA.items()}
        expected = resampled(groups_plan(part["query"]), NAIVE[name], part)
        low, high = percentile_interval(expected, 0.95)
        assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx((low, high), abs=1e-12)
        assert (cell.n_units, cell.n_groups) == (int(kept.sum()), int(kept.sum()) // 6)
        assert cell.details["columns"] == list(SPECS[name].columns)


def test_the_default_interval_of_a_bounded_statistic_is_a_score_interval() -> None:
    cells = summarise(records(), list(SPECS.values()), n_resamples=R)
    assert {name: cell.ci.method for name, cell in cells.items()} == {
        "accuracy": "score, groups",
        "rmse": "BCa, groups",
        "ndcg": "score, groups",
        "macro_f1": "score, groups",
    }
    assert {name: cell.details["higher_is_better"] for name, cell in cells.items()} == {
        "accuracy": True,
        "rmse": False,
        "ndcg": True,
        "macro_f1": True,
    }


def test_an_executor_changes_no_bit() -> None:
    specs = list(SPECS.values())
    with ThreadPoolExecutor(2) as executor:
        spread = summarise(records(), specs, n_resamples=R, executor=executor)
    assert spread.to_dict() == summarise(records(), specs, n_resamples=R).to_dict()


def test_rows_without_a_value_are_left_out_and_counted() -> None:
    status = ["error"] * 2 + ["skipped"] * 3 + ["ok"] * (N - 5)
    some = records(status={"answer": status})
    cell = summarise(some, [SPECS["accuracy"]])["accuracy"]
    left = DATA["gold"][5:] == DATA["answer"][5:]
    assert (cell.value, cell.n_errors, cell.n_skipped) == (left.mean(), 2, 3)
    zero = summarise(some, [SPECS["accuracy"]], on_error="as_zero")["accuracy"]
    assert (zero.status, zero.value) == ("skipped", None)
    assert zero.reason == "2 errors, and accuracy has no worst value for 'as_zero'"
    nothing = summarise(records(status={"answer": ["skipped"] * N}), [SPECS["accuracy"]])
    assert nothing["accuracy"].reason == f"no unit has a value: 0 errors, {N} skipped"


def test_every_attempt_is_a_row_and_units_are_drawn_whole() -> None:
    attempts = Records.from_columns(
        {"gold": DATA["gold"], "answer": DATA["answer"]},
        unit_id=[f"u{at // 3:02d}" for at in range(N)],
    )
    cell = summarise(attempts, [SPECS["accuracy"]], method="percentile", n_resamples=R)["accuracy"]
    plan = groups_plan([at // 3 for at in range(N)])
    expected = percentile_interval(resampled(plan, naive_accuracy, DATA), 0.95)
    assert (cell.ci.ci_low, cell.ci.ci_high) == pytest.approx(expected, abs=1e-12)
    assert (cell.n_units, cell.details["n_attempts"]) == (N // 3, N)


class TestCompared:
    def test_a_difference_of_texts(self) -> None:
        other = {**DATA, "answer": DATA["gold"]}
        ids = [f"u{at:03d}" for at in range(N)]
        a, b = (
            Records.from_columns({n: c[n] for n in ("gold", "answer")}, unit_id=ids, group=GROUPS)
            for c in (DATA, other)
        )
        (cell,) = compare_records({"test": a}, {"test": b}, metrics=[SPECS["accuracy"]]).cells
        assert cell.value_a == np.mean(DATA["gold"] == DATA["answer"])
        assert (cell.value_b, cell.verdict, cell.n_groups) == (1.0, "better", N // 6)
        assert cell.delta == pytest.approx(1.0 - cell.value_a)

    def test_several_attempts_are_no_single_text(self) -> None:
        given = Records.from_columns(
            {"gold": DATA["gold"], "answer": DATA["answer"]},
            unit_id=[f"u{at // 2:02d}" for at in range(N)],
        )
        (cell,) = compare_records({"t": given}, {"t": given}, metrics=[SPECS["accuracy"]]).cells
        assert cell.status == "skipped"
        assert "there are several attempts at one unit" in cell.reason


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (("", ["a"], len), InvalidInputError, "`name` is ''"),
        (("m", "a", len), InvalidTypeError, "must be a list of names"),
        (("m", [], len), InvalidInputError, "must contain at least one column"),
        (("m", ["a", "a"], len), InvalidInputError, "names must be unique"),
        (("m", ["a"], 3), InvalidTypeError, "must be callable or a statistic"),
        (("m", ["a"], Accuracy()), InvalidInputError, "accuracy needs 2 columns: 'gold', 'answer'"),
    ],
)
def test_specs_say_what_is_wrong(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ms.from_columns(*given)


def test_labels_and_scores_are_not_what_it_is_made_of() -> None:
    with pytest.raises(InvalidInputError, match="accuracy needs records with the columns 'gold'"):
        SPECS["accuracy"].compute([0, 1], [0.1, 0.9])
