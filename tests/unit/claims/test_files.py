"""Claims in TOML, and a run held to them with and without a baseline."""

import json

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.claims import Claim, ClaimSpec, evaluate_gate, load_claims, required_slice_gate
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records, summarise

HEAD = '[[claim]]\nname = "a"\n'
CELL = 'slice = "test"\nscorer = "guard"\nmetric = "pr_auc"\n'


@pytest.fixture
def claims(tmp_path):
    def write(text):
        path = tmp_path / "claims.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_form_is_read(claims):
    read = load_claims(
        claims(
            f"""
            {HEAD}{CELL} require = " ci_low>=0.80 "
            severity = "warning"
            description = "why"
            [[claim]]
            name = "b"
            slice = "a.b:c"
            scorer = "s.v1"
            metric = ["headline", "f1"]
            require = "value < 1e-2"
            [[claim]]
            name = "c"
            slice = "test"
            scorer = "new"
            baseline_scorer = "old"
            metric = "brier"
            non_inferior_by = 0.01
            [[claim]]
            name = "d"
            slice = "test"
            min_n = 100
            min_positive = 30
            [[claim]]
            name = "e"
            slice = "test"
            max_fpr = 0.01
            [[claim]]
            name = "f"
            no_leakage = true
            [[claim]]
            name = "g"
            no_errors = true
            """.replace("\n            ", "\n")
        )
    )
    assert [claim.form for claim in read] == [
        *("require", "require", "non_inferior_by", "size", "max_fpr", "no_leakage", "no_errors")
    ]
    assert (str(read[0].require), read[0].severity) == ("ci_low >= 0.8", "warning")
    assert (read[1].slice, read[1].metric) == ("a.b:c", ("headline", "f1"))
    assert read[2].baseline_scorer == "old"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no [[claim]]"),
        ("x = 1\n", "unknown key 'x'"),
        ("claim = 3\n", "has no [[claim]]"),
        ("claim = [3]\n", "claim 1: is 3; it must be a [[claim]] table"),
        ("[[claim]\n", "not TOML"),
        ("[[claim]]\nno_errors = true\n", "claim 1: has no name"),
        ("[[claim]]\nno_errors = true\n", 'name = "finds spam"'),
        (HEAD, 'as in require = "ci_low >= 0.8"; at = "recall@fpr=0.01"'),
        (HEAD + 'require = "value > 1"\n', 'with an address: at = "recall@fpr=0.01"'),
        (HEAD + "min_n = 5\n", 'with an address: at = "language=de"'),
        (HEAD, "claim 1 ('a'): has no condition; it needs one of require"),
        (HEAD + 'slcie = "x"\n', "unknown key 'slcie'; did you mean 'slice'?"),
        (HEAD + "zzz = 1\n", "unknown key 'zzz'; the keys are name"),
        (HEAD + 'require = "value > 1"\n', "require needs the key 'slice'"),
        (
            HEAD + 'slice = "t"\nscorer = "s"\nrequire = "value > 1"\n',
            "require needs the key 'metric'",
        ),
        (HEAD + CELL + 'require = "ci_low => 0.8"\n', "it must have the form"),
        (HEAD + 'at = "f1"\nslice = "t"\nmin_n = 3\n', "has both at and slice"),
        (HEAD + 'at = "f1 @ x"\nmin_n = 3\n', "'f1 @ x' is not a valid part"),
        (HEAD + 'at = "@ a=1"\nrequire = "value > 1"\n', "is not the address of a cell"),
        (HEAD + 'at = 3\nrequire = "value > 1"\n', "`at` is 3; it must be a non-empty string"),
        (HEAD + 'at = "f1"\nno_errors = true\n', "'at' does not apply to claims with 'no_errors'"),
        (HEAD + CELL + 'require = "ci_mid > 0.8"\n', "it must have the form"),
        (HEAD + CELL + 'require = "value > high"\n', "it must have the form"),
        (HEAD + CELL + 'require = "value > nan"\n', "it must have the form"),
        (HEAD + CELL + 'require = "value > 0.8 and more"\n', "it must have the form"),
        (HEAD + CELL + "require = 0.8\n", "it must have the form"),
        (HEAD + CELL + "non_inferior_by = 0\n", "must be a positive number"),
        (HEAD + CELL + "non_inferior_by = true\n", "must be a positive number"),
        (HEAD + CELL + "non_inferior_by = inf\n", "must be a positive number"),
        (HEAD + CELL + 'require = "value > 1"\nmin_n = 3\n', "has both require and min_n"),
        (HEAD + CELL + "non_inferior_by = 0.1\nallow_missing = 3\n", "must be true or false"),
        (
            HEAD + CELL + 'require = "value > 1"\nallow_missing = true\n',
            "'allow_missing' does not apply to claims with 'require'",
        ),
        (HEAD + CELL + "min_n = 3\n", "'scorer' does not apply to claims with 'min_n'"),
        (HEAD + 'slice = "t"\nmin_n = 2.5\n', "must be a positive integer"),
        (HEAD + 'slice = "t"\nmax_fpr = 2\n', "a rate is at most 1"),
        (HEAD + "slice = 3\nmax_fpr = 0.1\n", "`slice` is 3; it must be a non-empty string"),
        (HEAD + "no_leakage = false\n", "claims nothing"),
        (HEAD + 'no_errors = "yes"\n', "must be true or false"),
        (
            HEAD + 'no_errors = true\nslice = "t"\n',
            "'slice' does not apply to claims with 'no_errors'",
        ),
        (
            HEAD + 'no_errors = true\nseverity = "fatal"\n',
            "`severity` is 'fatal'; it must be \"err",
        ),
        (HEAD + "no_errors = true\n" + HEAD + "no_leakage = true\n", "claim 2 ('a'): another"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_file_and_claim(claims, text, message):
    path = claims(text)
    with pytest.raises(InvalidInputError) as caught:
        load_claims(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidInputError, match="there is no such file"):
        load_claims(tmp_path / "none.toml")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_claims(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InvalidInputError, match="byte 8 is not UTF-8"):
        load_claims(tmp_path / "latin.toml")


METRICS = [ms.pr_auc, ms.roc_auc, ms.brier]


def make_run(
    folder,
    name,
    *,
    noise,
    seed=1,
    n=200,
    scorer="guard",
    version="1",
    change=None,
    column=None,
    keep=lambda labels, scores: labels >= 0,
    failed=(),
):
    """A run of one scorer on one slice; the items are the same whatever the noise."""
    items = np.random.default_rng(7)
    labels = items.integers(0, 2, n)
    wobble = np.random.default_rng(seed).normal(0, noise, n)
    scores = np.clip(0.3 + 0.4 * labels + wobble, 0, 1)
    columns = {"label": labels.astype(float), "score": scores}
    if column is not None:
        columns["toxicity"] = column(labels)
    kept = np.flatnonzero(keep(labels, scores))
    n, labels = len(kept), labels[kept]
    records = Records.from_columns(
        {name: values[kept] for name, values in columns.items()},
        unit_id=[f"u{i}" for i in kept],
        content_hash=[f"h{i}" if i != change else "other" for i in kept],
        status={"score": ["error" if i in failed else "ok" for i in kept]},
    )
    specs = METRICS + ([ms.mean_of("toxicity", higher_is_better=False)] if column else [])
    card = summarise(records, specs, n_resamples=200)
    block = {**card.to_dict(), "n": n, "n_positive": int(labels.sum()), "is_single_class": False}
    part = {"n": n, "n_positive": int(labels.sum()), "by_scorer": {scorer: block}}
    results = {
        "schema_version": "v1",
        "run_id": name,
        "config": {"leakage_report": {"findings": []}},
        "by_slice": {"test": part},
    }
    manifest = {"run_id": name, "versioned_objects": {f"scorer:{scorer}": version}}
    return write_run(
        folder / name, results=results, manifest=manifest, records={("test", scorer): records}
    )


def test_claims_of_one_run(tmp_path, claims):
    run = make_run(tmp_path, "r", noise=0.1)
    path = claims(
        HEAD
        + CELL
        + 'require = "ci_low >= 0.9"\n'
        + '[[claim]]\nname = "b"\nslice = "test"\nmin_n = 1000\nseverity = "warning"\n'
        + '[[claim]]\nname = "c"\nno_leakage = true\n'
        + '[[claim]]\nname = "d"\nno_errors = true\n'
        + '[[claim]]\nname = "e"\nslice = "test"\nmax_fpr = 0.05\n'
    )
    report = evaluate_gate(run.path, path)
    assert [claim.passed for claim in report.claims] == [True, False, True, True, True]
    assert not report.has_failures()
    assert report.has_failures(include_warnings=True)
    assert report.claims[1].message == "slice 'test' has 200 rows, fewer than 1000"
    json.dumps(report.to_dict(), allow_nan=False)


def test_the_bound_decides_and_not_the_value(tmp_path):
    run = make_run(tmp_path, "r", noise=0.3)
    cell = run.results["by_slice"]["test"]["by_scorer"]["guard"]["pr_auc"]
    between = (cell["value"] + cell["ci"]["ci_low"]) / 2

    def passed(require):
        claim = load_claims_text(tmp_path, HEAD + CELL + f'require = "{require}"\n')
        return evaluate_gate(run, claim).claims[0].passed

    assert passed(f"value >= {between!r}")
    assert not passed(f"ci_low >= {between!r}")
    assert passed(f"ci_low >= {cell['ci']['ci_low']!r}")
    assert passed(f"ci_high < {cell['ci']['ci_high'] + 1e-9!r}")
    assert not passed(f"ci_high < {cell['ci']['ci_high']!r}")


def load_claims_text(folder, text):
    path = folder / "some.toml"
    path.write_text(text, encoding="utf-8")
    return load_claims(path)


def test_claims_about_names_that_the_run_does_not_have_are_refused(tmp_path):
    run = make_run(tmp_path, "r", noise=0.1)
    for cell, message in (
        (CELL.replace("pr_auc", "pr_acu"), "there is no 'pr_acu'"),
        (CELL.replace("guard", "judge"), "has no scorer 'judge'; it has 'guard'"),
        (CELL.replace('"test"', '"te.st"'), "the run has no slice 'te.st'"),
    ):
        claim = load_claims_text(tmp_path, HEAD + cell + 'require = "value > 0"\n')
        with pytest.raises(InvalidInputError, match="claim 'a': ") as refused:
            evaluate_gate(run, claim)
        assert message in str(refused.value)


def test_non_inferiority_in_the_direction_of_the_metric(tmp_path):
    old = make_run(tmp_path, "old", noise=0.2, seed=1)
    same = make_run(tmp_path, "same", noise=0.2, seed=1)
    worse = make_run(tmp_path, "worse", noise=0.45, seed=2)
    better = make_run(tmp_path, "better", noise=0.05, seed=3)
    # What 200 rows on which nothing differs leave open: z²/(n + z²) of a class, near the top of the
    # ranking more.
    for metric, margin in (("pr_auc", 0.2), ("roc_auc", 0.05), ("brier", 0.02)):
        cell = CELL.replace("pr_auc", metric)
        claim = load_claims_text(tmp_path, HEAD + cell + f"non_inferior_by = {margin}\n")
        # Of a mean, 200 differences of 0 tell nothing about the next: no interval, no proof.
        for run, passed in ((same, metric != "brier"), (worse, False), (better, True)):
            report = evaluate_gate(run, claim, baseline=old)
            assert report.claims[0].passed is passed, (metric, run)
            assert report.has_failures() is not passed
    evidence = report.claims[0].evidence["non_inferior:test:guard:brier"]
    assert evidence["delta"] < 0
    assert evidence["higher_is_better"] is False
    assert evidence["n_units"] == 200
    assert "its upper bound is" in report.claims[0].message
    unproven = evaluate_gate(same, claim, baseline=old).claims[0].message
    assert unproven == (
        "brier of 'guard' on 'test' cannot be compared: "
        "no interval: zero variance: all differences are equal"
    )


def test_a_margin_is_compared_with_the_bound_of_candidate_minus_baseline(tmp_path):
    old = make_run(tmp_path, "old", noise=0.2, seed=1)
    new = make_run(tmp_path, "new", noise=0.2, seed=2)

    def outcome(margin):
        claim = load_claims_text(tmp_path, HEAD + CELL + f"non_inferior_by = {margin!r}\n")
        return evaluate_gate(new, claim, old, n_resamples=300, seed=5).claims[0]

    bound = outcome(0.5).evidence["non_inferior:test:guard:pr_auc"]["ci_low"]
    assert bound < 0
    assert not outcome(-bound).passed  # must exceed, not equal
    assert outcome(-bound * 1.0001).passed
    assert not outcome(-bound * 0.9999).passed


def varied(labels):
    """Higher than 0.2 by 0.3 to 0.5: differences without any spread have no interval."""
    return 0.5 + 0.1 * labels + 0.02 * (np.arange(len(labels)) % 11)


def test_agreement_of_few_units_does_not_show_that_none_fails(tmp_path):
    """Units differ by little, and a failure would cost far more: 30 of them may hide it."""

    def similar(seed):
        return lambda y: (
            np.linspace(0.3, 1.0, len(y)) + 0.01 * np.random.default_rng(seed).random(len(y))
        )

    cell = CELL.replace("pr_auc", "toxicity") + "non_inferior_by = 0.02\n"
    claim = load_claims_text(tmp_path, HEAD + cell)
    for n, passed in ((30, False), (300, True)):
        old = make_run(tmp_path, f"old{n}", noise=0.1, n=n, column=similar(1))
        new = make_run(tmp_path, f"new{n}", noise=0.1, n=n, column=similar(2))
        found = evaluate_gate(new, claim, old).claims[0]
        assert found.evidence["non_inferior:test:guard:toxicity"]["ci_high"] < 0.01
        assert found.passed is passed, found.message
        assert f"failures that {n} units may not contain" in found.message


def test_the_direction_of_a_column_is_said_by_claim_or_run(tmp_path):
    old = make_run(tmp_path, "old", noise=0.1, column=lambda y: 0.2 + 0.1 * y)
    new = make_run(tmp_path, "new", noise=0.1, column=varied)
    cell = CELL.replace("pr_auc", "toxicity") + "non_inferior_by = 0.05\n"
    low = load_claims_text(tmp_path, HEAD + cell + "higher_is_better = false\n")
    high = load_claims_text(tmp_path, HEAD + cell + "higher_is_better = true\n")
    assert not evaluate_gate(new, low, old).claims[0].passed
    assert evaluate_gate(new, high, old).claims[0].passed
    silent = load_claims_text(tmp_path, HEAD + cell)
    assert not evaluate_gate(new, silent, old).claims[0].passed  # the runs store: less is better
    assert evaluate_gate(old, silent, new).claims[0].passed
    for run in (old, new):
        del run.results["by_slice"]["test"]["by_scorer"]["guard"]["toxicity"]
    assert not evaluate_gate(new, silent, old).claims[0].passed  # the name says: less is better
    for run in (old, new):
        block = run.results["by_slice"]["test"]["by_scorer"]["guard"]
        block["toxicity"] = {"value": 0.5, "status": "ok", "details": {"higher_is_better": None}}
    with pytest.raises(InvalidInputError, match="unknown whether higher or lower is better"):
        evaluate_gate(new, silent, old)
    said = {"toxicity": False}
    assert not evaluate_gate(new, silent, old, higher_is_better=said).claims[0].passed
    assert evaluate_gate(new, high, old, higher_is_better=said).claims[0].passed  # the claim wins


def test_scorers_of_other_names_are_paired_when_said(tmp_path):
    old = make_run(tmp_path, "old", noise=0.2, scorer="v1")
    new = make_run(tmp_path, "new", noise=0.2, scorer="v2")
    cell = CELL.replace("guard", "v2") + "non_inferior_by = 0.2\n"
    bare = evaluate_gate(new, load_claims_text(tmp_path, HEAD + cell), old)
    assert not bare.claims[0].passed
    assert "run 'old' has no scorer 'v2'; it has 'v1'" in bare.claims[0].message
    paired = load_claims_text(tmp_path, HEAD + cell + 'baseline_scorer = "v1"\n')
    assert evaluate_gate(new, paired, old).claims[0].passed


def test_another_version_is_refused_unless_allowed(tmp_path):
    old = make_run(tmp_path, "old", noise=0.2, version="1")
    new = make_run(tmp_path, "new", noise=0.2, version="2")
    claim = load_claims_text(tmp_path, HEAD + CELL + "non_inferior_by = 0.2\n")
    with pytest.raises(InvalidInputError, match=r"scorer:guard is 1 in A and 2 in B.*--allow"):
        evaluate_gate(new, claim, old)
    assert evaluate_gate(new, claim, old, allow_version_change=True).claims[0].passed
    size = [Claim(name="n", slice="test", min_n=1)]
    assert evaluate_gate(new, size, old).claims[0].passed  # nothing is compared


def test_a_baseline_that_is_missing_or_of_other_content(tmp_path):
    old = make_run(tmp_path, "old", noise=0.2, change=3)
    new = make_run(tmp_path, "new", noise=0.2)
    claim = load_claims_text(tmp_path, HEAD + CELL + "non_inferior_by = 0.2\n")
    with pytest.raises(InvalidInputError, match=r"claim 'a' needs a baseline run.*--baseline"):
        evaluate_gate(new, claim)
    changed = evaluate_gate(new, claim, old).claims[0]
    assert not changed.passed
    assert "unit 'u3' has a different content hash" in changed.message
    with pytest.raises(ArtifactError):
        evaluate_gate(tmp_path / "nowhere", claim)


def hard(labels, scores):
    """The rows that the scorer gets wrong."""
    return (scores >= 0.5) != labels


def test_a_run_that_lost_units_of_the_baseline_is_not_shown_to_be_no_worse(tmp_path):
    old = make_run(tmp_path, "old", noise=0.3)
    less = make_run(tmp_path, "less", noise=0.3, keep=lambda y, s: ~hard(y, s))
    n_lost = 200 - len(less.records("test", "guard"))
    assert n_lost > 10
    text = HEAD + CELL + "non_inferior_by = 0.2\n"
    outcome = evaluate_gate(less, load_claims_text(tmp_path, text), old).claims[0]
    said = (
        f"{n_lost} of the baseline's 200 units have no value in this run: {n_lost} are not in it, "
        "0 failed or were skipped"
    )
    assert not outcome.passed
    assert outcome.message == (
        f"pr_auc of 'guard' on 'test' cannot be compared: {said}; score them, or write "
        "allow_missing = true if they are omitted on purpose"
    )
    assert outcome.evidence["non_inferior:test:guard:pr_auc"]["n_only_a"] == n_lost
    strict = load_claims_text(tmp_path, text + "allow_missing = false\n")
    assert not evaluate_gate(less, strict, old).claims[0].passed
    allowed = load_claims_text(tmp_path, text + "allow_missing = true\n")
    outcome = evaluate_gate(less, allowed, old).claims[0]
    assert outcome.passed
    assert " must be above -0.2 (" in outcome.message
    assert outcome.message.endswith(f"; {said})")


def test_units_that_failed_in_the_run_alone_are_missing_too(tmp_path):
    whole = make_run(tmp_path, "whole", noise=0.3)
    holes = make_run(tmp_path, "holes", noise=0.3, failed=(3, 5, 8))
    claim = load_claims_text(tmp_path, HEAD + CELL + "non_inferior_by = 0.2\n")
    outcome = evaluate_gate(holes, claim, whole).claims[0]
    assert not outcome.passed
    assert "3 of the baseline's 200 units have no value in this run: 0 are not in it, 3 failed" in (
        outcome.message
    )
    assert evaluate_gate(whole, claim, holes).claims[0].passed  # the baseline had no value either
    assert evaluate_gate(holes, claim, holes).claims[0].passed


def test_units_that_are_new_in_the_run_are_counted(tmp_path):
    few = make_run(tmp_path, "few", noise=0.3, keep=lambda y, s: np.arange(len(y)) < 180)
    more = make_run(tmp_path, "more", noise=0.3)
    claim = load_claims_text(tmp_path, HEAD + CELL + "non_inferior_by = 0.2\n")
    outcome = evaluate_gate(more, claim, few).claims[0]
    assert outcome.passed
    assert outcome.message.endswith("; 20 units exist only in this run and are not compared)")


def test_what_evaluate_gate_takes(tmp_path):
    run = make_run(tmp_path, "r", noise=0.1)
    spec = ClaimSpec("there", [required_slice_gate("test")])
    report = evaluate_gate(run, [spec, Claim(name="n", slice="test", min_n=1)])
    assert [claim.name for claim in report.claims] == ["there", "n"]
    for bad in (spec, ["text"]):
        with pytest.raises(InvalidTypeError):
            evaluate_gate(run, bad)
    with pytest.raises(InvalidTypeError, match="`run` must be a Run"):
        evaluate_gate({}, [spec])
    with pytest.raises(InvalidInputError, match="needs a slice"):
        evaluate_gate(run, [Claim(name="n", min_n=1)])


def test_errors_anywhere_fail_no_errors(tmp_path):
    cells = {
        "error": {"value": None, "status": "error", "reason": "ValueError: x"},
        "units": {"value": 0.5, "status": "ok", "reason": "", "n_errors": 2},
    }
    for name, block, message in (
        ("a", {"error": "boom"}, "t/s failed: boom"),
        ("b", {"m": cells["error"]}, "t/s/m: ValueError: x"),
        ("c", {"m": cells["units"]}, "t/s/m: 2 units failed"),
    ):
        by_slice = {"t": {"n": 1, "n_positive": 0, "by_scorer": {"s": block}}}
        results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": by_slice}
        run = write_run(tmp_path / name, results=results, manifest={"run_id": name})
        outcome = evaluate_gate(run, [Claim(name="e", no_errors=True)]).claims[0]
        assert (outcome.passed, outcome.message) == (False, message)
