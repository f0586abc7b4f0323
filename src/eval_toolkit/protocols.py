"""Protocols for all extension points.

All protocols are structural and ``runtime_checkable``; no base class or registration is needed.
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
    """Scorer that can skip slices, e.g. to avoid expensive calls."""

    def should_score_slice(self, slice_name: str) -> bool:
        """Return False to skip the slice."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """Object with a version, which is recorded in the manifest."""

    @property
    def version(self) -> str:
        """Version string; changes whenever the object's results may change."""
        ...


@runtime_checkable
class TextTransform(Protocol):
    """Named transformation of a string."""

    @property
    def name(self) -> str:
        """Stable identifier."""
        ...

    def transform(self, text: str) -> str:
        """Return the transformed text."""
        ...


@runtime_checkable
class EvalSliceLike(Protocol):
    """Slice interface required by the harness, independent of the dataframe library."""

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
        """Name of the check in findings."""
        ...

    def validate(self, splits: Mapping[str, Any]) -> Any:
        """Return a `LeakageFinding` for the named splits."""
        ...


@runtime_checkable
class Splitter(Protocol):
    """Splits a slice into folds."""

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
    """Splits the training rows of a fold into training and validation parts."""

    def build(self, train: Any, *, fold_idx: int) -> dict[str, Any]:
        """Return a mapping with at least ``train`` and ``val``."""
        ...


@runtime_checkable
class ThresholdSelector(Protocol):
    """Selects an operating threshold from labelled scores."""

    @property
    def criterion(self) -> str:
        """Unique name of the selector."""
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

    The number of neighbours is passed by position, so a strategy may name it ``k_neighbors``
    or ``k``.

    A strategy may also have ``pairs_above(texts, threshold)`` and ``pairs_above_across(query,
    reference, threshold)``, which return all pairs; without them, the number of neighbours is
    increased until no pair is missed.
    """

    def pairs_within(
        self, texts: list[str], k_neighbors: int, /
    ) -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return the nearest texts of each text in the list, starting with the text itself."""
        ...

    def pairs_across(
        self, query: list[str], reference: list[str], k_neighbors: int, /
    ) -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return the nearest reference texts of each query."""
        ...


@runtime_checkable
class MetricSpec(Protocol):
    """Named metric of labels and scores, as accepted by `scorecard`."""

    @property
    def name(self) -> str:
        """Name of the metric; key of its result."""
        ...

    def compute(self, y_true: "NDArray[Any]", y_score: "NDArray[Any]") -> float:
        """Return the metric, or raise `UndefinedMetricError`."""
        ...


@runtime_checkable
class Model(Protocol):
    """Language model that answers requests, possibly concurrently.

    A batching model may collect pending requests. A model that supports only one of the two methods
    raises `ModelError` of kind "unsupported" from the other. Optional members: ``concurrency``
    (recommended number of concurrent requests), ``count_tokens(text)`` (for estimates),
    ``speaks_chat`` (False for models without chat messages; tasks then send plain strings) and
    ``aclose()`` (called once, at the end).
    """

    @property
    def name(self) -> str:
        """Name used in tables and run folders."""
        ...

    def describe(self) -> "Mapping[str, Any]":
        """Return all settings that may affect the answers, as a JSON dict without secrets."""
        ...

    async def generate(self, request: "GenerateRequest") -> "RawCompletion":
        """Generate a completion for a string or conversation, or raise `ModelError`."""
        ...

    async def loglikelihood(self, request: "LoglikelihoodRequest") -> "RawLoglikelihood":
        """Return log-likelihoods of continuations, or raise `ModelError`."""
        ...


@runtime_checkable
class Grader(Protocol):
    """Grades responses; deterministic, so stored responses can be regraded.

    Optional members: ``columns()`` (type and direction of each column), ``response_types``
    (supported response types), ``metrics()`` (metrics other than the means of its columns, from
    `metric_specs.from_sums` or `on_columns`) and ``answer(response)`` (the extracted answer for
    voting in maj@k, or None).
    """

    @property
    def name(self) -> str:
        """Stable identifier; name or prefix of its columns."""
        ...

    @property
    def version(self) -> str:
        """Version; changes whenever results may change."""
        ...

    def grade(self, response: Any) -> "Mapping[str, Any]":
        """Return one value per column for a `Completion` or a `Loglikelihood`.

        A value is a number, or a `graders.Grade` with the reason why it is missing.
        """
        ...


@runtime_checkable
class TextScorer(Protocol):
    """Scores texts for harmfulness or other flaws; deterministic, so results can be cached.

    Optional members:

    ``mode``
        "turn" (default): probe and response are scored separately; "cumulative": all responses up
        to each turn; "final": all responses, once at the end of a conversation.
    ``categories``, ``score_categories(texts)``
        Harm categories, and one score per text for each category.
    ``score_turns(conversations)``
        Used instead of ``score`` by scorers that need the question to judge the answer. With
        ``keeps_keys``, it also receives the unit, attempt and position of each turn, as keys for
        stored verdicts.
    ``checked(texts)``
        Like ``score``, but with "error: …" or "skipped: …" instead of missing scores.
    ``bounds``
        Smallest and largest possible score.
    ``ready()``
        Raises if weights or an extra are missing, before any model is queried.
    ``describe()``
        Description for the manifest, as JSON types.
    ``asker``
        Sends the scorer's requests to a model (`scorers.judged.Asks`); set by the run.
    """

    @property
    def name(self) -> str:
        """Stable identifier; prefix of its columns."""
        ...

    @property
    def version(self) -> str:
        """Version; changes whenever results may change."""
        ...

    @property
    def threshold(self) -> float:
        """Threshold at which a text counts as harmful."""
        ...

    @property
    def higher_is_worse(self) -> bool:
        """Whether texts at or above (rather than at or below) the threshold are harmful."""
        ...

    def score(self, texts: Sequence[str]) -> "Sequence[float]":
        """Return one score per text, in order."""
        ...


@runtime_checkable
class Attack(Protocol):
    """Generates the next probe in a conversation, optionally with a model.

    Optional members: ``model`` (model that answers the requests returned by `ask`), ``read(reply,
    conversation)`` (extracts the probe from the model's reply; by default the whole reply),
    ``branches`` (recommended number of probes per turn), ``for_branch(k)`` (attack of branch k),
    ``toward(higher_is_closer=…)`` (attack that knows in which direction turn scores approach its
    goal) and ``describe()`` (for the manifest). An attack ends a conversation by raising
    `attacks.StopAttack`.
    """

    @property
    def name(self) -> str:
        """Stable identifier."""
        ...

    @property
    def version(self) -> str:
        """Version; changes whenever probes may change."""
        ...

    def ask(self, conversation: Any, seed: int) -> "str | GenerateRequest":
        """Return the next probe, or a model request for it; deterministic for a given seed.

        ``conversation`` is a `rollouts.Conversation`.
        """
        ...
