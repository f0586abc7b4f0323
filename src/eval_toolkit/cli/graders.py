"""``eval-toolkit graders``: list graders, and show their options, inputs and columns."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import click

from eval_toolkit._internal.display import Page, Table
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.graders import available_graders, load_grader
from eval_toolkit.graders.base import columns_of
from eval_toolkit.graders.loading import PRESETS, required_options
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.plugins import TYPED, load_plugin, name_and_options

_OF = {ResponseType.COMPLETION: "texts", ResponseType.LOGLIKELIHOODS: "choices"}
_BETTER = {True: "more", False: "less", None: ""}
_ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: : .*)?$")


@click.group()
def graders() -> None:
    """List graders; show their options, inputs and columns."""


@graders.command("list")
@output_options
def list_(output: Output) -> None:
    """List the built-in graders and those of installed packages."""
    found = [_Grader.of(name) for name in available_graders()]
    rows = [
        [
            one.name,
            one.kinds,
            ", ".join(option.shown for option in one.options),
            one.summary or one.problem,
        ]
        for one in found
    ]
    notes = [
        "* required; options follow the name: --grader \"number_match{where='boxed'}\"",
        "`graders show NAME` describes the options and the columns",
    ]
    payload = {"graders": [one.to_dict() for one in found]}
    header = ["grader", "of", "options", "description"]
    output.emit(Page("graders", payload, (), [Table(header, rows)], notes))


@graders.command()
@click.argument("name")
@output_options
def show(name: str, output: Output) -> None:
    """Show grader NAME: options with defaults, required sample fields, columns and metrics.

    \b
    eval-toolkit graders show word_count
    eval-toolkit graders show "chrf{word_order=2}"
    """  # noqa: D301
    one = _Grader.of(name)
    if one.problem and not one.options:
        raise InvalidInputError(one.problem)
    options = [[o.name, o.value_shown, o.meaning] for o in one.options]
    value = "value" if "{" in name else "default"
    columns = [
        [column, "stored, not averaged" if not info.metric else "", _BETTER[info.higher_is_better]]
        for column, info in one.columns.items()
    ]
    columns += [[metric, "over all samples", up] for metric, up in one.metrics.items()]
    tables = [
        Table(["option", value, "meaning"], options, "options") if options else None,
        Table(["column or metric", "", "better"], columns, "fills") if columns else None,
    ]
    page = Page(
        f"grader {one.name}",
        one.to_dict(),
        [f"{one.name}, for {one.kinds or 'tasks of any kind'}", *one.description.split("\n")],
        [table for table in tables if table is not None],
        [f"columns: {one.problem}"] if one.problem else [],
    )
    output.emit(page)


@dataclass(frozen=True)
class _Option:
    """Option of a grader."""

    name: str
    required: bool
    value: Any
    """Given value, or the default."""
    meaning: str

    @property
    def shown(self) -> str:
        """Option name, with a star if it is required."""
        return f"{self.name}*" if self.required else self.name

    @property
    def value_shown(self) -> str:
        """Default value, or "required"."""
        return "required" if self.value is MISSING else repr(self.value)


@dataclass(frozen=True)
class _Grader:
    """Description of a grader."""

    name: str
    kinds: str
    """Kinds of tasks that the grader supports."""
    description: str
    options: tuple[_Option, ...]
    columns: Mapping[str, Any]
    metrics: Mapping[str, str]
    problem: str = ""
    """Reason why the columns are unknown, if they are."""

    @property
    def summary(self) -> str:
        """Return the first sentence of the description."""
        return self.description.split("\n")[0].partition(". ")[0].rstrip(".")

    @classmethod
    def of(cls, text: str) -> "_Grader":
        """Inspect the class of a named grader; build the grader if no required option is missing."""
        name, _ = name_and_options(text)
        try:
            found = load_plugin("graders", name, available_graders(), origin=TYPED)
        except EvalToolkitError as error:
            return cls(name, "", "", (), {}, {}, str(error))
        about, meanings = _read(inspect.getdoc(found) or "")
        made, problem = None, ""
        try:
            made = load_grader(text)
        except EvalToolkitError as error:
            problem = str(error)
        options = _options(found, made, meanings, PRESETS.get(name, {}))
        if made is None:
            return cls(name, _kinds(found), about, options, {}, {}, problem)
        own = getattr(made, "metrics", None)
        metrics = {
            spec.name: _BETTER[getattr(spec, "higher_is_better", None)]
            for spec in (own() if callable(own) else ())
        }
        return cls(name, _kinds(made), about, options, columns_of(made), metrics)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "name": self.name,
            "of": self.kinds,
            "description": self.description,
            "options": [
                {
                    "name": option.name,
                    "required": option.required,
                    "value": None if option.value is MISSING else _plain(option.value),
                    "meaning": option.meaning,
                }
                for option in self.options
            ],
            "columns": {
                column: {"metric": info.metric, "higher_is_better": info.higher_is_better}
                for column, info in self.columns.items()
            },
            "metrics": list(self.metrics),
            "problem": self.problem,
        }


def _kinds(grader: Any) -> str:
    kinds = getattr(grader, "response_types", None)
    return ", ".join(_OF[ResponseType(kind)] for kind in kinds) if isinstance(kinds, tuple) else ""


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def _options(
    found: Any, made: Any, meanings: Mapping[str, str], presets: Mapping[str, Any]
) -> tuple[_Option, ...]:
    """Return the options of a grader class; values set in the name replace defaults."""
    if not (is_dataclass(found) and isinstance(found, type)):
        return ()
    options = []
    for item in fields(found):
        if not item.init:
            continue
        make = item.default_factory
        default = presets.get(item.name, item.default if make is MISSING else make())
        value = default if made is None else getattr(made, item.name)
        required = item.name in required_options(found) and item.name not in presets
        options.append(_Option(item.name, required, value, meanings.get(item.name, "")))
    return tuple(options)


def _read(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's text before the parameters, and the text for each parameter."""
    about, _, rest = text.partition("\n\nParameters\n")
    about = re.split(r"\n\n\w+\n-+\n", about)[0]
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in re.split(r"\n\n\w+\n-+\n", rest)[0].splitlines():
        entry = _ENTRY.match(line)
        if entry:
            names = entry[1].split(", ")
        elif line.startswith(" "):
            for name in names:
                meanings[name] = f"{meanings.get(name, '')} {line.strip()}".strip()
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\n|\n(?=- )", about)]
    return _unmarked("\n".join(paragraphs)), {n: _unmarked(m) for n, m in meanings.items()}


def _unmarked(text: str) -> str:
    return text.replace("``", "").replace("`", "")
