"""The numbers of every result are in its repr, in what print shows, and in a notebook."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.support.each import each
from tests.unit._internal.display.test_results import RESULTS

from eval_toolkit import EvalSlice, Records, Run, inference, metrics, scorecard
from eval_toolkit.analysis import compare_records
from eval_toolkit.claims import Claim, evaluate_gate
from eval_toolkit.harness import evaluate, score_predictions
from eval_toolkit.leakage import ExactDuplicateCheck, run_leakage_checks
from eval_toolkit.thresholds import MaxF1Selector

Y = [0, 1] * 30
P = [round(0.2 + 0.3 * y + (i * 7 % 30) / 60, 3) for i, y in enumerate(Y)]
Q = [round(0.2 + 0.1 * y + (i * 11 % 30) / 60, 3) for i, y in enumerate(Y)]
FRAME = pd.DataFrame({"id": range(60), "y": Y, "score": P, "other": Q})
AUC = f"{metrics.roc_auc(Y, P):.3f}"


def _leaks() -> Any:
    texts = {"train": list("abcd"), "test": list("abzz")}
    splits = {
        name: EvalSlice(name, {"text": one, "label": [0, 1] * 2}) for name, one in texts.items()
    }
    return run_leakage_checks([ExactDuplicateCheck()], splits)


def _records(scores: list[float]) -> Records:
    return Records.from_rows(Y, scores, unit_id=[f"{i:02}" for i in range(60)])


MADE = {
    "Scorecard": (lambda path: scorecard(Y, P), [AUC]),
    "MetricResult": (lambda path: scorecard(Y, P)["roc_auc"], [AUC[:4]]),
    "BootstrapCI": (lambda path: inference.bootstrap_ci(Y, P, metrics.roc_auc), [AUC[:4]]),
    "PairedBootstrapCI": (
        lambda path: inference.paired_bootstrap_diff(Y, Q, P, metrics.roc_auc),
        [AUC[:4]],
    ),
    "DeLongResult": (lambda path: inference.delong_roc_variance(Y, P, Q), [AUC[:4]]),
    "ProportionInterval": (lambda path: inference.wilson_interval(5, 20), ["0.468"]),
    "ThresholdResult": (lambda path: MaxF1Selector().select(Y, P), ["f1", "0."]),
    "ConfusionCounts": (lambda path: metrics.confusion_counts(Y, P, 2.0), ["30"]),
    "RunResult": (lambda path: evaluate(FRAME, {"new": "score"}), ["new", AUC]),
    "RunComparison": (
        lambda path: compare_records({"t": _records(Q)}, {"t": _records(P)}, ["roc_auc"]),
        [AUC, "better"],
    ),
    "Run": (lambda path: Run.open(path), [AUC]),
    "Results": (lambda path: Run.open(path).cells, [AUC]),
    "ClaimReport": (
        lambda path: evaluate_gate(path, [Claim(name="rows", slice="all", min_n=99)]),
        ["60 rows, fewer than 99"],
    ),
    "LeakageReport": (lambda path: _leaks(), ["ExactDuplicateCheck", "error"]),
    "LeakageFinding": (lambda path: _leaks().findings[0], ["3 copies"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "r"
    score_predictions(FRAME, out=path, label_col="y", score_cols="score", id_col="id")
    return path


@each("name", MADE)
def test_the_numbers_are_shown(name: str, folder: Path) -> None:
    make, numbers = MADE[name]
    result = make(folder)
    assert type(result).__name__ == name
    shown = {"print": str(result), "notebook": result._repr_html_()}
    if name != "LeakageReport":  # its repr counts the findings
        shown["repr"] = repr(result)
    for how, text in shown.items():
        assert [number for number in numbers if number not in text] == [], f"{how}: {text}"


@each("name", RESULTS)
def test_no_result_is_an_address_in_memory(name: str) -> None:
    assert RESULTS[name].__repr__ is not object.__repr__
