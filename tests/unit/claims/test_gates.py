"""Gates, claims and reports on results payloads."""

import json
import math

import pytest
from tests.support.each import each

from eval_toolkit.claims import (
    ClaimReport,
    ClaimResult,
    ClaimSpec,
    EvidenceGate,
    GateResult,
    evaluate_claims,
    external_diagnostic_gate,
    headline_present_gate,
    low_fpr_feasibility_gate,
    metric_threshold_gate,
    minimum_slice_size_gate,
    no_leakage_errors_gate,
    no_scorer_errors_gate,
    paired_diff_present_gate,
    required_metric_gate,
    required_scorer_gate,
    required_slice_gate,
    source_role_gate,
    strict_artifact_gate,
)
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

OK = {"value": 0.83, "status": "ok", "reason": "", "ci": {"ci_low": 0.77, "ci_high": 0.88}}
SKIPPED = {"value": None, "status": "skipped", "reason": "all 9 rows are positive"}
ERROR = {"value": None, "status": "error", "reason": "ValueError: no"}
RESULT = {
    "by_slice": {
        "test.v1:a": {
            "n": 200,
            "n_positive": 40,
            "by_scorer": {
                "guard.v2": {
                    "pr_auc": OK,
                    "recall_at_fpr_0.01": {"value": 0.4, "status": "ok", "reason": ""},
                    "roc_auc": SKIPPED,
                    "brier": ERROR,
                    "bare": 0.5,
                    "nan": math.nan,
                    "words": "high",
                    "flag": True,
                    "headline": {"max_f1": {"f1": 0.7}},
                },
                "judge": {"skipped": "costs too much", "n": 200, "scores": []},
            },
            "paired_diffs": {"b_minus_a": {"delta": 0.1}, "c_minus_a": {"skipped": "one class"}},
        }
    }
}
SLICE, SCORER = "test.v1:a", "guard.v2"


def threshold(path, op=">=", limit=0.8, **options):
    gate = metric_threshold_gate(SLICE, SCORER, path, op=op, threshold=limit, **options)
    return gate.evaluate(RESULT)


@each(
    ("path", "op", "limit", "passed"),
    [
        ("pr_auc", ">=", 0.8, True),
        ("pr_auc", ">", 0.83, False),
        ("pr_auc", "<=", 0.83, True),
        ("pr_auc", "<", 0.83, False),
        ("pr_auc", "==", 0.83, True),
        ("pr_auc.value", ">=", 0.8, True),
        ("pr_auc.ci_low", ">=", 0.8, False),
        ("pr_auc.ci.ci_low", ">=", 0.77, True),
        (["pr_auc", "ci_high"], "<", 0.9, True),
        ("recall_at_fpr_0.01", ">=", 0.4, True),
        ("recall_at_fpr_0.01.value", ">=", 0.4, True),
        ("recall@fpr=0.01", ">=", 0.4, True),
        ("recall_at_fpr=0.01.value", ">=", 0.4, True),
        (("recall_at_fpr_0.01", "value"), ">", 0.4, False),
        ("headline.max_f1.f1", ">=", 0.7, True),
        ("bare", ">=", 0.5, True),
    ],
)
def test_a_threshold_reads_values_and_bounds_through_names_with_dots(path, op, limit, passed):
    assert threshold(path, op, limit).passed is passed


@each(
    ("path", "message"),
    [
        ("roc_auc", "was skipped: all 9 rows are positive"),
        ("roc_auc.ci_low", "was skipped: all 9 rows are positive"),
        ("brier", "failed: ValueError: no"),
        ("nan", "is nan, which is not finite"),
        ("words", "is 'high', which is not a number"),
        ("flag", "is True, which is not a number"),
        ("headline", "is not a number but an object with 'max_f1'"),
        ("bare.ci_low", "0.5 is a number without an interval"),
        ("recall_at_fpr_0.01.ci_low", "the cell has no interval: none was computed"),
        ("pr_acu", "there is no 'pr_acu'; available: 'pr_auc', 'recall_at_fpr_0.01'"),
    ],
)
def test_what_is_no_number_fails_with_its_reason(path, message):
    outcome = threshold(path)
    assert not outcome.passed
    assert message in outcome.message


def test_a_stored_interval_of_a_cell_that_is_not_ok_does_not_count():
    cell = {"value": None, "status": "error", "reason": "late", "ci": {"ci_low": 0.99}}
    result = {"by_slice": {"t": {"by_scorer": {"s": {"m": cell}}}}}
    gate = metric_threshold_gate("t", "s", "m.ci_low", op=">", threshold=0)
    outcome = gate.evaluate(result)
    assert (outcome.passed, outcome.message) == (False, "m.ci_low of 's' on 't' failed: late")


def test_the_longest_key_wins_and_shorter_ones_are_tried_after_it():
    block = {"a.b": {"x": 1}, "a": {"b": {"y": 2}, "b.y": 3}}
    result = {"by_slice": {"t": {"by_scorer": {"s": block}}}}

    def at(path, value):
        return (
            metric_threshold_gate("t", "s", path, op="==", threshold=value).evaluate(result).passed
        )

    assert at("a.b.x", 1)
    assert at("a.b.y", 3)
    assert at(["a", "b", "y"], 2)


def test_a_run_in_folds_is_held_to_its_means():
    cell = {"mean": 0.8, "ci_low": 0.7, "ci_high": 0.9, "n_folds": 5}
    summary = {"test": {"s": {"pr_auc": cell, "roc_auc": {"skipped": "one fold"}}}}
    result = {"by_slice": {}, "fold_summary": summary}
    for path, passed in (("pr_auc", True), ("pr_auc.ci_low", False), ("roc_auc", False)):
        gate = metric_threshold_gate("test", "s", path, op=">=", threshold=0.75)
        assert gate.evaluate(result).passed is passed
    missing = metric_threshold_gate("x", "s", "pr_auc", op=">=", threshold=0.75)
    assert "no slice 'x'" in missing.evaluate(result).message


def test_names_of_gates():
    assert threshold("pr_auc").name == "metric_threshold:test.v1:a:guard.v2:pr_auc"
    gates = {
        "required_slice:a": required_slice_gate("a"),
        "required_scorer:a:b": required_scorer_gate("a", "b"),
        "required_metric:a:b:c.d": required_metric_gate("a", "b", ["c", "d"]),
        "minimum_slice_size:a": minimum_slice_size_gate("a"),
        "low_fpr_feasibility:a": low_fpr_feasibility_gate("a", max_fpr=0.1),
        "paired_diff_present:a:k": paired_diff_present_gate("a", "k"),
        "headline_present:headline": headline_present_gate(),
        "no_scorer_errors": no_scorer_errors_gate(),
        "no_leakage_errors": no_leakage_errors_gate(),
        "source_role:train": source_role_gate(["train"]),
        "external_diagnostic:x": external_diagnostic_gate("x"),
        "strict_artifact": strict_artifact_gate(),
    }
    assert [gate.name for gate in gates.values()] == list(gates)
    assert [gate.evaluate({}).name for gate in gates.values()] == list(gates)


def test_required_things():
    assert required_slice_gate(SLICE).evaluate(RESULT).passed
    missing = required_slice_gate("test").evaluate(RESULT)
    assert missing.message == "the run has no slice 'test'; it has 'test.v1:a'"
    assert required_scorer_gate(SLICE, SCORER).evaluate(RESULT).passed
    judge = required_scorer_gate(SLICE, "judge").evaluate(RESULT)
    assert judge.message == "scorer 'judge' on slice 'test.v1:a' was skipped: costs too much"
    assert "has no scorer 'x'" in required_scorer_gate(SLICE, "x").evaluate(RESULT).message
    assert required_metric_gate(SLICE, SCORER, "pr_auc").evaluate(RESULT).passed
    assert not required_metric_gate(SLICE, SCORER, "roc_auc").evaluate(RESULT).passed
    of_judge = required_metric_gate(SLICE, "judge", "pr_auc").evaluate(RESULT)
    assert of_judge.message.endswith("the scorer was skipped: costs too much")


def test_slice_sizes():
    gate = minimum_slice_size_gate(SLICE, min_n=200, min_positive=40, min_negative=160)
    assert gate.evaluate(RESULT).passed
    short = minimum_slice_size_gate(SLICE, min_n=201, min_negative=161).evaluate(RESULT)
    assert short.message == (
        "slice 'test.v1:a' has 200 rows, fewer than 201 and 160 negative rows, fewer than 161"
    )
    assert not minimum_slice_size_gate("t", min_n=1).evaluate({"by_slice": {"t": {}}}).passed


def test_a_low_false_positive_rate_needs_negatives():
    """Wilson's upper bound of 0 of n is z² / (n + z²); at 1 % that is n = 99 z² = 380.3."""
    for n_negative, passed in ((380, False), (381, True)):
        result = {"by_slice": {"t": {"n": n_negative + 5, "n_positive": 5}}}
        assert low_fpr_feasibility_gate("t", max_fpr=0.01).evaluate(result).passed is passed
    z2 = 1.959963984540054**2
    outcome = low_fpr_feasibility_gate("t", max_fpr=0.01).evaluate(result)
    assert outcome.evidence["lowest_bound"] == pytest.approx(z2 / (381 + z2), rel=1e-12)
    none = {"by_slice": {"t": {"n": 5, "n_positive": 5}}}
    assert "no negative rows" in low_fpr_feasibility_gate("t", max_fpr=0.5).evaluate(none).message


def test_paired_differences():
    assert paired_diff_present_gate(SLICE, "b_minus_a").evaluate(RESULT).passed
    assert "one class" in paired_diff_present_gate(SLICE, "c_minus_a").evaluate(RESULT).message
    assert not paired_diff_present_gate(SLICE, "x").evaluate(RESULT).passed


def test_a_headline_of_the_run_or_of_every_scorer():
    assert headline_present_gate().evaluate({"headline": {"f1": 1}}).passed
    assert headline_present_gate("headline.max_f1").evaluate(RESULT).passed  # skipped: none needed
    missing = headline_present_gate("headline.min").evaluate(RESULT)
    assert missing.message == "there is no headline.min in test.v1:a/guard.v2"
    assert not headline_present_gate().evaluate({}).passed


def test_scorer_errors_are_found_in_slices_parts_and_folds():
    bad = {"by_scorer": {"s": {"error": "boom"}}}
    assert no_scorer_errors_gate().evaluate(RESULT).passed
    for payload, where in (
        ({"by_slice": {"t": bad}}, "t/s"),
        ({"by_slice": {"t": {"parts": {"language=de": bad}}}}, "t, language=de/s"),
        ({"by_slice": {"t": {"strata": {"language=de": bad}}}}, "t, language=de/s"),
        ({"by_fold": {"seed=42/fold=0": {"by_slice": {"t": bad}}}}, "t, fold=0/s"),
    ):
        outcome = no_scorer_errors_gate().evaluate(payload)
        assert outcome.message == f"{where} failed: boom"


def finding(severity, n_affected):
    return {"check_name": "C", "severity": severity, "n_affected": n_affected}


@pytest.mark.parametrize(
    ("findings", "passed"),
    [
        ([], True),
        ([finding("error", 0)], True),
        ([finding("warning", 9)], True),
        ([finding("error", 1)], False),
        ([finding("error", 0), finding("error", 2)], False),
    ],
)
def test_leakage_errors_count_when_they_affect_rows(findings, passed):
    report = {"findings": findings}
    gate = no_leakage_errors_gate()
    assert gate.evaluate({"config": {"leakage_report": report}}).passed is passed
    assert gate.evaluate({}, {"leakage_report": report}).passed is passed
    assert gate.evaluate({"config": {"leakage_report": {"fold 0": report}}}).passed is passed


def test_the_leakage_gate_agrees_with_the_report():
    leakage = pytest.importorskip("eval_toolkit.leakage")
    for severity in ("error", "warning"):
        for n_affected in (0, 3):
            found = leakage.LeakageFinding(
                check_name="C",
                severity=severity,
                drop_indices={},
                evidence={},
                message="",
                n_affected=n_affected,
            )
            report = leakage.LeakageReport([found])
            result = {"config": {"leakage_report": report.to_dict()}}
            assert no_leakage_errors_gate().evaluate(result).passed is not report.has_errors()


def test_no_leakage_report_is_no_evidence():
    outcome = no_leakage_errors_gate().evaluate({"config": {}})
    assert not outcome.passed
    assert outcome.message.startswith("no leakage report: no check was run or recorded")


def test_source_roles():
    manifest = {"source_roles": [{"source": "a", "role": "train"}]}
    assert source_role_gate(["train"]).evaluate({}, manifest).passed
    assert not source_role_gate(["train", "locked_eval"]).evaluate({}, manifest).passed
    assert not source_role_gate(["train"]).evaluate({}).passed
    with pytest.raises(InvalidInputError, match="at least one role"):
        source_role_gate([])
    with pytest.raises(InvalidTypeError, match=r"write \['train'\]"):
        source_role_gate("train")


def test_external_diagnostics_in_result_then_manifest():
    gate = external_diagnostic_gate("drift.psi", op="<", threshold=0.1)
    assert gate.evaluate({"drift": {"psi": 0.05}}, {"drift": {"psi": 0.5}}).passed
    assert not gate.evaluate({}, {"drift": {"psi": 0.5}}).passed
    assert not gate.evaluate({}, {}).passed
    assert external_diagnostic_gate("note").evaluate({}, {"note": "seen"}).passed
    assert not external_diagnostic_gate("cell").evaluate({"cell": SKIPPED}).passed
    with pytest.raises(InvalidInputError, match="both `op` and `threshold`"):
        external_diagnostic_gate("x", op="<")


def test_numbers_that_json_cannot_write_are_listed():
    payload = {"by_slice": {"t": {"x": [1.0, math.inf]}}}
    outcome = strict_artifact_gate().evaluate(payload, {"a": math.nan})
    assert outcome.evidence["paths"] == ["result.by_slice.t.x[1]", "manifest.a"]
    assert strict_artifact_gate().evaluate({"a": [1, "x", None, 2.5]}).passed


def test_bad_gates_are_refused_when_made():
    for make, message in (
        (lambda: metric_threshold_gate("a", "b", "c", op="!=", threshold=1), "`op` is '!='"),
        (lambda: metric_threshold_gate("a", "b", "c", op="<", threshold=math.nan), "finite"),
        (
            lambda: metric_threshold_gate("a", "b", [], op="<", threshold=1),
            "a path must be a non-empty",
        ),
        (lambda: required_slice_gate(""), "non-empty"),
        (lambda: minimum_slice_size_gate("a", min_n=-1), "at least 0"),
        (lambda: low_fpr_feasibility_gate("a", max_fpr=0), "max_fpr"),
        (lambda: required_slice_gate("a", severity="fatal"), "`severity` is 'fatal'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make()


@pytest.mark.parametrize(
    "error", [KeyError("k"), ValueError("v"), TypeError("t"), RuntimeError("r"), IndexError("i")]
)
def test_a_check_that_cannot_be_made_fails(error):
    def check(result, manifest):
        raise error

    outcome = EvidenceGate("g", check, severity="warning").evaluate({})
    assert (outcome.passed, outcome.severity) == (False, "warning")
    assert outcome.message == f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), OSError(), AssertionError()])
def test_what_is_no_evidence_propagates(error):
    def check(result, manifest):
        raise error

    with pytest.raises(type(error)):
        EvidenceGate("g", check).evaluate({})


def test_a_check_must_return_a_result():
    assert "must return a GateResult" in EvidenceGate("g", lambda r, m: True).evaluate({}).message


def test_specs_are_checked():
    gate = required_slice_gate("a")
    assert ClaimSpec("c", [gate]).gates == (gate,)
    for make in (
        lambda: ClaimSpec("", [gate]),
        lambda: ClaimSpec("c", []),
        lambda: ClaimSpec("c", gate),
        lambda: ClaimSpec("c", ["gate"]),
        lambda: evaluate_claims([], [ClaimSpec("c", [gate])]),
        lambda: evaluate_claims({}, [gate]),
        lambda: evaluate_claims({}, ClaimSpec("c", [gate])),
        lambda: evaluate_claims({}, [ClaimSpec("c", [gate])] * 2),
    ):
        with pytest.raises(InvalidInputError):
            make()


def test_every_gate_of_every_claim_is_evaluated():
    class Result:
        def to_dict(self):
            return RESULT

    seen = []

    def note(name, passed, severity="error"):
        def check(result, manifest):
            seen.append((name, result is RESULT, manifest))
            return GateResult(name, passed, severity, f"{name} says", {"x": math.nan})

        return EvidenceGate(name, check)

    specs = [
        ClaimSpec("one", [note("a", False), note("b", True)]),
        ClaimSpec("two", [note("c", True), note("d", False, "warning")], "diagnostic", "why"),
    ]
    report = evaluate_claims(Result(), specs, manifest={"m": 1})
    assert seen == [(name, True, {"m": 1}) for name in "abcd"]
    assert [claim.passed for claim in report.claims] == [False, False]
    assert [claim.severity for claim in report.claims] == ["error", "warning"]
    assert [claim.message for claim in report.claims] == ["a says", "d says"]
    assert report.has_failures()
    payload = report.to_dict()
    assert list(payload) == ["claims", "has_failures"]
    json.dumps(payload, allow_nan=False)
    assert payload["claims"][1]["mode"] == "diagnostic"
    assert payload["claims"][0]["gates"][0]["evidence"] == {"x": None}


class TestSeverityOfAGate:
    """A gate that is said to be a warning gives no error, whatever its check returns."""

    def test_the_gate_decides(self):
        gate = EvidenceGate("g", lambda r, m: GateResult("g", False), severity="warning")
        assert gate.evaluate({}).severity == "warning"
        report = evaluate_claims({}, [ClaimSpec("c", [gate])])
        assert not report.has_failures()
        assert report.has_failures(include_warnings=True)

    def test_the_rest_of_the_result_is_the_checks(self):
        told = GateResult("g", False, "error", "too few", {"n": 3})
        found = EvidenceGate("g", lambda r, m: told, severity="warning").evaluate({})
        assert found == GateResult("g", False, "warning", "too few", {"n": 3})

    def test_a_check_may_be_milder_than_its_gate(self):
        gate = EvidenceGate("g", lambda r, m: GateResult("g", False, "warning"))
        assert gate.evaluate({}).severity == "warning"


class TestClaimsByName:
    FAILED = GateResult("g", False)

    def test_a_mapping_of_results(self):
        results = {"c": ClaimResult("c", (self.FAILED,)), "d": ClaimResult("d", ())}
        report = ClaimReport(claims=results)
        assert report == ClaimReport(list(results.values()))
        assert report.has_failures()
        assert [row["claim"] for row in report.rows()] == ["c", "d"]
        json.dumps(report.to_dict())

    def test_a_mapping_of_gates(self):
        report = ClaimReport(claims={"c": [self.FAILED, GateResult("h", True)]})
        assert report.claims == (ClaimResult("c", (self.FAILED, GateResult("h", True))),)

    @pytest.mark.parametrize(
        ("claims", "said"),
        [
            ({"x": ClaimResult("c", ())}, r"claims\['x'\] has the name 'c'"),
            ({"x": "c"}, r"claims\['x'\] is 'c'; it must be a ClaimResult"),
            ({"x": []}, r"claims\['x'\] is \[\]; it must be"),
            ({"x": [True]}, r"claims\['x'\] is \[True\]; it must be"),
            (["c"], r"claims\[0\] is 'c'; it must be a ClaimResult"),
            (ClaimResult("c", ()), "`claims` is .*; it must be a list or a mapping by name"),
            (5, "`claims` is 5; it must be a list"),
        ],
    )
    def test_what_is_no_claim_is_refused(self, claims, said):
        with pytest.raises(InvalidInputError, match=said):
            ClaimReport(claims)


def test_warnings_fail_a_report_only_when_asked():
    report = ClaimReport([ClaimResult("c", (GateResult("g", False, "warning"),))])
    assert not report.has_failures()
    assert report.has_failures(include_warnings=True)
    assert not ClaimReport(()).has_failures(include_warnings=True)
