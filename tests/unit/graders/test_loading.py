"""Names, options and versions of graders."""

from os.path import isabs

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, PluginError
from eval_toolkit.graders import (
    ExactMatch,
    available_graders,
    default_graders,
    load_grader,
)
from eval_toolkit.models.responses import Completion
from eval_toolkit.protocols import Grader


class Always:
    name = "always"
    version = "7"

    def grade(self, response):
        return {self.name: 1.0}


READY = Always()
NEEDED = {
    "judge": {"rubric": "refusal", "model": "scripted:no", "name": "judge"},
    "keywords": {"phrases": ["sorry"]},
    "panel": {
        "judges": [
            {"rubric": "refusal", "model": "scripted:no", "name": name} for name in ("a", "b")
        ]
    },
    "regex_match": {"pattern": "x"},
}
"""Options without which a grader says nothing."""


@each("name", sorted(available_graders()))
def test_every_name_makes_a_grader_of_that_name(name):
    grader = load_grader(name, **NEEDED.get(name, {}))
    assert isinstance(grader, Grader)
    assert grader.name == name
    assert name in grader.columns() or len(grader.columns()) > 1


def test_names_are_read_whatever_their_spelling():
    assert load_grader("Accuracy-Norm-Bytes").name == "accuracy_norm_bytes"


def test_options_can_stand_in_a_table_or_behind_the_name():
    spellings = [
        load_grader("exact_match", ignore_case=True, ignore=["x"]),
        load_grader({"grader": "exact_match", "ignore_case": True, "ignore": ["x"]}),
        load_grader('exact_match{ignore_case=true, ignore=["x"]}'),
    ]
    assert spellings == [ExactMatch(ignore_case=True, ignore=("x",))] * 3


def test_a_version_says_which_options_are_not_as_usual():
    assert ExactMatch().version == "1"
    assert ExactMatch(name="strict").version == "1"
    assert ExactMatch(ignore_case=True).version == "1+ignore_case=True"
    assert load_grader("regex_match", pattern="x").version != (
        load_grader("regex_match", pattern="y").version
    )


def test_two_of_one_kind_have_names_of_their_own():
    grader = load_grader("exact_match", name="loose", ignore_case=True)
    assert grader.grade(Completion("A", ground_truth="a")) == {"loose": 1.0}


def test_a_grader_is_returned_as_it_is():
    assert load_grader(READY) is READY
    assert load_grader(f"{__name__}:Always").version == "7"
    assert load_grader(f"{__name__}:READY") is READY


@each(
    ("given", "error", "message"),
    [
        ("exact_mach", PluginError, "did you mean 'exact_match'"),
        ("exact_match{ignore_cas=true}", InvalidInputError, "did you mean 'ignore_case'"),
        ("bits_per_byte{x=1}", InvalidInputError, "has no option 'x'; it has none"),
        ("exact_match{ignore_case}", InvalidInputError, "not a TOML table"),
        ("regex_match", InvalidInputError, "grader 'regex_match': .*pattern"),
        ({"ignore_case": True}, InvalidInputError, "does not name a grader"),
        (3, InvalidTypeError, "3 is not a grader"),
        (ExactMatch, InvalidTypeError, "is not a grader"),
        ("json:JSONDecoder", PluginError, "JSONDecoder, which is not a valid Grader: it lacks"),
        (
            "string:digits",
            PluginError,
            "is a str, which is not a valid Grader: .* and is not callable",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(given, error, message):
    with pytest.raises(error, match=message) as caught:
        load_grader(given)
    assert "\n" not in str(caught.value)


def test_a_function_by_its_name_grades_answers():
    grader = load_grader("os.path:isabs")
    assert grader.grade(Completion("/etc", ground_truth="")) == {"isabs": 1.0}
    assert load_grader(isabs).version == grader.version


def test_defaults_by_kind_of_response():
    assert [grader.name for grader in default_graders("completion")] == ["exact_match", "f1"]
    with pytest.raises(InvalidInputError, match="'rollout'"):
        default_graders("rollout")


def test_other_usual_names_are_accepted():
    assert [load_grader(name).name for name in ("contains", "exact", "Numeric")] == [
        *("includes", "exact_match", "number_match")
    ]
