"""The report of a run as a page of the viewer; of a large run first what is quick to show."""

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
from eval_toolkit.report.viewer.listing import ListedRun, RunList
from eval_toolkit.report.viewer.menus import run_menu
from eval_toolkit.runs import Run

__all__ = ["LARGE", "file_of", "made_apart", "page_of", "wanted_here"]

LARGE = 100_000
"""Records beyond which the sections that read all of them are made when asked for, elsewhere."""
_QUICK = ("headline", "slices", "leaks", "provenance")
_TIMEOUT_S = 300
_ONE_AT_A_TIME = threading.Lock()


def wanted_here() -> Wanted:
    """Return how much of a run is shown: charts where what draws them is installed."""
    return Wanted(charts=all(find_spec(name) is not None for name in ("altair", "vl_convert")))


def page_of(run: ListedRun, *, whole: bool = True) -> str:
    """Return the page of a run that is complete.

    Parameters
    ----------
    run : ListedRun
        Its files are compared with their hashes; where they differ, the page says so.
    whole : bool
        False leaves out the sections that read all records of a large run.

    Returns
    -------
    str
        HTML.
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
        charts="<figure data-chart" in body,  # no text of data can hold that sign
        menu=run_menu(run, "Report"),
    )


def _quick(run: Run) -> list[str]:
    """Return the sections that are made of the results alone."""
    return [name for name in _QUICK if name != "slices" or len(run.cells.places) > 1]


def file_of(run: ListedRun) -> str:
    """Return the report of a run as one self-contained page."""
    return report_html(run.path, wanted=wanted_here())


def made_apart(folder: Path, run: ListedRun, what: str) -> str:
    """Return a page about a large run, made by a process of its own.

    What it takes to hold all records is given back when that process ends.

    Parameters
    ----------
    folder : Path
        The folder of runs.
    run : ListedRun
        A run in it.
    what : {"page", "file"}
        Its page in the viewer, or its report as one file.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    ArtifactError
        If the page could not be made.
    """
    command = [sys.executable, "-P", "-c", f"from {__name__} import child; child()"]
    with _ONE_AT_A_TIME:
        try:
            done = subprocess.run(  # noqa: S603 - our own code, told a folder and a key
                [*command, str(folder), run.key, what],
                env=child_environment(),
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ArtifactError(
                f"the report took longer than {_TIMEOUT_S} s; eval-toolkit report makes it as a file"
            ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ArtifactError(f"the report could not be made: {said[-1] if said else 'no reason'}")
    return done.stdout.decode()


def child() -> None:
    """Print what the command line asks for about the run it names."""
    folder, key, what = sys.argv[1:4]
    run = RunList(Path(folder)).run(key)
    if run is None:
        raise SystemExit("there is no such run")
    html = file_of(run) if what == "file" else page_of(run)
    sys.stdout.buffer.write(html.encode("utf-8", "backslashreplace"))
