"""ROUGE: overlap of unigrams, bigrams and subsequences of a response and a reference."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from eval_toolkit._internal.validation import choice
from eval_toolkit.graders.base import (
    COMPLETIONS,
    KEPT,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.models.responses import Completion

WORD_LIMIT = 20_000
"""Maximum number of words compared from the start of a response; later words match nothing."""

_ALPHANUMERICS = re.compile(r"[a-z0-9]+")
_TOKENISERS: Mapping[str, Callable[[str], list[str]]] = {
    "rouge": lambda text: _ALPHANUMERICS.findall(text.lower()),
    "whitespace": str.split,
}
_MEASURES = ("1", "2", "l", "geometric_mean")


def common_subsequence_length(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Bit-parallel algorithm: every item of the shorter sequence updates all positions of the longer
    one, stored as the bits of a Python integer, in one step.

    Examples
    --------
    >>> common_subsequence_length("the old cat sat".split(), "the cat has sat".split())
    3
    """
    short, long = sorted((one, other), key=len)
    places: dict[Hashable, int] = dict.fromkeys(short, 0)
    for at, item in enumerate(long):
        if item in places:
            places[item] |= 1 << at
    every = (1 << len(long)) - 1
    open_places = every
    for item in short:
        hit = open_places & places[item]
        open_places = ((open_places + hit) | (open_places - hit)) & every
    return len(long) - open_places.bit_count()


@dataclass(frozen=True, slots=True)
class Rouge:
    """ROUGE-1, ROUGE-2 and ROUGE-L of a response, and their geometric mean.

    Each is an F1 score, 2·common / (count in the response + count in the reference), computed from
    words, word bigrams, or the longest common subsequence of words. Words are not stemmed. Each
    column contains the best value over the references. A response or reference without words scores
    0.

    Only the first `WORD_LIMIT` words of a response are compared; the rest still counts in its
    length, so overlong responses are not rewarded. ``<name>_cut`` is 1 if there were more
    words.

    Parameters
    ----------
    tokenise : {"whitespace", "rouge"}, default "whitespace"
        "whitespace" splits at whitespace. "rouge" lower-cases the text and extracts runs of a to z
        and digits, like rouge-score.
    name : str, default "rouge"
        Prefix of the columns ``<name>_1``, ``<name>_2``, ``<name>_l``, ``<name>_geometric_mean``.

    Raises
    ------
    InvalidInputError
        If ``tokenise`` is invalid.

    Examples
    --------
    >>> answer = Completion("the old cat sat", ground_truth="the cat has sat")
    >>> grades = Rouge().grade(answer)
    >>> grades["rouge_1"], grades["rouge_2"], grades["rouge_l"]
    (0.75, 0.0, 0.75)
    """

    tokenise: str = "whitespace"
    name: str = "rouge"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        choice(self.tokenise, "tokenise", tuple(_TOKENISERS))

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        graded = {f"{self.name}_{part}": ColumnInfo(bounds=(0.0, 1.0)) for part in _MEASURES}
        return {**graded, f"{self.name}_cut": KEPT}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the best value of each score over the references."""
        words_of = _TOKENISERS[self.tokenise]
        words = words_of(response.completion)
        truths = [words_of(truth) for truth in references(response)]
        scores = [_scores(words, truth) for truth in truths]
        cut = any(len(text) > WORD_LIMIT for text in (words, *truths))
        best = {
            f"{self.name}_{part}": max(column)
            for part, column in zip(_MEASURES, zip(*scores, strict=True), strict=True)
        }
        return {**best, f"{self.name}_cut": float(cut)}


def _scores(words: list[str], truth: list[str]) -> tuple[float, float, float, float]:
    text, gold = words[:WORD_LIMIT], truth[:WORD_LIMIT]
    sizes = len(words) + len(truth)
    pairs = max(len(words) - 1, 0) + max(len(truth) - 1, 0)
    one = _f1(_common(text, gold), sizes)
    two = _f1(_common(pairwise(text), pairwise(gold)), pairs)
    longest = _f1(common_subsequence_length(text, gold), sizes)
    return one, two, longest, (one * two * longest) ** (1 / 3)


def _common(one: Iterable[Hashable], other: Iterable[Hashable]) -> int:
    return (Counter(one) & Counter(other)).total()


def _f1(common: int, sizes: int) -> float:
    return 2.0 * common / sizes if common else 0.0
