"""Exploratory data checks: splits, obfuscation, word associations, shortcuts and drift."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.leakage.eda.audit import AuditGate, DataAudit, audit_dataset
    from eval_toolkit.leakage.eda.competency import CompetencyBaselines, competency_baselines
    from eval_toolkit.leakage.eda.discrepancy import (
        MeanDiscrepancy,
        maximum_mean_discrepancy,
        median_bandwidth,
    )
    from eval_toolkit.leakage.eda.lexical import (
        LexicalAssociation,
        TermAssociation,
        class_lexical_association,
        weighted_log_odds,
    )
    from eval_toolkit.leakage.eda.obfuscation import (
        LeetspeakCounts,
        ObfuscationProfile,
        analyze_obfuscation,
        count_invisible_chars,
        has_high_entropy_alnum_run,
        has_rot13_marker,
        is_leeted_token,
        leetspeak_counts,
        nfkc_changed,
        nfkc_char_delta,
        shannon_entropy,
    )
    from eval_toolkit.leakage.eda.shift import (
        DistributionShift,
        NeighbourPurity,
        ProxyADistance,
        distribution_shift,
        knn_purity,
        proxy_a_distance,
    )
    from eval_toolkit.leakage.eda.summaries import (
        ClassBalance,
        LengthQuantiles,
        Quantiles,
        SplitSummary,
        class_balance,
        length_quantiles,
        summarize_split,
    )

__all__ = [
    "AuditGate",
    "ClassBalance",
    "CompetencyBaselines",
    "DataAudit",
    "DistributionShift",
    "LeetspeakCounts",
    "LengthQuantiles",
    "LexicalAssociation",
    "MeanDiscrepancy",
    "NeighbourPurity",
    "ObfuscationProfile",
    "ProxyADistance",
    "Quantiles",
    "SplitSummary",
    "TermAssociation",
    "analyze_obfuscation",
    "audit_dataset",
    "class_balance",
    "class_lexical_association",
    "competency_baselines",
    "count_invisible_chars",
    "distribution_shift",
    "has_high_entropy_alnum_run",
    "has_rot13_marker",
    "is_leeted_token",
    "knn_purity",
    "leetspeak_counts",
    "length_quantiles",
    "maximum_mean_discrepancy",
    "median_bandwidth",
    "nfkc_changed",
    "nfkc_char_delta",
    "proxy_a_distance",
    "shannon_entropy",
    "summarize_split",
    "weighted_log_odds",
]

__getattr__ = names_on_use(
    __name__,
    {
        "audit": "AuditGate DataAudit audit_dataset",
        "competency": "CompetencyBaselines competency_baselines",
        "discrepancy": "MeanDiscrepancy maximum_mean_discrepancy median_bandwidth",
        "lexical": "LexicalAssociation TermAssociation class_lexical_association weighted_log_odds",
        "obfuscation": (
            "LeetspeakCounts ObfuscationProfile analyze_obfuscation count_invisible_chars "
            "has_high_entropy_alnum_run has_rot13_marker is_leeted_token leetspeak_counts "
            "nfkc_changed nfkc_char_delta shannon_entropy"
        ),
        "shift": (
            "DistributionShift NeighbourPurity ProxyADistance distribution_shift knn_purity "
            "proxy_a_distance"
        ),
        "summaries": (
            "ClassBalance LengthQuantiles Quantiles SplitSummary class_balance "
            "length_quantiles summarize_split"
        ),
    },
)
