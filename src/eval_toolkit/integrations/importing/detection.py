"""Detect log formats and read logs."""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from eval_toolkit._internal.files import malformed
from eval_toolkit._internal.tables import STDIN, expand_paths
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted

_MODULES = (
    "garak",
    "inspect_log",
    "lm_eval",
    "lighteval",
    "helm",
    "eval_framework",
    "astra_rl",
    "eval_toolkit_1",
    "predictions",
)
"""Readers in order of detection: garak first, as its entries resemble other logs; tables last."""
TOOLS = (
    "Inspect .eval and .json",
    "lm-eval results_*.json and samples_*.jsonl",
    "lighteval results and details",
    "HELM run folders",
    "eval-framework outputs",
    "astra-rl outputs",
    "garak *.report.jsonl",
    "run folders of eval-toolkit 1",
    "tables of predictions (CSV, TSV, JSONL, JSON, Parquet, Excel)",
)
"""Descriptions of the supported formats."""


class Reader(Protocol):
    """Interface of a module that reads one log format."""

    NAME: str

    def recognises(self, path: Path) -> bool:
        """Return whether the path looks like this format; must be cheap and must not raise."""
        ...

    def read(self, path: Path, wanted: Wanted) -> list[Log]:
        """Return the logs; raise a one-line error that names the file, the row and the rule."""
        ...


def readers() -> tuple[Reader, ...]:
    """Return the readers in the order of detection, importing them on first use."""
    return tuple(cast("Reader", import_module(f"{__package__}.{name}")) for name in _MODULES)


def read_logs(path: str | Path, wanted: Wanted | None = None) -> list[Log]:
    """Read the logs at a path, detecting the tool that wrote them.

    Parameters
    ----------
    path : path
        Path of a log, ``-`` for standard input, or a folder: either a log itself (a HELM run, an
        eval-framework output) or a folder searched recursively. Hidden folders are skipped, and
        plain tables of predictions are only read if named directly.
    wanted : Wanted, optional
        Options that select what to import.

    Returns
    -------
    list of Log
        One log per task and model.

    Raises
    ------
    MissingFileError
        If the path does not exist.
    InvalidInputError
        If the format is not recognised.
    ArtifactError
        If a log is damaged; the message names the file and the problem.

    Examples
    --------
    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results_2025-01-01T00-00-00.json"
    >>> _ = path.write_text(json.dumps({
    ...     "results": {"arc": {"acc,none": 0.5, "acc_stderr,none": 0.1}},
    ...     "config": {"model_args": "pretrained=m"}, "configs": {}}))
    >>> [(log.tool, log.task, log.stated[0].value) for log in read_logs(path)]
    [('lm-eval', 'arc', 0.5)]
    """
    place, asked = Path(path), wanted or Wanted()
    if str(path) == STDIN:
        (place,) = expand_paths([path])
    if not place.exists():
        raise MissingFileError(f"{place}: there is no such file or folder")
    known = readers()
    reader = _reader_of(place, known)
    if reader is not None:
        return _read(reader, place, asked)
    if not place.is_dir():
        raise InvalidInputError(
            f"{place}: not a log in a supported format; the formats are {'; '.join(TOOLS)}"
        )
    logs = list(_logs_in(place, known[:-1], asked))
    if not logs:
        raise InvalidInputError(
            f"{place}: no logs in this folder; the formats are {'; '.join(TOOLS)} "
            "(tables are read only if the file itself is passed)"
        )
    return logs


def _reader_of(path: Path, known: tuple[Reader, ...]) -> Reader | None:
    return next((reader for reader in known if reader.recognises(path)), None)


def _logs_in(folder: Path, known: tuple[Reader, ...], wanted: Wanted) -> Iterator[Log]:
    taken: set[str] = set()
    for path in _places(folder, known):
        if str(path.resolve()) in taken:  # samples already read with their results
            continue
        reader = _reader_of(path, known)
        if reader is not None:
            for log in _read(reader, path, wanted):
                taken.update(str(Path(name).resolve()) for name in log.files)
                yield log


def _read(reader: Reader, path: Path, wanted: Wanted) -> list[Log]:
    """Return the logs in a file; for unexpected content, raise a one-line error."""
    with malformed(path, "log", error=ArtifactError):
        return list(reader.read(path, wanted))


def _places(folder: Path, known: tuple[Reader, ...]) -> Iterator[Path]:
    """Yield folders that are logs as a whole, and all other files, sorted by name."""
    for here, folders, files in os.walk(folder):
        inner = [name for name in sorted(folders) if not name.startswith(".")]
        logs = [name for name in inner if _reader_of(Path(here) / name, known) is not None]
        folders[:] = [name for name in inner if name not in logs]
        yield from (Path(here) / name for name in logs)
        yield from (Path(here) / name for name in sorted(files) if not name.startswith("."))
