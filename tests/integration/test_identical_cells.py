"""The same rows give the same cells, whichever way they are scored and wherever they are read."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from eval_toolkit import metric_specs as ms
from eval_toolkit import score_predictions
from eval_toolkit.cli.main import cli
from eval_toolkit.scorecards import MetricResult, Records, scorecard, summarise

METRICS = (ms.pr_auc, ms.roc_auc, ms.brier, ms.log_loss)
NAMES = [spec.name for spec in METRICS]


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Any]]:
    rng = np.random.default_rng(7)
    n = 240
    labels = rng.random(n) < 0.3
    scores = np.clip(0.35 * labels + rng.normal(0.3, 0.15, n), 0.01, 0.99)
    return {
        "id": [f"r{n:03}" for n in range(n)],
        "label": labels.astype(int).tolist(),
        "score": scores.tolist(),
        "language": rng.choice(["de", "fr"], n).tolist(),
        "author": [f"a{one}" for one in rng.integers(0, 60, n)],
    }


@pytest.fixture(scope="module")
def folder(rows: dict[str, list[Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cells")
    with (place / "preds.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    return place


def command(*words: object) -> str:
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.output


def ends(cell: Any) -> tuple[Any, ...]:
    """Return what a cell says, from whatever holds it."""
    told = cell.to_dict() if isinstance(cell, MetricResult) else dict(cell)
    ci = told.get("ci") or told
    return told["value"], told["status"], ci["ci_low"], ci["ci_high"], told["n_units"]


def through_scorecard(rows: dict[str, list[Any]], keep: Any) -> dict[str, Any]:
    taken = {name: np.asarray(column)[keep] for name, column in rows.items()}
    card = scorecard(taken["label"], taken["score"], metrics=METRICS, groups=taken["author"])
    return {name: ends(card[name]) for name in NAMES}


def through_summarise(rows: dict[str, list[Any]], keep: Any) -> dict[str, Any]:
    taken = {name: np.asarray(column)[keep].tolist() for name, column in rows.items()}
    records = Records.from_columns(
        {"label": taken["label"], "score": taken["score"]},
        unit_id=taken["id"],
        group=taken["author"],
    )
    return {name: ends(cell) for name, cell in summarise(records, METRICS).items()}


@pytest.mark.parametrize("part", ["all", "language=de", "language=fr"])
def test_the_same_cells_everywhere(rows: dict[str, list[Any]], folder: Path, part: str) -> None:
    language = np.asarray(rows["language"])
    keep = np.ones(len(language), bool) if part == "all" else language == part.partition("=")[2]
    expected = through_scorecard(rows, keep)
    assert through_summarise(rows, keep) == expected

    done = score_predictions(rows, by="language", group_col="author")
    card = done.card if part == "all" else done.card.slices[part]
    assert {name: ends(card[name]) for name in NAMES} == expected

    options = ("--by", "language", "--group", "author")
    payload = json.loads(command("score", folder / "preds.csv", *options, "--json"))
    whole = payload["by_slice"]["all"]
    entry = whole if part == "all" else whole["parts"][part]
    assert {name: ends(entry["by_scorer"]["score"][name]) for name in NAMES} == expected

    run = folder / f"run-{part.replace('=', '-')}"
    command("score", folder / "preds.csv", *options, "--save", run)
    exported = csv.DictReader(command("export", run, "--to", "csv").splitlines())
    lines = {row["metric"]: row for row in exported if row["part"] == part}
    for name, (value, status, low, high, n) in expected.items():
        line = lines[name]
        assert (float(line["value"]), line["status"], int(line["n_units"])) == (value, status, n)
        assert (float(line["ci_low"]), float(line["ci_high"])) == (low, high)

    compared = json.loads(command("compare", run, run, "--json"))["cells"]
    for cell in compared:
        if cell["part"] == part and cell["metric"] in expected:
            assert cell["value_a"] == cell["value_b"] == expected[cell["metric"]][0]


def test_reports_show_these_numbers(folder: Path, rows: dict[str, list[Any]]) -> None:
    run = folder / "reported"
    command("score", folder / "preds.csv", "--group", "author", "--save", run)
    command("report", run, "-o", folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    shown: Callable[[float], str] = "{:.3f}".format
    for value, _, low, high, _ in through_scorecard(rows, np.ones(len(rows["id"]), bool)).values():
        assert shown(value) in page
        assert f"[{shown(low)}, {shown(high)}]" in page
