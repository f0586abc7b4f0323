"""Documents of lm-eval tasks: location and processing."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_there
from eval_toolkit._internal.sandbox import Failed, Overrun
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.lm_eval.code import TaskFunction, cause
from eval_toolkit.tasks.lm_eval.config import TaskConfig

_FILES = ("json", "csv", "parquet")
_KNOWN_KWARGS = ("data_files", "revision", "trust_remote_code", "features")
"""Known options; types of columns are those of the data."""
_CELLS: Mapping[str, Any] = {"True": True, "False": False, "true": True, "false": False}


def data_of(config: TaskConfig) -> Any:
    """Return the location of a task's data: files next to the task, or a Hub dataset."""
    unknown = [key for key in config.dataset_kwargs if key not in _KNOWN_KWARGS]
    if unknown and config.custom_dataset is None:
        raise InvalidInputError(
            f"{config.path}: cannot load its data because of "
            f"{', '.join(f'dataset_kwargs.{key}' for key in unknown)}; pass the documents as `data`"
        )
    if config.custom_dataset is not None or config.dataset_path not in _FILES:
        return config.dataset_path
    files = config.dataset_kwargs.get("data_files")
    if isinstance(files, (str, list)):
        files = {"train": files}
    if not isinstance(files, Mapping) or not files:
        raise InvalidInputError(
            f"{config.path}: dataset_path is {config.dataset_path!r}; specify the files in "
            "dataset_kwargs.data_files, or pass `data`"
        )
    return {str(split): _beside(given, config) for split, given in files.items()}


def _beside(given: Any, config: TaskConfig) -> str:
    """Resolve a path relative to the task file if it exists there."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if not isinstance(given, str):
        raise InvalidInputError(
            f"{config.path}: data_files contains {given!r:.60}; each split must be a single file"
        )
    beside = config.path.parent / given
    return str(beside if is_there(beside) else Path(given))


def typed_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert the columns of a CSV file whose cells are all numeric to numbers.

    Examples
    --------
    >>> typed_rows([{"a": "1", "b": "x"}, {"a": "2", "b": "3"}])
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': '3'}]
    """
    kinds = {name: _kind([row.get(name) for row in rows]) for row in rows[:1] for name in row}
    return [{name: kinds.get(name, _as_is)(value) for name, value in row.items()} for row in rows]


def _as_is(value: Any) -> Any:
    return value


def _kind(cells: Sequence[Any]) -> Callable[[Any], Any]:
    for read in (int, float, _CELLS.__getitem__):
        try:
            for cell in cells:
                if not isinstance(cell, str):
                    return _as_is
                read(cell)
        except (ValueError, KeyError):
            continue
        return read
    return _as_is


def processed(
    rows: Sequence[Mapping[str, Any]], function: TaskFunction | None, config: TaskConfig
) -> list[dict[str, Any]]:
    """Apply the task's ``process_docs`` function to rows.

    Rows are returned unchanged if the task has no such function.
    """
    if function is None:
        return [dict(row) for row in rows]
    try:
        return function.process(rows)
    except (Failed, Overrun, TypeError) as error:
        raise InvalidInputError(f"{config.path}: process_docs failed: {cause(error)}") from error
