"""Construction of models from names, for the command line."""

from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.plugins import (
    TYPED,
    Origin,
    available_plugins,
    finish_plugin,
    load_plugin,
    read_spec,
)
from eval_toolkit.protocols import Model

__all__ = ["available_models", "load_model", "named_model"]

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
    """Return the kinds of models with their syntax and description.

    Returns
    -------
    dict of str to str
        Built-in kinds and entry points of the group ``eval_toolkit.models``.

    Examples
    --------
    >>> "embedded" in available_models()
    True
    """
    return {
        name: _WHAT.get(name, place) for name, place in available_plugins("models", _OURS).items()
    }


def load_model(name: Any, options: Mapping[str, Any] | None = None) -> Model:
    """Return the model denoted by a name; weights are loaded on first use.

    Parameters
    ----------
    name : str or object
        ``KIND`` or ``KIND:WHICH``, as listed by `available_models`, or ``package.module:object`` (a
        model or its constructor), optionally followed by options as a TOML table:
        ``my_model{size=3}``. Anything else that answers, such as a function from prompt to text,
        is made a model by `as_model`.
    options : mapping, optional
        Options of the constructor.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    PluginError
        If the kind does not exist, or the object is not a model.
    InvalidInputError
        If an option does not exist.

    Examples
    --------
    >>> load_model("scripted:Paris").name
    'scripted'
    """
    if not isinstance(name, str):
        from eval_toolkit.models.callables import as_model

        if options:
            raise InvalidInputError(f"`options`: {name!r:.60} is ready made; it takes no options")
        return as_model(name)
    return named_model(name, options or {}, origin=TYPED)


def named_model(name: str, options: Mapping[str, Any], *, origin: Origin) -> Model:
    """Return the model denoted by a name of any origin; see `load_model`.

    Parameters
    ----------
    name, options
        As in `load_model`.
    origin : Origin
        Source of the name. In files, models of other packages accept no options, since these could
        contain a URL.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    PluginError, InvalidInputError
        As in `load_model`; also if a file names something that the user did not allow.

    Examples
    --------
    >>> from eval_toolkit.plugins import read_from
    >>> named_model("scripted:Paris", {}, origin=read_from("task.toml")).name
    'scripted'
    """
    kind, which, told = read_spec("models", name, _OURS)
    if which == "":
        raise InvalidInputError(f"model {name!r}: say which after the colon")
    given = {**told, **options}
    made = load_plugin("models", kind, _OURS, origin=origin)
    if kind not in _OURS and (which or given):
        origin.refuse(f"gives options, which may hold an address, to the model {name!r:.120}")
    arguments = [which] if which else []
    try:
        model: Model = finish_plugin(
            "models", name, made, given, protocol=Model, origin=origin, arguments=arguments
        )
    except InvalidInputError as error:
        if kind not in _WHAT or which or given:
            raise
        raise InvalidInputError(f"{error}; write {_WHAT[kind]}") from error
    return model
