"""Scorers: objects with ``predict_proba(X)`` that returns P(injection)."""

from typing import Any

import numpy as np

SUSPICIOUS = ("ignore", "disregard", "instructions", "system", "assistant", "developer", "forget")


class KeywordScorer:
    """Scorer that counts suspicious words; needs no training."""

    version = "1"

    def predict_proba(self, X: list[str]) -> np.ndarray:
        """Return min(1, hits / 3) for each mail."""
        hits = [sum(word in text.lower() for word in SUSPICIOUS) for text in X]
        return np.minimum(1.0, np.array(hits, dtype=float) / 3)


class TfidfLogisticScorer:
    """Scikit-learn pipeline; the harness fits a new copy on the training part of each fold."""

    version = "0.1.0"

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import Pipeline

        self.pipe = Pipeline(
            [
                ("tfidf", TfidfVectorizer(ngram_range=(1, 2))),
                ("lr", LogisticRegression(max_iter=200, random_state=42)),
            ]
        )

    def fit(self, X: list[str], y: Any) -> None:
        """Fit on the training part of a fold."""
        self.pipe.fit(X, y)

    def predict_proba(self, X: list[str]) -> np.ndarray:
        """Return P(injection) for each mail."""
        return self.pipe.predict_proba(X)[:, 1]
