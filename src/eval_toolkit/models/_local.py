"""Base classes of models that run in this process."""

from collections.abc import Sequence
from typing import Any, Protocol

from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.messages import Message, read_messages
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed


def draw_seed(request: GenerateRequest) -> int:
    """Return the seed of a request; by default, a seed derived from its content."""
    if request.seed is not None:
        return request.seed
    return derive_seed(DEFAULT_SEED, "decoding", request.fingerprint)


class Texts(Protocol):
    """Interface to a model's tokenizer and chat template."""

    @property
    def speaks_chat(self) -> bool:
        """Whether the model has a chat template."""
        ...

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Return the token ids of a text; control tokens are parsed if ``control`` is true."""
        ...

    def render(self, messages: Sequence[Message]) -> str:
        """Render messages with the chat template."""
        ...


class BatchedModel:
    """Base class of models that batch their requests."""

    _batcher: Batcher[Request, Any]

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a prompt or a conversation.

        The finish reason is "stop" (stop string or end-of-text token) or "length". Raises
        `ModelError` of kind "too_long" if the prompt leaves no room for generated tokens.
        """
        answer: RawCompletion = await self._batcher.submit(request)
        return answer

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Score continuations of a prompt, or whole documents in windows.

        Raises `ModelError` of kind "too_long" if a prompt and its continuation together exceed the
        context length.
        """
        answer: RawLoglikelihood = await self._batcher.submit(request)
        return answer


class LocalModel(BatchedModel):
    """Base class of in-process models with their own tokenizer and chat template."""

    @property
    def _texts(self) -> Texts:
        raise NotImplementedError

    @property
    def speaks_chat(self) -> bool:
        """Whether the model has a chat template; otherwise, prompts must be strings."""
        return self._texts.speaks_chat

    def render(self, messages: Sequence[Message]) -> str:
        """Render messages with the chat template, leaving a final assistant message open."""
        return self._texts.render(read_messages(messages))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._texts.encode(text, control=True))
