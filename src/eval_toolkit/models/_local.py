"""Base classes of models that run in this process."""

from collections.abc import Sequence
from typing import Any, Protocol

from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.messages import Message, read_messages
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed


def draw_seed(request: GenerateRequest) -> int:
    """Return the seed of a request, or one derived from its content."""
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
        """Return the token ids of a text; ``control`` enables parsing of control tokens."""
        ...

    def render(self, messages: Sequence[Message]) -> str:
        """Return messages as rendered by the chat template."""
        ...


class BatchedModel:
    """Model that batches its requests."""

    _batcher: Batcher[Request, Any]

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a prompt or a conversation.

        Its finish reason is "stop" (stop string or end-of-text token) or "length". A prompt that
        leaves no room for generated tokens raises `ModelError` of kind "too_long".
        """
        answer: RawCompletion = await self._batcher.submit(request)
        return answer

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Score continuations of a prompt, or whole documents in windows.

        A prompt that exceeds the context together with its continuation raises `ModelError` of kind
        "too_long".
        """
        answer: RawLoglikelihood = await self._batcher.submit(request)
        return answer


class LocalModel(BatchedModel):
    """Model with its own tokenizer and chat template."""

    @property
    def _texts(self) -> Texts:
        raise NotImplementedError

    @property
    def speaks_chat(self) -> bool:
        """Whether the model has a chat template; if not, prompts must be strings."""
        return self._texts.speaks_chat

    def render(self, messages: Sequence[Message]) -> str:
        """Return messages rendered by the chat template; a final assistant message is left open."""
        return self._texts.render(read_messages(messages))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._texts.encode(text, control=True))
