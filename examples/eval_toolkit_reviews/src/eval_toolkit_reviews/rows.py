"""Plugins for rows: a loader, a scorer, a leakage check, a splitter and a threshold selector."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from eval_toolkit import EvalSlice, LeakageFinding, ThresholdResult, metrics_at_threshold

__all__ = [
    "LeastRegretSelector",
    "PraiseScorer",
    "ProductSplitter",
    "ReviewsLoader",
    "TemplateCheck",
    "read_reviews",
]

PRAISE = ("love", "great", "excellent", "wonderful", "happy", "perfectly", "five stars")
BLAME = ("broke", "terrible", "awful", "regret", "late", "money back", "one star")


def read_reviews() -> list[dict[str, Any]]:
    """Return the reviews included in the package."""
    text = (resources.files("eval_toolkit_reviews") / "reviews.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@dataclass(frozen=True)
class ReviewsLoader:
    """Loader of 72 reviews of six products, three of them for training."""

    products: Sequence[str] = ()
    """Products to load; all by default."""

    def load_splits(self) -> dict[str, EvalSlice]:
        """Return the slices "train" and "test"."""
        rows = [
            row for row in read_reviews() if not self.products or row["product"] in self.products
        ]
        found: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            found.setdefault(row["split"], []).append(row)
        return {
            split: EvalSlice(
                split,
                {name: [row[name] for row in part] for name in part[0]},
                id_col="id",
            )
            for split, part in found.items()
        }

    def describe(self) -> dict[str, object]:
        """Return a Croissant description of the data."""
        return {
            "name": "reviews",
            "description": "Made-up product reviews.",
            "citeAs": "",
            "license": "MIT",
            "url": "",
            "distribution": [],
            "products": list(self.products),
        }


@dataclass(frozen=True)
class PraiseScorer:
    """Scorer that returns the fraction of praise among words of praise and blame."""

    version = "1"
    weight: float = 1.0
    """Weight of a word of blame relative to a word of praise."""

    def predict_proba(self, X: Sequence[str]) -> Any:
        """Return the probability of a positive review for each text."""
        return np.array([self._one(text.lower()) for text in X], dtype=np.float64)

    def _one(self, text: str) -> float:
        praise = sum(word in text for word in PRAISE)
        blame = self.weight * sum(word in text for word in BLAME)
        return (praise + 0.5) / (praise + blame + 1.0)


@dataclass(frozen=True)
class TemplateCheck:
    """Leakage check for reviews that differ only in the product and the order number."""

    products: Sequence[str] = ("kettle", "lamp", "radio", "chair", "knife", "clock")
    name: str = "TemplateCheck"
    version = "1"

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the reviews whose template occurs in an earlier split."""
        seen: dict[str, str] = {}
        drop: dict[str, list[int]] = {}
        for split, part in splits.items():
            for row, text in enumerate(part.features):
                if seen.setdefault(self._template(text), split) != split:
                    drop.setdefault(split, []).append(row)
        n = sum(map(len, drop.values()))
        return LeakageFinding(
            check_name=self.name,
            severity="warning",
            drop_indices=drop,
            evidence={"n_templates": len(seen)},
            message=f"{n} reviews share a template with an earlier split",
            n_affected=n,
        )

    def _template(self, text: str) -> str:
        words = "|".join(map(re.escape, self.products)) or "(?!)"
        return re.sub(rf"\b(?:{words})\b|\d+", "…", text.casefold())


@dataclass(frozen=True)
class ProductSplitter:
    """Splitter that leaves one product out per fold."""

    column: str = "product"
    version = "1"

    def iter_folds(
        self, slice_: EvalSlice, *, groups: Any = None
    ) -> Iterator[dict[str, EvalSlice]]:
        """Yield one fold per product."""
        values = self._values(slice_, groups)
        for value in sorted(set(values)):
            test = np.array([one == value for one in values])
            yield {
                "train": slice_.take(~test, name="train"),
                "test": slice_.take(test, name="test"),
            }

    def get_n_splits(self, slice_: EvalSlice) -> int:
        """Return the number of products."""
        return len(set(self._values(slice_, None)))

    def _values(self, slice_: EvalSlice, groups: Any) -> list[str]:
        given = slice_.df[self.column] if groups is None else groups
        return [str(value) for value in given]


@dataclass(frozen=True)
class LeastRegretSelector:
    """Selector of the threshold with the fewest errors; the lowest in case of ties."""

    criterion: str = "least_regret"

    def select(self, y_true: Any, y_score: Any) -> ThresholdResult:
        """Return the threshold and its metrics."""
        labels, scores = np.asarray(y_true), np.asarray(y_score, dtype=np.float64)
        thresholds = np.unique(scores)
        wrong = [int(((scores >= threshold) != labels).sum()) for threshold in thresholds]
        threshold = float(thresholds[int(np.argmin(wrong))])
        there = metrics_at_threshold(labels, scores, threshold)
        f1, precision, recall = (float(there[name]) for name in ("f1", "precision", "recall"))
        return ThresholdResult(threshold, f1, precision, recall, self.criterion)
