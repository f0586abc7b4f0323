"""Model with predefined answers, for tests and examples."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from eval_toolkit._internal.hashing import object_digest
from eval_toolkit._internal.validation import integer, number
from eval_toolkit.errors import InvalidTypeError, ModelError
from eval_toolkit.models.messages import Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage

Answers: TypeAlias = str | Callable[[Request], Any] | Mapping[Any, Any] | Sequence[Any]

_CHARACTERS_PER_TOKEN = 4


class ScriptedModel:
    """Model with predefined answers.

    Parameters
    ----------
    answers : str, callable, mapping or sequence
        A string is the answer to every generation request. A callable, which may be a coroutine
        function, takes the request and returns the answer. A mapping is indexed by the prompt; a
        conversation is looked up as a tuple of messages, then by the last user message. A sequence
        is consumed in the order of the requests. An answer is a string or a `RawCompletion`; for a
        log-likelihood request it is one number per continuation, a mapping from continuation to
        number, or a `RawLoglikelihood`. An answer that is an exception is raised. Strings are
        truncated at the stop strings of the request.
    name : str, default "scripted"
        Name in tables.
    delay_s : float, default 0.0
        Delay of each answer in seconds.
    concurrency : int, default 16
        Recommended number of concurrent requests.

    Raises
    ------
    InvalidTypeError
        If ``answers`` has an unsupported type.

    Examples
    --------
    >>> import asyncio
    >>> model = ScriptedModel({"2 + 2 =": " 4", "The capital of Italy is": [-0.1, -2.5]})
    >>> asyncio.run(model.generate(GenerateRequest("2 + 2 ="))).text
    ' 4'
    >>> request = LoglikelihoodRequest("The capital of Italy is", (" Rome", " Madrid"))
    >>> asyncio.run(model.loglikelihood(request)).by_choice
    {' Madrid': -2.5, ' Rome': -0.1}
    >>> model.n_calls
    2
    """

    def __init__(
        self,
        answers: Answers,
        *,
        name: str = "scripted",
        delay_s: float = 0.0,
        concurrency: int = 16,
    ) -> None:
        if not (callable(answers) or isinstance(answers, (str, Mapping, Sequence))):
            raise InvalidTypeError(
                "`answers` must be a string, a callable, a mapping or a sequence, got "
                f"{type(answers).__name__}"
            )
        self.name = name
        self.concurrency = integer(concurrency, "concurrency", low=1)
        self.n_calls = 0
        self._answers = answers
        self._delay_s = number(delay_s, "delay_s", low=0.0)
        # Computed here, since the state of a callable may change between calls.
        self._identity = object_digest(answers) or getattr(answers, "__qualname__", "callable")
        self._remaining: Iterator[Any] = iter(())
        if isinstance(answers, Sequence):
            self._remaining = iter(answers)

    def describe(self) -> dict[str, Any]:
        """Return the kind, the name and a hash of the answers."""
        return {"kind": "scripted", "name": self.name, "answers": self._identity}

    def count_tokens(self, text: str) -> int:
        """Return one token per four characters, rounded up."""
        return -(-len(text) // _CHARACTERS_PER_TOKEN)

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Return the predefined answer to the request."""
        answer = await self._answer(request)
        if isinstance(answer, RawCompletion):
            return answer
        if not isinstance(answer, str):
            raise self._refusal(request, f"{type(answer).__name__} is not a string")
        for stop in request.stop:  # like other models, end before the first stop string
            answer = answer.partition(stop)[0]
        n_prompt, n_answer = self._prompt_tokens(request), self.count_tokens(answer)
        return RawCompletion(
            answer,
            prompt_tokens=n_prompt,
            completion_tokens=n_answer,
            finish_reason="stop",
            usage=Usage(prompt_tokens=n_prompt, completion_tokens=n_answer),
        )

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Return the predefined log-likelihoods for the request."""
        if isinstance(self._answers, str):
            raise ModelError(
                f"{self.name} returns one string for all requests and no log-likelihoods; pass "
                "log-likelihoods as a mapping or a callable",
                kind="unsupported",
            )
        answer = await self._answer(request)
        if isinstance(answer, RawLoglikelihood):
            return answer
        if isinstance(answer, Mapping):
            missing = [text for text in request.continuations if text not in answer]
            if missing:
                raise self._refusal(request, f"the continuation {missing[0]!r} has no number")
            answer = [answer[text] for text in request.continuations]
        n_prompt = self._prompt_tokens(request)
        n_tokens = [self.count_tokens(text) for text in request.continuations]
        try:
            return RawLoglikelihood(
                answer,
                request.continuations,
                n_tokens=n_tokens,
                prompt_tokens=n_prompt,
                usage=Usage(prompt_tokens=n_prompt + sum(n_tokens)),
            )
        except (TypeError, ValueError) as error:
            raise self._refusal(request, f"{answer!r} are not log-likelihoods: {error}") from None

    async def _answer(self, request: Request) -> Any:
        self.n_calls += 1
        answers = self._answers
        if isinstance(answers, str):
            answer: Any = answers
        elif callable(answers):
            answer = answers(request)
            if inspect.isawaitable(answer):
                answer = await answer
        elif isinstance(answers, Mapping):
            answer = self._mapped_answer(answers, request)
        else:
            answer = next(self._remaining, None)
            if answer is None:
                raise self._refusal(request, f"all {len(answers)} answers have been used; add more")
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _mapped_answer(self, answers: Mapping[Any, Any], request: Request) -> Any:
        for key in (request.prompt, _last_user_text(request)):
            if key in answers:
                return answers[key]
        raise self._refusal(request, "there is no answer for this prompt; add it to `answers`")

    def _refusal(self, request: Request, why: str) -> ModelError:
        prompt = " ".join(_last_user_text(request).split())
        return ModelError(f"{self.name} was queried with {prompt[-60:]!r}: {why}", kind="other")

    def _prompt_tokens(self, request: Request) -> int:
        if isinstance(request.prompt, str):
            return self.count_tokens(request.prompt)
        return sum(self.count_tokens(message.content) for message in request.prompt)


def _last_user_text(request: Request) -> str:
    if isinstance(request.prompt, str):
        return request.prompt
    contents = [message.content for message in request.prompt if message.role is Role.USER]
    return contents[-1] if contents else request.prompt[-1].content
