"""Load models by name, for the command line."""

import difflib
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import InvalidInputError, PluginError
from eval_toolkit.models.servers import the_server
from eval_toolkit.plugins import (
    TYPED,
    Origin,
    available_plugins,
    finish_plugin,
    known_name,
    load_plugin,
    name_and_options,
    read_spec,
)
from eval_toolkit.protocols import Model

_OURS = {
    "anthropic": "eval_toolkit.models.hosted:Anthropic",
    "azure": "eval_toolkit.models.hosted:AzureOpenAI",
    "bedrock": "eval_toolkit.models.hosted:Bedrock",
    "embedded": "eval_toolkit.models.embedded:EmbeddedModel",
    "gemini": "eval_toolkit.models.hosted:Gemini",
    "hf": "eval_toolkit.models.huggingface:HuggingFaceModel",
    "llamacpp": "eval_toolkit.models.llama_cpp:LlamaCppModel",
    "openai": "eval_toolkit.models.openai_compatible:OpenAICompatible",
    "scripted": "eval_toolkit.models.scripted:ScriptedModel",
    "sglang": "eval_toolkit.models.in_process.sglang:SglangModel",
    "vllm": "eval_toolkit.models.in_process.vllm:VllmModel",
}
_TEXT = "scripted"
"""Kind of model whose name may contain an arbitrary string after the colon."""
_TYPING_ERROR = 0.8
_WHAT = {
    "anthropic": "anthropic:NAME, served by Anthropic; API key in ANTHROPIC_API_KEY (extra llm)",
    "azure": "azure:DEPLOYMENT{base_url='https://NAME.openai.azure.com'}; API key in "
    "AZURE_OPENAI_API_KEY (extra llm)",
    "bedrock": "bedrock:ID{region='us-east-1'}, signed with AWS credentials (extras llm, bedrock)",
    "embedded": "SmolLM2-135M-Instruct in numpy, without network access; download it with "
    "`eval-toolkit models fetch`",
    "gemini": "gemini:NAME, served by Google; API key in GEMINI_API_KEY (extra llm)",
    "hf": "hf:NAME or hf:FOLDER, run by transformers (extra hf, and torch)",
    "llamacpp": "llamacpp:FILE.gguf, run by xllamacpp (extra llamacpp)",
    "openai": "openai:NAME, served by OpenAI or, with --base-url, by any compatible server (extra "
    "llm)",
    "scripted": "scripted:TEXT, which gives the same answer to every request, for tests",
    "sglang": "sglang:NAME or sglang:FOLDER, run by SGLang on one or more GPUs (extra sglang)",
    "vllm": "vllm:NAME or vllm:FOLDER, run by vLLM on one or more GPUs (extra vllm)",
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
    """Load a model by name; weights are loaded on first use.

    Parameters
    ----------
    name : str or object
        ``KIND`` or ``KIND:WHICH``, as listed by `available_models`, or ``package.module:object`` (a
        model or its constructor), optionally followed by options as a TOML table:
        ``openai:m{base_url='http://localhost:8000/v1'}``. The string of ``scripted:TEXT`` may
        contain braces, so it takes no options. Any other object, such as a function that maps a
        prompt to an answer, is converted by `as_model`.
    options : mapping, optional
        Keyword arguments of the constructor.

    Returns
    -------
    Model
        The loaded model.

    Raises
    ------
    PluginError
        If the kind is unknown, or the object is not a model.
    InvalidInputError
        If an option is unknown.

    Examples
    --------
    >>> load_model("scripted:Paris").name
    'scripted'
    """
    if not isinstance(name, str):
        from eval_toolkit.models.callables import as_model

        if options:
            raise InvalidInputError(
                f"`options` are only for models given by name, not for {name!r:.60}"
            )
        return as_model(name)
    return named_model(name, options or {}, origin=TYPED)


def named_model(name: str, options: Mapping[str, Any], *, origin: Origin) -> Model:
    """Load a model named by a file, the command line or code; see `load_model`.

    Also raises `InvalidInputError` if a file names an object that the user did not allow. In files,
    models of other packages accept no options, since options could contain a URL.

    Examples
    --------
    >>> from eval_toolkit.plugins import read_from
    >>> named_model("scripted:Paris", {}, origin=read_from("task.toml")).name
    'scripted'
    """
    kind, which, inline = model_spec(full_name(name))
    if which == "":
        raise InvalidInputError(f"model {name!r} lacks a name after the colon")
    given = {**inline, **options}
    try:
        constructor = load_plugin("models", kind, _OURS, origin=origin)
    except PluginError as error:
        raise _unknown(name, error) from error
    if kind not in _OURS and (which or given):
        origin.refuse(f"sets options, which may contain an address, for the model {name!r:.120}")
    arguments = [which] if which else []
    try:
        model: Model = finish_plugin(
            "models", name, constructor, given, protocol=Model, origin=origin, arguments=arguments
        )
    except InvalidInputError as error:
        if kind not in _WHAT or which or given:
            raise
        raise InvalidInputError(f"{error}; write {_WHAT[kind]}") from error
    return model


def model_spec(name: str) -> tuple[str, str | None, dict[str, Any]]:
    """Split a model name into kind, part after the colon, and options.

    Raises `InvalidInputError` if the part in braces is not a TOML table.

    Examples
    --------
    >>> model_spec("openai:m{max_tries=3}"), model_spec("scripted:{a}")
    (('openai', 'm', {'max_tries': 3}), ('scripted', '{a}', {}))
    """
    kind, which, options = read_spec("models", name, _OURS)
    if which is None or kind not in _OURS or kind == _TEXT or not which.rstrip().endswith("}"):
        return kind, which, options
    which, own = name_and_options(which)
    return kind, which, own


def full_name(name: str) -> str:
    """Return a model name that includes the kind.

    A name without a kind, such as ``gpt-4o``, becomes ``openai:NAME`` if the user specified a
    server.

    Examples
    --------
    >>> from eval_toolkit.models.servers import user_server
    >>> with user_server({"base_url": "http://localhost:8000/v1"}):
    ...     full_name("llama"), full_name("embedded"), full_name("hf:llama")
    ('openai:llama', 'embedded', 'hf:llama')
    """
    server = the_server()
    head = name.partition("{")[0].strip()
    if server.base_url is None or not head or ":" in head or _meant(head):
        return name
    server.tell(f"{head} is interpreted as openai:{head}, a model at --base-url")
    return f"openai:{name.strip()}"


def _meant(kind: str) -> str | None:
    """Return the kind in a name, even if misspelled; "llama" is not taken for "llamacpp"."""
    known = known_name("models", kind, _OURS)
    near = difflib.get_close_matches(kind, available_models(), n=1, cutoff=_TYPING_ERROR)
    return known or next(iter(near), None)


def _unknown(name: str, error: PluginError) -> PluginError:
    """Build the error for a name of unknown kind, with suggestions."""
    head = name.partition("{")[0].strip()
    kind, colon, _ = head.partition(":")
    missing = getattr(error.__cause__, "name", None) in (kind, kind.partition(".")[0])
    if not (missing if colon else str(error).startswith("there is no model")):
        return error  # of a kind that exists, or a module that fails to import another one
    near = _meant(kind)
    if near is not None:
        hint = f"did you mean {near!r}?"
    else:
        hint = f"write openai:{head} for a model of an OpenAI-compatible server"
        hint += f", hf:{head} for one on Hugging Face" if "/" in head else ""
        hint += "; kinds of models: " + ", ".join(available_models())
    return PluginError(f"there is no model {kind if colon else head!r}; {hint}")
