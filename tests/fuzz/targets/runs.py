"""Untrusted run folders: changed, resealed, compared, gated and displayed."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from tests.fuzz.pages import check_page
from tests.fuzz.target import BrokenError, Target, command, each
from tests.support.viewer_driving import TOKEN, Asking

from eval_toolkit._internal import tables
from eval_toolkit.artifacts.strict_json import json_bytes
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.models.runner.journal import Journal
from eval_toolkit.report.viewer import create_app
from eval_toolkit.report.viewer import report_page as reporting_module
from eval_toolkit.report.viewer import run_list as listing_module
from eval_toolkit.runs.progress import read_progress

__all__ = ["TARGETS", "two_runs"]

_ROWS = "id,label,score,lang,text\n" + "".join(
    f"u{i},{i % 2},{(i * 7 % 20) / 40 + i % 2 / 3:.3f},{'de' if i % 3 else 'en'},text {i}\n"
    for i in range(24)
)
_CLAIMS = """
[[claim]]
name = "high"
slice = "all"
scorer = "score"
metric = "roc_auc"
require = "ci_low >= 0.5"
[[claim]]
name = "no worse"
slice = "all"
scorer = "score"
metric = "roc_auc"
non_inferior_by = 0.01
[[claim]]
name = "whole"
no_errors = true
"""
_ASKED = ("capitals_open", "--model", "scripted:Paris", "--limit", 1, "--quiet")
_TALKED = ("--tester", "scripted{probes=['{goal}', 'Again.']}", "--depth", 2, "--quiet")
_SEEDS = "id,prompt,topic\ns1,Tell me a joke.,jokes\ns2,Tell me another.,jokes\n"


# --- making and sealing ---------------------------------------------------------------------------


def two_runs(folder: Path) -> None:
    """Write two runs on the same rows: ``odd``, which is mutated, and ``plain``."""
    (folder / "rows.csv").write_text(_ROWS)
    (folder / "claims-plain.toml").write_text(_CLAIMS)
    for name in ("odd", "plain"):
        asked = ("--by", "lang", "--metric", "roc_auc", "--resamples", 50, "--text", "text")
        command("score", folder / "rows.csv", *asked, "--save", folder / name)
    _as_json(folder / "odd")


def _asked_runs(folder: Path) -> None:
    for name in ("odd", "plain"):
        command("run", *_ASKED, "--out", folder / name)
    _as_json(folder / "odd")


def _rolled_runs(folder: Path) -> None:
    (folder / "seeds.csv").write_text(_SEEDS)
    for name, reply in (("odd", "Sorry, no."), ("plain", "Sure!")):
        target = ("--target", f"scripted:{reply}", "--scorer", "refusal")
        out = ("--out", folder / name)
        command("rollout", "--seeds", folder / "seeds.csv", *_TALKED, *target, *out)
    _as_json(folder / "odd")


def _as_json(run: Path) -> None:
    """Write each table of a run as JSON next to it, so that its cells can be mutated."""
    for path in run.rglob("*.parquet"):
        columns = {name: _plain(column) for name, column in tables.read_table(path).items()}
        path.with_suffix(".cells.json").write_text(json.dumps(columns, indent=1))


def _plain(column: Any) -> list[Any]:
    plain = (type(None), bool, int, float, str)
    return [one if isinstance(one, plain) else str(one) for one in column.tolist()]


def _sealed(run: Path) -> None:
    """Write the mutated cells as tables and recompute all hashes."""
    for path in run.rglob("*.cells.json"):
        _write_cells(path, path.with_name(path.name.replace(".cells.json", ".parquet")))
    try:
        manifest = json.loads((run / "manifest.json").read_bytes())
        listed = manifest["artifacts"]
        for name in listed:
            digest = hashlib.sha256((run / name).read_bytes()).hexdigest()
            listed[name]["sha256"] = digest
            if "n_bytes" in listed[name]:
                listed[name]["n_bytes"] = (run / name).stat().st_size
        (run / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))
    except (ValueError, TypeError, LookupError, AttributeError, OSError, EvalToolkitError):
        return  # no manifest that could be sealed
    except RecursionError:
        return


def _write_cells(cells: Path, table: Path) -> None:
    """Write columns as Parquet with pyarrow, which accepts more types than the package's writer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = json.loads(cells.read_bytes())
        arrays = {str(name): pa.array(_even(column)) for name, column in found.items()}
        pq.write_table(pa.table(arrays), table, write_page_checksum=True)
    except (
        ValueError,
        TypeError,
        AttributeError,
        pa.ArrowException,
        OverflowError,
        RecursionError,
    ):
        return  # no table; the one before stays


def _even(column: list[Any]) -> list[Any]:
    """Return a column with a single type: unchanged if it has one, otherwise as strings."""
    kinds = {type(one) for one in column if one is not None}
    if len(kinds) <= 1 or kinds <= {int, float}:
        return column
    return [one if one is None or isinstance(one, str) else json.dumps(one) for one in column]


def _kept(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def _sealed_for(folder: Path, run: Any) -> None:
    """Seal the changed run, run a reader on it, and restore the files changed by sealing."""
    before = _kept(folder / "odd")
    try:
        _sealed(folder / "odd")
        run()
    finally:
        for path, data in before.items():
            path.write_bytes(data)


# --- reading --------------------------------------------------------------------------------------


def _compared(folder: Path, name: str) -> None:
    odd, plain, claims = folder / "odd", folder / "plain", folder / "claims-plain.toml"
    _sealed_for(folder, lambda: each(
        lambda: command("compare", odd, plain),
        lambda: command("gate", odd, "--claims", claims, "--baseline", plain),
        lambda: command("score", odd, "--resamples", 50),
        lambda: command("doctor", odd),
        lambda: command("validate", odd / "results.json"),
        lambda: command("leaderboard", odd, plain),
    ))  # fmt: skip


def _asked(folder: Path, name: str) -> None:
    odd, plain = folder / "odd", folder / "plain"
    _sealed_for(folder, lambda: each(
        lambda: command("compare", odd, plain),
        lambda: command("doctor", odd),
        lambda: command("export", odd, "--to", "csv", "--out", folder / "out" / "x.csv"),
        lambda: command("run", *_ASKED, "--out", odd),
        lambda: command("run", _ASKED[0], "--measure", odd, codes=(0, 1, 2, 3)),
    ))  # fmt: skip


def _talked(folder: Path, name: str) -> None:
    odd, plain = folder / "odd", folder / "plain"
    forms = [
        lambda form=form: command("transcripts", odd, "--format", form)
        for form in ("jsonl", "md", "csv")
    ]
    _sealed_for(folder, lambda: each(
        *forms,
        lambda: command("compare", odd, plain),
        lambda: command("rescore", odd, "--scorer", "refusal", codes=(0, 1, 2, 3)),
    ))  # fmt: skip


def _shown(folder: Path, name: str) -> None:
    _sealed_for(folder, lambda: each(lambda: _report(folder), lambda: _view(folder)))


def _report(folder: Path) -> None:
    page = folder / "out" / "report.html"
    page.parent.mkdir(exist_ok=True)
    command("report", folder / "odd", folder / "plain", "--no-charts", "--out", page)
    check_page(page.read_text("utf-8"))


def _view(folder: Path) -> None:
    listing_module._LOOK_AGAIN_S = -1.0  # every request looks again
    reporting_module.find_spec = lambda name: None  # without charts, which take a second each
    ask = Asking(create_app(folder, token=TOKEN))
    waiting, kinds = ["/"], {"/"}
    while waiting:
        answer = ask(waiting.pop(0))
        if answer.status >= 500:
            raise BrokenError(f"the viewer answers {answer.status}: {answer.words[:300]}")
        if "html" in answer.headers.get("content-type", ""):
            links = check_page(answer.text)
            for link in links:  # one page of each kind
                kind = re.sub(r"=[^&]*|[^/]*\d[^/]*", "…", link)
                if link.startswith("/") and kind not in kinds and len(kinds) < 14:
                    kinds.add(kind)
                    waiting.append(link)


def _journal(folder: Path, name: str) -> None:
    path = folder / "run" / "journal.jsonl"
    path.write_bytes((folder / name).read_bytes())
    (folder / "run" / "manifest.json").write_text(
        json.dumps({"status": "running", "run_id": "r", "plan": {"n_requests": 3}})
    )
    Journal(path).read()
    read_progress(path.parent)
    command("doctor", folder / "run")
    _view(folder / "run")


_SCORED = ("odd/manifest.json", "odd/results.json", "odd/records.cells.json")
_ANSWERED = (*_SCORED, "odd/responses.cells.json", "odd/units.cells.json")
_ROLLED = (*_SCORED, "odd/turns.cells.json", "odd/units.cells.json")
TARGETS = (
    Target("scored_run", "runs of rows: compare, gate, score", _compared, two_runs, _SCORED),
    Target(
        "asked_run",
        "runs of tasks: compare, export, resume, measure",
        _asked,
        _asked_runs,
        _ANSWERED,
    ),
    Target("rolled_run", "runs of rollouts: transcripts", _talked, _rolled_runs, _ROLLED),
    Target("scored_pages", "runs of rows: report and viewer", _shown, two_runs, _SCORED),
    Target("asked_pages", "runs of tasks: report and viewer", _shown, _asked_runs, _ANSWERED),
    Target("rolled_pages", "runs of rollouts: report and viewer", _shown, _rolled_runs, _ROLLED),
    Target("journal", "journals of unfinished runs", _journal, lambda f: (f / "run").mkdir()),
)
