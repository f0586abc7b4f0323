"""`Gemini`: Google models through the Gemini API."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote

from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import ModelError
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
from eval_toolkit.models.openai_compatible.failures import EndpointError, retry_after
from eval_toolkit.models.openai_compatible.http_model import n_alternatives
from eval_toolkit.models.openai_compatible.streaming import Events, Streamed
from eval_toolkit.models.openai_compatible.usage import Tokens
from eval_toolkit.models.openai_compatible.wire import Generated, garbled
from eval_toolkit.models.requests import GenerateRequest

_MOST_STOPS = 5
_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
        "content_filter",
    ),
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"), "tool_calls"),
}


class _Options(HostedOptions, total=False):
    stream: bool
    top_logprobs: int | None


class Gemini(HostedModel):
    """Google Gemini model, queried through the API method ``generateContent``.

    Parameters
    ----------
    model : str
        Name of the model, such as "gemini-2.5-flash".
    base_url : str, optional
        Base URL; by default the value of the environment variable GOOGLE_GEMINI_BASE_URL, else
        Google's.
    api_key_env : str, optional
        Environment variable that contains the API key; by default GEMINI_API_KEY or GOOGLE_API_KEY
        for Google's own URL and none for other URLs.
    headers_env, name, prices
        See `OpenAICompatible`.
    extra_body : mapping, optional
        Fields merged into every request body, including nested objects, such as
        ``{"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}``; None removes a
        field.
    concurrency, timeout_s, max_tries, retry_wait_s, total_timeout_s, requests_per_minute, \
    tokens_per_minute, adaptive, stream, top_logprobs
        See `OpenAICompatible`.

    Notes
    -----
    Thinking tokens count as answer tokens, as for other models. At most five stop strings are sent;
    the client applies the others.

    Examples
    --------
    >>> Gemini("gemini-2.5-flash").describe()["base_url"]
    'generativelanguage.googleapis.com/v1beta'
    """

    @gathers(_Options, **HOSTED, stream=False, top_logprobs=None)
    def __init__(self, model: str, **options: Unpack[_Options]) -> None:
        top = n_alternatives(options["top_logprobs"])
        super().__init__(model, _GenerateContent(model, top, stream=options["stream"]), options)


class _GenerateContent(Dialect):
    """Request and response format of the Gemini API, version v1beta."""

    kind = "gemini"
    service = "the Gemini API"
    address_env = "GOOGLE_GEMINI_BASE_URL"
    key_envs = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    hosts = ("generativelanguage.googleapis.com",)
    version = "/v1beta"

    def __init__(self, model: str, top_logprobs: int | None, *, stream: bool) -> None:
        super().__init__()
        self._top_logprobs = top_logprobs
        name = model if "/" in model else f"models/{model}"
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        self._path = f"{quote(name)}:{method}"

    def address(self) -> str:
        return "https://generativelanguage.googleapis.com"

    def settings(self) -> dict[str, Any]:
        return set_fields(top_logprobs=self._top_logprobs)

    def key_headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def path(self) -> str:
        return self._path

    def body(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        system, conversation = turns(messages, assistant="model", parts="parts", block=_part)
        return {
            "contents": conversation,
            **({"systemInstruction": {"parts": system}} if system else {}),
            "generationConfig": set_fields(
                temperature=request.temperature,
                topP=request.top_p,
                maxOutputTokens=request.max_tokens,
                stopSequences=written(request.stop, _MOST_STOPS),
                seed=request.seed,
                responseLogprobs=None if self._top_logprobs is None else True,
                logprobs=self._top_logprobs,
            ),
        }

    def read(self, payload: Mapping[str, Any]) -> Generated:
        if blocked := (payload.get("promptFeedback") or {}).get("blockReason"):
            raise ModelError(f"the prompt was blocked: {blocked}", kind="refused", status=200)
        candidates = payload.get("candidates")
        if not candidates:
            raise garbled("no candidates")
        reason = candidates[0].get("finishReason") or ""
        parts = (candidates[0].get("content") or {}).get("parts") or []
        texts = [(bool(part.get("thought")), part["text"]) for part in parts if "text" in part]
        text = "".join(text for thought, text in texts if not thought)
        if not text and reason not in _REASONS:
            raise garbled(f"no text (finish reason {reason or 'unknown'})")
        thoughts = "".join(text for thought, text in texts if thought)
        tokens = inner_count(payload, "usageMetadata", "thoughtsTokenCount")
        answer = answered(text, reason, reasons=_REASONS, thoughts=thoughts, tokens=tokens)
        if self._top_logprobs is not None:
            answer.tops = _tops(candidates[0].get("logprobsResult") or {})
        return answer

    def tokens(self, payload: Mapping[str, Any]) -> Tokens:
        given, generated, thought, cached = (
            inner_count(payload, "usageMetadata", f"{what}TokenCount")
            for what in ("prompt", "candidates", "thoughts", "cachedContent")
        )
        # An answer that contains only thoughts has no candidate count.
        known = generated is not None or thought is not None
        total = (generated or 0) + (thought or 0) if known else None
        return Tokens(given, total, cached or 0, thought or 0)

    def is_error(self, payload: Mapping[str, Any]) -> bool:
        return bool(payload.get("error"))

    def corrected(
        self, error: EndpointError, headers: Mapping[str, str], body: bytes
    ) -> EndpointError:
        if error.status == 400 and b"API_KEY_INVALID" in body:
            return EndpointError(str(error), kind="auth", status=400)
        if error.status != 429:
            return error
        # Its quota messages resemble the billing errors of other services.
        wait = error.wait_s if error.wait_s is not None else _delay(body)
        return EndpointError(str(error), kind="rate_limited", status=429, wait_s=wait)

    def events(self) -> Events:
        return _ContentEvents()


def _part(text: str) -> dict[str, str]:
    return {"text": text}


def _tops(candidate: Mapping[str, Any]) -> list[Any]:
    """Return each token with its log-probability and its most likely alternatives."""
    chosen, top = (candidate.get(name, []) for name in ("chosenCandidates", "topCandidates"))
    return [
        (
            one["token"],
            one["logProbability"],
            [(other["token"], other["logProbability"]) for other in others["candidates"]],
        )
        for one, others in zip(chosen, top, strict=True)
    ]


def _delay(body: bytes) -> float | None:
    """Return the retry delay from the error details, in seconds."""
    try:
        details = json.loads(body)["error"]["details"]
        delays = [one["retryDelay"] for one in details if "retryDelay" in one]
        return retry_after({"retry-after": delays[0]})
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


class _ContentEvents:
    """Parser of streamGenerateContent events, which contain successive parts of the answer."""

    def __init__(self) -> None:
        self._whole = Streamed()
        self._parts: list[Any] = []
        self._logprobs: dict[str, list[Any]] = {}
        self._candidate: dict[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> bool:
        self._whole.update({name: value for name, value in event.items() if value is not None})
        candidates = event.get("candidates")
        if not candidates:
            return False
        parts = (candidates[0].get("content") or {}).get("parts") or []
        for name, rows in (candidates[0].get("logprobsResult") or {}).items():
            if isinstance(rows, list):
                self._logprobs.setdefault(name, []).extend(rows)
        self._candidate.update(candidates[0])
        self._parts += parts
        return any(part.get("text") for part in parts)

    def whole(self) -> Streamed:
        blocked = (self._whole.get("promptFeedback") or {}).get("blockReason")
        if not blocked and not self._candidate.get("finishReason"):
            raise garbled("no end event; the stream stopped early")
        if self._candidate:
            content = {"role": "model", "parts": self._parts}
            candidate = {"content": content, "logprobsResult": self._logprobs}
            self._whole["candidates"] = [{**self._candidate, **candidate}]
        return self._whole
