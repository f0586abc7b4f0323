"""Small real runs that the tests of the report share; each is made once and only read."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.harness import evaluate, save_run
from eval_toolkit.leakage import ExactDuplicateCheck, GroupLeakageCheck, LabelConflictCheck
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.slices import EvalSlice
from eval_toolkit.thresholds import MaxF1Selector

WANTED = Wanted(n_samples=6, n_resamples=50)


class Scores:
    """A scorer that looks up what it said about a text."""

    version = "1"

    def __init__(self, said: dict[str, float]) -> None:
        self._said = said

    def predict_proba(self, X: list[str]) -> list[float]:  # noqa: N803 - scikit-learn's name
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


@pytest.fixture(scope="session")
def rows_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two scorers on 90 test rows in three languages, with texts, thresholds and findings."""
    return made_run(tmp_path_factory.mktemp("rows"), "first")


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same rows, scored with more noise."""
    return made_run(tmp_path_factory.mktemp("rows"), "second", noise=3.0)


@pytest.fixture(scope="session")
def dropped_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same rows without those that checks wanted dropped."""
    checks = [ExactDuplicateCheck()]
    return made_run(
        tmp_path_factory.mktemp("rows"), "dropped", leakage_checks=checks, on_leakage="drop"
    )


class Page(HTMLParser):
    """The elements of a page in order, with their classes and texts."""

    _VOID = frozenset({"input", "meta", "br", "path", "rect", "line", "circle", "hr", "img", "link"})

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
        """The id of every element that has one, except those inside of drawings."""
        return [one["id"] for one in self.elements if one.get("id")]


@pytest.fixture(scope="session")
def shown() -> Callable[[Section], Page]:
    """Return a section as the page has it, parsed."""
    from eval_toolkit.report.rendering import environment
    from eval_toolkit.report.sections import Chapter

    def render(section: Section) -> Page:
        chapters = environment().get_template("chapters.html")
        return Page(chapters.render(chapters=[Chapter(sections=[section])]))

    return render


def plain(text: str) -> str:
    """Return a text with single spaces."""
    return re.sub(r"\s+", " ", text).strip()
