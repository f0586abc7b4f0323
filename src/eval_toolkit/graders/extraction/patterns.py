"""Extraction of answers with a user-supplied pattern."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.sandbox.errors import Overrun
from eval_toolkit._internal.sandbox.patterns import find_in, is_simple
from eval_toolkit._internal.validation import choice
from eval_toolkit.graders.base import COMPLETIONS, ColumnInfo, Grade, options_version
from eval_toolkit.graders.extraction.forms import found_columns, found_grades
from eval_toolkit.graders.texts import TextRules, applied, timed_out_columns
from eval_toolkit.models.responses import Completion


@dataclass(frozen=True, slots=True)
class RegexMatch:
    r"""Whether the match of a pattern equals one of the references.

    Parameters
    ----------
    pattern : str
        Regular expression. The first group that matches is compared, or the whole match if there
        are no groups. Only the last 20 000 characters are searched. A search that takes more than a
        second is stopped and counts as no match; see `eval_toolkit.graders.texts`.
    which : {"last", "first"}, default "last"
        Which match to use if there are several.
    ignore_case, ignore_punctuation, ignore : as in `TextRules`
        Normalisation of the match and the references; references are not searched.
    name : str, default "regex_match"
        Name of the column.

    Examples
    --------
    >>> grader = RegexMatch(r"answer is (\w+)")
    >>> grader.grade(Completion("So the answer is Rome.", ground_truth="Rome"))
    {'regex_match': 1.0, 'regex_match_found': 1.0}
    """

    pattern: str
    which: str = "last"
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore: Sequence[str] = ()
    name: str = "regex_match"
    response_types = COMPLETIONS
    _search: Any = field(default=None, init=False, repr=False, compare=False)
    _rules: TextRules = field(default=TextRules(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        choice(self.which, "which", ("last", "first"))
        flags = re.IGNORECASE if self.ignore_case else 0
        object.__setattr__(self, "_search", compiled(self.pattern, "pattern", flags))
        rules = TextRules(self.ignore_case, self.ignore_punctuation, ignore=self.ignore)
        object.__setattr__(self, "ignore", rules.ignore)
        object.__setattr__(self, "_rules", rules)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {**found_columns(self.name), **timed_out_columns(self.name, self._may_overrun)}

    @property
    def _may_overrun(self) -> bool:
        simple = is_simple(self._search.pattern, self._search.flags)
        return not simple or self._rules.may_overrun

    def find(self, text: str) -> str | None:
        """Return the match of the pattern, or None.

        Raises RuntimeError if the search exceeds the time limit.
        """
        return find_in(text, self._search, self.which)

    def answer(self, response: Completion) -> str | None:
        """Return the extracted answer; None if nothing is found or the time limit is exceeded."""
        try:
            found = self.find(response.completion)
            return None if found is None else self._rules.apply(found)
        except Overrun:
            return None

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the match is correct, and whether the pattern matched."""
        truths = applied(self._rules, response)
        late = dict.fromkeys(timed_out_columns(self.name, self._may_overrun), 0.0)
        try:
            found = self.find(response.completion)
            right = found is not None and self._rules.apply(found) in truths
        except Overrun:  # the time limit was exceeded
            return {**found_grades(self.name, False, False), **dict.fromkeys(late, 1.0)}
        return {**found_grades(self.name, found is not None, right), **late}
