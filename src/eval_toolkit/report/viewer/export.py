"""Export runs as a static site."""

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import sync_folder
from eval_toolkit.analysis.configs import run_names
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import ArtifactError, EvalToolkitError, InvalidInputError
from eval_toolkit.provenance import utc_now
from eval_toolkit.report import Wanted, report_html
from eval_toolkit.report import rendering as report
from eval_toolkit.report.sections import Chapter
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.local_paths import SharedRun, without_folders
from eval_toolkit.report.viewer.report_page import wanted_here
from eval_toolkit.report.viewer.run_list import ListedRun, RunList
from eval_toolkit.runs import Run

MARKER = "eval-toolkit-site.json"
"""Marker file of every site, which lists its files and states whether it is complete."""
_OURS = "eval-toolkit site"


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Entry of a run in the list of a site."""

    run: ListedRun
    href: str = ""
    why_not: str = ""


def export_site(
    runs_dir: str | Path,
    out: str | Path,
    *,
    compare: Sequence[tuple[str, str]] = (),
    title: str = "Runs",
    wanted: Wanted | None = None,
) -> Path:
    """Write a list of runs, their reports and comparisons as a static site.

    Every file is self-contained; links are relative. Absolute paths in commands, settings, notes
    and reasons of results are reduced to their last part; data, reasons for individual samples and
    relative paths are unchanged.

    ``out`` may be new, empty, or an earlier site, which is replaced once the new one is complete.
    ``compare`` contains pairs (A, B) of runs, given as ids or folders below ``runs_dir``. Returns
    the output folder, in which ``index.html`` lists the runs. Raises `InvalidInputError` if there
    are no runs, a run to compare is missing, or ``out`` contains anything but a site or is inside a
    run.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> folder = tempfile.mkdtemp()
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> _ = write_run(folder + "/runs/r1", results=results, manifest={"run_id": "r1"})
    >>> site = export_site(folder + "/runs", folder + "/site")
    >>> sorted(file.name for file in site.iterdir())
    ['eval-toolkit-site.json', 'index.html', 'runs']
    """
    if not Path(runs_dir).is_dir():
        raise ArtifactError(f"{runs_dir}: no such folder")
    folder, target = Path(runs_dir).resolve(), Path(out).resolve()
    runs = RunList(folder).runs()
    if not runs:
        raise InvalidInputError(f"{runs_dir}: no runs found")
    pairs = [(_named(runs, a), _named(runs, b)) for a, b in compare]
    _check_place(target, out)
    for run in runs:
        if run.path in (target, *target.parents):
            raise InvalidInputError(f"{out}: is inside the run {run.place}; choose another folder")
    shown = wanted or wanted_here()
    try:
        with _replaced(target) as made:
            site = _Site(made, shown)
            latest = sorted(runs, key=lambda run: run.when, reverse=True)
            lines = [site.report(run) for run in latest]
            comparisons = [site.comparison(a, b) for a, b in pairs]
            site.index(title, lines, comparisons)
            site.mark_complete()
    except OSError as error:
        raise InvalidInputError(f"{out}: cannot write: {error.strerror or error}") from error
    return Path(out)


def _named(runs: Sequence[ListedRun], name: str) -> ListedRun:
    """Return the run with a name; raise if the name is ambiguous or unknown."""
    place = name.rstrip("/")
    found = [run for run in runs if run.place == place]
    found = found or [run for run in runs if run.run_id == name]
    if len(found) != 1:
        many = "several runs have this id; pass a folder" if found else "there is no such run"
        have = ", ".join(run.place for run in runs[:10])
        raise InvalidInputError(f"compare {name!r}: {many} (there are {have})")
    if found[0].state != "complete":
        raise InvalidInputError(f"compare {name!r}: the run is {found[0].state}")
    return found[0]


# --- output folder --------------------------------------------------------------------------------


def _check_place(target: Path, out: str | Path) -> None:
    """Raise if the target folder contains files that were not written by an export."""
    if not target.exists():
        return
    if not target.is_dir():
        raise InvalidInputError(f"{out}: is a file; pass a folder")
    there = {
        path.relative_to(target).as_posix()
        for path in target.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    if not there and not any(target.iterdir()):
        return
    more = sorted(there - _listed(target / MARKER))
    if MARKER not in there or more:
        what = (
            f"contains {more[0]!r}, which an export did not write"
            if more
            else "is not an exported site"
        )
        raise InvalidInputError(f"{out}: {what}; choose another folder, or an empty one")


def _listed(marker: Path) -> set[str]:
    """Return the files listed in the marker of a site."""
    try:
        found = json.loads(marker.read_bytes())
    except (OSError, ValueError):
        return set()
    if not isinstance(found, dict) or found.get("what") != _OURS:
        return set()
    return {str(name) for name in found.get("files") or ()} | {MARKER}


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which replaces the target once it is complete.

    If the process is killed, the old site is unchanged, and a folder ending in ``.partial`` remains
    next to it. If the process is killed between the two renames, the old site remains next to the
    target in a folder ending in ``.old``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(4)
    made = target.with_name(f".{target.name}.{mark}.partial")
    old = target.with_name(f".{target.name}.{mark}.old")
    made.mkdir()
    try:
        _write(made / MARKER, _marker([], complete=False))
        yield made
        try:
            if target.exists():
                target.rename(old)
            made.rename(target)
        except BaseException:  # including KeyboardInterrupt
            if old.exists() and not target.exists():
                old.rename(target)
            raise
        sync_folder(target.parent)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _marker(files: Sequence[str], *, complete: bool) -> bytes:
    return json_bytes({"what": _OURS, "version": 1, "complete": complete, "files": sorted(files)})


def _write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    path.write_bytes(data)


# --- contents -------------------------------------------------------------------------------------


class _Site:
    """Site that is being written."""

    def __init__(self, made: Path, wanted: Wanted) -> None:
        self._made = made
        self._wanted = wanted
        self._files: list[str] = []

    def _add(self, name: str, html: str) -> str:
        _write(self._made / name, html)
        self._files.append(name)
        return name

    def report(self, run: ListedRun) -> _Line:
        """Write the report of a run; if that fails, the run is listed with the reason."""
        if run.state != "complete":
            return _Line(run=run, why_not=without_folders(run.reason or run.state))
        try:
            html = report_html(SharedRun.of(Run.open(run.path)), wanted=self._wanted)
        except ImportError:
            raise
        except EvalToolkitError as error:
            why = str(error).replace(f"{run.path}/", "").removeprefix(f"{run.path}: ")
            return _Line(run=replace(run, state="altered"), why_not=without_folders(why))
        return _Line(run=run, href=self._add(f"runs/{run.key}.html", html))

    def comparison(self, a: ListedRun, b: ListedRun) -> dict[str, str]:
        """Write the comparison of two runs."""
        from eval_toolkit.report import differences
        from eval_toolkit.report.html_report import page_html

        opened = [SharedRun.of(Run.open(one.path)) for one in (a, b)]
        sections = list(differences.sections(opened, self._wanted))
        title = " and ".join(run_names(opened))
        html = page_html([Chapter(sections=sections)], title, self._wanted)
        name = f"comparisons/{a.key}--{b.key}.html"
        said = str(sections[0].data.get("said") or sections[0].data.get("refused") or "")
        return {"href": self._add(name, html), "a": a.run_id, "b": b.run_id, "said": said}

    def index(self, title: str, lines: Sequence[_Line], comparisons: Sequence[Any]) -> None:
        """Write the list of runs."""
        from markupsafe import Markup

        script = report.asset("report.js")
        css = report.stylesheet() + rendering.static_files()["viewer.css"][1].decode()
        html = rendering.page(
            "site.html",
            title=title,
            lines=lines,
            comparisons=comparisons,
            policy=report.content_policy([script]),
            stylesheet=Markup(css),  # noqa: S704 - our own files
            script=Markup(script),  # noqa: S704 - our own file
            made_at=utc_now(),
        )
        self._add("index.html", html)

    def mark_complete(self) -> None:
        """Write the marker of a complete site."""
        _write(self._made / MARKER, _marker(self._files, complete=True))
