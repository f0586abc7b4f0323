"""`Results`: the walker, addresses, and the spellings of the first edition."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit import metric_specs as ms
from eval_toolkit.claims import Claim, cell_threshold_gate, evaluate_gate
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.cells import read_cell
from eval_toolkit.runs.legacy_results import in_one_shape
from eval_toolkit.runs.results import Results
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, summarise


def cell(value: float, low: float | None = None, **more: Any) -> dict[str, Any]:
    ends = {"point_estimate": value, "ci_low": low, "ci_high": 1.0, "confidence": 0.95}
    ci = {} if low is None else {"ci": {**ends, "n_resamples": 0, "method": "wilson"}}
    return {"value": value, "status": "ok", "reason": "", **ci, **more}


def part(value: float, system: str = "m", n: int = 4) -> dict[str, Any]:
    return {"n": n, "by_scorer": {system: {"f1": cell(value, 0.1), "n": n}}}


TWO = {
    "by_slice": {
        "dev": {**part(0.5), "parts": {"language=de": part(0.4)}},
        "test": {
            "n": 8,
            "by_scorer": {
                "m": {"f1": cell(0.6), "pass@4": 0.7, "tox/mean": 0.2, "scores": [0.1]},
                "org/judge": {"skipped": "costs too much"},
            },
            "parts": {"language=de": part(0.7), 'language="de, en"': part(0.8, "org/judge")},
        },
    }
}


class TestWalking:
    def test_every_cell_comes_once_wholes_before_their_parts(self) -> None:
        found = [(c.slice, c.part, c.system, c.metric, c.cell.value) for c in Results.of(TWO)]
        assert found == [
            ("dev", "all", "m", "f1", 0.5),
            ("dev", "language=de", "m", "f1", 0.4),
            ("test", "all", "m", "f1", 0.6),
            ("test", "all", "m", "pass@4", 0.7),
            ("test", "all", "m", "tox/mean", 0.2),
            ("test", "all", "org/judge", "", None),
            ("test", "language=de", "m", "f1", 0.7),
            ("test", 'language="de, en"', "org/judge", "f1", 0.8),
        ]

    def test_what_there_is(self) -> None:
        results = Results.of(TWO)
        assert results.slices == ["dev", "test"]
        assert results.parts("dev") == ["language=de"]
        assert results.systems == ["m", "org/judge"]
        assert results.metrics == ["f1", "pass@4", "tox/mean"]
        assert len(results) == len(results.rows()) == 8
        assert results.to_dict() == TWO
        assert "8 cells of 'dev', 'test'" in repr(results)

    def test_every_address_finds_its_cell(self) -> None:
        results = Results.of(TWO)
        for found in results:
            if found.metric:
                assert results.find(results.address(found)) == found

    def test_rows_have_all_that_a_cell_says(self) -> None:
        row = Results.of({"by_slice": {"t": part(0.5)}}).rows()[0]
        assert (row["part"], row["ci_low"], row["method"], row["n_resamples"]) == (
            *("all", 0.1, "wilson", 0),
        )

    def test_odd_payloads_have_no_cells(self) -> None:
        for by_slice in (None, {"t": 3}, {"t": {"by_scorer": [1]}}, {"t": {"parts": {"a=1": 2}}}):
            assert list(Results.of({"by_slice": by_slice})) == []
        with pytest.raises(InvalidTypeError, match="must be a mapping"):
            Results.of([1])  # type: ignore[arg-type]

    def test_a_card_is_one_slice_with_its_parts(self) -> None:
        records = Records.from_columns(
            {"right": [1.0, 0.0, 1.0, 1.0]}, slices={"topic": list("abab")}
        )
        results = Results.of_card(summarise(records, [ms.mean_of("right")], by="topic"))
        assert results["right"].value == 0.75
        assert results["right @ topic=b"].value == 0.5
        assert json.loads(json.dumps(results.to_dict()))["by_slice"]["all"]["parts"]
        alone = Results.of_card(Scorecard({"f1": MetricResult(0.5, "ok")}))
        assert [alone.address(found) for found in alone] == ["f1 @ all"]


class TestFinding:
    @each(
        ("address", "value"),
        [
            ("pass@4", 0.7),
            ("pass@4 @ slice=test / m", 0.7),
            ("tox/mean", 0.2),
            ('"tox/mean" @ slice=test', 0.2),
            ("f1 @ slice=dev", 0.5),
            ("f1 @ slice=test & language=de", 0.7),
            ("f1@language=de & slice=dev", 0.4),
            ('f1 @ language="de, en"', 0.8),
            ("f1 @ language=de, en / org/judge", 0.8),
        ],
    )
    def test_what_an_address_may_leave_out(self, address: str, value: float) -> None:
        assert Results.of(TWO)[address].value == value

    @each(
        ("address", "value"),
        [
            ("f1@0.5", 0.1),
            ("f1=0.50 @ all / m", 0.1),
            ("op_f1_at_0.5", 0.1),
            ("recall@fpr=0.01", 0.2),
            ("recall@fpr=0.01 @ language=de", 0.3),
            ("recall@fpr=1", 0.4),
        ],
    )
    def test_every_spelling_of_a_metric_finds_its_cell(self, address: str, value: float) -> None:
        block = {"op_f1_at_0.5": 0.1, "recall_at_fpr_0.01": 0.2, "recall@fpr=1": 0.4}
        inside = {"language=de": {"by_scorer": {"m": {"recall_at_fpr_0.01": 0.3}}}}
        results = Results.of({"by_slice": {"test": {"by_scorer": {"m": block}, "parts": inside}}})
        assert results[address].value == value

    @pytest.mark.parametrize(
        ("address", "error", "said"),
        [
            ("f1", InvalidInputError, "'f1 @ slice=dev / m' or 'f1 @ slice=test / m'"),
            ("f1 @ language=de", InvalidInputError, "'f1 @ slice=test&language=de / m'"),
            ("ff1 @ slice=dev", MissingColumnError, "no metric 'ff1'; did you mean 'f1'"),
            ("f1 @ slice=tst", MissingColumnError, "did you mean 'slice=test'? There is"),
            ("f1 @ language=fr", MissingColumnError, "no part 'language=fr'; did you mean"),
            ("f1 @ slice=dev / x", MissingColumnError, "no system 'x'; there is 'm'"),
            ("f1 @ slice=val", MissingColumnError, "no part 'slice=val'"),
        ],
    )
    def test_what_is_missing_or_may_be_several(
        self, address: str, error: type[Exception], said: str
    ) -> None:
        with pytest.raises(error) as caught:
            Results.of(TWO)[address]
        assert said in str(caught.value)

    def test_a_skipped_system_says_why(self) -> None:
        found = Results.of(TWO)["f1 @ slice=test / org/judge"]
        assert (found.status, found.reason) == ("skipped", "costs too much")

    def test_the_slice_all_is_the_part_all(self) -> None:
        results = Results.of({"by_slice": {"all": part(0.5), "extra": part(0.6)}})
        assert results["f1 @ all"].value == 0.5

    def test_a_part_whose_key_is_slice(self) -> None:
        entry = {**part(0.5), "parts": {"slice=x": part(0.6)}}
        assert Results.of({"by_slice": {"t": entry}})["f1 @ slice=x"].value == 0.6

    def test_a_slice_that_is_named_like_a_part(self) -> None:
        results = Results.of({"by_slice": {"language=de": part(0.5), "language=en": part(0.6)}})
        assert results["f1 @ language=en"].value == 0.6


class TestStoredCells:
    @pytest.mark.parametrize(
        "stored",
        [
            {"status": "ok", "value": None},
            {"status": "ok", "value": "0.5"},
            {"status": "ok", "value": True},
            {"status": "ok", "value": math.nan},
            {"status": "ok", "value": 10**400},
            {"status": "fine", "value": 0.5},
            math.inf,
        ],
    )
    def test_a_cell_that_lies_is_an_error(self, stored: Any) -> None:
        found = read_cell("f1", stored)
        assert found is not None
        assert (found.status, bool(found.reason)) == ("error", True)

    def test_an_interval_needs_both_ends(self) -> None:
        for ci in ({"ci_low": 0.1}, {"ci_low": 0.1, "ci_high": {"status": "skipped"}}, [0, 1]):
            found = read_cell("f1", {"value": 0.5, "status": "ok", "ci": ci})
            assert found is not None
            assert found.ci is None

    def test_what_is_written_is_read_back(self) -> None:
        records = Records.from_columns({"right": [1.0, 0.0, None, 1.0]})
        for made in summarise(records, [ms.mean_of("right")]).values():
            assert read_cell("right", json.loads(json.dumps(made.to_dict()))) == made
        failed = MetricResult(0.5, "ok", n_errors=2)
        assert read_cell("f1", failed.to_dict()) == failed


MEAN = {
    "mean": 0.6,
    "ci_low": 0.5,
    "ci_high": 0.7,
    "confidence": 0.9,
    "sd": 0.1,
    "method": "nadeau-bengio",
    "n_folds": 2,
    "n_failed": 0,
}


def fold(seed: int, number: int, value: float) -> dict[str, Any]:
    entry = {**part(value), "n_positive": 2}
    return {"seed": seed, "fold": number, "n_train": 9, "by_slice": {"test": entry}}


def folds(*seeds: int) -> dict[str, Any]:
    by_fold = {f"seed={s}/fold={n}": fold(s, n, 0.5 + n / 10) for s in seeds for n in (0, 1)}
    return {"by_slice": {}, "by_fold": by_fold, "fold_summary": {"test": {"m": {"f1": MEAN}}}}


class TestFirstEdition:
    """Each spelling, and the cells it comes to."""

    def test_slices_of_a_scored_file(self) -> None:
        old = {
            "config": {"command": "score", "by": ["language", "language=x"]},
            "by_slice": {
                "all": part(0.5),
                "language=de": part(0.6),
                "language=a & b=c": part(0.7),
                "language=x=y": part(0.8),
            },
        }
        results = Results.of(old)
        assert results.slices == ["all"]
        assert results.parts("all") == ["language=de", 'language="a & b=c"', '"language=x"=y']
        assert results['f1 @ language="a & b=c"'].value == 0.7

    def test_slices_of_a_scored_run(self) -> None:
        old = {
            "config": {"by": ["subject"]},
            "by_slice": {"quiz": part(0.5), "quiz/subject=Africa": part(0.6)},
        }
        assert Results.of(old)["f1 @ subject=Africa"].value == 0.6

    def test_names_alone_make_no_parts(self) -> None:
        old = {"config": {}, "by_slice": {"all": part(0.5), "language=de": part(0.6)}}
        assert Results.of(old).slices == ["all", "language=de"]

    def test_strata_of_a_slice_are_named_by_the_records(self) -> None:
        old = {"config": {}, "by_slice": {"test": {**part(0.5), "strata": {"a=b": part(0.6)}}}}
        assert Results.of(old, {"test": ["language"]})['f1 @ language="a=b"'].value == 0.6
        plain = {"test": {**part(0.5), "strata": {"de": part(0.6)}}}
        assert Results.of({"by_slice": plain})["f1 @ stratum=de"].value == 0.6

    def test_strata_of_tasks_and_rollouts(self) -> None:
        strata = {"subject=Africa": part(0.6), "subject=a=b & c": part(0.7)}
        old = {"config": {"kind": "task"}, "by_slice": {"quiz": {**part(0.5), "strata": strata}}}
        results = Results.of(old, {"quiz": ["subject"]})
        assert results.parts("quiz") == ["subject=Africa", 'subject="a=b & c"']
        assert "strata" not in results.to_dict()["by_slice"]["quiz"]

    def test_folds_are_parts_and_the_mean_is_the_whole(self) -> None:
        results = Results.of(folds(42))
        assert results.slices == ["test"]
        assert results.parts("test") == ["fold=0", "fold=1"]
        mean = results["f1"]
        assert mean.ci is not None
        assert (mean.value, mean.ci.ci_low, mean.ci.method) == (0.6, 0.5, "nadeau-bengio")
        assert mean.details == {"over": "folds", "n_folds": 2, "n_failed": 0, "sd": 0.1}
        assert results["f1 @ fold=1"].value == 0.6
        assert (results.entry("test")["n"], results.entry("test")["n_positive"]) == (8, 4)
        assert results.folds["fold=1"] == {"seed": 42, "fold": 1, "n_train": 9}

    def test_folds_of_several_seeds(self) -> None:
        results = Results.of(folds(1, 2))
        assert results.parts("test")[3] == "seed=2&fold=1"
        assert results["f1 @ fold=1 & seed=2"].value == 0.6
        assert results.entry("test")["n"] == 8  # every seed tests the same rows again

    def test_strata_of_folds(self) -> None:
        old = folds(42)
        for entry in (one["by_slice"]["test"] for one in old["by_fold"].values()):
            entry["strata"] = {"de": part(0.9)}
        results = Results.of(old, {"test": ["fold", "language"]})
        assert results["f1 @ fold=0 & language=de"].value == 0.9

    @pytest.mark.parametrize("failed", [{"n_failed": 1, "failures": ["no memory"]}, {}])
    def test_a_gate_fails_where_a_fold_has_no_value(self, failed: dict[str, Any]) -> None:
        old = folds(42)
        old["fold_summary"]["test"]["m"]["f1"] = {**MEAN, **failed}
        gate = cell_threshold_gate("f1", bound="ci_low", op=">=", threshold=0.5)
        assert gate.evaluate(old).passed is (not failed)

    def test_one_shape_is_left_as_it_is(self) -> None:
        assert in_one_shape(TWO) == (TWO["by_slice"], {})

    @pytest.mark.parametrize("text", ["de", "language", 'language="x', ""])
    def test_a_part_that_is_none_has_a_name(self, text: str) -> None:
        by_slice, _ = in_one_shape({"by_slice": {"t": {**part(0.5), "parts": {text: part(0.6)}}}})
        (name,) = by_slice["t"]["parts"]
        assert Results(by_slice)[f"f1 @ {name}"].value == 0.6


def records(n: int = 12) -> Records:
    rng = np.random.default_rng(1)
    return Records.from_rows(
        np.arange(n) % 2,
        rng.random(n),
        unit_id=[f"u{i:02}" for i in range(n)],
        slices={"language": ["de", "en", "fr"] * (n // 3)},
    )


class TestRuns:
    def test_a_scored_file_of_the_first_edition(self, tmp_path: Path) -> None:
        whole = records()
        de = whole.take(whole.slices["language"] == "de")
        results = {
            "schema_version": "v1",
            "run_id": "r",
            "config": {"command": "score", "by": ["language"]},
            "by_slice": {"all": part(0.5, "s"), "language=de": part(0.6, "s")},
        }
        run = write_run(
            tmp_path / "r",
            results=results,
            manifest={"run_id": "r", "config": results["config"]},
            records={("all", "s"): whole, ("language=de", "s"): de},
        )
        assert run.subjects == [("all", "s")]
        assert run.results == results
        assert run["f1 @ language=de / s"].value == 0.6
        assert run.records("all", "s", "language=de").unit_id.tolist() == de.unit_id.tolist()
        assert run.records("language=de", "s").unit_id.tolist() == de.unit_id.tolist()
        claims = [
            Claim(name="by slice", slice="language=de", min_n=4),
            Claim(name="by part", at="language=de", min_n=4),
        ]
        assert not evaluate_gate(run, claims).has_failures()

    def test_records_of_a_part(self, tmp_path: Path) -> None:
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        run = write_run(
            tmp_path / "r",
            results=results,
            manifest={"run_id": "r"},
            records={("test", "s"): records()},
        )
        assert len(run.records("test", "s", "language=en")) == 4
        with pytest.raises(MissingColumnError, match="have no part 'topic'; they have 'language'"):
            run.records("test", "s", "topic=x")
        with pytest.raises(MissingColumnError, match="no records belong to the part"):
            run.records("test", "s", "language=it")

    def test_a_run_is_no_sequence(self, tmp_path: Path) -> None:
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        run = write_run(tmp_path / "r", results=results, manifest={"run_id": "r"})
        with pytest.raises(TypeError, match="not iterable"):
            list(Run.open(run.path))
