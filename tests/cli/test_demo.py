"""``eval-toolkit demo``: scikit-learn's bundled data, both scorecards, strict JSON."""

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.cli import main
from eval_toolkit.cli.demo import SPECS
from eval_toolkit.runs import Run

METRICS = [spec.name for spec in SPECS]


def output_of(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["demo", *args])
    out, err = capsys.readouterr()
    assert caught.value.code == 0
    assert err == ""
    return out


def refuse_constant(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    """The results of one run, parsed strictly."""
    text = io.StringIO()
    with redirect_stdout(text), pytest.raises(SystemExit):
        main(["demo", "--json"])
    result: dict[str, Any] = json.loads(text.getvalue(), parse_constant=refuse_constant)
    return result


def test_prints_both_scorecards_the_difference_and_reliability(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = output_of(capsys)
    assert "285 test rows" in out
    cards, rest = out.split("forest - logistic, on the same rows\n")
    for name in METRICS:
        assert re.search(rf"^{re.escape(name)} +0\.\d+ \[.+\] +0\.\d+ \[.+\]$", cards, re.M), name
        assert name in rest
    assert "DeLong" in out
    assert out.count("predicted and observed share of malignant") == 2
    assert "reproducible with seed 42" in out
    assert "\x1b" not in out  # piped: no escapes and no frames
    assert "─" not in out


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_a_seed_that_is_none(capsys: pytest.CaptureFixture[str], seed: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--seed", seed])
    assert caught.value.code == 2
    assert "Invalid value for '--seed'" in capsys.readouterr().err


def test_json_has_every_part(payload: dict[str, Any]) -> None:
    parts = ["scorecards", "differences", "delong", "reliability", "leakage", "gate"]
    assert list(payload) == parts
    assert list(payload["scorecards"]) == ["logistic", "forest"]
    for card in payload["scorecards"].values():
        assert list(card) == METRICS
        for cell in card.values():
            assert cell["status"] == "ok"
            assert cell["ci"]["ci_low"] <= cell["value"] <= cell["ci"]["ci_high"]
            assert cell["n_units"] == 285
    assert list(payload["differences"]) == METRICS
    assert payload["leakage"]["n_affected"] == payload["leakage"]["n_dropped"] == 12


def test_json_agrees_with_itself(payload: dict[str, Any]) -> None:
    cards = payload["scorecards"]
    for metric, difference in payload["differences"].items():
        values = [cards[name][metric]["value"] for name in ("logistic", "forest")]
        assert difference["delta"] == pytest.approx(values[1] - values[0])
    assert payload["delong"]["delta_auc"] == pytest.approx(
        payload["differences"]["roc_auc"]["delta"]
    )


def test_the_seed_decides(payload: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    other = json.loads(output_of(capsys, "--json", "--seed", "7"))
    assert other["scorecards"] != payload["scorecards"]


WITHOUT_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "polars", "pyarrow", "altair", "vl_convert", "jsonschema"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from eval_toolkit.cli import main
main(["demo", "--json", "--seed", "42"])
"""


def test_needs_no_extra_and_is_the_same_again(payload: dict[str, Any]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == payload


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the tour printed, and where it put its runs."""
    folder = tmp_path_factory.mktemp("tour") / "rows"
    text = io.StringIO()
    with redirect_stdout(text), pytest.raises(SystemExit) as caught:
        main(["demo", "--out", str(folder)])
    assert caught.value.code == 0
    return text.getvalue(), folder


class TestTour:
    """``--out``: what leaked is dropped, runs are stored, compared and held to claims."""

    def test_it_goes_from_leakage_to_the_report(self, told: tuple[str, Path]) -> None:
        out, folder = told
        assert (
            "12 training rows were added to the test rows on purpose: LK001 found 12, 12 were dropped"
            in out
        )
        assert out.startswith("logistic and forest do not differ significantly in pr_auc")
        assert out.count("\npass  ") == 3
        assert f"report: {folder / 'report.html'}\nnext: eval-toolkit view {folder}\n" in out

    def test_the_runs_hold_what_was_printed(
        self, told: tuple[str, Path], payload: dict[str, Any]
    ) -> None:
        """The copies were dropped: the runs come to the scorecards of the test rows alone."""
        for name, card in payload["scorecards"].items():
            run = Run.open(told[1] / name)
            cell = run.results["by_slice"]["test"]["by_scorer"]["model"]["pr_auc"]
            assert cell == card["pr_auc"]
            assert cell["n_units"] == 285

    def test_the_report_shows_the_copies_with_their_texts(self, told: tuple[str, Path]) -> None:
        page = (told[1] / "report.html").read_text("utf-8")
        run = Run.open(told[1] / "forest")
        assert run.inputs is not None
        copied = run.inputs.text_at("train", 0)
        assert copied is not None
        assert copied in page

    def test_it_overwrites_an_earlier_tour_and_nothing_else(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(SystemExit) as caught:
            main(["demo", "--out", str(tmp_path)])
        assert caught.value.code == 2
        assert (
            "contains 'notes.txt', which an earlier demo did not write" in capsys.readouterr().err
        )
        assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]
