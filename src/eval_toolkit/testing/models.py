"""Contract for language models."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.protocols import Model
from eval_toolkit.testing.inputs import ODD_TEXTS
from eval_toolkit.testing.rules import (
    Suite,
    describes_itself,
    expect,
    has_members,
    is_named,
    same_numbers,
)

__all__ = ["MODEL"]


@dataclass(frozen=True)
class _Prompts:
    """Requests to the model, kept short because each of them is answered."""

    prompts: Sequence[str] = ("The capital of Italy is", "2 + 2 =")
    continuations: Sequence[str] = (" Rome", " Madrid")
    max_tokens: int = 8
    odd_texts: Sequence[str] = ODD_TEXTS[1:6]
    tolerance: float = 1e-4

    def texts(self) -> list[GenerateRequest]:
        """Return generation requests."""
        return [GenerateRequest(prompt, max_tokens=self.max_tokens) for prompt in self.prompts]

    def choices(self) -> list[LoglikelihoodRequest]:
        """Return log-likelihood requests."""
        return [LoglikelihoodRequest(prompt, tuple(self.continuations)) for prompt in self.prompts]


def _answers_to(ask: Callable[[Any], Awaitable[Any]], requests: Sequence[Any]) -> Any:
    """Send requests one after the other; return None if the model does not support them."""

    async def every() -> list[Any]:
        return [await ask(request) for request in requests]

    return _or_none(every)


def _at_once(ask: Callable[[Any], Awaitable[Any]], requests: Sequence[Any]) -> Any:
    async def every() -> list[Any]:
        return list(await asyncio.gather(*(ask(request) for request in requests)))

    return _or_none(every)


def _or_none(every: Callable[[], Any]) -> Any:
    try:
        return _run(every)
    except ModelError as error:
        if error.kind == "unsupported":
            return None
        raise


def _run(every: Callable[[], Any]) -> Any:
    """Run a coroutine in a new event loop; in another thread if a loop is already running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(every())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(every())).result()


def description_has_no_secrets(model: Any, given: _Prompts) -> None:
    """`describe()` contains nothing that looks like a key or a password."""
    told = dict(model.describe())
    expect(redact_secrets(told) == told, "`describe()`", "a secret")


def generates_or_scores(model: Any, given: _Prompts) -> None:
    """The model generates or scores; unsupported requests raise ModelError of kind "unsupported"."""
    texts = _answers_to(model.generate, given.texts()[:1])
    numbers = _answers_to(model.loglikelihood, given.choices()[:1])
    expect(texts is not None or numbers is not None, "both kinds of requests", "neither answered")


def works_in_several_event_loops(model: Any, given: _Prompts) -> None:
    """The model works in several event loops, one after another."""
    for ask, requests in ((model.generate, given.texts()), (model.loglikelihood, given.choices())):
        for loop in ("the first", "another"):
            try:
                _answers_to(ask, requests[:1])
            except RuntimeError as error:
                expect(False, f"{loop} event loop", f"{type(error).__name__}: {error}")


def generates_completions(model: Any, given: _Prompts) -> None:
    """A generation request is answered by a RawCompletion without an error."""
    for answer in _answers_to(model.generate, given.texts()) or ():
        expect(isinstance(answer, RawCompletion), "a GenerateRequest", answer)
        expect(answer.error is None, "a GenerateRequest", answer.error)


def scores_every_continuation(model: Any, given: _Prompts) -> None:
    """A log-likelihood request gets a RawLoglikelihood with one number per continuation."""
    for answer in _answers_to(model.loglikelihood, given.choices()) or ():
        expect(isinstance(answer, RawLoglikelihood), "a LoglikelihoodRequest", answer)
        told = tuple(answer.choices)
        expect(told == tuple(given.continuations), tuple(given.continuations), told)


def greedy_decoding_is_deterministic(model: Any, given: _Prompts) -> None:
    """At temperature 0 the same request gets the same answer."""
    for ask, requests in ((model.generate, given.texts()), (model.loglikelihood, given.choices())):
        first, again = _answers_to(ask, requests), _answers_to(ask, requests)
        expect(_contents(first) == _contents(again), requests, (_contents(first), _contents(again)))


def continuation_order_invariant(model: Any, given: _Prompts) -> None:
    """The order of continuations does not affect their log-likelihoods."""
    turned = tuple(given.continuations)[::-1]
    for request in given.choices():
        found = _answers_to(
            model.loglikelihood, [request, LoglikelihoodRequest(request.prompt, turned)]
        )
        if found is not None:
            one, other = (list(answer.loglikelihoods) for answer in found)
            same = same_numbers(one, other[::-1], given.tolerance)
            expect(same, request.continuations, (one, other))


def concurrency_invariant(model: Any, given: _Prompts) -> None:
    """Concurrent and sequential requests get the same answers."""
    for ask, requests in (
        (model.generate, given.texts() * 3),
        (model.loglikelihood, given.choices() * 3),
    ):
        apart, together = _answers_to(ask, requests), _at_once(ask, requests)
        same = _alike(_contents(apart), _contents(together), given.tolerance)
        expect(same, requests[0], (_contents(apart), _contents(together)))


def respects_stop_sequences(model: Any, given: _Prompts) -> None:
    """An answer ends before the first stop sequence and does not contain it."""
    plain = _answers_to(model.generate, given.texts())
    for request, answer in zip(given.texts(), plain or (), strict=False):
        if not answer.text.strip():
            continue
        stop = answer.text.strip()[-1]
        told = GenerateRequest(request.prompt, max_tokens=given.max_tokens, stop=(stop,))
        (cut,) = _answers_to(model.generate, [told]) or (answer,)
        expect(stop not in cut.text, f"the stop sequence {stop!r}", cut.text)


def accepts_messages(model: Any, given: _Prompts) -> None:
    """The model accepts messages, unless `speaks_chat` is False."""
    if getattr(model, "speaks_chat", True):
        turns = (Message(Role.USER, given.prompts[0]),)
        for answer in _answers_to(model.generate, [GenerateRequest(turns, max_tokens=4)]) or ():
            expect(isinstance(answer, RawCompletion), "a conversation", answer)


def answers_unusual_prompts(model: Any, given: _Prompts) -> None:
    """Blank and unusual prompts are answered, or rejected with a ModelError."""
    for text in given.odd_texts:
        for ask, request in (
            (model.generate, GenerateRequest(text, max_tokens=2)),
            (model.loglikelihood, LoglikelihoodRequest(text, tuple(given.continuations))),
        ):
            try:
                _answers_to(ask, [request])
            except ModelError:
                continue
            except Exception as error:
                expect(False, text, f"{type(error).__name__}: {error}")


def counts_tokens(model: Any, given: _Prompts) -> None:
    """`count_tokens`, if defined, returns an integer ≥ 0; `concurrency` is an integer ≥ 1."""
    count = getattr(model, "count_tokens", None)
    if callable(count):
        for text in ("", given.prompts[0]):
            told = count(text)
            expect(isinstance(told, int) and told >= 0, f"count_tokens({text!r})", told)
    limit = getattr(model, "concurrency", 1)
    expect(isinstance(limit, int) and limit >= 1, "`concurrency`", limit)


def closes(model: Any, given: _Prompts) -> None:
    """`aclose()`, if defined, can be awaited."""
    close = getattr(model, "aclose", None)
    if callable(close):

        async def closed() -> None:
            await close()

        _run(closed)


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether answers are equal, up to rounding of numbers."""
    if one is None or other is None:
        return one is other
    return all(
        a == b or (not isinstance(a, str) and same_numbers(a, b, tolerance))
        for a, b in zip(one, other, strict=True)
    )


def _contents(answers: Sequence[Any] | None) -> Any:
    if answers is None:
        return None
    return [
        answer.text if isinstance(answer, RawCompletion) else list(answer.loglikelihoods)
        for answer in answers
    ]


MODEL = Suite(
    "model",
    (
        has_members(Model),
        is_named,
        describes_itself,
        description_has_no_secrets,
        works_in_several_event_loops,
        generates_or_scores,
        generates_completions,
        scores_every_continuation,
        greedy_decoding_is_deterministic,
        continuation_order_invariant,
        concurrency_invariant,
        respects_stop_sequences,
        accepts_messages,
        answers_unusual_prompts,
        counts_tokens,
        closes,
    ),
    _Prompts,
    copies=False,  # weights and connections are expensive to copy; other rules detect state
)
