"""Mathematical equality of two answers, computed by math-verify in a worker process."""

import logging
import re
import signal
import time
from decimal import Decimal, localcontext
from fractions import Fraction

import math_verify

from eval_toolkit.graders.extraction.numbers import read_number
from eval_toolkit.graders.mathematics.normal import latex_number
from eval_toolkit.graders.mathematics.notation import latex, without_percent, without_unit

# Silence the library's warning about its missing time limit; the worker has one.
logging.getLogger("math_verify").setLevel(logging.ERROR)

# Parse only formulas: numbers within prose are not answers.
_READ = [math_verify.LatexExtractionConfig(boxed_match_priority=-1)]
_AND = re.compile(
    r",?\s*(?:\\q?quad\s*)?(?:\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b)(?:\s*\\q?quad)?\s*"
)
_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
_DIGITS = 50


def equal(gold: str, answer: str, decimals: int = 6) -> bool:
    """Return whether an answer equals a reference according to math-verify.

    Both are LaTeX or plain text, without dollar signs. Floating-point numbers must agree to
    ``decimals``. Answers that cannot be parsed are not equal. A percentage equals both the number
    before the sign and one hundredth of it.
    """
    (one, of_hundred), (other, other_of_hundred) = map(without_percent, (gold, answer))
    readings, others = _parsed(one), _parsed(other)
    if of_hundred and not other_of_hundred:
        readings += _parsed(rf"({one})/100")
    if other_of_hundred and not of_hundred:
        others += _parsed(rf"({other})/100")
    return bool(math_verify.verify(readings, others, float_rounding=decimals, timeout_seconds=None))


def equal_within(seconds: float, gold: str, answer: str, decimals: int) -> tuple[bool, float]:
    """Return the result of `equal` and the CPU time used in seconds.

    If the platform supports it, the process is terminated, even inside C code, after ``seconds`` of
    CPU time.
    """
    timer = getattr(signal, "setitimer", lambda which, seconds: None)
    which, started = getattr(signal, "ITIMER_PROF", None), time.process_time()
    timer(which, seconds)
    try:
        return equal(gold, answer, decimals), time.process_time() - started
    finally:
        timer(which, 0)


def _parsed(text: str) -> list[object]:
    """Parse a string with sympy."""
    plain = without_unit(latex(text.replace("$", ""))).strip()
    if (number := read_number(plain)) is not None:
        plain = _decimal(number) if "." in plain else latex_number(number)
    readings = [_AND.sub(",", plain)]
    if _COMMA.fullmatch(plain):  # either two numbers or a decimal comma
        readings.append(plain.replace(",", "."))
    parsed = [math_verify.parse(f"$${one}$$", _READ, parsing_timeout=None) for one in readings]
    return [one for some in parsed for one in some]


def _decimal(number: Fraction) -> str:
    """Return a number in decimal notation, for comparison to a fixed number of decimals."""
    with localcontext(prec=_DIGITS):
        return f"{Decimal(number.numerator) / number.denominator:f}"
