"""Task files from lm-eval, with synthetic documents that have the required fields."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CASES", "WITH_CODE", "Case", "real_variants"]

N_ASKED, N_EXAMPLES = 13, 11
_THINGS = ("salt", "iron", "glass", "wool", "café", "rain", "the moon", "bread", "a kite", "copper")
_PLACES = ("Rome", "Oslo", "Lima", "Kyōto", "Accra", "Perth", "Quito", "Riga", "Łódź", "Nairobi")
_DOINGS = ("melts", "floats in water", "can be bent", "sings", "grows overnight", "is heavier")

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A task file with a function that creates documents for it."""

    file: str
    make: Callable[[int], Row]
    asked: str = "test"
    examples: str = "train"
    answers: tuple[str, ...] = ("",)
    shots: tuple[int | None, ...] = (0, 3)
    """Number of few-shot examples; None for that of the file."""
    overrides: Row = field(default_factory=dict)

    @property
    def splits(self) -> dict[str, list[Row]]:
        """Return different documents for each split."""
        asked = [self.make(at) for at in range(N_ASKED)]
        if self.examples == self.asked:
            return {self.asked: asked}
        return {self.asked: asked, self.examples: [self.make(100 + n) for n in range(N_EXAMPLES)]}

    def variants(self) -> list[Row]:
        """Return the case for each number of few-shot examples."""
        common = {"file": self.file, "splits": self.splits, "answers": list(self.answers)}
        return [
            {
                **common,
                "id": f"{self.file}[{'own' if n is None else n}]",
                "num_fewshot": n,
                "overrides": self.overrides,
            }
            for n in self.shots
        ]


def _of(words: tuple[str, ...], at: int) -> str:
    return words[at % len(words)]


def _question(at: int) -> str:
    return f"Which of these is found in {_of(_PLACES, at * 3)} and {_of(_DOINGS, at)} ({at})?"


def _texts(at: int, n: int = 4) -> list[str]:
    return [
        f"{_of(_THINGS, at + 3 * k)}{' that ' + _of(_DOINGS, at + k) if k % 2 else ''}"
        for k in range(n)
    ]


def _labelled(at: int, n: int = 4) -> Row:
    letters = list("ABCDE")[:n]
    return {
        "id": f"q{at}",
        "question": _question(at),
        "choices": {"text": _texts(at, n), "label": letters},
        "answerKey": letters[at % n],
    }


def _mmlu(at: int) -> Row:
    return {
        "question": f" {_question(at)} ",
        "subject": "anatomy",
        "choices": _texts(at),
        "answer": at % 4,
    }


def _lettered(at: int) -> Row:
    return {
        "question": _question(at),
        **dict(zip("ABCD", _texts(at), strict=True)),
        "answer": at % 4 + 1,
    }


def _pair(at: int) -> Row:
    first = f"In {_of(_PLACES, at)} the {_of(_THINGS, at)} {_of(_DOINGS, at)}."
    second = f"The {_of(_THINGS, at)} {_of(_DOINGS, at + at % 2)} in {_of(_PLACES, at)}."
    return {"sentence1": first, "sentence2": second, "label": at % 2, "idx": at}


def _sum(at: int) -> Row:
    left, right = 7 + at % 5, 3 + at % 4
    return {
        "question": f"Ann has {left} {_of(_THINGS, at)} and buys {right} more in {_of(_PLACES, at)}. How many?",
        "answer": f"She has {left} + {right} = <<{left}+{right}={left + right}>>{left + right}.\n#### {left + right}",
    }


def _mgsm(at: int) -> Row:
    said = f"Step-by-Step Answer: It is {10 + at}. The answer is {10 + at}." if at >= 100 else None
    asked = f"What is {at} and {10}?"
    return {
        "question": f"Question: {asked}" if at >= 100 else asked,
        "answer": said,
        "answer_number": 10 + at,
        "equation_solution": None,
    }


def _boolean(at: int) -> Row:
    return {
        "input": f"not ( {bool(at % 2)} and {bool(at % 3)} ) is",
        "target": str(not (at % 2 and at % 3)),
    }


def _story(at: int) -> Row:
    row = {
        f"input_sentence_{n}": f"{_of(_PLACES, at + n)} was {_of(_DOINGS, n)}." for n in range(1, 5)
    }
    return {
        **row,
        "story_id": str(at),
        "sentence_quiz1": f"It {_of(_DOINGS, at)}.",
        "sentence_quiz2": f"Nothing {_of(_DOINGS, at + 1)}, as ever.",
        "answer_right_ending": at % 2 + 1,
    }


def _text(at: int) -> Row:
    return {
        "text": " ".join(_of(_THINGS + _PLACES, at * 7 + n * n) for n in range(12 + at)),
        "meta": {"n": at},
    }


_NUMBERS = (
    "She has 14.\n#### 14",
    "So it is 10. The answer is 10.",
    "The answer is 11.",
    "9 + 4 = 13\n#### 13",
    "about $1,012 or 12",
    "The final answer is 12",
    "no idea",
    "",
)
_LETTERS = ("A", " B", "C.", "(D)", "The best answer is B.", "b\nbecause", "A. salt", "  C  ", "")
_YES_NO = (" yes", "no", " Yes.", "no, never", "True", "False")

CASES: tuple[Case, ...] = (
    # --- multiple choice ------------------------------------------------------------------------
    Case("arc/arc_easy.yaml", _labelled),
    Case("arc/arc_challenge.yaml", _labelled),
    Case(
        "piqa/piqa.yaml",
        lambda at: {
            "goal": f"To find {_of(_THINGS, at)},",
            "sol1": _texts(at)[0],
            "sol2": _texts(at)[1],
            "label": at % 2,
        },
        asked="validation",
    ),
    Case(
        "super_glue/boolq/default.yaml",
        lambda at: {
            "question": f"is {_of(_THINGS, at)} wet",
            "passage": _pair(at)["sentence1"],
            "label": at % 2,
            "idx": at,
        },
        asked="validation",
    ),
    Case(
        "super_glue/wic/default.yaml",
        lambda at: {**_pair(at), "word": "in", "start1": 0, "end1": 2, "start2": 0, "end2": 3},
        asked="validation",
    ),
    Case(
        "super_glue/rte/default.yaml",
        lambda at: {
            "premise": _pair(at)["sentence1"],
            "hypothesis": _pair(at)["sentence2"],
            "label": at % 2,
            "idx": at,
        },
        asked="validation",
    ),
    Case(
        "openbookqa/openbookqa.yaml",
        lambda at: {**_labelled(at), "question_stem": _question(at)},
    ),
    Case(
        "sciq/sciq.yaml",
        lambda at: {
            "question": _question(at),
            "support": f"  {_pair(at)['sentence1']}",
            **{f"distractor{n}": _texts(at)[n] for n in (1, 2, 3)},
            "correct_answer": _texts(at)[0],
        },
    ),
    Case("mmlu/default/mmlu_anatomy.yaml", _mmlu, examples="dev", shots=(0, 5)),
    Case("mmlu/default/mmlu_formal_logic.yaml", _mmlu, examples="dev", shots=(2,)),
    Case("wmdp/wmdp_bio.yaml", _mmlu, examples="test", shots=(0, 2)),
    Case("commonsense_qa/default.yaml", lambda at: _labelled(at, 5), asked="validation"),
    Case(
        "truthfulqa/truthfulqa_mc1.yaml",
        lambda at: {
            "question": _question(at),
            "mc1_targets": {"choices": _texts(at), "labels": [1, 0, 0, 0]},
        },
        asked="validation",
        examples="validation",
        shots=(None,),
    ),
    Case(
        "glue/cola/default.yaml",
        lambda at: {"sentence": _pair(at)["sentence1"], "label": at % 2, "idx": at},
        asked="validation",
    ),
    Case("glue/mrpc/default.yaml", _pair, asked="validation"),
    Case(
        "glue/qqp/default.yaml",
        lambda at: {
            "question1": _question(at),
            "question2": _question(at + 1),
            "label": at % 3 % 2,
            "idx": at,
        },
        asked="validation",
    ),
    Case(
        "glue/qnli/default.yaml",
        lambda at: {"question": _question(at), "sentence": _pair(at)["sentence1"], "label": at % 2},
        asked="validation",
    ),
    Case("glue/rte/default.yaml", _pair, asked="validation"),
    Case(
        "glue/sst2/default.yaml",
        lambda at: {"sentence": _pair(at)["sentence2"], "label": at % 2},
        asked="validation",
    ),
    Case("glue/wnli/default.yaml", _pair, asked="validation"),
    Case(
        "blimp/adjunct_island.yaml",
        lambda at: {
            "sentence_good": _pair(at)["sentence1"],
            "sentence_bad": _pair(at)["sentence2"],
        },
        asked="train",
        shots=(0, 2),
    ),
    Case(
        "anli/anli_r1.yaml",
        lambda at: {
            "premise": _pair(at)["sentence1"],
            "hypothesis": _pair(at)["sentence2"],
            "label": at % 3,
        },
        asked="test_r1",
        examples="train_r1",
    ),
    Case(
        "headqa/headqa_en.yaml",
        lambda at: {
            "qtext": _question(at),
            "ra": at % 4 + 1,
            "answers": [{"aid": n, "atext": text} for n, text in enumerate(_texts(at))],
        },
    ),
    Case(
        "xnli/xnli_en.yaml",
        lambda at: {
            "premise": _pair(at)["sentence1"],
            "hypothesis": _pair(at)["sentence2"],
            "label": at % 3,
        },
        asked="validation",
    ),
    Case(
        "swag/swag.yaml",
        lambda at: {
            "startphrase": _pair(at)["sentence1"],
            "label": at % 4,
            **{f"ending{n}": _texts(at)[n] for n in range(4)},
        },
        asked="validation",
    ),
    Case(
        "siqa/siqa.yaml",
        lambda at: {
            "context": _pair(at)["sentence1"],
            "question": _question(at),
            "label": str(at % 3 + 1),
            **dict(zip(("answerA", "answerB", "answerC"), _texts(at, 3), strict=True)),
        },
        asked="validation",
    ),
    Case("storycloze/storycloze_2016.yaml", _story, examples="validation"),
    Case("xstorycloze/default_en.yaml", _story, asked="eval"),
    Case(
        "qa4mre/qa4mre_2011.yaml",
        lambda at: {
            "document_str": f" {_pair(at)['sentence1']} ",
            "question_str": _question(at),
            "correct_answer_id": str(at % 4 + 1),
            "answer_options": {"answer_id": list("1234"), "answer_str": _texts(at)},
        },
        asked="train",
        shots=(0, 2),
    ),
    Case(
        "mc_taco/default.yaml",
        lambda at: {
            "sentence": _pair(at)["sentence1"],
            "question": _question(at),
            "answer": _texts(at)[0],
            "label": at % 2,
        },
        examples="validation",
    ),
    Case(
        "belebele/belebele_eng_Latn.yaml",
        lambda at: {
            "flores_passage": _pair(at)["sentence1"],
            "question": _question(at),
            "correct_answer_num": str(at % 4 + 1),
            **{f"mc_answer{n + 1}": _texts(at)[n] for n in range(4)},
        },
        examples="test",
        shots=(0, 4),
    ),
    Case(
        "cmmlu/cmmlu_agronomy.yaml",
        lambda at: {
            "Question": _question(at),
            **dict(zip("ABCD", _texts(at), strict=True)),
            "Answer": "ABCD"[at % 4],
        },
        examples="dev",
        shots=(0, 5),
    ),
    Case(
        "hendrycks_ethics/justice.yaml",
        lambda at: {"label": at % 2, "scenario": _pair(at)["sentence1"]},
    ),
    Case(
        "winogender/winogender.yaml",
        lambda at: {
            "sentence": _pair(at)["sentence1"],
            "pronoun": "she",
            "occupation": "baker",
            "participant": _of(_PLACES, at),
            "label": at % 2,
        },
        examples="test",
        shots=(0, 4),
    ),
    Case(
        "inverse_scaling/inverse_scaling_quote_repetition.yaml",
        lambda at: {
            "prompt": _question(at),
            "classes": [f" {text}" for text in _texts(at, 2)],
            "answer_index": at % 2,
        },
        asked="train",
        shots=(0,),
    ),
    Case(
        "mastermind/mastermind_24_easy.yaml",
        lambda at: {
            "instruction": _question(at),
            "options": {"text": _texts(at), "label": list("ABCD")},
            "answerKey": "ABCD"[at % 4],
        },
    ),
    Case("leaderboard/bbh_mc/boolean_expressions.yaml", _boolean, examples="test", shots=(None, 0)),
    Case(
        "arc/arc_easy.yaml",
        _labelled,
        shots=(1,),
        overrides={
            "task": "arc_every_metric",
            "metric_list": [
                {"metric": name}
                for name in (
                    "acc",
                    "acc_norm",
                    "acc_bytes",
                    "acc_mutual_info",
                    "exact_match",
                    "brier_score",
                    "mcc",
                )
            ],
        },
    ),
    # --- log-likelihoods ------------------------------------------------------------------------
    Case("lambada/lambada_openai.yaml", _text, examples="test", shots=(0, 2)),
    Case("lambada/lambada_standard.yaml", _text, examples="validation", shots=(0, 2)),
    Case("lambada_cloze/lambada_openai_cloze.yaml", _text, examples="test", shots=(0,)),
    Case(
        "asdiv/default.yaml",
        lambda at: {
            "body": _pair(at)["sentence1"],
            "question": _question(at),
            "answer": f"{at} (kites)",
        },
        asked="validation",
        examples="validation",
        shots=(0, 2),
    ),
    Case("pile_10k/pile_10k.yaml", _text, asked="train", examples="train", shots=(0,)),
    Case("pile/pile_arxiv.yaml", _text, asked="train", examples="train", shots=(0,)),
    # --- texts ----------------------------------------------------------------------------------
    Case("gsm8k/gsm8k.yaml", _sum, answers=_NUMBERS, shots=(0, None)),
    Case("gsm8k/gsm8k-cot.yaml", _sum, answers=_NUMBERS, examples="test", shots=(0, None)),
    Case("gsm8k/gsm8k-cot-zeroshot.yaml", _sum, answers=_NUMBERS, shots=(None,)),
    Case(
        "gsm_plus/gsm_plus.yaml",
        lambda at: {"question": _sum(at)["question"], "solution": _sum(at)["answer"]},
        answers=_NUMBERS,
        examples="test",
        shots=(0, 4),
    ),
    Case(
        "asdiv/asdiv-cot-llama.yaml",
        lambda at: {
            "body": _pair(at)["sentence1"],
            "question": _question(at),
            "answer": f"{10 + at % 4} (kites)",
        },
        answers=_NUMBERS,
        asked="validation",
        examples="validation",
        shots=(None,),
    ),
    Case("mgsm/direct/mgsm_direct_en.yaml", _mgsm, answers=_NUMBERS),
    Case("mgsm/en_cot/mgsm_en_cot_en.yaml", _mgsm, answers=_NUMBERS),
    Case(
        "bbh/zeroshot/boolean_expressions.yaml",
        _boolean,
        answers=_YES_NO,
        examples="test",
        shots=(None,),
    ),
    Case(
        "bbh/fewshot/boolean_expressions.yaml",
        _boolean,
        answers=_YES_NO,
        examples="test",
        shots=(None, 0),
    ),
    Case(
        "bbh/cot_fewshot/boolean_expressions.yaml",
        _boolean,
        examples="test",
        shots=(None, 2),
        answers=("so the answer is True.", "the answer is False. ", "True", "the answer is"),
    ),
    Case(
        "bbh/zeroshot/causal_judgement.yaml",
        lambda at: {"input": _question(at), "target": ("Yes", "No")[at % 2]},
        answers=("Yes", "No.", "yes, I think", "- Yes\n- No"),
        examples="test",
        shots=(None,),
    ),
    Case("mmlu/generative/mmlu_anatomy.yaml", _mmlu, answers=_LETTERS, examples="dev"),
    Case("llama3/instruct/mmlu/mmlu_anatomy.yaml", _mmlu, answers=_LETTERS, examples="dev"),
    Case("arc/arc_challenge_chat.yaml", _labelled, answers=_LETTERS, shots=(0, 2)),
    Case("kmmlu/direct/kmmlu_direct_accounting.yaml", _lettered, answers=_LETTERS, examples="dev"),
    Case(
        "super_glue/boolq/seq2seq.yaml",
        lambda at: {
            "question": f"is {_of(_THINGS, at)} wet",
            "passage": _pair(at)["sentence1"],
            "label": at % 2,
            "idx": at,
        },
        asked="validation",
        answers=_YES_NO,
    ),
    Case(
        "triviaqa/default.yaml",
        lambda at: {
            "question": _question(at),
            "answer": {"aliases": [_of(_PLACES, at), f"the {_of(_THINGS, at)}"], "value": "x"},
        },
        asked="validation",
        answers=(" Rome", "the salt", "Oslo!", "OSLO ", "nowhere", "The moon"),
    ),
    Case(
        "nq_open/nq_open.yaml",
        lambda at: {
            "question": _question(at),
            "answer": [_of(_PLACES, at), f"A {_of(_THINGS, at)}"],
        },
        asked="validation",
        answers=(" Rome", "the salt", "Oslo!", "a wool", "nowhere", "The café"),
    ),
    Case(
        "babi/babi.yaml",
        lambda at: {
            "passage": _pair(at)["sentence1"] + "\n",
            "question": _question(at),
            "answer": _of(_PLACES, at),
            "task": 1,
        },
        answers=(" Rome", "Oslo", " Lima ", " Accra"),
    ),
    Case(
        "unscramble/anagrams1.yaml",
        lambda at: {"context": f"{_of(_PLACES, at)[::-1]} =", "completion": _of(_PLACES, at)},
        asked="validation",
        examples="validation",
        answers=("Rome", "Oslo", "Lima", "perth"),
        shots=(0, 2),
    ),
    Case(
        "translation/wmt14_en-fr.yaml",
        lambda at: {
            "translation": {
                "en": _pair(at)["sentence1"],
                "fr": f"À {_of(_PLACES, at)}, {_of(_THINGS, at)} : {_of(_DOINGS, at)}, oui.",
            }
        },
        examples="validation",
        answers=(
            " À Rome, salt : melts, oui.",
            " À Oslo, iron : floats in water, non.",
            " À Lima la glace",
            " oui",
            "",
        ),
    ),
    Case(
        "translation/wmt16_de-en.yaml",
        lambda at: {
            "translation": {
                "de": f"In {_of(_PLACES, at)} ist {_of(_THINGS, at)}.",
                "en": _pair(at)["sentence1"],
            }
        },
        examples="validation",
        answers=(
            " In Rome the salt melts.",
            " In Oslo the iron floats in water.",
            " the glass",
            " In Kyōto it sings!",
        ),
    ),
)

WITH_CODE: tuple[Case, ...] = (
    Case(
        "winogrande/default.yaml",
        lambda at: {
            "sentence": f"The {_of(_THINGS, at)} did not fit into {_of(_PLACES, at)} because the _ is too big.",
            "option1": _of(_THINGS, at),
            "option2": _of(_PLACES, at),
            "answer": str(at % 2 + 1),
        },
        asked="validation",
    ),
    Case(
        "winogrande/default.yaml",
        lambda at: {
            "sentence": f"The {_of(_THINGS, at)} left {_of(_PLACES, at)} and the _ was sad.",
            "option1": _of(_THINGS, at),
            "option2": _of(_PLACES, at),
            "answer": str(at % 2 + 1),
        },
        asked="validation",
        shots=(2,),
        overrides={
            "task": "winogrande_alone",
            "metric_list": [{"metric": "acc"}, {"metric": "acc_mutual_info"}, {"metric": "f1"}],
        },
    ),
    Case(
        "hellaswag/hellaswag.yaml",
        lambda at: {
            "ctx_a": f"In {_of(_PLACES, at)} [title] a man.",
            "ctx_b": f"he {_of(_DOINGS, at)}",
            "activity_label": "Sitting",
            "endings": _texts(at),
            "label": str(at % 4),
        },
        asked="validation",
    ),
    Case(
        "super_glue/copa/default.yaml",
        lambda at: {
            "premise": _pair(at)["sentence1"],
            "choice1": f"It {_of(_DOINGS, at)}.",
            "choice2": f"She {_of(_DOINGS, at + 1)}.",
            "question": ("cause", "effect")[at % 2],
            "label": at % 2,
            "idx": at,
        },
        asked="validation",
    ),
)


def real_variants(data: Path) -> list[Row]:
    """Return cases with published rows, if the folder of real data exists."""
    if not data.is_dir():
        return []
    texts, choices = data / "llm_completion", data / "llm_multiple_choice"
    lines = (choices / "piqa_valid.jsonl").read_text("utf-8").splitlines()[:40]
    labels = (choices / "piqa_valid_labels.lst").read_text("utf-8").split()[:40]
    piqa = [
        {**json.loads(line), "label": int(label)} for line, label in zip(lines, labels, strict=True)
    ]
    sums = (texts / "gsm8k_test.jsonl").read_text("utf-8").splitlines()[:40]
    gsm8k = [json.loads(line) for line in sums]
    counting = json.loads((texts / "bbh_object_counting.json").read_text("utf-8"))["examples"][:20]
    answers = [f"so the answer is {row['target']}." for row in counting[:5]]
    return [
        _real("piqa/piqa.yaml", {"validation": piqa[:20], "train": piqa[20:]}, [""], 4),
        _real(
            "gsm8k/gsm8k.yaml",
            {"test": gsm8k[:20], "train": gsm8k[20:]},
            [row["answer"] for row in gsm8k[:20]],
            5,
        ),
        _real("bbh/cot_fewshot/object_counting.yaml", {"test": counting}, answers, None),
    ]


def _real(file: str, splits: dict[str, list[Row]], answers: list[str], n: int | None) -> Row:
    about = {"id": f"{file}[real]", "file": file, "num_fewshot": n, "overrides": {}}
    return {**about, "splits": splits, "answers": answers}
