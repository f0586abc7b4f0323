"""Short form of `evaluate`, which takes one table and scorers or score columns."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal import frames
from eval_toolkit._internal.tables import LabelMap
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.harness.scorers import as_scorer, checked_scores
from eval_toolkit.harness.scoring import checked_names
from eval_toolkit.loaders.predictions import Predictions, Wanted, read_predictions
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.slices import EvalSlice

_TEXTS = ("text", "prompt", "input", "question", "message")
"""Common names of the text column that is passed to scorers."""


_PAIR = re.compile(r"pass label_map=\{'[^']*': 0, ('[^']*'): 1\} with 1 for positive")


@contextmanager
def naming_positive() -> Iterator[None]:
    """Rewrite errors that suggest a label map so that they suggest ``positive`` instead."""
    try:
        yield
    except InvalidInputError as error:
        message = _PAIR.sub(r"pass the positive label, such as positive=\1", str(error))
        if message == str(error):
            raise
        raise InvalidInputError(message) from error


@dataclass(frozen=True)
class _ScoreColumn:
    """Column of scores that is used instead of a scorer."""

    column: str

    def predict_proba(self, X: Any) -> FloatArray:
        raise NotImplementedError(
            f"the scores are read from the column {self.column!r}, not predicted"
        )


@dataclass(frozen=True)
class PlainRows:
    """Scorers, slice and precomputed scores for `evaluate`, derived from a table."""

    scorers: dict[str, Any]
    slices: list[EvalSlice]
    scores: dict[tuple[str, str], FloatArray]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, data: Any, scorers: Any, label: str | None = None, positive: Any = None
    ) -> "PlainRows":
        """Read a table and wrap the scorers that are not columns.

        A scorer is a column name, a function or an object with ``predict_proba``. ``label`` is the
        column of labels, and ``positive`` the label of the positive class.

        Examples
        --------
        >>> table = {"y": [0, 1], "p": [0.2, 0.9]}
        >>> plain = PlainRows.of(table, {"old": "p"})
        >>> plain.scores["all", "old"].tolist(), plain.notes
        ([0.2, 0.9], ("labels: column 'y'",))
        """
        named = checked_names(scorers)
        table = data
        columns = {}
        for name, scorer in named.items():
            columns[name] = scorer if isinstance(scorer, str) else f"score of {name}"
            if not isinstance(scorer, str):
                table = frames.with_column(table, columns[name], _scored(data, name, scorer))
        with naming_positive():
            found = read_predictions(
                table,
                Wanted(
                    label=label,
                    scores=tuple(dict.fromkeys(columns.values())),
                    labels=LabelMap.of(None if positive is None else str(positive), None),
                ),
            )
        made = {
            name: _ScoreColumn(scorer) if isinstance(scorer, str) else _usable(scorer)
            for name, scorer in named.items()
        }
        scores = {(WHOLE, name): found.scores[column] for name, column in columns.items()}
        return cls(made, [_slice(found)], scores, (f"labels: column {found.label!r}",))


def _slice(found: Predictions) -> EvalSlice:
    """Convert the rows to a slice whose inputs are the row ids."""
    ids = found.unit_ids()
    columns = {"label": found.y_true.astype(np.int64), "id": ids, "input": ids}
    return EvalSlice(WHOLE, columns, feature_col="input", id_col="id")


def _usable(scorer: Any) -> Any:
    return as_scorer(scorer) if hasattr(scorer, "get_params") else _Called.of(scorer)


@dataclass(frozen=True)
class _Called:
    """Scorer that calls a function of the inputs."""

    function: Any

    @classmethod
    def of(cls, scorer: Any) -> Any:
        return scorer if hasattr(scorer, "predict_proba") else cls(scorer)

    def predict_proba(self, X: Any) -> Any:
        return self.function(X)


def _scored(data: Any, name: str, scorer: Any) -> FloatArray:
    if isinstance(scorer, type) or not (
        callable(scorer) or callable(getattr(scorer, "predict_proba", None))
    ):
        raise InvalidTypeError(
            f"scorers[{name!r}] is {scorer!r:.60}; it must be the name of a column of scores, a "
            "function of the inputs, or an object with predict_proba"
        )
    inputs = _inputs(data, name, scorer)
    try:
        scores = _usable(scorer).predict_proba(inputs)
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        given = "a list of texts" if isinstance(inputs, list) else "a table of its features"
        raise InvalidTypeError(
            f"scorers[{name!r}] failed with {type(error).__name__}: {error}; it receives {given}; "
            "for a column of scores pass its name"
        ) from error
    return checked_scores(scores, frames.n_rows(data), name)


def _inputs(data: Any, name: str, scorer: Any) -> Any:
    """Return the feature columns that an estimator was fitted on, or the text column."""
    have = frames.names(data)
    fitted = getattr(scorer, "feature_names_in_", None)
    if fitted is not None:
        return frames.select(data, [str(column) for column in fitted])
    for column in _TEXTS:
        if column in have:
            return frames.column(data, column).tolist()
    raise MissingColumnError(
        f"scorers[{name!r}] needs inputs, but no column is named {', '.join(_TEXTS)}; pass the "
        f"column: evaluate({{{name!r}: scorer}}, [EvalSlice('all', data, feature_col=…)], run_id=…); "
        f"the columns are {', '.join(map(repr, have))}"
    )
