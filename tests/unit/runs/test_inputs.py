"""What rows say, stored beside a run: looked up by unit and by row, and nothing else changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.harness import RunResult, evaluate, evaluate_folded, save_run
from eval_toolkit.leakage import NormalizedFormLeakageCheck
from eval_toolkit.runs import Inputs, Run, run_state, write_run
from eval_toolkit.runs.units import MAX_CHARS, UNITS, Unit, shown_input, units_table
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedGroupKFoldSplitter
from eval_toolkit.thresholds import MaxF1Selector

RESULTS = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}


class ByLength:
    version = "1"

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return np.array([1 / (1 + len(str(x))) for x in X])


def stored(folder: Path, slices: Any) -> Run:
    units = [
        Unit(id=unit, input=text, slice=name, row=row)
        for name, (places, ids, texts) in slices.items()
        for row, unit, text in zip(places, ids, texts, strict=True)
    ]
    columns, about = units_table({}, units)
    manifest = {"run_id": "r1", "units": about}
    return write_run(folder, results=RESULTS, manifest=manifest, tables={UNITS: columns})


def inputs_of(run: Run) -> Inputs:
    assert run.inputs is not None
    return run.inputs


class TestLookups:
    def test_by_unit_and_by_row(self, tmp_path: Path) -> None:
        slices = {
            "train": ([0, 1], ["u1", "u2"], ["one", "two"]),
            "test": ([0, 1], ["u2", "u1"], ["zwei", "eins"]),
        }
        inputs = inputs_of(stored(tmp_path / "r1", slices))
        assert inputs.slices == {"test": 2, "train": 2}
        assert inputs.text_of("test", "u1") == "eins"
        assert inputs.text_at("test", 0) == "zwei"
        assert inputs.text_of("train", "u1") == "one"
        assert inputs.texts_of("train", ["u2", "nobody", "u1", "u2"]) == {"u2": "two", "u1": "one"}
        assert list(inputs.texts_at("test", [1, 0])) == [1, 0]
        assert inputs.texts_at("nowhere", [0]) == {}
        assert inputs.text_of("nowhere", "u1") is None
        assert inputs.texts_of("test", []) == {}

    @settings(max_examples=15, deadline=None)
    @given(texts=st.lists(st.text(max_size=30) | st.none(), max_size=30))
    def test_every_text_comes_back(
        self, tmp_path_factory: pytest.TempPathFactory, texts: list[str | None]
    ) -> None:
        n = len(texts := ["one", *texts])
        units = [f"u{row * 7 % n}~{row}" for row in range(n)]
        folder = tmp_path_factory.mktemp("run") / "r1"
        inputs = inputs_of(stored(folder, {"s": (range(n), units, texts)}))
        expected = {row: text for row, text in enumerate(texts) if text is not None}
        # st.text() draws no half surrogates and, at this length, no secrets.
        assert inputs.texts_at("s", range(n)) == expected
        assert inputs.texts_of("s", units) == {units[row]: text for row, text in expected.items()}

    def test_more_than_one_query_takes(self, tmp_path: Path) -> None:
        n = 2_500
        units = [f"u{row:05d}" for row in range(n)]
        inputs = inputs_of(stored(tmp_path / "r1", {"s": (range(n), units, units)}))
        assert inputs.texts_of("s", units[::-1]) == {unit: unit for unit in units[::-1]}
        assert inputs.texts_at("s", range(0, n, 2)) == {row: units[row] for row in range(0, n, 2)}

    def test_parts_of_the_whole_share_its_inputs(self, tmp_path: Path) -> None:
        run = stored(tmp_path / "r1", {"all": ([0], ["u1"], ["one"])})
        assert inputs_of(run).text_of("language=en", "u1") is None
        first_edition = Inputs(replace(inputs_of(run).units, whole="all"))
        assert first_edition.text_of("language=en", "u1") == "one"
        assert first_edition.text_at("language=en", 0) == "one"

    def test_names_and_ids_are_data_and_no_code(self, tmp_path: Path) -> None:
        name, unit = 'it\'s "x" -- ?', "u'); DROP TABLE x; --"
        inputs = inputs_of(stored(tmp_path / "r[1]*", {name: ([0], [unit], ["<script>\0"])}))
        assert inputs.text_of(name, unit) == "<script>\0"

    def test_what_is_asked_for_must_be_rows_or_ids(self, tmp_path: Path) -> None:
        inputs = inputs_of(stored(tmp_path / "r1", {"s": ([0], ["u1"], ["one"])}))
        with pytest.raises(InvalidTypeError, match="must be a list of ids"):
            inputs.texts_of("s", "u1")
        with pytest.raises(InvalidInputError, match="at least 0"):
            inputs.text_at("s", -1)


class TestWhatIsStored:
    def test_a_long_text_is_cut_and_says_so(self, tmp_path: Path) -> None:
        texts = ["x" * MAX_CHARS, "y" * (MAX_CHARS + 1_234)]
        run = stored(tmp_path / "r1", {"s": ([0, 1], ["a", "b"], texts)})
        assert inputs_of(run).text_at("s", 0) == texts[0]
        assert inputs_of(run).text_at("s", 1) == "y" * MAX_CHARS + " [… 1,234 more characters]"
        assert run.manifest["units"] == {"max_chars": MAX_CHARS, "n_cut": 1, "parts": {}}

    def test_secrets_are_redacted_also_where_a_text_is_cut(self, tmp_path: Path) -> None:
        secret = "hf_" + "a1B2" * 10
        texts = [f"my password=hunter2 and {secret}", "z" * (MAX_CHARS - 11) + f" {secret} end"]
        run = stored(tmp_path / "r1", {"s": ([0, 1], ["a", "b"], texts)})
        assert inputs_of(run).text_at("s", 0) == "my password=[redacted] and [redacted]"
        assert "hf_" not in str(inputs_of(run).text_at("s", 1))
        data = (run.path / UNITS).read_bytes()
        assert b"hunter2" not in data

    def test_half_a_surrogate_pair_is_replaced(self, tmp_path: Path) -> None:
        run = stored(tmp_path / "r1", {"s": ([0], ["a"], ["half \ud83d a pair"])})
        assert inputs_of(run).text_at("s", 0) == "half \ufffd a pair"

    def test_features_are_named(self) -> None:
        assert shown_input([1.5, "red"], ["size", "colour"]) == "size: 1.5, colour: red"
        assert shown_input([1.5, "red"]) == '[1.5,"red"]'
        assert shown_input({"b": 1, "a": None}) == '{"a":null,"b":1}'
        assert shown_input(float("nan")) is None
        assert shown_input(7) == "7"
        assert shown_input("") == ""

    def test_it_is_sealed_like_every_table(self, tmp_path: Path) -> None:
        run = stored(tmp_path / "r1", {"s": ([0], ["a"], ["one"])})
        (run.path / UNITS).write_bytes(b"PAR1")
        assert run_state(run.path).startswith("incomplete: ")
        with pytest.raises(ArtifactError, match="has changed since the run was written"):
            Run.open(run.path)
        with pytest.raises(ArtifactError, match="has changed since the run was written"):
            run.inputs  # noqa: B018


def spam(n: int = 40) -> EvalSlice:
    rows = {
        "text": [f"mail {row % 17} " + "!" * (row % 5) for row in range(n)],
        "label": [int(row % 3 == 0) for row in range(n)],
        "author": [f"a{row % 8}" for row in range(n)],
    }
    return EvalSlice("test", rows, group_col="author")


def checked(train: EvalSlice, test: EvalSlice, on_leakage: str) -> RunResult:
    return evaluate(
        {"a": ByLength()},
        [train, test],
        run_id="r1",
        n_resamples=50,
        eval_split_names=["test"],
        leakage_checks=[NormalizedFormLeakageCheck()],
        on_leakage=on_leakage,
    )


class TestSavedRuns:
    def test_every_unit_of_the_records_has_its_own_input(self, tmp_path: Path) -> None:
        rows = spam(120)  # 85 different texts, so that some rows are equal
        scores = np.linspace(0, 1, 120)  # equal rows are told apart by these
        scorers = {"a": ByLength(), "b": ByLength()}
        result = evaluate(
            scorers, [rows], run_id="r1", n_resamples=50, precomputed_scores={("test", "a"): scores}
        )
        run = save_run(result, tmp_path / "r1", inputs=[rows])
        records = run.records("test", "a")
        found = inputs_of(run).texts_of("test", records.unit_id.tolist())
        text_of = dict(zip(rows.content_hashes, rows.features, strict=True))
        assert len(found) == len(records) == 120
        for unit, digest in zip(records.unit_id, records.content_hash, strict=True):
            assert found[unit] == text_of[digest]
        assert inputs_of(run).texts_at("test", range(120)) == dict(enumerate(rows.features))

    def test_results_and_records_are_the_same_bytes(self, tmp_path: Path) -> None:
        result = evaluate({"a": ByLength()}, [spam()], run_id="r1", n_resamples=50)
        plain = save_run(result, tmp_path / "plain" / "r1")
        more = save_run(result, tmp_path / "more" / "r1", inputs={"test": spam()})
        assert plain.inputs is None
        for name in ("results.json", "results_full.json", "records.parquet"):
            assert (plain.path / name).read_bytes() == (more.path / name).read_bytes()

    def test_the_pairs_that_leak_can_be_shown(self, tmp_path: Path) -> None:
        train = EvalSlice("train", {"text": ["x", "Leaks", "y"], "label": [0, 1, 1]})
        test = EvalSlice("test", {"text": ["a", "b", "leaks", "c"], "label": [0, 1, 1, 0]})
        run = save_run(checked(train, test, "record"), tmp_path / "r1", inputs=[train, test])
        (finding,) = run.manifest["leakage_report"]["findings"]
        (pair,) = finding["evidence"]["across_splits"]
        place, other = ((side["split"], side["row"]) for side in (pair, pair["copy_of"]))
        assert inputs_of(run).text_at(*place) == "leaks"
        assert inputs_of(run).text_at(*other) == "Leaks"

    def test_units_are_found_where_rows_were_dropped(self, tmp_path: Path) -> None:
        train = EvalSlice("train", {"text": ["x", "Leaks", "y"], "label": [0, 1, 1]})
        test = EvalSlice("test", {"text": ["a", "b", "leaks", "c"], "label": [0, 1, 1, 0]})
        run = save_run(checked(train, test, "drop"), tmp_path / "r1", inputs=[train, test])
        units = run.records("test", "a").unit_id.tolist()
        assert sorted(inputs_of(run).texts_of("test", units).values()) == ["a", "b", "c"]

    def test_out_of_fold_rows_have_their_inputs(self, tmp_path: Path) -> None:
        rows = spam(80)
        splitter = StratifiedGroupKFoldSplitter(k=4)
        result = evaluate_folded({"a": ByLength()}, splitter, rows, run_id="r1", n_resamples=50)
        run = save_run(result, tmp_path / "r1", inputs={"test": rows})
        (split,) = {name for name, _ in run.subjects}
        records = run.records(split, "a")
        text_of = dict(zip(rows.content_hashes, rows.features, strict=True))
        found = inputs_of(run).texts_of("test", records.unit_id.tolist())
        for unit, digest in zip(records.unit_id, records.content_hash, strict=True):
            assert found[unit] == text_of[digest]

    def test_several_features_and_ids(self, tmp_path: Path) -> None:
        frame = pd.DataFrame(
            {"key": ["k1", "k2"], "size": [3.5, None], "colour": ["red", "blue"], "label": [0, 1]}
        )
        rows = EvalSlice("test", frame, feature_col=["size", "colour"], id_col="key")
        scores = {("test", "a"): [0.2, 0.9]}
        result = evaluate(
            {"a": ByLength()}, [rows], run_id="r1", n_resamples=50, precomputed_scores=scores
        )
        inputs = inputs_of(save_run(result, tmp_path / "r1", inputs=rows))
        assert inputs.text_of("test", "k1") == "size: 3.5, colour: red"
        assert inputs.text_of("test", "k2") == "size: –, colour: blue"

    @pytest.mark.parametrize(
        ("inputs", "error", "message"),
        [
            ([], InvalidInputError, "`inputs` is empty"),
            (["text"], InvalidTypeError, r"inputs\[0\] is a str"),
            ("text", InvalidTypeError, "`inputs` is 'text'"),
            ([spam(), spam()], InvalidInputError, "two inputs have the name 'test'"),
        ],
    )
    def test_what_is_no_slice_is_refused(
        self, tmp_path: Path, inputs: Any, error: type[Exception], message: str
    ) -> None:
        result = evaluate({"a": ByLength()}, [spam()], run_id="r1", n_resamples=50)
        with pytest.raises(error, match=message):
            save_run(result, tmp_path / "r1", inputs=inputs)
        assert not (tmp_path / "r1").exists()

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            (
                "test",
                {"text": ["c", "b", "a"]},
                "differs from the scored slice in the input or label of row 0, 'k1'",
            ),
            (
                "test",
                {"label": [0, 1, 0]},
                "differs from the scored slice in the input or label of row 2, 'k3'",
            ),
            (
                "test",
                {"key": ["k1", "k2", "x"]},
                "lacks 1 of the 3 rows that were scored, such as 'k3'",
            ),
            ("100%s", {}, "slice '100%s' is not in the run"),
        ],
    )
    def test_rows_that_were_not_scored_are_refused(
        self, tmp_path: Path, name: str, change: dict[str, Any], message: str
    ) -> None:
        columns = {"key": ["k1", "k2", "k3"], "text": ["a", "b", "c"], "label": [0, 1, 1]}
        scored = EvalSlice("test", columns, id_col="key")
        result = evaluate({"a": ByLength()}, [scored], run_id="r1", n_resamples=20)
        with pytest.raises(InvalidInputError, match=message):
            save_run(
                result, tmp_path / "r1", inputs=EvalSlice(name, columns | change, id_col="key")
            )
        assert not (tmp_path / "r1").exists()

    def test_without_keys_rows_may_stand_in_another_order_and_no_more(self, tmp_path: Path) -> None:
        rows = spam()
        result = evaluate({"a": ByLength()}, [rows], run_id="r1", n_resamples=20)
        turned = rows.take(range(len(rows))[::-1])
        records = save_run(result, tmp_path / "r1", inputs=turned).records("test", "a")
        found = inputs_of(Run.open(tmp_path / "r1")).texts_of("test", records.unit_id.tolist())
        text_of = dict(zip(rows.content_hashes, rows.features, strict=True))
        assert [found[unit] for unit in records.unit_id] == [
            text_of[digest] for digest in records.content_hash
        ]
        with pytest.raises(InvalidInputError, match="lacks 1 of the 40 rows that were scored"):
            save_run(result, tmp_path / "r2", inputs=rows.take(range(39)))

    def test_folds_may_bring_in_rows_from_elsewhere_but_not_all(self, tmp_path: Path) -> None:
        rows = spam(20)
        splitter = StratifiedGroupKFoldSplitter(k=2)
        result = evaluate_folded({"a": ByLength()}, splitter, rows, run_id="r1", n_resamples=20)
        some = save_run(result, tmp_path / "r1", inputs=rows.take(range(15)))
        assert inputs_of(some).slices == {"test": 15}
        other = EvalSlice("test", {"text": ["x"], "label": [0]})
        with pytest.raises(InvalidInputError, match="lacks 20 of the 20 rows"):
            save_run(result, tmp_path / "r2", inputs=other)

    def test_the_rows_thresholds_were_chosen_on_may_be_stored(self, tmp_path: Path) -> None:
        val, test = spam(30).renamed("val"), spam(40)
        result = evaluate(
            {"a": ByLength()},
            [val, test],
            run_id="r1",
            n_resamples=20,
            thresholds=MaxF1Selector(),
            threshold_slice="val",
            eval_split_names=["test"],
        )
        run = save_run(result, tmp_path / "r1", inputs=[val, test])
        assert inputs_of(run).slices == {"test": 40, "val": 30}
