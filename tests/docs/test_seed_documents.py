"""Code blocks of the documents this project grew from, line breaks restored, run as written."""

from typing import Any

import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from eval_toolkit import BootstrapCI, Scorecard, is_metric_defined_for_slice
from eval_toolkit.inference import bootstrap_ci

# Extending guide, "Setup", less what comes with the harness (`EvalSlice`)
SETUP = """
import numpy as np
"""

# Extending guide, "Tier 1 — functional core"
FUNCTIONAL_CORE = """
from eval_toolkit import pr_auc, roc_auc, bootstrap_ci, paired_bootstrap_diff

rng = np.random.default_rng(42)
y = rng.binomial(1, 0.3, size=200)
s = np.clip(0.6 * y + rng.normal(0, 0.25, size=200), 0, 1)
ci = bootstrap_ci(y, s, pr_auc, n_resamples=500, seed=42)
print(f"PR-AUC: {ci.point_estimate:.3f} CI [{ci.ci_low:.3f}, {ci.ci_high:.3f}]")
"""

# Scorecard decision record, "Decision"
DECISION = """
from eval_toolkit import scorecard, metric_specs as ms
r = scorecard(y_true, y_score,
              metrics=[ms.pr_auc, ms.brier, ms.ece(n_bins=15)],
              bootstrap=True, n_resamples=1000, confidence=0.95)
r["pr_auc"].value    # 0.873
r["pr_auc"].status   # 'ok' | 'skipped' | 'error'
r["pr_auc"].ci       # BootstrapCI(...)
"""

# Scorecard decision record, the escape hatch it names
ESCAPE_HATCH = """
from eval_toolkit.metrics import pr_auc
"""

# Artifact chapter, "MetricState"
METRIC_STATE = """
from eval_toolkit.artifacts import MetricState, error_metric, skipped_metric

ok = MetricState(value=0.82, status="ok").to_dict()
assert ok["value"] == 0.82

skipped = skipped_metric("n_resamples below floor", n=5)
assert skipped["status"] == "skipped"

errored = error_metric("ZeroDivisionError", numerator=0, denominator=0)
assert errored["status"] == "error"
"""


def run(*blocks: str, **names: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = dict(names)
    for block in blocks:
        exec(compile(block, "seed document", "exec"), namespace)  # noqa: S102
    return namespace


@pytest.fixture(scope="module")
def core() -> dict[str, Any]:
    return run(SETUP, FUNCTIONAL_CORE)


@pytest.fixture(scope="module")
def decision(core: dict[str, Any]) -> dict[str, Any]:
    return run(DECISION, ESCAPE_HATCH, y_true=core["y"], y_score=core["s"])


class TestFunctionalCore:
    def test_data(self, core: dict[str, Any]) -> None:
        assert core["y"].sum() == 58
        assert len(core["y"]) == 200

    def test_point_estimate(self, core: dict[str, Any]) -> None:
        assert isinstance(core["ci"], BootstrapCI)
        assert core["ci"].point_estimate == pytest.approx(0.948, abs=5e-4)
        expected = average_precision_score(core["y"], core["s"])
        assert core["ci"].point_estimate == pytest.approx(expected, abs=1e-12)

    def test_roc_auc(self, core: dict[str, Any]) -> None:
        value = core["roc_auc"](core["y"], core["s"])
        assert value == pytest.approx(0.9735, abs=5e-5)
        assert value == pytest.approx(roc_auc_score(core["y"], core["s"]), abs=1e-12)

    def test_interval(self, core: dict[str, Any]) -> None:
        ci = core["ci"]
        assert (ci.method, ci.n_resamples, ci.confidence) == ("score", 0, 0.95)
        # Wider than BCa's: few rows carry the variance of this PR-AUC.
        assert (ci.ci_low, ci.ci_high) == pytest.approx((0.873, 0.980), abs=0.002)
        # scipy.stats.bootstrap, BCa: about [0.900, 0.975]; percentile: about [0.907, 0.978]
        for method, expected in (("BCa", (0.900, 0.975)), ("percentile", (0.907, 0.978))):
            ci = bootstrap_ci(core["y"], core["s"], core["pr_auc"], n_resamples=500, method=method)
            assert (ci.method, ci.n_resamples, ci.confidence) == (method, 500, 0.95)
            assert (ci.ci_low, ci.ci_high) == pytest.approx(expected, abs=0.01)

    def test_what_it_prints(self, capsys: pytest.CaptureFixture[str]) -> None:
        run(SETUP, FUNCTIONAL_CORE)
        printed = capsys.readouterr().out
        assert printed.startswith("PR-AUC: 0.948 CI [0.")
        assert printed.endswith("]\n")

    def test_the_other_import_works_too(self, core: dict[str, Any]) -> None:
        diff = core["paired_bootstrap_diff"](
            core["y"], core["s"], core["s"] ** 2, core["pr_auc"], n_resamples=100, seed=42
        )
        assert diff.delta == 0.0  # a monotone change of scores changes no ranking


class TestDecision:
    def test_keys(self, decision: dict[str, Any]) -> None:
        assert isinstance(decision["r"], Scorecard)
        assert list(decision["r"]) == ["pr_auc", "brier", "ece_n_bins_15_strategy_uniform"]

    def test_cell(self, decision: dict[str, Any]) -> None:
        cell = decision["r"]["pr_auc"]
        assert cell.value == pytest.approx(0.948, abs=5e-4)
        assert cell.status == "ok"
        assert isinstance(cell.ci, BootstrapCI)
        assert (cell.ci.method, cell.ci.confidence) == ("score", 0.95)
        assert decision["r"]["ece_n_bins_15_strategy_uniform"].ci.n_resamples == 1000

    def test_typos_raise_key_error(self, decision: dict[str, Any]) -> None:
        with pytest.raises(KeyError):
            decision["r"]["pr_acu"]

    def test_single_class_slices_are_skipped_rather_than_raising(self) -> None:
        r = run(DECISION, y_true=[1] * 20, y_score=[0.5] * 20)["r"]
        assert r["pr_auc"].status == "skipped"
        assert r["brier"].status == "ok"

    def test_an_exception_stays_in_its_cell(self, decision: dict[str, Any]) -> None:
        class Raising:
            name = "raising"

            def compute(self, y_true: Any, y_score: Any) -> float:
                raise ZeroDivisionError("no")

        card = decision["scorecard"](
            decision["y_true"], decision["y_score"], metrics=[Raising(), decision["ms"].brier]
        )
        assert card["raising"].status == "error"
        assert card["raising"].reason == "ZeroDivisionError: no"
        assert card["brier"].status == "ok"

    def test_to_dict_needs_the_standard_library_alone(self, decision: dict[str, Any]) -> None:
        payload = decision["r"].to_dict()
        assert type(payload["pr_auc"]["value"]) is float

    def test_definedness_knows_both_vocabularies(self) -> None:
        for name in ("pr_auc", "roc_auc", "auroc", "auprc"):
            assert not is_metric_defined_for_slice(name, is_single_class=True)
            assert is_metric_defined_for_slice(name, is_single_class=False)

    def test_escape_hatch(self, decision: dict[str, Any]) -> None:
        value = decision["pr_auc"](decision["y_true"], decision["y_score"])
        assert value == decision["r"]["pr_auc"].value

    def test_ece_is_cached(self, decision: dict[str, Any]) -> None:
        assert decision["ms"].ece(n_bins=15) is decision["ms"].ece(n_bins=15, strategy="uniform")


def test_metric_states() -> None:
    names = run(METRIC_STATE)
    assert names["skipped"]["reason"] == "n_resamples below floor"
    assert names["errored"]["details"] == {"numerator": 0, "denominator": 0}
