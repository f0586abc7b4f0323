"""The pytest plugin: what fails, what the failure shows, and what loading it costs."""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from eval_toolkit import (
    EvalSlice,
    LeakageFinding,
    MetricResult,
    Records,
    Run,
    RunResult,
    Scorecard,
    evaluate,
    summarise,
    write_run,
)
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.inference import BootstrapCI
from eval_toolkit.integrations.pytest_plugin import (
    assert_metric,
    assert_no_leakage,
    assert_not_worse,
)
from eval_toolkit.leakage import LeakageReport
from eval_toolkit.metric_specs import mean_of

pytest_plugins = ["pytester"]

MODULE = "eval_toolkit.integrations.pytest_plugin"
INSTALLED = any(found.value == MODULE for found in entry_points(group="pytest11"))
LOADED = [] if INSTALLED else ["-p", MODULE]


def cell(value: float, low: float, high: float, **more: Any) -> MetricResult:
    ci = BootstrapCI(value, low, high, 0.95, 1000, "BCa")
    return MetricResult(value, "ok", ci=ci, n_units=200, **more)


CARD = Scorecard(
    {
        "pr_auc": cell(0.82, 0.74, 0.88, n_errors=3),
        "brier": cell(0.12, 0.1, 0.15),
        "f1": MetricResult(None, "skipped", "one class only"),
        "bare": MetricResult(0.9, "ok"),
    }
)


class TestMetric:
    @pytest.mark.parametrize(
        "bounds",
        [{"at_least": 0.74}, {"at_most": 0.88}, {"at_least": 0.7, "at_most": 0.9}],
    )
    def test_a_bound_that_is_kept(self, bounds: dict[str, float]) -> None:
        assert_metric(CARD, "pr_auc", **bounds)

    def test_the_lower_bound_decides_and_the_value_is_named(self) -> None:
        with pytest.raises(AssertionError) as caught:
            assert_metric(CARD, "pr_auc", at_least=0.8)
        first, header, _, line, *_ = str(caught.value).splitlines()
        assert first == "pr_auc: the lower bound 0.740 is below 0.8; the value 0.820 is not"
        assert header.split("  ")[-1] == "status"
        cells = ["all", "all", "pr_auc", "0.820", "[0.740,", "0.880]", "200", "3", "ok"]
        assert line.split() == cells

    def test_a_value_that_misses_is_said_to_miss(self) -> None:
        with pytest.raises(AssertionError, match=r"is below 0.9; the value 0.820 is, too"):
            assert_metric(CARD, "pr_auc", at_least=0.9)

    def test_the_upper_bound_decides(self) -> None:
        with pytest.raises(
            AssertionError, match=r"the upper bound 0.150 is above 0.13; the value 0.120 is not"
        ):
            assert_metric(CARD, "brier", at_most=0.13)

    def test_both_bounds_may_fail(self) -> None:
        with pytest.raises(AssertionError, match=r"lower bound .*; the upper bound "):
            assert_metric(CARD, "pr_auc", at_least=0.8, at_most=0.85)

    def test_an_absent_cell_fails_with_its_reason(self) -> None:
        with pytest.raises(AssertionError, match="f1: skipped: one class only"):
            assert_metric(CARD, "f1", at_least=0.0)

    def test_a_number_without_an_interval(self) -> None:
        with pytest.raises(
            AssertionError, match=r"the value 0.900 has no interval; pass on='value'"
        ):
            assert_metric(CARD, "bare", at_least=0.5)
        assert_metric(CARD, "bare", at_least=0.9, on="value")
        with pytest.raises(AssertionError, match=r"the value 0.900 is below 0.91"):
            assert_metric(CARD, "bare", at_least=0.91, on="value")

    def test_a_typing_error_is_no_failed_bound(self) -> None:
        with pytest.raises(MissingColumnError, match="did you mean 'pr_auc'"):
            assert_metric(CARD, "pr_acu", at_least=0.5)

    def test_what_cannot_be_asked(self) -> None:
        with pytest.raises(InvalidInputError, match="pass `at_least` or `at_most`"):
            assert_metric(CARD, "pr_auc")
        with pytest.raises(InvalidInputError, match="`at_least`"):
            assert_metric(CARD, "pr_auc", at_least=float("nan"))
        with pytest.raises(InvalidInputError, match="`on`"):
            assert_metric(CARD, "bare", at_least=0.5, on="point")  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match="`run` is a int"):
            assert_metric(3, "pr_auc", at_least=0.5)

    def test_a_slice_of_a_scorecard(self) -> None:
        card = Scorecard(dict(CARD), {"de": Scorecard({"pr_auc": cell(0.5, 0.4, 0.6)})})
        assert_metric(card, "pr_auc", at_least=0.7)  # over all
        with pytest.raises(AssertionError, match="pr_auc @ part=de: the lower bound"):
            assert_metric(card, "pr_auc", at_least=0.7, slice="de")
        with pytest.raises(AssertionError, match="pr_auc @ part=de: the lower bound"):
            assert_metric(card, "pr_auc @ part=de", at_least=0.7)

    def test_a_part_of_a_summary_is_named_by_its_column(self) -> None:
        records = Records.from_columns(
            {"correct": [1.0, 1.0, 0.0, 1.0] * 20}, slices={"language": ["de", "en"] * 40}
        )
        card = summarise(records, [mean_of("correct")], by="language")
        assert_metric(card, "correct @ language=en", at_least=0.9)
        with pytest.raises(AssertionError, match="correct @ language=de: the lower bound"):
            assert_metric(card, "correct @ language=de", at_least=0.9)
        with pytest.raises(MissingColumnError, match="did you mean 'language=de'"):
            assert_metric(card, "correct @ langage=de", at_least=0.9)


RIGHT = np.array([1, 1, 1, 0] * 40, dtype=float)


def stored(folder: Path, name: str, right: Any = RIGHT, slices: Any = ("test",)) -> Run:
    records = Records.from_columns({"correct": right})
    block = summarise(records, [mean_of("correct")]).to_dict()
    by = {
        place: {"n": len(right), "by_scorer": {"guard": block, "dead": {"error": "no memory"}}}
        for place in slices
    }
    results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": by}
    return write_run(
        folder / name,
        results=results,
        manifest={"run_id": name},
        records={(place, "guard"): records for place in slices},
    )


class TestRuns:
    @pytest.mark.parametrize("form", ["run", "path", "text", "payload", "result"])
    def test_every_form_of_a_run(self, tmp_path: Path, form: str) -> None:
        run = stored(tmp_path, "r")
        given = {
            "run": run,
            "path": run.path,
            "text": str(run.path),
            "payload": run.results,
            "result": RunResult.from_dict(run.results),
        }[form]
        assert_metric(given, "correct", at_least=0.6, scorer="guard")
        with pytest.raises(AssertionError, match="correct @ all / guard: the lower bound"):
            assert_metric(given, "correct", at_least=0.75)

    def test_several_slices_have_to_be_told_apart(self, tmp_path: Path) -> None:
        run = stored(tmp_path, "r", slices=("test", "german"))
        with pytest.raises(
            InvalidInputError,
            match=r"'correct' is ambiguous; write 'correct @ slice=test / guard' or ",
        ):
            assert_metric(run, "correct", at_least=0.5)
        assert_metric(run, "correct", at_least=0.5, slice="german")
        assert_metric(run, "correct @ slice=german / guard", at_least=0.5)
        with pytest.raises(MissingColumnError, match="there is no slice 'french'; there is 'test'"):
            assert_metric(run, "correct", at_least=0.5, slice="french")

    def test_a_scorer_that_failed_fails_with_its_reason(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="correct @ all / dead: error: no memory"):
            assert_metric(stored(tmp_path, "r"), "correct", at_least=0.5, scorer="dead")

    def test_an_altered_run_is_no_evidence(self, tmp_path: Path) -> None:
        run = stored(tmp_path, "r")
        (run.path / "results.json").write_text("{}")
        with pytest.raises(ValueError, match="has changed since the run was written"):
            assert_metric(run.path, "correct", at_least=0.5)


class TestNotWorse:
    def test_the_interval_of_the_difference_decides(self, tmp_path: Path) -> None:
        base = stored(tmp_path, "base")
        worse = RIGHT.copy()
        worse[:4] = 0.0  # three of 160 lost: −0.019, whose interval reaches beyond −0.03
        run = stored(tmp_path, "worse", worse)
        assert_not_worse(run, base, "correct", max_drop=0.1, higher_is_better=True)
        with pytest.raises(AssertionError, match=r"its lower bound is -0\.0\d+ and must be above"):
            assert_not_worse(run, base.path, "correct", max_drop=0.03, higher_is_better=True)

    def test_only_stored_runs_can_be_paired(self, tmp_path: Path) -> None:
        base = stored(tmp_path, "base")
        with pytest.raises(InvalidTypeError, match="`run` is a Scorecard that is not stored"):
            assert_not_worse(CARD, base, "pr_auc", max_drop=0.1)
        with pytest.raises(InvalidInputError, match="max_drop"):
            assert_not_worse(base, base, "correct", max_drop=-1)


class TestLeakage:
    def finding(self, severity: Any, n: int) -> LeakageFinding:
        return LeakageFinding("ExactDuplicateCheck", severity, None, {}, f"{n} copies", n, "LK001")

    def test_errors_fail_and_warnings_only_if_strict(self) -> None:
        assert_no_leakage(LeakageReport([self.finding("error", 0), self.finding("warning", 2)]))
        with pytest.raises(AssertionError, match=r"leakage: 1 findings\n(.*\n)*.*2 copies"):
            assert_no_leakage(LeakageReport([self.finding("warning", 2)]), strict=True)
        with pytest.raises(AssertionError, match=r"LK001  ExactDuplicateCheck  error +3 +3 copies"):
            assert_no_leakage(LeakageReport([self.finding("error", 3)]))

    def test_a_run_nobody_looked_at_fails(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="no check was run"):
            assert_no_leakage(stored(tmp_path, "r").path)
        with pytest.raises(
            InvalidTypeError, match="must be a LeakageReport, a run or a run's path"
        ):
            assert_no_leakage(CARD)
        with pytest.raises(InvalidInputError, match="findings are not mappings"):
            assert_no_leakage(MappingProxyType({"leakage_report": {"findings": "x"}}))

    def test_the_report_of_an_evaluation(self) -> None:
        report = {"findings": [self.finding("error", 1).to_dict()]}
        with pytest.raises(AssertionError, match="1 copies"):
            assert_no_leakage(RunResult("r", None, {}, leakage_report=report))


def test_a_failing_test_shows_the_line_and_the_table(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    run = stored(tmp_path, "r")
    pytester.makepyfile(
        f"""
        def test_good_enough(assert_metric):
            assert_metric({str(run.path)!r}, "correct", at_least=0.5)

        def test_too_much(assert_metric):
            assert_metric({str(run.path)!r}, "correct", at_least=0.74)

        def test_the_others(assert_not_worse, assert_no_leakage):
            assert_not_worse({str(run.path)!r}, {str(run.path)!r}, "correct", max_drop=0.1,
                higher_is_better=True)
        """
    )
    done = pytester.runpytest_inprocess(*LOADED, "-p", "no:randomly", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, failed=1)
    text = done.stdout.str()
    assert re.search(r"^>.*assert_metric\(.*at_least=0.74\)$", text, re.M)
    assert re.search(
        r"^E .*correct @ all / guard: the lower bound 0\.67\d is below 0.74", text, re.M
    )
    assert re.search(
        r"^E +test +all +guard +correct +0\.750 +\[0\.67\d, 0\.81\d\] +160 +0 +ok$", text, re.M
    )
    assert "assertions.py" not in text  # the toolkit's own frames are out of the way


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import " + MODULE + "; "
        "print(sorted(m.partition('.')[0] for m in set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = set(re.findall(r"'(\w+)'", done.stdout)) - set(sys.stdlib_module_names)
    assert packages == {"eval_toolkit"}


def test_an_evaluation_in_memory() -> None:
    texts = [f"text {i} of {'bad' if i % 2 else 'good'} words" for i in range(60)]
    rows = EvalSlice("test", {"text": texts, "label": [i % 2 for i in range(60)]})

    class Words:
        def predict_proba(self, X: Any) -> Any:
            return [0.9 if "bad" in text else 0.1 for text in X]

    result = evaluate({"words": Words()}, [rows], run_id="r", n_resamples=50)
    assert_metric(result, "roc_auc", at_least=0.8)
