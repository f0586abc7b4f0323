"""``eval-toolkit score``: compute metrics of stored predictions with intervals, by slice."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Alert, Page
from eval_toolkit._internal.files import read_document
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.cli import _threshold_selectors
from eval_toolkit.cli._blocks import blocks_page, resamples_of, short_names
from eval_toolkit.cli._messages import in_options, say
from eval_toolkit.cli._options import Sampling, column_options, output_options, sampling_options
from eval_toolkit.cli._output import Output, progress
from eval_toolkit.cli._remote import Fetched, fetched, is_run
from eval_toolkit.cli._suggestions import next_line
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.harness.predictions import (
    PredictionsKind,
    check_threshold,
    not_probabilities,
    scale_note,
    used_rows,
)
from eval_toolkit.inference.statistics import RecallAtFpr
from eval_toolkit.loaders.columns import HASHES, IDS, Wanted, identifies
from eval_toolkit.loaders.predictions import Predictions, read_predictions
from eval_toolkit.metric_specs.names import chosen_metrics, quantity_of
from eval_toolkit.metrics import recall_at_fpr
from eval_toolkit.runs import drive
from eval_toolkit.runs.driver import store

if TYPE_CHECKING:
    from eval_toolkit.thresholds.operating_points import FittedOperatingPoint

Threshold: TypeAlias = "float | FittedOperatingPoint | None"


@click.command()
@click.argument("preds", nargs=-1, required=True, metavar="PREDS...")
@column_options()
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Metric to compute: roc_auc, f1@0.5, recall@fpr=0.01, ece=15, … Repeatable.",
)
@click.option(
    "--threshold", type=float, help="Threshold for F1, precision, recall and similar metrics."
)
@click.option(
    "--threshold-from",
    metavar="FILE",
    help="File with other rows, used to select the threshold.",
)
@click.option(
    "--select",
    metavar="RULE",
    help="Rule that selects the threshold on --threshold-from: "
    f"{', '.join(_threshold_selectors.SELECTOR_NAMES)} [default: max-f1].",
)
@click.option(
    "--save",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Also store predictions and results as a run in this folder.",
)
@click.option(
    "--text",
    metavar="COLUMN",
    help="Text column; --save stores it, with secrets redacted, for use in reports.",
)
@click.option(
    "--leakage",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Output of `check TRAIN PREDS --json`; --save stores it for use in reports and claims.",
)
@click.option("--overwrite", is_flag=True, help="Let --save replace an existing run.")
@sampling_options(methods=True, backends=True)
@output_options
def score(
    preds: Sequence[str], wanted: Wanted, sampling: Sampling, output: Output, **given: Any
) -> None:
    """Score predictions; every metric has an interval.

    PREDS are files with one row per prediction (CSV with any separator, TSV, JSONL, JSON, Parquet,
    Excel, optionally .gz), which are concatenated, or a run folder, which is scored as by `rescore
    RUN --metric`. Globs, fsspec URLs and - for standard input are accepted.
    """
    asked = _ScoreOptions(**given)
    asked.check()
    if any(map(is_run, preds)):
        asked.check_run(preds, wanted)
        metrics, threshold = asked.metrics, asked.threshold
        from eval_toolkit.cli._rescore_pages import rescored_rows

        _, page = rescored_rows(preds[0], metrics, threshold, wanted.by, sampling)
        output.emit(page, summary=True)
        return
    chosen_on = [asked.threshold_from] if asked.threshold_from else []
    with fetched([*preds, *chosen_on]) as files:
        _score_files(files, asked, wanted, sampling, output)


@dataclass(frozen=True)
class _ScoreOptions:
    """Metrics, thresholds and storage options of the command."""

    metrics: Sequence[str]
    threshold: float | None
    threshold_from: str | None
    select: str | None
    save: Path | None
    text: str | None
    leakage: Path | None
    overwrite: bool

    def check(self) -> None:
        """Raise if mutually exclusive options are combined."""
        if self.threshold is not None and self.threshold_from is not None:
            raise click.UsageError("pass either --threshold or --threshold-from, not both")
        if self.select is not None and self.threshold_from is None:
            raise click.UsageError("--select and --threshold-from must be used together")
        if self.overwrite and self.save is None:
            raise click.UsageError("--overwrite needs --save; --out always replaces a file")
        if self.leakage is not None and self.save is None:
            raise click.UsageError("--leakage needs --save; only runs store leakage findings")
        if self.text is not None and self.save is None:
            raise click.UsageError("--text needs --save; only runs store texts")

    def check_run(self, paths: Sequence[str], wanted: Wanted) -> None:
        """Raise if an option does not apply to a run, whose columns are fixed."""
        if self.threshold_from is not None:
            raise click.UsageError(
                "--threshold-from reads files of predictions; a run is scored with --threshold"
            )
        if self.save is not None:
            raise click.UsageError(
                "--save applies to files of predictions; a run is already stored (`rescore --out`)"
            )
        if len(paths) != 1 or replace(wanted, by=()) != Wanted():
            raise InvalidInputError(
                f"{paths[0]}: score one run at a time; a run has its own columns: --label, "
                "--score, --group, --id, --where and similar options apply to files"
            )


def _score_files(
    files: Fetched, asked: _ScoreOptions, wanted: Wanted, sampling: Sampling, output: Output
) -> None:
    """Score local files of predictions."""
    save, preds, chosen_on = asked.save, files.paths, asked.threshold_from
    if chosen_on is not None:
        *preds, chosen_on = preds
    found = read_predictions(preds, replace(wanted, text=asked.text))
    if asked.threshold is not None:
        check_threshold(found, asked.threshold)
    if save is not None:
        _check_saving(found, save, asked.overwrite, wanted)
    chosen = None if chosen_on is None else _chosen(found, wanted, chosen_on, asked.select)
    points = dict.fromkeys(found.scores, asked.threshold) if chosen is None else chosen.points
    specs = {name: chosen_metrics(asked.metrics or None, at=at) for name, at in points.items()}
    config = {
        "command": "score",
        "files": [files.name(file) for file in found.rows.files],
        "label": found.label,
        "scores": list(found.scores),
        "by": list(found.parts),
        "group": wanted.group,
        "id": found.id,
        **used_rows(wanted),
        "metrics": list(asked.metrics)
        or [quantity_of(spec.name) or spec.name for spec in next(iter(specs.values()))],
        "thresholds": {
            name: _origin(point, chosen) for name, point in points.items() if point is not None
        },
        "threshold_files": [files.name(file) for file in chosen.files] if chosen else [],
        **sampling.to_dict(),
    }
    inputs = [*found.rows.files, *(chosen.files if chosen else ())]
    kind = PredictionsKind(
        found=found,
        specs=specs,
        settings=config,
        summary=sampling.summary(),
        files={files.name(file): file for file in inputs},
        leakage=None if asked.leakage is None else _leakage(asked.leakage, len(found)),
        each=lambda parts: progress(parts, "scoring", len(parts)),
    )
    name = f"score-{sha256_text(canonical_json(config))[:12]}" if save is None else save.name
    done = drive(kind, name=name)
    lead = _lead(found, config, sampling.made(resamples_of(done)))
    page = blocks_page(done, config, lead, sampling)
    if asked.metrics:  # the default ones have no rate to reach
        page = _with_thresholds(page, kind)
    output.emit(
        _with_doubts(page, found),
        inputs=[*inputs, *([save] if save else [])],
        first=None
        if save is None
        else partial(store, kind, done, save, found, overwrite=asked.overwrite),
        summary=True,
    )
    if save is not None:
        say(f"wrote {save}", err=True)
        say(next_line("report", save), err=True)


def _leakage(file: Path, n_rows: int) -> Mapping[str, Any]:
    """Return the findings of ``check --json``; raise if these rows are not one of its splits."""
    from eval_toolkit.leakage.findings import LeakageReport

    told = read_document(file, suffix=".json")
    try:
        report = LeakageReport.from_dict(told)
        sizes = {name: split["n"] for name, split in told["splits"].items()}
    except (InvalidInputError, AttributeError, KeyError, TypeError):
        raise InvalidInputError(
            f"{file}: is not the result of eval-toolkit check TRAIN PREDS --json"
        ) from None
    if n_rows not in sizes.values():
        listed = ", ".join(f"{name} with {n} rows" for name, n in sizes.items())
        raise InvalidInputError(
            f"{file}: --leakage checked {listed}, but {n_rows} rows are scored; check the file of "
            "predictions: eval-toolkit check TRAIN PREDS --json"
        )
    return report.to_dict()


def _with_thresholds(page: Page, kind: PredictionsKind) -> Page:
    """Add notes with the threshold at which recall at a false-positive rate is reached."""
    found, notes = kind.found, []
    if not 0 < found.n_positive < len(found):
        return page
    for name, specs in kind.specs.items():
        whose = f" of {name}" if len(kind.specs) > 1 else ""
        for spec in specs:
            statistic = getattr(spec, "statistic", None)
            if not isinstance(statistic, RecallAtFpr):
                continue
            at = recall_at_fpr(found.y_true, found.scores[name], statistic.target)
            notes.append(
                f"{spec.name}{whose} is reached at threshold {at.threshold:.6g} on these rows "
                f"(false-positive rate {at.actual_fpr:.3g}); --threshold-from FILE --select "
                f"fpr={statistic.target:g} selects it on other rows"
            )
    return replace(page, notes=[*page.notes, *notes])


def _with_doubts(page: Page, found: Predictions) -> Page:
    """Add warnings about suspicious labels and scores, worded for the command line."""
    from eval_toolkit.scorecards import sanity_notes

    notes: dict[str, None] = {}
    for name, scores in found.scores.items():
        whose = f"{name}: " if len(found.scores) > 1 else ""
        odd = sanity_notes(found.y_true, scores)
        if not odd and not_probabilities(scores):
            odd = [scale_note(scores)]
        notes.update(dict.fromkeys(in_options(f"{whose}{one}") for one in odd))
    if not notes:
        return page
    payload = {**page.payload, "notes": list(notes)}
    return replace(page, payload=payload, notes=[*map(Alert, notes), *page.notes])


def _check_saving(found: Predictions, folder: Path, overwrite: bool, wanted: Wanted) -> None:
    """Raise if the rows have no ids, or if the run would overwrite its input."""
    file = found.rows.files[0]
    if found.id is None:
        roles = (found.label, *found.scores, *found.parts)
        names = [one for one in tables.column_names(file, wanted.file_format) if one not in roles]
        rows = tables.read_rows(found.rows.files, texts=names, file_format=wanted.file_format)
        likely = next((one for one in names if identifies(rows.columns[one])), None)
        raise InvalidInputError(
            f"{file}: --save needs a column of row ids (--id); no column named {', '.join(IDS)} or "
            "similarly is used, and row numbers are not ids; "
            + (f"pass --id {shlex.quote(likely)}" if likely else "no column has unique values")
        )
    inside = [file for file in found.rows.files if file.resolve().parent == folder.resolve()]
    if overwrite and inside:
        raise InvalidInputError(
            f"{folder}: --save would overwrite {inside[0]}; choose another name"
        )


def _lead(found: Predictions, config: Mapping[str, Any], made: str) -> list[str]:
    key = "" if found.id is None else f", keyed by {found.id}"
    rows = f"{len(found)} rows{found.groups_text()}, {found.n_positive} positive{key}"
    lead = [f"{short_names(config['files'])}: {rows}; {made}", *found.notes]
    for name, point in config["thresholds"].items():
        chosen = f", chosen on {_fitted_on(point)}" if "n_fit" in point else ""
        lead.append(f"threshold of {name}: {point['threshold']:.6g} ({point['criterion']}{chosen})")
    return lead


def _fitted_on(point: Mapping[str, Any]) -> str:
    if point["told_apart_by"] is not None:
        return f"{point['n_fit']} other rows, keyed by {point['told_apart_by']}"
    return f"{point['n_fit']} rows; without ids in both files, they may be the same rows"


@dataclass(frozen=True)
class ChosenThresholds:
    """Threshold of each scorer, and the files on which it was selected."""

    points: dict[str, Threshold]
    files: list[Path]
    told_apart_by: str | None
    """Column by which these rows are known to differ from the scored rows, or None."""


def _chosen(
    found: Predictions, wanted: Wanted, threshold_from: str, select: str | None
) -> ChosenThresholds:
    """Select a threshold for each scorer on separate rows."""
    rule = _threshold_selectors.selector(select or "max-f1")
    files = tables.expand_paths(threshold_from)
    used = {file.resolve() for file in found.rows.files}
    for file in files:
        if file.resolve() in used:
            raise InvalidInputError(
                f"{file}: --threshold-from is among the files that are scored; a threshold "
                "must be chosen on other rows"
            )
    columns = replace(wanted, label=found.label, scores=tuple(found.scores), by=(), group=None)
    names = [tables.column_names(file, wanted.file_format) for file in files]
    key = found.id if all(found.id in have for have in names) else None
    rows = read_predictions([threshold_from], replace(columns, id=key, keyed=False))
    told_apart_by = _disjoint_by(found, rows)
    from eval_toolkit.thresholds.operating_points import fit_operating_points

    points: dict[str, Threshold] = {}
    for name, values in rows.scores.items():
        try:
            fitted = fit_operating_points(
                rows.y_true, values, [rule], fitted_on_slice=files[0].stem, scorer_name=name
            )
        except EvalToolkitError as error:
            raise InvalidInputError(f"{threshold_from}: {error}") from error
        points[name] = fitted[rule.criterion]
    return ChosenThresholds(points, files, told_apart_by)


def _disjoint_by(scored: Predictions, rows: Predictions) -> str | None:
    """Return the column that proves the two sets of rows disjoint; raise if they overlap.

    If both files have ids and content hashes, rows are equal only if both match, because ids may be
    numbers that restart in every file.
    """
    known = None if scored.hashes is None or rows.hashes is None else HASHES
    if scored.ids is not None and rows.ids is not None:
        _, at, again = np.intersect1d(scored.ids, rows.ids, return_indices=True)
        if scored.hashes is not None and rows.hashes is not None:
            one, other = scored.hashes[at], rows.hashes[again]
            again = again[(one == other) | (one == "") | (other == "")]
        known = scored.id
    elif scored.hashes is not None and rows.hashes is not None:
        again = np.flatnonzero(np.isin(rows.hashes, scored.hashes[scored.hashes != ""]))
    else:
        return None
    if len(again):
        raise InvalidInputError(
            f"{rows.where(int(again.min()))}: a row with this {known} is also scored "
            f"({len(again)} such rows); select the threshold on other rows, or pass "
            "--no-id if ids restart in every file"
        )
    return known


def _origin(point: Threshold, chosen: ChosenThresholds | None) -> dict[str, Any] | None:
    if point is not None and not isinstance(point, float):
        return {
            "threshold": point.threshold,
            "criterion": point.criterion,
            "fitted_on_slice": point.fitted_on_slice,
            "n_fit": point.n_fit,
            "told_apart_by": chosen and chosen.told_apart_by,
        }
    return {"threshold": point, "criterion": "given"}
