"""Verdicts on records, and the order worth reading, against a plain loop."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.viewer_driving import Asking, cell, results, rows_run
from tests.unit.report.viewer.test_sample_browser import browse, units

from eval_toolkit._internal.tables import LabelMap
from eval_toolkit.harness.predictions import PredictionsKind
from eval_toolkit.loaders.columns import Wanted
from eval_toolkit.loaders.predictions import read_predictions
from eval_toolkit.metric_specs import chosen_metrics
from eval_toolkit.report.viewer.state import Viewer
from eval_toolkit.report.viewer.verdicts import VERDICTS
from eval_toolkit.runs import write_run
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.scorecards import Records

N = 60


def graded(folder: Path, columns: dict[str, Any], metrics: dict[str, Any], **more: Any) -> None:
    """A run with one system, or several attempts at each unit."""
    n = len(next(iter(columns.values())))
    ids = more.pop("unit_id", [f"u{at:02d}" for at in range(n)])
    manifest = {"run_id": folder.name, **more.pop("manifest", {})}
    records = {("all", "model"): Records.from_columns(columns, unit_id=ids, **more)}
    write_run(folder, results=results(folder.name, metrics), manifest=manifest, records=records)


def chips(text: str) -> list[list[str]]:
    """The verdicts of each row of a page."""
    cells = re.findall(r'<td class="verdicts">(.*?)</td>', text)
    return [re.findall(r'<span class="chip [a-z]+">([^<]*)</span>', one) for one in cells]


def tabs(text: str) -> dict[str, int]:
    found = re.findall(r'<a class="pill"[^>]*>([^<]*) <strong>([0-9,]+)</strong>', text)
    return {name: int(n.replace(",", "")) for name, n in found}


def test_scores_are_judged_by_their_label(ask: Asking, runs_dir: Path) -> None:
    rng = np.random.default_rng(3)
    labels, scores = rng.integers(0, 2, N).astype(float), rng.random(N).round(2)
    failed = rng.random(N) < 0.1
    records = Records.from_columns(
        {
            "label": labels,
            "score": [None if bad else x for bad, x in zip(failed, scores, strict=True)],
        },
        unit_id=[f"u{at:02d}" for at in range(N)],
        status={"label": ["ok"] * N, "score": ["error" if bad else "ok" for bad in failed]},
        reason={"label": [""] * N, "score": ["timeout" if bad else "" for bad in failed]},
    )
    rows_run(runs_dir / "r1", records)
    wrong = ~failed & ((scores >= 0.5) != (labels == 1))
    right = ~failed & ~wrong
    far = np.abs(scores - 0.5)
    rank = [
        (0, 0.0, at) if failed[at] else (1, -far[at], at) if wrong[at] else (2, far[at], at)
        for at in range(N)
    ]
    expected = [f"u{at:02d}" for *_, at in sorted(rank)]
    text = browse(ask, size=100)
    assert units(text) == expected
    counted = {"error": int(failed.sum()), "wrong": int(wrong.sum()), "right": int(right.sum())}
    assert tabs(text) == {"all": N, **counted}
    for name, n in counted.items():
        page = browse(ask, show=name, size=100)
        assert (units(page), chips(page)) == (
            [one for one in expected if one in units(page)],
            [[name]] * n,
        )
    assert tabs(browse(ask, q="u0"))["all"] == 10, "the numbers are of what is searched"


@pytest.mark.parametrize(("higher", "good"), [(True, 1.0), (False, 0.0)])
def test_grades_of_0_and_1_are_right_or_wrong_if_the_direction_is_known(
    ask: Asking, runs_dir: Path, higher: bool, good: float
) -> None:
    metric = cell(0.5, details={"higher_is_better": higher})
    graded(runs_dir / "r1", {"grade": [1.0, 0.0, None]}, {"grade": metric})
    text = browse(ask)
    assert chips(text) == [["wrong"], ["right"], []]
    assert units(text) == (["u01", "u00", "u02"] if good else ["u00", "u01", "u02"])


def test_graded_answers_have_no_verdict_and_the_worst_come_first(
    ask: Asking, runs_dir: Path
) -> None:
    metric = cell(0.5, details={"higher_is_better": True})
    graded(runs_dir / "r1", {"grade": [0.7, 0.2, 1.0, 0.5]}, {"grade": metric})
    text = browse(ask)
    assert (units(text), chips(text)) == (["u01", "u03", "u00", "u02"], [])


def test_attempts_that_disagree_are_marked(ask: Asking, runs_dir: Path) -> None:
    metric = cell(0.5, details={"higher_is_better": True})
    ids, attempts = ["a", "a", "b", "b"], [1, 2, 1, 2]
    graded(
        runs_dir / "r1",
        {"grade": [1.0, 0.0, 1.0, 1.0]},
        {"grade": metric},
        unit_id=ids,
        attempt=attempts,
    )
    text = browse(ask)
    assert chips(text) == [["wrong", "disagree"], ["right", "disagree"], ["right"], ["right"]]
    assert units(browse(ask, show="disagree")) == ["a", "a"]


def test_graders_that_disagree_are_marked(ask: Asking, runs_dir: Path) -> None:
    metrics = {name: cell(0.5, details={"higher_is_better": True}) for name in ("exact", "judge")}
    versions = {"versioned_objects": {"grader:exact": "1", "grader:judge": "1"}}
    columns = {"exact": [1.0, 1.0, 0.0, None], "judge": [1.0, 0.0, 1.0, 1.0]}
    graded(runs_dir / "r1", columns, metrics, manifest=versions)
    text = browse(ask, sort="unit")
    assert chips(text) == [["right"], ["right", "disagree"], ["wrong", "disagree"], []]


def test_columns_are_chosen_and_kept_in_links(ask: Asking, runs_dir: Path) -> None:
    columns = {"score": [0.5], "label": [1.0]}
    records = Records.from_columns(columns, unit_id=["a"], slices={"language": ["de"]})
    rows_run(runs_dir / "r1", records, {"a": "a text <b>"})
    text = browse(ask)
    assert 'data-label="input"' in text
    assert 'data-label="language"' in text
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    chosen = ask(f"/runs/{key}/samples?col=input&col=value.score").text
    assert re.findall(r'data-label="([^"]*)"', chosen) == ["input", "score"]
    assert "a text &lt;b&gt;" in chosen
    (sample,) = re.findall(rf'href="(/runs/{key}/sample\?[^"]*)"', chosen)
    assert "col=input&amp;col=value.score" in sample


def test_labels_are_shown_as_they_were_written(ask: Asking, runs_dir: Path) -> None:
    rows = {"id": ["a", "b"], "label": ["ham", "spam"], "score": [0.1, 0.9]}
    found = read_predictions(rows, Wanted(labels=LabelMap.of("spam", None)))
    specs = {"score": chosen_metrics(None)}
    kind = PredictionsKind(found=found, specs=specs, settings={}, summary=SummarySpec())
    drive(kind, runs_dir / "r1", name="r1")
    text = browse(ask, sort="unit")
    assert re.findall(r'data-label="label">([^<]*)<', text) == ["ham", "spam"]
    assert "at least 0.5 means spam" in text
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    sample = ask(f"/runs/{key}/sample?row=1").text
    assert "<dt>label</dt><dd>spam</dd>" in sample
    assert '<span class="chip right">right</span>' in sample
    assert '<td class="num" data-label="label">ham</td>' in ask(f"/compare?a={key}&b={key}").text


def test_every_verdict_fits_its_code(runs_dir: Path) -> None:
    graded(runs_dir / "r1", {"grade": [1.0, 0.0]}, {"grade": cell(0.5)})
    viewer = Viewer.of(runs_dir)
    (run,) = viewer.listed()
    judged = viewer.judged(run)
    assert [VERDICTS[code] for code in judged.codes] == ["", ""], "of no known direction"
    assert judged.order.tolist() == [1, 0]
