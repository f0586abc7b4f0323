"""``eval-toolkit check``: findings, exit codes, and files without the rows that leak."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit._internal import tables
from eval_toolkit.leakage import LEAKAGE_CODES

Command = Callable[..., tuple[int, str, str]]

TRAIN = "text,label\nsend me your bank details now,1\nsee you at noon,0\nhow are you,0\n"
TEST = "text,label\nlunch tomorrow then,0\nSend me  your bank details now,1\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.fixture
def leaky(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path, "train.csv", TRAIN), write(tmp_path, "test.csv", TEST)


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return write(tmp_path, "clean.csv", TRAIN)


def run_json(command: Command, expected: int, *args: object) -> Any:
    code, out, err = command(*args, "--json")
    assert (code, err) == (expected, "")
    return json.loads(out)


def by_code(payload: Any) -> dict[str, Any]:
    return {finding["code"]: finding for finding in payload["findings"]}


class TestFindings:
    def test_a_copy_across_files_is_an_error(
        self, command: Command, leaky: tuple[Path, Path]
    ) -> None:
        code, out, err = command("check", *leaky)
        assert (code, err) == (1, "")
        assert "train: " in out
        assert "(learned from)" in out
        assert "1 copy (1 in test from train)" in out
        assert "test 2" in out  # the row in its file, from 1
        assert "docs/leakage/LK001.md" in out
        assert "\x1b" not in out

    def test_the_answer_comes_first(
        self, command: Command, leaky: tuple[Path, Path], clean: Path
    ) -> None:
        train, test = leaky
        for files, said in (
            (
                (train, test),
                "1 of 2 rows of test.csv (50 %) is a copy or near-copy of rows of train.csv",
            ),
            (
                (train, test, "--no-near"),
                "1 of 2 rows of test.csv (50 %) is a copy of rows of train.csv",
            ),
            (
                (train, test, clean),
                "3 of 3 rows of clean.csv (100 %) are copies or near-copies of",
            ),
            ((clean,), "no row of clean.csv is a copy or near-copy of another row"),
        ):
            out = command("check", *files)[1]
            assert said in out
        assert out.startswith("no row")

    def test_labels_are_found_as_by_score(self, command: Command, tmp_path: Path) -> None:
        rows = "send me your bank details now,{}\nsee you at noon,ham\nhow are you,ham\n"
        train = write(tmp_path, "train.csv", "text,Class\n" + rows.format("spam"))
        test = write(tmp_path, "test.csv", "text,Class\n" + rows.format("ham") + "win now,spam\n")
        _, out, _ = command("check", train, test)
        assert "train.csv, 3 rows, 1 positive" in out
        assert "LabelConflictCheck" in out
        other = write(tmp_path, "other.csv", "text,class\n" + rows.format("warm"))
        assert command("check", other)[0] == 0  # a class of something else is no label

    def test_a_clean_file(self, command: Command, clean: Path) -> None:
        code, out, _ = command("check", clean)
        assert code == 0
        assert out.count(" ok ") == 5

    def test_a_copy_within_a_file_is_a_warning(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", TRAIN + "SEE you at noon,0\n")
        payload = run_json(command, 0, "check", path)
        assert {found["severity"] for found in payload["findings"] if found["n_affected"]} == {
            "warning"
        }
        assert payload["has_findings"]
        assert not payload["has_errors"]
        assert command("check", path, "--strict")[0] == 1

    def test_a_label_conflict_is_an_error(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", TRAIN + "see you at noon,1\n")
        payload = run_json(command, 1, "check", path)
        assert by_code(payload)["LK005"]["drop_indices"] == {"a": [1, 3]}

    def test_without_labels_conflicts_are_not_checked(
        self, command: Command, tmp_path: Path
    ) -> None:
        path = write(tmp_path, "a.csv", "text\none text\nanother\n")
        payload = run_json(command, 0, "check", path)
        assert "LK005" not in by_code(payload)
        assert payload["splits"]["a"]["n_positive"] is None
        assert any("not checked: labels" in note for note in payload["notes"])

    def test_no_near(self, command: Command, leaky: tuple[Path, Path]) -> None:
        assert "LK002" not in by_code(run_json(command, 1, "check", *leaky, "--no-near"))

    def test_threshold(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "text,label\nwin a free prize now,1\nwin a free prize,1\n")
        strict = run_json(command, 0, "check", path, "--threshold", "0.99")
        loose = run_json(command, 0, "check", path, "--threshold", "0.5")
        assert by_code(strict)["LK002"]["n_affected"] == 0
        assert by_code(loose)["LK002"]["n_affected"] == 1

    def test_words_as_labels(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.tsv", 'ham\tsay "hi\nspam\twin now\n')
        payload = run_json(
            command, 0, "check", path, "--header", "label,text", "--labels", "ham,spam",
            "--no-quoting",
        )  # fmt: skip
        assert payload["splits"]["a"] == {"file": str(path), "n": 2, "n_positive": 1}

    def test_groups_and_times_across_files(self, command: Command, tmp_path: Path) -> None:
        one = write(tmp_path, "a.csv", "text,label,who,day\nx one,0,ann,1\ny two,1,bob,5\n")
        two = write(tmp_path, "b.csv", "text,label,who,day\nz three,0,bob,3\nw four,1,cy,9\n")
        payload = run_json(command, 1, "check", one, two, "--group", "who", "--time", "day")
        assert by_code(payload)["LK007"]["drop_indices"] == {
            "b": [0]
        }  # the first file keeps its rows
        assert by_code(payload)["LK008"]["drop_indices"] == {"b": [0]}

    def test_a_group_needs_two_splits(self, command: Command, clean: Path) -> None:
        code, out, _ = command("check", clean, "--group", "label")
        assert code == 0
        assert "not checked: --group compares splits, but there is only one" in out

    def test_which_split_is_learned_from(self, command: Command, leaky: tuple[Path, Path]) -> None:
        payload = run_json(command, 1, "check", *leaky, "--train", "test")
        assert payload["train"] == "test"
        assert by_code(payload)["LK001"]["drop_indices"] == {"train": [0]}

    def test_names(self, command: Command, leaky: tuple[Path, Path]) -> None:
        payload = run_json(command, 1, "check", f"new={leaky[1]}", f"old={leaky[0]}")
        assert list(payload["splits"]) == ["new", "old"]
        assert payload["train"] == "new"

    def test_splits_in_a_column(self, command: Command, tmp_path: Path) -> None:
        rows = "part,text,label\ntest,win now ok,1\ntrain,some text,0\ntrain,WIN now ok,1\n"
        path = write(tmp_path, "all.csv", rows)
        payload = run_json(command, 1, "check", path, "--split-col", "part")
        assert payload["train"] == "train"
        assert by_code(payload)["LK001"]["drop_indices"] == {"test": [0]}

    def test_against_a_corpus(self, command: Command, leaky: tuple[Path, Path]) -> None:
        corpus = write(leaky[0].parent, "web.txt", "… and so: LUNCH tomorrow, then. Bye")
        payload = run_json(command, 1, "check", *leaky, "--against", corpus, "--ngram", "3")
        assert by_code(payload)["LK011"]["drop_indices"] == {"test": [0]}

    def test_target_leakage(self, command: Command, tmp_path: Path) -> None:
        rows = "".join(f"{i},text number {i},{i % 2},{i % 2 * 7 + 1}\n" for i in range(200))
        path = write(tmp_path, "a.csv", "id,text,label,refund\n" + rows)
        payload = run_json(command, 1, "check", path, "--target", "--no-near")
        assert list(by_code(payload)["LK010"]["evidence"]["columns"]) == ["refund"]

    def test_several_columns_are_compared_by_value(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "x,y,label\n1,2,0\n1,3,0\n1,2,0\n")
        payload = run_json(command, 0, "check", path, "--text", "x", "--text", "y")
        assert by_code(payload)["LK001"]["drop_indices"] == {"a": [2]}
        assert "LK002" not in by_code(payload)

    @pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
    def test_rows_without_a_text_are_no_copies(
        self, command: Command, tmp_path: Path, name: str
    ) -> None:
        columns = {"text": [None, "hello there", None, None], "label": [0, 1, 0, 1]}
        one = tables.write_table(columns, tmp_path / name)
        two = tables.write_table(columns | {"text": [None] * 4}, tmp_path / f"b{one.suffix}")
        code, out, err = command("check", one, two, "--fix", tmp_path / "clean")
        assert (code, err) == (0, "")
        assert f"{name}: rows without text, not compared: 3" in out
        assert "different rows" not in out
        assert f"{name}: 4 rows kept, 0 dropped" in out

    def test_several_columns_are_a_row_without_a_text_when_all_are_missing(
        self, command: Command, tmp_path: Path
    ) -> None:
        path = write(tmp_path, "a.csv", "x,y,label\n,,0\n,,0\nu,,1\nu,,1\n")
        payload = run_json(command, 0, "check", path, "--text", "x", "--text", "y")
        assert by_code(payload)["LK001"]["drop_indices"] == {"a": [3]}
        assert "rows without text, not compared: 2" in payload["notes"][-2]

    @pytest.mark.parametrize("n", [40, 25_000])
    def test_texts_from_one_template_are_found_in_a_file_of_any_size(
        self, command: Command, tmp_path: Path, n: int
    ) -> None:
        told = "Dear customer, your order number {} has shipped and arrives on Monday before noon"
        texts = [told.format(7 * i) for i in range(n)]
        path = tables.write_table({"text": np.array(texts, dtype=object)}, tmp_path / "a.csv")
        payload = run_json(command, 0, "check", path)
        assert by_code(payload)["LK002"]["n_affected"] == n - 1
        evidence = by_code(payload)["LK002"]["evidence"]
        assert evidence["measure"] == "Jaccard similarity of 5-character n-grams"
        assert (evidence["strategy"], evidence["threshold"]) == ("MinHashLSHStrategy", 0.7)

    def test_the_measure_and_the_threshold_are_told(self, command: Command, clean: Path) -> None:
        _, out, _ = command("check", clean, "--threshold", 0.65)
        told = "near-duplicates share at least 0.65 of their 5-character n-grams"
        assert told in out
        assert told not in command("check", clean, "--no-near")[1]

    def test_more_than_two_labels_are_not_needed(self, command: Command, tmp_path: Path) -> None:
        one = write(tmp_path, "train.csv", "text,label\nsee you,a\nmore words,b\nothers,c\n")
        two = write(tmp_path, "test.csv", "text,label\nSee you,a\nnothing new,b\n")
        code, out, err = command("check", one, two)
        assert (code, err) == (1, "")
        assert "1 copy (1 in test from train)" in out
        assert "not checked: labels (" in out
        assert "LabelConflictCheck" not in out
        code, _, err = command("check", one, two, "--target")
        assert code == 2
        assert "train.csv: row 1: 'label' is 'a'; labels must be 0 or 1" in err

    def test_rows_without_a_time_do_not_make_numbers_words(
        self, command: Command, tmp_path: Path
    ) -> None:
        one = write(tmp_path, "train.csv", "text,t\nsee you,9\nmore words,\n")
        two = write(tmp_path, "test.csv", "text,t\nnothing new,\nquite late,10\n")
        code, out, err = command("check", one, two, "--time", "t")
        assert (code, err) == (0, "")
        assert "no t before the end of an earlier split; skipped 2 rows without t" in out

    def test_rows_at_the_end_of_the_past_are_told(self, command: Command, tmp_path: Path) -> None:
        one = write(tmp_path, "train.csv", "text,t\nsee you,1\nmore words,2\n")
        two = write(tmp_path, "test.csv", "text,t\nnothing new,2\nquite late,3\n")
        code, out, _ = command("check", one, two, "--time", "t")
        assert code == 0
        assert (
            "no t before the end of an earlier split; "
            "1 row of test at 2, the latest t of an earlier split"
        ) in out

    def test_every_code_is_of_the_table_of_codes(
        self, command: Command, leaky: tuple[Path, Path]
    ) -> None:
        payload = run_json(command, 1, "check", *leaky)
        for finding in payload["findings"]:
            assert LEAKAGE_CODES[finding["check_name"]] == finding["code"]


class TestFix:
    def test_rows_stay_as_they_are(self, command: Command, tmp_path: Path) -> None:
        train = 'text,label,x\r\n"a ""b"",\nc d e f",0, 1\r\nwin money today,1,é\r\n'
        test = "text,label,x\r\nWIN money today,1,z\r\nquite other words,0,  7\r\n"
        one, two = write(tmp_path, "train.csv", train), write(tmp_path, "test.csv", test)
        code, out, err = command("check", one, two, "--fix", tmp_path / "clean")
        assert (code, err) == (0, "")
        assert "train.csv: 2 rows kept, 0 dropped" in out
        assert "test.csv: 1 rows kept, 1 dropped" in out
        assert (tmp_path / "clean/train.csv").read_bytes() == one.read_bytes()
        expected = "text,label,x\r\nquite other words,0,  7\r\n"
        assert (tmp_path / "clean/test.csv").read_bytes() == expected.encode()
        assert command("check", tmp_path / "clean/train.csv", tmp_path / "clean/test.csv")[0] == 0

    @pytest.mark.parametrize(
        ("name", "before", "after"),
        [
            (
                "a.jsonl",
                '{"text": "x y z",  "label": 0}\n\n{"label": 0, "text": "X y z"}\n',
                '{"text": "x y z",  "label": 0}\n',
            ),
            (
                "a.json",
                '[{"text": "x y z", "label": 0, "w": 1.50},\n {"text": "X y z", "label": 0}]',
                '[{"text": "x y z", "label": 0, "w": 1.50}]\n',
            ),
            ("a.csv", "text\nx y z\n\nX y z\n", "text\nx y z\n\n"),
            ("b.csv", "text,label\n\nx y z,0\nX y z,0\n", "text,label\nx y z,0\n"),
            ("c.csv", "text,label\rx y z,0\rX y z,0\r", "text,label\rx y z,0\r"),
            ("d.csv", "\ufefftext,label\nx y z,0\nX y z,0\n", "\ufefftext,label\nx y z,0\n"),
            ("a.tsv", "text\tlabel\nx y z\t0\nX y z\t0", "text\tlabel\nx y z\t0\n"),
        ],
    )
    def test_text_formats(
        self, command: Command, tmp_path: Path, name: str, before: str, after: str
    ) -> None:
        path = write(tmp_path, name, before)
        assert command("check", path, "--fix", tmp_path / "out")[0] == 0
        assert (tmp_path / "out" / name).read_bytes() == after.encode()

    def test_without_header_and_quoting(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.tsv", '0\tsay "hi you\n1\twin "now" ok\n0\tSay "hi you\n')
        options = ("--header", "label,text", "--no-quoting", "--fix", tmp_path / "out")
        assert command("check", path, *options)[0] == 0
        assert (tmp_path / "out/a.tsv").read_text() == '0\tsay "hi you\n1\twin "now" ok\n'

    def test_gzip(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "a.csv.gz"
        path.write_bytes(gzip.compress((TRAIN + "see you AT noon,0\n").encode()))
        for folder in ("one", "two"):
            assert command("check", path, "--fix", tmp_path / folder)[0] == 0
        written = (tmp_path / "one/a.csv.gz").read_bytes()
        assert gzip.decompress(written).decode() == TRAIN
        assert written == (tmp_path / "two/a.csv.gz").read_bytes()

    def test_parquet_keeps_types(self, command: Command, tmp_path: Path) -> None:
        columns = {
            "text": np.array(["a b c", "A b c", "other words"], dtype=object),
            "label": np.array([0, 0, 1], dtype=np.int8),
            "row_number_of_file": np.array([1.5, 2.5, 3.5]),
        }
        path = tables.write_table(columns, tmp_path / "a.parquet")
        assert command("check", path, "--fix", tmp_path / "out")[0] == 0
        found = tables.read_table(tmp_path / "out/a.parquet")
        assert list(found) == list(columns)
        assert found["label"].dtype == np.int8
        assert found["row_number_of_file"].tolist() == [1.5, 3.5]

    def test_splits_in_a_column_stay_one_file(self, command: Command, tmp_path: Path) -> None:
        rows = "part,text,label\ntest,win now ok,1\ntrain,some text,0\ntest,hello you,0\ntrain,WIN now ok,1\n"
        path = write(tmp_path, "all.csv", rows)
        assert command("check", path, "--split-col", "part", "--fix", tmp_path / "out")[0] == 0
        kept = (tmp_path / "out/all.csv").read_text()
        assert kept == rows.replace("test,win now ok,1\n", "")

    def test_what_rows_cannot_cure_still_exits_with_1(
        self, command: Command, tmp_path: Path
    ) -> None:
        rows = "".join(f"text number {i},{i % 2},{i % 2}\n" for i in range(200))
        path = write(tmp_path, "a.csv", "text,label,leak\n" + rows)
        options = ("--target", "--no-near", "--fix", tmp_path / "out")
        assert command("check", path, *options)[0] == 1
        assert (tmp_path / "out/a.csv").read_text() == path.read_text()

    def test_inputs_are_not_replaced(self, command: Command, leaky: tuple[Path, Path]) -> None:
        before = [path.read_bytes() for path in leaky]
        code, out, err = command("check", *leaky, "--fix", leaky[0].parent)
        assert (code, out) == (2, "")
        assert "train.csv: is an input file; choose another folder" in err
        assert [path.read_bytes() for path in leaky] == before

    def test_all_files_or_none(
        self, command: Command, leaky: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from eval_toolkit.cli import _copying

        inner = _copying._copy_records
        calls = []

        def failing(*args: Any) -> int:
            calls.append(args)
            if len(calls) == 2:
                raise OSError(28, "No space left on device")
            return inner(*args)

        monkeypatch.setattr(_copying, "_copy_records", failing)
        folder = leaky[0].parent / "out"
        code, out, err = command("check", *leaky, "--fix", folder)
        assert (code, out, err) == (
            2,
            "",
            f"error: {folder}: cannot write: No space left on device\n",
        )
        assert list(folder.iterdir()) == []

    def test_rows_that_cannot_be_told_apart(self, command: Command, tmp_path: Path) -> None:
        from eval_toolkit.cli._copying import Copy, copy_rows
        from eval_toolkit.errors import ArtifactError

        source = write(tmp_path, "a.csv", TRAIN)
        with pytest.raises(ArtifactError, match="its 7 rows cannot be separated"):
            copy_rows([Copy(source, 7, {tmp_path / "out/a.csv": np.array([0])})])
        assert list((tmp_path / "out").iterdir()) == []

    def test_a_file_without_rows_is_refused(self, command: Command, tmp_path: Path) -> None:
        train = write(tmp_path, "train.csv", "text,label\nsee you,0\nmore words here,1\n")
        test = write(tmp_path, "test.csv", "text,label\nSee you,0\n")
        code, out, err = command("check", train, test, "--fix", tmp_path / "clean")
        assert (code, out) == (2, "")
        assert "test.csv: --fix would drop all of its 1 rows, so nothing was written" in err
        assert not (tmp_path / "clean").exists()

    def test_categories_stay_categories(self, command: Command, tmp_path: Path) -> None:
        pandas = pytest.importorskip("pandas")
        rows = {"text": ["see you", "See you", "it's more"], "label": [0, 0, 1]}
        frame = pandas.DataFrame({**rows, "kind": pandas.Categorical(["x", "y", "x"])})
        frame.to_parquet(tmp_path / "a.parquet")
        code, _, _ = command("check", tmp_path / "a.parquet", "--fix", tmp_path / "clean")
        assert code == 0
        kept = pandas.read_parquet(tmp_path / "clean" / "a.parquet")
        expected = frame.iloc[[0, 2]].reset_index(drop=True)
        expected["kind"] = expected["kind"].cat.remove_unused_categories()
        pandas.testing.assert_frame_equal(kept, expected)

    def test_columns_that_differ_by_case_only_are_refused(
        self, command: Command, tmp_path: Path
    ) -> None:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(
            arrow.table({"text": ["a"], "Text": ["b"], "label": [0]}), tmp_path / "a.parquet"
        )
        code, _, err = command("check", tmp_path / "a.parquet", "--fix", tmp_path / "clean")
        assert code == 2
        assert (
            "a.parquet: the column 'Text' occurs twice, or differs from another only in case" in err
        )
        assert not (tmp_path / "clean").exists()

    def test_a_report_over_an_input_is_refused(
        self, command: Command, leaky: tuple[Path, Path], tmp_path: Path
    ) -> None:
        code, _, err = command("check", *leaky, "--fix", tmp_path / "clean", "--out", leaky[0])
        assert code == 2
        assert "train.csv: --out would overwrite" in err
        assert leaky[0].read_text(encoding="utf-8") == TRAIN
        assert not (tmp_path / "clean").exists()

    def test_the_folder_is_a_file(self, command: Command, leaky: tuple[Path, Path]) -> None:
        blocker = write(leaky[0].parent, "blocker", "")
        code, _, err = command("check", *leaky, "--fix", blocker)
        assert code == 2
        assert "blocker" in err


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "a.csv: the file is empty (0 bytes)"),
            ("text,label\n", "a.csv: the file has no rows below the column names"),
            (
                "body,label\nx,0\n",
                "specify the column with --text; the columns are 'body', 'label'",
            ),
            ("text,label\nx,ham\n", "a.csv: row 1: 'label' is 'ham'; labels must be 0 or 1"),
            ("text,label\nx,0\ny,\n", "a.csv: row 2: 'label' is missing"),
        ],
    )
    def test_one_line(self, command: Command, tmp_path: Path, text: str, expected: str) -> None:
        code, out, err = command("check", write(tmp_path, "a.csv", text))
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert expected in err

    @pytest.mark.parametrize(
        ("times", "expected"),
        [
            ("1\nMay", "a.csv: row 2: 't' is 'May'; times must be numbers, dates or ISO 8601"),
            ("2024-01-01\n2024-01-01T00:00Z", "row 2: 't' is '2024-01-01T00:00Z', a date with a"),
        ],
    )
    def test_a_bad_time_names_file_and_row(
        self, command: Command, tmp_path: Path, times: str, expected: str
    ) -> None:
        lines = "".join(f"words {i},{time}\n" for i, time in enumerate(times.split("\n")))
        code, _, err = command("check", write(tmp_path, "a.csv", f"text,t\n{lines}"), "--time", "t")
        assert code == 2
        assert expected in err
        assert "t[" not in err

    @pytest.mark.parametrize("option", ["--text", "--label", "--group", "--time", "--id"])
    def test_a_column_that_is_not_there(self, command: Command, clean: Path, option: str) -> None:
        code, _, err = command("check", clean, option, "nope")
        assert code == 2
        assert f"clean.csv: there is no column 'nope' ({option})" in err

    def test_repeated_ids(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "k,text,label\n7,x,0\n8,y,1\n7,z,1\n")
        code, _, err = command("check", path, "--id", "k")
        assert code == 2
        assert "a.csv: row 3: 'k' is '7', as in row 1; ids must be unique" in err

    def test_two_splits_of_one_name(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        paths = [write(folder, "a.csv", TRAIN) for folder in (tmp_path, tmp_path / "sub")]
        code, _, err = command("check", *paths)
        assert code == 2
        assert f"the split 'a' is already {paths[0]}; write NAME={paths[1]}" in err

    def test_no_such_training_split(self, command: Command, clean: Path) -> None:
        code, _, err = command("check", clean, "--train", "dev")
        assert (code, err) == (2, "error: --train 'dev' is not a split; the splits are 'clean'\n")

    def test_split_column_of_several_files(
        self, command: Command, leaky: tuple[Path, Path]
    ) -> None:
        code, _, err = command("check", *leaky, "--split-col", "label")
        assert code == 2
        assert "--split-col applies to one file" in err

    def test_a_split_that_is_missing(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "a.csv", "text,part\nx,train\ny,\n")
        code, _, err = command("check", path, "--split-col", "part")
        assert code == 2
        assert "a.csv: row 2: 'part' is missing; every row needs a split" in err

    def test_a_split_name_that_is_no_file_name(
        self, command: Command, leaky: tuple[Path, Path], tmp_path: Path
    ) -> None:
        code, _, err = command("check", f"../evil={leaky[0]}", "--fix", tmp_path / "out")
        assert code == 2
        assert "the split '../evil' is not a valid file name" in err

    def test_a_hostile_name_is_one_line_of_text(self, command: Command, tmp_path: Path) -> None:
        path = write(tmp_path, "[bold]\x1b[31mx\n.csv", TRAIN)
        code, out, _ = command("check", path)
        assert code == 0
        assert "\x1b" not in out
        assert "[bold]" in out


def test_sms_spam(command: Command, shared_data: Path) -> None:
    """rows.md §21 and the data's own description: 415 copies after normalisation."""
    path = shared_data / "classification" / "sms_spam_collection.tsv"
    payload = run_json(
        command, 0, "check", path, "--no-quoting", "--header", "label,text",
        "--labels", "ham,spam", "--no-near",
    )  # fmt: skip
    assert payload["splits"]["sms_spam_collection"]["n"] == 5574
    assert by_code(payload)["LK001"]["n_affected"] == 415
