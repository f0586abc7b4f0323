"""Judges as scorers: what they are shown, what they cost, and what is kept."""

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.graders.judges import Judge, KeywordJudge, Panel, Rubric
from eval_toolkit.graders.judges.requests import judge_of
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner import Journal, read_outcomes
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.scorers import CachedScorer, JudgeScorer, checked_turns, requests_through
from eval_toolkit.rollouts.scorers.judged import completion_of
from eval_toolkit.runs import Context
from eval_toolkit.runs.context import Asker


def judge_of_words(request):
    """Say yes where the answer that is shown has the word "recipe"."""
    answer = request.prompt[-1].content.partition("<answer ")[2]
    if "mumble" in answer:
        return "Hard to say."
    if "silence" in answer:
        return ModelError("no answer", kind="timeout")
    return "Yes." if "recipe" in answer else "No."


class Noting(Asker):
    """Asks, and notes what came of it."""

    def ask_jobs(self, jobs, **more):
        found = super().ask_jobs(jobs, **more)
        outcomes.extend(found)
        return found


outcomes = []


@pytest.fixture(autouse=True)
def _nothing_noted():
    outcomes.clear()


def noting(answers=judge_of_words, **options):
    scorer, model = scorer_of(answers, **options)
    scorer.asker = Noting()
    return scorer, model


def scorer_of(answers=judge_of_words, rubric="harmfulness", **options):
    model = ScriptedModel(answers, name="judge-model")
    return JudgeScorer(Judge(rubric, model), **options), model


def told(*turns, goal="A cake"):
    state = Conversation(goal)
    for probe, response in turns:
        state = state.with_probe(probe).with_response(response)
    return state


# --- what a judge is shown ------------------------------------------------------------------------


def test_the_question_is_the_goal_and_all_that_was_said():
    answer = completion_of(told(("Hello", "Hi."), ("And the cake?", "No.")))
    assert answer.last_user_instruction == (
        "What the user is after: A cake\n\nuser: Hello\n\nassistant: Hi.\n\nuser: And the cake?"
    )
    assert answer.completion == "No."
    assert answer.context == {"goal": "A cake", "probe": "And the cake?", "turn": 2}


def test_a_goal_that_the_first_probe_says_is_not_said_twice():
    assert completion_of(told(("A cake", "No."))).last_user_instruction == "A cake"
    shown = completion_of(told(("Bake: A cake", "No."), ("Do!", "No."))).last_user_instruction
    assert shown == "user: Bake: A cake\n\nassistant: No.\n\nuser: Do!"


def test_an_opening_is_a_part_of_the_conversation():
    state = Conversation("Once upon a time", opening=True).with_probe("Go on.").with_response("No.")
    assert completion_of(state).last_user_instruction == "Once upon a time\n\nuser: Go on."


def test_a_conversation_without_an_answer_cannot_be_judged():
    for state in (Conversation("A cake"), told(("a", "b")).with_probe("c")):
        with pytest.raises(InvalidInputError, match="does not end with an answer"):
            completion_of(state)


def test_the_prompt_has_the_question_and_the_answer_between_marks():
    seen = []

    def note(request):
        seen.append(request.prompt[-1].content)
        return "no"

    scorer, _ = scorer_of(note)
    scorer.score_turns([told(("Now?", "Never."))])
    (shown,) = seen
    assert "What the user is after: A cake\n\nuser: Now?" in shown.partition("<question ")[2]
    assert "Never." in shown.partition("<answer ")[2]


def test_a_rubric_may_show_goal_and_probe_apart():
    rubric = Rubric(
        "kept",
        "Does the answer give {goal}?",
        {"labels": {"yes": 1, "no": 0}, "higher_is_better": False},
        user="{context.goal}|{context.probe}|{completion}|{form}",
    )
    seen = []
    model = ScriptedModel(lambda request: seen.append(request.prompt[-1].content) or "no")
    JudgeScorer(Judge(rubric, model)).score_turns([told(("Now?", "Never."))])
    assert seen[0].startswith("A cake|Now?|Never.|")


# --- verdicts -------------------------------------------------------------------------------------


def test_all_answers_are_asked_about_together():
    scorer, model = noting()
    states = [told(("Now?", "A recipe.")), told(("Now?", "Never."))]
    assert scorer.score_turns(states) == [1.0, 0.0]
    assert (model.n_calls, len(outcomes)) == (2, 2)
    assert scorer.score(["The recipe is", "Never."]) == [1.0, 0.0]


def test_a_verdict_that_cannot_be_read_is_an_error_and_no_number():
    scorer, _ = noting()
    states = [told(("Now?", answer)) for answer in ("A recipe.", "mumble", "silence")]
    good, mumbled, silent = checked_turns(scorer, states)
    assert good == 1.0
    assert mumbled.startswith("error: unparsable verdict: ")
    assert silent == "error: the judge judge-model: timeout: no answer"
    assert [outcome.ok for outcome in outcomes] == [True, True, False]
    with pytest.raises(InvalidInputError, match=r"texts\[1\]: error: unparsable verdict"):
        scorer.score(["A recipe.", "mumble"])


def test_a_judge_that_lacks_what_it_shows_says_so():
    scorer, model = scorer_of(rubric="correctness")
    (said,) = scorer.score_turns([told(("Now?", "Never."))])
    assert said.startswith("error: ")
    assert "no reference" in said
    assert model.n_calls == 0


def test_a_model_that_cannot_be_asked_stops_it_all():
    scorer, model = scorer_of(lambda request: ModelError("wrong key", kind="auth"))
    with pytest.raises(ModelError, match="wrong key"):
        checked_turns(scorer, [told(("Now?", "x")), told(("Now?", "y"))])
    assert model.n_calls <= 2  # not asked again one by one


def test_the_same_answer_twice_is_judged_once():
    scorer, model = scorer_of()
    assert scorer.score_turns([told(("Now?", "Never."))] * 3) == [0.0] * 3
    assert model.n_calls == 1
    remembering = CachedScorer(scorer)
    for _ in range(2):
        assert remembering.score_turns([told(("Now?", "A recipe."))]) == [1.0]
    assert model.n_calls == 2


def test_votes_and_panels_are_judges_too():
    votes = ScriptedModel(["yes", "yes", "no"], concurrency=1)
    voted = JudgeScorer(Judge("harmfulness", votes, votes=3, temperature=1.0))
    assert voted.score_turns([told(("Now?", "x"))]) == [1.0]
    members = [
        Judge("harmfulness", ScriptedModel(said, name=said), name=f"by_{at}")
        for at, said in enumerate(("yes", "no", "yes"))
    ]
    panel = JudgeScorer(Panel(members, name="court"))
    panel.asker = Noting()
    assert panel.name == "court"
    assert panel.score_turns([told(("Now?", "x"))], [("u", 1, "0")]) == [1.0]
    assert len(outcomes) == 3
    assert set(panel.describe()) == {"by_0", "by_1", "by_2"}


# --- threshold, direction, field ------------------------------------------------------------------


def test_threshold_and_direction_come_from_the_rubric():
    scorer, _ = scorer_of(rubric="harmfulness")
    assert (scorer.name, scorer.threshold, scorer.higher_is_worse) == ("harmfulness", 0.5, True)
    quality, _ = scorer_of(rubric="quality")
    assert (quality.threshold, quality.higher_is_worse) == (0.5, False)
    unscaled = {"where": "brackets", "scale": [1, 10], "scaled": False, "higher_is_better": False}
    harm, _ = scorer_of(rubric={"name": "harm", "criteria": "How bad?", "verdict": unscaled})
    assert (harm.threshold, harm.higher_is_worse) == (5.5, True)


def test_a_direction_that_the_rubric_does_not_say_must_be_given():
    with pytest.raises(InvalidInputError, match="`higher_is_worse` is required"):
        scorer_of(rubric="refusal")
    scorer, _ = scorer_of(rubric="refusal", higher_is_worse=False, threshold=0.25, name="said_no")
    assert (scorer.name, scorer.threshold, scorer.higher_is_worse) == ("said_no", 0.25, False)


def test_a_field_of_several_must_be_named():
    with pytest.raises(InvalidInputError, match=r"several fields.*safe"):
        scorer_of(rubric="instruction_following")
    with pytest.raises(InvalidInputError, match=r"no field 'kind'.*safe"):
        scorer_of(rubric="instruction_following", field="kind")
    said = (
        '{"quality": 3, "follows_instruction": "yes", "correct_language": "yes", '
        '"consistent": "yes", "no_repetition": "yes", "trustworthy": "yes", "safe": "no"}'
    )
    scorer, _ = scorer_of(said, rubric="instruction_following", field="safe")
    assert scorer.name == "instruction_following_safe"
    assert scorer.score_turns([told(("Now?", "x"))]) == [0.0]
    assert not scorer.higher_is_worse


@pytest.mark.parametrize("judge", [KeywordJudge(["a"]), Judge, "harmfulness", None])
def test_what_is_no_judge_is_refused(judge):
    with pytest.raises(InvalidTypeError, match="Judge or a Panel"):
        JudgeScorer(judge)


@pytest.mark.parametrize("options", [{"threshold": "x"}, {"higher_is_worse": 1}, {"mode": "x"}])
def test_options_are_checked(options):
    with pytest.raises(InvalidInputError):
        scorer_of(**options)


def test_the_version_changes_with_everything_that_may_change_an_event():
    made = [
        scorer_of()[0],
        scorer_of(threshold=0.9)[0],
        scorer_of(higher_is_worse=False)[0],
        scorer_of(mode="final")[0],
        scorer_of("yes")[0],
    ]
    assert len({scorer.version for scorer in made}) == len(made)


# --- kept -----------------------------------------------------------------------------------------

KEYS = [("unit", 1, "0"), ("unit", 1, "0.0"), ("unit", 2, "0")]
STATES = [told(("Now?", answer)) for answer in ("A recipe.", "Never.", "mumble")]


def test_verdicts_are_kept_by_unit_attempt_and_place(tmp_path):
    def ask(scorer, **kept):
        with Context(**kept) as asking, requests_through([CachedScorer(scorer)], asking):
            return checked_turns(scorer, STATES, KEYS), asking.verdicts

    scorer, model = scorer_of()
    first, verdicts = ask(scorer, journal=Journal(tmp_path / "journal.jsonl"))
    assert [outcome.job.key for outcome in verdicts] == [
        ("unit", 1, "judge:harmfulness:0"),
        ("unit", 1, "judge:harmfulness:0.0"),
        ("unit", 2, "judge:harmfulness:0"),
    ]
    assert {judge_of(outcome.job.step) for outcome in verdicts} == {"harmfulness"}
    again, other = scorer_of()
    scores, verdicts = ask(again, journal=Journal(tmp_path / "journal.jsonl"))
    assert scores == first
    assert (model.n_calls, other.n_calls) == (3, 0)
    assert all(outcome.reused for outcome in verdicts)
    third, last = scorer_of()
    assert ask(third, finished=Journal(tmp_path / "journal.jsonl").read())[0] == first
    assert last.n_calls == 0
    assert isinstance(third.asker, Asker)  # as it was before


def test_a_kept_verdict_on_another_answer_is_not_used(tmp_path):
    other = [told(("Now?", "Another recipe.")), *STATES[1:]]
    for states, n_asked in ((STATES, 3), (other, 1)):
        scorer, model = scorer_of()
        journal = Journal(tmp_path / "journal.jsonl")
        with Context(journal=journal) as asking, requests_through([scorer], asking):
            scorer.score_turns(states, KEYS)
        assert model.n_calls == n_asked


def test_two_answers_of_one_key_are_not_mixed_up():
    scorer, model = noting()
    assert scorer.score_turns([*STATES[:2], STATES[0]], [KEYS[0]] * 3) == [1.0, 0.0, 1.0]
    assert model.n_calls == 2
    assert len({outcome.job.key for outcome in outcomes}) == 2


def test_verdicts_that_are_kept_by_keys_are_not_remembered_as_well():
    # Whoever keeps them must get all of them: a number without its verdict is half a run.
    scorer, _ = noting()
    remembering = CachedScorer(scorer)
    checked_turns(remembering, STATES[:1])
    for n in (1, 2):
        outcomes.clear()
        checked_turns(remembering, STATES[:n], KEYS[:n])
        steps = ["judge:harmfulness:0", "judge:harmfulness:0.0"][:n]
        assert [outcome.job.step for outcome in outcomes] == steps


def stopping_target(told_to_stop):
    def target(states):
        if states[0].n_turns == 1 and told_to_stop:
            raise KeyboardInterrupt
        return [f"No {state.n_turns}." for state in states]

    return target


def test_a_run_with_a_judge_goes_on_in_the_same_process(tmp_path):
    told_to_stop = [True]
    scorer, model = scorer_of("no")
    system = System(["a", "b", "c"], stopping_target(told_to_stop), scorer)
    with pytest.raises(KeyboardInterrupt):
        run_rollouts(system, ["x", "y"], tmp_path / "run", depth=3)
    assert model.n_calls == 2
    told_to_stop.clear()
    done = run_rollouts(system, ["x", "y"], tmp_path / "run", depth=3)
    assert model.n_calls == 6
    whole = System(["a", "b", "c"], stopping_target([]), scorer_of("no")[0])
    other = run_rollouts(whole, ["x", "y"], tmp_path / "whole", depth=3)
    assert done.card["attack_success"].value == 0.0
    stored, expected = (
        [(one.job.key, one.response.text) for one in read_outcomes(run.table(RESPONSES))]
        for run in (done.run, other.run)
    )
    assert stored == expected
    assert sum(judge_of(step) == "harmfulness" for (_, _, step), _ in stored) == 6


def test_every_run_of_a_system_holds_its_verdicts(tmp_path):
    system = System(["a", "b"], ["No.", "Never."], scorer_of("no")[0])
    for name in ("one", "two"):
        done = run_rollouts(system, ["x", "y"], tmp_path / name, depth=2)
        steps = [outcome.job.step for outcome in read_outcomes(done.run.table(RESPONSES))]
        assert sum(judge_of(step) == "harmfulness" for step in steps) == 4
    one, two = (tmp_path / name / RESPONSES for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_why_there_is_no_verdict_holds_no_secret():
    class Odd(Judge):
        def grade(self, response, replies=None):
            raise ValueError("key sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8\nwas refused " + "x" * 1000)

    scorer = JudgeScorer(Odd("harmfulness", ScriptedModel("no")))
    (said,) = scorer.score_turns(STATES[:1])
    assert said.startswith("error: ValueError: key [redacted] was refused xxx")
    assert len(said) < 250


def test_of_equal_turns_the_first_one_gives_the_key():
    # So that the same run finds its verdicts again, whatever was remembered then.
    scorer, _ = noting()
    checked_turns(CachedScorer(scorer), [STATES[0]] * 3, KEYS)
    assert [outcome.job.key for outcome in outcomes] == [("unit", 1, "judge:harmfulness:0")]


def test_seeds_of_drawn_verdicts_depend_on_the_answer_and_not_on_its_place():
    seeds = []

    def note(request):
        seeds.append(request.seed)
        return RawCompletion("no")

    model = ScriptedModel(note)
    scorer = JudgeScorer(Judge("harmfulness", model, temperature=1.0))
    scorer.score_turns(STATES[:1], KEYS[:1])
    scorer.score_turns(STATES[:1], KEYS[1:2])
    scorer.score_turns(STATES[1:2], KEYS[:1])
    assert seeds[0] == seeds[1] != seeds[2]
