"""docs/extending.md: every block runs, in order, in one namespace, and prints what is published."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pandas")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def page() -> tuple[dict[str, Any], list[str], list[tuple[str, str]]]:
    """Run the page; return its names, what each block printed, and (shown, printed) texts."""
    import contextlib
    import io

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "42")  # the page sets it; undone at the end
        names: dict[str, Any] = {}
        printed: list[str] = []
        shown: list[tuple[str, str]] = []
        for language, code in BLOCKS:
            if language == "text":
                shown.append((code, printed[-1]))
                continue
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(code, "docs/extending.md", "exec"), names)  # noqa: S102
            printed.append(stream.getvalue())
    return names, printed, shown


Page = tuple[dict[str, Any], list[str], list[tuple[str, str]]]


def test_nine_blocks_of_python(page: Page) -> None:
    """Nine of the guide this page grew from, and two for what came later: metrics, contracts."""
    assert len(page[1]) == 9 + 2


def test_text_blocks_are_what_is_printed(page: Page) -> None:
    assert len(page[2]) == 9
    for shown, printed in page[2]:
        assert shown == printed


def test_functional_core(page: Page) -> None:
    # Published: PR-AUC 0.948, BCa about [0.900, 0.975].
    found = re.fullmatch(r"PR-AUC: 0\.948 CI \[(0\.\d{3}), (0\.\d{3})\]\n", page[1][1])
    assert found is not None
    assert [float(bound) for bound in found.groups()] == pytest.approx([0.900, 0.975], abs=0.01)
    assert page[0]["ci"].n_resamples == 500


def test_scorer_block(page: Page) -> None:
    assert page[0]["preds"].round(3).tolist() == [0.033] * 5


def test_a_class_starts_afresh_in_every_fold_and_so_does_a_fit_that_does(page: Page) -> None:
    from eval_toolkit import evaluate_folded

    names = page[0]
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


def test_the_harness_honours_the_judges_hook(page: Page) -> None:
    from eval_toolkit import EvalSlice, evaluate

    rows = {"text": ["a", "b"] * 20, "label": [0, 1] * 20}
    slices = [EvalSlice("test", rows), EvalSlice("ood_lakera", rows)]
    result = evaluate({"judge": page[0]["judge"]}, slices, run_id="demo", n_resamples=50)
    assert result.by_slice["test"]["by_scorer"]["judge"]["roc_auc"]["value"] == 0.5
    block = result.by_slice["ood_lakera"]["by_scorer"]["judge"]
    assert "declined" in block["skipped"]
    assert block["n"] == 40


def test_the_custom_check_works_with_every_policy(page: Page) -> None:
    from eval_toolkit import EvalSlice, evaluate

    rows = {"text": ["short"] * 20 + ["x" * 10000], "label": [0, 1] * 10 + [1]}
    check = page[0]["TextLengthOutlierCheck"]()
    for policy, n in (("raise", 21), ("record", 21), ("skip", 21), ("drop", 20)):
        result = evaluate(
            {"judge": page[0]["judge"]},
            [EvalSlice("test", rows)],
            run_id="demo",
            n_resamples=20,
            leakage_checks=[check],
            on_leakage=policy,
        )
        assert result.by_slice["test"]["n"] == n, policy


def test_the_custom_splitter_and_selector_work_in_the_harness(page: Page) -> None:
    from eval_toolkit import evaluate_folded

    names = page[0]
    result = evaluate_folded(
        {"tfidf": names["TfidfLogisticScorer"]},
        names["spl"],
        names["parent"],
        run_id="demo",
        n_resamples=20,
        thresholds=names["FixedThresholdSelector"](0.5),
    )
    assert [fold["n_train"] for fold in result.by_fold.values()] == [45, 45, 45]
    cell = result.by_fold["seed=42/fold=0"]["by_slice"]["test"]["by_scorer"]["tfidf"]
    assert cell["op_recall_at_fixed_0.500_fitted_on_train_inner"]["value"] == 1.0


def test_recipe(page: Page) -> None:
    names = page[0]
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

    for name in protocols.__all__:
        assert f"`{name}`" in PAGE, name


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
