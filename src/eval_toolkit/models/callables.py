"""Functions, objects with ``invoke`` and transformers pipelines as models.

Functions run in threads, one call at a time unless a run sets a higher concurrency, because they
may not be thread-safe. Coroutine functions run concurrently in the event loop.
"""

import asyncio
import contextlib
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_origin

from eval_toolkit._internal.hashing import object_digest
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.prompts import format_prompt
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.protocols import Model

_CONVERSATION = frozenset({"messages", "conversation", "history", "chat", "dialogue", "turns"})
"""Names of a first parameter that receives messages; with any other name, it receives a string."""
_LISTS = re.compile(r"(?:typing\.|collections\.abc\.)?(?:list|sequence|iterable)\b", re.IGNORECASE)
_TEXTS = re.compile(r".*\[\s*str\s*\]")
_DECODING = ("temperature", "top_p", "max_tokens", "stop", "seed")
_HOLDERS = ("content", "text", "output_text", "generated_text", "output", "answer", "response")
"""Keys and attributes that may contain the text of an answer."""
_AT_ONCE = 16
_WANTED = (
    "a function that maps a prompt to an answer, an object with `invoke`, a transformers "
    "pipeline, or a name "
    "such as 'openai:gpt-4o'"
)


def as_model(
    given: Any,
    *,
    name: str | None = None,
    messages: bool | None = None,
    base_url: str | Sequence[str] | None = None,
) -> Model:
    """Convert a function, an object with ``invoke``, a pipeline or a name to a model.

    Parameters
    ----------
    given : Model, str, callable or object with ``invoke``
        A model is returned unchanged, and a name is resolved by `load_model`. A function, which may
        be a coroutine function, takes the prompt as a string, or as a list of ``{"role": …,
        "content": …}`` if its first parameter is named ``messages`` (or ``conversation``,
        ``history``, ``chat``) or annotated as a list. Parameters named ``temperature``, ``top_p``,
        ``max_tokens``, ``stop`` and ``seed`` receive the settings of the request. Objects with
        ``invoke`` (LangChain) and text-generation pipelines of transformers need no wrapping. They
        return a string, or an object that contains one, such as a message with ``content`` or a
        response of the openai client.
    name : str, optional
        Name in tables and run folders; by default, the name of the function or class.
    messages : bool, optional
        Whether to pass messages instead of a string; by default, inferred from the first parameter.
    base_url : str or sequence of str, optional
        Address of an OpenAI-compatible server, or of several that serve the same model; for a model
        given by name without an address.

    Returns
    -------
    Model
        Model for `run_task`, `ask` and `run_rollouts`.

    Raises
    ------
    InvalidTypeError
        If the object is not callable, or requires arguments other than the prompt.
    PluginError, InvalidInputError
        If a name does not refer to a model.

    Notes
    -----
    The code of a function is part of its description, so that a run folder never mixes the answers
    of two versions. Code and data that the function uses from elsewhere are not included.

    Examples
    --------
    >>> model = as_model(lambda prompt: prompt.upper(), name="loud")
    >>> asyncio.run(model.generate(GenerateRequest("hello"))).text
    'HELLO'
    >>> def last(messages):
    ...     return messages[-1]["content"]
    >>> asyncio.run(as_model(last).generate(GenerateRequest("hello"))).text
    'hello'
    """
    if isinstance(given, str):
        from eval_toolkit.models.loading import load_model
        from eval_toolkit.models.servers import user_server

        if base_url is None:
            return load_model(given)
        with user_server({"base_url": base_url}):
            return load_model(given)
    if base_url is not None:
        raise InvalidInputError(
            f"`base_url` applies to a model given by name, such as 'openai:NAME', not to "
            f"{given!r:.60}; create the model with it: "
            f'load_model("openai:NAME", {{"base_url": {base_url!r}}})'
        )
    if isinstance(given, type):
        raise InvalidTypeError(
            f"`model` is the class {given.__name__}; pass an object: {given.__name__}(…)"
        )
    if isinstance(given, Model):
        return given
    return CallableModel(given, name=name, messages=messages)


class CallableModel:
    """Model that calls a function or an object with ``invoke``; created by `as_model`.

    Parameters
    ----------
    given, name, messages
        See `as_model`.

    Examples
    --------
    >>> CallableModel(lambda prompt: "Paris", name="parisian").describe()["kind"]
    'callable'
    """

    def __init__(
        self, given: Any, *, name: str | None = None, messages: bool | None = None
    ) -> None:
        self._pipeline = _is_pipeline(given)
        invoked = None if self._pipeline else getattr(given, "invoke", None)
        self._call: Callable[..., Any] = invoked if callable(invoked) else given
        if not callable(self._call):
            raise InvalidTypeError(f"`model` is {_described(given)}; it must be {_WANTED}")
        self.name = name or _name_of(given)
        self._takes: tuple[str, ...] = ()
        chats = False
        if self._pipeline:
            chats = bool(getattr(getattr(given, "tokenizer", None), "chat_template", None))
        elif invoked is None:
            chats, self._takes = _parameters(given, self.name)
        else:  # chat models of LangChain take messages, chains and other models take a string
            chats = hasattr(given, "bind_tools")
        self.speaks_chat = chats if messages is None else messages
        self._awaited = _is_async(self._call)
        self.concurrency = _AT_ONCE if self._awaited else 1
        # Computed here, since the state of a callable may change between calls.
        self._identity = _identity(given)

    def describe(self) -> dict[str, Any]:
        """Return the type, the name, a hash of the code, and the accepted settings."""
        return {
            "kind": "callable",
            "name": self.name,
            "answers": self._identity,
            "messages": self.speaks_chat,
            "takes": list(self._takes),
        }

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Call the function with the prompt and return its answer."""
        arguments = self._arguments(request)
        if self._awaited:
            result = await self._call(self._prompt(request), **arguments)
        else:
            result = await _in_a_thread(self._call, self._prompt(request), arguments)
            if inspect.isawaitable(result):  # such as a lambda around a coroutine function
                result = await result
        if isinstance(result, RawCompletion):
            return result
        text = _text_in(result)
        if text is None:
            raise ModelError(f"{self.name} returned {_described(result)}; it must return a string")
        for stop in request.stop:  # like other models, end before the first stop string
            text = text.partition(stop)[0]
        n_prompt, n_answer = _tokens(result)
        return RawCompletion(
            text,
            prompt_tokens=n_prompt,
            completion_tokens=n_answer,
            usage=Usage(prompt_tokens=n_prompt or 0, completion_tokens=n_answer or 0),
        )

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise `ModelError`, since a function returns strings and not log-likelihoods."""
        raise ModelError(
            f"{self.name} returns strings, not log-likelihoods; ask for the letter of the "
            "choice (style 'mc_completion'), or use a model with log-likelihoods",
            kind="unsupported",
        )

    def _prompt(self, request: GenerateRequest) -> Any:
        if self.speaks_chat:
            turns = request.prompt
            if isinstance(turns, str):
                turns = (Message(Role.USER, turns),)
            return [turn.to_dict() for turn in turns]
        return request.prompt if isinstance(request.prompt, str) else _as_text(request.prompt)

    def _arguments(self, request: GenerateRequest) -> dict[str, Any]:
        if self._pipeline:
            return _of_pipeline(request)
        ignored = [
            name
            for name, given in (("temperature", request.temperature), ("top_p", request.top_p))
            if given and name not in self._takes
        ]
        if ignored:
            raise ModelError(
                f"{self.name} has no parameter `{ignored[0]}`, so that setting would be ignored; "
                "add the parameter or omit the setting",
                kind="unsupported",
            )
        return {name: getattr(request, name) for name in self._takes}


def _as_text(turns: Sequence[Message]) -> str:
    if len(turns) == 1:
        return turns[0].content
    text = format_prompt(turns, "plain")
    assert isinstance(text, str)  # noqa: S101 - only "chat" returns messages
    return text


async def _in_a_thread(call: Callable[..., Any], prompt: Any, arguments: dict[str, Any]) -> Any:
    """Run a call in a daemon thread, so that an interrupt need not wait for it."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(setter: Callable[[Any], None], value: Any) -> None:
        if not answered.done():
            setter(value)

    def work() -> None:
        try:
            setter, value = answered.set_result, context.run(call, prompt, **arguments)
        except StopIteration as error:  # cannot be raised into a future
            setter, value = answered.set_exception, RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # re-raised where the answer is awaited
            setter, value = answered.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(settle, setter, value)

    threading.Thread(target=work, name="eval-toolkit-model", daemon=True).start()
    return await answered


def _parameters(given: Any, name: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether a function takes messages, and the generation settings it accepts."""
    try:
        listed = list(inspect.signature(given).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return False, ()
    kinds = inspect.Parameter
    places = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL)
    first = next((one for one in listed if one.kind in places), None)
    if first is None:
        raise InvalidTypeError(f"`model` is {name}, which takes no prompt; add a parameter")
    rest = [one for one in listed if one is not first]
    takes = tuple(one.name for one in rest if one.name in _DECODING)
    needed = [
        one.name
        for one in rest
        if one.default is kinds.empty
        and one.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        and one.name not in takes
    ]
    if needed:
        raise InvalidTypeError(
            f"`model` is {name}, which also requires `{needed[0]}`; a model receives only the prompt: "
            f"pass lambda prompt: {name}(prompt, {needed[0]}=…)"
        )
    note = _annotation(first)
    if _LISTS.match(note) and _TEXTS.match(note):
        raise InvalidTypeError(
            f"`model` is {name}, which takes a list of strings; a model answers one prompt: pass "
            f"lambda prompt: {name}([prompt])[0]"
        )
    return first.name in _CONVERSATION or bool(_LISTS.match(note)), takes


def _annotation(parameter: inspect.Parameter) -> str:
    note = parameter.annotation
    if note is inspect.Parameter.empty:
        return ""
    plain = isinstance(note, type) and get_origin(note) is None
    return note.__qualname__ if plain else str(note)


def _is_async(call: Any) -> bool:
    while hasattr(call, "func"):  # functools.partial
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 -- the method is inspected, not called
    )


def _is_pipeline(given: Any) -> bool:
    return type(given).__module__.startswith("transformers.pipelines")


def _of_pipeline(request: GenerateRequest) -> dict[str, Any]:
    """Convert the generation settings of a request to pipeline arguments."""
    sampled = request.heat > 0
    limit = {} if request.max_tokens is None else {"max_new_tokens": request.max_tokens}
    share = {} if request.top_p is None else {"top_p": request.top_p}
    drawn = {"temperature": request.temperature, **share} if sampled else {}
    return {"return_full_text": False, "do_sample": sampled, **limit, **drawn}


def _name_of(given: Any) -> str:
    """Return the name of a function, or of the model or class of an object."""
    name = getattr(given, "__name__", "")
    if name == "<lambda>":
        return "function"
    model = getattr(given, "model", None)
    for found in (
        name,
        getattr(given, "model_name", None),
        model,
        getattr(model, "name_or_path", None),
    ):
        if isinstance(found, str) and found:
            return found
    if hasattr(given, "func"):  # functools.partial
        return _name_of(given.func)
    return type(given).__name__


def _identity(given: Any) -> str:
    """Return a hash of the wrapped object, or its name if its state cannot be read."""
    name = f"{type(given).__module__}.{type(given).__qualname__}"
    if _is_pipeline(given):  # the weights are those of the named model
        return f"{name}:{_name_of(given)}"
    code = getattr(getattr(given, "__func__", given), "__code__", None)
    parts = [given] if code is None else [given, code, getattr(given, "__defaults__", None)]
    return object_digest(parts) or str(getattr(given, "__qualname__", name))


def _text_in(result: Any) -> str | None:
    """Extract the text from a result: a string, a message, a response or a list of one."""
    if result is None or isinstance(result, str):
        return result
    if isinstance(result, Mapping):
        held = next((key for key in _HOLDERS if key in result), None)
        return None if held is None else _text_in(result[held])
    if isinstance(result, Sequence):
        return _text_in_list(result)
    choices = getattr(result, "choices", None)
    if isinstance(choices, Sequence) and choices:  # a response of the openai client
        return _text_in(getattr(choices[0], "message", choices[0]))
    for name in _HOLDERS:
        found = getattr(result, name, None)
        if isinstance(found, (str, Sequence)):
            return _text_in(found)
    return None


def _text_in_list(result: Sequence[Any]) -> str | None:
    if not result or isinstance(result, (bytes, bytearray)):
        return None
    last = result[-1]
    if isinstance(last, Mapping) and "role" in last:  # the conversation, with the answer
        return _text_in(last)
    if all(isinstance(part, Mapping) and "type" in part for part in result):  # parts of a message
        return "".join(_text_in(part) or "" for part in result)
    return _text_in(result[0]) if len(result) == 1 else None


def _tokens(result: Any) -> tuple[int | None, int | None]:
    """Return the numbers of prompt and completion tokens; None if they are not reported."""
    for holder, names in (
        ("usage_metadata", ("input_tokens", "output_tokens")),
        ("usage", ("prompt_tokens", "completion_tokens")),
    ):
        usage = getattr(result, holder, None)
        if usage is None:
            continue
        get = (
            usage.get
            if isinstance(usage, Mapping)
            else lambda name, usage=usage: getattr(usage, name, None)
        )
        found = [get(name) for name in names]
        return tuple(n if type(n) is int and n >= 0 else None for n in found)  # type: ignore[return-value]
    return None, None


def _described(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.60}" if value is not None else "None"
