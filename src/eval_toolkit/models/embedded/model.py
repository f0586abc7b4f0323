"""`EmbeddedModel`: a language model that requires only numpy."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_toolkit._internal.validation import integer
from eval_toolkit.models._local import BatchedModel
from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.embedded.engine import Engine
from eval_toolkit.models.embedded.weights import Weights, load_weights
from eval_toolkit.models.messages import Message, read_messages
from eval_toolkit.models.requests import Request


class EmbeddedModel(BatchedModel):
    """SmolLM2-135M-Instruct implemented in numpy (float32), loaded on first use.

    Parameters
    ----------
    path : str or Path, optional
        GGUF file of the same model family (architecture "llama", tokenizer "smollm"). By default,
        the weights downloaded by ``eval-toolkit models fetch``.
    name : str, default "embedded"
        Name in tables.
    batch_size : int, default 16
        Number of sequences generated concurrently.
    max_batch_tokens : int, default 512
        Number of tokens per forward pass when scoring.
    max_tokens : int, default 256
        Maximum number of tokens in an answer if the request sets no limit.
    context_length : int, optional
        Maximum context length; by default, the value in the file (8192).
    control_tokens : bool, default True
        Whether control tokens in a string prompt are recognised, as in the output of `render`. They
        are never recognised in messages, so a user cannot end a turn with ``<|im_end|>``.

    Notes
    -----
    A continuation is scored after exactly the tokens of its prompt; an empty prompt is replaced
    by the beginning-of-text token. Log-likelihoods agree with transformers in float32 to 1e-3 nats, and
    are reproducible to about 1e-5 across batches. Prompts are never truncated: a prompt that does
    not fit raises `ModelError` of kind "too_long". Without a seed, sampling uses a seed derived
    from the request.

    Examples
    --------
    >>> EmbeddedModel(batch_size=4).name
    'embedded'
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        name: str = "embedded",
        batch_size: int = 16,
        max_batch_tokens: int = 512,
        max_tokens: int = 256,
        context_length: int | None = None,
        control_tokens: bool = True,
    ) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._name = name
        self.batch_size = integer(batch_size, "batch_size", low=1)
        self.max_batch_tokens = integer(max_batch_tokens, "max_batch_tokens", low=16)
        self.max_tokens = integer(max_tokens, "max_tokens", low=1)
        self.context_length = (
            None if context_length is None else integer(context_length, "context_length", low=2)
        )
        self.control_tokens = bool(control_tokens)
        self._batcher: Batcher[Request, Any] = Batcher(self._answer, max_batch=self.concurrency)

    @property
    def name(self) -> str:
        """Name of the model in tables."""
        return self._name

    @property
    def concurrency(self) -> int:
        """Recommended number of concurrent requests to keep batches full."""
        return 4 * self.batch_size

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that affect answers: the hash of the weights and the limits.

        Raises
        ------
        ModelError
            If the weights are missing or cannot be read.
        """
        weights = self._weights
        return {
            "kind": "embedded",
            "name": weights.name,
            "weights_sha256": weights.sha256,
            "dtype": "float32",
            "chat_template_sha256": weights.chat_template_sha256,
            "context_length": self.context_length,
            "max_tokens": self.max_tokens,
            "control_tokens": self.control_tokens,
        }

    def render(self, messages: Sequence[Message | Mapping[str, Any]]) -> str:
        """Render a conversation as a prompt that is left open for the answer.

        Parameters
        ----------
        messages : sequence of Message or mapping
            Conversation. A final assistant message is a cue and is left open.

        Returns
        -------
        str
            Prompt with control tokens as text. If a message may itself contain control tokens, pass
            messages to the model instead.
        """
        return self._weights.chat.render(read_messages(messages))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._weights.tokenizer.encode(text))

    @property
    def speaks_chat(self) -> bool:
        """Whether the file has a supported chat template."""
        return self._weights.chat.is_known

    async def aclose(self) -> None:
        """Release the weights; the next request loads them again."""
        self.__dict__.pop("_weights", None)

    @cached_property
    def _weights(self) -> Weights:
        return load_weights(self._path)

    def _answer(self, requests: list[Request]) -> Sequence[Any]:
        engine = Engine(
            weights=self._weights,
            batch_size=self.batch_size,
            max_batch_tokens=self.max_batch_tokens,
            max_tokens=self.max_tokens,
            context_length=self.context_length,
            control_tokens=self.control_tokens,
            abandoned=lambda: self._batcher.abandoned,
        )
        return engine.answer(requests)
