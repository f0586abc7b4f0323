"""Graders: a response and its reference to numbers. Pure, so that stored responses can be graded again.

A grader has a ``name``, a ``version`` that changes when its numbers may, and ``grade(response)``,
which returns a number or a `Grade` per column. ``columns()`` says how each column is to be read, and
``response_types`` what it can grade; a grader without it is given whatever a task asks for.
"""

from typing import TYPE_CHECKING

from eval_toolkit._optional import names_on_use
from eval_toolkit.graders.base import ColumnInfo, Grade
from eval_toolkit.graders.choices import BitsPerByte, ChoiceAccuracy, ProbabilityMass
from eval_toolkit.graders.loading import available_graders, default_graders, load_grader
from eval_toolkit.graders.texts import ExactMatch, TextRules, TokenF1

if TYPE_CHECKING:
    from eval_toolkit.graders.extraction import (
        LetterMatch,
        NumberMatch,
        RegexMatch,
        find_letter,
        find_number,
    )

__all__ = [
    "BitsPerByte",
    "ChoiceAccuracy",
    "ColumnInfo",
    "ExactMatch",
    "Grade",
    "LetterMatch",
    "NumberMatch",
    "ProbabilityMass",
    "RegexMatch",
    "TextRules",
    "TokenF1",
    "available_graders",
    "default_graders",
    "find_letter",
    "find_number",
    "load_grader",
]

# Its patterns take longer to compile than most tasks to load.
__getattr__ = names_on_use(
    __name__,
    {
        "extraction": ("LetterMatch", "NumberMatch", "RegexMatch", "find_letter", "find_number"),
    },
)
