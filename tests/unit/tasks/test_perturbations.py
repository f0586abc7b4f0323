"""Perturbations: what they change, what they leave alone, and that nothing but the unit decides."""

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import (
    BaseTask,
    ChoicesSpec,
    CompletionSpec,
    MCCompletionStyle,
    MCStyle,
    Prompt,
    ResponseType,
    Sample,
    Task,
    rotated,
    run_task,
)
from eval_toolkit.tasks.perturbations import EDITS, KINDS, Perturbation, perturbed
from eval_toolkit.tasks.types import Message

TEXT = "Which famous river flows through the beautiful old town of Heidelberg?"
TEMPLATES = ("Please answer: {text}", "{text} Think first.")


def made(kind: str, probability: float | None = None, **options: Any) -> Perturbation:
    if kind == "paraphrase":
        options.setdefault("templates", TEMPLATES)
    return Perturbation(kind, probability, **options)


class TestTexts:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_unit_always_gets_the_same_and_units_differ(self, kind: str) -> None:
        one = made(kind, 0.5)
        texts = [one.apply(TEXT, f"u{i}") for i in range(20)]
        assert texts == [made(kind, 0.5).apply(TEXT, f"u{i}") for i in range(20)]
        assert len(set(texts)) > 1

    @pytest.mark.parametrize("kind", KINDS)
    def test_seeds_differ_and_nothing_happens_at_zero(self, kind: str) -> None:
        drawn = {made(kind, 0.5, seed=seed).apply(TEXT, "u") for seed in range(20)}
        assert len(drawn) > 1
        assert made(kind, 0.0).apply(TEXT, "u") == TEXT

    @pytest.mark.parametrize("edit", EDITS)
    def test_each_edit_does_what_it_says(self, edit: str) -> None:
        word = "abcdefghij"
        changed = {
            Perturbation("typos", 0.1, edits=[edit]).apply(word, f"u{i}") for i in range(300)
        } - {word}
        once = [text for text in changed if len(text) - len(word) in (-1, 0, 1)]
        assert once
        length = {"insert": 1, "delete": -1}.get(edit, 0)
        assert any(len(text) - len(word) == length for text in once)
        for text in changed:
            assert (text[0], text[-1]) == ("a", "j")
            if edit == "transpose":
                assert sorted(text) == sorted(word)
            if edit == "delete":
                assert set(text) < set(word)
            if edit == "replace":
                assert len(text) == len(word)
            if edit == "insert":
                assert len(text) > len(word)

    def test_the_probability_is_that_of_an_inner_letter(self) -> None:
        word = "abcdefghijklmnopqrstuvwxyz"
        edited = [
            Perturbation("typos", 0.25, edits=["replace"]).apply(word, f"u{i}") for i in range(200)
        ]
        n = sum(a != b for text in edited for a, b in zip(text, word, strict=True))
        # 200 × 24 inner letters: 1200 expected, standard deviation 30.
        assert abs(n - 1200) < 120

    def test_case(self) -> None:
        assert Perturbation("upper").apply("Äpfel und Öl", "u") == "ÄPFEL UND ÖL"
        assert Perturbation("lower").apply("ÄPFEL und Öl", "u") == "äpfel und öl"
        assert Perturbation("swap_case").apply("Äpfel und Öl", "u") == "äPFEL UND öL"
        assert Perturbation("upper").apply("Straße", "u") == "STRASSE"

    def test_german_letters_are_letters(self) -> None:
        text = "Größenänderung überprüfen, außergewöhnlich schön"
        typed = "".join(
            Perturbation("typos", 0.3, edits=["insert"]).apply(text, f"u{i}") for i in range(50)
        )
        counts = {letter: typed.count(letter) - 50 * text.count(letter) for letter in "äöüß"}
        assert min(counts.values()) > 0  # each of them is also typed
        assert not set(typed) - set(text) - set(text.lower()) - set(text.upper())

    def test_accents_stay_with_their_letters(self) -> None:
        apart = unicodedata.normalize("NFD", "überprüfen") + " noe\u0323l"
        for i in range(100):
            text = Perturbation("typos", 0.5).apply(apart, f"u{i}")
            marks = [at for at, sign in enumerate(text) if unicodedata.combining(sign)]
            assert all(text[at - 1] in "eẹ" for at in marks)

    def test_numbers_and_option_letters_are_left_alone(self) -> None:
        text = "In 1984 the 3rd of 12,000 was?\nA. Berlin (A)\nB) Bonn\n(C) Cologne"
        for kind in ("typos", "lower", "swap_case", "whitespace"):
            changed = made(kind, 1.0).apply(text, "u")
            for kept in ("1984", "3rd", "12,000", "A.", "(A)", "B)", "(C)"):
                assert kept in changed, kind
        assert "a. berlin" in Perturbation("lower", patterns=()).apply(text, "u")

    def test_words_can_be_protected(self) -> None:
        kept = Perturbation("upper", protect=["river", "C++"])
        assert kept.apply("River rivers c++", "u") == "River RIVERS c++"

    def test_paraphrases(self) -> None:
        texts = {made("paraphrase").apply("2 {x}?", f"u{i}") for i in range(30)}
        assert texts == {"Please answer: 2 {x}?", "2 {x}? Think first."}

    @given(st.text(max_size=200), st.floats(0, 1))
    def test_blanks_are_only_added(self, text: str, probability: float) -> None:
        changed = Perturbation("whitespace", probability).apply(text, "u")
        plain = unicodedata.normalize("NFC", text)
        assert changed.split() == plain.split()
        assert len(changed) >= len(plain)

    @given(st.text(max_size=200), st.sampled_from(KINDS), st.floats(0, 1))
    def test_any_text_can_be_perturbed_and_keeps_its_numbers(
        self, text: str, kind: str, probability: float
    ) -> None:
        numbers = re.findall(r"\d+", unicodedata.normalize("NFC", text))
        changed = made(kind, probability).apply(text, "u")
        assert re.findall(r"\d+", unicodedata.normalize("NFC", changed)) == numbers


class TestOptions:
    @each(
        ("options", "reason"),
        [
            ({"kind": "noise"}, "`kind`"),
            ({"kind": "typos", "probability": 1.5}, "`probability`"),
            ({"kind": "typos", "edits": ["swap"]}, "`edits`"),
            ({"kind": "typos", "edits": []}, "`edits` is empty"),
            ({"kind": "typos", "templates": TEMPLATES}, "`templates`"),
            ({"kind": "paraphrase"}, "`templates`"),
            ({"kind": "paraphrase", "templates": ["Hello"]}, "must contain {text} once"),
            ({"kind": "typos", "protect": "word"}, "`protect` is 'word'"),
            ({"kind": "typos", "protect": [""]}, r"protect\[0\]"),
            ({"kind": "typos", "patterns": ["("]}, r"`patterns\[0\]`"),
        ],
    )
    def test_mistakes_are_named(self, options: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidInputError, match=reason):
            Perturbation(**options)

    def test_it_says_what_it_is(self) -> None:
        assert Perturbation("typos").name == "typos(0.05)"
        told = made("paraphrase").to_dict()
        assert (told["kind"], told["templates"]) == ("paraphrase", list(TEMPLATES))
        assert made("paraphrase").name == "paraphrase"


def quiz(num_fewshot: int = 0, n: int = 12, **options: Any) -> Task:
    words = ["river", "mountain", "capital", "president", "language", "currency"]
    rows = [
        {"id": f"q{i}", "q": f"What is the {words[i % 6]} of country number {i}?", "a": f"A{i}"}
        for i in range(n)
    ]
    return Task(
        "quiz",
        Prompt(instruction="Question: {q}", cue="Answer:", system="Be brief."),
        CompletionSpec(answer="a"),
        rows={"test": rows, "train": rows},
        num_fewshot=num_fewshot,
        graders=["exact_match"],
        **options,
    )


class TestTasks:
    def test_questions_change_and_identities_stay(self) -> None:
        plain, loud = quiz(), perturbed(quiz(), Perturbation("upper"))
        for before, after in zip(plain.samples(), loud.samples(), strict=True):
            assert (after.id, after.content_hash) == (before.id, before.content_hash)
            assert after.messages[1].content == before.messages[1].content.upper()
            assert after.messages[0] == before.messages[0]
            assert after.messages[2] == before.messages[2]
            assert after.ground_truth == before.ground_truth

    def test_the_task_itself_stays(self) -> None:
        task = quiz()
        before = task.samples()
        perturbed(task, Perturbation("upper")).samples()
        assert task.samples() == before

    def test_examples_are_the_same_ones_perturbed(self) -> None:
        plain, loud = quiz(2), perturbed(quiz(2), Perturbation("upper"))
        for before, after in zip(plain.samples(), loud.samples(), strict=True):
            assert len(before.messages) == 7
            for turn, was in zip(after.messages, before.messages, strict=True):
                is_question = was.role == "user"
                assert turn.content == (was.content.upper() if is_question else was.content)

    def test_limits_and_order_change_nothing(self) -> None:
        task = perturbed(quiz(1), Perturbation("typos", 0.3))
        everything = {sample.id: sample for sample in task.samples()}
        for sample in task.samples(4) + task.samples(3, order="file"):
            assert everything[sample.id] == sample

    def test_choices_that_are_scored_stay(self) -> None:
        task = Task(
            "mc",
            Prompt(instruction="{q}", style="mc"),
            ChoicesSpec(choices="c", answer="a"),
            rows=[{"q": "Which river?", "c": ["Rhine", "Elbe"], "a": 0}],
        )
        (sample,) = perturbed(task, Perturbation("lower")).samples()
        assert sample.possible_completions == (" A", " B")
        assert sample.messages[0].content.startswith("which river?\nA. Rhine\nB. Elbe")

    @pytest.mark.parametrize("style", ["mc_completion", MCCompletionStyle(question_prefix="Q: ")])
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_choice_that_is_copied_is_right_as_before(self, kind: str, style: Any) -> None:
        """Review of 0.9: a model that copies the right option had 0.17 with typos, 0 in capitals."""
        rows = [
            {"q": f"Which city is number {i}?", "c": ["London town", "Paris city"], "a": i % 2}
            for i in range(12)
        ]
        task = Task(
            "mcc",
            Prompt(instruction="{q}", style=style),
            ChoicesSpec(choices="c", answer="a", answer_is="index"),
            rows={"test": rows, "train": rows},
            num_fewshot=1,
        )

        def copies(request: Any) -> str:
            question = [turn.content for turn in request.prompt if turn.role == "user"][-1]
            at = int(re.findall(r"(\d+)", question)[0]) % 2
            return re.findall(r"^[AB]\. (.*)$", question, re.MULTILINE)[at]

        changed = perturbed(task, made(kind, 0.3 if kind == "typos" else 1.0))
        assert run_task(changed, ScriptedModel(copies)).card["exact_match"].value == 1.0
        for before, after in zip(task.samples(), changed.samples(), strict=True):
            assert after.messages != before.messages
            assert after.ground_truth == before.ground_truth

    def test_a_styled_task_that_writes_its_own_text_is_changed_as_a_whole(self) -> None:
        class Own(BaseTask[str]):
            NAME = "own"
            TASK_STYLER = MCStyle()

            def _get_instruction_text(self, item: dict[str, Any]) -> str:
                return str(item["q"])

            def _get_choices(self, item: dict[str, Any]) -> list[str]:
                return ["x", "y"]

            def _get_correct_index(self, item: dict[str, Any]) -> int:
                return 0

        task = perturbed(Own(rows=[{"q": "a river"}]), Perturbation("upper"))
        assert task.samples()[0].messages[0].content == "A RIVER"

    def test_rotated_tasks_are_perturbed_and_perturbed_ones_rotated(self) -> None:
        task = Task(
            "mc",
            Prompt(instruction="{q}", style="mc"),
            ChoicesSpec(choices="c", answer="a", answer_is="index"),
            rows=[{"q": "Which river?", "c": ["Rhine", "Elbe"], "a": 0}],
        )
        upper = Perturbation("upper")
        both = [perturbed(rotated(task, 1), upper), rotated(perturbed(task, upper), 1)]
        for made_of in both:
            (sample,) = made_of.samples()
            assert sample.messages[0].content.startswith("WHICH RIVER?\nA. Elbe\nB. Rhine")
            assert sample.ground_truth == " B"
            told = made_of.describe()
            assert (told["rotate_choices"], told["perturbations"][0]["kind"]) == (1, "upper")
            assert made_of.data_notes == []
        assert both[0].describe() == both[1].describe()
        twice = perturbed(both[1], Perturbation("lower"))
        assert twice.samples()[0].messages[0].content.startswith("which river?\nA. Elbe")

    def test_perturbations_add_up(self) -> None:
        twice = perturbed(
            perturbed(quiz(), Perturbation("upper")),
            Perturbation("paraphrase", templates=["{text}!"]),
        )
        text = twice.samples(1)[0].messages[1].content
        assert text.isupper()
        assert text.endswith("?!")
        kinds = [one["kind"] for one in twice.describe()["perturbations"]]
        assert kinds == ["upper", "paraphrase"]

    def test_words_that_a_task_protects(self) -> None:
        class Kept(BaseTask[str]):
            NAME = "kept"
            RESPONSE_TYPE = ResponseType.COMPLETION
            PERTURBATION_UNMODIFIABLE_WORDS = ("river",)

            def _get_instruction_text(self, item: dict[str, Any]) -> str:
                return str(item["q"])

            def _get_ground_truth(self, item: dict[str, Any]) -> str:
                return "x"

        task = perturbed(Kept(rows=[{"q": "a river runs"}]), Perturbation("upper"))
        assert task.samples()[0].messages[0].content == "A river RUNS"

    def test_a_manifest_says_it(self, tmp_path: Path) -> None:
        task = perturbed(quiz(), Perturbation("upper"))
        done = run_task(task, ScriptedModel("A1"), tmp_path / "run")
        assert done.run is not None
        told = done.run.manifest["config"]["task"]
        assert told["perturbations"][0]["kind"] == "upper"
        assert (told["name"], told["version"]) == ("quiz", "1")
        assert told["prompt_fingerprint"] != quiz().describe()["prompt_fingerprint"]
        assert done.notes == ()

    def test_a_run_that_nothing_changed_says_so(self) -> None:
        done = run_task(perturbed(quiz(), Perturbation("upper", 0.0)), ScriptedModel("A1"))
        assert done.notes == ("the perturbation changes none of the compared prompts",)

    def test_a_task_that_writes_its_requests_itself_is_refused(self) -> None:
        class Own(BaseTask[str]):
            NAME = "own"
            RESPONSE_TYPE = ResponseType.COMPLETION

            def _create_samples(
                self, item: dict[str, Any], index: int, subject: str
            ) -> list[Sample]:
                return [Sample(str(index), subject, [Message("user", "x")], text="x")]

        with pytest.raises(InvalidInputError, match="constructs its requests itself"):
            perturbed(Own(rows=[{"q": "x"}]), Perturbation("upper")).samples()

    def test_other_things_are_refused(self) -> None:
        with pytest.raises(InvalidTypeError, match="`task`"):
            perturbed("quiz", Perturbation("upper"))  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match="`perturbation`"):
            perturbed(quiz(), "upper")  # type: ignore[arg-type]
