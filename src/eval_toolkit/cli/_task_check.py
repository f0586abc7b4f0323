"""``eval-toolkit tasks check``: find items that a model may have seen in a corpus or its prompt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eval_toolkit._internal import tables as _tables
from eval_toolkit._internal.display import CellLike, Number, Page, Rows, Status, Table
from eval_toolkit.cli._cells import estimate, with_interval
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._tasks import load_chosen_task, whole_task_options
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.base import BaseTask

if TYPE_CHECKING:
    from eval_toolkit.tasks.fewshot_leaks import FewshotLeakage
    from eval_toolkit.tasks.ngram_contamination import Contamination, ContaminationEffect

_PARTS = ("question", "choices", "answer")
_SHOWN = 10
_TEXTS = re.compile(r"\.(txt|csv|tsv|jsonl|ndjson|json|parquet|pq)(\.gz)?$")
"""File patterns read from a corpus folder."""


@click.command()
@click.argument("task")
@whole_task_options
@click.option(
    "--corpus",
    multiple=True,
    metavar="PATH",
    help=(
        "Possible training data for the model: txt, CSV, TSV, JSONL or Parquet, or a folder of "
        "such files. Repeatable."
    ),
)
@click.option(
    "--corpus-text", default="text", show_default=True, help="Text column in CORPUS tables."
)
@click.option(
    "--ngram",
    default=13,
    show_default=True,
    type=click.IntRange(1),
    help="Word n-gram length.",
)
@click.option(
    "--threshold",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Minimum share of an item's word n-grams found in the corpus.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(_PARTS),
    help="Part of an item to search for; all by default. Repeatable.",
)
@click.option(
    "--similar",
    default=0.9,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Similarity above which an example counts as a duplicate of an item.",
)
@click.option(
    "--run",
    "run",
    type=click.Path(exists=True, file_okay=False),
    metavar="RUN",
    help="Run to re-evaluate without the flagged items.",
)
@click.option("--strict", is_flag=True, help="Also exit with code 1 if there are warnings.")
@output_options
def check(
    task: str,
    options: dict[str, Any],
    corpus: Sequence[str],
    parts: Sequence[str],
    similar: float,
    run: str | None,
    strict: bool,
    output: Output,
    **looking: Any,
) -> None:
    """Check the items of a task for contamination.

    Items found in the corpus, and items that appear among the examples of their own prompt, are
    errors (exit code 1); examples that duplicate other items are warnings.

    \b
    eval-toolkit tasks check gsm8k --data test.jsonl --corpus 'pile/*.jsonl' --fewshot 5
    """  # noqa: D301
    from eval_toolkit.tasks.fewshot_leaks import fewshot_leakage

    chosen = load_chosen_task(task, options)
    if not corpus and not chosen.num_fewshot:
        raise click.UsageError("pass --corpus to search, or --fewshot as in the run")
    if run is not None and not corpus:
        raise click.UsageError("--run needs --corpus")
    files, other = _corpus_files(corpus)
    found = _CheckResult(
        chosen,
        _in_corpus(chosen, files, parts or _PARTS, **looking) if files else None,
        fewshot_leakage(chosen, threshold=similar) if chosen.num_fewshot else None,
    )
    effects = [] if run is None or found.corpus is None else _effects(found.corpus, run)
    inputs: list[str | Path] = [*files, *([] if run is None else [run])]
    page = found.page(effects)
    output.emit(replace(page, notes=[*page.notes, *other]), inputs=inputs)
    if found.count("error") or (strict and found.count("warning")):
        raise EvidenceSaysNo


def _corpus_files(given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files of a corpus, and notes on files in its folders that are skipped."""
    files: list[Path] = []
    notes = []
    for path in given:
        if not Path(path).is_dir():
            files += _tables.expand_paths(path)
            continue
        there = sorted(one for one in Path(path).rglob("*") if one.is_file() and one.stat().st_size)
        texts = [one for one in there if _TEXTS.search(one.name.lower())]
        if not texts:
            raise InvalidInputError(f"{path}: no txt, CSV, TSV, JSONL or Parquet file")
        files += texts
        if len(there) > len(texts):
            left = next(one for one in there if one not in texts)
            n = len(there) - len(texts)
            notes.append(f"not read in {path}: {n:,} files of other types, such as {left.name}")
    return files, notes


def _in_corpus(
    task: BaseTask[Any],
    files: Sequence[Path],
    parts: Sequence[str],
    *,
    ngram: int,
    threshold: float,
    corpus_text: str,
) -> "Contamination":
    from eval_toolkit.leakage import NgramContaminationCheck
    from eval_toolkit.tasks.ngram_contamination import contamination

    looked = NgramContaminationCheck(
        list(files), n=ngram, threshold=threshold, reference_col=corpus_text
    )
    return contamination(task, looked, parts=parts)


def _effects(found: "Contamination", path: str) -> list["ContaminationEffect"]:
    """Return the effect of the flagged items on each metric that is the mean of a column."""
    from eval_toolkit.runs import Run

    run = Run.open(path)
    if len(run.subjects) != 1:
        raise InvalidInputError(f"{path}: is not a run of a task; --run needs one")
    (subject,) = run.subjects
    records = run.records(*subject)
    metrics = run.cells.block(*subject)
    return [found.effect(records, name) for name in metrics if name in records.columns]


@dataclass(frozen=True)
class _Finding:
    """Result of one check."""

    name: str
    severity: str
    n: int
    of: int
    words: str

    @property
    def row(self) -> list[CellLike]:
        """Return a table row; a check that covered no items does not count as passed."""
        state = self.severity if self.n else "ok" if self.of else "skipped"
        return [self.name, Status(state), self.n, self.of, self.words]


@dataclass(frozen=True)
class _CheckResult:
    """Inputs and findings of the check."""

    task: BaseTask[Any]
    corpus: "Contamination | None"
    shots: "FewshotLeakage | None"

    def findings(self) -> list[_Finding]:
        """Return one finding per check."""
        lines = []
        if (corpus := self.corpus) is not None:
            judged = sum(item.n_grams > 0 for item in corpus.items)
            words = f"at least {corpus.threshold:g} of their runs of {corpus.n} words"
            n = len(corpus.flagged_ids)
            lines.append(_Finding("items in the corpus", "error", n, judged, words))
        if (shots := self.shots) is not None:
            shown, leaked = len(shots.shown_ids), len(shots.leaked_ids)
            said = f"by chance about {shots.n_answer_in_other_shots:,}"
            rows = (
                ("items repeated in their own prompt", "error", shown, "as a few-shot example"),
                (
                    "items repeated in other prompts",
                    "warning",
                    leaked - shown,
                    "as a few-shot example",
                ),
                ("items answered by their own examples", "info", len(shots.answer_in_shots), said),
            )
            lines += [_Finding(*row[:3], shots.n_items, row[3]) for row in rows]
        return lines

    def count(self, severity: str) -> int:
        """Return the number of flagged items of a severity."""
        return sum(line.n for line in self.findings() if line.severity == severity)

    def page(self, effects: Sequence["ContaminationEffect"]) -> Page:
        """Return the page: the findings, the flagged items, and their effect on a run."""
        rows: Rows = [line.row for line in self.findings()]
        tables = [Table(["check", "severity", "items", "of", "found"], rows)]
        tables += [table for table in (self._overlaps(), self._pairs()) if table.rows]
        if effects:
            tables.append(_effect_table(effects))
        payload = {
            "task": self.task.NAME,
            "has_errors": self.count("error") > 0,
            "corpus": self.corpus and self.corpus.to_dict(),
            "fewshot": self.shots and self.shots.to_dict(),
            "effects": [effect.to_dict() for effect in effects],
        }
        return Page(f"task {self.task.NAME}", payload, self._lead(), tables, self._notes())

    def _lead(self) -> list[str]:
        looked = [] if self.corpus is None else [f"{self.corpus.n_reference_texts:,} texts"]
        if self.shots is not None:
            looked.append(f"{self.shots.n_examples:,} examples")
        n = len(self.corpus.items) if self.corpus is not None else self._n_items()
        return [f"task {self.task.NAME}: {n:,} items, searched for in {' and '.join(looked)}"]

    def _n_items(self) -> int:
        return 0 if self.shots is None else self.shots.n_items

    def _overlaps(self) -> Table:
        known = [] if self.corpus is None else self.corpus.items
        touched = sorted(
            (item for item in known if item.n_found),
            key=lambda one: (-(one.share or 0), one.unit_id),
        )
        rows: Rows = [
            [
                item.unit_id,
                Number(item.share, ".2f"),
                ", ".join(f"{part} {n} of {of}" for part, (n, of) in item.by_part.items() if of),
                "found" if item.flagged else "below the threshold",
            ]
            for item in touched[:_SHOWN]
        ]
        more = f", the first {_SHOWN} of {len(touched):,}" if len(touched) > _SHOWN else ""
        return Table(["item", "share", "word runs", "verdict"], rows, f"in the corpus{more}")

    def _pairs(self) -> Table:
        known = () if self.shots is None else self.shots.shared
        ordered = sorted(known, key=lambda pair: (not pair.shown, -pair.similarity, pair.unit_id))
        rows: Rows = [
            [
                pair.unit_id,
                pair.example_id,
                Number(pair.similarity, ".2f"),
                "yes" if pair.shown else "no",
            ]
            for pair in ordered[:_SHOWN]
        ]
        more = f", the first {_SHOWN} of {len(known):,}" if len(known) > _SHOWN else ""
        header = ["item", "example", "similarity", "in its own prompt"]
        return Table(header, rows, f"examples equal to an item{more}")

    def _notes(self) -> list[str]:
        notes = []
        if (corpus := self.corpus) is not None:
            short = sum(not item.n_grams for item in corpus.items)
            if short:
                notes.append(
                    f"not searched: {short:,} items with fewer than {corpus.n} words; a smaller "
                    "--ngram includes them"
                )
            if corpus.flagged_ids:
                notes.append("text shared by all prompts also matches: inspect the matches")
            if corpus.rate.ci is not None:
                notes.append(f"rate in the corpus {estimate(corpus.rate)}")
        else:
            notes.append("not checked: items in a corpus (pass --corpus)")
        if self.shots is None:
            notes.append("not checked: few-shot examples; the prompts have none (pass --fewshot)")
        return notes


def _effect_table(effects: Sequence["ContaminationEffect"]) -> Table:
    rows: Rows = [
        [
            effect.column,
            *(
                with_interval(getattr(effect, name))
                for name in ("overall", "clean", "dirty", "inflation")
            ),
        ]
        for effect in effects
    ]
    header = ["metric", "all items", "without flagged items", "flagged items only", "all − without"]
    return Table(header, rows, "effect on the run")
