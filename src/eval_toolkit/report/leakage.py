"""Leakage section: findings with advice and examples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from eval_toolkit.leakage.findings import SEVERITIES
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run

ADVICE: Mapping[str, tuple[str, str]] = {
    "LK001": (
        "Rows that are equal except for letter case, whitespace and Unicode composition.",
        (
            "Drop the copies, preferably before splitting. If the copies reflect real traffic, "
            "keep them and pass a text id as the group, so that intervals account for them."
        ),
    ),
    "LK002": (
        "Texts that are very similar to another text.",
        (
            "Drop them, or split by cluster so that texts from one template stay together. "
            "Inspect pairs with different labels before trusting either label."
        ),
    ),
    "LK003": (
        "Texts that are equal except for invisible characters and symbols.",
        "Drop them. If the test covers such obfuscation, report these rows as a separate slice.",
    ),
    "LK004": (
        "Texts that a tokenizer maps to the same tokens.",
        (
            "Drop them. Many collisions between different texts mean that the tokenizer does not "
            "suit the data."
        ),
    ),
    "LK005": (
        "Equal rows with different labels.",
        (
            "Relabel these rows. Until then, drop all of them, since it is unknown which label is "
            "correct."
        ),
    ),
    "LK006": (
        "Evaluation texts that are very similar to a training text.",
        (
            "Drop the evaluation rows; retraining is not needed. Split by cluster or source next "
            "time."
        ),
    ),
    "LK007": (
        "Groups with rows in several splits.",
        "Split again, by group.",
    ),
    "LK008": (
        "Evaluation rows that are not later than the training rows.",
        (
            "Split by time. If most rows would be dropped, a single late training row may be the "
            "cause."
        ),
    ),
    "LK009": (
        "Texts that look the same but contain letters of other alphabets, or accents.",
        (
            "Drop them, or keep them as a slice of obfuscated copies. Check first whether an "
            "accent changes the meaning of a word."
        ),
    ),
    "LK010": (
        "A column that reveals the label.",
        (
            "Omit the column, or verify that its values are known before the label is. Dropping "
            "rows does not help."
        ),
    ),
    "LK011": (
        "Texts found in a reference corpus.",
        (
            "Report the score with and without these rows. Quotations and boilerplate also "
            "match: check the shares."
        ),
    ),
}
"""Meaning and remedy of each built-in check; see ``docs/leakage`` for details."""

_EXAMPLES = 3
"""Number of examples of a finding that are shown; the others are collapsed."""
_Place: TypeAlias = tuple[str, int]


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None if no checks were run."""
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
    """Return the findings, and the number of rows dropped from each split because of them."""
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
    """Yield the rows and a short description of each example in the evidence.

    Evidence may come from third-party checks; entries that do not refer to rows are skipped.
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
    """Return the split and row of an entry; None if the entry is malformed."""
    if not isinstance(entry, Mapping) or "split" not in entry:
        return None
    row = entry.get("row")
    if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < 2**63:
        return None
    return str(entry["split"]), row


def _told(run: Run, examples: Sequence[tuple[list[_Place], str]]) -> list[dict[str, Any]]:
    """Return examples with the texts of their rows, reading each split only once."""
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
    """Yield evidence that does not refer to individual rows."""
    groups = evidence.get("violating_groups")
    if isinstance(groups, list) and groups:
        more = f" and {len(groups) - 10} more" if len(groups) > 10 else ""
        yield "groups", ", ".join(map(str, groups[:10])) + more
    for violation in _listed(evidence, "violations"):
        yield (
            str(violation.get("split", "")),
            (
                f"begins at {violation.get('min_later')}, but an earlier split ends at "
                f"{violation.get('max_earlier')}; {violation.get('n_rows')} rows"
            ),
        )
    for name, columns in (("columns", "reveals the label"), ("suspects", "may reveal the label")):
        found = evidence.get(name)
        for column, best in found.items() if isinstance(found, Mapping) else ():
            if isinstance(best, Mapping) and isinstance(best.get("estimate"), int | float):
                measure = best.get("measure", "")
                yield str(column), f"{columns}: {measure} {best['estimate']:.3f}"
    if isinstance(evidence.get("measure"), str):
        yield "similarity", f"{evidence['measure']}, at least {evidence.get('threshold')}"


def _dropped_rows(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the row numbers of findings that have no examples."""
    drop = found.get("drop_indices")
    for split, rows in drop.items() if isinstance(drop, Mapping) else ():
        more = f" and {len(rows) - 10:,} more" if len(rows) > 10 else ""
        yield f"{split}: rows {', '.join(map(str, rows[:10]))}{more}"
