"""The table of units: one line for each, whatever the kind, and one reader of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.first_edition_cells import command

from eval_toolkit import metric_specs as ms
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges.pairs import PairJudge
from eval_toolkit.harness import evaluate, evaluate_folded, save_run, score_predictions
from eval_toolkit.integrations.importing import import_logs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import SeedPrompt, System, run_rollouts, seeds_of
from eval_toolkit.runs import Kind, Run, StoredUnits, Unit, drive, write_run
from eval_toolkit.runs.units import UNITS, units_table
from eval_toolkit.scorecards import Records
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedKFoldSplitter
from eval_toolkit.tasks import BaseTask, ResponseType, judge_pairs, run_task

RESULTS = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
OLD = ("inputs.parquet", "references.parquet", "seeds.parquet")


ORDER = [*range(0, 12, 2), *range(1, 12, 2)]
"""Rows by unit: ids begin with the subject."""


class Quiz(BaseTask[str]):
    NAME = "quiz"
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = ("exact_match",)
    ID_FIELD, GROUP_FIELD, SUBJECT_FIELD = "id", "book", "kind"

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"Say {item['n']}"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["n"])


def quiz() -> Quiz:
    return Quiz(
        rows=[
            {"id": f"q{n:02d}", "n": n, "book": f"b{n // 2}", "kind": "xy"[n % 2]}
            for n in range(12)
        ]
    )


def stored(run: Run | None) -> dict[str, Any]:
    """Return the table, checked against the records."""
    assert run is not None
    assert isinstance(run.units, StoredUnits)
    table = run.table(UNITS)
    places = list(zip(table["slice"].tolist(), table["unit_id"].tolist(), strict=True))
    assert places == sorted(set(places))
    assert not [name for name in OLD if (run.path / name).exists()]
    known = {place: at for at, place in enumerate(places)}
    for slice_name, scorer in run.subjects:
        records = run.records(slice_name, scorer)
        for at, unit in enumerate(records.unit_id.tolist()):
            line = known[slice_name, unit]
            assert table["content_hash"][line] == records.content_hash[at]
            assert (table["group"][line] or unit) == records.group[at]
            for name, column in run.units.parts.items():
                assert table[column][line] == records.slices[name][at]
    return table


class Doubling(Kind[Any]):
    """A kind from elsewhere."""

    name = "doubling"

    def config(self) -> dict[str, Any]:
        return {"system": "adder"}

    def units(self) -> list[Unit]:
        return [
            Unit(
                id=f"u{n}",
                input={"n": n},
                reference=[2 * n],
                parts={"even": str(n % 2 == 0)},
                group=f"g{n // 2}",
                more={"note": None if n else "first", "weight": n / 2, "place": n},
            )
            for n in range(4)
        ]

    def respond(self, inputs: list[Any]) -> list[Any]:
        return [one["n"] + 2 for one in inputs]

    def score(self, unit: Unit, output: Any) -> dict[str, Any]:
        return {"right": float([output] == unit.reference)}

    def metrics(self) -> list[Any]:
        return [ms.mean_of("right")]


class TestEveryKind:
    def test_a_task(self, tmp_path: Path) -> None:
        table = stored(run_task(quiz(), ScriptedModel("3"), tmp_path / "r").run)
        assert table["input"].tolist() == [f"Say {at}" for at in ORDER]
        assert table["reference"].tolist() == [str(at) for at in ORDER]
        assert table["row"].tolist() == [*range(6)] * 2  # in the data of each subject
        assert table["group"][:3].tolist() == ["b0", "b1", "b2"]
        assert table["part:subject"].tolist() == ["x"] * 6 + ["y"] * 6

    def test_rollouts(self, tmp_path: Path) -> None:
        seeds = [SeedPrompt(f"goal {n}", id=f"s{9 - n}", category="ab"[n % 2]) for n in range(4)]
        run = run_rollouts(System(["Hello."], ["Hi."]), seeds, tmp_path / "r", depth=1).run
        table = stored(run)
        assert table["input"].tolist() == ["goal 3", "goal 2", "goal 1", "goal 0"]
        assert table["part:category"].tolist() == list("baba")
        assert "reference" not in table
        assert seeds_of(run) == seeds  # as they were given, not as they are stored

    @pytest.mark.parametrize("text", [None, "text"])
    def test_a_scored_file(self, tmp_path: Path, text: str | None) -> None:
        file = tmp_path / "rows.csv"
        lines = [
            f"{n:03d},{n % 2},0.{n:03d},{'de' if n % 3 else 'en'},says {n}" for n in range(200)
        ]
        file.write_text("\n".join(["id,label,score,language,text", *lines]))
        options = ["--text", text] if text else []
        code, _ = command("score", file, "--by", "language", "--save", tmp_path / "r", *options)
        assert code == 0
        run = Run.open(tmp_path / "r")
        table = stored(run)
        assert len(table["unit_id"]) == 200
        assert run.manifest["artifacts"]["records.parquet"]["n_rows"] == 200
        assert table["part:language"][:3].tolist() == ["en", "de", "de"]
        assert ("input" in table) == (run.inputs is not None) == (text is not None)

    def test_slices(self, tmp_path: Path) -> None:
        class Half:
            version = "1"

            def predict_proba(self, X: Any) -> list[float]:
                return [len(str(x)) / 100 for x in X]

        rows = {"text": [f"t{'x' * n}" for n in range(40)], "label": [0, 1] * 20}
        parts = [EvalSlice("test", rows), EvalSlice("other", {"text": ["a", "b"], "label": [0, 1]})]
        done = evaluate({"a": Half(), "b": Half()}, parts, run_id="r", n_resamples=20)
        plain = stored(save_run(done, tmp_path / "plain"))
        assert ("input" in plain, len(plain["unit_id"])) == (False, 42)
        some = save_run(done, tmp_path / "some", inputs=parts[:1])
        assert some.inputs is not None
        assert some.inputs.slices == {"test": 40}
        assert stored(some)["input"].tolist().count(None) == 2
        folds = evaluate_folded({"a": Half()}, StratifiedKFoldSplitter(k=2), parts[0],
                                run_id="f", seeds=[1, 2], n_resamples=20)  # fmt: skip
        again = stored(save_run(folds, tmp_path / "folds"))
        assert len(again["unit_id"]) == 40
        assert not [name for name in again if "fold" in name]  # which differs by seed

    def test_pairs(self, tmp_path: Path) -> None:
        runs = [run_task(quiz(), ScriptedModel(a), tmp_path / a).run for a in ("1", "2")]
        judge = PairJudge(ScriptedModel("A"))
        done = judge_pairs(runs[0].path, runs[1].path, quiz(), judge, tmp_path / "pairs")
        assert stored(done.run)["reference"].tolist() == [str(at) for at in ORDER]

    def test_an_imported_log(self, tmp_path: Path) -> None:
        file = tmp_path / "a.csv"
        file.write_text("id,question,target,correct\nq1,1 + 1?,2,1\nq2,2 + 2?,4,0\n")
        (done,) = import_logs(file, tmp_path / "runs", model="m")
        table = stored(done.run)
        assert table["input"].tolist() == ["1 + 1?", "2 + 2?"]

    def test_a_kind_from_elsewhere(self, tmp_path: Path) -> None:
        run = drive(Doubling(), tmp_path / "r", name="demo").run
        table = stored(run)
        assert table["input"].tolist() == [f'{{"n":{n}}}' for n in range(4)]
        assert table["reference"].tolist() == ["[0]", "[2]", "[4]", "[6]"]
        assert table["note"].tolist() == ["first", None, None, None]
        assert (table["weight"].tolist(), table["place"].tolist()) == (
            [0, 0.5, 1, 1.5],
            [0, 1, 2, 3],
        )
        assert table["part:even"].tolist() == ["True", "False", "True", "False"]


def test_scored_in_python(tmp_path: Path) -> None:
    rows = {"id": [f"{n:02d}" for n in range(40)], "label": [0, 1] * 20, "score": [0.1, 0.9] * 20}
    done = score_predictions(rows, ["roc_auc"], out=tmp_path / "r")
    assert len(stored(done.run)["unit_id"]) == 40


class TestSameBytes:
    def test_resumed_and_in_one_go(self, tmp_path: Path) -> None:
        model = ScriptedModel("3")
        run_task(quiz(), model, tmp_path / "a", limit=5, run_id="r")
        runs = [
            run_task(quiz(), model, tmp_path / "a", run_id="r").run,
            run_task(quiz(), ScriptedModel("3", concurrency=1), tmp_path / "b", run_id="r").run,
        ]
        assert len({(run.path / UNITS).read_bytes() for run in runs if run}) == 1

    def test_units_in_any_order(self) -> None:
        ids = [f"u{n}" for n in range(9)]
        records = Records.from_columns({"x": [1.0] * 9}, unit_id=ids)
        units = [Unit(id=one, input=one.upper(), row=at) for at, one in enumerate(ids)]
        made = [units_table({("s", "m"): records}, given)[0] for given in (units, units[::-1])]
        assert {name: c.tolist() for name, c in made[0].items()} == {
            name: c.tolist() for name, c in made[1].items()
        }


class TestTable:
    def test_scorers_with_other_units(self) -> None:
        sides = {
            ("s", "a"): Records.from_columns({"x": [1.0, 0.0]}, unit_id=["u1", "u3"]),
            ("s", "b"): Records.from_columns({"x": [1.0, 0.0]}, unit_id=["u2", "u3"]),
            ("t", "a"): Records.from_columns({"x": [1.0]}, unit_id=["u1"]),
        }
        table, _ = units_table(sides)
        pairs = list(zip(table["slice"], table["unit_id"], strict=True))
        assert pairs == [("s", "u1"), ("s", "u2"), ("s", "u3"), ("t", "u1")]

    def test_several_attempts_are_one_unit(self) -> None:
        parts = {"language": ["de"] * 4, "fold": ["0", "1"] * 2}
        records = Records.from_columns(
            {"x": [1.0] * 4}, unit_id=["a", "a", "b", "b"], attempt=[1, 2, 1, 2], slices=parts
        )
        table, about = units_table({("s", "m"): records})
        assert about["parts"] == {"language": "part:language"}
        assert table["unit_id"].tolist() == ["a", "b"]

    def test_parts_that_differ_by_case_alone(self, tmp_path: Path) -> None:
        parts = {"Language": ["de"], "language": ["en"]}
        records = Records.from_columns({"x": [1.0]}, unit_id=["a"], slices=parts)
        run = written(tmp_path, records, [Unit(id="a", input="x")])
        assert run.units is not None
        columns = [run.units.parts[name] for name in ("Language", "language")]
        found = run.units.read(columns)
        assert [found[name][0] for name in columns] == ["de", "en"]

    @pytest.mark.parametrize("name", ["input", "Unit_ID", "part:language"])
    def test_columns_of_the_kind_must_have_names_of_their_own(self, name: str) -> None:
        records = Records.from_columns({"x": [1.0]}, unit_id=["a"], slices={"language": ["de"]})
        with pytest.raises(InvalidInputError, match="choose another name"):
            units_table({("s", "m"): records}, [Unit(id="a", more={name: "x"})])

    def test_a_unit_without_a_record_is_left_out_unless_it_names_its_slice(self) -> None:
        records = Records.from_columns({"x": [1.0]}, unit_id=["b"])
        units = [Unit(id="a", input="1"), Unit(id="b", input="2"), Unit(id="a", slice="train")]
        table, _ = units_table({("test", "m"): records}, units)
        assert list(zip(table["slice"], table["unit_id"], strict=True)) == [
            ("test", "b"),
            ("train", "a"),
        ]

    @settings(max_examples=25, deadline=None)
    @given(
        units=st.lists(
            st.tuples(st.sampled_from("st"), st.text(st.characters(codec="utf-8"), min_size=1)),
            min_size=1, max_size=8, unique=True,
        )
    )  # fmt: skip
    def test_every_unit_comes_back(
        self, tmp_path_factory: pytest.TempPathFactory, units: list[tuple[str, str]]
    ) -> None:
        given_units = [
            Unit(id=id_, input=f"{at}", slice=name) for at, (name, id_) in enumerate(units)
        ]
        run = written(tmp_path_factory.mktemp("r"), None, given_units)
        assert run.units is not None
        for at, (name, unit) in enumerate(units):
            assert run.units.values("input", [unit], slice_name=name) == {unit: f"{at}"}


class TestReader:
    def test_what_is_not_there(self, tmp_path: Path) -> None:
        run = written(tmp_path, Records.from_columns({"x": [1.0]}, unit_id=["a"]), [])
        assert run.units is not None
        assert run.inputs is None
        assert run.units.values("input", ["a"]) == {}
        assert run.units.rows(["content_hash"], ["a", "b"]) == {"a": ("",)}
        with pytest.raises(ArtifactError, match="units were stored without 'input'"):
            run.units.read(["input"])

    def test_runs_without_a_table_know_what_records_say(self, tmp_path: Path) -> None:
        records = Records.from_columns(
            {"x": [1.0, 0.0]},
            unit_id=["a", "b"],
            group=["g", "b"],
            slices={"language": ["de", "en"]},
        )
        run = write_run(
            tmp_path / "r",
            results=RESULTS,
            manifest={"run_id": "r"},
            records={("s", "m"): records},
        )
        assert run.units is not None
        found = run.units.read()
        assert {name: column.tolist() for name, column in found.items()} == {
            "slice": ["s", "s"],
            "unit_id": ["a", "b"],
            "content_hash": ["", ""],
            "group": ["g", None],
            "part:language": ["de", "en"],
        }
        assert run.units.parts == {"language": "part:language"}

    def test_results_alone(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "r", results=RESULTS, manifest={"run_id": "r"})
        assert run.units is None
        assert run.inputs is None


def written(folder: Path, records: Records | None, units: list[Unit]) -> Run:
    sides = {} if records is None else {("s", "m"): records}
    table, about = units_table(sides, units)
    assert all(isinstance(column, np.ndarray) for column in table.values())
    manifest = {"run_id": "r", "units": about}
    return write_run(
        folder / "r",
        results=RESULTS,
        manifest=manifest,
        records=sides or None,
        tables={UNITS: table},
    )
