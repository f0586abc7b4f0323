"""Metric values of runs as flat rows, used by all exported tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.report.cells import Block, Cell, blocks_of
from eval_toolkit.runs import Run
from eval_toolkit.scorecards.parts import SLICE, WHOLE, format_part

ROW_FIELDS = (
    *("run", "slice", "part", "system", "metric", "value", "ci_low", "ci_high", "confidence"),
    *("method", "n_resamples", "n_units", "n_groups", "n_errors", "n_skipped", "status", "reason"),
)
_IMPORTED = ("tool", "tool_version", "created", "files")


def all_blocks(run: Run) -> list[Block]:
    """Return every slice and scorer of a run, each slice followed by its parts.

    Other tools have no concept of parts, so a part is named like ``slice=quiz&subject=Africa``.
    """
    return [
        block if block.part == WHOLE else replace(block, name=_full_name(block))
        for block in blocks_of(run, parts=True)
    ]


def _full_name(block: Block) -> str:
    return f"{format_part({SLICE: block.slice})}&{block.part}"


def cell_rows(runs: Run | Sequence[Run]) -> list[dict[str, Any]]:
    """Return the metric values of runs, one flat row per run, slice, part, system and metric.

    Parameters
    ----------
    runs : Run or sequence of Run
        Runs of any kind.

    Returns
    -------
    list of dict
        One row per cell, as returned by `Run.rows`, with the run as the first key.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> cell = {"value": None, "status": "skipped", "reason": "one class only"}
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": cell}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> [(row["metric"], row["value"], row["reason"]) for row in cell_rows(run)]
    [('pr_auc', None, 'one class only')]
    """
    given = [runs] if isinstance(runs, Run) else list(runs)
    return [{"run": run.run_id, **row} for run in given for row in run.rows()]


def _told(cell: Cell) -> dict[str, Any]:
    return {
        "value": cell.value if cell.has_value else None,
        "ci_low": cell.low if cell.has_value else None,
        "ci_high": cell.high if cell.has_value else None,
        "confidence": cell.confidence,
        "method": cell.method,
        "n": cell.n_units,
        "n_groups": cell.n_groups,
        "n_errors": cell.n_errors,
        "n_skipped": cell.n_skipped,
        "status": cell.status,
        "reason": cell.reason,
    }


def cell_dict(cell: Cell) -> dict[str, Any]:
    """Return a cell as additional data for other formats.

    Examples
    --------
    >>> cell = Cell(name="acc", value=0.5, low=0.3, high=0.7, details={"standard_error": 0.1})
    >>> told = cell_dict(cell)
    >>> told["value"], told["ci_high"], told["standard_error"], told["higher_is_better"]
    (0.5, 0.7, 0.1, True)
    """
    error = cell.details.get("standard_error")
    return {
        **_told(cell),
        "standard_error": error if isinstance(error, int | float) else None,
        "higher_is_better": cell.higher_is_better,
    }


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Origin of an imported run."""

    tool: str
    version: str
    created: datetime | None
    """Start time recorded in the log; None if there is none."""
    settings: Mapping[str, Any]
    n_planned: int | None = None

    @property
    def task(self) -> Mapping[str, Any]:
        """Task description recorded in the log."""
        return as_mapping(self.settings.get("task"))

    @property
    def decoding(self) -> Mapping[str, Any]:
        """Decoding parameters recorded in the log."""
        return as_mapping(self.task.get("generation_kwargs")) or {
            name: self.settings[name] for name in _DECODING if name in self.settings
        }


_DECODING = ("temperature", "top_p", "top_k", "max_tokens")


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty mapping for other values."""
    return value if isinstance(value, Mapping) else {}


def config_of(run: Run) -> Mapping[str, Any]:
    """Return the configuration of a run, without secrets."""
    return as_mapping(redact_secrets(as_mapping(run.manifest.get("config"))))


def origin_of(run: Run) -> Origin | None:
    """Return the origin of an imported run; None for native runs.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> told = {"tool": "lm-eval", "tool_version": "0.4.8", "created": "2025-04-30T16:23:03+00:00"}
    >>> origin = origin_of(SimpleNamespace(manifest={"config": {"imported": told}}))
    >>> origin.tool, origin.version, origin.created.year
    ('lm-eval', '0.4.8', 2025)
    """
    told = as_mapping(config_of(run).get("imported"))
    if not told:
        return None
    planned = told.get("n_planned")
    return Origin(
        tool=str(told.get("tool") or "another tool"),
        version=str(told.get("tool_version") or ""),
        created=_time(told.get("created")),
        settings=as_mapping(told.get("settings")),
        n_planned=planned if isinstance(planned, int) else None,
    )


def _time(told: Any) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(told))
    except ValueError:
        return None
    return read.replace(tzinfo=read.tzinfo or UTC).astimezone(UTC)


def captured_at(run: Run) -> datetime:
    """Return the UTC time at which a run was stored; 1970 if unknown."""
    return _time(run.manifest.get("captured_at")) or datetime.fromtimestamp(0, UTC)


def begun_at(run: Run) -> datetime | None:
    """Return the start time of a run; None if unknown."""
    origin = origin_of(run)
    return captured_at(run) if origin is None else origin.created


def unrepresented_data(run: Run, blocks: Sequence[Block] = ()) -> dict[str, Any]:
    """Return information about a run that other tools' formats cannot represent."""
    manifest = run.manifest
    versions = manifest.get("code_versions")
    imported = as_mapping(config_of(run).get("imported"))
    imported = {name: imported.get(name) for name in _IMPORTED if imported}
    cells: dict[str, dict[str, Any]] = {}
    for block in blocks:
        told = {name: cell_dict(cell) for name, cell in block.cells.items()}
        cells.setdefault(block.name, {})[block.scorer] = told
    return {
        "run_id": run.run_id,
        "version": str(versions.get("eval_toolkit", "")) if isinstance(versions, Mapping) else "",
        "captured_at": manifest.get("captured_at"),
        "manifest_sha256": manifest.get("manifest_sha256"),
        "config_hash": manifest.get("config_hash"),
        "data_hashes": manifest.get("data_hashes") or {},
        "seeds": manifest.get("seeds") or {},
        **({"imported": imported} if imported else {}),
        "cells": cells,
    }
