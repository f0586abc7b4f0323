"""`OpenAICompatible`: a model on an OpenAI-compatible server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.openai_compatible.addresses import Address, addresses_of
from eval_toolkit.models.openai_compatible.api import Api
from eval_toolkit.models.openai_compatible.endpoint import Endpoint, run_all
from eval_toolkit.models.openai_compatible.fleet import Fleet
from eval_toolkit.models.openai_compatible.http_model import (
    LIMITS,
    HttpModel,
    LimitOptions,
    key_for,
    model_name,
    n_alternatives,
)
from eval_toolkit.models.openai_compatible.moves import served_model
from eval_toolkit.models.openai_compatible.usage import Totals
from eval_toolkit.models.openai_compatible.wire import (
    MAX_STOPS_OPENAI,
    WAYS,
    Dialect,
    Generated,
    read_text,
)
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Prompt
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.models.servers import the_server

if TYPE_CHECKING:  # not needed for generation
    from eval_toolkit.models.openai_compatible.report import EndpointReport
    from eval_toolkit.models.openai_compatible.scored import Score
    from eval_toolkit.models.openai_compatible.scoring import Once, Scoring, Server, Work
    from eval_toolkit.models.openai_compatible.single import SingleTokens

_DEFAULT_KEY = "OPENAI_API_KEY"


class Prepared(NamedTuple):
    """Generation request that is ready to be sent."""

    path: str
    body: bytes
    read: Callable[[Mapping[str, Any]], Generated]
    cue: str = ""


class _ServerOptions(LimitOptions, total=False):
    """Options for request limits, retries and server capabilities."""

    stream: bool
    loglikelihood: str
    start_text: str
    completions_for_text: bool
    prefill: str
    max_tokens_field: str | None
    default_max_tokens: int
    top_logprobs: int | None


class OpenAICompatible(HttpModel):
    """Model on an OpenAI-compatible server: OpenAI, vLLM, llama.cpp or a gateway.

    Parameters
    ----------
    model : str
        Name of the model on the server.
    base_url : str or sequence of str, optional
        Base URL including ``/v1``, which is tried if the URL has no path. It must not contain a
        password or key. With several URLs, of servers for the same model, each request goes to the
        least loaded available server, and the limits apply per server. The default is the value of
        ``--base-url`` in a command, else of the environment variable OPENAI_BASE_URL, else OpenAI's
        own URL.
    api_key_env : str, optional
        Environment variable that contains the API key; if specified, it must be set. By default
        OPENAI_API_KEY for OpenAI's own URL and none for other URLs, so that the key is never sent
        elsewhere.
    headers_env : mapping of str to str, optional
        Environment variable for each additional header.
    name : str, optional
        Name in tables; by default, ``model``.
    model_id : str, optional
        Name that identifies the model instead of its URL, so that runs and caches stay valid on
        another server. By default a moved server is recognised by its model list.
    concurrency : int, default 64
        Maximum number of concurrent requests; with ``adaptive``, fewer while the server is
        overloaded.
    timeout_s : float, default 60
        Timeout per attempt in seconds; with ``stream``, the maximum wait between parts of an
        answer.
    max_tries : int, default 5
        Maximum number of attempts per request; ``Retry-After`` is respected.
    retry_wait_s : float, default 0.5
        Delay in seconds before the first retry, unless the server specifies one; it doubles with
        each retry, with jitter.
    total_timeout_s : float, default 600
        Period in seconds after the first failure within which retries may start.
    requests_per_minute, tokens_per_minute : float, optional
        Rate limits.
    prices : tuple of two to four floats, optional
        Prices per million prompt tokens and answer tokens, and per million cached and reasoning
        tokens if these differ, in any currency.
    adaptive : bool, default True
        Whether to halve the concurrency on status 429 and timeouts, then gradually increase it
        again.
    stream : bool, default False
        Whether to stream answers. Answers are identical, but ``usage.first_token_s`` is recorded,
        and long answers do not need a long timeout.
    loglikelihood : {"auto", "echo", "prompt_logprobs", "force", "off"}
        Scoring method for log-likelihoods, which is verified before use. "auto" uses the first
        method that passes, and scores single-token choices with one request for the next token.
    start_text : str
        Prefix for texts scored from their first token: the BOS token, for servers that do not add
        one.
    completions_for_text : bool, default True
        Whether to send string prompts to ``/completions``; if False, they are sent as user
        messages.
    prefill : {"auto", "message", "vllm", "user"}
        How to send a cue (a final assistant message): as the last message ("auto", "message"); with
        the two additional fields required by vLLM ("vllm"); or at the end of the last user message,
        for servers that do not continue messages ("user"). If the answer repeats the cue, it is
        removed.
    max_tokens_field : str, optional
        Name of the field for the token limit; by default, ``"max_completion_tokens"`` for OpenAI,
        else ``"max_tokens"``.
    default_max_tokens : int, default 1024
        Maximum number of tokens in an answer to a string prompt if the request sets no limit; most
        servers would otherwise stop after 16 tokens.
    top_logprobs : int, optional
        Number of most likely tokens to store for each token of a chat answer.
    extra_body : mapping, optional
        Fields added to every request body; None removes a field (``{"seed": None}`` for models that
        reject it).

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is invalid, or a file defines the model and the user has not allowed its host
        (`plugins.refuse_address`).

    Notes
    -----
    The key is read from the environment when the first request is sent. It never appears in a file,
    log, repr or error. Redirects are not followed.

    Examples
    --------
    >>> model = OpenAICompatible("my-model", base_url="http://localhost:8000/v1")
    >>> model.describe()["base_url"], model.totals().n_requests
    ('localhost:8000/v1', 0)
    """

    @gathers(
        _ServerOptions,
        **LIMITS,
        stream=False,
        loglikelihood="auto",
        start_text="",
        completions_for_text=True,
        prefill="auto",
        max_tokens_field=None,
        default_max_tokens=1024,
        top_logprobs=None,
    )
    def __init__(
        self,
        model: str,
        *,
        base_url: str | Sequence[str] | None = None,
        api_key_env: str | None = None,
        headers_env: Mapping[str, str] | None = None,
        name: str | None = None,
        model_id: str | None = None,
        prices: tuple[float, ...] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        **server: Unpack[_ServerOptions],
    ) -> None:
        secrets = {"api_key_env": api_key_env, "headers_env": headers_env}
        if base_url is None:
            base_url, api_key_env = the_server().address(model_name(model), api_key_env)
        urls = addresses_of(base_url)
        self._fleet: Fleet[OpenAICompatible] | None = None
        if len(urls) > 1:
            alike: dict[str, Any] = {**secrets, "name": name, "model_id": model_id}
            alike |= {"prices": prices, "extra_body": extra_body, **server}
            each = [OpenAICompatible(model, base_url=url, **alike) for url in urls]
            self._fleet = Fleet(each, model, is_vouched=model_id is not None)
        address = Address.read(urls[0])
        by_default = _DEFAULT_KEY if address.is_openai_by_https else None
        key_env = key_for(address, api_key_env, secrets=secrets, by_default=by_default)
        super().__init__(
            model_name(model),
            address,
            Api(key_env, headers_env),
            name=name,
            prices=prices,
            limits=server,
        )
        self._ways = _ways(server["loglikelihood"])
        self._start_text = server["start_text"]
        self._completions_for_text = server["completions_for_text"]
        self._dialect = Dialect(
            model,
            server["max_tokens_field"]
            or ("max_completion_tokens" if address.is_openai else "max_tokens"),
            _prefill(server["prefill"]),
            validation.integer(server["default_max_tokens"], "default_max_tokens", low=1),
            MAX_STOPS_OPENAI if address.is_openai else None,
            dict(extra_body or {}),
            n_alternatives(server["top_logprobs"]),
            server["stream"],
        )
        self._identity = None if model_id is None else f"id:{model_id}"
        self._base_url = urls[0] if len(urls) == 1 else urls
        self._single: SingleTokens | None = None

    @property
    def base_url(self) -> str | tuple[str, ...]:
        """URL of the server as specified, or the URLs of several servers."""
        return self._base_url

    @property
    def endpoint(self) -> Endpoint:
        """Endpoint of the server; of the first one if there are several."""
        return self._endpoint

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent requests over all servers."""
        return self._concurrency * (1 if self._fleet is None else len(self._fleet.models))

    def totals(self) -> Totals:
        """Return the total requests and usage along with the current concurrency."""
        return super().totals() if self._fleet is None else self._fleet.totals()

    def by_address(self) -> list[dict[str, Any]]:
        """Return the requests, answers and failures per server, if there are several."""
        return [] if self._fleet is None else self._fleet.by_address()

    async def aclose(self) -> None:
        """Close the connections; later requests open new ones."""
        await super().aclose()
        if self._fleet is not None:
            await self._fleet.aclose()

    @property
    def _shown(self) -> str:
        if self._fleet is None:
            return self._endpoint.address.shown
        return ", ".join(sorted(model.endpoint.address.shown for model in self._fleet.models))

    @property
    def default_max_tokens(self) -> int | None:
        """Token limit for answers to string prompts; None if these are sent as messages."""
        return self._dialect.default_max_tokens if self._completions_for_text else None

    @property
    def streams(self) -> bool:
        """Whether answers are streamed."""
        return self._dialect.stream

    @cached_property
    def _server(self) -> "Server":
        from eval_toolkit.models.openai_compatible.scoring import Server

        return Server(self._endpoint, self._dialect)

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._dialect.model!r}, {self._shown!r})"

    def describe(self) -> dict[str, Any]:
        """Return all settings that may affect answers, without keys and performance settings."""
        return {
            "kind": "openai_compatible",
            "model": self._dialect.model,
            "base_url": self._identity or self._shown,
            "prefill": self._dialect.prefill,
            "completions_for_text": self._completions_for_text,
            "default_max_tokens": self._dialect.default_max_tokens,
            "loglikelihood": list(self._ways),
            "start_text": self._start_text,
            "extra_body": redact_secrets(dict(self._dialect.extra_body)),
            **({} if self._dialect.top_logprobs is None else {"top_logprobs": True}),
        }

    def answers_as(self, base_url: str) -> None:
        """Describe the model with ``base_url``, the address under which its answers were stored."""
        self._identity = base_url

    async def served(self) -> dict[str, Any] | None:
        """Return the model's entry in the server's model list, or None."""
        if self._fleet is not None:
            found = await self._fleet.served()
            return None if found is None else dict(found)
        return await served_model(self._endpoint, self._dialect.model)

    @property
    def reads_prompts_again(self) -> bool:
        """Whether scoring sends the prompt again for each choice, generating one token."""
        return True

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a text or a conversation.

        Strings are sent to ``/completions``, conversations to ``/chat/completions``. Token counts
        are None if the server does not report them. Raises `ModelError` if every attempt fails.
        """
        if self._fleet is not None:
            return await self._fleet.ask(lambda one: one.generate(request))
        path, body, read, cue = self._prepared(request)
        return await self._send_generation(request, path, body, read, cue=cue)

    def _prepared(self, request: GenerateRequest) -> Prepared:
        prompt = request.prompt
        if isinstance(prompt, str) and self._completions_for_text:
            return Prepared("completions", self._dialect.text_body(request, prompt), read_text)
        messages = (Message(Role.USER, prompt),) if isinstance(prompt, str) else prompt
        cue = messages[-1].content if messages[-1].role is Role.ASSISTANT else ""
        body = self._dialect.chat_body(request, messages)
        return Prepared("chat/completions", body, self._dialect.read_chat, cue)

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Score continuations with a verified method.

        Parameters
        ----------
        request : LoglikelihoodRequest
            Request to score. Conversations require a server that applies its chat template
            (llama.cpp's ``/apply-template``, vLLM's ``/v1/chat/completions/render``, or
            ``/tokenize`` with messages).

        Returns
        -------
        RawLoglikelihood
            Log-likelihoods in the order of the continuations.

        Raises
        ------
        ModelError
            If no scoring method passes verification (kind "unsupported"), and as in `generate`.
        """
        if self._fleet is not None:
            return await self._fleet.ask(lambda one: one.loglikelihood(request))
        from eval_toolkit.models.openai_compatible.scoring import Work

        scoring = await self._proven()
        if isinstance(scoring, ModelError):
            raise ModelError(str(scoring), kind="unsupported")
        work = Work()
        unique = list(dict.fromkeys(request.continuations))
        scored = await self._scores(scoring, request.prompt, unique, work)
        found = dict(zip(unique, scored, strict=True))
        scores = [found[continuation] for continuation in request.continuations]
        greedy = [score.is_greedy for score in scores]
        cost = self._endpoint.cost(work.prompt_tokens, work.completion_tokens, work.cached_tokens)
        return RawLoglikelihood(
            [score.logprob for score in scores],
            request.continuations,
            n_tokens=[score.n_tokens for score in scores],
            is_greedy=None if None in greedy else [bool(value) for value in greedy],
            prompt_tokens=scores[0].prompt_tokens,
            usage=Usage(
                work.prompt_tokens,
                work.completion_tokens,
                cost,
                work.latency_s,
                work.tries,
                cached_tokens=work.cached_tokens,
            ),
        )

    async def _scores(
        self, scoring: "Scoring", prompt: Prompt, continuations: Sequence[str], work: "Work"
    ) -> "list[Score]":
        from eval_toolkit.models.openai_compatible.scoring import split_tokens
        from eval_toolkit.models.openai_compatible.single import SingleTokens, may_be_single

        context = prompt if isinstance(prompt, str) else await self._rendered(prompt)
        context = context or self._start_text
        if len(self._ways) > 1 and context and may_be_single(continuations):
            if self._single is None:
                self._single = SingleTokens(self._server, scoring)
            found = await self._single.scores(context, continuations, work)
            if found is not None:
                return found
        if isinstance(context, str):
            return await scoring.scores(context, continuations, work)
        return await scoring.by_ids(*await split_tokens(self._server, context, continuations), work)

    async def _rendered(self, messages: Sequence[Message]) -> str | list[int]:
        try:
            return await self._server.rendered([message.to_dict() for message in messages])
        except ModelError as error:
            if error.kind not in ("not_found", "bad_request", "garbled"):
                raise
            raise ModelError(
                f"the log-likelihood after a conversation needs the server's chat template, but {error}; "
                "format the prompt as a string instead (formatter 'concat', or a chat template)",
                kind="unsupported",
            ) from None

    @cached_property
    def _proven(self) -> "Once[Scoring | ModelError]":
        from eval_toolkit.models.openai_compatible.scoring import Once

        return Once(self._prove)

    async def _prove(self) -> "Scoring | ModelError":
        from eval_toolkit.models.openai_compatible.proving import prove

        if not self._ways:
            return ModelError(
                "log-likelihoods are disabled by loglikelihood='off'", kind="unsupported"
            )
        try:
            return await prove(self._server, self._ways)
        except ModelError as error:
            if error.kind != "unsupported":
                raise
            return error

    def token_counts(self, texts: Sequence[str]) -> list[int] | None:
        """Return token counts of strings, computed by a server on this machine.

        Returns None, without sending the strings, if the server is remote or cannot tokenise.
        """
        if not self._endpoint.address.is_loopback:
            return None
        with ThreadPoolExecutor(1) as pool:  # the calling thread may run an event loop
            return pool.submit(asyncio.run, self._token_counts(texts)).result()

    async def _token_counts(self, texts: Sequence[str]) -> list[int] | None:
        from eval_toolkit.models.openai_compatible.scoring import Server

        endpoint = self._endpoint.once()
        server = Server(endpoint, self._dialect)
        try:
            await server.tokens("One")
            return [len(ids) for ids, _ in await run_all([server.tokens(text) for text in texts])]
        except ModelError:
            return None
        finally:
            await endpoint.aclose()

    async def check(self) -> "EndpointReport":
        """Detect the capabilities of the endpoint with about a dozen small requests.

        Returns
        -------
        EndpointReport
            Report with one line per capability.

        Raises
        ------
        ModelError
            If the server cannot be reached or requires a key.
        InvalidInputError
            If the model has several addresses.
        """
        if self._fleet is not None:
            raise InvalidInputError("only one server can be checked at a time; pass one `base_url`")
        from eval_toolkit.models.openai_compatible.report import examine

        return await examine(self._server, self.generate, self._ways)

    def check_sync(self) -> "EndpointReport":
        """Run `check` outside of an event loop."""
        return asyncio.run(self.check())


def _ways(loglikelihood: str) -> tuple[str, ...]:
    validation.choice(loglikelihood, "loglikelihood", ("auto", *WAYS, "off"))
    return {"auto": WAYS, "off": ()}.get(loglikelihood, (loglikelihood,))


def _prefill(prefill: str) -> str:
    validation.choice(prefill, "prefill", ("auto", "message", "vllm", "user"))
    return "message" if prefill == "auto" else prefill
