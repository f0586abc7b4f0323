"""What a column of numbers is, by its name: an outcome, or a count, setting or clock beside it."""

import re

__all__ = ["is_beside"]

_WORDS = frozenset(
    {
        *("n", "num", "number", "count", "counts", "total", "size", "length", "len", "max", "min"),
        *("id", "ids", "idx", "index", "seq", "sequence", "row", "line", "rank", "position"),
        *("seed", "epoch", "step", "steps", "shot", "shots", "fewshot", "attempt", "attempts"),
        *("repeat", "trial", "turn", "turns", "round", "option", "options", "choice", "choices"),
        *("token", "tokens", "word", "words", "char", "chars", "byte", "bytes", "temperature"),
        *("time", "timestamp", "date", "duration", "latency", "runtime", "elapsed", "second"),
        *("seconds", "sec", "secs", "s", "ms", "cost", "price", "usd", "year", "version", "level"),
        *(
            "status",
            "label",
            "labels",
            "answer",
            "target",
            "gold",
            "key",
            "group",
            "fold",
            "weight",
        ),
    }
)
"""Words in the names of what stands beside an outcome."""
_OUTCOMES = frozenset(
    {
        *("acc", "accuracy", "correct", "correctness", "score", "match", "em", "f1", "bleu"),
        *("rouge", "pass", "passed", "success", "rate", "reward", "perplexity", "loss", "error"),
        *("bits", "rating", "grade", "precision", "recall", "logprob", "likelihood", "entropy"),
    }
)
"""Words that say it is one all the same, as in ``word_error_rate`` or ``bits_per_byte``."""


def is_beside(name: str) -> bool:
    """Return whether a column counts, identifies, sets or clocks, by what it is called.

    Examples
    --------
    >>> [is_beside(name) for name in ("n_options", "numTurns", "latency_ms", "seed", "token_f1")]
    [True, True, True, True, False]
    """
    words = set(re.findall(r"[a-z]+\d?", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
    return bool(words & _WORDS) and not words & _OUTCOMES
