"""Claims about a run, and the gates that check them.

In Python, a `ClaimSpec` combines gates, and `evaluate_claims` returns a `ClaimReport`. For files,
`load_claims` reads ``claims.toml``, and `evaluate_gate` checks a run, optionally against a
baseline.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.claims.evaluation import *
    from eval_toolkit.claims.files import *
    from eval_toolkit.claims.gates import *
    from eval_toolkit.claims.reports import *
    from eval_toolkit.claims.run_gates import *
    from eval_toolkit.claims.tables import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "files": "Claim Requirement load_claims",
        "gates": (
            "cell_threshold_gate low_fpr_feasibility_gate metric_threshold_gate "
            "minimum_slice_size_gate paired_diff_present_gate required_metric_gate "
            "required_scorer_gate required_slice_gate"
        ),
        "evaluation": "claim_gate evaluate_gate",
        "reports": "ClaimReport ClaimResult ClaimSpec EvidenceGate GateResult evaluate_claims",
        "run_gates": (
            "external_diagnostic_gate headline_present_gate no_leakage_errors_gate "
            "no_scorer_errors_gate source_role_gate strict_artifact_gate"
        ),
        "tables": "claims_lead claims_table",
    },
)
