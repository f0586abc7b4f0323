"""Files are there whole or not at all."""

import os
import sys

import pytest

from eval_toolkit._internal.files import replace_atomic, write_atomic


def test_text_and_bytes(tmp_path):
    path = write_atomic(tmp_path / "new" / "deep" / "a.txt", "naïve\n")
    assert path.read_bytes() == "naïve\n".encode()
    write_atomic(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert [file.name for file in path.parent.iterdir()] == ["a.txt"]


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_atomic(tmp_path / "a.txt", "old")

    def fails() -> None:
        with replace_atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fails()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_old_or_new_while_writing(tmp_path):
    path = write_atomic(tmp_path / "a.txt", "old")
    with replace_atomic(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"


def test_a_writer_that_wrote_nothing_is_an_error(tmp_path):
    def nothing() -> None:
        with replace_atomic(tmp_path / "a.txt"):
            pass

    with pytest.raises(FileNotFoundError):
        nothing()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_mode_stays(tmp_path):
    path = write_atomic(tmp_path / "run.sh", "a")
    path.chmod(0o750)
    write_atomic(path, "b")
    assert os.stat(path).st_mode & 0o777 == 0o750  # noqa: PTH116
