"""Write reports as self-contained HTML files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from eval_toolkit._internal.files import make_private, replace_atomic
from eval_toolkit.analysis.configs import run_names
from eval_toolkit.claims import Claim, ClaimReport, ClaimSpec
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.provenance import utc_now
from eval_toolkit.report import rendering
from eval_toolkit.report.contents import chapters_of
from eval_toolkit.report.sections import Chapter, Wanted
from eval_toolkit.runs import Outcome, Run

_Reported: TypeAlias = Run | Outcome | str | Path
_SUFFIXES = (".html", ".htm")


def write_report(
    runs: _Reported | Sequence[_Reported],
    path: str | Path,
    *,
    title: str | None = None,
    wanted: Wanted | None = None,
    claims: str | Path | Sequence[Claim | ClaimSpec] | None = None,
) -> Path:
    """Write a self-contained HTML report of one or several runs.

    The sections depend on what a run contains: the headline with intervals, slices, curves,
    calibration, thresholds, worst errors, samples, conversations, leakage and provenance. With
    several runs, the first is the baseline, and the report starts with the differences from it.

    Parameters
    ----------
    runs : Run, Outcome, path, or sequence of them
        Finished runs of any kind; outcomes in memory are written to temporary folders.
    path : path
        Output file, written atomically.
    title : str, optional
        Title of the page; by default the names of the runs.
    wanted : Wanted, optional
        Report options.
    claims : path or sequence of Claim or ClaimSpec, optional
        Claims about the run, shown with their verdicts from `evaluate_gate`; with several runs,
        claims about each later run, with the first run as the baseline.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    InvalidInputError
        If there are no runs, the file name does not have an HTML suffix, the file cannot be
        written, or a claim cannot be checked.
    ArtifactError
        If a run is incomplete or altered.
    MissingExtraError
        If the extra ``report`` is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> folder = tempfile.mkdtemp()
    >>> cell = {"value": 0.8, "status": "ok"}
    >>> results = {
    ...     "schema_version": "v1", "run_id": "r1", "config": {},
    ...     "by_slice": {"all": {"by_scorer": {"model": {"accuracy": cell}}}},
    ... }
    >>> run = write_run(folder + "/r1", results=results, manifest={"run_id": "r1"})
    >>> write_report(run, folder + "/report.html").name
    'report.html'
    """
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise InvalidInputError(
            f"{target}: reports are HTML files; the file name must end in .html"
        )
    text = report_html(runs, title=title, wanted=wanted, claims=claims)
    try:
        with replace_atomic(target) as temporary:
            temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
            if (target.parent / "manifest.json").is_file():  # inside the folder of a run
                make_private(temporary)
    except OSError as error:
        raise InvalidInputError(f"{target}: cannot write: {error.strerror or error}") from error
    return target


def report_html(
    runs: _Reported | Sequence[_Reported],
    *,
    title: str | None = None,
    wanted: Wanted | None = None,
    claims: str | Path | Sequence[Claim | ClaimSpec] | None = None,
) -> str:
    """Return the HTML page written by `write_report`.

    Parameters
    ----------
    runs, title, wanted, claims
        As in `write_report`.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> run = write_run(tempfile.mkdtemp() + "/r1", results=results, manifest={"run_id": "r1"})
    >>> report_html(run).startswith("<!doctype html>")
    True
    """
    given = [runs] if isinstance(runs, Run | Outcome | str | Path) else list(runs)
    if not given:
        raise InvalidInputError("`runs` is empty; a report needs at least one run")
    stored = [one.as_run() if isinstance(one, Outcome) else one for one in given]
    opened = [one if isinstance(one, Run) else Run.open(one) for one in stored]
    wanted = wanted or Wanted()
    chapters = chapters_of(opened, wanted, _verdicts(opened, claims))
    return page_html(chapters, title or " · ".join(run_names(opened)), wanted)


def _verdicts(
    runs: Sequence[Run], claims: str | Path | Sequence[Claim | ClaimSpec] | None
) -> list[ClaimReport | None]:
    """Return the verdicts on each run; the first of several is the baseline and has none."""
    if claims is None:
        return [None] * len(runs)
    from eval_toolkit.claims import evaluate_gate, load_claims
    from eval_toolkit.graders.stored import stored_metrics

    claims = load_claims(claims) if isinstance(claims, str | Path) else claims
    if len(runs) == 1:
        for claim in claims:
            if isinstance(claim, Claim) and claim.non_inferior_by is not None:
                raise InvalidInputError(
                    f"claim {claim.name!r} needs a baseline; pass it as the first run: "
                    f"report BASELINE {runs[0].path}"
                )
        return [evaluate_gate(runs[0], claims)]
    first, *others = runs
    return [
        None,
        *(evaluate_gate(one, claims, first, specs=stored_metrics([first, one])) for one in others),
    ]


def page_html(chapters: Sequence[Chapter], title: str, wanted: Wanted, lead: str = "") -> str:
    """Render chapters as one self-contained page."""
    from markupsafe import Markup

    from eval_toolkit import __version__

    scripts = [rendering.asset("report.js")]
    if wanted.charts:
        scripts.insert(0, rendering.chart_library())
    page = rendering.environment().get_template("page.html")
    return page.render(
        title=title,
        lead=lead,
        chapters=chapters,
        policy=rendering.content_policy(scripts),
        stylesheet=Markup(rendering.stylesheet()),  # noqa: S704 - our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - ours and vl-convert's
        version=__version__,
        made_at=utc_now(),
    )
