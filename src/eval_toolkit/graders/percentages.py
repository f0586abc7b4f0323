"""Similarity of two percentages."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.graders.extraction import find_number
from eval_toolkit.models.responses import Completion

TEXT_LIMIT = 100_000
"""Number of characters, from the end of a response, searched for a number."""
_FAR = Fraction(10_000)
"""Difference above which the similarity is 0, since the power of 2 underflows."""


@dataclass(frozen=True, slots=True)
class ExponentialSimilarity:
    """Similarity of a percentage to the reference, halved for every ten points of difference.

    The similarity is 2^(-10·|p - q| / 100), where p is the number that `find_number` extracts from
    the response and q that of the reference; the best reference is used. For a response without a
    number, the similarity and ``<name>_found`` are 0. Only the last `TEXT_LIMIT` characters are
    searched.

    Parameters
    ----------
    name : str, default "exponential_similarity"
        Name of the column.

    Examples
    --------
    >>> ExponentialSimilarity().grade(Completion("About 60 %", ground_truth="50"))
    {'exponential_similarity': 0.5, 'exponential_similarity_found': 1.0}
    """

    name: str = "exponential_similarity"
    response_types = COMPLETIONS

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(bounds=(0.0, 1.0)), f"{self.name}_found": RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the similarity, and whether a number was found."""
        truths = []
        for reference in references(response):
            truth = find_number(reference)
            if truth is None:
                raise InvalidInputError(f"the reference {reference[:80]!r} contains no number")
            truths.append(truth)
        found = find_number(response.completion[-TEXT_LIMIT:])
        if found is None:
            return {self.name: 0.0, f"{self.name}_found": 0.0}
        distance = min(_FAR, *(abs(found - truth) for truth in truths))
        return {self.name: 2.0 ** -(float(distance) / 10), f"{self.name}_found": 1.0}
