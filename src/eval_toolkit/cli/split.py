"""``eval-toolkit split``: split a file into train, validation and test parts, or into folds."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, tables
from eval_toolkit._internal.display import Number, Page, Table
from eval_toolkit._internal.times import read_times
from eval_toolkit.cli._copying import Copy, copy_rows
from eval_toolkit.cli._data import (
    PIECE,
    Data,
    Reading,
    data_options,
    origin,
    read_data,
    stem_of,
    threshold_option,
)
from eval_toolkit.cli._options import form_options
from eval_toolkit.cli._output import Output
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.leakage import (
    ExactDuplicateCheck,
    GroupLeakageCheck,
    LeakageCheck,
    LeakageReport,
    NearDuplicateCheck,
    TemporalLeakageCheck,
    run_leakage_checks,
)
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import TimeSeriesSplitter, split_slice
from eval_toolkit.text_dedup import MinHashLSHStrategy, duplicate_clusters

DEFAULT_SIZES = "train=0.8,val=0.1,test=0.1"
Cut = dict[str, EvalSlice]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Output folder, with DIR/train.csv …, or with --folds DIR/fold-1/train.csv ….",
)
@click.option(
    "--sizes",
    metavar="NAME=SHARE,…",
    help=f"Names and shares of the parts.  [default: {DEFAULT_SIZES}]",
)
@click.option(
    "--folds",
    type=click.IntRange(2),
    help="Number of folds, each with a train and a test file; replaces --sizes.",
)
@click.option(
    "--stratify/--no-stratify",
    default=None,
    help=("Give every part the same share of positives.  [default: yes]"),
)
@click.option(
    "--keep-duplicates-together",
    "together",
    is_flag=True,
    help=("Keep rows with similar texts in the same part."),
)
@threshold_option(
    "Texts that share at least this fraction of their 5-character n-grams stay together."
)
@click.option("--seed", default=42, show_default=True, help="Random seed.")
@data_options
@form_options
def split(
    file: Path,
    folder: Path,
    sizes: str | None,
    folds: int | None,
    stratify: bool | None,
    together: bool,
    threshold: float,
    seed: int,
    reading: Reading,
    output: Output,
) -> None:
    """Split a file into parts: stratified, by group or by time.

    FILE is CSV with any separator, TSV, JSONL, JSON, Parquet or Excel, also .gz, or - for standard
    input. Rows are copied unchanged (Excel rows as CSV). The split does not depend on the order of
    the rows. With --time, the parts are consecutive in time, in the order of --sizes, and rows with
    equal times stay together; in each fold, training rows precede test rows.

    \b
    eval-toolkit split all.csv --out parts --sizes train=0.8,test=0.2 --group author
    """  # noqa: D301
    if sizes is not None and folds is not None:
        raise click.UsageError("pass either --sizes or --folds, not both")
    if reading.time is not None and (reading.group is not None or stratify or together):
        raise click.UsageError(
            "--time cannot be combined with --group, --stratify and other options of random splits"
        )
    by_label = reading.time is None and stratify is not False
    shares = _shares(sizes or DEFAULT_SIZES)
    file, *more = tables.expand_paths(file)
    if more:
        raise InvalidInputError(f"{more[0]}: only one file can be split at a time")
    data = read_data(
        file,
        reading,
        needs_label=by_label,
        needs_text=together,
        needs_roles=True,
    )
    if by_label and data.label_fault:
        raise InvalidInputError(f"{data.label_fault}; or ignore the labels: --no-stratify")
    try:
        if reading.time is not None:
            cuts = _in_time(data, reading.time, shares, folds)
        else:
            similar = _similar(data, threshold) if together else None
            cuts = _at_random(data.rows, shares, folds, by_label, similar, seed)
    except InvalidInputError as error:
        raise InvalidInputError(f"{file}: {error}") from None
    suffix = stem_of(file)[1]
    targets = {
        folder / part / f"{name}{suffix}": rows
        for part, cut in cuts.items()
        for name, rows in cut.items()
    }
    _refuse_other_folds(folder, targets)
    copy_rows(
        [Copy(file, data.rows.n, {path: origin(rows) for path, rows in targets.items()})],
        reading.file_format,
    )
    checks = _checks(reading, together, threshold)
    reports = {part: run_leakage_checks(checks(cut), cut) for part, cut in cuts.items()}
    page = _page(data, targets, reports, threshold if together else None)
    output.emit(page)


def _refuse_other_folds(folder: Path, targets: Iterable[Path]) -> None:
    """Raise if folds of an earlier split would remain in the output folder."""
    new = {target.parent for target in targets} - {folder}
    for old in sorted(folder.glob("fold-*")) if new else ():
        if old not in new or set(old.iterdir()) - set(targets):
            raise InvalidInputError(
                f"{old}: is from an earlier split; remove it, or choose another --out"
            )


def _shares(text: str) -> dict[str, float]:
    """Parse names and shares of parts, as in ``train=0.8,test=0.2``."""
    shares: dict[str, float] = {}
    for item in text.split(","):
        name, _, share = (part.strip() for part in item.partition("="))
        try:
            number = float(share)
        except ValueError:
            number = -1.0
        plain = name and Path(name).name == name and not name.startswith(".")
        if not plain or not 0.0 < number < 1.0 or name in shares:
            raise InvalidInputError(
                f"--sizes: {item.strip()!r} is not a part; write different names with shares between "
                f"0 and 1, as in {DEFAULT_SIZES}"
            )
        shares[name] = number
    if abs(sum(shares.values()) - 1.0) > 1e-6:
        raise InvalidInputError(
            f"--sizes sum to {sum(shares.values()):g}; the shares must sum to 1"
        )
    return shares


def _at_random(
    rows: EvalSlice,
    shares: Mapping[str, float],
    folds: int | None,
    stratify: bool,
    similar: NDArray[Any] | None,
    seed: int,
) -> dict[str, Cut]:
    """Return the parts, or the train and test rows of each fold, keyed by fold ("" without folds)."""
    if folds is not None:
        shares = {f"fold-{fold}": 1.0 / folds for fold in range(1, folds + 1)}
    parts = split_slice(rows, shares, stratify=stratify, keep_together=similar, seed=seed)
    if folds is None:
        return {"": parts}
    return {
        fold: {
            "train": rows.take(np.setdiff1d(np.arange(rows.n), origin(test)), name="train"),
            "test": test.renamed("test"),
        }
        for fold, test in parts.items()
    }


def _similar(data: Data, threshold: float) -> NDArray[Any]:
    """Return a cluster code per row; rows with similar texts have the same code."""
    if not data.has_texts:
        raise InvalidInputError("--keep-duplicates-together compares texts; pass one --text")
    strategy = MinHashLSHStrategy(n=PIECE)  # same strategy as `check`, so that both agree
    codes = np.arange(data.rows.n)
    for cluster in duplicate_clusters(data.rows.features, threshold, strategy=strategy):
        codes[cluster] = cluster[0]
    return codes


def _in_time(
    data: Data, column: str, shares: Mapping[str, float], folds: int | None
) -> dict[str, Cut]:
    rows = data.rows
    if folds is not None:
        every = TimeSeriesSplitter(folds, column).iter_folds(rows)
        return {f"fold-{number}": dict(fold) for number, fold in enumerate(every, start=1)}
    times = read_times(frames.column(rows.df, column), column).complete()
    order = np.argsort(times, kind="stable")
    times = times[order]
    parts: Cut = {}
    start, total = 0, 0.0
    for name, share in shares.items():
        total += share
        stop = max(start, round(total * rows.n))
        while 0 < stop < rows.n and times[stop] == times[stop - 1]:
            stop += 1  # rows with equal times stay together
        if stop == start:
            raise InvalidInputError(
                f"{rows.n} rows ordered by time cannot fill the part {name!r} ({share:g} of the "
                "rows); "
                "use fewer or larger parts"
            )
        parts[name] = rows.take(np.sort(order[start:stop]), name=name)
        start = stop
    return {"": parts}


def _checks(reading: Reading, together: bool, threshold: float) -> Any:
    """Return the leakage checks of a split."""

    def checks(cut: Cut) -> list[LeakageCheck]:
        first = next(iter(cut))
        made: list[LeakageCheck] = [ExactDuplicateCheck(scope="across", train_split=first)]
        if together:
            strategy = MinHashLSHStrategy(n=PIECE)
            made.append(NearDuplicateCheck(threshold, strategy, scope="across", train_split=first))
        if reading.group is not None:
            made.append(GroupLeakageCheck(reading.group, keep="first", train_split=first))
        if reading.time is not None:
            made.append(TemporalLeakageCheck(reading.time, list(cut)))
        return made

    return checks


def _page(
    data: Data,
    targets: Mapping[Path, EvalSlice],
    reports: Mapping[str, LeakageReport],
    threshold: float | None,
) -> Page:
    entries: list[dict[str, Any]] = [
        {
            "file": str(path),
            "n": part.n,
            "n_positive": part.n_positive if data.labelled else None,
            "positive_share": part.n_positive / part.n if data.labelled else None,
            "n_groups": None if part.groups is None else len(set(part.groups.tolist())),
        }
        for path, part in targets.items()
    ]
    header = ["file", "rows", "positive", "share", "groups"]
    rows = [
        [
            entry["file"],
            entry["n"],
            entry["n_positive"],
            Number(entry["positive_share"]),
            entry["n_groups"],
        ]
        for entry in entries
    ]
    table = Table(header, rows).without_empty(2)
    notes = [line for part, report in reports.items() for line in _stated(part, report)]
    payload = {
        "file": tables.shown(data.file),
        "n": data.rows.n,
        "parts": entries,
        "checks": {
            part or "parts": report.to_dict()["findings"] for part, report in reports.items()
        },
    }
    lead = [f"{tables.shown(data.file)}: {data.summary()}"]
    if threshold is not None:
        notes.append(
            f"kept together: texts that share at least {threshold:g} of their "
            f"{PIECE}-character n-grams (--threshold)"
        )
    if data.n_without_text:
        notes.append(f"rows without text, not compared: {data.n_without_text}")
    if data.label_fault:
        notes.append(f"labels not checked ({data.label_fault})")
    return Page("Split", payload, lead, [table], notes)


def _stated(part: str, report: LeakageReport) -> list[str]:
    """Yield sentences on the findings of the checks."""
    prefix = f"{part}: " if part else ""
    found = [finding for finding in report.findings if finding.n_affected]
    if not found:
        names = ", ".join(finding.check_name for finding in report.findings)
        return [f"{prefix}no leakage between parts ({names})"]
    lines = [f"{prefix}leakage between parts: {finding}" for finding in found]
    if any(finding.check_name == "ExactDuplicateCheck" for finding in found):
        lines.append(f"{prefix}pass --keep-duplicates-together to keep copies in one part")
    return lines
