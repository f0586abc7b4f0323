"""Lexical associations: words typical of one corpus or class."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.leakage.eda._inputs import is_positive, strings

_WORD = re.compile(r"\w+")

Tokenizer = Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class TermAssociation:
    """Association of a term with corpus A (positive) or B (negative).

    Examples
    --------
    >>> TermAssociation("prize", 8, 0, 3.2, 2.1, 1.0, None).to_dict()["pmi_b"] is None
    True
    """

    term: str
    count_a: int
    count_b: int
    log_odds: float
    """Natural logarithm of the odds ratio of the term in A and B, with the prior."""
    z: float
    """``log_odds`` in standard errors."""
    pmi_a: float | None
    """Pointwise mutual information of the term and A, in bits; None if the term is absent in A."""
    pmi_b: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LexicalAssociation(Displayed):
    """Terms of two corpora, ordered from typical of A to typical of B.

    Examples
    --------
    >>> found = weighted_log_odds(["win a prize"] * 5, ["see a friend"] * 5)
    >>> [one.term for one in found.typical_of_a()], [one.term for one in found.typical_of_b()]
    (['prize', 'win'], ['friend', 'see'])
    """

    terms: tuple[TermAssociation, ...]
    """Terms by descending z."""
    n_texts_a: int
    n_texts_b: int
    n_tokens_a: int
    n_tokens_b: int
    n_rare: int
    """Number of terms with fewer than ``min_count`` occurrences, which are not listed."""
    prior_scale: float
    min_count: int

    def typical_of_a(self, n: int = 20) -> tuple[TermAssociation, ...]:
        """Return at most n terms with positive z, by descending z."""
        listed = self.terms[: validation.integer(n, "n")]
        return tuple(term for term in listed if term.z > 0.0)

    def typical_of_b(self, n: int = 20) -> tuple[TermAssociation, ...]:
        """Return at most n terms with negative z, by ascending z."""
        # Sort again, so that terms with equal z are ordered by name here too.
        lowest = sorted(self.terms, key=lambda term: (term.z, term.term))
        return tuple(term for term in lowest[: validation.integer(n, "n")] if term.z < 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        rest = {name: getattr(self, name) for name in self.__slots__ if name != "terms"}
        return {**rest, "terms": [term.to_dict() for term in self.terms]}


def weighted_log_odds(
    corpus_a: Sequence[str],
    corpus_b: Sequence[str],
    *,
    prior_scale: float = 0.01,
    min_count: int = 5,
    tokenizer: Tokenizer | None = None,
) -> LexicalAssociation:
    """Return the log-odds ratio of every term between two corpora, with an informative prior.

    Parameters
    ----------
    corpus_a, corpus_b : sequence of str
        Texts of the two corpora.
    prior_scale : float, default 0.01
        Weight of the prior, as a fraction of the pooled counts. Larger values shrink
        the log-odds more strongly towards 0.
    min_count : int, default 5
        Minimum total number of occurrences of listed terms.
    tokenizer : callable, optional
        Function that returns the terms of a text. By default, sequences of letters, digits and
        underscores in lower case.

    Returns
    -------
    LexicalAssociation
        One `TermAssociation` per term, by descending z, then by name.

    Raises
    ------
    InvalidInputError
        If a corpus is empty or an option is out of range.
    InvalidTypeError
        If a text or a term is not a string.
    UndefinedMetricError
        If a corpus has no terms, or there is only one distinct term.

    Notes
    -----
    With y the count of a term, n the total count of a corpus, and the pooled counts times
    ``prior_scale`` as the prior α (with sum α₀), the log-odds in a corpus are log((y + α) / (n + α₀
    − y − α)); the variance of their difference is approximately 1/(y_a + α) + 1/(y_b + α) [1]_.
    Pointwise mutual information is log₂(y_a (n_a + n_b) / ((y_a + y_b) n_a)), without a prior.

    Use z to rank terms, not as a test: there are many terms, and words in a text are dependent.

    References
    ----------
    .. [1] Monroe, Colaresi and Quinn (2008), Fightin' words, Political Analysis 16(4):372-403.

    Examples
    --------
    >>> found = weighted_log_odds(["free prize now"] * 6, ["see you now"] * 6)
    >>> for one in found.terms:
    ...     print(one.term, one.count_a, one.count_b, f"{one.z:+.2f}", one.pmi_a)
    free 6 0 +1.22 1.0
    prize 6 0 +1.22 1.0
    now 6 6 +0.00 0.0
    see 0 6 -1.22 None
    you 0 6 -1.22 None
    """
    texts = strings(corpus_a, "corpus_a"), strings(corpus_b, "corpus_b")
    scale = validation.number(prior_scale, "prior_scale", low=0.0, include_low=False)
    least = validation.integer(min_count, "min_count", low=1)
    counted = _counts(texts[0], "corpus_a", tokenizer), _counts(texts[1], "corpus_b", tokenizer)
    vocabulary = sorted(counted[0].keys() | counted[1].keys())
    if len(vocabulary) < 2:
        raise UndefinedMetricError(
            f"weighted_log_odds is undefined: the only term is {vocabulary[0]!r:.80}; it needs two"
        )
    a, b = (np.array([one[term] for term in vocabulary], dtype=np.float64) for one in counted)
    difference, z = _monroe(a, b, scale)
    pmi_a, pmi_b = _mutual_information(a, b), _mutual_information(b, a)
    listed = np.flatnonzero(a + b >= least).tolist()
    terms = [
        TermAssociation(
            term=vocabulary[i],
            count_a=int(a[i]),
            count_b=int(b[i]),
            log_odds=float(difference[i]),
            z=float(z[i]),
            pmi_a=float(pmi_a[i]) if a[i] else None,
            pmi_b=float(pmi_b[i]) if b[i] else None,
        )
        for i in listed
    ]
    return LexicalAssociation(
        terms=tuple(sorted(terms, key=lambda one: (-one.z, one.term))),
        n_texts_a=len(texts[0]),
        n_texts_b=len(texts[1]),
        n_tokens_a=int(a.sum()),
        n_tokens_b=int(b.sum()),
        n_rare=len(vocabulary) - len(listed),
        prior_scale=scale,
        min_count=least,
    )


def class_lexical_association(
    texts: Sequence[str],
    labels: ArrayLike,
    *,
    positive_label: Any = 1,
    prior_scale: float = 0.01,
    min_count: int = 5,
    tokenizer: Tokenizer | None = None,
) -> LexicalAssociation:
    """Return the terms that distinguish the positive class from the rest.

    Parameters
    ----------
    texts : sequence of str
        Texts, one per row.
    labels : array-like of shape (n,)
        Label of each text.
    positive_label : object, default 1
        Class that forms corpus A; all other rows form corpus B.
    prior_scale, min_count, tokenizer
        As in `weighted_log_odds`.

    Returns
    -------
    LexicalAssociation
        Association of each term with the positive class. Terms with large absolute z are potential
        shortcuts.

    Raises
    ------
    InvalidInputError
        If labels are missing, texts and labels differ in number, or all texts are in one class.
    InvalidTypeError, UndefinedMetricError
        As in `weighted_log_odds`.

    Examples
    --------
    >>> texts = ["win cash", "lunch at noon", "cash for you", "see you at noon"] * 3
    >>> found = class_lexical_association(texts, ["spam", "ham"] * 6, positive_label="spam")
    >>> found.terms[0].term, found.terms[-1].term
    ('cash', 'noon')
    """
    rows = strings(texts, "texts")
    positive = is_positive(labels, positive_label, len(rows), ("labels", "texts"))
    if positive.all() or not positive.any():
        which = "every" if positive.all() else "no"
        raise InvalidInputError(
            f"{which} label is {positive_label!r:.80}; `positive_label` must separate two classes"
        )
    return weighted_log_odds(
        [rows[i] for i in np.flatnonzero(positive)],
        [rows[i] for i in np.flatnonzero(~positive)],
        prior_scale=prior_scale,
        min_count=min_count,
        tokenizer=tokenizer,
    )


def _counts(texts: list[str], name: str, tokenizer: Tokenizer | None) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row, text in enumerate(texts):
        counts.update(
            _WORD.findall(text.casefold())
            if tokenizer is None
            else _given_terms(tokenizer(text), f"{name}[{row}]")
        )
    if not counts:
        raise UndefinedMetricError(f"weighted_log_odds is undefined: `{name}` contains no terms")
    return counts


def _given_terms(terms: Iterable[str], row: str) -> list[str]:
    if isinstance(terms, (str, bytes)) or not isinstance(terms, Iterable):
        raise InvalidTypeError(
            f"`tokenizer` returned {terms!r:.80} for {row}; it must return a list of terms"
        )
    listed = list(terms)
    for term in listed:
        if not isinstance(term, str):
            raise InvalidTypeError(
                f"`tokenizer` returned the term {term!r:.80} for {row}; terms must be strings"
            )
    return listed


def _monroe(a: FloatArray, b: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return the log-odds ratio of every term and its z-score."""
    prior = scale * (a + b)
    in_a, in_b = a + prior, b + prior
    difference = np.log(in_a / (in_a.sum() - in_a)) - np.log(in_b / (in_b.sum() - in_b))
    return difference, difference / np.sqrt(1.0 / in_a + 1.0 / in_b)


def _mutual_information(own: FloatArray, other: FloatArray) -> FloatArray:
    """Return the pointwise mutual information between terms and a corpus in bits; −∞ if absent."""
    both = own + other
    with np.errstate(divide="ignore"):
        bits: FloatArray = np.log2(own * (both.sum() / own.sum()) / both)
    return bits
