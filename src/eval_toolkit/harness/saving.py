"""Storage of results as JSON files or as a complete run folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.redaction import redact_results
from eval_toolkit.artifacts import write_json_strict
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, InvalidTypeError
from eval_toolkit.harness.result import VIEWS, RunResult
from eval_toolkit.harness.rows import Rows, named_slices
from eval_toolkit.manifest import build_manifest
from eval_toolkit.protocols import EvalSliceLike
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.units import UNITS, Unit, shown_input, units_table
from eval_toolkit.scorecards import Records

_PER_ROW = ("scores", "scores_calibrated")


def compact(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result's payload without per-row entries, which also occur in parts and folds."""
    return {
        **payload,
        "by_slice": {name: _without_rows(entry) for name, entry in payload["by_slice"].items()},
    }


def _without_rows(entry: Mapping[str, Any]) -> dict[str, Any]:
    # Remove by position, not by key: a slice or scorer may be named "scores".
    rest = {key: value for key, value in entry.items() if key not in ("unit_ids", "parts")}
    parts = {name: _without_rows(part) for name, part in entry.get("parts", {}).items()}
    scorers = {name: _without_scores(block) for name, block in entry["by_scorer"].items()}
    return {**rest, "by_scorer": scorers, **({"parts": parts} if parts else {})}


def _without_scores(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in _PER_ROW or value == []}


def write_run_result(result: RunResult, run_dir: str | Path) -> tuple[Path, Path]:
    """Write ``results.json`` and ``results_full.json``; see `save_run` for a complete run.

    Secrets are redacted in both files, as in `write_run`.

    Parameters
    ----------
    result : RunResult
        Result of `evaluate` or `evaluate_folded`.
    run_dir : str or Path
        Target folder; created if it does not exist.

    Returns
    -------
    tuple of Path
        Paths of the compact results (without scores) and of the full results.

    Raises
    ------
    InvalidTypeError
        If ``result`` is not a RunResult.

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
    result: RunResult,
    run_dir: str | Path,
    *,
    inputs: EvalSliceLike | Sequence[EvalSliceLike] | Mapping[str, EvalSliceLike] | None = None,
    overwrite: bool = False,
    **manifest: Any,
) -> Run:
    """Atomically write a run folder with manifest, results and records.

    Parameters
    ----------
    result : RunResult
        Result of `evaluate` or `evaluate_folded`.
    run_dir : str or Path
        Folder of the run.
    inputs : EvalSlice, or sequence or mapping of them, optional
        Slices whose inputs are stored as well, so that reports can show them: the slices passed for
        evaluation, threshold selection or leakage checks. The first 20 000 characters of each input
        are stored, with secrets redacted. By default, no inputs are stored.
    overwrite : bool, default False
        Whether to replace an existing run.
    **manifest
        Additional manifest entries, as in `build_manifest`: ``data_files``, ``metadata``,
        ``source_roles``, ``guardrails`` …. The configuration, the seeds and the versions of
        scorers, metrics, checks, selectors and the splitter are included automatically; use
        ``versioned`` to add others.

    Returns
    -------
    Run
        The stored run, read back from the folder.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``result`` is not a RunResult, or ``inputs`` are not slices of the run.
    ArtifactError
        If the run already exists and ``overwrite`` is False.

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
    ...     run = save_run(result, folder + "/demo", inputs=[test])
    ...     run.run_id, run.manifest["versioned_objects"]["scorer:half"]
    ...     run.inputs.text_at("test", 1)
    ('demo', '1')
    'b'
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
    about_run = replace(made, versioned_objects=versions).to_dict()
    units = [] if inputs is None else _units_of(result, inputs)
    stored, about_run["units"] = units_table(result.records, units)
    return write_run(
        run_dir,
        results=compact(payload),
        results_full=payload,
        manifest=about_run,
        records=dict(result.records) or None,
        tables={UNITS: stored} if len(stored["unit_id"]) else {},
        overwrite=overwrite,
    )


def _units_of(result: RunResult, inputs: Any) -> list[Unit]:
    """Return the rows of the slices as units."""
    try:
        named = named_slices([inputs] if isinstance(inputs, EvalSliceLike) else inputs)
    except EvalToolkitError as error:
        raise type(error)(str(error).replace("slices", "inputs", 1)) from None
    first: dict[str, Records] = {}
    for (name, _), side in result.records.items():
        first.setdefault(name, side)
    found: list[Unit] = []
    for name, source in named.items():
        rows = Rows(name, source)
        units = _units(rows, first.get(name))
        _check_scored(result, rows, units, first.get(name))
        texts = (shown_input(value, rows.columns) for value in rows.inputs)
        found += [
            Unit(id=unit, content_hash=digest, input=text, slice=name, row=row)
            for row, (unit, digest, text) in enumerate(zip(units, rows.hashes, texts, strict=True))
        ]
    return found


def _check_scored(
    result: RunResult, rows: Rows, units: Sequence[str], records: Records | None
) -> None:
    """Raise an error unless the rows are those scored in the run, except rows dropped for leakage.

    The run does not record which other slices the leakage checks used.
    """
    why = ""
    if records is None:
        known = {*result.by_slice, result.config.get("threshold_slice")}
        if rows.name not in known and not result.config.get("leakage_checks"):
            why = "is not in the run"
    else:
        scored = dict(zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True))
        pairs = enumerate(zip(units, rows.hashes, strict=True))
        other = next((row for row, (unit, is_) in pairs if scored.get(unit, is_) != is_), None)
        missing = scored.keys() - set(units)
        if other is not None:
            why = f"differs from the scored slice in the input or label of row {other}, {units[other]!r:.80}"
        # Folds may include rows from other sources, but not only such rows.
        elif missing and (len(missing) == len(scored) or not result.folds):
            lacks = f"{len(missing)} of the {len(scored)} rows that were scored"
            why = f"lacks {lacks}, such as {min(missing)!r:.80}"
    if why:
        raise InvalidInputError(
            f"`inputs`: slice {rows.name!r:.80} {why}; pass the slices that were evaluated"
        )


def _units(rows: Rows, records: Records | None) -> list[str]:
    """Return the unit id of each row, as in the records.

    The ids of identical rows depend on their scores, which a slice does not contain. Since their
    inputs are identical too, the rows are interchangeable here.
    """
    own = rows.unit_ids()
    if rows.ids is not None or records is None:
        return own
    units = dict.fromkeys(zip(records.content_hash, records.unit_id, strict=True))
    left: dict[str, list[str]] = {}
    for digest, unit in reversed(units):
        left.setdefault(digest, []).append(unit)
    return [
        left[digest].pop() if left.get(digest) else unit
        for digest, unit in zip(rows.hashes, own, strict=True)
    ]


def _payload(result: Any) -> dict[str, Any]:
    if not isinstance(result, RunResult):
        raise InvalidTypeError(f"`result` is a {type(result).__name__}; it must be a RunResult")
    # Folds are parts of the slices, so they are stored only once.
    return {name: part for name, part in result.to_dict().items() if name not in VIEWS}
