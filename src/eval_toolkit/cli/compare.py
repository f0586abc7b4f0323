"""``eval-toolkit compare``: differences between two systems on the same rows, with intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Page
from eval_toolkit._internal.validation import BoolArray, IntArray
from eval_toolkit.analysis import RunComparison, RunDifference, compare_records
from eval_toolkit.analysis.matching import UnitKey
from eval_toolkit.cli._compared_runs import compare_folders, match_of, opened_runs, pairs_of
from eval_toolkit.cli._options import (
    Sampling,
    column_options,
    direction_options,
    grouped,
    output_options,
    sampling_options,
)
from eval_toolkit.cli._remote import Fetched, fetched, is_run
from eval_toolkit.cli._show import Output
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.harness.predictions import needs_probability, not_probabilities
from eval_toolkit.loaders.predictions import Parts, Predictions, Wanted, read_predictions
from eval_toolkit.metric_specs.names import chosen_metrics
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.report.comparing import comparison_page, run_comparison_page
from eval_toolkit.scorecards.parts import WHOLE

__all__ = ["compare", "refuse_nothing"]

_HASH = "content hash"


@dataclass(frozen=True)
class Pairing:
    """Options that define which parts of A and B are compared."""

    on_mismatch: str
    allow_version_change: bool
    pairs: Sequence[str]
    slice_pairs: Sequence[str]
    metric_pairs: Sequence[str]
    match: UnitKey


@click.command()
@click.argument("sides", nargs=-1, required=True, metavar="A [B]")
@column_options()
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Metric to compare: roc_auc, recall@fpr=0.01, f1@0.5, …; for runs also all (every "
    "stored metric), or one slice: exact_match @ subject=Africa. Repeatable.",
)
@click.option(
    "--on-mismatch",
    type=click.Choice(["raise", "drop"]),
    default="raise",
    show_default=True,
    help="What to do with rows that share an id but differ in label, content hash, slice or group.",
)
@click.option(
    "--allow-version-change",
    is_flag=True,
    help="Compare runs even if a scorer, task, metric or rollout setting has changed.",
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
    help="Key that pairs the units of two runs; auto uses the id, or the key that pairs most "
    "if a run is imported.",
)
@direction_options
@sampling_options(methods=False, backends=True)
@output_options
@grouped("pairing", Pairing)
def compare(
    sides: Sequence[str],
    metrics: Sequence[str],
    pairing: Pairing,
    higher_is_better: Mapping[str, bool],
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Compare two systems on the same rows: differences with intervals.

    A and B are files of predictions (in the formats of score; one may be - for standard input),
    paired by --id (else unit_id, row_id or id, else by row order), one file with two score
    columns (--score a --score b), or two run folders, for which --by names slices of the
    records, such as subject. Runs imported from logs of two tools are paired by the content of
    their items. The p-values over metrics and slices are adjusted by Holm's method. For rollout
    runs the main metrics are compared, and the number of conversations that failed by each
    turn.
    """
    if any(map(is_run, sides)):
        runs = opened_runs(sides, wanted)
        result = compare_folders(
            runs,
            metrics,
            wanted,
            sampling,
            on_mismatch=pairing.on_mismatch,
            allow_version_change=pairing.allow_version_change,
            pairs=pairs_of(pairing.pairs),
            higher_is_better=higher_is_better,
            match=match_of(pairing.slice_pairs, pairing.metric_pairs, pairing.match),
        )
        page = run_comparison_page(runs, result, _made(result, sampling))
        page = _with_resamples(page, sampling)
        output.emit(page, summary=True)
        turns = page.payload.get("survival", {}).get("turns", ())
        if not any(turn["status"] == "ok" for turn in turns):
            refuse_nothing(result.cells)
        return
    if pairing.pairs:
        raise click.UsageError(
            "--pair is for runs; for files, name the scores: --score a --score b"
        )
    if pairing.slice_pairs or pairing.metric_pairs or pairing.match != "auto":
        raise click.UsageError("--pair-slice, --pair-metric and --match are for runs")
    if higher_is_better:
        raise click.UsageError(
            "--lower-is-better and --higher-is-better apply to runs; the direction of file "
            "metrics is known"
        )
    specs = chosen_metrics(metrics or None)
    with fetched(sides) as files:
        pair = (
            _one_file(files.paths[0], wanted)
            if len(sides) == 1
            else _two_files(files, wanted, pairing.on_mismatch)
        )
        result = _compared(pair, specs, sampling)
        page = _with_resamples(
            comparison_page(result, pair.lead(), _made(result, sampling)), sampling
        )
        page = replace(page, payload={**page.payload, "pairing": pair.to_dict()})
        inputs = [file for path in files.paths for file in tables.expand_paths(path)]
        output.emit(page, inputs=inputs, summary=True)
    refuse_nothing(result.cells)


def _made(result: RunComparison, sampling: Sampling) -> str:
    return sampling.made(cell.n_resamples for cell in result.cells)


def _with_resamples(page: Page, sampling: Sampling) -> Page:
    return replace(page, payload={**page.payload, "n_resamples": sampling.n_resamples})


def refuse_nothing(cells: Sequence[RunDifference]) -> None:
    """Raise if no metric could be compared, so that the exit code is nonzero."""
    if not any(cell.status == "ok" for cell in cells):
        why = f": {cells[0].metric}: {cells[0].reason}" if cells else ""
        raise InvalidInputError(f"nothing could be compared{why}")


@dataclass(frozen=True)
class Pair:
    """Rows shared by A and B, with the method of pairing."""

    rows: Predictions
    """Rows with the scores ``"a"`` and ``"b"``."""
    names: tuple[str, str]
    paired_on: str
    only_a_has: tuple[str, ...] = ()
    """Slice and group columns that are missing in B."""
    n_only_a: int = 0
    n_only_b: int = 0
    n_dropped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "paired_on": self.paired_on,
            "n_paired": len(self.rows),
            "n_only_a": self.n_only_a,
            "n_only_b": self.n_only_b,
            "n_dropped": self.n_dropped,
        }

    def lead(self) -> list[str]:
        """Describe which rows were compared."""
        a, b = self.names
        lines = [f"A is {a}, B is {b}: {len(self.rows)} rows, paired by {self.paired_on}"]
        if self.n_only_a or self.n_only_b or self.n_dropped:
            lines.append(
                f"left out: {self.n_only_a} rows only in A, {self.n_only_b} only in B, "
                f"{self.n_dropped} that differ"
            )
        if self.only_a_has:
            lines.append(f"read from A, missing in B: {', '.join(self.only_a_has)}")
        return lines


def _one_file(path: str, wanted: Wanted) -> Pair:
    if len(wanted.scores) != 2:
        raise click.UsageError("give two files, or one with two score columns: --score a --score b")
    found = read_predictions([path], wanted)
    if len(found.scores) != 2:
        raise InvalidInputError(f"{path}: --score names {wanted.scores[0]!r} twice")
    a, b = found.scores
    scores = {"a": found.scores[a], "b": found.scores[b]}
    return Pair(replace(found, scores=scores), (a, b), "row")


def _two_files(files: Fetched, wanted: Wanted, on_mismatch: str) -> Pair:
    paths = files.paths
    if len(paths) != 2 or len(wanted.scores) > 2:
        raise click.UsageError("give two files, A and B, and at most one --score for each")
    names = [tables.column_names(path, wanted.file_format) for path in paths]
    wanted = replace(wanted, id=wanted.key(names), keyed=False)
    in_b = names[1]
    sides = [
        read_predictions([paths[0]], replace(wanted, scores=wanted.scores[:1])),
        read_predictions(
            [paths[1]],
            replace(
                wanted,
                scores=wanted.scores[-1:],
                by=tuple(name for name in wanted.by if name in in_b),
                group=wanted.group if wanted.group in in_b else None,
            ),
        ),
    ]
    labels = _labels_of([files.name(path) for path in paths])
    if wanted.id is None:
        pair = _by_order(sides, labels)
    else:
        pair = _by_id(sides, labels, wanted.id, on_mismatch)
    roles = dict.fromkeys([*wanted.by, *([wanted.group] if wanted.group else [])])
    return replace(pair, only_a_has=tuple(name for name in roles if name not in in_b))


def _labels_of(paths: Sequence[str]) -> tuple[str, str]:
    """Return distinct labels for the files: file names if they differ, else paths."""
    short = [Path(path).name for path in paths]
    return (short[0], short[1]) if short[0] != short[1] else (paths[0], paths[1])


def _joined(a: Predictions, b: Predictions) -> Predictions:
    (one,), (other,) = a.scores.values(), b.scores.values()
    return replace(a, scores={"a": one, "b": other})


def _by_order(sides: Sequence[Predictions], names: tuple[str, str]) -> Pair:
    a, b = sides
    remedy = "give both files an id column (--id)"
    if len(a) != len(b):
        raise InvalidInputError(
            f"{names[1]} has {len(b)} rows but {names[0]} has {len(a)}, and there are no ids to "
            f"pair by; {remedy}"
        )
    for what, differ in _differences(a, b).items():
        if differ.any():
            row = int(np.argmax(differ))
            raise InvalidInputError(
                f"{b.where(row)}: the {what} differs from {a.where(row)}, so rows cannot "
                f"be paired by order; {remedy}"
            )
    return Pair(_joined(a, b), names, "row order (no common id column)")


def _by_id(sides: Sequence[Predictions], names: tuple[str, str], key: str, policy: str) -> Pair:
    a, b = sides
    if a.ids is None or b.ids is None:
        raise InvalidInputError(f"the id column {key!r} is not in both files")
    common, in_a, in_b = np.intersect1d(a.ids, b.ids, assume_unique=True, return_indices=True)
    if not len(common):
        raise InvalidInputError(
            f"{names[0]} and {names[1]} have no {key!r} in common; pass the column that "
            "identifies a row with --id"
        )
    one, other = a.take(in_a), b.take(in_b)
    differences = _differences(one, other)
    differ: BoolArray = np.any(list(differences.values()), axis=0)
    if differ.any() and policy == "raise":
        _refuse(one, other, key, differences)
    keep: IntArray = np.flatnonzero(~differ)
    if not len(keep):
        raise InvalidInputError(f"every row that {names[0]} and {names[1]} share differs")
    return Pair(
        _joined(one.take(keep), other.take(keep)),
        names,
        f"{key}, content hashes checked" if _HASH in differences else key,
        n_only_a=len(a) - len(common),
        n_only_b=len(b) - len(common),
        n_dropped=int(differ.sum()),
    )


def _differences(one: Predictions, other: Predictions) -> dict[str, BoolArray]:
    """Return the columns common to both files on the paired rows, and the rows that differ."""
    found: dict[str, BoolArray] = {"label": one.y_true != other.y_true}
    if one.hashes is not None and other.hashes is not None:
        known = (one.hashes != "") & (other.hashes != "")
        found[_HASH] = np.asarray(known & (one.hashes != other.hashes), dtype=np.bool_)
    for name in one.parts:
        if name in other.parts and name != one.label:  # labels are already compared as classes
            found[f"slice {name!r}"] = _disagree(one.parts[name], other.parts[name])
    if one.groups is not None and other.groups is not None:
        found["group"] = _disagree(one.groups, other.groups)
    return found


def _disagree(one: Parts, other: Parts) -> BoolArray:
    """Return the rows whose values differ; 1 and 1.0 are equal."""
    place = {_canonical(name): at for at, name in enumerate(one.names)}
    mine = np.array([place[_canonical(name)] for name in one.names])
    theirs = np.array([place.get(_canonical(name), -1) for name in other.names])
    return np.asarray(mine[one.codes] != theirs[other.codes], dtype=np.bool_)


def _canonical(name: str) -> str | float:
    try:
        number = float(name)
    except ValueError:
        return name
    return number if math.isfinite(number) else name


def _refuse(
    one: Predictions, other: Predictions, key: str, differences: Mapping[str, BoolArray]
) -> None:
    differ: BoolArray = np.any(list(differences.values()), axis=0)
    row = int(np.argmax(differ))
    name = "" if one.ids is None else str(one.ids[row])
    what = next(what for what, where in differences.items() if where[row])
    raise InvalidInputError(
        f"{other.where(row)}: the {what} of {key} {name!r} differs from {one.where(row)} "
        f"({int(differ.sum())} such rows); if these are the same items, pass "
        "--on-mismatch drop"
    )


def _compared(pair: Pair, specs: Sequence[MetricSpec], sampling: Sampling) -> RunComparison:
    """Compare all rows, then the slices, which form a separate family for Holm's method."""
    slices = pair.rows.slices()
    parts = [
        compare_records(
            {name: pair.rows.records("a", rows) for name, rows in family},
            {name: pair.rows.records("b", rows) for name, rows in family},
            specs,
            scorers=("a", "b"),
            names=pair.names,
            confidence=sampling.confidence,
            n_resamples=sampling.n_resamples,
            seed=sampling.seed,
            executor=sampling.executor,
        )
        for family in (slices[:1], slices[1:])
        if family
    ]
    why = not_probabilities(np.concatenate(list(pair.rows.scores.values())))
    cells = [
        replace(cell, slice=WHOLE, part=cell.slice, status="skipped", reason=why)
        if why and cell.status == "error" and needs_probability(cell.metric)
        else replace(cell, slice=WHOLE, part=cell.slice)
        for part in parts
        for cell in part.cells
    ]
    return replace(parts[0], cells=tuple(cells))
