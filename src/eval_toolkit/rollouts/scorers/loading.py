"""From a name on the command line to a scorer."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from eval_toolkit.errors import EvalToolkitError, InvalidInputError, PluginError
from eval_toolkit.plugins import available_plugins, load_plugin
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.scorers.base import MODES, as_text_scorer

__all__ = ["available_scorers", "load_scorer"]

_KIND = "text_scorers"
_HERE = "eval_toolkit.rollouts.scorers"
_OURS = {
    "hf": f"{_HERE}.huggingface:HuggingFaceScorer",
    "judge": f"{_HERE}.judged:JudgeScorer",
    "keywords": f"{_HERE}.keywords:KeywordScorer",
    "pattern": f"{_HERE}.keywords:PatternScorer",
    "refusal": f"{_HERE}.refusal:RefusalScorer",
    "toxicity": f"{_HERE}.toxicity:ToxicityScorer",
}
_WHAT = {
    "hf": "hf:FOLDER or hf:FOLDER#LABEL, a text classifier through transformers (extra hf, torch)",
    "judge": "judge:RUBRIC@MODEL, a model that judges answers, such as judge:harmfulness@openai:NAME",
    "keywords": "keywords:WORD,WORD, 1 where a word or phrase is in the text",
    "pattern": "pattern:REGEX, 1 where the pattern is found",
    "refusal": "whether the text refuses, by rules; a text that does not counts as bad",
    "toxicity": "toxicity or toxicity:CATEGORY, by a small network (extra safety)",
}
_NEED = ("hf", "judge", "keywords", "pattern")
"""Which need something after the colon."""


def available_scorers() -> dict[str, str]:
    """Return the names of scorers, with what to write and what it means.

    Returns
    -------
    dict of str to str
        Ours, and those that installed packages offer as ``eval_toolkit.text_scorers``.

    Examples
    --------
    >>> available_scorers()["keywords"]
    'keywords:WORD,WORD, 1 where a word or phrase is in the text'
    """
    found = available_plugins(_KIND, _OURS)
    return {name: _WHAT.get(name, place) for name, place in found.items()}


def load_scorer(spec: str, options: Mapping[str, Any] | None = None) -> TextScorer:
    r"""Return the scorer that a name stands for; weights are loaded when they are first used.

    Parameters
    ----------
    spec : str
        ``NAME`` or ``NAME:WHICH``, as `available_scorers` lists them, or ``package.module:object``:
        a scorer, or what makes one. ``@0.7`` and ``@cumulative`` or ``@final`` at its end set
        threshold and mode: ``toxicity:insult@0.7@final``. A pattern that ends so is written with
        ``[@]``.
    options : mapping, optional
        Passed to what makes the scorer; of a judge, to its model.

    Returns
    -------
    TextScorer
        Made.

    Raises
    ------
    InvalidInputError
        If there is no scorer of that name (the nearest is suggested), or an option does not exist.
    PluginError
        If ``package.module:object`` is not there, or is no scorer.
    MissingExtraError
        If it needs something that is not installed.

    Examples
    --------
    >>> load_scorer("keywords:idiot,fool").score(["You fool."])
    [1.0]
    >>> load_scorer(r"pattern:\d{4}@0.5@final").mode
    'final'
    """
    if not isinstance(spec, str) or not spec.strip():
        raise InvalidInputError(f"`spec` is {spec!r:.60}; it must name a scorer")
    text, told = _suffixes(spec.strip())
    made = _made(text, dict(options or {}))
    return as_text_scorer(made, **told) if told else made


def _suffixes(spec: str) -> tuple[str, dict[str, Any]]:
    """Return a name without threshold and mode, and these."""
    told: dict[str, Any] = {}
    while True:
        rest, at, last = spec.rpartition("@")
        if not at or not rest:
            return spec, told
        option: Any = last if last in MODES else _number(last)
        if option is None:
            return spec, told
        name = "mode" if last in MODES else "threshold"
        if name in told:
            raise InvalidInputError(f"{spec!r:.80} sets the {name} twice")
        told[name] = option
        spec = rest


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _made(spec: str, options: dict[str, Any]) -> TextScorer:
    name, colon, which = spec.partition(":")
    plain = name.strip().lower()
    known = available_plugins(_KIND, _OURS)
    if plain not in known:
        before, at, behind = name.partition("@")
        if at and before.strip().lower() in known:
            raise InvalidInputError(
                f"scorer {spec!r:.60}: {behind!r:.40} behind @ is neither a threshold nor a mode: "
                f"write a number, {' or '.join(MODES)}"
            )
        near = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
        if colon and ("." in name or not near):
            return _plugin(spec, load_plugin(_KIND, spec, _OURS), (), options)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        raise InvalidInputError(f"there is no scorer {name!r:.60}; {hint}")
    if (colon or plain in _NEED) and not which.strip():
        what = _WHAT.get(plain, "leave the colon out")
        raise InvalidInputError(f"scorer {spec!r:.60}: say which after the colon: {what}")
    if plain == "judge":
        return _judge(spec, which, options)
    arguments: tuple[Any, ...] = (which,) if which else ()
    if plain == "keywords":
        arguments = ([word.strip() for word in which.split(",") if word.strip()],)
    elif plain == "hf":
        path, _, label = which.partition("#")
        arguments = (path,)
        options = {"label": label, **options} if label else options
    return _plugin(spec, load_plugin(_KIND, plain, _OURS), arguments, options)


def _judge(spec: str, which: str, options: Mapping[str, Any]) -> TextScorer:
    from eval_toolkit.judges import Judge
    from eval_toolkit.rollouts.scorers.judged import JudgeScorer

    rubric, at, model = which.partition("@")
    if not at or not rubric or not model:
        raise InvalidInputError(f"scorer {spec!r:.60}: write {_WHAT['judge']}")
    return JudgeScorer(Judge(rubric, model, model_options=dict(options)))


def _plugin(
    spec: str, found: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> TextScorer:
    """Return the scorer that a class or a function makes, or the object itself."""
    makes = isinstance(found, type) or (callable(found) and not hasattr(found, "score"))
    if not makes or _takes_texts(found):
        if arguments or options:
            raise InvalidInputError(f"scorer {spec!r:.60} is ready made; it takes no options")
        return _scorer(spec, found)
    _check_call(spec, found, arguments, options)
    try:
        made = found(*arguments, **options)
    except EvalToolkitError:
        raise
    except Exception as error:  # somebody else's class may fail in any way
        raise PluginError(
            f"scorer {spec!r:.60}: making it failed: {type(error).__name__}: {error}"
        ) from error
    return _scorer(spec, made)


def _scorer(spec: str, given: Any) -> TextScorer:
    try:
        return as_text_scorer(given)
    except InvalidInputError as error:
        raise PluginError(f"scorer {spec!r:.60}: {error}") from error


def _takes_texts(found: Any) -> bool:
    """Return whether a function scores texts itself: it cannot be called with nothing."""
    if isinstance(found, type):
        return False
    try:
        inspect.signature(found).bind()
    except TypeError:
        return True
    return False


def _check_call(
    spec: str, made: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    try:
        inspect.signature(made).bind(*arguments, **options)
    except TypeError as error:
        raise InvalidInputError(f"scorer {spec!r:.60}: {error}") from None
    except ValueError:  # has no signature to check
        return
