"""docs/extending.md: every block runs, in order, in one namespace, and prints what is published."""

import re
from pathlib import Path
from typing import Any

import pytest
from docs._ext.blocks import Page, run_page
from tests.docs.pages import DOCS

from eval_toolkit.runs import drive
from eval_toolkit.runs.selected_units import Place, selected_units

pytest.importorskip("pandas")

PAGE = DOCS / "extending.md"


@pytest.fixture(scope="module")
def ran() -> Page:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "42")  # the page sets it; undone at the end
        return run_page(PAGE)


@pytest.fixture(scope="module")
def names(ran: Page) -> dict[str, Any]:
    return ran.names


def test_nine_blocks_of_python(ran: Page) -> None:
    """Nine of the guide this page grew from, and six for what came later.

    Metrics, statistics of columns (two), kinds (two), contracts.
    """
    assert len(ran.printed) == 9 + 6


def test_a_kind_shows_its_units(names: dict[str, Any], tmp_path: Path) -> None:
    kind = names["ShownRounding"]
    run = drive(kind(round, "Python"), tmp_path / "r", name="rounding").run
    assert run is not None
    (unit,) = selected_units(run, [Place(slice="halves", scorer="Python", unit_id="2.5")])
    (group,) = kind.show(unit)
    assert [block.text for block in group.blocks] == ["2.5", "2"]


def test_text_blocks_are_what_is_printed(ran: Page) -> None:
    assert ran.n_shown == 13


def test_functional_core(ran: Page) -> None:
    # Published: PR-AUC 0.948, BCa about [0.900, 0.975]; few rows carry its variance, so that the
    # score interval is wider.
    found = re.fullmatch(r"PR-AUC: 0\.948 CI \[(0\.\d{3}), (0\.\d{3})\]\n", ran.printed[1])
    assert found is not None
    assert [float(bound) for bound in found.groups()] == pytest.approx([0.873, 0.980], abs=0.002)
    assert (ran.names["ci"].method, ran.names["ci"].n_resamples) == ("score", 0)


def test_scorer_block(names: dict[str, Any]) -> None:
    assert names["preds"].round(3).tolist() == [0.033] * 5


def test_a_class_starts_afresh_in_every_fold_and_so_does_a_fit_that_does(
    names: dict[str, Any],
) -> None:
    from eval_toolkit import evaluate_folded

    slice_ = names["EvalSlice"]("all", {"text": names["texts"], "label": names["labels"]})
    fitted, made = (
        evaluate_folded(
            {"tfidf": scorer},
            names["StratifiedKFoldSplitter"](k=3),
            slice_,
            run_id="r",
            n_resamples=20,
        ).fold_summary
        for scorer in (names["scorer"], names["TfidfLogisticScorer"])
    )
    assert fitted == made


def test_the_harness_honours_the_judges_hook(names: dict[str, Any]) -> None:
    from eval_toolkit import EvalSlice, evaluate

    rows = {"text": ["a", "b"] * 20, "label": [0, 1] * 20}
    slices = [EvalSlice("test", rows), EvalSlice("ood_lakera", rows)]
    result = evaluate({"judge": names["judge"]}, slices, run_id="demo", n_resamples=50)
    assert result.by_slice["test"]["by_scorer"]["judge"]["roc_auc"]["value"] == 0.5
    block = result.by_slice["ood_lakera"]["by_scorer"]["judge"]
    assert "declined" in block["skipped"]
    assert block["n"] == 40


def test_the_custom_check_works_with_every_policy(names: dict[str, Any]) -> None:
    from eval_toolkit import EvalSlice, evaluate

    rows = {"text": ["short"] * 20 + ["x" * 10000], "label": [0, 1] * 10 + [1]}
    check = names["TextLengthOutlierCheck"]()
    for policy, n in (("raise", 21), ("record", 21), ("skip", 21), ("drop", 20)):
        result = evaluate(
            {"judge": names["judge"]},
            [EvalSlice("test", rows)],
            run_id="demo",
            n_resamples=20,
            leakage_checks=[check],
            on_leakage=policy,
        )
        assert result.by_slice["test"]["n"] == n, policy


def test_the_custom_splitter_and_selector_work_in_the_harness(names: dict[str, Any]) -> None:
    from eval_toolkit import evaluate_folded

    result = evaluate_folded(
        {"tfidf": names["TfidfLogisticScorer"]},
        names["spl"],
        names["parent"],
        run_id="demo",
        n_resamples=20,
        thresholds=names["FixedThresholdSelector"](0.5),
    )
    assert [fold["n_train"] for fold in result.by_fold.values()] == [45, 45, 45]
    cell = result.by_fold["fold=0"]["by_slice"]["test"]["by_scorer"]["tfidf"]
    assert cell["op_recall_at_fixed_0.500_fitted_on_train_inner"]["value"] == 1.0


def test_recipe(names: dict[str, Any]) -> None:
    folds = names["result"].by_fold
    assert [fold["by_slice"]["test"]["n"] for fold in folds.values()] == [20, 20, 20]
    assert [fold["by_slice"]["test"]["n_positive"] for fold in folds.values()] == [10, 10, 10]
    assert (names["fs"]["mean"], names["fs"]["ci_low"], names["fs"]["ci_high"]) == (1.0, 1.0, 1.0)
    for fold in folds.values():
        assert len(fold["leakage_report"]["findings"]) == 2
    assert names["m"].versioned_objects == {"dummy": "0.0.0"}
    assert names["MaxF1Selector"]().criterion == "max_f1"


def test_every_protocol_is_explained() -> None:
    from eval_toolkit import protocols

    text = PAGE.read_text("utf-8")
    for name in protocols.__all__:
        assert f"`{name}`" in text, name


def test_every_name_of_the_prose_exists() -> None:
    import eval_toolkit

    for name in (
        *("Scorer", "SliceAwareScorer", "LeakageCheck", "Splitter", "ThresholdSelector"),
        *("DatasetLoader", "SimilarityStrategy", "Versioned", "evaluate", "RunResult"),
        *("TfidfCosineStrategy", "ExactNormalizedHashStrategy", "EmbeddingCosineStrategy"),
        *("JaccardNgramStrategy", "MinHashLSHStrategy", "near_dedup", "cross_dedup"),
        *("NearDuplicateCheck", "CrossSplitLeakageCheck", "paired_bootstrap_op_point_diff"),
        *("iter_folds_with_pool", "load_prediction_arrays", "UndefinedMetricError", "scorecard"),
    ):
        assert hasattr(eval_toolkit, name), name
