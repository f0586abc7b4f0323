"""`HostedModel`: a model of a service with its own API."""

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
    """Options shared by all hosted models."""

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
    """Request and response format of a service.

    Subclasses define everything that is specific to a service; `Endpoint` handles sending, retries
    and rate limits.
    """

    service = ""
    """Name of the service, used in messages."""
    address_env = ""
    """Environment variable that contains the URL of the service."""
    key_envs: tuple[str, ...] = ()
    """Environment variables for the API key; the first one set is used, for ``hosts`` only."""
    hosts: tuple[str, ...] = ()
    """Host name suffixes of the service."""
    version = ""
    """Default path for URLs without one."""

    def address(self) -> str:
        """Return the default URL of the service."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Return the options that may affect answers."""
        return {}

    def path(self) -> str:
        """Return the path for requests."""
        raise NotImplementedError

    def body(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the body of a request."""
        raise NotImplementedError

    def read(self, payload: Mapping[str, Any]) -> Generated:
        """Extract the answer; raise an error of kind "refused" or "garbled" if there is none."""
        raise NotImplementedError


class HostedModel(HttpModel):
    """Model of a service with its own API, which does not return log-likelihoods.

    Parameters
    ----------
    model : str
        Name of the model as used by the service.
    dialect : Dialect
        Request and response format of the service.
    options : HostedOptions
        See the subclasses.
    """

    def __init__(self, model: str, dialect: Dialect, options: HostedOptions) -> None:
        name = model_name(model)
        base_url = options["base_url"] or os.environ.get(dialect.address_env, "").strip()
        if not isinstance(base_url, str):
            raise InvalidInputError(
                f"{dialect.kind}:{name} accepts one `base_url`; only openai: models accept several"
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
        """Return all settings that may affect answers, without keys and performance settings."""
        return {
            "kind": self._dialect.kind,
            "model": self._model,
            "base_url": self._endpoint.address.shown,
            **self._dialect.settings(),
            "extra_body": redact_secrets(self._extra_body),
        }

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a conversation; a string is sent as a user message.

        Raises `ModelError` if every attempt fails.
        """
        prompt = request.prompt
        messages = (Message(Role.USER, prompt),) if isinstance(prompt, str) else prompt
        cue = messages[-1].content if messages[-1].role is Role.ASSISTANT else ""
        body = json.dumps(merged(self._dialect.body(request, messages), self._extra_body)).encode()
        return await self._send_generation(
            request, self._dialect.path(), body, self._dialect.read, cue=cue
        )

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise `ModelError` of kind "unsupported", since the service cannot score given text."""
        raise ModelError(
            f"{self._dialect.kind}:{self._model}: {self._dialect.service} does not "
            "return log-likelihoods of given text; use a task with generated answers, or a model "
            "from an OpenAI-compatible server, hf: or llamacpp:",
            kind="unsupported",
        )


def _is_host(address: Address, ends: Sequence[str]) -> bool:
    """Return whether an address is an https URL on a host of the service."""
    host = urlsplit(address.base).hostname or ""
    own = any(host == end or (end.startswith(".") and host.endswith(end)) for end in ends)
    return own and address.base.startswith("https://")


def turns(
    messages: Sequence[Message], *, assistant: str, parts: str, block: Callable[[str], Any]
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the blocks of the system prompt, and the user and assistant turns.

    Consecutive messages with the same role are merged into one turn, since some services require
    alternating roles. ``assistant`` is the service's name for that role, ``parts`` the field that
    contains a turn's content, and ``block`` converts a string to a content block.
    """
    system: list[Any] = []
    merged_turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            system.append(block(message.content))
            continue
        role = assistant if message.role is Role.ASSISTANT else "user"
        if not merged_turns or merged_turns[-1]["role"] != role:
            merged_turns.append({"role": role, parts: []})
        merged_turns[-1][parts].append(block(message.content))
    return system, merged_turns


def merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's fields into a request body, including nested objects; None removes a field.

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
    """Return a dict of the fields that are not None."""
    return {name: value for name, value in fields.items() if value not in (None, [], ())}


def written(stops: Sequence[str], most: int | None = None) -> list[str]:
    """Return the stop strings to send to a service; the client applies the others.

    Services reject whitespace-only strings and more than ``most`` strings.
    """
    return [stop for stop in stops if stop.strip()][:most]


def answered(
    text: str, reason: str, *, reasons: Mapping[str, str], thoughts: str, tokens: int | None
) -> Generated:
    """Build an answer with OpenAI's name for the finish reason; raise an error if it was refused.

    ``reasons`` maps the service's finish reasons; others are kept.
    """
    word = reasons.get(reason, reason)
    if not text and word == "content_filter":
        raise ModelError(f"the answer was refused: {reason}", kind="refused", status=200)
    if not text and word == "tool_calls":
        raise ModelError("the model called a tool and wrote no text", kind="refused", status=200)
    return Generated(text, word, thoughts, tokens)
