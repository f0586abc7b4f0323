"""Judges inside runs: asked once, kept with the answers, read again without asking."""

import json
import sys

import pytest

from eval_toolkit.artifacts import validate_payload
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.graders import Grade
from eval_toolkit.graders.judges import Judge, PairJudge, Panel, Refusal, Rubric
from eval_toolkit.models.responses import RawCompletion, ResponseType, Usage
from eval_toolkit.models.runner import read_outcomes
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import judge_run, measure_run, read_task_file, run_task
from eval_toolkit.tasks.base import BaseTask

N = 12


class Sums(BaseTask[str]):
    NAME = "Sums"
    RESPONSE_TYPE = ResponseType.COMPLETION
    max_tokens = 8

    def _get_instruction_text(self, item):
        return f"What is {item['a']} + {item['b']}?"

    def _get_ground_truth(self, item):
        return str(item["a"] + item["b"])


def sums(n=N, **options):
    return Sums(rows=[{"a": i, "b": i * i} for i in range(n)], **options)


def solve(request):
    a, b = (int(part) for part in request.prompt[-1].content[8:-1].split(" + "))
    return f"It is {a + b + (a % 5 == 0)}."


def model(answers=solve, name="adder", **options):
    return ScriptedModel(answers, name=name, **options)


def shown(request, what):
    """Return what the prompt of a judge shows between marks."""
    return request.prompt[-1].content.partition(f"<{what} ")[2].split("\n")[1]


def fair(request):
    """Say yes where the reference is in the answer."""
    right = f" {shown(request, 'reference')}." in shown(request, "answer")
    return "Yes." if right else "No, it is another number."


class Bench:
    """A judge's model that notes what it was asked, and fails or mumbles where it is told."""

    concurrency = 4

    def __init__(self, says=fair, name="oracle", fails=(), mumbles=(), kind="server", **described):
        self.says, self.name, self.kind = says, name, kind
        self.fails, self.mumbles = set(fails), set(mumbles)
        self.described, self.asked = described, []

    def describe(self):
        return {"kind": "bench", "name": self.name, **self.described}

    async def generate(self, request):
        about = shown(request, "question")
        self.asked.append(about)
        a = int(about[8:].split(" + ")[0])
        if a in self.fails:
            raise ModelError(f"no verdict on {a}", kind=self.kind)
        text = "Hard to say" if a in self.mumbles else self.says(request)
        usage = Usage(prompt_tokens=10, completion_tokens=2, cost=0.5)
        return RawCompletion(text, usage=usage)

    async def loglikelihood(self, request):
        raise AssertionError("a judge is asked for texts")


def judge(bench=None, rubric="correctness", **options):
    return Judge(rubric, bench or Bench(), **options)


def silent(name="oracle", **described):
    """Return a judge's model that must not be asked."""

    def says(request):
        raise AssertionError("the judge was asked")

    return Bench(says, name, **described)


def files(folder):
    return {name: (folder / name).read_bytes() for name in ("records.parquet", "results.json")}


class TestAsking:
    def test_every_answer_is_judged_once(self):
        bench = Bench()
        done = run_task(sums(), model(), graders=["exact_match", judge(bench)])
        # Wrong for a = 0, 5, 10: nine of twelve are right; none is an exact match.
        assert done.card["correctness"].value == pytest.approx(9 / 12)
        assert done.card["correctness"].ci.method == "wilson"
        assert done.card["exact_match"].value == 0.0
        assert len(bench.asked) == len(set(bench.asked)) == N

    def test_counts_and_cost_of_judges_stand_apart(self):
        done = run_task(sums(), model(), graders=[judge()])
        assert (done.n_requests, done.n_asked, done.usage["cost"]) == (N, N, None)
        told = done.judges["correctness"]
        assert (told["model"], told["n_requests"], told["n_asked"]) == ("oracle", N, N)
        assert told["usage"]["cost"] == 0.5 * N
        json.dumps(done.to_dict(), allow_nan=False)

    def test_an_unparsable_verdict_is_counted_as_an_error(self):
        bench = Bench(mumbles=[3, 5])
        done = run_task(sums(), model(), graders=[judge(bench)])
        cell = done.card["correctness"]
        assert (cell.value, cell.n_errors) == (pytest.approx(8 / 10), 2)
        assert done.n_errors == 2
        assert done.too_many_errors
        reasons = done.records.reason["correctness"]
        assert sum("unparsable verdict" in why and "Hard to say" in why for why in reasons) == 2
        # With the errors at their worst and best: 8 of 12, 10 of 12.
        assert (cell.details["worst"], cell.details["best"]) == pytest.approx((8 / 12, 10 / 12))

    def test_a_judge_that_fails_is_an_error_of_its_column_alone(self):
        done = run_task(sums(), model(), graders=["exact_match", judge(Bench(fails=[4]))])
        assert done.card["correctness"].n_errors == 1
        assert done.card["exact_match"].n_errors == 0
        assert done.n_failed_requests == 0
        assert done.judges["correctness"]["n_failed_requests"] == 1
        (why,) = (why for why in done.records.reason["correctness"] if why)
        assert why == "the judge oracle: server: no verdict on 4"

    def test_an_answer_that_failed_is_not_judged(self):
        def answers(request):
            if "What is 3 +" in request.prompt[-1].content:
                raise ModelError("no answer", kind="server")
            return solve(request)

        bench = Bench()
        done = run_task(sums(), model(answers), graders=[judge(bench)])
        assert len(bench.asked) == N - 1
        (why,) = (why for why in done.records.reason["correctness"] if why)
        assert why == "server: no answer"

    def test_an_answer_without_a_reference_says_so(self):
        class Open(Sums):
            def _get_ground_truth(self, item):
                return str(item["a"] + item["b"]) if item["a"] else None

        task = Open(rows=[{"a": i, "b": i} for i in range(3)])
        done = run_task(task, model(), graders=[judge()])
        (why,) = (why for why in done.records.reason["correctness"] if why)
        assert "no reference" in why

    def test_attempts_are_judged_one_by_one(self):
        bench = Bench()
        done = run_task(sums(3), model(), attempts=2, temperature=0.5, graders=[judge(bench)])
        assert len(bench.asked) == 6
        assert len(done.records) == 6

    def test_votes_and_panels(self):
        def lenient(request):
            return "yes"

        panel = Panel(
            [
                judge(Bench(), name="fair", votes=3, temperature=0.5),
                judge(Bench(lenient, "kind"), name="kind"),
            ]
        )
        done = run_task(sums(), model(), graders=[panel])
        assert done.card["kind"].value == 1.0
        assert done.card["fair"].value == pytest.approx(9 / 12)
        # The three wrong answers divide the panel: one yes, one no.
        assert (done.card["panel"].value, done.card["panel"].n_errors) == (1.0, 3)
        assert "fair_agreement" not in done.card
        assert set(done.records.columns["fair_agreement"]) == {1.0}
        assert done.judges["fair"]["n_requests"] == 3 * N
        assert done.judges["kind"]["n_requests"] == N

    def test_concurrency_changes_no_byte(self, tmp_path):
        for concurrency in (1, 64):
            run_task(
                sums(),
                model(),
                tmp_path / str(concurrency) / "r",
                graders=[judge(Bench(mumbles=[7]))],
                concurrency=concurrency,
            )
        assert files(tmp_path / "1" / "r") == files(tmp_path / "64" / "r")

    def test_judges_of_loglikelihoods_are_refused(self):
        class Choose(Sums):
            RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

        task = Choose(rows=[{"a": 1, "b": 1}])
        with pytest.raises(InvalidInputError, match="'correctness' grades completions"):
            run_task(task, model(), graders=[judge(silent())])

    def test_a_judge_of_pairs_is_refused_before_anything_is_asked(self):
        adder = model()
        with pytest.raises(
            InvalidInputError, match=r"'pair' compares .* two runs; use judge_pairs"
        ):
            run_task(sums(), adder, graders=["exact_match", PairJudge(silent())])
        assert adder.n_calls == 0

    def test_a_phrase_judge_needs_nobody(self):
        done = run_task(sums(), model("I cannot add."), graders=[Refusal()])
        assert done.card["refusal_phrases"].value == 1.0
        assert done.judges == {}

    def test_a_task_file_names_its_judge(self, tmp_path):
        file = tmp_path / "t.toml"
        file.write_text(
            '[task]\nname = "hello"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
            '[graders.judge]\nrubric = "correctness"\nmodel = "scripted:yes"\n'
        )
        task = read_task_file(file, rows=[{"q": "Hello?", "a": "Hi"}])
        done = run_task(task, model("Hi"), tmp_path / "r")
        assert done.card["correctness"].value == 1.0
        assert measure_run(done.run, task).card["correctness"].value == 1.0


class TestKeeping:
    def test_prompt_and_verdict_are_both_stored(self, tmp_path):
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        outcomes = read_outcomes(done.run.table("responses.parquet"))
        verdicts = [one for one in outcomes if one.job.step == "judge:correctness"]
        assert len(outcomes) == 2 * N
        assert len(verdicts) == N
        for one in verdicts:
            assert "<answer " in one.job.request.prompt[-1].content
            assert one.response.text.startswith(("Yes", "No"))
        assert not (tmp_path / "r" / "journal.jsonl").exists()

    def test_the_manifest_says_who_judged_and_how(self, tmp_path):
        one = judge()
        run = run_task(sums(), model(), tmp_path / "r", graders=[one]).run
        validate_payload(run.manifest, "manifest.v3")
        validate_payload(run.results, "results.v1")
        assert run.manifest["versioned_objects"]["grader:correctness"] == one.version
        told = run.manifest["judges"]["correctness"]
        assert told["model"]["name"] == "oracle"
        assert told["prompt_sha256"] == one.prompt_sha256
        assert told["usage"]["cost"] == 0.5 * N
        assert run.manifest["usage"]["cost"] is None  # the model has no prices
        assert [entry["name"] for entry in run.manifest["models"]] == ["adder"]
        assert run.manifest["config"]["judges"]["correctness"]["version"] == one.version

    def test_a_run_without_judges_says_nothing_of_them(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r").run
        assert "judges" not in run.manifest
        assert "judges" not in run.manifest["config"]

    def test_a_finished_run_asks_nobody_again(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
        again = run_task(sums(), model(), tmp_path / "r", graders=[judge(silent())])
        assert again.judges["correctness"]["n_reused"] == N
        assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before

    def test_a_failed_verdict_is_asked_again_and_no_other(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge(Bench(fails=[4, 7]))])
        bench = Bench()
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge(bench)])
        assert sorted(bench.asked) == ["What is 4 + 16?", "What is 7 + 49?"]
        assert done.n_errors == 0

    def test_an_unparsable_verdict_is_an_answer_and_is_not_asked_again(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge(Bench(mumbles=[4]))])
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge(silent())])
        assert done.n_errors == 1

    def test_another_prompt_or_model_asks_anew(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        for other in (judge(Bench(), max_tokens=9), judge(Bench(size="large"))):
            done = run_task(sums(), model(), tmp_path / "r", graders=[other])
            assert done.n_asked == 0
            assert done.judges["correctness"]["n_asked"] == N
            assert any("requested again" in note for note in done.notes)

    def test_a_larger_limit_judges_the_new_answers_alone(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", limit=5, graders=[judge()])
        bench = Bench()
        run_task(sums(), model(), tmp_path / "r", graders=[judge(bench)])
        assert len(bench.asked) == N - 5

    def test_giving_up_keeps_what_was_said(self, tmp_path):
        bench = Bench(fails=range(6, N), kind="auth")
        with pytest.raises(ModelError, match="cannot be used"):
            run_task(sums(), model(), tmp_path / "r", graders=[judge(bench)], concurrency=1)
        n_before = len(bench.asked) - 1
        bench.fails, bench.asked = set(), []
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge(bench)])
        assert len(bench.asked) == N - n_before
        assert (done.n_errors, done.n_asked) == (0, 0)

    def test_verdicts_of_an_unfinished_run_are_not_lost(self, tmp_path):
        bench = Bench(fails=range(6, N), kind="auth")
        with pytest.raises(ModelError):
            run_task(sums(), model(), tmp_path / "r", graders=[judge(bench)], concurrency=1)
        with pytest.raises(ArtifactError, match="verdicts of the judge 'correctness'"):
            run_task(sums(), model(), tmp_path / "r", graders=["exact_match"])

    def test_verdicts_stay_when_other_graders_grade(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        run_task(sums(), model(), tmp_path / "r", graders=["exact_match"])
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge(silent())])
        assert done.card["correctness"].value == pytest.approx(9 / 12)

    def test_a_cache_keeps_verdicts_too(self, tmp_path):
        first, second = Bench(), Bench()
        for bench in (first, second):
            done = run_task(sums(), model(), graders=[judge(bench)], cache=tmp_path / "c.sqlite")
        assert (len(first.asked), len(second.asked)) == (N, 0)
        assert done.judges["correctness"]["n_cached"] == N
        assert done.judges["correctness"]["usage_now"]["cost"] is None

    def test_a_secret_of_the_judge_reaches_no_file(self, tmp_path):
        secret = "sk-" + "a1B2" * 10
        bench = Bench(api_key=secret, url=f"https://user:{secret}@host/v1")
        run_task(
            sums(),
            model(),
            tmp_path / "r",
            graders=[judge(bench, rubric="correctness")],
            cache=tmp_path / "cache.sqlite",
        )
        broken = Bench(fails=range(N), kind="auth", api_key=secret)
        with pytest.raises(ModelError):
            run_task(sums(), model(), tmp_path / "unfinished", graders=[judge(broken)])
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path


class TestMeasuringAgain:
    def test_stored_verdicts_are_read_and_nobody_is_asked(self, tmp_path):
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge(Bench(mumbles=[2]))])
        again = measure_run(done.run, sums(), graders=["f1", judge(silent())])
        assert again.card["correctness"] == done.card["correctness"]
        assert again.judges["correctness"]["n_asked"] == 0
        stored = measure_run(done.run, sums(), graders=[judge(silent())], out=tmp_path / "again")
        for column in ("status", "reason"):
            found, were = (getattr(one.records, column) for one in (stored, done))
            assert found["correctness"].tolist() == were["correctness"].tolist()
        assert Run.open(tmp_path / "again").manifest["judges"]["correctness"]["n_requests"] == N

    def test_the_bytes_are_the_same(self, tmp_path):
        run_task(sums(), model(), tmp_path / "a" / "r", graders=[judge()])
        measure_run(
            tmp_path / "a" / "r", sums(), graders=[judge(silent())], out=tmp_path / "b" / "r"
        )
        assert files(tmp_path / "a" / "r") == files(tmp_path / "b" / "r")

    def test_a_judge_that_was_not_asked_there_is_refused(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r").run
        with pytest.raises(
            ArtifactError, match="no verdict from the judge 'correctness' on 12 of 12"
        ):
            measure_run(run, sums(), graders=[judge(silent())])

    def test_a_judge_of_another_prompt_is_refused(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r", graders=[judge()]).run
        with pytest.raises(ArtifactError, match="a different version of the judge 'correctness'"):
            measure_run(run, sums(), graders=[judge(silent(), max_tokens=7)])
        with pytest.raises(
            ArtifactError, match="or use judge_run; neither queries the model again"
        ):
            measure_run(run, sums(), graders=[judge(silent(size="large"))])

    def test_a_replay_asks_no_judge(self, tmp_path):
        done = run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        again = run_task(sums(), replay=tmp_path / "r", graders=[judge(silent())])
        assert again.card["correctness"] == done.card["correctness"]
        missing = run_task(sums(), replay=tmp_path / "r", graders=[judge(silent(), name="other")])
        assert missing.card["other"].n_errors == N
        assert "a replay sends no requests" in missing.records.reason["other"][0]

    def test_a_cache_is_replayed_too(self, tmp_path):
        cache = tmp_path / "c.sqlite"
        done = run_task(sums(), model(), graders=[judge()], cache=cache)
        again = run_task(sums(), model(name="adder"), replay=cache, graders=[judge(silent())])
        assert again.card["correctness"] == done.card["correctness"]


class TestJudgingARun:
    def test_the_model_is_not_asked_again(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r").run
        bench = Bench()
        done = judge_run(run, sums(), [judge(bench)], out=tmp_path / "judged")
        assert len(bench.asked) == N
        assert (done.n_asked, done.judges["correctness"]["n_asked"]) == (0, N)
        assert set(done.card) == {"exact_match", "f1", "correctness"}
        again = judge_run(run, sums(), [judge(silent())], out=tmp_path / "judged")
        assert again.card["correctness"] == done.card["correctness"]
        assert measure_run(tmp_path / "judged", sums(), graders=[judge(silent())]).n_errors == 0

    def test_without_a_folder_nothing_is_written(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r").run
        before = files(tmp_path / "r")
        done = judge_run(run, sums(), [judge()], graders=[])
        assert set(done.card) == {"correctness"}
        assert files(tmp_path / "r") == before

    def test_in_place_adds_to_the_run(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        second = judge(Bench(lambda request: "no", "strict"), "refusal")
        done = judge_run(tmp_path / "r", sums(), [second], out=tmp_path / "r", graders=[])
        assert set(done.card) == {"refusal"}
        both = measure_run(
            tmp_path / "r", sums(), graders=[judge(silent()), Judge("refusal", second.model)]
        )
        assert (both.card["correctness"].value, both.card["refusal"].value) == (9 / 12, 0.0)

    def test_in_place_nothing_that_the_run_measures_is_lost(self, tmp_path):
        """Review of 0.9: f1_plain and pass@2 were gone after one judge, the judge after another."""
        graders = ["f1_plain", "exact_match{ignore_case=true}"]
        counted = {"pass_at": [2], "pass_hat": [2], "maj_at": [1], "confidence": 0.9}
        run_task(
            sums(), model(), tmp_path / "r", graders=graders, attempts=2, temperature=1, **counted
        )
        had = Run.open(tmp_path / "r").manifest["config"]
        before = measure_run(tmp_path / "r", sums(), graders=graders, **counted).card
        first, second = Bench(mumbles=[3], fails=[4]), judge(Bench(lambda _: "yes"), "refusal")
        judge_run(tmp_path / "r", sums(), [judge(first)], tmp_path / "r", give_up_after=None)
        first.asked = []
        done = judge_run(tmp_path / "r", sums(), [second], tmp_path / "r")
        assert first.asked == []  # stored verdicts are read, failed ones too
        assert set(before) < set(done.card)
        assert {name: done.card[name] for name in before} == dict(before)
        assert {"correctness", "correctness_pass@2", "refusal", "refusal_pass^2"} < set(done.card)
        assert done.card["correctness"].n_errors == 4
        config = Run.open(tmp_path / "r").manifest["config"]
        assert list(config["graders"]) == ["f1_plain", "exact_match", "correctness", "refusal"]
        for name in ("pass_at", "pass_hat", "maj_at", "confidence", "on_error", "attempts"):
            assert config[name] == had[name], name

    def test_in_place_a_panel_stays(self, tmp_path):
        pairs = [
            Panel([judge(name=f"{name}{who}") for who in "zab"], rule, name)
            for name, rule in (("p", "mean"), ("q", "majority"))
        ]
        was = run_task(sums(), model(), tmp_path / "r", graders=["exact_match", *pairs]).card
        done = judge_run(tmp_path / "r", sums(), [judge(name="new")], tmp_path / "r")
        assert {name: done.card[name] for name in was} == dict(was)
        assert "new" in done.card

    def test_a_judge_that_does_not_chat_stays(self, tmp_path):
        asked = ScriptedModel("yes", name="texts")
        asked.speaks_chat = False
        run_task(sums(), model(), tmp_path / "r", graders=[Judge("refusal", asked)])
        done = judge_run(tmp_path / "r", sums(), [judge()], tmp_path / "r")
        assert (done.card["refusal"].value, done.card["correctness"].n_errors) == (1.0, 0)

    def test_what_cannot_be_made_again_is_named(self, tmp_path):
        class Own:
            name, version = "own", "3"

            def grade(self, response):
                return {"own": Grade(1.0)}

        rubric = Rubric("mine", "Is it?", {"labels": {"yes": 1, "no": 0}})
        mine = judge(Bench(lambda _: "yes", "kind"), rubric)
        for name, grader in (("own", Own()), ("mine", mine)):
            out = tmp_path / name
            run_task(sums(), model(), out, graders=["exact_match", grader])
            before = files(out)
            with pytest.raises(ArtifactError, match=f"graded by '{name}' .* cannot be recreated"):
                judge_run(out, sums(), [judge(silent())], out)
            assert files(out) == before
        done = judge_run(
            tmp_path / "own", sums(), [judge()], tmp_path / "own", graders=["exact_match", Own()]
        )
        assert set(done.card) == {"exact_match", "own", "correctness"}
        mine.asked.asked.clear()
        done = judge_run(tmp_path / "mine", sums(), [mine, judge()], tmp_path / "mine")
        assert set(done.card) == {"exact_match", "mine", "correctness"}
        assert mine.asked.asked == []

    def test_a_name_in_a_file_imports_nothing(self, tmp_path):
        class Named:
            name, version = "antigravity:fly", "1"

            def grade(self, response):
                return {"x": 1.0}

        run_task(sums(), model(), tmp_path / "r", graders=[Named()])
        with pytest.raises(ArtifactError, match="cannot be recreated"):
            judge_run(tmp_path / "r", sums(), [judge(silent())])
        assert "antigravity" not in sys.modules

    def test_a_task_s_own_graders_are_made_by_the_task(self, tmp_path):
        class Own(Sums):
            METRICS = ["number_match{where='last'}", {"grader": "exact_match", "name": "em"}]  # noqa: RUF012

        task = Own(rows=[{"a": i, "b": i} for i in range(3)])
        run_task(task, model(), tmp_path / "r")
        done = judge_run(tmp_path / "r", task, [judge()], tmp_path / "r")
        assert {"number_match", "em", "correctness"} < set(done.card)

    def test_elsewhere_keeps_the_verdicts_of_other_judges(self, tmp_path):
        run_task(sums(), model(), tmp_path / "r", graders=[judge()])
        second = judge(Bench(lambda request: "no", "strict"), "refusal")
        judge_run(tmp_path / "r", sums(), [second], out=tmp_path / "s")
        assert measure_run(tmp_path / "s", sums(), graders=[judge(silent())]).n_errors == 0

    def test_interrupted_it_goes_on(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r").run
        bench = Bench(fails=range(6, N), kind="auth")
        for out in (tmp_path / "judged", tmp_path / "r"):
            bench.fails, bench.asked = set(range(6, N)), []
            with pytest.raises(ModelError):
                judge_run(run, sums(), [judge(bench)], out=out, concurrency=1)
            n_before = len(bench.asked) - 1
            assert n_before > 0
            bench.fails, bench.asked = set(), []
            done = judge_run(run, sums(), [judge(bench)], out=out)
            assert len(bench.asked) == N - n_before
            assert done.card["correctness"].value == pytest.approx(9 / 12)

    def test_what_is_no_judge_is_refused(self, tmp_path):
        run = run_task(sums(), model(), tmp_path / "r").run
        with pytest.raises(InvalidInputError, match="'refusal_phrases' sends no requests"):
            judge_run(run, sums(), [Refusal()])
        with pytest.raises(InvalidTypeError, match="a list of judges"):
            judge_run(run, sums(), "judge")
        other = type("Other", (Sums,), {"NAME": "Other"})(rows=[{"a": 1, "b": 1}])
        with pytest.raises(ArtifactError, match="not of 'Other'"):
            judge_run(run, other, [judge()])
