"""Documents of lm-eval tasks: location and processing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_there
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.lm_eval.config import TaskConfig

_FILES = ("json", "csv", "parquet")
_CELLS: Mapping[str, Any] = {"True": True, "False": False, "true": True, "false": False}


def data_of(config: TaskConfig) -> Any:
    """Return the location of a task's data: files next to the task, or a dataset on the Hub."""
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


class Documents(list[dict[str, Any]]):
    """List of rows with the methods of a ``datasets`` dataset that ``process_docs`` commonly uses.

    Examples
    --------
    >>> Documents([{"a": 1}]).map(lambda doc: {"b": doc["a"] + 1})
    [{'a': 1, 'b': 2}]
    """

    @property
    def column_names(self) -> list[str]:
        """Columns of the first row."""
        return list(self[0]) if self else []

    features = column_names

    def map(
        self,
        function: Callable[[dict[str, Any]], Mapping[str, Any]],
        remove_columns: Iterable[str] | str | None = None,
        **_: Any,
    ) -> "Documents":
        """Return the rows, each updated with the dict that a function returns."""
        gone = {remove_columns} if isinstance(remove_columns, str) else set(remove_columns or ())
        return Documents(
            {
                **{name: value for name, value in row.items() if name not in gone},
                **function(dict(row)),
            }
            for row in self
        )

    def filter(self, function: Callable[[dict[str, Any]], bool], **_: Any) -> "Documents":
        """Return the rows for which a function returns a true value."""
        return Documents(row for row in self if function(row))

    def select(self, indices: Iterable[int]) -> "Documents":
        """Return the rows at the given indices."""
        return Documents(self[at] for at in indices)

    def rename_column(self, old: str, new: str) -> "Documents":
        """Return the rows with a column renamed."""
        return Documents(
            {new if name == old else name: value for name, value in row.items()} for row in self
        )

    def remove_columns(self, names: Iterable[str] | str) -> "Documents":
        """Return the rows with columns removed."""
        gone = {names} if isinstance(names, str) else set(names)
        return Documents({n: v for n, v in row.items() if n not in gone} for row in self)


def processed(
    rows: Sequence[Mapping[str, Any]], function: Callable[[Any], Any] | None, config: TaskConfig
) -> list[dict[str, Any]]:
    """Apply the task's ``process_docs`` function to rows.

    Rows are returned unchanged if the task has no such function.
    """
    if function is None:
        return [dict(row) for row in rows]
    try:
        return [dict(row) for row in function(Documents(dict(row) for row in rows))]
    except Exception as error:  # the task's code may raise any exception
        raise InvalidInputError(
            f"{config.path}: process_docs failed: {type(error).__name__}: {error}"
        ) from error
