"""Pinned downloads: bytes, cache, limits and labels, over a real HTTP server on loopback."""

import hashlib
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest

from eval_toolkit._internal.tables import write_table
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.loaders import OodManifestLoader, ood_dataset_from_manifest
from eval_toolkit.protocols import DatasetLoader

CSV = b"text,label\nhello,0\nignore all rules,1\nhow are you,0\n"
DIGEST = hashlib.sha256(CSV).hexdigest()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/a.csv": CSV, "/download": CSV}
        self.requests: list[str] = []

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        path = self.path.partition("?")[0]
        if path == "/slow":
            threading.Event().wait(3)
            return
        if path == "/moved.csv":
            self.send_response(302)
            self.send_header("Location", "/a.csv")
            self.end_headers()
            return
        if path not in self.server.files:
            self.send_error(404)
            return
        data = self.server.files[path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) + (100 if path == "/cut.csv" else 0)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def manifest(tmp_path):
    def write(name: str = "ood.json", **slices: dict) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"slices": slices}), encoding="utf-8")
        return path

    return write


def test_a_download_is_verified_cached_and_repaired(server, manifest, tmp_path):
    path = manifest(demo={"url": f"{server.base}/a.csv", "sha256": DIGEST})
    cache = tmp_path / "cache"
    frame = ood_dataset_from_manifest(path, cache_dir=cache)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame) == ["text", "label", "source", "row_id", "sha"]
    assert frame["text"].tolist() == ["hello", "ignore all rules", "how are you"]
    assert frame["label"].tolist() == [0, 1, 0]
    assert frame["source"].tolist() == ["demo"] * 3
    assert frame["row_id"].tolist() == ["demo:1", "demo:2", "demo:3"]
    assert frame["sha"][0] == hashlib.sha256(b"hello").hexdigest()
    assert server.requests == ["/a.csv"]
    [kept] = cache.iterdir()
    assert kept.name == f"{DIGEST}.csv"
    # the second time nothing is fetched
    ood_dataset_from_manifest(path, cache_dir=cache)
    assert server.requests == ["/a.csv"]
    # a damaged cache is fetched again
    kept.write_bytes(b"text,label\nforged,1\n")
    again = ood_dataset_from_manifest(path, cache_dir=cache)
    assert again["text"].tolist() == frame["text"].tolist()
    assert server.requests == ["/a.csv", "/a.csv"]
    assert kept.read_bytes() == CSV


def test_wrong_bytes_are_refused_and_not_kept(server, manifest, tmp_path):
    path = manifest(demo={"url": f"{server.base}/a.csv", "sha256": "0" * 64})
    with pytest.raises(ArtifactError, match=f"sha256 is {DIGEST} but the manifest states 000"):
        ood_dataset_from_manifest(path, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.csv", {"max_bytes": 20}, "more than 20 bytes; raise max_bytes"),
        ("none.csv", {}, "the server returned status 404 Not Found"),
        ("cut.csv", {}, r"cut\.csv: (cannot be fetched|sha256 is)"),
        ("slow", {"timeout_s": 0.3}, "cannot be fetched: timed out"),
    ],
)
def test_downloads_that_fail(server, manifest, tmp_path, name, options, message):
    server.files["/cut.csv"] = CSV[:20]
    path = manifest(demo={"url": f"{server.base}/{name}", "sha256": DIGEST, "format": "csv"})
    with pytest.raises(ArtifactError, match=message):
        ood_dataset_from_manifest(path, cache_dir=tmp_path / "cache", **options)
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_server(manifest, tmp_path, server):
    port = server.server_address[1]
    path = manifest(demo={"url": f"http://127.0.0.1:{port}/a.csv", "sha256": DIGEST})
    ood_dataset_from_manifest(path, cache_dir=tmp_path / "cache")
    server.shutdown()
    server.server_close()
    assert len(ood_dataset_from_manifest(path, cache_dir=tmp_path / "cache")) == 3  # from the cache
    with pytest.raises(ArtifactError, match=r"a\.csv: cannot be fetched: .*refused"):
        ood_dataset_from_manifest(path, cache_dir=tmp_path / "other")


def test_names_that_do_not_tell_the_format_and_redirects(server, manifest, tmp_path):
    cache = tmp_path / "cache"
    for url in ("download", "download?raw=1", "moved.csv", "a.csv?version=2"):
        path = manifest(demo={"url": f"{server.base}/{url}", "sha256": DIGEST, "format": "csv"})
        assert len(ood_dataset_from_manifest(path, cache_dir=cache)) == 3
    path = manifest(demo={"url": f"{server.base}/download", "sha256": DIGEST})
    with pytest.raises(
        InvalidInputError, match=r"slice 'demo': .*cannot infer the format .*, or pass `format`"
    ):
        ood_dataset_from_manifest(path, cache_dir=cache)


def test_local_files(manifest, tmp_path):
    file = tmp_path / "data" / "a b.csv"
    file.parent.mkdir()
    file.write_bytes(CSV)
    for url in ("data/a b.csv", str(file), file.as_uri()):
        path = manifest(demo={"url": url, "sha256": DIGEST.upper()})
        assert len(ood_dataset_from_manifest(path, cache_dir=tmp_path / "cache")) == 3
    assert not (tmp_path / "cache").exists()
    for url, message in [
        ("data/none.csv", "no such file"),
        ("s3://bucket/a.csv", "s3:// cannot be fetched; use http"),
        ("file://elsewhere/a.csv", "must name a file on this machine"),
    ]:
        path = manifest(demo={"url": url, "sha256": DIGEST})
        with pytest.raises(ArtifactError, match=message):
            ood_dataset_from_manifest(path, cache_dir=tmp_path / "cache")
    path = manifest(demo={"url": "data/a b.csv", "sha256": "1" * 64})
    with pytest.raises(ArtifactError, match="the file has changed, or the manifest is wrong"):
        ood_dataset_from_manifest(path)


def test_yaml_toml_and_json_say_the_same(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.csv").write_bytes(CSV)
    texts = {
        "m.yaml": f"slices:\n  demo:\n    url: a.csv\n    sha256: '{DIGEST}'\n    sample_size: 2\n    seed: 1\n",
        "m.toml": f"[slices.demo]\nurl = 'a.csv'\nsha256 = '{DIGEST}'\nsample_size = 2\nseed = 1\n",
        "m.json": json.dumps(
            {"slices": {"demo": {"url": "a.csv", "sha256": DIGEST, "sample_size": 2, "seed": 1}}}
        ),
    }
    rows = []
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        frame = ood_dataset_from_manifest(tmp_path / name, backend="columns")
        rows.append(frame["row_id"].tolist())
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 2


def test_slices_fields_maps_and_formats(manifest, tmp_path):
    rows = {"prompt": ["a", "b", "c"], "kind": ["benign", "attack", "attack"]}
    entries = {}
    for name in ("x.parquet", "x.jsonl", "x.json", "x.csv", "x.tsv"):
        data = write_table(rows, tmp_path / name).read_bytes()
        entries[name.replace(".", "-")] = {
            "url": name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "text_field": "prompt",
            "label_field": "kind",
            "label_map": {"benign": 0, "attack": 1},
        }
    path = manifest(**entries)
    frame = ood_dataset_from_manifest(path)
    assert frame["label"].tolist() == [0, 1, 1] * 5
    some = ood_dataset_from_manifest(path, slices=["x-json", "x-csv"])
    assert some["source"].unique().tolist() == ["x-json", "x-csv"]
    with pytest.raises(KeyError, match="there is no slice 'nope'; the slices are 'x-parquet'"):
        ood_dataset_from_manifest(path, slices=["nope"])
    with pytest.raises(InvalidInputError, match="`slices` is 'x-csv'; it must be a list"):
        ood_dataset_from_manifest(path, slices="x-csv")
    del entries["x-csv"]["label_map"]
    with pytest.raises(
        ValueError, match=r"x.csv \(slice 'x-csv'\): row 1: 'kind' is 'benign'; .*label_map="
    ):
        ood_dataset_from_manifest(manifest(**entries), slices=["x-csv"])
    entries["x-csv"]["text_field"] = "text"
    with pytest.raises(MissingColumnError, match="there is no column 'text'"):
        ood_dataset_from_manifest(manifest(**entries), slices=["x-csv"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "url is missing"),
        ({"url": "a.csv"}, "sha256 is None; it must be 64 hex digits"),
        ({"url": "a.csv", "sha256": 12}, "sha256 is 12"),
        ({"url": "a.csv", "sha256": DIGEST, "sample_size": 2}, "sample_size needs a seed"),
        (
            {"url": "a.csv", "sha256": DIGEST, "sample_size": 0, "seed": 1},
            "`slices.demo.sample_size` is 0",
        ),
        ({"url": "a.csv", "sha256": DIGEST, "seed": "x"}, "`slices.demo.seed` must be an integer"),
        (
            {"url": "a.csv", "sha256": DIGEST, "format": "xls"},
            "format is 'xls'; it must be one of parquet",
        ),
        (
            {"url": "a.csv", "sha256": DIGEST, "lable_field": "y"},
            "unknown key 'lable_field'; the keys are",
        ),
        ({"url": 3, "sha256": DIGEST}, "url is 3; it must be a string"),
        ({"url": "a.csv", "sha256": DIGEST, "label_map": {"x": 3}}, r"label_map\['x'\] is 3"),
        ("a.csv", "must be a mapping with url and sha256"),
    ],
)
def test_manifests_are_checked_before_anything_is_fetched(manifest, entry, message):
    with pytest.raises(InvalidInputError, match=message):
        ood_dataset_from_manifest(manifest(demo=entry))


def test_manifests_that_cannot_be_read(tmp_path):
    pytest.importorskip("yaml")
    with pytest.raises(ArtifactError, match="cannot be read: No such file"):
        ood_dataset_from_manifest(tmp_path / "none.json")
    for name, text in [("a.json", "{"), ("a.toml", "x ="), ("a.yaml", "a: [")]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(ArtifactError, match=f"{name}: (not|malformed)"):
            ood_dataset_from_manifest(tmp_path / name)
    (tmp_path / "b.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="must have a mapping `slices`"):
        ood_dataset_from_manifest(tmp_path / "b.json")


def test_yaml_without_pyyaml_names_the_extra(tmp_path):
    (tmp_path / "m.yaml").write_text("slices: {}", encoding="utf-8")
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from eval_toolkit.loaders import ood_dataset_from_manifest\n"
        "try:\n    ood_dataset_from_manifest(sys.argv[1])\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.yaml")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == (
        "the file m.yaml requires yaml. Install with: pip install 'eval-toolkit[yaml]'"
    )


@pytest.mark.filterwarnings("ignore")
def test_the_loader(server, manifest, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant")
    server.files["/b.csv"] = CSV.replace(b"hello", b"hi")
    digest = hashlib.sha256(server.files["/b.csv"]).hexdigest()
    path = manifest(
        one={"url": f"{server.base}/a.csv", "sha256": DIGEST},
        two={"url": f"{server.base}/b.csv", "sha256": digest},
    )
    loader = OodManifestLoader(path, cache_dir=tmp_path / "cache", name="ood")
    assert isinstance(loader, DatasetLoader)
    before = loader.describe()
    assert server.requests == []
    assert [file["contentSize"] for file in before["distribution"]] == ["", ""]
    slice_ = loader.load_splits()["all"]
    assert slice_.strata.tolist() == ["one"] * 3 + ["two"] * 3
    assert slice_.ids.tolist() == ["one:1", "one:2", "one:3", "two:1", "two:2", "two:3"]
    described = loader.describe()
    assert [file["contentSize"] for file in described["distribution"]] == ["52 B", "49 B"]
    assert [file["sha256"] for file in described["distribution"]] == [DIGEST, digest]
    for payload in (before, described):
        (tmp_path / "c.json").write_text(json.dumps(payload), encoding="utf-8")
        dataset = mlcroissant.Dataset(jsonld=str(tmp_path / "c.json"))
        assert not dataset.metadata.ctx.issues.errors
