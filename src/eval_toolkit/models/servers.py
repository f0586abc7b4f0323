"""Default server for models whose names contain no address.

A name such as ``openai:judge`` contains no address. Once the user has specified a server, requests
to such models are sent there, never silently to OpenAI.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.plugins import user_hosts

if TYPE_CHECKING:
    from eval_toolkit.models.prices import Prices, Spending

HTTP_KINDS = ("anthropic", "azure", "bedrock", "gemini", "openai")
"""Kinds of models that are queried over HTTP, as in ``openai:NAME``."""
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
_OPENAI = "https://api.openai.com/v1"


def _nothing(message: str) -> None:
    """Ignore a message."""


@dataclass(frozen=True, slots=True)
class UserServer:
    """Server specified by the user for models without an address of their own.

    Examples
    --------
    >>> UserServer("http://localhost:8000/v1").address("judge", None)
    ('http://localhost:8000/v1', None)
    """

    base_url: str | tuple[str, ...] | None = None
    """Address of the server, or addresses of several servers with the same models."""
    api_key_env: str | None = None
    """Variable with the key for ``base_url``; the key is not sent to other addresses."""
    mentioned: tuple[str, ...] = ()
    """Addresses that the user specified for individual models."""
    tell: Callable[[str], None] = _nothing
    """Callback that receives a message on where prompts are sent, once per model."""
    prices: "Prices | None" = None
    spending: "Spending | None" = None
    """Limit on the total cost of all models."""

    def address(
        self, model: str, api_key_env: str | None
    ) -> tuple[str | tuple[str, ...], str | None]:
        """Return the address for a model without one, and the variable that contains the key.

        Raises an error if there are several addresses and none is for this model.
        """
        named = self.base_url or os.environ.get(BASE_URL_VARIABLE, "").strip()
        if named or not self.mentioned:
            return named or _OPENAI, api_key_env or self.api_key_env
        several = tuple(dict.fromkeys(self.mentioned))
        if len(several) > 1:
            raise InvalidInputError(
                f"openai:{model} has no address, but {len(several)} were specified for other "
                f"models; write "
                f"openai:{model}{{base_url='{several[0]}'}}, or set one for all with --base-url"
            )
        return several[0], api_key_env


_SERVER: ContextVar[UserServer] = ContextVar("server", default=UserServer())  # noqa: B039 - frozen


def cost_text(amount: float) -> str:
    """Format an amount of money in the currency of the user's prices."""
    from eval_toolkit.models.prices import money  # only needed with prices

    return money(amount, the_currency())


def the_currency() -> str:
    """Return the currency of the user's prices; by default, USD."""
    prices = _SERVER.get().prices
    return "USD" if prices is None else prices.currency


def the_server() -> UserServer:
    """Return the current server."""
    return _SERVER.get()


@contextmanager
def user_server(
    options: Mapping[str, Any],
    *,
    mentioned: Iterable[str] = (),
    tell: Callable[[str], None] = _nothing,
    prices: "Prices | None" = None,
    spending: "Spending | None" = None,
) -> Iterator[None]:
    """Use the user's server for all models without an address, including those named in files.

    ``options`` contains ``base_url`` and ``api_key_env`` if the user specified them, and
    ``mentioned`` the addresses of individual models. The other parameters are fields of
    `UserServer`.

    Examples
    --------
    >>> from eval_toolkit.models import load_model
    >>> with user_server({"base_url": "http://localhost:8000/v1"}):
    ...     load_model("openai:judge").describe()["base_url"]
    'localhost:8000/v1'
    """
    base_url = options.get("base_url")
    if base_url is not None and not isinstance(base_url, str):
        base_url = tuple(base_url)
    key = options.get("api_key_env")
    with _in_force(UserServer(base_url, key, tuple(mentioned), tell, prices, spending)):
        yield


@contextmanager
def server_of_model(model: Any) -> Iterator[None]:
    """Use a model's server for models without an address, unless the user specified one."""
    base_url = getattr(model, "base_url", None)
    server = _SERVER.get()
    if not isinstance(base_url, str | tuple) or server.base_url is not None:
        yield
        return
    key = getattr(model, "api_key_env", None)
    with _in_force(replace(server, base_url=base_url, api_key_env=key)):
        yield


@contextmanager
def _in_force(server: UserServer) -> Iterator[None]:
    token = _SERVER.set(server)
    try:
        given = server.base_url or ()
        with user_hosts([given] if isinstance(given, str) else given):
            yield
    finally:
        _SERVER.reset(token)
