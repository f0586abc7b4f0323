"""Predictions and runs at addresses: fsspec's own memory, file and HTTP on loopback."""

import functools
import http.server
import json
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit import PredictionArtifactRef, load_predictions, write_predictions
from eval_toolkit._internal.files import limits
from eval_toolkit.artifacts.remote import address_of, fetch, folder_of, joined, name_of, send
from eval_toolkit.cli.main import cli, main
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingExtraError
from eval_toolkit.runs import Run, remote
from eval_toolkit.runs.remote import pull_run, push_run

fsspec = pytest.importorskip("fsspec")
SECRET = "hunter2hunter2"  # noqa: S105 - of nobody
RNG = np.random.default_rng(5)
Y = (RNG.random(60) < 0.5).astype(int)
S = 0.4 * Y + 0.5 * RNG.random(60)
LINES = [f"r{i:02},{y},{s:.6f}" for i, (y, s) in enumerate(zip(Y, S, strict=True))]
CSV = "\n".join(["id,y,score", *LINES])


def run_cli(*line: str) -> Result:
    return CliRunner().invoke(cli, [*line])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with predictions and a run made of them."""
    path = tmp_path_factory.mktemp("served")
    (path / "p.csv").write_text(CSV, encoding="utf-8")
    result = run_cli("score", str(path / "p.csv"), "--label", "y", "--save", str(path / "r1"))
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return Run.open(folder / "r1")


@pytest.fixture
def bucket() -> str:
    """An address of fsspec's memory that no other test uses."""
    return f"memory://{uuid.uuid4().hex}"


class Guarded(http.server.SimpleHTTPRequestHandler):
    """Serves files to those who know the token or the password."""

    def do_GET(self) -> None:
        if f"token={SECRET}" not in self.path and "Authorization" not in self.headers:
            self.send_error(403)
            return
        super().do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    handler = functools.partial(Guarded, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


# --- addresses ---------------------------------------------------------------------------------


@given(st.text("abcXYZ019!$&*+=-_.%@:", min_size=8, max_size=20))
def test_an_address_is_shown_without_its_secrets(secret: str) -> None:
    secret = f"s{secret}s"
    for uri in (
        f"https://me:{secret}@host/p.csv",
        f"https://{secret}@host/p.csv",
        f"https://host/p.csv?X-Amz-Signature={secret}&X-Amz-Expires=60",
        f"zip://p.csv::https://me:{secret}@host/x.zip?sig={secret}",
        f"https://host/r1/?token={secret}",
        f"https://host/r1#token={secret}",
        f"https://host/r1?token='{secret}\" <{secret} {secret}",
        f"simplecache::https://me:{secret}@host/p.csv?token={secret}",
    ):
        assert secret not in address_of(uri)
        assert "host/" in address_of(uri)


@pytest.mark.parametrize("path", ["runs/r1", "C:/runs/r1", "what?.csv", "file:///tmp/a?b.csv"])
def test_a_path_is_shown_as_it_is(path: str) -> None:
    assert address_of(path) == path


def test_parts_of_addresses() -> None:
    assert joined("s3://b/r1/", "x.json") == "s3://b/r1/x.json"
    assert joined("http://h/r1?k=1", "x.json") == "http://h/r1/x.json?k=1"
    assert name_of("http://h/a/p.csv.gz?k=/1") == "p.csv.gz"
    assert name_of("zip://p.csv::https://h/x.zip") == "p.csv"
    assert name_of("memory://a/..") == ""
    assert name_of("simplecache::https://h/a/p.csv?k=1") == "p.csv"
    assert joined("simplecache::https://h/r1?k=1", "x") == "simplecache::https://h/r1/x?k=1"
    assert joined("zip://r1::https://h/r.zip", "x") == "zip://r1/x::https://h/r.zip"
    assert joined("zip://::https://h/r.zip", "x") == "zip://x::https://h/r.zip"
    assert folder_of("zip://r1/x::https://h/r.zip?k=1") == "zip://r1::https://h/r.zip?k=1"


# --- predictions -------------------------------------------------------------------------------


def test_predictions_are_written_to_an_address_and_read_back(bucket: str, tmp_path: Path) -> None:
    columns = {
        "labels": Y,
        "scores": np.linspace(0, 1, 60),
        "row_ids": [f"r{i}" for i in range(60)],
    }
    here = write_predictions(tmp_path / "p.parquet", **columns)
    there = write_predictions(f"{bucket}/deep/p.parquet", **columns)
    local = write_predictions((tmp_path / "a b.parquet").as_uri(), **columns)
    assert here.sha256 == there.sha256 == local.sha256
    assert (tmp_path / "a b.parquet").is_file()
    for ref in (there, local):
        assert load_predictions(ref).row_ids == load_predictions(here).row_ids


def test_a_stored_reference_holds_no_secret() -> None:
    ref = {
        "uri": f"https://me:{SECRET}@host/p.csv?token={SECRET}",
        "media_type": "text/csv",
        "columns": {"label": "y", "score": "s"},
    }
    made = PredictionArtifactRef.from_dict(ref)
    assert made.uri == ref["uri"]  # it must load
    assert made.to_dict()["uri"] == "https://host/p.csv?…"
    assert SECRET not in repr(made) + made._repr_html_()


def test_an_address_that_takes_nothing_says_so(server: str) -> None:
    with pytest.raises(ArtifactError, match=r"p2\.csv\?…: cannot be written: 501") as found:
        write_predictions(f"{server}/p2.csv?token={SECRET}", labels=[0, 1], scores=[0.1, 0.2])
    assert SECRET not in str(found.value)


# --- runs --------------------------------------------------------------------------------------


def test_a_run_goes_to_an_address_and_back(run: Run, bucket: str, tmp_path: Path) -> None:
    assert push_run(run, f"{bucket}/r1") == f"{bucket}/r1"
    opened = Run.open(f"{bucket}/r1")
    assert opened.manifest == run.manifest
    assert opened.results == run.results
    for name, column in opened.records("all", "score").columns.items():
        assert np.array_equal(column, run.records("all", "score").columns[name])
    assert Run.open(f"{bucket}/r1/manifest.json").run_id == run.run_id
    pulled = pull_run(f"{bucket}/r1", tmp_path / "new" / "r1")
    for name in ("manifest.json", *run.manifest["artifacts"]):
        assert (pulled.path / name).read_bytes() == (run.path / name).read_bytes()
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["r1"]
    assert Run.open(pulled.path.as_uri()).run_id == run.run_id


def test_what_is_there_is_not_replaced_unasked(run: Run, bucket: str, tmp_path: Path) -> None:
    push_run(run, bucket)
    with pytest.raises(ArtifactError, match=r"already contains a run; pass overwrite=True"):
        push_run(run.path, bucket)
    assert push_run(run.path, bucket, overwrite=True) == bucket
    with pytest.raises(ArtifactError, match="already exists"):
        pull_run(bucket, tmp_path)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_that_was_cut_short_is_no_run(
    run: Run, bucket: str, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    if overwrite:
        push_run(run, bucket)
    sent: list[str] = []

    def failing(source: Path, uri: str) -> None:
        if sent:
            raise ArtifactError("the line is dead")
        sent.append(uri)

    monkeypatch.setattr(remote, "send", failing)
    with pytest.raises(ArtifactError, match="dead"):
        push_run(run, bucket, overwrite=overwrite)
    with pytest.raises(ArtifactError, match=rf"^{bucket}/manifest\.json: cannot be fetched"):
        Run.open(bucket)


def test_an_altered_run_is_refused_by_its_address(run: Run, bucket: str, tmp_path: Path) -> None:
    push_run(run, bucket)
    memory, path = fsspec.core.url_to_fs(f"{bucket}/results.json")
    memory.pipe_file(path, memory.cat_file(path) + b" ")
    for read in (Run.open, lambda uri: pull_run(uri, tmp_path / "r1")):
        with pytest.raises(ArtifactError, match=rf"^(?!.*/tmp/).*{bucket}.*results\.json"):
            read(bucket)
    assert not list(tmp_path.iterdir())
    memory.rm_file(path)
    with pytest.raises(ArtifactError, match=rf"^{bucket}/results\.json: cannot be fetched"):
        Run.open(bucket)


@pytest.mark.parametrize(
    "name", ["../evil.json", "..", "a/b.json", "", "..\\evil", "manifest.json", "C:x", "x\ny"]
)
def test_a_manifest_reaches_no_file_outside_the_copy(bucket: str, name: str) -> None:
    manifest = {"status": "complete", "run_id": "r", "artifacts": {name: {"sha256": "0" * 64}}}
    fsspec.filesystem("memory").pipe_file(f"{bucket}/manifest.json", json.dumps(manifest).encode())
    with pytest.raises(ArtifactError, match="it must be in the folder"):
        Run.open(bucket)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"status": "running", "run_id": "r"}'])
def test_what_is_no_finished_run_is_refused(bucket: str, body: bytes) -> None:
    fsspec.filesystem("memory").pipe_file(f"{bucket}/manifest.json", body)
    with pytest.raises(ArtifactError, match=bucket):
        Run.open(bucket)


def test_a_file_without_end_is_left(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(Path(__file__), f"{bucket}/long")
    monkeypatch.setattr(limits, "FETCHED_BYTES", 1_000)
    with pytest.raises(
        ArtifactError, match=r"long: the file is larger than 1,000 bytes; download it"
    ):
        fetch(f"{bucket}/long", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_only_addresses_are_pushed_to_and_pulled_from(run: Run, tmp_path: Path) -> None:
    for call in (lambda: push_run(run, str(tmp_path)), lambda: pull_run("runs/r1", tmp_path / "x")):
        with pytest.raises(InvalidInputError, match="must be an address"):
            call()


# --- over HTTP, with secrets -------------------------------------------------------------------


def test_a_run_is_read_over_http(server: str, run: Run) -> None:
    assert Run.open(f"{server}/r1?token={SECRET}").results == run.results


@pytest.mark.parametrize("path", ["r1", "none"])
def test_errors_over_http_tell_no_secret(server: str, path: str) -> None:
    wrong = f"{server}/{path}?token={SECRET if path == 'none' else 'wrongwrong'}"
    with pytest.raises(ArtifactError) as found:
        Run.open(wrong.replace("://", f"://me:{SECRET}@") if path == "none" else wrong)
    assert SECRET not in str(found.value)
    assert "wrongwrong" not in str(found.value)
    assert found.value.__cause__ is None
    assert f"{server}/{path}/manifest.json" in str(found.value)


def test_an_address_without_its_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtraError, match=r"^s3://bucket/r1/manifest\.json: .*s3fs"):
        Run.open("s3://bucket/r1")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eval-toolkit\[remote\]'"):
        Run.open("s3://bucket/r1")


# --- the command line --------------------------------------------------------------------------


def test_predictions_at_an_address_are_scored_and_stored(
    server: str, run: Run, tmp_path: Path
) -> None:
    uri = f"{server}/p.csv?token={SECRET}"
    result = run_cli("score", uri, "--label", "y", "--save", str(tmp_path / "r1"))
    assert result.exit_code == 0, result.output
    stored = Run.open(tmp_path / "r1")
    assert stored.results["by_slice"] == run.results["by_slice"]
    assert stored.results["config"]["files"] == [f"{server}/p.csv?…"]
    assert list(stored.manifest["data_hashes"]) == [f"{server}/p.csv?…"]
    assert list(stored.manifest["data_hashes"].values()) == list(
        run.manifest["data_hashes"].values()
    )
    for file in stored.path.iterdir():
        assert SECRET.encode() not in file.read_bytes()
    assert SECRET not in result.output


def test_a_threshold_from_an_address(server: str, folder: Path) -> None:
    (folder / "q.csv").write_text(CSV.replace("\nr", "\nq"), encoding="utf-8")
    there = f"{server}/q.csv?token={SECRET}"
    line = ["--label", "y", "--metric", "f1", "--json"]
    result = run_cli("score", str(folder / "p.csv"), "--threshold-from", there, *line)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["config"]["threshold_files"] == [f"{server}/q.csv?…"]


def test_a_bad_row_is_named_by_the_address(bucket: str) -> None:
    fsspec.filesystem("memory").pipe_file(f"{bucket}/p.csv", b"id,y,score\nr1,7,0.5\nr2,1,0.4\n")
    result = run_cli("score", f"{bucket}/p.csv", "--label", "y")
    assert str(result.exception).startswith(f"{bucket}/p.csv: row 1: 'y' is 7")


def test_files_at_addresses_are_compared(server: str, folder: Path, bucket: str) -> None:
    fsspec.filesystem("memory").pipe_file(f"{bucket}/p.csv", CSV.encode())
    result = run_cli("compare", (folder / "p.csv").as_uri(), f"{bucket}/p.csv", "--label", "y")
    assert result.exit_code == 0, result.output
    # Files of one name are told apart by as much of their addresses as it takes.
    a, b = (at.removeprefix("memory://") for at in (f"{folder.name}/p.csv", f"{bucket}/p.csv"))
    assert result.output.startswith(f"{a} and {b} do not differ significantly")
    assert f" and {bucket}/p.csv: " in result.output


def test_runs_at_addresses_go_through_every_command(run: Run, bucket: str, tmp_path: Path) -> None:
    push_run(run, f"{bucket}/r1")
    uri, page = f"{bucket}/r1", tmp_path / "report.html"
    claims = tmp_path / "claims.toml"
    claims.write_text(
        '[[claim]]\nname = "no worse"\nslice = "all"\nscorer = "score"\nmetric = "roc_auc"\n'
        "non_inferior_by = 0.2\n",
        encoding="utf-8",
    )
    for line in (
        ["score", uri],
        ["compare", uri, str(run.path)],
        ["gate", uri, "--claims", str(claims), "--baseline", uri],
        ["report", uri, "-o", str(page), "--no-charts"],
        ["export", uri, "--to", "csv"],
        ["doctor", uri],
        ["validate", f"{uri}/results.json", f"{uri}/manifest.json"],
    ):
        result = run_cli(*line)
        assert result.exit_code == 0, (line, result.output, result.exception)
    assert page.is_file()
    refused = run_cli("report", uri)
    assert "pass a path for the report of a run at a URL" in str(refused.exception)
    lost = run_cli("doctor", f"{bucket}/none", "--json")
    assert lost.exit_code == 1
    (entry,) = json.loads(lost.output)["runs"]
    assert (entry["run"], entry["state"]) == (f"{bucket}/none", "incomplete")


def test_a_copy_is_called_by_its_address(
    run: Run, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    push_run(run, f"{bucket}/r1")
    with pytest.raises(SystemExit, match="2"):
        main(["transcripts", f"{bucket}/r1"])
    assert capsys.readouterr().err.startswith(f"error: {bucket}/r1: not a rollout run")


def test_a_copy_that_failed_is_not_left(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ArtifactError, match="it does not exist"):
        Run.open(bucket)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["check", "doctor", "import", "leaderboard", "rescore", "view"])
@pytest.mark.parametrize("form", ["{}", "name={}"])
def test_no_command_tells_the_secrets_of_an_address(
    command: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = f"memory://me:{SECRET}@host/r1/?token={SECRET}&sig=more{SECRET}"
    with pytest.raises(SystemExit) as stop:
        main([command, form.format(uri)])
    shown = "".join(capsys.readouterr())
    assert stop.value.code in (1, 2)
    assert shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    "line",
    [
        ["export", "--to", "csv", "-o"],
        ["report", "-o"],
        ["score", "--save"],
        ["score", "--out"],
        ["transcripts", "--out"],
        ["gate", "--claims", "claims.toml", "--junit"],
        ["import", "--out"],
    ],
)
def test_nothing_is_written_to_a_folder_named_like_an_address(
    line: list[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_cli(line[0], str(run.path), *line[1:], "s3://bucket/x.csv")
    assert result.exit_code == 2
    assert "is a URL" in result.output
    assert "push_run" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "uri",
    ["reference://p.csv::file:///x.json", "simplecache::reference://p.csv", "Reference://p.csv"],
)
def test_addresses_that_fill_in_templates_are_refused(uri: str, tmp_path: Path) -> None:
    """Older versions of fsspec run what stands in the braces of such a file."""
    with pytest.raises(ArtifactError, match="can contain templates"):
        fetch(uri, tmp_path / "p.csv")
