"""Options for judge models and rubrics, for commands that query judges."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from eval_toolkit.cli._models import ModelChoice
from eval_toolkit.cli._options import passing
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.judges import Judge, Panel, Rubric
from eval_toolkit.protocols import Model
from eval_toolkit.tasks.declared import read_tables

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILES = (".toml", ".yaml", ".yml")
temperature_option = click.option(
    "--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0),
    help="Sampling temperature of the judge.",
)  # fmt: skip
max_tokens_option = click.option(
    "--max-tokens",
    default=512,
    show_default=True,
    type=click.IntRange(1),
    help=("Maximum number of tokens in a verdict."),
)
_OPTIONS = (
    click.option(
        "--rubric",
        "rubrics",
        multiple=True,
        metavar="NAME|FILE",
        help="Rubric for the judge (see `judge rubrics`), or a TOML or YAML file. Repeatable. "
        "[default: correctness]",
    ),
    click.option(
        "--votes",
        default=1,
        show_default=True,
        type=click.IntRange(1),
        help="Number of verdicts per answer; more than one requires --temperature.",
    ),
    click.option(
        "--rule",
        type=click.Choice(["majority", "mean"]),
        default="majority",
        show_default=True,
        help="How to combine several votes or judges.",
    ),
    temperature_option,
    max_tokens_option,
)


@dataclass(frozen=True)
class Judging:
    """Judge models, rubrics and voting options."""

    models: Sequence[str]
    rubrics: Sequence[str]
    voting: dict[str, Any]

    def judges(
        self, choose: Callable[..., ModelChoice], concurrency: int | None
    ) -> list[Judge | Panel]:
        """Return one judge per rubric, or a panel per rubric if there are several models."""
        asked = [
            loaded_judge(choose, model, concurrency, among=self.models)
            for model in dict.fromkeys(self.models)
        ]
        rubrics = dict.fromkeys(self.rubrics or ["correctness"])
        return [_judge(_rubric(name), asked, **self.voting) for name in rubrics]


def judging_options(*, required: bool) -> Callable[[_Command], _Command]:
    """Add the options for judges; the command receives ``judging``."""
    judges = click.option(
        "--judge",
        "models",
        required=required,
        multiple=True,
        metavar="MODEL",
        help=(
            "Judge model: openai:NAME, … (see `models list`), optionally with options, as in "
            "\"openai:NAME{base_url='URL'}\". Several models form a panel."
        ),
    )
    names = ("models", "rubrics", "votes", "rule", "temperature", "max_tokens")
    return passing("judging", _judging, (judges, *_OPTIONS), names)


def _judging(models: Sequence[str], rubrics: Sequence[str], **voting: Any) -> Judging:
    return Judging(models, rubrics, voting)


def loaded_judge(
    choose: Callable[..., ModelChoice],
    model: str,
    concurrency: int | None,
    among: Sequence[str] = (),
) -> Model:
    """Load the judge models, passing the concurrency to models that limit their own requests."""
    return choose(model, among=among, concurrency=concurrency).load()


def typed(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options given by the user; the others are taken from the run."""
    context = click.get_current_context()
    return {
        name: value
        for name, value in given.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _rubric(given: str) -> Rubric:
    """Return a built-in rubric by name, or read one from a file."""
    if not given.lower().endswith(_FILES):
        return Rubric.of(given)
    tables = read_tables(Path(given))
    try:
        return Rubric.of(tables)
    except InvalidInputError as error:
        said = str(error).replace(f"the rubric {dict(tables)!r:.60}", "the rubric")
        raise InvalidInputError(f"{given}: {said}") from None


def _judge(rubric: Rubric, models: Sequence[Model], rule: str, **options: Any) -> Judge | Panel:
    """Return one judge, or a panel of several, named after their models."""
    if len(models) == 1:
        return Judge(rubric, models[0], rule=rule, **options)
    # The name of a judge becomes part of the step names of its requests, which contain colons.
    names = _numbered([f"{rubric.name}_{model.name}".replace(":", "-") for model in models])
    members = [
        Judge(rubric, one, name=name, rule=rule, **options)
        for name, one in zip(names, models, strict=True)
    ]
    return Panel(members, rule=rule, name=rubric.name)


def _numbered(names: Sequence[str]) -> list[str]:
    """Return unique names: the second "name" becomes "name_2"."""
    return [
        name if names[:at].count(name) == 0 else f"{name}_{names[:at].count(name) + 1}"
        for at, name in enumerate(names)
    ]
