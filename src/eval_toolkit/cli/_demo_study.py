"""Steps of ``eval-toolkit demo``: leakage check, runs, comparison, gate and report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.analysis import RunComparison
from eval_toolkit.claims import ClaimReport, evaluate_gate
from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.harness import evaluate, save_run
from eval_toolkit.leakage import ExactDuplicateCheck
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.report import write_report
from eval_toolkit.report.comparison_page import compared_runs
from eval_toolkit.runs import Run
from eval_toolkit.slices import EvalSlice

N_COPIES = 12
_OWN = frozenset(("logistic", "forest", "claims.toml", "report.html"))
CLAIMS = """\
[[claim]]
name = "good enough"
slice = "test"
scorer = "model"
metric = "roc_auc"
require = "ci_low >= 0.85"

[[claim]]
name = "no worse than the logistic regression"
slice = "test"
scorer = "model"
metric = "roc_auc"
non_inferior_by = 0.03

[[claim]]
name = "nothing failed"
no_errors = true
"""


@dataclass(frozen=True)
class Study:
    """Two classifiers that were trained on one half of the data and scored on the other."""

    train: EvalSlice
    test: EvalSlice
    scores: Mapping[str, FloatArray]
    """Scores of the test rows, by classifier."""

    @property
    def labels(self) -> BoolArray:
        """Whether a test row is malignant."""
        return np.asarray(self.test.y_true, dtype=np.bool_)


def study(seed: int) -> Study:
    """Train on one half of the data and score the other; the positive class is "malignant"."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    malignant = data.target == 0
    # Only eight of the thirty features, since with all of them both models are near perfect.
    names = data.feature_names[10:18]
    x_train, x_test, y_train, y_test, rows_train, rows_test = train_test_split(
        data.data[:, 10:18],
        malignant,
        np.arange(len(malignant)),
        test_size=0.5,
        stratify=malignant,
        random_state=seed,
    )
    models: dict[str, Any] = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "forest": RandomForestClassifier(200, min_samples_leaf=3, random_state=seed),
    }
    scores = {
        name: model.fit(x_train, y_train).predict_proba(x_test)[:, 1]
        for name, model in models.items()
    }
    radius = data.data[:, 0]
    sizes = np.array(["small", "medium", "large"])[
        np.digitize(radius, np.quantile(radius, [1 / 3, 2 / 3]))
    ]
    train, test = (
        EvalSlice(
            name,
            {
                "id": [f"tumour-{row:03d}" for row in rows],
                "record": [_record(names, values) for values in x],
                "label": y.astype(int),
                "size": sizes[rows],
            },
            feature_col="record",
            strata_col="size",
            id_col="id",
        )
        for name, x, y, rows in (
            ("train", x_train, y_train, rows_train),
            ("test", x_test, y_test, rows_test),
        )
    )
    return Study(train, test, scores)


def _record(names: Any, values: FloatArray) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(names, values, strict=True))


@dataclass(frozen=True)
class Tour:
    """Results of the demo: two stored runs, their difference, a gate, and an optional report."""

    runs: Mapping[str, Run]
    compared: RunComparison
    gate: ClaimReport
    report: Path | None
    """Path of the report; None if it was not requested or the extra is not installed."""
    no_report: str = ""
    """Reason why a requested report could not be written; empty otherwise."""

    @property
    def leakage(self) -> Mapping[str, Any]:
        """Findings of the leakage check before dropping rows."""
        config = self.runs["logistic"].manifest["config"]
        (found,) = config["leakage_report_before_drop"]["findings"]
        return {**found, "n_dropped": config["n_dropped"]["test"]}


def tour(done: Study, specs: Sequence[MetricSpec], out: Path, seed: int, *, report: bool) -> Tour:
    """Store both classifiers as runs, compare them, gate one of them and write the report.

    ``out`` must be empty or the output folder of an earlier demo.
    """
    _refuse_foreign(out)
    runs = {name: _stored(done, name, specs, out / name, seed) for name in done.scores}
    a, b = runs.values()
    claims = out / "claims.toml"
    claims.write_text(CLAIMS, encoding="utf-8")
    compared = compared_runs([a, b], seed=seed)
    gate = evaluate_gate(b, claims, a)
    if not report:
        return Tour(runs, compared, gate, None)
    try:
        written = write_report([a, b], out / "report.html", title="Two classifiers")
    except MissingExtraError as error:
        return Tour(runs, compared, gate, None, str(error))
    return Tour(runs, compared, gate, written)


def _refuse_foreign(out: Path) -> None:
    """Raise if the folder contains files that were not written by an earlier demo."""
    foreign = sorted({one.name for one in out.iterdir()} - _OWN) if out.is_dir() else []
    if foreign:
        raise InvalidInputError(
            f"{out}: contains {foreign[0]!r}, which an earlier demo did not write; choose another "
            "folder"
        )


def _stored(done: Study, name: str, specs: Sequence[MetricSpec], folder: Path, seed: int) -> Run:
    """Evaluate scores on test rows that include leaked training rows, and store the run."""
    test = _with_copies(done)
    scores = np.concatenate([done.scores[name], np.full(N_COPIES, 0.5)])
    slices = {"train": done.train, "test": test}
    result = evaluate(
        {"model": _PrecomputedScorer()},
        slices,
        run_id=name,
        seed=seed,
        metrics=specs,
        leakage_checks=[ExactDuplicateCheck()],
        on_leakage="drop",
        eval_split_names=("test",),
        precomputed_scores={("test", "model"): scores},
    )
    return save_run(result, folder, inputs=slices, overwrite=True)


class _PrecomputedScorer:
    """Scorer that returns precomputed scores of a classifier."""

    version = "1"

    def predict_proba(self, features: Any) -> FloatArray:
        raise AssertionError("the scores are precomputed")


def _with_copies(done: Study) -> EvalSlice:
    train, test = done.train.df, done.test.df
    both = {column: [*test[column], *_copied(column, train[column][:N_COPIES])] for column in test}
    return EvalSlice("test", both, feature_col="record", strata_col="size", id_col="id")


def _copied(column: str, values: Any) -> list[Any]:
    """Return copies of the first training rows with new ids."""
    return [f"copy-of-{value}" for value in values] if column == "id" else list(values)
