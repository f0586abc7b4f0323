"""Options that select and configure a model, shared by `run` and `models check`."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from eval_toolkit._internal.files import parse_json, parse_toml
from eval_toolkit.cli._messages import say
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.models.loading import full_name, load_model, model_spec
from eval_toolkit.models.servers import HTTP_KINDS, user_server
from eval_toolkit.protocols import Model

_Command = TypeVar("_Command", bound=Callable[..., Any])
PRICES = "eval_toolkit.prices"
"""Key in ``click.Context.meta`` for the prices given by the user."""
_OPENAI = "eval_toolkit.openai"
"""Key for whether the command uses an OpenAI-compatible model with --base-url."""
_AT = ("base_url", "api_key_env")
_HOSTED = re.compile(rf"\b(?:{'|'.join(kind for kind in HTTP_KINDS if kind != 'openai')}):")
_ADDRESS = re.compile(r"""\bbase_url\s*=\s*\[?\s*["']?([^"'\s,}\]]+)""")


@dataclass(frozen=True)
class ModelChoice:
    """Model name with constructor options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Model:
        """Return the model; weights and connections are loaded on first use."""
        return load_model(self.name, self.options)


_HTTP = (
    click.option("--base-url", metavar="URL", multiple=True, callback=lambda _, __, urls: _one_or_all(urls), help="HTTP models: base URL of the server (ending in /v1 for openai: models); also used for `openai:NAME` judges. Repeatable: with several servers for the same model, each request goes to the least loaded one.  [default: $OPENAI_BASE_URL, else the service itself]"),
    click.option(
        "--api-key-env", metavar="NAME", help="HTTP models: environment variable that contains the API key."
    ),
    click.option("--model-id", metavar="NAME", help="openai: models: name that identifies the model instead of its URL, so that runs and caches remain valid if the server changes."),
    click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True),
                 metavar="S", help="HTTP models: timeout per request, in seconds; when streaming, the maximum wait between tokens."),
    click.option("--max-tries", type=click.IntRange(1), help="HTTP models: maximum number of tries per request."),
    click.option("--rpm", "requests_per_minute", type=click.IntRange(1),
                 help="HTTP models: maximum number of requests per minute."),
    click.option("--tpm", "tokens_per_minute", type=click.IntRange(1),
                 help="HTTP models: maximum number of tokens per minute."),
    click.option("--prices", metavar="IN,OUT|FILE", help="HTTP models: prices per million input and output tokens in USD (or IN,OUT,CACHED,REASONING if these differ), or a TOML file with `currency` and [models]; also used for judges and stored answers."),
    click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="AMOUNT",
                 help="HTTP models: maximum cost of this command, including judges; requires --prices. Completed answers are kept."),
    click.option("--max-tokens-total", type=click.IntRange(1), metavar="N",
                 help="HTTP models: maximum total number of prompt and answer tokens for this command, including judges."),
)  # fmt: skip


def _one_or_all(urls: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """Return one URL, a list of URLs, or None."""
    return urls if len(urls) > 1 else next(iter(urls), None)


def model_options(command: _Command) -> _Command:
    """Add the options for HTTP models and ``--model-arg``; the command receives ``choose``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = (
            *("base_url", "api_key_env", "model_id", "timeout_s", "max_tries"),
            *("requests_per_minute", "tokens_per_minute"),
        )
        given = {name: kwargs.pop(name) for name in names}
        options = {name: value for name, value in given.items() if value is not None}
        prices, max_cost, max_tokens = _money_options(kwargs)
        if prices is not None and (pair := _pair(prices)) is not None:
            from eval_toolkit.models.prices import Prices

            options["prices"] = pair
            click.get_current_context().meta[PRICES] = Prices(other=pair)
            prices = None
        if max_cost is not None and not (prices or "prices" in options):
            raise click.UsageError("--max-cost needs --prices IN,OUT or --prices FILE")
        arguments = read_arguments(kwargs.pop("model_args"))
        # Also while the command runs once for each of its models: what all of them are.
        meta = click.get_current_context().meta
        named = any("openai:" in text for text in _texts((args, kwargs)))
        meta[_OPENAI] = meta.get(_OPENAI, False) or named

        def choose(
            given: str, among: Sequence[str] = (), *, concurrency: int | None = None
        ) -> ModelChoice:
            """Return the model; HTTP options are allowed only for models queried over HTTP."""
            name = full_name(given)
            http = is_http(name)
            apart = not http and any(is_http(full_name(one)) for one in among)
            told = {"concurrency": concurrency} if concurrency and http else {}
            own: dict[str, Any] = {}
            if http:
                kind, which, own = model_spec(name)
                name = f"{kind}:{which}"
            beside = meta[_OPENAI] and not name.startswith("openai:")
            elsewhere = "base_url" in options and ("base_url" in own or beside)
            left_out = _AT if elsewhere else ()  # the key belongs to --base-url
            shared = {n: v for n, v in options.items() if n not in left_out}
            return ModelChoice(name, {**told, **({} if apart else shared), **arguments, **own})

        with _server(options, args, kwargs, prices, max_cost, max_tokens):
            return command(*args, choose=choose, **kwargs)

    decorated: Any = click.option(
        "--model-arg",
        "model_args",
        metavar="KEY=VALUE",
        multiple=True,
        help="Additional model option. Repeatable.",
    )(wrapped)
    for option in reversed(_HTTP):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def server_options(command: _Command) -> _Command:
    """Add the options for URL, key and prices to commands that query only judges."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        options = {name: kwargs.pop(name) for name in _AT}
        given = {name: value for name, value in options.items() if value is not None}
        with _server(given, args, kwargs, *_money_options(kwargs)):
            return command(*args, **kwargs)

    decorated: Any = wrapped
    for option in reversed((*_HTTP[:2], *_HTTP[-3:])):  # the others apply to single models
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _money_options(kwargs: dict[str, Any]) -> tuple[str | None, float | None, int | None]:
    """Remove and return the prices and the limits on cost and tokens."""
    prices, cost, tokens = map(kwargs.pop, ("prices", "max_cost", "max_tokens_total"))
    return prices, cost, tokens


def _server(
    options: Mapping[str, Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    prices: str | None,
    max_cost: float | None,
    max_tokens_total: int | None,
) -> AbstractContextManager[None]:
    """Return a context manager within which models without a URL use the user's server."""
    listed = None
    if prices is not None:
        from eval_toolkit.models.prices import Prices, read_prices

        pair = _pair(prices)
        listed = read_prices(prices) if pair is None else Prices(other=pair)
        click.get_current_context().meta[PRICES] = listed
    spending = None
    if max_cost is not None or max_tokens_total is not None:
        from eval_toolkit.models.prices import Spending

        currency = "USD" if listed is None else listed.currency
        spending = Spending(max_cost, currency, max_tokens_total)
    texts = [text for text in _texts((args, kwargs)) if not _HOSTED.search(text)]
    mentioned = _ADDRESS.findall(" ".join(texts))
    tell = _ignore if kwargs.get("dry_run") or kwargs.get("replay") else _print_once()
    return user_server(options, mentioned=mentioned, tell=tell, prices=listed, spending=spending)


def is_http(name: str) -> bool:
    """Return whether a model is queried over HTTP."""
    return name.partition(":")[0] in HTTP_KINDS and ":" in name


def _ignore(message: str) -> None:
    """Discard a message, since no request is sent."""


def _print_once() -> Callable[[str], None]:
    """Return a function that prints each message once on standard error."""
    said: set[str] = set()

    def tell(message: str) -> None:
        if message not in said:
            said.add(message)
            say(message, err=True)

    return tell


def _texts(given: Any) -> Iterator[str]:
    """Yield the strings in the arguments of a command."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, Mapping):
        yield from _texts(tuple(given.values()))
    elif isinstance(given, tuple | list):
        for one in given:
            yield from _texts(one)


def _pair(text: str) -> tuple[float, ...] | None:
    """Return two to four prices, or None if the value is a file name."""
    if text.lower().endswith(".toml") or Path(text).is_file():
        return None
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not 2 <= len(found) <= 4:
        raise InvalidInputError(
            f"--prices {text} must be two to four numbers, as in 0.15,0.60, or a TOML file"
        )
    return found


def read_arguments(given: Sequence[str]) -> dict[str, Any]:
    """Parse ``key=value``; the value is a TOML number, boolean, list or table, else a string."""
    arguments: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise InvalidInputError(f"--model-arg {text} must be KEY=VALUE")
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> Any:
    for read in (parse_json, lambda raw, place: parse_toml(f"x = {raw}", place)["x"]):
        try:
            return read(text, "a value")
        except (ArtifactError, InvalidInputError):
            continue
    return text
