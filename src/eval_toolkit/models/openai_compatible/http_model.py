"""Base class of models queried over HTTP."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from eval_toolkit._internal import validation
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.openai_compatible.addresses import Address
from eval_toolkit.models.openai_compatible.api import Api
from eval_toolkit.models.openai_compatible.endpoint import Endpoint
from eval_toolkit.models.openai_compatible.limits import Budget
from eval_toolkit.models.openai_compatible.retries import RetryRule
from eval_toolkit.models.openai_compatible.usage import Reply, Totals
from eval_toolkit.models.openai_compatible.wire import Generated
from eval_toolkit.models.prices import checked_prices
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion, Usage
from eval_toolkit.models.servers import the_server
from eval_toolkit.plugins import refuse_address

GUESS_TOKENS = 256
"""Estimated number of tokens of an unlimited answer, used until the server reports the count."""


class LimitOptions(TypedDict, total=False):
    """Options for request limits and retries."""

    concurrency: int
    timeout_s: float
    max_tries: int
    retry_wait_s: float
    total_timeout_s: float
    requests_per_minute: float | None
    tokens_per_minute: float | None
    adaptive: bool


LIMITS: dict[str, Any] = {
    "concurrency": 64,
    "timeout_s": 60.0,
    "max_tries": 5,
    "retry_wait_s": 0.5,
    "total_timeout_s": 600.0,
    "requests_per_minute": None,
    "tokens_per_minute": None,
    "adaptive": True,
}
"""Defaults of `LimitOptions`."""


class HttpModel:
    """Base class of models queried over HTTP, with a name, limits, prices and an endpoint.

    Parameters
    ----------
    model : str
        Name of the model in the service's API.
    address : Address
        Address of the service.
    api : Api
        Conventions of the service.
    name : str, optional
        Name in tables; by default, ``model``.
    prices : tuple of two to four floats, optional
        Prices per million tokens; by default, taken from the user's price file.
    limits : LimitOptions
        Request limits and retry settings.
    """

    def __init__(
        self,
        model: str,
        address: Address,
        api: Api,
        *,
        name: str | None,
        prices: tuple[float, ...] | None,
        limits: LimitOptions,
    ) -> None:
        server = the_server()
        if prices is None and server.prices is not None:
            prices = server.prices.of(model)
        spending = server.spending
        if prices is None and spending is not None and spending.max_cost is not None:
            raise InvalidInputError(
                f"`max_cost` needs prices for {api.kind}:{model}; add them to the price file"
            )
        self._name = name or model
        self._concurrency = validation.integer(limits["concurrency"], "concurrency", low=1)
        self._endpoint = Endpoint(
            address,
            api=api,
            concurrency=self._concurrency,
            adaptive=limits["adaptive"],
            timeout_s=_positive(limits["timeout_s"], "timeout_s"),
            rule=RetryRule(
                validation.integer(limits["max_tries"], "max_tries", low=1),
                validation.number(limits["retry_wait_s"], "retry_wait_s", low=0.0),
                total_s=_positive(limits["total_timeout_s"], "total_timeout_s"),
            ),
            budgets=(
                _budget(limits["requests_per_minute"], "requests_per_minute"),
                _budget(limits["tokens_per_minute"], "tokens_per_minute"),
            ),
            prices=_prices(prices),
            spending=spending,
        )
        self._has_prices = prices is not None
        server.tell(self._endpoint.goes_to(model))

    @property
    def name(self) -> str:
        """Name in tables and run folders."""
        return self._name

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent requests."""
        return self._concurrency

    @property
    def api_key_env(self) -> str | None:
        """Environment variable that contains the key."""
        return self._endpoint.key_env

    @property
    def prices(self) -> tuple[float, ...] | None:
        """Prices per million tokens as specified, or None."""
        return self._endpoint.prices if self._has_prices else None

    @property
    def own_temperature(self) -> bool:
        """Whether the server has a default temperature, so that one is sent only if requested."""
        return True

    def totals(self) -> Totals:
        """Return the total requests and usage along with the current concurrency."""
        return self._endpoint.totals()

    async def _send_generation(
        self,
        request: GenerateRequest,
        path: str,
        body: bytes,
        read: Callable[[Mapping[str, Any]], Generated],
        *,
        cue: str = "",
    ) -> RawCompletion:
        """Send a generation request and return the answer without the cue, up to a stop string."""
        n_tokens = 0
        if self._endpoint.counts_tokens:
            n_tokens = len(body) // 4 + (request.max_tokens or GUESS_TOKENS)
        reply = await self._endpoint.ask(path, body, read, n_tokens=n_tokens)
        return self._completion(request, reply, cue=cue)

    def _completion(
        self, request: GenerateRequest, reply: Reply[Generated], *, cue: str = ""
    ) -> RawCompletion:
        """Extract the answer from a response, without the cue and up to a stop string."""
        generated = reply.value
        if cue:
            generated = generated.without_cue(cue)
        if request.stop:
            generated = generated.cut_at(request.stop)
        given, n_generated, cached, _ = reply.tokens
        return RawCompletion(
            generated.text,
            prompt_tokens=given,
            completion_tokens=n_generated,
            finish_reason=generated.finish_reason,
            reasoning=generated.reasoning,
            reasoning_tokens=generated.reasoning_tokens,
            top_logprobs=generated.tops,
            usage=Usage(
                given or 0,
                n_generated or 0,
                self._endpoint.cost(*reply.tokens),
                reply.latency_s,
                reply.tries,
                cached_tokens=cached,
                first_token_s=reply.first_token_s,
            ),
        )

    async def aclose(self) -> None:
        """Close the connections; later requests open new ones."""
        await self._endpoint.aclose()


def n_alternatives(n: Any) -> int | None:
    """Return the number of most likely tokens to request, or None."""
    return None if n is None else validation.integer(n, "top_logprobs", low=1)


def model_name(model: Any) -> str:
    """Return the name of a model; raise an error if it is invalid."""
    if not isinstance(model, str) or not model.strip():
        raise InvalidInputError(
            f"`model` is {model!r}; it must be the name of the model on the server"
        )
    return model


def key_for(
    address: Address, name: str | None, *, secrets: Mapping[str, Any], by_default: str | None
) -> str | None:
    """Return the environment variable that contains the API key for an address.

    Parameters
    ----------
    address : Address
        Address of the server; if it comes from a file, the user must have allowed its host.
    name : str, optional
        Variable named by the user, which must be set.
    secrets : mapping
        Options that select secrets; a file must not set them.
    by_default : str, optional
        Environment variable if ``name`` is not given.
    """
    refuse_address(address.base, secrets)
    if name is not None and not os.environ.get(name, "").strip():
        raise InvalidInputError(
            f"`api_key_env`: the environment variable {redact_secrets(name)} is not set; it must "
            "contain the key"
        )
    return name or by_default


def _positive(value: float, name: str) -> float:
    return validation.number(value, name, low=0.0, include_low=False)


def _budget(per_minute: float | None, name: str) -> Budget | None:
    return None if per_minute is None else Budget(validation.number(per_minute, name, low=1.0))


def _prices(prices: tuple[float, ...] | None) -> tuple[float, ...]:
    return (0.0, 0.0) if prices is None else checked_prices(prices, "`prices`")
