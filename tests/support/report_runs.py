"""Shared helpers for report tests: small runs and a page parser."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit.harness import evaluate, save_run
from eval_toolkit.leakage import ExactDuplicateCheck, GroupLeakageCheck, LabelConflictCheck
from eval_toolkit.report.sections import Wanted
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.slices import EvalSlice
from eval_toolkit.thresholds import MaxF1Selector

WANTED = Wanted(n_samples=6, n_resamples=50)


class Scores:
    """Scorer that looks up its score for a text."""

    version = "1"

    def __init__(self, said: dict[str, float]) -> None:
        self._said = said

    def predict_proba(self, X: list[str]) -> list[float]:
        return [self._said[text] for text in X]


def _part(name: str, n: int, seed: int) -> tuple[EvalSlice, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    texts = [f"<b>{name}</b> text {i} & more" for i in range(n)]
    if name == "test":  # a copy within, one of training, and one text with both labels
        texts[1], texts[3] = texts[0], "<b>train</b> text 0 & more"
        labels[0], labels[1] = 0, 1
    frame = {
        "id": [f"{name}-{i}" for i in range(n)],
        "text": texts,
        "label": labels.tolist(),
        "language": [("de", "en", "fr")[i % 3] for i in range(n)],
        "author": [f"a{i // 2}" for i in range(n)],
    }
    part = EvalSlice(name, frame, id_col="id", strata_col="language", group_col="author")
    return part, labels


def made_run(folder: Path, run_id: str, noise: float = 1.0, **options: Any) -> Run:
    """Evaluate two scorers on validation and test rows, with thresholds, checks and texts."""
    rng = np.random.default_rng(3)
    parts = {name: _part(name, n, at) for at, (name, n) in enumerate(SIZES.items())}
    good: dict[str, float] = {}
    bad: dict[str, float] = {}
    for part, labels in parts.values():
        for text, label in zip(part.features, labels, strict=True):
            base = rng.normal()
            good[text] = float(1 / (1 + np.exp(-(2.5 * label - 1.2 + noise * base))))
            bad[text] = float(1 / (1 + np.exp(-(0.8 * label - 0.4 + rng.normal()))))
    slices = [part for part, _ in parts.values()]
    given: dict[str, Any] = {
        "leakage_checks": [
            ExactDuplicateCheck(),
            LabelConflictCheck(),
            GroupLeakageCheck(group_col="author"),
        ],
        "on_leakage": "record",
    }
    result = evaluate(
        {"good": Scores(good), "bad": Scores(bad)},
        slices,
        run_id=run_id,
        n_resamples=50,
        thresholds=MaxF1Selector(),
        threshold_slice="val",
        eval_split_names=["test"],
        **given | options,
    )
    return save_run(result, folder / run_id, inputs=slices)


SIZES = {"train": 20, "val": 60, "test": 90}


def written_rows(
    folder: Path,
    labels: Sequence[float],
    scores: Sequence[float | None],
    *,
    cells: dict[str, Any] | None = None,
    run_id: str = "rows",
    **manifest: Any,
) -> Run:
    """Write a run of one scorer on all rows, with the given labels, scores and cells."""
    block = {"n": len(labels), **(cells or {"roc_auc": {"value": None, "status": "skipped"}})}
    results = {
        "schema_version": "v1",
        "run_id": run_id,
        "config": manifest.get("config", {}),
        "by_slice": {"all": {"n": len(labels), "by_scorer": {"model": block}}},
    }
    records = Records.from_columns(
        {"label": labels, "score": scores}, unit_id=[f"u{i:05}" for i in range(len(labels))]
    )
    return write_run(
        folder / run_id,
        results=results,
        manifest={"run_id": run_id, "config": {}, **manifest},
        records={("all", "model"): records},
    )


def scored_twice(folder: Path) -> Run:
    """Write a cross-validation run with two seeds over 60 rows."""
    rng = np.random.default_rng(5)
    labels = np.tile(rng.integers(0, 2, 60), 2)
    noise = np.tile(rng.normal(0.0, 0.25, 60), 2) + rng.normal(0.0, 0.02, 120)
    scores = np.clip(0.35 + 0.3 * labels + noise, 0.0, 1.0)
    records = Records.from_columns(
        {"label": labels, "score": scores},
        unit_id=[f"u{i % 60:03}" for i in range(120)],
        attempt=np.repeat([1, 2], 60),
    )
    results = {"schema_version": "v1", "run_id": "twice", "config": {}, "by_slice": {}}
    results |= {"by_fold": {"seed=1/fold=0": {"by_slice": {}}}, "fold_summary": {}}
    return write_run(
        folder / "twice",
        results=results,
        manifest={"run_id": "twice"},
        records={("test", "model"): records},
    )


def stored_cells(folder: Path, by_slice: dict[str, Any], **results: Any) -> Run:
    """Write the given results by slice, scorer and metric."""
    held = {
        name: {"n": 40, "by_scorer": {scorer: dict(cells) for scorer, cells in part.items()}}
        for name, part in by_slice.items()
    }
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": held} | results
    return write_run(folder / "r", results=results, manifest={"run_id": "r"})


class Page(HTMLParser):
    """Parser for the elements of a page in order, with their classes and texts."""

    _VOID = frozenset(
        {"input", "meta", "br", "path", "rect", "line", "circle", "hr", "img", "link"}
    )

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[dict[str, Any]] = []
        self._open: list[dict[str, Any]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = {"tag": tag, "text": "", **{key: value or "" for key, value in attrs}}
        self.elements.append(element)
        if tag not in self._VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append({"tag": tag, "text": "", **{k: v or "" for k, v in attrs}})

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element["text"] += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, Any]]:
        """Return the elements of a tag; ``class_`` is one of the classes."""
        wanted = attributes.pop("class_", None)
        return [
            element
            for element in self.elements
            if element["tag"] == tag
            and (wanted is None or wanted in element.get("class", "").split())
            and all(element.get(key.replace("_", "-")) == v for key, v in attributes.items())
        ]

    @property
    def ids(self) -> list[str]:
        """Return the ids of all elements outside of graphics."""
        return [one["id"] for one in self.elements if one.get("id")]


def plain(text: str) -> str:
    """Return a text with single spaces."""
    return re.sub(r"\s+", " ", text).strip()
