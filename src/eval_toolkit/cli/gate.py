"""``eval-toolkit gate``: check a run against claims; exit with code 1 if a claim fails."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import click

from eval_toolkit._internal.display import Page
from eval_toolkit.claims import (
    Claim,
    ClaimReport,
    Requirement,
    claims_lead,
    claims_table,
    evaluate_gate,
    load_claims,
)
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._options import direction_options, output_options, passing
from eval_toolkit.cli._output import Output, refuse_target, writing
from eval_toolkit.cli._remote import run_at
from eval_toolkit.graders.stored import stored_metrics
from eval_toolkit.integrations.github import annotations
from eval_toolkit.integrations.junit import junit as junit_xml
from eval_toolkit.runs import Run

Bound: TypeAlias = tuple[str, float]
"""Address of a cell, and a number."""


@dataclass(frozen=True)
class Bounds:
    """Claims given as options: cells with bounds."""

    at_least: Sequence[Bound]
    at_most: Sequence[Bound]
    lowest: Sequence[str]
    highest: Sequence[str]
    max_drop: Sequence[Bound]


@click.command()
@click.argument("run")
@click.option(
    "--claims",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TOML file with one [[claim]] table per claim.",
)
@click.option(
    "--at-least",
    nargs=2,
    type=(str, float),
    multiple=True,
    metavar="CELL NUMBER",
    help=(
        "Require the lower bound of the cell's interval to be at least NUMBER. Repeatable. CELL "
        'has the form "metric @ slice / system".'
    ),
)
@click.option(
    "--at-most",
    nargs=2,
    type=(str, float),
    multiple=True,
    metavar="CELL NUMBER",
    help="Require the upper bound of the cell's interval to be at most NUMBER. Repeatable.",
)
@click.option(
    "--min",
    "lowest",
    multiple=True,
    metavar="CELL=NUMBER",
    help="Same as --at-least CELL NUMBER, e.g. --min accuracy=0.8. Repeatable.",
)
@click.option(
    "--max",
    "highest",
    multiple=True,
    metavar="CELL=NUMBER",
    help=(
        "Same as --at-most CELL NUMBER, e.g. --max toxicity=0.1 (the mean of that scorer). "
        "Repeatable."
    ),
)
@click.option(
    "--max-drop",
    nargs=2,
    type=(str, float),
    multiple=True,
    metavar="CELL NUMBER",
    help="Require the cell's drop from --baseline to be less than NUMBER. Repeatable.",
)
@click.option(
    "--baseline",
    metavar="RUN",
    help="Baseline run for --max-drop and for claims with non_inferior_by.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write JUnit XML with one test case per claim.",
)
@click.option(
    "--allow-version-change",
    is_flag=True,
    help="Compare even if the baseline used a different version of a scorer, task or metric.",
)
@direction_options
@output_options
@passing("bounds", Bounds)
def gate(
    run: str,
    claims: Path | None,
    bounds: Bounds,
    baseline: str | None,
    junit: Path | None,
    allow_version_change: bool,
    higher_is_better: Mapping[str, bool],
    output: Output,
) -> None:
    """Check a run against claims; exit with code 1 if a claim fails.

    RUN is a run folder, e.g. from `score PREDS --save RUN`. A claims file has one table per claim;
    `require` compares value, ci_low or ci_high (a bound of the interval):

    \b
    [[claim]]
    name = "finds spam"
    at = "recall@fpr=0.01 @ language=de"    # metric @ slice / system
    require = "ci_low >= 0.8"

    \b
    [[claim]]
    name = "no worse than the baseline"
    at = "brier"
    non_inferior_by = 0.01

    Other conditions: min_n, min_positive, min_negative, max_fpr, no_leakage and no_errors. Claims
    with severity = "warning" never fail the gate. In GitHub Actions failed claims become
    annotations, and the table is added to the job summary.

    \b
    eval-toolkit gate runs/r7 --claims claims.toml --baseline runs/r6 --junit gate.xml
    eval-toolkit gate runs/r7 --at-least "exact_match @ subject=Africa / model-b" 0.8
    """  # noqa: D301
    if claims is None and not any(vars(bounds).values()):
        raise click.UsageError("pass claims: --claims FILE, --min CELL=NUMBER or --max CELL=NUMBER")
    lowest = [_pair("--min", text) for text in bounds.lowest]
    highest = [_pair("--max", text) for text in bounds.highest]
    candidate = run_at(run, "gate")
    at_least, at_most = (
        [*given, *((_cell(candidate, cell), limit) for cell, limit in pairs)]
        for given, pairs in ((bounds.at_least, lowest), (bounds.at_most, highest))
    )
    wanted = [
        *([] if claims is None else load_claims(claims)),
        *_bounds(at_least, at_most, bounds.max_drop),
    ]
    against = None if baseline is None else run_at(baseline, "gate")
    report = evaluate_gate(
        candidate,
        wanted,
        against,
        specs=[] if against is None else stored_metrics([against, candidate]),
        higher_is_better=higher_is_better,
        allow_version_change=allow_version_change,
    )
    page = _page(candidate.run_id, report)
    files = [] if claims is None else [claims]

    def write_junit() -> None:
        if junit is not None:
            with writing(junit) as temporary:
                temporary.write_bytes(junit_xml(candidate.run_id, report))

    if junit is not None:
        refuse_target(junit, "--junit", [*files, *([output.path] if output.path else [])])
    output.emit(page, inputs=files, first=write_junit, summary=True)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        # keep standard output machine-readable; GitHub reads annotations from either stream
        say(annotations(report), nl=False, err=output.form == "json")
    if report.has_failures():
        raise EvidenceSaysNo


def _pair(option: str, text: str) -> Bound:
    """Parse a cell and its bound, as in ``toxicity=0.1``; the cell itself may contain ``=``."""
    cell, equals, number = text.rpartition("=")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not cell.strip() or not equals or math.isnan(bound):
        raise click.UsageError(f"{option} {text}: write CELL=NUMBER, as in {option} accuracy=0.8")
    return cell.strip(), bound


def _cell(run: Run, cell: str) -> str:
    """Replace the name of a rollout scorer by the name of its mean over replies."""
    name, at, rest = cell.partition("@")
    mean = f"{name.strip()}_mean"
    known = run.cells.metrics
    return f"{mean} {at}{rest}".strip() if name.strip() not in known and mean in known else cell


def _bounds(
    at_least: Sequence[Bound], at_most: Sequence[Bound], max_drop: Sequence[Bound]
) -> list[Claim]:
    """Return the claims defined by options, named after their conditions."""
    made = [
        Claim(name=f"{at}: at least {limit:g}", at=at, require=Requirement("ci_low", ">=", limit))
        for at, limit in at_least
    ]
    made += [
        Claim(name=f"{at}: at most {limit:g}", at=at, require=Requirement("ci_high", "<=", limit))
        for at, limit in at_most
    ]
    for at, limit in max_drop:
        if not 0 < limit < math.inf:
            raise click.UsageError(f"--max-drop {at!r} {limit:g}: must be greater than 0")
        made.append(Claim(name=f"{at}: drops less than {limit:g}", at=at, non_inferior_by=limit))
    return made


def _page(run_id: str, report: ClaimReport) -> Page:
    # Start with the outcome, so that no name from a file can form a workflow command.
    payload = {"run_id": run_id, "passed": not report.has_failures(), **report.to_dict()}
    return Page("Gate", payload, [f"run {run_id}: {claims_lead(report)}"], [claims_table(report)])
