import json
from dataclasses import replace

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.inference.sequences import confidence_sequence
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.runner import Job, run_jobs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records, summarise
from eval_toolkit.tasks import BaseTask, Sample, plan_jobs
from eval_toolkit.tasks.measuring import measure
from eval_toolkit.tasks.scorecards import task_scorecard
from eval_toolkit.tasks.sequential_draws import DrawnUnits, in_drawn_order, known_values, looks
from eval_toolkit.tasks.stopped_cells import stopped_card, stopped_cell
from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth
from eval_toolkit.tasks.stopping_watch import ask_until

RIGHT = ms.mean_of("right", bounds=(0.0, 1.0))


def samples(n, *, subjects=1, group_of=None):
    return [
        Sample(
            f"q{number:04d}",
            f"s{number % subjects}" if subjects > 1 else "no_subject",
            [Message("user", "?")],
            content_hash=f"h{number}",
            group=None if group_of is None else f"g{group_of(number)}",
        )
        for number in range(n)
    ]


def right(sample, p=0.7):
    """A fixed answer per sample, right in a share p of them."""
    return float(int(sample.id[1:]) * 7919 % 1000 < 1000 * p)


def records(given, value=right, **columns):
    return Records.from_columns(
        {"right": [value(sample) for sample in given], **columns},
        unit_id=[sample.id for sample in given],
        content_hash=[sample.content_hash for sample in given],
        group=[sample.group or sample.id for sample in given],
        slices={"subject": [sample.subject for sample in given]},
    )


def failing(given, failed, value=right):
    """Records of which some failed."""
    made = records(given, value)
    failed = np.isin(made.unit_id, [sample.id for sample in failed])
    status = np.where(failed, "error", "ok").astype(object)
    return replace(made, status={"right": status})


def run_of(folder, made):
    results = {"schema_version": "v1", "run_id": "old", "config": {}, "by_slice": {}}
    return write_run(
        folder / "old", results=results, manifest={"run_id": "old"}, records={("quiz", "m"): made}
    )


class TestOrder:
    def test_it_is_that_of_the_task(self):
        class Quiz(BaseTask[str]):
            NAME = "Quiz"
            RESPONSE_TYPE = ResponseType.COMPLETION

            def _get_instruction_text(self, item):
                return item["q"]

            def _get_ground_truth(self, item):
                return "yes"

        task = Quiz(rows=[{"q": f"{n}?"} for n in range(40)])
        made = task.samples()
        assert [one.id for one in in_drawn_order(made[::-1], task.seed)] == [s.id for s in made]

    def test_another_seed_is_another_order(self):
        given = samples(40)
        one, other = (in_drawn_order(given, seed) for seed in (1, 2))
        assert one != other
        assert set(one) == set(other)

    def test_subjects_are_mixed(self):
        drawn = in_drawn_order(samples(90, subjects=3), 42)
        assert {sample.subject for sample in drawn[:10]} == {"s0", "s1", "s2"}

    def test_groups_stay_together(self):
        drawn = in_drawn_order(samples(60, group_of=lambda n: n % 20), 42)
        groups = [sample.group for sample in drawn]
        assert len(DrawnUnits.of(drawn)) == 20
        assert [groups[at] for at in range(0, 60, 3)] == list(dict.fromkeys(groups))


class TestDraws:
    @pytest.mark.parametrize(
        ("given", "macro"),
        [
            (samples(30), False),
            (samples(30, group_of=lambda n: n % 7), False),
            (samples(31, group_of=lambda n: int(n**0.5)), False),
            (samples(31, subjects=3)[:-4], True),
            (samples(31, subjects=3, group_of=lambda n: n), True),
        ],
    )
    def test_their_mean_is_the_mean_of_units_or_subjects(self, given, macro):
        drawn = in_drawn_order(given, 3)
        values = np.array([right(sample) for sample in drawn])
        wanted = values.mean()
        if macro:
            names = np.array([sample.subject for sample in drawn])
            wanted = np.mean([values[names == name].mean() for name in np.unique(names)])
        draws = DrawnUnits.of(drawn, macro=macro)
        made = draws.values(values, (0.0, 1.0))
        assert made.mean() == pytest.approx(wanted, abs=1e-12)
        low, high = draws.bounds((0.0, 1.0))
        assert low - 1e-12 <= made.min()
        assert made.max() <= high + 1e-12

    def test_units_alone_keep_their_values_and_bounds(self):
        draws = DrawnUnits.of(samples(5))
        assert draws.bounds((0.0, 1.0)) == (0.0, 1.0)
        assert draws.values(np.array([0.0, 1.0, 0.25]), (0.0, 1.0)).tolist() == [0.0, 1.0, 0.25]

    def test_a_group_counts_when_all_of_it_is_there(self):
        given = in_drawn_order(samples(12, group_of=lambda n: n // 4), 1)
        watch = UntilWidth(0.5, scope="benchmark").watch(given, [RIGHT], seed=1)
        assert watch.look(records(given[:7])).n_used == 4


class TestKnownValues:
    def test_attempts_become_one_value(self):
        made = Records.from_columns({"right": [1, 0, 1, 1]}, unit_id=["a", "a", "b", "b"])
        assert known_values(made, RIGHT) == {"a": (0.5, 0.5), "b": (1.0, 1.0)}

    def test_an_attempt_without_a_grade_may_be_anything(self):
        made = Records.from_columns(
            {"right": [1, None, None]},
            unit_id=["a", "a", "b"],
            status={"right": ["ok", "error", "skipped"]},
        )
        assert known_values(made, RIGHT) == {"a": (0.5, 1.0), "b": (0.0, 1.0)}

    def test_attempts_that_are_looked_at_together_need_all_of_them(self):
        made = Records.from_columns(
            {"right": [1, 0, 1, None]},
            unit_id=["a", "a", "b", "b"],
            status={"right": ["ok", "ok", "ok", "error"]},
        )
        spec = ms.pass_at_k("right", 2)
        assert known_values(made, spec) == {"a": (1.0, 1.0), "b": (0.0, 1.0)}


class TestUntilWidth:
    def test_it_stops_at_the_first_unit_that_makes_the_interval_narrow_enough(self):
        watch = UntilWidth(0.2, scope="benchmark").watch(samples(1000), [RIGHT])
        decision = watch.look(records(watch.samples))
        values = [right(sample) for sample in watch.samples]
        lower, upper = confidence_sequence(values, n_total=1000)
        assert decision.n_used == int(np.argmax(upper - lower <= 0.2)) + 1
        assert (decision.stop, decision.n_saved) == (True, 1000 - decision.n_used)
        assert decision.interval.ci_low == lower[decision.n_used - 1]
        assert decision.interval.method == "betting sequence without replacement"
        assert "not more than 0.2" in decision.reason

    def test_more_answers_do_not_change_the_decision(self):
        watch = UntilWidth(0.2, scope="benchmark").watch(samples(1000), [RIGHT])
        decision = watch.look(records(watch.samples))
        for n in (decision.n_used, decision.n_used + 1, 700):
            assert watch.look(records(watch.samples[:n])) == decision
        assert not watch.look(records(watch.samples[: decision.n_used - 1])).stop

    def test_answers_after_a_gap_do_not_count(self):
        watch = UntilWidth(0.2, scope="benchmark").watch(samples(1000), [RIGHT])
        with_gap = (*watch.samples[:50], *watch.samples[51:])
        assert watch.look(records(with_gap)).n_used == 50

    def test_nothing_is_decided_before_the_first_unit(self):
        watch = UntilWidth(0.2, scope="benchmark").watch(samples(10), [RIGHT])
        decision = watch.look(records(watch.samples[3:]))
        assert (decision.stop, decision.n_used, decision.interval) == (False, 0, None)

    def test_a_run_that_uses_all_ends_there(self):
        watch = UntilWidth(0.001, scope="population").watch(samples(50), [RIGHT])
        decision = watch.look(records(watch.samples))
        assert (decision.stop, decision.n_used, decision.n_saved) == (True, 50, 0)
        assert decision.reason.startswith("all 50 units are used; the interval of right is")

    def test_the_population_takes_more_than_the_benchmark(self):
        found = [
            UntilWidth(0.1, scope=scope).watch(samples(1000), [RIGHT])
            for scope in ("benchmark", "population")
        ]
        used = [watch.look(records(watch.samples)).n_used for watch in found]
        assert used[0] < 0.8 * used[1]

    def test_missing_grades_widen_the_interval_by_what_they_could_be(self):
        watch = UntilWidth(0.001, scope="benchmark").watch(samples(400), [RIGHT])
        some, failed = watch.samples[:200], set(watch.samples[:200:10])
        whole = watch.look(records(some)).interval
        holed = watch.look(failing(some, failed)).interval
        lower, _ = confidence_sequence([right(s) * (s not in failed) for s in some], n_total=400)
        _, upper = confidence_sequence([max(right(s), s in failed) for s in some], n_total=400)
        assert (holed.ci_low, holed.ci_high) == (lower[-1], upper[-1])
        assert holed.ci_low < whole.ci_low
        assert holed.ci_high > whole.ci_high

    def test_values_in_no_random_order_do_not_stop_it(self):
        """The interval may shrink to nothing before it is seen to be contradicted."""
        watch = UntilWidth(0.05, scope="benchmark").watch(samples(400), [RIGHT])
        late = set(watch.samples[20:])
        decision = watch.look(records(watch.samples[:200], lambda s: right(s, 0.9) * (s in late)))
        assert not decision.stop

    def test_values_that_contradict_every_mean_are_named_from_then_on(self):
        watch = UntilWidth(0.001, scope="benchmark").watch(samples(400), [RIGHT])
        late = set(watch.samples[60:])
        made = records(watch.samples[:200], lambda s: float(s in late))
        found = looks(watch.drawn, watch.known(made), (0.0, 1.0), confidence=0.95, whole=False)
        assert 60 < found.n_sound < 100
        assert found.at(found.n_sound).reason == ""
        assert (
            "the values are inconsistent with every mean; check that they are in random order"
            in found.at(found.n_sound + 1).reason
        )
        assert found.high[found.n_sound] - found.low[found.n_sound] == 1.0
        assert (
            "the values are inconsistent with every mean; check that they are in random order"
            in watch.look(made).interval.reason
        )
        cell = stopped_cell(summarise(made, [RIGHT])["right"], made, RIGHT, watch, watch.look(made))
        assert (
            "the values are inconsistent with every mean; check that they are in random order"
            in cell.reason
        )

    def test_the_mean_over_subjects_can_be_watched(self):
        given = samples(300, subjects=3)[:-1]
        watch = UntilWidth(0.3, "right_macro", "benchmark").watch(given, [RIGHT])
        decision = watch.look(records(watch.samples))
        assert (decision.metric, decision.stop) == ("right_macro", True)
        assert 0 < decision.n_used < 299
        full = replace(watch, rule=UntilWidth(1e-9, scope="benchmark")).look(records(watch.samples))
        card = summarise(records(given), [RIGHT], by="subject", macro=True)
        assert full.interval.point_estimate == pytest.approx(card["right_macro"].value, abs=1e-9)

    def test_the_decision_is_plain(self):
        watch = UntilWidth(0.2, scope="benchmark").watch(samples(300), [RIGHT])
        told = json.loads(json.dumps(watch.look(records(watch.samples)).to_dict()))
        assert told["n_used"] + told["n_saved"] == told["n_total"] == 300
        assert told["interval"]["n_units"] == told["n_used"]

    @pytest.mark.parametrize(
        ("rule", "metrics", "options", "message"),
        [
            (UntilWidth(0.1), [RIGHT], {"order": "file"}, "not a random sample.*'shuffled'"),
            (
                UntilWidth(0.1, "wrong"),
                [RIGHT],
                {},
                "`metric` is 'wrong', which cannot be watched.*choose one of right",
            ),
            (UntilWidth(0.1, "right_macro"), [RIGHT], {}, "`metric` is 'right_macro'"),
            (UntilWidth(0.1), [ms.mean_of("length")], {}, "no metric can be watched.*known bounds"),
            (UntilWidth(0.1, "ece"), [ms.ece(), RIGHT], {}, "choose one of right"),
            (UntilWidth(1.0), [RIGHT], {}, "smaller than the range of"),
            (UntilWidth(0.1), [RIGHT], {"confidence": 2}, "`confidence`"),
        ],
    )
    def test_mistakes(self, rule, metrics, options, message):
        with pytest.raises(InvalidInputError, match=message):
            rule.watch(samples(10), metrics, **options)

    def test_wrong_options(self):
        with pytest.raises(InvalidInputError, match="`width`"):
            UntilWidth(0.0)
        with pytest.raises(InvalidInputError, match="`scope`"):
            UntilWidth(0.1, scope="world")
        with pytest.raises(InvalidInputError, match="samples"):
            UntilWidth(0.1, scope="benchmark").watch([], [RIGHT])

    def test_records_without_the_column(self):
        watch = UntilWidth(0.1, scope="benchmark").watch(samples(10), [RIGHT])
        other = Records.from_columns({"f1": [1.0]}, unit_id=["q0000"])
        with pytest.raises(InvalidInputError, match="no column 'right'"):
            watch.look(other)


class TestUntilDecided:
    @pytest.fixture
    def old(self, tmp_path):
        return run_of(tmp_path, records(samples(800), lambda s: right(s, 0.5)))

    @pytest.mark.parametrize(("p", "verdict"), [(0.8, "better"), (0.2, "worse")])
    def test_a_clear_difference_stops_it(self, old, p, verdict):
        watch = UntilDecided(old).watch(samples(800), [RIGHT])
        decision = watch.look(records(watch.samples, lambda s: right(s, p)))
        assert (decision.stop, decision.verdict) == (True, verdict)
        assert 0 < decision.n_used < 400
        ci = decision.interval
        assert ci.ci_low > 0.0 if verdict == "better" else ci.ci_high < 0.0
        assert "than in 'old'" in decision.reason

    def test_it_is_the_sequence_of_the_differences(self, old):
        watch = UntilDecided(old).watch(samples(800), [RIGHT])
        decision = watch.look(records(watch.samples, lambda s: right(s, 0.8)))
        differences = [right(s, 0.8) - right(s, 0.5) for s in watch.samples]
        lower, _ = confidence_sequence(differences, bounds=(-1.0, 1.0))
        assert decision.n_used == int(np.argmax(lower > 0.0)) + 1

    def test_without_a_difference_it_uses_all_and_says_so(self, old):
        watch = UntilDecided(old).watch(samples(800), [RIGHT])
        decision = watch.look(records(watch.samples, lambda s: right(s, 0.5)))
        assert (decision.stop, decision.verdict, decision.n_used) == (True, "undecided", 800)
        assert decision.reason.startswith("all 800 units are used; right may be higher or lower")

    def test_differences_within_the_margin_are_none(self, old):
        watch = UntilDecided(old, margin=0.05).watch(samples(800), [RIGHT])
        decision = watch.look(records(watch.samples, lambda s: right(s, 0.5)))
        assert (decision.stop, decision.verdict) == (True, "equivalent")
        assert decision.n_used < 400
        assert max(-decision.interval.ci_low, decision.interval.ci_high) <= 0.05

    def test_where_lower_is_better_higher_is_worse(self, old):
        wrong = ms.mean_of("right", bounds=(0.0, 1.0), higher_is_better=False)
        watch = UntilDecided(old).watch(samples(800), [wrong])
        decision = watch.look(records(watch.samples, lambda s: right(s, 0.8)))
        assert decision.verdict == "worse"
        assert decision.interval.ci_low > 0.0

    def test_without_a_direction_neither_is_better(self, old):
        either = ms.mean_of("right", bounds=(0.0, 1.0), higher_is_better=None)
        watch = UntilDecided(old).watch(samples(800), [either])
        for share in (0.8, 0.2):
            decision = watch.look(records(watch.samples, lambda s, share=share: right(s, share)))
            assert (decision.stop, decision.verdict) == (True, "different")

    def test_only_units_of_both_are_asked(self, old):
        watch = UntilDecided(old).watch(samples(1000), [RIGHT])
        assert len(watch.samples) == 800

    def test_failures_of_either_run_widen_the_interval(self, tmp_path):
        old = run_of(tmp_path, failing(samples(400), samples(40), lambda s: right(s, 0.5)))
        watch = UntilDecided(old).watch(samples(400), [RIGHT])
        decision = watch.look(records(watch.samples, lambda s: right(s, 0.5)))
        assert decision.verdict == "undecided"
        assert decision.interval.ci_low < -0.05 < 0.05 < decision.interval.ci_high

    def test_other_content_is_refused(self, old):
        other = [replace(one, content_hash="another") for one in samples(10)]
        with pytest.raises(ArtifactError, match="different content in run 'old'"):
            UntilDecided(old).watch(other, [RIGHT])

    def test_a_run_without_the_units_or_the_metric_is_refused(self, old):
        strangers = [replace(one, id=f"x{one.id}") for one in samples(10)]
        with pytest.raises(InvalidInputError, match="none of the units of this run"):
            UntilDecided(old).watch(strangers, [RIGHT])
        with pytest.raises(InvalidInputError, match="has no 'f1'; it has right"):
            UntilDecided(old).watch(samples(10), [ms.mean_of("f1", bounds=(0.0, 1.0))])

    def test_a_path_is_opened(self, old):
        assert UntilDecided(str(old.path)).to_dict()["against"] == "old"
        with pytest.raises(ArtifactError):
            UntilDecided(str(old.path / "nowhere"))
        with pytest.raises(InvalidTypeError, match="`against`"):
            UntilDecided(7)
        with pytest.raises(InvalidInputError, match="`margin`"):
            UntilDecided(old, margin=-0.1)


class Quiz(BaseTask[str]):
    NAME = "Quiz"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item):
        return item["q"]

    def _get_ground_truth(self, item):
        return item["a"]

    def graders(self):
        return ["exact_match"]


def quiz(n=600):
    return Quiz(
        rows=[{"id": str(n), "q": f"{n}?", "a": "yes" if n % 4 else "no"} for n in range(n)]
    )


class TestAskUntil:
    def asked(self, at_once, concurrency=4, attempts=1, model=None):
        task = quiz()
        given = task.samples()
        spec = ms.mean_of("exact_match", bounds=(0.0, 1.0))
        watch = UntilWidth(0.2, scope="benchmark").watch(given, [spec], seed=task.seed)
        jobs = plan_jobs(task, given, attempts=attempts)
        model = model or ScriptedModel("yes")
        return ask_until(
            watch,
            jobs,
            lambda part: run_jobs(part, model, concurrency=concurrency, give_up_after=None),
            lambda part, outcomes: measure(task, part, outcomes),
            at_once=at_once,
        )

    def test_how_many_are_asked_at_once_changes_nothing_that_counts(self):
        one, few, many = (self.asked(n, n) for n in (5, 30, 200))
        assert one.decision == few.decision == many.decision
        assert one.counted == few.counted == many.counted
        assert len(one.counted) == one.decision.n_used
        assert one.decision.n_saved > 300

    def test_what_is_asked_beyond_is_counted_as_such(self):
        asked = self.asked(200)
        assert asked.n_beyond == len(asked.outcomes) - asked.decision.n_used > 0
        assert self.asked(20).n_beyond < 20

    def test_all_attempts_of_a_unit_are_asked_together(self):
        asked = self.asked(30, attempts=3)
        assert len(asked.outcomes) == 3 * (asked.decision.n_used + asked.n_beyond)

    def test_samples_without_a_job_are_named(self):
        watch = UntilWidth(0.2, scope="benchmark").watch(samples(2), [RIGHT])
        job = Job("q0000", 1, GenerateRequest("?"))
        with pytest.raises(InvalidInputError, match="has no job for the sample 'q0001'"):
            ask_until(watch, [job], list, lambda part, outcomes: records(part))

    def test_answers_that_fail_keep_it_going(self):
        def answer(request):
            raise RuntimeError("no answer today")

        asked = self.asked(600, model=ScriptedModel(answer))
        assert (asked.decision.n_used, asked.decision.n_saved) == (600, 0)
        assert (asked.decision.interval.ci_low, asked.decision.interval.ci_high) == (0.0, 1.0)


class TestStoppedCells:
    def stopped(self, rule=None, subjects=3, **columns):
        watch = (rule or UntilWidth(0.25, scope="benchmark")).watch(
            samples(900, subjects=subjects), [RIGHT]
        )
        decision = watch.look(records(watch.samples))
        counted = watch.counted(decision)
        return watch, decision, records(counted, **{k: v(counted) for k, v in columns.items()})

    def test_the_interval_is_the_one_that_stopped_it(self):
        watch, decision, made = self.stopped()
        cell = summarise(made, [RIGHT])["right"]
        told = stopped_cell(cell, made, RIGHT, watch, decision)
        assert told.value == cell.value
        assert (told.ci.ci_low, told.ci.ci_high) == (
            decision.interval.ci_low,
            decision.interval.ci_high,
        )
        assert told.ci.ci_high - told.ci.ci_low > cell.ci.ci_high - cell.ci.ci_low
        assert told.details["n_planned"] == 900
        assert told.details["n_saved"] == decision.n_saved == 900 - told.n_units
        assert told.details["stopped"] == decision.reason
        assert "standard_error" not in told.details
        json.dumps(told.to_dict(), allow_nan=False)

    def test_every_cell_has_an_interval_that_allows_for_it_or_none(self):
        watch, decision, made = self.stopped(
            length=lambda counted: [float(len(one.id)) for one in counted]
        )
        metrics = [RIGHT, ms.mean_of("length")]
        card = stopped_card(task_scorecard(made, metrics), made, metrics, watch, decision)
        assert set(card) == {"right", "right_macro", "length", "length_macro"}
        assert card["right"].ci.method == "betting sequence without replacement"
        assert card["right_macro"].ci.ci_low < card["right_macro"].value
        assert card["length"].ci is None
        assert card["length"].value == 5.0
        assert "no interval that is valid under early stopping" in card["length"].reason
        for name, part in card.slices.items():
            cell = part["right"]
            assert cell.details["n_planned"] == 300, name
            assert cell.ci.n_units == cell.n_units == 300 - cell.details["n_saved"]
            assert cell.ci.ci_high - cell.ci.ci_low > 0.25

    def test_nothing_of_a_fixed_number_is_left(self):
        watch = UntilWidth(0.3, scope="benchmark").watch(samples(900), [RIGHT])
        failed = set(watch.samples[::15])
        decision = watch.look(failing(watch.samples, failed))
        counted = watch.counted(decision)
        assert 0 < len(counted) < 900
        made = failing(counted, failed)
        card = task_scorecard(made, [RIGHT])
        assert {"standard_error", "bounds_ci"} <= set(card["right"].details)
        told = stopped_card(card, made, [RIGHT], watch, decision)["right"]
        assert not {"standard_error", "bounds_ci"} & set(told.details)
        assert told.details["worst"] == card["right"].details["worst"]

    def unreached(self, sizes, metrics=(RIGHT,)):
        """A run that stops before the last subject, whose answers would all have been wrong."""
        names = [name for name, n in sizes.items() for _ in range(n)]
        given = [
            replace(sample, subject=name)
            for sample, name in zip(samples(len(names)), names, strict=True)
        ]
        watch = UntilWidth(0.1, scope="benchmark").watch(given, [RIGHT], seed=1)

        def value(sample):
            return float(sample.subject != names[-1])

        def made(some):
            return records(some, value, length=[2.0] * len(some))

        decision = watch.look(made(watch.samples))
        counted = watch.counted(decision)
        assert names[-1] not in {sample.subject for sample in counted}
        kept = made(counted)
        return stopped_card(task_scorecard(kept, metrics), kept, metrics, watch, decision)

    def test_a_subject_that_was_not_reached_has_its_cells(self):
        card = self.unreached({"a": 400, "b": 400, "c": 3})
        assert list(card.slices) == ["a", "b", "c"]
        cell = card.slices["c"]["right"]
        assert (cell.status, cell.value, cell.n_units) == ("skipped", None, 0)
        assert cell.reason == "not reached before the run stopped"
        assert (cell.details["n_planned"], cell.details["n_saved"]) == (3, 3)
        assert card.slices["a"]["right"].value == 1.0

    def test_the_mean_over_subjects_stands_for_those_not_reached_too(self):
        """Nothing is known of the third: (1 + 1 + ½) / 3, and everything is possible."""
        cell = self.unreached({"a": 400, "b": 400, "c": 3})["right_macro"]
        assert cell.value == pytest.approx(2.5 / 3, abs=0.01)
        assert cell.ci.point_estimate == cell.value
        assert cell.ci.ci_low <= 2 / 3 <= cell.ci.ci_high
        assert "1 of 3 subjects not reached before the run stopped" in cell.reason
        assert "the value is estimated for all" in cell.reason

    def test_where_one_subject_alone_was_reached_all_have_their_cells(self):
        card = self.unreached({"a": 900, "b": 3})
        assert list(card.slices) == ["a", "b"]
        assert card.slices["a"]["right"].details["n_planned"] == 900
        assert card.slices["b"]["right"].status == "skipped"
        cell = card["right_macro"]
        assert cell.value == pytest.approx(1.5 / 2, abs=0.01)
        assert (cell.details["by"], cell.details["n_parts"]) == ("subject", 1)
        assert "1 of 2 subjects not reached" in cell.reason

    def test_a_mean_without_bounds_over_subjects_not_all_reached_is_skipped(self):
        metrics = (RIGHT, ms.mean_of("length"))
        card = self.unreached({"a": 400, "b": 400, "c": 3}, metrics)
        assert card["length"].value == 2.0
        cell = card["length_macro"]
        assert (cell.status, cell.value, cell.ci) == ("skipped", None, None)
        assert cell.reason.startswith("1 of 3 subjects not reached")

    def test_a_comparison_gives_each_metric_its_own_interval(self, tmp_path):
        old = run_of(tmp_path, records(samples(900), lambda s: right(s, 0.3)))
        watch = UntilDecided(old).watch(samples(900), [RIGHT])
        decision = watch.look(records(watch.samples))
        made = records(watch.counted(decision))
        cell = stopped_cell(summarise(made, [RIGHT])["right"], made, RIGHT, watch, decision)
        assert cell.ci.ci_low < 0.7 < cell.ci.ci_high
        assert cell.ci != decision.interval  # that is of the difference

    def test_nothing_measured_stays_nothing(self):
        watch = UntilWidth(0.1, scope="benchmark").watch(samples(20), [RIGHT])
        made = failing(watch.samples, watch.samples)
        decision = watch.look(made)
        cell = stopped_cell(summarise(made, [RIGHT])["right"], made, RIGHT, watch, decision)
        assert (cell.status, cell.value, cell.ci) == ("error", None, None)
