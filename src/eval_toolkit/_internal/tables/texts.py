"""Reading of whole text files, without duckdb."""

from pathlib import Path

from eval_toolkit._internal.files import read_unpacked
from eval_toolkit.errors import ArtifactError


def read_text(path: Path) -> str:
    """Return the content of a text file, decompressed if its name ends in ``.gz``.

    The file is UTF-8, with or without a byte order mark, and must have at least one visible
    character.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_text("hello", encoding="utf-8-sig")
    >>> read_text(path)
    'hello'
    """
    try:
        text = str(read_unpacked(path), "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: byte {error.start} is not UTF-8") from None
    if not text.strip():
        raise ArtifactError(f"{path}: the file is empty")
    return text


def read_lines(path: Path) -> list[tuple[int, str]]:
    r"""Return the non-blank lines of a file with their line numbers.

    Only line feeds end lines: JSON text may contain other Unicode line separators.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = path.write_text("a\n\nb")
    >>> read_lines(path)
    [(1, 'a'), (3, 'b')]
    """
    return [(n, line) for n, line in enumerate(read_text(path).split("\n"), 1) if line.strip()]
