"""Hugging Face datasets from a folder, for real and offline; the hub's answers from loopback."""

import json
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from eval_toolkit._internal.tables import write_table
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.loaders import HFDatasetsLoader
from eval_toolkit.protocols import DatasetLoader

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = {
    "text": ["a", "b", "c", "d"],
    "title": ["A", "B", "C", "D"],
    "label": [0, 1, 1, 0],
    "who": ["x", "x", "y", "y"],
}


@pytest.fixture(scope="module")
def datasets():
    return pytest.importorskip("datasets")


@pytest.fixture
def saved(datasets, tmp_path):
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "title": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["ham", "spam"]),
            "who": datasets.Value("string"),
        }
    )
    whole = datasets.Dataset.from_dict(ROWS, features=features)
    folder = tmp_path / "saved"
    datasets.DatasetDict({"train": whole, "test": whole.select([3, 1])}).save_to_disk(str(folder))
    return folder


def test_a_saved_dataset(saved):
    loader = HFDatasetsLoader(str(saved), group_col="who")
    assert isinstance(loader, DatasetLoader)
    splits = loader.load_splits()
    assert list(splits) == ["train", "test"]
    assert splits["test"].features == ["d", "b"]
    assert splits["test"].y_true.tolist() == [0, 1]
    assert splits["train"].groups.tolist() == ["x", "x", "y", "y"]
    assert set(splits["train"].df) == {"text", "label", "who"}
    assert list(HFDatasetsLoader(str(saved), ["test"]).load_splits()) == ["test"]


def test_class_names_in_the_label_map(saved):
    by_name = HFDatasetsLoader(str(saved), label_map={"ham": 1, "spam": 0}).load_splits()
    assert by_name["train"].y_true.tolist() == [1, 0, 0, 1]
    by_number = HFDatasetsLoader(str(saved), label_map={0: 1, 1: 0}).load_splits()
    assert by_number["train"].y_true.tolist() == [1, 0, 0, 1]
    with pytest.raises(
        InvalidInputError,
        match=r"split 'train': row 2: 'label' is 'spam', which is not in label_map",
    ):
        HFDatasetsLoader(str(saved), label_map={"ham": 1}).load_splits()


def test_joined_columns(saved, datasets, tmp_path):
    joined = HFDatasetsLoader(str(saved), feature_cols=["title", "text"], feature_join=" / ")
    assert joined.load_splits()["train"].features == ["A / a", "B / b", "C / c", "D / d"]
    gap = datasets.Dataset.from_dict({"a": ["x", None], "b": ["y", "z"], "label": [0, 1]})
    gap.save_to_disk(str(tmp_path / "gap"))
    loader = HFDatasetsLoader(str(tmp_path / "gap"), feature_cols=["a", "b"])
    with pytest.raises(
        ValueError, match="split 'all': row 2: 'a' is missing; every joined column needs a text"
    ):
        loader.load_splits()


def test_one_dataset_saved_alone_and_filtered(datasets, tmp_path):
    datasets.Dataset.from_dict(ROWS).filter(lambda row: row["label"] == 1).save_to_disk(
        str(tmp_path / "one")
    )
    splits = HFDatasetsLoader(str(tmp_path / "one"), backend="polars").load_splits()
    assert list(splits) == ["all"]
    assert splits["all"].features == ["b", "c"]


def test_a_folder_of_data_files(datasets, tmp_path):
    folder = tmp_path / "files"
    write_table(ROWS, folder / "train.csv")
    write_table({name: values[:2] for name, values in ROWS.items()}, folder / "test.csv")
    loader = HFDatasetsLoader(str(folder), cache_dir=tmp_path / "cache")
    splits = loader.load_splits()
    assert {name: part.n for name, part in splits.items()} == {"train": 4, "test": 2}
    described = loader.describe()
    assert [file["name"] for file in described["distribution"]] == ["test.csv", "train.csv"]
    mlcroissant = pytest.importorskip("mlcroissant")
    (tmp_path / "c.json").write_text(json.dumps(described), encoding="utf-8")
    assert not mlcroissant.Dataset(jsonld=str(tmp_path / "c.json")).metadata.ctx.issues.errors


def test_messages(saved, datasets, tmp_path):
    with pytest.raises(
        MissingColumnError, match="there is no split 'dev'; the splits are 'train', 'test'"
    ):
        HFDatasetsLoader(str(saved), ["dev"]).load_splits()
    with pytest.raises(
        KeyError, match="split 'train' has no column 'prompt'; the columns are 'text'"
    ):
        HFDatasetsLoader(str(saved), feature_col="prompt").load_splits()
    with pytest.raises(TypeError, match="`splits` is 'train'; it must be a list"):
        HFDatasetsLoader(str(saved), "train")
    with pytest.raises(InvalidInputError, match="`feature_cols` is empty"):
        HFDatasetsLoader(str(saved), feature_cols=[])
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ArtifactError, match="nothing: datasets cannot load it: "):
        HFDatasetsLoader(str(tmp_path / "nothing")).load_splits()


def test_a_saved_dataset_is_described(saved, tmp_path):
    described = HFDatasetsLoader(str(saved), name="demo").describe()
    assert described["name"] == "demo"
    assert all(len(file["sha256"]) == 64 for file in described["distribution"])
    assert sum(file["name"].endswith(".arrow") for file in described["distribution"]) == 2


class Hub(BaseHTTPRequestHandler):
    """Answers like the hub's dataset API."""

    def do_GET(self) -> None:
        if not self.path.startswith("/api/datasets/org/data"):
            self.send_error(404)
            return
        files = [
            {"rfilename": "README.md", "size": 5, "blobId": "1" * 40},
            {
                "rfilename": "data/train.parquet",
                "size": 77,
                "blobId": "2" * 40,
                "lfs": {"sha256": "3" * 64, "size": 77, "pointerSize": 1},
            },
        ]
        body = json.dumps({"id": "org/data", "sha": "4" * 40, "siblings": files}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(
            huggingface_hub, "HfApi", partial(huggingface_hub.HfApi, endpoint=endpoint)
        )
        yield
        server.shutdown()
        thread.join()


def test_the_hub_gives_hashes(hub):
    described = HFDatasetsLoader("org/data").describe()
    assert described["name"] == "org/data"
    assert described["url"] == "https://huggingface.co/datasets/org/data"
    [file] = described["distribution"]
    assert file["sha256"] == "3" * 64
    assert file["contentSize"] == "77 B"
    assert file["contentUrl"].endswith(f"/org/data/resolve/{'4' * 40}/data/train.parquet")
    assert file["encodingFormat"] == "application/x-parquet"


@pytest.mark.filterwarnings("default")
def test_no_answer_degrades_with_a_warning(hub):
    with pytest.warns(
        RuntimeWarning, match=r"org/none: the hub returned no metadata .*lists no files"
    ):
        described = HFDatasetsLoader("org/none").describe()
    assert described["distribution"] == []
    assert (
        HFDatasetsLoader("org/none", fetch_remote_metadata=False).describe()["distribution"] == []
    )


def test_without_the_library_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['datasets'] = None\n"
        "from eval_toolkit.loaders import HFDatasetsLoader\n"
        "try:\n    HFDatasetsLoader(sys.argv[1]).load_splits()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "HFDatasetsLoader requires datasets. Install with: pip install 'eval-toolkit[hf]'"
    )
