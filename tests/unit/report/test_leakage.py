"""Findings of leakage: gravest first, with advice and the rows they are about."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.each import each
from tests.support.report_runs import plain, written_rows

from eval_toolkit.leakage import LEAKAGE_CODES
from eval_toolkit.leakage.findings import LeakageFinding
from eval_toolkit.report import leakage
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run

DOCS = Path(__file__).parents[3] / "docs" / "leakage"


def found(folder: Path, *findings: dict[str, Any]) -> Run:
    report = {"findings": list(findings)}
    return written_rows(folder, [0, 1] * 5, [0.1, 0.9] * 5, leakage_report=report)


def finding(severity: str = "warning", **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "check_name": "OwnCheck",
        "severity": severity,
        "drop_indices": {},
        "evidence": {},
        "message": f"a {severity}",
        "n_affected": 1,
    }
    return LeakageFinding(**(told | more)).to_dict()


def test_every_built_in_check_has_advice() -> None:
    assert set(leakage.ADVICE) == set(LEAKAGE_CODES.values())


@each("code", sorted(leakage.ADVICE))
def test_advice_speaks_of_what_the_docs_say(code: str) -> None:
    """What to do first is what the page of the check says first."""
    page = (DOCS / f"{code}.md").read_text(encoding="utf-8")
    advised = page.split("## What to do")[1].lower()
    first = re.split(r"[ ,.]", leakage.ADVICE[code][1].lower(), maxsplit=1)[0]
    assert first in advised[:60]


def test_examples_have_texts(rows_run: Run, shown: Callable[[Section], Any]) -> None:
    section = leakage.build(rows_run, Wanted())
    assert section is not None
    copies, conflicts, groups = section.data["findings"]
    assert [one["code"] for one in section.data["findings"]] == ["LK001", "LK005", "LK007"]
    assert rows_run.inputs is not None
    assert copies["first"][0]["rows"] == [
        {"place": "test, row 3", "text": rows_run.inputs.text_at("test", 3)},
        {"place": "train, row 0", "text": rows_run.inputs.text_at("train", 0)},
    ]
    assert copies["first"][0]["rows"][0]["text"] == copies["first"][0]["rows"][1]["text"]
    assert [one["said"] for one in conflicts["first"]][-1] == "labels 0 and 1"
    assert groups["facts"][0][0] == "groups"
    page = shown(section)
    cards = page.all("article", class_="finding")
    assert len(cards) == 3
    assert all("What to do." in card["text"] for card in cards)
    assert not page.all("b")
    assert section.lead == "3 errors; 0 checks found nothing."


def test_the_gravest_come_first_and_look_it(
    tmp_path: Path, shown: Callable[[Section], Any]
) -> None:
    run = found(
        tmp_path,
        finding("info"),
        finding("warning", n_affected=0, message="nothing here"),
        finding("error", message="<script>alert(1)</script>"),
        finding("warning"),
    )
    section = leakage.build(run, Wanted())
    assert section is not None
    page = shown(section)
    heads = [plain(one["text"]) for one in page.all("h3")]
    assert heads == ["error <script>alert(1)</script>", "warning a warning", "info a info"]
    assert len(page.all("span", class_="status-error")) == 1
    assert not page.all("script")
    assert "1 checks found nothing" in page.all("summary")[0]["text"]
    assert section.lead == "1 error, 1 warning, 1 info; 1 checks found nothing."


def test_rows_without_texts_are_numbered(tmp_path: Path, shown: Callable[[Section], Any]) -> None:
    pairs = {"dropped_pairs_by_split": {"test": [[4, 1], [5, 1]]}}
    run = found(tmp_path, finding(evidence=pairs, code="LK001", drop_indices={"test": [4, 5]}))
    section = leakage.build(run, Wanted(n_samples=1))
    assert section is not None
    (card,) = shown(section).all("article")
    assert "test, row 4 = test, row 1" in plain(card["text"])
    assert "1 further examples are listed in the manifest" in card["text"]


def test_a_finding_of_rows_alone_names_them(tmp_path: Path) -> None:
    run = found(tmp_path, finding(drop_indices={"test": list(range(12))}))
    section = leakage.build(run, Wanted())
    assert section is not None
    (told,) = section.data["findings"]
    assert told["rows"] == ["test: rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"]


def test_dropped_rows_are_told(dropped_run: Run) -> None:
    """What was found before dropping is shown, and that it is gone."""
    section = leakage.build(dropped_run, Wanted())
    assert section is not None
    assert "dropped before scoring: 2 of test" in section.lead
    assert [one["code"] for one in section.data["findings"]] == ["LK001"]


def test_nothing_found_is_said(tmp_path: Path, shown: Callable[[Section], Any]) -> None:
    section = leakage.build(found(tmp_path, finding(n_affected=0)), Wanted())
    assert section is not None
    assert section.lead == "No findings in 1 checks."
    assert not shown(section).all("article")


def test_what_was_not_checked_has_no_section(tmp_path: Path) -> None:
    assert leakage.build(written_rows(tmp_path, [0, 1], [0.1, 0.9]), Wanted()) is None


@pytest.mark.parametrize(
    "evidence",
    [
        {"across_splits": "none", "rows": 7, "pairs": [1], "conflicts": [{"rows": None}]},
        {"across_splits": [{"split": "a"}, 3], "columns": {"x": 1}, "violations": [{}]},
        {"rows": [{"split": "a", "row": -1}], "pairs": {"a": [[1], "b", [1, "x"]]}},
        {"rows": [{"split": "a", "row": 10**30}, {"row": 1.5}], "violating_groups": [None]},
    ],
)
def test_evidence_of_other_checks_cannot_break_the_page(
    tmp_path: Path, evidence: dict[str, Any], shown: Callable[[Section], Any]
) -> None:
    told = finding() | {"evidence": evidence}
    section = leakage.build(found(tmp_path, told), Wanted())
    assert section is not None
    assert len(shown(section).all("article")) == 1
