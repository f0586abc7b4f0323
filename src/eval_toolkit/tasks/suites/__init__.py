"""Suites: groups of tasks that share settings and run together, with aggregates over tasks."""

from eval_toolkit.tasks.suites.declared import Aggregate, Leaf, Suite, load_suite
from eval_toolkit.tasks.suites.running import SuiteRun, SuiteValue, run_suite

__all__ = ["Aggregate", "Leaf", "Suite", "SuiteRun", "SuiteValue", "load_suite", "run_suite"]
