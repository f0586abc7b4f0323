"""`MathMatch`: mathematical equality of an answer and a reference."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit._internal.sandbox.errors import Overrun
from eval_toolkit._internal.validation import integer, number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    KEPT,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.graders.mathematics.answers import find_math_answers, reference_answer
from eval_toolkit.graders.mathematics.normal import normal_form
from eval_toolkit.graders.mathematics.notation import latex, split_name
from eval_toolkit.models.responses import Completion

_LONGEST = 500
"""Maximum length of a response that is compared as a whole."""
_WAITING = 20
"""Factor between wall-clock and CPU time limits, for busy machines."""


@dataclass(frozen=True, slots=True)
class MathMatch:
    r"""Whether the answer in a response equals a reference mathematically, as do 1/2 and ``\frac12``.

    ``math_match`` uses only the first answer of `find_math_answers`, ``math_match_flex`` any of
    them. Answers are equal if they have the same `normal_form` or math-verify finds them equal,
    with floating-point numbers compared to six decimals. math-verify runs in a separate process:
    evaluation of an answer such as ``9^{9^{9^9}}`` is stopped; the answer counts as wrong, and
    ``math_match_timed_out`` is 1. A response without an answer is wrong, and ``math_match_found``
    is 0. A reference may be an answer, or a worked solution with a box or ``####``. A reference
    that is empty, or cannot be compared even with 0 within the time limit, is a task error rather
    than a wrong answer.

    Parameters
    ----------
    seconds : float, default 1.5
        CPU time limit in seconds for all comparisons of one response. Typical answers take a few
        hundredths of a second, hard ones 0.75 seconds.
    memory_mb : int, default 1024
        Memory limit of the comparison process in MB.
    decimals : int, default 6
        Number of decimals to which floating-point numbers must agree.
    name : str, default "math_match"
        Name of the first column and prefix of the others.

    Raises
    ------
    MissingExtraError
        If the extra ``math`` is not installed.

    Examples
    --------
    >>> answer = Completion(r"Thus it is $\boxed{\frac{2}{4}}$.", ground_truth="0.5")
    >>> MathMatch().grade(answer)["math_match"]
    1.0
    """

    seconds: float = 1.5
    memory_mb: int = 1024
    decimals: int = 6
    name: str = "math_match"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        number(self.seconds, "seconds", low=0.1)
        integer(self.memory_mb, "memory_mb", low=256)
        integer(self.decimals, "decimals", low=0)
        if find_spec("math_verify") is None:
            require("math_verify", feature="MathMatch", extra="math")

    version = options_version("3")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        rates = (self.name, f"{self.name}_flex", f"{self.name}_found")
        return {**dict.fromkeys(rates, RATE), f"{self.name}_timed_out": KEPT}

    def answer(self, response: Completion) -> str | None:
        """Return the normal form of the first answer, or None."""
        answers = find_math_answers(response.completion)
        return normal_form(answers[0]) if answers else None

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the first answer is correct, whether any is, and whether one was found."""
        golds = [_gold(truth) for truth in references(response)]
        answers = find_math_answers(response.completion)
        # A response that equals the whole reference need not be parsed.
        alike = any(_is_text(response.completion, truth) for truth in references(response))
        right = [alike or any(_alike(gold, answer) for gold in golds) for answer in answers]
        timed_out, left = False, self.seconds
        for at, answer in enumerate(answers):
            if timed_out or any(right[: at + 1]):
                break  # later answers change neither column, or would also time out
            right[at], left = self._compared(golds, answer, left)
            timed_out = left <= 0.0
        first = right[0] if right else False
        given = (first, any(right), bool(answers), timed_out)
        return {column: float(value) for column, value in zip(self.columns(), given, strict=True)}

    def _compared(self, golds: list[str], answer: str, left: float) -> tuple[bool, float]:
        """Return whether an answer equals a reference, and the seconds left (0 after a timeout)."""
        late: list[str] = []
        for gold in golds:
            if left <= 0.0 or _differently_named(gold, answer):
                continue
            # At first, use half of the time: the reference may be slow and another one equal.
            share = left if late or gold is golds[-1] else left / 2
            try:
                is_equal, used = self._equal(share, gold, answer)
            except Overrun:
                is_equal, used = False, share
                late.append(gold)
            if is_equal:
                return True, left
            left -= used
        for gold in late:
            try:
                self._equal(self.seconds, gold, "0")
            except Overrun:
                raise InvalidInputError(
                    f"the reference {gold[:80]!r} takes too long to compare, even with 0; "
                    f"simplify it"
                ) from None
        return False, 0.0 if late else left

    def _equal(self, seconds: float, gold: str, answer: str) -> tuple[bool, float]:
        # Import lazily: only this grader needs to start processes.
        from eval_toolkit._internal.sandbox import Contained, Limits
        from eval_toolkit._internal.sandbox.levels import best_sandbox

        target = "eval_toolkit.graders.mathematics.verifying:equal_within"
        wall = self.seconds * (_WAITING if hasattr(signal, "setitimer") else 1)
        call: Any = Contained(target, Limits(wall, self.memory_mb), best_sandbox())
        is_equal, used = call(seconds, gold, answer, self.decimals)
        return is_equal, used


def _gold(truth: str) -> str:
    answer = reference_answer(truth)
    if not answer:
        raise InvalidInputError(f"the reference {truth[:80]!r} contains no answer")
    return answer


def _is_text(text: str, truth: str) -> bool:
    return len(text) <= _LONGEST and _alike(truth, text)


def _alike(gold: str, answer: str) -> bool:
    form = normal_form(gold)
    return bool(form) and form == normal_form(answer) and not _differently_named(gold, answer)


def _differently_named(gold: str, answer: str) -> bool:
    """Return whether both sides assign a value to variables with different names."""
    one, other = (split_name(latex(text))[0].casefold() for text in (gold, answer))
    return bool(one and other and one != other)
