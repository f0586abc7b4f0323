"""`HostedModel`: a model of a service with an interface of its own."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.openai_compatible.addresses import Address
from eval_toolkit.models.openai_compatible.api import Api
from eval_toolkit.models.openai_compatible.http_model import (
    LIMITS,
    HttpModel,
    LimitOptions,
    key_for,
    model_name,
)
from eval_toolkit.models.openai_compatible.wire import Generated
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood


class HostedOptions(LimitOptions, total=False):
    """Options of every hosted model."""

    base_url: str | None
    api_key_env: str | None
    headers_env: Mapping[str, str] | None
    name: str | None
    prices: tuple[float, ...] | None
    extra_body: Mapping[str, Any] | None


HOSTED: dict[str, Any] = {
    "base_url": None,
    "api_key_env": None,
    "headers_env": None,
    "name": None,
    "prices": None,
    "extra_body": None,
    **LIMITS,
}
"""Defaults of `HostedOptions`."""


class Dialect(Api):
    """How a service is asked for text, and how its answers are read.

    All that is specific to a service is here; sending, retries and limits are in `Endpoint`.
    """

    service = ""
    """Name of the service, for messages."""
    address_env = ""
    """Environment variable with the address of the service."""
    key_envs: tuple[str, ...] = ()
    """Environment variables with a key; the first one that is set is sent to ``hosts``."""
    hosts: tuple[str, ...] = ()
    """Ends of the names of the service's own hosts."""
    version = ""
    """Path of the address, if the user's has none."""

    def address(self) -> str:
        """Return the address of the service, if the user gives none."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Return the options that may change answers."""
        return {}

    def path(self) -> str:
        """Return the path of requests."""
        raise NotImplementedError

    def body(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the body of a request."""
        raise NotImplementedError

    def read(self, payload: Mapping[str, Any]) -> Generated:
        """Return the text of an answer; raise "refused" or "garbled" if there is none."""
        raise NotImplementedError


class HostedModel(HttpModel):
    """Model of a service with an interface of its own, which gives no log-likelihoods.

    Parameters
    ----------
    model : str
        Name of the model at the service.
    dialect : Dialect
        Interface of the service.
    options : HostedOptions
        See the subclasses.
    """

    def __init__(self, model: str, dialect: Dialect, options: HostedOptions) -> None:
        name = model_name(model)
        base_url = options["base_url"] or os.environ.get(dialect.address_env, "").strip()
        if not isinstance(base_url, str):
            raise InvalidInputError(
                f"{dialect.kind}:{name} has one address; several are for openai: models"
            )
        address = Address.read(base_url or dialect.address())
        version = "" if urlsplit(address.base).path else dialect.version
        address = replace(address, base=f"{address.base}{version}", tries_v1=False)
        keys, secrets = dialect.key_envs, ("api_key_env", "headers_env", "profile")
        own = next((key for key in keys if os.environ.get(key, "").strip()), (*keys, None)[0])
        dialect.key_env = key_for(
            address,
            options["api_key_env"],
            secrets={name: options.get(name) for name in secrets},
            by_default=own if _is_host(address, dialect.hosts) else None,
        )
        dialect.headers_env = dict(options["headers_env"] or {})
        super().__init__(
            name, address, dialect, name=options["name"], prices=options["prices"], limits=options
        )
        self._model = name
        self._dialect = dialect
        self._extra_body = dict(options["extra_body"] or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, {self._endpoint.address.shown!r})"

    def describe(self) -> dict[str, Any]:
        """Return all settings that may change the answers, without the key and speed settings."""
        return {
            "kind": self._dialect.kind,
            "model": self._model,
            "base_url": self._endpoint.address.shown,
            **self._dialect.settings(),
            "extra_body": redact_secrets(self._extra_body),
        }

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a conversation; a text is sent as a message of the user.

        Raises `ModelError` if all tries fail.
        """
        prompt = request.prompt
        messages = (Message(Role.USER, prompt),) if isinstance(prompt, str) else prompt
        cue = messages[-1].content if messages[-1].role is Role.ASSISTANT else ""
        body = json.dumps(merged(self._dialect.body(request, messages), self._extra_body)).encode()
        return await self._asked(request, self._dialect.path(), body, self._dialect.read, cue=cue)

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise `ModelError` of kind "unsupported": the service does not score given texts."""
        raise ModelError(
            f"{self._dialect.kind}:{self._model}: {self._dialect.service} gives no "
            "log-likelihoods of given texts; ask for generated answers, or a model of an "
            "OpenAI-compatible server, hf: or llamacpp:",
            kind="unsupported",
        )


def _is_host(address: Address, ends: Sequence[str]) -> bool:
    """Return whether an address is one of a service's own, by https."""
    host = urlsplit(address.base).hostname or ""
    own = any(host == end or (end.startswith(".") and host.endswith(end)) for end in ends)
    return own and address.base.startswith("https://")


def turns(
    messages: Sequence[Message], *, assistant: str, parts: str, block: Callable[[str], Any]
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the blocks of the system prompt, and the turns of user and assistant.

    Messages of one role that follow one another are one turn, since some services require that
    roles alternate. ``assistant`` is the service's name of that role, ``parts`` the field with the
    texts of a turn, and ``block`` encodes a text.
    """
    system: list[Any] = []
    taken: list[dict[str, Any]] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            system.append(block(message.content))
            continue
        role = assistant if message.role is Role.ASSISTANT else "user"
        if not taken or taken[-1]["role"] != role:
            taken.append({"role": role, parts: []})
        taken[-1][parts].append(block(message.content))
    return system, taken


def merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with the user's fields, also inside of objects; None removes a field.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None}, "d": 3})
    {'a': {'c': 2}, 'd': 3}
    """
    found = dict(body)
    for name, value in extra.items():
        if isinstance(value, Mapping) and isinstance(found.get(name), Mapping):
            value = merged(found[name], value)
        found[name] = value
    return {name: value for name, value in found.items() if value is not None}


def set_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that are set."""
    return {name: value for name, value in fields.items() if value not in (None, [], ())}


def written(stops: Sequence[str], most: int | None = None) -> list[str]:
    """Return the stop strings that a service takes; answers are cut at the others here.

    Services refuse white space, and more strings than ``most``.
    """
    return [stop for stop in stops if stop.strip()][:most]


def answered(
    text: str, reason: str, *, reasons: Mapping[str, str], thoughts: str, tokens: int | None
) -> Generated:
    """Return an answer with the finish reason in the words of OpenAI; raise if it was refused.

    ``reasons`` translates the service's words; others are kept.
    """
    word = reasons.get(reason, reason)
    if not text and word == "content_filter":
        raise ModelError(f"the answer was refused: {reason}", kind="refused", status=200)
    if not text and word == "tool_calls":
        raise ModelError("the model called a tool and wrote no text", kind="refused", status=200)
    return Generated(text, word, thoughts, tokens)
