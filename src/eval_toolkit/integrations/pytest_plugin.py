"""Pytest plugin with the assertions of `integrations.assertions` as fixtures."""

from collections.abc import Callable

import pytest

from eval_toolkit.integrations.assertions import (
    assert_metric,
    assert_no_leakage,
    assert_not_worse,
)

__all__ = ["assert_metric", "assert_no_leakage", "assert_not_worse"]


@pytest.fixture(name="assert_metric", scope="session")
def _assert_metric() -> Callable[..., None]:
    """Fail unless a metric's interval meets a limit: assert_metric(run, "pr_auc", at_least=0.8)."""
    return assert_metric


@pytest.fixture(name="assert_not_worse", scope="session")
def _assert_not_worse() -> Callable[..., None]:
    """Fail unless a run is non-inferior to a baseline by max_drop, compared unit by unit."""
    return assert_not_worse


@pytest.fixture(name="assert_no_leakage", scope="session")
def _assert_no_leakage() -> Callable[..., None]:
    """Fail if leakage was found, or if no check was run."""
    return assert_no_leakage
