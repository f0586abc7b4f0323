"""Model prices, and a limit on the total cost."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import read_document
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models.servers import HTTP_KINDS

_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
_WAIT_S = 0.02
_FIRST = 4
"""Number of requests in flight before the cost of one is known."""
HIGHEST_PRICE = 1e9
"""Upper bound of prices per million tokens, which keeps costs finite."""
_KEYS = ("currency", "models")


def money(amount: float, currency: str = "") -> str:
    """Format an amount of money with its currency.

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
    """Prices per million prompt and completion tokens, by model.

    The optional third and fourth prices apply to cached prompt tokens and to reasoning tokens.

    Examples
    --------
    >>> Prices({"gpt-4o": (2.5, 10.0)}, "USD").of("gpt-4o")
    (2.5, 10.0)
    """

    by_model: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    currency: str = "USD"
    """Currency code, such as EUR."""
    other: tuple[float, ...] | None = None
    """Default prices of models that are not listed."""

    def of(self, model: str) -> tuple[float, ...] | None:
        """Return the prices of a model, or None."""
        return self.by_model.get(model, self.other)


def read_prices(path: str | Path) -> Prices:
    r"""Read prices from a TOML file.

    The file has ``currency`` and a table ``[models]`` that maps model names to prices per million
    prompt and completion tokens, ``"gpt-4o" = [2.5, 10]``, optionally followed by the prices of
    cached and reasoning tokens, ``[2.5, 10, 1.25, 10]``.

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
            f'{file}: there is no table [models]; write currency = "USD" and, below [models], a '
            'line such as "gpt-4o" = [2.5, 10.0], per million prompt and completion tokens'
        )
    unknown = [key for key in payload if key not in _KEYS]
    if unknown:
        raise InvalidInputError(
            f"{file}: {unknown[0]!r} is not a valid key; the keys are currency and models"
        )
    currency = payload.get("currency", "USD")
    if not isinstance(currency, str) or not currency.isalpha():
        raise InvalidInputError(f"{file}: currency is {currency!r:.40}; write a code such as EUR")
    found = {
        _name(str(name)): checked_prices(given, f"{file}: [models] {name}")
        for name, given in models.items()
    }
    return Prices(found, currency.upper())


def _name(text: str) -> str:
    """Return the name of a model without its kind."""
    kind, colon, name = text.partition(":")
    return name if colon and kind in HTTP_KINDS else text


def checked_prices(given: Any, place: str) -> tuple[float, ...]:
    """Return two to four prices; raise an error if they are invalid."""
    if not isinstance(given, (list, tuple)) or not 2 <= len(given) <= 4:
        raise InvalidInputError(
            f"{place} is {given!r:.60}; write [IN, OUT], per million prompt and completion tokens, "
            "or [IN, OUT, CACHED, REASONING]"
        )
    return tuple(
        validation.number(one, place.strip("`"), low=0.0, high=HIGHEST_PRICE) for one in given
    )


def cost_of(
    prices: Sequence[float], given: int, made: int, cached: int = 0, reasoning: int = 0
) -> float:
    """Return the cost of prompt and completion tokens.

    ``cached`` tokens are part of the prompt tokens, and ``reasoning`` tokens of the completion
    tokens; without prices of their own, they cost the same.

    Examples
    --------
    >>> cost_of((2.0, 8.0), 1_000_000, 500_000, cached=400_000)
    6.0
    >>> cost_of((2.0, 8.0, 1.0), 1_000_000, 500_000, cached=400_000)
    5.6
    """
    price_in, price_out, *others = prices
    price_cached = others[0] if others else price_in
    price_reasoning = others[1] if len(others) > 1 else price_out
    total = given * price_in + made * price_out
    total += cached * (price_cached - price_in) + reasoning * (price_reasoning - price_out)
    return total / 1e6


class Spending:
    """Total cost and tokens of several models' answers, with limits on both.

    A request waits while the requests in flight, at their mean cost, would exceed a limit, and
    fails once none is in flight. Only the first four requests, whose cost is unknown, may exceed
    it; others wait for the first answer.

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

    def __init__(
        self,
        max_cost: float | None = None,
        currency: str = "USD",
        max_tokens_total: int | None = None,
    ) -> None:
        self.max_cost = max_cost
        if max_cost is not None:
            self.max_cost = validation.number(max_cost, "max_cost", low=0.0)
        self.max_tokens_total = max_tokens_total
        if max_tokens_total is not None:
            self.max_tokens_total = validation.integer(max_tokens_total, "max_tokens_total", low=1)
        self.currency = currency
        self.spent = 0.0
        self.n_tokens = 0
        self.n_answers = 0
        self._under_way = 0

    async def admit(self) -> None:
        """Wait until another request fits the limits; raise `ModelError` if none does."""
        while (exceeded := self._exceeded()) or self._is_guessing:
            if exceeded and not self._under_way:
                raise ModelError(
                    f"{exceeded} {self.n_answers} answers; raise it to continue", kind="budget"
                )
            await asyncio.sleep(_WAIT_S)
        self._under_way += 1

    def book(self, cost: float | None, n_tokens: int = 0) -> None:
        """Record the cost and tokens of an admitted request; None if it failed."""
        self._under_way -= 1
        if cost is not None:
            self.spent += cost
            self.n_tokens += n_tokens
            self.n_answers += 1

    @property
    def _is_guessing(self) -> bool:
        """Whether the cost of a request is unknown, and enough are in flight to learn it."""
        limited = self.max_cost is not None or self.max_tokens_total is not None
        return limited and not self.n_answers and self._under_way >= _FIRST

    def _exceeded(self) -> str:
        """Describe the limit that another request would exceed; "" if there is none."""
        limits = (
            ("max_cost", self.max_cost, self.spent, "was spent on", self._money),
            (
                "max_tokens_total",
                self.max_tokens_total,
                self.n_tokens,
                "were used by",
                "{:,}".format,
            ),
        )
        for name, most, used, verb, shown in limits:
            planned = used + (self._under_way + 1) * used / max(1, self.n_answers)
            if most is not None and (planned > most or used >= most):
                return f"`{name}` is {shown(most)}, and {shown(used)} {verb}"
        return ""

    def _money(self, amount: float) -> str:
        return money(amount, self.currency)
