"""`EmbeddedModel`: a real language model without any dependency but numpy."""

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

__all__ = ["EmbeddedModel"]


class EmbeddedModel(BatchedModel):
    """SmolLM2-135M-Instruct in float32 numpy; loaded on first use, once per process.

    Parameters
    ----------
    path : str or Path, optional
        Another GGUF file of the same family (architecture "llama", tokenizer "smollm"). By default
        the weights that ``eval-toolkit models fetch`` has put into the cache.
    name : str, default "embedded"
        What tables call it.
    batch_size : int, default 16
        Texts that are generated side by side.
    max_batch_tokens : int, default 512
        Tokens per pass when scoring.
    max_tokens : int, default 256
        Maximum number of tokens of an answer, where the request does not say.
    context_length : int, optional
        Most tokens read at once; what the file says by default (8192).
    control_tokens : bool, default True
        Whether control tokens spelled out in a finished text count as such, as in what `render`
        returns. In messages they never do: a user cannot end a turn by writing ``<|im_end|>``.

    Notes
    -----
    A continuation is scored after exactly the tokens of its prompt; an empty prompt stands for the
    beginning-of-text token. Log-likelihoods agree with transformers in float32 to 1e-3 nats, and
    with themselves to about 1e-5 whatever else is in the batch. A prompt that does not fit raises
    `ModelError` of the kind "too_long"; nothing is ever cut. Without a seed, a draw is seeded by
    the request itself.

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
        """What tables call it."""
        return self._name

    @property
    def concurrency(self) -> int:
        """Requests worth having under way: enough that some wait while a batch is run."""
        return 4 * self.batch_size

    def describe(self) -> Mapping[str, Any]:
        """Return what decides its answers: the weights by their hash, and the limits.

        Raises
        ------
        ModelError
            If the weights are not there, or cannot be read.
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
        """Return a conversation as the text the model reads, open for its answer.

        Parameters
        ----------
        messages : sequence of Message or mapping
            A last assistant message is a cue: it is left open.

        Returns
        -------
        str
            Control tokens are spelled out; send messages, not this text, where a message may
            itself spell out a control token.
        """
        return self._weights.chat.render(read_messages(messages))

    def count_tokens(self, text: str) -> int:
        """Return how many tokens a text has."""
        return len(self._weights.tokenizer.encode(text))

    @property
    def speaks_chat(self) -> bool:
        """Whether the file has a chat template of a known form."""
        return self._weights.chat.is_known

    async def aclose(self) -> None:
        """Let go of the weights; they are loaded again if the model is asked again."""
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
