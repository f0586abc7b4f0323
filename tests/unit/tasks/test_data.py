"""Where rows come from: files of every kind, folders, patterns, labels, datasets."""

import gzip
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.tables import plain_value
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    MissingFileError,
)
from eval_toolkit.tasks import BaseTask, ResponseType, load_task
from eval_toolkit.tasks.reading import read_labels, read_rows

ROWS = [{"q": "a", "n": 1, "nest": {"x": [1, "two"]}}, {"q": "b", "n": 2, "nest": {"x": []}}]


class Echo(BaseTask[str]):
    NAME = "Echo"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return str(item["q"])

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["q"])


def questions(task: BaseTask[str]) -> list[str]:
    return [str(sample.ground_truth) for sample in task.samples(order="file")]


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class TestFiles:
    def test_nested_values_stay(self, tmp_path: Path) -> None:
        assert read_rows(jsonl(tmp_path / "a.jsonl", ROWS), "test") == ROWS
        (tmp_path / "a.json").write_text(json.dumps(ROWS))
        assert read_rows(tmp_path / "a.json", "test") == ROWS

    def test_parquet(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        rows = [{"q": "a", "n": 1, "f": 0.5, "l": ["x", "y"], "s": {"k": [1]}}]
        rows.append({"q": "b", "n": None, "f": None, "l": None, "s": None})  # type: ignore[dict-item]
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
        assert read_rows(tmp_path / "a.parquet", "test") == rows

    def test_the_format_does_not_change_the_identity(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        rows = [{"q": "a", "n": 1, "l": ["x"]}, {"q": "b", "n": 2, "l": ["y"]}]
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
        files = [tmp_path / "a.parquet", jsonl(tmp_path / "a.jsonl", rows)]
        one, two = ([(s.id, s.content_hash) for s in Echo(data=file).samples()] for file in files)
        assert one == two

    def test_examples_and_splits_inside_json(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text(json.dumps({"canary": "x", "examples": ROWS}))
        assert read_rows(path, "test") == ROWS
        path.write_text(json.dumps({"test": ROWS[:1], "train": ROWS[1:]}))
        (sample,) = Echo(1, data=path).samples()
        assert [m.content for m in sample.messages] == ["b", "b", "a"]

    @pytest.mark.parametrize("sign", [",", ";", "|", "\t"])
    def test_separated_by(self, tmp_path: Path, sign: str) -> None:
        path = tmp_path / ("a.tsv" if sign == "\t" else "a.csv")
        path.write_text(f'q{sign}n\r\n"a{sign}b"{sign}007\r\n\r\nc{sign}""\r\n', newline="")
        assert read_rows(path, "test") == [{"q": f"a{sign}b", "n": "007"}, {"q": "c", "n": ""}]

    def test_cells_are_text_whatever_the_other_rows_hold(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("q,n\na,3\n")
        assert read_rows(path, "test") == [{"q": "a", "n": "3"}]

    def test_compressed_and_with_a_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(ROWS[0]).encode()))
        assert read_rows(path, "test") == ROWS[:1]
        path = tmp_path / "a.csv"
        path.write_bytes(b"\xef\xbb\xbfq,n\nx,1\n")
        assert list(read_rows(path, "test")[0]) == ["q", "n"]

    def test_line_separators_inside_a_text_end_no_line(self, tmp_path: Path) -> None:
        path = tmp_path / "a.jsonl"
        path.write_text(json.dumps({"q": "x\u2028y\x85z"}, ensure_ascii=False), encoding="utf-8")
        assert read_rows(path, "test") == [{"q": "x\u2028y\x85z"}]

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("a.jsonl", b'{"q": 1}\n{"q": ', "line 2: malformed JSON"),
            ("a.jsonl", b'{"q": NaN}', "line 1: NaN is not valid JSON"),
            ("a.jsonl", b"[1]", "line 1: contains .1.; every row must be an object"),
            ("a.jsonl", b"  \n", "the file is empty"),
            ("a.jsonl", b"\xff\xfe", "byte 0 is not UTF-8"),
            ("a.json", b"[1]", "row 1: contains 1; every row"),
            (
                "a.json",
                b'{"data": []}',
                "contains dict with 'data'; it must contain a list of objects",
            ),
            ("a.json", b"3", "contains int; it must contain a list"),
            ("a.json", b"[" * 100_000, "malformed JSON: nested too deeply"),
            ("a.csv", b"q,n\na\n", "line 2: Expected Number of Columns: 2 Found: 1"),
            ("a.csv", b"q,q\na,b\n", "the column 'q' occurs twice"),
            ("a.csv", b'q,n\n"a,b\n', "line 2: Value with unterminated quote found"),
            ("a.jsonl.gz", b"nothing", "Not a gzipped file"),
        ],
    )
    def test_malformed(self, tmp_path: Path, name: str, content: bytes, reason: str) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=reason) as caught:
            read_rows(path, "test")
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)

    def test_plain_values(self) -> None:
        import datetime

        import numpy as np

        given = {1: np.array([1.5, np.nan]), "d": datetime.date(2026, 1, 2), "t": (1,), "b": b"x"}
        assert plain_value(given) == {
            "1": [1.5, None],
            "d": "2026-01-02",
            "t": [1],
            "b": "b'x'",
        }


class TestPlaces:
    def test_one_file_is_the_sample_split(self, tmp_path: Path) -> None:
        path = jsonl(tmp_path / "a.jsonl", ROWS)
        assert questions(Echo(data=path)) == ["a", "b"]
        assert questions(Echo(data=str(path))) == ["a", "b"]
        with pytest.raises(
            InvalidInputError, match=r"few-shot examples: .* provides only the split 'test'"
        ) as caught:
            Echo(1, data=path).samples()
        assert not isinstance(caught.value, KeyError)  # no column is missing

    def test_the_class_may_say_where(self, tmp_path: Path) -> None:
        class Own(Echo):
            DATASET_PATH = str(jsonl(tmp_path / "a.jsonl", ROWS))

        assert questions(Own()) == ["a", "b"]

    def test_a_path_per_split(self, tmp_path: Path) -> None:
        test, train = jsonl(tmp_path / "x.jsonl", ROWS[:1]), jsonl(tmp_path / "y.jsonl", ROWS[1:])
        (sample,) = Echo(1, data={"test": test, "train": train}).samples()
        assert [m.content for m in sample.messages] == ["b", "b", "a"]
        with pytest.raises(InvalidInputError, match="`data` has no path for the split 'train'"):
            Echo(1, data={"test": test}).samples()

    @pytest.mark.parametrize(
        ("test", "train"),
        [
            ("test.jsonl", "train.jsonl"),
            ("arc_test.jsonl", "arc_train.jsonl"),
            ("test-00000-of-00001.jsonl", "data/train-00000-of-00001.jsonl"),
            ("test/part.jsonl", "train/part.jsonl"),
        ],
    )
    def test_a_folder(self, tmp_path: Path, test: str, train: str) -> None:
        jsonl(tmp_path / test, ROWS[:1])
        jsonl(tmp_path / train, ROWS[1:])
        (tmp_path / "README.md").write_text("x")
        (sample,) = Echo(1, data=tmp_path).samples()
        assert [m.content for m in sample.messages] == ["b", "b", "a"]

    def test_a_folder_in_several_files(self, tmp_path: Path) -> None:
        jsonl(tmp_path / "test-1.jsonl", ROWS[:1])
        jsonl(tmp_path / "test-2.jsonl", ROWS[1:])
        assert questions(Echo(data=tmp_path)) == ["a", "b"]

    def test_a_folder_without_the_split(self, tmp_path: Path) -> None:
        jsonl(tmp_path / "train.jsonl", ROWS)
        jsonl(tmp_path / "latest.jsonl", ROWS)  # "test" within a word is no split
        with pytest.raises(InvalidInputError, match="no data file is named after the split"):
            Echo(data=tmp_path).samples()

    def test_patterns(self, tmp_path: Path) -> None:
        for subject in ("law", "art"):
            for split in ("test", "train"):
                row = {"q": f"{subject} {split}"}
                jsonl(tmp_path / f"x_{subject}_{split}.jsonl", [row])
        jsonl(tmp_path / "y_law_test.jsonl", [{"q": "no"}])
        task = Echo(1, data=f"{tmp_path}/x_{{subject}}_{{split}}.jsonl")
        assert task.subjects == ["art", "law"]
        first, second = task.samples()
        assert [m.content for m in first.messages] == ["art train", "art train", "art test"]
        assert second.subject == "law"
        only = Echo(data=f"{tmp_path}/x_{{subject}}_{{split}}.jsonl", subjects=["law"])
        assert questions(only) == ["law test"]
        with pytest.raises(MissingFileError, match="no file matches"):
            Echo(data=f"{tmp_path}/z_{{subject}}.jsonl").samples()

    def test_a_pattern_of_folders(self, tmp_path: Path) -> None:
        jsonl(tmp_path / "law" / "test.jsonl", ROWS)
        task = Echo(data=f"{tmp_path}/{{subject}}")
        assert (task.subjects, questions(task)) == (["law"], ["a", "b"])

    @pytest.mark.parametrize("name", ["no.jsonl", "./no", "/no/such"])
    def test_nothing_there(self, name: str) -> None:
        with pytest.raises(MissingFileError, match=f"{name}: no such file"):
            Echo(data=name).samples()

    def test_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        jsonl(tmp_path / "a.jsonl", ROWS)
        assert questions(Echo(data="~/a.jsonl")) == ["a", "b"]

    def test_rows_that_are_none(self) -> None:
        with pytest.raises(InvalidInputError, match="`rows`: row 2 is 3; every row must be a mapp"):
            Echo(rows=[{}, 3])  # type: ignore[list-item]
        with pytest.raises(InvalidInputError, match=r"rows\['test'\] is str; it must be a list"):
            Echo(rows={"test": "abc"})  # type: ignore[dict-item]
        with pytest.raises(InvalidInputError, match="the split 'test' has no rows"):
            Echo(rows=[]).samples()


class TestLabels:
    class Labelled(Echo):
        LABEL_FILES = ("{stem}-labels.lst", "{stem}_labels.lst")

        def _get_ground_truth(self, item: dict[str, Any]) -> str:
            return str(item["label"])

    def test_beside_the_rows(self, tmp_path: Path) -> None:
        path = jsonl(tmp_path / "valid.jsonl", ROWS)
        (tmp_path / "valid_labels.lst").write_text("1\n-1\n\n")
        task = self.Labelled(data=path)
        assert questions(task) == ["1", "-1"]
        assert list(task.describe()["dataset"]["files"]) == ["valid.jsonl", "valid_labels.lst"]

    def test_missing_or_of_another_length(self, tmp_path: Path) -> None:
        path = jsonl(tmp_path / "valid.jsonl", ROWS)
        with pytest.raises(
            MissingFileError, match=r"looked for valid-labels\.lst, valid_labels\.lst"
        ):
            self.Labelled(data=path).samples()
        (tmp_path / "valid-labels.lst").write_text("1\n")
        with pytest.raises(ArtifactError, match=r"contains 1 labels, but .* contains 2 rows"):
            self.Labelled(data=path).samples()

    def test_labels_in_the_rows_do(self, tmp_path: Path) -> None:
        path = jsonl(tmp_path / "valid.jsonl", [{**row, "label": 0} for row in ROWS])
        assert questions(self.Labelled(data=path)) == ["0", "0"]

    def test_words(self, tmp_path: Path) -> None:
        (tmp_path / "l.lst").write_text("yes\n3\n")
        assert read_labels(tmp_path / "l.lst") == ["yes", 3]


class TestDescribing:
    def test_the_hash_of_the_file(self, tmp_path: Path) -> None:
        path = jsonl(tmp_path / "a.jsonl", ROWS)
        told = Echo(data=path).describe()["dataset"]
        assert told["sha256"] == sha256_file(path)
        assert told["files"] == {"a.jsonl": sha256_file(path)}
        assert told["n_rows"] == {"test": 2}

    def test_files_of_one_name(self, tmp_path: Path) -> None:
        for subject in ("x", "y"):
            jsonl(tmp_path / subject / "test.jsonl", ROWS)
        told = Echo(data=f"{tmp_path}/{{subject}}").describe()["dataset"]
        assert list(told["files"]) == ["x/test.jsonl", "y/test.jsonl"]

    def test_data_may_move(self, tmp_path: Path) -> None:
        for place in ("here", "there"):
            jsonl(tmp_path / place / "test.jsonl", ROWS)
            jsonl(tmp_path / place / "train.jsonl", ROWS)
        here, there = (
            Echo(
                1, data={split: tmp_path / place / f"{split}.jsonl" for split in ("test", "train")}
            )
            for place in ("here", "there")
        )
        assert here.describe() == there.describe()
        assert here.describe()["dataset"]["path"] == {
            "test": "test.jsonl",
            "train": "train.jsonl",
        }

    def test_no_folder_of_the_machine_is_told(self, tmp_path: Path) -> None:
        for place in ("here", "elsewhere/deeper"):
            jsonl(tmp_path / place / "a" / "test.jsonl", ROWS)
            jsonl(tmp_path / place.replace("e", "x") / "train.jsonl", ROWS)
        told = [
            Echo(
                1,
                data={
                    "test": tmp_path / place / "a" / "test.jsonl",
                    "train": tmp_path / place.replace("e", "x") / "train.jsonl",
                },
            ).describe()
            for place in ("here", "elsewhere/deeper")
        ]
        assert told[0] == told[1]
        assert list(told[0]["dataset"]["files"]) == ["test.jsonl", "train.jsonl"]
        assert str(tmp_path) not in json.dumps(told)

    def test_paths_from_here_and_from_the_root(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        test, train = jsonl(tmp_path / "test.jsonl", ROWS), jsonl(Path("train.jsonl"), ROWS)
        told = Echo(1, data={"test": test, "train": train}).describe()["dataset"]
        assert list(told["files"]) == ["test.jsonl", "train.jsonl"]

    def test_what_comes_along(self) -> None:
        told = load_task("capitals").describe()["dataset"]
        assert (told["path"], list(told["files"])) == ("capitals", ["test.jsonl"])

    def test_memory(self) -> None:
        one = Echo(rows=ROWS).describe()["dataset"]["sha256"]
        two = Echo(rows=[*ROWS, {"q": "c"}]).describe()["dataset"]["sha256"]
        assert one != two


class TestDatasets:
    def test_saved_to_disk(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        parts = {
            "test": datasets.Dataset.from_list([{"q": "a", "l": ["x", "y"]}]),
            "train": datasets.Dataset.from_list([{"q": "b", "l": []}]),
        }
        datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
        task = Echo(1, data=tmp_path / "saved")
        (sample,) = task.samples()
        assert [m.content for m in sample.messages] == ["b", "b", "a"]
        assert task.describe()["dataset"]["n_rows"] == {"test": 1, "train": 1}

    def test_the_hook_is_asked_for_names_of_the_hub(self) -> None:
        asked = []

        class Hub(Echo):
            DATASET_PATH = "someone/something"
            DATASET_CONFIG = "main"
            REVISION = "abc"

            def _load_hf_dataset(self, **kwargs: Any) -> Any:
                asked.append(kwargs)
                return {"test": [{"q": f"{kwargs['name']}"}]}

        task = Hub()
        assert questions(task) == ["main"]
        assert asked == [{"path": "someone/something", "name": "main"}]
        assert task.describe()["dataset"]["revision"] == "abc"
        assert Hub(revision="def").describe()["dataset"]["revision"] == "def"
        assert questions(Hub(subjects=["x", "y"])) == ["x", "y"]
        with pytest.raises(InvalidInputError, match="someone/something: there is no split 'train'"):
            Hub(1).samples()
        assert Hub(subjects=["x", "x"]).subjects == ["x"]

    def test_what_the_library_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        datasets = pytest.importorskip("datasets")

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise ConnectionError("no\nnetwork")

        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [])
        monkeypatch.setattr(datasets, "load_dataset", refuse)
        with pytest.raises(ArtifactError, match="cannot load it: ConnectionError: no network"):
            Echo(data="someone/something").samples()

    def test_without_a_network_there_is_one_line_and_no_waiting(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        datasets = pytest.importorskip("datasets")
        hub = pytest.importorskip("huggingface_hub.constants")
        logger = logging.getLogger("huggingface_hub")
        heard: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = heard.append  # type: ignore[method-assign]
        offline: list[tuple[bool, bool]] = []

        def refuse(*args: Any, **kwargs: Any) -> None:
            offline.append((datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE))
            logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 8s")
            raise ConnectionError("no network")

        def unknown(*args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror(-2, "Name or service not known")

        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(datasets, "load_dataset", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        level = logger.level
        logger.addHandler(handler)
        try:
            with pytest.raises(ArtifactError, match=r"huggingface\.co cannot be reached"):
                Echo(data="someone/something").samples()
            monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [])
            with pytest.raises(ArtifactError, match="ConnectionError: no network"):
                Echo(data="someone/something").samples()
        finally:
            logger.removeHandler(handler)
        assert heard == []
        assert logger.level == level
        assert offline == [(True, True), (False, False)]

    def test_a_lock_file(self, tmp_path: Path) -> None:
        lock = tmp_path / "lock.json"
        lock.write_text(json.dumps({"someone/something": "abc"}))

        class Locked(Echo):
            DATASET_PATH = "someone/something"
            REVISION_LOCKFILE = lock

        assert Locked().hf_revision == "abc"
        assert Locked(revision="def").hf_revision == "def"

        class Unlocked(Locked):
            DATASET_PATH = "someone/else"

        with pytest.raises(ArtifactError, match="contains no revision of 'someone/else'"):
            Unlocked()

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (None, "no such file; it must map datasets to revisions"),
            ("{", "malformed JSON"),
            ("[1]", r"contains \[1\]; it must map datasets to revisions"),
        ],
    )
    def test_a_lock_file_that_is_none(
        self, tmp_path: Path, content: str | None, reason: str
    ) -> None:
        lock = tmp_path / "lock.json"
        if content is not None:
            lock.write_text(content)

        class Locked(Echo):
            DATASET_PATH = "someone/something"
            REVISION_LOCKFILE = lock

        with pytest.raises(ArtifactError, match=reason) as caught:
            Locked()
        assert "\n" not in str(caught.value)
        # Rows, files and a revision need no pin.
        assert Locked(rows=ROWS).hf_revision is None
        assert Locked(data=jsonl(tmp_path / "a.jsonl", ROWS)).hf_revision is None
        assert Locked(revision="abc").hf_revision == "abc"
