"""``eval-toolkit compare``: differences between two systems on the same rows, with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import get_args

import click
import numpy as np

from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Page
from eval_toolkit.analysis import RunComparison, RunDifference, compare_records
from eval_toolkit.analysis.matching import UnitKey
from eval_toolkit.cli._compared_files import Joined, joined_columns, joined_files
from eval_toolkit.cli._compared_runs import (
    compare_folders,
    distinct_names,
    ends_of,
    match_of,
    opened_runs,
    pairs_of,
)
from eval_toolkit.cli._options import (
    Sampling,
    column_options,
    direction_options,
    output_options,
    passing,
    sampling_options,
)
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._remote import fetched, is_run
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.harness.predictions import needs_probability, not_probabilities
from eval_toolkit.loaders.columns import Wanted
from eval_toolkit.metric_specs.names import chosen_metrics
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.report.comparison_page import comparison_page, run_comparison_page, several_page
from eval_toolkit.scorecards.parts import WHOLE


@dataclass(frozen=True)
class Pairing:
    """Options that select what to compare."""

    on_mismatch: str
    allow_version_change: bool
    pairs: Sequence[str]
    slice_pairs: Sequence[str]
    metric_pairs: Sequence[str]
    match: UnitKey
    all_pairs: bool


@click.command()
@click.argument("sides", nargs=-1, required=True, metavar="A [B] [C]...")
@column_options()
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Metric to compare: roc_auc, recall@fpr=0.01, f1@0.5, … For runs, also `all` (every "
    "stored metric), or a metric on one slice: exact_match @ subject=Africa. Repeatable.",
)
@click.option(
    "--on-mismatch",
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="How to handle rows with the same id but a different label, content hash, slice or group.",
)
@click.option(
    "--allow-version-change",
    is_flag=True,
    help="Compare runs even if a scorer, task, metric or rollout setting differs.",
)
@click.option(
    "--pair",
    "pairs",
    metavar="A=B",
    multiple=True,
    help="Compare scorer A of one run with scorer B of the other. Repeatable.",
)
@click.option(
    "--pair-slice",
    "slice_pairs",
    metavar="A=B",
    multiple=True,
    help="Compare slice A of one run with slice B of the other. Repeatable.",
)
@click.option(
    "--pair-metric",
    "metric_pairs",
    metavar="A=B",
    multiple=True,
    help="Compare metric A of one run with metric B of the other. Repeatable.",
)
@click.option(
    "--match",
    type=click.Choice(get_args(UnitKey)),
    default="auto",
    show_default=True,
    help=(
        "Key that pairs the units of two runs; auto uses the id, or for imported runs the key "
        "with the most pairs."
    ),
)
@click.option(
    "--all-pairs",
    is_flag=True,
    help="Compare all pairs of three or more systems, instead of each with the first.",
)
@direction_options
@sampling_options(methods=False, backends=True)
@output_options
@passing("pairing", Pairing)
def compare(
    sides: Sequence[str],
    metrics: Sequence[str],
    pairing: Pairing,
    higher_is_better: Mapping[str, bool],
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Compare systems on the same rows: differences with intervals.

    A, B, C, … are files of predictions (in the formats of score; one may be - for standard input),
    paired by --id (by default a common column such as id or message_id, else row order), one file
    with several score columns (--score a --score b), or run folders, for which --by names slices of
    the records, such as subject. The other systems are compared with the first, A. Runs imported
    from different tools' logs are paired by item content. P-values are adjusted for the number of
    systems, metrics and slices with Holm's method. Rollout runs are compared by their main metrics
    and by the number of failed conversations at each turn.
    """
    if any(map(is_run, sides)):
        _compare_runs(sides, metrics, pairing, higher_is_better, wanted, sampling, output)
        return
    if pairing.pairs:
        raise click.UsageError(
            "--pair applies to runs; for files, name the scores: --score a --score b"
        )
    if pairing.slice_pairs or pairing.metric_pairs or pairing.match != "auto":
        raise click.UsageError("--pair-slice, --pair-metric and --match apply to runs")
    if higher_is_better:
        raise click.UsageError(
            "--lower-is-better and --higher-is-better apply to runs; the direction of file "
            "metrics is known"
        )
    specs = chosen_metrics(metrics or None)
    with fetched(sides) as files:
        joined = (
            joined_columns(files.paths[0], wanted)
            if len(sides) == 1
            else joined_files(files, wanted, pairing.on_mismatch)
        )
        pairs = _pairs(joined.names, every=pairing.all_pairs)
        results = [_compared(joined, a, b, specs, sampling) for a, b in pairs]
        page = _page(dict(zip(pairs, results, strict=True)), joined.lead(), sampling)
        page = replace(page, payload={**page.payload, "pairing": joined.to_dict()})
        inputs = [file for path in files.paths for file in tables.expand_paths(path)]
        output.emit(page, inputs=inputs, summary=True)
    refuse_nothing([cell for result in results for cell in result.cells])


def _pairs(names: Sequence[str], *, every: bool) -> list[tuple[str, str]]:
    """Return each later system paired with the first, or all pairs."""
    return [*combinations(names, 2)] if every else [(names[0], name) for name in names[1:]]


def _page(
    results: Mapping[tuple[str, str], RunComparison], lead: Sequence[str], sampling: Sampling
) -> Page:
    """Return a page for one comparison, or a single table for several."""
    drawn = sampling.made(cell.n_resamples for one in results.values() for cell in one.cells)
    if len(results) > 1:
        return _with_resamples(several_page(results, lead, drawn), sampling)
    ((names, result),) = results.items()
    return _with_resamples(comparison_page(result, lead, drawn, names), sampling)


def _compare_runs(
    sides: Sequence[str],
    metrics: Sequence[str],
    pairing: Pairing,
    higher_is_better: Mapping[str, bool],
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Compare run folders: two runs on the page for their kind, more than two in one table."""
    runs = dict(zip(distinct_names(*ends_of(sides)), opened_runs(sides, wanted), strict=True))
    results = {
        (a, b): compare_folders(
            [runs[a], runs[b]],
            metrics,
            wanted,
            sampling,
            on_mismatch=pairing.on_mismatch,
            allow_version_change=pairing.allow_version_change,
            pairs=pairs_of(pairing.pairs),
            higher_is_better=higher_is_better,
            match=match_of(pairing.slice_pairs, pairing.metric_pairs, pairing.match),
        )
        for a, b in _pairs([*runs], every=pairing.all_pairs)
    }
    if len(results) > 1:
        page = _page(results, [], sampling)
    else:
        (result,) = results.values()
        page = run_comparison_page([*runs.values()], result, _made(result, sampling))
        page = _with_resamples(page, sampling)
    output.emit(page, summary=True)
    turns = page.payload.get("survival", {}).get("turns", ())
    if not any(turn["status"] == "ok" for turn in turns):
        refuse_nothing([cell for result in results.values() for cell in result.cells])


def _made(result: RunComparison, sampling: Sampling) -> str:
    return sampling.made(cell.n_resamples for cell in result.cells)


def _with_resamples(page: Page, sampling: Sampling) -> Page:
    return replace(page, payload={**page.payload, "n_resamples": sampling.n_resamples})


def refuse_nothing(cells: Sequence[RunDifference]) -> None:
    """Raise if no metric could be compared, so that the exit code is nonzero."""
    if not any(cell.status == "ok" for cell in cells):
        why = f": {cells[0].metric}: {cells[0].reason}" if cells else ""
        raise InvalidInputError(f"nothing could be compared{why}")


def _compared(
    joined: Joined, a: str, b: str, specs: Sequence[MetricSpec], sampling: Sampling
) -> RunComparison:
    """Compare all rows, then slices, which are a separate family for Holm's method."""
    rows, names = joined.rows, joined.names
    slices = rows.slices()
    parts = [
        compare_records(
            {name: rows.records(a, at) for name, at in family},
            {name: rows.records(b, at) for name, at in family},
            specs,
            scorers=("a", "b"),
            names=(joined.sources[names.index(a)], joined.sources[names.index(b)]),
            confidence=sampling.confidence,
            n_resamples=sampling.n_resamples,
            seed=sampling.seed,
            executor=sampling.executor,
        )
        for family in (slices[:1], slices[1:])
        if family
    ]
    why = not_probabilities(np.concatenate([rows.scores[a], rows.scores[b]]))
    cells = [
        replace(cell, slice=WHOLE, part=cell.slice, status="skipped", reason=why)
        if why and cell.status == "error" and needs_probability(cell.metric)
        else replace(cell, slice=WHOLE, part=cell.slice)
        for part in parts
        for cell in part.cells
    ]
    return replace(parts[0], cells=tuple(cells))
