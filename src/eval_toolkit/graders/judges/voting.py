"""Aggregation and agreement of several verdicts."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from eval_toolkit.graders.base import Grade

RULES = ("majority", "mean")


def combined(grades: Sequence[Grade], rule: str) -> Grade:
    """Return the combined grade of several verdicts.

    "majority" returns the value of more than half of all verdicts, including missing ones; "mean"
    requires all verdicts. Otherwise the grade is an error. Disagreements are not random, so they
    are reported instead of dropped.

    Examples
    --------
    >>> yes, no = Grade(1.0), Grade(0.0)
    >>> combined([yes, yes, no], "majority").value
    1.0
    >>> combined([yes, no], "majority").reason
    'no majority: 1 × 1, 1 × 0'
    """
    values = [grade.value for grade in grades if grade.value is not None]
    absent = [grade for grade in grades if grade.value is None]
    if len(grades) == 1 or not values:
        return grades[0]
    if rule == "mean":
        if absent:
            return Grade.error(
                f"{len(absent)} of {len(grades)} without a verdict: {absent[0].reason}"
            )
        return Grade(sum(values) / len(values))
    counts = Counter(values).most_common()
    value, most = counts[0]
    if 2 * most > len(grades):
        return Grade(value)
    counted = [f"{count} × {one:g}" for one, count in counts]
    counted += [f"{len(absent)} without a verdict ({absent[0].reason})"] if absent else []
    return Grade.error(f"no majority: {', '.join(counted)}")


def agreement(grades: Sequence[Grade]) -> Grade:
    """Return the share of pairs of verdicts that agree.

    Missing verdicts are ignored; with fewer than two verdicts, the grade is skipped.

    Examples
    --------
    >>> agreement([Grade(1.0), Grade(1.0), Grade(0.0)]).value
    0.3333333333333333
    """
    values = [grade.value for grade in grades if grade.value is not None]
    pairs = list(combinations(values, 2))
    if not pairs:
        return Grade.skipped("fewer than two verdicts")
    return Grade(sum(a == b for a, b in pairs) / len(pairs))
