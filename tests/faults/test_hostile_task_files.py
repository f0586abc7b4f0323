"""Task files that make this process compute: refused, or counted, and soon."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.ending import must_end

from eval_toolkit._internal.sandbox import compiling
from eval_toolkit._internal.sandbox.compiling import compile_pattern
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import JsonFormat, RegexMatch, schemas
from eval_toolkit.graders.schemas import follows, schema_text
from eval_toolkit.models.responses import Completion
from eval_toolkit.rollouts.scorers import PatternScorer
from eval_toolkit.tasks import load_task

WIDE = "[\u0100-\U0010ffff]"
"""Takes milliseconds to compile where case does not count: 1.1 million characters are gone through."""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time was spent on patterns before."""
    monkeypatch.setattr(compiling, "_TIME", compiling._Time())


def looks_twice(levels: int) -> dict[str, Any]:
    """A schema that looks at what is inside it twice, at every level."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"if": schema, "then": {"type": "object"}, "unevaluatedProperties": False}
    return schema


class TestSchemas:
    """JSON schemas of task files."""

    def test_what_was_evaluated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(schemas, "SECONDS", 1.0)
        answer = Completion('{"a": 1}')
        with must_end(30.0):
            grades = JsonFormat(looks_twice(30)).grade(answer)
        assert grades["json_format_timed_out"] == 1.0
        assert grades["json_format_fulfills_schema"] == 0.0

    def test_what_was_evaluated_in_a_few_levels(self) -> None:
        grades = JsonFormat(looks_twice(2)).grade(Completion("{}"))
        assert grades["json_format_fulfills_schema"] == 1.0

    def test_the_schema_itself(self) -> None:
        """Entries of several types are compared with each other, all with all."""
        mixed = [value for n in range(20_000) for value in (n, str(n))]
        with must_end(30.0), pytest.raises(InvalidInputError, match="takes more than 5 s to check"):
            schema_text({"type": mixed})

    def test_a_long_schema(self) -> None:
        names = {f"name_{n}": {"type": "integer"} for n in range(200)}
        schema = schema_text({"properties": names})
        assert follows({"name_7": 1}, schema)
        assert not follows({"name_7": "one"}, schema)
        names["name_8"] = {"type": "no such type"}
        with pytest.raises(InvalidInputError, match="is not a valid JSON schema"):
            schema_text({"properties": names})

    def test_a_long_value_with_each_entry_of_a_list_compared(self) -> None:
        schema = schema_text({"items": {"items": {"enum": [[0] * n for n in range(30)]}}})
        value = [[[0] * 40] * 50] * 600
        assert len(schema) < 2_000
        with must_end(2.0):  # the worker's time is not ours
            assert not follows(value, schema)

    def test_deep_schemas(self) -> None:
        with pytest.raises(InvalidInputError, match="too deeply"):
            schema_text('{"not":' * 220 + "{}" + "}" * 220)


@pytest.mark.usefixtures("fresh")
class TestPatterns:
    """Patterns of task files, which are compiled in this process."""

    @pytest.mark.parametrize("make", [lambda p: RegexMatch(pattern=p), PatternScorer])
    @pytest.mark.parametrize(
        ("pattern", "words"),
        [
            ("(?i)" + WIDE * 3_000, "wide ranges"),
            (r"[\u0100-\U0010ffff]" * 2_000, "wide ranges"),
            ("a|" * 30_000, "characters; at most"),
        ],
    )
    def test_one(self, make: Callable[[str], object], pattern: str, words: str) -> None:
        with must_end(2.0), pytest.raises(InvalidInputError, match=words):
            make(pattern)

    def test_all_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compiling, "SECONDS", 0.5)
        monkeypatch.setattr(
            compiling, "_REFILLED", 0.0
        )  # a busy machine refunds more than it spends
        patterns = [f"(?i){WIDE * 10}{n}" for n in range(200)]
        with must_end(20.0), pytest.raises(InvalidInputError, match=r"more than 0\.5 s to compile"):
            _ = [RegexMatch(pattern=pattern) for pattern in patterns]

    def test_time_is_given_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compiling._TIME.spent = 6.0
        with pytest.raises(Exception, match="more than 5 s"):
            compile_pattern("a")
        later = time.monotonic() + 60.0
        monkeypatch.setattr(compiling.time, "monotonic", lambda: later)
        assert compile_pattern("a").fullmatch("a")

    def test_ordinary_ones(self) -> None:
        for pattern in (
            r"(?i)answer is ([^\n]+)",
            "[一-鿿]+",
            "[\U0001f300-\U0001faff]",
            "a-zé|z-ж",
        ):
            assert compile_pattern(pattern).pattern == pattern


def test_a_place_for_subjects_at_every_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder is looked into, and what its names lead to; not each folder below it."""
    folder = tmp_path / "law" / "law"
    folder.mkdir(parents=True)
    (folder / "law_test.jsonl").write_text('{"q": "1 + 1?", "a": "2"}\n')
    (tmp_path / "other" / "law").mkdir(parents=True)
    seen: list[str] = []
    scandir = os.scandir

    def looked(path: Any = ".") -> Any:
        seen.append(str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", looked)
    file = "{subject}/{subject}/{subject}_{split}.jsonl"
    data = json.dumps(f"{tmp_path}/{file}")
    path = tmp_path / "task.toml"
    path.write_text(
        f'[task]\nname = "quiz"\ndata = {data}\n[prompt]\ninstruction = "{{q}}"\nanswer = "a"\n'
        "[graders.exact_match]\n"
    )
    assert [sample.subject for sample in load_task(path).samples()] == ["law"]
    assert not [one for one in seen if Path(one).is_relative_to(tmp_path / "other")]
