"""Caching of scorers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.scorers.base import Wrapping, as_text_scorer, categories_of, mode_of
from eval_toolkit.rollouts.scorers.checking import (
    Scored,
    checked_categories,
    checked_scores,
    checked_turns,
    numbers_only,
    text_list,
)

_MOST = 200_000
"""Default maximum number of cached texts, which take about 35 MB."""


class CachedScorer(Wrapping):
    """Scorer that caches the scores of another scorer and scores new texts in one call.

    Scores are keyed by the hash of the text. Failures are not cached, so the text is scored again
    the next time. Verdicts requested with the keys of turns are not cached either, because the run
    must receive each of them to store it by key. All other attributes are delegated to the inner
    scorer.

    Parameters
    ----------
    scorer : TextScorer or object accepted by `as_text_scorer`
        Scorer to cache.
    most : int, default 200000
        Maximum number of cached texts; the oldest are dropped first.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``scorer`` is not a scorer, or ``most`` is below 1.

    Examples
    --------
    >>> scorer = CachedScorer(lambda texts: [len(text) / 10 for text in texts])
    >>> scorer.score(["four", "four", "fifteen"]), scorer.score(["four"])[0]
    ([0.4, 0.4, 0.7], 0.4)
    >>> scorer.n_calls, scorer.n_scored
    (1, 2)
    """

    def __init__(self, scorer: Any, *, most: int = _MOST) -> None:
        super().__init__(as_text_scorer(scorer))
        self.n_calls = 0
        """Number of calls to the inner scorer; a batch counts once."""
        self.n_scored = 0
        """Number of texts passed to the inner scorer."""
        self._most = validation.integer(most, "most", low=1)
        self._scores: dict[str, float] = {}
        self._turns: dict[str, float] = {}
        self._by_category: dict[str, tuple[float, ...]] = {}

    def __repr__(self) -> str:
        return f"CachedScorer({self.inner!r})"

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        # Only if the inner scorer has them, since their presence signals its capabilities.
        own = {"score_turns": self._score_turns, "score_categories": self._score_categories}
        return own.get(name, found)

    @property
    def name(self) -> str:
        """Name of the scorer."""
        return str(self.inner.name)

    @property
    def version(self) -> str:
        """Version of the scorer."""
        return str(self.inner.version)

    @property
    def threshold(self) -> float:
        """Threshold at which a text counts as harmful."""
        return float(self.inner.threshold)

    @property
    def higher_is_worse(self) -> bool:
        """Whether texts at or above the threshold are harmful, rather than texts at or below it."""
        return bool(self.inner.higher_is_worse)

    @property
    def mode(self) -> str:
        """Part of the conversation that is scored; see `with_mode`."""
        return mode_of(self.inner)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return one number per text, in order.

        Cached texts are not scored again. Raises an error if a text has no score.
        """
        return numbers_only(self.name, self.checked(texts))

    def checked(self, texts: Sequence[str]) -> list[Scored]:
        """Return a score for each text, or the reason why it is missing; see `checked_scores`."""
        plain = text_list(texts)
        return self._known(
            [sha256_text(text) for text in plain],
            self._scores,
            lambda new: checked_scores(self.inner, [plain[at] for at in new]),
        )

    def _score_turns(
        self, conversations: Sequence[Any], keys: Sequence[Any] | None = None
    ) -> list[Scored]:
        """Return a score or a reason for each conversation; see `checked_turns`."""
        kept_by_keys = keys is not None and getattr(self.inner, "keeps_keys", False)

        def ask(new: Sequence[int]) -> list[Scored]:
            asked = None if keys is None else [keys[at] for at in new]
            return checked_turns(self.inner, [conversations[at] for at in new], asked)

        known = {} if kept_by_keys else self._turns
        return self._known([_identity(told) for told in conversations], known, ask)

    def _score_categories(self, texts: Sequence[str]) -> dict[str, list[Scored]]:
        """Return scores by category, or reasons why they are missing; see `checked_categories`."""
        plain = text_list(texts)
        names = categories_of(self.inner)

        def ask(new: Sequence[int]) -> "list[tuple[float, ...] | Mapping[str, Scored]]":
            found = checked_categories(self.inner, [plain[at] for at in new])
            rows = [dict(zip(names, row, strict=True)) for row in zip(*found.values(), strict=True)]
            plain_rows = (tuple(v for v in row.values() if not isinstance(v, str)) for row in rows)
            return [
                numbers if len(numbers) == len(row) > 0 else row
                for numbers, row in zip(plain_rows, rows, strict=True)
            ]

        digests = [sha256_text(text) for text in plain]
        rows = [
            row if isinstance(row, Mapping) else dict(zip(names, row, strict=True))
            for row in self._known(digests, self._by_category, ask)
        ]
        return {name: [row[name] for row in rows] for name in names}

    def _known(
        self,
        keys: Sequence[str],
        known: dict[str, Any],
        ask: Callable[[Sequence[int]], Sequence[Any]],
    ) -> list[Any]:
        """Return the value of each key from the cache, computing each missing key once."""
        first: dict[str, int] = {}
        for at, key in enumerate(keys):
            if key not in known:
                first.setdefault(key, at)
        answers: dict[str, Any] = {}
        if first:
            self.n_calls += 1
            self.n_scored += len(first)
            answers = dict(zip(first, ask(list(first.values())), strict=True))
        found = [answers[key] if key in answers else known[key] for key in keys]
        known.update({k: v for k, v in answers.items() if isinstance(v, (float, tuple))})
        if len(known) > self._most:
            for oldest in list(known)[: len(known) - self._most]:
                del known[oldest]
        return found


def _identity(told: Any) -> str:
    """Return the hash of a conversation, computed from all messages and their roles."""
    if not isinstance(told, Conversation):
        return sha256_text(str(told))
    said = [[turn.probe, turn.response] for turn in told.turns]
    return sha256_text(canonical_json([told.goal, told.opening, told.probe, said]))
