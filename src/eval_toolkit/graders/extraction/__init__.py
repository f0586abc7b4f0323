r"""Graders that extract the answer from a text: by pattern, as a number, as a letter.

A text in which no answer is found is a wrong answer (0), and the column ``<name>_found`` says so: a
model that does not know and a model that does not keep to the form are told apart. The patterns
used here look at every character a bounded number of times.
"""

from eval_toolkit.graders.extraction.letters import LetterMatch, find_letter
from eval_toolkit.graders.extraction.numbers import NumberMatch, find_number, read_number
from eval_toolkit.graders.extraction.patterns import RegexMatch

__all__ = ["LetterMatch", "NumberMatch", "RegexMatch", "find_letter", "find_number", "read_number"]
