"""The contract suites can fail: for every rule, an object that breaks it and nothing else."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings

from eval_toolkit import _optional, _tables, protocols
from eval_toolkit.artifacts import CsvPredictionReader
from eval_toolkit.errors import InvalidInputError, MissingExtraError, UndefinedMetricError
from eval_toolkit.graders import ColumnInfo, ExactMatch, Grade
from eval_toolkit.leakage import ExactDuplicateCheck, LeakageFinding
from eval_toolkit.metrics import ThresholdResult, metrics_at_threshold
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.responses import ErrorInfo, RawCompletion, RawLoglikelihood, ResponseType
from eval_toolkit.slices import EvalSlice
from eval_toolkit.tasks import BaseTask
from eval_toolkit.testing import (
    CONTRACTS,
    TEXTS,
    ContractError,
    check_scorer,
    contract_checks,
    strategies,
)
from eval_toolkit.testing.material import ODD_TEXTS, parent_slice
from eval_toolkit.text_dedup import JaccardNgramStrategy

Mutants = dict[str, Any]


def broken_rules(kind: str, it: Any, **tried_on: Any) -> list[str]:
    found = []
    for name, check in contract_checks(kind, **tried_on):
        try:
            check(it)
        except ContractError as error:
            assert error.rule == name
            found.append(name)
    return found


def with_(base: type, **members: Any) -> Any:
    """Return an object like the base's, with members of its own."""
    return type(base.__name__, (base,), members)()


def calls() -> Any:
    return itertools.count()


# --- scorers ------------------------------------------------------------------------------------


class Length:
    version = "1"

    def predict_proba(self, X: Any) -> Any:
        return [min(len(text), 80) / 80 for text in X]


class Memory(Length):
    """Learns the share of positives."""

    def __init__(self) -> None:
        self.labels: list[int] = []

    def fit(self, X: Any, y: Any) -> None:
        self.labels = list(y)

    def predict_proba(self, X: Any) -> Any:
        return np.full(len(X), np.mean(self.labels) if self.labels else 0.5)


class Grudge(Memory):
    def fit(self, X: Any, y: Any) -> None:
        self.labels += list(y)


def _forgetful_scorer() -> Any:
    count = calls()
    return with_(Length, predict_proba=lambda self, X: [next(count) % 7 / 7] * len(X))


def _clears(self: Any, X: Any) -> Any:
    scores = Length.predict_proba(self, X)
    X.clear()
    return scores


SCORERS: Mutants = {
    "has_a_version": with_(Length, version=None),
    "probabilities": with_(Length, predict_proba=lambda self, X: [2.0 + 0 * len(x) for x in X]),
    "order_does_not_matter": with_(
        Length, predict_proba=lambda self, X: [at / len(X) / 9 if at else 0.0 for at, x in enumerate(X)]
    ),
    "company_does_not_matter": with_(
        Length, predict_proba=lambda self, X: [len(x) / sum(map(len, X) or 1) for x in X]
    ),
    "inputs_stay_as_they_are": with_(Length, predict_proba=_clears),
    "odd_texts_are_scored": with_(Length, predict_proba=lambda self, X: [1 / (len(x)) for x in X]),
    "declines_by_name": with_(Length, should_score_slice=lambda self, name: "yes"),
    "fits_afresh": Grudge(),
}
