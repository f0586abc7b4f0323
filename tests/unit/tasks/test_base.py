"""Tasks as classes: identity, order, examples, choices, hooks."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.tasks import (
    BaseTask,
    BPBStyle,
    ClozeStyle,
    Item,
    MCStyle,
    Message,
    ResponseType,
    Role,
    Sample,
)

COMPLETION, LOGLIKELIHOODS = ResponseType.COMPLETION, ResponseType.LOGLIKELIHOODS


class Sums(BaseTask[str]):
    NAME = "Sums"
    DATASET_PATH = "sums"
    RESPONSE_TYPE = COMPLETION

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"{item['a']} + {item['b']} ="

    def _get_ground_truth(self, item: dict[str, Any]) -> Any:
        return str(item["a"] + item["b"])


class Chosen(Sums):
    NAME = "Chosen"
    RESPONSE_TYPE = LOGLIKELIHOODS

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
        return [str(item["a"] + item["b"] + off) for off in range(4)]


class Styled(BaseTask[str]):
    NAME = "Styled"
    DATASET_PATH = "styled"
    TASK_STYLER = MCStyle()

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        return str(item["q"])

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        return ["w1", "right", "w2", "w3"]

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        return int(item.get("at", 1))


def sums(n: int, start: int = 0) -> list[dict[str, int]]:
    return [{"a": i, "b": i * i} for i in range(start, start + n)]


def identities(samples: list[Sample]) -> list[tuple[str, str]]:
    return [(sample.id, sample.content_hash) for sample in samples]


class TestClass:
    def test_three_names_suffice(self) -> None:
        task = Sums(rows=sums(2))
        assert (task.SAMPLE_SPLIT, task.FEWSHOT_SPLIT, list(task.SUBJECTS)) == (
            "test",
            "train",
            ["no_subject"],
        )
        assert (task.VERSION, task.LANGUAGE, task.stop_sequences, task.max_tokens) == (
            "1",
            None,
            None,
            None,
        )

    def test_what_is_missing_is_named(self) -> None:
        class Nameless(BaseTask[str]):
            RESPONSE_TYPE = COMPLETION

        class Typeless(BaseTask[str]):
            NAME = "x"

        class Dataless(BaseTask[str]):
            NAME = "x"
            RESPONSE_TYPE = COMPLETION

        with pytest.raises(InvalidInputError, match="class Nameless has no name; set NAME"):
            Nameless(rows=[])
        with pytest.raises(InvalidInputError, match=r"class Typeless .* set RESPONSE_TYPE"):
            Typeless(rows=[])
        with pytest.raises(InvalidInputError, match="does not define its data; pass `data`"):
            Dataless()
        with pytest.raises(InvalidInputError, match="pass either `rows` or `data`, not both"):
            Dataless(rows=[], data="x")

    def test_options_that_do_not_fit(self) -> None:
        with pytest.raises(
            InvalidInputError, match="`user_prompt_suffix` is only supported by completion"
        ):
            Chosen(rows=sums(2), user_prompt_suffix="!")
        with pytest.raises(InvalidInputError, match="`shuffle_choices`: the task 'Sums' has no"):
            Sums(rows=sums(2), shuffle_choices=True)
        with pytest.raises(InvalidInputError, match="`num_fewshot` is -1; it must be at least 0"):
            Sums(-1, rows=sums(2))
        with pytest.raises(InvalidTypeError, match="`num_fewshot` must be an integer"):
            Sums("2", rows=sums(2))  # type: ignore[arg-type]

    def test_missing_hooks_are_named(self) -> None:
        class Bare(BaseTask[str]):
            NAME = "Bare"
            RESPONSE_TYPE = COMPLETION

        with pytest.raises(
            InvalidInputError, match="row 1: task 'Bare' fails: NotImplementedError"
        ):
            Bare(rows=sums(1)).samples()

    def test_the_published_constructor(self) -> None:
        task = Sums.with_overwrite(1, custom_subjects=None, seed=7, rows=sums(3))
        assert (task.num_fewshot, task.seed) == (1, 7)

    def test_iterating_is_the_same(self) -> None:
        task = Sums(rows=sums(5))
        assert isinstance(task.iterate_samples(3), Iterator)
        assert list(task.iterate_samples(3)) == task.samples(3)


class TestIdentity:
    def test_content_names_a_unit(self) -> None:
        samples = Sums(rows=sums(4)).samples(order="file")
        assert all(sample.id == sample.content_hash[:16] for sample in samples)
        assert [sample.index for sample in samples] == [0, 1, 2, 3]
        assert all(sample.subject == "no_subject" for sample in samples)

    def test_equal_rows_are_told_apart(self) -> None:
        first, second = Sums(rows=[*sums(1), *sums(1)]).samples(order="file")
        assert second.id == f"{first.id}~2"
        assert second.content_hash == first.content_hash

    def test_the_key_of_the_data_wins_and_is_not_content(self) -> None:
        rows = [{"id": n, **row} for n, row in enumerate(sums(3))]
        samples = Sums(rows=rows).samples(order="file")
        assert [sample.id for sample in samples] == ["0", "1", "2"]
        plain = Sums(rows=sums(3)).samples(order="file")
        assert [s.content_hash for s in samples] == [s.content_hash for s in plain]

    @pytest.mark.parametrize("bad", [0, None, "", 1.5, True])
    def test_a_key_that_is_none_is_content(self, bad: Any) -> None:
        rows = [{"id": 0, **sums(1)[0]}, {"id": bad, **sums(1)[0]}]
        first, second = Sums(rows=rows).samples(order="file")
        assert len(first.id.split("~")[0]) == 16
        assert (first.content_hash == second.content_hash) == (bad == 0 and bad is not False)

    def test_a_key_that_cannot_be_stored_is_none(self) -> None:
        rows = [{"id": f"x{sign}", **sums(1)[0]} for sign in ("", "\ud800")]
        samples = Sums(rows=rows).samples()
        assert all(len(sample.id.split("~")[0]) == 16 for sample in samples)

        class Keyed(Sums):
            ID_FIELD = "key"

        rows = [{"key": "x\ud800", **sums(1)[0]}]
        reason = r"row 1: the key 'key' is 'x\\ud800'; every key must be a string or a number"
        with pytest.raises(InvalidInputError, match=reason):
            Keyed(rows=rows).samples()

    def test_a_group_that_cannot_be_stored_is_hashed(self) -> None:
        class Grouped(Sums):
            GROUP_FIELD = "passage"

        (sample,) = Grouped(rows=[{**sums(1)[0], "passage": "x\ud800"}]).samples()
        assert len(str(sample.group)) == 16

    def test_a_promised_key_must_be_one(self) -> None:
        class Keyed(Sums):
            ID_FIELD = "key"

        with pytest.raises(MissingColumnError, match="row 1: the key 'key' is missing"):
            Keyed(rows=sums(1)).samples()
        rows = [{"key": "x", **row} for row in sums(2)]
        with pytest.raises(InvalidInputError, match="row 2: the key 'key' is 'x', as in row 1"):
            Keyed(rows=rows).samples()

    def test_id_is_a_promise_where_it_is_named(self) -> None:
        class Keyed(Sums):
            ID_FIELD = "id"

        rows: list[dict[str, Any]] = [{"id": f"k{n}", **row} for n, row in enumerate(sums(3))]
        assert [sample.id for sample in Keyed(rows=rows).samples(order="file")] == [
            "k0",
            "k1",
            "k2",
        ]
        with pytest.raises(MissingColumnError, match="row 4: the key 'id' is missing"):
            Keyed(rows=[*rows, {"a": 1, "b": 2}]).samples()
        with pytest.raises(InvalidInputError, match="row 4: the key 'id' is 'k1', as in row 2"):
            Keyed(rows=[*rows, {"id": "k1", "a": 1, "b": 2}]).samples()

    def test_an_id_that_is_no_key_is_told(self) -> None:
        rows: list[dict[str, Any]] = [{"id": f"k{n}", **row} for n, row in enumerate(sums(3))]
        for data in (rows, sums(3)):  # a key, and no such field
            task = Sums(rows=data)
            task.samples()
            assert task.data_notes == []
        task = Sums(rows=[*rows, {"a": 1, "b": 2}])
        task.samples()
        assert task.data_notes == [
            "split 'test', row 4: the key 'id' is missing; items are identified by their content instead"
        ]

        class Parts(Sums):
            SUBJECT_FIELD = "part"

        task = Parts(rows=[{"id": 1, "part": n % 5, **row} for n, row in enumerate(sums(20))])
        task.samples()
        assert len(task.data_notes) == 1
        assert "'id' is 1, as in row 1" in task.data_notes[0]
        assert "(and 4 more)" in task.data_notes[0]

    def test_the_prompt_does_not_change_it(self) -> None:
        rows = {"test": sums(8), "train": sums(8, 100)}
        zero, five = Sums(0, rows=rows).samples(), Sums(5, rows=rows).samples()
        assert identities(zero) == identities(five)
        assert [len(sample.messages) for sample in five] == [11] * 8

    def test_groups(self) -> None:
        class Grouped(Sums):
            GROUP_FIELD = "passage"

        long = "long " * 50
        rows = [{**row, "passage": p} for row, p in zip(sums(3), ["p", "p", long], strict=True)]
        groups = [sample.group for sample in Grouped(rows=rows).samples(order="file")]
        assert groups[:2] == ["p", "p"]
        assert len(str(groups[2])) == 16
        with pytest.raises(MissingColumnError, match="row 1: the group 'passage' is missing"):
            Grouped(rows=sums(1)).samples()

    def test_several_samples_of_an_item(self) -> None:
        class Twice(Sums):
            def _create_samples(self, item: Any, index: int, subject: str) -> list[Sample]:
                return [*super()._create_samples(item, index, subject)] * 2

        first, second, *_ = Twice(rows=sums(2)).samples()
        assert second.id == f"{first.id}#2"
        assert first.group == second.group == first.id
        assert second.content_hash == first.content_hash

    def test_a_hook_that_knows_no_identity(self) -> None:
        class Own(Sums):
            def _create_samples(self, item: Any, index: int, subject: str) -> list[Sample]:
                return [Sample(index, subject, [Message("user", "hi")])]  # type: ignore[arg-type]

        assert identities(Own(rows=sums(3)).samples()) == identities(Sums(rows=sums(3)).samples())


class TestOrderAndLimit:
    def test_a_limit_takes_a_prefix(self) -> None:
        task = Sums(rows=sums(50))
        whole = task.samples()
        assert task.samples(10) == whole[:10]
        assert [sample.index for sample in whole] != list(range(50))
        assert task.samples(2, order="file")[1].index == 1

    def test_the_order_of_the_file_does_not_matter(self) -> None:
        assert identities(Sums(rows=sums(20)).samples()) == identities(
            Sums(rows=sums(20)[::-1]).samples()
        )

    def test_more_rows_keep_the_order_of_the_others(self) -> None:
        few = [sample.id for sample in Sums(rows=sums(20)).samples()]
        many = [sample.id for sample in Sums(rows=sums(40)).samples()]
        assert [unit for unit in many if unit in few] == few

    def test_another_seed_another_order(self) -> None:
        assert Sums(rows=sums(20), seed=1).samples() != Sums(rows=sums(20), seed=2).samples()

    @pytest.mark.parametrize("limit", [0, -1])
    def test_bad_limits(self, limit: int) -> None:
        with pytest.raises(InvalidInputError, match=f"`limit` is {limit}; it must be at least 1"):
            Sums(rows=sums(2)).samples(limit)

    def test_bad_orders(self) -> None:
        with pytest.raises(InvalidInputError, match="`order` is 'random'; choose one of"):
            Sums(rows=sums(2)).samples(order="random")


class TestExamples:
    def test_never_the_item_nor_its_duplicate(self) -> None:
        class FromItself(Sums):
            FEWSHOT_SPLIT = "test"

        rows = [{"id": n, "a": n // 2, "b": 0} for n in range(12)]  # every content twice
        for sample in FromItself(5, rows=rows).samples():
            questions = [m.content for m in sample.messages if m.role is Role.USER]
            assert len(set(questions)) == 6

    def test_nor_the_same_question_with_another_content(self) -> None:
        rows = {"test": sums(1), "train": [{**sums(1)[0], "note": "x"}, *sums(2, 5)]}
        (sample,) = Sums(2, rows=rows).samples()
        questions = [m.content for m in sample.messages if m.role is Role.USER]
        assert questions.count("0 + 0 =") == 1
        with pytest.raises(
            InvalidInputError, match="has only 2 distinct items other than this one"
        ):
            Sums(3, rows=rows).samples()

    def test_fewer_examples_are_the_first_of_more(self) -> None:
        rows = {"test": sums(5), "train": sums(30, 100)}
        for two, five in zip(
            Sums(2, rows=rows).samples(), Sums(5, rows=rows).samples(), strict=True
        ):
            assert two.messages[:4] == five.messages[:4]

    def test_they_do_not_depend_on_the_neighbours(self) -> None:
        train = sums(30, 100)
        whole = {s.id: s for s in Sums(3, rows={"test": sums(9), "train": train}).samples()}
        alone = Sums(3, rows={"test": sums(9)[4:5], "train": train[::-1]}).samples()
        assert [whole[sample.id].messages for sample in alone] == [s.messages for s in alone]

    def test_a_missing_split(self) -> None:
        with pytest.raises(
            InvalidInputError, match="few-shot examples: `rows` has no split 'train'"
        ) as caught:
            Sums(1, rows=sums(3)).samples()
        assert not isinstance(caught.value, KeyError)  # no column is missing

    def test_own_examples_need_no_split(self) -> None:
        class Fixed(Sums):
            def _sample_fewshot_examples(self, item: Any) -> list[dict[str, Any]]:
                return [{"a": 1, "b": 1}][: self.num_fewshot]

        (sample,) = Fixed(1, rows=sums(1)).samples()
        assert [m.content for m in sample.messages] == ["1 + 1 =", "2", "0 + 0 ="]

    def test_an_item_that_is_not_in_the_data(self) -> None:
        task = Sums(2, rows={"test": sums(1), "train": sums(9, 10)})
        prompt = task.construct_prompt({"a": 77, "b": 1})
        assert (len(prompt), prompt[-1].content) == (5, "77 + 1 =")
        assert prompt == task.construct_prompt({"a": 77, "b": 1})

    def test_a_reference_that_is_no_text(self) -> None:
        class Untold(Sums):
            def _get_ground_truth(self, item: dict[str, Any]) -> Any:
                return None

        rows = {"test": sums(1), "train": sums(2, 5)}
        with pytest.raises(InvalidTypeError, match="the answer of an example must be a string"):
            Untold(1, rows=rows).samples()
        assert Untold(rows=rows).samples()[0].ground_truth is None

    def test_several_references_answer_with_the_first(self) -> None:
        class Several(Sums):
            def _get_ground_truth(self, item: dict[str, Any]) -> Any:
                return [f"{item['a']}!", "other"]

        (sample,) = Several(1, rows={"test": sums(1), "train": sums(1, 5)}).samples()
        assert sample.messages[1].content == "5!"
        assert sample.ground_truth == ("0!", "other")


class TestMessages:
    def test_all_parts_in_their_order(self) -> None:
        class Full(Sums):
            def _get_system_prompt_text(self, item: dict[str, Any]) -> str:
                return "System."

            def _get_initial_prompt_text(self, item: dict[str, Any]) -> str:
                return "Initial."

            def _get_cue_text(self, item: dict[str, Any]) -> str:
                return "A: "

        rows = {"test": sums(1), "train": sums(1, 5)}
        (sample,) = Full(1, rows=rows, user_prompt_suffix=" (a number)").samples()
        assert sample.messages == (
            Message("system", "System."),
            Message("user", "Initial.\n\n5 + 25 ="),
            Message("assistant", "A: 30"),
            Message("user", "0 + 0 = (a number)"),
            Message("assistant", "A:"),  # the space belongs to the answer
        )

    def test_several_turns(self) -> None:
        class Turns(Sums):
            def _get_instruction_messages(self, item: dict[str, Any]) -> list[Message]:
                return [Message("user", "u1"), Message("assistant", "a1"), Message("user", "u2")]

        (sample,) = Turns(rows=sums(1), user_prompt_suffix="!").samples()
        assert [m.content for m in sample.messages] == ["u1", "a1", "u2!"]

    def test_no_place_for_texts(self) -> None:
        class Answered(Sums):
            def _get_instruction_messages(self, item: dict[str, Any]) -> list[Message]:
                return [Message("assistant", "hello")]

            def _get_initial_prompt_text(self, item: dict[str, Any]) -> str:
                return "Initial."

        with pytest.raises(
            InvalidInputError, match=r"row 1: the initial prompt text .* must be a user"
        ):
            Answered(rows=sums(1)).samples()
        with pytest.raises(
            InvalidInputError, match="the prompt has no user message to append it to"
        ):
            Answered(rows=sums(1), user_prompt_suffix="!").samples()

    @pytest.mark.parametrize("text", ["", None])
    def test_an_empty_question(self, text: Any) -> None:
        class Empty(Sums):
            def _get_instruction_text(self, item: dict[str, Any]) -> Any:
                return text

        with pytest.raises(InvalidInputError, match=f"row 1: the question is {text!r}"):
            Empty(rows=sums(1)).samples()

    def test_a_failing_hook_names_the_row(self) -> None:
        rows = [{"a": 1, "b": 2}, {"a": 1}]
        reason = "split 'test', row 2: task 'Sums' fails: KeyError: 'b'; the fields are 'a'"
        with pytest.raises(InvalidInputError, match=reason):
            Sums(rows=rows).samples()

    def test_the_seam_to_upstream(self) -> None:
        class Old(Sums):
            def _get_messages(self, item: dict[str, Any]) -> list[Message]:
                return [Message("user", "old")]

        assert Old(rows=sums(1)).samples()[0].messages == (Message("user", "old"),)


class TestChoices:
    def test_a_space_before_each(self) -> None:
        (sample,) = Chosen(rows=sums(1, 2)).samples()
        assert sample.possible_completions == (" 6", " 7", " 8", " 9")
        assert sample.ground_truth == " 6"

    def test_duplicates_stay(self) -> None:
        class Same(Chosen):
            def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
                return ["0", "0", "1"]

        assert Same(rows=sums(1)).samples()[0].possible_completions == (" 0", " 0", " 1")

    @pytest.mark.parametrize(
        ("choices", "reason"),
        [
            (None, "row 1: a log-likelihood task needs choices"),
            ([], "row 1: a log-likelihood task needs choices"),
            (["5"], "row 1: the reference '0' is not one of the choices"),
            ([1, 2], "row 1: the choices are .1, 2.; they must be strings"),
            ("012", "row 1: the choices are '012'; they must be strings"),
        ],
    )
    def test_bad_choices(self, choices: Any, reason: str) -> None:
        class Bad(Chosen):
            def _get_possible_completions(self, item: dict[str, Any]) -> Any:
                return choices

        with pytest.raises(InvalidInputError, match=reason):
            Bad(rows=sums(1)).samples()

    def test_shuffled_for_each_item_alone(self) -> None:
        rows = [{"id": n, "a": 1, "b": n} for n in range(40)]
        plain = {s.id: s for s in Chosen(rows=rows).samples()}
        mixed = Chosen(rows=rows, shuffle_choices=True).samples()
        for sample in mixed:
            same = plain[sample.id]
            assert sorted(sample.possible_completions or ()) == sorted(
                same.possible_completions or ()
            )
            assert (sample.ground_truth, sample.content_hash) == (
                same.ground_truth,
                same.content_hash,
            )
        places = {(s.possible_completions or ()).index(str(s.ground_truth)) for s in mixed}
        assert places == {0, 1, 2, 3}
        alone = Chosen(rows=rows[7:8], shuffle_choices=True).samples()
        assert alone[0] == next(
            Sample(**{**{k: getattr(s, k) for k in s.__slots__}, "index": 0})
            for s in mixed
            if s.id == "7"
        )

    def test_a_styler_lists_them_in_the_order_that_is_scored(self) -> None:
        rows = [{"id": n, "q": "?"} for n in range(30)]
        right = set()
        for sample in Styled(rows=rows, shuffle_choices=True).samples():
            letter = str(sample.ground_truth).strip()
            assert f"{letter}. right\n" in sample.messages[0].content
            right.add(letter)
        assert right == {"A", "B", "C", "D"}

    def test_hidden_labels_are_refused(self) -> None:
        with pytest.raises(
            InvalidInputError, match="index is -1, but there are 4 choices; the label may be hidden"
        ):
            Styled(rows=[{"q": "?", "at": -1}]).samples()

    def test_styles_decide_the_response(self) -> None:
        assert Styled.RESPONSE_TYPE is LOGLIKELIHOODS

        class Gold(Styled):
            TASK_STYLER = BPBStyle()

        class Cloze(Styled):
            TASK_STYLER = ClozeStyle()

        assert Gold(rows=[{"q": "?"}]).samples()[0].possible_completions == (" right",)
        rows = {"test": [{"q": "1?"}], "train": [{"q": "2?"}]}
        (sample,) = Cloze(1, rows=rows).samples()
        assert [m.content for m in sample.messages] == [
            "Question: 2?\n",
            "Answer: right",
            "Question: 1?\n",
            "Answer:",
        ]
        assert [grader.name for grader in Gold(rows=rows).graders()] == ["bits_per_byte"]


class Language(Enum):
    DE = "de"
    EN = "en"


class TestSubjects:
    ROWS = tuple({"a": i, "b": i, "subject": s} for s in ("law", "art") for i in range(4))

    class Parted(Sums):
        SUBJECTS = ("law", "art")

    def test_rows_by_field(self) -> None:
        samples = self.Parted(rows=self.ROWS).samples(2)
        assert [sample.subject for sample in samples] == ["law", "law", "art", "art"]
        assert all(sample.id.startswith(f"{sample.subject}/") for sample in samples)
        assert len({sample.id for sample in samples}) == 4

    def test_one_subject_alone_is_the_same(self) -> None:
        whole = self.Parted(rows=self.ROWS).samples()
        alone = self.Parted(rows=self.ROWS, subjects=["art"]).samples()
        assert alone == [sample for sample in whole if sample.subject == "art"]

    def test_found_in_the_data(self) -> None:
        class Found(Sums):
            SUBJECT_FIELD = "subject"

        assert Found(rows=self.ROWS).subjects == ["art", "law"]
        with pytest.raises(MissingColumnError, match="row 1: the subject 'subject' is missing"):
            Found(rows=sums(1)).samples()

    def test_unknown_subjects(self) -> None:
        for wanted, reason in (
            (["arts"], "there is no subject 'arts'; did you mean 'art'?"),
            (["xyz"], "there is no subject 'xyz'; the subjects are law, art"),
            ([], "`subjects` is empty"),
        ):
            with pytest.raises(InvalidInputError, match=reason):
                self.Parted(rows=self.ROWS, subjects=wanted).samples()
        with pytest.raises(InvalidTypeError, match="`subjects` is 'art'; it must be a list"):
            self.Parted(rows=self.ROWS, subjects="art")
        with pytest.raises(InvalidInputError, match="the task 'Sums' has no subjects"):
            Sums(rows=sums(2), subjects=["art"]).samples()

    def test_a_subject_without_rows(self) -> None:
        with pytest.raises(
            InvalidInputError, match="the split 'test' of the subject 'art' has no"
        ) as caught:
            self.Parted(rows=self.ROWS[:4]).samples()
        assert not isinstance(caught.value, KeyError)

    def test_a_subject_named_twice_is_one(self) -> None:
        class Twice(Sums):
            SUBJECTS = ("law", "law")

        assert Twice(rows=self.ROWS).subjects == ["law"]
        assert len({s.id for s in Twice(rows=self.ROWS).samples()}) == 4
        assert len(Twice(rows=self.ROWS).samples()) == 4

    def test_half_a_surrogate_pair_is_no_name(self) -> None:
        class Found(Sums):
            SUBJECT_FIELD = "subject"

        rows = [{**sums(1)[0], "subject": "x\ud800"}]
        reason = r"`subjects`: 'x\\ud800' contains an unpaired surrogate, which cannot be stored; rename it"
        with pytest.raises(InvalidInputError, match=reason):
            Found(rows=rows).samples()

    def test_tuples_and_wildcards(self) -> None:
        class Pairs(Sums):
            SUBJECTS = ((Language.DE, "law"), (Language.DE, "art"), (Language.EN, "law"))

        rows = [{"a": 1, "b": 1, "subject": s} for s in ("de,law", "de,art", "en,law")]
        task = Pairs(rows=rows)
        assert [sample.subject for sample in task.samples()] == ["de,law", "de,art", "en,law"]
        for wanted, kept in (
            ("de,*", ["de,law", "de,art"]),
            ("*, law", ["de,law", "en,law"]),
            ((Language.EN, "law"), ["en,law"]),
        ):
            samples = Pairs(rows=rows, subjects=[wanted]).samples()
            assert [sample.subject for sample in samples] == kept
        with pytest.raises(InvalidInputError, match="'law' has 1 parts, the subjects have 2"):
            Pairs(rows=rows, subjects=["law"]).samples()

    def test_examples_stay_within_the_subject(self) -> None:
        class Within(self.Parted):  # type: ignore[name-defined, misc]
            FEWSHOT_SPLIT = "test"

            def _get_instruction_text(self, item: dict[str, Any]) -> str:
                return f"{item['subject']}: {item['a']}"

        for sample in Within(3, rows=self.ROWS).samples():
            assert all(m.content.startswith(sample.subject) for m in sample.messages[::2])

    def test_own_loading(self) -> None:
        class Loads(Sums):
            def _load_dataset(self, subject: str) -> None:
                self.dataset = {"test": sums(2)}

        assert identities(Loads().samples()) == identities(Sums(rows=sums(2)).samples())


class TestDescribing:
    def test_the_manifest_part(self) -> None:
        rows = {"test": sums(3), "train": sums(2, 5)}
        told = Sums(1, rows=rows).describe()
        assert (told["name"], told["version"], told["num_fewshot"]) == ("Sums", "1", 1)
        assert told["dataset"]["n_rows"] == {"test": 3, "train": 2}
        assert len(told["dataset"]["sha256"]) == 64
        assert told["subjects"] == []

    def test_the_fingerprint_follows_the_prompt(self) -> None:
        class Other(Sums):
            def _get_cue_text(self, item: dict[str, Any]) -> str:
                return "A:"

        rows = {"test": sums(30), "train": sums(9, 100)}
        prints = [
            Sums(0, rows=rows),
            Sums(1, rows=rows),
            Other(0, rows=rows),
            Chosen(0, rows=rows),
            Sums(0, rows=rows, user_prompt_suffix="!"),
        ]
        assert len({task.prompt_fingerprint() for task in prints}) == 5
        again = Sums(0, rows={"test": sums(30)[::-1]})
        assert again.prompt_fingerprint() == prints[0].prompt_fingerprint()

    def test_metadata_and_page(self) -> None:
        task = Styled(rows=[{"q": "Why?"}])
        assert task.get_metadata()["task_style"] == "multiple_choice"
        page = task.markdown_doc(["plain", "chat"])
        assert "# Styled" in page
        assert "Question: Why?\nA. w1" in page
        assert "[assistant] Answer:" in page

    def test_graders(self) -> None:
        from eval_toolkit.graders import ExactMatch

        class Own(Sums):
            METRICS = (ExactMatch, "f1", {"grader": "number_match"})

        names = [grader.name for grader in Own(rows=sums(1)).graders()]
        assert names == ["exact_match", "f1", "number_match"]
        assert Chosen(rows=sums(1)).graders()[0].name == "accuracy"

    def test_post_processing_is_the_identity(self) -> None:
        assert Sums(rows=sums(1)).post_process_generated_completion(" x ") == " x "


class TestSample:
    def test_both_constructions(self) -> None:
        message = Message("user", "hi")
        made = Sample(3, "s", [message], ["a", "b"], ["x"])  # type: ignore[arg-type]
        assert made == Sample(
            id="3",
            subject="s",
            messages=({"role": "user", "content": "hi"},),  # type: ignore[arg-type]
            ground_truth=("a", "b"),
            possible_completions=("x",),
        )
        assert made.to_dict()["messages"] == [{"role": "user", "content": "hi"}]
        assert made.to_dict()["ground_truth"] == ["a", "b"]

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"ground_truth": 3}, "sample 'x': `ground_truth` is 3; it must be a string"),
            (
                {"ground_truth": ["a", 3]},
                r"sample 'x': ground_truth\[1\] is 3; it must be a string",
            ),
            ({"possible_completions": "abc"}, "`possible_completions` is a single string"),
            ({"possible_completions": [1]}, r"possible_completions\[0\] is 1; it must be a string"),
        ],
    )
    def test_what_it_refuses(self, fields: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidTypeError, match=reason):
            Sample("x", "s", (), **fields)

    def test_items_are_dicts(self) -> None:
        item = Item(a=1)
        assert item == {"a": 1}
        assert not hasattr(item, "unit_id")
