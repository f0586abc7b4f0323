"""Resolve URLs of runs and prediction files given on the command line."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eval_toolkit._internal import tables
from eval_toolkit.artifacts.remote import address_of, fetch, is_remote, local_path, name_of
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, MissingFileError

if TYPE_CHECKING:
    from eval_toolkit.runs import Run


def is_run(path: str) -> bool:
    """Return whether an argument is a run: a folder, or a URL that does not point to a table."""
    if not is_remote(path):
        return local_path(path).is_dir()
    from eval_toolkit.runs.folder import MANIFEST

    try:
        tables.media_type_of(name_of(path))
    except InvalidInputError:
        return True
    return name_of(path) == MANIFEST


@dataclass(frozen=True)
class Fetched:
    """Local files, with the paths or URLs given by the user."""

    paths: list[str]
    names: Mapping[str, str]
    """URL of each local copy."""

    def name(self, path: str | Path) -> str:
        """Return the display name of a file: for local copies, the URL."""
        return self.names.get(str(path), str(path))


@contextlib.contextmanager
def fetched(paths: Sequence[str]) -> Iterator[Fetched]:
    """Yield local files for paths and URLs; copies are removed afterwards. Errors show URLs."""
    if list(paths).count(tables.STDIN) > 1:
        raise InvalidInputError("- was given twice; standard input can be read only once")
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-") as folder:
        local, names = [], {}
        for number, path in enumerate(paths):
            if is_remote(path):
                copy = Path(folder) / str(number) / (name_of(path) or "predictions")
                copy.parent.mkdir()
                fetch(path, copy)
                names[str(copy)] = address_of(path)
                path = str(copy)
            elif path.lower().startswith("file://"):
                path = str(local_path(path))
            elif path == tables.STDIN:
                path = str(tables.expand_paths(path)[0])
                names[path] = tables.shown(path)
            local.append(path)
        try:
            yield Fetched(local, names)
        except EvalToolkitError as error:
            said = str(error)
            for copy_path, address in names.items():
                said = said.replace(copy_path, address)
            if said == str(error):
                raise
            raise type(error)(said) from None


def run_at(path: str, what: str) -> "Run":
    """Open a run; if the path is a prediction file, explain how to store it as a run."""
    from eval_toolkit.runs import Run
    from eval_toolkit.runs.folder import MANIFEST

    if is_remote(path):
        return Run.open(path)
    path = str(local_path(path))
    if not Path(path).exists():
        raise MissingFileError(f"{path}: no such folder")
    if Path(path).is_file() and Path(path).name != MANIFEST:
        raise InvalidInputError(
            f"{path}: is a file; {what} needs a run: eval-toolkit score {path} --save "
            "RUN stores predictions as one"
        )
    return Run.open(path)
