"""Grouping of token sequences by shared prefix."""

from collections.abc import Sequence
from dataclasses import dataclass

_LEAST_GAIN = 64
"""Minimum number of tokens a group must save, about the cost of a separate pass for the prefix."""


@dataclass(frozen=True, slots=True)
class Group:
    """Indices of sequences that share a prefix of ``n_shared`` tokens."""

    members: tuple[int, ...]
    n_shared: int


def shared_prefixes(texts: Sequence[Sequence[int]]) -> list[Group]:
    """Group token sequences that share a sufficiently long prefix.

    The ``texts`` must not be empty; each is in exactly one group. A shared prefix never includes
    the last token of a sequence.

    Examples
    --------
    >>> long = list(range(100))
    >>> [(g.members, g.n_shared) for g in shared_prefixes([[7], [*long, 1], [*long, 2]])]
    [((1, 2), 100), ((0,), 0)]
    """
    order = sorted(range(len(texts)), key=lambda at: list(texts[at]))
    groups: list[Group] = []
    members: list[int] = []
    shared = 0
    for at in order:
        if members:
            # The sequences are sorted, so all share the common prefix of the first and the last.
            common = _common(texts[members[0]], texts[at], shared)
            if common * len(members) >= shared * (len(members) - 1) and common:
                members.append(at)
                shared = common
                continue
            groups.append(_group(members, shared))
        members, shared = [at], len(texts[at]) - 1
    return [*groups, _group(members, shared)] if members else groups


def _group(members: Sequence[int], shared: int) -> Group:
    worth = shared * (len(members) - 1) >= _LEAST_GAIN
    return Group(tuple(members), shared if worth else 0)


def _common(first: Sequence[int], second: Sequence[int], limit: int) -> int:
    limit = min(limit, len(first) - 1, len(second) - 1)
    for at in range(limit):
        if first[at] != second[at]:
            return at
    return limit
