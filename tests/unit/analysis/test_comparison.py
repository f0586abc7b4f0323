"""Two runs compared: pairing, metrics, tests, versions, correction over slices."""

import json

import numpy as np
import pytest
from scipy.stats import chi2, norm

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.analysis import compare_records, compare_runs
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.inference import (
    correct_p_values,
    mcnemar_test,
    paired_bootstrap_diff,
    paired_mean_diff,
    sign_flip_test,
)
from eval_toolkit.inference.paired_proportions import paired_macro_interval, tango_interval
from eval_toolkit.metrics import brier_score, confusion_counts, pr_auc
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records, summarise

N = 120
ITEMS = np.random.default_rng(11)
LABELS = ITEMS.integers(0, 2, N)
IDS = [f"u{i:03d}" for i in range(N)]


def scores(seed, noise=0.25):
    rng = np.random.default_rng(seed)
    return np.clip(0.35 + 0.3 * LABELS + rng.normal(0, noise, N), 0, 1)


def records(values, rows=slice(None), **options):
    given = {
        "unit_id": IDS[rows],
        "content_hash": [f"h{unit}" for unit in IDS[rows]],
    }
    columns = {"label": LABELS[rows].astype(float), "score": values[rows]}
    return Records.from_columns(columns, **(given | options))


def make_run(folder, name, subjects, *, specs=(ms.pr_auc, ms.brier), versions=None, blocks=None):
    by_slice = {}
    for (slice_name, scorer), held in subjects.items():
        part = by_slice.setdefault(slice_name, {"n": N, "n_positive": 1, "by_scorer": {}})
        card = summarise(held, list(specs), n_resamples=20).to_dict() if specs else {}
        part["by_scorer"][scorer] = {**card, "n": len(held), "n_positive": 1}
    for (slice_name, scorer), block in (blocks or {}).items():
        part = by_slice.setdefault(slice_name, {"n": N, "n_positive": 1, "by_scorer": {}})
        part["by_scorer"].setdefault(scorer, {}).update(block)
    results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": by_slice}
    manifest = {"run_id": name, "versioned_objects": versions or {}}
    return write_run(folder / name, results=results, manifest=manifest, records=subjects or None)


def test_every_stored_metric_is_compared_on_the_records(tmp_path):
    a = make_run(tmp_path, "a", {("test", "guard"): records(scores(1))})
    b = make_run(tmp_path, "b", {("test", "guard"): records(scores(2, 0.05))})
    result = compare_runs(a.path, b, n_resamples=200, seed=9)
    assert [(c.slice, c.scorer, c.metric) for c in result.cells] == [
        ("test", "guard", "pr_auc"),
        ("test", "guard", "brier"),
    ]
    expected = paired_bootstrap_diff(
        LABELS, scores(1), scores(2, 0.05), pr_auc, n_resamples=200, seed=9
    )
    cell = result["test", "guard", "pr_auc"]
    assert (cell.delta, cell.ci_low, cell.ci_high, cell.p_value) == (
        *(expected.delta, expected.ci_low, expected.ci_high, expected.p_value),
    )
    assert (cell.verdict, cell.n_units, cell.n_groups, cell.n_unhashed) == ("better", N, N, 0)
    brier = result["test", "guard", "brier"]
    assert brier.value_a == pytest.approx(brier_score(LABELS, scores(1)), rel=1e-12)
    assert (brier.delta < 0, brier.higher_is_better, brier.verdict) == (True, False, "better")
    back = compare_runs(b, a, n_resamples=200, seed=9)
    assert [cell.verdict for cell in back.cells] == ["worse", "worse"]
    json.dumps(result.to_dict(), allow_nan=False)
    assert "| test | all | guard | pr_auc |" in result.to_markdown()
    assert len(result.to_pandas()) == len(result.to_polars()) == len(result) == 2
    with pytest.raises(KeyError, match="the comparison has no"):
        result["test", "guard", "roc_auc"]


def test_a_run_equals_itself(tmp_path):
    a = make_run(tmp_path, "a", {("test", "guard"): records(scores(1))})
    ranked, brier = compare_runs(a, a, n_resamples=50).cells
    assert (ranked.delta, ranked.p_value, ranked.verdict) == (0.0, 1.0, "no significant difference")
    assert ranked.ci_low == -ranked.ci_high < 0.0  # equal on these rows is not equal on all
    assert (brier.delta, brier.ci_low, brier.p_value) == (0.0, None, None)
    assert (brier.verdict, brier.reason[:12]) == ("not tested", "no interval:")


def test_common_units_are_taken_and_the_rest_counted():
    a = records(scores(1), slice(0, 100))
    b = records(scores(2), slice(20, 120))
    cell = compare_records({"t": a}, {"t": b}, ["pr_auc"], n_resamples=50)["t", "", "pr_auc"]
    assert (cell.n_units, cell.n_only_a, cell.n_only_b) == (80, 20, 20)
    assert cell.value_a == pytest.approx(pr_auc(LABELS[20:100], scores(1)[20:100]), rel=1e-12)
    nothing = compare_records(
        {"t": records(scores(1), slice(0, 9))}, {"t": records(scores(1), slice(9, 20))}, ["pr_auc"]
    )["t", "", "pr_auc"]
    assert (nothing.status, nothing.reason) == ("skipped", "A and B have no unit in common")


def test_what_was_left_out_is_said_once_for_a_slice(tmp_path):
    a = {"t": records(scores(1), slice(0, 100)), "u|v": records(scores(1), slice(0, 50))}
    b = {"t": records(scores(2), slice(20, 120)), "u|v": records(scores(2), slice(0, 50))}
    result = compare_records(a, b, ["pr_auc", "brier"], n_resamples=50)
    assert result.left_out == (
        "slice 't': left out 20 units only in A, 20 only in B, 0 that differ",
    )
    assert [row["n_only_a"] for row in result.to_dict()["cells"]] == [20, 20, 0, 0]
    table, _, said = result.to_markdown().partition("\n\n")
    assert said.splitlines() == [
        "- A is A, B is B",
        "- p-values corrected for the number of metrics and slices (holm)",
        f"- {result.left_out[0]}",
    ]
    assert len(table.splitlines()) == 2 + 4
    old = make_run(tmp_path, "old", {("u|v", "s"): a["t"]})
    new = make_run(tmp_path, "new", {("u|v", "s"): b["t"]})
    said = compare_runs(old, new, n_resamples=50).to_markdown().splitlines()[-1]
    assert said.startswith(r"- slice 'u\|v', scorer 's': left out 20 units only in A")
    assert not compare_runs(old, old, n_resamples=50).left_out
    assert "left out" not in compare_runs(old, old, n_resamples=50).to_markdown()


def test_other_content_raises_or_is_dropped():
    hashes = [f"h{unit}" for unit in IDS]
    a = records(scores(1))
    b = records(scores(2), content_hash=["other", *hashes[1:]])
    with pytest.raises(ArtifactError, match=r"slice 't': unit 'u000' has a different content hash"):
        compare_records({"t": a}, {"t": b}, ["pr_auc"])
    cell = compare_records({"t": a}, {"t": b}, ["pr_auc"], on_mismatch="drop", n_resamples=50)
    assert (cell.cells[0].n_units, cell.cells[0].n_mismatched) == (N - 1, 1)
    unhashed = records(scores(2), content_hash=None)
    cell = compare_records({"t": a}, {"t": unhashed}, ["pr_auc"], n_resamples=50).cells[0]
    assert (cell.n_units, cell.n_unhashed) == (N, N)
    flipped = Records.from_columns(
        {"label": 1.0 - LABELS, "score": scores(2)}, unit_id=IDS, content_hash=[""] * N
    )
    with pytest.raises(ArtifactError, match=r"different label .*120 of 120"):
        compare_records({"t": a}, {"t": flipped}, ["pr_auc"])


def test_failed_units_are_counted_and_a_failed_scorer_has_its_row():
    status = ["error" if i < 5 else "ok" for i in range(N)]
    b = records(scores(2), status={"score": status})
    cell = compare_records({"t": records(scores(1))}, {"t": b}, ["pr_auc"], n_resamples=50).cells[0]
    assert (cell.n_units, cell.n_failed, cell.n_lost) == (N - 5, 5, 5)
    back = compare_records({"t": b}, {"t": records(scores(1))}, ["pr_auc"], n_resamples=50).cells[0]
    assert (back.n_units, back.n_failed, back.n_lost) == (N - 5, 5, 0)
    lost = records(scores(2), status={"score": ["error"] * N})
    cell = compare_records({"t": records(scores(1))}, {"t": lost}, ["pr_auc"]).cells[0]
    assert cell.reason == "none of 120 common units has a value on both sides"
    assert (cell.status, cell.n_units, cell.n_failed) == ("skipped", 0, N)


def columns(seed, groups=None, attempts=1):
    rng = np.random.default_rng(seed)
    n = N * attempts
    return Records.from_columns(
        {"correct": rng.integers(0, 2, n), "reward": rng.normal(0.1 * seed, 1, n)},
        unit_id=IDS * attempts,
        group=None if groups is None else groups * attempts,
    )


def test_shares_get_the_score_test_and_means_that_of_their_interval():
    a, b = columns(1), columns(2)
    result = compare_records({"t": a}, {"t": b}, ["correct", "reward"], seed=4)
    correct, reward = result.cells
    up, down = (
        int((one.columns["correct"] > other.columns["correct"]).sum())
        for one, other in ((b, a), (a, b))
    )
    tango = tango_interval(up, down, N)
    assert (correct.ci_low, correct.ci_high) == (tango.ci_low, tango.ci_high)
    assert correct.method == "tango"
    expected = mcnemar_test(a.columns["correct"], b.columns["correct"], method="chi2").p_value
    assert (correct.p_value, correct.test) == (pytest.approx(expected), "mcnemar-score")
    mean = paired_mean_diff(a.columns["reward"], b.columns["reward"])
    assert (reward.ci_low, reward.ci_high) == (mean.ci_low, mean.ci_high)
    assert (reward.p_value, reward.test) == (mean.p_value, "paired skewness-corrected t")
    flips = sign_flip_test(a.columns["reward"], b.columns["reward"], seed=4)
    assert reward.p_value == pytest.approx(flips.p_value, abs=0.02)  # near normal: both agree
    assert reward.higher_is_better is None
    assert reward.verdict in ("different", "no significant difference")
    down = compare_records({"t": a}, {"t": b}, [ms.mean_of("reward", higher_is_better=False)])
    assert down.cells[0].higher_is_better is False


def test_declared_bounds_are_those_of_the_difference():
    rng = np.random.default_rng(5)
    sides = [rng.beta(8.0, 1.0, N) for _ in "ab"]
    held = [{"t": Records.from_columns({"bleu": side}, unit_id=IDS)} for side in sides]
    bounded = ms.mean_of("bleu", bounds=(0.0, 1.0))
    cell = compare_records(*held, [bounded]).cells[0]
    mean = paired_mean_diff(*sides, bounds=(0.0, 1.0))
    assert (cell.ci_low, cell.ci_high, cell.p_value) == (mean.ci_low, mean.ci_high, mean.p_value)
    assert cell.method == "paired gaffke"
    assert cell.unseen is None
    half_known = ms.mean_of("bleu", bounds=(0.0, float("inf")))
    cell = compare_records(*held, [half_known]).cells[0]
    assert cell.method == "paired skewness-corrected t"
    assert "unseen" not in cell.to_dict()
    spread = max(map(np.max, sides)) - min(map(np.min, sides))
    assert cell.unseen == pytest.approx(1.96**2 / (N + 1.96**2) * spread, rel=1e-4)


def test_groups_are_kept_together_and_attempts_averaged():
    groups = [f"g{i // 6}" for i in range(N)]
    a, b = columns(1, groups, attempts=3), columns(2, None, attempts=3)
    cell = compare_records({"t": a}, {"t": b}, ["reward"]).cells[0]
    mean_a, mean_b = (r.columns["reward"].reshape(N, 3).mean(axis=1) for r in (a, b))
    expected = paired_mean_diff(mean_a, mean_b, groups=groups)
    assert cell.delta == pytest.approx(expected.delta, rel=1e-9)
    assert (cell.ci_low, cell.ci_high) == pytest.approx((expected.ci_low, expected.ci_high))
    assert (cell.n_units, cell.n_groups, cell.method) == (N, 20, expected.method)
    other = columns(3, [f"g{i // 5}" for i in range(N)])
    cell = compare_records({"t": columns(1, groups)}, {"t": other}, ["reward"]).cells[0]
    assert (cell.status, "different groups" in cell.reason) == ("error", True)
    renamed = columns(3, [f"x{i // 6}" for i in range(N)])
    cell = compare_records({"t": columns(1, groups)}, {"t": renamed}, ["reward"]).cells[0]
    assert (cell.status, cell.n_groups) == ("ok", 20)


@pytest.mark.parametrize("n_groups", [4, 5])
def test_a_mean_loss_in_few_groups_is_compared(n_groups):
    """`score` prints an interval of the Brier score in 4 groups, and so does a comparison."""
    groups = [f"g{i % n_groups}" for i in range(N)]
    a, b = (records(scores(seed), group=groups) for seed in (1, 2))
    cell = compare_records({"t": a}, {"t": b}, ["brier"]).cells[0]
    assert cell.ci_low < cell.delta < cell.ci_high
    assert (cell.n_groups, cell.n_resamples) == (n_groups, 0)
    assert (cell.p_value <= 0.05) == (not cell.ci_low <= 0.0 <= cell.ci_high)


def test_few_units_have_values_but_no_interval():
    few = slice(0, 8)
    a, b = records(scores(1), few), records(scores(2), few)
    cell = compare_records({"t": a}, {"t": b}, ["pr_auc"]).cells[0]
    assert (cell.status, cell.ci_low, cell.p_value) == ("ok", None, None)
    assert cell.verdict == "not tested"
    assert cell.delta == cell.value_b - cell.value_a
    assert cell.reason == "no interval: 8 common units; at least 10 are needed"
    cell = compare_records({"t": a}, {"t": b}, ["brier"]).cells[0]
    direct = paired_bootstrap_diff(LABELS[few], scores(1)[few], scores(2)[few], brier_score)
    assert (cell.ci_low, cell.p_value) == pytest.approx((direct.ci_low, direct.p_value))
    assert cell.n_resamples == 0
    one = Records.from_columns({"x": [1.0]}, unit_id=["u"])
    cell = compare_records({"t": one}, {"t": one}, ["x"]).cells[0]
    assert (cell.delta, cell.ci_low) == (0.0, None)


def test_one_bad_metric_does_not_stop_the_others():
    class Broken:
        name = "broken"

        def compute(self, y_true, y_score):
            raise ZeroDivisionError("no")

    ones = Records.from_columns(
        {"label": [1.0] * 20, "score": [0.5] * 20}, unit_id=[str(i) for i in range(20)]
    )
    cells = compare_records({"t": ones}, {"t": ones}, [Broken(), "pr_auc", "brier"]).cells
    assert [cell.status for cell in cells] == ["error", "skipped", "ok"]
    assert cells[0].reason == "ZeroDivisionError: no"
    assert "all 20 rows are positive" in cells[1].reason
    assert [cell.n_units for cell in cells] == [20, 20, 20]


def test_p_values_are_corrected_over_slices_and_metrics():
    a = {f"s{k}": records(scores(k)) for k in range(4)}
    b = {f"s{k}": records(scores(10 + k, 0.2)) for k in range(4)}
    for adjust in ("holm", "bh", "none"):
        cells = compare_records(a, b, ["pr_auc", "brier"], adjust=adjust, n_resamples=200).cells
        assert len(cells) == 8
        expected = correct_p_values([cell.p_value for cell in cells], method=adjust)
        assert [cell.p_adjusted for cell in cells] == expected.tolist()
        one = compare_records(a, b, ["brier"], adjust=adjust, n_resamples=200).cells
        expected = correct_p_values([cell.p_value for cell in one], method=adjust)
        assert [cell.p_adjusted for cell in one] == expected.tolist()  # those asked for, no more
    with pytest.raises(InvalidInputError, match="`adjust` is 'sidak'"):
        compare_records(a, b, ["pr_auc"], adjust="sidak")


def taken(values, rows):
    """Records of some rows, in the order of their ids."""
    return Records.from_columns(
        {"label": LABELS[rows].astype(float), "score": values[rows]},
        unit_id=[IDS[row] for row in rows],
    )


def sides(parts):
    """A and B, each a dict of records by slice."""
    rows = {name: np.arange(N)[part] for name, part in parts.items()}
    return tuple(
        {name: taken(values, part) for name, part in rows.items()}
        for values in (scores(1), scores(2, 0.2))
    )


EVERY, LEFT, RIGHT = slice(None), slice(0, 70), slice(70, None)


@pytest.mark.parametrize(
    ("parts", "alone"),
    [
        ({"all": EVERY, "g=x": LEFT, "g=y": RIGHT}, {"all"}),
        ({"g=x": LEFT, "g=y": RIGHT, "zz": EVERY}, {"zz"}),  # names and order play no part
        ({"g=x": LEFT, "g=y": RIGHT}, set()),
        ({"all": EVERY, "x": slice(0, 80), "y": slice(40, None)}, {"all"}),  # parts that overlap
        ({"x": slice(0, 80), "y": slice(40, None)}, set()),
        ({"all": EVERY, "long": slice(0, 80), "longer": slice(0, 40)}, {"all"}),  # nested
        ({"x": LEFT, "y": RIGHT, "x1": slice(0, 30), "x2": slice(30, 70)}, set()),
        ({"all": EVERY, "g=x": EVERY}, {"all", "g=x"}),  # one value: the same test twice
        ({"all": EVERY, "g=x": EVERY, "h=1": LEFT, "h=2": RIGHT}, {"all", "g=x"}),
        ({"most": slice(0, 119), "x": LEFT, "y": RIGHT}, set()),  # one unit is elsewhere
    ],
)
def test_a_slice_that_contains_all_others_is_not_in_their_family(tmp_path, parts, alone):
    a, b = sides(parts)
    runs = [
        make_run(tmp_path, name, {(part, "s"): held for part, held in side.items()})
        for name, side in (("a", a), ("b", b))
    ]
    for result in (
        compare_records(a, b, ["pr_auc", "brier"], n_resamples=200),
        compare_runs(*runs, n_resamples=200),
    ):
        families = [{name} for name in alone] + [parts.keys() - alone]
        for family in filter(None, families):  # each with both of its metrics
            cells = [cell for cell in result.cells if cell.slice in family]
            expected = correct_p_values([cell.p_value for cell in cells], method="holm")
            assert len(cells) == 2 * len(family)
            assert [cell.p_adjusted for cell in cells] == expected.tolist()


def test_the_same_ids_with_other_scores_or_content_are_other_tests():
    a, b = (
        {"plain": records(one), "typos": records(other), "hard": records(one, LEFT)}
        for one, other in ((scores(1), scores(3)), (scores(2, 0.1), scores(4, 0.1)))
    )
    cells = compare_records(a, b, ["pr_auc"], n_resamples=200).cells
    expected = correct_p_values([cell.p_value for cell in cells], method="holm")
    assert [cell.p_adjusted for cell in cells] == expected.tolist()
    words = [f"w{unit}" for unit in IDS]
    a = {"plain": a["plain"], "reworded": records(scores(1), content_hash=words)}
    b = {"plain": b["plain"], "reworded": records(scores(2, 0.1), content_hash=words)}
    cells = compare_records(a, b, ["pr_auc"], n_resamples=200).cells
    assert [cell.p_adjusted for cell in cells] == [2 * cell.p_value for cell in cells]


def test_scorers_are_matched_by_name_or_pair_or_when_single(tmp_path):
    old = make_run(tmp_path, "old", {("test", "v1"): records(scores(1))})
    new = make_run(tmp_path, "new", {("test", "v2"): records(scores(2))})
    (cell,) = compare_runs(old, new, metrics=["pr_auc"], n_resamples=20).cells
    assert (cell.scorer, cell.scorer_b) == ("v1", "v2")
    both = make_run(tmp_path, "both", {("test", name): records(scores(3)) for name in ("v2", "v3")})
    with pytest.raises(MissingColumnError, match="nothing in common: A has test/v1"):
        compare_runs(old, both)
    paired = compare_runs(old, both, pairs={"v1": "v3"}, metrics=["pr_auc"], n_resamples=20)
    assert paired["test", "v1", "pr_auc"].scorer_b == "v3"
    assert paired.only_in_b == (("test", "v2"),)
    for pairs in ({"v9": "v3"}, {"v1": "v9"}):
        with pytest.raises(MissingColumnError, match="has no scorer 'v9'"):
            compare_runs(old, both, pairs=pairs)


def test_slices_and_scorers_are_chosen_and_what_is_missing_is_said(tmp_path):
    a = make_run(
        tmp_path,
        "a",
        {(part, name): records(scores(1)) for part in ("x", "y", "z") for name in ("s", "t")},
    )
    b = make_run(
        tmp_path,
        "b",
        {(part, name): records(scores(2)) for part in ("x", "y", "w") for name in ("s", "t")},
    )
    options = {"metrics": ["pr_auc"], "n_resamples": 20}
    every = compare_runs(a, b, **options)
    assert [(c.slice, c.scorer) for c in every.cells] == [
        *(("x", "s"), ("x", "t"), ("y", "s"), ("y", "t")),
    ]
    assert every.only_in_a == (("z", "s"), ("z", "t"))
    assert every.only_in_b == (("w", "s"), ("w", "t"))
    (one,) = compare_runs(a, b, slices=["y"], scorers=["t"], **options).cells
    assert (one.slice, one.scorer) == ("y", "t")
    with pytest.raises(MissingColumnError, match="run 'a' has no 'q'"):
        compare_runs(a, b, slices=["q"])
    with pytest.raises(MissingColumnError, match="run 'b' has no 'z'"):
        compare_runs(a, b, slices=["z"])
    with pytest.raises(MissingColumnError, match="`scorers`: run 'a' has no 'q'"):
        compare_runs(a, b, scorers=["q"])
    with pytest.raises(InvalidTypeError, match=r"write \['x'\]"):
        compare_runs(a, b, slices="x")


def test_bad_arguments(tmp_path):
    a = make_run(tmp_path, "a", {("test", "s"): records(scores(1))})
    for options, message in (
        ({"metrics": []}, "is empty"),
        ({"metrics": ["pr_auc", ms.pr_auc]}, "names 'pr_auc' twice"),
        (
            {"metrics": "pr_auc"},
            "`metrics` must be a list of names or specs; enclose it in brackets",
        ),
        ({"metrics": ["pr_acu"]}, "did you mean pr_auc"),
        ({"on_mismatch": "ignore"}, "`on_mismatch`"),
        ({"confidence": 95}, "`confidence`"),
        ({"n_resamples": 0}, "`n_resamples`"),
        ({"seed": 1, "rng": 2}, "not both"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            compare_runs(a, a, **options)
    with pytest.raises(InvalidTypeError, match="`b` must be a Run"):
        compare_runs(a, {})
    with pytest.raises(InvalidTypeError, match="`a` must map slice names"):
        compare_records(records(scores(1)), {}, ["pr_auc"])
    with pytest.raises(ArtifactError):
        compare_runs(a, tmp_path / "none")


def test_versions_that_differ_are_refused_unless_allowed(tmp_path):
    subjects = {("test", "s"): records(scores(1)), ("test", "t"): records(scores(2))}
    base = {"scorer:s": "1", "scorer:t": "1", "metric:pr_auc": "1", "check:X": "1", "task:q": "1"}
    a = make_run(tmp_path, "a", subjects, versions=base)
    for number, (change, refused) in enumerate(
        (
            ({}, ""),
            ({"scorer:s": "2"}, "scorer:s is 1 in A and 2 in B"),
            ({"metric:pr_auc": "2"}, "metric:pr_auc is 1 in A and 2 in B"),
            ({"task:q": "2"}, "task:q is 1 in A and 2 in B"),
            ({"check:X": "2"}, ""),  # found the data clean, made no number
            ({"scorer:t": "2"}, ""),  # not compared
            ({"scorer:s": None}, "scorer:s is 1 in A and unversioned in B"),
        )
    ):
        versions = {name: v for name, v in (base | change).items() if v is not None}
        b = make_run(tmp_path, f"b{number}", subjects, versions=versions)
        options = {"scorers": ["s"], "metrics": ["pr_auc"], "n_resamples": 20}
        if not refused:
            assert not compare_runs(a, b, **options).version_changes
            continue
        with pytest.raises(InvalidInputError, match=refused):
            compare_runs(a, b, **options)
        allowed = compare_runs(a, b, allow_version_change=True, **options)
        assert len(allowed.version_changes) == 1


def test_metrics_at_thresholds_that_each_run_holds(tmp_path):
    name = "op_f1_at_max_f1_fitted_on_val"

    def block(threshold):
        details = {} if threshold is None else {"threshold": threshold}
        return {name: {"value": 0.5, "status": "ok", "reason": "", "details": details}}

    a = make_run(tmp_path, "a", {("t", "s"): records(scores(1))}, blocks={("t", "s"): block(0.4)})
    b = make_run(tmp_path, "b", {("t", "s"): records(scores(2))}, blocks={("t", "s"): block(0.6)})
    cell = compare_runs(a, b, n_resamples=50)["t", "s", name]
    assert cell.value_a == pytest.approx(confusion_counts(LABELS, scores(1), 0.4).f1, rel=1e-12)
    assert cell.value_b == pytest.approx(confusion_counts(LABELS, scores(2), 0.6).f1, rel=1e-12)
    assert cell.reason == "thresholds held at 0.4 in A and 0.6 in B"
    same = compare_runs(a, a, n_resamples=50)["t", "s", name]
    expected = paired_bootstrap_diff(LABELS, scores(1), scores(1), op.op_f1(0.4), n_resamples=50)
    assert (same.value_a, same.reason) == (expected.value_a, expected.reason)
    c = make_run(tmp_path, "c", {("t", "s"): records(scores(2))}, blocks={("t", "s"): block(None)})
    cell = compare_runs(a, c, n_resamples=50)["t", "s", name]
    assert (cell.status, cell.reason.startswith("the runs do not store")) == ("skipped", True)


def test_custom_metrics_skip_until_their_spec_is_given(tmp_path):
    class Spread:
        name = "spread"

        def compute(self, y_true, y_score):
            return float(np.ptp(y_score))

    custom = {("t", "s"): {"spread": {"value": 0.5, "status": "ok", "reason": ""}}}
    a = make_run(tmp_path, "a", {("t", "s"): records(scores(1))}, specs=(), blocks=custom)
    (cell,) = compare_runs(a, a).cells
    assert (cell.metric, cell.status) == ("spread", "skipped")
    assert (
        cell.reason
        == "the runs do not store how spread is computed; in Python pass its spec in `metrics`"
    )
    (cell,) = compare_runs(a, a, metrics=[Spread()], n_resamples=20).cells
    assert (cell.status, cell.delta) == ("ok", 0.0)


def test_runs_without_records_or_with_a_skipped_scorer(tmp_path):
    held = {("t", "s"): records(scores(1))}
    a = make_run(tmp_path, "a", held)
    bare = make_run(tmp_path, "bare", {}, blocks={("t", "s"): {"pr_auc": 0.5}})
    skipped = make_run(tmp_path, "sk", {}, blocks={("t", "s"): {"skipped": "too dear"}})
    assert compare_runs(a, bare).cells[0].reason == "no records in B: they were not stored"
    cell = compare_runs(a, skipped).cells[0]
    assert cell.reason == "no records in B: the scorer was skipped: too dear"
    assert (cell.metric, cell.status) == ("pr_auc", "skipped")


def test_without_stored_cells_the_usual_metrics_are_compared(tmp_path):
    a = make_run(tmp_path, "a", {("t", "s"): records(scores(1))}, specs=())
    assert [c.metric for c in compare_runs(a, a, n_resamples=20).cells] == ["pr_auc", "roc_auc"]
    b = make_run(tmp_path, "b", {("t", "s"): columns(1)}, specs=())
    assert [c.metric for c in compare_runs(b, b).cells] == ["correct", "reward"]


def right(values, **options):
    ids = [f"u{i:03d}" for i in range(len(values))]
    return Records.from_columns({"right": values}, unit_id=ids, **options)


def test_few_discordant_units_do_not_make_certainty():
    same = compare_records({"t": right([1.0] * 20)}, {"t": right([1.0] * 20)}, ["right"]).cells[0]
    assert same.ci_high == -same.ci_low == pytest.approx(3.8415 / 23.8415, abs=1e-4)
    assert (same.p_value, same.verdict, same.reason) == (1.0, "no significant difference", "")
    one_way = [1.0] * 5 + [0.0] * 25
    cell = compare_records({"t": right([0.0] * 30)}, {"t": right(one_way)}, ["right"]).cells[0]
    assert (cell.ci_low, cell.ci_high) == pytest.approx((0.0342, 0.3356), abs=5e-5)
    # McNemar's chi-squared of 5 and 0 is 5; like the interval, it leaves out 0.
    assert (cell.p_value, cell.verdict) == (pytest.approx(chi2.sf(5, 1)), "better")
    pairs = [f"g{i // 2}" for i in range(30)]
    grouped = compare_records(
        {"t": right([0.0] * 30, group=pairs)}, {"t": right(one_way, group=pairs)}, ["right"]
    ).cells[0]
    assert grouped.method == "paired gaffke, groups"  # the units are not independent


def part_run(folder, name, values, subjects, **options):
    """A run of right and wrong answers by subject, with the mean over subjects."""
    held = right(values, slices={"subject": subjects}, **options)
    card = summarise(held, [ms.mean_of("right")], by="subject", macro=True).to_dict()
    return make_run(folder, name, {("q", "m"): held}, specs=(), blocks={("q", "m"): card})


THREE = ["x"] * 10 + ["y"] * 20 + ["z"] * 30


def test_a_macro_difference_that_does_not_vary_has_an_interval(tmp_path):
    a = part_run(tmp_path, "a", [1.0] * 60, THREE)
    cell = compare_runs(a, a, metrics=["right_macro"])["q", "m", "right_macro"]
    expected = paired_macro_interval([(0, 0, 10), (0, 0, 20), (0, 0, 30)])
    assert (cell.ci_low, cell.ci_high) == (expected.ci_low, expected.ci_high)
    assert cell.ci_low < 0.0 < cell.ci_high
    assert (cell.p_value, cell.verdict) == (1.0, "no significant difference")
    b = part_run(tmp_path, "b", [0.0] * 10 + [1.0] * 50, THREE)
    cell = compare_runs(a, b, metrics=["right_macro"])["q", "m", "right_macro"]
    assert (cell.delta, cell.verdict) == (pytest.approx(-1 / 3), "worse")
    reach = cell.ci_high - cell.delta  # which is as far as 1.96 standard errors
    assert cell.p_value == pytest.approx(2 * norm.sf(norm.ppf(0.975) / 3 / reach), rel=1e-6)
    assert cell.test == expected.method
    real = right([0.5] * 60, slices={"subject": THREE})
    card = summarise(real, [ms.mean_of("right")], by="subject", macro=True).to_dict()
    c = make_run(tmp_path, "c", {("q", "m"): real}, specs=(), blocks={("q", "m"): card})
    cell = compare_runs(c, c)["q", "m", "right_macro"]
    assert cell.ci_low is None
    assert cell.reason.startswith("the differences do not vary within parts")


def test_a_mean_over_parts_counts_in_the_family_only_if_it_is_judged(tmp_path):
    rng = np.random.default_rng(3)
    a, b = (
        part_run(tmp_path, name, (rng.random(60) < share).astype(float), THREE)
        for name, share in (("a", 0.5), ("b", 0.75))
    )
    plain, macro = compare_runs(a, b).cells
    assert (plain.metric, macro.metric) == ("right", "right_macro")
    assert plain.p_adjusted == plain.p_value < 1
    assert (macro.p_value, macro.p_adjusted, macro.verdict) == (None, None, "not tested")
    assert macro.reason == "a mean over parts is tested beside its metric only if requested by name"
    judged = compare_runs(a, b, metrics=["right", "right_macro"]).cells
    expected = correct_p_values([cell.p_value for cell in judged], method="holm")
    assert [cell.p_adjusted for cell in judged] == expected.tolist()
    assert judged[0].p_value == plain.p_value < judged[0].p_adjusted
    ends = ("value_a", "value_b", "delta", "ci_low", "ci_high")
    assert [getattr(judged[1], one) for one in ends] == [getattr(macro, one) for one in ends]
    alone = compare_runs(a, b, metrics=["right_macro"]).cells[0]
    assert alone.p_adjusted == alone.p_value == judged[1].p_value


def test_a_column_that_one_run_lacks_is_skipped_with_the_reason(tmp_path):
    both = Records.from_columns({"right": [1, 0] * 10, "f1": [0.5] * 20}, unit_id=IDS[:20])
    alone = Records.from_columns({"right": [1, 0] * 10}, unit_id=IDS[:20])
    specs = [ms.mean_of("right"), ms.mean_of("f1")]
    a = make_run(tmp_path, "a", {("q", "m"): both}, specs=specs)
    b = make_run(tmp_path, "b", {("q", "m"): alone}, specs=specs[:1])
    for first, second, side in ((a, b, "B"), (b, a, "A")):
        result = compare_runs(first, second)
        assert [(cell.metric, cell.status) for cell in result.cells] == [
            ("right", "ok"),
            ("f1", "skipped"),
        ]
        assert result["q", "m", "f1"].reason == f"the records of {side} have no column 'f1'"
        assert result["q", "m", "f1"].verdict == "skipped"
    cells = compare_records({"t": both}, {"t": alone}, ["f1", "pr_auc"]).cells
    assert [cell.status for cell in cells] == ["skipped", "skipped"]
    assert cells[1].reason == "the records of A and B have no column 'label'"
    with pytest.raises(InvalidInputError, match="no metric 'f2'"):
        compare_records({"t": both}, {"t": alone}, ["f2"])


def test_parts_have_cells_and_are_a_family_of_their_own(tmp_path):
    rng = np.random.default_rng(3)
    first, second = (rng.random(60) < share for share in (0.4, 0.8))
    a = part_run(tmp_path, "a", first.astype(float), THREE)
    b = part_run(tmp_path, "b", second.astype(float), THREE)
    whole, result = compare_runs(a, b), compare_runs(a, b, by="subject")
    assert [(cell.slice, cell.part, cell.metric) for cell in result.cells] == [
        ("q", "all", "right"),
        ("q", "all", "right_macro"),
        *(("q", f"subject={part}", "right") for part in "xyz"),
    ]
    assert result.cells[:2] == whole.cells
    parts = result.cells[2:]
    for cell, part in zip(parts, "xyz", strict=True):
        at = np.array(THREE) == part
        assert (cell.n_units, cell.value_a) == (at.sum(), pytest.approx(first[at].mean()))
        expected = mcnemar_test(first[at], second[at], method="chi2").p_value
        assert cell.p_value == pytest.approx(expected)
    expected = correct_p_values([cell.p_value for cell in parts], method="holm")
    assert [cell.p_adjusted for cell in parts] == expected.tolist()
    assert compare_runs(a, b, by=["subject"]).cells == result.cells


def test_a_part_that_failed_wholly_keeps_its_row(tmp_path):
    a = part_run(tmp_path, "a", [1.0, 0.0] * 30, THREE)
    states = {"right": ["error"] * 10 + ["ok"] * 50}
    why = {"right": ["timeout: too slow"] * 10 + [""] * 50}
    b = part_run(tmp_path, "b", [1.0, 0.0] * 30, THREE, status=states, reason=why)
    result = compare_runs(a, b, by="subject")
    lost = result["right @ subject=x / m"]
    assert lost is result["q", "subject=x", "m", "right"]
    assert (lost.status, lost.n_units, lost.n_failed, lost.n_lost) == ("skipped", 0, 10, 10)
    assert lost.reason == (
        "none of 10 common units has a value on both sides; in B: timeout: too slow"
    )
    assert result["right @ subject=y"].status == "ok"
    assert result.without_value == (
        "slice 'q', scorer 'm': 10 units have no value in B (right, right_macro)",
    )
    assert result.to_markdown().endswith(f"- {result.without_value[0]}")
    back = compare_runs(b, a)
    assert back.without_value[0].endswith("10 units have no value in A (right, right_macro)")
    other = {"right": ["ok"] * 10 + ["error"] * 3 + ["ok"] * 47}
    c = part_run(tmp_path, "c", [1.0, 0.0] * 30, THREE, status=other)
    said = compare_runs(b, c).without_value[0]
    assert "10 units have no value in A and 3 others have none in B" in said


def test_parts_that_one_run_has_and_parts_without_records(tmp_path):
    a = part_run(tmp_path, "a", [1.0, 0.0] * 30, THREE)
    fewer = part_run(tmp_path, "b", [1.0, 0.0] * 15, THREE[:30])
    result = compare_runs(a, fewer, by="subject")
    assert result.only_in_a == (("slice=q&subject=z", "m"),)
    assert compare_runs(fewer, a, by="subject").only_in_b == (("slice=q&subject=z", "m"),)
    failed = make_run(tmp_path, "f", {}, blocks={("q", "m"): {"error": "no memory"}})
    cells = [cell for cell in compare_runs(a, failed, by="subject").cells if cell.metric == "right"]
    assert [cell.part for cell in cells] == ["all", *(f"subject={part}" for part in "xyz")]
    assert {cell.reason for cell in cells} == {"no records in B: the scorer failed: no memory"}


def test_parts_that_the_records_do_not_have_are_refused(tmp_path):
    a = part_run(tmp_path, "a", [1.0, 0.0] * 30, THREE)
    plain = make_run(tmp_path, "p", {("q", "m"): right([1.0, 0.0] * 30)}, specs=())
    with pytest.raises(MissingColumnError, match=r"`by`: run 'a' has no part 'level'; .*'subject'"):
        compare_runs(a, a, by="level")
    with pytest.raises(MissingColumnError, match="`by`: run 'p' has no part 'subject'; it has no"):
        compare_runs(a, plain, by="subject")
    with pytest.raises(InvalidInputError, match="`by` names 'subject' twice"):
        compare_runs(a, a, by=["subject", "subject"])
    with pytest.raises(InvalidTypeError, match="`by` must be a name or a list of names"):
        compare_runs(a, a, by=3)


def test_a_calibration_error_says_why_it_has_no_interval():
    a, b = records(scores(1)), records(scores(2))
    cell = compare_records({"t": a}, {"t": b}, [ms.ece()]).cells[0]
    assert (cell.ci_low, cell.p_value, cell.verdict) == (None, None, "not tested")
    assert (
        "no interval is shown, since a paired interval would not be narrower than the two separate intervals (paired_bootstrap_ece_diff)"
        in cell.reason
    )


def test_the_reason_for_no_interval_is_given_once():
    """The interval of a mean of three numbers is refused in these words already."""
    few = Records.from_columns({"reward": [0.2, 0.9, 3.0]}, unit_id=list("abc"))
    other = Records.from_columns({"reward": [0.3, 0.1, 2.0]}, unit_id=list("abc"))
    cell = compare_records({"t": few}, {"t": other}, ["reward"]).cells[0]
    assert cell.reason.count("no interval: ") == 1


@pytest.mark.parametrize("name", ["star_rating", "likert", "points"])
def test_a_scale_that_holds_zeros_and_ones_is_no_share(name):
    """Issue 16, 2.4: the kind follows the column's contract, not the values seen."""
    a, b = (
        Records.from_columns({name: (np.arange(50) < k).astype(float)}, unit_id=IDS[:50])
        for k in (30, 35)
    )
    cell = compare_records({"t": a}, {"t": b}, [name]).cells[0]
    assert cell.method == "paired skewness-corrected t"
    card = summarise(a, [ms.mean_of(name)])
    assert (card[name].details["kind"], card[name].ci.method) == ("number", "skewness-corrected t")


def test_predictions_are_no_runs_and_the_message_tells_what_to_pass(tmp_path):
    file = tmp_path / "preds.csv"
    file.write_text("id,label,score\na,1,0.5\n")
    with pytest.raises(InvalidInputError, match="which is a file, not a run") as refused:
        compare_runs(file, file)
    assert f"pass score_predictions({str(file)!r})" in str(refused.value)
    rows = [{"id": at, "label": at % 2, "score": at / 500} for at in range(500)]
    with pytest.raises(
        InvalidTypeError, match=r"`a` must be a Run.*got a list; .* score_predictions"
    ) as refused:
        compare_runs(rows, rows)
    assert len(str(refused.value)) < 200
