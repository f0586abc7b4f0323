"""Files of rows: every format, odd files, one-line errors, rows picked while reading."""

import gzip
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pytest

import eval_toolkit
from eval_toolkit._internal.tables import (
    KEY,
    ROW,
    FileFormat,
    RowPick,
    column_names,
    distinct_values,
    expand_paths,
    media_type_of,
    read_table,
    sources,
    write_table,
)
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError

ROWS = {
    "id": ["007", "008", "009"],
    "score": [0.5, 0.25, 1.0],
    "n": [1, 2, 3],
    "note": ["a,b", 'q"q', "l\nm"],
}
NAMES = [
    "x.csv",
    "x.tsv",
    "x.jsonl",
    "x.ndjson",
    "x.json",
    "x.parquet",
    "x.pq",
    "x.csv.gz",
    "x.jsonl.gz",
]


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.json", "x.parquet"])
def test_an_underscore_is_no_part_of_a_number(tmp_path, name):
    path = write_table({"id": ["a", "b"], "score": ["0.5", "1_0"]}, tmp_path / name)
    with pytest.raises(InvalidInputError, match=rf"{name}: row 2: 'score' is '1_0'; it must be a"):
        read_table(path, numbers=["score"])


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("x.csv", "id;label\n1;0\n2\n", "semicolons"),
        ("x.csv", "id\tlabel\n1\t0\n2\n", "tabs"),
        ("x.tsv", "id,label\n1,0\n2\n", "commas"),
        ("x.csv", "id|label\n1|0\n2\n", "vertical bars"),
    ],
)
def test_a_separator_that_cuts_not_every_row_alike_is_named(tmp_path, name, text, word):
    (tmp_path / name).write_text(text)
    with pytest.raises(ArtifactError) as caught:
        column_names(tmp_path / name)
    assert str(caught.value) == (
        f"{tmp_path / name}: the columns seem to be separated by {word}, but then the first line has "
        "2 cells and row 2 has 1; pass the separator as `separator`, or the name of the only column "
        "as `header`"
    )
    assert column_names(tmp_path / name, FileFormat(header=["all"])) == ["all"]
    usual = "," if name == "x.csv" else "\t"
    assert column_names(tmp_path / name, FileFormat(separator=usual)) == [text.split("\n")[0]]


def test_one_column_of_texts_is_read_whatever_is_in_them(tmp_path):
    (tmp_path / "x.csv").write_text("text;\na;b\n")
    assert read_table(tmp_path / "x.csv", texts=["text;"])["text;"].tolist() == ["a;b"]


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"PAR1", "is a Parquet file; rename it to .parquet"),
        (b"\x1f\x8b\x08", "is compressed with gzip; rename it to end in .gz"),
        (b"PK\x03\x04", "is a zip archive or an Excel file; rename an Excel file to .xlsx"),
        (b"\xff\xfei\0d\0", "is encoded as UTF-16; save it as UTF-8"),
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.json"])
def test_a_file_of_another_format_is_named(tmp_path, name, begin, what):
    (tmp_path / name).write_bytes(begin + bytes(range(256)))
    with pytest.raises(ArtifactError) as caught:
        column_names(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {what}"


def test_parquet_columns_that_differ_by_case_only_are_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": ["a"], "Text": ["b"]}), tmp_path / "x.parquet")
    with pytest.raises(ArtifactError, match="the column 'Text' occurs twice, or differs from"):
        read_table(tmp_path / "x.parquet", texts=["text"])
    parquet.write_table(arrow.table({"text": ["a"], "Text_1": ["b"]}), tmp_path / "y.parquet")
    assert column_names(tmp_path / "y.parquet") == ["text", "Text_1"]


@pytest.fixture(params=NAMES)
def file(request, tmp_path):
    return write_table(ROWS, tmp_path / request.param)


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def test_round_trip(file):
    assert column_names(file) == list(ROWS)
    table = read_table(file)
    assert {name: values.tolist() for name, values in table.items()} == ROWS
    typed = read_table(file, numbers=["n", "score"], texts=["score"], columns=["id"])
    assert list(typed) == ["n", "score", "id"]
    assert typed["n"].dtype == np.float64
    assert typed["id"].tolist() == ROWS["id"]
    as_text = read_table(file, texts=["n"])["n"]
    assert as_text.tolist() == ["1", "2", "3"]


def test_equal_columns_give_equal_bytes(file, tmp_path):
    again = write_table(ROWS, tmp_path / "again" / file.name)
    if file.suffix != ".gz":
        assert again.read_bytes() == file.read_bytes()
    with pytest.raises(
        MissingColumnError, match=r"there is no column 'z'; the columns are 'id', 'score'"
    ):
        read_table(file, columns=["z"])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"", "a.csv: the file is empty (0 bytes)"),
        ("a.csv", b"\n\n", "a.csv: the first line is empty; it must contain the column names"),
        (
            "a.csv",
            b"x,X\n1,2\n",
            "a.csv: the column 'X' occurs twice in the first line; rename one",
        ),
        ("a.csv", b"x,y\n1,2\n3\n", "a.csv: line 3: Expected Number of Columns: 2 Found: 1"),
        ("a.csv", b"x,y\n1,2\n3,4,5\n", "a.csv: line 3: Expected Number of Columns: 2 Found: 3"),
        (
            "a.csv",
            b'x,y\n"1,2\n3,4\n',
            "a.csv: line 2: Value with unterminated quote found; quoting=False treats quotes as ordinary characters",
        ),
        (
            "a.csv.gz",
            b"x,y\n1,2\n",
            "a.csv.gz: Not a gzipped file (b'x,')",
        ),
        (
            "a.jsonl",
            b'{"x":1,"X":2}\n',
            "a.jsonl: the keys 'x' and 'X' differ only in case; rename one",
        ),
    ],
)
def test_odd_files_give_one_line(put, tmp_path, name, data, message):
    with pytest.raises(ArtifactError) as raised:
        read_table(put(name, data))
    assert str(raised.value) == f"{tmp_path}/{message}"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"x\n\xff\xfe\n"),
        ("a.jsonl", b'{"x": 1}\n{"x":\n'),
        ("a.parquet", b"PAR1 no"),
        ("a.jsonl.gz", gzip.compress(b'{"x": 1}\n' * 999, mtime=0)[:-9]),
        ("a.csv.gz", gzip.compress(b"x\n" + b"1\n" * 9999, mtime=0)[:-9]),
    ],
)
def test_broken_files_name_the_file_in_one_line(put, name, data):
    path = put(name, data)
    with pytest.raises(ArtifactError) as raised:
        read_table(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_numbers_name_row_and_value(put):
    path = put("a.csv", "id,score\na,0.5\nb,high\n")
    with pytest.raises(
        InvalidInputError, match=r"a\.csv: row 2: 'score' is 'high'; it must be a finite number"
    ):
        read_table(path, numbers=["score"])
    for cell, shown in [("inf", "is 'inf'"), ("nan", "is 'nan'"), ("", "is missing")]:
        path = put("b.csv", f"id,score\na,0.5\nb,{cell}\n")
        with pytest.raises(InvalidInputError, match=f"row 2: 'score' {shown}"):
            read_table(path, numbers=["score"])
    path = put("c.jsonl", '{"score": 1}\n{"score": null}\n')
    with pytest.raises(InvalidInputError, match=r"c\.jsonl: row 2: 'score' is missing"):
        read_table(path, numbers=["score"])


def test_csv_dialects(put):
    assert read_table(put("bom.csv", b"\xef\xbb\xbfx,y\r\n1,2\r\n"))["x"].tolist() == [1]
    assert read_table(put("q.tsv", 'x\ty\n"a\tb"\n'), file_format=FileFormat(quoting=False))[
        "x"
    ].tolist() == ['"a']
    assert read_table(put("h.csv", "1,a\n2,b\n"), file_format=FileFormat(header=["n", "s"]))[
        "s"
    ].tolist() == ["a", "b"]
    with pytest.raises(ArtifactError, match="the first line has 2 cells but `header` has 1 names"):
        read_table(put("h.csv", "1,a\n"), file_format=FileFormat(header=["n"]))
    with pytest.raises(
        InvalidInputError, match="`header` applies to CSV and TSV files; this file is"
    ):
        read_table(put("h.jsonl", '{"a": 1}\n'), file_format=FileFormat(header=["n"]))
    mixed = read_table(put("g.csv", "a,b,c,d\n1,1.5,x,007\n2,2e3,3,8\n"))
    assert [mixed[name].dtype.kind for name in "abcd"] == ["i", "f", "O", "O"]
    assert read_table(put("e.csv", "a,b\n"))["a"].tolist() == []
    indexed = read_table(put("i.csv", ",a\n0,x\n1,y\n"))  # as pandas saves a frame with its index
    assert {name: values.tolist() for name, values in indexed.items()} == {
        "Unnamed: 0": [0, 1],
        "a": ["x", "y"],
    }


def test_json_values(put):
    path = put("a.jsonl", '{"a": [1, 2], "b": true}\n{"a": [3, 4], "b": false, "late": "x"}\n')
    table = read_table(path)
    assert table["a"].tolist() == [[1, 2], [3, 4]]
    assert table["b"].tolist() == [True, False]
    assert table["late"].tolist() == [None, "x"]


def test_paths_and_media_types(tmp_path, put):
    put("b.csv", "x\n2\n")
    put("a.csv", "x\n1\n")
    assert read_table(tmp_path / "*.csv")["x"].tolist() == [1, 2]
    assert [file.name for file in expand_paths([tmp_path / "b.csv", tmp_path / "a.csv"])] == [
        "b.csv",
        "a.csv",
    ]
    odd = put("we[ir]d*.csv", "x\n3\n")
    assert read_table(odd)["x"].tolist() == [3]
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(ArtifactError, match="no file matches"):
        read_table(str(tmp_path / "z*.csv"))
    with pytest.raises(ArtifactError, match="not a file"):
        read_table(tmp_path)
    with pytest.raises(InvalidInputError, match="no files were given"):
        read_table([])
    with pytest.raises(InvalidInputError, match="cannot infer the format from the name"):
        media_type_of("data.xls")
    assert media_type_of("A.CSV.GZ") == "text/csv"
    with pytest.raises(
        InvalidInputError, match="no built-in reader supports the media type 'text/html'"
    ):
        read_table(odd, file_format=FileFormat(media_type="text/html"))
    put("c.csv", "y\n1\n")
    with pytest.raises(ArtifactError, match=r"c\.csv: columns \['y'\] differ"):
        read_table([tmp_path / "a.csv", tmp_path / "c.csv"])
    put("d.csv", "x\nword\n")
    assert read_table([tmp_path / "a.csv", tmp_path / "d.csv"])["x"].tolist() == ["1", "word"]


def test_picked_rows(file):
    picked = read_table(file, columns=["n"], pick=RowPick(where={"id": ["008", "009"]}))
    assert picked["n"].tolist() == [2, 3]
    assert picked[ROW].tolist() == [2, 3]
    assert read_table(file, columns=["n"], pick=RowPick(limit=2))["n"].tolist() == [1, 2]
    sample = read_table(file, columns=["n"], pick=RowPick(sample_size=2, seed=1, key="id"))
    assert len(sample["n"]) == 2
    assert sample[ROW].tolist() == sorted(sample[ROW].tolist())
    assert len(sample[KEY][0]) == 32
    with pytest.raises(MissingColumnError, match="'z'"):
        read_table(file, columns=["n"], pick=RowPick(where={"z": ["1"]}))


def test_picked_rows_keep_their_number_in_messages(put):
    path = put("a.csv", "g,score\na,1\nb,x\nb,y\n")
    with pytest.raises(InvalidInputError, match=r"row 2: 'score' is 'x'"):
        read_table(path, numbers=["score"], pick=RowPick(where={"g": ["b"]}))


def test_a_column_called_like_ours_is_no_problem(put):
    path = put("a.csv", "row_number,sample_key,x\n9,8,7\n6,5,4\n")
    picked = read_table(path, pick=RowPick(limit=1))
    assert picked["row_number"].tolist() == [9]
    assert picked[ROW].tolist() == [1]


def test_samples_are_uniform(put):
    path = put("a.csv", "x\n" + "\n".join(map(str, range(20))) + "\n")
    counts = np.zeros(20)
    for seed in range(40):
        counts[read_table(path, pick=RowPick(sample_size=5, seed=seed))["x"]] += 1
    # binomial(40, 1/4): mean 10, standard deviation 2.7
    assert abs(counts - 10).max() < 10


def test_distinct_values(file):
    assert distinct_values(file, "id") == {"007": 1, "008": 2, "009": 3}
    with pytest.raises(MissingColumnError):
        distinct_values(file, "z")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "a table needs at least one column"),
        ({"a": [1], "b": [1, 2]}, r"`columns` differ in length: \{'a': 1, 'b': 2\}"),
        ({"a": [[1, 2], [3, 4]]}, r"column 'a' must be 1-D, got shape \(2, 2\)"),
    ],
)
def test_tables_that_cannot_be_written(tmp_path, columns, message):
    with pytest.raises(InvalidInputError, match=message):
        write_table(columns, tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_cannot_be_encoded_leaves_nothing(tmp_path):
    with pytest.raises(ArtifactError, match="surrogate"):
        write_table({"a": ["\ud800"]}, tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_gaps_survive_parquet(tmp_path):
    path = write_table(
        {"t": ["x", None], "f": [1.5, np.nan], "d": np.array(["2026-01-01", "NaT"], "M8[us]")},
        tmp_path / "a.parquet",
    )
    table = read_table(path)
    assert table["t"].tolist() == ["x", None]
    assert np.isnan(table["f"][1])
    assert np.isnat(table["d"][1])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize("folder", ["label=1", "score=5/unit_id=7"])
def test_names_of_folders_are_no_data(tmp_path, suffix, folder):
    """A sweep keeps its files below score=5; duckdb by itself takes that for a column."""
    columns = {"unit_id": ["a", "b"], "label": [0.0, 1.0], "score": [0.25, 0.5]}
    path = tmp_path / folder / f"rows{suffix}"
    path.parent.mkdir(parents=True)
    write_table({name: np.asarray(values) for name, values in columns.items()}, path)
    assert column_names(path) == list(columns)
    read = read_table(path, texts=["unit_id"], columns=["label", "score"])
    assert {name: read[name].tolist() for name in columns} == columns


def test_no_reader_of_duckdb_is_left_to_guess_from_folders():
    sources = Path(eval_toolkit.__file__).parent.rglob("*.py")
    calls = [
        call
        for source in sources
        for call in re.findall(
            r"read_(?:parquet|csv|json)\((?:\?|\{file\})[^\"]*", source.read_text("utf-8")
        )
    ]
    assert len(calls) > 15
    assert [call for call in calls if "hive_partitioning" not in call] == []


# --- one database for the process ---------------------------------------------------------------


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    """Same name, same size, same time: nothing of the first one is kept."""
    path = tmp_path / "t.parquet"
    for value in (1.0, 2.0, 3.0):
        write_table({"a": [value] * 1000}, path)
        os.utime(path, ns=(0, 0))
        assert set(read_table(path, numbers=["a"])["a"]) == {value}


def test_threads_read_at_the_same_time(tmp_path):
    paths = [write_table({"a": np.arange(n)}, tmp_path / f"{n}.parquet") for n in range(1, 41)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda path: read_table(path, numbers=["a"])["a"].sum(), paths))
    assert found == [n * (n - 1) / 2 for n in range(1, 41)]


def test_nothing_is_left_in_the_database():
    with sources.connection() as con:
        con.execute("CREATE TEMP TABLE mine AS SELECT 1")
        con.register("given", {"a": np.arange(3)})
        assert con.execute("SELECT count(*) FROM mine, given").fetchone() == (3,)
    with sources.connection() as con, pytest.raises(duckdb.CatalogException):
        con.execute("SELECT * FROM mine")
    with sources.connection() as con, pytest.raises(duckdb.CatalogException):
        con.execute("SELECT * FROM given")


def test_a_database_that_answers_no_more_is_replaced(tmp_path):
    before = sources._database()

    def break_it():
        with sources.connection() as con:
            con.close()  # as after an error of duckdb's own, every query fails from here on
            raise KeyError

    with pytest.raises(KeyError):
        break_it()
    assert sources._database() is not before
    path = write_table({"a": [1, 2]}, tmp_path / "t.csv")
    assert read_table(path, numbers=["a"])["a"].tolist() == [1, 2]


def test_a_fork_opens_a_database_of_its_own(tmp_path):
    path = write_table({"a": [1, 2]}, tmp_path / "t.parquet")
    code = (
        "import os, sys\n"
        "from eval_toolkit._internal.tables import read_table, sources\n"
        "read = lambda: read_table(sys.argv[1], numbers=['a'])['a'].sum()\n"
        "assert read() == 3\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if read() == 3 and len(sources._databases) == 2 else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(path)], capture_output=True, timeout=600
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
