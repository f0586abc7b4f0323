"""``eval-toolkit split``: parts that hold every row once, and what is said about them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit._internal import tables

Command = Callable[..., tuple[int, str, str]]


def rows(n: int = 100) -> list[str]:
    return [
        f'{i},"row {i * i}, number {i}",{int(i % 4 == 0)},u{i % 20},{i // 5}\n' for i in range(n)
    ]


HEADER = "key,text,label,author,day\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "all.csv"
    path.write_text(HEADER + "".join(rows()))
    return path


def parts_of(folder: Path, header: str | None = None) -> dict[str, list[str]]:
    """Return each part's lines, the header checked and taken off."""
    found = {}
    for path in sorted(folder.rglob("*.csv")):
        head, *lines = path.read_text().splitlines(keepends=True)
        assert head == (header or HEADER)
        found[str(path.relative_to(folder))] = lines
    return found


def test_every_row_is_in_one_part_as_it_was(command: Command, file: Path, tmp_path: Path) -> None:
    code, out, err = command(
        "split", file, "--out", tmp_path / "p", "--sizes", "train=0.8,test=0.2"
    )
    assert (code, err) == (0, "")
    parts = parts_of(tmp_path / "p")
    assert {name: len(lines) for name, lines in parts.items()} == {"train.csv": 80, "test.csv": 20}
    assert sorted(parts["train.csv"] + parts["test.csv"]) == sorted(rows())
    assert sum(",1,u" in line for line in parts["test.csv"]) == 5  # a quarter, as in the file
    assert "0.250" in out
    assert "no leakage between parts (ExactDuplicateCheck)" in out


def test_the_same_again_whatever_the_order(command: Command, file: Path, tmp_path: Path) -> None:
    command("split", file, "--out", tmp_path / "one")
    file.write_text(HEADER + "".join(reversed(rows())))
    command("split", file, "--out", tmp_path / "two")
    one, two = parts_of(tmp_path / "one"), parts_of(tmp_path / "two")
    assert list(one) == ["test.csv", "train.csv", "val.csv"]
    assert one == {name: lines[::-1] for name, lines in two.items()}


def test_another_seed_another_split(command: Command, file: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        command("split", file, "--out", tmp_path / str(seed), "--seed", seed)
    assert parts_of(tmp_path / "1") != parts_of(tmp_path / "2")


def test_groups_stay_together(command: Command, file: Path, tmp_path: Path) -> None:
    options = ("--sizes", "train=0.5,test=0.5", "--group", "author", "--no-stratify")
    code, out, _ = command("split", file, "--out", tmp_path / "p", *options)
    assert code == 0
    authors = [
        {line.rsplit(",", 2)[1] for line in lines} for lines in parts_of(tmp_path / "p").values()
    ]
    assert not authors[0] & authors[1]
    assert "no leakage between parts (ExactDuplicateCheck, GroupLeakageCheck)" in out


def test_in_time(command: Command, file: Path, tmp_path: Path) -> None:
    options = ("--time", "day", "--sizes", "train=0.52,test=0.48", "--json")
    code, out, _ = command("split", file, "--out", tmp_path / "p", *options)
    assert code == 0
    # Row 52 is of day 10, which has the rows 50 to 54: they stay together.
    assert parts_of(tmp_path / "p") == {"train.csv": rows()[:55], "test.csv": rows()[55:]}
    checks = {found["check_name"]: found for found in json.loads(out)["checks"]["parts"]}
    assert checks["TemporalLeakageCheck"]["n_affected"] == 0


def test_folds(command: Command, file: Path, tmp_path: Path) -> None:
    code, out, _ = command("split", file, "--out", tmp_path / "p", "--folds", 4, "--json")
    assert code == 0
    parts = parts_of(tmp_path / "p")
    assert sorted(parts) == sorted(
        f"fold-{fold}/{part}.csv" for fold in range(1, 5) for part in ("train", "test")
    )
    tested = [line for name, lines in parts.items() if "test" in name for line in lines]
    assert sorted(tested) == sorted(rows())
    for fold in range(1, 5):
        both = parts[f"fold-{fold}/train.csv"] + parts[f"fold-{fold}/test.csv"]
        assert sorted(both) == sorted(rows())
    positive = [part["n_positive"] for part in json.loads(out)["parts"]][1::2]
    assert sorted(positive) == [6, 6, 6, 7]  # 25 in all


def test_folds_in_time_do_not_train_on_the_time_they_test(command: Command, tmp_path: Path) -> None:
    times = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3]
    lines = [f"text of row {i * i * i},{i % 2},{time}\n" for i, time in enumerate(times)]
    path = tmp_path / "all.csv"
    path.write_text("text,label,t\n" + "".join(lines))
    code, _, _ = command("split", path, "--out", tmp_path / "p", "--folds", 3, "--time", "t")
    assert code == 0
    parts = parts_of(tmp_path / "p", "text,label,t\n")
    assert parts["fold-2/test.csv"] == lines[6:9]
    assert parts["fold-2/train.csv"] == lines[:3]  # rows 3 to 5 are of the time of row 6
    for fold in (1, 2, 3):
        times_of = [
            {line.rsplit(",", 1)[1] for line in parts[f"fold-{fold}/{part}.csv"]}
            for part in ("train", "test")
        ]
        assert not times_of[0] & times_of[1]


def test_times_in_two_spellings_stay_together(command: Command, tmp_path: Path) -> None:
    days = ["2024-01-01"] * 5 + ["2024-01-02", "2024-01-02T00:00"] + ["2024-01-03"] * 5
    lines = [f"text of row {i * i * i},{i % 2},{day}\n" for i, day in enumerate(days)]
    path = tmp_path / "all.csv"
    path.write_text("text,label,t\n" + "".join(lines))
    options = ("--sizes", "train=0.5,test=0.5", "--time", "t")
    code, _, _ = command("split", path, "--out", tmp_path / "p", *options)
    assert code == 0
    assert parts_of(tmp_path / "p", "text,label,t\n") == {
        "train.csv": lines[:7],
        "test.csv": lines[7:],
    }


def test_folds_of_another_split_are_not_left_beside(
    command: Command, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p"
    assert command("split", file, "--out", out, "--folds", 5)[0] == 0
    before = parts_of(out)
    code, _, err = command("split", file, "--out", out, "--folds", 3, "--seed", 1)
    assert code == 2
    assert "fold-4: is from an earlier split; remove it, or choose another --out" in err
    assert parts_of(out) == before
    assert command("split", file, "--out", out, "--folds", 5, "--seed", 1)[0] == 0
    assert parts_of(out) != before
    (out / "fold-2" / "train.tsv").write_text("left over\n")
    code, _, err = command("split", file, "--out", out, "--folds", 5)
    assert code == 2
    assert "fold-2: is from an earlier split" in err


def test_more_than_two_labels_need_no_map_without_stratification(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "all.csv"
    path.write_text("text,label\n" + "".join(f"row {i**3},{'abc'[i % 3]}\n" for i in range(30)))
    code, out, _ = command("split", path, "--out", tmp_path / "p", "--no-stratify")
    assert code == 0
    assert "labels not checked (" in out
    assert "positive  share" not in out
    code, _, err = command("split", path, "--out", tmp_path / "q")
    assert code == 2
    assert "row 1: 'label' is 'a'; labels must be 0 or 1" in err
    assert err.endswith("--no-stratify\n")
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize(("option", "column"), [("--group", "who"), ("--time", "day")])
def test_a_missing_group_or_time_names_file_and_row(
    command: Command, tmp_path: Path, option: str, column: str
) -> None:
    path = tmp_path / "all.csv"
    lines = [f"row {i},{i % 2},{'' if i == 5 else i},{'' if i == 5 else i}\n" for i in range(9)]
    path.write_text("text,label,who,day\n" + "".join(lines))
    code, _, err = command("split", path, "--out", tmp_path / "p", option, column)
    what = f"{column!r} is missing; every row needs a {option[2:]}"
    assert (code, err) == (2, f"error: {path}: row 6: {what}\n")


def test_rows_without_a_text_are_not_kept_together(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("text,label\n" + ",0\n,1\n" * 20)
    options = ("--sizes", "train=0.5,test=0.5", "--keep-duplicates-together")
    code, out, _ = command("split", path, "--out", tmp_path / "p", *options)
    assert code == 0
    assert [len(lines) for lines in parts_of(tmp_path / "p", "text,label\n").values()] == [20, 20]
    assert "no leakage between parts" in out
    assert "rows without text, not compared: 40" in out
    assert "kept together: texts that share at least 0.7 of their 5-character n-grams" in out


def test_folds_in_time(command: Command, file: Path, tmp_path: Path) -> None:
    code, _, _ = command("split", file, "--out", tmp_path / "p", "--folds", 3, "--time", "day")
    assert code == 0
    parts = parts_of(tmp_path / "p")
    assert parts["fold-1/train.csv"] == rows()[:25]
    assert parts["fold-3/test.csv"] == rows()[75:]


class TestDuplicates:
    @pytest.fixture
    def copies(self, tmp_path: Path) -> Path:
        texts = [
            f"message {i % 10} of the day {i % 10 * 3}, dear {'abcdefghij'[i % 10] * 5}"
            for i in range(80)
        ]
        columns = {"text": np.array(texts, dtype=object), "label": np.arange(80) % 10 % 2}
        return tables.write_table(columns, tmp_path / "c.jsonl")

    def test_copies_in_two_parts_are_told(
        self, command: Command, copies: Path, tmp_path: Path
    ) -> None:
        code, out, _ = command("split", copies, "--out", tmp_path / "p")
        assert code == 0
        assert "leakage between parts: LK001 ExactDuplicateCheck: 16 copies" in out
        assert "error" not in out
        assert "--keep-duplicates-together" in out

    def test_kept_together(self, command: Command, copies: Path, tmp_path: Path) -> None:
        options = ("--keep-duplicates-together", "--sizes", "train=0.5,test=0.5")
        code, out, _ = command("split", copies, "--out", tmp_path / "p", *options)
        assert code == 0
        assert "no leakage between parts (ExactDuplicateCheck, NearDuplicateCheck)" in out
        texts = [
            set(tables.read_table(tmp_path / "p" / f"{part}.jsonl", texts=["text"])["text"])
            for part in ("train", "test")
        ]
        assert len(texts[0]) + len(texts[1]) == 10
        assert not texts[0] & texts[1]


def test_by_id_no_text_is_needed(command: Command, tmp_path: Path) -> None:
    columns = {"key": np.arange(20), "x": np.arange(20) / 7, "label": np.arange(20) % 2}
    path = tables.write_table(columns, tmp_path / "n.parquet")
    options = ("--id", "key", "--sizes", "a=0.5,b=0.5")
    assert command("split", path, "--out", tmp_path / "p", *options)[0] == 0
    found = [tables.read_table(tmp_path / f"p/{part}.parquet") for part in "ab"]
    assert sorted(np.concatenate([part["key"] for part in found]).tolist()) == list(range(20))
    assert found[0]["x"].dtype == np.float64


def test_no_labels_are_needed_unless_stratified(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\n" + "".join(f"line {i}\n" for i in range(10)))
    code, _, err = command("split", path, "--out", tmp_path / "p")
    assert code == 2
    assert "specify the column with --label" in err
    code, out, _ = command("split", path, "--out", tmp_path / "p", "--no-stratify", "--json")
    assert code == 0
    assert json.loads(out)["parts"][0]["n_positive"] is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--sizes", "train=0.5,test=0.6"], "--sizes sum to 1.1; the shares must sum to 1"),
        (["--sizes", "train"], "--sizes: 'train' is not a part"),
        (["--sizes", "../a=0.5,b=0.5"], "--sizes: '../a=0.5' is not a part"),
        (["--sizes", "a=0.5,a=0.5"], "--sizes: 'a=0.5' is not a part"),
        (["--sizes", "a=0.5,b=0.5", "--folds", "2"], "pass either --sizes or --folds"),
        (["--time", "day", "--group", "author"], "--time cannot be combined with --group"),
        (["--time", "text"], "times must be numbers, dates or ISO 8601 text"),
        (["--group", "nope"], "there is no column 'nope' (--group)"),
        (["--sizes", "a=0.001,b=0.999"], "cannot fill the part 'a'"),
    ],
)
def test_refused(
    command: Command, file: Path, tmp_path: Path, options: list[Any], expected: str
) -> None:
    code, out, err = command("split", file, "--out", tmp_path / "p", *options)
    assert (code, out) == (2, "")
    assert expected in err
    assert not (tmp_path / "p").exists()


def test_one_file_at_a_time(command: Command, file: Path, tmp_path: Path) -> None:
    (tmp_path / "also.csv").write_bytes(file.read_bytes())
    code, _, err = command("split", tmp_path / "al*.csv", "--out", tmp_path / "p")
    assert (code, err) == (
        2,
        f"error: {tmp_path / 'also.csv'}: only one file can be split at a time\n",
    )
    code, _, err = command("split", tmp_path / "no.csv", "--out", tmp_path / "p")
    assert (code, err) == (2, f"error: {tmp_path / 'no.csv'}: no such file\n")


def test_the_input_is_not_replaced(command: Command, file: Path, tmp_path: Path) -> None:
    code, _, err = command("split", file, "--out", tmp_path, "--sizes", "all=0.5,rest=0.5")
    assert code == 2
    assert "all.csv: is an input file" in err
    assert file.read_text() == HEADER + "".join(rows())
    assert not (tmp_path / "rest.csv").exists()


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        ({b"\xff\xfe": b"a", b"name": b"\xff", b"k": b"v"}, {b"k": b"v"}),
        ({b"A": b"1", b"a": b"2"}, {b"A": b"1"}),
        ({b"": b"1", b"b": b"2"}, {b"b": b"2"}),
        ({b"a'} ) TO 'x.csv'; --": b"'"}, {b"a'} ) TO 'x.csv'; --": b"'"}),
    ],
)
def test_metadata_of_a_parquet_file_that_cannot_be_written_again(
    command: Command, tmp_path: Path, metadata: dict[bytes, bytes], kept: dict[bytes, bytes]
) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [f"row {n} says {n * n * 7919} and {n * 31}" for n in range(30)]
    columns = {"text": texts, "label": [n % 2 for n in range(30)]}
    table = pa.table(columns).replace_schema_metadata(metadata)
    parquet.write_table(table, tmp_path / "all.parquet")
    sizes = ("--sizes", "train=0.8,test=0.2")
    code, _, err = command("split", tmp_path / "all.parquet", "--out", tmp_path / "parts", *sizes)
    assert code == 0, err
    written = parquet.read_metadata(tmp_path / "parts" / "train.parquet").metadata
    assert {key: value for key, value in written.items() if key != b"ARROW:schema"} == kept
