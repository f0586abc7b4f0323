"""Strict, scripted emulations of the Anthropic, Gemini, Bedrock, OpenAI and Azure OpenAI APIs.

Based on the public documentation:

- Anthropic: "Messages", "Streaming messages", "Errors" and "Rate limits" of the API reference
  (anthropic-version 2023-06-01, retrieved November 2026), with the field types of anthropic-sdk-python.
- Gemini: "GenerateContent" of the API reference v1beta (ai.google.dev/api/generate-content) and the
  error model of Google APIs (google.rpc.Status with ErrorInfo and RetryInfo).
- Bedrock: the service model bedrock-runtime 2023-09-30 as shipped with botocore 1.44, and "Create a signed
  AWS API request" (Signature Version 4) of the IAM guide; the signature is computed as described there.
- Azure OpenAI: "Azure OpenAI in Foundry Models REST API reference" (v1 and 2024-10-21) and "API
  version lifecycle" of August 2025; "Content filtering" for refusals.
- OpenAI: "Streaming" and "Chat completions" of the API reference (OpenAPI document 2.3.0).

All emulations reject undocumented fields. `script` maps a substring of the prompt to the faults of its
first, second … attempt.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
import re
import threading
from collections import Counter
from typing import Any
from urllib.parse import quote

from aiohttp import web
from tests.support.fault_server import answer_to, pieces_of, started

KEY = "hosted-test-key-8Jq2Lx0Vn4"
Script = dict[str, list[str]]
Reply = dict[str, Any]


class Hosted:
    """Base class of the emulations: keys, faults and streams; answers are sums or words."""

    paths: tuple[str, ...] = ()

    def __init__(
        self, script: Script | None = None, *, thoughts: str = "", cached: int = 0, text: str = ""
    ) -> None:
        self.script = dict(script or {})
        self.thoughts = thoughts
        self.cached = cached
        self.text = text
        self.bodies: list[Reply] = []
        self.requests: list[web.Request] = []
        self.tries: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    def web_app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.post(path, self.serve) for path in self.paths])
        app.on_shutdown.append(self._stop)
        return app

    async def _stop(self, _: web.Application) -> None:
        self._stopping.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.requests.append(request)
        body = json.loads(raw)
        self.bodies.append(body)
        refused = self.unauthorised(request, raw) or self.unknown(request, body)
        if refused is None and (wrong := self.wrong(body)):
            refused = self.problem("400", wrong)
        if refused is not None:
            return refused
        prompt = self.prompt(body)
        self.tries[prompt] += 1
        faults = next((told for part, told in self.script.items() if part in prompt), [])
        fault = faults[self.tries[prompt] - 1] if self.tries[prompt] <= len(faults) else ""
        if fault[:1].isdigit() or fault in ("too-long", "filtered", "credit", "echo-key"):
            return self.problem(fault, prompt)
        text = self.text or answer_to(prompt)
        payload = self.answer(body, prompt, "" if fault in ("blocked", "refusal") else text, fault)
        if not self.streams(request, body):
            return web.json_response(payload)
        return await self.stream(request, payload, fault)

    async def stream(self, request: web.Request, payload: Reply, fault: str) -> web.StreamResponse:
        """Stream the answer as events, in chunks of seven bytes."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        events = self.events(payload)
        half = len(events) // 2
        for at, (name, data) in enumerate(events):
            if at == half and fault == "stream-error":
                name, data = "error", self.error_event()
            if at == half and fault == "stream-cut":
                break
            if at == half and fault.startswith("stream-stall"):
                while not self._stopping.is_set() and fault.endswith("pings"):
                    ping = {"type": "ping"}
                    await response.write(
                        b"event: ping\r\ndata: %s\r\n\r\n" % json.dumps(ping).encode()
                    )
                    await asyncio.sleep(0.02)
                await self._stopping.wait()
            told = f"event: {name}\r\n" if name else ": a comment\n\n"
            blob = f"{told}data: {data if isinstance(data, str) else json.dumps(data)}\r\n\r\n".encode()
            for start in range(0, len(blob), 7):
                await response.write(blob[start : start + 7])
            if fault == "stream-error" and at == half:
                break
            if fault == "slow":
                await asyncio.sleep(0.15)
        await response.write_eof()
        return response

    # what each interface does in its own way

    def unauthorised(self, request: web.Request, raw: bytes) -> web.Response | None:
        raise NotImplementedError

    def unknown(self, request: web.Request, body: Reply) -> web.Response | None:
        """Return the response for an unknown model."""
        raise NotImplementedError

    def wrong(self, body: Reply) -> str:
        """Return the problem with a request body, or ""."""
        raise NotImplementedError

    def prompt(self, body: Reply) -> str:
        raise NotImplementedError

    def problem(self, fault: str, words: str) -> web.Response:
        raise NotImplementedError

    def answer(self, body: Reply, prompt: str, text: str, fault: str) -> Reply:
        raise NotImplementedError

    def streams(self, request: web.Request, body: Reply) -> bool:
        return bool(body.get("stream"))

    def events(self, payload: Reply) -> list[tuple[str, Any]]:
        raise NotImplementedError

    def error_event(self) -> Reply:
        return {"error": {"message": "upstream failed", "type": "server_error", "code": 503}}


def _extra(given: Reply, known: str, what: str) -> str:
    return next((what % name for name in given if name not in known.split()), "")


def _alternatives(piece: str, n: int) -> list[tuple[str, float]]:
    """Return a token with its log-probability, then the most likely tokens."""
    return [(piece, -0.25), *[(piece, -0.25), (" other", -1.75), (" third", -3.5)][:n]]


def _halves(text: str) -> list[str]:
    return [half for half in (text[: len(text) // 2], text[len(text) // 2 :]) if half]


def _split(told: Reply, n: int) -> list[Reply]:
    """Split log-probabilities into two events: the first token, and the others."""
    if not told or n < 2:
        return [told] if told else []
    cuts = ((0, 1), (1, None))
    return [
        {name: rows and rows[start:stop] for name, rows in told.items()} for start, stop in cuts
    ]


class AnthropicApp(Hosted):
    """POST /v1/messages."""

    paths = ("/v1/messages",)

    def unauthorised(self, request: web.Request, raw: bytes) -> web.Response | None:
        if request.headers.get("x-api-key") != KEY:
            return self.problem("401", "invalid x-api-key")
        if request.headers.get("anthropic-version") != "2023-06-01":
            return self.problem("400", "anthropic-version: header is required")
        return None

    def unknown(self, request: web.Request, body: Reply) -> web.Response | None:
        known = body.get("model") == "claude-test"
        return None if known else self.problem("404", f"model: {body.get('model')}")

    def wrong(self, body: Reply) -> str:
        known = "model max_tokens messages system temperature top_p top_k stop_sequences stream thinking metadata"
        if told := _extra(body, known, "%s: Extra inputs are not permitted"):
            return told
        if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
            return "max_tokens: Field required"
        if not 0 <= body.get("temperature", 1) <= 1:
            return "temperature: range: 0..1"
        if any(not stop.strip() for stop in body.get("stop_sequences", [])):
            return "stop_sequences: each stop sequence must contain non-whitespace"
        if not body.get("messages"):
            return "messages: at least one message is required"
        for message in body["messages"]:
            if message["role"] not in ("user", "assistant"):
                return f"messages: Unexpected role {message['role']!r}"
            if any(not block["text"] for block in message["content"]):
                return "messages: text content blocks must be non-empty"
        last = body["messages"][-1]
        if last["role"] == "assistant" and last["content"][-1]["text"][-1:].isspace():
            return "messages: final assistant content cannot end with trailing whitespace"
        return ""

    def prompt(self, body: Reply) -> str:
        blocks = [block for message in body["messages"] for block in message["content"]]
        return "\n".join(block["text"] for block in [*body.get("system", []), *blocks])

    def problem(self, fault: str, words: str) -> web.Response:
        status, kind, said, headers = {
            "400": (400, "invalid_request_error", words, {}),
            "401": (401, "authentication_error", words, {}),
            "404": (404, "not_found_error", words, {}),
            "429": (429, "rate_limit_error", "too many requests", {"retry-after": "0"}),
            "500": (500, "api_error", "internal", {}),
            "529": (529, "overloaded_error", "Overloaded", {"x-should-retry": "true"}),
            "too-long": (
                400,
                "invalid_request_error",
                "prompt is too long: 9 tokens > 8 maximum",
                {},
            ),
            "credit": (400, "invalid_request_error", "Your credit balance is too low", {}),
            "echo-key": (400, "invalid_request_error", f"bad key {KEY}", {}),
        }[fault]
        error = {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"}
        return web.json_response(error, status=status, headers=headers)

    def answer(self, body: Reply, prompt: str, text: str, fault: str) -> Reply:
        content: list[Reply] = []
        if self.thoughts:
            content.append({"type": "thinking", "thinking": self.thoughts, "signature": "c2ln"})
        if text:
            content.append({"type": "text", "text": text})
        reason = {"cut": "max_tokens", "refusal": "refusal", "partly": "refusal"}
        n_in, n_out = len(pieces_of(prompt)), len(pieces_of(text)) + len(pieces_of(self.thoughts))
        usage = {
            "input_tokens": n_in - self.cached,
            "cache_read_input_tokens": self.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": n_out,
        }
        if self.thoughts:
            n_thoughts = len(pieces_of(self.thoughts))
            usage["output_tokens_details"] = {"thinking_tokens": n_thoughts}  # type: ignore[assignment]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": content,
            "stop_reason": reason.get(fault, "end_turn"),
            "stop_sequence": None,
            "usage": usage,
        }

    def events(self, payload: Reply) -> list[tuple[str, Any]]:
        usage = payload["usage"]
        begin = {**payload, "content": [], "stop_reason": None}
        begin["usage"] = {**usage, "output_tokens": 1}
        begin["usage"].pop("output_tokens_details", None)
        told: list[Reply] = [{"type": "message_start", "message": begin}, {"type": "ping"}]
        for index, block in enumerate(payload["content"]):
            name = "text" if block["type"] == "text" else "thinking"
            empty = {"type": name, name: ""}
            told.append({"type": "content_block_start", "index": index, "content_block": empty})
            deltas: list[Reply] = [
                {"type": f"{name}_delta", name: half} for half in _halves(block[name])
            ]
            if name == "thinking":
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            told += [
                {"type": "content_block_delta", "index": index, "delta": one} for one in deltas
            ]
            told.append({"type": "content_block_stop", "index": index})
        delta = {name: payload[name] for name in ("stop_reason", "stop_sequence")}
        totals = {
            name: usage[name]
            for name in ("output_tokens", "output_tokens_details")
            if name in usage
        }
        told.append({"type": "message_delta", "delta": delta, "usage": totals})
        told.append({"type": "message_stop"})
        return [(one["type"], one) for one in told]

    def error_event(self) -> Reply:
        return {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


class GeminiApp(Hosted):
    """POST /v1beta/models/{model}:generateContent and :streamGenerateContent."""

    paths = (r"/v1beta/models/{model:[^:]+}:{method:\w+}",)

    def unauthorised(self, request: web.Request, raw: bytes) -> web.Response | None:
        if "x-goog-api-key" not in request.headers:
            return self.problem("403", "Method doesn't allow unregistered callers")
        return None if request.headers["x-goog-api-key"] == KEY else self.problem("400-key", "")

    def unknown(self, request: web.Request, body: Reply) -> web.Response | None:
        known = request.match_info["model"] == "gemini-test"
        return None if known else self.problem("404", f"{request.match_info['model']} is not found")

    def wrong(self, body: Reply) -> str:
        unknown = 'Invalid JSON payload received. Unknown name "%s"'
        config = body.get("generationConfig", {})
        if told := _extra(
            body, "contents systemInstruction generationConfig safetySettings", unknown
        ):
            return told
        fields = "temperature topP topK maxOutputTokens stopSequences seed thinkingConfig responseLogprobs logprobs"
        if told := _extra(config, fields, unknown):
            return told
        if not 0 <= config.get("temperature", 1) <= 2:
            return "temperature must be in the range [0.0, 2.0]"
        if len(config.get("stopSequences", [])) > 5:
            return "stop_sequences must have at most 5 items"
        if not body.get("contents"):
            return "contents is not specified"
        if any(turn["role"] not in ("user", "model") for turn in body["contents"]):
            return "Please use a valid role: user, model."
        return ""

    def prompt(self, body: Reply) -> str:
        turns = [body.get("systemInstruction", {"parts": []}), *body["contents"]]
        return "\n".join(part["text"] for turn in turns for part in turn["parts"])

    def problem(self, fault: str, words: str) -> web.Response:
        info = "type.googleapis.com/google.rpc."
        status, name, said, details = {
            "400": (400, "INVALID_ARGUMENT", words, []),
            "400-key": (400, "INVALID_ARGUMENT", "API key not valid.", [{"@type": f"{info}ErrorInfo", "reason": "API_KEY_INVALID"}]),
            "403": (403, "PERMISSION_DENIED", words, []),
            "404": (404, "NOT_FOUND", words, []),
            "429": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.", [{"@type": f"{info}RetryInfo", "retryDelay": "0s"}]),
            "429-wait": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.", [{"@type": f"{info}RetryInfo", "retryDelay": "34.074824224s"}]),
            "500": (500, "INTERNAL", "internal", []),
            "503": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", []),
            "too-long": (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8).", []),
        }[fault]  # fmt: skip
        error = {"code": status, "message": said, "status": name, "details": details}
        return web.json_response({"error": error}, status=status)

    def answer(self, body: Reply, prompt: str, text: str, fault: str) -> Reply:
        n_in = len(pieces_of(prompt))
        usage: Reply = {"promptTokenCount": n_in}
        if self.cached:
            usage["cachedContentTokenCount"] = self.cached
        if fault == "blocked":
            return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": usage}
        parts: list[Reply] = []
        if self.thoughts:
            parts.append({"text": self.thoughts, "thought": True})
            usage["thoughtsTokenCount"] = len(pieces_of(self.thoughts))
        if text:
            parts.append({"text": text})
            usage["candidatesTokenCount"] = len(pieces_of(text))
        n_out = sum(usage.get(f"{name}TokenCount", 0) for name in ("candidates", "thoughts"))
        usage["totalTokenCount"] = n_in + n_out
        reason = {"cut": "MAX_TOKENS", "refusal": "SAFETY", "other": "OTHER"}.get(fault, "STOP")
        candidate: Reply = {"finishReason": reason, "index": 0}
        if parts:
            candidate["content"] = {"parts": parts, "role": "model"}
        config = body.get("generationConfig", {})
        if config.get("responseLogprobs"):
            rows = [_alternatives(piece, config["logprobs"]) for piece in pieces_of(text)]
            named = [[{"token": t, "logProbability": n} for t, n in row] for row in rows]
            candidate["logprobsResult"] = {
                "chosenCandidates": [row[0] for row in named],
                "topCandidates": [{"candidates": row[1:]} for row in named],
            }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-test"}

    def streams(self, request: web.Request, body: Reply) -> bool:
        streams = request.match_info["method"] == "streamGenerateContent"
        assert not streams or request.query["alt"] == "sse"
        return streams

    def events(self, payload: Reply) -> list[tuple[str, Any]]:
        if "candidates" not in payload:
            return [("", payload)]
        (candidate,) = payload["candidates"]
        parts = [
            {**part, "text": half}
            for part in candidate.get("content", {"parts": []})["parts"]
            for half in _halves(part["text"])
        ]
        early = {"promptTokenCount": payload["usageMetadata"]["promptTokenCount"]}
        told = [
            {
                "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}],
                "usageMetadata": early,
            }
            for part in parts
        ]
        for one, some in zip(
            told, _split(candidate.pop("logprobsResult", {}), len(told)), strict=False
        ):
            one["candidates"][0]["logprobsResult"] = some
        ends = {**candidate, "content": {"parts": [{"text": ""}], "role": "model"}}
        return [("", one) for one in [*told, {**payload, "candidates": [ends]}]]


class BedrockApp(Hosted):
    """POST /model/{modelId}/converse, with signatures."""

    paths = (r"/model/{model:.+}/converse",)
    access, secret, token = (
        "AKIDTESTTESTTEST0001",
        "wJalrTESTsecretTESTsecretTEST",
        "session/token+1==",
    )
    region = "eu-central-1"

    def unauthorised(self, request: web.Request, raw: bytes) -> web.Response | None:
        told = request.headers.get("Authorization", "")
        if told == f"Bearer {KEY}":
            return None
        if request.headers.get("X-Amz-Security-Token") != self.token:
            return self.problem("403-token", "")
        return None if told == self.signature(request, raw) else self.problem("403", "")

    def signature(self, request: web.Request, raw: bytes) -> str:
        """Return the authorization header of a correctly signed request."""
        names = re.findall(r"SignedHeaders=([^,]+)", request.headers.get("Authorization", ""))
        signed = names[0] if names else "host"
        assert {"host", "x-amz-date", "x-amz-security-token"} <= set(signed.split(";"))
        path = "/".join(quote(part, safe="-_.~") for part in request.raw_path.split("/"))
        headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in signed.split(";"))
        lines = ["POST", path, "", headers, signed, hashlib.sha256(raw).hexdigest()]
        moment = request.headers["X-Amz-Date"]
        scope = f"{moment[:8]}/{self.region}/bedrock/aws4_request"
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, digest])
        made = hmac.digest(key, text.encode(), "sha256").hex()
        return f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, SignedHeaders={signed}, Signature={made}"

    def unknown(self, request: web.Request, body: Reply) -> web.Response | None:
        known = request.match_info["model"] in ("vendor.test-v1:0", "arn:aws:bedrock:x:1:y/test")
        return None if known else self.problem("404", "")

    def wrong(self, body: Reply) -> str:
        known = "messages system inferenceConfig additionalModelRequestFields guardrailConfig"
        if told := _extra(body, known, "Unexpected field: %s"):
            return told
        config = body.get("inferenceConfig", {})
        if told := _extra(
            config, "maxTokens temperature topP stopSequences", "Unexpected field: %s"
        ):
            return told
        if not 0 <= config.get("temperature", 1) <= 1:
            return "Value at 'inferenceConfig.temperature' failed to satisfy constraint: at most 1"
        roles = [turn["role"] for turn in body["messages"]]
        if roles[:1] != ["user"]:
            return "A conversation must start with a user message."
        if any(one == other for one, other in itertools.pairwise(roles)):
            return "A conversation must alternate between user and assistant roles."
        return ""

    def prompt(self, body: Reply) -> str:
        blocks = [block for turn in body["messages"] for block in turn["content"]]
        return "\n".join(block["text"] for block in [*body.get("system", []), *blocks])

    def problem(self, fault: str, words: str) -> web.Response:
        status, name, said = {
            "400": (400, "ValidationException", words),
            "403": (
                403,
                "InvalidSignatureException",
                "The request signature we calculated does not match",
            ),
            "403-token": (403, "UnrecognizedClientException", "The security token is invalid."),
            "404": (400, "ValidationException", "The provided model identifier is invalid."),
            "424": (424, "ModelErrorException", "The model failed."),
            "429": (429, "ThrottlingException", "Too many requests, please wait."),
            "429-quota": (400, "ServiceQuotaExceededException", "Your quota is exceeded."),
            "503": (503, "ServiceUnavailableException", "The service is unavailable."),
            "too-long": (400, "ValidationException", "Input is too long for requested model."),
        }[fault]
        told = {"x-amzn-ErrorType": f"{name}:http://internal.amazon.com/coral/"}
        return web.json_response({"message": said}, status=status, headers=told)

    def answer(self, body: Reply, prompt: str, text: str, fault: str) -> Reply:
        content: list[Reply] = []
        if self.thoughts:
            told = {"text": self.thoughts, "signature": "c2ln"}
            content.append({"reasoningContent": {"reasoningText": told}})
        if text:
            content.append({"text": text})
        reasons = {
            "cut": "max_tokens",
            "refusal": "content_filtered",
            "guarded": "guardrail_intervened",
        }
        n_in, n_out = len(pieces_of(prompt)), len(pieces_of(text)) + len(pieces_of(self.thoughts))
        usage = {
            "inputTokens": n_in - self.cached,
            "outputTokens": n_out,
            "totalTokens": n_in + n_out,
            "cacheReadInputTokens": self.cached,
            "cacheWriteInputTokens": 0,
        }
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": reasons.get(fault, "end_turn"),
            "usage": usage,
            "metrics": {"latencyMs": 3},
        }


class OpenAIApp(Hosted):
    """POST /v1/chat/completions and /v1/completions of OpenAI, and the chat of Azure OpenAI."""

    paths = (
        "/v1/chat/completions",
        "/v1/completions",
        "/openai/v1/chat/completions",
        "/openai/deployments/{deployment}/chat/completions",
    )

    def unauthorised(self, request: web.Request, raw: bytes) -> web.Response | None:
        if not request.path.startswith("/openai/"):
            return None
        given = request.headers.get("api-key", request.headers.get("Authorization"))
        return None if given in (KEY, f"Bearer {KEY}") else self.problem("401", "")

    def unknown(self, request: web.Request, body: Reply) -> web.Response | None:
        if (
            request.path.startswith("/openai/d")
            and request.query.get("api-version") != "2024-10-21"
        ):
            return self.problem("404", "Resource not found")
        name = request.match_info.get("deployment", body.get("model"))
        missing = self.problem("404", "The API deployment for this resource does not exist.")
        return None if name == "gpt-test" else missing

    def wrong(self, body: Reply) -> str:
        known = "model messages prompt max_tokens max_completion_tokens temperature top_p stop seed stream stream_options logprobs top_logprobs"
        if told := _extra(body, known, "Unrecognized request argument supplied: %s"):
            return told
        if not 0 <= body.get("temperature", 1) <= 2:
            return f"Invalid 'temperature': {body['temperature']}. Expected a value <= 2."
        return "" if len(body.get("stop", [])) <= 4 else "Invalid 'stop': array too long."

    def prompt(self, body: Reply) -> str:
        if "prompt" in body:
            return str(body["prompt"])
        return "\n".join(message["content"] for message in body["messages"])

    def problem(self, fault: str, words: str) -> web.Response:
        filtered = {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True}},
        }
        status, error, headers = {
            "400": (400, {"code": "invalid_request", "message": words}, {}),
            "401": (401, {"code": "401", "message": "Access denied due to invalid subscription key"}, {}),
            "404": (404, {"code": "DeploymentNotFound", "message": words}, {}),
            "429": (429, {"code": "429", "message": "Requests have exceeded the limit."}, {"Retry-After": "0", "retry-after-ms": "0"}),
            "500": (500, {"code": "InternalServerError", "message": "internal"}, {}),
            "filtered": (400, {"code": "content_filter", "status": 400, "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "innererror": filtered}, {}),
        }[fault]  # fmt: skip
        return web.json_response({"error": error}, status=status, headers=headers)

    def answer(self, body: Reply, prompt: str, text: str, fault: str) -> Reply:
        reason = {"cut": "length", "refusal": "content_filter", "partly": "content_filter"}
        choice: Reply = {"index": 0, "finish_reason": reason.get(fault, "stop")}
        if "prompt" in body:
            choice["text"] = text
        else:
            choice["message"] = {"role": "assistant", "content": text or None}
            if self.thoughts:
                choice["message"]["reasoning_content"] = self.thoughts
        rows = [
            _alternatives(piece, body.get("top_logprobs", body.get("logprobs")))
            for piece in pieces_of(text)
        ]
        named = [[{"token": t, "logprob": n} for t, n in row] for row in rows]
        if "top_logprobs" in body and body["logprobs"] is True:
            told = [{**row[0], "top_logprobs": row[1:]} for row in named]
            choice["logprobs"] = {"content": told, "refusal": None}
        elif "prompt" in body and "logprobs" in body:
            choice["logprobs"] = {
                "tokens": [row[0][0] for row in rows],
                "token_logprobs": [row[0][1] for row in rows],
                "top_logprobs": [dict(row[1:]) for row in rows],
            }
        n_thoughts = len(pieces_of(self.thoughts))
        usage = {
            "prompt_tokens": len(pieces_of(prompt)),
            "completion_tokens": len(pieces_of(text)) + n_thoughts,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": n_thoughts},
        }
        return {"id": "c-1", "model": "gpt-test", "choices": [choice], "usage": usage}

    def events(self, payload: Reply) -> list[tuple[str, Any]]:
        (choice,) = payload["choices"]
        head = {"id": "c-1", "object": "chat.completion.chunk", "model": "gpt-test", "usage": None}
        if "text" in choice:
            pieces = [{"text": half} for half in _halves(choice["text"])]
            last: Reply = {"text": ""}
        else:
            message = choice["message"]
            deltas: list[Reply] = [
                {"role": "assistant", "content": None if message["content"] is None else ""}
            ]
            for name in ("reasoning_content", "content"):
                deltas += [{name: half} for half in _halves(message.get(name) or "")]
            pieces, last = [{"delta": delta} for delta in deltas], {"delta": {}}
        for at, some in enumerate(_split(choice.get("logprobs") or {}, len(pieces))):
            pieces[at]["logprobs"] = some
        told = [
            {**head, "choices": [{"index": 0, "finish_reason": None, **piece}]} for piece in pieces
        ]
        ends = {**head, "choices": [{"index": 0, "finish_reason": choice["finish_reason"], **last}]}
        usage = {**head, "choices": [], "usage": payload["usage"]}
        return [("", one) for one in [*told, ends, usage, "[DONE]"]]


class Emulated:
    """Emulation in a separate thread for the duration of a ``with`` block."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        runner, port = await started(self.app, 0)
        self.url = f"http://127.0.0.1:{port}"
        self._ready.set()
        await self._done.wait()
        await runner.cleanup()

    def __enter__(self) -> "Emulated":
        self._thread.start()
        if not self._ready.wait(600):
            raise RuntimeError("the emulation did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(600)
