r"""Completions meant to stop a run: each ends as a counted result, and the run goes on.

None of them harms a machine on which the limits fail: the fork bomb has six rounds, and everything
else takes time or memory of one process.
"""

import time

import pytest

from eval_toolkit.graders import CodeTests, ExactMatch, MathMatch, NumberMatch, RegexMatch, TokenF1
from eval_toolkit.graders.extraction import LetterMatch
from eval_toolkit.graders.json_format import JsonFormat
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import BaseTask, ResponseType
from eval_toolkit.tasks.running import run_task

MEGABYTES_10 = 10_000_000
SECONDS = 1.0
REGEX_BOMB = "a" * 60 + "!"
EVIL_PATTERN = r"(a+)+$"
FORK_BOMB = "import os, time\nfor _ in range(6): os.fork()\ntime.sleep(2)"

HOSTILE = {
    "10 MB of words": "word " * (MEGABYTES_10 // 5),
    "regex bomb": REGEX_BOMB,
    "nested JSON": "[" * 100_000 + "]" * 100_000,
    "nested objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "nested braces": r"\boxed{" + "{" * 5_000 + "}" * 5_000 + "}",
    "fork bomb": FORK_BOMB,
    "endless loop": "while True: pass",
    "much memory": "x = bytearray(10**10)",
    "early exit": "import os; os._exit(0)",
    "tower of powers": r"\boxed{9^{9^{9^{9}}}}",
    "no text": "",
    "control characters": "\x00\x1b[2J\r\n\x07" * 1000,
    "half a character": "\ud800" * 1000,
}
SLOWER = {
    "10 MB of brackets": "[" * MEGABYTES_10,
    "10 MB of digits": "7" * MEGABYTES_10,
    "10 MB of boxes": r"\boxed{" * (MEGABYTES_10 // 7),
    "10 MB of fences": "```\n" * (MEGABYTES_10 // 4),
    "a fence and 10 MB of blanks": "```" + " " * MEGABYTES_10 + "!",
    "10 MB of blanks and a fence": " " * MEGABYTES_10 + "\n```",
    "regex bomb in an answer": rf"\boxed{{{REGEX_BOMB}}}",
    "factorial": r"\boxed{99999999999!}",
    "tower in Python": "9**9**9**9",
}
GRADERS = [
    ExactMatch(ignore=[EVIL_PATTERN]),
    RegexMatch(EVIL_PATTERN),
    TokenF1(),
    NumberMatch(),
    MathMatch(seconds=SECONDS),
    CodeTests(seconds=SECONDS),
    JsonFormat(),
]


class Questions(BaseTask[str]):
    NAME = "Questions"
    RESPONSE_TYPE = ResponseType.COMPLETION
    ID_FIELD = "id"

    def _get_instruction_text(self, item):
        return f"Question {item['id']}"

    def _get_ground_truth(self, item):
        return "4"

    def _get_context(self, item):
        return {"test": "assert answer == 4", "schema": {"type": "integer"}}


def run(answers, graders=GRADERS):
    """Ask a model that gives these answers, by name."""
    task = Questions(rows=[{"id": name} for name in answers])
    model = ScriptedModel({f"Question {name}": text for name, text in answers.items()})
    return run_task(task, model, graders=graders)


@pytest.fixture(scope="module")
def hostile_run():
    start = time.monotonic()
    done = run({**HOSTILE, "right": "4", "program": "answer = 4"})
    return done, time.monotonic() - start


def test_every_hostile_completion_is_counted(hostile_run):
    done, _ = hostile_run
    records = done.records
    for column in records.columns:
        for unit, status, reason in zip(
            records.unit_id, records.status[column], records.reason[column], strict=True
        ):
            assert status == "ok", (unit, column, reason)


def test_none_of_them_is_right(hostile_run):
    done, _ = hostile_run
    at = {unit: place for place, unit in enumerate(done.records.unit_id)}
    for name in HOSTILE:
        for column in ("exact_match", "regex_match", "number_match", "math_match", "code_pass"):
            assert done.records.columns[column][at[name]] == 0.0, (name, column)


def test_the_run_goes_on(hostile_run):
    done, _ = hostile_run
    at = {unit: place for place, unit in enumerate(done.records.unit_id)}
    columns = done.records.columns
    for column in ("exact_match", "f1", "number_match", "math_match"):
        assert columns[column][at["right"]] == 1.0, column
    assert columns["code_pass"][at["program"]] == 1.0


def test_what_ran_out_of_time_says_so(hostile_run):
    done, _ = hostile_run
    at = {unit: place for place, unit in enumerate(done.records.unit_id)}
    columns = done.records.columns
    assert columns["regex_match_timed_out"][at["regex bomb"]] == 1.0
    assert columns["exact_match_timed_out"][at["regex bomb"]] == 1.0
    assert columns["math_match_timed_out"][at["tower of powers"]] == 1.0
    assert columns["code_pass_timed_out"][at["endless loop"]] == 1.0
    assert columns["code_pass_timed_out"][at["early exit"]] == 0.0


def test_it_is_over_in_time(hostile_run):
    _, seconds = hostile_run
    assert seconds < 600.0  # 10 s where it was written; without limits it would not end


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOWER)
def test_more_of_them(name):
    done = run({name: SLOWER[name], "right": "4"})
    for column, statuses in done.records.status.items():
        assert set(statuses) == {"ok"}, column
    assert sorted(done.records.columns["math_match"]) == [0.0, 1.0]


@pytest.mark.slow
def test_letters_are_looked_for_in_long_texts_too():
    task = Questions(rows=[{"id": "a"}])
    task._get_ground_truth = lambda item: "A"
    model = ScriptedModel("(B) " * (MEGABYTES_10 // 4) + "The answer is (A)")
    done = run_task(task, model, graders=[LetterMatch(4)])
    assert list(done.records.columns["letter_match"]) == [1.0]
