"""Read single members of a zip file: stored, deflated or compressed with Zstandard.

The standard library reads the directory. Members are decompressed here, up to the size given in the
directory, so a file cannot use more memory than its directory declares.
"""

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import limits, open_regular
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ArtifactError

LARGEST_MEMBER = limits.TEXT_BYTES
"""Maximum size of a decompressed member in bytes."""
_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_ENCRYPTED = 0x1
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""Signatures of a zip file: of its first member, or of an empty archive."""


def is_zip(start: bytes) -> bool:
    r"""Return whether a file with these first bytes is a zip file.

    Examples
    --------
    >>> is_zip(b"PK\x03\x04 and so on"), is_zip(b"{}")
    (True, False)
    """
    return start.startswith(_MAGIC)


class Zipped:
    """Zip file whose members are read by name, each as a whole.

    ``hint`` is appended to the error message for truncated files.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.zip"
    >>> with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
    ...     file.writestr("a.json", "[1]")
    >>> zipped = Zipped(path)
    >>> zipped.names, zipped.read("a.json")
    (['a.json'], b'[1]')
    """

    def __init__(self, path: Path, hint: str = "") -> None:
        self.path = path
        self.hint = hint
        try:
            with open_regular(path) as file:
                start = file.read(4)
                if not is_zip(start):
                    raise ArtifactError(f"{path}: not a zip file")
                with zipfile.ZipFile(file) as directory:
                    # Of members with the same name, the last one was written last.
                    self._members = {info.filename: info for info in directory.infolist()}
        except OSError as error:
            raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            if isinstance(error, ArtifactError):
                raise
            raise self._cut_short() from None
        self._check_size()

    def _check_size(self) -> None:
        """Raise if the total size of the members is implausibly large for the file."""
        packed = self.path.stat().st_size
        most = max(limits.RATIO_FROM, limits.RATIO * packed)
        stated = sum(info.file_size for info in self._members.values())
        if stated > most:
            raise ArtifactError(
                f"{self.path}: its members have {stated} bytes uncompressed, more than {limits.RATIO} "
                f"times its size of {packed} bytes; if this is intended, recreate it uncompressed"
            )

    @property
    def names(self) -> list[str]:
        """Names of the members without duplicates, in the order of the directory."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """Return the content of a member, verified by its checksum."""
        if name not in self._members:
            raise ArtifactError(
                f"{self.path}: no member {name!r} among its {len(self._members)} members"
            )
        info = self._members[name]
        if info.flag_bits & _ENCRYPTED:
            raise ArtifactError(f"{self.path}: {name!r} is encrypted; decrypt the file first")
        if info.file_size > LARGEST_MEMBER:
            raise ArtifactError(
                f"{self.path}: {name!r} has {info.file_size} bytes uncompressed; "
                f"the limit is {LARGEST_MEMBER}"
            )
        data = self._unpacked(info)
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise self._damaged(name)
        return data

    def _unpacked(self, info: zipfile.ZipInfo) -> bytes:
        """Return at most one byte more than the size given in the directory."""
        packed, most = self._packed(info), info.file_size + 1
        if info.compress_type == _STORED:
            return packed[:most]
        if info.compress_type == _DEFLATED:
            try:
                return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
            except zlib.error:
                raise self._damaged(info.filename) from None
        if info.compress_type == _ZSTANDARD:
            zstandard = require("zstandard", feature=f"reading {self.path.name}", extra="logs")
            return self._frames(packed, most, info.filename, zstandard)
        raise ArtifactError(
            f"{self.path}: {info.filename!r} has compression method {info.compress_type}; supported are "
            f"stored (0), deflate (8) and zstandard (93)"
        )

    def _frames(self, packed: bytes, most: int, name: str, zstandard: Any) -> bytes:
        unpacker = zstandard.ZstdDecompressor()
        try:
            with unpacker.stream_reader(io.BytesIO(packed), read_across_frames=True) as stream:
                data: bytes = stream.read(most)
        except (zstandard.ZstdError, MemoryError):
            raise self._damaged(name) from None
        return data

    def _packed(self, info: zipfile.ZipInfo) -> bytes:
        try:
            with open_regular(self.path) as file:
                file.seek(info.header_offset)
                header = file.read(_LOCAL_HEADER.size)
                if len(header) < _LOCAL_HEADER.size:
                    raise self._damaged(info.filename)
                magic, n_name, n_extra = _LOCAL_HEADER.unpack(header)
                if magic != _MAGIC[0]:
                    raise self._damaged(info.filename)
                # The extra field may have a different length than in the directory.
                file.seek(n_name + n_extra, io.SEEK_CUR)
                packed = file.read(info.compress_size)
        except (OSError, OverflowError, MemoryError) as error:
            raise ArtifactError(f"{self.path}: {info.filename!r} cannot be read: {error}") from None
        if len(packed) < info.compress_size:
            raise self._damaged(info.filename)
        return packed

    def _cut_short(self) -> ArtifactError:
        said = f"{self.path}: the zip file is damaged or truncated: its directory cannot be read"
        return ArtifactError(f"{said}; {self.hint}" if self.hint else said)

    def _damaged(self, name: str) -> ArtifactError:
        return ArtifactError(
            f"{self.path}: {name!r} is damaged: its size or checksum does not match"
        )
