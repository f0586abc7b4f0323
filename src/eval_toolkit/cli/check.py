"""``eval-toolkit check``: find leakage within and across files, and write files without it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from eval_toolkit._internal import frames, tables
from eval_toolkit._internal.display import Page, Rows, Status, Table
from eval_toolkit._internal.words import percent_and_ends
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
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._loading import NamedCheck, loaded_data, named_files
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._options import output_options, passing
from eval_toolkit.cli._output import Output, progress
from eval_toolkit.cli._separate_files import check_each
from eval_toolkit.errors import InvalidInputError, LeakageError
from eval_toolkit.leakage import (
    CleanedSplits,
    ConfusableFormLeakageCheck,
    ExactDuplicateCheck,
    GroupLeakageCheck,
    LabelConflictCheck,
    LeakageCheck,
    LeakageFinding,
    LeakageReport,
    NearDuplicateCheck,
    NgramContaminationCheck,
    NormalizedFormLeakageCheck,
    TargetLeakageCheck,
    TemporalLeakageCheck,
    drop_until_clean,
    run_leakage_checks,
)
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import MinHashLSHStrategy

_SHOWN_ROWS = 5


@dataclass(frozen=True)
class Division:
    """Options that define the splits and select the training split."""

    loader: str | None = None
    split_col: str | None = None
    train: str | None = None
    target: bool = False


@dataclass(frozen=True)
class Splits:
    """Input of the check: splits, their files, and the name of the training split."""

    parts: dict[str, EvalSlice]
    data: dict[str, Data]
    """Data by name of the output file; a file may contain several splits."""
    train: str
    reading: Reading

    @property
    def texts(self) -> bool:
        """Whether every file has a text column to compare."""
        return all(data.has_texts for data in self.data.values())

    @property
    def labelled(self) -> bool:
        """Whether every file has labels."""
        return all(data.labelled for data in self.data.values())


@click.command()
@click.argument("files", nargs=-1, metavar="[FILES]...")
@data_options
@click.option(
    "--loader",
    metavar="NAME",
    help="Loader to use instead of FILES: a name with optional {options}, or module:object.",
)
@click.option(
    "--check",
    "more",
    metavar="NAME",
    multiple=True,
    help="Additional check: a name with optional {options}, or module:object. Repeatable.",
)
@click.option(
    "--split-col", metavar="COLUMN", help="Column with each row's split (single file only)."
)
@click.option("--train", metavar="NAME", help="Name of the training split.  [default: train]")
@click.option("--near/--no-near", default=True, help="Also look for near-duplicates.")
@threshold_option(
    "Texts that share at least this fraction of their 5-character n-grams are near-duplicates."
)
@click.option(
    "--against",
    metavar="CORPUS",
    multiple=True,
    help="Corpus to check the rows against, compared by word n-grams. Repeatable.",
)
@click.option(
    "--against-text", default="text", show_default=True, help="Text column in CORPUS tables."
)
@click.option(
    "--ngram",
    default=13,
    show_default=True,
    type=click.IntRange(1),
    help="Word n-gram length.",
)
@click.option("--target", is_flag=True, help="Also look for columns that predict the label.")
@click.option("--strict", is_flag=True, help="Also exit with code 1 if there are warnings.")
@click.option("--each", is_flag=True, help="Check each file separately; the files are not splits.")
@click.option(
    "--fix",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "Folder to which copies of the inputs without the leaking rows are written; exit code 1 "
        "then means that dropping rows cannot remove the leakage."
    ),
)
@output_options
@passing("division", Division)
def check(
    files: Sequence[str],
    reading: Reading,
    division: Division,
    more: Sequence[str],
    against: Sequence[str],
    strict: bool,
    each: bool,
    fix: Path | None,
    output: Output,
    **settings: Any,
) -> None:
    """Check for leakage: duplicates, conflicting labels and groups.

    Each of FILES (CSV with any separator, TSV, JSONL, JSON, Parquet, Excel, also .gz; - for
    standard input) is one split, named after the file or as in NAME=PATH. Duplicates within a split
    are warnings, duplicates across splits are errors; errors exit with code 1. With --each, every
    file is checked separately.

    \b
    eval-toolkit check train.csv test.csv --group author --fix clean/
    eval-toolkit check --loader my_reviews --check "my_check{limit=3}"
    """  # noqa: D301
    if bool(files) == (division.loader is not None):
        raise click.UsageError("pass either FILES or --loader")
    if division.loader is not None and (fix or division.split_col or reading != Reading()):
        raise click.UsageError(
            "a loader defines its own columns and has no files: --text, --label, --group, "
            "--split-col, --fix and similar options apply to FILES"
        )
    named = [NamedCheck(spec) for spec in more]
    corpus = tables.expand_paths(against) if against else []
    if each:
        if division.loader is not None or division.split_col or division.train or fix is not None:
            raise click.UsageError(
                "--each cannot be combined with --loader, --split-col, --train or --fix"
            )

        def alone(file: str) -> tuple[Page, LeakageReport]:
            splits = _read([file], reading, Division(target=division.target))
            checks = [*_checks(splits, corpus, **settings), *named]
            checks += [_target_check(splits)] if division.target else []
            report = run_leakage_checks(checks, splits.parts)
            return _page(splits, report, None, None), report

        check_each(files, alone, strict=strict, output=output, inputs=corpus)
        return
    splits = _read(files, reading, division)
    checks = [*_checks(splits, corpus, **settings), *named]
    inputs = [*(data.file for data in splits.data.values() if division.loader is None), *corpus]
    wide: list[LeakageCheck] = [_target_check(splits)] if division.target else []
    cleaned = None
    if fix is None:
        every = [*checks, *wide]
        report = run_leakage_checks(progress(every, "checking", len(every)), splits.parts)
    else:
        _targets(splits, fix)  # fail before the checks are run
        try:
            cleaned = drop_until_clean(checks, splits.parts)
        except LeakageError as error:
            say(f"{error}; nothing was written", err=True)
            raise EvidenceSaysNo from None
        beyond = run_leakage_checks(wide, splits.parts).findings
        report = LeakageReport([*cleaned.reports[0].findings, *beyond])
        _refuse_nothing_left(splits, cleaned)
    page = _page(splits, report, cleaned, fix)
    write = (
        None if cleaned is None or fix is None else partial(_write, splits, cleaned, fix, corpus)
    )
    output.emit(page, inputs=inputs, first=write, summary=True)
    left = report if cleaned is None else LeakageReport(report.findings[len(checks) :])
    if left.has_errors() or (strict and any(found.n_affected for found in left.findings)):
        raise EvidenceSaysNo


def _read(
    given: Sequence[str],
    reading: Reading,
    division: Division,
) -> Splits:
    if division.loader is not None:
        data = loaded_data(division.loader)
        first_rows = next(iter(data.values())).rows
        reading = Reading(group=first_rows.group_col, time=first_rows.time_col)
    else:
        files = named_files(given)
        if division.split_col is not None and len(files) > 1:
            raise click.UsageError(
                "--split-col applies to one file; several files are already splits"
            )
        also = () if division.split_col is None else (division.split_col,)
        data = {
            name: read_data(
                file,
                reading,
                also=also,
                others=division.target,
                needs_label=division.target,
                salt=tables.shown(file),
            )
            for name, file in files.items()
        }
    _refuse_two_labels_of_unknown_sense(data.values(), division.target)
    if division.split_col is None:
        parts = {name: found.rows.renamed(name) for name, found in data.items()}
    else:
        ((_, found),) = data.items()
        parts = _by_column(found, division.split_col)
    if division.train is not None and division.train not in parts:
        raise InvalidInputError(
            f"--train {division.train!r} is not a split; the splits are {', '.join(map(repr, parts))}"
        )
    first = division.train or ("train" if "train" in parts else next(iter(parts)))
    return Splits(parts, data, first, reading)


def _refuse_two_labels_of_unknown_sense(data: Iterable[Data], target: bool) -> None:
    """Raise if the positive class of binary labels is unknown; ignore multiclass labels."""
    odd = [found for found in data if found.label_fault]
    labels = frozenset().union(*(found.labels for found in odd))
    if odd and (target or len(labels) <= 2 or None in labels):
        raise InvalidInputError(odd[0].label_fault)


def _by_column(data: Data, column: str) -> dict[str, EvalSlice]:
    values = frames.column(data.rows.df, column).tolist()
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        if not value:
            raise InvalidInputError(
                f"{data.file}: row {row + 1}: {column!r} is missing; every row needs a split"
            )
        rows.setdefault(value, []).append(row)
    return {name: data.rows.take(np.array(at), name=name) for name, at in rows.items()}


def _checks(
    splits: Splits,
    corpus: Sequence[Path],
    *,
    near: bool,
    threshold: float,
    against_text: str,
    ngram: int,
) -> list[LeakageCheck]:
    """Return the checks for these splits and options."""
    # A duplicate within a split inflates a count; one across splits invalidates the evaluation.
    forms: dict[str, Any] = {"severity": "warning", "train_split": splits.train}
    checks: list[LeakageCheck] = [ExactDuplicateCheck(**forms)]
    if splits.texts:
        checks += [NormalizedFormLeakageCheck(**forms), ConfusableFormLeakageCheck(**forms)]
        if near:
            checks.append(NearDuplicateCheck(threshold, MinHashLSHStrategy(n=PIECE), **forms))
    if splits.labelled:
        checks.append(LabelConflictCheck())
    others = [name for name in splits.parts if name != splits.train]
    group, time = splits.reading.group, splits.reading.time
    if others and group is not None:
        checks.append(GroupLeakageCheck(group, keep="first", train_split=splits.train))
    if others and time is not None:
        checks.append(TemporalLeakageCheck(time, [splits.train, *others]))
    if corpus:
        checks.append(
            NgramContaminationCheck(
                corpus,
                n=ngram,
                target_splits=others or None,  # training data may occur in the corpus
                reference_col=against_text,
            )
        )
    return checks


def _target_check(splits: Splits) -> LeakageCheck:
    shared = [set(data.others) for data in splits.data.values()]
    first = next(iter(splits.data.values())).others
    return TargetLeakageCheck([name for name in first if all(name in names for names in shared)])


def _targets(splits: Splits, folder: Path) -> dict[str, Path]:
    """Return the output file for the kept rows of each input file."""
    targets = {name: folder / (name + stem_of(data.file)[1]) for name, data in splits.data.items()}
    for name, target in targets.items():
        if target.parent != folder or name.startswith("."):
            raise InvalidInputError(
                f"--fix: the split {name!r} is not a valid file name; rename it"
            )
    return targets


def _kept_rows(splits: Splits, cleaned: CleanedSplits) -> dict[str, Any]:
    """Return the kept rows of each file, in file order."""
    if list(splits.data) == list(splits.parts):
        return {name: origin(part) for name, part in cleaned.splits.items()}
    (name,) = splits.data
    return {name: np.sort(np.concatenate([origin(part) for part in cleaned.splits.values()]))}


def _refuse_nothing_left(splits: Splits, cleaned: CleanedSplits) -> None:
    for name, kept in _kept_rows(splits, cleaned).items():
        if not len(kept):
            raise InvalidInputError(
                f"{splits.data[name].file}: --fix would drop all of its "
                f"{splits.data[name].rows.n} rows, so nothing was written; read the "
                "findings without --fix, and disable the checks that caused them (--no-near, "
                "another --threshold, fewer options)"
            )


def _write(splits: Splits, cleaned: CleanedSplits, folder: Path, corpus: Sequence[Path]) -> None:
    targets, kept = _targets(splits, folder), _kept_rows(splits, cleaned)
    copy_rows(
        [
            Copy(data.file, data.rows.n, {targets[name]: kept[name]})
            for name, data in splits.data.items()
        ],
        splits.reading.file_format,
        inputs=corpus,
    )


def _page(
    splits: Splits, report: LeakageReport, cleaned: CleanedSplits | None, fix: Path | None
) -> Page:
    rows: Rows = [
        [
            found.code,
            found.check_name,
            Status(found.severity if found.n_affected else "ok"),
            found.n_affected,
            found.message,
            _where(found, splits.parts),
        ]
        for found in report.findings
    ]
    header = ["code", "check", "severity", "affected", "found", "rows"]
    files = {name: _file_entry(name, splits) for name in splits.parts}
    notes = _notes(splits, report)
    payload: dict[str, Any] = {
        "splits": files,
        "train": splits.train,
        "has_errors": report.has_errors(),
        "has_findings": any(found.n_affected for found in report.findings),
        **report.to_dict(),
        "notes": notes,
    }
    if cleaned is not None and fix is not None:
        entries = _fixed(splits, cleaned, fix)
        payload["fix"] = entries
        notes = notes + [
            f"wrote {entry['file']}: {entry['kept']} rows kept, {entry['dropped']} dropped"
            for entry in entries.values()
        ]
    lead = [
        f"{name}: {entry['file']}, {entry['n']} row{'s' * (entry['n'] != 1)}"
        + (f", {entry['n_positive']} positive" if entry["n_positive"] is not None else "")
        + (" (learned from)" if name == splits.train and len(files) > 1 else "")
        for name, entry in files.items()
    ]
    return Page(
        "Leakage", payload, [*_answers(splits, report), *lead], [Table(header, rows)], notes
    )


def _answers(splits: Splits, report: LeakageReport) -> list[str]:
    """Return sentences on the copied rows in each split after the first, or in the only split."""
    copies = [found for found in report.findings if "across" in found.evidence]
    near = any(found.check_name == "NearDuplicateCheck" for found in copies)
    are, one = ("copies or near-copies", "a copy or near-copy") if near else ("copies", "a copy")
    names = {
        name: Path(tables.shown(splits.data[name].file)).name if name in splits.data else name
        for name in splits.parts
    }
    where, others = "across", [name for name in splits.parts if name != splits.train]
    of, of_one = f"rows of {names[splits.train]}", f"a row of {names[splits.train]}"
    if len(others) > 1:
        of, of_one = "rows of other splits", "a row of another split"
    elif not others:
        where, others, of, of_one = "within", [splits.train], "other rows", "another row"
    said = []
    for name in others if copies else ():
        # every check finds the same rows in its own way; near-duplicates include exact ones
        k = max(found.evidence[where].get(name, 0) for found in copies)
        n = splits.parts[name].n
        verb = f"is {one}" if k == 1 else f"are {are}"
        share = percent_and_ends(k / max(n, 1))[0]
        some = f"{k} of {n} rows of {names[name]} ({share}) {verb} of {of}"
        said.append(some if k else f"no row of {names[name]} is {one} of {of_one}")
    return said


def _file_entry(name: str, splits: Splits) -> dict[str, Any]:
    data = splits.data.get(name) or next(iter(splits.data.values()))
    part = splits.parts[name]
    return {
        "file": tables.shown(data.file),
        "n": part.n,
        "n_positive": part.n_positive if data.labelled else None,
    }


def _where(found: LeakageFinding, parts: Mapping[str, EvalSlice]) -> str:
    """Return the first rows of a finding as one-based row numbers in their files."""
    shown = []
    for split, rows in (found.drop_indices or {}).items():
        numbers = (origin(parts[split])[rows[:_SHOWN_ROWS]] + 1).tolist()
        more = " …" if len(rows) > _SHOWN_ROWS else ""
        if numbers:
            shown.append(f"{split} {', '.join(map(str, numbers))}{more}")
    return "; ".join(shown)


def _notes(splits: Splits, report: LeakageReport) -> list[str]:
    """Return notes on skipped checks and on rows that were not counted."""
    notes = []
    named = report.merged_drop_indices()
    if named:
        notes.append(
            f"distinct rows in total: {sum(map(len, named.values()))}; several checks may "
            "find the same row"
        )
    codes = [found.code for found in report.findings if found.n_affected and found.code]
    if codes:  # listed below the table, so that narrow terminals do not truncate them
        notes.append(f"see {', '.join(f'docs/leakage/{code}.md' for code in codes)}")
    notes += [
        f"near-duplicates share at least {found.evidence['threshold']:g} of their "
        f"{PIECE}-character n-grams (--threshold)"
        for found in report.findings
        if found.check_name == "NearDuplicateCheck"
    ]
    notes += [
        f"{tables.shown(data.file)}: rows without text, not compared: {data.n_without_text}"
        for data in splits.data.values()
        if data.n_without_text
    ]
    faults = [data.label_fault for data in splits.data.values() if data.label_fault]
    if faults:
        notes.append(f"not checked: labels ({faults[0]})")
    elif not splits.labelled:
        notes.append("not checked: labels, because not every file has a label column (--label)")
    if not splits.texts:
        notes.append(
            "not checked: near-duplicates, because rows are compared by the values of the named columns"
        )
    if len(splits.parts) < 2:
        notes += [
            f"not checked: --{role} compares splits, but there is only one"
            for role in ("group", "time")
            if getattr(splits.reading, role) is not None
        ]
    return notes


def _fixed(splits: Splits, cleaned: CleanedSplits, folder: Path) -> dict[str, dict[str, Any]]:
    targets, kept = _targets(splits, folder), _kept_rows(splits, cleaned)
    return {
        name: {
            "file": str(targets[name]),
            "kept": len(kept[name]),
            "dropped": data.rows.n - len(kept[name]),
        }
        for name, data in splits.data.items()
    }
