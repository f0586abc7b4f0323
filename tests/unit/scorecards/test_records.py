"""Records: one line per (unit, attempt), whatever produced them, in an order of their own."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.each import each

from eval_toolkit.analysis.units import UnitValues
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metric_specs import mean_of
from eval_toolkit.scorecards import Records, summarise, unit_starts
from eval_toolkit.tasks.sequential_draws import known_values


def lines(records: Records) -> list[tuple[Any, ...]]:
    """Every line of the table as a tuple."""
    columns = [
        records.unit_id,
        records.attempt,
        records.group,
        records.content_hash,
        *(records.slices[name] for name in sorted(records.slices)),
        *(
            part[name]
            for name in sorted(records.columns)
            for part in (records.columns, records.status, records.reason)
        ),
    ]
    return list(zip(*(column.tolist() for column in columns), strict=True))


class TestFromColumns:
    def test_sorted_by_unit_and_attempt(self) -> None:
        records = Records.from_columns(
            {"x": [1, 2, 3, 4]}, unit_id=["b", "a", "b", "a"], attempt=[2, 2, 1, 1]
        )
        assert records.unit_id.tolist() == ["a", "a", "b", "b"]
        assert records.attempt.tolist() == [1, 2, 1, 2]
        assert records.columns["x"].tolist() == [4.0, 2.0, 3.0, 1.0]
        assert len(records) == 4

    def test_defaults(self) -> None:
        records = Records.from_columns({"x": [0.5] * 12})
        assert records.unit_id.tolist() == [f"{i:02d}" for i in range(12)]  # sorts as numbers do
        assert records.attempt.tolist() == [1] * 12
        assert records.group.tolist() == records.unit_id.tolist()
        assert set(records.content_hash) == {""}
        assert set(records.status["x"]) == {"ok"}
        assert set(records.reason["x"]) == {""}
        assert records.slices == {}

    def test_attempts_are_counted_per_unit(self) -> None:
        records = Records.from_columns({"x": [1, 2, 3]}, unit_id=["q", "p", "q"])
        pairs = list(zip(records.unit_id.tolist(), records.attempt.tolist(), strict=True))
        assert pairs == [("p", 1), ("q", 1), ("q", 2)]

    def test_everything_travels_with_its_line(self) -> None:
        order = [2, 0, 3, 1]
        data: dict[str, list[Any]] = {
            "unit": ["u1", "u1", "u2", "u3"],
            "attempt": [1, 2, 1, 1],
            "group": ["g", "g", "g", "h"],
            "hash": ["c1", "c1", "c2", "c3"],
            "slice": ["easy", "easy", "hard", "hard"],
            "x": [0.1, None, 0.3, None],
            "status": ["ok", "error", "ok", "skipped"],
            "reason": [None, "timeout", "", "no label"],
        }

        def build(rows: list[int]) -> Records:
            part = {name: [values[i] for i in rows] for name, values in data.items()}
            return Records.from_columns(
                {"x": part["x"]},
                unit_id=part["unit"],
                attempt=part["attempt"],
                group=part["group"],
                content_hash=part["hash"],
                slices={"level": part["slice"]},
                status={"x": part["status"]},
                reason={"x": part["reason"]},
            )

        expected = [
            ("u1", 1, "g", "c1", "easy", 0.1, "ok", ""),
            ("u1", 2, "g", "c1", "easy", 0.0, "error", "timeout"),
            ("u2", 1, "g", "c2", "hard", 0.3, "ok", ""),
            ("u3", 1, "h", "c3", "hard", 0.0, "skipped", "no label"),
        ]
        assert lines(build([0, 1, 2, 3])) == lines(build(order)) == expected

    def test_none_is_skipped_unless_a_status_says_otherwise(self) -> None:
        assert Records.from_columns({"x": [1, None]}).status["x"].tolist() == ["ok", "skipped"]
        records = Records.from_columns({"x": [1, None]}, status={"x": ["ok", "error"]})
        assert records.status["x"].tolist() == ["ok", "error"]

    def test_a_value_that_is_not_ok_is_not_kept(self) -> None:
        records = Records.from_columns({"x": [7.0, 8.0]}, status={"x": ["ok", "error"]})
        assert records.columns["x"].tolist() == [7.0, 0.0]

    def test_arrays_series_and_booleans(self) -> None:
        for column in (np.array([True, False]), pl.Series([1.0, 0.0]), [True, False]):
            assert Records.from_columns({"x": column}).columns["x"].tolist() == [1.0, 0.0]

    def test_ids_and_groups_become_strings(self) -> None:
        records = Records.from_columns({"x": [1, 2]}, unit_id=[10, 9], group=[3, 3])
        assert records.unit_id.tolist() == ["10", "9"]
        assert records.group.tolist() == ["3", "3"]

    def test_no_lines_is_a_table_too(self) -> None:
        assert len(Records.from_columns({"x": []})) == 0

    def test_take(self) -> None:
        records = Records.from_columns(
            {"x": [1, 2, 3]}, unit_id=["a", "b", "c"], slices={"s": ["u", "v", "u"]}
        )
        mask = records.slices["s"] == "u"
        assert lines(records.take(mask)) == [lines(records)[0], lines(records)[2]]
        assert records.take([1]).unit_id.tolist() == ["b"]

    def test_taken_in_any_order_they_are_sorted(self) -> None:
        records = Records.from_columns({"x": range(8)}, unit_id=list("aabbccdd"))
        for rows in ([5, 0, 4, 1], [-4, 1, 5, 0]):
            assert lines(records.take(rows)) == [lines(records)[at] for at in (0, 1, 4, 5)]

    def test_attempts_taken_apart_are_still_of_one_unit(self) -> None:
        ids = [f"{unit:02d}" for unit in range(20) for _ in range(2)]
        records = Records.from_columns({"x": [1.0, 1, 0, 0] * 10}, unit_id=ids)
        apart = records.take(np.r_[0:40:2, 1:40:2])
        assert dict(summarise(apart, [mean_of("x")])) == dict(summarise(records, [mean_of("x")]))


def test_values_whose_squares_cannot_be_summed_are_refused() -> None:
    """1e160 squared is no float; its mean would have an interval from nan to nan."""
    with pytest.raises(
        InvalidInputError, match=r"x\[1\] is -1e\+160; values must lie within ±1e\+75"
    ):
        Records.from_columns({"x": [0.0, -1e160]})
    assert len(Records.from_columns({"x": [0.0, -1e75]})) == 2


class TestUnitStarts:
    def test_each_unit_has_one(self) -> None:
        assert unit_starts(np.array(["a", "a", "b", "c", "c"], object)).tolist() == [0, 2, 3]
        assert unit_starts(np.zeros(0, object)).tolist() == []

    def test_units_in_several_places_are_refused(self) -> None:
        """Only what was put together by hand can be like that."""
        records = Records.from_columns({"x": [1, 2, 3]}, unit_id=["a", "b", "c"])
        unsorted = replace(records, unit_id=records.unit_id[[2, 0, 1]])
        for use in (
            lambda: unit_starts(unsorted.unit_id),
            lambda: summarise(unsorted, [mean_of("x")]),
            lambda: known_values(unsorted, mean_of("x", bounds=(0.0, 3.0))),
            lambda: UnitValues.of(unsorted),
        ):
            with pytest.raises(InvalidInputError, match="not sorted by unit"):
                use()


class TestRefusals:
    @each(
        ("columns", "options", "message"),
        [
            ({}, {}, "`columns` is empty; records need at least one column"),
            ({"x": [1, 2], "y": [1]}, {}, "`y` has 1 entries but there are 2 records"),
            ({"x": [1]}, {"unit_id": ["a", "b"]}, "`unit_id` has 2 entries but there are 1"),
            ({"x": [1]}, {"attempt": [1, 2]}, "`attempt` has 2 entries but there are 1"),
            ({"x": [1]}, {"group": []}, "`group` has 0 entries but there are 1"),
            ({"x": [1]}, {"slices": {"s": []}}, "`s` has 0 entries but there are 1"),
            ({"x": [1]}, {"content_hash": []}, "`content_hash` has 0 entries but there are 1"),
            (
                {"x": [1, 2, 3]},
                {"unit_id": ["a", "b", "a"], "attempt": [1, 1, 1]},
                r"unit_id\[2\] is 'a' with attempt 1 twice; each pair of unit and attempt may occur only once",
            ),
            (
                {"x": [1, 2]},
                {"unit_id": ["a", "a"], "group": ["g", "h"]},
                r"group\[1\] is 'h' but unit 'a' also has 'g'; each unit must have a single group",
            ),
            (
                {"x": [1, 2]},
                {"unit_id": ["a", "a"], "content_hash": ["1", "2"]},
                r"content_hash\[1\] is '2' but unit 'a' also has '1'; each unit must have a single content_hash",
            ),
            ({"x": [1, 2]}, {"unit_id": ["a", None]}, r"unit_id\[1\] is missing"),
            ({"x": [1, 2]}, {"group": [1.0, np.nan]}, r"group\[1\] is missing"),
            (
                {"x": [1, 2]},
                {"attempt": [1.0, 2.5]},
                "`attempt` must contain integers, got float64",
            ),
            ({"x": [1, np.nan]}, {}, r"x\[1\] is nan; an 'ok' value must be finite"),
            ({"x": [1, np.inf]}, {}, r"x\[1\] is inf; an 'ok' value must be finite"),
            (
                {"x": [1, "yes"]},
                {},
                r"x\[1\] is 'yes'; a column must contain only numbers or only strings",
            ),
            (
                {"x": ["yes", None]},
                {"status": {"x": ["ok", "ok"]}},
                r"x\[1\] is None; an 'ok' value must be a string",
            ),
            ({"x": [1, None]}, {"status": {"x": ["ok", "ok"]}}, r"x\[1\] is None; an 'ok' value"),
            (
                {"x": [1, 2]},
                {"status": {"x": ["ok", "failed"]}},
                r"status\['x'\]\[1\] is 'failed'; it must be 'ok', 'skipped' or 'error'",
            ),
            (
                {"x": [1]},
                {"status": {"X": ["error"]}},
                r"`status` names the column 'X'; the columns are \['x'\]",
            ),
            ({"x": [1]}, {"reason": {"z": ["?"]}}, "`reason` names the column 'z'"),
            ({"x": [1]}, {"reason": {"x": []}}, r"`reason\['x'\]` has 0 entries"),
        ],
    )
    def test_message(self, columns: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Records.from_columns(columns, **options)


class TestFromRows:
    def test_columns_label_and_score(self) -> None:
        records = Records.from_rows([0, 1, 1], [0.2, 0.9, 0.4], group=["g", "g", "h"])
        assert records.columns["label"].tolist() == [0.0, 1.0, 1.0]
        assert records.columns["score"].tolist() == [0.2, 0.9, 0.4]
        assert records.group.tolist() == ["g", "g", "h"]

    def test_ids_are_the_data_s_own_where_given(self) -> None:
        records = Records.from_rows([0, 1], [0.2, 0.9], inputs=["x", "y"], unit_id=["k2", "k1"])
        assert records.unit_id.tolist() == ["k1", "k2"]
        assert (
            records.content_hash.tolist()[1]
            == Records.from_rows([0], [0.5], inputs=["x"]).content_hash.item()
        )

    def test_ids_from_content_are_16_digits_of_its_hash(self) -> None:
        records = Records.from_rows([1], [0.9], inputs=["a text"])
        # sha256 of the JSON of [input, target], written out here by hand
        digest = hashlib.sha256(b'["a text", 1]').hexdigest()
        assert records.content_hash.tolist() == [digest]
        assert records.unit_id.tolist() == [digest[:16]]

    def test_equal_items_are_numbered(self) -> None:
        records = Records.from_rows([1, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], inputs=["a"] * 4)
        positive = hashlib.sha256(b'["a", 1]').hexdigest()
        negative = hashlib.sha256(b'["a", 0]').hexdigest()
        ids = [positive[:16], positive[:16] + "~2", positive[:16] + "~3", negative[:16]]
        assert sorted(records.unit_id.tolist()) == sorted(ids)
        assert set(records.content_hash) == {positive, negative}
        assert set(records.attempt) == {1}

    def test_hash_covers_input_and_target_not_the_score(self) -> None:
        def hash_of(label: int, score: float, item: Any) -> str:
            return Records.from_rows([label], [score], inputs=[item]).content_hash.item()

        base = hash_of(1, 0.5, "text")
        assert hash_of(1, 0.9, "text") == base
        assert hash_of(0, 0.5, "text") != base
        assert hash_of(1, 0.5, "text ") != base
        assert hash_of(1, 0.5, {"b": 1, "a": 2}) == hash_of(1, 0.5, {"a": 2, "b": 1})
        assert (
            hash_of(1, 0.5, "é")
            == hashlib.sha256(json.dumps(["é", 1], ensure_ascii=False).encode()).hexdigest()
        )

    def test_one_label_type_or_another_is_one_target(self) -> None:
        hashes = {
            Records.from_rows(labels, [0.5], inputs=["t"]).content_hash.item()
            for labels in ([1], [True], [1.0], np.array([1], dtype=np.uint8))
        }
        assert len(hashes) == 1

    def test_slices(self) -> None:
        records = Records.from_rows([0, 1], [0.2, 0.9], slices={"lang": ["de", "en"]})
        assert records.slices["lang"].tolist() == ["de", "en"]

    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            (([0, 2], [0.1, 0.2]), {}, r"y_true\[1\] is 2; labels must be 0 or 1"),
            (([0, 1], [0.1]), {}, "`y_true` has 2 rows but `y_score` has 1"),
            (([0, 1], [0.1, 0.2]), {"inputs": ["a"]}, "`inputs` has 1 entries but there are 2"),
        ],
    )
    def test_refusals(self, arguments: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Records.from_rows(*arguments, **options)


class TestForeignTypes:
    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"c": "101"}, "`c` is '101'; it must be a sequence, one entry per record"),
            ({"c": 5}, "`c` is 5; it must be a sequence, one entry per record"),
            ({"x": [1, 2], "c": 5}, "`c` is 5; it must be a sequence"),
            ({"c": np.array(3.0)}, r"`c` is array\(3\.\); it must be a sequence"),
            (
                {"c": ["1", 0]},
                r"c\[0\] is '1'; a column must contain only numbers or only strings, or None",
            ),
            ({"c": np.ma.masked_array([1, 2], mask=[False, True])}, r"c\[1\] is masked; a column"),
            ([1, 2], r"`columns` is \[1, 2\]; it must map names to columns"),
        ],
    )
    def test_columns(self, columns: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Records.from_columns(columns)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([0, 9], r"rows\[1\] is 9; there are 3 records"),
            ([-4], r"rows\[0\] is -4; there are 3 records"),
            ([True, False], r"`rows` is a mask of shape \(2,\); there are 3 records"),
            ([0.5], "`rows` must contain positions or be a mask"),
            ([0, 2, -1], r"rows\[2\] is 2 again; each record may be selected only once"),
        ],
    )
    def test_take(self, rows: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Records.from_columns({"x": [1, 2, 3]}).take(rows)

    def test_take_nothing(self) -> None:
        assert len(Records.from_columns({"x": [1, 2, 3]}).take([])) == 0


class TestRepeatedInputs:
    LABELS = (1, 1, 1, 0, 1, 1)
    SCORES = (0.9, 0.2, 0.2, 0.4, 0.5, 0.2)
    INPUTS = ("a", "a", "a", "a", "b", "a")
    GROUPS = ("g", "h", "g", "g", "g", "g")
    PARTS = ("u", "u", "v", "u", "u", "u")

    def build(self, rows: list[int]) -> Records:
        data = (self.LABELS, self.SCORES, self.INPUTS, self.GROUPS, self.PARTS)
        y, s, inputs, group, part = ([values[i] for i in rows] for values in data)
        return Records.from_rows(y, s, inputs=inputs, group=group, slices={"part": part})

    def test_the_order_of_the_rows_does_not_matter(self) -> None:
        records = self.build([0, 1, 2, 3, 4, 5])
        for rows in ([5, 4, 3, 2, 1, 0], [2, 0, 4, 5, 1, 3]):
            assert lines(self.build(rows)) == lines(records)

    def test_numbered_by_score(self) -> None:
        records = Records.from_rows([1, 1], [0.9, 0.2], inputs=["a", "a"])
        assert [unit[16:] for unit in records.unit_id] == ["", "~2"]
        assert records.columns["score"].tolist() == [0.2, 0.9]


class TestTexts:
    def test_texts_are_columns_with_status_and_reason(self) -> None:
        records = Records.from_columns(
            {"right": [1, 0, 0], "answer": ["Rome", None, "x"]},
            unit_id=list("cab"),
            status={"answer": ["ok", "skipped", "error"]},
            reason={"answer": ["", "no answer", "cut off"]},
        )
        assert records.columns["answer"].tolist() == [None, None, "Rome"]
        assert records.status["answer"].tolist() == ["skipped", "error", "ok"]
        assert records.reason["answer"].tolist() == ["no answer", "cut off", ""]
        assert list(records.numbers) == ["right"]
        assert list(records.texts) == ["answer"]
        assert records.take([2]).columns["answer"].tolist() == ["Rome"]

    def test_arrays_of_texts_count_too(self) -> None:
        records = Records.from_columns({"answer": np.array(["a", "b"]), "n": np.array([1, 2])})
        assert records.columns["answer"].dtype == object
        assert records.columns["answer"].tolist() == ["a", "b"]

    def test_nothing_but_absence_is_a_column_of_numbers(self) -> None:
        records = Records.from_columns({"answer": [None, None]})
        assert list(records.numbers) == ["answer"]

    def test_texts_have_no_mean(self) -> None:
        records = Records.from_columns({"answer": ["a", "b"]}, slices={"x": ["1", "2"]})
        for by in (None, "x"):
            with pytest.raises(
                InvalidInputError, match="'answer' contains strings, which have no mean"
            ):
                summarise(records, [mean_of("answer")], by=by)
