"""Extraction and comparison of mathematical answers."""

from eval_toolkit.graders.mathematics.answers import find_math_answers
from eval_toolkit.graders.mathematics.matching import MathMatch
from eval_toolkit.graders.mathematics.normal import normal_form

__all__ = ["MathMatch", "find_math_answers", "normal_form"]
