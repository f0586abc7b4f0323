"""Near-duplicate audit by source and label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.protocols import SimilarityStrategy
from eval_toolkit.text_dedup.dedup import DEFAULT_DEDUP_THRESHOLD, checked_strategy
from eval_toolkit.text_dedup.normalize import checked_texts
from eval_toolkit.text_dedup.pairs import checked_threshold, within


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityFinding(Displayed):
    """Pair of similar rows, with the relation of their sources and labels."""

    left_index: int
    right_index: int
    similarity: float
    relation: str
    """``within_source`` or ``cross_source``, and ``same_label`` or ``cross_label``, joined by an
    underscore; ``unspecified`` without sources and labels."""
    left_source: Any = None
    right_source: Any = None
    left_label: Any = None
    right_label: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; sources and labels are unchanged."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SimilarityAuditReport(Displayed):
    """Similar pairs of rows, most similar first."""

    findings: list[SimilarityFinding]
    threshold: float
    n_input: int
    strategy: str
    k_neighbors: int
    complete: bool = True
    """False if only some pairs of very large clusters are listed."""

    @property
    def n_findings(self) -> int:
        """Number of pairs."""
        return len(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "n_findings": self.n_findings,
            "threshold": self.threshold,
            "n_input": self.n_input,
            "strategy": self.strategy,
            "k_neighbors": self.k_neighbors,
            "complete": self.complete,
        }


def audit_source_label_similarity(
    texts: list[str],
    *,
    sources: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    threshold: float = DEFAULT_DEDUP_THRESHOLD,
    k_neighbors: int = 20,
    strategy: SimilarityStrategy | None = None,
    include_within_source: bool = True,
    include_cross_source: bool = True,
    include_same_label: bool = True,
    include_cross_label: bool = True,
) -> SimilarityAuditReport:
    """List near-duplicates, with the relation of their sources and labels.

    Parameters
    ----------
    texts : list of str
        One text per row.
    sources, labels : sequence, optional
        Source and label of each row.
    threshold : float, default 0.9
        As in `near_dedup`.
    k_neighbors : int, default 20
        As in `near_dedup`.
    strategy : SimilarityStrategy, optional
        Similarity strategy; by default `TfidfCosineStrategy`.
    include_within_source, include_cross_source : bool, default True
        Whether to list pairs with equal and with different sources; ignored without ``sources``.
    include_same_label, include_cross_label : bool, default True
        Whether to list pairs with equal and with different labels; ignored without ``labels``.

    Returns
    -------
    SimilarityAuditReport
        Findings by descending similarity.

    Raises
    ------
    InvalidTypeError
        If the texts are not a list of str, or the strategy is invalid.
    InvalidInputError
        If an option is out of range, or the number of sources or labels differs from the number of
        texts.

    Examples
    --------
    >>> report = audit_source_label_similarity(
    ...     ["win cash now", "hello there", "Win cash now"], sources=["a", "a", "b"], labels=[1, 0, 0]
    ... )
    >>> [(f.left_index, f.right_index, f.relation) for f in report.findings]
    [(0, 2, 'cross_source_cross_label')]
    """
    checked_texts(texts, "texts")
    strategy = checked_strategy(strategy)
    threshold = checked_threshold(threshold, strategy)
    k = validation.integer(k_neighbors, "k_neighbors", low=1)
    kinds = (
        (_per_row(sources, "sources", len(texts)), ("within_source", "cross_source")),
        (_per_row(labels, "labels", len(texts)), ("same_label", "cross_label")),
    )
    wanted = {
        "within_source": include_within_source,
        "cross_source": include_cross_source,
        "same_label": include_same_label,
        "cross_label": include_cross_label,
    }
    pairs = within(strategy, texts, threshold, k).expanded()
    findings = []
    for left, right, similarity in zip(*(column.tolist() for column in pairs), strict=True):
        parts = [names[values[left] != values[right]] for values, names in kinds if values]
        if not all(wanted[part] for part in parts):
            continue
        (left_source, right_source), (left_label, right_label) = (
            (values[left], values[right]) if values else (None, None) for values, _ in kinds
        )
        findings.append(
            SimilarityFinding(
                left_index=left,
                right_index=right,
                similarity=similarity,
                relation="_".join(parts) or "unspecified",
                left_source=left_source,
                right_source=right_source,
                left_label=left_label,
                right_label=right_label,
            )
        )
    return SimilarityAuditReport(
        findings=sorted(findings, key=lambda f: (-f.similarity, f.left_index, f.right_index)),
        threshold=threshold,
        n_input=len(texts),
        strategy=type(strategy).__name__,
        k_neighbors=k,
        complete=pairs.complete,
    )


def _per_row(values: Sequence[Any] | None, name: str, n: int) -> list[Any] | None:
    """Return one value per row as Python objects."""
    if values is None:
        return None
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(listed) != n:
        raise InvalidInputError(f"`{name}` has {len(listed)} rows but `texts` has {n}")
    return listed
