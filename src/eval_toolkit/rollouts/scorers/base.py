"""Shared code of scorers, and their construction from other objects."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import TextScorer

MODES = ("turn", "cumulative", "final")
_COLUMNS = ("mean", "max", "min", "last", "probe_mean")
"""Suffixes of the columns that `measure_rollouts` creates for a scorer."""
_TAKEN = {"failed_by": "failed_by_turn_1", "refused": "refused_turn_1", "reward": "reward"}
"""Reserved scorer names, with the column that each would collide with."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Wrapping:
    """Wrapper around a scorer that delegates all other attributes to it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        """The wrapped object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":  # accessed by copying, before it is set
            raise AttributeError(name)
        return getattr(self.inner, name)


class _Adapted(Wrapping):
    """Scorer with overridden options."""

    def __init__(
        self, inner: Any, score: Callable[[Sequence[str]], Sequence[float]], **told: Any
    ) -> None:
        super().__init__(inner)
        self._score = score
        self.name: str = told["name"]
        self.version: str = told["version"]
        self.threshold: float = told["threshold"]
        self.higher_is_worse: bool = told["higher_is_worse"]
        self.mode: str = told["mode"]

    def __repr__(self) -> str:
        return f"TextScorer({self.name!r}, version={self.version!r}, threshold={self.threshold!r})"

    def score(self, texts: Sequence[str]) -> Sequence[float]:
        """Return one number per text, in order."""
        return self._score(texts)


def unwrapped(scorer: Any) -> Any:
    """Remove the wrappers that set thresholds, modes and caches from a scorer.

    Parameters
    ----------
    scorer : TextScorer
        Scorer, wrapped or not.

    Returns
    -------
    object
        Object originally passed to `as_text_scorer` or `CachedScorer`.

    Examples
    --------
    >>> unwrapped(with_threshold(as_text_scorer(len, name="length"), 3.0))
    <built-in function len>
    """
    while isinstance(scorer, Wrapping):
        scorer = scorer.inner
    return scorer


def as_text_scorer(
    given: Any,
    *,
    name: str | None = None,
    version: str | None = None,
    threshold: float | None = None,
    higher_is_worse: bool | None = None,
    mode: str | None = None,
) -> TextScorer:
    """Convert an object to a scorer, or override the options of a scorer.

    Parameters
    ----------
    given : object
        A `TextScorer`, which is returned unchanged if no options are passed; an object with
        ``score(texts)``; or a function that maps texts to numbers.
    name : str, optional
        Name of the scorer, without ":" and "/". By default, the ``name`` attribute of the object,
        or else the name of its class or function in snake case.
    version : str, optional
        Version of the scorer; by default, the ``version`` attribute of the object, or else "1",
        followed by the overridden options.
    threshold : float, optional
        Threshold at which a text counts as bad; by default, the object's own, or else 0.5.
    higher_is_worse : bool, optional
        Whether higher scores are worse; by default, the object's own direction, or else True.
    mode : {"turn", "cumulative", "final"}, optional
        Part of the conversation to score, as in `with_mode`; by default, the object's own mode, or
        else "turn".

    Returns
    -------
    TextScorer
        Scorer that delegates all other attributes to the original object.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the object cannot be used as a scorer, or an option is invalid.

    Examples
    --------
    >>> def shouting(texts):
    ...     return [sum(map(str.isupper, text)) / len(text) for text in texts]
    >>> scorer = as_text_scorer(shouting, threshold=0.8)
    >>> scorer.name, scorer.version, scorer.score(["NO", "no"])
    ('shouting', '1+threshold=0.8', [1.0, 0.0])
    """
    if isinstance(given, str):
        raise InvalidTypeError(
            f"{given!r:.60} is a string; use `load_scorer` to create a scorer from its name"
        )
    score = getattr(given, "score", None)
    if isinstance(given, type) or not (callable(score) or callable(given)):
        raise InvalidTypeError(
            f"{given!r:.80} is not a scorer; pass an object with `score(texts)`, or a function "
            "that maps texts to numbers"
        )
    options = {
        "name": name,
        "threshold": threshold,
        "higher_is_worse": higher_is_worse,
        "mode": mode,
    }
    changed = {option: value for option, value in options.items() if value is not None}
    if isinstance(given, TextScorer) and not changed and version is None:
        _check(given)
        return given
    defaults = {
        "name": _own_name(given),
        "threshold": 0.5,
        "higher_is_worse": True,
        "mode": "turn",
    }
    told = {**{key: getattr(given, key, value) for key, value in defaults.items()}, **changed}
    changed.pop("name", None)
    parts = [f"{option}={value!r}" for option, value in changed.items()]
    told["version"] = version or "+".join([str(getattr(given, "version", "1")), *parts])
    scorer = _Adapted(given, score if callable(score) else given, **told)
    _check(scorer)
    scorer.threshold = float(scorer.threshold)
    return scorer


def with_threshold(scorer: Any, threshold: float) -> TextScorer:
    """Return a scorer with a different threshold.

    Parameters
    ----------
    scorer : TextScorer or object accepted by `as_text_scorer`
        Scorer to modify; its scores do not change.
    threshold : float
        Threshold at which a text counts as bad.

    Returns
    -------
    TextScorer
        Scorer whose version includes the threshold.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``scorer`` is not a scorer, or the threshold is not a number.

    Examples
    --------
    >>> scorer = with_threshold(as_text_scorer(lambda texts: [0.6] * len(texts), name="x"), 0.7)
    >>> scorer.version, is_event(scorer, 0.6)
    ('1+threshold=0.7', False)
    """
    return as_text_scorer(scorer, threshold=validation.number(threshold, "threshold"))


def with_mode(scorer: Any, mode: str) -> TextScorer:
    """Return a scorer that scores a different part of each conversation.

    Parameters
    ----------
    scorer : TextScorer or object accepted by `as_text_scorer`
        Scorer to modify; its scores do not change.
    mode : {"turn", "cumulative", "final"}
        "turn" scores each response and probe separately, "cumulative" scores all responses up to
        the current turn together, and "final" scores all responses together once the conversation
        has ended.

    Returns
    -------
    TextScorer
        Scorer whose version includes the mode.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``scorer`` is not a scorer, or the mode is unknown.

    Examples
    --------
    >>> with_mode(as_text_scorer(len, name="length"), "final").version
    "1+mode='final'"
    """
    return as_text_scorer(scorer, mode=validation.choice(mode, "mode", MODES))


def mode_of(scorer: Any) -> str:
    """Return the mode of a scorer; by default "turn"."""
    return str(getattr(scorer, "mode", "turn"))


def takes_turns(scorer: Any) -> bool:
    """Return whether a scorer needs the question in order to judge the answer."""
    return callable(getattr(scorer, "score_turns", None))


def categories_of(scorer: Any) -> tuple[str, ...]:
    """Return the categories of a scorer, if any."""
    if not callable(getattr(scorer, "score_categories", None)):
        return ()
    return tuple(getattr(scorer, "categories", ()))


def is_event(scorer: TextScorer, value: float) -> bool:
    """Return whether a score counts as bad, given the scorer's threshold and direction.

    Parameters
    ----------
    scorer : TextScorer
        Scorer that defines threshold and direction.
    value : float
        Score of a text.

    Returns
    -------
    bool
        True if the score is bad; a score equal to the threshold is.

    Examples
    --------
    >>> scorer = as_text_scorer(lambda texts: [], name="x", threshold=0.8, higher_is_worse=False)
    >>> is_event(scorer, 0.8), is_event(scorer, 0.9)
    (True, False)
    """
    return value >= scorer.threshold if scorer.higher_is_worse else value <= scorer.threshold


@contextmanager
def requests_through(scorers: Iterable[Any], asking: Any) -> Iterator[None]:
    """Send the requests of judge scorers through a run, using its event loop, journal and cache.

    Parameters
    ----------
    scorers : iterable of TextScorer
        Scorers of the run. Scorers with an ``asker``, wrapped or not, use ``asking`` temporarily.
    asking : object
        Object with ``ask_jobs``, such as a `runs.context.Context`.

    Yields
    ------
    None
        Once, for use in a ``with`` block; the original askers are restored afterwards.

    Examples
    --------
    >>> with requests_through([as_text_scorer(len, name="length")], asking=None):
    ...     pass
    """
    judges = [one for one in map(unwrapped, scorers) if hasattr(one, "asker")]
    before = [judge.asker for judge in judges]
    try:
        for judge in judges:
            judge.asker = asking
        yield
    finally:
        for judge, asker in zip(judges, before, strict=True):
            judge.asker = asker


def check_scorers(scorers: Sequence[TextScorer]) -> None:
    """Raise an error unless all objects are scorers with unique names and columns.

    Parameters
    ----------
    scorers : sequence of TextScorer
        Scorers of a run.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an object is not a scorer, two scorers have the same name, or a column collides with a
        column of another scorer or a built-in column.

    Examples
    --------
    >>> check_scorers([as_text_scorer(len, name="length")])
    """
    seen: dict[str, str] = {}
    for at, scorer in enumerate(scorers):
        if isinstance(scorer, type) or not isinstance(scorer, TextScorer):
            raise InvalidTypeError(
                f"scorers[{at}] is {scorer!r:.80}; pass a TextScorer (see `as_text_scorer`)"
            )
        _check(scorer)
        if scorer.name in seen.values():
            raise InvalidInputError(
                f"two scorers have the name {scorer.name!r}; give one of them a different `name` "
                "(as_text_scorer)"
            )
        if scorer.name in _TAKEN:
            raise InvalidInputError(
                f"a scorer has the name {scorer.name!r}, but {_TAKEN[scorer.name]!r} is a "
                "built-in column; give the scorer a different `name` (as_text_scorer)"
            )
        for column in (f"{scorer.name}_{end}" for end in _COLUMNS):
            if column in seen:
                raise InvalidInputError(
                    f"the scorers {seen[column]!r} and {scorer.name!r} both define the column "
                    f"{column!r}; give one of them a different `name` (as_text_scorer)"
                )
            seen[column] = scorer.name


def check_ready(scorers: Iterable[Any]) -> None:
    """Raise an error if a scorer lacks its weights, extras or folders.

    Scorers with a method ``ready`` are checked by calling it, and functions by a call with one
    text.

    Examples
    --------
    >>> check_ready([as_text_scorer(len, name="length")])
    """
    for scorer in scorers:
        ready = getattr(scorer, "ready", None)
        if callable(ready):
            ready()
        elif inspect.isfunction(found := unwrapped(scorer)):
            check_function(scorer.name, found)


def check_function(name: str, score: Callable[[list[str]], Any]) -> None:
    """Raise an error if a function fails for reasons other than the text passed to it.

    Examples
    --------
    >>> check_function("length", lambda texts: [len(text) for text in texts])
    """
    try:
        score(["No."])
    except (AttributeError, InvalidInputError, NameError, TypeError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"scorer {name!r}: a test call with one reply failed before any request was sent: "
            f"{type(error).__name__}: {error}"
        ) from error
    except Exception:  # it may fail on this text alone
        return


def _own_name(given: Any) -> str:
    while isinstance(given, functools.partial):
        given = given.func
    named = getattr(given, "__name__", None) or type(given).__name__
    plain = _WORD.sub("_", str(named)).strip("<>_").lower()
    return "scorer" if plain == "lambda" else plain


def _check(scorer: Any) -> None:
    name = scorer.name
    if not isinstance(name, str) or not name.strip() or ":" in name or "/" in name:
        raise InvalidInputError(
            f"`name` of the scorer is {name!r:.60}; it must be a non-empty string without ':' and "
            "'/'"
        )
    if not isinstance(scorer.higher_is_worse, bool):
        raise InvalidTypeError(
            f"`higher_is_worse` of {name!r} is {scorer.higher_is_worse!r:.60}; it must be a bool"
        )
    validation.number(scorer.threshold, f"threshold of {name!r}")
    validation.choice(mode_of(scorer), f"mode of {name!r}", MODES)
