"""Summaries of a split: rows, classes, lengths and missing values."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import ProportionInterval, wilson_interval
from eval_toolkit.leakage.eda._texts import present
from eval_toolkit.leakage.eda.obfuscation import ObfuscationProfile, analyze_obfuscation
from eval_toolkit.slices import EvalSlice


@dataclass(frozen=True, slots=True)
class ClassBalance(Displayed):
    """Number of rows of each class.

    Examples
    --------
    >>> balance = class_balance([0, 0, 0, 1])
    >>> balance.neg_pos_ratio, balance.positive.proportion
    (3.0, 0.25)
    """

    n: int
    n_negative: int
    n_positive: int
    positive: ProportionInterval
    """Fraction of positive rows, with the Wilson interval for independent rows."""
    neg_pos_ratio: float | None
    """Negative rows per positive row; None without positive rows."""
    reason: str = ""
    """Reason if there are not two classes; otherwise empty."""

    @property
    def single_class(self) -> bool:
        """Whether at most one class occurs."""
        return not (self.n_negative and self.n_positive)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload: dict[str, Any] = {
            "n": self.n,
            "n_negative": self.n_negative,
            "n_positive": self.n_positive,
            "positive": self.positive.to_dict(),
            "neg_pos_ratio": self.neg_pos_ratio,
        }
        return payload | ({"reason": self.reason} if self.reason else {})


def class_balance(labels: ArrayLike, *, confidence: float = 0.95) -> ClassBalance:
    """Return the number of rows of each class.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Labels, 0 or 1.
    confidence : float, default 0.95
        Confidence level of the interval for the fraction of positives.

    Returns
    -------
    ClassBalance
        Counts and proportions, with a ``reason`` unless both classes occur.

    Raises
    ------
    InvalidInputError
        If a label is neither 0 nor 1.

    Examples
    --------
    >>> balance = class_balance([1, 1])
    >>> balance.neg_pos_ratio, balance.single_class, balance.reason
    (0.0, True, 'all 2 rows are positive')
    """
    given = np.asarray(labels)
    n = n_positive = 0
    if given.ndim != 1 or given.size:
        known = validation.binary_labels(labels, "labels")
        n, n_positive = len(known), int(known.sum())
    n_negative = n - n_positive
    reason = ""
    if not n:
        reason = "there are no rows"
    elif not (n_negative and n_positive):
        rows = "the only row is" if n == 1 else f"all {n} rows are"
        reason = f"{rows} {'positive' if n_positive else 'negative'}"
    return ClassBalance(
        n=n,
        n_negative=n_negative,
        n_positive=n_positive,
        positive=wilson_interval(n_positive, n, confidence=confidence),
        neg_pos_ratio=n_negative / n_positive if n_positive else None,
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Median, 95th percentile and maximum of lengths.

    Examples
    --------
    >>> Quantiles(3.0, 9.5, 12).to_dict()
    {'p50': 3.0, 'p95': 9.5, 'max': 12}
    """

    p50: float
    p95: float
    max: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {"p50": self.p50, "p95": self.p95, "max": self.max}


@dataclass(frozen=True, slots=True)
class LengthQuantiles(Displayed):
    """Lengths of texts in characters, words and, with a tokenizer, tokens.

    Examples
    --------
    >>> length_quantiles([]).to_dict()["reason"]
    'there are no texts'
    """

    n: int
    """Number of texts measured."""
    n_missing: int
    """Number of rows without text."""
    char: Quantiles | None
    word: Quantiles | None
    token: Quantiles | None
    """Token quantiles; None without a tokenizer."""
    reason: str = ""
    """Reason if there are no lengths; otherwise empty."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; "token" is included only if tokens were counted."""
        payload: dict[str, Any] = {"n": self.n, "n_missing": self.n_missing}
        for unit in ("char", "word", "token"):
            found = getattr(self, unit)
            if found is not None:
                payload[unit] = found.to_dict()
        return payload | ({"reason": self.reason} if self.reason else {})


def length_quantiles(
    texts: Iterable[str | None], *, tokenizer: Callable[[str], Any] | None = None
) -> LengthQuantiles:
    """Return quantiles of text lengths in characters, words and tokens.

    Parameters
    ----------
    texts : iterable of str
        Texts; None (or NaN) if missing.
    tokenizer : callable, optional
        ``tokenizer(text)`` returns the tokens of a text, or a mapping with ``input_ids``, as
        Hugging Face tokenizers do.

    Returns
    -------
    LengthQuantiles
        p50, p95 (with linear interpolation, numpy's default) and max of the numbers of
        characters, whitespace-separated words and tokens.

    Raises
    ------
    InvalidTypeError
        If a row is neither text nor missing, or the tokenizer does not return tokens.
    InvalidInputError
        If the tokenizer fails; the message names the row.

    Examples
    --------
    >>> lengths = length_quantiles(["one", "two words", "and three words"], tokenizer=list)
    >>> lengths.char.p50, lengths.word, lengths.token.max
    (9.0, Quantiles(p50=2.0, p95=2.9, max=3), 15)
    """
    rows, known, n_missing = present(texts)
    tokens = None if tokenizer is None else _token_counts(known, rows, tokenizer, "texts")
    return _lengths(known, n_missing, tokens)


def _lengths(texts: list[str], n_missing: int, tokens: IntArray | None) -> LengthQuantiles:
    if not texts:
        why = "every text is missing" if n_missing else "there are no texts"
        return LengthQuantiles(0, n_missing, None, None, None, why)
    words = np.fromiter((len(text.split()) for text in texts), np.int64, len(texts))
    return LengthQuantiles(
        n=len(texts),
        n_missing=n_missing,
        char=_quantiles(np.fromiter(map(len, texts), np.int64, len(texts))),
        word=_quantiles(words),
        token=None if tokens is None else _quantiles(tokens),
    )


def _quantiles(lengths: IntArray) -> Quantiles:
    p50, p95 = np.quantile(lengths, [0.5, 0.95]).tolist()
    return Quantiles(p50, p95, int(lengths.max()))


def _token_counts(
    texts: list[str], rows: list[int], tokenizer: Callable[[str], Any], name: str
) -> IntArray:
    if not callable(tokenizer):
        raise InvalidTypeError(f"`tokenizer` is a {type(tokenizer).__name__}; it must be callable")
    counts = np.empty(len(texts), np.int64)
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        try:
            encoded = tokenizer(text)
        except Exception as error:
            raise InvalidInputError(
                f"the tokenizer failed on {name}[{row}]: {type(error).__name__}: {error!s:.200}"
            ) from error
        counts[place] = _n_tokens(encoded, f"{name}[{row}]")
    return counts


def _n_tokens(encoded: Any, where: str) -> int:
    """Return the number of tokens of a text, from the tokenizer's list or its ``input_ids``."""
    tokens: Any = encoded.get("input_ids") if isinstance(encoded, Mapping) else encoded
    if hasattr(tokens, "tolist"):  # arrays and tensors
        tokens = tokens.tolist()
    if isinstance(tokens, (list, tuple)):
        batch_of_one = len(tokens) == 1 and isinstance(tokens[0], (list, tuple))
        return len(tokens[0] if batch_of_one else tokens)
    raise InvalidTypeError(
        f"the tokenizer returned a {type(encoded).__name__} for {where}; it must return a list of "
        "tokens, or a mapping with 'input_ids'"
    )


@dataclass(frozen=True, slots=True)
class SplitSummary(Displayed):
    """Summary of a split: rows, classes, lengths, obfuscation and overlong texts.

    Examples
    --------
    >>> part = EvalSlice("test", {"text": ["hello", "", None], "label": [0, 1, 1]})
    >>> summary = summarize_split(part)
    >>> summary.n, summary.n_missing, summary.n_empty, summary.balance.n_positive
    (3, 1, 1, 2)
    """

    name: str
    n: int
    """Number of rows."""
    n_missing: int
    """Number of rows without text."""
    n_empty: int
    """Number of texts that contain only whitespace."""
    balance: ClassBalance
    lengths: LengthQuantiles
    over_context: ProportionInterval | None
    """Fraction of texts with more tokens than the context window; None without tokenizer and
    window."""
    obfuscation: ObfuscationProfile | None
    """Obfuscation profile; None if not requested."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        over, profile = self.over_context, self.obfuscation
        return {
            "name": self.name,
            "n": self.n,
            "n_missing": self.n_missing,
            "n_empty": self.n_empty,
            "class_balance": self.balance.to_dict(),
            "lengths": self.lengths.to_dict(),
            "over_context": None if over is None else over.to_dict(),
            "obfuscation": None if profile is None else profile.to_dict(),
        }


def summarize_split(
    part: EvalSlice,
    *,
    tokenizer: Callable[[str], Any] | None = None,
    context_window: int | None = None,
    obfuscation: bool = True,
) -> SplitSummary:
    """Summarise one split of texts.

    Parameters
    ----------
    part : EvalSlice
        Slice with a text column; missing texts are counted.
    tokenizer : callable, optional
        See `length_quantiles`; called once per text.
    context_window : int, optional
        Maximum number of tokens; with a tokenizer, the number of longer texts is reported.
    obfuscation : bool, default True
        Whether to run the detectors of `analyze_obfuscation`.

    Returns
    -------
    SplitSummary
        Counts, and fractions with Wilson intervals.

    Raises
    ------
    InvalidTypeError
        If ``part`` is not a slice or has several feature columns, or a row is neither text nor
        missing.
    InvalidInputError
        If the tokenizer fails, or the window is below 1.

    Examples
    --------
    >>> part = EvalSlice("test", {"text": ["a b c", "a b c d e"], "label": [0, 1]})
    >>> summary = summarize_split(part, tokenizer=str.split, context_window=4)
    >>> summary.over_context.successes, summary.lengths.token.max
    (1, 5)
    """
    if not isinstance(part, EvalSlice):
        raise InvalidTypeError(f"`part` is a {type(part).__name__}; it must be an EvalSlice")
    if not isinstance(part.feature_col, str):
        raise InvalidTypeError(
            f"split {part.name!r} has several feature columns; summarize_split needs one column of texts"
        )
    window = None
    if context_window is not None:
        window = validation.integer(context_window, "context_window", low=1)
    named = f"split {part.name!r}: {part.feature_col}"
    rows, texts, n_missing = present(part.inputs, named)
    tokens = None if tokenizer is None else _token_counts(texts, rows, tokenizer, named)
    over = None
    if tokens is not None and window is not None:
        over = wilson_interval(int((tokens > window).sum()), len(tokens))
    return SplitSummary(
        name=part.name,
        n=part.n,
        n_missing=n_missing,
        n_empty=sum(not text or text.isspace() for text in texts),
        balance=class_balance(part.y_true),
        lengths=_lengths(texts, n_missing, tokens),
        over_context=over,
        obfuscation=analyze_obfuscation(part.inputs) if obfuscation else None,
    )
