"""Batched and cached calls to scorers, with validation of their output."""

import re
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.artifacts import error_metric
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.harness.cache import ScoreCache, as_cache, cache_identity, cache_key
from eval_toolkit.harness.progress import Ticker
from eval_toolkit.harness.rows import Rows
from eval_toolkit.harness.scorers import as_scorer, checked_scores

_FOLDERS = re.compile(r'^([ |]*File ")[^"\n]*[/\\]', re.MULTILINE)
"""Pattern of file paths in tracebacks, which are shortened so that no user paths are stored."""
SKIPPED_BY_SCORER = "the scorer declined this slice (should_score_slice returned False)"


@dataclass(frozen=True)
class Scored:
    """Scores of a slice, or the reason why they are missing."""

    scores: FloatArray | None
    block: dict[str, Any] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """Reason why scores are missing; empty if scores are available."""
        return str(self.block.get("skipped") or self.block.get("error") or "")

    @property
    def is_failure(self) -> bool:
        """Whether the scorer was called and failed."""
        return "error" in self.block


@dataclass(frozen=True)
class Scoring:
    """Settings of scorer calls."""

    batch_size: int | None = None
    cache: ScoreCache | MutableMapping[str, float] | None = None
    on_scorer_error: str = "raise"
    fitted_on: Mapping[str, str] = field(default_factory=dict)
    """Hash of the training rows, for scorers fitted on this fold."""

    @classmethod
    def of(cls, batch_size: Any, cache: Any, on_scorer_error: str) -> "Scoring":
        """Validate the options and return them as settings."""
        return cls(
            None if batch_size is None else validation.integer(batch_size, "batch_size", low=1),
            as_cache(cache),
            validation.choice(on_scorer_error, "on_scorer_error", ("raise", "record")),
        )


def checked_names(scorers: Any) -> Mapping[str, Any]:
    """Validate the mapping from names to scorers, but not the scorers themselves."""
    if not isinstance(scorers, Mapping):
        raise InvalidTypeError(
            f"`scorers` is a {type(scorers).__name__}; it must map names to scorers: "
            '{"my_scorer": scorer}'
        )
    if not scorers:
        raise InvalidInputError("`scorers` is empty; at least one scorer is needed")
    for name in scorers:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(
                f"`scorers` has the name {name!r}; names must be non-empty strings"
            )
    return scorers


def named_scorers(scorers: Any) -> dict[str, Any]:
    """Return scorers by name; scikit-learn estimators are wrapped."""
    return {name: usable_scorer(scorer, name) for name, scorer in checked_names(scorers).items()}


def usable_scorer(scorer: Any, name: str) -> Any:
    """Return a scorer for an object with ``predict_proba``; raise an error for anything else."""
    if isinstance(scorer, type):
        raise InvalidTypeError(
            f"scorers[{name!r}] is the class {scorer.__name__}; pass an instance "
            "(evaluate_folded also takes a class, and fits a new instance on each fold)"
        )
    if not callable(getattr(scorer, "predict_proba", None)):
        raise InvalidTypeError(
            f"scorers[{name!r}] is a {type(scorer).__name__} without predict_proba"
        )
    if hasattr(scorer, "get_params") and not hasattr(scorer, "should_score_slice"):
        return as_scorer(scorer)  # its `classes_` decide which column is the positive one
    return scorer


def score_rows(
    scorer: Any,
    name: str,
    rows: Rows,
    how: Scoring,
    ticker: Ticker,
    precomputed: ArrayLike | None = None,
) -> Scored:
    """Score rows and validate the scores; under "record", failures are returned as results.

    ``MemoryError`` and ``AssertionError`` always propagate: the first is not specific to the
    scorer, and the second lets a scorer abort the evaluation deliberately.
    """
    done = ticker.done
    try:
        if precomputed is not None:
            return Scored(checked_scores(precomputed, rows.n, name))
        if not _wants(scorer, name, rows.name):
            return _unscored(rows, skipped=SKIPPED_BY_SCORER)
        if rows.n == 0:
            return Scored(np.zeros(0))
        return Scored(_scores(scorer, name, rows, how, ticker))
    except (MemoryError, AssertionError, _HookError):
        raise
    except Exception as error:
        if how.on_scorer_error == "raise" or precomputed is not None:
            error.add_note(f"while scoring slice {rows.name!r} with scorer {name!r}")
            raise
        return _failed(rows, error)
    finally:
        ticker.advance(rows.n - (ticker.done - done), f"{rows.name} / {name}")


def _unscored(rows: Rows, **why: str) -> Scored:
    """Return a result without scores, with the reason under ``skipped`` or ``error``."""
    return Scored(None, {**why, **rows.counts, "scores": []})


def _failed(rows: Rows, error: Exception) -> Scored:
    """Return the result of a scorer that failed on a slice."""
    message = f"{type(error).__name__}: {error}"
    block = {
        "error": message,
        "error_state": error_metric(message),
        "exc_type": type(error).__name__,
        "traceback": _FOLDERS.sub(r"\1", "".join(traceback.format_exception(error))),
        **rows.counts,
        "scores": [],
    }
    return Scored(None, block)


class _HookError(InvalidTypeError):
    """Raised if a scorer hook returns an invalid value; never recorded as a scorer failure."""


def _wants(scorer: Any, name: str, slice_name: str) -> bool:
    hook = getattr(scorer, "should_score_slice", None)
    if hook is None:
        return True
    answer = hook(slice_name)
    if not isinstance(answer, (bool, np.bool_)):
        raise _HookError(
            f"scorer {name!r}: should_score_slice({slice_name!r}) returned {answer!r}; "
            "it must return True or False"
        )
    return bool(answer)


def _scores(scorer: Any, name: str, rows: Rows, how: Scoring, ticker: Ticker) -> FloatArray:
    if how.cache is None:
        if how.batch_size is None or how.batch_size >= rows.n:
            return checked_scores(scorer.predict_proba(rows.features), rows.n, name)
        parts = _batches(np.arange(rows.n), how.batch_size)
        return np.concatenate([_batch(scorer, name, rows, at, ticker) for at in parts])
    identity = cache_identity(scorer, name, how.fitted_on.get(name, ""), rows.columns)
    keys = [cache_key(identity, item, name) for item in rows.inputs]
    first_row: dict[str, int] = {}
    for row, key in enumerate(keys):
        if key not in how.cache:
            first_row.setdefault(key, row)
    missing = np.fromiter(first_row.values(), dtype=np.int64, count=len(first_row))
    for at in _batches(missing, how.batch_size):  # cached by batch: a crash loses at most one
        fresh = _batch(scorer, name, rows, at, ticker).tolist()
        how.cache.update({keys[row]: score for row, score in zip(at.tolist(), fresh, strict=True)})
    return checked_scores([how.cache[key] for key in keys], rows.n, name)


def _batch(scorer: Any, name: str, rows: Rows, at: IntArray, ticker: Ticker) -> FloatArray:
    """Call the scorer on a batch of rows and validate its output."""
    output = scorer.predict_proba(rows.features_at(at))
    try:
        scores = checked_scores(output, len(at), name)
    except InvalidInputError as error:
        error.add_note(f"in the batch that starts at row {int(at[0])}")
        raise
    ticker.advance(len(at), f"{rows.name} / {name}")
    return scores


def _batches(at: IntArray, size: int | None) -> Iterator[IntArray]:
    step = size or max(len(at), 1)
    return (at[start : start + step] for start in range(0, len(at), step))
