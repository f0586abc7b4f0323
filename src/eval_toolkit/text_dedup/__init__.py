"""Near-duplicate detection with five similarity strategies and verified pairs."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.protocols import SimilarityStrategy as SimilarityStrategy
    from eval_toolkit.text_dedup.audit import *
    from eval_toolkit.text_dedup.dedup import *
    from eval_toolkit.text_dedup.minhash import *
    from eval_toolkit.text_dedup.normalize import *
    from eval_toolkit.text_dedup.pairs import *
    from eval_toolkit.text_dedup.strategies import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "audit": "SimilarityAuditReport SimilarityFinding audit_source_label_similarity",
        "dedup": (
            "DEFAULT_DEDUP_THRESHOLD DedupReport cross_dedup cross_dedup_pairs "
            "duplicate_clusters near_dedup"
        ),
        "eval_toolkit.protocols": "SimilarityStrategy",
        "minhash": "MinHashLSHStrategy",
        "normalize": "exact_duplicate_groups normalize_text_for_dedup sha256_text",
        "pairs": "SimilarPairs",
        "strategies": (
            "EmbeddingCosineStrategy ExactNormalizedHashStrategy JaccardNgramStrategy "
            "TfidfCosineStrategy"
        ),
    },
)
