"""Which of two runs answered better: both orders, ties, bias of the place, runs on disk."""

import pytest

from eval_toolkit.artifacts import validate_payload
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.graders import Grade
from eval_toolkit.graders.judges import Judge, MatchOutcome, PairJudge
from eval_toolkit.models.responses import Completion, RawCompletion, ResponseType
from eval_toolkit.models.runner import read_outcomes
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import judge_pairs, run_task
from eval_toolkit.tasks.base import BaseTask

A, B = Completion("Rome", id="q1"), Completion("Bonn", id="q1")
N = 10


class Sums(BaseTask[str]):
    NAME = "Sums"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item):
        return f"What is {item['a']} + {item['b']}?"

    def _get_ground_truth(self, item):
        return str(item["a"] + item["b"])


def sums(n=N, shift=0):
    return Sums(rows=[{"id": str(i), "a": i, "b": i * i + shift} for i in range(n)])


def says(shift):
    def answer(request):
        a, b = (int(part) for part in request.prompt[-1].content[8:-1].split(" + "))
        return str(a + b + shift(a))

    return answer


GOOD = ScriptedModel(says(lambda a: 0), name="good")
HALF = ScriptedModel(says(lambda a: int(a % 2)), name="half")


def shown(request, letter):
    return request.prompt[-1].content.partition(f"<answer {letter} ")[2].split("\n")[1]


class Bench:
    """Finds the answer that is a right sum better; may fail, mumble or like the first place."""

    name = "oracle"

    def __init__(self, fails=(), mumbles=(), biased=False, kind="server", **described):
        self.fails, self.mumbles, self.biased = set(fails), set(mumbles), biased
        self.kind, self.described, self.asked = kind, described, []

    def describe(self):
        return {"kind": "bench", **self.described}

    async def generate(self, request):
        question = request.prompt[-1].content.partition("What is ")[2].partition("?")[0]
        a, b = map(int, question.split(" + "))
        self.asked.append(question)
        if a in self.fails:
            raise ModelError("no verdict", kind=self.kind)
        right = [shown(request, letter) == str(a + b) for letter in "AB"]
        verdict = "C" if right[0] == right[1] else "A" if right[0] else "B"
        if self.biased:
            verdict = "A"
        return RawCompletion("Both?" if a in self.mumbles else f"So [[{verdict}]]")

    async def loglikelihood(self, request):
        raise AssertionError("a judge is asked for texts")


def graded(judge, *texts):
    replies = dict(zip(judge.requests(A, B), map(RawCompletion, texts), strict=True))
    return judge.grade(A, B, replies)


def pair(**options):
    return PairJudge(ScriptedModel("[[A]]"), **options)


class TestMatchOutcome:
    def test_payoffs_add_up_and_flip(self):
        for outcome in MatchOutcome:
            assert sum(outcome.payoff) == 1.0
            assert outcome.flip().payoff == outcome.payoff[::-1]
            assert outcome.flip().flip() is outcome
        assert MatchOutcome.DRAW.flip() is MatchOutcome.DRAW


class TestPairJudge:
    def test_both_orders_are_asked(self):
        requests = pair().requests(A, B)
        assert list(requests) == ["judge:pair:ab", "judge:pair:ba"]
        ab, ba = requests.values()
        assert (shown(ab, "A"), shown(ab, "B")) == ("Rome", "Bonn")
        assert (shown(ba, "A"), shown(ba, "B")) == ("Bonn", "Rome")

    @pytest.mark.parametrize(
        ("ab", "ba", "win", "consistent", "first"),
        [
            ("[[A]]", "[[B]]", 1.0, 1.0, 0.5),
            ("[[B]]", "[[A]]", 0.0, 1.0, 0.5),
            ("[[A]]", "[[A]]", 0.5, 0.0, 1.0),
            ("[[B]]", "[[B]]", 0.5, 0.0, 0.0),
            ("[[A]]", "[[C]]", 0.5, 0.0, 1.0),
        ],
    )
    def test_the_verdict_is_of_the_answers_not_of_the_place(self, ab, ba, win, consistent, first):
        line = graded(pair(), ab, ba)
        assert line["win"] == win
        assert line["tie"] == float(win == 0.5)
        assert line["consistent"] == consistent
        assert line["first_position"] == first

    def test_two_ties_are_a_tie(self):
        line = graded(pair(), "[[C]]", "[[c]]")
        assert (line["win"], line["tie"], line["consistent"]) == (0.5, 1.0, 1.0)
        assert line["first_position"].status == "skipped"

    def test_orders_that_disagree_may_be_an_error(self):
        line = graded(pair(inconsistent="error"), "[[A]]", "[[A]]")
        assert (
            line["win"]
            == line["tie"]
            == Grade.error("the two orders disagree (ab: a_wins, ba: a_wins)")
        )
        assert line["consistent"] == 0.0

    def test_an_unparsable_verdict_is_an_error_everywhere(self):
        for texts in (("[[A]]", "both"), ("[[A]] [[B]]", "[[B]]"), ("", "")):
            line = graded(pair(), *texts)
            assert {grade.status for grade in line.values()} == {"error"}
            assert set(line) == set(pair().columns())

    def test_one_order_is_drawn_by_unit(self):
        one = pair(both_orders=False)
        assert "consistent" not in one.columns()
        orders = [
            next(iter(one.requests(Completion("x", id=str(n)), Completion("y", id=str(n)))))[-2:]
            for n in range(200)
        ]
        assert 70 < orders.count("ab") < 130
        steps = one.requests(A, B)
        assert list(steps) == list(one.requests(A, B))

    def test_a_template_must_show_both_answers(self):
        with pytest.raises(InvalidInputError, match=r"no \{answer_b\}"):
            pair(user="{answer_a}")
        with pytest.raises(InvalidInputError, match=r"\{completion\}"):
            pair(user="{answer_a}{answer_b}{completion}")

    def test_the_version_covers_prompt_options_and_model(self):
        versions = [
            pair().version,
            pair(criteria="Which is shorter?").version,
            pair(inconsistent="error").version,
            PairJudge(ScriptedModel("[[B]]")).version,
        ]
        assert len(set(versions)) == 4


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run_task(sums(), GOOD, folder / "good")
    run_task(sums(), HALF, folder / "half")
    return folder / "good", folder / "half"


class TestJudgingPairsOfRuns:
    def test_win_rate_ties_and_place_with_intervals(self, runs):
        done = judge_pairs(*runs, sums(), PairJudge(Bench()))
        # Five of ten items tie, A wins the other five: 5 + 5/2 of 10.
        assert done.card["win"].value == 0.75
        assert done.card["tie"].value == 0.5
        assert done.card["consistent"].value == 1.0
        assert done.card["first_position"].value == 0.5
        assert done.card["first_position"].n_skipped == 5
        low, high = done.card["win"].ci.ci_low, done.card["win"].ci.ci_high
        assert low < 0.75 < high
        assert done.judges["pair"]["n_asked"] == 2 * N
        assert done.n_requests == 0

    def test_swapped_runs_give_the_other_side(self, runs):
        ahead = judge_pairs(*runs, sums(), PairJudge(Bench()))
        behind = judge_pairs(*runs[::-1], sums(), PairJudge(Bench()))
        assert behind.card["win"].value == 1.0 - ahead.card["win"].value
        assert behind.card["tie"].value == ahead.card["tie"].value

    def test_a_judge_that_likes_the_first_place_is_seen(self, runs):
        done = judge_pairs(*runs, sums(), PairJudge(Bench(biased=True)))
        assert done.card["first_position"].value == 1.0
        assert done.card["consistent"].value == 0.0
        assert (done.card["win"].value, done.card["tie"].value) == (0.5, 1.0)

    def test_errors_are_counted(self, runs):
        bench = Bench(fails=[3], mumbles=[4])
        done = judge_pairs(*runs, sums(), PairJudge(bench))
        assert done.card["win"].n_errors == 2
        assert done.n_errors == 2
        assert done.too_many_errors
        assert not judge_pairs(*runs, sums(), PairJudge(bench), max_error_rate=0.2).too_many_errors

    def test_an_answer_that_failed_is_not_judged(self, runs, tmp_path):
        def fails(request):
            if "What is 2 +" in request.prompt[-1].content:
                raise ModelError("no answer", kind="server")
            return "7"

        run_task(sums(), ScriptedModel(fails, name="flaky"), tmp_path / "flaky")
        bench = Bench()
        done = judge_pairs(runs[0], tmp_path / "flaky", sums(), PairJudge(bench))
        assert len(bench.asked) == 2 * (N - 1)
        (why,) = (why for why in done.records.reason["win"] if why)
        assert why == "B: server: no answer"

    def test_in_a_folder_with_prompts_and_verdicts(self, runs, tmp_path):
        done = judge_pairs(*runs, sums(), PairJudge(Bench()), tmp_path / "p")
        run = Run.open(tmp_path / "p")
        validate_payload(run.results, "results.v1")
        validate_payload(run.manifest, "manifest.v3")
        assert run.subjects == [("Sums", "good vs half")]
        assert run.records("Sums", "good vs half").columns["win"].sum() == 7.5
        assert run.manifest["kind"] == "pairs"
        assert run.manifest["judges"]["pair"]["n_requests"] == 2 * N
        outcomes = read_outcomes(run.table("responses.parquet"))
        assert {one.job.step for one in outcomes} == {"judge:pair:ab", "judge:pair:ba"}
        before = (tmp_path / "p" / "manifest.json").read_bytes()
        bench = Bench()
        again = judge_pairs(*runs, sums(), PairJudge(bench), tmp_path / "p")
        assert bench.asked == []
        assert again.results == done.results
        assert (tmp_path / "p" / "manifest.json").read_bytes() == before

    def test_interrupted_it_goes_on(self, runs, tmp_path):
        bench = Bench(fails=[6], kind="auth")
        with pytest.raises(ModelError):
            judge_pairs(*runs, sums(), PairJudge(bench), tmp_path / "p", concurrency=1)
        said = len(bench.asked) - 1
        assert said > 0
        bench.fails, bench.asked = set(), []
        done = judge_pairs(*runs, sums(), PairJudge(bench), tmp_path / "p")
        assert len(bench.asked) == 2 * N - said
        assert done.card["win"].value == 0.75

    def test_another_judge_or_run_does_not_go_on_there(self, runs, tmp_path):
        judge_pairs(*runs, sums(), PairJudge(Bench()), tmp_path / "p")
        with pytest.raises(ArtifactError, match="judges"):
            judge_pairs(*runs, sums(), PairJudge(Bench(size="large")), tmp_path / "p")
        with pytest.raises(ArtifactError, match="runs"):
            judge_pairs(*runs[::-1], sums(), PairJudge(Bench()), tmp_path / "p")
        with pytest.raises(ArtifactError, match="kind"):
            judge_pairs(*runs, sums(), PairJudge(Bench()), runs[0])
        with pytest.raises(ArtifactError, match="another kind"):
            run_task(sums(), GOOD, tmp_path / "p")

    def test_units_of_other_content_are_refused_or_left_out(self, runs, tmp_path):
        run_task(sums(shift=1), GOOD, tmp_path / "shifted")
        with pytest.raises(ArtifactError, match="different content hash"):
            judge_pairs(runs[0], tmp_path / "shifted", sums(), PairJudge(Bench()))
        with pytest.raises(ArtifactError, match="no unit in common"):
            judge_pairs(
                runs[0], tmp_path / "shifted", sums(), PairJudge(Bench()), on_mismatch="drop"
            )
        with pytest.raises(ArtifactError, match="the data have changed since"):
            judge_pairs(*runs, sums(shift=1), PairJudge(Bench()))

    def test_common_units_are_judged_and_the_rest_counted(self, runs, tmp_path):
        run_task(sums(), GOOD, tmp_path / "few", limit=4)
        done = judge_pairs(runs[1], tmp_path / "few", sums(), PairJudge(Bench()))
        assert len(done.records) == 4
        assert done.notes == ("6 units only in A excluded",)

    def test_attempts_are_paired_by_number(self, tmp_path):
        for name, model, attempts in (("a", GOOD, 3), ("b", HALF, 2)):
            run_task(sums(4), model, tmp_path / name, attempts=attempts, temperature=0.3)
        done = judge_pairs(tmp_path / "a", tmp_path / "b", sums(4), PairJudge(Bench()))
        assert len(done.records) == 8
        assert done.card["win"].n_units == 4
        assert done.notes == ("1 of 3 attempts of A excluded",)

    def test_a_run_before_itself_and_other_prompts_are_remarked_on(self, runs):
        class Other(Sums):
            def _get_instruction_text(self, item):
                return f"What is {item['a']} + {item['b']}? Be brief."

        rows = [{"id": str(i), "a": i, "b": i * i} for i in range(N)]
        itself = judge_pairs(runs[0], runs[0], sums(), PairJudge(Bench()))
        assert itself.notes == ("A and B have identical answers",)
        said = "differ from the prompts of the task, which the judge sees"
        done = judge_pairs(*runs, Other(rows=rows), PairJudge(Bench()))
        assert done.notes == (f"the prompts of A {said}", f"the prompts of B {said}")

    def test_what_is_no_pair_judge_is_refused(self, runs):
        with pytest.raises(InvalidTypeError, match="must be a PairJudge"):
            judge_pairs(*runs, sums(), Judge("refusal", ScriptedModel("no")))
        with pytest.raises(InvalidTypeError, match="`run_b`"):
            judge_pairs(runs[0], 3, sums(), PairJudge(Bench()))
