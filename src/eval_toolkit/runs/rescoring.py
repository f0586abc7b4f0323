"""`rescore`: compute new results from the stored attempts of a run."""

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.plugins import TYPED, call_plugin, known_name, load_plugin, read_from
from eval_toolkit.runs.driver import driver_of, refuse_taken
from eval_toolkit.runs.folder import MANIFEST, Run
from eval_toolkit.runs.kind_display import BUILT_IN_KINDS
from eval_toolkit.runs.kinds import Kind
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.specs import AskSpec

RECORDS = "rows"
"""Kind whose attempts are its records; it can rescore the records of any kind of run."""
_OF_RECORDS = {"metrics", "by", "threshold", "summary", "each", "pooled"}
"""Options that apply to the records of any kind of run."""


def rescore(
    run: Run | Outcome | str | Path,
    out: str | Path | None = None,
    *,
    kind: Kind[Any] | None = None,
    run_id: str | None = None,
    ask: AskSpec | None = None,
    **options: Any,
) -> Outcome:
    """Recompute the results of a run from stored data; only judges may be queried.

    The command ``eval-toolkit rescore`` does the same.

    Parameters
    ----------
    run : Run, Outcome or path
        Finished run of any kind; it is not modified unless ``out`` is its own folder.
    out : path, optional
        Folder of the new run; by default, nothing is written.
    kind : Kind, optional
        Kind that grades the attempts. By default, the kind of the run, a built-in one or an entry
        point of ``eval_toolkit.kinds``, restored by its method ``stored``.
    run_id : str, optional
        Name of the new run; by default, the name of the folder.
    ask : AskSpec, optional
        Settings for requests to judges.
    **options
        Settings that may differ from those of the run. For a task: ``task``, ``graders``,
        ``judges``, ``pass_at``, ``pass_hat``, ``maj_at``, ``on_error``, ``confidence``, as in
        `measure_run` and `judge_run`. For rollouts: ``scorer``, ``refusal``, ``asr_at``, ``policy``
        …, as in `rescore_rollouts`. For rows, pairs and imported logs, and for the records of any
        run: ``metrics`` (specs, names, columns), ``by``, ``threshold`` and ``summary``, as in
        `score_predictions`; existing metrics keep their type and bounds, including means over folds
        (unless ``pooled``) and survival curves. Without ``summary``, the confidence level, seed and
        resamples of the run are used. For rollouts without a ``scorer``, the stored scores are
        kept.

    Returns
    -------
    Outcome
        Outcome for the same units and attempts. The manifest of the new run names the source under
        ``rescored``.

    Raises
    ------
    ArtifactError
        If the run has no stored attempts, its kind cannot be restored, or the folder contains
        another run.
    InvalidInputError
        If an option does not fit the kind.
    ModelError
        If a judge fails permanently; the verdicts received so far are kept.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit import score_predictions
    >>> rows = {"id": [f"r{n:02}" for n in range(40)], "label": [0, 1] * 20,
    ...         "score": [0.2, 0.6, 0.7, 0.9] * 10}
    >>> done = score_predictions(rows, ["roc_auc"], out=tempfile.mkdtemp() + "/r")
    >>> rescore(done.run, metrics=["brier"]).card["brier"].value
    0.175
    """
    validation.place(out, "out", NoneType)
    source = source_run(run)
    if kind is not None and options:
        raise InvalidInputError(
            f"`{next(iter(options))}` cannot be combined with `kind`; pass only `kind`"
        )
    restored = stored_kind(source, **options) if kind is None else kind
    folder = None if out is None else Path(out)
    if folder is not None:
        refuse_taken(folder, source, in_place=restored.in_place)
    rate = restored.summary.max_error_rate
    driver = driver_of(restored, ask or AskSpec(), run_id, source.run_id, rate, {}, (), source)
    return driver.run(folder)


def source_run(run: Run | Outcome | str | Path) -> Run:
    """Return the stored run; an in-memory outcome is first written to a temporary folder."""
    if isinstance(run, Outcome):
        return run.as_run()
    validation.place(run, "run", Run)
    return run if isinstance(run, Run) else Run.open(run)


def stored_kind(run: Run, **options: Any) -> Kind[Any]:
    """Return the kind that grades the stored attempts of a run.

    Only built-in kinds and entry points are considered. The options are those of `rescore`.
    """
    config = run.manifest.get("config") or {}
    imported = "imported" in config
    name = run.kind
    _refuse_scorer_threshold(config.get("scored_by"), options)
    # An imported log of any kind is already graded; its records are summarised.
    if _OF_RECORDS & options.keys() or (imported and not options):
        name = RECORDS
    ours = {kind: classes.stored for kind, classes in BUILT_IN_KINDS.items()}
    if known_name("kinds", name, ours) is None:
        raise ArtifactError(
            f"{run.path}: has the kind {name!r:.60}, which no installed package provides; pass "
            "`kind`, or `metrics` of its records"
        )
    found = load_plugin("kinds", name, ours, origin=read_from(run.path / MANIFEST, "kind"))
    # The name comes from the file; the options and the names in them come from the caller.
    restored: Kind[Any] = call_plugin(
        "kinds", name, found.stored, options, origin=TYPED, arguments=[run]
    )
    return restored


def _refuse_scorer_threshold(scorer: str | None, options: Mapping[str, Any]) -> None:
    """Raise an error if a threshold is meant for a rollout scorer, which it does not affect."""
    threshold = options.get("threshold")
    if scorer is not None and threshold is not None and not options.get("metrics"):
        named = f"{scorer}@{threshold}"
        raise InvalidInputError(
            f"`threshold` applies to metrics such as f1; the threshold of the scorer is part of "
            f"its name: scorer='{named}'"
        )
