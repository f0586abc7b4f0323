"""`AzureOpenAI`: Azure OpenAI deployments."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from urllib.parse import quote

from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.hosted.model import HOSTED, Dialect, HostedModel, HostedOptions
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible.http_model import n_alternatives
from eval_toolkit.models.openai_compatible.wire import (
    MAX_STOPS_OPENAI,
    Generated,
)
from eval_toolkit.models.openai_compatible.wire import Dialect as OpenAIDialect
from eval_toolkit.models.requests import GenerateRequest

_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(?:-preview)?")


class _Options(HostedOptions, total=False):
    api_version: str
    stream: bool
    top_logprobs: int | None
    max_tokens_field: str


class AzureOpenAI(HostedModel):
    """Azure OpenAI deployment, queried through chat completions.

    Parameters
    ----------
    model : str
        Name of the deployment.
    base_url : str, optional
        Endpoint of the resource, such as "https://NAME.openai.azure.com"; by default the value of
        the environment variable AZURE_OPENAI_ENDPOINT.
    api_key_env : str, optional
        Environment variable that contains the API key; by default AZURE_OPENAI_API_KEY for Azure
        endpoints and none for other URLs.
    api_version : str, default "v1"
        "v1", or the date of an earlier API version, such as "2024-10-21".
    headers_env, name, prices, extra_body
        As in `OpenAICompatible`; ``headers_env={"Authorization": VARIABLE}`` sends a Microsoft
        Entra ID token.
    concurrency, timeout_s, max_tries, retry_wait_s, total_timeout_s, requests_per_minute, \
    tokens_per_minute, adaptive, stream, top_logprobs
        See `OpenAICompatible`.
    max_tokens_field : str, default "max_completion_tokens"
        Name of the field for the token limit; "max_tokens" for older API versions.

    Examples
    --------
    >>> AzureOpenAI("mine", base_url="https://name.openai.azure.com").describe()["base_url"]
    'name.openai.azure.com/openai/v1'
    """

    @gathers(
        _Options,
        **HOSTED,
        api_version="v1",
        stream=False,
        top_logprobs=None,
        max_tokens_field="max_completion_tokens",
    )
    def __init__(self, model: str, **options: Unpack[_Options]) -> None:
        version = options["api_version"]
        if version != "v1" and not _VERSION.fullmatch(version):
            raise InvalidInputError(
                f"`api_version` is {version!r:.40}; it must be 'v1' or a date such as '2024-10-21'"
            )
        field, stream = options["max_tokens_field"], options["stream"]
        body = OpenAIDialect(
            model,
            field,
            max_stops=MAX_STOPS_OPENAI,
            stream=stream,
            top_logprobs=n_alternatives(options["top_logprobs"]),
        )
        super().__init__(model, _Deployment(body, version), options)


class _Deployment(Dialect):
    """Request and response format of Azure OpenAI chat completions."""

    kind = "azure"
    service = "Azure OpenAI"
    address_env = "AZURE_OPENAI_ENDPOINT"
    key_envs = ("AZURE_OPENAI_API_KEY",)
    hosts = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
    version = "/openai/v1"

    def __init__(self, body: OpenAIDialect, version: str) -> None:
        super().__init__()
        self._body = body
        self._path = "chat/completions"
        self._settings: dict[str, Any] = {"api_version": version}
        if body.top_logprobs is not None:
            self._settings["top_logprobs"] = body.top_logprobs
        if version != "v1":
            self.version = f"/openai/deployments/{quote(str(body.model), safe='')}"
            self._path += f"?api-version={version}"

    def address(self) -> str:
        raise InvalidInputError(
            f"no endpoint set for azure:{self._body.model}; use azure:{self._body.model}"
            "{base_url='https://NAME.openai.azure.com'}, or set AZURE_OPENAI_ENDPOINT"
        )

    def settings(self) -> dict[str, Any]:
        return self._settings

    def key_headers(self, key: str) -> dict[str, str]:
        return {"api-key": key}

    def path(self) -> str:
        return self._path

    def body(self, request: GenerateRequest, messages: Sequence[Message]) -> dict[str, Any]:
        return self._body.chat(request, messages)

    def read(self, payload: Mapping[str, Any]) -> Generated:
        return self._body.read_chat(payload)
