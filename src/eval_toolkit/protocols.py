"""Protocols of all extension points; no registration or base class is needed.

All protocols are structural and ``runtime_checkable``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from eval_toolkit.metrics import ThresholdResult
    from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
    from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood

__all__ = [
    "Attack",
    "DatasetLoader",
    "EvalSliceLike",
    "Grader",
    "LeakageCheck",
    "MetricSpec",
    "Model",
    "PoolBuilder",
    "PredictionReader",
    "Scorer",
    "SimilarityStrategy",
    "SliceAwareScorer",
    "Splitter",
    "TextScorer",
    "TextTransform",
    "ThresholdSelector",
    "Versioned",
]


@runtime_checkable
class Scorer(Protocol):
    """Predicts P(positive) for inputs."""

    def predict_proba(self, X: Any) -> "NDArray[np.float64]":
        """Return one probability of the positive class per input, shape (n,)."""
        ...


@runtime_checkable
class SliceAwareScorer(Scorer, Protocol):
    """A scorer that can decline slices, e.g. because calls are expensive."""

    def should_score_slice(self, slice_name: str) -> bool:
        """Return False to skip the slice."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """An object with a version for the manifest."""

    @property
    def version(self) -> str:
        """A string that changes when the object's results may change."""
        ...


@runtime_checkable
class TextTransform(Protocol):
    """A named transformation of a text."""

    @property
    def name(self) -> str:
        """A stable identifier."""
        ...

    def transform(self, text: str) -> str:
        """Return the transformed text."""
        ...


@runtime_checkable
class EvalSliceLike(Protocol):
    """Interface of slices for the harness, without a dataframe."""

    @property
    def name(self) -> str:
        """The slice's name."""
        ...

    @property
    def y_true(self) -> "NDArray[np.int64]":
        """Labels, 0 or 1."""
        ...

    @property
    def features(self) -> Sequence[Any]:
        """Scorer inputs, one per row."""
        ...

    @property
    def strata(self) -> "NDArray[Any] | None":
        """Stratum of each row, or None."""
        ...


@runtime_checkable
class PredictionReader(Protocol):
    """Reads stored predictions of one media type."""

    def read_predictions(
        self, uri: str, *, columns: Mapping[str, str]
    ) -> Mapping[str, Sequence[Any]]:
        """Return the named columns, one value per row."""
        ...


@runtime_checkable
class LeakageCheck(Protocol):
    """Checks splits for leakage."""

    @property
    def name(self) -> str:
        """The check's name in findings."""
        ...

    def validate(self, splits: Mapping[str, Any]) -> Any:
        """Return a `LeakageFinding` over the named splits."""
        ...


@runtime_checkable
class Splitter(Protocol):
    """Divides a slice into folds."""

    def iter_folds(
        self, slice_: Any, *, groups: "ArrayLike | None" = None
    ) -> Iterator[dict[str, Any]]:
        """Yield one ``{"train": …, "test": …}`` per fold."""
        ...

    def get_n_splits(self, slice_: Any) -> int:
        """Return the number of folds."""
        ...


@runtime_checkable
class PoolBuilder(Protocol):
    """Builds a fold's train and validation parts from its training rows."""

    def build(self, train: Any, *, fold_idx: int) -> dict[str, Any]:
        """Return at least ``train`` and ``val``."""
        ...


@runtime_checkable
class ThresholdSelector(Protocol):
    """Selects an operating threshold from labelled scores."""

    @property
    def criterion(self) -> str:
        """Unique label of the selector."""
        ...

    def select(self, y_true: "ArrayLike", y_score: "ArrayLike") -> "ThresholdResult":
        """Return the selected threshold and its metrics."""
        ...


@runtime_checkable
class DatasetLoader(Protocol):
    """Loads named slices and describes their source."""

    def load_splits(self) -> dict[str, Any]:
        """Return the slices by name."""
        ...

    def describe(self) -> dict[str, object]:
        """Return a Croissant-compatible description."""
        ...


@runtime_checkable
class SimilarityStrategy(Protocol):
    """Finds similar texts; returns similarities and indices, most similar first.

    How many is given by position: a strategy may call it ``k_neighbors`` or ``k``.

    A strategy may also have ``pairs_above(texts, threshold)`` and ``pairs_above_across(query,
    reference, threshold)``, which return every pair at once; without them ever more neighbours are
    asked for until none is missed.
    """

    def pairs_within(
        self, texts: list[str], k_neighbors: int, /
    ) -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return each text's nearest texts in the same list, itself first."""
        ...

    def pairs_across(
        self, query: list[str], reference: list[str], k_neighbors: int, /
    ) -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return each query's nearest reference texts."""
        ...


@runtime_checkable
class MetricSpec(Protocol):
    """A named metric of labels and scores, as `scorecard` takes it."""

    @property
    def name(self) -> str:
        """The key of the metric's cell."""
        ...

    def compute(self, y_true: "NDArray[Any]", y_score: "NDArray[Any]") -> float:
        """Return the metric, or raise `UndefinedMetricError`."""
        ...


@runtime_checkable
class Model(Protocol):
    """A language model that answers requests, possibly several concurrently.

    A model that works in batches collects the requests that are under way. A model that cannot do
    one of the two raises `ModelError` of the kind "unsupported". Four more members are used where
    they are there: ``concurrency`` (how many requests at once suit it), ``count_tokens(text)`` (for
    estimates), ``speaks_chat`` (False where it takes texts and no messages: tasks then send plain
    text) and ``aclose()`` (called once, at the end).
    """

    @property
    def name(self) -> str:
        """Name in tables and run folders."""
        ...

    def describe(self) -> "Mapping[str, Any]":
        """Return all settings that may change its answers, as JSON types without secrets."""
        ...

    async def generate(self, request: "GenerateRequest") -> "RawCompletion":
        """Continue a text or a conversation, or raise `ModelError`."""
        ...

    async def loglikelihood(self, request: "LoglikelihoodRequest") -> "RawLoglikelihood":
        """Score continuations, or raise `ModelError`."""
        ...


@runtime_checkable
class Grader(Protocol):
    """Grades a response; deterministic, so that stored responses can be graded again.

    Four more members are used where they are there: ``columns()`` (how each column is to be read),
    ``response_types`` (what it can grade), ``metrics()`` (metrics of its columns that are no means,
    from `metric_specs.from_sums` or `on_columns`) and ``answer(response)`` (the answer as a text,
    which votes in maj@k; None where there is none).
    """

    @property
    def name(self) -> str:
        """Stable identifier; the name or prefix of its columns."""
        ...

    @property
    def version(self) -> str:
        """Version; changes when its results may change."""
        ...

    def grade(self, response: Any) -> "Mapping[str, Any]":
        """Return a value per column for a `Completion` or a `Loglikelihood`.

        A value is a number, or a `graders.Grade` that says why there is none.
        """
        ...


@runtime_checkable
class TextScorer(Protocol):
    """Scores texts for harmfulness or other flaws; deterministic, so that results can be cached.

    More members are used where they are there:

    ``mode``
        "turn", the default: response and probe apart; "cumulative": all responses so far;
        "final": the same, where a conversation ends.
    ``categories``, ``score_categories(texts)``
        Kinds of harm that it tells apart, and a number per text for each of them.
    ``score_turns(conversations)``
        Takes the place of ``score`` for one that must see the question to judge the answer. With
        ``keeps_keys`` it takes the unit, attempt and place of each as well, to keep verdicts by.
    ``checked(texts)``
        As ``score``, with "error: …" or "skipped: …" in the place of a number that is missing.
    ``bounds``
        The lowest and the highest number it can say.
    ``ready()``
        Raises what is missing (weights, an extra), before a model is asked.
    ``describe()``
        What a manifest says about it, in JSON types.
    ``asker``
        Who puts its questions to a model (`scorers.judged.Asks`); a run puts itself there.
    """

    @property
    def name(self) -> str:
        """Stable identifier; the prefix of its columns."""
        ...

    @property
    def version(self) -> str:
        """Version; changes when its results may change."""
        ...

    @property
    def threshold(self) -> float:
        """Threshold at which a text counts as bad."""
        ...

    @property
    def higher_is_worse(self) -> bool:
        """Whether texts at or above the threshold are bad, rather than those at or below it."""
        ...

    def score(self, texts: Sequence[str]) -> "Sequence[float]":
        """Return one number per text, in their order."""
        ...


@runtime_checkable
class Attack(Protocol):
    """Generates the next probe of a tester, directly or with a model.

    Six more members are used where they are there: ``model`` (who is asked, where `ask` returns
    requests), ``read(reply, conversation)`` (the probe in the model's reply; all of it by default),
    ``branches`` (how many probes per turn suit it), ``for_branch(k)`` (the attack of one of them),
    ``toward(higher_is_closer=…)`` (the attack that knows which scores of turns are closer to its
    goal) and ``describe()`` (for the manifest). An attack ends a conversation by
    `attacks.StopAttack`.
    """

    @property
    def name(self) -> str:
        """A stable identifier."""
        ...

    @property
    def version(self) -> str:
        """Version; changes when its probes may change."""
        ...

    def ask(self, conversation: Any, seed: int) -> "str | GenerateRequest":
        """Return the next probe, or a model request for it; deterministic for a given seed.

        ``conversation`` is a `rollouts.Conversation`.
        """
        ...
