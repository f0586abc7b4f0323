r"""Graders that extract an answer from a response: a pattern match, a number or a letter.

A response without an answer counts as wrong (0), and is marked in the column ``<name>_found``,
to distinguish wrong answers from violations of the answer format. The patterns used here inspect
every character a bounded number of times.
"""

from eval_toolkit.graders.extraction.letters import LetterMatch, find_letter
from eval_toolkit.graders.extraction.numbers import NumberMatch, find_number, read_number
from eval_toolkit.graders.extraction.patterns import RegexMatch

__all__ = ["LetterMatch", "NumberMatch", "RegexMatch", "find_letter", "find_number", "read_number"]
