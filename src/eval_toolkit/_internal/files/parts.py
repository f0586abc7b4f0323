"""Parts of a file, read by position."""

import os
from pathlib import Path

from eval_toolkit._internal.files.regular import open_regular
from eval_toolkit.errors import ArtifactError

Span = tuple[int, int]
"""Start and size of a part, in bytes."""


class FileParts:
    """A file of which parts are read when they are needed.

    The file stays open, so its content remains available if the file is moved or removed.

    Parameters
    ----------
    path : path
        Regular file.
    fixed : bool, default False
        Whether the file must not change while it is in use.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_text("one two")
    >>> FileParts(path).read((4, 3))
    b'two'
    """

    def __init__(self, path: str | Path, *, fixed: bool = False) -> None:
        self.path = Path(path)
        self._state = _state(self.path.stat()) if fixed else None
        self._handle: int | None = None
        if hasattr(os, "pread"):  # Windows could not remove an open file
            with open_regular(self.path) as stream:
                self._handle = os.dup(stream.fileno())

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            os.close(self._handle)  # type: ignore[arg-type]

    def read(self, span: Span) -> bytes:
        """Return a part; raise `ArtifactError` if the file is shorter than before, or changed."""
        start, size = span
        try:
            if self._handle is not None:
                told = os.fstat(self._handle) if self._state else None
                data = os.pread(self._handle, size, start)
            else:
                with open_regular(self.path) as stream:
                    told = os.fstat(stream.fileno())
                    stream.seek(start)
                    data = stream.read(size)
        except OSError as error:
            raise ArtifactError(
                f"{self.path}: cannot be read: {error.strerror or error}"
            ) from error
        changed = self._state is not None and told is not None and self._state != _state(told)
        if changed or len(data) != size:
            raise ArtifactError(f"{self.path}: was changed while it was in use; run again")
        return data


def _state(told: os.stat_result) -> tuple[int, int]:
    return told.st_size, told.st_mtime_ns
