"""The same rows through every format and every user of the reader give the same arrays."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit._internal.tables import FileFormat, LabelMap, read_rows, write_table
from eval_toolkit.artifacts import PredictionArtifactRef, PredictionColumns, load_predictions
from eval_toolkit.cli._data import Reading, read_data
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.integrations.importing import Wanted as WantedOfLogs
from eval_toolkit.integrations.importing import read_logs
from eval_toolkit.loaders import DataFrameLoader, FileLoader
from eval_toolkit.loaders.predictions import Wanted, read_predictions
from eval_toolkit.rollouts.seeds import load_seeds
from eval_toolkit.slices import EvalSlice
from eval_toolkit.tasks.reading import read_rows as task_rows

IDS = ["007", "b", "c", "d", "é"]
LABELS = ["TRUE ", "0", "1.00", "false", "1"]
CLASSES = [1, 0, 1, 0, 1]
SCORES = [0.5, 0.25, 1234.5, -1.0, 12.0]
TEXTS = ['say "hi", now', "two\nlines", "a;b|c\td", "plain", "über"]
NAMES = ["id", "label", "score", "text"]
ROWS = list(zip(IDS, LABELS, SCORES, TEXTS, strict=True))


def separated(mark: str, *, end: str = "\n", decimal: str = ".", always: bool = False) -> str:
    """Return the rows as CSV; cells are quoted where they must be, or always."""

    def cell(value: Any) -> str:
        text = str(value).replace(".", decimal) if isinstance(value, float) else str(value)
        special = always or any(sign in text for sign in (mark, '"', "\n"))
        return '"' + text.replace('"', '""') + '"' if special else text

    return "".join(mark.join(map(cell, row)) + end for row in (NAMES, *ROWS))


def lines() -> str:
    return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in ROWS)


def parquet(path: Path) -> None:
    columns = dict(zip(NAMES, zip(*ROWS, strict=True), strict=True))
    write_table({name: np.array(cells) for name, cells in columns.items()}, path)


def workbook(path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (NAMES, *ROWS):
        book.active.append(row)
    book.save(path)


Content = str | bytes | Callable[[Path], None]
FILES: dict[str, tuple[str, Content]] = {
    "commas": ("p.csv", separated(",")),
    "semicolons": ("p.csv", separated(";")),
    "tabs in .csv": ("p.csv", separated("\t")),
    "vertical bars": ("p.csv", separated("|")),
    "tsv": ("p.tsv", separated("\t")),
    "semicolons in .tsv": ("p.tsv", separated(";")),
    "decimal commas": ("p.csv", separated(";", decimal=",")),
    "decimal commas, quoted": ("p.csv", separated(",", decimal=",", always=True)),
    "all quoted": ("p.csv", separated(",", always=True)),
    "mark and CRLF": ("p.csv", b"\xef\xbb\xbf" + separated(";", end="\r\n").encode()),
    "line ends mixed": ("p.csv", separated(",").replace('now"\n', 'now"\r\n', 1)),
    "no last line end": ("p.csv", separated(",").removesuffix("\n")),
    "blank lines": ("p.csv", separated(",") + "\n\n"),
    "csv.gz": ("p.csv.gz", gzip.compress(separated(";").encode())),
    "jsonl": ("p.jsonl", lines()),
    "jsonl.gz": ("p.jsonl.gz", gzip.compress(lines().encode())),
    "ndjson with blanks": ("p.ndjson", lines().replace("\n", "\n\n")),
    "json": ("p.json", json.dumps([json.loads(line) for line in lines().splitlines()])),
    "json, indented": (
        "p.json",
        json.dumps([json.loads(line) for line in lines().splitlines()], indent=2),
    ),
    "parquet": ("p.parquet", parquet),
    "excel": ("p.xlsx", workbook),
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Content], Path]:
    def write(name: str, content: Content) -> Path:
        path = tmp_path / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


Found = dict[str, list[Any]]


def of_predictions(path: Any) -> Found:
    found = read_predictions(path, Wanted(text="text", keyed=False))
    assert found.texts is not None
    ids = read_predictions(path).ids
    assert ids is not None
    return {
        "label": found.y_true.astype(int).tolist(),
        "score": found.scores["score"].tolist(),
        "text": found.texts.tolist(),
        "sorted ids": ids.tolist(),
    }


def of_data(path: Path) -> Found:
    data = read_data(path, Reading(id="id"))
    assert data.label_fault is None
    assert data.rows.ids is not None
    return {
        "id": data.rows.ids.tolist(),
        "label": data.rows.y_true.tolist(),
        "text": list(data.rows.features),
    }


def of_loader(path: Path) -> Found:
    rows = FileLoader(path, id_col="id", backend="columns").load_splits()["all"]
    assert rows.ids is not None
    return {
        "id": rows.ids.tolist(),
        "label": rows.y_true.tolist(),
        "text": list(rows.features),
        "score": rows.df["score"].tolist(),
    }


def of_import(path: Path) -> Found:
    (log,) = read_logs(path, WantedOfLogs(input_field="text"))
    assert log.kind == "rows"
    return {
        "id": [sample.unit_id for sample in log.samples],
        "label": [sample.values["label"] for sample in log.samples],
        "score": [sample.values["score"] for sample in log.samples],
        "text": [sample.input for sample in log.samples],
    }


def of_artifact(path: Path) -> Found:
    kinds = {".csv": "text/csv", ".tsv": "text/tab-separated-values", ".jsonl": "application/jsonl"}
    suffix = path.name.removesuffix(".gz").removeprefix("p")
    media = {**kinds, ".parquet": "application/parquet"}.get(suffix)
    if media is None:
        pytest.skip("no media type of a prediction artifact")
    columns = PredictionColumns(label="label", score="score", row_id="id")
    found = load_predictions(PredictionArtifactRef(str(path), media, columns))
    return {
        "id": list(found.row_ids),
        "label": found.labels.tolist(),
        "score": found.scores.tolist(),
    }


def of_task(path: Path) -> Found:
    rows = task_rows(path, "test")
    return {"id": [row["id"] for row in rows], "text": [row["text"] for row in rows]}


def of_seeds(path: Path) -> Found:
    seeds = load_seeds(path, prompt="text", safe="label", topic="", category="")
    return {
        "id": [seed.id for seed in seeds],
        "label": [seed.safe for seed in seeds],
        "text": [seed.prompt for seed in seeds],
    }


USERS = {
    "score": of_predictions,
    "check": of_data,
    "loader": of_loader,
    "import": of_import,
    "artifact": of_artifact,
    "task": of_task,
    "seeds": of_seeds,
}
EXPECTED: Found = {
    "id": IDS,
    "label": CLASSES,
    "score": SCORES,
    "text": TEXTS,
    "sorted ids": sorted(IDS),
}


def assert_expected(found: Found, kind: str, user: str) -> None:
    assert len(found) > 1
    if (kind, user) == ("decimal commas, quoted", "loader"):
        # as it stands and between commas, "0,5" may be a list as well: it stays text
        del found["score"]
    assert found == {name: EXPECTED[name] for name in found}


@pytest.mark.parametrize("user", USERS)
@each("kind", FILES)
def test_every_format_for_every_user(written: Any, kind: str, user: str) -> None:
    assert_expected(USERS[user](written(*FILES[kind])), kind, user)


# --- rows in memory, and several files --------------------------------------------------------------


def pandas_frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def arrow_table(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def list_of_dicts(columns: dict[str, Any]) -> Any:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


MAKERS = [dict, list_of_dicts, pandas_frame, polars_frame, arrow_table]


@pytest.mark.parametrize("make", MAKERS)
def test_rows_in_memory_are_read_as_those_of_a_file(make: Any) -> None:
    columns = dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True))
    assert of_predictions(make(columns)) == {
        name: EXPECTED[name] for name in ("label", "score", "text", "sorted ids")
    }


@pytest.mark.parametrize("make", MAKERS)
def test_bad_rows_in_memory_are_named(make: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_predictions(make({"label": ["b", "a", "b"], "score": [0.1, 0.2, 0.3]}))
    assert str(caught.value) == (
        "the data: row 1: 'label' is 'b'; labels must be 0 or 1 (3 such rows: row 1 'b', "
        "row 2 'a', row 3 'b'): pass label_map={'a': 0, 'b': 1} with 1 for positive"
    )
    with pytest.raises(InvalidInputError, match="the data: row 2: 'score' is 'x'; it must be a"):
        read_predictions(make({"label": [0, 1], "score": ["0.5", "x"]}))
    gap = make({"label": [0, 1], "score": [0.5, None]})
    with pytest.raises(InvalidInputError, match="the data: row 2: 'score' is missing; fill it in"):
        read_predictions(gap)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="row 1 is 3; every row must be a mapping"):
        read_predictions([3])
    with pytest.raises(InvalidTypeError, match="`df` is a float"):
        read_predictions(1.5)
    with pytest.raises(InvalidInputError, match="the data has no rows"):
        read_predictions({"label": [], "score": []})


def test_weights(written: Any) -> None:
    rows = {"label": [0, 1, 1], "score": [0.1, 0.2, 0.3], "w": [1, "0,5", 0]}
    found = read_predictions(rows, Wanted(weight="w"))
    assert found.weights is not None
    assert found.weights.tolist() == [1.0, 0.5, 0.0]
    with pytest.raises(InvalidInputError, match="row 2: 'w' is -1; weights must not be negative"):
        read_predictions({**rows, "w": [1, -1, 1]}, Wanted(weight="w"))


def test_files_of_different_formats_below_each_other(written: Any) -> None:
    files = [written("a.csv", "id;label;score\nx;TRUE;0,5\n"), written("b.jsonl", "")]
    files[1].write_text('{"id": "y", "label": false, "score": 1}\n')
    found = read_predictions(files)
    assert found.y_true.tolist() == [True, False]
    assert found.scores["score"].tolist() == [0.5, 1.0]
    assert found.where(1) == f"{files[1]}: row 1"
    files[1].write_text('{"id": "y", "label": "no", "score": 1}\n')
    with pytest.raises(InvalidInputError, match=r"b\.jsonl: row 1: 'label' is 'no'; labels must"):
        read_predictions(files)


# --- label texts ------------------------------------------------------------------------------------


def of_slice(path: Path) -> Found:
    rows = read_rows(path, texts=["label", "text"]).columns
    return {"label": EvalSlice("all", dict(rows)).y_true.tolist()}


def of_frame(path: Path) -> Found:
    rows = read_rows(path, texts=["label", "text"]).columns
    frame = {**rows, "split": ["all"] * len(rows["text"])}
    return {"label": DataFrameLoader(frame, "split").load_splits()["all"].y_true.tolist()}


LABELLED = {
    **{name: USERS[name] for name in ("score", "check", "loader", "import", "artifact", "seeds")},
    "slice": of_slice,
    "frame": of_frame,
}
TRUTHS = ["1", "1.0", "1.00", "01", "+1", "1e0", "1,0", "true", "TRUE", "True ", "  true"]
FALSEHOODS = ["0", "0.0", "0.000", "-0", "0,00", "false", "FALSE", " False"]


def table(labels: list[str]) -> str:
    rows = [f"r{n}\t{label}\t0.5\ttext {n}\n" for n, label in enumerate(labels)]
    return "\t".join(NAMES) + "\n" + "".join(rows)


@pytest.mark.parametrize("user", LABELLED)
def test_the_same_label_texts_everywhere(written: Any, user: str) -> None:
    path = written("p.tsv", table(TRUTHS + FALSEHOODS))
    assert LABELLED[user](path)["label"] == [1] * len(TRUTHS) + [0] * len(FALSEHOODS)


NO_LABELS = ["2", "0.7", "1,000", "1_0", "yes", "t", "nan", "-1", "1 0", "٠"]


@pytest.mark.parametrize("label", NO_LABELS)
@pytest.mark.parametrize("user", sorted(LABELLED.keys() - {"seeds"}))
def test_the_same_texts_are_no_labels_everywhere(written: Any, user: str, label: str) -> None:
    path = written("p.tsv", table(["0", "1", label]))
    if user == "import":  # then it is no table of scores, but one of outcomes
        assert [log.kind for log in read_logs(path)] == ["task"]
        return
    if user == "check":
        fault = read_data(path, Reading()).label_fault
        assert fault is not None
        assert fault.startswith(f"{path}: row 3: 'label' is ")
        return
    with pytest.raises(InvalidInputError, match=r"row 3: 'label' is |label\[2\] is "):
        LABELLED[user](path)


MAPPED: dict[str, Callable[[Path], list[Any]]] = {
    "score": lambda path: read_predictions(
        path, Wanted(labels=LabelMap.of(None, "no,yes"))
    ).y_true.tolist(),
    "check": lambda path: read_data(
        path, Reading(labels=LabelMap.of("yes", None))
    ).rows.y_true.tolist(),
    "loader": lambda path: (
        FileLoader(path, label_map={"no": 0, "yes": 1}).load_splits()["all"].y_true.tolist()
    ),
    "import": lambda path: [
        sample.values["label"]
        for sample in read_logs(path, WantedOfLogs(labels=LabelMap.of(None, "no,yes")))[0].samples
    ],
}


@pytest.mark.parametrize("user", MAPPED)
def test_words_with_a_map(written: Any, user: str) -> None:
    path = written("p.tsv", table(["yes", "no", "yes ", " no"]))
    assert MAPPED[user](path) == [1, 0, 1, 0]
    bad = written("q.tsv", table(["yes", "no", ""]))
    with pytest.raises(InvalidInputError, match=r"q\.tsv: row 3: 'label' is missing; every row"):
        MAPPED[user](bad)


@pytest.mark.parametrize("user", sorted(LABELLED.keys() - {"seeds", "import", "check"}))
def test_the_first_five_bad_rows_are_listed(written: Any, user: str) -> None:
    path = written("p.tsv", table(["0", *(["ham", "spam"] * 4), ""]))
    with pytest.raises(InvalidInputError) as caught:
        LABELLED[user](path)
    told = str(caught.value)
    at = {"slice": "label[{}]"}.get(user, "row {}")
    first = 1 if user == "slice" else 2
    rows = [
        f"{at.format(first + n)} '{word}'" for n, word in enumerate(["ham", "spam"] * 2 + ["ham"])
    ]
    assert f"(9 such rows: {', '.join(rows)}, …)" in told
    assert told.endswith(
        "pass a `label_map` from label to 0 or 1; the labels are '0', 'ham', 'spam'"
    )
    assert "\n" not in told


# --- odd files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "how", "message"),
    [
        ("p.csv", "", {}, "the file is empty (0 bytes)"),
        ("p.csv", "id;label\n", {}, "the file has no rows below the column names"),
        ("p.csv", "id,label\n1\n", {}, "line 2: Expected Number of Columns: 2 Found: 1"),
        ("p.csv", "id;label\n1;2;3\n", {}, "the columns seem to be separated by semicolons"),
        ("p.csv", "a;b|c;d|e\n1;0|1;0|1\n", {}, "may be separated by semicolons or vertical bars"),
        (
            "p.csv",
            '{"id": 1}\n',
            {},
            "contains JSON; rename it to .jsonl (one object per line) or .json",
        ),
        ("p.jsonl", "[1, 2]\n", {}, "contains a JSON array; rename it to .json"),
        ("p.csv", b"\xff\xfei\0d\0", {}, "is encoded as UTF-16; save it as UTF-8"),
        ("p.csv", b"id,a\nx\xe9,1\n", {}, "line 2: a character is not UTF-8; save the file as"),
        ("p.csv", "id\tn\n1\t2\n", {"separator": ";;"}, "`separator` is ';;'; it must be one"),
        ("p.csv", "id\tn\n1\t2\n", {"decimal": "x"}, "`decimal` is 'x'; it must be . or ,"),
    ],
)
def test_odd_files(written: Any, name: str, content: Any, how: Any, message: str) -> None:
    path = written(name, content)
    with pytest.raises(ValueError) as caught:
        read_rows(path, texts=["id"], file_format=FileFormat(**how))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cells", "how", "found"),
    [
        (["0,5", "12", "1,234"], {}, [0.5, 12.0, 1.234]),
        (["1,234", "5,678"], {"decimal": ","}, [1.234, 5.678]),
        (["-0,5", "+1,5e3", ",5"], {}, [-0.5, 1500.0, 0.5]),
        (["0.5", "1e-3", " 7 "], {}, [0.5, 0.001, 7.0]),
    ],
)
def test_decimal_marks(written: Any, cells: list[str], how: Any, found: list[float]) -> None:
    path = written("p.csv", "id;n\n" + "".join(f"{n};{cell}\n" for n, cell in enumerate(cells)))
    rows = read_rows(path, numbers=["n"], file_format=FileFormat(**how))
    assert rows.columns["n"].tolist() == found


@pytest.mark.parametrize(
    ("cells", "how", "message"),
    [
        (["1,234", "5,678"], {}, "the comma may separate thousands; pass decimal=','"),
        (["0,5", "0.5"], {}, "row 1: 'n' is '0,5'; it must be a finite number: write numbers"),
        (["1.234,5", "0,5"], {}, "(2 such rows: row 1 '1.234,5', row 2 '0,5'): write numbers"),
        (["1,234.5", "2.5"], {}, "row 1: 'n' is '1,234.5'; it must be a finite number: write"),
        (["0,5", "1"], {"decimal": "."}, "row 1: 'n' is '0,5'; it must be"),
        (["0.5", "1"], {"decimal": ","}, "row 1: 'n' is '0.5'; it must be"),
        (["0,5", "x", "", "y"], {}, "number (3 such rows: row 2 'x', row 3 missing, row 4 'y')"),
    ],
)  # fmt: skip
def test_numbers_are_never_read_on_another_scale(
    written: Any, cells: list[str], how: Any, message: str
) -> None:
    path = written("p.csv", "id;n\n" + "".join(f"{n};{cell}\n" for n, cell in enumerate(cells)))
    with pytest.raises(InvalidInputError) as caught:
        read_rows(path, numbers=["n"], file_format=FileFormat(**how))
    assert message in str(caught.value)


def test_two_decimal_marks_in_one_file_are_refused(written: Any) -> None:
    path = written("p.csv", "a;b\n0,5;1.234\n0,25;5.678\n")
    with pytest.raises(InvalidInputError) as caught:
        read_rows(path, numbers=["a", "b"])
    assert "'a' has decimal commas ('0,5') but 'b' has points ('1.234')" in str(caught.value)
    assert read_rows(path, numbers=["b"]).columns["b"].tolist() == [1.234, 5.678]


def test_a_column_as_it_stands_may_have_decimal_commas(written: Any) -> None:
    path = written("p.csv", "a;b;c\n0,5;1,234;007\n2;5,678;8\n")
    columns = read_rows(path, columns=["a", "b", "c"]).columns
    assert columns["a"].tolist() == [0.5, 2.0]
    assert columns["b"].tolist() == ["1,234", "5,678"]  # or thousands: they stay texts
    assert columns["c"].tolist() == ["007", "8"]


def test_the_separator_is_found_in_a_long_first_record(written: Any) -> None:
    long = "x" * 200_000
    path = written("p.csv", f'id;"{long}\n{long}";label\n1;2;1\n')
    assert read_rows(path, labels=["label"]).classes("label").tolist() == [True]


@pytest.mark.parametrize("text", ["a\nx;y\nz\n", "a\nx,y\n", "a;\nx;y\n"])
def test_a_file_of_one_column(written: Any, text: str) -> None:
    name = text.split("\n")[0]
    path = written("p.csv" if "," not in text else "p.tsv", text)
    assert read_rows(path, texts=[name]).columns[name].tolist() == text.split("\n")[1:-1]


# --- standard input ---------------------------------------------------------------------------------


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    def pipe(path: Path) -> str:
        stream = io.TextIOWrapper(io.BytesIO(path.read_bytes()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        return "-"

    return pipe


@pytest.mark.parametrize("user", ["score", "loader", "import", "seeds"])
@each("kind", FILES)
def test_standard_input_in_every_format(
    written: Any, piped: Callable[[Path], Any], kind: str, user: str
) -> None:
    assert_expected(USERS[user](piped(written(*FILES[kind]))), kind, user)  # type: ignore[operator]


def test_standard_input_is_read_once_and_named(written: Any, piped: Any) -> None:
    given = piped(written("p.csv", "label,score\n0,0.5\nx,1\n"))
    with pytest.raises(InvalidInputError, match=r"^stdin: row 2: 'label' is 'x'; labels must be"):
        read_predictions(given)
    with pytest.raises(InvalidInputError, match=r"^stdin: row 1: 'label' is 'x'"):
        read_predictions(piped(written("p.csv", "label,score\nx,1\n")))
    with pytest.raises(InvalidInputError, match="- was given twice; standard input can be read"):
        read_predictions([given, given])
    with pytest.raises(ValueError, match=r"^stdin: the file is empty \(0 bytes\)"):
        read_predictions(piped(written("p.csv", "")))


def test_a_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(InvalidInputError, match="nothing is piped into it"):
        read_predictions("-")


def test_standard_input_has_a_limit(
    written: Any, piped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eval_toolkit._internal.files import limits

    monkeypatch.setattr(limits, "UNPACKED_BYTES", 1000)
    path = written("p.csv", "label,score\n" + "0,0.5\n" * 500)
    with pytest.raises(ValueError, match="stdin: contains more than"):
        read_predictions(piped(path))
