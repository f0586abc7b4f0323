"""The first screen: a sentence with counts, claims with verdicts, and what to know to trust it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.report_runs import WANTED, plain, written_rows

from eval_toolkit.claims import Claim, Requirement
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ExactMatch
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report import report_html
from eval_toolkit.report.cells import main_block, main_cell
from eval_toolkit.report.headline import build
from eval_toolkit.report.sections import Section
from eval_toolkit.report.trust import Fact, trust_of
from eval_toolkit.runs import Run
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task


def said(run: Run) -> str:
    section = build(run, WANTED)
    assert section is not None
    return str(section.data["said"])


def facts(run: Run) -> dict[str, Fact]:
    block = main_block(run)
    assert block is not None
    return {fact.name: fact for fact in trust_of(run, main_cell(block), block)}


OK = {
    "roc_auc": {
        "value": 0.9,
        "status": "ok",
        "n_units": 18,
        "ci": {"ci_low": 0.85, "ci_high": 0.95},
    }
}


class TestRows:
    def test_positives_and_false_alarms_are_counted(self, tmp_path: Path) -> None:
        """Of 80 positives 60 reach 0.5, of 120 negatives 6 do; Wilson's interval of 0.75."""
        labels = [1] * 80 + [0] * 120
        scores = [0.8] * 60 + [0.2] * 20 + [0.9] * 6 + [0.1] * 114
        run = written_rows(tmp_path, labels, scores, cells=OK)
        assert said(run) == (
            "Catches 75 % of positives [65–83 %]; false alarms on 6 of 120 negatives, at threshold 0.5"
        )

    def test_the_class_has_the_name_of_the_user(self, tmp_path: Path) -> None:
        run = written_rows(
            tmp_path, [1, 0] * 9, [0.8, 0.1] * 9, cells=OK, label_names={"0": "ham", "1": "spam"}
        )
        assert said(run).startswith("Catches 9 of 9 spam [")
        assert facts(run)["base rate"].said.startswith("50 % of rows are spam (9 of 18)")

    def test_every_section_names_the_classes_as_the_user_does(self, tmp_path: Path) -> None:
        names = {"0": "ham", "1": "spam"}
        labels, scores = [1, 0] * 9, [0.8, 0.1] * 8 + [0.2, 0.9]
        page = report_html(written_rows(tmp_path, labels, scores, label_names=names))
        words = plain(re.sub(r"<[^>]*>", " ", page))
        for text in (
            "18 rows, 9 spam.",
            "A row counts as spam when its score is at least the threshold.",
            "predicted spam predicted ham",
            "ham rows with the highest scores",
            "u00016 spam 0.200",
        ):
            assert text.lower() in words.lower()
        assert "label 1" not in words
        assert "predicted positive" not in words

    def test_scores_without_a_threshold_rank(self, tmp_path: Path) -> None:
        run = written_rows(tmp_path, [1, 0] * 9, [8.0, -1.0] * 9, cells=OK)
        assert said(run) == "Ranks a positive row above a negative one in 90 % of pairs [85–95 %]"

    def test_other_metrics_speak_for_themselves(self, tmp_path: Path) -> None:
        cells = {"mse": {"value": 0.25, "status": "ok"}}
        run = written_rows(tmp_path, [1, 0] * 9, [8.0, -1.0] * 9, cells=cells)
        assert said(run) == "mse 0.250"

    def test_what_was_not_checked_is_a_gap(self, tmp_path: Path) -> None:
        found = facts(written_rows(tmp_path, [1, 0] * 9, [0.8, 0.1] * 9, cells=OK))
        assert found["leakage"].tone == "unknown"
        assert found["missing"].tone == "good"

    def test_findings_and_thresholds_of_a_run(self, rows_run: Run) -> None:
        found = facts(rows_run)
        assert found["leakage"].tone == "warning"
        assert found["threshold"].said.endswith("chosen on val")
        assert "45 groups" in found["size"].said


def asked(folder: Path, model: Any) -> Run:
    rows = [{"q": f"{n}?", "a": str(n)} for n in range(40)]
    task = Task(
        "echo",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=rows,
        graders=[ExactMatch()],
    )
    run = run_task(task, model, folder / "run").run
    assert run is not None
    return run


def test_questions_are_counted_and_truncated_answers_named(tmp_path: Path) -> None:
    def reply(request: Any) -> RawCompletion:
        n = int(request.prompt[-1].content.rstrip("?"))
        return RawCompletion(str(n if n % 4 else 99), finish_reason="length" if n % 2 else "stop")

    run = asked(tmp_path, ScriptedModel(reply, name="m"))
    assert said(run).startswith("Answers 30 of 40 questions correctly [")
    found = facts(run)
    assert found["truncated"].said.startswith(
        "20 of 40 answers were truncated: 20 at the token limit"
    )
    assert found["truncated"].tone == "warning"
    assert found["not known"].tone == "unknown"


GOOD = Claim(name="good <b>enough</b>", at="roc_auc @ all", require=Requirement("value", ">=", 0.8))
BAD = Claim(name="perfect", at="roc_auc @ all", require=Requirement("value", ">=", 0.99))


class TestClaims:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Run:
        return written_rows(tmp_path, [1, 0] * 9, [0.8, 0.1] * 9, cells=OK)

    def test_verdicts_stand_on_the_first_screen(
        self, run: Run, shown: Callable[[Section], Any]
    ) -> None:
        page = report_html(run, wanted=WANTED, claims=[GOOD, BAD])
        assert "Is it good enough? 1 of 2 claims hold, 1 failed" in page
        assert "good &lt;b&gt;enough&lt;/b&gt;" in page
        assert page.index("Is it good enough?") < page.index("Can it be trusted?")

    def test_a_claim_without_its_baseline_is_refused(self, run: Run) -> None:
        drop = Claim(name="no worse", at="roc_auc @ all", non_inferior_by=0.1)
        with pytest.raises(InvalidInputError, match="baseline"):
            report_html(run, wanted=WANTED, claims=[drop])

    def test_with_several_runs_the_later_one_is_claimed_about(self, tmp_path: Path) -> None:
        a, b = (
            written_rows(tmp_path / name, [1, 0] * 9, [0.8, 0.1] * 9, cells=OK, run_id=name)
            for name in "ab"
        )
        drop = Claim(name="no worse", at="roc_auc @ all", non_inferior_by=0.1)
        page = report_html([a, b], wanted=WANTED, claims=[drop])
        assert page.count("Is it good enough?") == 1


def test_trust_is_said_in_words_not_by_colour_alone(
    tmp_path: Path, shown: Callable[[Section], Any]
) -> None:
    run = written_rows(tmp_path, [1, 0] * 9, [0.8, 0.1] * 9, cells=OK)
    section = build(run, WANTED)
    assert section is not None
    (box,) = shown(section).all("div", class_="trust")
    assert "! warning:18 rows" in plain(box["text"]).replace(": 18", ":18")
