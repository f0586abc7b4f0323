"""Exploratory data checks: splits, obfuscation, word associations, shortcuts and drift."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.leakage.eda.audit import *
    from eval_toolkit.leakage.eda.competency import *
    from eval_toolkit.leakage.eda.discrepancy import *
    from eval_toolkit.leakage.eda.lexical import *
    from eval_toolkit.leakage.eda.obfuscation import *
    from eval_toolkit.leakage.eda.shift import *
    from eval_toolkit.leakage.eda.summaries import *

__all__, __getattr__ = names_on_use(
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
