"""``eval-toolkit demo``: scikit-learn's bundled data, both scorecards, strict JSON."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from typing import Any

import pytest

from eval_toolkit.cli import main
from eval_toolkit.cli.demo import SPECS

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
        if name.partition(".")[0] in {"pandas", "polars", "pyarrow", "matplotlib", "jsonschema"}:
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
