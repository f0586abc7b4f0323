"""``eval-toolkit score``: every metric of stored predictions with an interval, by slice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from eval_toolkit import _tables
from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit.cli import _names
from eval_toolkit.cli._blocks import blocks_page, file_blocks, run_blocks, short_names
from eval_toolkit.cli._options import Sampling, column_options, output_options, sampling_options
from eval_toolkit.cli._rows import IDS, Predictions, Wanted, read_predictions
from eval_toolkit.cli._show import Output, Page
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.operating_points import FittedOperatingPoint, fit_operating_points
from eval_toolkit.runs import Run, write_run

__all__ = ["score"]

Threshold = float | FittedOperatingPoint | None


@click.command()
@click.argument("preds", nargs=-1, required=True, metavar="PREDS...")
@column_options
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Repeatable: roc_auc, recall_at_fpr=0.01, ece=10, f1 (needs a threshold), …",
)
@click.option("--threshold", type=float, help="Report F1, precision, recall … at this threshold.")
@click.option(
    "--threshold-from",
    metavar="FILE",
    help="Choose the threshold on these other rows, then report at it.",
)
@click.option(
    "--select",
    default="max-f1",
    show_default=True,
    metavar="RULE",
    help=f"How --threshold-from chooses: {', '.join(_names.SELECTOR_NAMES)}.",
)
@click.option(
    "--save",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Also store predictions and results as a run there.",
)
@sampling_options(methods=True)
@output_options("json", "md", "html")
def score(
    preds: Sequence[str],
    metrics: Sequence[str],
    threshold: float | None,
    threshold_from: str | None,
    select: str,
    save: Path | None,
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Score predictions: every metric with an interval.

    PREDS are files with one row per prediction (CSV, TSV, JSONL, JSON, Parquet, also .gz; globs
    too), read one below the other, or the folder of a run.
    """
    if threshold is not None and threshold_from is not None:
        raise click.UsageError("give --threshold or --threshold-from, not both")
    if any(Path(path).is_dir() for path in preds):
        if threshold_from is not None:
            raise click.UsageError(
                "--threshold-from reads files of predictions; a run is scored with --threshold"
            )
        _score_run(preds, metrics, threshold, wanted, sampling, output)
        return
    if save is not None and wanted.id is None:
        wanted = replace(wanted, id=_identity(preds))
    found = read_predictions(preds, wanted)
    points = _points(found, wanted, threshold, threshold_from, select)
    names = metrics or (
        *_names.DEFAULT_METRICS,
        *(_names.DEFAULT_THRESHOLD_METRICS if any(p is not None for p in points.values()) else ()),
    )
    specs = {name: _names.metric_specs(names, points[name]) for name in found.scores}
    blocks = file_blocks(found, specs, sampling)
    config = {
        "command": "score",
        "files": [str(file) for file in found.rows.files],
        "label": found.label,
        "scores": list(found.scores),
        "by": list(found.parts),
        "group": wanted.group,
        "id": wanted.id,
        "metrics": list(names),
        "thresholds": {name: _origin(point) for name, point in points.items() if point is not None},
        **sampling.to_dict(),
    }
    run_id = f"score-{sha256_text(canonical_json(config))[:12]}" if save is None else save.name
    page = blocks_page(blocks, config, run_id, _lead(found, config, sampling), sampling)
    if save is not None:
        _save(save, found, page)
    output.emit(page)


def _score_run(
    paths: Sequence[str],
    metrics: Sequence[str],
    threshold: float | None,
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Score the records of a run; what they mean is part of the run."""
    if len(paths) != 1 or replace(wanted, by=()) != Wanted():
        raise InvalidInputError(
            f"{paths[0]}: a run is scored alone, and --label, --score, --group and --id are its own"
        )
    run = Run.open(paths[0])
    blocks = run_blocks(run, metrics, threshold, wanted.by, sampling)
    config = {
        "command": "score",
        "run": run.run_id,
        "by": list(wanted.by),
        "metrics": list(metrics),
        **sampling.to_dict(),
    }
    lead = [f"run {run.run_id}; {sampling}"]
    output.emit(blocks_page(blocks, config, run.run_id, lead, sampling))


def _identity(paths: Sequence[str]) -> str:
    """Return the column that identifies a row; a stored run needs one."""
    file = _tables.expand_paths(paths)[0]
    have = _tables.column_names(file)
    for name in IDS:
        if name in have:
            return name
    raise InvalidInputError(
        f"{file}: --save needs the column that identifies a row (--id); "
        f"none of {', '.join(IDS)} is there, and a row's number is no identity"
    )


def _save(folder: Path, found: Predictions, page: Page) -> None:
    """Store predictions and results as a run, for `compare`, `gate` and the rest."""
    from eval_toolkit.manifest import build_manifest

    config = page.payload["config"]
    manifest = build_manifest(
        run_id=folder.name,
        config=config,
        data_files=config["files"],
        seeds={"bootstrap": config["seed"]},
    )
    records = {
        (name, scorer): found.records(scorer, rows)
        for name, rows in found.slices()
        for scorer in found.scores
    }
    write_run(folder, results=page.payload, manifest=manifest.to_dict(), records=records)


def _lead(found: Predictions, config: Mapping[str, Any], sampling: Sampling) -> list[str]:
    whole = found.at(None)
    n_groups = "" if found.groups is None else f" in {whole.n_groups} groups"
    rows = f"{len(found)} rows{n_groups}, {whole.n_positive} positive"
    lead = [f"{short_names(config['files'])}: {rows}; {sampling}"]
    for name, point in config["thresholds"].items():
        chosen = f", chosen on {point['n_fit']} other rows" if "n_fit" in point else ""
        lead.append(f"threshold of {name}: {point['threshold']:.6g} ({point['criterion']}{chosen})")
    return lead


def _points(
    found: Predictions,
    wanted: Wanted,
    threshold: float | None,
    threshold_from: str | None,
    select: str,
) -> dict[str, Threshold]:
    """Return where each scorer operates: given, chosen on other rows, or nowhere."""
    if threshold_from is None:
        return dict.fromkeys(found.scores, threshold)
    rule = _names.selector(select)
    files = _tables.expand_paths(threshold_from)
    used = {file.resolve() for file in found.rows.files}
    for file in files:
        if file.resolve() in used:
            raise InvalidInputError(
                f"{file}: --threshold-from is among the files that are scored; a threshold "
                "must be chosen on other rows"
            )
    columns = Wanted(found.label, tuple(found.scores), labels=wanted.labels)
    rows = read_predictions([threshold_from], columns)
    points: dict[str, Threshold] = {}
    for name, values in rows.scores.items():
        try:
            fitted = fit_operating_points(
                rows.y_true, values, [rule], fitted_on_slice=files[0].stem, scorer_name=name
            )
        except EvalToolkitError as error:
            raise InvalidInputError(f"{threshold_from}: {error}") from error
        points[name] = fitted[rule.criterion]
    return points


def _origin(point: Threshold) -> dict[str, Any] | None:
    if isinstance(point, FittedOperatingPoint):
        return {
            "threshold": point.threshold,
            "criterion": point.criterion,
            "fitted_on_slice": point.fitted_on_slice,
            "n_fit": point.n_fit,
        }
    return {"threshold": point, "criterion": "given"}
