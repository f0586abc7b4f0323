"""Prediction files: written with a hash, refused when it differs, paired on identity."""

import gzip
import sys

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.artifacts import (
    CsvPredictionReader,
    JsonlPredictionReader,
    ParquetPredictionReader,
    PredictionArrays,
    PredictionArtifactRef,
    PredictionColumns,
    load_predictions,
    pair_predictions,
    write_predictions,
)
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingExtraError
from eval_toolkit.protocols import PredictionReader
from eval_toolkit.slices import EvalSlice

LABELS = [0, 1, 1]
SCORES = [0.125, 0.75, 0.5]
IDS = ["a", "b", "c"]


def ref_to(path, text, media_type="text/csv", **columns):
    path.write_text(text, encoding="utf-8")
    return PredictionArtifactRef(str(path), media_type, PredictionColumns("y", "s", **columns))


# --- write and load -----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.gz"])
def test_predictions_come_back(tmp_path, suffix):
    ref = write_predictions(
        tmp_path / "deep" / f"p.{suffix}",
        labels=LABELS,
        scores=SCORES,
        row_ids=["007", "x,y", 'q"z'],
        texts=["one", "two", "three"],
        groups=[1, 1, 2],
        slices=["dev", "dev", "test"],
        scorers=["m"] * 3,
        columns={"note": ["n1", "n2", "n3"], "turns": [1, 2, 3]},
        role="locked_eval",
        metadata={"seed": 42},
    )
    assert (ref.n_rows, ref.role, ref.metadata) == (3, "locked_eval", {"seed": 42})
    back = load_predictions(ref.to_dict())
    assert back.labels.tolist() == LABELS
    assert back.scores.tolist() == SCORES
    assert back.row_ids == ("007", "x,y", 'q"z')
    assert back.groups == ("1", "1", "2")
    assert back.slices == ("dev", "dev", "test")
    assert back.content_hashes[1] == content_hash("two", 1)
    assert back.where(slice="test").row_ids == ('q"z',)


def test_hashes_are_those_of_slices(tmp_path):
    slice_ = EvalSlice("dev", {"text": ["one", "two", "three"], "label": LABELS})
    ref = write_predictions(tmp_path / "p.csv", labels=LABELS, scores=SCORES, texts=slice_.features)
    assert list(load_predictions(ref).content_hashes) == slice_.content_hashes


def test_only_what_is_given_is_stored(tmp_path):
    ref = write_predictions(tmp_path / "p.csv", labels=LABELS, scores=SCORES)
    assert ref.columns.to_dict() == {"label": "label", "score": "score"}
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "label,score"
    arrays = load_predictions(ref)
    assert (arrays.row_ids, arrays.content_hashes, arrays.groups) == ((), (), ())


def test_equal_predictions_give_equal_bytes(tmp_path):
    refs = [
        write_predictions(tmp_path / f"{i}.parquet", labels=LABELS, scores=SCORES, row_ids=IDS)
        for i in range(2)
    ]
    assert refs[0].sha256 == refs[1].sha256


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": [0, 1, 2]}, r"y_true\[2\] is 2; labels must be 0 or 1"),
        ({"scores": [0.1, np.nan, 0.2]}, r"scores\[1\] is nan; `scores` must be finite"),
        ({"scores": [0.1]}, "`y_true` has 3 rows but `scores` has 1"),
        ({"row_ids": ["a", "b"]}, "`row_id` has 2 entries but `labels` has 3"),
        ({"row_ids": ["a", None, "c"]}, r"row_id\[1\] is missing; every row needs a value"),
        (
            {"row_ids": ["a", "b", "a"]},
            r"row_id\[2\] and row_id\[0\] are both 'a'; ids must be unique",
        ),
        ({"texts": ["a"]}, "`texts` has 1 entries but `labels` has 3"),
        (
            {"texts": IDS, "content_hashes": IDS},
            "pass either `texts` or `content_hashes`, not both",
        ),
        ({"columns": {"Label": IDS}}, "`columns` has the name 'Label', which is already used"),
        ({"row_ids": "abc"}, "`row_id` must be a sequence, one entry per row, got 'abc'"),
        ({"groups": 5}, "`group` must be a sequence, one entry per row, got 5"),
        ({"media_type": "application/json"}, "no built-in reader supports the media type"),
        ({"columns": {"x": [1]}}, "`x` has 1 entries but `labels` has 3"),
    ],
)
def test_unusable_predictions_are_not_written(tmp_path, given, message):
    with pytest.raises(InvalidInputError, match=message):
        write_predictions(tmp_path / "p.csv", **{"labels": LABELS, "scores": SCORES, **given})
    assert list(tmp_path.iterdir()) == []


def test_an_id_may_occur_once_per_scorer_and_slice(tmp_path):
    ref = write_predictions(
        tmp_path / "p.csv", labels=[0, 0], scores=[0.1, 0.2], row_ids=["a", "a"], scorers=["m", "n"]
    )
    both = load_predictions(ref)
    assert both.where(scorer="n").scores.tolist() == [0.2]
    with pytest.raises(InvalidInputError, match=r"no scorer 'x'; available: \['m', 'n'\]"):
        both.where(scorer="x")
    with pytest.raises(InvalidInputError, match="no slice 's'; available: none"):
        both.where(slice="s")


# --- verification -------------------------------------------------------------------------------


def test_a_changed_file_is_refused(tmp_path):
    ref = write_predictions(tmp_path / "p.csv", labels=LABELS, scores=SCORES)
    (tmp_path / "p.csv").write_text((tmp_path / "p.csv").read_text().replace("0.125", "0.126"))
    with pytest.raises(ArtifactError, match=r"p.csv: the file has changed: its sha256 is") as error:
        load_predictions(ref)
    assert isinstance(error.value, ValueError)
    with pytest.raises(ArtifactError, match="the file has changed"):
        load_predictions(ref, reader=CsvPredictionReader())


def test_a_wrong_row_count_is_refused(tmp_path):
    ref = write_predictions(tmp_path / "p.csv", labels=LABELS, scores=SCORES)
    with pytest.raises(ArtifactError, match=r"p.csv: has 3 rows, but the reference states 4"):
        load_predictions({**ref.to_dict(), "n_rows": 4})


def test_a_missing_file(tmp_path):
    ref = write_predictions(tmp_path / "p.csv", labels=LABELS, scores=SCORES)
    (tmp_path / "p.csv").unlink()
    with pytest.raises(ArtifactError, match=r"p.csv: no such file"):
        load_predictions(ref)


def test_relative_paths_start_at_the_base(tmp_path, monkeypatch):
    write_predictions(tmp_path / "p.csv", labels=LABELS, scores=SCORES)
    ref = PredictionArtifactRef("p.csv", "text/csv", PredictionColumns("label", "score"))
    assert len(load_predictions(ref, base=tmp_path)) == 3
    with pytest.raises(ArtifactError, match=r"p.csv: no such file"):
        load_predictions(ref, base=tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    assert len(load_predictions(ref)) == 3


# --- what files can have wrong ------------------------------------------------------------------

CSV = "text/csv"
JSONL = "application/jsonl"


@pytest.mark.parametrize(
    ("text", "media", "message"),
    [
        ("y,z\n1,0.5\n", CSV, r"p.dat: there is no column 's'; the columns are 'y', 'z'"),
        ("y,s,id\n1,0.5,a\n1,,b\n", CSV, r"p.dat: row 2: 's' is missing"),
        (
            "y,s,id\n1,0.5,a\n1,0.5,\n",
            CSV,
            r"p.dat: row 2: 'id' is missing; every row needs a value",
        ),
        ("y,s,id\n1,0.5,a\n0.7,0.5,b\n", CSV, r"p.dat: row 2: 'y' is 0.7; labels must be 0 or 1"),
        ("y,s,id\nspam,0.5,a\n", CSV, r"""p.dat: (row 1: 'y' is|line 2: .*) ['"]spam"""),
        ("y,s,id\n1,inf,a\n", CSV, r"p.dat: row 1: 's' is 'inf'"),
        ("y,s,y\n1,0.5,1\n", CSV, r"p.dat: the column 'y' occurs twice"),
        ("y,s,id\n", CSV, r"p.dat: has no rows"),
        ("", CSV, r"p.dat: the file is empty \(0 bytes\)"),
        ('{"y":1,"s":0.5,"id":"a"}\n{"y":1,"id":"b"}\n', JSONL, r"p.dat: row 2: 's' is missing"),
        ('{"y":1,"s":0.5,"id":"a"}\n{"y":1,"s":0.5}\n', JSONL, r"p.dat: row 2: 'id' is missing"),
        ('{"y":1,"s":0.5,"id":""}\n', JSONL, r"p.dat: row 1: 'id' is missing"),
        ('{"y":1,"s":0.5,"id":"a"}\n{"y":1,\n', JSONL, r"p.dat: Malformed JSON .* line"),
    ],
)
def test_bad_files_name_file_and_row(tmp_path, text, media, message):
    ref = ref_to(tmp_path / "p.dat", text, media, row_id="id")
    with pytest.raises(ValueError, match=message) as error:
        load_predictions(ref)
    assert "\n" not in str(error.value)


def test_the_media_type_alone_decides(tmp_path):
    ref = ref_to(tmp_path / "p.parquet", "y,s\n1,0.5\n")
    assert load_predictions(ref).scores.tolist() == [0.5]
    for name in ("application/json", "text/html", ""):
        payload = {**ref.to_dict(), "media_type": name or "x/y"}
        with pytest.raises(ValueError, match="no built-in reader supports the media type"):
            load_predictions(payload)


@pytest.mark.parametrize("media", ["application/x-ndjson", "application/x-jsonlines", JSONL])
def test_spellings_of_json_lines(tmp_path, media):
    ref = ref_to(tmp_path / "p.dat", '{"y": 1, "s": 0.5}\n', media)
    assert load_predictions(ref).labels.tolist() == [1]


def test_gzipped_files_are_read(tmp_path):
    path = tmp_path / "p.csv.gz"
    path.write_bytes(gzip.compress(b"y,s\n1,0.5\n"))
    ref = PredictionArtifactRef(path, CSV, PredictionColumns("y", "s"))
    assert load_predictions(ref).scores.tolist() == [0.5]


def test_readers_give_the_named_columns(tmp_path):
    columns = {"label": "y", "score": "s", "row_id": "id"}
    (tmp_path / "p.csv").write_text("id,s,y,more\n7,0.5,1,x\n")
    table = CsvPredictionReader().read_predictions(str(tmp_path / "p.csv"), columns=columns)
    assert {name: values.tolist() for name, values in table.items()} == {
        "y": [1.0],
        "s": [0.5],
        "id": ["7"],
    }
    for reader in (CsvPredictionReader(), JsonlPredictionReader(), ParquetPredictionReader()):
        assert isinstance(reader, PredictionReader)
        with pytest.raises(ArtifactError, match=r"no.csv: no such file"):
            reader.read_predictions(str(tmp_path / "no.csv"), columns=columns)


# --- a reader of one's own ----------------------------------------------------------------------


class Stub:
    """Gives what it was made with and remembers what it was asked for."""

    def __init__(self, **table):
        self.table = table
        self.asked = None

    def read_predictions(self, uri, *, columns):
        self.asked = uri
        return self.table


def test_a_reader_of_ones_own_is_given_the_address():
    reader = Stub(y=["0", "1"], s=[0.5, "0.25"], id=[1, 2])
    columns = PredictionColumns("y", "s", row_id="id")
    ref = PredictionArtifactRef("db://host/table", "application/x-mine", columns, n_rows=2)
    arrays = load_predictions(ref, reader=reader)
    assert reader.asked == "db://host/table"
    assert arrays.labels.tolist() == [0, 1]
    assert arrays.scores.tolist() == [0.5, 0.25]
    assert arrays.row_ids == ("1", "2")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"y": [0], "s": ["high"]}, "db://t: row 1: 's' is 'high'; it must be a number"),
        ({"y": [None], "s": [0.1]}, "db://t: row 1: 'y' is missing; every row needs a label"),
        ({"y": [0], "s": [float("nan")]}, "db://t: row 1: 's' is nan; scores must be finite"),
        ({"y": [0, 2], "s": [0.1, 0.2]}, "db://t: row 2: 'y' is 2; labels must be 0 or 1"),
        ({"y": [0]}, "db://t: the reader returned no column 's'"),
        ({"y": [0, 1], "s": [0.1]}, "`labels` has 2 rows but `scores` has 1"),
    ],
)
def test_what_a_reader_gives_is_checked(table, message):
    ref = PredictionArtifactRef("db://t", "application/x-mine", PredictionColumns("y", "s"))
    with pytest.raises(ValueError, match=message):
        load_predictions(ref, reader=Stub(**table))


# --- addresses ----------------------------------------------------------------------------------


def test_file_addresses(tmp_path):
    ref = write_predictions(tmp_path / "a b.csv", labels=LABELS, scores=SCORES)
    address = (tmp_path / "a b.csv").as_uri()
    assert len(load_predictions({**ref.to_dict(), "uri": address})) == 3
    with pytest.raises(ArtifactError, match="a file on another host cannot be read"):
        load_predictions({**ref.to_dict(), "uri": "file://elsewhere/p.csv"})


def test_remote_predictions_are_fetched_and_verified(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    ref = write_predictions(tmp_path / "p.csv.gz", labels=LABELS, scores=SCORES, row_ids=IDS)
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/p.csv.gz", (tmp_path / "p.csv.gz").read_bytes())
    remote = {**ref.to_dict(), "uri": "memory://bucket/p.csv.gz"}
    assert load_predictions(remote).row_ids == ("a", "b", "c")
    reader = Stub(label=LABELS, score=SCORES, row_id=IDS)
    load_predictions(remote, reader=reader)
    assert reader.asked.endswith("p.csv.gz")
    assert "://" not in reader.asked, "the reader reads the copy that was checked"
    memory.pipe("/bucket/p.csv.gz", b"altered")
    with pytest.raises(ArtifactError, match=r"memory://bucket/p.csv.gz: the file has changed"):
        load_predictions(remote)
    memory.pipe("/bucket/q.csv", b"label,score\n1,x\n")
    columns = {"label": "label", "score": "score"}
    bad = {"uri": "memory://bucket/q.csv", "media_type": CSV, "columns": columns}
    with pytest.raises(ValueError, match=r"^memory://bucket/q.csv: (row 1|line 2): "):
        load_predictions(bad)
    with pytest.raises(ArtifactError, match=r"memory://bucket/no.csv: cannot be fetched"):
        load_predictions({**bad, "uri": "memory://bucket/no.csv"})
    with pytest.raises(
        ArtifactError, match=r"nothing://x: cannot be fetched: .*Protocol not known"
    ):
        load_predictions({**bad, "uri": "nothing://x"})


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    ref = PredictionArtifactRef("s3://b/p.csv", CSV, PredictionColumns("y", "s"))
    with pytest.raises(MissingExtraError, match=r"eval-toolkit\[remote\]"):
        load_predictions(ref)


# --- arrays and pairs ---------------------------------------------------------------------------


def test_arrays_are_checked():
    with pytest.raises(InvalidInputError, match=r"labels\[1\] is 2; labels must be 0 or 1"):
        PredictionArrays([0, 2], [0.1, 0.2])
    with pytest.raises(InvalidInputError, match="`row_ids` has 1 entries but `labels` has 2"):
        PredictionArrays([0, 1], [0.1, 0.2], row_ids=["a"])


def test_arrays_become_records():
    arrays = PredictionArrays(
        [1, 0], [0.9, 0.1], row_ids=["b", "a"], content_hashes=["h2", "h1"], groups=["g", "g"]
    )
    records = arrays.records()
    assert records.unit_id.tolist() == ["a", "b"]
    assert records.content_hash.tolist() == ["h1", "h2"]
    assert records.columns["score"].tolist() == [0.1, 0.9]
    assert records.group.tolist() == ["g", "g"]


def arrays(labels=LABELS, scores=SCORES, **more):
    return PredictionArrays(labels, scores, **more)


def test_rows_are_joined_on_ids_in_any_order():
    a = arrays(row_ids=IDS, content_hashes=["1", "2", "3"], groups=["g", "g", "h"])
    b = a.take([2, 0, 1])
    pair = pair_predictions(a, b)
    assert pair.row_ids == ("a", "b", "c")
    assert pair.scores_a.tolist() == pair.scores_b.tolist() == SCORES
    assert pair.groups == ("g", "g", "h")
    assert pair.note == ""
    assert repr(pair) == "PairedPredictions(n=3)"


def test_what_was_not_checked_is_said():
    with_ids = arrays(row_ids=IDS)
    hashed = arrays(row_ids=IDS, content_hashes=IDS)
    assert pair_predictions(with_ids, hashed).note == (
        "no content hashes in baseline: the content of paired rows was not compared"
    )
    assert pair_predictions(arrays(), arrays(), names=("A", "B")).note == (
        "no row ids: rows were paired by position; no content hashes in A and B: the content "
        "of paired rows was not compared"
    )


@each(
    ("a", "b", "message"),
    [
        (arrays(), arrays(row_ids=IDS), "baseline has no row ids but candidate does"),
        (arrays(row_ids=IDS), arrays(), "candidate has no row ids but baseline does"),
        (
            arrays(row_ids=IDS),
            arrays(row_ids=["a", "b", "d"]),
            "1 of 3 row ids of baseline are not in candidate, such as 'c'",
        ),
        (
            arrays([0], [0.5], row_ids=["a"]),
            arrays(row_ids=IDS),
            "2 of 3 row ids of candidate are not in baseline, such as 'b'",
        ),
        (
            arrays(row_ids=IDS, content_hashes=["1", "2", "3"]),
            arrays(row_ids=IDS, content_hashes=["1", "X", "3"]),
            "1 of 3 rows differ in content hash between baseline and candidate, first at id 'b'",
        ),
        (arrays(row_ids=IDS), arrays([0, 0, 1], row_ids=IDS), "differ in label .* id 'b': 1 and 0"),
        (arrays(), arrays([1, 1, 1]), "differ in label .* first at row 1: 0 and 1"),
        (arrays(), arrays([0], [0.5]), "baseline has 3 rows and candidate has 1; without row ids"),
        (
            arrays(row_ids=IDS, groups=["g", "g", "g"]),
            arrays(row_ids=IDS, groups=["g", "g", "h"]),
            "differ in group .* id 'c'",
        ),
        (
            arrays(row_ids=["a", "a", "b"]),
            arrays(row_ids=IDS),
            "baseline: rows 1 and 2 have the row id 'a'; ids must be unique",
        ),
    ],
)
def test_rows_that_are_not_the_same_are_refused(a, b, message):
    with pytest.raises(ArtifactError, match=message):
        pair_predictions(a, b)
