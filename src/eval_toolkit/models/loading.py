"""From a name on the command line to a model."""

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import EvalToolkitError, InvalidInputError, PluginError
from eval_toolkit.plugins import available_plugins, load_plugin
from eval_toolkit.protocols import Model

__all__ = ["available_models", "load_model"]

_OURS = {
    "embedded": "eval_toolkit.models.embedded:EmbeddedModel",
    "hf": "eval_toolkit.models.huggingface:HuggingFaceModel",
    "llamacpp": "eval_toolkit.models.llama_cpp:LlamaCppModel",
    "openai": "eval_toolkit.models.openai_compatible:OpenAICompatible",
    "scripted": "eval_toolkit.models.scripted:ScriptedModel",
}
_WHAT = {
    "embedded": "SmolLM2-135M-Instruct in numpy, offline; `eval-toolkit models fetch` gets it",
    "hf": "hf:NAME or hf:FOLDER, through transformers (extra hf, and torch)",
    "llamacpp": "llamacpp:FILE.gguf, through xllamacpp (extra llamacpp)",
    "openai": "openai:NAME with --base-url, any OpenAI-compatible server (extra llm)",
    "scripted": "scripted:TEXT, the same answer to everything, for trying things out",
}


def available_models() -> dict[str, str]:
    """Return the kinds of models there are, with what to write and what it means.

    Returns
    -------
    dict of str to str
        Ours, and those that installed packages offer as ``eval_toolkit.models``.

    Examples
    --------
    >>> "embedded" in available_models()
    True
    """
    return {
        name: _WHAT.get(name, place) for name, place in available_plugins("models", _OURS).items()
    }


def load_model(name: str, options: Mapping[str, Any] | None = None) -> Model:
    """Return the model that a name stands for; weights are loaded when they are first used.

    Parameters
    ----------
    name : str
        ``KIND`` or ``KIND:WHICH``, as `available_models` lists them, or ``package.module:object``:
        a model, or what makes one.
    options : mapping, optional
        Passed to what makes the model.

    Returns
    -------
    Model
        Ready to be asked.

    Raises
    ------
    PluginError
        If there is no such kind, or the object is no model.
    InvalidInputError
        If an option does not exist.

    Examples
    --------
    >>> load_model("scripted:Paris").name
    'scripted'
    """
    kind, colon, which = name.partition(":")
    if kind in _OURS or kind in available_plugins("models", _OURS):
        made = load_plugin("models", kind, _OURS)
        arguments = [which] if which else []
        if colon and not which:
            raise InvalidInputError(f"model {name!r}: say which after the colon")
    else:
        made, arguments = load_plugin("models", name, _OURS), []
    told = dict(options or {})
    if _is_model(made):  # also one that can be called
        if arguments or told:
            raise InvalidInputError(f"model {name!r} is ready made; it takes no options")
        ready: Model = made
        return ready
    model = _called(name, made, arguments, told) if callable(made) else made
    if not _is_model(model):
        raise PluginError(f"model {name!r} is a {type(model).__name__}, which is no model")
    return model  # type: ignore[no-any-return]


def _is_model(given: Any) -> bool:
    return isinstance(given, Model) and not isinstance(given, type)


def _called(name: str, made: Any, arguments: list[str], options: dict[str, Any]) -> Any:
    """Call what makes a model, having checked what it can be called with."""
    signature = inspect.signature(made)
    takes = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    anything = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for option in options:
        if option not in signature.parameters and not anything:
            near = difflib.get_close_matches(option, takes, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(takes) or 'none'}"
            raise InvalidInputError(f"model {name!r} has no option {option!r}; {hint}")
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        raise InvalidInputError(f"model {name!r}: {error}; {_how(name)}") from None
    try:
        return made(*arguments, **options)
    except EvalToolkitError:
        raise
    except Exception as error:  # somebody else's class may fail in any way
        raise PluginError(
            f"model {name!r}: making it failed: {type(error).__name__}: {error}"
        ) from error


def _how(name: str) -> str:
    kind = name.partition(":")[0]
    return f"write {_WHAT[kind]}" if kind in _WHAT else "see its documentation"
