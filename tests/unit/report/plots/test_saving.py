"""Figures as files: formats, provenance, and nothing half written."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair
import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingFileError
from eval_toolkit.report import plots

CHART = plots.plot_lift_ci({"a": (0.1, 0.0, 0.2)}, figsize=(3, 2))


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Type and body of every chunk of a PNG, checksums verified."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert checksum == zlib.crc32(kind + body)
        found.append((kind, body))
        at += 12 + length
    assert found[-1][0] == b"IEND"
    return found


def texts(data: bytes) -> dict[str, str]:
    found = {}
    for kind, body in chunks(data):
        if kind == b"iTXt":
            keyword, _, rest = body.partition(b"\0")
            found[keyword.decode("latin-1")] = rest[4:].decode("utf-8")
    return found


def test_png_has_its_size_and_where_it_comes_from(tmp_path: Path) -> None:
    origin = {"run_id": "r1", "größe": "π", "seeds": [1, 2], "api_key": "sk-" + "a" * 40}
    path = plots.save_figure(CHART, tmp_path / "a.png", dpi=144, provenance=origin)
    assert path == tmp_path / "a.png"
    data = path.read_bytes()
    kind, header = chunks(data)[0]
    assert kind == b"IHDR"
    # 3 × 2 inches of 144 pixels.
    assert struct.unpack(">II", header[:8]) == (432, 288)
    stored = texts(data)
    assert stored["run_id"] == "r1"
    assert stored["gr??e"] == "π"
    assert json.loads(stored["seeds"]) == [1, 2]
    meta = json.loads((tmp_path / "a.meta.json").read_bytes())
    assert meta["run_id"] == "r1"
    assert meta["figure_dpi"] == 144
    assert meta["figure"] == "a.png"
    assert "aaaa" not in json.dumps([stored, meta])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.meta.json", "a.png"]


def test_svg_and_pdf(tmp_path: Path) -> None:
    svg = plots.save_figure(CHART, str(tmp_path / "a.svg"))
    assert svg is not None
    assert "Lift" in " ".join(ElementTree.fromstring(svg.read_text()).itertext())  # noqa: S314
    pdf = plots.save_figure(CHART, tmp_path / "a.PDF")
    assert pdf is not None
    assert pdf.read_bytes().startswith(b"%PDF")


def test_any_altair_chart_keeps_its_own_configuration(tmp_path: Path) -> None:
    data = altair.InlineData(values=[{"x": 1}])
    mine = altair.Chart(data).mark_point().encode(x="x:Q").configure(background="#123456")
    path = plots.save_figure(mine, tmp_path / "a.svg")
    assert path is not None
    assert "#123456" in path.read_text()


def test_addresses_are_not_fetched(tmp_path: Path) -> None:
    chart = altair.Chart("http://127.0.0.1:9/data.json").mark_point().encode(x="x:Q")
    with pytest.raises(ValueError, match=r"127\.0\.0\.1"):
        plots.save_figure(chart, tmp_path / "a.svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "options", "error", "message"),
    [
        ("a.jpg", {}, InvalidInputError, "suffix must be one of .pdf, .png, .svg"),
        ("a", {}, InvalidInputError, "suffix"),
        ("a.png", {"permitted_suffixes": {".pdf"}}, InvalidInputError, "one of .pdf"),
        ("no/where/a.png", {}, MissingFileError, "no such folder"),
        ("a.png", {"dpi": 0}, InvalidInputError, "`dpi`"),
        ("a.png", {"dpi": 1.5}, InvalidTypeError, "`dpi`"),
        ("a.png", {"provenance": ["r1"]}, InvalidTypeError, "`provenance`"),
    ],
)
def test_what_is_refused_leaves_nothing(
    tmp_path: Path, path: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plots.save_figure(CHART, tmp_path / path, **options)
    assert list(tmp_path.iterdir()) == []


def test_only_charts_are_saved(tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match="`chart`"):
        plots.save_figure("chart", tmp_path / "a.png")
    with pytest.raises(InvalidTypeError, match="`path`"):
        plots.save_figure(CHART, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "skips"), [("1", True), ("0", False), ("", False)])
def test_saving_can_be_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, skips: bool
) -> None:
    monkeypatch.setenv("EVAL_TOOLKIT_SKIP_SAVEFIG", value)
    found = plots.save_figure(CHART, tmp_path / "a.svg")
    assert (found is None) == skips
    assert bool(list(tmp_path.iterdir())) != skips
