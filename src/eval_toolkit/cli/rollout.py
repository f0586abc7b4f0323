"""``eval-toolkit rollout``: a tester talks to a target, turn by turn, and scorers look on."""

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.tables import STDIN
from eval_toolkit.cli._asking import (
    Asked,
    asking_options,
    progress_bar,
    reasoning_option,
    resumable,
)
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._models import ModelChoice, is_http, model_options
from eval_toolkit.cli._rollout_page import planned_page, rollout_page
from eval_toolkit.cli._scorers import about, load_scorers
from eval_toolkit.errors import InvalidInputError, PluginError
from eval_toolkit.models.responses import REASONING_TAGS
from eval_toolkit.protocols import Model
from eval_toolkit.rollouts import Budget, SeedPrompt, System, TreeSampler, load_seeds, run_rollouts
from eval_toolkit.rollouts.attacks import available_attacks, load_attack
from eval_toolkit.rollouts.measures.measuring import POLICIES
from eval_toolkit.rollouts.scorers import available_scorers
from eval_toolkit.rollouts.seeds import seed_columns
from eval_toolkit.seeds import DEFAULT_SEED

__all__ = ["rollout"]

_COLUMNS = ("prompt", "id", "topic", "category", "safe")
_OBJECT = re.compile(r"[^\W\d]\w*(\.\w+)+:\w+")
"""package.module:object; a model may have dots behind its colon, as in openai:name-4.1."""


def _seed_options(command: Any) -> Any:
    """Add what says which seed prompts there are."""
    options = [
        click.option("--seeds", required=True, metavar="FILE",
                     type=click.Path(exists=True, dir_okay=False, allow_dash=True),
                     help="Seed prompts: .txt (one per line), .csv, .tsv, .json, .jsonl, .parquet, "
                     ".xlsx; - for standard input."),
        *(
            click.option(f"--{name}-column", metavar="NAME", help=f"Of the seeds: {what}.")
            for name, what in {
                "prompt": "the prompt",
                "id": "the unit's id",
                "topic": "prompts that are not independent",
                "category": "a part to report on",
                "safe": "whether to answer would be right",
            }.items()
        ),
        click.option("--limit", type=click.IntRange(1), help="So many seeds, drawn at random."),
        click.option("--opening", is_flag=True,
                     help="Seeds begin the conversation; otherwise they are the tester's goal."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _sampling_options(command: Any) -> Any:
    """Add what says how conversations branch and end."""
    options = [
        click.option("--depth", default=3, show_default=True, type=click.IntRange(1), help="Turns."),
        click.option("--width", multiple=True, type=click.IntRange(1),
                     help="Branches per turn; once, or once per turn. As suits the attack by "
                     "default."),
        click.option("--keep", type=click.IntRange(1), metavar="N",
                     help="Go on with the N branches that are worst for the target. All by default; "
                     "1 where the attack says the width."),
        click.option("--stop-on-success", is_flag=True,
                     help="End a conversation once the target failed."),
        click.option("--rollouts-per-seed", default=1, show_default=True, type=click.IntRange(1),
                     help="Rollouts of each seed."),
        click.option("--asr-at", multiple=True, type=click.IntRange(1), metavar="K",
                     help="Report the chance that one of K rollouts succeeds. Repeatable."),
        click.option("--policy", type=click.Choice(POLICIES),
                     help="What a rollout that branches counts as.  [default: expectation; best "
                     "where only the worst branches go on]"),
        click.option("--max-calls", type=click.IntRange(1), help="Budget of requests to tester and target; "
                     "judges come on top."),
        click.option("--max-total-tokens", type=click.IntRange(1), help="Budget of tokens, counted after every few "
                     "requests; judges come on top."),
        click.option("--seed", default=DEFAULT_SEED, show_default=True, type=click.IntRange(0),
                     help="Of everything that is drawn."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


class _WithNames(click.Command):
    """A command whose help ends with the names of attacks and scorers."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what may stand for ATTACK and SCORER."""
        for title, names in (("Attacks", available_attacks()), ("Scorers", available_scorers())):
            with formatter.section(title):
                formatter.write_dl(list(names.items()))


@click.command(cls=_WithNames)
@click.option(
    "--tester",
    "testers",
    multiple=True,
    required=True,
    metavar="ATTACK",
    help="An attack as listed below, with its options behind it: scripted{probes=['Hi.', '{goal}']}; "
    "or several around each other: role_play+base64; or a model, which refines its probes. "
    "Repeatable: a branch each.",
)
@click.option("--tester-model", metavar="MODEL", help="For attacks that ask a model.")
@click.option("--target", required=True, metavar="MODEL", help="Who is tested (`models list`).")
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="SCORER",
    help="As listed below, with @0.7 behind it for the threshold. The first says when the target "
    "failed. Repeatable.",
)
@click.option("--system-prompt", default="", metavar="TEXT", help="The target's: a defence, say.")
@click.option(
    "--format", "formatter", metavar="NAME", help="How messages become the target's prompt."
)
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0),
              help="Of the target.")  # fmt: skip
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of the target.")
@click.option("--max-tokens", default=256, show_default=True, type=click.IntRange(1),
              help="Of one answer of the target.")  # fmt: skip
@click.option("--stop", multiple=True, metavar="TEXT", help="Where an answer ends. Repeatable.")
@reasoning_option
@_seed_options
@_sampling_options
@click.option("--dry-run", is_flag=True, help="Say what would be asked, and ask nothing.")
@model_options
@asking_options
def rollout(
    testers: tuple[str, ...],
    tester_model: str | None,
    target: str,
    scorers: tuple[str, ...],
    seeds: str,
    dry_run: bool,
    choose: Callable[..., ModelChoice],
    asked: Asked,
    **given: Any,
) -> None:
    """Let a tester talk to a target, and count how often, when and how it fails.

    Every probe and answer is kept, and killed at any moment the same command goes on where it was.
    The runs are compared and gated like any other (`compare`, `gate`); `transcripts` writes down
    what was said. Exit code 3 when more rollouts broke than --max-error-rate allows.
    """
    prompts, read_from = _prompts(seeds, given)
    loaded = _Loaded(choose, asked, [target, *testers, *([tester_model] if tester_model else [])])
    system: System[Any, Any] = System(
        _tester(testers, tester_model, loaded),
        loaded(target),
        load_scorers(scorers) or None,
        opening=given["opening"],
        reasoning_tags=(*REASONING_TAGS, *given["reasoning_tags"]),
        **{
            name: given[name]
            for name in ("system_prompt", "formatter", "temperature", "top_p", "max_tokens", "stop")
        },
    )
    asking, sampler = _asking(given, _name(seeds).stem, system)
    if dry_run:
        planned = planned_page(system, sampler, prompts, asking["rollouts_per_seed"])
        asked.output.emit(replace(planned, notes=[*planned.notes, *read_from]))
        return
    told = {
        "system": system.describe(),
        "seeds": [[prompt.id, prompt.content_hash] for prompt in prompts],
        "scorers": {scorer.name: str(scorer.version) for scorer in system.scorers},
        **{name: value for name, value in asking.items() if name not in ("asr_at", "policy")},
        "budget": None if asking["budget"] is None else asking["budget"].to_dict(),
    }
    folder = asked.folder(f"rollout-{system.tester_name}-{system.target_name}", told)
    with progress_bar(asked.quiet) as bar, resumable(folder):
        done = run_rollouts(
            system, prompts, folder, on_progress=bar, **asking, **asked.counted, **asked.engine
        )
    page = rollout_page(done)
    asked.output.emit(replace(page, notes=[*page.notes, *read_from]))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


class _Loaded:
    """Models by name, each loaded once; those over HTTP are told how many requests are wanted."""

    def __init__(self, choose: Callable[..., ModelChoice], asked: Asked, among: list[str]) -> None:
        self._choose = choose
        self._wanted = asked.engine["concurrency"]
        self._among = among
        self._models: dict[str, Model] = {}

    def __call__(self, name: str) -> Model:
        if name not in self._models:
            told = {"concurrency": self._wanted} if self._wanted and is_http(name) else {}
            self._models[name] = self._choose(name, among=self._among, **told).load()
        return self._models[name]


def _tester(testers: tuple[str, ...], tester_model: str | None, loaded: _Loaded) -> Any:
    """Return who probes: an attack, several of them side by side, or a model."""
    from eval_toolkit.rollouts.attacks import Mixed

    model = None if tester_model is None else loaded(tester_model)
    made = [_attack(name, model, loaded) for name in testers]
    if model is not None and not any(_asks(one, model) for one in made):
        raise click.UsageError("--tester-model is not asked by any --tester; leave it out")
    names = [one.name for one in made]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(
                f"two --tester are called {name!r}; give one another name, as in "
                f"{name}{{name='other'}}"
            )
    return made[0] if len(made) == 1 else Mixed(made)


def _attack(name: str, model: Model | None, loaded: _Loaded) -> Any:
    """Return an attack, with the model where it takes one; a model by name refines its probes."""
    from eval_toolkit.rollouts.attacks import as_attack

    if not name.strip():
        raise click.UsageError("--tester is empty; name an attack or a model")
    _refuse_mistaken(name)
    if not _names_an_attack(name):
        try:
            return as_attack(loaded(name))
        except PluginError:
            return load_attack(name)  # which says what there is, and what is nearest
    if model is not None:
        with contextlib.suppress(InvalidInputError):  # one that takes none
            return load_attack(name, model=model)
    with about(f"--tester {name}"):
        return load_attack(name)


def _refuse_mistaken(name: str) -> None:
    """Refuse what names a model or a class, and is meant as an attack: say what to write."""
    kind, _, text = name.partition(":")
    if kind.strip() == "scripted" and text and "<prompt>" not in text:
        plain = text.isprintable() and "'" not in text
        probe = f"'{text}'" if plain else json.dumps(text, ensure_ascii=False)
        raise click.UsageError(
            f"--tester {name} is a model whose every reply is that text; for probes write "
            f"scripted{{probes=[{probe}]}}, for a model's reply scripted:<prompt>…</prompt>"
        )
    if name.partition("{")[0].strip() == "mixed":
        raise click.UsageError("--tester mixed: give --tester several times, a branch for each")


def _asks(attack: Any, model: Model) -> bool:
    """Return whether an attack, or what it is put around, asks the model."""
    inner = getattr(attack, "inner", None)
    return getattr(attack, "model", None) is model or (inner is not None and _asks(inner, model))


def _names_an_attack(name: str) -> bool:
    first = name.partition("+")[0].partition("{")[0].strip()
    return first in available_attacks() or _OBJECT.fullmatch(first) is not None


def _name(seeds: str) -> Path:
    return Path("stdin" if seeds == STDIN else seeds)


def _prompts(seeds: str, given: dict[str, Any]) -> tuple[list[SeedPrompt], list[str]]:
    """Return the seed prompts, and which columns were taken: a wrong guess changes intervals."""
    columns = {name: given.pop(f"{name}_column") for name in _COLUMNS}
    limit = given.pop("limit")
    order = "file" if limit is None else "shuffled"
    prompts = load_seeds(seeds, **columns, limit=limit, order=order, seed=given["seed"])
    taken = seed_columns(seeds, **columns)
    said = ", ".join(f"{field} from {column!r}" for field, column in taken.items())
    return prompts, [f"seeds of {_name(seeds).name}: {said}"] if taken else []


def _asking(
    given: dict[str, Any], name: str, system: System[Any, Any]
) -> tuple[dict[str, Any], TreeSampler[Any, Any]]:
    """Return what `run_rollouts` takes beside system and seeds, and the sampler that makes."""
    calls, tokens = given["max_calls"], given["max_total_tokens"]
    width = given["width"]
    shape = {
        **{option: given[option] for option in ("depth", "keep", "stop_on_success", "seed")},
        "width": None if not width else width[0] if len(width) == 1 else list(width),
    }
    _check_shape(given, system)
    sampler: TreeSampler[Any, Any] = TreeSampler(system, **shape)
    _check_policy(given["policy"], sampler)
    asking = {
        "name": name,
        **shape,
        **{option: given[option] for option in ("rollouts_per_seed", "asr_at", "policy")},
        "budget": Budget(calls, tokens) if calls or tokens else None,
    }
    return asking, sampler


def _check_policy(given: str | None, sampler: TreeSampler[Any, Any]) -> None:
    """Refuse what is not defined where branches were left behind."""
    if sampler.chooses and given not in (None, "best"):
        raise click.UsageError(
            f"--policy {given!r} takes all branches, and here only the worst go on; say --policy "
            "best, or give a --width without --keep"
        )


def _check_shape(given: dict[str, Any], system: System[Any, Any]) -> None:
    """Refuse what needs a scorer where there is none."""
    if system.scorer is not None:
        return
    for option in ("keep", "stop_on_success"):
        if given[option]:
            raise click.UsageError(f"--{option.replace('_', '-')} needs a --scorer")
    if getattr(system.tester, "branches", 1) > 1 and not given["width"]:
        raise click.UsageError(
            "several --tester, and best_of_n, go on with the branch that is worst for the target, "
            "which takes a --scorer; or give a --width"
        )
