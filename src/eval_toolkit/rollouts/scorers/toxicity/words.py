"""Conversion of texts to the classifier's word indices."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import ModelError

N_WORDS = 20_000
"""Number of word indices of the network; index 0 is padding."""
_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
_TO_SPACES = str.maketrans(dict.fromkeys(_FILTERS, " "))
_TOKENIZER = "keras.src.legacy.preprocessing.text.Tokenizer"
_SETTINGS: Mapping[str, Any] = {
    "filters": _FILTERS,
    "split": " ",
    "lower": True,
    "num_words": N_WORDS,
    "char_level": False,
    "oov_token": None,
}


def kept_words(pickled: bytes) -> bytes:
    """Convert the pickled tokenizer to a JSON list of the words in its vocabulary.

    The pickle is parsed, never executed. The list contains the words with indices 1 to 19 999, in
    order.
    """
    from eval_toolkit.rollouts.scorers.toxicity.pickles import read_attributes

    found = read_attributes(pickled, _TOKENIZER)
    for setting, expected in _SETTINGS.items():
        if found.get(setting) != expected:
            raise ModelError(
                f"the tokenizer's {setting} is {found.get(setting)!r:.60}, not {expected!r}",
                kind="garbled",
            )
    index = found.get("word_index")
    numbers = {n: w for w, n in index.items()} if isinstance(index, dict) else {}
    words = [numbers.get(number) for number in range(1, N_WORDS)]
    if not all(isinstance(word, str) for word in words):
        raise ModelError("the tokenizer does not number its words from 1", kind="garbled")
    return json.dumps(words, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Vocabulary of the classifier."""

    numbers: Mapping[str, int]

    @classmethod
    def of(cls, words: Sequence[str]) -> "Vocabulary":
        """Create a vocabulary from words, which are numbered from 1."""
        return cls({word: number for number, word in enumerate(words, 1)})

    def split(self, text: str) -> list[str]:
        """Split a text into lower-case words at spaces and most ASCII punctuation.

        Apostrophes are kept, as is whitespace other than space, tab and line feed.
        """
        return [word for word in text.lower().translate(_TO_SPACES).split(" ") if word]

    def encode(self, text: str) -> list[int]:
        """Return the indices of the known words in a text, in order; unknown words are dropped."""
        numbers = self.numbers
        return [numbers[word] for word in self.split(text) if word in numbers]
