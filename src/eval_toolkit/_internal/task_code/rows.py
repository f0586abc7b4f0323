"""Data set passed to the functions of a task: rows with the common methods of `datasets`."""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = dict[str, Any]


def _names(given: Iterable[str] | str | None) -> set[str]:
    return {given} if isinstance(given, str) else set(given or ())


class Documents(list[Row]):
    """Rows with the data set methods that task code uses.

    Examples
    --------
    >>> Documents([{"a": 1}]).map(lambda doc: {"b": doc["a"] + 1})
    [{'a': 1, 'b': 2}]
    """

    @classmethod
    def from_list(cls, rows: Iterable[Mapping[str, Any]], **_: Any) -> "Documents":
        """Return the rows as a data set."""
        return cls(dict(row) for row in rows)

    @classmethod
    def from_dict(cls, columns: Mapping[str, Iterable[Any]], **_: Any) -> "Documents":
        """Return the data set with the given columns."""
        rows = zip(*columns.values(), strict=True)
        return cls(dict(zip(columns, row, strict=True)) for row in rows)

    @classmethod
    def from_pandas(cls, frame: Any, **_: Any) -> "Documents":
        """Return the rows of a data frame."""
        return cls(frame.to_dict("records"))

    @classmethod
    def from_generator(cls, generator: Callable[..., Iterable[Row]], **options: Any) -> "Documents":
        """Return the rows that a generator yields."""
        return cls(generator(**options.get("gen_kwargs", {})))

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self[0]) if self else []

    @property
    def features(self) -> Row:
        """Types of the columns, by name, as the types of the values of the first row."""
        return {name: type(value).__name__ for name, value in self[0].items()} if self else {}

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self)

    def __getitem__(self, at: Any) -> Any:
        """Return a row, or a column by its name; a slice is a mapping from columns to lists."""
        if isinstance(at, str):
            return [row[at] for row in self]
        if isinstance(at, slice):
            rows = super().__getitem__(at)
            return {name: [row[name] for row in rows] for name in self.column_names}
        return super().__getitem__(at)

    def map(
        self,
        function: Callable[..., Mapping[str, Any]],
        with_indices: bool = False,
        batched: bool = False,
        remove_columns: Iterable[str] | str | None = None,
        input_columns: Iterable[str] | str | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> "Documents":
        """Return the rows, each updated with the output of a function."""
        gone, options = _names(remove_columns), dict(fn_kwargs or {})
        if batched:
            rows = list(self)
            columns = {name: [row[name] for row in rows] for name in self.column_names}
            made = Documents.from_dict(function(columns, **options))
            if len(made) != len(rows):
                return made
            pairs = zip(rows, made, strict=True)
            return Documents(
                {**{k: v for k, v in old.items() if k not in gone}, **new} for old, new in pairs
            )
        found = Documents()
        for at, row in enumerate(self):
            given = _arguments(row, input_columns) + ((at,) if with_indices else ())
            new = function(*given, **options)
            kept = {name: value for name, value in row.items() if name not in gone}
            found.append({**kept, **(new or {})})
        return found

    def filter(
        self,
        function: Callable[..., Any],
        with_indices: bool = False,
        input_columns: Iterable[str] | str | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> "Documents":
        """Return the rows for which a function is true."""
        options = dict(fn_kwargs or {})
        return Documents(
            row
            for at, row in enumerate(self)
            if function(*_arguments(row, input_columns), *([at] if with_indices else ()), **options)
        )

    def select(self, indices: Iterable[int], **_: Any) -> "Documents":
        """Return the rows at the given indices."""
        return Documents(list.__getitem__(self, at) for at in indices)

    def take(self, n: int) -> "Documents":
        """Return the first n rows."""
        return Documents(list(self)[:n])

    def skip(self, n: int) -> "Documents":
        """Return the rows after the first n."""
        return Documents(list(self)[n:])

    def rename_column(self, old: str, new: str, **_: Any) -> "Documents":
        """Return the rows with a column renamed."""
        return self.rename_columns({old: new})

    def rename_columns(self, names: Mapping[str, str], **_: Any) -> "Documents":
        """Return the rows with columns renamed."""
        return Documents({names.get(k, k): value for k, value in row.items()} for row in self)

    def remove_columns(self, names: Iterable[str] | str, **_: Any) -> "Documents":
        """Return the rows without the given columns."""
        gone = _names(names)
        return Documents({n: v for n, v in row.items() if n not in gone} for row in self)

    def select_columns(self, names: Iterable[str] | str, **_: Any) -> "Documents":
        """Return the rows with the given columns only."""
        kept = _names(names)
        return Documents({n: v for n, v in row.items() if n in kept} for row in self)

    def add_column(self, name: str, values: Iterable[Any], **_: Any) -> "Documents":
        """Return the rows with one more column."""
        pairs = zip(self, values, strict=True)
        return Documents({**row, name: value} for row, value in pairs)

    def cast_column(self, *_: Any, **__: Any) -> "Documents":
        """Return the rows unchanged, since values have Python types."""
        return self

    def unique(self, name: str) -> list[Any]:
        """Return the distinct values of a column, in order."""
        return list(dict.fromkeys(row[name] for row in self))

    def flatten(self, **_: Any) -> "Documents":
        """Return the rows with the entries of inner mappings as columns ``outer.inner``."""
        return Documents(
            {
                **{k: v for k, v in row.items() if not isinstance(v, Mapping)},
                **{
                    f"{k}.{inner}": one
                    for k, v in row.items()
                    if isinstance(v, Mapping)
                    for inner, one in v.items()
                },
            }
            for row in self
        )

    def shuffle(self, seed: int | None = None, **_: Any) -> "Documents":
        """Return the rows in a random order."""
        rows = list(self)
        random.Random(0 if seed is None else seed).shuffle(rows)  # noqa: S311
        return Documents(rows)

    def train_test_split(
        self, test_size: float = 0.25, seed: int | None = None, **_: Any
    ) -> dict[str, "Documents"]:
        """Return a random split of the rows into "train" and "test"."""
        rows = self.shuffle(seed)
        n = int(test_size) if test_size >= 1 else round(len(rows) * test_size)
        return {"train": rows.skip(n), "test": rows.take(n)}

    def to_list(self) -> list[Row]:
        """Return the rows as a list."""
        return list(self)

    def to_dict(self, **_: Any) -> dict[str, list[Any]]:
        """Return the columns."""
        return {name: self[name] for name in self.column_names}

    def to_pandas(self, **_: Any) -> Any:
        """Return the rows as a data frame."""
        import pandas as pd

        return pd.DataFrame(list(self))


def _arguments(row: Row, input_columns: Iterable[str] | str | None) -> tuple[Any, ...]:
    if input_columns is None:
        return (dict(row),)
    names = [input_columns] if isinstance(input_columns, str) else input_columns
    return tuple(row[name] for name in names)
