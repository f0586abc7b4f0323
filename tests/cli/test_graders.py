"""``eval-toolkit graders``: names, options, what samples must hold, columns."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from eval_toolkit.graders import available_graders, load_grader
from eval_toolkit.graders.base import columns_of
from eval_toolkit.graders.stored import grader_of_version
from eval_toolkit.plugins import TYPED, load_plugin

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def test_every_grader_is_listed_with_its_options(as_json: Json) -> None:
    listed = {one["name"]: one for one in as_json("graders", "list")["graders"]}
    known = available_graders()
    assert list(listed) == list(known)
    for name, one in listed.items():
        made = load_plugin("graders", name, known, origin=TYPED)
        told = [option["name"] for option in one["options"]]
        assert told == [item.name for item in fields(made) if item.init], name
        assert all(option["meaning"] for option in one["options"]), name
        assert one["description"], name


def test_what_must_be_given_is_marked(command: Command, as_json: Json) -> None:
    lines = command("graders", "list")[1].splitlines()
    (regex,) = [line for line in lines if line.startswith("regex_match")]
    assert "pattern*, which" in regex
    listed = as_json("graders", "list")["graders"]
    required = {
        one["name"]: [option["name"] for option in one["options"] if option["required"]]
        for one in listed
    }
    assert {name: names for name, names in required.items() if names} == {
        "judge": ["model"],  # by correctness, unless a rubric is named
        "keywords": ["phrases"],
        "panel": ["judges"],
        "regex_match": ["pattern"],
    }


def test_one_is_shown_with_context_columns_and_metrics(command: Command, as_json: Json) -> None:
    code, out, err = command("graders", "show", "word_count")
    assert (code, err) == (0, "")
    assert "The sample's context specifies the requirement with comparison" in out
    assert ["unit", "'words'"] in [line.split()[:2] for line in out.splitlines()]
    told = as_json("graders", "show", "chrf{word_order=2}")
    made = load_grader("chrf", word_order=2)
    assert list(told["columns"]) == list(columns_of(made))
    assert told["metrics"] == ["chrf_corpus"]
    assert {option["name"]: option["value"] for option in told["options"]}["word_order"] == 2


def test_columns_that_depend_on_options_say_so(command: Command) -> None:
    code, out, _ = command("graders", "show", "regex_match")
    assert code == 0
    assert "required" in out
    assert "columns: grader 'regex_match': needs pattern" in out
    assert "regex_match_found" in command("graders", "show", "regex_match{pattern='x'}")[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exact_mach", "did you mean 'exact_match'"),
        ("chrf{word_order", "not a TOML table"),
    ],
)
def test_what_is_wrong_is_one_line(command: Command, name: str, message: str) -> None:
    code, out, err = command("graders", "show", name)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("exact_match", {"ignore_case": True, "ignore": ["a+b=c", "'"]}),
        ("number_match", {"where": "boxed", "tolerance": 0.5}),
        ("f1_plain", {}),
        ("word_count", {}),
    ],
)
def test_a_stored_version_leads_back_to_the_grader(name: str, options: dict[str, Any]) -> None:
    made = load_grader(name, **options)
    assert grader_of_version(made.name, made.version) == made


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("os:system", "1"),
        ("exact_match", "99"),
        ("exact_match", "1+ignore_case=__import__('os')"),
        ("lm_eval", "1+fd2f5ccecce70aa5"),
    ],
)
def test_what_a_version_does_not_lead_back_to_is_nothing(name: str, version: str) -> None:
    assert grader_of_version(name, version) is None
