"""Properties of verdicts, votes and pairs: whatever is said, it is a number of the scale or an error."""

from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.graders import Grade
from eval_toolkit.graders.judges import (
    RUBRICS,
    Labels,
    MatchOutcome,
    PairJudge,
    Scale,
    VerdictFormat,
)
from eval_toolkit.graders.judges.voting import agreement, combined
from eval_toolkit.models.responses import Completion, RawCompletion
from eval_toolkit.models.scripted import ScriptedModel

JUDGE = PairJudge(ScriptedModel(""))
A, B = Completion("a", id="q"), Completion("b", id="q")
LETTERS = {"A": MatchOutcome.A_WINS, "B": MatchOutcome.B_WINS, "C": MatchOutcome.DRAW}

letters = st.sampled_from("ABC")
grades = st.lists(
    st.one_of(st.sampled_from([0.0, 0.5, 1.0]).map(Grade), st.just(Grade.error("?"))),
    min_size=1,
    max_size=7,
)


def fought(ab, ba):
    replies = {"judge:pair:ab": f"[[{ab}]]", "judge:pair:ba": f"[[{ba}]]"}
    return JUDGE.grade(A, B, {step: RawCompletion(text) for step, text in replies.items()})


@given(st.sampled_from(sorted(RUBRICS)), st.text(max_size=300))
def test_a_reply_is_a_number_within_bounds_or_an_error(name, text):
    verdict = RUBRICS[name].verdict
    for part, grade in verdict.read(text).items():
        low, high = verdict.fields[part].info.bounds
        assert grade.status == "error" or low <= grade.value <= high
        assert "\n" not in grade.reason


@given(st.integers(-30, 40), st.text("abc []{}<>\n", max_size=40))
def test_a_number_on_the_scale_is_found_in_any_words(number, words):
    read = VerdictFormat("tag", {"n": Scale(0, 10, scaled=False)}).read(f"{words}<n>{number}</n>")[
        "n"
    ]
    assert (read.value == number) if 0 <= number <= 10 else (read.status == "error")


@given(st.sampled_from(["yes", "no"]), st.sampled_from(["", ".", "\n\n", "!", " \n"]))
def test_case_and_signs_do_not_change_a_label(word, end):
    labels = VerdictFormat("label", {"x": Labels({"yes": 1, "no": 0})})
    for text in (word, word.upper(), word.title(), f"**{word}**", f"Verdict: {word}"):
        assert labels.read(text + end)["x"].value == float(word == "yes")


@given(letters, letters)
def test_pairs_flip_with_their_answers(ab, ba):
    """Swapping the runs swaps the prompts: what was said about ab is now said about ba."""
    line, other = fought(ab, ba), fought(ba, ab)
    assert line["win"] == 1.0 - other["win"]
    assert line["tie"] == other["tie"]
    assert line["consistent"] == other["consistent"]
    assert line["first_position"] == other["first_position"]


@given(letters, letters)
def test_a_pair_is_consistent_where_the_flipped_verdict_is_the_same(ab, ba):
    same = LETTERS[ab] is LETTERS[ba].flip()
    line = fought(ab, ba)
    assert line["consistent"] == float(same)
    assert line["win"] == (LETTERS[ab].payoff[0] if same else 0.5)


@given(grades)
def test_a_majority_is_held_by_more_than_half(votes):
    values = [grade.value for grade in votes]
    held = [
        value for value in set(values) if value is not None and 2 * values.count(value) > len(votes)
    ]
    found = combined(votes, "majority")
    assert ([found.value] if found.status == "ok" else []) == held


@given(grades, st.randoms())
def test_the_order_of_votes_changes_no_number(votes, draw):
    shuffled = draw.sample(votes, len(votes))
    for rule in ("majority", "mean"):
        one, other = combined(votes, rule), combined(shuffled, rule)
        assert (one.status, one.value) == (other.status, other.value)
    assert agreement(votes).value == agreement(shuffled).value
