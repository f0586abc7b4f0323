"""Leakage section: findings with advice and examples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from eval_toolkit.leakage.findings import SEVERITIES
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run

ADVICE: Mapping[str, tuple[str, str]] = {
    "LK001": (
        "Equal rows, up to letter case, whitespace and Unicode composition.",
        (
            "Drop the copies, preferably before splitting. If copies are real traffic, keep them and "
            "pass the id of the text as the group, so that intervals account for them."
        ),
    ),
    "LK002": (
        "Texts that resemble another text.",
        (
            "Drop them, or keep templates together: split by cluster. Look at pairs whose labels "
            "differ before trusting either label."
        ),
    ),
    "LK003": (
        "Texts that are equal except for invisible characters and symbols.",
        "Drop them. If the test is about such disguises, report these rows as a slice.",
    ),
    "LK004": (
        "Texts that a tokenizer turns into the same tokens.",
        (
            "Drop them. Many collisions of different texts mean that the tokenizer does not fit the "
            "data."
        ),
    ),
    "LK005": (
        "Equal rows with different labels.",
        "Relabel these rows. Until then drop all of them: it is unknown which label is right.",
    ),
    "LK006": (
        "Evaluation texts that resemble a training text.",
        (
            "Drop the evaluation rows; retraining is not needed. Split by cluster or source next "
            "time."
        ),
    ),
    "LK007": (
        "Groups that occur in several splits.",
        "Split again, by group.",
    ),
    "LK008": (
        "Evaluation rows that are not later than the training rows.",
        "Split by time. If most rows would be dropped, one late training row may be the cause.",
    ),
    "LK009": (
        "Texts that look the same but use letters of other alphabets or accents.",
        (
            "Drop them, or keep them as a slice of disguised copies. If an accent changes the word, "
            "check before dropping."
        ),
    ),
    "LK010": (
        "A column that gives the label away.",
        (
            "Omit the column, or show that it is known before the label. Dropping rows does "
            "not help."
        ),
    ),
    "LK011": (
        "Texts found in a reference corpus.",
        (
            "Report the score with and without these rows. Quotations and boilerplate are also found: "
            "check the shares."
        ),
    ),
}
"""Purpose and remedy of each built-in check; see ``docs/leakage`` for details."""

_EXAMPLES = 3
"""Number of examples of a finding shown at first; the others are folded."""
_Place: TypeAlias = tuple[str, int]


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None if no check was run."""
    report, dropped = _report(run)
    findings = report.get("findings") if isinstance(report, Mapping) else None
    if not isinstance(findings, list):
        return None
    known = [found for found in findings if isinstance(found, Mapping)]
    affecting = [found for found in known if found.get("n_affected")]
    affecting.sort(key=lambda found: _grave(found))
    quiet = [found for found in known if not found.get("n_affected")]
    return Section(
        id="leaks",
        menu="Leakage",
        title="What did the leakage checks find?",
        template="leakage.html",
        lead=_lead(affecting, quiet, dropped),
        data={
            "findings": [_shown(run, found, wanted) for found in affecting],
            "quiet": [
                {"code": str(found.get("code") or ""), "message": str(found.get("message", ""))}
                | {"name": str(found.get("check_name", ""))}
                for found in quiet
            ],
        },
    )


def _report(run: Run) -> tuple[Any, Mapping[str, int]]:
    """Return the findings, and the number of rows dropped because of them per split."""
    config = run.manifest.get("config")
    config = config if isinstance(config, Mapping) else {}
    before, dropped = config.get("leakage_report_before_drop"), config.get("n_dropped")
    if isinstance(before, Mapping) and isinstance(dropped, Mapping):
        return before, {str(name): int(n) for name, n in dropped.items()}
    return run.manifest.get("leakage_report"), {}


def _grave(found: Mapping[str, Any]) -> int:
    severity = found.get("severity")
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _lead(
    affecting: Sequence[Mapping[str, Any]],
    quiet: Sequence[Mapping[str, Any]],
    dropped: Mapping[str, int],
) -> str:
    if not affecting:
        return f"No findings in {len(quiet)} checks."
    counts = [
        f"{n} {severity}{'s' if n != 1 and severity != 'info' else ''}"
        for severity in SEVERITIES
        if (n := sum(found.get("severity") == severity for found in affecting))
    ]
    gone = ", ".join(f"{n:,} of {name}" for name, n in dropped.items() if n)
    after = f" These rows were dropped before scoring: {gone}." if gone else ""
    return f"{', '.join(counts)}; {len(quiet)} checks found nothing.{after}"


def _shown(run: Run, found: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    code = str(found.get("code") or "")
    meaning, advice = ADVICE.get(code, ("", ""))
    evidence = found.get("evidence")
    evidence = evidence if isinstance(evidence, Mapping) else {}
    examples = list(_examples(evidence))
    shown = examples[: wanted.n_samples]
    listed = _told(run, shown)
    return {
        "code": code,
        "name": str(found.get("check_name", "")),
        "severity": str(found.get("severity", "")),
        "message": str(found.get("message", "")),
        "meaning": meaning,
        "advice": advice,
        "first": listed[:_EXAMPLES],
        "rest": listed[_EXAMPLES:],
        "more": len(examples) - len(shown),
        "facts": list(_facts(evidence)),
        "rows": [] if examples else list(_dropped_rows(found)),
    }


def _examples(evidence: Mapping[str, Any]) -> Iterator[tuple[list[_Place], str]]:
    """Yield the rows of each example in the evidence, with a short description.

    Evidence may come from third-party checks; entries that are not rows of a split are skipped.
    """
    for places, said in _named(evidence):
        known = [place for place in places if place is not None]
        if known and len(known) == len(places):
            yield known, said


def _named(evidence: Mapping[str, Any]) -> Iterator[tuple[list[_Place | None], str]]:
    for entry in _listed(evidence, "across_splits"):
        yield [_place(entry), _place(entry.get("copy_of"))], "across splits"
    for key in ("dropped_pairs_by_split", "collisions_by_split", "pairs"):
        by_split = evidence.get(key)
        for split, pairs in by_split.items() if isinstance(by_split, Mapping) else ():
            for pair in pairs if isinstance(pairs, list) else ():
                rows = pair if isinstance(pair, list) else [pair]
                yield [_place({"split": split, "row": row}) for row in rows], f"within {split}"
    for entry in _listed(evidence, "conflicts"):
        labels = entry.get("labels")
        told = " and ".join(map(str, labels[:4])) if isinstance(labels, list) else ""
        listed = entry.get("rows")
        places = [_place(one) for one in listed] if isinstance(listed, list) else []
        yield places, f"labels {told}"
    for entry in _listed(evidence, "rows"):
        share = entry.get("share")
        said = f"{share:.0%} of its n-grams" if isinstance(share, int | float) else ""
        yield [_place(entry)], said


def _listed(evidence: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = evidence.get(key)
    return [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []


def _place(entry: Any) -> _Place | None:
    """Return the split and the row of an entry; None if it is malformed."""
    if not isinstance(entry, Mapping) or "split" not in entry:
        return None
    row = entry.get("row")
    if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < 2**63:
        return None
    return str(entry["split"]), row


def _told(run: Run, examples: Sequence[tuple[list[_Place], str]]) -> list[dict[str, Any]]:
    """Return examples with the texts of their rows; each split is read once."""
    wanted: dict[str, list[int]] = {}
    for places, _ in examples:
        for split, row in places:
            wanted.setdefault(split, []).append(row)
    texts = {
        split: {} if run.inputs is None else run.inputs.texts_at(split, rows)
        for split, rows in wanted.items()
    }
    return [
        {
            "said": said,
            "rows": [
                {"place": f"{split}, row {row:,}", "text": texts[split].get(row)}
                for split, row in places[:4]
            ],
        }
        for places, said in examples
    ]


def _facts(evidence: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield evidence that does not concern single rows."""
    groups = evidence.get("violating_groups")
    if isinstance(groups, list) and groups:
        more = f" and {len(groups) - 10} more" if len(groups) > 10 else ""
        yield "groups", ", ".join(map(str, groups[:10])) + more
    for violation in _listed(evidence, "violations"):
        yield (
            str(violation.get("split", "")),
            (
                f"begins at {violation.get('min_later')}, an earlier split ends at "
                f"{violation.get('max_earlier')}; {violation.get('n_rows')} rows"
            ),
        )
    for name, columns in (("columns", "gives the label away"), ("suspects", "may give it away")):
        found = evidence.get(name)
        for column, best in found.items() if isinstance(found, Mapping) else ():
            if isinstance(best, Mapping) and isinstance(best.get("estimate"), int | float):
                measure = best.get("measure", "")
                yield str(column), f"{columns}: {measure} {best['estimate']:.3f}"
    if isinstance(evidence.get("measure"), str):
        yield "similarity", f"{evidence['measure']}, at least {evidence.get('threshold')}"


def _dropped_rows(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield row numbers of findings without examples."""
    drop = found.get("drop_indices")
    for split, rows in drop.items() if isinstance(drop, Mapping) else ():
        more = f" and {len(rows) - 10:,} more" if len(rows) > 10 else ""
        yield f"{split}: rows {', '.join(map(str, rows[:10]))}{more}"
