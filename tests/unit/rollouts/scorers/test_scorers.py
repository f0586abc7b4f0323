"""Scorers of any make: made, asked, checked, remembered and named."""

import copy
import functools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
    ModelError,
    PluginError,
)
from eval_toolkit.graders import Grade
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.scorers import (
    CachedScorer,
    HuggingFaceScorer,
    JudgeScorer,
    KeywordScorer,
    PatternScorer,
    as_text_scorer,
    available_scorers,
    check_scorers,
    checked_categories,
    checked_scores,
    checked_turns,
    is_event,
    load_scorer,
    unwrapped,
    with_mode,
    with_threshold,
)
from eval_toolkit.rollouts.scorers.base import check_ready

REFUSED_FROM_ONE = "error: RuntimeError: not this one"


class Counting:
    """A scorer that notes every batch; a text with "bad" in it makes it fail."""

    name, version, threshold, higher_is_worse = "counting", "7", 0.5, True
    categories = ("short", "long")

    def __init__(self):
        self.batches = []

    def score(self, texts):
        self.batches.append(list(texts))
        if any("bad" in text for text in texts):
            raise RuntimeError("not this one")
        return [len(text) / 10 for text in texts]

    def score_categories(self, texts):
        numbers = self.score(texts)
        return {"short": [1 - n for n in numbers], "long": numbers}

    def score_turns(self, conversations):
        return self.score([told.responses[-1] for told in conversations])


class UpstreamStyle:
    def score(self, texts):
        return [0.25 for _ in texts]


def told(answer, probe="Say something.", goal="A word"):
    return Conversation(goal).with_probe(probe).with_response(answer)


# --- made of anything -----------------------------------------------------------------------------


def test_a_scorer_is_taken_as_it_is():
    scorer = Counting()
    assert as_text_scorer(scorer) is scorer


def test_an_object_that_only_scores_gets_the_rest():
    scorer = as_text_scorer(UpstreamStyle())
    assert isinstance(scorer, TextScorer)
    assert (scorer.name, scorer.version) == ("upstream_style", "1")
    assert (scorer.threshold, scorer.higher_is_worse, scorer.mode) == (0.5, True, "turn")
    assert scorer.score(["a", "b"]) == [0.25, 0.25]


def test_functions_are_scorers_by_their_names():
    def HTTPLength2Score(texts):  # noqa: N802 - the name is what is tested
        return [0.0 for _ in texts]

    assert as_text_scorer(HTTPLength2Score).name == "http_length2_score"
    assert as_text_scorer(functools.partial(HTTPLength2Score)).name == "http_length2_score"
    assert as_text_scorer(lambda texts: [0.0]).name == "scorer"


def test_options_replace_what_a_scorer_says_and_show_in_its_version():
    scorer = as_text_scorer(Counting(), name="mine", threshold=2, higher_is_worse=False)
    assert (scorer.name, scorer.threshold, scorer.higher_is_worse) == ("mine", 2.0, False)
    assert scorer.version == "7+threshold=2+higher_is_worse=False"
    assert as_text_scorer(Counting(), version="x").version == "x"
    assert scorer.categories == ("short", "long")  # the rest is the inner one's
    assert "mine" in repr(scorer)


@pytest.mark.parametrize("given", ["toxicity", 3, Counting, None])
def test_what_is_no_scorer_is_refused(given):
    with pytest.raises(InvalidTypeError):
        as_text_scorer(given)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": "a:b"}, "without ':'"),
        ({"name": "a/b"}, "without ':'"),
        ({"name": " "}, "name"),
        ({"threshold": math.nan}, "threshold of 'counting'"),
        ({"threshold": "0.5"}, "threshold of 'counting'"),
        ({"mode": "last"}, "mode of 'counting'"),
        ({"higher_is_worse": 1}, "higher_is_worse"),
    ],
)
def test_options_are_checked(options, match):
    with pytest.raises(InvalidInputError, match=match):
        as_text_scorer(Counting(), **options)


def test_no_two_scorers_of_one_name():
    check_scorers([Counting(), as_text_scorer(Counting(), name="other")])
    with pytest.raises(InvalidInputError, match="two scorers have the name 'counting'"):
        check_scorers([Counting(), Counting()])
    with pytest.raises(InvalidTypeError, match=r"scorers\[0\]"):
        check_scorers([Counting])


@pytest.mark.parametrize("names", [("a", "a_probe"), ("a_probe", "b", "a")])
def test_no_two_scorers_fill_one_column(names):
    # `a_probe_mean` is the mean of the scorer `a_probe`, and that of `a` over probes.
    made = [as_text_scorer(Counting(), name=name) for name in names]
    with pytest.raises(InvalidInputError, match=r"'a_probe_mean'.*'a'|'a'.*'a_probe_mean'"):
        check_scorers(made)
    with pytest.raises(InvalidInputError, match="a_probe_mean"):
        System(["x"], ["y"], made)  # before anybody is asked


@pytest.mark.parametrize(
    ("name", "column"),
    [("failed_by", "failed_by_turn_"), ("refused", "refused_turn_"), ("reward",) * 2],
)
def test_no_scorer_fills_a_column_that_all_runs_have(name, column):
    with pytest.raises(InvalidInputError, match=f"'{name}'.*'{column}.*different `name`"):
        check_scorers([as_text_scorer(Counting(), name=name)])


def test_threshold_and_mode_can_be_set_on_a_judge_too():
    inner = JudgeScorer(Judge("harmfulness", ScriptedModel("yes")))
    scorer = CachedScorer(with_mode(with_threshold(inner, 0.9), "final"))
    assert (scorer.threshold, scorer.mode) == (0.9, "final")
    assert scorer.version.endswith("+threshold=0.9+mode='final'")
    assert unwrapped(scorer) is inner
    assert scorer.score_turns([told("x")]) == [1.0]


# --- thresholds and directions --------------------------------------------------------------------


def test_every_scorer_has_a_threshold_of_its_own():
    # Not one hard 0.5 for every scale: the same number is an event for one and none for the other.
    mild, strict = with_threshold(Counting(), 0.7), with_threshold(Counting(), 0.6)
    assert (is_event(mild, 0.6), is_event(strict, 0.6)) == (False, True)


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_both_directions_count_the_threshold_itself(value, threshold):
    up = as_text_scorer(Counting(), threshold=threshold)
    down = as_text_scorer(Counting(), threshold=threshold, higher_is_worse=False)
    assert is_event(up, value) == (value >= threshold)
    assert is_event(down, value) == (value <= threshold)
    assert (is_event(up, value) and is_event(down, value)) == (value == threshold)


# --- asked ----------------------------------------------------------------------------------------


def test_all_texts_are_asked_about_at_once():
    scorer = Counting()
    assert checked_scores(scorer, ["a", "bcd"]) == [0.1, 0.3]
    assert scorer.batches == [["a", "bcd"]]
    assert checked_scores(scorer, []) == []
    assert len(scorer.batches) == 1


def test_a_text_that_makes_a_scorer_fail_fails_alone():
    scorer = Counting()
    assert checked_scores(scorer, ["a", "bad", "bcd"]) == [0.1, REFUSED_FROM_ONE, 0.3]
    assert scorer.batches == [["a", "bad", "bcd"], ["a"], ["bad"], ["bcd"]]
    assert checked_scores(scorer, ["bad", "bad!"]) == [REFUSED_FROM_ONE] * 2


@pytest.mark.parametrize("n", [0, 1, 3])
def test_another_number_of_scores_than_texts_is_refused(n):
    scorer = as_text_scorer(lambda texts: [0.5] * n, name="few")
    with pytest.raises(InvalidInputError, match=rf"'few' returned {n} scores for 2 texts"):
        checked_scores(scorer, ["a", "b"])


@pytest.mark.parametrize("said", [0.5, None, "ab", {"a": 1.0, "b": 2.0}])
def test_what_is_no_list_of_numbers_is_refused(said):
    scorer = as_text_scorer(lambda texts: said, name="odd")
    with pytest.raises(InvalidInputError, match="the scorer 'odd' returned"):
        checked_scores(scorer, ["a", "b"])


@each("value", [math.nan, math.inf, -math.inf, None, "0.5", [0.5], 1j])
def test_what_is_no_number_is_an_error_of_its_text_alone(value):
    first, second = checked_scores(as_text_scorer(lambda texts: [value, 0.5]), ["a", "b"])
    assert isinstance(first, str)
    assert first.startswith("error: the scorer returned ")
    assert second == 0.5


@pytest.mark.parametrize(
    "values", [np.array([0.5, 1]), (1, 0.5), np.float32([0.25, 2]), [True, np.bool_(False)]]
)
def test_numbers_of_every_kind_become_plain_ones(values):
    found = checked_scores(as_text_scorer(lambda texts: values), ["a", "b"])
    assert found == [float(value) for value in values]
    assert [type(value) for value in found] == [float, float]


def test_reasons_that_a_scorer_gives_itself_are_kept():
    said = [Grade(0.5), Grade.skipped("no words"), Grade.error("no luck"), "skipped: why not"]
    found = checked_scores(as_text_scorer(lambda texts: said), list("abcd"))
    assert found == [0.5, "skipped: no words", "error: no luck", "skipped: why not"]


@pytest.mark.parametrize(
    "failure",
    [
        MissingExtraError("needs something"),
        ModelError("no key", kind="auth"),
        ModelError("50 requests failed in a row", kind="timeout"),
    ],
)
def test_what_no_text_would_survive_is_raised_at_once(failure):
    asked = []

    def score(texts):
        asked.append(texts)
        raise failure

    with pytest.raises(type(failure)):
        checked_scores(as_text_scorer(score), ["a", "b"])
    assert len(asked) == 1


def test_a_model_that_refuses_one_text_is_asked_about_the_others():
    def score(texts):
        if "long" in texts:
            raise ModelError("too many tokens", kind="too_long")
        return [0.5] * len(texts)

    found = checked_scores(as_text_scorer(score), ["a", "long"])
    assert found == [0.5, "error: too many tokens"]


@pytest.mark.parametrize(
    ("texts", "match"), [("one text", "one text"), (["a", None], r"texts\[1\]")]
)
def test_texts_are_a_list_of_texts(texts, match):
    for scorer in (Counting(), CachedScorer(Counting())):
        with pytest.raises(InvalidTypeError, match=match):
            checked_scores(scorer, texts)


def test_a_failure_is_said_in_one_short_line():
    def score(texts):
        raise ValueError("line one\nline two " + "x" * 1000)

    (said,) = checked_scores(as_text_scorer(score), ["a"])
    assert said.startswith("error: ValueError: line one line two xxx")
    assert len(said) < 250
    assert "\n" not in said


@pytest.mark.parametrize("start", ["", "x" * 170])
def test_a_failure_holds_no_secret(start):
    def score(texts):
        raise ValueError(f"{start} key sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8 was refused")

    (said,) = checked_scores(as_text_scorer(score), ["a"])
    assert "sk-" not in said
    assert "key [redacted]" in said or start  # what is cut off is cut off after that


# --- categories and conversations -----------------------------------------------------------------


def test_categories_are_checked_like_scores():
    found = checked_categories(Counting(), ["aaaaa", "bad"])
    assert found == {"short": [0.5, REFUSED_FROM_ONE], "long": [0.5, REFUSED_FROM_ONE]}


@pytest.mark.parametrize("said", [{"short": [1.0]}, [1.0], {"short": [1.0], "long": [1.0, 2.0]}])
def test_categories_of_another_shape_are_refused(said):
    class Odd(Counting):
        def score_categories(self, texts):
            return said

    with pytest.raises(InvalidInputError, match="counting"):
        checked_categories(Odd(), ["a"])


def test_conversations_are_asked_about_together_and_fail_alone():
    scorer = Counting()
    found = checked_turns(scorer, [told("four"), told("bad")], keys=[("u", 1, "0"), ("u", 1, "1")])
    assert found == [0.4, REFUSED_FROM_ONE]
    assert scorer.batches[0] == ["four", "bad"]


# --- remembered -----------------------------------------------------------------------------------


def test_a_text_is_asked_about_once():
    inner = Counting()
    scorer = CachedScorer(inner)
    assert isinstance(scorer, TextScorer)
    assert scorer.score(["a", "bc", "a"]) == [0.1, 0.2, 0.1]
    assert scorer.score(["bc", "def"]) == [0.2, 0.3]
    assert inner.batches == [["a", "bc"], ["def"]]
    assert (scorer.n_calls, scorer.n_scored) == (2, 3)
    assert scorer.score(["a"])[0] >= 0.1
    assert (scorer.n_calls, scorer.n_scored) == (2, 3)
    assert scorer.score([]) == []


def test_remembering_changes_no_name_version_or_threshold():
    scorer = CachedScorer(with_threshold(Counting(), 0.9))
    assert (scorer.name, scorer.version) == ("counting", "7+threshold=0.9")
    assert (scorer.threshold, scorer.higher_is_worse, scorer.mode) == (0.9, True, "turn")
    assert scorer.categories == ("short", "long")
    assert isinstance(unwrapped(scorer), Counting)


def test_failures_are_not_remembered():
    inner = Counting()
    scorer = CachedScorer(inner)
    assert checked_scores(scorer, ["a", "bad"]) == [0.1, REFUSED_FROM_ONE]
    # The batch and each text of it alone; not once more because of the wrapper.
    assert inner.batches == [["a", "bad"], ["a"], ["bad"]]
    assert checked_scores(scorer, ["a", "bad"]) == [0.1, REFUSED_FROM_ONE]
    assert inner.batches[3:] == [["bad"]]
    with pytest.raises(
        InvalidInputError, match=r"'counting' returned no score for texts\[1\]: error"
    ):
        scorer.score(["a", "bad"])


def test_categories_and_conversations_are_remembered_too():
    inner = Counting()
    scorer = CachedScorer(inner)
    for _ in range(2):
        assert scorer.score_categories(["aaaaa", "aaaaa"])["long"] == [0.5, 0.5]
        assert scorer.score_turns([told("four"), told("four"), told("four", "Other.")]) == [0.4] * 3
    # The probe counts: an answer to another question is another answer.
    assert inner.batches == [["aaaaa"], ["four", "four"]]
    # Numbers of texts, of categories and of conversations are different things.
    assert scorer.score(["aaaaa"]) == [0.5]
    assert len(inner.batches) == 3


def test_a_category_that_failed_is_not_remembered():
    inner = Counting()
    scorer = CachedScorer(inner)
    for _ in range(2):
        assert scorer.score_categories(["bad", "aaaaa"])["long"] == [REFUSED_FROM_ONE, 0.5]
    assert inner.batches[-1] == ["bad"]


def test_what_the_inner_scorer_cannot_do_the_cache_cannot():
    scorer = CachedScorer(UpstreamStyle())
    assert not hasattr(scorer, "score_turns")
    assert not hasattr(scorer, "score_categories")
    assert hasattr(CachedScorer(Counting()), "score_turns")


def test_what_is_known_is_not_copied_for_every_text():
    class Watched(dict):
        n_walked = 0

        def __iter__(self):
            self.n_walked += 1
            return super().__iter__()

    scorer = CachedScorer(Counting(), most=3)
    scorer._scores = Watched()
    for text in "abc":
        scorer.score([text])
    assert scorer._scores.n_walked == 0
    scorer.score(["d"])
    assert list(scorer._scores.values()) == [0.1] * 3


def test_the_oldest_are_forgotten():
    inner = Counting()
    scorer = CachedScorer(inner, most=2)
    scorer.score(["a", "b", "c"])
    scorer.score(["b", "c"])
    assert len(inner.batches) == 1
    scorer.score(["a"])
    assert inner.batches[1:] == [["a"]]
    with pytest.raises(InvalidInputError, match="most"):
        CachedScorer(inner, most=0)


def test_a_remembering_scorer_can_be_copied():
    scorer = CachedScorer(Counting())
    scorer.score(["a"])
    assert copy.copy(scorer).score(["a"]) == [0.1]
    assert copy.deepcopy(scorer).n_scored == 1
    assert "CachedScorer" in repr(scorer)


@given(st.lists(st.lists(st.text(max_size=3), max_size=6), max_size=6), st.integers(1, 4))
def test_remembering_changes_no_number(batches, most):
    scorer = CachedScorer(lambda texts: [float(len(text)) for text in texts], most=most)
    for batch in batches:
        assert scorer.score(batch) == [float(len(text)) for text in batch]


# --- words and patterns ---------------------------------------------------------------------------


def test_words_are_found_whatever_their_case_and_spaces():
    scorer = KeywordScorer(["you're a fool", "Idiot"])
    texts = ["YOU’RE  a\nfool, really", "an idiot.", "idiotic", "", "fool"]
    assert scorer.score(texts) == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_parts_of_words_count_where_they_are_to():
    assert KeywordScorer(["idiot"], whole_words=False).score(["idiotic"]) == [1.0]
    assert KeywordScorer(["c++"]).score(["Use C++, please.", "c+"]) == [1.0, 0.0]


def test_options_of_words_show_in_the_version():
    assert KeywordScorer(["a"]).version == "1+phrases=('a',)"
    changed = KeywordScorer(["a"], whole_words=False, threshold=1, mode="final")
    assert changed.version == "1+phrases=('a',)+whole_words=False+threshold=1.0+mode='final'"


@each(
    "make",
    [
        lambda: KeywordScorer([]),
        lambda: KeywordScorer("idiot"),
        lambda: KeywordScorer(["a", " "]),
        lambda: KeywordScorer(["a"], whole_words="no"),
        lambda: KeywordScorer(["a"], threshold="x"),
        lambda: KeywordScorer(["a"], mode="last"),
        lambda: PatternScorer(""),
        lambda: PatternScorer("("),
        lambda: PatternScorer("a", higher_is_worse=None),
    ],
)
def test_words_and_patterns_are_checked(make):
    with pytest.raises(InvalidInputError):
        make()


def test_patterns_are_found():
    scorer = PatternScorer(r"(?i)step \d+:")
    assert scorer.score(["STEP 1: mix", "steps"]) == [1.0, 0.0]
    assert scorer.version == r"1+pattern='(?i)step \\d+:'"


def test_a_pattern_that_would_never_end_is_an_error_of_its_text_alone():
    # (a+)+$ takes 2^n ways through n letters a and a b.
    found = checked_scores(PatternScorer("(a+)+$"), ["aaa", "a" * 40 + "b"])
    assert found[0] == 1.0
    assert found[1].startswith("error: the pattern takes too long")
    with pytest.raises(InvalidInputError, match=r"texts\[0\]"):
        PatternScorer("(a+)+$").score(["a" * 40 + "b"])


# --- by name --------------------------------------------------------------------------------------


def plugin(texts):
    return [0.75 for _ in texts]


class MadeByName:
    name, version, threshold, higher_is_worse = "made", "1", 0.5, True

    def __init__(self, number=0.5):
        self.number = number

    def score(self, texts):
        return [self.number for _ in texts]


READY = MadeByName(0.125)


def test_names_make_scorers():
    assert load_scorer("keywords:idiot, you fool").phrases == ("idiot", "you fool")
    assert load_scorer(r"pattern:a{2}:\d").pattern == r"a{2}:\d"
    assert load_scorer("Refusal").name == "refusal"
    assert load_scorer("toxicity:insult@0.7").threshold == 0.7
    judge = load_scorer("judge:harmfulness@scripted:yes@1")
    assert judge.threshold == 1.0
    assert judge.score_turns([told("x")]) == [1.0]


def test_threshold_and_mode_come_last_in_any_order():
    for spec in ("keywords:a@0.7@final", "keywords:a@final@0.7"):
        scorer = load_scorer(spec)
        assert (scorer.threshold, scorer.mode, unwrapped(scorer).phrases) == (0.7, "final", ("a",))
    assert load_scorer("keywords:me@home").phrases == ("me@home",)
    assert load_scorer("pattern:a[@]1").threshold == 0.5
    with pytest.raises(InvalidInputError, match="threshold twice"):
        load_scorer("keywords:a@1@2")
    with pytest.raises(InvalidInputError, match="threshold"):
        load_scorer("keywords:a@nan")


def test_scorers_of_others_are_named_by_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "scorers.of_others", sys.modules[__name__])
    assert load_scorer("scorers.of_others:plugin").score(["a"]) == [0.75]
    assert load_scorer("scorers.of_others:READY").score(["a"]) == [0.125]
    made = load_scorer("scorers.of_others:MadeByName@0.25", {"number": 0.25})
    assert (made.score(["a"]), made.threshold) == ([0.25], 0.25)
    with pytest.raises(InvalidInputError, match="nothing"):
        load_scorer("scorers.of_others:MadeByName", {"nothing": 1})
    with pytest.raises(InvalidInputError, match="is an existing object"):
        load_scorer("scorers.of_others:READY", {"number": 1})
    with pytest.raises(PluginError, match="of_others"):
        load_scorer("scorers.of_others:absent")
    with pytest.raises(PluginError, match="no module"):
        load_scorer("no.such.module:thing")


@each(
    ("spec", "match"),
    [
        ("toxicty", "did you mean 'toxicity'"),
        ("keyword:a", "did you mean 'keywords'"),
        ("zzz", "the names are hf, judge, keywords"),
        ("keywords", "is incomplete; write keywords:WORD"),
        ("keywords:", "is incomplete; write keywords:WORD"),
        ("keywords: , ", "phrases"),
        ("refusal:", "is incomplete; remove the colon"),
        ("judge:harmfulness", "write judge:RUBRIC@MODEL"),
        ("judge:harmfulnes@scripted:yes", "did you mean 'harmfulness'"),
        ("toxicity:rude", "category"),
        ("", "the name of a scorer"),
        (7, "the name of a scorer"),
    ],
)
def test_names_that_are_none_say_what_to_write(spec, match):
    with pytest.raises((InvalidInputError, PluginError), match=match):
        load_scorer(spec)


def test_every_scorer_of_ours_is_listed_in_a_line():
    listed = available_scorers()
    assert set(listed) >= {"hf", "judge", "keywords", "pattern", "refusal", "toxicity"}
    assert all("\n" not in line and line for line in listed.values())


# --- ready beforehand ---------------------------------------------------------------------------


class Waiting:
    """A scorer that needs something which is not there."""

    name = "waiting"
    version = "1"
    threshold = 0.5
    higher_is_worse = True

    def ready(self):
        raise ModelError("fetch it first", kind="not_found")

    def score(self, texts):
        return [0.0] * len(texts)


@pytest.mark.parametrize("wrap", [lambda s: s, CachedScorer, lambda s: with_threshold(s, 0.7)])
def test_what_a_scorer_needs_is_asked_for_before_anybody_else_is(wrap):
    asked = []

    def target(states):
        asked.append(len(states))
        return ["No."] * len(states)

    system = System(["Please."], target, [KeywordScorer(["no"]), wrap(Waiting())])
    with pytest.raises(ModelError, match="fetch it first"):
        run_rollouts(system, ["a", "b"], depth=1)
    assert asked == []


def test_a_ready_that_cannot_be_called_is_none():
    class Told(Waiting):
        ready = True

    run_rollouts(System(["Please."], ["No."], Told()), ["a"], depth=1)
    check_ready([KeywordScorer(["no"]), Told()])


def test_an_extra_that_a_classifier_needs_is_told_beforehand(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="HuggingFaceScorer"):
        check_ready([HuggingFaceScorer("some-org/some-model")])


@pytest.mark.parametrize("spec", ["toxicity@abc", "refusal@final@x", "toxicity@@0.5"])
def test_what_stands_behind_the_at_sign_is_at_fault(spec):
    with pytest.raises(InvalidInputError, match="after @ is neither a threshold nor a mode"):
        load_scorer(spec)
