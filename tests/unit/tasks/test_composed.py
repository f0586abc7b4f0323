"""Tasks made of parts: templates, fields, choices in every shape."""

from typing import Any

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.tasks import (
    ChoicesSpec,
    CompletionSpec,
    DataSpec,
    FieldSpec,
    MCStyle,
    Prompt,
    ResponseType,
    Task,
    Template,
)

ROW = {"question": {"stem": "2 + 2?", "n": [3, {"deep": "x"}]}, "answer": "4", "a.b": "dotted"}


class TestTemplates:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("plain", "plain"),
            ("Q: {question.stem}", "Q: 2 + 2?"),
            ("{question.n.0}/{question.n.1.deep}", "3/x"),
            ("{missing|answer}", "4"),
            ("{a.b}", "dotted"),
            ("{{answer}} {{{answer}}} {{other}}", "4 {4} {other}"),
            ("", ""),
        ],
    )
    def test_rendered(self, text: str, expected: str) -> None:
        assert Template(text).render(ROW) == expected

    def test_values(self) -> None:
        row = {"i": 7, "f": 51.0, "g": 0.5, "t": True, "b": False}
        assert Template("{i} {f} {g} {t} {b}").render(row) == "7 51 0.5 true false"

    def test_braces_of_the_data_are_text(self) -> None:
        assert Template("{q}").render({"q": "{answer} {0.__class__}"}) == "{answer} {0.__class__}"

    @each("text", ["{", "a } b", "{a", "{}", "{ }", "{a.}", "{a||b}", "{{{a}}"])
    def test_malformed(self, text: str) -> None:
        with pytest.raises(InvalidInputError, match="the template"):
            Template(text)

    @pytest.mark.parametrize(
        "text",
        ["{answer.__class__}", "{answer!r}", "{answer:>10}", "{question[stem]}", "{answer.0}"],
    )
    def test_there_is_nothing_but_fields(self, text: str) -> None:
        with pytest.raises(
            MissingColumnError, match=r"there is no field .* the fields are 'question"
        ):
            Template(text).render(ROW)

    def test_objects_are_no_text(self) -> None:
        with pytest.raises(InvalidInputError, match="the field 'question' is a dict"):
            Template("{question}").render(ROW)
        with pytest.raises(MissingColumnError, match="there is no value in the field 'x'"):
            Template("{x}").render({"x": None})

    def test_fields(self) -> None:
        assert Template("{a|b} {{x}} {c.d}").fields == ["a|b", "c.d"]

    def test_field_specs(self) -> None:
        row = {"answer": "a #### b #### 1,000 ", "list": "['a', \"b\"]", "json": '["c"]', "n": [1]}
        assert FieldSpec("answer", after="####").read(row) == "1,000"
        assert FieldSpec("answer", split="####").read(row) == ["a", "b", "1,000"]
        assert FieldSpec("list", parse=True).read(row) == ["a", "b"]
        assert FieldSpec("json", parse=True).read(row) == ["c"]
        assert FieldSpec("n", parse=True).read(row) == [1]
        with pytest.raises(InvalidInputError, match="'answer' does not contain '@@'"):
            FieldSpec("answer", after="@@").read(row)
        with pytest.raises(InvalidInputError, match="it cannot be read as a list"):
            FieldSpec("answer", parse=True).read(row)


class TestChoices:
    @each(
        ("choices", "answer", "options"),
        [
            (["x", "y"], 1, {}),
            (["x", "y"], "y", {}),
            (["x", "y"], "B", {}),
            (["x", "y"], True, {}),
            (["x", "y"], "1", {"answer_is": "index"}),
            (["x", "y"], "2", {"answer_is": "number"}),
            (["x", "y"], 2, {"answer_is": "number"}),
            (["x", "y"], "b", {"answer_is": "letter"}),
            (["x", "y"], "nope", {"answer_map": {"nope": "y"}}),
            (["x", "y"], False, {"answer_map": {"false": 1, "true": 0}}),
            ([{"text": "x", "label": "A"}, {"text": "y", "label": "B"}], "B", {}),
            ({"text": ["x", "y"], "label": ["1", "2"]}, "2", {}),
            ({"text": ["x", "y"], "label": [1, 2]}, 2, {}),
            ({"x": 0, "y": 1}, None, {}),
            ({"x": 0, "": 0, "y": 1}, None, {}),
            ([1, 2.0], "2", {"answer_is": "text"}),
        ],
    )
    def test_the_second_is_right(self, choices: Any, answer: Any, options: dict[str, Any]) -> None:
        field = None if answer is None else "a"
        spec = ChoicesSpec(choices="c", answer=field, **options)
        texts, right = spec.right({"c": choices, "a": answer})
        assert (len(texts), right) == (2, [1])

    @each(
        ("choices", "answer", "options", "reason"),
        [
            (["1", "0"], "1", {}, "is the text of one choice and the position of another"),
            (["B", "A"], "A", {}, "is the text of one choice and the position of another"),
            (["x", "y"], "2", {}, "is not one of the choices; set answer_is"),
            (["x", "y"], -1, {}, "is not one of the 2 choices; the label may be hidden"),
            (["x", "y"], 2, {}, "is not one of the 2 choices"),
            (["x", "y"], "C", {}, "is not one of the 2 choices"),
            (["x", "y"], 0, {"answer_is": "number"}, "is not one of the 2 choices"),
            (["x", "y"], 0.5, {}, "the answer 0.5 is not a whole number"),
            (
                ["x", "y"],
                "z",
                {"answer_is": "text"},
                "is not the text of a choice; the texts are 'x', 'y'",
            ),
            (
                ["x", "y"],
                "q",
                {"answer_map": {"p": 0}},
                "the answer is 'q', which is not in answer_map; its keys are 'p'",
            ),
            (
                [{"text": "x", "label": "A"}] * 2,
                "A",
                {},
                "the answer 'A' is the label of two choices",
            ),
            (
                [{"text": "x", "label": "A"}],
                "C",
                {},
                "is not the label of a choice; the labels are 'A'",
            ),
            ([{"txt": "x"}], "A", {}, "the choices are objects without 'text'"),
            ({"text": ["x"], "label": ["A", "B"]}, "A", {}, "1 choices but 2 labels"),
            ({"x": 0, "y": 5}, None, {}, "map a string to 5"),
            ({"x": 0, "y": 0}, None, {}, "no choice is marked as correct"),
            ([], 0, {}, "the list of choices is empty"),
            (["x", ""], 0, {}, "choice 2 is empty"),
            ("['x']", 0, {}, r"they must be a list \(set parse=true"),
            ([["x"]], 0, {}, "a choice is a list"),
        ],
    )
    def test_refused(self, choices: Any, answer: Any, options: dict[str, Any], reason: str) -> None:
        field = None if answer is None else "a"
        spec = ChoicesSpec(choices="c", answer=field, **options)
        with pytest.raises(InvalidInputError, match=reason):
            spec.right({"c": choices, "a": answer})

    def test_templates_as_choices(self) -> None:
        spec = ChoicesSpec(choices=["{x}!", "no"], answer="a")
        assert spec.right({"x": "yes", "a": 0}) == (["yes!", "no"], [0])
        with pytest.raises(InvalidInputError, match="`answer_is` is 'guess'; choose one of"):
            ChoicesSpec(choices="c", answer_is="guess")


class TestTask:
    def test_completion(self) -> None:
        task = Task(
            "sums",
            Prompt(
                instruction="{q}", cue="A:", target="{work} so {a}", system="S.", initial="I {q}"
            ),
            CompletionSpec(answer="a", stop=["\n"], max_tokens=5),
            rows={"test": [{"q": "1+1", "a": 2.0}], "train": [{"q": "2+2", "a": 4, "work": "w"}]},
            num_fewshot=1,
            graders=["number_match"],
            version="3",
        )
        (sample,) = task.samples()
        assert [m.content for m in sample.messages] == [
            "S.",
            "I 1+1\n\n2+2",
            "A: w so 4",
            "1+1",
            "A:",
        ]
        assert sample.ground_truth == "2"
        assert (task.stop_sequences, task.max_tokens, task.VERSION) == (["\n"], 5, "3")
        assert [grader.name for grader in task.graders()] == ["number_match"]

    def test_several_references_and_none(self) -> None:
        prompt, rows = Prompt(instruction="{q}"), [{"q": "?", "a": ["x", 2]}]
        (sample,) = Task("t", prompt, CompletionSpec(answer="a"), rows=rows).samples()
        assert sample.ground_truth == ("x", "2")
        (sample,) = Task("t", prompt, CompletionSpec(), rows=rows).samples()
        assert sample.ground_truth is None

    @pytest.mark.parametrize(
        ("style", "messages", "choices", "truth"),
        [
            (None, ["Q: a", "A: y", "Q: b", "A:"], (" x", " y"), " x"),
            ("cloze", ["Q: a\n", "A: y", "Q: b\n", "A:"], (" x", " y"), " x"),
            ("bpb", ["Q: a\n", "A: y", "Q: b\n", "A:"], (" x",), " x"),
            (
                "mc",
                ["Q: a\nA. x\nB. y\n", "A: B", "Q: b\nA. x\nB. y\n", "A:"],
                (" A", " B"),
                " A",
            ),
            (
                "mc_completion",
                ["Q: a\nA. x\nB. y\n", "A: y", "Q: b\nA. x\nB. y\n", "A:"],
                None,
                "x",
            ),
        ],
    )
    def test_styles(self, style: str | None, messages: list[str], choices: Any, truth: str) -> None:
        task = Task(
            "t",
            Prompt(instruction="Q: {q}", cue="A:", style=style),
            ChoicesSpec(choices=["x", "y"], answer="a"),
            rows={"test": [{"q": "b", "a": 0}], "train": [{"q": "a", "a": 1}]},
            num_fewshot=1,
        )
        (sample,) = task.samples()
        assert [m.content for m in sample.messages] == messages
        assert (sample.possible_completions, sample.ground_truth) == (choices, truth)
        generated = style == "mc_completion"
        assert (task.RESPONSE_TYPE is ResponseType.COMPLETION) == generated

    def test_a_style_of_ones_own(self) -> None:
        task = Task(
            "t",
            Prompt(instruction="{q}", style=MCStyle("Frage: ", "Antwort:")),
            ChoicesSpec(choices=["x", "y"], answer="a"),
            rows=[{"q": "b", "a": 0}],
        )
        (sample,) = task.samples()
        assert [m.content for m in sample.messages] == ["Frage: b\nA. x\nB. y\n", "Antwort:"]

    def test_a_cue_with_a_field(self) -> None:
        task = Task(
            "t",
            Prompt(instruction="Q", cue="{q}:", style="mc"),
            ChoicesSpec(choices=["x", "y"], answer="a"),
            rows={"test": [{"q": "b", "a": 0}], "train": [{"q": "c", "a": 1, "extra": 1}]},
        )
        assert task.samples()[0].messages[-1].content == "b:"
        assert task._get_fewshot_target_text({"q": "c", "a": 1}) == "c: B"

    def test_several_right(self) -> None:
        spec = ChoicesSpec(choices="c")
        rows = [{"q": "?", "c": {"x": 1, "y": 0, "z": 1}}]
        (sample,) = Task("t", Prompt(instruction="{q}"), spec, rows=rows).samples()
        assert sample.ground_truth == (" x", " z")
        with pytest.raises(InvalidInputError, match="2 choices are correct; a style needs exactly"):
            Task("t", Prompt(instruction="{q}", style="mc"), spec, rows=rows).samples()

    def test_parts_that_do_not_fit(self) -> None:
        with pytest.raises(InvalidInputError, match="the style 'mc' needs choices"):
            Task("t", Prompt(instruction="{q}", style="mc"), CompletionSpec(), rows=[])
        with pytest.raises(InvalidInputError, match="`style` is 'mcq'; choose one of 'mc'"):
            Prompt(instruction="{q}", style="mcq")

    def test_errors_name_the_row(self) -> None:
        rows = [{"q": "a", "a": "x"}, {"p": "b"}]
        task = Task("t", Prompt(instruction="{q}"), CompletionSpec(), rows=rows)
        with pytest.raises(InvalidInputError, match="split 'test', row 2: there is no field 'q'"):
            task.samples()

    def test_a_context_field_that_no_row_has_is_named(self) -> None:
        def task(*fields: str, **options: Any) -> Task:
            rows = [{"q": "1?", "a": "1"}, {"q": "2?", "a": "2", "n": 5}]
            spec = DataSpec(context_fields=fields, **options)
            return Task(
                "t", Prompt(instruction="{q}"), CompletionSpec(answer="a"), data=spec, rows=rows
            )

        for options in ({}, {"subject_field": "q"}):
            with pytest.raises(
                MissingColumnError, match=r"no row has the field 'nope', .* are 'q', 'a', .*'n'"
            ):
                task("n", "nope", **options).samples()
            found = {str(one.ground_truth): one.context for one in task("n", **options).samples()}
            assert found == {"1": {"n": None}, "2": {"n": 5}}

    def test_where_the_data_are(self, tmp_path: Any) -> None:
        (tmp_path / "dev.csv").write_text("key;q;p;s\n1;a;g;law\n2;b;g;art\n")
        spec = DataSpec(
            path=tmp_path / "dev.csv",
            sample_split="dev",
            fewshot_split="dev",
            id_field="key",
            group_field="p",
            subject_field="s",
        )
        task = Task("t", Prompt(instruction="{q}"), CompletionSpec(), data=spec)
        samples = task.samples()
        assert [(s.id, s.group, s.subject) for s in samples] == [
            ("art/2", "g", "art"),
            ("law/1", "g", "law"),
        ]
