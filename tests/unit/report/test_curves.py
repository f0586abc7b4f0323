"""Curves of a report: areas as scikit-learn computes them, absence with a reason."""

from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score
from tests.support.report_runs import WANTED, written_rows

from eval_toolkit.report import curves
from eval_toolkit.report.html_report import report_html
from eval_toolkit.report.scored_rows import scored_of
from eval_toolkit.report.sections import Wanted
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records


def test_every_scorer_has_its_curves(rows_run: Run) -> None:
    section = curves.build(rows_run, WANTED)
    assert section is not None
    figures = section.data["figures"]
    assert [figure.title for figure in figures] == [
        *("ROC: good", "Precision and recall: good", "Scores by class: good"),
        *("ROC: bad", "Precision and recall: bad", "Scores by class: bad"),
    ]
    for at, one in enumerate(scored_of(rows_run)):
        roc, pr = figures[3 * at : 3 * at + 2]
        assert f"area {roc_auc_score(one.labels, one.scores):.3f}" in roc.spec["description"]
        area = average_precision_score(one.labels, one.scores)
        assert f"average precision {area:.3f}" in pr.spec["description"]
        for figure in (roc, pr):
            # Rows of one author go together, so groups are drawn and not rows.
            assert figure.caption.startswith(
                "Band: pointwise 95 % interval, groups drawn 50 times."
            )
            assert "max_f1, chosen on val" in figure.caption
    assert "In grey: good." in figures[3].caption
    assert "In grey" not in figures[0].caption
    assert len({figure.id for figure in figures}) == len(figures)


def test_one_class_says_why_there_is_no_curve(tmp_path: Path) -> None:
    section = curves.build(written_rows(tmp_path, [1] * 12, [0.5] * 12), WANTED)
    assert section is not None
    assert section.data["figures"] == []
    assert section.data["absent"] == ["model: no curves, all 12 rows are positive"]


def test_too_few_rows_for_a_band_have_a_curve_without_one(tmp_path: Path) -> None:
    section = curves.build(written_rows(tmp_path, [0, 1, 0, 1], [0.1, 0.9, 0.4, 0.3]), WANTED)
    assert section is not None
    assert len(section.data["figures"]) == 3
    (why,) = section.data["absent"]
    assert why.startswith("model: no band: ")
    assert "Band" not in section.data["figures"][0].caption


def test_rows_without_a_score_are_counted(tmp_path: Path) -> None:
    scores = [0.1, 0.9] * 10 + [None] * 3
    section = curves.build(written_rows(tmp_path, [0, 1] * 10 + [1, 0, 1], scores), WANTED)
    assert section is not None
    assert section.lead == "20 rows, 10 positive."
    assert section.notes == ["model: 3 rows without a score are omitted"]


def test_no_labels_and_no_charts_have_no_section(rows_run: Run) -> None:
    assert curves.build(rows_run, Wanted(charts=False)) is None


def test_a_large_run_is_a_small_page(tmp_path: Path) -> None:
    """50 000 rows with 50 000 different scores stay below 3 MB, the chart library included."""
    rng = np.random.default_rng(1)
    scores = rng.beta(1, 2, 50_000)
    labels = (rng.random(50_000) < scores).astype(float)
    run = written_rows(tmp_path, labels.tolist(), scores.tolist())
    page = report_html(run, wanted=Wanted(n_resamples=20))
    assert 900_000 < len(page.encode()) < 3_000_000


def test_the_grey_curve_is_of_the_same_rows(tmp_path: Path) -> None:
    """Slices a (one class only), b and c, two scorers: on b and c the second has the first in grey."""
    rng = np.random.default_rng(0)
    records, results = {}, {}
    for name in "abc":
        labels = [1] * 12 if name == "a" else [0, 1] * 6
        results[name] = {"n": 12, "by_scorer": {"P": {}, "Q": {}}}
        for scorer in "PQ":
            records[name, scorer] = Records.from_columns(
                {"label": labels, "score": rng.random(12)},
                unit_id=[f"{name}{i}" for i in range(12)],
            )
    config = {"threshold_slice": "b"}
    held = {"schema_version": "v1", "run_id": "r", "config": config, "by_slice": results}
    run = write_run(tmp_path / "r", results=held, manifest={"run_id": "r"}, records=records)
    section = curves.build(run, WANTED)
    assert section is not None
    grey = [
        (figure.title, figure.caption.partition("In grey: ")[2])
        for figure in section.data["figures"]
        if figure.title.startswith("ROC")
    ]
    # Rows that thresholds were chosen on come last.
    assert grey == [
        ("ROC: P on c", ""),
        ("ROC: Q on c", "P on c."),
        ("ROC: P on b", ""),
        ("ROC: Q on b", "P on b."),
    ]
