"""``eval-toolkit plan``: the library's numbers, in plain words."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from eval_toolkit.analysis import variance_study
from eval_toolkit.inference import (
    AttemptsDesign,
    bootstrap_ci,
    n_for_power,
    n_for_width,
    plan_labels,
    wilson_interval,
)
from eval_toolkit.metrics import roc_auc
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def test_rate(as_json: Json) -> None:
    payload = as_json("plan", "rate", "--width", 0.1, "--expected", 0.9)
    size = n_for_width(0.1, proportion=0.9)
    assert {name: payload[name] for name in size.to_dict()} == size.to_dict()
    assert payload["question"] == "rate"
    assert payload["assumed"]["expected"] == 0.9


class TestBound:
    """The number of rows that shows a rate below a bound."""

    def test_without_failures(self, command: Command) -> None:
        code, out, err = command("plan", "rate", "--at-most", 0.01)
        assert (code, err) == (0, "")
        assert out.startswith("381 rows to show a rate of at most 0.01 (upper end of the 95 % ")
        assert "if none fails." in out
        assert wilson_interval(0, 381).ci_high <= 0.01 < wilson_interval(0, 380).ci_high

    @pytest.mark.parametrize("expected", [0.0005, 0.002, 0.006])
    def test_with_an_expected_rate(self, as_json: Json, expected: float) -> None:
        payload = as_json("plan", "rate", "--at-most", 0.01, "--expected", expected)
        n, allowed = payload["n"], payload["n_allowed"]
        assert wilson_interval(allowed, n).ci_high <= 0.01 < wilson_interval(allowed + 1, n).ci_high
        assert payload["power"] == pytest.approx(binom.cdf(allowed, n, expected))
        assert payload["power"] >= 0.8
        fewer = n - 1
        most = next(k for k in range(n) if wilson_interval(k, fewer).ci_high > 0.01) - 1
        assert most < 0 or binom.cdf(most, fewer, expected) < 0.8

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "pass either --width, or --at-most"),
            (("--width", 0.1, "--at-most", 0.1), "pass either --width, or --at-most"),
            (("--width", 0.1, "--power", 0.9), "pass either --width, or --at-most"),
            (("--at-most", 0.1, "--expected", 0.1), "it must be below --at-most, 0.1"),
            (("--at-most", 0.1, "--expected", 0.09999999), "too close to --at-most"),
        ],
    )
    def test_refusals(self, command: Command, options: tuple[Any, ...], message: str) -> None:
        code, out, err = command("plan", "rate", *options)
        assert (code in (2, 3), out) == (True, "")
        assert message in err


def test_groups(as_json: Json) -> None:
    options = ("--group-size", 5, "--group-correlation", 0.2)
    payload = as_json("plan", "rate", "--width", 0.1, "--expected", 0.9, *options)
    assert (payload["n"], payload["n_groups"]) == (254, 51)


def test_mean(as_json: Json) -> None:
    payload = as_json("plan", "mean", "--width", 0.2, "--sd", 1.1, "--confidence", 0.9)
    assert payload["n"] == n_for_width(0.2, sd=1.1, confidence=0.9).n


@pytest.mark.parametrize(("area", "share"), [(0.7, 0.5), (0.85, 0.1), (0.95, 0.3)])
def test_auc_follows_the_full_variance(as_json: Json, area: float, share: float) -> None:
    """The interval that Hanley and McNeil's whole formula gives at that n has the width asked."""
    n = as_json("plan", "auc", "--width", 0.05, "--expected", area, "--positives", share)["n"]
    positive, negative = share * n, (1.0 - share) * n
    q1, q2 = area / (2.0 - area), 2.0 * area**2 / (1.0 + area)
    variance = (
        area * (1.0 - area) + (positive - 1.0) * (q1 - area**2) + (negative - 1.0) * (q2 - area**2)
    ) / (positive * negative)
    assert 2.0 * 1.959964 * math.sqrt(variance) == pytest.approx(0.05, rel=0.02)


class TestDifference:
    def test_paired(self, as_json: Json) -> None:
        payload = as_json("plan", "difference", "--effect", 0.03, "--disagree", 0.2)
        assert payload["n"] == n_for_power(0.03, discordance=0.2).n == 1742

    def test_independent(self, as_json: Json) -> None:
        options = ("--expected", 0.8, "--different-rows", "--power", 0.9)
        payload = as_json("plan", "difference", "--effect", 0.03, *options)
        size = n_for_power(0.03, design="independent", proportion=0.8, power=0.9)
        assert (payload["n"], payload["n_total"]) == (size.n, 2 * size.n)

    @pytest.mark.parametrize(
        "options",
        [
            ("--disagree", 0.2),
            ("--sd", 0.4),
            ("--expected", 0.8, "--different-rows"),
            ("--expected", 0.8, "--correlation", 0.5),
        ],
    )
    def test_what_rows_can_show_is_the_inverse(self, as_json: Json, options: Any) -> None:
        effect = as_json("plan", "difference", "--rows", 3000, *options)["effect"]
        needed = as_json("plan", "difference", "--effect", effect, *options)["n"]
        smaller = as_json("plan", "difference", "--effect", 0.99 * effect, *options)["n"]
        assert needed <= 3000 < smaller

    def test_too_few_rows(self, command: Command) -> None:
        code, out, err = command("plan", "difference", "--rows", 3, "--disagree", 0.2)
        assert (code, out) == (2, "")
        assert err == (
            "error: 3 rows detect no difference under these assumptions; even a difference of 0.2 needs 37 rows\n"
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "pass --effect (rows needed) or --rows"),
            (("--effect", 0.1, "--rows", 9), "pass --effect (rows needed) or --rows"),
            (("--effect", 0.1), "pass --disagree, or --expected and --correlation"),
            (("--effect", 0.1, "--different-rows"), "pass --expected (0/1 values) or --sd"),
            (
                ("--effect", 0.1, "--disagree", 0.05),
                "(--disagree) is 0.05; it must be at least the size of the effect, 0.1",
            ),
            (("--effect", 3, "--disagree", 0.2), "--effect is 3; pass a share: 0.03"),
        ],
    )
    def test_what_is_not_enough(self, command: Command, options: Any, message: str) -> None:
        code, out, err = command("plan", "difference", *options)
        assert (code, out) == (2, "")
        assert message in err


class TestNoWorse:
    def test_equal_systems(self, as_json: Json) -> None:
        payload = as_json("plan", "no-worse", "--margin", 0.02, "--disagree", 0.1)
        z = 1.959964 + 0.841621
        assert payload["n"] == pytest.approx(z**2 * 0.1 / 0.02**2 + 1.959964**2 / 2, abs=1)

    @pytest.mark.parametrize("options", [(), ("--disagree", 0.1, "--sd", 1)])
    def test_one_spread(self, command: Command, options: Any) -> None:
        code, _, err = command("plan", "no-worse", "--margin", 0.02, *options)
        assert code == 2
        assert "pass --disagree (0/1 values) or --sd" in err


class TestPilot:
    def test_widths_shrink_with_the_root(
        self, as_json: Json, preds: Path, columns: dict[str, Any]
    ) -> None:
        ci = bootstrap_ci(columns["label"], columns["score"], roc_auc, seed=42)
        width = (ci.ci_high - ci.ci_low) / 4.0
        payload = as_json("plan", "pilot", preds, "--width", width, "--metric", "roc_auc")
        assert payload["n"] == pytest.approx(16 * 200, rel=0.005)

    def test_groups_are_the_unit(self, command: Command, preds: Path) -> None:
        _, out, _ = command("plan", "pilot", preds, "--width", 0.02, "--group", "author")
        assert "groups of rows like these 40, which give roc_auc" in out

    def test_one_score(self, command: Command, preds: Path) -> None:
        scores = ("--score", "score", "--score", "better")
        code, _, err = command("plan", "pilot", preds, "--width", 0.1, *scores)
        assert code == 2
        assert "pass exactly one --score" in err

    def test_it_plans_for_all_rows(self, command: Command, preds: Path) -> None:
        code, out, err = command("plan", "pilot", preds, "--width", 0.1, "--by", "source")
        assert (code, out) == (2, "")
        assert "No such option" in err

    def test_the_output_is_no_input(self, command: Command, preds: Path) -> None:
        before = preds.read_bytes()
        code, _, err = command("plan", "pilot", preds, "--width", 0.1, "--out", preds)
        assert code == 2
        assert "--out would overwrite" in err
        assert preds.read_bytes() == before

    def test_scores_that_are_all_equal_have_a_width(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "flat.csv"
        path.write_text("label,score\n" + "0,0.5\n1,0.5\n" * 10)
        code, out, _ = command("plan", "pilot", path, "--width", 0.1)
        assert code == 0
        assert "which give roc_auc 0.500 [0.274, 0.726]" in out
        # Times the square of 4.52, and about z² more for Student's quantiles.
        assert int(out.split()[0]) == pytest.approx(20 * 4.52**2 + 1.96**2, abs=2)

    def test_too_few_of_a_class_to_plan_from(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "few.csv"
        path.write_text("label,score\n" + "0,0.2\n" * 10 + "1,0.5\n1,0.7\n")
        code, out, err = command("plan", "pilot", path, "--width", 0.1)
        assert (code, out) == (2, "")
        assert "an interval for roc_auc needs at least 3 of each class" in err


class TestLabels:
    JUDGE, HUMAN = [1, 0, 1, 0] * 100, [1, 0, 1, 0, 0, 0, 1, 1] * 5 + [None] * 360

    @pytest.fixture
    def arguments(self, tmp_path: Path) -> tuple[Any, ...]:
        lines = [
            f"{verdict},{'' if label is None else label}"
            for verdict, label in zip(self.JUDGE, self.HUMAN, strict=True)
        ]
        path = tmp_path / "verdicts.csv"
        path.write_text("\n".join(["verdict,label", *lines]) + "\n")
        return ("plan", "labels", path, "--judge", "verdict", "--human", "label")

    def test_says_what_the_library_says(self, as_json: Json, arguments: Any) -> None:
        plans = as_json(*arguments, "--width", 0.16)["plans"]
        for method in ("ppi++", "by-verdict", "labels-only"):
            plan = plan_labels(self.JUDGE, self.HUMAN, half_width=0.08, method=method)
            assert plans[method] == plan.to_dict()
        assert plans["ppi++"]["n_labels"] == 130  # as in the docstring of plan_labels

    def test_words(self, command: Command, arguments: Any) -> None:
        code, out, _ = command(*arguments, "--width", 0.16, "--method", "ppi++")
        assert code == 0
        assert out.startswith("90 more labels, 130 in total, by ppi++.\n")
        assert "labels-only" not in out

    def test_more_rows_are_needed(self, command: Command, arguments: Any) -> None:
        code, out, err = command(*arguments, "--width", 0.01)
        assert (code, out) == (2, "")
        assert err.startswith("error: --width 0.01, ppi++: even with every row labelled the width")
        assert err.count("\n") == 1


class TestAttempts:
    def test_says_what_the_library_says(self, as_json: Json) -> None:
        told = as_json(
            *("plan", "attempts", "--effect", 0.03, "--item-sd", 0.15, "--within-sd", 0.35),
            *("--attempts", 4, "--attempts", 1),
        )
        rows = told["designs"]
        for row, k in zip(rows, (1, 4), strict=True):
            size = AttemptsDesign(item_sd=0.15, within_sd=0.35, attempts=k).n_for_power(0.03)
            assert (row["attempts"], row["n"]) == (k, size.n)
            assert row["n_answers"] == 2 * k * size.n

    def test_a_judges_errors_cost_items(self, as_json: Json) -> None:
        options = (
            *("plan", "attempts", "--effect", 0.03, "--item-sd", 0.3, "--expected", 0.7),
            *("--correlation", 0.9, "--attempts", 4),
        )
        (fair,) = as_json(*options)["designs"]
        (judged,) = as_json(*options, "--sensitivity", 0.9, "--specificity", 0.9)["designs"]
        assert judged["n"] == 1268  # as in the docstring of AttemptsDesign
        assert fair["n"] < judged["n"]

    @pytest.mark.parametrize("options", [(), ("--different-items",), ("--one-system",)])
    def test_what_items_can_show_is_the_inverse(self, as_json: Json, options: Any) -> None:
        spread = ("--item-sd", 0.2, "--within-sd", 0.4, "--attempts", 2, *options)
        (row,) = as_json("plan", "attempts", "--items", 400, *spread)["designs"]
        (back,) = as_json("plan", "attempts", "--effect", row["effect"], *spread)["designs"]
        assert back["n"] == 400

    def test_words(self, command: Command) -> None:
        code, out, _ = command(
            "plan", "attempts", "--effect", 0.03, "--item-sd", 0.15, "--within-sd", 0.35
        )
        assert code == 0
        assert out.startswith(
            "2,335 items, one attempt each, to detect a difference of 0.03 between two systems on "
            "the same items, with power 80 %.\n"
        )
        assert ["8", "466", "7,456"] in [line.split() for line in out.splitlines()]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "pass --effect (items needed) or --items (smallest effect)"),
            (("--effect", 0.1), "pass either --within-sd (real values) or --expected (0/1 values)"),
            (("--effect", 0.1, "--expected", 0.5), "--correlation is required"),
            (
                ("--effect", 0.1, "--within-sd", 1, "--different-items", "--one-system"),
                "pass either --different-items or --one-system, not both",
            ),
            (("--effect", 0.1, "--within-sd", 1, "--sensitivity", 0.9), "--judge-sd"),
        ],
    )
    def test_what_is_not_enough(self, command: Command, options: Any, message: str) -> None:
        code, out, err = command("plan", "attempts", "--item-sd", 0.1, *options)
        assert (code, out) == (2, "")
        assert message in err


class TestVariance:
    @pytest.fixture
    def runs(self, tmp_path: Path) -> list[Path]:
        """Two runs of three attempts; some items are hard, some are a coin."""
        task = Task(
            "coins",
            Prompt(instruction="{q}"),
            CompletionSpec(answer="a"),
            rows=[{"q": f"item {i}", "a": "x"} for i in range(12)],
            graders=["exact_match"],
        )

        def answers(shift: int) -> Callable[[Any], str]:
            def answer(request: Any) -> str:
                item = int(request.prompt[-1].content.split()[1])
                return "x" if item < 4 or (item + request.seed + shift) % 3 == 0 else "y"

            return answer

        folders = [tmp_path / name for name in "ab"]
        for shift, folder in enumerate(folders):
            run_task(task, ScriptedModel(answers(shift)), folder, attempts=3, temperature=1.0)
        return folders

    def test_says_what_the_library_says(self, as_json: Json, runs: list[Path]) -> None:
        told = as_json("plan", "variance", runs[0], "--metric", "exact_match")
        run = Run.open(runs[0])
        records = run.records(*run.subjects[0])
        found = variance_study(records, "exact_match")
        assert told == {"metric": "exact_match", **found.to_dict()}
        assert found.levels == {"item": 12, "attempt": 3}

    def test_runs_are_a_source_of_their_own(
        self, as_json: Json, command: Command, runs: list[Path]
    ) -> None:
        named = [f"short={runs[0]}", f"long={runs[1]}"]
        told = as_json("plan", "variance", *named, "--metric", "exact_match")
        assert told["levels"] == {"item": 12, "run": 2, "attempt": 3}
        assert told["n_values"] == 72
        code, out, _ = command(
            *("plan", "variance", *named, "--metric", "exact_match", "--cost", "item=1000")
        )
        assert code == 0
        assert "from 12 items, 2 runs, 3 attempts" in out
        assert "for `plan attempts`: --item-sd " in out
        assert (
            "without --correlation, --item-sd is the standard deviation of their differences" in out
        )
        assert not out.splitlines()[1].endswith("one more item")  # an item is dear

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--metric", "f1"), "there is no column 'f1' (--metric); it has 'exact_match'"),
            (("--metric", "exact_match", "--by", "prompt"), "have no slice 'prompt'"),
            (("--metric", "exact_match", "--cost", "item"), "--cost item must be WHAT=NUMBER"),
            (("--metric", "exact_match", "--cost", "time=3"), "--cost names 'time'"),
            (("--metric", "exact_match", "--cost", "item=nan"), "a cost must be a finite number"),
            (("--metric", "exact_match", "--cost", "item=inf"), "a cost must be a finite number"),
            (("--metric", "exact_match", "--cost", "item=-1"), "a cost must be a finite number"),
        ],
    )
    def test_refuses_in_one_line(
        self, command: Command, runs: list[Path], options: Any, message: str
    ) -> None:
        code, out, err = command("plan", "variance", runs[0], *options)
        assert (code, out) == (2, "")
        assert message in err


def test_words(command: Command) -> None:
    code, out, err = command("plan", "rate", "--width", 0.1, "--expected", 0.9)
    assert (code, err) == (0, "")
    assert out.startswith("141 rows to estimate a rate near 0.9 to a 95 % interval of width 0.1.\n")


def test_help_shows_examples(command: Command) -> None:
    _, out, _ = command("plan", "difference", "--help")
    assert "\n  eval-toolkit plan difference --rows 500 --disagree 0.2\n" in out
