"""Thread-safe wrapper of a transformers tokenizer."""

import re
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message, Role

_INNER_SPACE = re.compile("[A-Za-z][ \u0120\u2581]")
"""Matches a letter followed by a space, as spelled in any vocabulary."""


class HubTokenizer:
    """Tokenizer with an optional chat template."""

    def __init__(self, tokenizer: Any, *, chat_template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()  # fast tokenizers are not thread-safe
        self._given_template = chat_template
        self.start: int | None = tokenizer.bos_token_id
        if self.start is None:
            self.start = tokenizer.eos_token_id
        plain, framed = self.encode("a", control=True), list(tokenizer("a").input_ids)
        at = next((at for at, token in enumerate(framed) if token == plain[0]), 0)
        self.lead: tuple[int, ...] = tuple(framed[:at])
        self._special = frozenset(tokenizer.all_special_ids)
        self._named = frozenset(getattr(tokenizer, "all_special_tokens", ()))

    @property
    def eos(self) -> int | None:
        """End-of-text token; None if there is none."""
        eos: int | None = self._tokenizer.eos_token_id
        return eos

    @property
    def chat_template(self) -> str | None:
        """Chat template set by the user, or else the tokenizer's own."""
        own = self._given_template or self._tokenizer.chat_template
        if isinstance(own, dict):  # templates by name
            own = own.get("default")
        return own

    @property
    def speaks_chat(self) -> bool:
        """Whether a chat template is available."""
        return self.chat_template is not None

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Return the token ids of a string, without special tokens."""
        return self.encode_all([text], control=control)[0]

    def encode_all(self, texts: Sequence[str], *, control: bool) -> list[list[int]]:
        """Return the token ids of several strings, without special tokens."""
        if not any(texts):
            return [[] for _ in texts]
        with self._lock:
            encoded = self._tokenizer(
                [whole_text(text) for text in texts],
                add_special_tokens=False,
                split_special_tokens=not control,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            ).input_ids
        return [list(ids) if text else [] for text, ids in zip(texts, encoded, strict=True)]

    @cached_property
    def parts_words(self) -> bool:
        """Whether words are encoded separately: no token spans a letter and the space after it."""
        if not getattr(self._tokenizer, "is_fast", False):
            return False
        added = self._tokenizer.get_added_vocab()
        return not any(map(_INNER_SPACE.search, [*self._tokenizer.get_vocab(), *added]))

    def mentions_control(self, text: str) -> bool:
        """Return whether a string may contain a control token."""
        return self._control is None or self._control.search(text) is not None

    @cached_property
    def _control(self) -> re.Pattern[str] | None:
        """Pattern that matches control tokens; None if their spelling does not identify them."""
        added = getattr(self._tokenizer, "added_tokens_decoder", None)
        if not getattr(self._tokenizer, "is_fast", False) or added is None:
            return None
        special = [token for token in added.values() if token.special]
        if any(token.normalized for token in special):
            return None
        spellings = sorted({token.content for token in special} | set(self._named), key=len)
        return re.compile("|".join(map(re.escape, spellings)) or r"(?!)")

    def text_after(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Decode ``ids`` as a continuation of a prompt, keeping a leading space."""
        last = list(prompt[-1:])
        return self._decode([*last, *ids])[len(self._decode(last)) :]

    def _decode(self, ids: list[int]) -> str:
        with self._lock:
            text: str = self._tokenizer.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        return text

    def stop_tokens(self, stops: Sequence[str]) -> frozenset[int]:
        """Return the stop strings that are special tokens, which do not appear in decoded text."""
        ids = {self._tokenizer.convert_tokens_to_ids(stop) for stop in stops}
        return self._special & ids

    def render(self, messages: Sequence[Message]) -> str:
        """Render messages with the chat template, ready for the answer.

        A final assistant message is left open, so that the answer continues it.
        """
        template = self.chat_template
        if template is None:
            raise ModelError(
                "the tokenizer has no chat template; pass `chat_template`, or the prompt as a string",
                kind="unsupported",
            )
        cue = messages[-1].role is Role.ASSISTANT
        conversation = [message.to_dict() for message in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                conversation,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=not cue,
                continue_final_message=cue,
            )
        except Exception as error:  # templates may raise any exception, e.g. for two user turns
            raise ModelError(
                f"the chat template rejects the messages: {error}", kind="bad_request"
            ) from error
        return text
