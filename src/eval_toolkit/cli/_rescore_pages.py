"""Shared code of ``rescore`` and related commands."""

from collections.abc import Sequence
from dataclasses import replace

from eval_toolkit._internal.display import Page
from eval_toolkit.cli._blocks import blocks_page, resamples_of
from eval_toolkit.cli._options import Sampling
from eval_toolkit.cli._output import progress
from eval_toolkit.runs import Outcome, Results, Run, rescore


def rescored_rows(
    run: Run | str,
    metrics: Sequence[str],
    threshold: float | None,
    by: Sequence[str],
    sampling: Sampling,
    out: str | None = None,
    *,
    command: str = "score",
) -> tuple[Outcome, Page]:
    """Recompute the results of a run from its records; return the outcome and the page."""
    source = run if isinstance(run, Run) else Run.open(run)
    pooled = command == "score"  # a single table of rows, as if read from a file
    done = rescore(
        source,
        out,
        metrics=metrics or None,
        by=by,
        threshold=threshold,
        summary=sampling.summary(),
        pooled=pooled,
        each=lambda jobs: progress(jobs, "scoring", len(jobs)),
    )
    config = {
        "command": command,
        "run": source.run_id,
        "by": list(by),
        "metrics": list(metrics),
        **sampling.to_dict(),
    }
    folds = ""
    if source.cells.folds:
        folds = (
            "; pooled out-of-fold rows, not means over folds" if pooled else "; means over folds"
        )
    lead = [f"run {source.run_id}{folds}; {sampling.made(resamples_of(done))}"]
    page = blocks_page(done, config, lead, sampling)
    return done, replace(page, notes=[*page.notes, *_kept(done)])


def rescored_page(done: Outcome) -> Page:
    """Return the default page, for kinds of runs without a page of their own."""
    cells = Results.of(done.results)
    return Page("rescored", done.to_dict(), (), [cells._as_table()], [*done.notes, *_kept(done)])


def _kept(done: Outcome) -> list[str]:
    """Return a note that names the folder of the new run, if it was stored."""
    return [] if done.run is None else [f"run {done.run.path}"]
