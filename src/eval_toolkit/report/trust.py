"""Evidence for and against the main result of a run, and gaps in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from eval_toolkit._internal.tables.sources import checked_place, connection, plain_errors
from eval_toolkit._internal.words import number, percent_and_ends
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.models.runner.counting import CUT_REASONS
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.cells import Block, Cell, fitted_on
from eval_toolkit.report.headline_text import whole_numbers
from eval_toolkit.report.main_result import positives_of
from eval_toolkit.report.scored_rows import Scored, scored_of, stored_points
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

_FEW = 30
_MUCH = 0.01
"""Share of truncated answers above which a warning is given."""
Tone: TypeAlias = Literal["good", "warning", "unknown", ""]


@dataclass(frozen=True)
class Fact:
    """Fact about the evidence."""

    name: str
    said: str
    tone: Tone = ""
    """Whether the fact supports the result ("good"), is a warning or a gap; "" if it is neutral."""


def trust_of(run: Run, cell: Cell | None, block: Block) -> list[Fact]:
    """Return facts about the reliability of the main result.

    The facts cover sample size and groups, base rate, threshold, missing results, truncated
    answers, leakage, judges, and what the run cannot show.
    """
    scored = [one for one in scored_of(run) if one.subject == block.subject]
    facts = [*_size(run, cell)]
    for one in scored[:1]:
        facts += [*_base_rate(run, one), *_threshold(run, one)]
    facts += [_missing(run, cell, scored), *_truncated(run), *_leakage(run, bool(scored))]
    facts += [*_judges(run, block)]
    unknown = kind_named(run.kind).not_known(run.manifest.get("config") or {})
    return [*facts, *(Fact("not known", said, "unknown") for said in unknown)]


def _size(run: Run, cell: Cell | None) -> Iterator[Fact]:
    if cell is None or not cell.n_units:
        return
    words = kind_named(run.kind).words
    said = f"{cell.n_units:,} {words.units}"
    if cell.n_groups in (None, cell.n_units):
        said += ", each counted as independent"
    else:
        said += f" in {cell.n_groups:,} groups, which are resampled whole"
        said += f" and are {cell.worth}" if cell.worth else ""
    few = cell.n_independent < _FEW
    yield Fact(
        "size", f"{said}: few, so intervals are wide" if few else said, "warning" if few else ""
    )


def _base_rate(run: Run, one: Scored) -> Iterator[Fact]:
    n = len(one.labels)
    share, _ = percent_and_ends(one.n_positive / n)
    name = positives_of(run)
    what = "are positive" if name == "positives" else f"are {name}"
    said = f"{share} of rows {what} ({one.n_positive:,} of {n:,})"
    if one.n_positive in (0, n):
        yield Fact("base rate", f"{said}: a class is missing", "warning")
    else:
        yield Fact("base rate", f"{said}; precision and PR-AUC depend on this share")


def _threshold(run: Run, one: Scored) -> Iterator[Fact]:
    points = stored_points(run, one.scorer)
    chosen = points[0].fitted_on if points else ""
    if chosen and chosen == one.slice:
        said = "chosen on these rows, so all rates at this threshold are optimistic"
        yield Fact("threshold", said, "warning")
    elif chosen:
        yield Fact("threshold", f"{points[0].threshold:.4g}, chosen on {chosen}", "good")
    elif one.slice in fitted_on(run):
        yield Fact("threshold", "a threshold was chosen on these rows", "warning")
    elif not points and one.are_probabilities:
        yield Fact("threshold", "0.5, the default, which does not reflect the cost of errors")


def _missing(run: Run, cell: Cell | None, scored: list[Scored]) -> Fact:
    """Return a fact on the number of units without a result."""
    counts = whole_numbers(run.manifest.get("counts"))
    n_errors = max(0 if cell is None else cell.n_errors, counts.get("n_errors", 0))
    n_skipped = max(0 if cell is None else cell.n_skipped, counts.get("n_skipped", 0))
    absent = [
        f"{n:,} {what}"
        for n, what in (
            (n_errors, "broke" if kind_named(run.kind).words.multi_turn else "failed"),
            (n_skipped, "were cut short or not scored"),
            (sum(one.n_absent for one in scored) if not (n_errors or n_skipped) else 0, "no score"),
        )
        if n
    ]
    if not absent:
        return Fact("missing", f"none: every {kind_named(run.kind).words.attempt} counts", "good")
    return Fact("missing", ", ".join(absent), "warning")


def _truncated(run: Run) -> Iterator[Fact]:
    """Yield a fact on the number of truncated answers, by finish reason."""
    n, reasons = _reasons(run)
    if n:
        ways = [
            f"{reasons[name]:,} {said}" for name, said in CUT_REASONS.items() if name in reasons
        ]
        n_cut = sum(reasons.values())
        said = f"{n_cut:,} of {n:,} answers were truncated" + (
            f": {', '.join(ways)}" if ways else ""
        )
        if n_cut > _MUCH * n:
            advice = "" if set(reasons) == {"content_filter"} else "raise --max-tokens, or "
            yield Fact("truncated", f"{said}; {advice}inspect some", "warning")
        else:
            yield Fact("truncated", said, "" if n_cut else "good")


def _reasons(run: Run) -> tuple[int, dict[str, int]]:
    """Return the numbers of generated and of truncated answers, excluding judge verdicts."""
    if RESPONSES not in run.manifest["artifacts"]:
        return 0, {}
    path = run.path / RESPONSES
    reason = "json_extract_string(response, '$.finish_reason')"
    try:
        with connection() as con, plain_errors(path):
            found = con.execute(
                f"SELECT {reason} AS reason, count(*) "  # noqa: S608
                "FROM read_parquet(?, hive_partitioning = false) "
                "WHERE kind = 'generate' AND NOT starts_with(step, 'judge:') "
                "AND reason IS NOT NULL GROUP BY reason",
                [checked_place(con, path)],
            ).fetchall()
    except EvalToolkitError:
        return 0, {}
    by_reason = {str(name): int(n) for name, n in found}
    return sum(by_reason.values()), {
        name: n for name, n in by_reason.items() if name in CUT_REASONS
    }


def _leakage(run: Run, has_rows: bool) -> Iterator[Fact]:
    """Yield the result of the leakage checks; missing checks are reported as a gap."""
    report = run.manifest.get("leakage_report")
    findings = report.get("findings") if isinstance(report, Mapping) else None
    if isinstance(findings, list):
        found = [one for one in findings if isinstance(one, Mapping) and one.get("n_affected")]
        errors = sum(one.get("severity") == "error" for one in found)
        if not found:
            n = "1 check" if len(findings) == 1 else f"{len(findings)} checks"
            yield Fact("leakage", f"{n} found nothing", "good")
        else:
            said = f"{len(found)} of {len(findings)} checks found something, {errors} an error"
            yield Fact("leakage", f"{said}; see below", "warning")
    elif has_rows:
        yield Fact(
            "leakage",
            "not checked; pass the result of check --json to score --leakage",
            "unknown",
        )


def _judges(run: Run, block: Block) -> Iterator[Fact]:
    """Yield a fact for each judge, with the agreement between its votes."""
    judges = run.manifest.get("judges")
    agreements = dict(_agreements(run, block))
    for name in dict.fromkeys([*map(str, judges or ()), *agreements]):
        agreed = agreements.get(name, "")
        said = f"{name}: {agreed}its agreement with humans is unknown"
        yield Fact("judge", said, "unknown")


def _agreements(run: Run, block: Block) -> Iterator[tuple[str, str]]:
    if block.subject not in run.subjects:
        return
    records = run.records(*block.subject)
    for name, values in records.numbers.items():
        known = records.status[name] == "ok"
        if name.endswith("_agreement") and known.any():
            share = number(values[known].mean())
            yield name.removesuffix("_agreement"), f"{share} of pairs of its votes agree; "
