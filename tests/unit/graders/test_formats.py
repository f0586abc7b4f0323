"""JSON, CSV, postscripts and placeholders."""

import json

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import CsvFormat, JsonFormat, Placeholders, PostscriptFormat, schemas
from eval_toolkit.graders.json_format import DEPTH_LIMIT, TEXT_LIMIT, read_json
from eval_toolkit.models.responses import Completion

CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


def as_json(text, truth=None, *, schema=None, context=None):
    """What holds of a text, by the end of the column's name; reasons instead of grades."""
    grades = JsonFormat(schema).grade(Completion(text, ground_truth=truth, context=context))
    return {
        column.removeprefix("json_format_"): getattr(grade, "status", grade)
        for column, grade in grades.items()
    }


class TestJson:
    @each(
        ("text", "just", "valid"),
        [
            ('{"city": "Rome"}', 1.0, 1.0),
            (" [1, 2]\n", 1.0, 1.0),
            ("42", 1.0, 1.0),
            ('```json\n{"city": "Rome"}\n```', 0.0, 1.0),
            ('Sure! {"city": "Rome"} Anything else?', 0.0, 1.0),
            ("no", 0.0, 0.0),
            ("", 0.0, 0.0),
            ("{'city': 'Rome'}", 0.0, 0.0),
            ('{"city": "Rome",}', 0.0, 0.0),
            ("NaN", 0.0, 0.0),
            ("[Infinity]", 0.0, 0.0),
            ("1e999", 0.0, 0.0),
            ("9" * 400, 0.0, 0.0),
            ('{"a": 1, "a": 2}', 0.0, 0.0),
        ],
    )
    def test_just_and_valid(self, text, just, valid):
        found = as_json(text)
        assert (found["is_just_json"], found["is_valid_json"]) == (just, valid)

    def test_of_several_values_the_longest_counts(self):
        text = 'As in [1], the answer is {"city": "Rome"} (see [2]).'
        assert as_json(text, '{"city": "Rome"}')["exact_match"] == 1.0

    def test_a_value_inside_another_is_not_looked_at(self):
        assert as_json('x {"a": [1, 2]}', "[1, 2]")["exact_match"] == 0.0

    @pytest.mark.parametrize(
        ("text", "truth", "equal"),
        [
            ('{"a": 1, "b": 2}', '{"b": 2.0, "a": 1}', 1.0),
            ("[1, 2]", "[2, 1]", 0.0),
            ("[true]", "[1]", 0.0),  # Python says True == 1
            ("[-0.0]", "[0]", 1.0),
            ('"caf\\u00e9"', '"café"', 1.0),
            ("no", "[1]", 0.0),
            ("[2]", ["[1]", "[2]"], 1.0),
        ],
    )
    def test_equality_is_of_values(self, text, truth, equal):
        assert as_json(text, truth)["exact_match"] == equal

    def test_what_cannot_be_asked_is_skipped_and_a_bad_reference_an_error(self):
        assert as_json("[1]")["exact_match"] == "skipped"
        assert as_json("[1]")["fulfills_schema"] == "skipped"
        assert as_json("[1]", "Rome")["exact_match"] == "error"
        assert as_json("[1]", "Rome")["is_valid_json"] == 1.0

    def test_schema_of_the_grader_or_of_the_sample(self):
        assert as_json('{"city": "Rome"}', schema=CITY)["fulfills_schema"] == 1.0
        assert as_json('{"city": 3}', schema=CITY)["fulfills_schema"] == 0.0
        assert as_json("no", schema=CITY)["fulfills_schema"] == 0.0
        assert as_json('{"city": 3}', context={"schema": CITY})["fulfills_schema"] == 0.0
        assert as_json("{}", context={"schema": json.dumps(CITY)})["fulfills_schema"] == 0.0

    def test_one_schema_has_one_version_however_it_is_given(self):
        backwards = dict(reversed(CITY.items()))
        assert JsonFormat(CITY) == JsonFormat(backwards) == JsonFormat(json.dumps(CITY))
        assert JsonFormat(CITY).version == JsonFormat(backwards).version != JsonFormat().version

    def test_references_to_other_places_are_not_followed(self):
        elsewhere = {"$ref": "http://127.0.0.1:9/schema.json"}
        assert as_json("[1]", schema=elsewhere)["fulfills_schema"] == "error"

    @pytest.mark.parametrize("schema", ["x", "[1]", {"type": "nothing"}, {"type": {1, 2}}])
    def test_a_schema_that_is_none_is_refused_at_once(self, schema):
        with pytest.raises(InvalidInputError, match="`schema`"):
            JsonFormat(schema)

    def test_depth_and_length_have_limits(self):
        deep = "[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT
        assert as_json(deep)["is_valid_json"] == 1.0
        assert as_json(f"[{deep}]")["is_valid_json"] == 0.0
        long = "[" + "1," * (TEXT_LIMIT // 2) + "1]"
        assert as_json(long)["is_valid_json"] == 0.0
        with pytest.raises(ValueError, match="more than 250000 characters"):
            read_json(long)

    def test_the_depth_that_is_read_does_not_depend_on_the_stack(self):
        def at_depth(frames, text):
            return as_json(text) if frames == 0 else at_depth(frames - 1, text)

        text = "[" * (DEPTH_LIMIT + 300) + "]" * (DEPTH_LIMIT + 300)
        assert at_depth(0, text) == at_depth(500, text)
        assert at_depth(500, "[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT)["is_just_json"] == 1.0

    def test_a_pattern_that_does_not_end_is_stopped_and_counted(self, monkeypatch):
        bomb = {"type": "string", "pattern": "^(a+)+$"}
        assert as_json('"aaa"', schema=bomb)["fulfills_schema"] == 1.0
        monkeypatch.setattr(schemas, "SECONDS", 0.3)
        found = as_json(f'"{"a" * 40}b"', schema=bomb)
        assert (found["fulfills_schema"], found["timed_out"]) == (0.0, 1.0)

    def test_a_schema_that_refers_to_itself_is_stopped_and_counted(self, monkeypatch):
        sides = {side: {"$ref": "#/$defs/expr"} for side in ("left", "right")}
        node = {"type": "object", "required": ["op", *sides]}
        parts = [{**node, "properties": {"op": {"const": op}, **sides}} for op in ("add", "mul")]
        schema = {
            "$ref": "#/$defs/expr",
            "$defs": {"expr": {"oneOf": [{"type": "integer"}, *parts]}},
        }

        def answer(depth):
            value = 1
            for _ in range(depth):
                value = {"op": "mul", "left": value, "right": 1}
            return as_json(json.dumps(value), schema=schema)

        assert answer(3)["fulfills_schema"] == 1.0
        monkeypatch.setattr(schemas, "SECONDS", 0.3)
        found = answer(30)  # twice the time with every level
        assert (found["fulfills_schema"], found["timed_out"]) == (0.0, 1.0)

    def test_values_of_any_depth_that_is_read_are_checked_to_the_bottom(self):
        node = {"properties": {"a": {"$ref": "#/$defs/node"}}, "type": "object"}
        around = {"allOf": [{"allOf": [{"allOf": [node]}]}]}
        schema = {"$ref": "#/$defs/node", "$defs": {"node": around}}
        depth = DEPTH_LIMIT - 1
        for bottom, follows in (("{}", 1.0), ("1", 0.0)):
            found = as_json('{"a":' * depth + bottom + "}" * depth, schema=schema)
            assert (found["fulfills_schema"], found["timed_out"]) == (follows, 0.0)

    def test_a_value_that_leads_a_schema_in_a_circle_does_not_follow_it(self):
        schema = {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$ref": "#/$defs/b"}}}
        assert as_json('{"b": 1}', schema=schema)["fulfills_schema"] == 1.0
        assert as_json('{"a": 1}', schema=schema)["fulfills_schema"] == 0.0
        assert (
            as_json("1", schema={"$ref": "#"})["fulfills_schema"] == "error"
        )  # whatever the value

    def test_without_jsonschema_only_schemas_are_missing(self, monkeypatch):
        def missing(module, **told):
            raise MissingExtraError(f"install {told['extra']}")

        monkeypatch.setattr(schemas, "require", missing)
        assert as_json("[1]")["is_just_json"] == 1.0
        with pytest.raises(MissingExtraError, match="validation"):
            JsonFormat({"title": "seen for the first time"})


def as_csv(text, *options, context=None):
    grades = CsvFormat(*options).grade(Completion(text, context=context))
    return [getattr(grade, "status", grade) for grade in grades.values()]


class TestCsv:
    def test_a_table_in_a_text(self):
        text = "Here you are:\n\n```csv\ncity,people\nRome,2.8\nBonn,0.3\n```\nBye."
        assert as_csv(text) == [1.0, 1.0, "skipped"]
        assert as_csv(text, ",", 2) == [1.0, 1.0, 1.0]
        assert as_csv(text, ",", 3) == [1.0, 1.0, 0.0]

    def test_another_separator_than_the_one_that_was_asked_for(self):
        text = "city;people\nRome;2,8\nBonn;0,3"
        # With commas two lines agree, with semicolons three.
        assert as_csv(text) == [1.0, 0.0, "skipped"]
        assert as_csv(text, ";") == [1.0, 1.0, "skipped"]
        assert as_csv("a~b\nc~d", "~") == [1.0, 1.0, "skipped"]

    def test_no_table(self):
        for text in ("", "Rome", "Rome, Bonn", "Rome, Bonn\nand, so, on", "a,b\n\nc,d"):
            assert as_csv(text, ",", 2) == [0.0, 0.0, 0.0]

    def test_a_separator_in_quotes_separates_nothing(self):
        assert as_csv('a,"b, c"\n"d, ""e""",f', ",", 2) == [1.0, 1.0, 1.0]

    def test_the_sample_may_say_what_is_wanted(self):
        wanted = {"separator": "\t", "n_columns": 2}
        assert as_csv("a\tb\nc\td", context=wanted) == [1.0, 1.0, 1.0]
        assert as_csv("a,b\nc,d", context=wanted) == [1.0, 0.0, 1.0]

    def test_mistakes(self):
        with pytest.raises(InvalidInputError, match="`separator` is ', '"):
            CsvFormat(", ")
        with pytest.raises(InvalidInputError, match="`n_columns`"):
            CsvFormat(n_columns=0)
        with pytest.raises(InvalidInputError, match="`separator` is '::'"):
            as_csv("a", context={"separator": "::"})


@each(
    ("text", "there"),
    [
        ("Bye.\nP.S. Bring cake.", 1.0),
        ("Bye.\n\n**P.S.** bring cake", 1.0),
        ("p. s. bring cake", 1.0),
        ("P.S: cake", 1.0),
        ("P.S.\nBring cake.", 1.0),
        ("Bye. P.S. Bring cake.", 0.0),  # no line of its own
        ("Bye.\nP.S.", 0.0),  # and then?
        ("Bye.\nPS bring cake", 0.0),
        ("Bye.\nP.P.S. Bring cake.", 0.0),
        ("p.saying", 0.0),
    ],
)
def test_postscript(text, there):
    assert PostscriptFormat().grade(Completion(text)) == {"postscript_format": there}


def test_a_second_postscript():
    grader = PostscriptFormat("P.P.S.")
    assert grader.grade(Completion("P.P.S. And tea."))["postscript_format"] == 1.0
    assert grader.grade(Completion("P.S. And tea."))["postscript_format"] == 0.0
    with pytest.raises(InvalidInputError, match="`marker`"):
        PostscriptFormat("N.B.")


def test_placeholders():
    letter = Completion("Dear [name],\n[] [\n] meet me at [place [x]]", context={"n": 3})
    assert Placeholders().grade(letter) == {"placeholders": 0.0, "placeholders_n": 2.0}
    assert Placeholders(2).grade(letter)["placeholders"] == 1.0
    assert Placeholders().grade(Completion("none"))["placeholders"] == 0.0
    with pytest.raises(InvalidInputError, match="`at_least`"):
        Placeholders(0)
