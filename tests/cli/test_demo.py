"""``eval-toolkit demo``: scikit-learn's bundled data, both scorecards, strict JSON."""

import io
import json
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
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = output_of(capsys)
    assert "285 test rows" in out
    card_a, rest = out.split("logistic\n", 1)[1].split("forest\n", 1)
    card_b = rest.split("forest − logistic")[0]
    for name in METRICS:
        assert name in card_a
        assert name in card_b
    assert "forest − logistic, on the same rows" in out
    assert "DeLong" in out
    assert out.count("observed (█)") == 2
    assert "seed 42 gives this again" in out


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_a_seed_that_is_none(capsys: pytest.CaptureFixture[str], seed: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--seed", seed])
    assert caught.value.code == 2
    assert "Invalid value for '--seed'" in capsys.readouterr().err


def test_json_has_every_part(payload: dict[str, Any]) -> None:
    assert list(payload) == ["scorecards", "differences", "delong", "reliability"]
    assert list(payload["scorecards"]) == ["logistic", "forest"]
    for card in payload["scorecards"].values():
        assert list(card) == METRICS
        for cell in card.values():
            assert cell["status"] == "ok"
            assert cell["ci"]["ci_low"] <= cell["value"] <= cell["ci"]["ci_high"]
            assert cell["n_units"] == 285
    assert list(payload["differences"]) == ["pr_auc", "roc_auc"]


def test_json_agrees_with_itself(payload: dict[str, Any]) -> None:
    cards = payload["scorecards"]
    for metric, difference in payload["differences"].items():
        values = [cards[name][metric]["value"] for name in ("logistic", "forest")]
        assert difference["delta"] == pytest.approx(values[1] - values[0])
    assert payload["delong"]["delta_auc"] == pytest.approx(
        payload["differences"]["roc_auc"]["delta"]
    )


def test_the_seed_decides(payload: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    same = json.loads(output_of(capsys, "--json", "--seed", "42"))
    other = json.loads(output_of(capsys, "--json", "--seed", "7"))
    assert same == payload
    assert other["scorecards"] != payload["scorecards"]


WITHOUT_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "polars", "pyarrow", "altair", "vl_convert", "jsonschema"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from eval_toolkit.cli import main
main(["demo", "--json"])
"""


def test_needs_no_extra(payload: dict[str, Any]) -> None:
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
        assert "12 copies (12 in test from train)" in out
        assert "dropped before scoring: 12 rows" in out
        assert "logistic and forest are not clearly different in pr_auc" in out
        assert out.count("  pass  ") == 3
        assert f"Report: {folder / 'report.html'}" in out

    def test_the_runs_hold_what_was_printed(
        self, told: tuple[str, Path], payload: dict[str, Any]
    ) -> None:
        """The copies were dropped: the runs come to the scorecards of the test rows alone."""
        for name, card in payload["scorecards"].items():
            run = Run.open(told[1] / name)
            cell = run.results["by_slice"]["test"]["by_scorer"]["model"]["pr_auc"]
            assert cell["value"] == pytest.approx(card["pr_auc"]["value"], abs=1e-12)
            assert cell["n_units"] == 285

    def test_the_report_shows_the_copies_with_their_texts(self, told: tuple[str, Path]) -> None:
        page = (told[1] / "report.html").read_text("utf-8")
        run = Run.open(told[1] / "forest")
        assert run.inputs is not None
        copied = run.inputs.text_at("train", 0)
        assert copied is not None
        assert copied in page
