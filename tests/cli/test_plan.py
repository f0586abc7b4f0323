"""``eval-toolkit plan``: the library's numbers, in plain words."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.inference import bootstrap_ci, n_for_power, n_for_width
from eval_toolkit.metrics import roc_auc

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def test_rate(as_json: Json) -> None:
    payload = as_json("plan", "rate", "--width", 0.1, "--expected", 0.9)
    size = n_for_width(0.1, proportion=0.9)
    assert {name: payload[name] for name in size.to_dict()} == size.to_dict()
    assert payload["question"] == "rate"
    assert payload["assumed"]["expected"] == 0.9


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
            "error: 3 rows show no difference under these assumptions; even one of 0.2 takes 37\n"
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "give --effect (rows needed) or --rows"),
            (("--effect", 0.1, "--rows", 9), "give --effect (rows needed) or --rows"),
            (("--effect", 0.1), "give --disagree, or --expected and --correlation"),
            (("--effect", 0.1, "--different-rows"), "give --expected (0/1 values) or --sd"),
            (("--effect", 0.1, "--disagree", 0.05), "below the effect"),
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
        assert "give --disagree (0/1 values) or --sd" in err


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
        assert "give one --score" in err

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

    def test_no_width(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "flat.csv"
        path.write_text("label,score\n" + "0,0.5\n1,0.5\n" * 10)
        code, _, err = command("plan", "pilot", path, "--width", 0.1)
        assert code == 2
        assert err == "error: roc_auc has an interval without width on these rows\n"


def test_words(command: Command) -> None:
    code, out, err = command("plan", "rate", "--width", 0.1, "--expected", 0.9)
    assert (code, err) == (0, "")
    assert out.startswith("141 rows to know a rate near 0.9 to a 95 % interval of width 0.1.\n")


def test_help_shows_examples(command: Command) -> None:
    _, out, _ = command("plan", "difference", "--help")
    assert "\n  eval-toolkit plan difference --rows 500 --disagree 0.2\n" in out
