"""BLEU, chrF and TER, per response and for the corpus.

A corpus score is not the mean of the scores of responses; it is computed from counts summed over
all responses. Each grader stores the counts of a response in separate columns, and its
``metrics()`` returns the corpus score, which has an interval like any other metric. Both kinds of
scores equal sacrebleu's.

BLEU and chrF read only the first `TEXT_LIMIT` characters of a response; ``<name>_cut`` is 1 if
there were more.
"""

import functools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal.optional import require
from eval_toolkit._internal.validation import FloatArray, choice, integer
from eval_toolkit.graders.base import (
    COMPLETIONS,
    KEPT,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.models.responses import Completion
from eval_toolkit.protocols import MetricSpec

TEXT_LIMIT = 100_000
"""Maximum number of characters read from the start of a response."""

_PERCENT = (0.0, 100.0)
_BLEU_ORDER = 4
_CHARACTER_ORDER = 6
_BETA_SQUARED = 4.0
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def _texts(response: Completion) -> tuple[str, list[str], bool]:
    """Return the truncated response and references, and whether any was too long."""
    truths = references(response)
    cut = any(len(text) > TEXT_LIMIT for text in (response.completion, *truths))
    return response.completion[:TEXT_LIMIT], [truth[:TEXT_LIMIT] for truth in truths], cut


def _corpus_metric(
    name: str, columns: Sequence[str], function: Any, *, up: bool, high: float
) -> MetricSpec:
    from eval_toolkit import metric_specs  # lazy: only needed for summaries

    return metric_specs.from_sums(name, columns, function, higher_is_better=up, bounds=(0.0, high))


# --- BLEU ---------------------------------------------------------------------------------------


def corpus_bleu(sums: FloatArray) -> FloatArray:
    """Compute BLEU from sums of counts, smoothed as in NIST's mteval ("exp").

    Parameters
    ----------
    sums : array of shape (n, 10)
        Numbers of words of the responses and of the closest references; matching n-grams for n from
        1 to 4; n-grams of the responses.

    Returns
    -------
    array of shape (n,)
        From 0 to 100; NaN if the references have no words.

    Examples
    --------
    >>> corpus_bleu(np.array([[5.0, 5, 5, 4, 3, 2, 5, 4, 3, 2]])).round(6)
    array([100.])
    """
    length, reference_length = sums[:, 0], sums[:, 1]
    right, of = sums[:, 2 : 2 + _BLEU_ORDER], sums[:, 2 + _BLEU_ORDER :]
    scored = right.any(axis=1) & (of > 0).all(axis=1)
    none_right = right <= 0
    # The first order without matches counts half an n-gram, the next one a quarter …
    right = np.where(none_right, 0.5 ** none_right.cumsum(axis=1), right)
    mean = np.log(right / np.where(of > 0, of, 1.0)).mean(axis=1)
    short = np.minimum(0.0, 1.0 - reference_length / np.where(length > 0, length, 1.0))
    values = np.where(scored, 100.0 * np.exp(mean + short), 0.0)
    return np.where(reference_length > 0, values, np.nan)


@functools.lru_cache(maxsize=16)
def _bleu(tokenise: str, lowercase: bool) -> Any:
    metrics = require("sacrebleu.metrics", feature="Bleu", extra="text")
    return metrics.BLEU(tokenize=tokenise, lowercase=lowercase, effective_order=True, force=True)


@dataclass(frozen=True, slots=True)
class Bleu:
    """BLEU as computed by sacrebleu, from 0 to 100.

    The column ``<name>`` contains the score of each response; the metric ``<name>_corpus`` is the
    score of the corpus. Responses are scored with the n-gram orders for which they are long enough
    (``effective_order``), the corpus with orders 1 to 4, both with "exp" smoothing. All references
    of a response are used together.

    Parameters
    ----------
    tokenise : {"13a", "intl", "zh", "char", "none"}, default "13a"
        Tokeniser of sacrebleu.
    lowercase : bool, default False
        Whether to ignore case.
    name : str, default "bleu"
        Name of the column.

    Raises
    ------
    InvalidInputError
        If ``tokenise`` is invalid.
    MissingExtraError
        If sacrebleu is not installed (extra ``text``).

    Examples
    --------
    >>> grader = Bleu()
    >>> grades = grader.grade(Completion("the cat is here", ground_truth="the cat is there"))
    >>> round(grades["bleu"], 2)
    59.46
    >>> [metric.name for metric in grader.metrics()]
    ['bleu_corpus']
    """

    tokenise: str = "13a"
    lowercase: bool = False
    name: str = "bleu"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        choice(self.tokenise, "tokenise", ("13a", "intl", "zh", "char", "none"))
        require("sacrebleu", feature="Bleu", extra="text")

    version = options_version("1")

    def _counts(self) -> list[str]:
        orders = range(1, _BLEU_ORDER + 1)
        parts = ["words", "reference_words"]
        parts += [f"match_{n}" for n in orders] + [f"total_{n}" for n in orders]
        return [f"{self.name}_{part}" for part in parts]

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        kept = dict.fromkeys([*self._counts(), f"{self.name}_cut"], KEPT)
        return {self.name: ColumnInfo(bounds=_PERCENT), **kept}

    def metrics(self) -> list[MetricSpec]:
        """Return the corpus BLEU."""
        name = f"{self.name}_corpus"
        return [_corpus_metric(name, self._counts(), corpus_bleu, up=True, high=100.0)]

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the score of the response and its counts."""
        text, truths, cut = _texts(response)
        found = _bleu(self.tokenise, self.lowercase).sentence_score(text, truths)
        counts = [found.sys_len, found.ref_len, *found.counts, *found.totals]
        kept = dict(zip(self._counts(), map(float, counts), strict=True))
        return {self.name: min(found.score, 100.0), **kept, f"{self.name}_cut": float(cut)}


# --- chrF ---------------------------------------------------------------------------------------


def corpus_chrf(sums: FloatArray) -> FloatArray:
    """Compute chrF2 from sums of counts; precision and recall are averaged over the orders.

    Parameters
    ----------
    sums : array of shape (n, 3·orders)
        For each order: n-grams of the responses, n-grams of the references, and matching n-grams.

    Returns
    -------
    array of shape (n,)
        From 0 to 100; NaN if the references have no characters.

    Examples
    --------
    >>> corpus_chrf(np.array([[4.0, 4, 2, 3, 3, 0]])).round(6)
    array([25.])
    """
    texts, truths, common = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    counted = (texts > 0) & (truths > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision, recall = (
        np.where(counted, common / np.where(of > 0, of, 1.0), 0.0).sum(axis=1) / orders
        for of in (texts, truths)
    )
    below = _BETA_SQUARED * precision + recall
    score = (1.0 + _BETA_SQUARED) * precision * recall / np.where(below > 0, below, 1.0)
    return np.where(truths.any(axis=1), 100.0 * score, np.nan)


@dataclass(frozen=True, slots=True)
class ChrF:
    """chrF2, from 0 to 100: character n-grams up to length 6 without whitespace, with β = 2.

    The column ``<name>`` contains the score of each response; the metric ``<name>_corpus`` is the
    score of the corpus. The best reference is used.

    Parameters
    ----------
    word_order : int, default 0
        Maximum order of word n-grams; 2 gives chrF++.
    lowercase : bool, default False
        Whether to ignore case.
    name : str, default "chrf"
        Name of the column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``word_order`` is negative or not an integer.

    Examples
    --------
    >>> grades = ChrF().grade(Completion("the cat is here", ground_truth="the cat is there"))
    >>> round(grades["chrf"], 2)
    66.29
    """

    word_order: int = 0
    lowercase: bool = False
    name: str = "chrf"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        integer(self.word_order, "word_order")

    version = options_version("1")

    def _counts(self) -> list[str]:
        orders = [f"{n}" for n in range(1, _CHARACTER_ORDER + 1)]
        orders += [f"word_{n}" for n in range(1, self.word_order + 1)]
        parts = ("text", "reference", "match")
        return [f"{self.name}_{part}_{order}" for order in orders for part in parts]

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        kept = dict.fromkeys([*self._counts(), f"{self.name}_cut"], KEPT)
        return {self.name: ColumnInfo(bounds=_PERCENT), **kept}

    def metrics(self) -> list[MetricSpec]:
        """Return the corpus chrF."""
        name = f"{self.name}_corpus"
        return [_corpus_metric(name, self._counts(), corpus_chrf, up=True, high=100.0)]

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the score with the best reference, and its counts."""
        text, truths, cut = _texts(response)
        mine = self._ngrams(text)
        counts = np.array([_agreement(mine, self._ngrams(truth)) for truth in truths])
        scores = np.nan_to_num(corpus_chrf(counts))
        best = int(scores.argmax())
        kept = dict(zip(self._counts(), counts[best].tolist(), strict=True))
        return {self.name: float(scores[best]), **kept, f"{self.name}_cut": float(cut)}

    def _ngrams(self, text: str) -> list[Counter[Hashable]]:
        text = text.lower() if self.lowercase else text
        signs = "".join(text.split())
        found: list[Counter[Hashable]] = [
            Counter(signs[at : at + n] for at in range(len(signs) - n + 1))
            for n in range(1, _CHARACTER_ORDER + 1)
        ]
        words = list(_apart(text.split())) if self.word_order else []
        return found + [
            Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))
            for n in range(1, self.word_order + 1)
        ]


def _apart(words: Iterable[str]) -> Iterable[str]:
    """Separate one leading or trailing punctuation mark from each word."""
    for word in words:
        if len(word) > 1 and word[-1] in _PUNCTUATION:
            yield from (word[:-1], word[-1])
        elif len(word) > 1 and word[0] in _PUNCTUATION:
            yield from (word[0], word[1:])
        else:
            yield word


def _agreement(text: list[Counter[Hashable]], truth: list[Counter[Hashable]]) -> list[float]:
    counts: list[float] = []
    for mine, target in zip(text, truth, strict=True):
        # If the reference is too short for an order, n-grams of the text are not counted.
        total = mine.total() if target else 0
        counts += [total, target.total(), (mine & target).total()]
    return counts


# --- TER ----------------------------------------------------------------------------------------


def corpus_ter(sums: FloatArray) -> FloatArray:
    """Compute TER, the number of edits per hundred reference words, from sums.

    Parameters
    ----------
    sums : array of shape (n, 2)
        Number of edits and number of reference words.

    Returns
    -------
    array of shape (n,)
        Non-negative values; NaN if the references have no words.

    Examples
    --------
    >>> corpus_ter(np.array([[1.0, 4.0]]))
    array([25.])
    """
    edits, words = sums[:, 0], sums[:, 1]
    return np.where(words > 0, 100.0 * edits / np.where(words > 0, words, 1.0), np.nan)


@functools.lru_cache(maxsize=4)
def _ter(case_sensitive: bool) -> Any:
    metrics = require("sacrebleu.metrics", feature="Ter", extra="text")
    return metrics.TER(case_sensitive=case_sensitive)


@dataclass(frozen=True, slots=True)
class Ter:
    """TER as computed by sacrebleu: edits and shifts per hundred reference words; lower is better.

    The column ``<name>`` contains the score of each response; the metric ``<name>_corpus`` is the
    score of the corpus. With several references, the minimum number of edits is divided by the mean
    reference length. The score is skipped for references without words.

    Parameters
    ----------
    case_sensitive : bool, default False
        Whether to distinguish case.
    max_words : int, default 80
        Maximum number of words in the search for shifts, which takes quadratic time (up to two
        seconds for 80 words). Each additional word of a response counts as an edit, and
        ``<name>_cut`` is 1; longer references are an error.
    name : str, default "ter"
        Name of the column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``max_words`` is not a positive integer.
    MissingExtraError
        If sacrebleu is not installed (extra ``text``).

    Examples
    --------
    >>> Ter().grade(Completion("the cat is here", ground_truth="the cat is there"))["ter"]
    25.0
    """

    case_sensitive: bool = False
    max_words: int = 80
    name: str = "ter"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        integer(self.max_words, "max_words", low=1)
        require("sacrebleu", feature="Ter", extra="text")

    version = options_version("1")

    def _counts(self) -> list[str]:
        return [f"{self.name}_edits", f"{self.name}_reference_words"]

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        kept = dict.fromkeys([*self._counts(), f"{self.name}_cut"], KEPT)
        return {self.name: ColumnInfo(False, (0.0, math.inf)), **kept}

    def metrics(self) -> list[MetricSpec]:
        """Return the corpus TER."""
        name = f"{self.name}_corpus"
        return [_corpus_metric(name, self._counts(), corpus_ter, up=False, high=math.inf)]

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the number of edits, in total and per hundred words."""
        words = response.completion.split()
        truths = [truth.split() for truth in references(response)]
        longest = max(map(len, truths))
        if longest > self.max_words:
            return self._nothing(
                f"the reference has {longest} words, more than `max_words`={self.max_words}",
                Grade.error,
            )
        if longest == 0:
            return self._nothing("the reference has no words", Grade.skipped)
        beyond = max(len(words) - self.max_words, 0)
        found = _ter(self.case_sensitive).sentence_score(
            " ".join(words[: self.max_words]), [" ".join(truth) for truth in truths]
        )
        edits, length = float(found.num_edits + beyond), float(found.ref_length)
        kept = dict(zip(self._counts(), (edits, length), strict=True))
        return {self.name: 100.0 * edits / length, **kept, f"{self.name}_cut": float(beyond > 0)}

    def _nothing(self, reason: str, state: Any) -> dict[str, float | Grade]:
        return dict.fromkeys(self.columns(), state(reason))
