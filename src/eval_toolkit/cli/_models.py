"""Options that select and configure a model, shared by `run` and `models check`."""

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
    """A model by name, with the options of its constructor."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Model:
        """Return the model; weights and connections are loaded on first use."""
        try:
            return load_model(self.name, self.options)
        except PluginError as error:
            kind, colon, _ = self.name.partition(":")
            near = difflib.get_close_matches(kind, available_models(), n=1)
            if not colon or not near or getattr(error.__cause__, "name", None) != kind:
                raise  # an existing module may fail to import another one
            hint = f"there is no model {kind!r}; did you mean {near[0]!r}?"
            raise PluginError(hint) from error


_HTTP = (
    click.option("--base-url", metavar="URL", help="openai: base URL of the server, ending in /v1."),
    click.option(
        "--api-key-env", metavar="NAME", help="openai: environment variable with the API key."
    ),
    click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True),
                 metavar="S", help="openai: timeout of one request in seconds."),
    click.option("--max-tries", type=click.IntRange(1), help="openai: maximum number of tries per request."),
    click.option("--rpm", "requests_per_minute", type=click.IntRange(1),
                 help="openai: maximum number of requests per minute."),
    click.option("--tpm", "tokens_per_minute", type=click.IntRange(1),
                 help="openai: maximum number of tokens per minute."),
    click.option("--prices", metavar="IN,OUT", help="openai: prices per million input and output tokens, to compute the cost."),
)  # fmt: skip


def model_options(command: _Command) -> _Command:
    """Add the options of HTTP models and ``--model-arg``; the command gets ``choose``."""

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
            """Return the model; HTTP options apply only to models queried over HTTP."""
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
        help="Further option of the model. Repeatable.",
    )(wrapped)
    for option in reversed(_HTTP):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def is_http(name: str) -> bool:
    """Return whether a model is queried over HTTP."""
    return name.startswith("openai:")


def _with_options(text: str) -> tuple[str, dict[str, Any]]:
    """Split a model's name from its options, as in ``openai:m{max_tries=3}``."""
    name, brace, rest = text.partition("{")
    if not brace or not is_http(name):  # scripted answers may contain braces
        return text, {}
    place = f"{text}: the options are not a TOML table such as {{base_url='URL'}}"
    return name, parse_toml(f"options = {{{rest}", place)["options"]


def _prices(text: str) -> tuple[float, float]:
    try:
        into, out = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"--prices {text} must be two numbers, as in 0.15,0.60") from None
    return into, out


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
