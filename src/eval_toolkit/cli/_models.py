"""Options that say which model to ask, and how: the same for `run` and `models check`."""

import difflib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from eval_toolkit._internal.files import parse_json, parse_toml
from eval_toolkit.errors import ArtifactError, InvalidInputError, PluginError
from eval_toolkit.models.loading import available_models, load_model
from eval_toolkit.plugins import user_hosts
from eval_toolkit.protocols import Model

__all__ = ["ModelChoice", "is_http", "model_options", "read_arguments"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class ModelChoice:
    """A model by name, with what its maker is told."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Model:
        """Return the model; weights and connections wait until they are needed."""
        try:
            return load_model(self.name, self.options)
        except PluginError as error:
            kind, colon, _ = self.name.partition(":")
            near = difflib.get_close_matches(kind, available_models(), n=1)
            if not colon or not near or getattr(error.__cause__, "name", None) != kind:
                raise  # a module that is there may lack another
            hint = f"there is no model {kind!r}; did you mean {near[0]!r}?"
            raise PluginError(hint) from error


_HTTP = (
    click.option("--base-url", metavar="URL", help="openai: of the server, ending in /v1."),
    click.option(
        "--api-key-env", metavar="NAME", help="openai: environment variable that holds the key."
    ),
    click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True),
                 metavar="S", help="openai: seconds one request may take."),
    click.option("--max-tries", type=click.IntRange(1), help="openai: tries of one request."),
    click.option("--rpm", "requests_per_minute", type=click.IntRange(1),
                 help="openai: requests per minute."),
    click.option("--tpm", "tokens_per_minute", type=click.IntRange(1),
                 help="openai: tokens per minute."),
    click.option("--prices", metavar="IN,OUT", help="openai: of a million tokens, for the cost."),
)  # fmt: skip


def model_options(command: _Command) -> _Command:
    """Add the options of models over HTTP and ``--model-arg``; the command gets ``choose``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = (
            *("base_url", "api_key_env", "timeout_s", "max_tries"),
            *("requests_per_minute", "tokens_per_minute"),
        )
        given = {name: kwargs.pop(name) for name in names}
        options = {name: value for name, value in given.items() if value is not None}
        if (prices := kwargs.pop("prices")) is not None:
            options["prices"] = _prices(prices)
        arguments = read_arguments(kwargs.pop("model_args"))

        def choose(given: str, among: Sequence[str] = (), **more: Any) -> ModelChoice:
            """Return a model; among several, options of HTTP are of those that HTTP reaches."""
            name, own = _with_options(given)
            apart = any(map(is_http, among)) and not is_http(name)
            return ModelChoice(name, {**more, **({} if apart else options), **arguments, **own})

        with user_hosts([options["base_url"]] if "base_url" in options else []):
            return command(*args, choose=choose, **kwargs)

    decorated: Any = click.option(
        "--model-arg",
        "model_args",
        metavar="KEY=VALUE",
        multiple=True,
        help="Any other option of the model. Repeatable.",
    )(wrapped)
    for option in reversed(_HTTP):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def is_http(name: str) -> bool:
    """Return whether a model is asked over HTTP."""
    return name.startswith("openai:")


def _with_options(text: str) -> tuple[str, dict[str, Any]]:
    """Return a model's name and the options behind it, as in ``openai:m{max_tries=3}``."""
    name, brace, rest = text.partition("{")
    if not brace or not is_http(name):  # a scripted answer may hold braces of its own
        return text, {}
    place = f"{text}: the options are no TOML table such as {{base_url='URL'}}"
    return name, parse_toml(f"options = {{{rest}", place)["options"]


def _prices(text: str) -> tuple[float, float]:
    try:
        into, out = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"--prices {text} must be two numbers, as in 0.15,0.60") from None
    return into, out


def read_arguments(given: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value``: numbers, true and false, lists and tables as TOML writes them, else text."""
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
