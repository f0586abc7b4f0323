"""Prices of models, and a limit on the total cost."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import read_document
from eval_toolkit.errors import InvalidInputError, ModelError

_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
_WAIT_S = 0.02
HIGHEST_PRICE = 1e9
"""Limit of prices per million tokens, so that costs are finite."""
_KEYS = ("currency", "models")


def money(amount: float, currency: str = "") -> str:
    """Return an amount of money as text.

    Examples
    --------
    >>> money(0.4217, "USD"), money(12.3, "CHF"), money(0.000042), money(0.0, "EUR")
    ('$0.42', '12.30 CHF', '0.000042', '€0')
    """
    if amount and not 1e-9 < amount < 1e15:
        digits = f"{amount:.2g}"
    else:
        digits = f"{amount:.2f}" if amount >= 0.1 else f"{Decimal(f'{amount:.2g}'):f}"
    sign = _SIGNS.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}".strip()


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per million tokens of prompt and of answer, by model.

    Examples
    --------
    >>> Prices({"gpt-4o": (2.5, 10.0)}, "USD").of("gpt-4o")
    (2.5, 10.0)
    """

    by_model: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    currency: str = "USD"
    """Code such as EUR."""
    other: tuple[float, float] | None = None
    """Prices of models that are not listed."""

    def of(self, model: str) -> tuple[float, float] | None:
        """Return the prices of a model, or None."""
        return self.by_model.get(model, self.other)


def read_prices(path: str | Path) -> Prices:
    r"""Read prices from a TOML file.

    The file has ``currency`` and a table ``[models]`` from the name of a model to its prices per
    million tokens of prompt and of answer: ``"gpt-4o" = [2.5, 10]``.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "prices.toml"
    >>> _ = file.write_text('currency = "EUR"\n[models]\n"gpt-4o" = [2.3, 9.2]\n')
    >>> read_prices(file).of("gpt-4o")
    (2.3, 9.2)
    """
    file = Path(path)
    payload = read_document(file)
    models = payload.get("models") if isinstance(payload, Mapping) else None
    if not isinstance(models, Mapping) or not models:
        raise InvalidInputError(
            f'{file}: there is no table [models]; write currency = "USD" and below [models] a '
            'line such as "gpt-4o" = [2.5, 10.0], per million tokens of prompt and of answer'
        )
    unknown = [key for key in payload if key not in _KEYS]
    if unknown:
        raise InvalidInputError(f"{file}: {unknown[0]!r} is not a key; use currency and models")
    currency = payload.get("currency", "USD")
    if not isinstance(currency, str) or not currency.isalpha():
        raise InvalidInputError(f"{file}: currency is {currency!r:.40}; write a code such as EUR")
    found = {
        str(name).removeprefix("openai:"): _pair(given, f"{file}: [models] {name}")
        for name, given in models.items()
    }
    return Prices(found, currency.upper())


def _pair(given: Any, place: str) -> tuple[float, float]:
    if not isinstance(given, list) or len(given) != 2:
        raise InvalidInputError(
            f"{place} is {given!r:.60}; write [IN, OUT], per million tokens of prompt and of answer"
        )
    one, other = (validation.number(price, place, low=0.0, high=HIGHEST_PRICE) for price in given)
    return one, other


class Spending:
    """Total cost of the answers of several models, with a limit.

    Requests wait while those under way, at the mean price so far, would exceed the limit, and fail
    once none is under way. Only the first requests, whose cost is unknown, may exceed it.

    Examples
    --------
    >>> spending = Spending(0.5, "USD")
    >>> asyncio.run(spending.admit())
    >>> spending.book(0.6)
    >>> asyncio.run(spending.admit())
    Traceback (most recent call last):
    eval_toolkit.errors.ModelError: `max_cost` is $0.50, and $0.60 was spent on 1 answers; raise it
    to continue
    """

    def __init__(self, max_cost: float, currency: str = "USD") -> None:
        self.max_cost = validation.number(max_cost, "max_cost", low=0.0)
        self.currency = currency
        self.spent = 0.0
        self.n_answers = 0
        self._under_way = 0

    async def admit(self) -> None:
        """Wait until another request fits; raise `ModelError` if none does."""
        while self._exceeded():
            if not self._under_way:
                most, spent = (money(one, self.currency) for one in (self.max_cost, self.spent))
                raise ModelError(
                    f"`max_cost` is {most}, and {spent} was spent on {self.n_answers} answers; "
                    "raise it to continue",
                    kind="budget",
                )
            await asyncio.sleep(_WAIT_S)
        self._under_way += 1

    def book(self, cost: float | None) -> None:
        """Count the cost of an admitted request; None if it failed."""
        self._under_way -= 1
        if cost is not None:
            self.spent += cost
            self.n_answers += 1

    def _exceeded(self) -> bool:
        mean = self.spent / self.n_answers if self.n_answers else 0.0
        planned = self.spent + (self._under_way + 1) * mean
        return planned > self.max_cost or self.spent >= self.max_cost
