"""`Bedrock`: Amazon Bedrock models through the Converse API."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote

from eval_toolkit._internal.optional import require
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, ModelError
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
from eval_toolkit.models.openai_compatible.usage import Tokens
from eval_toolkit.models.openai_compatible.wire import Generated, garbled
from eval_toolkit.models.requests import GenerateRequest

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "tool_use": "tool_calls",
}
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
_REGION_ENVS = ("AWS_REGION", "AWS_DEFAULT_REGION")


class _Options(HostedOptions, total=False):
    region: str | None
    profile: str | None


class Bedrock(HostedModel):
    """Amazon Bedrock model, queried through the Converse API.

    Parameters
    ----------
    model : str
        Id or ARN of a model or an inference profile, such as
        "anthropic.claude-3-haiku-20240307-v1:0".
    region : str, optional
        AWS region; by default the value of the environment variable AWS_REGION or
        AWS_DEFAULT_REGION.
    profile : str, optional
        Profile in the AWS configuration files whose credentials sign the requests.
    base_url : str, optional
        Endpoint URL; by default the value of the environment variable
        AWS_ENDPOINT_URL_BEDROCK_RUNTIME, else the endpoint for the region.
    api_key_env : str, optional
        Environment variable that contains a Bedrock API key, which replaces request signing; by
        default, AWS_BEARER_TOKEN_BEDROCK if it is set and the URL is Amazon's own.
    headers_env, name, prices
        See `OpenAICompatible`.
    extra_body : mapping, optional
        Fields merged into every request body, including nested objects, such as
        ``{"additionalModelRequestFields": {"top_k": 5}}``; None removes a field.
    concurrency, timeout_s, max_tries, retry_wait_s, total_timeout_s, requests_per_minute, \
    tokens_per_minute, adaptive
        See `OpenAICompatible`.

    Notes
    -----
    Without an API key, requests are signed (Signature Version 4) with the credentials that botocore
    finds in the environment, configuration files or roles. The secret key itself is never sent.
    Streaming is not supported, since Bedrock streams a binary event format.

    Examples
    --------
    >>> Bedrock("amazon.nova-lite-v1:0", region="eu-central-1").describe()["base_url"]
    'bedrock-runtime.eu-central-1.amazonaws.com'
    """

    @gathers(_Options, **HOSTED, region=None, profile=None)
    def __init__(self, model: str, **options: Unpack[_Options]) -> None:
        super().__init__(model, _Converse(model, options["region"], options["profile"]), options)


class _Converse(Dialect):
    """Request and response format of Amazon Bedrock Runtime, version 2023-09-30."""

    kind = "bedrock"
    service = "Amazon Bedrock"
    address_env = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
    key_envs = ("AWS_BEARER_TOKEN_BEDROCK",)
    hosts = (".amazonaws.com", ".api.aws")

    def __init__(self, model: str, region: str | None, profile: str | None) -> None:
        super().__init__()
        named = [region, *map(os.environ.get, _REGION_ENVS)]
        self._region = next((name for name in named if name), "")
        if not _REGION.fullmatch(self._region):
            raise InvalidInputError(
                f"the region for bedrock:{model} is {self._region!r:.60}; set region='us-east-1', "
                "for example, or set AWS_REGION"
            )
        self._path = f"/model/{quote(str(model), safe='')}/converse"
        self._profile = profile
        self._signer: Any = None

    def address(self) -> str:
        return f"https://bedrock-runtime.{self._region}.amazonaws.com"

    def settings(self) -> dict[str, Any]:
        return {"region": self._region}

    @property
    def _signs(self) -> bool:
        return not (self.key_env and os.environ.get(self.key_env, "").strip())

    @property
    def sent_along(self) -> str:
        if not self._signs:
            return super().sent_along
        require("botocore", feature="bedrock: without an API key", extra="bedrock")
        whose = f"profile {self._profile}" if self._profile else "botocore"
        return f"signed with credentials from {whose}"

    @property
    def has_key(self) -> bool:
        return True

    @property
    def key_hint(self) -> str:
        return self.sent_along

    def headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        headers, secrets = super().headers()
        if self._signs:
            self._signer = _Signer(self._profile, self._region)
            secrets = (*secrets, *self._signer.secrets)
        return headers, secrets

    def signed(self, method: str, url: str, body: bytes) -> dict[str, str]:
        return {} if self._signer is None else self._signer.headers(method, url, body)

    def path(self) -> str:
        return self._path

    def body(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        system, conversation = turns(messages, assistant="assistant", parts="content", block=_block)
        return {
            "messages": conversation,
            **set_fields(system=system),
            "inferenceConfig": set_fields(
                maxTokens=request.max_tokens,
                temperature=request.temperature,
                topP=request.top_p,
                stopSequences=written(request.stop),
            ),
        }

    def read(self, payload: Mapping[str, Any]) -> Generated:
        blocks = payload["output"]["message"]["content"]
        if type(blocks) is not list:
            raise garbled("no content")
        text = "".join(block["text"] for block in blocks if "text" in block)
        thoughts = [
            (block.get("reasoningContent") or {}).get("reasoningText", {}).get("text", "")
            for block in blocks
        ]
        reasoning = "\n\n".join(filter(None, thoughts))
        reason = payload.get("stopReason") or ""
        return answered(text, reason, reasons=_REASONS, thoughts=reasoning, tokens=None)

    def tokens(self, payload: Mapping[str, Any]) -> Tokens:
        given, generated, read, written_ = (
            inner_count(payload, "usage", f"{name}Tokens")
            for name in ("input", "output", "cacheReadInput", "cacheWriteInput")
        )
        if given is not None:  # excludes tokens read from or written to the cache
            given += (read or 0) + (written_ or 0)
        return Tokens(given, generated, read or 0)

    def is_error(self, payload: Mapping[str, Any]) -> bool:
        return False

    def corrected(
        self, error: EndpointError, headers: Mapping[str, str], body: bytes
    ) -> EndpointError:
        name = headers.get("x-amzn-errortype", "").partition(":")[0]
        kinds = {
            "ModelErrorException": "server",
            "ServiceQuotaExceededException": "rate_limited",
            "ThrottlingException": "rate_limited",
        }
        kind = kinds.get(name, error.kind)
        if b"model identifier is invalid" in body:
            kind = "not_found"
        words = f"{error} [{name}]" if name else str(error)
        return EndpointError(words, kind=kind, status=error.status, wait_s=error.wait_s)


def _block(text: str) -> dict[str, str]:
    return {"text": text}


class _Signer:
    """Signer of requests that uses the credentials found by botocore."""

    def __init__(self, profile: str | None, region: str) -> None:
        session = require("botocore.session", feature="bedrock:", extra="bedrock")
        self._auth = require("botocore.auth", feature="bedrock:", extra="bedrock")
        self._request = require("botocore.awsrequest", feature="bedrock:", extra="bedrock")
        self._region = region
        try:
            self._credentials = session.Session(profile=profile).get_credentials()
        except Exception as error:  # many exception types, such as for an unknown profile
            raise ModelError(f"cannot read the AWS credentials: {error}", kind="auth") from error
        if self._credentials is None:
            raise ModelError(
                "botocore found no AWS credentials; run `aws configure`, or set "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK",
                kind="auth",
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that must not appear in messages."""
        now = self._credentials.get_frozen_credentials()
        return tuple(filter(None, (now.access_key, now.secret_key, now.token)))

    def headers(self, method: str, url: str, body: bytes) -> dict[str, str]:
        """Sign a request and return its headers."""
        # Role credentials expire; botocore renews them.
        now = self._credentials.get_frozen_credentials()
        request = self._request.AWSRequest(
            method, url, headers={"Content-Type": "application/json"}, data=body
        )
        self._auth.SigV4Auth(now, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())
