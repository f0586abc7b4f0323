"""The reader of GGUF files, with files made here: whole, quantised, cut off and altered."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_fixture import gguf_bytes

from eval_toolkit.errors import ArtifactError, MissingFileError
from eval_toolkit.models.embedded.gguf import read_gguf

METADATA = {"a": 7, "b": "text é", "c": [1, -2], "d": ["x", ""], "e": True, "f": 0.5}
SMALL = gguf_bytes(
    METADATA,
    {
        "one": ((2, 3), 0, np.arange(6, dtype="<f4").tobytes()),
        "two": ((1, 32), 8, struct.pack("<e", 0.5) + bytes(range(32))),
    },
)


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    return path


def tensor(tmp_path: Path, shape: tuple[int, ...], kind: int, data: bytes) -> np.ndarray[Any, Any]:
    path = written(tmp_path, gguf_bytes({}, {"t": (shape, kind, data)}))
    return read_gguf(path).tensor("t", shape)


def test_metadata_and_tensors(tmp_path: Path) -> None:
    file = read_gguf(written(tmp_path, SMALL))
    assert file.metadata == METADATA
    assert {name: (t.shape, t.kind) for name, t in file.tensors.items()} == {
        "one": ((2, 3), "F32"),
        "two": ((1, 32), "Q8_0"),
    }
    assert file.tensor("one", (2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert file.tensor("two", (1, 32)).tolist() == [[at / 2 for at in range(32)]]


def test_a_tensor_may_be_read_into_memory_that_is_there(tmp_path: Path) -> None:
    out = np.zeros((4, 3), dtype=np.float32)
    read_gguf(written(tmp_path, SMALL)).tensor("one", (2, 3), out[1:3])
    assert out[:, 1].tolist() == [0, 1, 4, 0]


def test_half_precision(tmp_path: Path) -> None:
    numbers = np.array([1.0, -0.5, 65504.0, 2**-14], dtype="<f2")
    assert tensor(tmp_path, (4,), 1, numbers.tobytes()).tolist() == numbers.tolist()


def test_bfloat16(tmp_path: Path) -> None:
    # The upper half of a float32.
    numbers = np.array([1.0, -3.140625, 1e30], dtype="<f4").view("<u4") & 0xFFFF0000
    found = tensor(tmp_path, (3,), 30, (numbers >> 16).astype("<u2").tobytes())
    assert found.tolist() == numbers.view("<f4").tolist()


# What the formats mean, element by element: low halves of the bytes are elements 0 to 15.
def _nibbles(packed: bytes) -> list[int]:
    return [byte & 15 for byte in packed] + [byte >> 4 for byte in packed]


@given(st.binary(min_size=16, max_size=16), st.floats(-8, 8, width=16))
def test_q4_0(tmp_path_factory: pytest.TempPathFactory, packed: bytes, scale: float) -> None:
    data = struct.pack("<e", scale) + packed
    found = tensor(tmp_path_factory.mktemp("q"), (1, 32), 2, data)
    expected = [np.float32(scale) * np.float32(n - 8) for n in _nibbles(packed)]
    assert found[0].tolist() == expected


@given(
    st.binary(min_size=16, max_size=16),
    st.floats(-8, 8, width=16),
    st.floats(-8, 8, width=16),
)
def test_q4_1(
    tmp_path_factory: pytest.TempPathFactory, packed: bytes, scale: float, least: float
) -> None:
    data = struct.pack("<ee", scale, least) + packed
    found = tensor(tmp_path_factory.mktemp("q"), (1, 32), 3, data)
    expected = [np.float32(scale) * np.float32(n) + np.float32(least) for n in _nibbles(packed)]
    assert found[0].tolist() == expected


def test_many_blocks(tmp_path: Path) -> None:
    # More than are expanded at once, so that the seams are crossed.
    draw = np.random.default_rng(0)
    n = 10_007
    scales = draw.normal(size=n).astype("<f2")
    numbers = draw.integers(-128, 128, (n, 32)).astype("i1")
    data = b"".join(s.tobytes() + row.tobytes() for s, row in zip(scales, numbers, strict=True))
    found = tensor(tmp_path, (n, 32), 8, data)
    np.testing.assert_array_equal(found, numbers * scales.astype(np.float32)[:, None])


def test_a_type_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"tensor 't' is stored as Q6_K; only F32, F16, Q4_0, "):
        tensor(tmp_path, (1, 256), 14, bytes(210))
    with pytest.raises(ArtifactError, match="is stored as number 99"):
        tensor(tmp_path, (1, 256), 99, bytes(210))


@pytest.mark.parametrize(
    ("shape", "kind", "data"),
    [
        ((2,), 0, np.array([1.0, np.nan], dtype="<f4").tobytes()),
        ((1, 32), 8, struct.pack("<e", np.inf) + bytes(32)),
        ((1, 32), 3, struct.pack("<ee", 1.0, np.nan) + bytes(16)),
    ],
)
def test_weights_must_be_finite(
    tmp_path: Path, shape: tuple[int, ...], kind: int, data: bytes
) -> None:
    with pytest.raises(ArtifactError, match="infinities or NaN"):
        tensor(tmp_path, shape, kind, data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04" + bytes(40), "does not begin with 'GGUF'"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(40), "has version 1; only 2 and 3"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(40), "has version 50331648"),
        (b"GG", "the header is incomplete at byte 2"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "declares 1152921504606846976 tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "declares 1099511627776 entries"),
        (gguf_bytes({}, {"t": ((2**40,), 0, b"")}), "tensor 't' ends at byte"),
        (gguf_bytes({}, {"t": ((31,), 8, bytes(34))}), "not a multiple of 32"),
        (gguf_bytes({}, {"t": ((2, 16), 8, bytes(34))}), "not a multiple of 32"),
        (gguf_bytes({}, {"t": ((1,) * 5, 0, bytes(4))}), "tensor 't' has 5 dimensions"),
        (gguf_bytes({"general.alignment": 0}, {}), "its alignment is 0"),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_gguf(written(tmp_path, data))
    assert said in str(caught.value)
    assert "model.gguf: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_of_unknown_types(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    with pytest.raises(ArtifactError, match="has the unknown type 77"):
        read_gguf(written(tmp_path, head + struct.pack("<I", 77) + bytes(40)))
    with pytest.raises(ArtifactError, match=r"an array before byte .* has the unknown type 9"):
        read_gguf(written(tmp_path, head + struct.pack("<II", 9, 9) + bytes(40)))


def test_texts_must_be_utf8(tmp_path: Path) -> None:
    for value in ("text", ["text"]):
        data = gguf_bytes({"k": value}, {}).replace(b"text", b"te\xfft")
        with pytest.raises(ArtifactError, match="is not UTF-8"):
            read_gguf(written(tmp_path, data))


def test_a_tensor_is_there_once_and_has_its_shape(tmp_path: Path) -> None:
    twice = SMALL.replace(b"\x03\0\0\0\0\0\0\0two", b"\x03\0\0\0\0\0\0\0one")
    with pytest.raises(ArtifactError, match="tensor 'one' occurs twice"):
        read_gguf(written(tmp_path, twice))
    file = read_gguf(written(tmp_path, SMALL))
    with pytest.raises(ArtifactError, match="there is no tensor 'three'"):
        file.tensor("three", (1,))
    with pytest.raises(ArtifactError, match=r"the shape \(2, 3\); it must be \(3, 2\)"):
        file.tensor("one", (3, 2))


def test_metadata_are_asked_for_by_type(tmp_path: Path) -> None:
    file = read_gguf(written(tmp_path, SMALL))
    assert file.value("a", int) == 7
    assert file.value("a", float) == 7.0
    assert file.value("absent", int, 3) == 3
    with pytest.raises(ArtifactError, match="metadata 'b' is 'text é'; it must be of type int"):
        file.value("b", int)
    with pytest.raises(ArtifactError, match="metadata 'absent' is 'None'"):
        file.value("absent", str)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="there is no such file"):
        read_gguf(tmp_path / "absent.gguf")
    with pytest.raises(ArtifactError):
        read_gguf(tmp_path)
    with pytest.raises(ArtifactError):
        read_gguf(written(tmp_path, b""))


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    # The last bytes are padding.
    for length in range(len(SMALL) - 30):
        with pytest.raises(ArtifactError):
            read_gguf(written(tmp_path, SMALL[:length]))


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), max_size=8))
def test_altered_bytes_give_numbers_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(SMALL)
    for at, byte in changes:
        data[at] = byte
    try:
        path = written(tmp_path_factory.mktemp("x"), bytes(data))
        for found in read_gguf(path).tensors.values():
            assert np.isfinite(found.read()).all()
    except ArtifactError:
        pass
