"""Groups of options for requests, decoding and summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, TypedDict

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES
from eval_toolkit.runs.budgets import Budget
from eval_toolkit.seeds import DEFAULT_SEED

if TYPE_CHECKING:
    from eval_toolkit.models.cache import ResponseCache
    from eval_toolkit.models.runner.progress import Progress

ON_ERROR = ("exclude", "as_zero", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSpec:
    """Request settings, which do not affect results.

    Parameters
    ----------
    concurrency : int, optional
        Number of concurrent requests; by default, the number recommended by each model. It does not
        affect results, except that the batching of local models may change the fifth digit. The
        manifest records both under ``engine``.
    cache : ResponseCache or path, optional
        Cache of answers that runs share.
    replay : path, optional
        Run, journal or cache whose answers are replayed instead of querying a model.
    budget : Budget, optional
        Limits on calls and tokens, not including judges. Requests beyond the budget are skipped and
        counted.
    give_up_after : int or None, default 50
        Number of consecutive failures of a model or a function after which no more requests are
        sent.
    patience_s : float, optional
        Seconds to wait for a server that is unavailable or refuses every request. By default, 30
        minutes for a server that has already answered in this process, else 0.
    on_progress : callable, optional
        Callback that receives a `Progress` a few times a second.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option is invalid.

    Examples
    --------
    >>> AskSpec(concurrency=4).give_up_after
    50
    """

    concurrency: int | None = None
    cache: ResponseCache | str | Path | None = None
    replay: str | Path | None = None
    budget: Budget = field(default_factory=Budget)
    give_up_after: int | None = 50
    patience_s: float | None = None
    on_progress: Callable[[Progress], object] | None = None

    def __post_init__(self) -> None:
        if self.cache is not None:
            from eval_toolkit.models.cache import ResponseCache

            validation.place(self.cache, "cache", ResponseCache, NoneType)
        validation.place(self.replay, "replay", NoneType)
        for name in ("concurrency", "give_up_after"):
            if getattr(self, name) is not None:
                validation.integer(getattr(self, name), name, low=1)
        if self.patience_s is not None:
            validation.number(self.patience_s, "patience_s", low=0.0)
        if not isinstance(self.budget, Budget):
            raise InvalidTypeError(f"`budget` is {self.budget!r:.80}; it must be a Budget")
        if self.on_progress is not None and not callable(self.on_progress):
            raise InvalidTypeError(
                f"`on_progress` is {self.on_progress!r:.80}; it must be callable"
            )

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Self:
        """Extract the request settings from the options of a function."""
        return cls(**_own(cls, options))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSpec:
    """Decoding parameters of a model.

    Parameters
    ----------
    temperature : float or None, default 0.0
        Sampling temperature; 0 is greedy decoding, and None uses the server's default.
    top_p : float, optional
        Nucleus sampling probability.
    max_tokens : int, optional
        Maximum number of tokens in an answer.
    stop : sequence of str
        Stop strings.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        See `GenerateRequest`.

    Examples
    --------
    >>> DecodingSpec(temperature=0.7, max_tokens=64).to_dict()["temperature"]
    0.7
    """

    temperature: float | None = 0.0
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        from eval_toolkit.models.requests import GenerateRequest

        names = [item.name for item in fields(self)]
        request = GenerateRequest("", **{name: getattr(self, name) for name in names})
        for name in names:
            object.__setattr__(self, name, getattr(request, name))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "stop": list(self.stop)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySpec:
    """How records are summarised.

    Parameters
    ----------
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        How to treat failed attempts: "exclude" omits them, "as_zero" assigns the worst value, and
        "fail" raises an error after all requests, keeping the answers for a retry.
    max_error_rate : float, default 0.0
        Maximum tolerated share of failed attempts; above it, ``too_many_errors`` of the outcome is
        set.
    confidence : float, default 0.95
        Confidence level of the intervals.
    seed : int, default 42
        Random seed for resampling.
    n_resamples : int, default 1000
        Number of bootstrap resamples; 0 disables all intervals.
    method : str, optional
        Interval method, as in `summarise`.
    executor : Executor, optional
        Executor that computes the resamples; does not affect results.

    Raises
    ------
    InvalidInputError
        If an option is invalid.

    Examples
    --------
    >>> SummarySpec(confidence=0.9).on_error
    'exclude'
    """

    on_error: str = "exclude"
    max_error_rate: float = 0.0
    confidence: float = DEFAULT_CONFIDENCE
    seed: int = DEFAULT_SEED
    n_resamples: int = DEFAULT_N_RESAMPLES
    method: str | None = None
    executor: Any = None

    def __post_init__(self) -> None:
        validation.choice(self.on_error, "on_error", ON_ERROR)
        rate = validation.number(self.max_error_rate, "max_error_rate", low=0.0, high=1.0)
        object.__setattr__(self, "max_error_rate", rate)
        object.__setattr__(self, "confidence", validation.fraction(self.confidence, "confidence"))

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Self:
        """Extract the summary settings from the options of a function."""
        return cls(**_own(cls, options))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as entries of the configuration."""
        return {"on_error": self.on_error, "confidence": self.confidence}


class AskOptions(TypedDict, total=False):
    """Fields of `AskSpec` that functions that send requests accept as keyword arguments."""

    concurrency: int | None
    cache: ResponseCache | str | Path | None
    give_up_after: int | None
    patience_s: float | None
    on_progress: Callable[[Progress], object] | None


class SummaryOptions(TypedDict, total=False):
    """Fields of `SummarySpec` that functions that compute cells accept as keyword arguments."""

    on_error: str
    max_error_rate: float
    confidence: float


def _own(spec: type, options: Mapping[str, object]) -> dict[str, Any]:
    return {item.name: options[item.name] for item in fields(spec) if item.name in options}


def _defaults(spec: Any, options: type) -> dict[str, Any]:
    return {
        item.name: item.default for item in fields(spec) if item.name in options.__annotations__
    }


ASK_DEFAULTS = _defaults(AskSpec, AskOptions)
SUMMARY_DEFAULTS = _defaults(SummarySpec, SummaryOptions)


def whole_numbers(given: Any, name: str, *, most: int, of: str) -> tuple[int, ...]:
    """Validate values of k, and return them without duplicates.

    ``most`` is the number of attempts of each unit, and ``of`` describes units and attempts in
    messages, as in "each sample has {} attempts".
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` is {given!r}; it must be a list of numbers")
    numbers = tuple(dict.fromkeys(validation.integer(k, name, low=1) for k in given))
    for k in numbers:
        if k > most:
            raise InvalidInputError(f"`{name}` is {k}, but {of.format(most)}; request at least {k}")
    return numbers
