"""maj@k: exact against every subset, and its cells."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_records
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.metrics import maj_at_k, pass_at_k, votes
from eval_toolkit.scorecards import Records, summarise
from eval_toolkit.tasks.scorecards import task_scorecard


def by_enumeration(answers: list[Any], correct: list[int], k: int) -> float:
    """Mean over all subsets of k; ties share evenly, nothing but blanks is wrong."""
    share = {
        answer: Fraction(sum(c for a, c in zip(answers, correct, strict=True) if a == answer))
        / answers.count(answer)
        for answer in set(answers)
    }
    values = []
    for chosen in combinations(range(len(answers)), k):
        counts = Counter(answers[at] for at in chosen if answers[at] is not None)
        most = max(counts.values(), default=0)
        winners = [answer for answer, n in counts.items() if n == most]
        total = sum((share[answer] for answer in winners), Fraction(0))
        values.append(total / len(winners) if winners else Fraction(0))
    return float(sum(values, Fraction(0)) / len(values))


attempts = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.integers(0, 1)),
    min_size=1,
    max_size=8,
)


class TestFunction:
    @settings(max_examples=150)
    @given(attempts, st.data())
    def test_equals_the_mean_over_all_subsets(self, given_: Any, data: Any) -> None:
        answers, correct = [list(part) for part in zip(*given_, strict=True)]
        correct = [0 if a is None else c for a, c in zip(answers, correct, strict=True)]
        k = data.draw(st.integers(1, len(answers)))
        expected = by_enumeration(answers, correct, k)
        assert maj_at_k([answers], [correct], k)[0] == pytest.approx(expected, abs=1e-12)

    @settings(max_examples=50)
    @given(attempts)
    def test_of_one_attempt_it_is_the_accuracy(self, given_: Any) -> None:
        answers, correct = [list(part) for part in zip(*given_, strict=True)]
        correct = [0 if a is None else c for a, c in zip(answers, correct, strict=True)]
        assert maj_at_k([answers], [correct], 1)[0] == pytest.approx(np.mean(correct))

    def test_with_every_wrong_answer_another_two_votes_win(self) -> None:
        # 2 right of 6, the wrong ones all different: with k = 3 the right answer wins outright with
        # both of its votes (4 of 20 draws), and shares in three with one (2·6 = 12 of 20).
        value = maj_at_k([["r", "r", 1, 2, 3, 4]], [[1, 1, 0, 0, 0, 0]], 3)[0]
        assert value == pytest.approx(4 / 20 + 12 / 20 / 3)

    def test_when_all_wrong_answers_are_one_it_is_a_binary_majority(self) -> None:
        # 3 of 5 right, k = 3: a majority of right ones in C(3,3) + C(3,2)·2 = 7 of 10 draws.
        assert maj_at_k([list("rrrww")], [[1, 1, 1, 0, 0]], 3)[0] == pytest.approx(0.7)

    def test_a_vote_is_never_better_than_one_of_k_being_right(self) -> None:
        answers, correct = [list("rrabbc")], [[1, 1, 0, 0, 0, 0]]
        for k in range(1, 7):
            assert maj_at_k(answers, correct, k)[0] <= pass_at_k([6], [2], k)[0] + 1e-12

    def test_blank_votes_win_nothing(self) -> None:
        assert maj_at_k([[None, None, "r"]], [[0, 0, 1]], 3)[0] == 1.0
        assert maj_at_k([[None, None]], [[0, 0]], 2)[0] == 0.0

    def test_an_answer_marked_both_ways_counts_by_its_share(self) -> None:
        assert maj_at_k([["a", "a"]], [[1, 0]], 2)[0] == 0.5

    def test_many_attempts_are_counted_in_whole_numbers(self) -> None:
        answers = [i % 7 for i in range(1400)]
        right = [int(a == 3) for a in answers]
        assert maj_at_k([answers], [right], 5)[0] == pytest.approx(1 / 7)  # all alike
        few = [list("rrabbc")], [[1, 1, 0, 0, 0, 0]]
        in_floats = [maj_at_k(*few, k)[0] for k in range(1, 7)]
        votes._wins.cache_clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(votes, "_MOST_IN_FLOATS", 0)
            assert [maj_at_k(*few, k)[0] for k in range(1, 7)] == pytest.approx(in_floats)
        votes._wins.cache_clear()

    def test_mistakes(self) -> None:
        with pytest.raises(
            UndefinedMetricError, match="unit 1 has 1 attempts; at least k=2 are needed"
        ):
            maj_at_k([["a", "b"], ["a"]], [[1, 0], [1]], 2)
        with pytest.raises(InvalidInputError, match=r"correct\[0\] has shape \(1,\)"):
            maj_at_k([["a", "b"]], [[1]], 1)
        with pytest.raises(InvalidInputError, match="must have values from 0"):
            maj_at_k([["a"]], [[2]], 1)
        with pytest.raises(InvalidTypeError, match="is a string"):
            maj_at_k(["ab"], [[1, 0]], 1)
        with pytest.raises(InvalidInputError, match="has 1 units but `correct` has 0"):
            maj_at_k([["a"]], [], 1)
        with pytest.raises(InvalidInputError, match="`k`"):
            maj_at_k([["a"]], [[1]], 0)


def three_units() -> Records:
    """Units a (right by majority), b (wrong by majority), c (one attempt)."""
    return Records.from_columns(
        {"right": [1, 1, 0, 1, 0, 0, 1], "code": [7.0, 7.0, 8.0, 7.0, 9.0, 9.0, 7.0]},
        unit_id=list("aaabbbc"),
    )


class TestCells:
    def test_units_with_too_few_attempts_are_skipped_and_counted(self) -> None:
        spec = ms.maj_at_k("right", 3, answer="code")
        cell = summarise(three_units(), [spec])["right_maj@3"]
        assert (cell.value, cell.n_units, cell.n_skipped) == (0.5, 2, 1)
        assert cell.details["answer"] == "code"

    def test_maj_at_1_is_the_mean(self) -> None:
        specs = [ms.maj_at_k("right", 1, answer="code"), ms.mean_of("right")]
        card = summarise(three_units(), specs)
        assert card["right_maj@1"].value == pytest.approx(card["right"].value)

    def test_an_attempt_without_an_answer_votes_for_nobody(self) -> None:
        of = Records.from_columns(
            {"right": [1, 0, 0], "code": [7.0, None, None]}, unit_id=["a"] * 3
        )
        spec = ms.maj_at_k("right", 3, answer="code")
        assert summarise(of, [spec])[spec.name].value == 1.0

    def test_answers_that_are_not_there_are_named(self) -> None:
        with pytest.raises(InvalidInputError, match="no column 'codes' with the answers"):
            summarise(three_units(), [ms.maj_at_k("right", 2, answer="codes")])

    def test_half_right_is_no_mark(self) -> None:
        of = Records.from_columns({"right": [0.5], "code": [7.0]})
        with pytest.raises(InvalidInputError, match="needs a column of 0 and 1"):
            summarise(of, [ms.maj_at_k("right", 1, answer="code")])

    def test_compared_by_its_spec_or_by_name(self) -> None:
        a, b = three_units(), three_units()
        spec = ms.maj_at_k("right", 3, answer="code")
        cell = compare_records({"s": a}, {"s": b}, [spec])["s", "", "right_maj@3"]
        assert (cell.value_a, cell.delta, cell.n_units) == (0.5, 0.0, 2)
        named = Records.from_columns(
            {"right": a.columns["right"], "right_answer": a.columns["code"]}, unit_id=a.unit_id
        )
        (found,) = compare_records({"s": named}, {"s": named}, ["right_maj@3"]).cells
        assert (found.value_a, found.n_units, found.higher_is_better) == (0.5, 2, True)

    def test_failures_are_shown_under_every_policy(self) -> None:
        ok, bad = "ok", "error"
        of = Records.from_columns(
            {"right": [1, 1, None, 0, 0, 0], "code": [7.0, 7.0, None, 9.0, 9.0, 8.0]},
            unit_id=list("aaabbb"),
            status={key: [ok, ok, bad, ok, ok, ok] for key in ("right", "code")},
        )
        spec = ms.maj_at_k("right", 2, answer="code")
        details = task_scorecard(of, [spec])[spec.name].details
        # a: 1 of what is known; with a blank third attempt still 1; any vote could turn it.
        assert (details["exclude"], details["as_zero"]) == (0.5, 0.5)
        assert (details["worst"], details["best"]) == (0.0, 0.5)
