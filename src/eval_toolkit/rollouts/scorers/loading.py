"""Loading of scorers by name, for the command line."""

import inspect
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import InvalidInputError, PluginError
from eval_toolkit.plugins import (
    TYPED,
    available_plugins,
    call_plugin,
    known_name,
    load_plugin,
    read_spec,
)
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.scorers.base import MODES, as_text_scorer

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
    "hf": "hf:FOLDER or hf:FOLDER#LABEL, a transformers text classifier (extra hf, torch)",
    "judge": "judge:RUBRIC@MODEL, a judge model, such as judge:harmfulness@openai:NAME",
    "keywords": "keywords:WORD,WORD, 1 if the text contains a word or phrase",
    "pattern": "pattern:REGEX, 1 for texts that match the regular expression",
    "refusal": "rule-based detection of refusals; replies that are not refusals count as bad",
    "toxicity": "toxicity or toxicity:CATEGORY, predicted by a small neural network (extra safety)",
}
_NEED = ("hf", "judge", "keywords", "pattern")
"""Names that require an argument after the colon."""


def available_scorers() -> dict[str, str]:
    """Return the available scorers with their syntax and description.

    Returns
    -------
    dict of str to str
        Built-in scorers and those registered by installed packages as
        ``eval_toolkit.text_scorers``.

    Examples
    --------
    >>> available_scorers()["keywords"]
    'keywords:WORD,WORD, 1 if the text contains a word or phrase'
    """
    found = available_plugins(_KIND, _OURS)
    return {name: _WHAT.get(name, place) for name, place in found.items()}


def load_scorer(spec: str, options: Mapping[str, Any] | None = None) -> TextScorer:
    r"""Load a scorer by name; its weights are loaded on first use.

    Parameters
    ----------
    spec : str
        ``NAME`` or ``NAME:WHICH``, as listed by `available_scorers`, or ``package.module:object``
        (a scorer, a class or function that returns one, or a function of a reply), optionally
        followed by options in TOML syntax: ``insults{limit=3}``. Suffixes such as ``@0.7``,
        ``@cumulative`` or ``@final`` set the threshold and the mode: ``toxicity:insult@0.7@final``.
        In a pattern, write a literal @ as ``[@]``.
    options : mapping, optional
        Options of the scorer or, for a judge, of its model.

    Returns
    -------
    TextScorer
        New scorer.

    Raises
    ------
    PluginError
        If there is no scorer with that name (the nearest is suggested), or the object is not a
        scorer.
    InvalidInputError
        If an option does not exist, or the part after the colon is invalid.
    MissingExtraError
        If a required package is not installed.

    Examples
    --------
    >>> load_scorer("keywords:idiot,fool").score(["You fool."])
    [1.0]
    >>> load_scorer(r"pattern:\d{4}@0.5@final").mode
    'final'
    """
    if not isinstance(spec, str) or not spec.strip():
        raise InvalidInputError(f"`spec` is {spec!r:.60}; it must be the name of a scorer")
    text, suffixes = _suffixes(spec.strip())
    made = _made(text, dict(options or {}))
    return as_text_scorer(made, **suffixes) if suffixes else made


def _suffixes(spec: str) -> tuple[str, dict[str, Any]]:
    """Split a spec into the name without suffixes, the threshold and the mode."""
    suffixes: dict[str, Any] = {}
    while True:
        rest, at, last = spec.rpartition("@")
        if not at or not rest:
            return spec, suffixes
        option: Any = last if last in MODES else _number(last)
        if option is None:
            return spec, suffixes
        name = "mode" if last in MODES else "threshold"
        if name in suffixes:
            raise InvalidInputError(f"{spec!r:.80} sets the {name} twice")
        suffixes[name] = option
        spec = rest


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _made(spec: str, options: dict[str, Any]) -> TextScorer:
    name, which, own_options = read_spec(_KIND, spec, _OURS)
    options = {**own_options, **options}
    before, at, behind = name.partition("@")
    if at and ":" not in before and known_name(_KIND, before, _OURS) is not None:
        raise InvalidInputError(
            f"scorer {spec!r:.60}: {behind!r:.40} after @ is neither a threshold nor a mode: "
            f"write a number, {' or '.join(MODES)}"
        )
    if (which is not None or name in _NEED) and not (which or "").strip():
        fix = f"write {_WHAT[name]}" if name in _NEED else "remove the colon"
        raise InvalidInputError(f"scorer {spec!r:.60} is incomplete; {fix}")
    arguments: tuple[Any, ...] = () if which is None else (which,)
    if which is not None and name == "judge":
        return _judge(spec, which, options)
    if which is not None and name == "keywords":
        arguments = ([word.strip() for word in which.split(",") if word.strip()],)
    elif which is not None and name == "hf":
        path, _, label = which.partition("#")
        arguments = (path,)
        options = {"label": label, **options} if label else options
    return _plugin(spec, load_plugin(_KIND, name, _OURS, origin=TYPED), arguments, options)


def _judge(spec: str, which: str, options: Mapping[str, Any]) -> TextScorer:
    from eval_toolkit.graders.judges import Judge
    from eval_toolkit.rollouts.scorers.judged import JudgeScorer

    rubric, at, model = which.partition("@")
    if not at or not rubric or not model:
        raise InvalidInputError(f"scorer {spec!r:.60}: write {_WHAT['judge']}")
    return JudgeScorer(Judge(rubric, model, model_options=dict(options)))


def _plugin(
    spec: str, found: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> TextScorer:
    """Call a class or function to create a scorer; return other objects unchanged."""
    makes = isinstance(found, type) or (callable(found) and not hasattr(found, "score"))
    if not makes or _takes_texts(found):
        if arguments or options:
            raise InvalidInputError(
                f"scorer {spec!r:.60} is an existing object; it takes no options"
            )
        return _scorer(spec, found)
    return _scorer(
        spec, call_plugin(_KIND, spec, found, options, origin=TYPED, arguments=arguments)
    )


def _scorer(spec: str, given: Any) -> TextScorer:
    from eval_toolkit.rollouts.scorers.functions import reply_scorer

    try:
        return reply_scorer(given)
    except InvalidInputError as error:
        raise PluginError(f"scorer {spec!r:.60}: {error}") from error


def _takes_texts(found: Any) -> bool:
    """Return whether a function scores texts itself, because it requires an argument."""
    if isinstance(found, type):
        return False
    try:
        inspect.signature(found).bind()
    except TypeError:
        return True
    except ValueError:  # no signature; an error appears when it is called
        return False
    return False
