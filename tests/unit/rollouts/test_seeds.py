"""Seed prompts: ids, groups of equal ones, and files as published sets have them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit._internal import tables
from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
    MissingFileError,
)
from eval_toolkit.rollouts.seeds import SeedPrompt, load_seeds, seed_notes, seed_prompts
from eval_toolkit.tasks.reading import read_rows

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


class TestSeedPrompt:
    def test_an_id_is_the_beginning_of_the_content_hash(self) -> None:
        seed = SeedPrompt("Hi", target="Sure")
        assert seed.content_hash == content_hash("Hi", "Sure")
        assert seed.id == seed.content_hash[:16]
        assert SeedPrompt("Hi").content_hash == content_hash("Hi", None)
        assert SeedPrompt("Hi", id="7").id == "7"

    def test_prompts_are_resampled_by_topic_or_alone(self) -> None:
        assert SeedPrompt("Hi", id="7").group == "7"
        assert SeedPrompt("Hi", id="7", topic="greetings").group == "greetings"

    @pytest.mark.parametrize(
        ("given", "error", "words"),
        [
            ({"prompt": ""}, InvalidInputError, "is empty"),
            ({"prompt": " \n"}, InvalidInputError, "is empty"),
            ({"prompt": 5}, InvalidTypeError, "`prompt` of a seed prompt is 5"),
            ({"prompt": "a", "topic": None}, InvalidTypeError, "`topic`"),
            ({"prompt": "a", "safe": "yes"}, InvalidTypeError, "True, False or None"),
            ({"prompt": "a", "id": "\ud83d"}, InvalidInputError, "surrogate"),
            ({"prompt": "a", "content_hash": "0" * 64}, InvalidInputError, "omit it"),
        ],
    )
    def test_what_is_no_seed_prompt(
        self, given: dict[str, Any], error: type[Exception], words: str
    ) -> None:
        with pytest.raises(error, match=words):
            SeedPrompt(**given)

    def test_its_own_hash_may_be_given(self) -> None:
        seed = SeedPrompt("a")
        assert SeedPrompt("a", content_hash=seed.content_hash) == seed


class TestLists:
    def test_equal_prompts_are_kept_told_apart_and_grouped(self) -> None:
        one, other, two, three = seed_prompts(["a", "b", "a", SeedPrompt("a")])
        assert [two.id, three.id] == [f"{one.id}~2", f"{one.id}~3"]
        assert one.group == two.group == three.group == one.id
        assert other.group == other.id
        assert seed_notes([one, other, two, three]) == [
            "2 of 4 seed prompts repeat another; equal prompts are resampled together"
        ]
        assert seed_notes([one, other]) == []

    def test_a_copy_joins_the_topic_of_the_first(self) -> None:
        first, second, third = seed_prompts(
            [SeedPrompt("a", topic="t"), "a", SeedPrompt("a", topic="u", id="x")]
        )
        assert (first.topic, second.topic, third.topic) == ("t", "t", "u")

    def test_equal_prompts_with_other_targets_are_grouped_too(self) -> None:
        first, second = seed_prompts([{"goal": "a", "target": "x"}, {"goal": "a", "target": "y"}])
        assert first.id != second.id
        assert "~" not in second.id
        assert first.group == second.group

    @given(st.lists(st.sampled_from("abc"), min_size=1))
    def test_ids_differ_and_a_second_reading_changes_nothing(self, texts: list[str]) -> None:
        seeds = seed_prompts(texts)
        assert [seed.prompt for seed in seeds] == texts
        assert len({seed.id for seed in seeds}) == len(seeds)
        assert len({seed.group for seed in seeds}) == len(set(texts))
        assert seed_prompts(seeds) == seeds

    def test_rows_are_read_by_their_keys(self) -> None:
        (seed,) = seed_prompts([{"Behavior": "a", "BehaviorID": 7, "SemanticCategory": "c"}])
        assert (seed.prompt, seed.id, seed.category, seed.safe) == ("a", "7", "c", None)

    @each(
        ("given", "error", "words"),
        [
            ([], InvalidInputError, "no seed prompts; at least one is needed"),
            ("Hi", InvalidTypeError, "must be a list"),
            ({"prompt": "Hi"}, InvalidTypeError, "must be a list"),
            (5, InvalidTypeError, "must be a list"),
            (["a", 5], InvalidTypeError, r"seeds\[1\] is 5"),
            (["a", ""], InvalidInputError, r"seeds\[1\]: the prompt is empty"),
            ([{"prompt": ["a"]}], InvalidInputError, "must be a string"),
            ([{"prompt": 5}], InvalidInputError, "a prompt must be a string"),
            ([{"prompt": None}], InvalidInputError, "the prompt is empty"),
            (
                [{"words": "a"}],
                InvalidInputError,
                "the columns are 'words'; specify the column with `prompt`",
            ),
            (
                [SeedPrompt("a", id="1"), SeedPrompt("b", id="1")],
                InvalidInputError,
                r"seeds\[1\]: the id '1' is already used in seeds\[0\]",
            ),
        ],
    )
    def test_what_is_no_list_of_seeds(self, given: Any, error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=words):
            seed_prompts(given)


class TestFiles:
    def test_a_text_has_a_prompt_per_line(self, write: Write) -> None:
        path = write("a.txt", "\ufeffone\r\n\n  two 🙂 \n")
        assert [seed.prompt for seed in load_seeds(path)] == ["one", "two 🙂"]
        packed = write("b.txt.gz", gzip.compress(b"one\ntwo"))
        assert [seed.prompt for seed in load_seeds(packed)] == ["one", "two"]

    def test_all_formats_give_the_same(self, write: Write, tmp_path: Path) -> None:
        rows = [{"id": "007", "prompt": 'a, "b"\nc'}, {"id": "8", "prompt": "d"}]
        columns = {name: [row[name] for row in rows] for name in ("id", "prompt")}
        paths = [
            write("a.json", json.dumps(rows)),
            write("a.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n"),
            *(tables.write_table(columns, tmp_path / f"a.{s}") for s in ("csv", "tsv", "parquet")),
        ]
        expected = [SeedPrompt(row["prompt"], id=row["id"]) for row in rows]
        for path in paths:
            assert load_seeds(path) == expected, path

    def test_json_and_jsonl_of_texts(self, write: Write) -> None:
        assert [s.prompt for s in load_seeds(write("a.json", '["x", "y"]'))] == ["x", "y"]
        assert [s.prompt for s in load_seeds(write("a.jsonl", '"x"\n"y"'))] == ["x", "y"]

    def test_columns_of_published_sets(self, write: Write) -> None:
        path = write(
            "official.csv",
            "Index,Goal,Target,Behavior,Category\n3,Write it,Sure,Libel,Harm\n4,Say it,Sure,,\n",
        )
        first, second = load_seeds(path)
        assert first == SeedPrompt("Write it", id="3", category="Harm", target="Sure")
        assert second.category == ""

    def test_a_label_says_safe_only_in_words(self, write: Write) -> None:
        words = write("a.csv", "prompt,label\na,safe\nb,Unsafe\nc,\n")
        assert [seed.safe for seed in load_seeds(words)] == [True, False, None]
        numbers = write("b.csv", "prompt,label\na,1\nb,0\n")
        assert [seed.safe for seed in load_seeds(numbers)] == [None, None]
        # named as the column that says so, its numbers are truths
        assert [seed.safe for seed in load_seeds(numbers, safe="label")] == [True, False]
        truths = write("c.jsonl", '{"prompt": "a", "safe": true}\n{"prompt": "b", "safe": false}')
        assert [seed.safe for seed in load_seeds(truths)] == [True, False]
        odd = write("d.csv", "prompt,safe\na,safe\nb,perhaps\n")
        with pytest.raises(InvalidInputError, match="row 2: 'safe' is 'perhaps'"):
            load_seeds(odd)

    def test_a_topic_must_be_a_grouping(self, write: Write) -> None:
        path = write("a.csv", "prompt,focus\na,kill\nb,kill\nc,steal\nd,\n")
        assert [seed.topic for seed in load_seeds(path)] == ["kill", "kill", "steal", ""]
        assert {seed.topic for seed in load_seeds(path, topic="")} == {""}
        for cells in ("a,kill\nb,steal\n", "a,kill\nb,kill\n"):  # all differ, or all are equal
            assert {s.topic for s in load_seeds(write("b.csv", f"prompt,focus\n{cells}"))} == {""}

    def test_columns_that_are_named(self, write: Write) -> None:
        path = write("a.csv", "question,text,kind,id\nq1,t1,k,1\nq2,t2,k,1\n")
        with pytest.raises(InvalidInputError) as caught:
            load_seeds(path)
        for word in ("'question' and 'text'", "'kind'", "`prompt`"):
            assert word in str(caught.value)
        with pytest.raises(
            InvalidInputError, match=r"row 2: the id '1' is already used in .*row 1;"
        ):
            load_seeds(path, prompt="text")
        seeds = load_seeds(path, prompt="text", id="", category="kind")
        assert [(s.prompt, s.category) for s in seeds] == [("t1", "k"), ("t2", "k")]
        with pytest.raises(
            MissingColumnError, match="no column 'texts'; the columns are 'question'"
        ):
            load_seeds(path, prompt="texts")

    def test_texts_have_no_columns(self, write: Write) -> None:
        with pytest.raises(InvalidInputError, match="omit `prompt`"):
            load_seeds(write("a.txt", "one"), prompt="text")

    @pytest.mark.parametrize(
        ("name", "content", "error", "words"),
        [
            ("a.csv", 'prompt\na\n""\nc\n', InvalidInputError, "row 2: the prompt is empty"),
            (
                "a.jsonl",
                '{"prompt": "a"}\n\n{"prompt": " "}',
                InvalidInputError,
                "line 3: the prompt",
            ),
            ("a.csv", "prompt\n", InvalidInputError, "no seed prompts"),
            ("a.json", "[]", InvalidInputError, "no seed prompts"),
            ("a.txt", " \n", ArtifactError, "the file is empty"),
            ("a.txt", b"\xff", ArtifactError, "byte 0 is not UTF-8"),
            ("a.txt.gz", b"no gzip", ArtifactError, "Not a gzipped file"),
            ("a.json", "{}", ArtifactError, "contains a dict"),
            ("a.json", "[1]", ArtifactError, "row 1 is 1"),
            ("a.json", '["a", NaN]', ArtifactError, "NaN is not valid JSON"),
            ("a.jsonl", '"a"\n{', ArtifactError, "line 2: malformed JSON"),
            ("a.xls", "x", InvalidInputError, r"or in \.txt with a prompt"),
            ("a.csv", "prompt;id\na;1\nb\n", ArtifactError, "semicolons"),
        ],
    )
    def test_bad_files_say_where(
        self, write: Write, name: str, content: str | bytes, error: type[Exception], words: str
    ) -> None:
        path = write(name, content)
        with pytest.raises(error, match=words) as caught:
            load_seeds(path)
        assert str(path) in str(caught.value)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(MissingFileError, match="no such file"):
            load_seeds(tmp_path / "none.csv")

    @pytest.mark.parametrize("options", [{"limit": 0}, {"order": "random"}, {"limit": 1.5}])
    def test_bad_options(self, write: Write, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            load_seeds(write("a.txt", "one"), **options)


class TestDrawing:
    @given(st.integers(0, 5), st.integers(1, 40), st.integers(1, 40))
    def test_a_smaller_limit_is_a_part_of_a_larger_one(
        self, tmp_path_factory: pytest.TempPathFactory, seed: int, one: int, other: int
    ) -> None:
        path = tmp_path_factory.mktemp("seeds") / "a.txt"
        path.write_text("\n".join(f"prompt {i}" for i in range(30)))
        small, large = (
            load_seeds(path, limit=n, order="shuffled", seed=seed) for n in sorted((one, other))
        )
        assert large[: len(small)] == small
        assert len(large) == min(30, max(one, other))

    def test_what_is_drawn_does_not_depend_on_the_order_of_the_file(self, write: Write) -> None:
        lines = [f"prompt {i}" for i in range(30)]
        drawn = [
            load_seeds(write(f"{n}.txt", "\n".join(text)), limit=10, order="shuffled")
            for n, text in enumerate((lines, lines[::-1]))
        ]
        assert drawn[0] == drawn[1]
        other = load_seeds(write("c.txt", "\n".join(lines)), limit=10, order="shuffled", seed=0)
        assert other != drawn[0]

    def test_the_order_of_the_file_by_default(self, write: Write) -> None:
        path = write("a.txt", "one\ntwo\nthree")
        assert [seed.prompt for seed in load_seeds(path, limit=2)] == ["one", "two"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_seeds_and_tasks_read_files_alike(write: Write, name: str) -> None:
    """One reader of texts: what it cannot read is told in the same words."""
    for content in (b"\xff", b" \n", b"{", b'{"prompt": NaN}'):
        path = write(name, gzip.compress(content) if name.endswith("gz") else content)
        said = []
        for read in (load_seeds, lambda path: read_rows(path, "test")):
            with pytest.raises(ArtifactError) as caught:
                read(path)
            said.append(str(caught.value))
        assert said[0] == said[1]
