"""``eval-toolkit evaluate``: run scorers, loaders and checks by name through the harness."""

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import Alert, Page, Table
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.words import without_interval
from eval_toolkit.cli import _threshold_selectors
from eval_toolkit.cli._data import Data, Reading, data_options, read_data
from eval_toolkit.cli._exit import EXIT_FAILED, EvidenceSaysNo
from eval_toolkit.cli._loading import NamedCheck, check_folds, loaded_data, named_files
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._options import Sampling, output_options, passing, sampling_options
from eval_toolkit.cli._output import Output
from eval_toolkit.errors import InvalidInputError, LeakageError, PluginError
from eval_toolkit.harness import RunResult, evaluate_folded, save_run
from eval_toolkit.harness import evaluate as evaluate_slices
from eval_toolkit.harness.loading import load_scorer, load_splitter
from eval_toolkit.plugins import known_name, name_and_options
from eval_toolkit.report.cells import Cell
from eval_toolkit.scorecards.parts import WHOLE

_NAMED = re.compile(r"^([\w.-]+)=(.+)$", re.DOTALL)


@dataclass(frozen=True)
class Checking:
    """Options for leakage checks."""

    checks: Sequence[str]
    on_leakage: str


@dataclass(frozen=True)
class Folding:
    """Options that select the rows to score and the rows used to select a threshold."""

    splitter: str | None
    shown: Sequence[str]
    select: str | None
    threshold_on: str | None


@dataclass(frozen=True)
class Saving:
    """Options for storing the results as a run."""

    save: Path | None
    overwrite: bool


@click.command()
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.option(
    "--loader",
    metavar="NAME",
    help="Loader to use instead of FILES: a name with optional {options}, or module:object.",
)
@click.option(
    "--scorer",
    "scorers",
    metavar="[LABEL=]NAME",
    multiple=True,
    required=True,
    help=(
        "Scorer that returns P(positive): a name with optional {options}, or module:object. "
        "Repeatable."
    ),
)
@click.option(
    "--check",
    "checks",
    metavar="NAME",
    multiple=True,
    help="Leakage check to run first. Repeatable.",
)
@click.option(
    "--on-leakage",
    default="raise",
    show_default=True,
    type=click.Choice(["raise", "record", "drop"]),
    help=(
        "How to handle leakage errors: stop and exit with code 1, continue and report them, "
        "or drop the rows."
    ),
)
@click.option(
    "--splitter",
    metavar="NAME",
    help="Splitter that divides a single split into folds; scorers are fitted and evaluated "
    "per fold.",
)
@click.option(
    "--on",
    "shown",
    metavar="SPLIT",
    multiple=True,
    help="Split to report. Repeatable. [default: all]",
)
@click.option("--select", metavar="RULE", help="Rule that selects a threshold on --threshold-on.")
@click.option(
    "--threshold-on", metavar="SPLIT", help="Split on which --select selects the threshold."
)
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help=("Metric to compute: roc_auc, f1@0.5, … Repeatable."),
)
@click.option(
    "--save",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Also store the results as a run.",
)
@click.option("--overwrite", is_flag=True, help="Let --save replace an existing run.")
@data_options
@sampling_options(methods=False)
@output_options
@passing("checking", Checking)
@passing("folding", Folding)
@passing("saving", Saving)
def evaluate(
    files: Sequence[str],
    loader: str | None,
    scorers: Sequence[str],
    checking: Checking,
    folding: Folding,
    metrics: Sequence[str],
    saving: Saving,
    reading: Reading,
    sampling: Sampling,
    output: Output,
) -> None:
    """Evaluate scorers on rows, after leakage checks.

    Each of FILES is one split, named after the file or as in NAME=PATH; a loader defines its own
    names. `eval-toolkit plugins` lists the names provided by installed packages.

    \b
    eval-toolkit evaluate test.csv --scorer my_package.scorers:Keywords
    eval-toolkit evaluate --loader my_reviews --scorer my_scorer --check my_check --save runs/a
    """  # noqa: D301
    if bool(files) == (loader is not None):
        raise click.UsageError("pass either FILES or --loader")
    if loader is not None and reading != Reading():
        raise click.UsageError("a loader defines its own columns: --text, --label … apply to FILES")
    if saving.overwrite and saving.save is None:
        raise click.UsageError("--overwrite needs --save; --out always replaces a file")
    if (folding.select is None) != (folding.threshold_on is None) and folding.splitter is None:
        raise click.UsageError("--select and --threshold-on must be used together")
    named = _scorers(scorers)
    options: dict[str, Any] = {
        "leakage_checks": [NamedCheck(spec) for spec in checking.checks],
        "on_leakage": checking.on_leakage,
        "on_scorer_error": "record",
        "n_resamples": sampling.n_resamples,
        "confidence": sampling.confidence,
        "metrics": metrics or None,
        "thresholds": None
        if folding.select is None
        else _threshold_selectors.selector(folding.select),
        "threshold_slice": folding.threshold_on,
    }
    cut = None if folding.splitter is None else load_splitter(folding.splitter)
    data = loaded_data(loader) if loader is not None else _read(files, reading)
    asked = {
        "loader": loader,
        "files": [str(one.file) for one in data.values()] if files else [],
        "scorers": list(scorers),
        "splitter": folding.splitter,
    }
    run_id = (
        f"evaluate-{sha256_text(canonical_json(asked))[:12]}"
        if saving.save is None
        else saving.save.name
    )
    options |= {"run_id": run_id, "extra_config": {"command": "evaluate", "asked": asked}}
    try:
        if folding.splitter is not None and len(data) == 1:
            check_folds(folding.splitter, cut, next(iter(data.values())).rows)
        result = _evaluated(named, data, cut, folding.shown, sampling, options)
    except LeakageError as error:
        say(f"{error}", err=True)
        raise EvidenceSaysNo from None
    except AssertionError as error:  # scorers may raise AssertionError
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise PluginError(
            f"{Path(place.filename).name}, line {place.lineno}: {place.name} failed an assertion: "
            f"{error}"
        ) from error
    paths = [one.file for one in data.values()] if files else []
    write = (
        partial(save_run, result, saving.save, overwrite=saving.overwrite, data_files=paths)
        if saving.save
        else None
    )
    output.emit(
        _page(result, data, sampling),
        inputs=[*paths, *([saving.save] if saving.save else [])],
        first=write,
    )
    cells = (cell for row in _rows(result) for cell in row[2].values())
    if _failed(result) or any(cell.status == "error" for cell in cells):
        raise click.exceptions.Exit(EXIT_FAILED)


def _scorers(specs: Sequence[str]) -> dict[str, Any]:
    """Return the scorers by label; by default, labels are names without options."""
    made: dict[str, Any] = {}
    for spec in specs:
        match = _NAMED.match(spec)
        name = name_and_options(spec)[0]
        label, rest = (
            (match[1], match[2]) if match else (known_name("scorers", name, ()) or name, spec)
        )
        if label in made:
            raise click.UsageError(
                f"two --scorer options are both named {label!r}; write LABEL={rest} for one of them"
            )
        made[label] = load_scorer(rest)
    return made


def _read(files: Sequence[str], reading: Reading) -> dict[str, Data]:
    data = {
        name: read_data(file, reading, needs_label=True, needs_roles=True)
        for name, file in named_files(files).items()
    }
    for one in data.values():
        if one.label_fault:
            raise InvalidInputError(one.label_fault)
        if one.n_without_text:
            row = int(one.without_text.argmax())
            raise InvalidInputError(
                f"{one.file}: row {row + 1}: the text is missing; every row to be scored needs one"
            )
    return data


def _evaluated(
    scorers: Mapping[str, Any],
    data: Mapping[str, Data],
    splitter: Any,
    shown: Sequence[str],
    sampling: Sampling,
    options: dict[str, Any],
) -> RunResult:
    slices = {name: one.rows.renamed(name) for name, one in data.items()}
    if splitter is None:
        return evaluate_slices(
            scorers, slices, seed=sampling.seed, eval_split_names=shown or None, **options
        )
    if len(slices) > 1:
        raise click.UsageError(f"--splitter needs a single split; there are {', '.join(slices)}")
    (rows,) = slices.values()
    named: dict[str, Any] = {"eval_split_names": shown} if shown else {}
    return evaluate_folded(scorers, splitter, rows, seeds=(sampling.seed,), **named, **options)


def _failed(result: RunResult) -> list[str]:
    """Return the errors of the scorers, each prefixed with the scorer's name."""
    return [
        f"scorer {scorer}, {_place(slice_name, part)}: {block['error']}"
        for slice_name, part, scorer, block in _tested(result)
        if "error" in block
    ]


def _place(slice_name: str, part: str) -> str:
    return slice_name if part == WHOLE else f"{slice_name} {part}"


def _tested(result: RunResult) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Yield the blocks of each scorer on whole slices, and on folds if there are any."""
    shown = {*result.cells.folds} or {WHOLE}
    for slice_name, part, scorer, block in result.cells.blocks():
        if part in shown:
            yield slice_name, part, scorer, block


def _page(result: RunResult, data: Mapping[str, Data], sampling: Sampling) -> Page:
    rows = _rows(result)
    metrics = list(dict.fromkeys(name for row in rows for name in row[2]))
    table = Table(
        ["slice", "scorer", "rows", *metrics],
        [
            [*row[0], row[1], *(row[2][name].shown if name in row[2] else None for name in metrics)]
            for row in rows
        ],
    )
    reasons = [
        (Alert if cell.status == "error" else str)(
            f"{name}, {' '.join(row[0])}: {cell.status}: {cell.reason}"
        )
        for row in rows
        for name, cell in row[2].items()
        if cell.status != "ok" and cell.reason
    ]
    reasons += [
        f"{' '.join(row[0])}: {without_interval(cell.reason)}"
        for row in rows
        for cell in row[2].values()
        if cell.has_value and cell.low is None and cell.reason
    ]
    declined = [
        f"{scorer}, {_place(slice_name, part)}: {block['skipped']}"
        for slice_name, part, scorer, block in _tested(result)
        if "skipped" in block and not result.cells.folds
    ]
    found = (result.leakage_report or {}).get("findings", [])
    leakage = [f"{one['check_name']}: {one['message']}" for one in found]
    notes = [*_failed(result), *declined, *leakage, *dict.fromkeys(reasons)]
    sizes = ", ".join(f"{name} {one.summary()}" for name, one in data.items())
    lead = [
        sizes,
        sampling.made(cell.n_resamples or 0 for row in rows for cell in row[2].values()),
    ]
    return Page("Evaluation", result.to_dict(), lead, [table], notes)


_Row = tuple[tuple[str, str], int | None, dict[str, Cell]]
"""Slice, scorer, number of rows, and cells by metric."""


def _rows(result: RunResult) -> list[_Row]:
    """Return one row per slice and scorer; with folds, the means over folds."""
    cells, n_folds = result.cells, len(result.cells.folds)
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    for found in cells:
        if found.part == WHOLE and found.metric:
            name = f"{found.slice}, mean of {n_folds} folds" if n_folds else found.slice
            rows.setdefault((name, found.system), {})[found.metric] = Cell.of(
                found.metric, found.cell
            )
    sizes = {name: cells.entry(name).get("n") for name in cells.slices}
    return [
        (place, None if n_folds else sizes[place[0]], metrics) for place, metrics in rows.items()
    ]
