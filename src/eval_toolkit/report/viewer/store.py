"""Read-only queries of run tables with a time limit."""

import contextlib
import glob
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.files import open_regular
from eval_toolkit._internal.tables.sources import literal, plain_errors
from eval_toolkit.errors import ArtifactError

if TYPE_CHECKING:
    import duckdb

SEARCH_S = 10.0
"""Maximum duration of a query in seconds."""
_AT_ONCE = 4
_MEMORY = "256MB"


class TooLongError(ArtifactError):
    """Raised if a query exceeds its time limit."""


class Store:
    """SQL queries of Parquet files below a folder.

    Files outside the folder cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> Store(Path(tempfile.mkdtemp())).query(Path("none"), "SELECT 1 + 1", [])
    [(2,)]
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._slots = threading.Semaphore(_AT_ONCE)
        self._opening = threading.Lock()
        self._opened: duckdb.DuckDBPyConnection | None = None

    def query(
        self, path: Path, sql: str, parameters: Sequence[Any], *, limit_s: float = SEARCH_S
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        ``path`` is used in error messages. The SQL must use question marks for parameters and quote
        column names. Raises `TooLongError` after ``limit_s`` seconds.
        """
        with self._cursor(path, limit_s) as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, list(parameters)).fetchall()
        return rows

    def read(self, path: Path, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose first parameter is the file."""
        return self.query(path, sql, [pattern(path), *parameters])

    def column(
        self, path: Path, sql: str, parameters: Sequence[Any], *, limit_s: float = SEARCH_S
    ) -> NDArray[Any]:
        """Return the single numeric column of a query's result."""
        with self._cursor(path, limit_s) as cursor:
            (found,) = cursor.execute(sql, list(parameters)).fetchnumpy().values()
        return np.asarray(found)

    def table(
        self, path: Path, sql: str, parameters: Sequence[Any], *, limit_s: float = SEARCH_S
    ) -> dict[str, NDArray[Any]]:
        """Return the columns of a query's result, as masked arrays if values are missing."""
        with self._cursor(path, limit_s) as cursor:
            found: dict[str, Any] = cursor.execute(sql, list(parameters)).fetchnumpy()
        return found

    def columns_of(self, path: Path) -> dict[str, str]:
        """Return the names and types of a table's columns."""
        found = self.query(
            path,
            "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)",
            [pattern(path)],
        )
        return {str(row[0]): str(row[1]) for row in found}

    @contextlib.contextmanager
    def _cursor(self, path: Path, limit_s: float) -> "Iterator[duckdb.DuckDBPyConnection]":
        """Yield a connection, waiting up to the time limit if all are in use."""
        import duckdb

        if not self._slots.acquire(timeout=limit_s):
            raise TooLongError(f"the tables were busy for {limit_s:g} s; try again")
        try:
            with plain_errors(path), self._database().cursor() as cursor:
                timer = threading.Timer(limit_s, cursor.interrupt)
                timer.daemon = True
                timer.start()
                try:
                    yield cursor
                except duckdb.InterruptException as error:
                    raise TooLongError(
                        f"this took longer than {limit_s:g} s and was stopped; choose a slice, a "
                        f"part or a status, or narrow the search"
                    ) from error
                finally:
                    timer.cancel()
        finally:
            self._slots.release()

    def _database(self) -> "duckdb.DuckDBPyConnection":
        with self._opening:
            if self._opened is None:
                self._opened = _opened(self._folder)
            return self._opened


def _opened(folder: Path) -> "duckdb.DuckDBPyConnection":
    """Return an in-memory database restricted to files below a folder, with locked configuration."""
    import duckdb

    made = duckdb.connect(
        config={
            "threads": 2,
            "memory_limit": _MEMORY,
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
        }
    )
    made.execute("SET enable_progress_bar = false")
    made.execute("SET temp_directory = ''")  # raise instead of spilling to disk
    made.execute("SET preserve_insertion_order = true")
    with contextlib.suppress(duckdb.CatalogException):  # not in older versions
        made.execute(f"SET allowed_directories = [{literal(f'{folder}/')}]")
        made.execute("SET enable_external_access = false")
    made.execute("SET lock_configuration = true")
    return made


def pattern(path: Path) -> str:
    """Return a path as a DuckDB pattern that matches only this file.

    Links are rejected, since they may point outside the folder, and so are special files such as
    pipes, which would block.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ArtifactError(
            f"{path}: the folder's name is not UTF-8, so its tables cannot be read; rename it"
        ) from None
    if path.is_symlink():
        raise ArtifactError(f"{path}: is a link; the viewer does not follow links out of a run")
    try:
        open_regular(path).close()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    return glob.escape(str(path))
