"""Grader that chooses how to compare each item: by its own grader, choice, number or string."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    RATE,
    TEXT,
    ColumnInfo,
    Grade,
    columns_of,
    options_version,
    references,
)
from eval_toolkit.graders.extraction.letters import find_letter
from eval_toolkit.graders.extraction.numbers import NumberMatch, read_number
from eval_toolkit.graders.texts import TextRules
from eval_toolkit.models.responses import Completion
from eval_toolkit.plugins import Origin
from eval_toolkit.protocols import Grader

GRADER_FIELD = "grader"
"""Field of an item and key of the context that name the grader of the item."""
_OPTIONS = "options"
"""Context key of the choices of an item, as lettered in its prompt."""
_PLAIN = TextRules(ignore_case=True, ignore_punctuation=True, ignore_articles=True)
_WITH_ARTICLES = TextRules(ignore_case=True, ignore_punctuation=True)
_LEAD = re.compile(
    r"(?:^|[.!?:;,]\s|\n)[\s*_#>]{0,6}(?:(?:so|thus|hence|therefore|the|my|final|correct|right|best)"
    r",?\s{1,2}){0,4}answer[*_]{0,3}\s?(?:is|would be|[:=])(?=[\s*_:])",
    re.IGNORECASE,
)
"""Phrases before an answer, at the start of a sentence: "The answer is", "**Final answer:**"."""
_NUMBER_MATCH = NumberMatch()
_OF_RUN = "set it for the whole run with --grader (graders=)"
_ORIGIN = Origin("the data", f"the field {GRADER_FIELD!r}", remedy=_OF_RUN)


@dataclass(frozen=True, slots=True)
class Match:
    """Whether the answer matches the reference, compared as appropriate for the item.

    An item with a field ``grader`` is graded by the grader it names; an item with lettered choices
    by the letter or the wording of the choice; and an item whose references are numbers by the
    final number of the answer. Otherwise strings are compared, ignoring case, punctuation and
    articles: either the whole answer must match, or the rest of the line after the last "The answer
    is" or "Answer:".

    Parameters
    ----------
    name : str, default "match"
        Name of the column; ``<name>_by`` contains the comparison used for each answer.

    Examples
    --------
    >>> Match().grade(Completion("It makes 1,000.", ground_truth="1000"))
    {'match': 1.0, 'match_by': 'number_match'}
    >>> Match().grade(Completion("The answer is the Nile.", ground_truth="nile"))
    {'match': 1.0, 'match_by': 'exact_match'}
    >>> asked = {"options": ["Madrid", "Rome"]}
    >>> Match().grade(Completion("B) Rome", ground_truth="Rome", context=asked))
    {'match': 1.0, 'match_by': 'choice'}
    """

    name: str = "match"
    response_types = COMPLETIONS

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE, f"{self.name}_by": TEXT}

    def grade(self, response: Completion) -> Mapping[str, float | str | Grade]:
        """Return 1 if the answer matches a reference and 0 otherwise, and the comparison used."""
        how, value = self._graded(response)
        return {self.name: value, f"{self.name}_by": how}

    def _graded(self, response: Completion) -> tuple[str, float | Grade]:
        context = response.context if isinstance(response.context, Mapping) else {}
        named = context.get(GRADER_FIELD)
        grader: Any = grader_of_item(str(named)) if named else self
        if not isinstance(grader, Match):
            column = next(iter(columns_of(grader)))
            return str(named), grader.grade(response)[column]
        options = context.get(_OPTIONS)
        if isinstance(options, (list, tuple)):
            return "choice", float(_chosen(response, [str(one) for one in options]))
        if all(read_number(truth) is not None for truth in references(response)):
            return "number_match", _NUMBER_MATCH.grade(response)["number_match"]
        return "exact_match", float(_says(response))


def _says(response: Completion) -> bool:
    """Return whether the response, or the answer stated in it, equals a reference."""
    text = response.completion
    candidates = [text]
    for lead in _LEAD.finditer(text):
        candidates[1:] = [text[lead.end() :].strip().partition("\n")[0]]
    for truth in references(response):
        # a reference such as "A" is more than an article
        rules = _PLAIN if _PLAIN.apply(truth) else _WITH_ARTICLES
        if rules.apply(truth) in map(rules.apply, candidates):
            return True
    return False


def _chosen(response: Completion, options: list[str]) -> bool:
    """Return whether an answer names the correct choice by wording or by letter."""
    right = {_PLAIN.apply(truth) for truth in references(response)}
    plain = [_PLAIN.apply(one) for one in options]
    answer = _PLAIN.apply(response.completion)
    if answer in plain and len(answer) > 1:
        return answer in right
    letter = find_letter(response.completion, len(options))
    if letter is not None:
        return plain[ord(letter) - ord("A")] in right
    named = [one for one in plain if one and f" {one} " in f" {answer} "]
    longest = [one for one in named if not any(one != other and one in other for other in named)]
    return len(longest) == 1 and longest[0] in right


@lru_cache(maxsize=64)
def grader_of_item(name: str) -> Grader:
    """Load the grader named by an item; it must be built in or part of an installed package.

    It may have options, but must grade strings and need no model.

    Examples
    --------
    >>> grader_of_item("regex_match{pattern='([0-9]+) km'}").name
    'regex_match'
    """
    from eval_toolkit.graders.judges.requests import judges_in
    from eval_toolkit.graders.loading import named_grader

    grader: Any = named_grader(name, {}, origin=_ORIGIN)
    if judges_in([grader]):
        raise InvalidInputError(
            f"the field {GRADER_FIELD!r} names {name!r}, which needs a model; {_OF_RUN}"
        )
    kinds = getattr(grader, "response_types", COMPLETIONS)
    if not set(COMPLETIONS) & set(kinds):
        raise InvalidInputError(
            f"the field {GRADER_FIELD!r} names {name!r}, which does not grade strings"
        )
    return grader  # type: ignore[no-any-return]
