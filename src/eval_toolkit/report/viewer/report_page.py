"""Report of a run as a page of the viewer; for large runs, only the quick sections at first."""

import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

from eval_toolkit._internal.environment import child_environment
from eval_toolkit.errors import ArtifactError
from eval_toolkit.report import Wanted, report_html
from eval_toolkit.report.contents import BUILDERS, sections_of
from eval_toolkit.report.sections import Chapter
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.menus import run_menu
from eval_toolkit.report.viewer.run_list import ListedRun, RunList
from eval_toolkit.runs import Run

LARGE = 100_000
"""Number of records above which sections that read all of them are built on request."""
_QUICK = ("headline", "slices", "leakage", "provenance")
_TIMEOUT_S = 300
_ONE_AT_A_TIME = threading.Lock()


def wanted_here() -> Wanted:
    """Return the report options, with charts only if their libraries are installed."""
    return Wanted(charts=all(find_spec(name) is not None for name in ("altair", "vl_convert")))


def page_of(run: ListedRun, *, whole: bool = True) -> str:
    """Return the page of a complete run.

    The page warns about files that do not match their hashes. With ``whole``, it includes the
    sections that read all records, even for a large run.
    """
    altered = []
    try:
        opened = Run.open(run.path)
    except ArtifactError as error:
        why = str(error).replace(f"{run.path}/", "").removeprefix(f"{run.path}: ")
        altered = [(run.run_id, why)]
        opened = Run.open(run.path, verify=False)
    wanted = wanted_here()
    quick = not whole and (run.n_records or 0) > LARGE
    sections = list(sections_of(opened, wanted, _quick(opened) if quick else BUILDERS))
    body = rendering.chapters([Chapter(sections=sections)])
    return rendering.page(
        "run.html",
        title=run.run_id,
        run=run,
        altered=altered,
        quick=quick,
        sections=sections,
        body=body,
        charts="<figure data-chart" in body,  # data is escaped and cannot contain this tag
        menu=run_menu(run, "Report"),
    )


def _quick(run: Run) -> list[str]:
    """Return the sections that need only the results, not the records."""
    return [name for name in _QUICK if name != "slices" or len(run.cells.places) > 1]


def file_of(run: ListedRun) -> str:
    """Return the report of a run as one self-contained HTML page."""
    return report_html(run.path, wanted=wanted_here())


def made_apart(folder: Path, run: ListedRun, what: str) -> str:
    """Return a page for a large run, built in a separate process.

    The memory used for reading all records is freed when that process ends.

    ``what`` selects the page in the viewer, or the report as one file.
    """
    command = [sys.executable, "-P", "-c", f"from {__name__} import child; child()"]
    with _ONE_AT_A_TIME:
        try:
            done = subprocess.run(  # noqa: S603 - our own code, called with a folder and a key
                [*command, str(folder), run.key, what],
                env=child_environment(),
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ArtifactError(
                f"the report took longer than {_TIMEOUT_S} s; write it with eval-toolkit report"
            ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ArtifactError(
            f"the report could not be created: {said[-1] if said else 'no reason given'}"
        )
    return done.stdout.decode()


def child() -> None:
    """Print the page requested on the command line."""
    folder, key, what = sys.argv[1:4]
    run = RunList(Path(folder)).run(key)
    if run is None:
        raise SystemExit("there is no such run")
    html = file_of(run) if what == "file" else page_of(run)
    sys.stdout.buffer.write(html.encode("utf-8", "backslashreplace"))
