"""A result on disk: compact and full results, or a whole run with manifest and records."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_toolkit._redaction import redact_results
from eval_toolkit.artifacts import write_json_strict
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.harness.result import RunResult
from eval_toolkit.manifest import build_manifest
from eval_toolkit.runs import Run, write_run

__all__ = ["compact", "save_run", "write_run_result"]

_PER_ROW = ("scores", "scores_calibrated")


def compact(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result's payload without what has one entry per row, in folds too."""
    folds = {
        key: {**fold, "by_slice": _without_rows(fold.get("by_slice", {}))}
        for key, fold in payload["by_fold"].items()
    }
    return {**payload, "by_slice": _without_rows(payload["by_slice"]), "by_fold": folds}


def _without_rows(by_slice: Mapping[str, Any]) -> dict[str, Any]:
    # By position, not by key wherever it stands: a slice or scorer may be named "scores".
    return {
        name: {key: value for key, value in entry.items() if key != "unit_ids"}
        | {"by_scorer": {s: _without_scores(block) for s, block in entry["by_scorer"].items()}}
        for name, entry in by_slice.items()
    }


def _without_scores(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in _PER_ROW or value == []}


def write_run_result(result: RunResult, run_dir: str | Path) -> tuple[Path, Path]:
    """Write ``results.json`` and ``results_full.json``; `save_run` writes a whole run.

    Both redact secrets as `write_run` says.

    Parameters
    ----------
    result : RunResult
        What `evaluate` or `evaluate_folded` returned.
    run_dir : str or Path
        The folder; made when it is not there.

    Returns
    -------
    tuple of Path
        The compact results, without scores, and the full ones.

    Raises
    ------
    InvalidTypeError
        If ``result`` is no RunResult.

    Examples
    --------
    >>> import tempfile
    >>> result = RunResult("demo", None, {"seed": 42})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_run_result(result, folder)]
    ['results.json', 'results_full.json']
    """
    payload = redact_results(_payload(result))
    folder = Path(run_dir)
    return (
        write_json_strict(compact(payload), folder / "results.json"),
        write_json_strict(payload, folder / "results_full.json"),
    )


def save_run(
    result: RunResult, run_dir: str | Path, *, overwrite: bool = False, **manifest: Any
) -> Run:
    """Write a run's folder: manifest, results and the records behind them, complete or not at all.

    Parameters
    ----------
    result : RunResult
        What `evaluate` or `evaluate_folded` returned.
    run_dir : str or Path
        The run's folder.
    overwrite : bool, default False
        Replace a run that is there.
    **manifest
        What else the manifest should say, as in `build_manifest`: ``data_files``, ``metadata``,
        ``source_roles``, ``guardrails`` …. The run's configuration, its seeds and the versions of
        scorers, metrics, checks, selectors and splitter are there by themselves; ``versioned``
        adds others.

    Returns
    -------
    Run
        The run as read back.

    Raises
    ------
    InvalidTypeError
        If ``result`` is no RunResult.
    ArtifactError
        If there is a run already and ``overwrite`` is False.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.harness import evaluate
    >>> from eval_toolkit.slices import EvalSlice
    >>> class Half:
    ...     version = "1"
    ...     def predict_proba(self, X):
    ...         return [0.5] * len(X)
    >>> test = EvalSlice("test", {"text": ["a", "b"], "label": [0, 1]})
    >>> result = evaluate({"half": Half()}, [test], run_id="demo")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = save_run(result, folder + "/demo")
    ...     run.run_id, run.manifest["versioned_objects"]["scorer:half"]
    ('demo', '1')
    """
    payload = _payload(result)
    config = payload["config"]
    seeds = config.get("seeds", [config["seed"]] if "seed" in config else [])
    about = {
        "git_sha": result.git_sha,
        "leakage_report": result.leakage_report,
        "seeds": {f"seed_{number}": seed for number, seed in enumerate(seeds)},
        **manifest,
    }
    made = build_manifest(run_id=result.run_id, config=config, **about)
    versions = {**result.versions, **made.versioned_objects}
    return write_run(
        run_dir,
        results=compact(payload),
        results_full=payload,
        manifest=replace(made, versioned_objects=versions).to_dict(),
        records=dict(result.records) or None,
        overwrite=overwrite,
    )


def _payload(result: Any) -> dict[str, Any]:
    if not isinstance(result, RunResult):
        raise InvalidTypeError(f"`result` is a {type(result).__name__}; it must be a RunResult")
    return result.to_dict()
