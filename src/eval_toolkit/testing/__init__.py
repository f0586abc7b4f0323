"""Contract tests for plugin authors.

Each ``check_<kind>`` function checks an object against the rules that the package relies on and
raises `ContractError` at the first violation. `contract_checks` returns the same rules one by one,
for parametrised tests. `strategies` provides Hypothesis strategies that generate inputs for these
objects. pytest is not required, and Hypothesis is required only for the strategies.
"""

from eval_toolkit.testing.contracts import CONTRACTS, contract_checks
from eval_toolkit.testing.inputs import ODD_TEXTS, TEXTS
from eval_toolkit.testing.model_checks import (
    check_attack,
    check_grader,
    check_kind,
    check_model,
    check_task,
    check_text_scorer,
    check_text_transform,
)
from eval_toolkit.testing.row_checks import (
    check_leakage_check,
    check_loader,
    check_metric_spec,
    check_pool_builder,
    check_prediction_reader,
    check_scorer,
    check_selector,
    check_similarity,
    check_slice,
    check_splitter,
)
from eval_toolkit.testing.rules import ContractError, Suite

__all__ = [
    "CONTRACTS",
    "ODD_TEXTS",
    "TEXTS",
    "ContractError",
    "Suite",
    "check_attack",
    "check_grader",
    "check_kind",
    "check_leakage_check",
    "check_loader",
    "check_metric_spec",
    "check_model",
    "check_pool_builder",
    "check_prediction_reader",
    "check_scorer",
    "check_selector",
    "check_similarity",
    "check_slice",
    "check_splitter",
    "check_task",
    "check_text_scorer",
    "check_text_transform",
    "contract_checks",
]
