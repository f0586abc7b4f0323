"""Loaders of frames and files: what they return, what they refuse, what they describe."""

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eval_toolkit._internal.tables import write_table
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.loaders import (
    DataFrameLoader,
    FileLoader,
    ParquetGlobLoader,
    SingleSliceLoader,
)
from eval_toolkit.protocols import DatasetLoader
from eval_toolkit.slices import EvalSlice

SEED_KEYS = {"name", "description", "citeAs", "license", "url", "distribution"}
N = 40
ROWS = {
    "text": [f"text {i}" for i in range(N)],
    "label": [i % 2 for i in range(N)],
    "split": ["train" if i % 4 else "test" for i in range(N)],
    "lang": ["en" if i % 5 else "de" for i in range(N)],
    "key": [f"{i:03d}" for i in range(N)],
    "size": [i / 2 for i in range(N)],
}
FORMATS = [
    "rows.csv",
    "rows.tsv",
    "rows.jsonl",
    "rows.json",
    "rows.parquet",
    "rows.csv.gz",
    "rows.jsonl.gz",
]


@pytest.fixture(params=FORMATS)
def file(request, tmp_path: Path) -> Path:
    return write_table(ROWS, tmp_path / request.param)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write_table(ROWS, tmp_path / "rows.csv")


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# --- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_data_frame_loader(make):
    loader = DataFrameLoader(make(ROWS), "split", strata_col="lang", id_col="key", name="demo")
    splits = loader.load_splits()
    assert list(splits) == ["test", "train"]  # in order of first occurrence
    assert (splits["train"].n, splits["test"].n) == (30, 10)
    assert type(splits["train"].df) is type(make(ROWS))
    assert splits["test"].ids[1] == "004"
    assert isinstance(loader, DatasetLoader)
    described = loader.describe()
    assert set(described) >= SEED_KEYS | {"n_total_rows", "split_col"}
    assert described["name"] == "demo"
    assert described["distribution"] == []
    assert (described["n_total_rows"], described["split_col"]) == (40, "split")
    json.dumps(described, allow_nan=False)


def test_data_frame_loader_maps_labels_without_touching_the_frame():
    frame = pd.DataFrame(
        {"text": ["a", "b"], "label": ["ham", "spam"], "split": ["x", "x"]}, index=[5, 9]
    )
    loader = DataFrameLoader(frame, "split", label_map={"ham": 0, "spam": 1})
    assert loader.load_splits()["x"].y_true.tolist() == [0, 1]
    assert frame["label"].tolist() == ["ham", "spam"]
    with pytest.raises(InvalidInputError) as raised:
        DataFrameLoader(frame, "split").load_splits()
    assert str(raised.value) == (
        "`df`: row 1: 'label' is 'ham'; labels must be 0 or 1 "
        "(2 such rows: row 1 'ham', row 2 'spam'): "
        "pass label_map={'ham': 0, 'spam': 1} with 1 for positive"
    )


def test_data_frame_loader_messages():
    with pytest.raises(
        KeyError, match=r"there is no column 'fold' \(split_col\); the columns are 'text'"
    ):
        DataFrameLoader(ROWS, "fold")
    with pytest.raises(KeyError, match=r"there is no column 'who' \(group_col\)"):
        DataFrameLoader(ROWS, "split", group_col="who")
    gap = {"text": ["a", "b"], "label": [0, 1], "split": ["train", None]}
    with pytest.raises(InvalidInputError, match=r"split\[1\] is missing; every row needs a split"):
        DataFrameLoader(gap, "split").load_splits()
    numbered = {"text": ["a", "b"], "label": [0, 1], "fold": [1, 2]}
    assert list(DataFrameLoader(numbered, "fold").load_splits()) == ["1", "2"]


def test_single_slice_loader():
    slice_ = EvalSlice("demo", dict(ROWS), "what it is", strata_col="lang")
    loader = SingleSliceLoader(slice_)
    assert isinstance(loader, DatasetLoader)
    loaded = loader.load_splits()["all"]
    assert (loaded.name, loaded.n, loaded.strata_col) == ("all", 40, "lang")
    described = loader.describe()
    assert set(described) >= SEED_KEYS
    assert (described["name"], described["description"]) == ("demo", "what it is")
    assert SingleSliceLoader(slice_, name="other").describe()["name"] == "other"
    with pytest.raises(TypeError, match="`slice_` is a dict; it must be an EvalSlice"):
        SingleSliceLoader({})


# --- files ---------------------------------------------------------------------------------------


def test_every_format_gives_the_same_slice(file):
    loaded = FileLoader(file, id_col="key", strata_col="lang").load_splits()["all"]
    assert loaded.features == ROWS["text"]
    assert loaded.y_true.tolist() == ROWS["label"]
    assert loaded.ids.tolist() == ROWS["key"]
    assert loaded.strata.tolist() == ROWS["lang"]
    assert isinstance(loaded.df, pd.DataFrame)
    assert loaded.df["size"].tolist() == ROWS["size"]


def test_every_format_splits_picks_and_samples_alike(file):
    splits = FileLoader(file, split_col="split").load_splits()
    assert {name: part.n for name, part in splits.items()} == {"test": 10, "train": 30}
    limited = FileLoader(file, split_col="split", limit=3).load_splits()
    assert limited["train"].features == ["text 1", "text 2", "text 3"]
    assert limited["test"].features == ["text 0", "text 4", "text 8"]
    german = FileLoader(file, where={"lang": "de", "label": [1]}).load_splits()["all"]
    assert german.features == ["text 5", "text 15", "text 25", "text 35"]
    sample = FileLoader(file, sample_size=6, seed=3, id_col="key").load_splits()["all"]
    assert sample.n == 6
    # the same rows whatever the format: the sample depends on ids and seed
    other = write_table(ROWS, file.parent / "other.parquet")
    assert (
        sample.ids.tolist()
        == FileLoader(other, sample_size=6, seed=3, id_col="key").load_splits()["all"].ids.tolist()
    )


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        (None, pd.DataFrame),
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("pyarrow", pa.Table),
        ("columns", dict),
    ],
)
def test_backends(csv, backend, kind):
    loaded = FileLoader(csv, backend=backend, id_col="key").load_splits()["all"]
    assert isinstance(loaded.df, kind)
    assert (loaded.n, loaded.n_positive, loaded.ids[7]) == (40, 20, "007")


def test_samples_nest_and_do_not_depend_on_order_or_files(tmp_path, csv):
    def ids(source, size, **options):
        loader = FileLoader(source, sample_size=size, id_col="key", **options)
        return loader.load_splits()["all"].ids.tolist()

    assert set(ids(csv, 5)) < set(ids(csv, 15)) < set(ids(csv, 100))
    assert ids(csv, 100) == ROWS["key"]
    assert ids(csv, 5) != ids(csv, 5, seed=43)
    shuffled = {name: values[::-1] for name, values in ROWS.items()}
    back = write_table(shuffled, tmp_path / "back.csv")
    assert set(ids(back, 9)) == set(ids(csv, 9))
    halves = [
        write_table(
            {name: values[part] for name, values in ROWS.items()}, tmp_path / f"half{i}.csv"
        )
        for i, part in enumerate((slice(0, 15), slice(15, None)))
    ]
    assert ids(halves, 9) == ids(csv, 9)
    # without ids a row is known by its file and place
    plain = FileLoader(halves, sample_size=9).load_splits()["all"]
    assert plain.n == 9
    assert plain.features == FileLoader(halves, sample_size=9).load_splits()["all"].features


def test_limit_runs_over_files(tmp_path):
    for i in range(3):
        write_table(
            {"text": [f"{i}{j}" for j in range(4)], "label": [0, 1, 0, 1]}, tmp_path / f"p{i}.jsonl"
        )
    loader = FileLoader(str(tmp_path / "p*.jsonl"), limit=6)
    assert loader.load_splits()["all"].features == ["00", "01", "02", "03", "10", "11"]
    everything = FileLoader(str(tmp_path / "p*.jsonl")).load_splits()["all"]
    assert everything.n == 12


def test_columns(csv):
    assert set(FileLoader(csv).load_splits()["all"].df) == set(ROWS)
    assert set(FileLoader(csv, columns=[]).load_splits()["all"].df) == {"text", "label"}
    kept = FileLoader(csv, columns=["size"], id_col="key").load_splits()["all"].df
    assert set(kept) == {"text", "label", "size", "key"}
    tabular = FileLoader(csv, feature_col=["size", "lang"], columns=[]).load_splits()["all"]
    assert tabular.inputs[1] == [0.5, "en"]
    numeric = FileLoader(csv, feature_col="size", text_cols=[], columns=[]).load_splits()["all"]
    assert numeric.features[:3] == [0.0, 0.5, 1.0]
    assert FileLoader(csv, feature_col="size", columns=[]).load_splits()["all"].features[1] == "0.5"


def test_named_splits_and_globs(tmp_path):
    for name in ("train-0", "train-1", "test-0"):
        write_table({"text": [name, name + "b"], "label": [0, 1]}, tmp_path / f"{name}.parquet")
    for loader in (
        FileLoader(
            {"train": str(tmp_path / "train-*.parquet"), "test": tmp_path / "test-0.parquet"}
        ),
        ParquetGlobLoader(
            {"train": str(tmp_path / "train-*.parquet"), "test": str(tmp_path / "test-*.parquet")}
        ),
    ):
        splits = loader.load_splits()
        assert splits["train"].features == ["train-0", "train-0b", "train-1", "train-1b"]
        assert splits["test"].n == 2
        described = loader.describe()
        assert [file["name"] for file in described["distribution"]] == [
            "train-0.parquet",
            "train-1.parquet",
            "test-0.parquet",
        ]
        first = described["distribution"][0]
        data = (tmp_path / "train-0.parquet").read_bytes()
        assert first["sha256"] == hashlib.sha256(data).hexdigest()
        assert first["contentSize"] == f"{len(data)} B"
        assert set(first) >= {"name", "contentUrl", "sha256", "contentSize"}
    missing = ParquetGlobLoader({"train": str(tmp_path / "dev-*.parquet")})
    for call in (missing.load_splits, missing.describe):
        with pytest.raises(FileNotFoundError, match=r"dev-\*.parquet: no file matches"):
            call()
    assert ParquetGlobLoader({"a": "x"}).name == ""
    with pytest.raises(TypeError, match="it must be a dict of split name to glob"):
        ParquetGlobLoader("x.parquet")


def test_parquet_by_content_not_by_name(tmp_path):
    odd = write_table(
        {"text": ["a"], "label": [1]}, tmp_path / "part-000", media_type="application/parquet"
    )
    assert ParquetGlobLoader({"all": str(odd)}).load_splits()["all"].features == ["a"]


def test_tsv_without_header_or_quoting(tmp_path):
    path = written(tmp_path / "sms.tsv", 'ham\tHe said "hi\nspam\t"Free" entry\n')
    loader = FileLoader(
        path, header=["label", "text"], quoting=False, label_map={"ham": 0, "spam": 1}
    )
    loaded = loader.load_splits()["all"]
    assert loaded.features == ['He said "hi', '"Free" entry']
    assert loaded.y_true.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["0", "1"], [0, 1]),
        (["True", "False"], [1, 0]),
        (["1.0", "0.0"], [1, 0]),
        (["0", "true"], [0, 1]),
    ],
)
def test_labels_that_need_no_map(tmp_path, labels, expected):
    path = written(tmp_path / "x.csv", "text,label\n" + "".join(f"t,{label}\n" for label in labels))
    assert FileLoader(path).load_splits()["all"].y_true.tolist() == expected


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            "a,ham\nb,spam\n",
            {},
            "x.csv: row 1: 'label' is 'ham'; labels must be 0 or 1 (2 such rows: row 1 'ham', row 2 'spam'): pass label_map={'ham': 0, 'spam': 1} with 1 for positive",
        ),
        (
            "a,0\nb,2\n",
            {},
            "x.csv: row 2: 'label' is 2; labels must be 0 or 1: pass label_map={'0': 0, '2': 1} with 1 for positive",
        ),
        ("a,0\nb,\n", {}, "x.csv: row 2: 'label' is missing; every row needs a label"),
        (
            "a,0\nb,spam\n",
            {"label_map": {"ham": 0, "spam": 1}},
            "x.csv: row 1: 'label' is 0, which is not in label_map ('ham', 'spam'); add it there",
        ),
        (
            "a,0\n,1\n",
            {},
            "x.csv: row 2: 'text' is empty; pass missing_text='' to read it as an empty string",
        ),
    ],
)
def test_one_line_about_file_row_value_and_fix(tmp_path, rows, options, message):
    path = written(tmp_path / "x.csv", "text,label\n" + rows)
    with pytest.raises(InvalidInputError) as raised:
        FileLoader(path, **options).load_splits()
    assert str(raised.value) == f"{tmp_path}/{message}"


def test_the_row_number_is_the_files_own_under_a_filter(tmp_path):
    a = written(tmp_path / "a.csv", "text,label,lang\na,0,en\nb,1,de\n")
    b = written(tmp_path / "b.csv", "text,label,lang\nc,0,en\nd,x,en\ne,y,de\n")
    with pytest.raises(InvalidInputError, match=r"b\.csv: row 3: 'label' is 'y'"):
        FileLoader([a, b], where={"lang": "de"}).load_splits()
    with pytest.raises(InvalidInputError, match=r"b\.csv: row 2: 'label' is 'x'"):
        FileLoader([a, b]).load_splits()


def test_label_maps(tmp_path):
    path = written(
        tmp_path / "x.jsonl", '{"text": "a", "label": 3}\n{"text": "b", "label": "five"}\n'
    )
    assert FileLoader(path, label_map={3: 0, "five": 1}).load_splits()["all"].y_true.tolist() == [
        0,
        1,
    ]
    assert FileLoader(path, label_map={"3": 1, "five": 0}).load_splits()["all"].y_true.tolist() == [
        1,
        0,
    ]
    for bad in ({}, {"a": 2}, {"a": "1"}, {"a": True}, [("a", 1)]):
        with pytest.raises(ValueError, match="label"):
            FileLoader(path, label_map=bad)


def test_missing_text(tmp_path):
    path = written(
        tmp_path / "x.jsonl",
        '{"text": null, "label": 0}\n{"text": "", "label": 1}\n{"label": 1, "text": "c"}\n',
    )
    with pytest.raises(InvalidInputError, match=r"x\.jsonl: row 1: 'text' is empty"):
        FileLoader(path).load_splits()
    assert FileLoader(path, missing_text="").load_splits()["all"].features == ["", "", "c"]


def test_split_column_messages(tmp_path, csv):
    gap = written(tmp_path / "gap.csv", "text,label,split\na,0,train\nb,1,\n")
    with pytest.raises(
        InvalidInputError, match=r"gap\.csv: row 2: 'split' is missing; every row needs a split"
    ):
        FileLoader(gap, split_col="split").load_splits()
    with pytest.raises(
        MissingColumnError, match=r"rows\.csv: there is no column 'fold'; the columns are 'text'"
    ):
        FileLoader(csv, split_col="fold").load_splits()
    only = FileLoader(csv, split_col="split", where={"split": "train"}).load_splits()
    assert list(only) == ["train"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 3, "sample_size": 3}, "pass either `limit` .* or `sample_size` .*, not both"),
        ({"limit": 0}, "`limit` is 0; it must be at least 1"),
        ({"sample_size": 2.5}, "`sample_size` must be an integer"),
        ({"columns": "text"}, "`columns` is 'text'; it must be a list"),
        ({"where": {"lang": []}}, r"where\['lang'\] is empty"),
        ({"seed": -4}, "`seed` is -4"),
    ],
)
def test_options_are_checked_at_construction(csv, options, message):
    with pytest.raises(ValueError, match=message):
        FileLoader(csv, **options)


def test_sources_are_checked(tmp_path, csv):
    with pytest.raises(
        InvalidInputError,
        match="`source` and `split_col` both define the splits; pass only one of them",
    ):
        FileLoader({"a": csv}, split_col="split")
    with pytest.raises(InvalidInputError, match="`source` is empty; pass at least one split"):
        FileLoader({})
    with pytest.raises(FileNotFoundError, match=r"none\.csv: no such file"):
        FileLoader(tmp_path / "none.csv").load_splits()
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ArtifactError, match=r"empty\.csv: the file is empty \(0 bytes\)"):
        FileLoader(tmp_path / "empty.csv").load_splits()
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(csv.read_bytes())[:-20])
    with pytest.raises(ArtifactError, match=r"cut\.csv\.gz: "):
        FileLoader(cut).load_splits()
    with pytest.raises(
        MissingColumnError, match=r"rows\.csv: there is no column 'prompt'; the columns are"
    ):
        FileLoader(csv, feature_col="prompt").load_splits()
    with pytest.raises(MissingColumnError, match="'target'"):
        FileLoader(csv, label_col="target").load_splits()
    with pytest.raises(InvalidInputError, match="no row of split 'all' satisfies where="):
        FileLoader(csv, where={"lang": "fr"}).load_splits()
    other = written(tmp_path / "other.csv", "text,label,more\na,0,1\n")
    with pytest.raises(
        ArtifactError, match=r"other\.csv: its columns differ .* in \['key', 'lang', 'more'"
    ):
        FileLoader([csv, other]).load_splits()
    assert FileLoader([csv, other], columns=[]).load_splits()["all"].n == 41


def test_times_and_groups(tmp_path):
    path = written(tmp_path / "x.csv", "text,label,day,who\na,0,2026-01-02,007\nb,1,2026-01-01,7\n")
    loaded = FileLoader(path, time_col="day", group_col="who", columns=[]).load_splits()["all"]
    assert loaded.groups.tolist() == ["007", "7"]
    assert loaded.times.tolist() == ["2026-01-02", "2026-01-01"]


# --- descriptions --------------------------------------------------------------------------------


def croissant(described: dict, folder: Path):
    """Return the description as mlcroissant reads it; it raises where it is not valid."""
    mlcroissant = pytest.importorskip("mlcroissant")
    path = folder / "croissant.json"
    path.write_text(json.dumps(described, allow_nan=False), encoding="utf-8")
    return mlcroissant.Dataset(jsonld=str(path))


@pytest.mark.filterwarnings("ignore")
def test_descriptions_without_files_are_valid_croissant(tmp_path):
    frame = DataFrameLoader(ROWS, "split", name="demo", url="https://example.org", license="MIT")
    single = SingleSliceLoader(EvalSlice("demo", dict(ROWS)))
    for loader in (frame, single, DataFrameLoader(ROWS, "split")):
        dataset = croissant(loader.describe(), tmp_path)
        assert dataset.metadata.name in ("demo", "DataFrameLoader")
        assert not dataset.metadata.ctx.issues.errors


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.jsonl", "rows.parquet", "rows.tsv", "rows.json"]
)
def test_a_described_file_can_be_read_by_mlcroissant(tmp_path, name):
    path = write_table(ROWS, tmp_path / name)
    loader = FileLoader(
        path,
        split_col="split",
        id_col="key",
        name="demo",
        description="d",
        cite_as="c",
        license="MIT",
        url="https://example.org",
    )
    described = loader.describe()
    assert set(described) >= SEED_KEYS | {"@context", "@type", "conformsTo", "recordSet"}
    dataset = croissant(described, tmp_path)
    assert not dataset.metadata.ctx.issues.errors
    records = list(dataset.records("all"))
    assert len(records) == N
    value = records[3]["all/text"]
    assert (value.decode() if isinstance(value, bytes) else value) == "text 3"
    assert [int(record["all/label"]) for record in records] == ROWS["label"]


@pytest.mark.filterwarnings("ignore")
def test_several_files_are_valid_croissant(tmp_path):
    for folder in ("a", "b"):
        write_table({"text": [folder], "label": [1]}, tmp_path / folder / "part.csv")
    described = FileLoader(str(tmp_path / "*" / "part.csv"), label_map={"1": 1}).describe()
    names = [file["name"] for file in described["distribution"]]
    assert len(set(names)) == 2
    dataset = croissant(described, tmp_path)
    assert not dataset.metadata.ctx.issues.errors
    assert [len(list(dataset.records(records["@id"]))) for records in described["recordSet"]] == [
        1,
        1,
    ]


@pytest.mark.filterwarnings("ignore")
def test_names_with_spaces_are_valid_croissant(tmp_path):
    path = write_table({"the text": ["a", "b"], "is spam?": [0, 1]}, tmp_path / "my rows.csv")
    loader = FileLoader({"my split": path}, feature_col="the text", label_col="is spam?")
    assert loader.load_splits()["my split"].n_positive == 1
    described = loader.describe()
    dataset = croissant(described, tmp_path)
    assert not dataset.metadata.ctx.issues.errors
    assert described["distribution"][0]["name"] == "my rows.csv"
    assert len(list(dataset.records(described["recordSet"][0]["@id"]))) == 2


def test_sms_spam_as_published(shared_data):
    """The collection's own readme: 5 574 messages, 747 of them spam."""
    loader = FileLoader(
        shared_data / "classification" / "sms_spam_collection.tsv",
        header=["label", "text"],
        quoting=False,
        label_map={"ham": 0, "spam": 1},
    )
    loaded = loader.load_splits()["all"]
    assert (loaded.n, loaded.n_positive) == (5574, 747)


def test_hatecheck_with_its_templates_as_groups(shared_data):
    """The paper: 3 728 cases, 2 563 hateful; templates fill several cases each."""
    loader = FileLoader(
        shared_data / "classification" / "hatecheck_test_suite_cases.csv",
        feature_col="test_case",
        label_col="label_gold",
        label_map={"hateful": 1, "non-hateful": 0},
        strata_col="functionality",
        group_col="templ_id",
        id_col="case_id",
    )
    loaded = loader.load_splits()["all"]
    assert (loaded.n, loaded.n_positive) == (3728, 2563)
    assert len(set(loaded.strata.tolist())) == 29
    sample = FileLoader(
        loader.source, feature_col="test_case", label_col="label_gold", label_map=loader.label_map,
        where={"target_ident": "women"}, columns=[], limit=5,
    ).load_splits()["all"]  # fmt: skip
    assert sample.n == 5


@pytest.mark.slow
def test_a_large_file_is_not_held_in_memory(tmp_path):
    """Peak memory of a small sample stays below the size of the file it is drawn from."""
    path = tmp_path / "big.csv"
    duckdb.sql(
        "COPY (SELECT i AS key, repeat('x', 400) || i AS text, i % 2 AS label "  # noqa: S608
        f"FROM range(1200000) t(i)) TO '{path}' (HEADER)"
    )
    code = (
        "import resource, sys\n"
        "from eval_toolkit.loaders import FileLoader\n"
        "import duckdb, pandas, narwhals\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "loader = FileLoader(sys.argv[1], sample_size=100, columns=[], id_col='key')\n"
        "part = loader.load_splits()['all']\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(part.n, (after - before) * 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    n, grown = map(int, done.stdout.split())  # and nothing else: no progress bar of duckdb's
    assert n == 100
    assert grown < 0.8 * path.stat().st_size
