"""The exported site: it opens from a disk, tells nothing of the machine, and replaces only itself."""

import html
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.viewer_driving import plain_run, results, rows_run, task_run

from eval_toolkit.cli import main
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.report import Wanted
from eval_toolkit.report.viewer import export
from eval_toolkit.report.viewer.export import MARKER, export_site
from eval_toolkit.report.viewer.local_paths import Places
from eval_toolkit.runs import open_run, write_run
from eval_toolkit.scorecards import Records

PLAIN = Wanted(charts=False)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def words_of(data: bytes) -> str:
    shown = re.sub(r"<(script|style)\b.*?</\1>", " ", data.decode(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())


@pytest.fixture
def two(runs_dir: Path) -> Path:
    """Two runs of rows, one in a folder of its own."""
    rng, y = np.random.default_rng(3), np.array([0, 1] * 20)
    ids = [f"u{i}" for i in range(40)]
    for name, worth in (("old", 0.1), ("deep/new", 0.4)):
        scores = np.clip(0.3 + worth * y + rng.normal(0, 0.2, 40), 0.01, 0.99)
        rows_run(runs_dir / name, Records.from_rows(y, scores, unit_id=ids))
    return runs_dir


def test_every_link_is_relative_and_leads_somewhere(two: Path, tmp_path: Path) -> None:
    site = export_site(two, tmp_path / "site", compare=[("old", "deep/new")], wanted=PLAIN)
    found = files_of(site)
    pages = {name for name in found if name.endswith(".html")}
    assert len([name for name in pages if name.startswith("runs/")]) == 2
    assert len([name for name in pages if name.startswith("comparisons/")]) == 1
    linked = set()
    for name in pages:
        text = re.sub(rb"<script>.*?</script>", b"", found[name], flags=re.DOTALL).decode()
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            if link.startswith("#"):
                assert f'id="{link[1:]}"' in text
                continue
            target = (site / name).parent / html.unescape(link)
            assert target.resolve().is_relative_to(site.resolve())
            assert target.is_file()
            linked.add(target.relative_to(site).as_posix())
        assert "<form" not in text
    assert linked == pages - {"index.html"}
    index = words_of(found["index.html"])
    for word in ("old", "new", "deep/new", "roc_auc", "0.750", "complete"):
        assert word in index
    assert json.loads(found[MARKER]) == {
        "what": "eval-toolkit site",
        "version": 1,
        "complete": True,
        "files": sorted(pages),
    }


def test_the_index_is_under_a_policy_that_loads_nothing(two: Path, tmp_path: Path) -> None:
    found = files_of(export_site(two, tmp_path / "site", wanted=PLAIN))
    for name, data in found.items():
        if name.endswith(".html"):
            (policy,) = re.findall(rb'Content-Security-Policy" content="([^"]*)"', data)
            assert policy.startswith(b"default-src &#39;none&#39;")


def test_the_comparison_says_what_compare_says(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = export_site(two, tmp_path / "site", compare=[("old", "deep/new")], wanted=PLAIN)
    with pytest.raises(SystemExit):
        main(["compare", str(two / "old"), str(two / "deep" / "new"), "--json"])
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    (page,) = (site / "comparisons").iterdir()
    told = (
        f"{cell['delta']:+.3f} [{cell['ci_low']:+.3f}, {cell['ci_high']:+.3f}] "
        f"{cell['n_units']} {cell['value_a']:.3f} {cell['value_b']:.3f}"
    )
    assert told in words_of(page.read_bytes())
    said = f"new beats old by {cell['delta']:.3f} [{cell['ci_low']:.3f}, {cell['ci_high']:.3f}]"
    assert said in words_of(page.read_bytes())
    assert said in words_of((site / "index.html").read_bytes())


def test_no_full_path_is_told(tmp_path: Path) -> None:
    runs, other = tmp_path / "Jürgen" / "runs", tmp_path / "my clients"
    runs.mkdir(parents=True)
    (tmp_path / "link").symlink_to(runs)
    files = [f"{other}/x/preds.csv", f"{other}/y/preds.csv"]
    broken = {"value": None, "status": "error", "reason": f"cannot read '{runs}/a/b.csv': no file"}
    write_run(
        tmp_path / "link" / "r1",
        results=results("r1", {"accuracy": broken}),
        manifest={
            "run_id": "r1",
            "command": shlex.join(["score", *files, "--save", f"{tmp_path}/link/r1"]),
            "config": {"files": files, "model": {f"{runs}/weights": f"{runs}/m.gguf"}},
            "data_hashes": dict.fromkeys(files, "sha256:" + "0" * 64),
            "notes": [f"rows are in {tmp_path}/deep/notes.txt"],
        },
    )
    for folder in (runs, tmp_path / "link"):
        site = export_site(folder, tmp_path / "site", wanted=PLAIN)
        for name, data in files_of(site).items():
            assert str(tmp_path) not in data.decode(), name
            assert "clients" not in data.decode(), name
        told = words_of(next((site / "runs").iterdir()).read_bytes())
        assert "score preds.csv 'preds.csv (2)' --save r1" in told
        assert "preds.csv (2) sha256:000" in told
        assert "cannot read 'b.csv': no file" in told
        assert "rows are in notes.txt" in told


def test_texts_of_data_are_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = f"see {tmp_path}/home2/x, {tmp_path}/home/y and {runs}/z"
    records = Records.from_rows([0, 1], [0.9, 0.8], unit_id=["a", "b"])
    rows_run(runs / "r1", records, texts={"a": text, "b": "plain"})
    site = export_site(runs, tmp_path / "site", wanted=PLAIN)
    told = words_of(next((site / "runs").iterdir()).read_bytes())
    assert text in told
    settings = {"prompt": "/think of a/b, or both", "leakage_report": {"text": "/a/b"}, "n": 1}
    assert Places().within(settings) == settings


@pytest.mark.parametrize("out", ["old/site", "deep/new/a/b"])
def test_a_run_is_never_written_to(two: Path, out: str) -> None:
    before = files_of(two)
    with pytest.raises(InvalidInputError, match=r"is inside the run (old|deep/new)"):
        export_site(two, two / out, wanted=PLAIN)
    assert files_of(two) == before


def test_an_interrupted_exchange_leaves_the_old_site(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export_site(two, tmp_path / "site", wanted=PLAIN)
    before = files_of(out)
    whole = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise KeyboardInterrupt
        return whole(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        export_site(two, out, wanted=PLAIN)
    assert files_of(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "site"]


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "../../etc", "a/b", "con", "x" * 300, "‮evil", "=1+1", " "],
)
def test_hostile_names_give_safe_files_and_stay_text(
    runs_dir: Path, tmp_path: Path, name: str
) -> None:
    plain_run(runs_dir / "r1", name, 0.5)
    found = files_of(export_site(runs_dir, tmp_path / "site", wanted=PLAIN))
    for file in found:
        assert re.fullmatch(r"(runs/)?[a-z0-9-]{1,60}\.(html|json)", file)
    assert b"<script>alert" not in found["index.html"]


def test_runs_that_cannot_be_shown_are_listed_with_the_reason(
    runs_dir: Path, tmp_path: Path
) -> None:
    task_run(runs_dir / "good")
    altered = plain_run(runs_dir / "altered", "altered", 0.5)
    path = altered.path / "results.json"
    path.write_text(path.read_text().replace("0.5", "0.9"))
    plain_run(runs_dir / "gone", "gone", 0.5)
    (runs_dir / "gone" / "results.json").unlink()
    with open_run(runs_dir / "live", manifest={"run_id": "live"}):
        site = export_site(runs_dir, tmp_path / "site", wanted=PLAIN)
    (only,) = (site / "runs").iterdir()
    assert only.name.startswith("good-")
    index = words_of((site / "index.html").read_bytes())
    assert "the file has changed since the run was written" in index
    assert "results.json is missing" in index
    assert "running" in index
    assert str(tmp_path) not in index


# --- where it may be written ------------------------------------------------------------------------


def test_an_earlier_site_is_replaced_as_a_whole(two: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    export_site(two, out, compare=[("old", "deep/new")], wanted=PLAIN)
    export_site(two, out, wanted=PLAIN)
    assert not (out / "comparisons").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "site"]
    (tmp_path / "empty").mkdir()
    assert (export_site(two, tmp_path / "empty", wanted=PLAIN) / "index.html").is_file()


@pytest.mark.parametrize("what", ["file", "foreign", "extra", "link", "marker", "runs"])
def test_anything_else_is_left_alone(two: Path, tmp_path: Path, what: str) -> None:
    out = tmp_path / "site"
    if what == "file":
        out.write_text("mine")
    elif what == "foreign":
        (out / "sub").mkdir(parents=True)
        (out / "sub" / "index.html").write_text("mine")
    elif what == "marker":
        out.mkdir()
        (out / MARKER).write_text('{"what": "something else", "files": ["notes.txt"]}')
        (out / "notes.txt").write_text("mine")
    elif what == "runs":
        out = two
    else:
        export_site(two, out, wanted=PLAIN)
        if what == "extra":
            (out / "runs" / "notes.txt").write_text("mine")
        else:
            (out / "more").symlink_to(two)
    before = files_of(tmp_path)
    with pytest.raises(InvalidInputError, match="folder"):
        export_site(two, out, wanted=PLAIN)
    assert files_of(tmp_path) == before


def test_a_failure_leaves_the_old_site(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = export_site(two, tmp_path / "site", wanted=PLAIN)
    before = files_of(out)

    def fails(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "report_html", fails)
    with pytest.raises(InvalidInputError, match="cannot write: No space left on device"):
        export_site(two, out, wanted=PLAIN)
    assert files_of(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "site"]


KILLED = """
import os, signal, sys
from eval_toolkit.report import Wanted
from eval_toolkit.report.viewer import export

made = []
whole = export.report_html

def report_html(*args, **kwargs):
    made.append(1)
    if len(made) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(*args, **kwargs)

export.report_html = report_html
export.export_site(sys.argv[1], sys.argv[2], wanted=Wanted(charts=False))
"""


def test_a_killed_export_leaves_the_old_site_and_a_marked_part(two: Path, tmp_path: Path) -> None:
    out = export_site(two, tmp_path / "site", wanted=PLAIN)
    before = files_of(out)
    killed = subprocess.run([sys.executable, "-c", KILLED, two, out], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert files_of(out) == before
    (part,) = (path for path in tmp_path.iterdir() if path.name.endswith(".partial"))
    assert json.loads((part / MARKER).read_bytes())["complete"] is False
    export_site(two, out, wanted=PLAIN)
    assert set(files_of(out)) == set(before)


def test_what_cannot_be_exported_is_one_line(two: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidInputError, match="no runs found"):
        export_site(tmp_path / "none", tmp_path / "site")
    with pytest.raises(ArtifactError, match="no such folder"):
        export_site(tmp_path / "missing", tmp_path / "site")
    with pytest.raises(InvalidInputError, match="compare 'nope': there is no such run"):
        export_site(two, tmp_path / "site", compare=[("old", "nope")])
    plain_run(two / "again", "old", 0.5)
    (tmp_path / "runs" / "old").rename(tmp_path / "runs" / "first")
    with pytest.raises(InvalidInputError, match="several runs have this id; pass a folder"):
        export_site(two, tmp_path / "site", compare=[("old", "new")])
    assert not (tmp_path / "site").exists()


def test_the_command_exports(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "wanted_here", lambda: PLAIN)
    out = tmp_path / "site"
    for code, more in (
        (0, ["--export", out, "--compare", "old", "new"]),
        (2, ["--compare", "a", "b"]),
    ):
        with pytest.raises(SystemExit) as caught:
            main(["view", str(two), *map(str, more)])
        assert caught.value.code == code
    assert len(list((out / "comparisons").iterdir())) == 1
    told, err = capsys.readouterr()
    assert f"wrote {out}" in told
    assert "--compare needs --export" in err
