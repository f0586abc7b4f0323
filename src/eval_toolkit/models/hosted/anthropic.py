"""`Anthropic`: Claude models through the Anthropic Messages API."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.models.hosted.model import (
    HOSTED,
    Dialect,
    HostedModel,
    HostedOptions,
    answered,
    set_fields,
    turns,
    written,
)
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible.api import inner_count
from eval_toolkit.models.openai_compatible.failures import EndpointError
from eval_toolkit.models.openai_compatible.streaming import Events, Streamed
from eval_toolkit.models.openai_compatible.usage import Tokens
from eval_toolkit.models.openai_compatible.wire import Generated, cue_in_user, garbled
from eval_toolkit.models.requests import GenerateRequest

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "tool_use": "tool_calls",
}
_VERSION = "2023-06-01"


class _Options(HostedOptions, total=False):
    stream: bool
    prefill: str
    default_max_tokens: int


class Anthropic(HostedModel):
    """Anthropic model, queried through the Messages API.

    Parameters
    ----------
    model : str
        Name of the model, such as "claude-sonnet-4-5".
    base_url : str, optional
        Base URL; by default the value of the environment variable ANTHROPIC_BASE_URL, else
        Anthropic's.
    api_key_env : str, optional
        Environment variable that contains the API key; by default ANTHROPIC_API_KEY for Anthropic's
        own URL and none for other URLs, so that the key is never sent elsewhere.
    headers_env, name, prices
        See `OpenAICompatible`.
    extra_body : mapping, optional
        Fields added to every request body, such as ``{"thinking": {"type": "adaptive"}}``; None
        removes a field (``{"temperature": None}`` for models that reject it).
    concurrency, timeout_s, max_tries, retry_wait_s, total_timeout_s, requests_per_minute, \
    tokens_per_minute, adaptive, stream
        See `OpenAICompatible`.
    prefill : {"message", "user"}
        How to send a cue (a final assistant message): as an assistant message, or at the end of the
        user message for models that do not continue assistant messages.
    default_max_tokens : int, default 4096
        Maximum number of tokens in an answer if the request sets no limit; the API requires one.

    Notes
    -----
    System messages become the system prompt, wherever they occur. The API rejects whitespace-only
    stop strings, so these are applied by the client. Seeds are not sent, since the API does not
    support them.

    Examples
    --------
    >>> Anthropic("claude-sonnet-4-5").describe()["base_url"]
    'api.anthropic.com/v1'
    """

    @gathers(_Options, **HOSTED, stream=False, prefill="message", default_max_tokens=4096)
    def __init__(self, model: str, **options: Unpack[_Options]) -> None:
        validation.choice(options["prefill"], "prefill", ("message", "user"))
        most = validation.integer(options["default_max_tokens"], "default_max_tokens", low=1)
        dialect = _Messages(model, options["prefill"], most, stream=options["stream"])
        super().__init__(model, dialect, options)


class _Messages(Dialect):
    """Request and response format of the Messages API, version 2023-06-01."""

    kind = "anthropic"
    service = "the Anthropic API"
    address_env = "ANTHROPIC_BASE_URL"
    key_envs = ("ANTHROPIC_API_KEY",)
    hosts = ("api.anthropic.com",)
    version = "/v1"

    def __init__(self, model: str, prefill: str, max_tokens: int, *, stream: bool) -> None:
        super().__init__()
        self._model = model
        self._prefill = prefill
        self._max_tokens = max_tokens
        self._stream = stream

    def address(self) -> str:
        return "https://api.anthropic.com"

    def settings(self) -> dict[str, Any]:
        return {"prefill": self._prefill, "default_max_tokens": self._max_tokens}

    def headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        headers, secrets = super().headers()
        return {"anthropic-version": _VERSION, **headers}, secrets

    def key_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def path(self) -> str:
        return "messages"

    def body(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        if self._prefill == "user":
            messages = cue_in_user(messages)
        system, conversation = turns(messages, assistant="assistant", parts="content", block=_block)
        if conversation[-1]["role"] == "assistant":  # which must not end with whitespace
            last = conversation[-1]["content"][-1]
            last["text"] = last["text"].rstrip()
        return {
            "model": self._model,
            "max_tokens": request.max_tokens or self._max_tokens,
            "messages": conversation,
            **set_fields(
                system=system,
                temperature=request.temperature,
                top_p=request.top_p,
                stop_sequences=written(request.stop),
                stream=self._stream or None,
            ),
        }

    def read(self, payload: Mapping[str, Any]) -> Generated:
        blocks = payload.get("content")
        if type(blocks) is not list:
            raise garbled("no content")
        text = "".join(block["text"] for block in blocks if block.get("type") == "text")
        thoughts = [block["thinking"] for block in blocks if block.get("type") == "thinking"]
        tokens = inner_count(payload, "usage", "output_tokens_details", "thinking_tokens")
        reason = payload.get("stop_reason") or ""
        reasoning = "\n\n".join(filter(None, thoughts))
        return answered(text, reason, reasons=_REASONS, thoughts=reasoning, tokens=tokens)

    def tokens(self, payload: Mapping[str, Any]) -> Tokens:
        given, generated, read, written_ = (
            inner_count(payload, "usage", name)
            for name in (
                *("input_tokens", "output_tokens"),
                *("cache_read_input_tokens", "cache_creation_input_tokens"),
            )
        )
        if given is not None:  # excludes tokens read from or written to the cache
            given += (read or 0) + (written_ or 0)
        thought = inner_count(payload, "usage", "output_tokens_details", "thinking_tokens")
        return Tokens(given, generated, read or 0, thought or 0)

    def is_error(self, payload: Mapping[str, Any]) -> bool:
        return payload.get("type") == "error"

    def corrected(
        self, error: EndpointError, headers: Mapping[str, str], body: bytes
    ) -> EndpointError:
        if error.kind == "bad_request" and b"credit balance" in body:
            return EndpointError(str(error), kind="auth", status=error.status)
        return error

    def events(self) -> Events:
        return _MessageEvents()


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


class _MessageEvents:
    """Parser of the events of a streamed message."""

    def __init__(self) -> None:
        self._whole = Streamed()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> bool:
        kind = event.get("type")
        if kind == "message_start":
            self._whole.update(event["message"])
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            delta, block = event["delta"], self._blocks[event["index"]]
            for name in ("text", "thinking"):
                if delta.get("type") == f"{name}_delta":
                    block[name] = block.get(name, "") + delta[name]
                    return bool(delta[name])
        elif kind == "message_delta":
            self._whole.update(event["delta"])
            # Counts are cumulative; missing counts keep their values from the start event.
            counts = {name: n for name, n in event.get("usage", {}).items() if n is not None}
            self._whole["usage"] = {**self._whole.get("usage", {}), **counts}
        elif kind == "message_stop":
            self._ended = True
        return False

    def whole(self) -> Streamed:
        if not self._ended:
            raise garbled("no end event; the stream stopped early")
        self._whole["content"] = [block for _, block in sorted(self._blocks.items())]
        return self._whole
