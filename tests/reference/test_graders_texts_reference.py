"""Graders of texts against rouge-score, sacrebleu, lm-eval's DROP and HF evaluate's exact match."""

import itertools
import re
import string

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF, TER
from tests.support.each import each

from eval_toolkit.graders import Bleu, ChrF, Drop, ExactMatch, Rouge, Ter
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import Completion, RawCompletion
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.tasks.measuring import grader_columns, measure
from eval_toolkit.tasks.scorecards import task_metrics, task_scorecard
from eval_toolkit.tasks.types import Sample

WORDS = ["The", "cat,", "sat", "on", "a", "MAT.", "über", "x1-y", "(so)", "is", "it?", "no!", "3.5"]


def sentences(rng, n, *, least=0, most=16):
    return [" ".join(rng.choice(WORDS, rng.integers(least, most))) for _ in range(n)]


def test_rouge_equals_rouge_score():
    rng = np.random.default_rng(11)
    oracle = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    for _ in range(300):
        (text,), truths = sentences(rng, 1), sentences(rng, int(rng.integers(1, 4)))
        ours = Rouge("rouge").grade(Completion(text, ground_truth=truths))
        theirs = oracle.score_multi(truths, text)
        for column, name in (("1", "rouge1"), ("2", "rouge2"), ("l", "rougeL")):
            expected = theirs[name].fmeasure
            assert ours[f"rouge_{column}"] == pytest.approx(expected, abs=1e-12), (text, truths)


CORPUS = [
    (Bleu(), BLEU(force=True), BLEU(force=True, effective_order=True)),
    (
        Bleu("intl", lowercase=True),
        BLEU(tokenize="intl", lowercase=True, force=True),
        BLEU(tokenize="intl", lowercase=True, force=True, effective_order=True),
    ),
    (Bleu("char"), BLEU(tokenize="char"), BLEU(tokenize="char", effective_order=True)),
    (ChrF(), CHRF(), CHRF()),
    (ChrF(word_order=2, lowercase=True), *[CHRF(word_order=2, lowercase=True)] * 2),
    (Ter(), TER(), TER()),
    (Ter(case_sensitive=True), *[TER(case_sensitive=True)] * 2),
]


@pytest.mark.parametrize(("grader", "whole", "single"), CORPUS, ids=lambda one: repr(one)[:40])
def test_scores_of_texts_and_of_the_corpus_equal_sacrebleus(grader, whole, single):
    rng = np.random.default_rng(12)
    for n_references in (1, 1, 2, 3):
        n = int(rng.integers(1, 12))
        texts = sentences(rng, n)
        streams = [sentences(rng, n, least=1) for _ in range(n_references)]
        truths = list(zip(*streams, strict=True))
        grades = [
            grader.grade(Completion(text, ground_truth=list(references)))
            for text, references in zip(texts, truths, strict=True)
        ]
        for text, references, grade in zip(texts, truths, grades, strict=True):
            expected = single.sentence_score(text, list(references)).score
            assert grade[grader.name] == pytest.approx(expected, abs=1e-9)
        (metric,) = grader.metrics()
        sums = np.array([[grade[column] for column in metric.columns] for grade in grades])
        expected = whole.corpus_score(texts, streams).score
        assert metric.of_sums(sums.sum(axis=0)[None])[0] == pytest.approx(expected, abs=1e-9)


class Plain:
    """A task that leaves texts as they are."""

    def post_process_generated_completion(self, text, sample=None):
        return text

    def graders(self):
        return [Bleu(), ChrF(), Ter()]


def test_a_run_has_corpus_scores_with_intervals():
    rng = np.random.default_rng(13)
    texts, truths = sentences(rng, 40, least=4), sentences(rng, 40, least=4)
    texts[::2] = [truth + " indeed" for truth in truths[::2]]
    samples = [
        Sample(f"q{at}", "no_subject", [{"role": "user", "content": "?"}], truth)
        for at, truth in enumerate(truths)
    ]
    outcomes = [
        JobResult(
            Job(sample.id, 1, GenerateRequest(sample.messages)), RawCompletion(text), None, False
        )
        for sample, text in zip(samples, texts, strict=True)
    ]
    graders = Plain().graders()
    records = measure(Plain(), samples, outcomes)
    card = task_scorecard(records, task_metrics(grader_columns(graders), graders=graders))
    for name, oracle in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        cell = card[f"{name}_corpus"]
        assert cell.value == pytest.approx(oracle.corpus_score(texts, [truths]).score, abs=1e-9)
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high
        assert card[name].value != pytest.approx(cell.value, abs=0.5)  # no mean of texts
        assert f"{name}_cut" not in card


# Made by running lm_eval.tasks.drop.utils.process_results of lm-eval 0.4.13 on these spans.
LM_EVAL = [
    (["the 3.0 Rome", "hills"], [["3 rome", "hills"]], 1.0, 1.0),
    (["New-York 12th"], [["new york"], ["12th"]], 0.0, 0.8),
    (["1,000 $7"], [["1000 7"]], 1.0, 1.0),
    (["-5"], [["5"]], 1.0, 1.0),
    (["1e3"], [["1000"]], 1.0, 1.0),
    (["O'Neil", "Rome rome!"], [["rome", "oneil", "3"]], 0.0, 0.67),
    (["50% three A."], [["three"], ["50"]], 0.0, 0.67),
    (["Rome"], [["Rome 4"], ["Rome three"]], 0.0, 0.67),
    (["e.g. hills Rome 3", "3"], [["3 hills", "3 eg"]], 0.0, 0.67),
]


@each(("spans", "answers", "exact", "f1"), LM_EVAL)
def test_drop_equals_lm_eval(spans, answers, exact, f1):
    grades = Drop().grade(Completion(", ".join(spans), context={"answers": answers}))
    assert grades == {"drop_f1": f1, "drop_exact_match": exact}


def test_an_answer_that_is_an_article_is_where_drop_differs_from_lm_eval():
    """There nothing is left of "an" and "a", and both agree: (0.0, 0.5)."""
    grades = Drop().grade(Completion("a, the", context={"answers": [["an", "x"]]}))
    assert grades == {"drop_f1": 0.0, "drop_exact_match": 0.0}


def test_the_pairing_of_drop_is_the_best_there_is():
    """Every assignment of up to five spans tried, F1 by precision and recall."""

    def f1(said, gold):
        numbers = {token for token in gold if token.replace(".", "").isdigit()}
        if numbers and not numbers & said:
            return 0.0
        common = len(said & gold)
        precision, recall = common / len(said), common / len(gold)
        return 2 * precision * recall / (precision + recall) if common else 0.0

    rng = np.random.default_rng(14)
    tokens = ["3.0", "4.0", "rome", "bonn", "red", "hills"]
    for _ in range(150):
        one, other = (
            [set(rng.choice(tokens, rng.integers(1, 4))) for _ in range(rng.integers(1, 6))]
            for _ in range(2)
        )
        size = max(len(one), len(other))
        said, gold = (bags + [None] * (size - len(bags)) for bags in (one, other))
        best = max(
            sum(f1(a, b) for a, b in zip(order, gold, strict=True) if a and b)
            for order in itertools.permutations(said)
        )
        text, truth = ([" ".join(sorted(bag)) for bag in bags] for bags in (one, other))
        grades = Drop().grade(Completion(", ".join(text), context={"answers": [truth]}))
        assert grades["drop_f1"] == pytest.approx(best / size, abs=0.005 + 1e-9)


OLMES = [r",", r"\$", r"(?s).*#### ", r"\.$"]


def hf_exact_match(text, truth, regexes, ignore_case, ignore_punctuation):
    """HF evaluate's exact_match, step by step from its description; blanks at the ends aside."""
    for pattern in regexes:
        text, truth = re.sub(pattern, "", text), re.sub(pattern, "", truth)
    if ignore_case:
        text, truth = text.lower(), truth.lower()
    if ignore_punctuation:
        table = str.maketrans("", "", string.punctuation)
        text, truth = text.translate(table), truth.translate(table)
    return float(text.strip() == truth.strip())


@pytest.mark.parametrize("ignore_case", [False, True])
@pytest.mark.parametrize("ignore_punctuation", [False, True])
@pytest.mark.parametrize("regexes", [[], OLMES])
def test_hf_evaluates_exact_match_can_be_said_with_options(
    ignore_case, ignore_punctuation, regexes
):
    grader = ExactMatch(
        ignore_case=ignore_case, ignore_punctuation=ignore_punctuation, ignore=regexes
    )
    texts = ["Rome", "rome.", "ROME!", "$1,000.", "1000", "so\n#### 1000", "#### $1,000"]
    agreements = 0
    for text, truth in itertools.product(texts, repeat=2):
        expected = hf_exact_match(text, truth, regexes, ignore_case, ignore_punctuation)
        found = grader.grade(Completion(text, ground_truth=truth))["exact_match"]
        assert found == expected, (text, truth)
        agreements += expected
    assert agreements >= len(texts)


def test_any_of_several_references_is_right_not_their_mean():
    answer = Completion("#### 1,000", ground_truth=["12", "1000", "13"])
    assert ExactMatch(ignore=OLMES).grade(answer)["exact_match"] == 1.0
