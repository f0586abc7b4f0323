"""Graders against hand-worked numbers, an implementation of its own, and what other tools stored."""

import itertools
import json
import re
import string
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.graders import (
    ChoiceAccuracy,
    ExactMatch,
    NumberMatch,
    RegexMatch,
    TokenF1,
    find_number,
)
from eval_toolkit.models.responses import Completion, Loglikelihood
from eval_toolkit.scorecards import Records, summarise


def squad_f1(prediction: str, truth: str) -> float:
    """Precision and recall over bags of words, written out step by step.

    The articles stay where there is nothing else in the truth: there SQuAD's rules find every truth
    equal to an empty guess, and ours do not.
    """
    articles = ("a", "an", "the")

    def words(text):
        kept = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
        return kept.split()

    guess, gold = words(prediction), words(truth)
    if not gold or set(gold) - set(articles):
        guess, gold = ([word for word in text if word not in articles] for text in (guess, gold))
    if not guess and not gold:
        return 1.0
    left = Counter(gold)
    hits = 0
    for word in guess:
        if left[word] > 0:
            left[word] -= 1
            hits += 1
    if hits == 0:
        return 0.0
    precision, recall = hits / len(guess), hits / len(gold)
    return 2 * precision * recall / (precision + recall)


def test_token_f1_against_an_implementation_of_its_own():
    rng = np.random.default_rng(5)
    words = ["the", "a", "Rome,", "rome", "is", "(big)", "an", "old", "city.", "U.S."]
    for _ in range(500):
        guess, gold = (" ".join(rng.choice(words, rng.integers(0, 8))) for _ in range(2))
        ours = TokenF1().grade(Completion(guess, ground_truth=gold))["f1"]
        assert ours == pytest.approx(squad_f1(guess, gold), abs=1e-12), (guess, gold)


def test_lm_evals_accuracy_and_normalised_accuracy():
    """Its ``acc`` is the argmax of the sums, its ``acc_norm`` of the sums over len(choice).

    There the choice has no leading space, which is a delimiter of the prompt. Worked by hand for
    the choices "no" and "certainly not", log-likelihoods -4 and -9: acc takes the first; over the
    lengths 2 and 13 they are -2 and -0.692, so acc_norm takes the second.
    """
    answer = Loglikelihood([-4.0, -9.0], [" no", " certainly not"], ground_truth=" certainly not")
    assert ChoiceAccuracy().grade(answer)["choice"] == 0
    norm = ChoiceAccuracy("characters", leading_space=False).grade(answer)
    assert norm["choice_norm_chars"] == 1


def test_gsm8k_as_lm_eval_filtered_and_graded_it(shared_data):
    """A log of lm-eval 0.4 (strict-match): what its filter found and how it graded."""
    logs = sorted((shared_data / "tool_logs").glob("lm_eval_samples_gsm8k_*.jsonl"))
    strict = RegexMatch(r"#### (\-?[0-9\.\,]+)", which="first")
    options = [",", r"\$", "(?s).*#### ", r"\.$"]
    match = ExactMatch(ignore_case=True, ignore=options)
    rows = [json.loads(line) for path in logs for line in path.read_text("utf-8").splitlines()]
    assert rows
    for row in rows:
        text = row["resps"][0][0]
        found = strict.find(text)
        assert (found or "[invalid]") == row["filtered_resps"][0]
        graded = match.grade(Completion(found or "[invalid]", ground_truth=row["target"]))
        assert graded["exact_match"] == row["exact_match"]


def test_every_reference_of_gsm8k_is_read_as_its_number(shared_data):
    """The number stands after ``####``, with thousands commas; 1 319 of them."""
    path = shared_data / "llm_completion" / "gsm8k_test.jsonl"
    answers = [json.loads(line)["answer"] for line in path.read_text("utf-8").splitlines()]
    assert len(answers) == 1319
    for answer in answers:
        gold = Fraction(answer.split("#### ")[1].replace(",", ""))
        assert find_number(answer) == gold
        said = Completion(f"The answer is ${answer.split('#### ')[1]}.", ground_truth=answer)
        assert NumberMatch().grade(said)["number_match"] == 1.0
        # What lm-eval's flexible filter takes from the same text, compared as its metric does.
        flexible = RegexMatch(r"(-?[$0-9.,]{2,})|(-?[0-9]+)").find(said.completion)
        assert Fraction(re.sub(r"[,$]|\.$", "", flexible)) == gold


def test_exact_match_as_helm_stored_it(shared_data):
    """HELM's run of GPT-2 on MMLU philosophy: exact_match and quasi_exact_match per instance.

    Its quasi match lower-cases and drops punctuation, articles and white space; a prediction is
    mapped through the letters first, and one that is no letter stays as it is.
    """
    folder = shared_data / "tool_logs" / "helm_mmlu_philosophy_gpt2"
    states = json.loads((folder / "scenario_state.json").read_text("utf-8"))["request_states"]
    stored = json.loads((folder / "per_instance_stats.json").read_text("utf-8"))
    quasi = ExactMatch(ignore_case=True, ignore_punctuation=True, ignore_articles=True)
    checked = 0
    for state, line in zip(states, stored, strict=True):
        stats = {stat["name"]["name"]: stat.get("mean") for stat in line["stats"]}
        text = state["result"]["completions"][0]["text"].strip()
        text = state["output_mapping"].get(text, text)
        gold = [
            reference["output"]["text"]
            for reference in state["instance"]["references"]
            if "correct" in reference["tags"]
        ]
        answer = Completion(text, ground_truth=gold)
        assert ExactMatch().grade(answer)["exact_match"] == stats["exact_match"]
        assert quasi.grade(answer)["exact_match"] == stats["quasi_exact_match"]
        checked += 1
    assert checked == 10


@pytest.mark.parametrize("n", [1, 3, 5])
def test_pass_at_k_is_the_share_of_draws_that_contain_a_success(n):
    """1 - C(n-c, k)/C(n, k) against every draw of k out of n attempts, counted."""
    for right in itertools.product([0, 1], repeat=n):
        for k in range(1, n + 1):
            draws = list(itertools.combinations(right, k))
            some = sum(any(draw) for draw in draws) / len(draws)
            every = sum(all(draw) for draw in draws) / len(draws)
            records = Records.from_columns({"right": list(right)}, unit_id=["u"] * n)
            card = summarise(records, [ms.pass_at_k("right", k), ms.pass_hat_k("right", k)])
            assert card[f"right_pass@{k}"].value == pytest.approx(some, abs=1e-12)
            assert card[f"right_pass^{k}"].value == pytest.approx(every, abs=1e-12)
            closed = 1 - comb(n - sum(right), k) / comb(n, k)
            assert closed == pytest.approx(some, abs=1e-12)
