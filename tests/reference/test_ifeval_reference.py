"""IFEval against the published checker, on real and made texts for every prompt of the data."""

import csv
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.graders.ifeval import follows, instruction_ids, loose_variants
from eval_toolkit.tasks import load_task

ROOT = Path(__file__).resolve().parents[2]
ORACLE = Path(__file__).with_name("ifeval_oracle.py")
APPROXIMATE = {"length_constraints:number_sentences", "change_case:capital_word_frequency"}
"""Kinds for which the published checker uses nltk's tokenizers, and we do not."""

BY_LANGUAGE = {
    "change_case:english_capital",
    "change_case:english_lowercase",
    "language:response_language",
}
"""Kinds for which the published checker asks langdetect, and we py3langid (docs/adr/0024)."""

NOT_LETTERS = ("#", "!")
"""The published checker draws a random letter instead of these; we count the sign itself."""

STRUCTURED = [
    "<<A title>>\n\nFirst part.\n***\nSecond part.\n***\nThird part.",
    "* one\n* two\n- three\n  - nested\n** not one\n---",
    "Dear [name],\nmeet me at [place] on [date]. I am [mood].\n\nP.S. Bring [thing].\nP. P. S. Bye",
    "*marked* and **strong** and ** ** and *\nbroken*\n*again* *and* *again*",
    "SECTION 1\nText.\nSECTION 2\nMore.\nSection 3: Day 4, Audience 5 PARAGRAPH 6",
    '```json\n{"a": [1, 2, {"b": null}]}\n```',
    '{"a": 1,}',
    '"All of this is quoted, even the comma."',
    "THIS IS ENGLISH AND ALL OF IT IS WRITTEN IN CAPITAL LETTERS AS WAS ASKED FOR",
    "this is english and none of it is written in capital letters as was asked for.",
    "One answer is here.\n******\nAnother answer is there.",
    "Same.\n******\nSame.",
    "******\nOne.\n******\n\n******\nTwo.",
    "My answer is yes.",
    "I think: My answer is maybe. Or not!",
    "Dies ist ein ganz gewöhnlicher deutscher Text über das Wetter in Berlin und Hamburg.",
    "Это обычный русский текст о погоде в Москве и в других городах страны.",
    "यह हिन्दी में लिखा गया एक साधारण वाक्य है जो मौसम के बारे में है।",
    "هذا نص عربي عادي عن الطقس في القاهرة وفي مدن أخرى من البلاد.",
    "Questo è un normale testo italiano sul tempo a Roma e nelle altre città del paese.",
    "12345 67890",
    "   ",
]


def real_texts(shared: Path) -> list[str]:
    """Completions of a real model, and the prompts themselves."""
    with (shared / "redteam/xstest_completions_llama2new_human_labels.csv").open() as stream:
        return [row["completion"] for row in csv.DictReader(stream)]


def fitting_texts(kwargs: dict[str, Any], base: str, draw: random.Random) -> Iterator[str]:
    """Texts at both sides of what the arguments ask for."""
    for name, value in kwargs.items():
        if name in ("keywords", "forbidden_words"):
            yield f"{base} {' '.join(value)}"
            yield " ".join(value[:-1]) + f" x{value[-1]}x"
        elif name == "keyword":
            n = max(0, kwargs["frequency"] + draw.choice([-1, 0]))
            yield " ".join([value.upper()] * n) + "."
        elif name == "letter":
            yield value * max(0, kwargs["let_frequency"] + draw.choice([-1, 0])) + " zz"
        elif name in ("num_words", "num_sentences", "capital_frequency"):
            n = value + draw.choice([-1, 0, 1])
            unit = {"num_words": "word ", "num_sentences": "It is so. "}.get(name, "BIG small ")
            yield unit * n
        elif name == "end_phrase":
            yield f'"{base} {value.upper()}"  '
            yield f"{base} {value} Bye"
        elif name == "prompt_to_repeat":
            yield f"\n{value.upper()}\n{base}"
            yield value[:-1]
        elif name == "first_word":
            parts = ["Some text."] * kwargs["num_paragraphs"]
            at = min(kwargs["nth_paragraph"], len(parts)) - 1
            for first in (value.title() + ", it", f'"{value}!', value + "s"):
                yield "\n\n".join([*parts[:at], first, *parts[at + 1 :]])
            yield "\n\n\n\n".join([*parts[:at], value])
        elif name.startswith("num_"):
            n = max(0, value + draw.choice([-1, 0]))
            for unit in ("[x] ", "* item\n", "- item\n", "*high* ", "**high** ", "a\n***\n"):
                yield unit * n
            if "section_spliter" in kwargs:
                word = kwargs["section_spliter"]
                yield "".join(f"{word} {at}\ntext\n" for at in range(n))
        elif name == "postscript_marker":
            yield f"{base}\n{value} Bye."
            yield f"{base}\n{value.replace('.', '. ')} Bye."


@pytest.fixture(scope="module")
def prompts(shared_data: Path) -> list[dict[str, Any]]:
    lines = (shared_data / "llm_completion/ifeval_input_data.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def cases(prompts: list[dict[str, Any]], texts: list[str]) -> list[tuple[str, Any, str]]:
    """Every instruction of every prompt with texts drawn for it."""
    made = []
    for prompt in prompts:
        draw = random.Random(prompt["key"])  # noqa: S311
        pool = [*draw.sample(texts, 3), *draw.sample(STRUCTURED, 4)]
        for name, kwargs in zip(prompt["instruction_id_list"], prompt["kwargs"], strict=True):
            if kwargs.get("letter") in NOT_LETTERS:
                continue
            own = [*pool, *fitting_texts(kwargs, pool[0], draw)]
            if name.startswith(("change_case:english", "language:")):
                own = [pool[0].lower(), pool[1].upper(), *draw.sample(STRUCTURED, 3)]
            made += [(name, kwargs, text) for text in own]
            if prompt["key"] % 4 == 0:
                made += [(name, kwargs, text) for text in loose_variants(own[0])[1:]]
    return made


@pytest.fixture(scope="module")
def agreement(shared_data: Path, prompts: list[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Agreeing, followed and all cases by kind of instruction."""
    found = sorted(ROOT.glob(".venv-peers/lib/python3*/site-packages/lm_eval/tasks/ifeval"))
    if not found or not (found[0].parents[2] / "langdetect").exists():
        pytest.skip("lm-eval, which holds the published checker, is not installed beside us")
    asked = cases(prompts, real_texts(shared_data))
    done = subprocess.run(
        [str(ROOT / ".venv-peers/bin/python"), str(ORACLE), str(found[0])],
        input="\n".join(json.dumps(case) for case in asked),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    verdicts = [json.loads(line) for line in done.stdout.splitlines() if line[:1] in "tfn"]
    same: Counter[str] = Counter()
    followed: Counter[str] = Counter()
    n: Counter[str] = Counter()
    for (name, kwargs, text), theirs in zip(asked, verdicts, strict=True):
        if theirs is None:
            continue
        ours = follows(name, text, **kwargs)
        same[name] += ours == theirs
        followed[name] += theirs
        n[name] += 1
    return {name: (same[name], followed[name], n[name]) for name in n}


class TestPublishedChecker:
    def test_every_kind_of_the_data_has_a_rule(self, prompts: list[dict[str, Any]]) -> None:
        asked = {name for prompt in prompts for name in prompt["instruction_id_list"]}
        assert sorted(asked) == instruction_ids()

    def test_verdicts_agree(self, agreement: dict[str, tuple[int, int, int]]) -> None:
        exact = agreement.keys() - APPROXIMATE - BY_LANGUAGE
        assert len(exact) == 20
        for name in exact:
            same, followed, n = agreement[name]
            assert same == n, name
            assert 0 < followed < n, f"{name}: both verdicts must occur for the test to say much"

    def test_verdicts_on_languages_agree_nearly(
        self, agreement: dict[str, tuple[int, int, int]]
    ) -> None:
        """One of 562 differs: English in capital letters, which langdetect calls German."""
        for name in BY_LANGUAGE:
            same, followed, n = agreement[name]
            assert same >= 0.99 * n, name
            assert 0 < followed < n, name

    def test_counts_without_trained_tokenizers_agree_nearly(
        self, agreement: dict[str, tuple[int, int, int]]
    ) -> None:
        there = APPROXIMATE & agreement.keys()
        if not there:
            pytest.skip("the tokenizer data of nltk (punkt_tab) are not installed")
        for name in there:
            same, followed, n = agreement[name]
            assert same >= 0.97 * n, name
            assert 0 < followed < n, name


class TestTheTask:
    def test_it_reads_the_published_file(self, shared_data: Path) -> None:
        data = {"train": shared_data / "llm_completion/ifeval_input_data.jsonl"}
        samples = load_task("ifeval", data=data).samples()
        assert len(samples) == 541
        assert sum(len(sample.context["instruction_id_list"]) for sample in samples) == 834
