"""Near-duplicate checks, within splits and between training and evaluation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.leakage._parts import (
    SCOPES,
    BuiltInCheck,
    Copies,
    Scope,
    checked_severity,
    chosen_splits,
    in_order,
    most_severe,
    names_tuple,
    texts_of,
)
from eval_toolkit.leakage.findings import LeakageFinding, Severity
from eval_toolkit.protocols import SimilarityStrategy
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import (
    DEFAULT_DEDUP_THRESHOLD,
    MinHashLSHStrategy,
    TfidfCosineStrategy,
    near_dedup,
)
from eval_toolkit.text_dedup.pairs import across, checked_threshold

_Polarity: TypeAlias = Literal["same_label", "cross_label"]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Row to drop, and the row it resembles."""

    split: str
    row: int
    kept_split: str
    kept: int
    similarity: float
    polarity: _Polarity


class _SimilarityCheck(BuiltInCheck):
    """Base class of checks for similar texts."""

    __slots__ = ()
    threshold: float
    strategy: SimilarityStrategy | None
    severity: Severity
    label_aware: bool
    severity_same_label: Severity
    severity_cross_label: Severity

    def _check_settings(self) -> None:
        threshold = checked_threshold(self.threshold, self.strategy)
        object.__setattr__(self, "threshold", threshold)
        if self.strategy is not None and not isinstance(self.strategy, SimilarityStrategy):
            raise InvalidTypeError(
                f"`strategy` is a {type(self.strategy).__name__}; it needs the methods "
                "pairs_within and pairs_across"
            )
        for name in ("severity", "severity_same_label", "severity_cross_label"):
            checked_severity(getattr(self, name), name)

    def _chosen_strategy(self) -> SimilarityStrategy:
        """Return the similarity strategy; by default TF-IDF, regardless of the number of rows."""
        return TfidfCosineStrategy() if self.strategy is None else self.strategy

    def _found(
        self, pairs: Sequence[_Pair], severities: tuple[Severity, Severity]
    ) -> LeakageFinding:
        """Return a single finding for all pairs."""
        if self.label_aware and pairs:
            by_polarity = self._by_polarity()
            present = {by_polarity[pair.polarity] for pair in pairs}
            severities = (most_severe(present), most_severe(present))
        evidence = self._evidence(pairs)
        return _copies(pairs).finding(self, "pairs", "near-duplicate", severities, evidence)

    def _found_by_label(self, pairs: Sequence[_Pair]) -> tuple[LeakageFinding, LeakageFinding]:
        """Return disjoint findings for pairs with equal and with different labels."""
        return self._found_of(pairs, "same_label"), self._found_of(pairs, "cross_label")

    def _found_of(self, pairs: Sequence[_Pair], polarity: _Polarity) -> LeakageFinding:
        chosen = [pair for pair in pairs if pair.polarity == polarity]
        severity = self._by_polarity()[polarity]
        evidence = self._evidence(chosen) | {"label_polarity": polarity}
        found = _copies(chosen).finding(
            self, "pairs", "near-duplicate", (severity, severity), evidence
        )
        return replace(found, check_name=f"{self.name}.{polarity}")

    def _by_polarity(self) -> dict[_Polarity, Severity]:
        return {
            "same_label": self.severity_same_label,
            "cross_label": self.severity_cross_label,
        }

    def _evidence(self, pairs: Sequence[_Pair]) -> dict[str, Any]:
        strategy = self._chosen_strategy()
        clusters = Counter((pair.kept_split, pair.kept) for pair in pairs)
        similarity = [pair.similarity for pair in pairs]
        return {
            "threshold": self.threshold,
            "strategy": type(strategy).__name__,
            "strategy_reason": "default" if self.strategy is None else "given",
            "measure": _measure(strategy),
            "label_aware": self.label_aware,
            "n_same_label": _n_rows(pairs, "same_label"),
            "n_cross_label": _n_rows(pairs, "cross_label"),
            "n_clusters": len(clusters),
            "largest_cluster": max(clusters.values(), default=-1) + 1,
            "similarity_range": [min(similarity), max(similarity)] if similarity else [],
        }


def _measure(strategy: SimilarityStrategy) -> str:
    """Return a description of the similarity measure."""
    if isinstance(strategy, TfidfCosineStrategy):
        return "cosine similarity of TF-IDF weights"
    if isinstance(strategy, MinHashLSHStrategy):
        return f"Jaccard similarity of {strategy.n}-character n-grams"
    return type(strategy).__name__


def _n_rows(pairs: Sequence[_Pair], polarity: _Polarity) -> int:
    return len({(pair.split, pair.row) for pair in pairs if pair.polarity == polarity})


def _copies(pairs: Sequence[_Pair]) -> Copies:
    copies = Copies()
    for pair in pairs:
        if pair.split == pair.kept_split:
            copies.add_within(pair.split, pair.row, pair.kept)
        else:
            copies.add_across(pair.split, pair.row, pair.kept_split, pair.kept)
    return copies


def _within(check: _SimilarityCheck, parts: Mapping[str, EvalSlice]) -> list[_Pair]:
    """Return the rows of each split that resemble an earlier kept row."""
    strategy = check._chosen_strategy()
    pairs = []
    for split, part in parts.items():
        texts = texts_of(split, part, check.name)
        if len(texts) < 2:
            continue
        report = near_dedup(texts, check.threshold, strategy=strategy)
        labels = part.y_true
        pairs += [
            _Pair(
                split,
                row,
                split,
                kept,
                float(similarity),
                "same_label" if labels[row] == labels[kept] else "cross_label",
            )
            for row, kept, similarity in report.dropped_pairs
        ]
    return pairs


def _across(
    check: _SimilarityCheck,
    reference: Mapping[str, EvalSlice],
    split: str,
    part: EvalSlice,
) -> list[_Pair]:
    """Return the rows of a split that resemble a row of the reference splits.

    Each such row is paired with one reference row, preferring different labels, then higher
    similarity.
    """
    strategy = check._chosen_strategy()
    places = [(name, row) for name, other in reference.items() for row in range(other.n)]
    known = [
        text for name, other in reference.items() for text in texts_of(name, other, check.name)
    ]
    known_labels = [label for other in reference.values() for label in other.y_true.tolist()]
    texts = texts_of(split, part, check.name)
    if not (known and texts):
        return []
    # Compare distinct texts, so that a thousand copies on both sides are a single pair.
    kinds = 1 << np.array(known_labels, np.int64)  # one similar row per label suffices
    found = across(strategy, texts, known, check.threshold, k_neighbors=20, kinds=kinds)
    first_of_label: dict[int, dict[int, int]] = {}
    for at, (code, label) in enumerate(
        zip(found.reference.codes.tolist(), known_labels, strict=True)
    ):
        first_of_label.setdefault(code, {}).setdefault(label, at)
    best: dict[tuple[int, int], tuple[bool, float, int]] = {}
    for block in found.all_blocks():
        for query, other, similarity in zip(*(column.tolist() for column in block), strict=True):
            for other_label, at in first_of_label[other].items():
                for label in (0, 1):
                    rank = (label == other_label, -similarity, at)
                    best[query, label] = min(rank, best.get((query, label), rank))
    pairs = []
    for row, key in enumerate(zip(found.query.codes.tolist(), part.y_true.tolist(), strict=True)):
        if key in best:
            same, negative, at = best[key]
            polarity: _Polarity = "same_label" if same else "cross_label"
            pairs.append(_Pair(split, row, *places[at], -negative, polarity))
    return pairs


def _agreed(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Return the pairs; a row with differing labels in any pair is marked in all its pairs."""
    conflicting = {(pair.split, pair.row) for pair in pairs if pair.polarity == "cross_label"}
    return [
        replace(pair, polarity="cross_label") if (pair.split, pair.row) in conflicting else pair
        for pair in pairs
    ]


@dataclass(frozen=True, slots=True)
class NearDuplicateCheck(_SimilarityCheck):
    """LK002: texts similar to an earlier text in their split or in an earlier split.

    Parameters
    ----------
    threshold : float, default 0.9
        Minimum similarity of near-duplicates, as in `near_dedup`.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default TF-IDF cosine of words. The evidence records the strategy.
        ``MinHashLSHStrategy(n=5)`` with a threshold near 0.7 also finds texts from the same
        template.
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "warning"
        Severity of near-duplicates within a split.
    label_aware : bool, default False
        Whether labels determine the severity, within and across splits.
    severity_same_label, severity_cross_label : severity, default "warning" and "error"
        Severities of similar rows with equal and with different labels; used if ``label_aware``.
    scope : {"both", "within", "across"}, default "both"
        Whether to check within splits, across splits, or both.
    train_split : str, default "train"
        Split whose row is kept (the first split if it does not exist).
    severity_across : {"error", "warning", "info"}, default "error"
        Severity of near-duplicates across splits.

    Notes
    -----
    Within a split, texts similar to an earlier kept text are dropped. Across splits, a row is
    dropped if it is similar to any row of an earlier split. TF-IDF weights depend on all texts, so
    dropping rows changes other similarities slightly; `drop_until_clean` repeats the check until
    nothing is found.

    Examples
    --------
    >>> texts = ["win a free prize today call now", "win a free prize today call now!", "hello"]
    >>> part = EvalSlice("train", {"text": texts, "label": [1, 0, 0]})
    >>> finding = NearDuplicateCheck(label_aware=True).validate({"train": part})
    >>> finding.drop_indices, finding.severity
    ({'train': [1]}, 'error')
    """

    threshold: float = DEFAULT_DEDUP_THRESHOLD
    strategy: SimilarityStrategy | None = None
    target_splits: Sequence[str] | None = None
    severity: Severity = "warning"
    label_aware: bool = False
    severity_same_label: Severity = "warning"
    severity_cross_label: Severity = "error"
    scope: Scope = field(default="both", kw_only=True)
    train_split: str = field(default="train", kw_only=True)
    severity_across: Severity = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        self._check_settings()
        object.__setattr__(self, "target_splits", names_tuple(self.target_splits, "target_splits"))
        checked_severity(self.severity_across, "severity_across")
        validation.choice(self.scope, "scope", SCOPES)

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the near-duplicates; ``evidence["pairs"]`` lists the first pairs of each split."""
        return self._found(self._pairs(splits), (self.severity, self.severity_across))

    def validate_label_split(
        self, splits: Mapping[str, EvalSlice]
    ) -> tuple[LeakageFinding, LeakageFinding]:
        """Return two findings, for near-duplicates with equal and with different labels."""
        return self._found_by_label(self._pairs(splits))

    def _pairs(self, splits: Mapping[str, EvalSlice]) -> list[_Pair]:
        parts = in_order(chosen_splits(splits, self.target_splits, self.name), self.train_split)
        pairs = [] if self.scope == "across" else _within(self, parts)
        if self.scope != "within":
            names = list(parts)
            for place, split in enumerate(names[1:], start=1):
                earlier = {name: parts[name] for name in names[:place]}
                pairs += _across(self, earlier, split, parts[split])
        return _agreed(pairs)


@dataclass(frozen=True, slots=True)
class CrossSplitLeakageCheck(_SimilarityCheck):
    """LK006: evaluation rows similar to a training row.

    Parameters
    ----------
    train_split : str, default "train"
        Name of the training split.
    eval_splits : sequence of str, optional
        Evaluation splits; by default all but the training split.
    threshold : float, default 0.9
        Minimum similarity of near-duplicates, as in `near_dedup`.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default TF-IDF cosine of words. The evidence records the strategy.
        ``MinHashLSHStrategy(n=5)`` with a threshold near 0.7 also finds texts from the same
        template.
    severity : {"error", "warning", "info"}, default "error"
        Severity of the finding.
    label_aware : bool, default False
        Whether labels determine the severity.
    severity_same_label, severity_cross_label : severity, default "warning" and "error"
        Severities of similar rows with equal and with different labels; used if ``label_aware``.

    Examples
    --------
    >>> train = EvalSlice("train", {"text": ["win a free prize today call now"], "label": [1]})
    >>> texts = ["see you at noon", "win a free prize today call now!"]
    >>> test = EvalSlice("test", {"text": texts, "label": [0, 1]})
    >>> CrossSplitLeakageCheck().validate({"train": train, "test": test}).drop_indices
    {'test': [1]}
    """

    train_split: str = "train"
    eval_splits: Sequence[str] | None = None
    threshold: float = DEFAULT_DEDUP_THRESHOLD
    strategy: SimilarityStrategy | None = None
    severity: Severity = "error"
    label_aware: bool = False
    severity_same_label: Severity = "warning"
    severity_cross_label: Severity = "error"

    def __post_init__(self) -> None:
        self._check_settings()
        names = names_tuple(self.eval_splits, "eval_splits")
        object.__setattr__(self, "eval_splits", names)
        if names is not None and self.train_split in names:
            raise InvalidInputError(
                f"`eval_splits` names {self.train_split!r}, the training split; "
                "a split cannot be compared with itself"
            )

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the evaluation rows similar to a training row."""
        pairs, names = self._pairs(splits)
        finding = self._found(pairs, (self.severity, self.severity))
        return replace(finding, evidence=finding.evidence | names)

    def validate_label_split(
        self, splits: Mapping[str, EvalSlice]
    ) -> tuple[LeakageFinding, LeakageFinding]:
        """Return two findings, for matches with equal and with different labels."""
        pairs, names = self._pairs(splits)
        same, cross = self._found_by_label(pairs)
        return (
            replace(same, evidence=same.evidence | names),
            replace(cross, evidence=cross.evidence | names),
        )

    def _pairs(self, splits: Mapping[str, EvalSlice]) -> tuple[list[_Pair], dict[str, Any]]:
        train = chosen_splits(splits, (self.train_split,), self.name)
        others = chosen_splits(splits, self.eval_splits, self.name)
        others.pop(self.train_split, None)
        pairs: list[_Pair] = []
        for split, part in others.items():
            pairs += _across(self, train, split, part)
        names = {"train_split": self.train_split, "eval_splits": list(others)}
        return _agreed(pairs), names
