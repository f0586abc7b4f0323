"""Export runs to a format given by name."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import replace_atomic
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.exporting.names import file_names
from eval_toolkit.runs import Run, run_state


@dataclass(frozen=True, slots=True)
class _Format:
    """Export format: the function that creates its files, its file name and its options."""

    made_by: str
    file: str = ""
    """File name of a single-file format; empty for formats that write a folder."""
    options: tuple[str, ...] = ()
    several: bool = False
    """Whether several runs are combined in one file."""


_FORMATS = {
    "every-eval-ever": _Format("every_eval_ever:every_eval_ever_files", options=("samples",)),
    "lm-eval": _Format("lm_eval:lm_eval_files", options=("samples",)),
    "eval-framework": _Format("eval_framework:eval_framework_files"),
    "astra": _Format("astra:astra_files", "metrics.json"),
    "predictions": _Format(
        "predictions:predictions_csv", "predictions.csv", ("metric", "slice", "scorer")
    ),
    "csv": _Format("tables:csv_table", "results.csv", several=True),
    "json": _Format("tables:json_table", "cells.json", several=True),
    "latex": _Format("tables:latex_table", "results.tex", several=True),
    "markdown": _Format("tables:markdown_table", "results.md", several=True),
    "model-card": _Format("model_card:model_card", "model_card.md"),
    "model-index": _Format("model_card:model_index", "model_index.yaml"),
}
EXPORT_FORMATS = tuple(_FORMATS)
SINGLE_FILE = frozenset(name for name, told in _FORMATS.items() if told.file)
"""Names of single-file formats."""


def export_files(
    runs: Run | Sequence[Run],
    format: str,  # noqa: A002 - what the option is called
    **options: Any,
) -> dict[str, bytes]:
    """Return the files of an export in another tool's format or as tables.

    Parameters
    ----------
    runs : Run or sequence of Run
        Finished runs that the format supports. Several runs are combined in one table, or
        written to one folder each.
    format : str
        One of `EXPORT_FORMATS`.
    **options
        For "every-eval-ever" and "lm-eval": ``samples``, whether to export samples; by default they
        are exported if the run has records, and True raises if it has none. For "predictions":
        ``metric``, ``slice`` and ``scorer``.

    Returns
    -------
    dict of str to bytes
        File contents by relative path. Equal runs give identical bytes, because timestamps are
        taken from the run.

    Raises
    ------
    InvalidInputError
        If the format or an option is unknown, or the format does not support such a run.
    ArtifactError
        If the run lacks data required by the format.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> list(export_files(run, "csv"))
    ['results.csv']
    """
    validation.choice(format, "format", EXPORT_FORMATS)
    told = _FORMATS[format]
    given = [runs] if isinstance(runs, Run) else list(runs)
    if not given or not all(isinstance(run, Run) for run in given):
        raise InvalidInputError("`runs` must be one or more runs; open them with Run.open")
    chosen = _options(format, told, options, given)
    make = _maker(told)
    if told.several:
        return {told.file: _bytes(make(given[0] if len(given) == 1 else given, **chosen))}
    if len(given) == 1:
        return _named(make(given[0], **chosen), told)
    folders = file_names(run.run_id for run in given)
    if len(folders) < len(given):
        raise InvalidInputError("two runs have the same name; export them separately")
    return {
        f"{folders[run.run_id]}/{name}": content
        for run in given
        for name, content in _named(make(run, **chosen), told).items()
    }


def _options(
    format_name: str, told: _Format, options: dict[str, Any], runs: Sequence[Run]
) -> dict[str, Any]:
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        if name not in told.options:
            listed = ", ".join(told.options) or "none"
            raise InvalidInputError(
                f"format {format_name} has no option {name!r}; available: {listed}"
            )
    for run in runs if chosen.get("samples") else ():
        if not run.subjects:
            raise ArtifactError(
                f"{run.path}: the run has no records, so there are no samples to export"
            )
    return chosen


def _maker(told: _Format) -> Callable[..., Any]:
    module, _, name = told.made_by.partition(":")
    made: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
    return made


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8")


def _named(made: Any, told: _Format) -> dict[str, bytes]:
    files = made if isinstance(made, dict) else {told.file: made}
    return {name: _bytes(content) for name, content in files.items()}


def export_run(
    runs: Run | Sequence[Run],
    to: str | Path,
    format: str,  # noqa: A002 - what the option is called
    *,
    overwrite: bool = False,
    **options: Any,
) -> list[Path]:
    """Write runs in another tool's format or as tables; on failure, no file is written.

    Parameters
    ----------
    runs, format, **options
        As in `export_files`.
    to : path
        Output file, or output folder for formats with several files.
    overwrite : bool, default False
        Whether to replace existing files.

    Returns
    -------
    list of Path
        Paths of the written files.

    Raises
    ------
    InvalidInputError, ArtifactError
        As in `export_files`; also if a file already exists, the target is inside a run folder, or
        the target is not writable.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": 0.75}}}
    >>> folder = tempfile.mkdtemp()
    >>> run = write_run(
    ...     folder + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> [path.name for path in export_run(run, folder + "/table.md", "markdown")]
    ['table.md']
    """
    target = Path(to)
    _refuse_runs(target)
    files = export_files(runs, format, **options)
    alone = format in SINGLE_FILE and len(files) == 1 and not target.is_dir()
    paths = {target if alone else target / name: content for name, content in files.items()}
    if not alone and target.exists() and not target.is_dir():
        raise InvalidInputError(f"{target} is a file; format {format} needs a folder")
    there = [path for path in paths if path.exists()]
    if there and not overwrite:
        raise InvalidInputError(f"{there[0]}: already exists; pass overwrite=True to replace it")
    try:
        with ExitStack() as stack:  # write all files before replacing the first one
            for path, content in paths.items():
                stack.enter_context(replace_atomic(path)).write_bytes(content)
    except OSError as error:
        raise ArtifactError(f"{target}: cannot write: {error.strerror or error}") from error
    return list(paths)


def _refuse_runs(target: Path) -> None:
    """Raise if the target is a run folder or inside one, since runs must not be modified."""
    place = target.resolve()
    for folder in (place, *place.parents):
        if (folder / "manifest.json").is_file() and run_state(folder) != "not a run":
            raise InvalidInputError(
                f"{target}: is inside the run {folder}, which must not be modified; choose "
                f"another path"
            )
