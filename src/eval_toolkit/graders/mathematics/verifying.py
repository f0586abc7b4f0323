"""Whether two answers are mathematically equal; runs in a worker, which alone imports math-verify."""

import logging

import math_verify

__all__ = ["equal"]

# The library warns that it has no time limit; the worker has one.
logging.getLogger("math_verify").setLevel(logging.ERROR)


def equal(gold: str, answer: str) -> bool:
    """Return whether an answer equals a reference, by `math_verify`.

    Parameters
    ----------
    gold : str
        LaTeX or plain, without dollars.
    answer : str
        Idem.

    Returns
    -------
    bool
        False also where one of them cannot be read.
    """
    return bool(math_verify.verify(_parsed(gold), _parsed(answer), timeout_seconds=None))


def _parsed(text: str) -> list[object]:
    return list(math_verify.parse(f"${text.replace('$', '')}$", parsing_timeout=None))
