"""Variance components of items, attempts, prompts and seeds, and allocation of the next samples."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError

ITEM, ATTEMPT = "item", "attempt"
_TIMES = " × "


@dataclass(frozen=True, slots=True)
class Purchase(Displayed):
    """Reduction of the standard error by one additional item, attempt or factor level.

    Examples
    --------
    >>> Purchase("attempt", 0.04, 0.01, 100.0).per_cost
    0.0001
    """

    what: str
    """"item", "attempt" or the name of a factor."""
    se: float
    """Standard error after the addition."""
    saved: float
    """Reduction of the standard error."""
    cost: float

    @property
    def per_cost(self) -> float:
        """Reduction of the standard error per unit cost."""
        return self.saved / self.cost

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = ("what", "se", "saved", "cost", "per_cost")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VarianceComponents(Displayed):
    """Variance of a single value, by source.

    Examples
    --------
    >>> parts = variance_components([1, 1, 0, 0, 1, 0], ["a", "a", "b", "b", "c", "c"])
    >>> {name: round(value, 3) for name, value in parts.components.items()}
    {'item': 0.167, 'attempt': 0.167}
    """

    components: Mapping[str, float]
    """Variance by source: "item", each factor, "item × factor", …, "attempt" (residual)."""
    levels: Mapping[str, int]
    """Number of items, of levels of each factor, and of attempts per combination (rounded)."""
    mean: float
    n_values: int
    balanced: bool
    reason: str = ""
    """Components that were set to zero, and sources that could not be separated."""

    @property
    def shares(self) -> dict[str, float]:
        """Fraction of a single value's variance, by source."""
        total = sum(self.components.values())
        return {name: value / total for name, value in self.components.items()} if total else {}

    def se(self, levels: Mapping[str, int] | None = None, *, fixed: Collection[str] = ()) -> float:
        """Return the standard error of the mean for a balanced design.

        Parameters
        ----------
        levels : mapping of str to int, optional
            Number of items ("item"), attempts ("attempt") and levels of each factor; by default as
            in the data.
        fixed : collection of str, optional
            Factors whose levels are fixed rather than sampled; their own variance is excluded.

        Returns
        -------
        float
            Square root of the sum of the components, each divided by its number of levels.

        Raises
        ------
        InvalidInputError
            If a name is not part of the design, or a number is below 1.

        Examples
        --------
        >>> parts = variance_components([1, 1, 0, 0, 1, 0], ["a", "a", "b", "b", "c", "c"])
        >>> round(parts.se(), 3), round(parts.se({"item": 100, "attempt": 1}), 3)
        (0.289, 0.058)
        """
        counts = self._counts(levels or {})
        self._known(fixed, "fixed")
        every = math.prod(counts.values())
        total = 0.0
        for source, variance in self.components.items():
            if source not in fixed:
                names = source.split(_TIMES)
                total += variance / (
                    every if source == ATTEMPT else math.prod(counts[name] for name in names)
                )
        return math.sqrt(total)

    def next_buys(
        self,
        levels: Mapping[str, int] | None = None,
        *,
        costs: Mapping[str, float] | None = None,
        fixed: Collection[str] = (),
    ) -> tuple[Purchase, ...]:
        """Rank the additions of one item, attempt or factor level by benefit per cost.

        Parameters
        ----------
        levels : mapping of str to int, optional
            Design to extend; by default as in the data.
        costs : mapping of str to float, optional
            Cost of one "request" (1 by default), and additional cost of one "item", "attempt" or
            factor level (0 by default).
        fixed : collection of str, optional
            See `se`; fixed factors are not extended.

        Returns
        -------
        tuple of Purchase
            Additions, from most to least beneficial.

        Raises
        ------
        InvalidInputError
            If a name is not part of the design, or a cost is not positive.

        Examples
        --------
        Two attempts at each of three items; another item reduces the error more than another
        attempt at each item.

        >>> parts = variance_components([1, 1, 0, 0, 1, 0], ["a", "a", "b", "b", "c", "c"])
        >>> [buy.what for buy in parts.next_buys()]
        ['item', 'attempt']
        """
        counts = self._counts(levels or {})
        prices = dict(costs or {})
        self._known([name for name in prices if name != "request"], "costs")
        request = validation.number(prices.get("request", 1.0), "costs['request']", low=0.0)
        now, every = self.se(counts, fixed=fixed), math.prod(counts.values())
        buys = []
        for name, count in counts.items():
            if name in fixed:
                continue
            cost = request * every / count + prices.get(name, 0.0)
            if cost <= 0.0:
                raise InvalidInputError(
                    f"the cost of one more {name} is {cost:g}; it must be positive"
                )
            then = self.se({**counts, name: count + 1}, fixed=fixed)
            buys.append(Purchase(name, then, now - then, cost))
        return tuple(sorted(buys, key=lambda buy: -buy.per_cost))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "components": dict(self.components),
            "shares": self.shares,
            "levels": dict(self.levels),
            "mean": self.mean,
            "se": self.se(),
            "n_values": self.n_values,
            "balanced": self.balanced,
            "next_buys": [buy.to_dict() for buy in self.next_buys()],
            "reason": self.reason,
        }

    def _counts(self, levels: Mapping[str, int]) -> dict[str, int]:
        self._known(levels, "levels")
        for name, count in levels.items():
            validation.integer(count, f"levels[{name!r}]", low=1)
        return {**self.levels, **levels}

    def _known(self, names: Collection[str], what: str) -> None:
        for name in names:
            if name not in self.levels:
                raise MissingColumnError(
                    f"`{what}` names {name!r}; the design has {', '.join(self.levels)}"
                )


def variance_components(
    values: ArrayLike,
    items: ArrayLike,
    *,
    factors: Mapping[str, ArrayLike] | None = None,
) -> VarianceComponents:
    """Decompose the variance of values into items, attempts and crossed factors.

    Parameters
    ----------
    values : array-like of shape (n,)
        One number per attempt, 0/1 or real.
    items : array-like of shape (n,)
        Item of each value.
    factors : mapping of name to array-like of shape (n,), optional
        Factors crossed with items, e.g. prompt template, seed or judge. Levels are treated as a
        random sample.

    Returns
    -------
    VarianceComponents
        Variance by source, with methods for the standard error of other designs and the most useful
        additions.

    Raises
    ------
    InvalidInputError
        If lengths differ, a factor has one level or does not vary within items, or two factors are
        confounded.
    UndefinedMetricError
        If every item has one value, so items and attempts are confounded.

    Notes
    -----
    Henderson's first method [1]_ equates the sums of squares of each source's means with their
    expectations under crossed random effects. It is unbiased for balanced and unbalanced designs,
    and equals the analysis of variance for balanced designs. Negative estimates are set to zero
    (see ``reason``). Two-way interactions are separate components if combinations have several
    values; otherwise they are part of "attempt".

    References
    ----------
    .. [1] Henderson (1953), Biometrics 9(2):226-252.
    .. [2] Searle, Casella & McCulloch (1992), Variance Components, chapter 5.

    Examples
    --------
    >>> items = ["a", "b", "c"] * 4
    >>> prompts = ["short"] * 6 + ["long"] * 6
    >>> parts = variance_components([1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 1], items,
    ...                             factors={"prompt": prompts})
    >>> list(parts.components)
    ['item', 'prompt', 'item × prompt', 'attempt']
    """
    x = validation.vector(values, "values")
    codes, n_items = validation.group_codes(items, len(x), "items")
    sources = {ITEM: codes} | _factors(factors or {}, len(x), codes)
    if n_items < 2:
        raise UndefinedMetricError(
            "the variance between items is undefined: there is only one item"
        )
    if n_items == len(x):
        raise UndefinedMetricError(
            "the variance of attempts is undefined: every item has one value; add attempts"
        )
    levels = {name: int(part.max()) + 1 for name, part in sources.items()}
    cells = _crossed(list(sources.values()))
    sizes = np.bincount(cells)
    notes = _add_interactions(sources, len(x))
    found = _solve(x - x.mean(), sources)
    components = dict(zip([*sources, ATTEMPT], found.tolist(), strict=True))
    negative = [name for name, value in components.items() if value < 0.0]
    if negative:
        notes.append(f"set to zero, as the estimate was negative: {', '.join(negative)}")
    complete = len(sizes) == math.prod(levels.values())
    return VarianceComponents(
        components={name: max(0.0, value) for name, value in components.items()},
        levels={**levels, ATTEMPT: max(1, round(len(x) / math.prod(levels.values())))},
        mean=float(x.mean()),
        n_values=len(x),
        balanced=complete and int(sizes.min()) == int(sizes.max()),
        reason="; ".join(notes),
    )


def _factors(factors: Mapping[str, ArrayLike], n: int, items: IntArray) -> dict[str, IntArray]:
    found: dict[str, IntArray] = {}
    for name, values in factors.items():
        if name in (ITEM, ATTEMPT) or _TIMES in name:
            raise InvalidInputError(f"factor name {name!r} is reserved; use another")
        codes, n_levels = validation.group_codes(values, n, name)
        if n_levels < 2:
            raise InvalidInputError(f"factor {name!r} has one level; at least two are needed")
        both = len(np.unique(_crossed([items, codes])))
        if both == int(items.max()) + 1:
            raise InvalidInputError(
                f"factor {name!r} does not vary within items; factors must be crossed with items"
            )
        if both == n_levels:
            raise InvalidInputError(
                f"factor {name!r} has different levels for every item; use the same levels for all"
            )
        for other, known in found.items():
            if len(np.unique(_crossed([known, codes]))) == n_levels == int(known.max()) + 1:
                raise InvalidInputError(
                    f"factors {other!r} and {name!r} are confounded; keep only one of them"
                )
        found[name] = codes
    return found


def _crossed(parts: list[IntArray]) -> IntArray:
    """Return a code for every observed combination of levels."""
    codes = parts[0]
    for part in parts[1:]:
        codes = np.unique(codes * (int(part.max()) + 1) + part, return_inverse=True)[1]
    return np.asarray(codes, dtype=np.int64)


def _add_interactions(sources: dict[str, IntArray], n: int) -> list[str]:
    """Add the interactions whose combinations are repeated, and report the others."""
    merged = []
    for (name, part), (other, codes) in combinations(tuple(sources.items()), 2):
        both = _crossed([part, codes])
        if int(both.max()) + 1 == n:
            merged.append(f"{name}{_TIMES}{other}")
        else:
            sources[f"{name}{_TIMES}{other}"] = both
    return [f"part of {ATTEMPT!r}, with one value each: {', '.join(merged)}"] if merged else []


def _solve(x: FloatArray, sources: dict[str, IntArray]) -> FloatArray:
    """Return the variance components by Henderson's first method."""
    n, parts = len(x), list(sources.values())
    sizes = [np.bincount(part).astype(np.float64) for part in parts]
    # Correction of each expectation for the overall mean.
    off = np.array([float(size @ size) / n for size in sizes] + [1.0])
    left = np.empty((len(parts) + 1, len(parts) + 1))
    right = np.empty(len(parts) + 1)
    for row, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        sums = np.bincount(part, x)
        right[row] = float((sums**2 / size).sum())
        for column, other in enumerate(parts):
            left[row, column] = _overlap(part, other, size)
        left[row, -1] = len(size)
    left[-1], right[-1] = n, float(x @ x)
    left -= off
    if np.linalg.matrix_rank(left) < len(left):
        raise InvalidInputError(
            "the sources of variance are confounded in this design: "
            f"{', '.join(sources)}; drop a factor or add combinations"
        )
    return np.asarray(np.linalg.solve(left, right), dtype=np.float64)


def _overlap(part: IntArray, other: IntArray, size: FloatArray) -> float:
    """Return the sum of n(part, other)² / n(part) over all combinations of levels."""
    pairs, counts = np.unique(part * (int(other.max()) + 1) + other, return_counts=True)
    return float((counts**2 / size[pairs // (int(other.max()) + 1)]).sum())
