"""Three methods to compute log-likelihoods over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Role
from eval_toolkit.models.openai_compatible.endpoint import Endpoint, run_all
from eval_toolkit.models.openai_compatible.scored import (
    NextToken,
    Ruler,
    Score,
    ScoredText,
    StraddleError,
    another_text,
    in_order,
    read_echo,
    read_next_token,
    read_prompt_logprobs,
)
from eval_toolkit.models.openai_compatible.usage import Reply
from eval_toolkit.models.openai_compatible.wire import Dialect, garbled

T = TypeVar("T")
MISSING = ("not_found", "bad_request", "garbled", "unsupported")
"""Kinds of errors returned by servers that lack an endpoint."""


class Once(Generic[T]):
    """Result of a coroutine that runs only once, even for concurrent callers and later loops."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def __call__(self) -> T:
        """Return the result; failures are not cached."""
        if not self._made:
            loop = asyncio.get_running_loop()
            if self._lock is None or self._lock[0] is not loop:
                self._lock = (loop, asyncio.Lock())
            async with self._lock[1]:
                if not self._made:
                    self._made.append(await self._make())
        return self._made[0]


class Work:
    """Total usage of the requests needed for one answer."""

    __slots__ = ("cached_tokens", "completion_tokens", "latency_s", "prompt_tokens", "tries")

    def __init__(self) -> None:
        self.prompt_tokens = self.completion_tokens = self.cached_tokens = 0
        self.latency_s = 0.0
        self.tries = 1

    def add(self, reply: Reply[Any]) -> None:
        """Add the usage of a response."""
        self.prompt_tokens += reply.tokens[0] or 0
        self.completion_tokens += reply.tokens[1] or 0
        self.cached_tokens += reply.tokens.cached
        self.latency_s += reply.latency_s
        self.tries += reply.tries - 1


class Server:
    """Low-level requests that scoring methods use."""

    def __init__(self, endpoint: Endpoint, dialect: Dialect) -> None:
        self.endpoint = endpoint
        self.dialect = dialect
        self._road = 0

    async def scored(
        self,
        prompts: Sequence[str] | Sequence[Sequence[int]],
        way: str,
        work: Work | None = None,
    ) -> list[ScoredText]:
        """Request the log-probabilities of entire texts with ``echo`` or ``prompt_logprobs``."""
        fields: dict[str, Any] = {"model": self.dialect.model, "max_tokens": 1, "temperature": 0}
        fields["prompt"] = prompts[0] if len(prompts) == 1 else list(prompts)
        fields |= {"echo": True, "logprobs": 1} if way == "echo" else {"prompt_logprobs": 1}
        reply = await self._complete(fields, len(prompts), work)
        # Parsed here, not in the retries: retries do not change an unexpected format.
        if way == "echo":
            return read_echo(reply.value, reply.tokens[0])
        texts = [prompt if isinstance(prompt, str) else "" for prompt in prompts]
        return read_prompt_logprobs(reply.value, texts, reply.tokens[0])

    async def _complete(
        self, fields: dict[str, Any], n: int, work: Work | None
    ) -> Reply[list[dict[str, Any]]]:
        body = self.dialect.encode(fields)
        n_tokens = len(body) // 4 if self.endpoint.counts_tokens else 0
        read = partial(in_order, n=n)
        reply = await self.endpoint.ask("completions", body, read, n_tokens=n_tokens)
        if work is not None:
            work.add(reply)
        return reply

    async def next_token(
        self, prompt: str | Sequence[int], forced: int | None = None, work: Work | None = None
    ) -> NextToken:
        """Request the most likely or the forced next token with its log-probability."""
        fields = {} if forced is None else {"logit_bias": {str(forced): 100}}
        return read_next_token((await self.next_choice(prompt, fields, work)).value[0])

    async def next_choice(
        self, prompt: str | Sequence[int], fields: Mapping[str, Any], work: Work | None = None
    ) -> Reply[list[dict[str, Any]]]:
        """Request one generated token with log-probabilities."""
        body = {"model": self.dialect.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        return await self._complete({**body, "logprobs": 1, **fields}, 1, work)

    async def tokens(self, text: str, *, special: bool = True) -> tuple[list[int], list[str]]:
        """Tokenise a text; return the ids and strings ("" if unknown) of the tokens."""
        # One body for both servers: llama.cpp reads `content`, vLLM reads `prompt`.
        body = self.dialect.encode(
            {
                "model": self.dialect.model,
                "content": text,
                "prompt": text,
                "add_special": special,
                "add_special_tokens": special,
                "with_pieces": True,
                "return_token_strs": True,
            }
        )
        return (await self.endpoint.ask("/tokenize", body, _read_tokens)).value

    async def spelling(self, ids: Sequence[int]) -> str:
        """Detokenise tokens."""
        body = self.dialect.encode(
            {"model": self.dialect.model, "tokens": list(ids), "skip_special_tokens": False}
        )
        return (await self.endpoint.ask("/detokenize", body, _read_spelling)).value

    async def rendered(self, messages: Sequence[Mapping[str, str]]) -> str | list[int]:
        """Render a conversation with the server's template, as a string or else as tokens."""
        fields: dict[str, Any] = {"model": self.dialect.model, "messages": messages}
        if messages[-1]["role"] == Role.ASSISTANT:
            fields |= {"continue_final_message": True, "add_generation_prompt": False}
        roads: tuple[tuple[str, Callable[[Mapping[str, Any]], str | list[int]], Any], ...] = (
            ("/apply-template", _read_prompt, {"messages": messages}),  # llama.cpp
            ("chat/completions/render", _read_ids, fields),  # vLLM from 0.18
            ("/tokenize", _read_ids, fields),  # vLLM, SGLang
        )
        failure: ModelError | None = None
        for at, (path, read, body) in enumerate(roads[self._road :], self._road):
            try:
                found = await self.endpoint.ask(path, self.dialect.encode(body), read)
            except ModelError as error:
                if error.kind not in MISSING:
                    raise
                failure = failure or error
            else:
                self._road = at
                return found.value
        raise failure or garbled("no conversation")


def _read_tokens(payload: Mapping[str, Any]) -> tuple[list[int], list[str]]:
    tokens = payload.get("tokens")
    if type(tokens) is not list or not tokens:
        raise garbled("no tokens")
    if all(type(token) is int for token in tokens):
        pieces = payload.get("token_strs")
        there = type(pieces) is list and len(pieces) == len(tokens)
        return tokens, list(map(str, pieces)) if there and pieces else [""] * len(tokens)
    try:
        pairs = [(int(token["id"]), token["piece"]) for token in tokens]
    except (TypeError, KeyError, ValueError):
        raise garbled("tokens in an unknown format") from None
    return [token_id for token_id, _ in pairs], [
        piece if type(piece) is str else "" for _, piece in pairs
    ]


def _read_ids(payload: Mapping[str, Any]) -> list[int]:
    ids = payload.get("token_ids", payload.get("tokens"))
    if type(ids) is not list or not ids or not all(type(token) is int for token in ids):
        raise garbled("no tokens of the conversation")
    return ids


def _read_spelling(payload: Mapping[str, Any]) -> str:
    for name in ("prompt", "content", "text"):  # vLLM, llama.cpp, SGLang
        if type(payload.get(name)) is str:
            return str(payload[name])
    raise garbled("no text of the tokens")


def _read_prompt(payload: Mapping[str, Any]) -> str:
    prompt = payload.get("prompt")
    if type(prompt) is not str:
        raise garbled("no prompt")
    return prompt


class Scoring(Protocol):
    """Verified scoring method."""

    @property
    def name(self) -> str:
        """Name of the method in reports."""
        ...

    async def scores(self, prompt: str, continuations: Sequence[str], work: Work) -> list[Score]:
        """Return the score of each continuation."""
        ...

    async def by_ids(
        self, before: Sequence[int], after: Sequence[Sequence[int]], work: Work
    ) -> list[Score]:
        """Return the score of each continuation, given as the tokens that follow the prompt."""
        ...


@dataclass(frozen=True, slots=True)
class WholeText:
    """Score prompt and continuation in one request, with ``echo`` or ``prompt_logprobs``."""

    server: Server
    name: str
    ruler: Ruler
    takes_lists: bool

    async def scores(self, prompt: str, continuations: Sequence[str], work: Work) -> list[Score]:
        """Return the score of each continuation, in one request if lists are supported."""
        texts = [prompt + continuation for continuation in continuations]
        scored = await self._scored(texts, work)
        for text, one in zip(texts, scored, strict=True):
            if not one.is_about(text):  # verified, but long texts may be truncated
                raise another_text(one.text or "")
        return await self.read(scored, prompt, continuations, work)

    async def read(
        self, scored: Sequence[ScoredText], prompt: str, continuations: Sequence[str], work: Work
    ) -> list[Score]:
        """Extract the scores from the responses; if these are ambiguous, score by token ids."""
        try:
            return [
                self.ruler.score(one, prompt, continuation)
                for one, continuation in zip(scored, continuations, strict=True)
            ]
        except StraddleError as straddle:
            try:
                before, after = await split_tokens(self.server, prompt, continuations)
            except ModelError as error:
                if error.kind not in MISSING:
                    raise
                raise StraddleError(
                    f"{straddle}; scoring by token ids is not possible: {error}", kind="bad_request"
                ) from None
        return await self.by_ids(before, after, work)

    async def _scored(self, prompts: Sequence[Any], work: Work) -> list[ScoredText]:
        if self.takes_lists or len(prompts) == 1:
            return await self.server.scored(prompts, self.name, work)
        each = [self.server.scored([prompt], self.name, work) for prompt in prompts]
        return [one for (one,) in await run_all(each)]

    async def by_ids(
        self, before: Sequence[int], after: Sequence[Sequence[int]], work: Work
    ) -> list[Score]:
        """Return the score of each continuation, in one request if lists are supported."""
        scored = await self._scored([[*before, *ids] for ids in after], work)
        for one, ids in zip(scored, after, strict=True):
            n_sent = len(before) + len(ids)
            if one.n_prompt not in (None, n_sent):
                raise garbled(f"{one.n_prompt} prompt tokens, but {n_sent} were sent")
        return [
            one.between(len(before), len(before) + len(ids))
            for one, ids in zip(scored, after, strict=True)
        ]


async def split_tokens(
    server: Server, prompt: str | Sequence[int], continuations: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """Return the tokens of the prompt and of each continuation.

    The tokens of the entire text are used if they start with the tokens of the prompt. If a token
    would straddle the boundary, or only the tokens of the prompt are known, the continuation is
    tokenised separately, and its tokens must spell it when they follow the prompt.
    """
    if isinstance(prompt, str):
        before = (await server.tokens(prompt))[0] if prompt else []
    else:
        before = list(prompt)

    async def after(continuation: str) -> list[int]:
        if isinstance(prompt, str):
            whole, _ = await server.tokens(prompt + continuation)
            if len(whole) > len(before) and whole[: len(before)] == before:
                return whole[len(before) :]
        ids, pieces = await server.tokens(continuation, special=False)
        if "".join(pieces) != continuation:
            spelled = await server.spelling([*before, *ids])
            if spelled != await server.spelling(before) + continuation:
                raise StraddleError(
                    f"the tokens of {continuation[:20]!r} spell {spelled[-len(continuation) - 4 :]!r} "
                    "at the end of the text",
                    kind="bad_request",
                )
        return ids

    return before, await run_all([after(continuation) for continuation in continuations])


@dataclass(frozen=True, slots=True)
class Forcing:
    """Score token by token, forcing each with a logit bias."""

    server: Server
    name: str = "force"

    async def scores(self, prompt: str, continuations: Sequence[str], work: Work) -> list[Score]:
        """Return the score of each continuation."""
        before, after = await split_tokens(self.server, prompt, continuations)
        return await self.by_ids(before, after, work)

    async def by_ids(
        self, before: Sequence[int], after: Sequence[Sequence[int]], work: Work
    ) -> list[Score]:
        """Return the score of each continuation; steps shared by several are requested once."""
        if not before:
            raise ModelError(
                "the first token of a text cannot be forced; set `start_text` to the BOS token of "
                "the model",
                kind="unsupported",
            )
        steps = {(*ids[:at], token) for ids in after for at, token in enumerate(ids)}
        ordered = sorted(steps)
        tokens = await run_all([self._step(before, step, work) for step in ordered])
        found = dict(zip(ordered, tokens, strict=True))
        return [
            self._sum([found[tuple(ids[: at + 1])] for at in range(len(ids))], len(before))
            for ids in after
        ]

    async def _step(self, before: Sequence[int], step: tuple[int, ...], work: Work) -> NextToken:
        reply = await self.server.next_choice(
            [*before, *step[:-1]], {"logit_bias": {str(step[-1]): 100}}, work
        )
        if not reply.value[0].get("logprobs"):  # llama.cpp waits for the whole character
            raise StraddleError(
                f"the server returns no log-probability for token {step[-1]}, which is part of a "
                "character",
                kind="bad_request",
            )
        token = read_next_token(reply.value[0])
        if token.token_id not in (None, step[-1]):
            raise garbled(f"token {token.token_id}, but {step[-1]} was forced")
        return token

    @staticmethod
    def _sum(tokens: list[NextToken], n_prompt: int) -> Score:
        greedy = None
        if all(token.best is not None for token in tokens):
            greedy = all(token.logprob >= (token.best or 0.0) - 1e-6 for token in tokens)
        total = sum(min(token.logprob, 0.0) for token in tokens)
        return Score(total, len(tokens), greedy, n_prompt)
