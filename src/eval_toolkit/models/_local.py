"""What the models that run in this process have in common."""

from collections.abc import Sequence
from typing import Any, Protocol

from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.messages import Message, read_messages
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed

__all__ = ["BatchedModel", "LocalModel", "Texts", "draw_seed"]


def draw_seed(request: GenerateRequest) -> int:
    """Return the seed of a draw: the request's own, or one that is the same for the same request."""
    if request.seed is not None:
        return request.seed
    return derive_seed(DEFAULT_SEED, "decoding", request.fingerprint)


class Texts(Protocol):
    """How a model reads texts and conversations."""

    @property
    def speaks_chat(self) -> bool:
        """Whether there is a chat template."""
        ...

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Return the ids of a text alone; with ``control`` its control tokens are recognised."""
        ...

    def render(self, messages: Sequence[Message]) -> str:
        """Return messages as the chat template writes them."""
        ...


class BatchedModel:
    """A model whose requests go through a batcher."""

    _batcher: Batcher[Request, Any]

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a text or a conversation.

        Parameters
        ----------
        request : GenerateRequest
            What to continue, and how.

        Returns
        -------
        RawCompletion
            It ends with "stop" (a stop string, or the model's own end) or "length".

        Raises
        ------
        ModelError
            With kind "too_long" if the prompt leaves no room for a token.
        """
        answer: RawCompletion = await self._batcher.submit(request)
        return answer

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Score continuations of a prompt, or whole texts in windows.

        Parameters
        ----------
        request : LoglikelihoodRequest
            What to score.

        Returns
        -------
        RawLoglikelihood
            With the number of tokens and greediness of each continuation.

        Raises
        ------
        ModelError
            With kind "too_long" if prompt and continuation do not fit together.
        """
        answer: RawLoglikelihood = await self._batcher.submit(request)
        return answer


class LocalModel(BatchedModel):
    """One with a tokenizer and a chat template of its own."""

    @property
    def _texts(self) -> Texts:
        raise NotImplementedError

    @property
    def speaks_chat(self) -> bool:
        """Whether it has a chat template; one without is sent finished texts."""
        return self._texts.speaks_chat

    def render(self, messages: Sequence[Message]) -> str:
        """Return messages as the chat template writes them, a last assistant message left open."""
        return self._texts.render(read_messages(messages))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text alone."""
        return len(self._texts.encode(text, control=True))
