"""Runs of rollouts: what is stored, resumed, refused, and the same whatever the concurrency."""

import asyncio
import json
import threading

import pytest
from scipy.stats import chi2

from eval_toolkit.analysis import compare_runs
from eval_toolkit.cli._rollout_page import rollout_page
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.runner import Journal, read_outcomes
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report.comparison_page import compared_runs
from eval_toolkit.rollouts import (
    Budget,
    SeedPrompt,
    System,
    rollouts_of,
    run_rollouts,
)
from eval_toolkit.rollouts.attacks import Refinement, Static
from eval_toolkit.rollouts.scorers import JudgeScorer, KeywordScorer, as_text_scorer
from eval_toolkit.runs import Run

SEEDS = [SeedPrompt(f"goal {n}", id=f"s{n:02d}", category="ab"[n % 2]) for n in range(12)]
SHAPE = {"depth": 3, "width": 2}
FILES = ("records.parquet", "results.json", "turns.parquet")


def grr(texts):
    return [float("grr" in text.lower()) for text in texts]


class Named(ScriptedModel):
    """A model that is the same whatever it has been asked so far."""

    def describe(self):
        return {"kind": "named", "name": self.name}


class Target:
    """A model that gives way in the turn that the goal's number says, and counts its calls."""

    def __init__(self, fail_on=(), delay=False):
        self.fail_on = set(fail_on)
        self.asked = []
        self.delay = delay
        self.model = Named(self.answer, name="target")

    async def answer(self, request):
        turn = sum(message.role == "user" for message in request.prompt)
        goal = int(request.prompt[0].content.split()[1])
        self.asked.append((goal, turn))
        if self.delay:
            await asyncio.sleep((goal * 7 % 5) / 1000)
        if (goal, turn) in self.fail_on:
            raise ModelError("connection reset", kind="connection")
        return "Grr!" if goal % 4 == turn else "No."


CALLS = []


def interrupted(states):
    CALLS.append(len(states))
    if len(CALLS) == 3:
        raise KeyboardInterrupt
    return ["No."] * len(states)


STOPPING = []


def numbered(states):
    CALLS.append(len(states))
    if STOPPING and states[0].n_turns == 2:
        raise KeyboardInterrupt
    return [f"No {state.n_turns}." for state in states]


def system(target=None, **more):
    return System(Static(), (target or Target()).model, grr, **more)


def read(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


class TestStored:
    def test_a_folder_holds_everything(self, tmp_path):
        done = run_rollouts(system(), SEEDS, tmp_path / "r", rollouts_per_seed=2, asr_at=[2])
        run = Run.open(tmp_path / "r")
        assert run.manifest["kind"] == "rollout"
        assert run.manifest["counts"]["n_rollouts"] == 24
        assert run.results == done.results
        assert rollouts_of(run) == list(done.attempts)
        assert run.subjects == [("seeds", "target")]
        cells = run.results["by_slice"]["seeds"]["by_scorer"]["target"]
        assert cells["attack_success"]["value"] == 0.75  # goals 0, 4, 8 of 12 never
        assert cells["asr@2"]["n_units"] == 12
        assert set(run.results["by_slice"]["seeds"]["parts"]) == {"category=a", "category=b"}
        full = json.loads((tmp_path / "r/results_full.json").read_text())["rollouts"]
        # A quarter each fails in turn 1, 2, 3 and never.
        assert full["survival"]["survival"] == pytest.approx([0.75, 0.5, 0.25])
        assert not (tmp_path / "r/journal.jsonl").exists()

    def test_concurrency_changes_no_byte(self, tmp_path):
        tester = Refinement(ScriptedModel(lambda r: f"goal {r.prompt[-1].content.count('1')} x"))
        for n in (1, 64):
            target = Target(delay=True)
            run_rollouts(
                System(tester, target.model, grr), SEEDS, tmp_path / str(n), run_id="r",
                rollouts_per_seed=2, concurrency=n,
            )  # fmt: skip
        assert read(tmp_path / "1") == read(tmp_path / "64")

    def test_the_same_again_asks_nothing_and_writes_nothing(self, tmp_path):
        run_rollouts(system(), SEEDS, tmp_path / "r")
        before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "r").iterdir()}
        target = Target()
        done = run_rollouts(system(target), SEEDS, tmp_path / "r")
        assert (target.asked, done.n_asked, done.n_reused) == ([], 0, 36)
        assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "r").iterdir()} == before

    def test_more_seeds_rollouts_and_turns_add_to_it(self, tmp_path):
        run_rollouts(system(), SEEDS[:6], tmp_path / "r", depth=2)
        target = Target()
        done = run_rollouts(system(target), SEEDS, tmp_path / "r", depth=3)
        assert done.n_reused == 12
        assert len(target.asked) == 36 - 12
        assert read(tmp_path / "r") == read_of_one_go(tmp_path, depth=3)

    def test_what_failed_is_asked_again(self, tmp_path):
        broken = Target(fail_on=[(5, 1), (6, 2)])
        first = run_rollouts(system(broken), SEEDS, tmp_path / "r")
        assert first.n_errors == 2
        assert first.too_many_errors
        assert first.card["attack_success"].n_errors == 2
        assert "bounds_ci" in first.card["attack_success"].details
        second = run_rollouts(system(Target()), SEEDS, tmp_path / "r")
        assert (second.n_errors, second.n_asked) == (0, 3 + 2)
        assert read(tmp_path / "r") == read_of_one_go(tmp_path)

    def test_another_system_is_refused_by_name(self, tmp_path):
        run_rollouts(system(), SEEDS, tmp_path / "r")
        with pytest.raises(ArtifactError, match="system_prompt"):
            run_rollouts(system(system_prompt="Be good."), SEEDS, tmp_path / "r")
        with pytest.raises(ArtifactError, match="seed = 42, but this one has 7"):
            run_rollouts(system(), SEEDS, tmp_path / "r", seed=7)

    def test_a_task_run_is_refused(self, tmp_path):
        from eval_toolkit.runs import write_run

        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        write_run(tmp_path / "r", results=results, manifest={"run_id": "r"})
        with pytest.raises(ArtifactError, match="another kind"):
            run_rollouts(system(), SEEDS, tmp_path / "r")

    def test_an_unfinished_run_loses_nothing(self, tmp_path):
        class Dying(Target):
            async def answer(self, request):
                if len(self.asked) == 20:
                    raise ModelError("the key is not accepted", kind="auth")
                return await super().answer(request)

        with pytest.raises(ModelError, match="key"):
            run_rollouts(system(Dying()), SEEDS, tmp_path / "r", concurrency=1)
        with pytest.raises(ArtifactError, match="answers that this run does not request"):
            run_rollouts(system(), SEEDS[:2], tmp_path / "r")
        target = Target()
        run_rollouts(system(target), SEEDS, tmp_path / "r")
        assert len(target.asked) == 36 - 20
        assert read(tmp_path / "r") == read_of_one_go(tmp_path)

    def test_functions_are_journalled_too(self, tmp_path):
        CALLS.clear()
        with pytest.raises(KeyboardInterrupt):
            run_rollouts(System(["a"], interrupted, grr), SEEDS, tmp_path / "r")
        done = run_rollouts(System(["a"], interrupted, grr), SEEDS, tmp_path / "r")
        assert CALLS == [12, 12, 12, 12]
        assert done.n_reused == 24

    def test_without_a_folder_nothing_is_written(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        done = run_rollouts(system(), SEEDS)
        assert done.run is None
        assert not list(tmp_path.iterdir())
        assert json.dumps(done.to_dict(), allow_nan=False)

    def test_a_cache_is_used(self, tmp_path):
        first, second = Target(), Target()
        with ResponseCache(tmp_path / "c.sqlite") as cache:
            run_rollouts(system(first), SEEDS, cache=cache)
            done = run_rollouts(system(second), SEEDS, cache=cache)
        assert len(first.asked) == 36
        assert not second.asked
        assert done.n_cached == 36


class Mine(System):
    """A system that answers itself, by what it was given."""

    def __init__(self, model, **more):
        self.model = model
        super().__init__(["a"], None, grr, **more)

    def respond(self, states, probes, seeds):
        return [f"I am {self.model}"] * len(states)


class TestWhoseAnswers:
    def test_a_system_whose_attribute_is_another_is_refused_by_name(self, tmp_path):
        run_rollouts(Mine("A"), SEEDS, tmp_path / "r", depth=1)
        assert run_rollouts(Mine("A"), SEEDS, tmp_path / "r", depth=1).n_reused == 12
        with pytest.raises(ArtifactError, match=r"system\.attributes\.model"):
            run_rollouts(Mine("B"), SEEDS, tmp_path / "r", depth=1)

    def test_what_cannot_be_told_is_noted(self, tmp_path):
        first = run_rollouts(Mine(threading.Lock()), SEEDS, tmp_path / "r", depth=1)
        assert not first.notes
        again = run_rollouts(Mine(threading.Lock()), SEEDS, tmp_path / "r", depth=1)
        assert again.n_reused == 12
        assert again.notes == (
            "stored answers were reused; it is unknown whether they come from the same model",
        )

    def test_a_tester_that_sees_scores_is_asked_again_where_they_are_others(self, tmp_path):
        def tester(states):
            return [
                f"{state.goal} {state.turns[-1].score if state.turns else ''}" for state in states
            ]

        def rolled(score, folder):
            scorer = as_text_scorer(
                lambda texts: [score] * len(texts), name="s", version=str(score)
            )
            done = run_rollouts(System(tester, ["No."], scorer), SEEDS[:1], folder, depth=2)
            return [node.probe for node in done.attempts[0].nodes()]

        assert rolled(0.1, tmp_path / "r") == ["goal 0 ", "goal 0 0.1"]
        assert rolled(0.1, tmp_path / "r") == ["goal 0 ", "goal 0 0.1"]
        assert rolled(0.2, tmp_path / "r") == ["goal 0 ", "goal 0 0.2"]

    def test_a_state_that_cannot_be_stored_is_refused_before_anything_is_asked(self, tmp_path):
        class State:
            pass

        class Generic(System):
            made = State

            def start(self, prompt):
                return self.made()

            def probe(self, states, seeds):
                calls.append(len(states))
                return ["p"] * len(states)

            def respond(self, states, probes, seeds):
                return ["r"] * len(states)

            def advance(self, state, probe, response):
                return State()

        calls = []
        with pytest.raises(InvalidTypeError, match="State"):
            run_rollouts(Generic(scorer=grr), SEEDS, tmp_path / "r", depth=3)
        assert calls == []
        Generic.made = dict  # the first state can be stored, the second cannot
        with pytest.raises(InvalidTypeError, match="State"):
            run_rollouts(Generic(scorer=grr), SEEDS, tmp_path / "s", depth=3)
        assert calls == [12]
        assert len(run_rollouts(Generic(scorer=grr), SEEDS, depth=3).attempts) == 12

    def test_a_folder_changes_no_record(self, tmp_path):
        def tester(states):
            return [None if "1" in state.goal else "hello" for state in states]

        def target(states):
            return [None if "2" in state.goal else "grr" for state in states]

        kept = run_rollouts(System(tester, target, grr), SEEDS, tmp_path / "r", depth=1)
        free = run_rollouts(System(tester, target, grr), SEEDS, depth=1)
        assert kept.attempts == free.attempts
        assert kept.card["attack_success"].n_errors == 4  # goals 1, 10 and 11; 2
        assert kept.records.status["attack_success"].tolist() == (
            free.records.status["attack_success"].tolist()
        )


class TestUnfinished:
    @pytest.fixture(autouse=True)
    def fresh(self):
        CALLS.clear()

    def interrupt(self, folder, scorer=grr, **more):
        """Leave an unfinished run: two turns of two branches are there."""
        STOPPING.append(True)
        try:
            with pytest.raises(KeyboardInterrupt):
                run_rollouts(self.system(scorer), SEEDS[:2], folder, **SHAPE | more)
        finally:
            STOPPING.clear()
            CALLS.clear()

    def system(self, scorer):
        return System(Static(follow_ups=("go on",)), numbered, scorer)

    def go_on(self, folder, scorer=grr, **more):
        return run_rollouts(self.system(scorer), SEEDS[:2], folder, **SHAPE | more)

    @pytest.mark.parametrize(
        ("change", "match"), [({"keep": 1}, "keep"), ({"stop_on_success": True}, "stop_on_success")]
    )
    def test_another_shape_is_refused_before_anything_is_asked(self, tmp_path, change, match):
        self.interrupt(tmp_path / "r")
        with pytest.raises(ArtifactError, match=f"contains a run with {match} = "):
            self.go_on(tmp_path / "r", **change)
        assert CALLS == []

    def test_another_scorer_is_refused_where_it_decides(self, tmp_path):
        self.interrupt(tmp_path / "r", stop_on_success=True)
        with pytest.raises(ArtifactError, match="scored_by"):
            self.go_on(tmp_path / "r", KeywordScorer(["no"]), stop_on_success=True)
        assert CALLS == []

    def test_elsewhere_verdicts_of_another_judge_stay(self, tmp_path):
        judge = JudgeScorer(Judge("harmfulness", ScriptedModel("no", name="judge")))
        self.interrupt(tmp_path / "r", judge)
        self.go_on(tmp_path / "r", KeywordScorer(["no"]))
        assert CALLS == [16]  # the third turn alone: 2 seeds of 8 branches
        table = Run.open(tmp_path / "r").table("responses.parquet")
        kept = [step for step in table["step"].tolist() if step.startswith("judge:harmfulness")]
        assert len(kept) == 2 * 2  # of two turns; equal answers of branches are judged once
        again = self.go_on(tmp_path / "r", judge)
        assert CALLS == [16]
        assert again.judges["harmfulness"]["n_reused"] == len(kept)

    def test_answers_of_coroutines_are_kept_one_by_one(self, tmp_path):
        asked = []

        async def target(state):
            asked.append(state.goal)
            if len(asked) == 9:
                raise KeyboardInterrupt
            return "No."

        with pytest.raises(KeyboardInterrupt):
            run_rollouts(System(["a"], target, grr), SEEDS, tmp_path / "r", depth=1, concurrency=1)
        lines = (tmp_path / "r/journal.jsonl").read_text().splitlines()
        assert len(lines) == 1 + 8

    def test_the_journal_is_not_read_for_every_batch(self, tmp_path, monkeypatch):
        reads = []
        read_it = Journal.read

        def counting(self):
            reads.append(self.path)
            return read_it(self)

        monkeypatch.setattr(Journal, "read", counting)
        for depth in (1, 6):
            reads.clear()
            run_rollouts(system(), SEEDS, tmp_path / str(depth), depth=depth)
            assert len(reads) == 2  # before the first request, and by the engine


def read_of_one_go(tmp_path, **more):
    run_rollouts(system(), SEEDS, tmp_path / "one_go", run_id="r", **more)
    return read(tmp_path / "one_go")


class TestJudges:
    def scorer(self, said):
        return JudgeScorer(Judge("harmfulness", ScriptedModel(said, name="judge")))

    def test_verdicts_are_kept_and_not_asked_again(self, tmp_path):
        def judging():
            return self.scorer(lambda request: "yes" if "Grr" in str(request.prompt) else "no")

        first, second = judging(), judging()
        judged = System(Static(), Target().model, first)
        done = run_rollouts(judged, SEEDS, tmp_path / "r", depth=2)
        n = first.judge.asked.n_calls
        assert 0 < n <= 24
        assert done.n_requests == 24  # judges apart
        steps = Run.open(tmp_path / "r").table("responses.parquet")["step"]
        assert sum(str(step).startswith("judge:harmfulness") for step in steps) == n
        run_rollouts(System(Static(), Target().model, second), SEEDS, tmp_path / "r", depth=2)
        assert second.judge.asked.n_calls == 0

    def test_what_judges_took_is_told(self, tmp_path):
        judged = System(Static(), Target().model, self.scorer("no"))
        done = run_rollouts(judged, SEEDS, tmp_path / "r", depth=2)
        told = done.judges["harmfulness"]
        assert (told["model"], told["n_requests"], told["n_asked"]) == ("judge", 24, 24)
        assert told["usage"]["completion_tokens"] == 24  # "no" is one token
        assert done.to_dict()["judges"]["harmfulness"]["n_failed_requests"] == 0
        stored = Run.open(tmp_path / "r").manifest["judges"]["harmfulness"]
        assert stored["n_requests"] == 24
        assert stored["usage"] == told["usage"]
        assert stored["rubric"] == "harmfulness"
        assert run_rollouts(system(), SEEDS, depth=1).judges == {}
        notes = rollout_page(done).notes
        assert any(n.startswith("judge harmfulness (judge): 24 requests sent") for n in notes)

    @pytest.mark.parametrize("folder", [False, True])
    def test_a_garbled_verdict_is_the_same_with_a_folder_and_without(self, tmp_path, folder):
        said = iter(["hard to say", "yes", "yes", "yes"])
        judged = System(Static(), ["bad"], self.scorer(lambda request: next(said)))
        done = run_rollouts(judged, SEEDS[:1], tmp_path / "r" if folder else None, depth=1)
        assert done.n_errors == 1
        assert done.judges["harmfulness"]["n_requests"] == 1

    def test_a_verdict_that_cannot_be_read_is_counted(self):
        judged = System(Static(), Target().model, self.scorer("hard to say"))
        done = run_rollouts(judged, SEEDS[:4], depth=1)
        assert done.n_errors == 4
        assert done.card["attack_success"].status == "error"


class TestOptions:
    def test_budget(self):
        done = run_rollouts(system(), SEEDS, budget=Budget(calls=15))
        assert done.n_requests == 15
        assert done.n_skipped > 0
        assert done.card["attack_success"].n_skipped == done.n_skipped

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"asr_at": [3]}, "asr_at"),
            ({"depth": 0}, "depth"),
            ({"policy": "worst"}, "policy"),
            ({"rollouts_per_seed": 0}, "rollouts_per_seed"),
            ({"confidence": 1.5}, "confidence"),
            ({"on_error": "ignore"}, "on_error"),
            ({"name": ""}, "name"),
            ({"budget": 5}, "budget"),
            ({"give_up_after": 0}, "give_up_after"),
        ],
    )
    def test_bad_options_are_named_before_anything_is_asked(self, change, match):
        target = Target()
        with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
            run_rollouts(system(target), SEEDS, **change)
        assert not target.asked

    def test_where_branches_are_left_behind_the_worst_counts(self):
        def target(states, seeds):
            return ["grr" if seed % 5 == 0 else "no" for seed in seeds]

        def rolled(**more):
            return run_rollouts(System(["a"], target, grr), SEEDS, depth=2, width=2, **more)

        for stop in (False, True):
            done = rolled(keep=1, stop_on_success=stop)
            cell = done.card["attack_success"]
            assert done.results["config"]["policy"] == "best"
            assert (cell.n_units, cell.n_skipped) == (12, 0)
            share = sum(any(n.event for n in graph.nodes()) for graph in done.attempts) / 12
            assert cell.value == pytest.approx(share)
        assert rolled().results["config"]["policy"] == "expectation"
        assert rolled(keep=1, policy="expectation").card["attack_success"].n_skipped == 12

    @pytest.mark.parametrize("seeds", [[], "text", [""], [None]])
    def test_bad_seeds(self, seeds):
        with pytest.raises((InvalidInputError, InvalidTypeError)):
            run_rollouts(system(), seeds)

    def test_on_error_fail(self):
        with pytest.raises(InvalidInputError):
            run_rollouts(system(Target(fail_on=[(5, 1)])), SEEDS, on_error="fail")

    def test_without_a_scorer_nothing_is_claimed(self):
        done = run_rollouts(System(Static(), Target().model), SEEDS)
        assert done.card["attack_success"].status == "skipped"
        assert done.card["refused_first"].status == "ok"

    def test_progress_counts_up(self):
        told = []
        run_rollouts(system(), SEEDS, on_progress=told.append)
        assert told[-1].done == told[-1].total == 36
        assert [p.done for p in told] == sorted(p.done for p in told)


def test_two_targets_are_compared_on_the_same_seeds(tmp_path):
    run_rollouts(system(), SEEDS, tmp_path / "a")
    run_rollouts(System(Static(), ["No."], grr), SEEDS, tmp_path / "b")
    found = compare_runs(tmp_path / "a", tmp_path / "b", metrics=["attack_success"])
    (cell,) = found.cells
    assert cell.delta == pytest.approx(-0.75)
    assert cell.n_units == 12
    assert cell.p_value == pytest.approx(chi2.sf(9, 1))  # nine discordant seeds, all one way
    assert cell.verdict == "better"
    main = compare_runs(tmp_path / "a", tmp_path / "b")
    runs = [Run.open(tmp_path / name) for name in "ab"]
    assert main.cells == compared_runs(runs).cells, "as the command and the report"
    every = compare_runs(tmp_path / "a", tmp_path / "b", metrics="all")
    assert {one.metric for one in main.cells} < {one.metric for one in every.cells}
    tested = [cell for cell in every.cells if cell.p_value is not None]
    (again,) = (cell for cell in tested if cell.metric == "attack_success")
    assert (again.p_value, again.p_adjusted) == (cell.p_value, len(tested) * cell.p_value)


def test_a_reward_that_always_raises_is_a_column_of_errors():
    class Unrewarding(System):
        def reward(self, states, probes, responses):
            raise ZeroDivisionError("no prices")

    done = run_rollouts(Unrewarding(["Please."], ["No."], grr), ["a", "b"], depth=2)
    cell = done.card["reward"]
    assert (cell.value, cell.status, cell.n_errors) == (None, "error", 2)
    assert done.card["attack_success"].value == 0.0  # the turns themselves took place
    (note,) = [note for note in rollout_page(done).notes if note.startswith("reward failed")]
    assert "no prices" in note


class TestReasoning:
    """Replies of a reasoning model: scorers, judges and the other side see what it said."""

    def thinking(self, text, **more):
        heard = []

        def answer(request):
            heard.append([message.content for message in request.prompt])
            return text

        target = ScriptedModel(answer, name="target")
        system = System(Static(), target, as_text_scorer(grr, name="grr"), **more)
        return system, heard

    def test_only_what_is_said_is_scored_and_sent_on(self, tmp_path):
        system, heard = self.thinking("<think>Grr, what a question.</think>\n\nHello.")
        done = run_rollouts(system, SEEDS[:2], tmp_path / "r", depth=2)
        assert done.card["attack_success"].value == 0.0
        assert {turn.response for graph in done.attempts for turn in graph.nodes()} == {"Hello."}
        assert all("Grr" not in text for messages in heard for text in messages)
        stored = read_outcomes(Run.open(tmp_path / "r").table(RESPONSES))
        said = {one.response.text for one in stored if one.job.step.endswith("response")}
        assert said == {"<think>Grr, what a question.</think>\n\nHello."}  # whole

    def test_a_refusal_is_looked_for_in_the_answer(self):
        system, _ = self.thinking("<think>I cannot do that? I can.</think>Here you are.")
        done = run_rollouts(system, SEEDS[:2], depth=1)
        assert {turn.scores["refusal"] for g in done.attempts for turn in g.nodes()} == {0.0}

    def test_a_judge_sees_the_answer(self):
        shown = []

        def verdict(request):
            shown.append(request.prompt[-1].content)
            return "<think>yes? no</think>no"

        system, _ = self.thinking("<think>Grr.</think>Hello.")
        judge = JudgeScorer(Judge("harmfulness", ScriptedModel(verdict)))
        judged = System(Static(), system.target, judge)
        done = run_rollouts(judged, SEEDS[:1], depth=1)
        assert done.card["attack_success"].value == 0.0
        assert all("Hello." in text and "Grr" not in text for text in shown)

    def test_a_tester_s_reasoning_is_no_probe(self):
        tester = ScriptedModel("<think>Be sly.</think>Tell a joke.", name="tester")
        system = System(tester, ["Hello."])
        done = run_rollouts(system, SEEDS[:1], depth=1)
        assert [turn.probe for turn in done.attempts[0].nodes()] == ["Tell a joke."]

    def test_a_reply_that_only_thinks_is_empty_and_says_so(self, tmp_path):
        system, _ = self.thinking("<think>Grr, let me")
        done = run_rollouts(system, SEEDS[:2], tmp_path / "r", depth=1)
        turns = [turn for graph in done.attempts for turn in graph.nodes()]
        assert {turn.response for turn in turns} == {""}
        assert {turn.reason for turn in turns} == {"the reply ends inside its reasoning"}
        assert any("2 of 2 replies end inside their reasoning" in note for note in done.notes)
        assert rollouts_of(Run.open(tmp_path / "r")) == list(done.attempts)

    def test_tags_can_be_chosen(self):
        tags = [("<scratch>", "</scratch>")]
        system, _ = self.thinking("<scratch>Grr.</scratch>Hello.", reasoning_tags=tags)
        assert run_rollouts(system, SEEDS[:1], depth=1).card["attack_success"].value == 0.0
        assert system.describe()["reasoning_tags"] == [["<scratch>", "</scratch>"]]
        kept, _ = self.thinking("<think>Grr.</think>Hello.", reasoning_tags=())
        assert run_rollouts(kept, SEEDS[:1], depth=1).card["attack_success"].value == 1.0
        with pytest.raises(InvalidTypeError, match="reasoning_tags"):
            self.thinking("Hello.", reasoning_tags="<think>")
