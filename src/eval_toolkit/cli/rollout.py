"""``eval-toolkit rollout``: test a target with multi-turn attacks and scorers."""

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.tables import STDIN
from eval_toolkit.cli._cells import reasons
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._fleet import refuse_shard, shard_folder, shard_option
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._query_options import (
    QueryOptions,
    asking_options,
    progress_bar,
    reasoning_option,
    resumable,
)
from eval_toolkit.cli._rollout_page import planned_page, rollout_page
from eval_toolkit.cli._scorers import about, load_scorers
from eval_toolkit.errors import InvalidInputError, ModelError, PluginError
from eval_toolkit.models import available_models
from eval_toolkit.models.responses import REASONING_TAGS
from eval_toolkit.protocols import Model
from eval_toolkit.rollouts import Budget, SeedPrompt, System, TreeSampler, load_seeds, run_rollouts
from eval_toolkit.rollouts.attacks import available_attacks
from eval_toolkit.rollouts.attacks.loading import named_attack
from eval_toolkit.rollouts.measures.measuring import POLICIES
from eval_toolkit.rollouts.scorers import available_scorers
from eval_toolkit.rollouts.seeds import seed_columns
from eval_toolkit.runs import Outcome
from eval_toolkit.seeds import DEFAULT_SEED

_COLUMNS = ("prompt", "id", "topic", "category", "safe")
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_DEPTH = 3
_OWN_FUNCTION = "your function in MODULE.py, which takes a reply and returns a bool or a number"
_OBJECT = re.compile(r"[^\W\d]\w*(\.\w+)+:\w+")
"""Matches package.module:object; a model's name may contain dots, as in openai:name-4.1."""


_ALSO = {"id": ("--id",), "topic": ("--group",), "category": ("--by",)}
"""Names of these options in other commands."""


def _seed_options(command: Any) -> Any:
    """Add the options for the seed prompts."""
    options = [
        click.argument("prompts", required=False, metavar="[PROMPTS]", type=_FILE),
        click.option("--seeds", "--prompts", "seeds", metavar="FILE", type=_FILE, help=(
            "Same as PROMPTS."
        )),
        *(
            click.option(
                f"--{name}-column",
                *_ALSO.get(name, ()),
                f"{name}_column",
                metavar="NAME",
                help=f"Seed column: {what}.",
            )
            for name, what in {
                "prompt": "the prompt",
                "id": "id of the unit",
                "topic": "group of prompts that are not independent",
                "category": "category to report by",
                "safe": "whether answering the prompt is correct",
            }.items()
        ),
        click.option("--limit", type=click.IntRange(1), help="Number of seeds, drawn at random."),
        click.option("--opening", is_flag=True,
                     help="Send seeds as the first message instead of passing them to the tester "
                         "as its goal."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _sampling_options(command: Any) -> Any:
    """Add the options for branching and stopping."""
    options = [
        click.option("--depth", type=click.IntRange(1),
                     help="Number of turns.  [default: 3; 1 without --tester]"),
        click.option("--width", multiple=True, type=click.IntRange(1),
                     help="Branches per turn: one number, or one per turn.  [default: "
                         "chosen by the attack]"),
        click.option("--keep", type=click.IntRange(1), metavar="N",
                     help=(
                        "After each turn, continue only the N branches that are worst for the "
                        "target.  [default:"
                        " all; 1 if the attack sets the width]"
                     )),
        click.option("--stop-on-success", is_flag=True,
                     help="End a conversation after the target's first failure."),
        click.option("--rollouts-per-seed", default=1, show_default=True, type=click.IntRange(1),
                     help="Number of rollouts per seed."),
        click.option("--asr-at", multiple=True, type=click.IntRange(1), metavar="K",
                     help="Report the probability that at least one of K rollouts succeeds. "
                         "Repeatable."),
        click.option("--policy", type=click.Choice(POLICIES),
                     help="How to combine the branches of a rollout.  [default: "
                         "expectation; best if only the worst branches continue]"),
        click.option("--max-calls", type=click.IntRange(1), help=(
            "Maximum number of requests to tester and target, excluding judges."
        )),
        click.option("--max-total-tokens", type=click.IntRange(1), help=(
            "Maximum number of tokens, checked every few requests, excluding judges."
        )),
        click.option("--seed", default=DEFAULT_SEED, show_default=True, type=click.IntRange(0),
                     help="Random seed."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


class _WithNames(click.Command):
    """A command whose help ends with the names of attacks and scorers."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Append the valid values of ATTACK and SCORER."""
        scorers = {**available_scorers(), "MODULE:FUNCTION": _OWN_FUNCTION}
        for title, names in (("Attacks", available_attacks()), ("Scorers", scorers)):
            with formatter.section(title):
                formatter.write_dl(list(names.items()))


@click.command(cls=_WithNames)
@click.option(
    "--tester",
    "--attack",
    "testers",
    multiple=True,
    metavar="ATTACK",
    help=(
        "Attack from the list below  [default: static, the prompts unchanged], with options"
        " in braces, e.g. scripted{probes=['Hi.', '{goal}']}; nested attacks, e.g. "
        "role_play+base64; or a model that refines its own probes. Repeatable: each attack "
        "gets a branch."
    ),
)
@click.option("--tester-model", metavar="MODEL", help="Model used by attacks that need one.")
@click.option(
    "--target",
    "--model",
    "target",
    required=True,
    metavar="MODEL",
    help="Model to test (see `models list`).",
)
@click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="SCORER",
    help=(
        "Scorer from the list below, with an optional threshold, e.g. toxicity@0.7. The first "
        "one determines whether the target failed. Repeatable.  [default: toxicity, if its "
        "weights are installed]"
    ),
)
@click.option(
    "--system-prompt",
    "--system",
    "system_prompt",
    default="",
    metavar="TEXT",
    help="System prompt of the target, e.g. a defence.",
)
@click.option(
    "--format",
    "formatter",
    metavar="NAME",
    help="Prompt format for the target.",
)
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0),
              help="Sampling temperature of the target.")  # fmt: skip
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    help="Nucleus sampling probability of the target.",
)
@click.option("--max-tokens", default=256, show_default=True, type=click.IntRange(1),
              help="Maximum number of tokens per answer of the target.")  # fmt: skip
@click.option(
    "--stop", multiple=True, metavar="TEXT", help="Stop sequence for answers. Repeatable."
)
@reasoning_option
@_seed_options
@_sampling_options
@click.option("--dry-run", is_flag=True, help="Show the planned requests without sending any.")
@shard_option
@model_options
@asking_options
def rollout(
    testers: tuple[str, ...],
    tester_model: str | None,
    target: str,
    scorers: tuple[str, ...],
    prompts: str | None,
    seeds: str | None,
    dry_run: bool,
    choose: Callable[..., ModelChoice],
    asked: QueryOptions,
    **given: Any,
) -> None:
    """Test a target with multi-turn attacks: when and how it fails.

    PROMPTS is a file of seed prompts: .txt (one per line), .csv, .tsv, .json, .jsonl, .parquet or
    .xlsx, or - for standard input (one prompt per line). Every probe and answer is stored; run the
    same command again to resume after an interruption. Use `compare` and `gate` on the stored runs,
    and `transcripts` to print conversations. Exit with code 3 if more rollouts failed than
    --max-error-rate allows.
    """
    shard: str | None = given.pop("shard")
    file = _one_file(prompts, seeds)
    units, notes = _prompts(file, given)
    if not testers:
        testers, given["depth"] = ("static",), given["depth"] or 1
    given["depth"] = given["depth"] or _DEPTH
    if not scorers:
        scorers = ("toxicity",)
        _require_default_scorer(dry_run)
        notes.append("no --scorer: toxicity decides whether the target failed")
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
    asking, sampler = _asking(given, _name(file).stem, system)
    if dry_run:
        refuse_shard(shard)
        planned = planned_page(system, sampler, units, asking["rollouts_per_seed"])
        asked.output.emit(replace(planned, notes=[*planned.notes, *notes]))
        return
    told = {
        "system": system.describe(),
        "seeds": [[prompt.id, prompt.content_hash] for prompt in units],
        "scorers": {scorer.name: str(scorer.version) for scorer in system.scorers},
        **{name: value for name, value in asking.items() if name not in ("asr_at", "policy")},
        "budget": None if asking["budget"] is None else asking["budget"].to_dict(),
    }
    name = f"rollout-{system.tester_name}-{system.target_name}"
    folder = shard_folder(asked, shard, name, told)
    with resumable(folder), progress_bar(asked.quiet) as bar:
        done = run_rollouts(
            system,
            units,
            folder,
            on_progress=bar,
            shard=shard,
            **asking,
            **asked.counted,
            **asked.engine,
        )
        nodes = (node for graph in done.attempts for node in graph.nodes())
        if done.too_many_errors and done.n_failed_requests and not any(n.response for n in nodes):
            raise ModelError(_unanswered(done))
    if not done.cards:
        say(f"the shard {shard} has no seed prompts", err=True)
        return
    page = rollout_page(done)
    asked.output.emit(replace(page, notes=[*page.notes, *notes]))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


def _unanswered(done: Outcome) -> str:
    """Return a message on why no request was answered, and how to retry."""
    (why, *_) = reasons(done.records, ("attack_success",)) or ["no reason given"]
    again = "" if done.run is None else f"; run the same command again to retry ({done.run.path})"
    return f"no request was answered: {why}{again}"


def _one_file(argument: str | None, option: str | None) -> str:
    """Return the file of seed prompts, which may be given as argument or option."""
    if argument and option:
        raise click.UsageError(
            f"the prompts are specified twice; pass either {argument} or --seeds {option}"
        )
    if file := argument or option:
        return file
    raise click.UsageError(
        "no prompts; pass a file with one prompt per line (.txt), or with a column of them: "
        "eval-toolkit rollout prompts.csv --target MODEL"
    )


def _require_default_scorer(dry_run: bool) -> None:
    """Raise if no scorer is given and toxicity cannot be used."""
    from eval_toolkit.rollouts.participants import default_scorer

    try:
        default_scorer()
    except InvalidInputError as error:
        if not dry_run:
            raise click.UsageError(
                f"{error}".replace("`scorer` is missing", "--scorer is missing").replace(
                    "such as a function of a reply, 'refusal' or 'keywords:WORD,WORD'",
                    "--scorer refusal or --scorer keywords:WORD,WORD",
                )
            ) from None


class _Loaded:
    """Models by name, each loaded once; HTTP models get the concurrency."""

    def __init__(
        self, choose: Callable[..., ModelChoice], asked: QueryOptions, among: list[str]
    ) -> None:
        self._choose = choose
        self._wanted = asked.engine["concurrency"]
        self._among = among
        self._models: dict[str, Model] = {}

    def __call__(self, name: str) -> Model:
        if name not in self._models:
            choice = self._choose(name, self._among, concurrency=self._wanted)
            self._models[name] = choice.load()
        return self._models[name]


def _tester(testers: tuple[str, ...], tester_model: str | None, loaded: _Loaded) -> Any:
    """Return the tester: one attack, several parallel attacks, or a model."""
    model = None if tester_model is None else loaded(tester_model)
    made = [_attack(name, model, loaded) for name in testers]
    if model is not None and not any(_asks(one, model) for one in made):
        raise click.UsageError("--tester-model is not used by any --tester; remove it")
    names = [one.name for one in made]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(
                f"two --tester options are both named {name!r}; rename one, as in {name}{{name='other'}}"
            )
    if len(made) == 1:
        return made[0]
    from eval_toolkit.rollouts.attacks import Mixed

    return Mixed(made)


def _attack(name: str, model: Model | None, loaded: _Loaded) -> Any:
    """Return the attack; a model name gives an attack that refines its own probes."""
    from eval_toolkit.rollouts.attacks import as_attack

    if not name.strip():
        raise click.UsageError("--tester is empty; pass an attack or a model")
    _refuse_mistaken(name)
    if _names_a_model(name):
        try:
            return as_attack(loaded(name))
        except PluginError:
            return named_attack(name)  # its message lists the valid names and the nearest one
    if model is not None:
        with contextlib.suppress(InvalidInputError):  # an attack without a model argument
            return named_attack(name, model=model)
    with about(f"--tester {name}"):
        return named_attack(name)


def _refuse_mistaken(name: str) -> None:
    """Raise if a model or class is given as an attack, and suggest the correct form."""
    kind, _, text = name.partition(":")
    if kind.strip() == "scripted" and text and "<prompt>" not in text:
        plain = text.isprintable() and "'" not in text
        probe = f"'{text}'" if plain else json.dumps(text, ensure_ascii=False)
        raise click.UsageError(
            f"--tester {name} is a model that always replies with that string; for probes use "
            f"scripted{{probes=[{probe}]}}, for a model's reply scripted:<prompt>…</prompt>"
        )
    if name.partition("{")[0].strip() == "mixed":
        raise click.UsageError("--tester mixed: repeat --tester instead; each attack gets a branch")


def _asks(attack: Any, model: Model) -> bool:
    """Return whether an attack, or one nested in it, queries the model."""
    inner = getattr(attack, "inner", None)
    return getattr(attack, "model", None) is model or (inner is not None and _asks(inner, model))


def _names_a_model(name: str) -> bool:
    """Return whether a name refers to a model; bare names are attacks, even with --base-url."""
    first = name.partition("+")[0].partition("{")[0].strip()
    if first in available_attacks() or _OBJECT.fullmatch(first):
        return False
    return ":" in first or first in available_models()


def _name(seeds: str) -> Path:
    return Path("stdin" if seeds == STDIN else seeds)


def _prompts(seeds: str, given: dict[str, Any]) -> tuple[list[SeedPrompt], list[str]]:
    """Return the seed prompts and the columns used."""
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
    """Return the keyword arguments of `run_rollouts`, and the sampler that they define."""
    calls, tokens = given["max_calls"], given["max_total_tokens"]
    width = given["width"]
    shape = {
        **{option: given[option] for option in ("depth", "keep", "stop_on_success", "seed")},
        "width": None if not width else width[0] if len(width) == 1 else list(width),
    }
    sampler: TreeSampler[Any, Any] = TreeSampler(system, **shape)
    if sampler.chooses and given["policy"] not in (None, "best"):
        raise click.UsageError(
            f"--policy {given['policy']!r} needs all branches, but only the worst continue; pass "
            "--policy best, or a --width without --keep"
        )
    asking = {
        "name": name,
        **shape,
        **{option: given[option] for option in ("rollouts_per_seed", "asr_at", "policy")},
        "budget": Budget(calls, tokens) if calls or tokens else None,
    }
    return asking, sampler
