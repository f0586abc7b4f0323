"""Files that are cut short or damaged are refused, whichever byte or bit it is."""

import contextlib
import gzip
import json
import zipfile

import pytest

from eval_toolkit._internal.files import pieces_of, read_unpacked
from eval_toolkit._internal.tables import read_table, read_text, write_table
from eval_toolkit._internal.tables.sources import connection
from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.integrations.importing.plain_files import load_json
from eval_toolkit.integrations.importing.zipped import Zipped
from eval_toolkit.tasks.reading import read_rows

ROWS = [
    {"id": f"u{i}", "label": i % 2, "score": i / 8, "tags": [1, [2, "]"]], "text": 'a, ]} "'}
    for i in range(4)
]
ARRAYS = {
    "one line": json.dumps(ROWS),
    "indented": json.dumps(ROWS, indent=2) + "\n",
    "numbers": "[1, 2, 30]",
    "lists": "[[1], [2]]",
    "mark": "\ufeff" + json.dumps(ROWS[:2]),
}


def whole(text: str) -> bool:
    """Whether Python's own parser takes a text for whole JSON."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(ARRAYS))
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_no_prefix_of_an_array_is_read_as_whole(tmp_path, name, suffix):
    data = ARRAYS[name].encode()
    path = tmp_path / f"rows{suffix}"
    read = 0
    for end in range(1, len(data) + 1):
        written(path, data[:end] if suffix == ".json" else gzip.compress(data[:end], 1, mtime=0))
        try:
            read_table(path)
        except EvalToolkitError:
            continue
        assert whole(data[:end].decode()), data[:end][-30:]
        read += 1
    assert read >= 1  # the whole file, and without the blanks at its end


def test_the_byte_where_an_array_ends_is_named(tmp_path):
    path = tmp_path / "rows.json"
    path.write_bytes(b'[{"a": 1}, {"a": 2},  \n')
    with pytest.raises(
        ArtifactError,
        match=r"the JSON array is truncated: it ends at byte 20 with ',' instead of '\]'",
    ):
        read_table(path)


@pytest.mark.parametrize("reader", [load_json, lambda path: read_rows(path, "test")])
def test_no_prefix_of_a_document_is_read_as_whole(tmp_path, reader):
    data = ARRAYS["indented"].rstrip().encode()
    path = tmp_path / "rows.json"
    for end in range(1, len(data)):
        written(path, data[:end])
        with pytest.raises(EvalToolkitError):
            reader(path)


def written(path, data: bytes):
    """Write a file anew: to write over one that is there takes a wait for the disk each time."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def flips(data: bytes):
    for at in range(8 * len(data)):
        changed = bytearray(data)
        changed[at // 8] ^= 1 << (at % 8)
        yield bytes(changed)


# All flipped bits of a Parquet file take a minute. Each seventh is each bit of a byte in turn.
some_of_the_flips = pytest.mark.parametrize(
    "step", [7, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"]
)


def columns(path):
    """Return the columns of a file, None where it is refused in one line."""
    try:
        return {key: column.tolist() for key, column in read_table(path).items()}
    except ArtifactError as error:
        return None if "\n" not in str(error) else str(error)


LINES = "".join(f'{{"id": "u{i}", "score": {i / 7:.3f}}}\n' for i in range(6))
TABLE = "id,score\n" + "".join(f"u{i},{i / 7:.3f}\n" for i in range(6))


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv.gz", TABLE), ("a.jsonl.gz", LINES), ("a.json.gz", json.dumps(ROWS[:2]))],
    ids=["csv", "jsonl", "json"],
)
def test_every_flipped_bit_of_gzip_is_refused_or_changes_nothing(tmp_path, name, text):
    path, packed = tmp_path / name, gzip.compress(text.encode(), mtime=0)
    path.write_bytes(packed)
    expected, refused = columns(path), 0
    for changed in flips(packed):
        written(path, changed)
        found = columns(path)
        assert found in (None, expected)
        refused += found is None
    assert refused > 0.7 * 8 * len(packed)  # the rest is the header: a time, a name, the system


def test_gzip_read_as_text_is_verified(tmp_path):
    path, packed = tmp_path / "a.txt.gz", gzip.compress(TABLE.encode(), mtime=0)
    texts = []
    for changed in flips(packed):
        written(path, changed)
        with contextlib.suppress(ArtifactError):
            texts.append(read_text(path))
    assert set(texts) == {TABLE}


@pytest.mark.parametrize("cut", [1, 4, 8, 12])
def test_gzip_that_is_cut_short_names_the_byte(tmp_path, cut):
    packed = gzip.compress(TABLE.encode(), mtime=0)[:-cut]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(ArtifactError, match=f"truncated: it ends at byte {len(packed)}"):
        list(pieces_of(path))


def test_a_small_gzip_that_unpacks_to_gigabytes(tmp_path):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as stream:
        stream.write(b"id,score\n")
        for _ in range(70):
            stream.write(b"0,0.5\n" * 175_000)
    for reader in (read_table, read_unpacked, read_text):
        with pytest.raises(
            ArtifactError, match=r"decompresses from .* KiB to more than 64 MiB; if this"
        ):
            reader(path)


def test_every_flipped_bit_of_a_zip_is_refused_or_changes_nothing(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo("a.json"), json.dumps(ROWS), zipfile.ZIP_DEFLATED)
    found = []
    for changed in flips(path.read_bytes()):
        written(tmp_path / "b.zip", changed)
        with contextlib.suppress(ArtifactError):
            found.append(Zipped(tmp_path / "b.zip").read("a.json"))
    assert set(found) == {json.dumps(ROWS).encode()}


def test_a_small_zip_that_unpacks_to_gigabytes(tmp_path):
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for n in range(70):
            file.writestr(f"samples/{n}.json", b" " * (1 << 20))
    with pytest.raises(ArtifactError, match="its members have 73400320 bytes uncompressed"):
        Zipped(path)


@some_of_the_flips
@pytest.mark.parametrize(("compression", "version"), [("none", "1.0"), ("zstd", "2.0")])
def test_flipped_bits_of_a_page_with_a_checksum_are_refused(tmp_path, compression, version, step):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = arrow.table({"id": [f"u{i}" for i in range(9)], "score": [i / 7 for i in range(9)]})
    parquet.write_table(
        table,
        path,
        write_page_checksum=True,
        compression=compression,
        data_page_version=version,
        write_statistics=False,
    )
    data, expected = path.read_bytes(), columns(path)
    assert expected["score"] == [i / 7 for i in range(9)]
    pages = (
        len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    )  # the footer's length precedes PAR1
    wrong = []
    for at, changed in list(enumerate(flips(data[:pages])))[::step]:
        written(path, changed + data[pages:])
        if columns(path) not in (None, expected):
            wrong.append(at)
    assert wrong == []


def test_parquet_without_checksums_is_read(tmp_path):
    path = write_table({"id": ["a", "b"], "score": [0.5, 0.25]}, tmp_path / "a.parquet")
    assert columns(path) == {"id": ["a", "b"], "score": [0.5, 0.25]}
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for checksum in (False, True):  # without rows there are no pages
        table = arrow.table({"id": arrow.array([], arrow.string())})
        parquet.write_table(table, path, write_page_checksum=checksum)
        assert columns(path) == {"id": []}


@pytest.mark.parametrize(("depth", "read"), [(20, True), (60, False), (150, False)])
def test_a_column_that_is_nested_too_deeply(tmp_path, depth, read):
    """duckdb takes twice as long for each level: 60 of them took longer than anybody waits."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    value = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"id": ["u"], "x": [value]}), path)
    if read:
        assert read_table(path)["id"].tolist() == ["u"]
        return
    with pytest.raises(ArtifactError, match="a column is nested too deeply"):
        read_table(path)


@some_of_the_flips
def test_a_footer_that_points_out_of_the_file_is_refused(tmp_path, step):
    """Expected: each flipped bit is refused in one line or leads to a table; none is an OSError."""
    path = write_table({"id": ["a", "b"], "score": [0.5, 0.25]}, tmp_path / "a.parquet")
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for changed in list(flips(data[footer:]))[::step]:
        written(path, data[:footer] + changed)
        columns(path)  # None where it is refused


@some_of_the_flips
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_parquet_with_checksums_and_statistics_is_read(tmp_path, version, dictionary, step):
    """The header of a page holds the least and the greatest value as texts of any length."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {"id": ["a", "b" * 200, ""], "score": [0.5, 0.25, None], "n": [1, 2, 3]}
    options = {"data_page_version": version, "use_dictionary": dictionary}
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table(rows), path, write_page_checksum=True, **options)
    assert read_table(path)["id"].tolist() == rows["id"]
    data, wrong = path.read_bytes(), []
    # the header of the first page, among others
    for at, changed in list(enumerate(flips(data[:60])))[::step]:
        written(path, changed + data[60:])
        found = columns(path)
        if found is not None and found["id"] != rows["id"]:
            wrong.append(at)
    assert wrong == []


def test_a_small_parquet_that_stands_for_a_hundred_million_values(tmp_path):
    path = tmp_path / "a.parquet"
    with connection() as con:
        con.execute(
            "COPY (SELECT 1 AS x FROM range(100_000_000)) TO ? "
            "(FORMAT parquet, ROW_GROUP_SIZE 100_000_000)",
            [str(path)],
        )
    assert path.stat().st_size < 400_000
    with pytest.raises(ArtifactError, match="contains 100000000 values in"):
        read_table(path)


# --- workbooks ------------------------------------------------------------------------------------

SHEET = "xl/worksheets/sheet1.xml"
CELLS = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
NAME = '<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c></row>'
END = "</sheetData></worksheet>"
FROM_FILE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
LAUGHS = '<!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)
)


@pytest.fixture
def book(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    made = openpyxl.Workbook()
    for row in (["id", "label"], ["a", 1], ["b", 0]):
        made.active.append(row)
    made.save(tmp_path / "book.xlsx")
    return tmp_path / "book.xlsx"


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        (
            LAUGHS + f"]>{CELLS}{NAME}<row r='2'><c r='A2'><v>&a9;</v></c></row>{END}",
            "not a readable Excel",
        ),
        (
            FROM_FILE + f"{CELLS}{NAME}<row r='2'><c r='A2'><v>&a;</v></c></row>{END}",
            "not a readable Excel",
        ),
        (f"{CELLS}{NAME}<row r='999999999'/>{END}", "more than 1048576 rows or 50000000 cells"),
        (f"{CELLS}<row r='999999999'/>{END}", "more than 1048576 rows or 50000000 cells"),
        (
            f"{CELLS}{NAME}<row r='2'><c r='XFD2'><v>1</v></c></row>{END}",
            "row 1: a cell lies beyond",
        ),
        (f"{CELLS}{NAME}{' ' * 70_000_000}{END}", "decompresses from .* to 70"),
        (f"{CELLS}{NAME}{END}", "the file has no rows below the column names"),
        (f"{CELLS}{END}", "the workbook has no rows"),
        ("<worksheet", "not a readable Excel workbook"),
    ],
    ids=[
        "laughs",
        "entity",
        "far row",
        "far first row",
        "far column",
        "bomb",
        "head",
        "none",
        "cut",
    ],
)
def test_hostile_workbooks_are_one_line(book, tmp_path, sheet, message):
    path = tmp_path / "hostile.xlsx"
    with (
        zipfile.ZipFile(book) as parts,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made,
    ):
        for name in parts.namelist():
            made.writestr(name, sheet if name == SHEET else parts.read(name))
    with pytest.raises(ArtifactError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert "root:" not in str(caught.value)


def test_damaged_workbooks_are_refused_or_read_as_they_were(book):
    data = book.read_bytes()
    whole_book = {name: column.tolist() for name, column in read_table(book).items()}
    damaged = [data[:end] for end in range(0, len(data), 97)]
    damaged += [
        data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        for at in range(0, len(data), 29)
    ]
    refused = 0
    for content in damaged:
        written(book, content)
        try:
            found = {name: column.tolist() for name, column in read_table(book).items()}
        except EvalToolkitError:
            refused += 1
            continue
        assert found == whole_book
    assert refused > len(damaged) / 2
