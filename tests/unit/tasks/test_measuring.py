"""From answers to records and cells: nothing is lost, and no failure reaches a neighbour."""

import json
import math

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.artifacts import validate_payload
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ChoiceAccuracy, ColumnInfo, ExactMatch, Grade, TokenF1
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import Completion, ErrorInfo, RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.scorecards import Records, Scorecard, summarise
from eval_toolkit.tasks.measuring import build_response, grader_columns, measure, with_reply
from eval_toolkit.tasks.scorecards import task_metrics, task_scorecard
from eval_toolkit.tasks.types import NO_SUBJECT, Sample


class Plain:
    """What `measure` needs of a task."""

    def post_process_generated_completion(self, text, sample=None):
        if "explode" in text:
            raise RuntimeError("cannot read\nthat")
        return text.strip()

    def graders(self):
        return [ExactMatch()]


def sample(unit, truth="yes", subject=NO_SUBJECT, group=None):
    turn = Message(Role.USER, f"question {unit}")
    return Sample(unit, subject, [turn], truth, content_hash=f"hash of {unit}", group=group)


def said(one, text, attempt=1):
    return JobResult(Job(one.id, attempt, GenerateRequest(one.messages)), RawCompletion(text))


def failed(one, attempt=1, message="no answer within 60 s"):
    job = Job(one.id, attempt, GenerateRequest(one.messages))
    return JobResult(job, error=ErrorInfo("timeout", message))


def column(records, name):
    return list(zip(records.columns[name].tolist(), records.status[name].tolist(), strict=True))


def test_every_sample_has_its_line_whatever_happened_to_it():
    asked = [sample(unit) for unit in "abcde"]
    a, b, c, d, _ = asked
    outcomes = [said(c, "explode"), said(a, " yes "), failed(b), said(d, "no")]  # e was not asked
    records = measure(Plain(), asked, outcomes)
    assert records.unit_id.tolist() == list("abcde")
    assert records.status["exact_match"].tolist() == ["ok", "error", "error", "ok", "error"]
    assert records.reason["exact_match"].tolist() == [
        "",
        "timeout: no answer within 60 s",
        "post-processing failed: RuntimeError: cannot read that",
        "",
        "the model was not queried",
    ]
    assert records.columns["exact_match"][[0, 3]].tolist() == [1.0, 0.0]
    assert records.content_hash[0] == "hash of a"
    assert records.slices == {}


class Broken:
    name = "broken"
    version = "1"

    def __init__(self, value):
        self.value = value

    def grade(self, response):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (KeyError("gold"), "broken failed: KeyError: 'gold'"),
        (ValueError("two\nlines"), "broken failed: ValueError: two lines"),
        (
            {"broken": math.nan},
            "broken failed: InvalidInputError: `grade` is nan; it must be finite",
        ),
        ({"broken": "1.0"}, "broken failed: InvalidTypeError: `grade` must be a number, got '1.0'"),
        (3.0, "broken failed: AttributeError: 'float' object has no attribute 'items'"),
        ({"broken": Grade.error("a judge was silent")}, "a judge was silent"),
    ],
)
def test_a_failing_grader_fails_in_its_own_column_only(value, reason):
    one = sample("a")
    records = measure(Plain(), [one], [said(one, "yes")], graders=[Broken(value), ExactMatch()])
    assert column(records, "broken") == [(0.0, "error")]
    assert records.reason["broken"].tolist() == [reason]
    assert column(records, "exact_match") == [(1.0, "ok")]


class Bounded(Broken):
    name = "bounded"

    def __init__(self, values, **info):
        self.values, self.info = values, ColumnInfo(**info)

    def columns(self):
        return {"bounded": self.info, "other": ColumnInfo()}

    def grade(self, response):
        return {"bounded": self.values[response.id], "other": 1.0}


def test_a_grade_outside_its_bounds_is_an_error_of_that_sample_alone():
    asked = [sample(unit) for unit in "abcd"]
    answers = [said(one, "yes") for one in asked]
    values = {"a": 1.0, "b": 5.0, "c": Grade(-0.5), "d": 1.0 + 1e-12}
    records = measure(Plain(), asked, answers, graders=[Bounded(values, bounds=(0.0, 1.0))])
    assert column(records, "bounded") == [(1.0, "ok"), (0.0, "error"), (0.0, "error"), (1.0, "ok")]
    assert records.reason["bounded"].tolist() == [
        "",
        "the grade 'bounded' is 5; it must lie between 0 and 1",
        "the grade 'bounded' is -0.5; it must lie between 0 and 1",
        "",
    ]
    assert records.status["other"].tolist() == ["ok"] * 4


def test_a_grade_between_right_and_wrong_is_an_error_of_that_sample_alone():
    asked = [sample(unit) for unit in "ab"]
    answers = [said(one, "yes", attempt) for one in asked for attempt in (1, 2)]
    grader = Bounded({"a": 1.0, "b": 0.9}, bounds=(0.0, 1.0), binary=True)
    records = measure(Plain(), asked, answers, graders=[grader])
    assert records.status["bounded"].tolist() == ["ok", "ok", "error", "error"]
    assert records.reason["bounded"][2] == "the grade 'bounded' is 0.9; it must be 0 or 1"
    card = task_scorecard(records, task_metrics(grader_columns([grader]), pass_at=[2]))
    assert card["bounded_pass@2"].value == 1.0


def test_half_a_surrogate_pair_in_a_reason_can_be_stored(tmp_path):
    from eval_toolkit.runs import write_run

    asked = [sample(unit) for unit in "abcd"]
    a, b, c, d = asked
    outcomes = [
        failed(a, message="lone \ud800 surrogate"),
        said(b, "explode"),
        said(c, "yes"),
        said(d, "yes"),
    ]

    class Quoting(Plain):
        def post_process_generated_completion(self, text, sample=None):
            if "explode" in text:
                raise RuntimeError("it said \udc00")
            return text

    class Both(Broken):
        def grade(self, response):
            if response.id == "c":
                raise ValueError("\ud83d")
            return {"broken": Grade.error("half \ud83d")}

    records = measure(Quoting(), asked, outcomes, graders=[Both(None), ExactMatch()])
    assert records.reason["broken"].tolist() == [
        "timeout: lone \ufffd surrogate",
        "post-processing failed: RuntimeError: it said \ufffd",
        "broken failed: ValueError: \ufffd",
        "half \ufffd",
    ]
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
    write_run(
        tmp_path / "r", results=results, manifest={"run_id": "r"}, records={("t", "m"): records}
    )


def test_numbers_of_any_type_are_numbers():
    one = sample("a")
    for value in (True, 1, np.float32(1.0), np.int64(1)):
        records = measure(Plain(), [one], [said(one, "yes")], graders=[Broken({"broken": value})])
        assert column(records, "broken") == [(1.0, "ok")]


class Sometimes:
    name = "sometimes"
    version = "1"

    def grade(self, response):
        more = {"surprise": 2.0} if response.id == "b" else {}
        return {"sometimes": 1.0, **more}


def test_a_column_that_comes_late_is_skipped_where_it_was_not_given():
    asked = [sample(unit) for unit in "abc"]
    records = measure(Plain(), asked, [said(one, "") for one in asked], graders=[Sometimes()])
    assert column(records, "surprise") == [(0.0, "skipped"), (2.0, "ok"), (0.0, "skipped")]
    assert records.reason["surprise"][0] == "the grader returned no value"


class LeavesOut(Sometimes):
    """Announces two columns and gives one of them now and then."""

    def columns(self):
        return {"sometimes": ColumnInfo(), "surprise": ColumnInfo()}


def test_a_column_that_was_announced_and_not_given_is_an_error():
    """It stays in the denominator: b alone has the number, a and c count as errors."""
    asked = [sample(unit) for unit in "abc"]
    records = measure(Plain(), asked, [said(one, "") for one in asked], graders=[LeavesOut()])
    assert column(records, "surprise") == [(0.0, "error"), (2.0, "ok"), (0.0, "error")]
    assert records.reason["surprise"][0] == "sometimes returned no value"


def test_two_graders_cannot_fill_one_column():
    with pytest.raises(InvalidInputError, match="'exact_match' and 'exact_match' both define"):
        grader_columns([ExactMatch(), ExactMatch(ignore_case=True)])
    columns = grader_columns([ExactMatch(), ExactMatch(ignore_case=True, name="loose")])
    assert list(columns) == ["exact_match", "loose"]
    with pytest.raises(InvalidInputError, match="no graders"):
        grader_columns([])
    with pytest.raises(InvalidInputError, match="pass at least one sample"):
        measure(Plain(), [], [])


def test_attempts_are_lines_of_their_own():
    a, b = sample("a"), sample("b")
    outcomes = [said(a, "yes", 1), said(a, "no", 2), failed(b, 1), said(b, "yes", 2)]
    records = measure(Plain(), [a, b], outcomes)
    assert records.unit_id.tolist() == ["a", "a", "b", "b"]
    assert records.attempt.tolist() == [1, 2, 1, 2]
    assert column(records, "exact_match") == [(1.0, "ok"), (0.0, "ok"), (0.0, "error"), (1.0, "ok")]


def test_groups_and_subjects_are_kept():
    asked = [
        sample("a", group="passage 1", subject="x"),
        sample("b", group="passage 1", subject="y"),
    ]
    records = measure(Plain(), asked, [said(one, "yes") for one in asked])
    assert records.group.tolist() == ["passage 1", "passage 1"]
    assert records.slices["subject"].tolist() == ["x", "y"]


def test_what_a_grader_reads():
    turns = [Message(Role.USER, "Capital of Italy?"), Message(Role.ASSISTANT, "Answer:")]
    one = Sample("q", "geo", turns, ["Rome", "Roma"], context={"note": 1})
    raw = RawCompletion(" Rome", prompt_tokens=9, completion_tokens=2, finish_reason="stop")
    response = build_response(Plain(), one, JobResult(Job("q", 2, GenerateRequest(turns)), raw))
    assert isinstance(response, Completion)
    assert (response.completion, response.raw_completion) == ("Rome", " Rome")
    assert response.messages[-1].content == "Answer: Rome"
    assert len(response.messages) == 2
    assert response.ground_truth_list == ["Rome", "Roma"]
    assert (response.attempt, response.subject, response.context) == (2, "geo", {"note": 1})
    assert with_reply(turns[:1], "Rome")[-1] == Message(Role.ASSISTANT, "Rome")


def test_the_chosen_option_is_kept_in_the_records():
    one = Sample("q", NO_SUBJECT, [Message(Role.USER, "?")], " b", (" a", " b"))
    job = Job("q", 1, LoglikelihoodRequest("?", (" a", " b")))
    outcome = JobResult(job, RawLoglikelihood([-2.0, -0.5]))  # the choices are the request's
    records = measure(Plain(), [one], [outcome], graders=[ChoiceAccuracy()])
    assert records.columns["choice"].tolist() == [1.0]
    assert records.columns["margin"].tolist() == [1.5]
    names = [spec.name for spec in task_metrics(grader_columns([ChoiceAccuracy()]))]
    assert names == ["accuracy"]  # stored, not averaged


# --- cells --------------------------------------------------------------------------------------


def records_of(values, status=None, subject=None, unit_id=None):
    n = len(values)
    return Records.from_columns(
        {"right": values},
        unit_id=unit_id or [f"u{i:02d}" for i in range(n)],
        slices={"subject": subject} if subject else None,
        status={"right": status} if status else None,
    )


RIGHT = {"right": ColumnInfo(bounds=(0.0, 1.0), binary=True)}


def test_failed_attempts_are_shown_under_every_policy():
    # 1, 0, 1 and two errors: 2/3 without them, 2/5 as zero and at worst, 4/5 at best.
    records = records_of([1, 0, 1, None, None], ["ok", "ok", "ok", "error", "error"])
    cell = task_scorecard(records, task_metrics(RIGHT))["right"]
    assert cell.value == pytest.approx(2 / 3)
    assert cell.n_errors == 2
    told = {name: cell.details[name] for name in ("exclude", "as_zero", "worst", "best")}
    assert told == pytest.approx({"exclude": 2 / 3, "as_zero": 0.4, "worst": 0.4, "best": 0.8})
    assert cell.details["error_rate"] == 0.4
    as_zero = task_scorecard(records, task_metrics(RIGHT), on_error="as_zero")["right"]
    assert as_zero.value == pytest.approx(0.4)
    with pytest.raises(InvalidInputError, match="on_error is 'fail'"):
        task_scorecard(records, task_metrics(RIGHT), on_error="fail")


def test_without_errors_there_is_nothing_to_tell():
    cell = task_scorecard(records_of([1, 0, 1]), task_metrics(RIGHT))["right"]
    assert not {"exclude", "as_zero", "error_rate"} & set(cell.details)


def test_metrics_have_the_direction_of_their_column():
    for up in (True, False, None):
        columns = {"said": ColumnInfo(higher_is_better=up, bounds=(0.0, 1.0), binary=True)}
        specs = task_metrics(columns, pass_at=[2], pass_hat=[2])
        assert [spec.name for spec in specs] == ["said", "said_pass@2", "said_pass^2"]
        assert [spec.higher_is_better for spec in specs] == [up] * 3


def test_a_grader_that_says_nothing_goes_by_its_name():
    class Silent:
        def __init__(self, name):
            self.name, self.version = name, "1"

        def grade(self, response):
            return {self.name: 1.0}

    found = {name: grader_columns([Silent(name)])[name] for name in ("jailbroken", "zing")}
    assert {name: info.higher_is_better for name, info in found.items()} == {
        "jailbroken": False,
        "zing": True,
    }


def test_bounds_follow_the_direction_and_may_be_missing():
    columns = {"bits": ColumnInfo(higher_is_better=False, bounds=(0.0, math.inf))}
    records = Records.from_columns(
        {"bits": [2.0, None]}, unit_id=["a", "b"], status={"bits": ["ok", "error"]}
    )
    details = task_scorecard(records, task_metrics(columns))["bits"].details
    assert details["best"] == 1.0  # (2 + 0) / 2
    assert details["worst"] is None  # there is no largest number of bits
    assert details["as_zero"] is None  # none is the best there is


@pytest.mark.parametrize("subject", [None, ["x", "x", "y", "y"]])
def test_a_failure_never_looks_good_as_zero(subject):
    # Less is better: 0.2, 0.4 and two failures, which count as the largest value where there is one.
    status = ["ok", "error", "ok", "error"]
    records = records_of([0.2, None, 0.4, None], status, subject=subject)
    wrong = {"right": ColumnInfo(higher_is_better=False, bounds=(0.0, 1.0))}
    card = task_scorecard(records, task_metrics(wrong), on_error="as_zero")
    for cell in card.values():
        assert cell.value == pytest.approx((0.2 + 1.0 + 0.4 + 1.0) / 4)
        assert cell.details["as_zero"] == cell.details["worst"] == pytest.approx(cell.value)
    bits = {"right": ColumnInfo(higher_is_better=False, bounds=(0.0, math.inf))}
    card = task_scorecard(records, task_metrics(bits), on_error="as_zero")
    for cell in [*card.values(), *(part["right"] for part in card.slices.values())]:
        assert (cell.status, cell.value, cell.ci) == ("skipped", None, None)
        assert "as_zero" in cell.reason
        assert "right" in cell.reason
        assert cell.n_errors > 0
    # A log-likelihood is at most 0, which would be the best there is.
    nats = {"right": ColumnInfo(bounds=(-math.inf, 0.0))}
    assert task_scorecard(records, task_metrics(nats), on_error="as_zero")["right"].value is None


def test_as_zero_without_failures_is_the_plain_mean():
    bits = {"right": ColumnInfo(higher_is_better=False, bounds=(0.0, math.inf))}
    card = task_scorecard(records_of([0.2, 0.4]), task_metrics(bits), on_error="as_zero")
    assert card["right"].value == pytest.approx(0.3)


def test_a_subject_with_only_errors_keeps_its_row():
    records = records_of(
        [1, 1, None, None], ["ok", "ok", "error", "error"], subject=["a", "a", "b", "b"]
    )
    card = task_scorecard(records, task_metrics(RIGHT))
    lost = card.slices["b"]["right"]
    assert (lost.value, lost.status, lost.n_errors) == (None, "error", 2)
    assert lost.details["as_zero"] == 0.0
    assert lost.details["exclude"] is None
    macro = card["right_macro"]
    assert "1 of 2 parts have no value" in macro.reason
    assert macro.details["as_zero"] == 0.5
    assert macro.details["error_rate"] == 0.5
    payload = card_entry("m", records, card, by="subject")
    assert payload["n"] == 4
    assert payload["parts"]["subject=b"]["by_scorer"]["m"]["right"]["n_errors"] == 2


def test_attempts_within_units_under_policies():
    # a: 1 and an error; b: 0 and 1. Without the error (1 + 0.5)/2; as zero (0.5 + 0.5)/2;
    # at best (1 + 0.5)/2. pass@2 needs two attempts: without the error only b has them.
    records = records_of([1, None, 0, 1], ["ok", "error", "ok", "ok"], unit_id=["a", "a", "b", "b"])
    card = task_scorecard(records, task_metrics(RIGHT, pass_at=[2], pass_hat=[2]))
    assert card["right"].details["exclude"] == 0.75
    assert card["right"].details["as_zero"] == 0.5
    assert card["right"].details["best"] == 0.75
    passed = card["right_pass@2"]
    assert (passed.value, passed.details["exclude"], passed.details["as_zero"]) == (1.0, 1.0, 1.0)
    every = card["right_pass^2"]
    assert (every.value, every.details["as_zero"], every.details["best"]) == (0.0, 0.0, 0.5)


def test_policies_agree_with_the_engine():
    """`exclude` and `as_zero` are what `summarise` gives under the same names."""
    rng = np.random.default_rng(3)
    values, status = rng.integers(0, 2, 60).tolist(), rng.choice(["ok", "ok", "error"], 60).tolist()
    subject = rng.choice(["x", "y", "z"], 20).repeat(3).tolist()
    records = records_of(values, status, subject=subject, unit_id=[f"u{i // 3}" for i in range(60)])
    metrics = task_metrics(RIGHT, pass_at=[2])
    card = task_scorecard(records, metrics)
    for policy in ("exclude", "as_zero"):
        expected = summarise(records, metrics, by="subject", macro=True, on_error=policy)
        for name, cell in expected.items():
            assert card[name].details[policy] == pytest.approx(cell.value, abs=1e-12)
        for part, inside in expected.slices.items():
            for name, cell in inside.items():
                if cell.n_errors:
                    found = card.slices[part][name].details[policy]
                    assert found == pytest.approx(cell.value, abs=1e-12)


def test_pass_at_k_is_for_right_or_wrong():
    columns = grader_columns([ExactMatch(), TokenF1()])
    names = [spec.name for spec in task_metrics(columns, pass_at=[1, 4])]
    assert names == ["exact_match", "exact_match_pass@1", "exact_match_pass@4", "f1"]
    with pytest.raises(InvalidInputError, match="needs a binary column; the columns are f1"):
        task_metrics(grader_columns([TokenF1()]), pass_at=[2])


def test_results_keep_to_the_schema_and_to_strict_json():
    records = records_of([1, 0, None, 1], ["ok", "ok", "error", "ok"], subject=["a", "a", "b", "b"])
    card = task_scorecard(records, task_metrics(RIGHT, pass_at=[1]))
    payload = {
        "schema_version": "v1",
        "run_id": "r",
        "config": {},
        "by_slice": {"quiz": card_entry("m", records, card, by="subject")},
    }
    json.dumps(payload, allow_nan=False)
    validate_payload(payload, "results.v1")


def test_rows_and_tasks_with_equal_values_have_equal_estimates():
    """The same 0/1 values, once as scores of rows and once as a task's accuracy."""
    rng = np.random.default_rng(11)
    values = rng.integers(0, 2, 40)
    asked = [sample(f"u{i:02d}", truth="yes") for i in range(40)]
    answers = [
        said(one, "yes" if value else "no") for one, value in zip(asked, values, strict=True)
    ]
    of_task = task_scorecard(
        measure(Plain(), asked, answers), task_metrics(grader_columns([ExactMatch()]))
    )["exact_match"]
    of_rows = summarise(
        Records.from_rows(
            np.ones(40), values.astype(float), unit_id=[f"u{i:02d}" for i in range(40)]
        ),
        [ms.mean_of("score")],
    )["score"]
    assert (of_task.value, of_task.ci.ci_low, of_task.ci.ci_high) == (
        of_rows.value,
        of_rows.ci.ci_low,
        of_rows.ci.ci_high,
    )
    assert of_task.n_units == of_rows.n_units


def test_macro_standard_error_of_25_subjects_of_100_coin_flips():
    # By hand: each subject's mean has the variance 0.25/99 (of exactly 50 heads of 100), so the
    # mean of 25 of them has the standard error sqrt(25 · 0.25/99)/25 = 0.01005.
    values = [0, 1] * 50 * 25
    subject = [f"s{i:02d}" for i in range(25) for _ in range(100)]
    ids = [f"u{i:04d}" for i in range(2500)]
    card = task_scorecard(records_of(values, subject=subject, unit_id=ids), task_metrics(RIGHT))
    assert card["right_macro"].details["standard_error"] == pytest.approx(0.010, abs=1e-4)
    assert card["right_macro"].n_units == 2500


class TestBoundsInAnyCase:
    """What holds whatever failed attempts would have been is never narrower than what is shown."""

    @staticmethod
    def card(subjects: list[str] | None = None) -> Scorecard:
        n = 20
        values: list[float | None] = [1.0] * (3 * n)
        values[7] = None
        status = ["error" if value is None else "ok" for value in values]
        records = Records.from_columns(
            {"right": values},
            unit_id=[f"u{i:02d}" for i in range(n) for _ in range(3)],
            attempt=[1, 2, 3] * n,
            status={"right": status},
            slices={} if subjects is None else {"subject": subjects},
        )
        return task_scorecard(records, [ms.mean_of("right", bounds=(0.0, 1.0))])

    def test_of_several_attempts(self) -> None:
        cell = self.card()["right"]
        low, high = cell.details["bounds_ci"]
        assert low <= cell.ci.ci_low
        assert high >= cell.ci.ci_high

    def test_of_the_mean_over_subjects(self) -> None:
        card = self.card(["a"] * 30 + ["b"] * 30)
        for cell in (card["right"], card["right_macro"], card.slices["a"]["right"]):
            low, high = cell.details["bounds_ci"]
            assert low <= cell.details["worst"]
            assert high >= cell.details["best"]
            assert low < 0.95
