"""Baselines that predict the label from length, characters and words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import bootstrap_ci
from eval_toolkit.inference.plans import MIN_UNITS
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES
from eval_toolkit.leakage.eda._inputs import is_positive, strings
from eval_toolkit.metrics import pr_auc
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

_MOST_GRAMS = 200_000
"""Maximum number of n-grams; the most frequent n-grams are sufficient."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompetencyBaselines(Displayed):
    """Average precision of three simple baselines, and the chance level.

    Examples
    --------
    >>> texts = ["win cash now", "see you soon"] * 20
    >>> found = competency_baselines(texts, [1, 0] * 20, texts, [1, 0] * 20)
    >>> found.prevalence, found.bow.value, found.above_chance
    (0.5, 1.0, ('char_ngram', 'bow'))
    """

    length: MetricResult
    """Length baseline (numbers of characters and words)."""
    char_ngram: MetricResult
    """Character n-gram baseline."""
    bow: MetricResult
    """Bag-of-words baseline."""
    prevalence: float
    """Fraction of positive test rows."""
    chance: float | None
    """Expected average precision of a random ranking; None without positive test rows."""
    n_train: int
    n_test: int
    char_ngram_range: tuple[int, int]

    @property
    def above_chance(self) -> tuple[str, ...]:
        """Names of the baselines whose interval is entirely above ``chance``."""
        found = []
        for name in ("length", "char_ngram", "bow"):
            ci = getattr(self, name).ci
            if ci is not None and self.chance is not None and ci.ci_low > self.chance:
                found.append(name)
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "length": self.length.to_dict(),
            "char_ngram": self.char_ngram.to_dict(),
            "bow": self.bow.to_dict(),
            "prevalence": self.prevalence,
            "chance": self.chance,
            "above_chance": list(self.above_chance),
            "n_train": self.n_train,
            "n_test": self.n_test,
            "char_ngram_range": list(self.char_ngram_range),
        }


def competency_baselines(
    train_texts: Sequence[str],
    train_labels: ArrayLike,
    test_texts: Sequence[str],
    test_labels: ArrayLike,
    *,
    positive_label: Any = 1,
    char_ngram_range: tuple[int, int] = (2, 5),
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> CompetencyBaselines:
    """Return the average precision of length, character n-gram and bag-of-words baselines.

    Parameters
    ----------
    train_texts, test_texts : sequence of str
        Texts for fitting and for evaluating the baselines.
    train_labels, test_labels : array-like
        Label of each text.
    positive_label : object, default 1
        Positive class; all other labels are negative.
    char_ngram_range : tuple of int, default (2, 5)
        Shortest and longest character n-gram.
    n_resamples, confidence
        As in `bootstrap_ci`.
    seed, rng : int, Generator, …, default 0
        Random seed or generator; pass only one of the two.

    Returns
    -------
    CompetencyBaselines
        One cell per baseline. Skipped cells (single class, or no words in the training texts) and
        values without an interval have a reason.

    Raises
    ------
    InvalidInputError
        If texts or labels are invalid, or an option is out of range.
    InvalidTypeError
        If a text is not a string.

    Notes
    -----
    Each baseline is a logistic regression (C = 1, balanced class weights) on standardised log lengths,
    TF-IDF weights of character n-grams, or TF-IDF weights of words. A baseline far above chance
    means that part of the task can be solved without the competency it is meant to measure [1]_;
    compare models with the best baseline instead of with chance.

    The interval is a BCa bootstrap over test rows, stratified by label, so the prevalence is
    fixed. A random ranking of N rows with P positives has the expected average precision ρ + (1 −
    ρ) H/N, with ρ = (P − 1)/(N − 1) and H = 1 + 1/2 + … + 1/N. This is ``chance``; it exceeds the
    prevalence in small samples [2]_. In simulations of 80 test rows with random labels, up to 9 %
    of the intervals were above the prevalence, and 2 % above ``chance``.

    References
    ----------
    .. [1] Gardner et al. (2021), Competency problems: on finding and removing artifacts in language
       data, EMNLP.
    .. [2] Bestgen (2015), Exact expected average precision of the random baseline for system
       evaluation, Prague Bulletin of Mathematical Linguistics 103:131-138.

    Examples
    --------
    >>> train = ["claim your prize", "lunch at noon", "a prize for you", "noon is fine"] * 5
    >>> test = ["your prize", "see you at noon"] * 10
    >>> found = competency_baselines(train, [1, 0] * 10, test, [1, 0] * 10)
    >>> found.bow.value, found.prevalence, round(found.chance, 3)
    (1.0, 0.5, 0.568)
    """
    train, test = strings(train_texts, "train_texts"), strings(test_texts, "test_texts")
    y_train = is_positive(train_labels, positive_label, len(train), ("train_labels", "train_texts"))
    y_test = is_positive(test_labels, positive_label, len(test), ("test_labels", "test_texts"))
    sizes = _gram_range(char_ngram_range)
    validation.integer(n_resamples, "n_resamples", low=1)
    validation.fraction(confidence, "confidence")
    start = resolve_seed(seed, rng, default=0)
    missing = _one_class(y_train, "training") or _one_class(y_test, "test")
    cells = {}
    for name in ("length", "char_ngram", "bow"):
        try:
            if missing:
                raise UndefinedMetricError(missing)
            scores = _scores(name, train, y_train, test, sizes)
        except UndefinedMetricError as reason:
            cells[name] = MetricResult(None, "skipped", str(reason), n_units=len(test))
        else:
            cells[name] = _cell(
                y_test, scores, n_resamples, confidence, derive_seed(start, "competency", name)
            )
    return CompetencyBaselines(
        **cells,
        prevalence=float(y_test.mean()),
        chance=_chance(y_test),
        n_train=len(train),
        n_test=len(test),
        char_ngram_range=sizes,
    )


def _gram_range(given: tuple[int, int]) -> tuple[int, int]:
    try:
        low, high = given
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"`char_ngram_range` is {given!r:.80}; it must be two integers, such as (2, 5)"
        ) from None
    low = validation.integer(low, "char_ngram_range[0]", low=1)
    return low, validation.integer(high, "char_ngram_range[1]", low=low)


def _one_class(labels: BoolArray, which: str) -> str:
    if not labels.any():
        return f"no {which} text has the positive label"
    return f"every {which} text has the positive label" if labels.all() else ""


def _chance(labels: BoolArray) -> float | None:
    n, positives = len(labels), int(labels.sum())
    if not positives:
        return None
    if positives == n:  # avoids division by N − 1 = 0
        return 1.0
    share = (positives - 1) / (n - 1)
    return float(share + (1.0 - share) * (1.0 / np.arange(1, n + 1)).sum() / n)


def _scores(
    name: str, train: list[str], labels: BoolArray, test: list[str], sizes: tuple[int, int]
) -> FloatArray:
    """Return a baseline's decision values for the test texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if name == "length":
        scaler = StandardScaler().fit(_lengths(train))
        x_train, x_test = scaler.transform(_lengths(train)), scaler.transform(_lengths(test))
    else:
        grams = {"analyzer": "char", "ngram_range": sizes}
        # The default pattern ignores single-letter words.
        options: dict[str, Any] = grams if name == "char_ngram" else {"token_pattern": r"\w+"}
        vectorizer = TfidfVectorizer(max_features=_MOST_GRAMS, **options)
        try:
            x_train = vectorizer.fit_transform(train)
        except ValueError:  # empty vocabulary; other causes were ruled out
            unit = f"character {sizes[0]}-gram" if name == "char_ngram" else "word"
            raise UndefinedMetricError(f"no training text contains a {unit}") from None
        x_test = vectorizer.transform(test)
    model = LogisticRegression(class_weight="balanced", solver="liblinear", random_state=0)
    scores: FloatArray = model.fit(x_train, labels).decision_function(x_test)
    return scores


def _lengths(texts: list[str]) -> FloatArray:
    return np.log1p([[len(text), len(text.split())] for text in texts])


def _cell(
    labels: BoolArray, scores: FloatArray, n_resamples: int, confidence: float, seed: int
) -> MetricResult:
    value, n = float(pr_auc(labels, scores)), len(labels)
    if n < MIN_UNITS:
        reason = f"bootstrap unavailable: {n} test rows; it needs {MIN_UNITS}"
        return MetricResult(value, "ok", reason, n_units=n, n_groups=n)
    ci = bootstrap_ci(
        labels,
        scores,
        pr_auc,
        n_resamples=n_resamples,
        confidence=confidence,
        seed=seed,
        stratified=True,
    )
    return MetricResult(value, "ok", ci=ci, n_units=n, n_groups=n)
