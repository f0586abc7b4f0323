"""``eval-toolkit models``: list models, fetch weights, verify an endpoint."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import click

from eval_toolkit._internal.display import Page, Table
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._weights import WEIGHTS, fetch_weights, weights_there
from eval_toolkit.errors import ModelError
from eval_toolkit.models.loading import available_models
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.protocols import Model

_QUESTION = Message(Role.USER, "What is the capital of France? Answer with one word.")
_CHOICES = (" Paris", " Rome")


@click.group()
def models() -> None:
    """List models; fetch weights; verify an endpoint."""


@models.command("list")
@output_options
def list_(output: Output) -> None:
    """List the kinds of models for --model, and the downloadable weights."""
    found, there = available_models(), weights_there()
    tables = [
        Table(["model", "description"], [[name, what] for name, what in found.items()]),
        Table(
            ["weights", "of", "state"],
            [[name, entry["what"], entry["state"]] for name, entry in there.items()],
        ),
    ]
    notes = ["custom models: package.module:object"]
    output.emit(Page("models", {"models": found, "weights": there}, (), tables, notes))


@models.command()
@click.argument("which", required=False, type=click.Choice(list(WEIGHTS)))
@click.option(
    "--only", type=click.Choice(list(WEIGHTS)), help="Weights to download; all by default."
)
@click.option("--force", is_flag=True, help="Download again even if the file exists.")
def fetch(which: str | None, only: str | None, force: bool) -> None:
    """Download weights, verify their hashes and store them in the cache folder.

    There are weights for the embedded model (93 MB) and for the toxicity scorer (8 MB).
    """
    if which and only and which != only:
        raise click.UsageError(f"{which} and --only {only}; pass only one of them")
    wanted = which or only
    for name in [wanted] if wanted else WEIGHTS:
        started = time.perf_counter()
        path = fetch_weights(name, force=force)
        say(f"{path} exists and its hash is correct ({time.perf_counter() - started:.1f} s)")


@models.command()
@click.argument("model")
@model_options
@output_options
def check(model: str, choose: Callable[..., ModelChoice], output: Output) -> None:
    """Send two small requests to MODEL and report its capabilities.

    For an OpenAI-compatible server, also verify its log-likelihoods. Exit with code 1 if MODEL
    cannot generate text.
    """
    loaded = choose(model).load()
    lines = asyncio.run(_checked(loaded))
    table = Table(["capability", "", "response"], [[*line[:2], line[2]] for line in lines])
    payload = {
        "model": loaded.name,
        "checks": [{"what": what, "status": status, "detail": how} for what, status, how in lines],
    }
    output.emit(Page(f"model {loaded.name}", payload, [f"model {loaded.name}"], [table]))
    if lines[0][1] != "yes":
        raise EvidenceSaysNo


async def _checked(model: Model) -> list[tuple[str, str, str]]:
    try:
        own: Any = getattr(model, "check", None)
        if own is not None:
            try:
                return list((await own()).lines())
            except ModelError as error:
                return [("generate", "no", f"{error.kind}: {error}")]
        return [
            await _answer("generate", model.generate(GenerateRequest((_QUESTION,), max_tokens=16))),
            await _answer(
                "log-likelihood",
                model.loglikelihood(LoglikelihoodRequest("The capital of France is", _CHOICES)),
            ),
        ]
    finally:
        close: Any = getattr(model, "aclose", None)
        if close is not None:
            await close()


async def _answer(what: str, asked: Any) -> tuple[str, str, str]:
    started = time.perf_counter()
    try:
        response = await asked
    except ModelError as error:
        return what, "no", f"{error.kind}: {error}"
    took = time.perf_counter() - started
    said = getattr(response, "text", None)
    if said is None:
        said = ", ".join(
            f"{choice.strip()} {number:.2f}"
            for choice, number in zip(response.choices, response.loglikelihoods, strict=True)
        )
    return what, "yes", f"{said!r} in {took:.2f} s"
