"""Byte-level BPE with the "smollm" pre-tokenizer, which splits digits.

Token ids match those of llama.cpp even in corner cases, such as bytes without a token (some ASCII
control characters), which are omitted.
"""

import codecs
import heapq
import re
import unicodedata
from collections.abc import Iterable, Sequence

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.embedded.gguf import GGUFFile

_CONTROL, _NORMAL = 3, 1
_KNOWN_WORDS = 100_000
_LONG_WORD = 64

# Whitespace as defined by Unicode; Python's also includes four ASCII separators.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Applied after numbers are split off, so that \w without "_" matches only letters.
_WORDS = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d"
    r"| ?[^\W_]+"
    rf"| ?(?:[^{_SPACE}\w]|_)+"
    rf"|[{_SPACE}]+(?![^{_SPACE}])"
    rf"|[{_SPACE}]+"
)
_ASCII_DIGIT = re.compile("([0-9])")


def _byte_letters() -> list[str]:
    """Return the characters that represent the bytes in the vocabulary."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    beyond = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(beyond)) for byte in range(256)]


_LETTERS = _byte_letters()
_BYTES = {letter: byte for byte, letter in enumerate(_LETTERS)}


class Tokenizer:
    """Tokenizer built from the vocabulary and merges in the metadata of a GGUF file.

    Raises `ArtifactError` if the tokenizer type of the file is not supported.
    """

    def __init__(self, file: GGUFFile) -> None:
        for key, known in (("model", "gpt2"), ("pre", "smollm")):
            found = file.value(f"tokenizer.ggml.{key}", str)
            if found != known:
                raise ArtifactError(
                    f"{file.path}: its tokenizer.ggml.{key} is {found!r}; only {known!r} is "
                    "supported"
                )
        self._tokens: list[str] = file.value("tokenizer.ggml.tokens", list)
        self._ids = {token: at for at, token in enumerate(self._tokens)}
        self._ranks = {
            merge: rank for rank, merge in enumerate(file.value("tokenizer.ggml.merges", list))
        }
        kinds = file.value("tokenizer.ggml.token_type", list, [_NORMAL] * len(self._tokens))
        self.control: dict[str, int] = {
            token: at
            for at, (token, kind) in enumerate(zip(self._tokens, kinds, strict=False))
            if kind == _CONTROL
        }
        self.control_ids = frozenset(self.control.values())
        # Longest first, so that no token hides a longer one with the same prefix.
        spelled = sorted(self.control, key=len, reverse=True)
        self._control_texts = re.compile(f"({'|'.join(map(re.escape, spelled))})")
        self.n_tokens = len(self._tokens)
        self.start = self._special(file, "bos")
        self.end = self._special(file, "eos")
        adds_start = file.value("tokenizer.ggml.add_bos_token", bool, False)
        self.lead: tuple[int, ...] = (self.start,) if adds_start else ()
        self._words: dict[str, tuple[int, ...]] = {}

    def _special(self, file: GGUFFile, name: str) -> int:
        token = file.value(f"tokenizer.ggml.{name}_token_id", int)
        if not 0 <= token < len(self._tokens):
            raise ArtifactError(f"{file.path}: its {name} token {token} is not in the vocabulary")
        return int(token)

    def encode(self, text: str, *, control: bool = False) -> list[int]:
        """Return the ids of a text, without beginning-of-text and end-of-text tokens.

        Lone surrogates become the replacement character; ``control`` enables parsing of control
        tokens.
        """
        text = whole_text(text)
        if not (control and self.control):
            return self._plain(text)
        ids: list[int] = []
        for at, part in enumerate(self._control_texts.split(text)):
            ids += (self.control[part],) if at % 2 else self._plain(part)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Decode token ids to text, without control tokens."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token."""
        if token in self.control_ids:
            return b""
        letters = self._tokens[token]
        try:
            return bytes([_BYTES[letter] for letter in letters])
        except KeyError:  # added to the vocabulary as plain text
            return letters.encode()

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = []
        known = self._words
        for at, part in enumerate(_digits(text).split(text)):
            for word in (part,) if at % 2 else _WORDS.findall(part):
                found = known.get(word)
                ids += self._word(word) if found is None else found
        return ids

    def _word(self, word: str) -> tuple[int, ...]:
        pieces = self._merged([_LETTERS[byte] for byte in word.encode()])
        ids: list[int] = []
        for piece in pieces:
            if piece in self._ids:
                ids.append(self._ids[piece])
            else:
                ids += [self._ids[letter] for letter in piece if letter in self._ids]
        if len(word) <= _LONG_WORD:
            if len(self._words) >= _KNOWN_WORDS:
                self._words = {}
            self._words[word] = tuple(ids)
        return tuple(ids)

    def _merged(self, pieces: list[str]) -> list[str]:
        """Merge adjacent tokens in the learned order, from left to right.

        Candidates are kept in a heap and neighbours in a linked list, so that a word of n
        characters takes O(n log n) time.
        """
        ranks = self._ranks
        after = list(range(1, len(pieces) + 1))
        before = list(range(-1, len(pieces) - 1))
        candidates: list[tuple[int, int, str, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right < len(pieces):
                rank = ranks.get(f"{pieces[left]} {pieces[right]}")
                if rank is not None:
                    heapq.heappush(candidates, (rank, left, pieces[left], pieces[right]))

        for at in range(len(pieces) - 1):
            consider(at, at + 1)
        while candidates:
            _, left, first, second = heapq.heappop(candidates)
            right = after[left]
            # Either piece may have been merged in the meantime.
            if pieces[left] != first or right >= len(pieces) or pieces[right] != second:
                continue
            pieces[left], pieces[right] = first + second, ""
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            consider(before[left], left)
            consider(left, after[left])
        return [piece for piece in pieces if piece]


def _digits(text: str) -> re.Pattern[str]:
    """Return a pattern that matches ASCII digits and the digits of the scripts used in a text."""
    if text.isascii():
        return _ASCII_DIGIT
    others = {letter for letter in set(text) if unicodedata.category(letter).startswith("N")}
    return re.compile(f"([0-9{''.join(sorted(others))}])") if others else _ASCII_DIGIT


class TextStream:
    """Decode tokens to text incrementally, up to the first stop string."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stops = [stop for stop in stops if stop]
        self._reach = max(map(len, self._stops), default=1) - 1
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        self.stopped = False

    def add(self, token: int) -> None:
        """Append a token."""
        self._grow(self._bytes.decode(self._tokenizer.token_bytes(token)))

    def finish(self) -> str:
        """Return the entire text; incomplete characters become replacement characters."""
        self._grow(self._bytes.decode(b"", final=True))
        return self.text

    def _grow(self, more: str) -> None:
        if self.stopped or not more:
            return
        # A new occurrence of a stop string ends in the added text.
        since = max(0, len(self.text) - self._reach)
        self.text += more
        found = [at for at in (self.text.find(stop, since) for stop in self._stops) if at >= 0]
        if found:
            self.text = self.text[: min(found)]
            self.stopped = True
