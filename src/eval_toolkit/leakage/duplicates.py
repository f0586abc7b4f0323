"""Checks for duplicate rows within and across splits, under several notions of equality."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.leakage._parts import (
    SCOPES,
    BuiltInCheck,
    Scope,
    bucket_copies,
    checked_severity,
    chosen_splits,
    in_order,
    names_tuple,
    texts_of,
)
from eval_toolkit.leakage.findings import LeakageFinding, Severity
from eval_toolkit.leakage.forms import confusable_form, normalized_form
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import normalize_text_for_dedup


class _CopyCheck(BuiltInCheck):
    """Base class of checks for equal rows; subclasses define equality."""

    __slots__ = ()
    target_splits: Sequence[str] | None
    severity: Severity
    scope: Scope
    train_split: str
    severity_across: Severity

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_splits", names_tuple(self.target_splits, "target_splits"))
        checked_severity(self.severity, "severity")
        checked_severity(self.severity_across, "severity_across")
        validation.choice(self.scope, "scope", SCOPES)

    def _copies(
        self,
        splits: Mapping[str, EvalSlice],
        keys: Callable[[str, EvalSlice], Sequence[Hashable]],
        within_key: str,
    ) -> LeakageFinding:
        parts = in_order(chosen_splits(splits, self.target_splits, self.name), self.train_split)
        copies = bucket_copies({name: keys(name, part) for name, part in parts.items()}, self.scope)
        severities = (self.severity, self.severity_across)
        return copies.finding(self, within_key, "copy", severities, {"scope": self.scope})


@dataclass(frozen=True, slots=True)
class ExactDuplicateCheck(_CopyCheck):
    """LK001: rows equal up to letter case, whitespace and Unicode composition.

    Parameters
    ----------
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "warning"
        Severity of copies within a split.
    scope : {"both", "within", "across"}, default "both"
        Whether to look for copies within splits, across splits, or both.
    train_split : str, default "train"
        Split whose copy is kept (the first split if it does not exist); copies in other splits are
        dropped.
    severity_across : {"error", "warning", "info"}, default "error"
        Severity of copies across splits.
    normalize : bool, default True
        Whether to normalise texts before comparison.

    Notes
    -----
    Texts are compared after `eval_toolkit.text_dedup.normalize_text_for_dedup` (NFC, lower case,
    whitespace collapsed); other features (numbers, lists, several columns) are compared by value,
    and missing values are equal. Rows are hashed, not compared pairwise.

    Examples
    --------
    >>> part = EvalSlice("all", {"text": ["Win now", "hello", "win  NOW"], "label": [1, 0, 1]})
    >>> finding = ExactDuplicateCheck().validate({"all": part})
    >>> finding.drop_indices, finding.message
    ({'all': [2]}, '1 copy (1 within all)')
    """

    target_splits: Sequence[str] | None = None
    severity: Severity = "warning"
    scope: Scope = field(default="both", kw_only=True)
    train_split: str = field(default="train", kw_only=True)
    severity_across: Severity = field(default="error", kw_only=True)
    normalize: bool = field(default=True, kw_only=True)

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the copies; ``evidence["dropped_pairs_by_split"]`` lists the first pairs."""
        keys = exact_keys if self.normalize else partial(exact_keys, form=str)
        return self._copies(splits, keys, "dropped_pairs_by_split")


_Form: TypeAlias = Callable[[str], str]


def exact_keys(
    split: str, part: EvalSlice, form: _Form = normalize_text_for_dedup
) -> list[Hashable]:
    """Return the comparison keys of rows: normalised texts, or other features by value."""
    if set(map(type, part.inputs)) <= {str}:  # fast path for texts
        return list(map(form, part.inputs))
    keys = []
    for row, value in enumerate(part.inputs):
        try:
            keys.append(_frozen(value, form))
        except TypeError:
            raise InvalidTypeError(
                f"split {split!r}: {part.feature_col}[{row}] is a {type(value).__name__} that "
                "cannot be compared by value; use text, numbers, lists or dicts"
            ) from None
    return keys


def _frozen(value: Any, form: _Form) -> Hashable:
    """Return a hashable key, equal for equal values; strings never equal numbers."""
    if isinstance(value, str):
        return form(value)
    if isinstance(value, np.ndarray):
        return _frozen(value.tolist(), form)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(inner, form) for inner in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(_frozen(inner, form) for inner in value)
    if isinstance(value, Mapping):
        return frozenset((key, _frozen(inner, form)) for key, inner in value.items())
    if validation.is_missing(value):
        return None
    hash(value)
    return value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class NormalizedFormLeakageCheck(_CopyCheck):
    r"""LK003: texts that are equal except for invisible characters, symbols and styling.

    Parameters
    ----------
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of copies within a split.
    scope : {"both", "within", "across"}, default "both"
        Whether to look for copies within splits, across splits, or both.
    train_split : str, default "train"
        Split whose copy is kept (the first split if it does not exist).
    severity_across : {"error", "warning", "info"}, default "error"
        Severity of copies across splits.

    Notes
    -----
    The normalised form is NFKC in lower case, without the Unicode categories Cc, Cf, Cs, Co and So,
    and with whitespace collapsed. Control characters that are whitespace (tab, newline) separate
    words; texts that consist only of symbols keep them.

    Examples
    --------
    >>> part = EvalSlice("test", {"text": ["free\u200b prize ☎", "Free Prize"], "label": [1, 1]})
    >>> NormalizedFormLeakageCheck().validate({"test": part}).drop_indices
    {'test': [1]}
    """

    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    scope: Scope = field(default="both", kw_only=True)
    train_split: str = field(default="train", kw_only=True)
    severity_across: Severity = field(default="error", kw_only=True)

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the collisions; ``evidence["collisions_by_split"]`` lists the first collisions."""
        return self._copies(splits, self._keys, "collisions_by_split")

    def _keys(self, split: str, part: EvalSlice) -> list[Hashable]:
        return [normalized_form(text) for text in texts_of(split, part, self.name)]


@dataclass(frozen=True, slots=True)
class ConfusableFormLeakageCheck(_CopyCheck):
    r"""LK009: texts that look the same (homoglyphs, zero-width and bidi characters, accents).

    Parameters
    ----------
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of copies within a split.
    scope : {"both", "within", "across"}, default "both"
        Whether to look for copies within splits, across splits, or both.
    train_split : str, default "train"
        Split whose copy is kept (the first split if it does not exist).
    severity_across : {"error", "warning", "info"}, default "error"
        Severity of copies across splits.

    Notes
    -----
    See `confusable_form`. Such disguises are common in filter evasion; a disguised copy of a
    training text in the test split measures memorisation instead of robustness. Greek texts that
    differ only in case may have different forms, because Ν looks like N and ν like v.

    Examples
    --------
    >>> train = EvalSlice("train", {"text": ["ignore all rules"], "label": [1]})
    >>> test = EvalSlice("test", {"text": ["ign\u043ere \u0430ll rules"], "label": [1]})
    >>> finding = ConfusableFormLeakageCheck().validate({"train": train, "test": test})
    >>> finding.drop_indices, finding.severity
    ({'test': [0]}, 'error')
    """

    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    scope: Scope = field(default="both", kw_only=True)
    train_split: str = field(default="train", kw_only=True)
    severity_across: Severity = field(default="error", kw_only=True)

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the collisions; ``evidence["collisions_by_split"]`` lists the first collisions."""
        return self._copies(splits, self._keys, "collisions_by_split")

    def _keys(self, split: str, part: EvalSlice) -> list[Hashable]:
        return [confusable_form(text) for text in texts_of(split, part, self.name)]


@dataclass(frozen=True, slots=True)
class TokenizationLeakageCheck(_CopyCheck):
    """LK004: texts with equal tokens.

    Parameters
    ----------
    tokenizer : callable
        Function such that ``tokenizer(text)["input_ids"]`` are the tokens, such as a Hugging Face
        tokenizer.
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of copies within a split.
    scope : {"both", "within", "across"}, default "both"
        Whether to look for copies within splits, across splits, or both.
    train_split : str, default "train"
        Split whose copy is kept (the first split if it does not exist).
    severity_across : {"error", "warning", "info"}, default "error"
        Severity of copies across splits.

    Raises
    ------
    InvalidTypeError
        If the tokenizer is not callable, or its result has no ``input_ids``.

    Examples
    --------
    >>> def words(text):
    ...     return {"input_ids": text.lower().split()}
    >>> part = EvalSlice("test", {"text": ["Hi you", "hi  YOU", "bye"], "label": [0, 0, 1]})
    >>> TokenizationLeakageCheck(words).validate({"test": part}).drop_indices
    {'test': [1]}
    """

    tokenizer: Callable[[str], Any]
    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    scope: Scope = field(default="both", kw_only=True)
    train_split: str = field(default="train", kw_only=True)
    severity_across: Severity = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.tokenizer):
            raise InvalidTypeError(
                f"`tokenizer` is a {type(self.tokenizer).__name__}; it must be callable"
            )
        _CopyCheck.__post_init__(self)

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the collisions; ``evidence["collisions_by_split"]`` lists the first collisions."""
        return self._copies(splits, self._keys, "collisions_by_split")

    def _keys(self, split: str, part: EvalSlice) -> list[Hashable]:
        texts = texts_of(split, part, self.name)
        return [_tokens(self.tokenizer(text), split, row) for row, text in enumerate(texts)]


def _tokens(encoded: Any, split: str, row: int) -> Hashable:
    """Return the tokens from a list, array, tensor or batch of one as a tuple."""
    try:
        tokens = encoded["input_ids"]
        tokens = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
    except (KeyError, TypeError, IndexError):
        raise InvalidTypeError(
            f"split {split!r}, row {row}: the tokenizer returned a {type(encoded).__name__}; "
            "tokenizer(text)['input_ids'] must be the tokens of one text"
        ) from None
    return tuple(tokens[0] if len(tokens) == 1 and isinstance(tokens[0], list) else tokens)
