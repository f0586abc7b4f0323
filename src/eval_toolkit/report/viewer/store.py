"""Tables of runs, asked a page at a time: nothing is loaded, nothing is written, nothing hangs."""

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

__all__ = ["SEARCH_S", "Store", "TooLongError"]

SEARCH_S = 10.0
"""Seconds that a search may take."""
_AT_ONCE = 4
_MEMORY = "256MB"


class TooLongError(ArtifactError):
    """A question to the tables took longer than a reader waits."""


class Store:
    """The Parquet files below a folder, to be queried.

    Parameters
    ----------
    folder : Path
        Nothing outside it is read.

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
        """Return the rows that answer a question.

        Parameters
        ----------
        path : Path
            The file that an error is about.
        sql : str
            Values in it are question marks, names are those of the table's own columns, quoted.
        parameters : sequence
            The values.
        limit_s : float
            Seconds after which it is stopped.

        Returns
        -------
        list of tuple
            The rows.

        Raises
        ------
        TooLongError
            If it took longer.
        ArtifactError
            If the file cannot be read.
        """
        with self._cursor(path, limit_s) as cursor:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, list(parameters)).fetchall()
        return rows

    def read(self, path: Path, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return rows as `query` does; the first question mark stands for the file."""
        return self.query(path, sql, [pattern(path), *parameters])

    def column(
        self, path: Path, sql: str, parameters: Sequence[Any], *, limit_s: float = SEARCH_S
    ) -> NDArray[Any]:
        """Return the one column of numbers that answers a question, as in `query`."""
        with self._cursor(path, limit_s) as cursor:
            (found,) = cursor.execute(sql, list(parameters)).fetchnumpy().values()
        return np.asarray(found)

    def table(
        self, path: Path, sql: str, parameters: Sequence[Any], *, limit_s: float = SEARCH_S
    ) -> dict[str, NDArray[Any]]:
        """Return the columns that answer a question, as in `query`; masked where one has gaps."""
        with self._cursor(path, limit_s) as cursor:
            found: dict[str, Any] = cursor.execute(sql, list(parameters)).fetchnumpy()
        return found

    def columns_of(self, path: Path) -> dict[str, str]:
        """Return the columns of a table and their types."""
        found = self.query(
            path,
            "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)",
            [pattern(path)],
        )
        return {str(row[0]): str(row[1]) for row in found}

    @contextlib.contextmanager
    def _cursor(self, path: Path, limit_s: float) -> "Iterator[duckdb.DuckDBPyConnection]":
        """Lend a connection; whoever asks while all are lent waits for one, but not for ever."""
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
                        "part or a status too, or search for less"
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
    """Return a database in memory that reads below one folder and can be told nothing else."""
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
    made.execute("SET temp_directory = ''")  # what does not fit in memory is refused, not written
    made.execute("SET preserve_insertion_order = true")
    with contextlib.suppress(duckdb.CatalogException):  # older ones cannot be held to a folder
        made.execute(f"SET allowed_directories = [{literal(f'{folder}/')}]")
        made.execute("SET enable_external_access = false")
    made.execute("SET lock_configuration = true")
    return made


def pattern(path: Path) -> str:
    """Return a path as duckdb takes it: no sign in it stands for several files.

    A link is refused, since it may show a file of another place; so is what would block whoever
    reads it, as a pipe does.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ArtifactError(
            f"{path}: the folder's name is not UTF-8, so its tables cannot be read; rename it"
        ) from None
    if path.is_symlink():
        raise ArtifactError(f"{path}: is a link; the viewer reads files of a run where they are")
    try:
        open_regular(path).close()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    return glob.escape(str(path))
