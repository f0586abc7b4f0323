"""Deterministic model that derives answers from a hash of the request, for both packages."""

import hashlib
from collections.abc import Sequence


def _number(*parts: str) -> int:
    text = "\x1f".join(parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6], "big")


def loglikelihood(context: str, continuation: str) -> tuple[float, bool]:
    """Return a length-dependent log-likelihood, and whether the continuation is greedy."""
    number = _number(context, continuation)
    return -(1.0 + number % 1000 / 100.0) * (1 + len(continuation) / 40.0), number % 3 == 0


def completion(context: str, answers: Sequence[str]) -> str:
    """Return one of the answers."""
    return answers[_number(context) % len(answers)]
