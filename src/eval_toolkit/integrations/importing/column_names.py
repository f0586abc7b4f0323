"""Detection of non-metric columns by name."""

import re

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
"""Words in the names of counts, identifiers, settings and times."""
_OUTCOMES = frozenset(
    {
        *("acc", "accuracy", "correct", "correctness", "score", "match", "em", "f1", "bleu"),
        *("rouge", "pass", "passed", "success", "rate", "reward", "perplexity", "loss", "error"),
        *("bits", "rating", "grade", "precision", "recall", "logprob", "likelihood", "entropy"),
    }
)
"""Words in the names of metrics; they take precedence, e.g. in ``word_error_rate``."""


def is_beside(name: str) -> bool:
    """Return whether a column is a count, identifier, setting or time, judging by its name.

    Examples
    --------
    >>> [is_beside(name) for name in ("n_options", "numTurns", "latency_ms", "seed", "token_f1")]
    [True, True, True, True, False]
    """
    words = set(re.findall(r"[a-z]+\d?", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
    return bool(words & _WORDS) and not words & _OUTCOMES
