"""Registry of the contracts by kind of object."""

from collections.abc import Callable, Mapping
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.testing.conversation_contracts import ATTACK, TEXT_SCORER, TEXT_TRANSFORM
from eval_toolkit.testing.datasets import (
    LEAKAGE_CHECK,
    LOADER,
    POOL_BUILDER,
    PREDICTION_READER,
    SPLITTER,
)
from eval_toolkit.testing.kinds import KIND
from eval_toolkit.testing.models import MODEL
from eval_toolkit.testing.row_contracts import METRIC_SPEC, SCORER, SELECTOR, SLICE
from eval_toolkit.testing.rules import Suite, without_defaults
from eval_toolkit.testing.similarity import SIMILARITY
from eval_toolkit.testing.task_contracts import GRADER, TASK

__all__ = ["CONTRACTS", "contract_checks"]

CONTRACTS: Mapping[str, Suite] = {
    suite.kind: suite
    for suite in (
        ATTACK,
        GRADER,
        KIND,
        LEAKAGE_CHECK,
        LOADER,
        METRIC_SPEC,
        MODEL,
        POOL_BUILDER,
        PREDICTION_READER,
        SCORER,
        SELECTOR,
        SIMILARITY,
        SLICE,
        SPLITTER,
        TASK,
        TEXT_SCORER,
        TEXT_TRANSFORM,
    )
}
"""Contracts by kind of object."""


def contract_checks(kind: str, **given: Any) -> list[tuple[str, Callable[[Any], None]]]:
    """Return the rules of a contract as (name, function) pairs, for parametrised tests.

    Parameters
    ----------
    kind : str
        Key of `CONTRACTS` ("scorer", "grader", "loader" …) or of `PLUGIN_KINDS` ("checks" …).
    **given
        Inputs for the rules, as for ``check_<kind>``.

    Returns
    -------
    list of (str, callable)
        Each function takes the object and raises `ContractError` if it violates the rule.

    Raises
    ------
    InvalidInputError
        If the kind is unknown, or its contract does not accept one of the inputs.

    Examples
    --------
    >>> names = [name for name, _ in contract_checks("scorer", examples=["a", "b"])]
    >>> names[:2]
    ['has_every_member', 'version_if_any']
    """
    name = "leakage_check" if kind == "checks" else kind.removesuffix("s")
    suite = CONTRACTS.get(kind) or CONTRACTS.get(name)
    if suite is None:
        raise InvalidInputError(
            f"`kind` is {kind!r}; it must be one of {', '.join(sorted(CONTRACTS))}"
        )
    return suite.checks(**without_defaults(given))
