"""Plain tables: which columns are taken, what they become, and what is asked back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit._internal import tables
from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.cli import main
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.integrations.importing import Log, Wanted, import_logs, measure_log, read_logs
from eval_toolkit.integrations.importing.predictions import recognises
from eval_toolkit.runs import Run

Table = Callable[..., Path]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Write a table from its lines."""

    def write(*lines: str, name: str = "preds.csv") -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


def one(path: Path, **wanted: Any) -> Log:
    (log,) = read_logs(path, Wanted(**wanted))
    return log


class TestScores:
    def test_as_score_saves_it(self, tmp_path: Path) -> None:
        """Expected: cell for cell what `eval-toolkit score --save` stores of the same file."""
        rng = np.random.default_rng(1)
        labels = rng.integers(0, 2, 80)
        columns = {
            "id": np.array([f"u{n:02d}" for n in range(80)], dtype=object),
            "label": labels,
            "score": np.clip(0.3 * labels + 0.7 * rng.random(80), 0, 1),
            "lang": np.array(["de", "en"] * 40, dtype=object),
        }
        path = tmp_path / "preds.parquet"
        tables.write_table(columns, path)
        with pytest.raises(SystemExit) as ended:
            main(["score", str(path), "--by", "lang", "--save", str(tmp_path / "saved")])
        assert ended.value.code == 0
        (found,) = import_logs(path, tmp_path / "runs", wanted=Wanted(by=("lang",)))
        saved, run = Run.open(tmp_path / "saved"), found.run
        assert run is not None
        assert run.results["by_slice"] == saved.results["by_slice"]
        assert run.subjects == saved.subjects
        for subject in saved.subjects:
            ours, theirs = run.records(*subject), saved.records(*subject)
            assert ours.unit_id.tolist() == theirs.unit_id.tolist()
            assert ours.columns["score"].tolist() == theirs.columns["score"].tolist()
        assert run.run_id == "preds-score"

    def test_what_is_taken_is_told(self, table: Table) -> None:
        log = one(table("row_id,y_true,prob", "a,1,0.9", "b,0,0.2"))
        assert (log.kind, log.model) == ("rows", "prob")
        assert log.notes == (
            "columns used: label 'y_true', score 'prob', rows identified by 'row_id'",
        )
        named = one(
            table("k,spam,p1,p2", "a,true,0.9,0.1", "b,false,0.2,0.3"),
            id_field="k",
            target_field="spam",
            columns=("p2",),
        )
        assert (named.kind, named.model) == ("rows", "p2")
        assert [sample.values["label"] for sample in named.samples] == [1.0, 0.0]

    def test_texts_give_an_identity(self, table: Table) -> None:
        log = one(table("text,label,score", "hello,1,0.9", "bye,0,0.2"))
        assert log.samples[0].unit_id == content_hash("hello", 1)[:16]
        assert log.notes[0].endswith("rows identified by text")

    def test_scores_that_are_no_probabilities(self, table: Table) -> None:
        rows = [f"u{n},{n % 2},{n - 3.5}" for n in range(20)]
        cells = measure_log(one(table("id,label,score", *rows))).cells
        assert cells["roc_auc"].status == "ok"
        assert cells["brier"].status == "skipped"
        assert cells["brier"].reason.startswith(
            "needs probabilities, but the scores range from -3.5"
        )

    def test_a_score_that_is_missing(self, table: Table) -> None:
        with pytest.raises(InvalidInputError, match=r"row 2: 'score' is missing; every row needs"):
            one(table("id,label,score", "a,1,0.9", "b,0,"))


class TestOutcomes:
    def test_the_usual_names(self, table: Table) -> None:
        lines = ["id,question,target,response,correct,seconds", "a,2+2?,4,four,true,3.5"]
        log = one(table(*lines, "b,3+3?,6,five,false,2.5"))
        assert (log.kind, log.task, log.model) == ("task", "preds", "unnamed")
        sample = log.samples[0]
        assert (sample.input, sample.target, sample.response) == ("2+2?", "4", "four")
        assert sample.values == {"correct": 1.0}
        assert log.notes == ("columns used: 'correct', items identified by 'id'",)

    def test_a_text_for_a_label_is_a_target(self, table: Table) -> None:
        log = one(table("id,target,score", "a,Paris,0.5", "b,Rome,1"))
        assert (log.kind, log.samples[0].values) == ("task", {"score": 0.5})

    def test_named_columns(self, table: Table) -> None:
        path = table("id,a,b,who", "x,1,2.5,m", "y,0,3.5,n")
        log = one(path, columns=("a", "b"), group_field="who", by=("who",))
        assert log.samples[1].values == {"a": 0.0, "b": 3.5}
        assert (log.samples[1].group, log.samples[1].parts) == ("n", {"who": "n"})

    def test_models_tasks_and_attempts(self, table: Table) -> None:
        lines = [
            f"{task},{model},q{n},{attempt},{n % 2}"
            for task in ("t1", "t2")
            for model in ("m1", "m2")
            for n in range(3)
            for attempt in (1, 2)
        ]
        logs = read_logs(table("task,model,id,attempt,acc", *lines))
        assert [(log.task, log.model) for log in logs] == [
            *(("t1", "m1"), ("t1", "m2"), ("t2", "m1"), ("t2", "m2"))
        ]
        cell = measure_log(logs[0]).cells["acc"]
        assert cell.value == pytest.approx(1 / 3)
        assert cell.n_units == 3

    def test_an_empty_cell_is_skipped(self, table: Table) -> None:
        cell = measure_log(one(table("id,correct", "a,1", "b,", "c,0"))).cells["correct"]
        assert (cell.value, cell.n_units) == (0.5, 2)


class TestForms:
    @pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet"])
    def test_every_form(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        ids = np.array(["007", "008", "9"], dtype=object)
        if name == "t.json":
            path.write_text(
                '[{"id": "007", "correct": 1}, {"id": "008", "correct": 0}, {"id": "9", "correct": 1}]'
            )
        else:
            tables.write_table({"id": ids, "correct": np.array([1.0, 0.0, 1.0])}, path)
        log = one(path)
        assert [sample.unit_id for sample in log.samples] == ["007", "008", "9"]
        assert [sample.values["correct"] for sample in log.samples] == [1.0, 0.0, 1.0]

    def test_what_is_no_table(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text('{"x": 1}')
        assert not recognises(tmp_path / "a.json")
        assert not recognises(tmp_path / "a.csv")
        assert not recognises(tmp_path)
        assert not recognises(tmp_path / "a.unknown")


class TestRefusals:
    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (
                ("id,a,b", "x,1,2"),
                r"numeric columns are 'a', 'b'. Pass the outcome with --column a ",
            ),
            (
                ("id,n_options", "x,4", "y,4"),
                r"are 'n_options'. .* by their names, these are counts",
            ),
            (("id,seed,jailbroken", "x,7,1"), "Pass the outcome with --column jailbroken"),
            (("id,latency_ms", "x,40"), "no outcome column found"),
            (("id,passed,total", "x,8,9"), "row 1: 'passed' is 8; a column with this name"),
            (("id,name", "x,n"), "no numeric column besides id"),
            (
                ("a,correct", "x,1"),
                r"no column identifies the rows, and row numbers are not ids; pass one as id_field \(--id\)",
            ),
            (("id,correct", "x,nan"), "row 1: 'correct' is 'nan'; it must be a finite number"),
            (("id,correct", "x,1", "y,inf"), "row 2: 'correct' is 'inf'"),
            (("id,correct", "x,1", "x,0"), "unit_id.1. is 'x' with attempt 1 twice"),
            (("id,correct", "x,1", ",0"), "row 2: 'id' is missing"),
            (("id,correct,attempt", "x,1,a"), "row 1: 'attempt' is 'a'; it must be a whole number"),
            (("id,correct",), "0 rows"),
        ],
    )
    def test_one_line_each(self, table: Table, lines: tuple[str, ...], said: str) -> None:
        path = table(*lines)
        with pytest.raises(InvalidInputError, match=said) as caught:
            import_logs(path, path.parent / "runs")
        assert "preds.csv" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (path.parent / "runs").exists()

    @pytest.mark.parametrize(
        "wanted", [{"id_field": "x"}, {"columns": ("x",)}, {"by": ("x",)}, {"group_field": "x"}]
    )
    def test_columns_that_are_not_there(self, table: Table, wanted: dict[str, Any]) -> None:
        with pytest.raises(
            MissingColumnError, match="no column 'x'; the columns are 'id', 'correct'"
        ):
            one(table("id,correct", "a,1"), **wanted)

    def test_a_text_in_a_named_column(self, table: Table) -> None:
        with pytest.raises(InvalidInputError, match="row 2: 'correct' is 'maybe'"):
            one(table("id,correct", "a,1", "b,maybe"), columns=("correct",))

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        (tmp_path / "t.parquet").write_bytes(b"PAR1")
        with pytest.raises(ArtifactError, match=r"t\.parquet"):
            read_logs(tmp_path / "t.parquet")


def test_the_same_question_again_is_no_other_evidence(table: Table) -> None:
    found = one(table("question,correct", "1 + 1?,1", "1 + 1?,1", "2 + 2?,0"))
    groups = [sample.group for sample in found.samples]
    assert groups[0] == groups[1] != groups[2]
    assert measure_log(found).cells["correct"].n_groups == 2
