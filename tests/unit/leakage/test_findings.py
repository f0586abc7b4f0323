"""Findings, reports, the run of checks, and policies."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from eval_toolkit import leakage as lk
from eval_toolkit import protocols
from eval_toolkit.errors import (
    InvalidInputError,
    InvalidTypeError,
    LeakageError,
    MissingColumnError,
)
from eval_toolkit.leakage import LeakageFinding, LeakageReport
from eval_toolkit.slices import EvalSlice


def part(name: str, texts: list[str], labels: list[int] | None = None) -> EvalSlice:
    return EvalSlice(name, {"text": texts, "label": labels or [0] * len(texts)})


def finding(**changes: object) -> LeakageFinding:
    fields: dict[str, object] = {
        "check_name": "C",
        "severity": "error",
        "drop_indices": {"test": [1]},
        "evidence": {},
        "message": "m",
        "n_affected": 1,
    }
    return LeakageFinding(**(fields | changes))  # type: ignore[arg-type]


SPLITS = {"train": part("train", ["a b", "c"]), "test": part("test", ["A  b", "d", "d"])}


@dataclass(frozen=True, slots=True)
class TextLengthOutlierCheck:
    """The custom check of the extending guide, as published."""

    severity: str = "warning"

    @property
    def name(self) -> str:
        return "TextLengthOutlierCheck"

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        drop: dict[str, list[int]] = {}
        n_affected = 0
        for split_name, slice_ in splits.items():
            lengths = np.array([len(t) for t in slice_.features])
            if len(lengths) == 0:
                continue
            median = float(np.median(lengths))
            mask = lengths > 5 * max(median, 1)
            if mask.any():
                drop[split_name] = sorted(np.where(mask)[0].tolist())
                n_affected += int(mask.sum())
        return LeakageFinding(
            check_name=self.name,
            severity=self.severity,  # type: ignore[arg-type]
            drop_indices=drop,
            evidence={"rule": "len(text) > 5 * median"},
            message=(f"{n_affected} length-outlier rows" if n_affected else "no length outliers"),
            n_affected=n_affected,
        )


class TestCustomCheck:
    df = pd.DataFrame({"text": ["short"] * 10 + ["x" * 10000], "label": [0] * 10 + [1]})

    def test_prints_what_the_guide_says(self) -> None:
        found = TextLengthOutlierCheck().validate({"test": EvalSlice(name="test", df=self.df)})
        told = f"{found.check_name}: {found.message}"
        assert told == "TextLengthOutlierCheck: 1 length-outlier rows"
        assert str(found) == told

    def test_runs_beside_built_in_checks_and_is_dropped(self) -> None:
        splits = {"test": EvalSlice(name="test", df=self.df)}
        report = lk.run_leakage_checks([TextLengthOutlierCheck(), lk.ExactDuplicateCheck()], splits)
        assert [found.code for found in report.findings] == ["", "LK001"]
        assert report.merged_drop_indices() == {"test": list(range(1, 11))}
        assert lk.drop_leakage(splits, report)["test"].features == ["short"]


class TestFinding:
    def test_fields_in_the_published_order(self) -> None:
        found = LeakageFinding("C", "info", None, {}, "m", 3)
        assert (found.check_name, found.drop_indices, found.n_affected) == ("C", None, 3)
        assert found.code == ""

    def test_severity_is_one_of_three(self) -> None:
        with pytest.raises(InvalidInputError, match="`severity` is 'fatal'; choose one of 'error'"):
            finding(severity="fatal")

    def test_rows_are_whole_numbers_from_zero(self) -> None:
        with pytest.raises(InvalidInputError, match=r"`drop_indices\['test'\]` is -1"):
            finding(drop_indices={"test": [-1]})
        with pytest.raises(InvalidTypeError, match=r"must be an integer, got 1\.5"):
            finding(drop_indices={"test": [1.5]})
        with pytest.raises(InvalidInputError, match="`n_affected` is -2"):
            finding(n_affected=-2)

    def test_numpy_rows_become_plain(self) -> None:
        found = finding(drop_indices={"test": np.array([2, 5])}, n_affected=np.int64(2))
        assert json.dumps(found.to_dict()["drop_indices"]) == '{"test": [2, 5]}'

    def test_evidence_becomes_json(self) -> None:
        evidence = {
            "nan": float("nan"),
            "array": np.array([1.5, np.inf]),
            "when": np.datetime64("2024-01-02"),
            "set": {"b", "a"},
            3: (np.int64(4), np.bool_(True), None),
            "object": Severity,
        }
        plain = finding(evidence=evidence).to_dict()["evidence"]
        assert json.loads(json.dumps(plain, allow_nan=False)) == {
            "nan": None,
            "array": [1.5, None],
            "when": "2024-01-02",
            "set": ["a", "b"],
            "3": [4, True, None],
            "object": str(Severity),
        }

    def test_a_stored_finding_needs_its_keys(self) -> None:
        with pytest.raises(InvalidInputError, match="a finding needs the key 'severity'; it has"):
            LeakageFinding.from_dict({"check_name": "C"})


class Severity:
    """Any object."""


class TestReport:
    def test_errors_and_warnings_need_something_affected(self) -> None:
        report = LeakageReport(
            [
                finding(n_affected=0, drop_indices={}),
                finding(severity="warning"),
                finding(severity="info"),
            ]
        )
        assert not report.has_errors()
        assert report.errors() == []
        assert [found.severity for found in report.warnings()] == ["warning"]

    def test_merged_rows_are_sorted_once_and_never_empty(self) -> None:
        report = LeakageReport(
            [
                finding(drop_indices={"test": [5, 1]}),
                finding(drop_indices={"test": [1, 2], "val": []}),
                finding(drop_indices=None),
            ]
        )
        assert report.merged_drop_indices() == {"test": [1, 2, 5]}

    def test_read_back_equals_written(self) -> None:
        report = lk.run_leakage_checks([lk.ExactDuplicateCheck(), lk.LabelConflictCheck()], SPLITS)
        assert LeakageReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report

    def test_a_stored_report_needs_findings(self) -> None:
        with pytest.raises(
            InvalidInputError, match="needs a list under 'findings'; it has the keys \\['x'\\]"
        ):
            LeakageReport.from_dict({"x": 1})

    def test_two_reports_do_not_share_findings(self) -> None:
        assert LeakageReport().findings is not LeakageReport().findings


class Returns:
    name = "Returns"

    def __init__(self, value: object) -> None:
        self.value = value

    def validate(self, splits: Mapping[str, EvalSlice]) -> object:
        return self.value


class TestRun:
    def test_checks_may_come_from_a_generator(self) -> None:
        checks = (check for check in [lk.LabelConflictCheck(), lk.ExactDuplicateCheck()])
        report = lk.run_leakage_checks(checks, SPLITS)
        assert [found.code for found in report.findings] == ["LK005", "LK001"]

    def test_something_else_than_a_finding(self) -> None:
        with pytest.raises(
            InvalidTypeError, match="check 'Returns' returned a dict; `validate` must return"
        ):
            lk.run_leakage_checks([Returns({})], SPLITS)

    def test_a_class_is_no_check(self) -> None:
        with pytest.raises(InvalidTypeError, match=r"checks\[0\] is the class LabelConflictCheck"):
            lk.run_leakage_checks([lk.LabelConflictCheck], SPLITS)  # type: ignore[list-item]
        with pytest.raises(InvalidTypeError, match=r"checks\[0\] is 'exact'"):
            lk.run_leakage_checks(["exact"], SPLITS)  # type: ignore[list-item]

    def test_one_check_is_passed_in_a_list(self) -> None:
        with pytest.raises(
            InvalidTypeError, match="pass a list of checks, even for a single check"
        ):
            lk.run_leakage_checks(lk.LabelConflictCheck(), SPLITS)  # type: ignore[arg-type]

    def test_splits_are_a_dict_of_slices(self) -> None:
        with pytest.raises(InvalidTypeError, match="`splits` is a list; pass a dict"):
            lk.run_leakage_checks([], [SPLITS["train"]])  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match=r"splits\['a'\] is a dict; wrap it: EvalSlice"):
            lk.run_leakage_checks([lk.ExactDuplicateCheck()], {"a": {"text": []}})

    def test_missing_split_is_a_key_error(self) -> None:
        with pytest.raises(KeyError) as caught:
            lk.run_leakage_checks([lk.ExactDuplicateCheck(["val"])], SPLITS)
        assert str(caught.value) == (
            "ExactDuplicateCheck: there is no split 'val'; the splits are 'train', 'test'"
        )


class TestPolicies:
    report = lk.run_leakage_checks([lk.ExactDuplicateCheck(), lk.LabelConflictCheck()], SPLITS)

    def test_raise_names_the_findings(self) -> None:
        with pytest.raises(
            LeakageError, match="leakage found: LK001 ExactDuplicateCheck: 2 copies"
        ):
            lk.apply_leakage_policy(self.report, SPLITS, "raise")

    def test_raise_passes_warnings(self) -> None:
        report = LeakageReport([finding(severity="warning")])
        assert lk.apply_leakage_policy(report, SPLITS, "raise") == SPLITS

    @pytest.mark.parametrize("policy", ["record", "skip"])
    def test_record_and_skip_change_nothing(self, policy: lk.LeakagePolicy) -> None:
        assert lk.apply_leakage_policy(self.report, SPLITS, policy) == SPLITS

    def test_drop_takes_the_rows_out_and_leaves_other_splits_alone(self) -> None:
        clean = lk.apply_leakage_policy(self.report, SPLITS, "drop")
        assert clean["test"].features == ["d"]
        assert clean["train"] is SPLITS["train"]
        assert list(clean) == ["train", "test"]

    def test_drop_cannot_cure_a_column(self) -> None:
        report = LeakageReport([finding(drop_indices=None, message="column x")])
        with pytest.raises(
            LeakageError, match="dropping rows does not remove the leakage: C: column x"
        ):
            lk.apply_leakage_policy(report, SPLITS, "drop")
        for nowhere in ({}, {"test": []}):
            report = LeakageReport([finding(drop_indices=nowhere, message="no row named")])
            with pytest.raises(LeakageError, match="does not remove the leakage: C: no row named"):
                lk.apply_leakage_policy(report, SPLITS, "drop")
        harmless = LeakageReport([finding(drop_indices=None, severity="info")])
        assert lk.apply_leakage_policy(harmless, SPLITS, "drop") == SPLITS

    def test_unknown_policy(self) -> None:
        with pytest.raises(InvalidInputError, match="`policy` is 'ignore'; choose one of 'raise'"):
            lk.apply_leakage_policy(self.report, SPLITS, "ignore")  # type: ignore[arg-type]

    def test_a_report_on_other_data(self) -> None:
        with pytest.raises(MissingColumnError, match="the report names the split 'test'"):
            lk.drop_leakage({"train": SPLITS["train"]}, self.report)
        with pytest.raises(InvalidInputError, match="row 2 of split 'test', which has 2 rows"):
            lk.drop_leakage(SPLITS | {"test": SPLITS["test"].take([0, 1])}, self.report)

    @pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
    def test_drop_on_any_frame(self, backend: str) -> None:
        from eval_toolkit._internal.frames import from_columns

        frame = from_columns({"text": ["a", "b", "A"], "label": [0, 1, 0]}, backend)
        splits = {"all": EvalSlice("all", frame)}
        cleaned = lk.drop_until_clean([lk.ExactDuplicateCheck()], splits)
        assert cleaned.splits["all"].features == ["a", "b"]
        assert type(cleaned.splits["all"].df) is type(frame)


class Shrinking:
    """Names the last row as long as more than ``floor`` are left."""

    name = "Shrinking"

    def __init__(self, floor: int) -> None:
        self.floor = floor

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        n = splits["all"].n
        drop = {"all": [n - 1]} if n > self.floor else {}
        return LeakageFinding("Shrinking", "error", drop, {}, "one more", len(drop))


class TestDropUntilClean:
    splits: ClassVar = {"all": part("all", ["a", "b", "c", "d"])}

    def test_rounds_until_nothing_is_named(self) -> None:
        cleaned = lk.drop_until_clean((check for check in [Shrinking(1)]), self.splits)
        assert cleaned.kept == {"all": [0]}
        assert cleaned.n_dropped == 3
        assert len(cleaned.reports) == 4
        assert not cleaned.reports[-1].has_errors()
        assert cleaned.splits["all"].features == ["a"]

    def test_gives_up_loudly(self) -> None:
        with pytest.raises(
            LeakageError, match="still flagged after 2 rounds of dropping: Shrinking"
        ):
            lk.drop_until_clean([Shrinking(0)], self.splits, max_rounds=2)

    def test_as_many_rounds_as_allowed_are_used(self) -> None:
        assert lk.drop_until_clean([Shrinking(1)], self.splits, max_rounds=3).n_dropped == 3

    def test_kept_are_rows_of_the_original(self) -> None:
        checks = [lk.ExactDuplicateCheck(), Shrinking(2)]
        splits = {"all": part("all", ["a", "A", "b", "c", "d"])}
        cleaned = lk.drop_until_clean(checks, splits)
        assert cleaned.kept == {"all": [0, 2]}
        assert json.loads(json.dumps(cleaned.to_dict()))["kept"] == {"all": [0, 2]}

    def test_an_error_beyond_rows_ends_it(self) -> None:
        check = Returns(finding(drop_indices=None))
        with pytest.raises(LeakageError, match="does not remove the leakage"):
            lk.drop_until_clean([check], self.splits)


class TestNames:
    def test_codes_are_distinct_and_belong_to_checks(self) -> None:
        assert len(set(lk.LEAKAGE_CODES.values())) == len(lk.LEAKAGE_CODES) == 11
        assert sorted(lk.LEAKAGE_CODES.values()) == [f"LK{i:03}" for i in range(1, 12)]
        for name in lk.LEAKAGE_CODES:
            assert issubclass(getattr(lk, name), object)

    def test_protocols_are_those_of_protocols(self) -> None:
        assert lk.Versioned is protocols.Versioned
        assert lk.LeakageCheck is protocols.LeakageCheck
        assert isinstance(lk.ExactDuplicateCheck(), lk.Versioned)
        assert isinstance(lk.GroupLeakageCheck("user"), lk.LeakageCheck)
