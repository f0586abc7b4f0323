"""Readers of prediction files, and local copies of remote files."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from eval_toolkit._internal import tables
from eval_toolkit.artifacts.remote import address_of, fetch, is_remote, local_path, name_of
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.protocols import PredictionReader


@dataclass(frozen=True, slots=True)
class _TableReader:
    """Base class of the built-in readers, one per media type."""

    media_type: ClassVar[str]

    def read_predictions(self, uri: str, *, columns: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the named columns: scores as numbers, all others as strings.

        Labels are numbers if all are 0 or 1, true or false, otherwise strings.

        Parameters
        ----------
        uri : str
            Path or URL of the file.
        columns : mapping of str to str
            Maps roles to column names (``{"label": "y_true", "score": "p", "row_id": "id"}``).

        Returns
        -------
        mapping of str to ndarray
            Arrays by column name, with one value per row.

        Raises
        ------
        ArtifactError
            If the file is missing or malformed; the message names file and row.
        InvalidInputError
            If a column does not exist or a cell is empty.
        """
        named = {role: [name] for role, name in columns.items()}
        labels, numbers = named.pop("label", []), named.pop("score", [])
        texts = [name for names in named.values() for name in names]
        with local_file(uri) as path:
            table = tables.read_table(
                path,
                numbers=numbers,
                texts=texts,
                labels=labels,
                file_format=tables.FileFormat(self.media_type),
            )
        for name in texts:
            empty = next((i for i, cell in enumerate(table[name].tolist()) if not cell), None)
            if empty is not None:
                raise InvalidInputError(
                    f"{address_of(uri)}: row {empty + 1}: {name!r} is missing; every row needs a value"
                )
        return {name: table[name] for name in columns.values()}


class CsvPredictionReader(_TableReader):
    r"""Reader of comma-separated predictions with a header line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.csv"
    >>> _ = path.write_text("y,p\n0,0.2\n1,0.9\n")
    >>> CsvPredictionReader().read_predictions(str(path), columns={"label": "y", "score": "p"})
    {'y': array([0., 1.]), 'p': array([0.2, 0.9])}
    """

    media_type = tables.CSV


class TsvPredictionReader(_TableReader):
    """Reader of tab-separated predictions with a header line."""

    media_type = tables.TSV


class JsonlPredictionReader(_TableReader):
    r"""Reader of predictions with one JSON object per line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.jsonl"
    >>> _ = path.write_text('{"y": 0, "p": 0.2}\n{"y": 1, "p": 0.9}\n')
    >>> JsonlPredictionReader().read_predictions(str(path), columns={"label": "y", "score": "p"})
    {'y': array([0., 1.]), 'p': array([0.2, 0.9])}
    """

    media_type = tables.JSONL


class ParquetPredictionReader(_TableReader):
    """Reader of predictions in Parquet files."""

    media_type = tables.PARQUET


_READERS: dict[str, type[_TableReader]] = {
    tables.CSV: CsvPredictionReader,
    tables.TSV: TsvPredictionReader,
    tables.JSONL: JsonlPredictionReader,
    tables.PARQUET: ParquetPredictionReader,
}


def reader_for(media_type: str) -> PredictionReader:
    """Return the built-in reader of a media type, regardless of the file name."""
    known = _READERS.get(tables.MEDIA_TYPES.get(media_type, ""))
    if known is None:
        raise InvalidInputError(
            f"no built-in reader supports the media type {media_type!r}; pass `reader`, or use one "
            f"of {', '.join(_READERS)}"
        )
    return known()


@contextlib.contextmanager
def local_file(uri: str, base: str | Path | None = None) -> Iterator[Path]:
    """Yield a local path for a URI; remote files are copied temporarily."""
    if not is_remote(uri):
        yield local_path(uri, base)
        return
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-") as folder:
        # keep the last part of the address: its suffix indicates gzip
        copy = Path(folder) / (name_of(uri) or "predictions")
        fetch(uri, copy)
        yield copy
