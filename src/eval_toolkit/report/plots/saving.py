"""Save charts as PNG, SVG or PDF files with provenance."""

import json
import os
import struct
import zlib
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.files import write_atomic
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.plain import plain
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingFileError
from eval_toolkit.provenance import redact_secrets, utc_now
from eval_toolkit.report.plots._charts import altair
from eval_toolkit.report.plots.static_images import picture
from eval_toolkit.report.plots.style import PLOT_STYLE

_SUFFIXES = frozenset({".png", ".pdf", ".svg"})
_PNG_HEAD = 8 + 25
"""Size of the PNG signature and header chunk, in bytes."""


def save_figure(
    chart: Any,
    path: str | os.PathLike[str],
    *,
    dpi: int = 300,
    provenance: Mapping[str, Any] | None = None,
    permitted_suffixes: Collection[str] = _SUFFIXES,
    skip_env_var: str | None = "EVAL_TOOLKIT_SKIP_SAVEFIG",
) -> Path | None:
    """Write a chart as PNG, SVG or PDF, with its metadata in ``<stem>.meta.json``.

    Parameters
    ----------
    chart : Chart
        Chart of this package or any other Altair chart; `PLOT_STYLE` provides the defaults.
    path : path
        Output file; the suffix determines the format. The folder must exist.
    dpi : int, default 300
        Pixels per inch of a PNG.
    provenance : mapping, optional
        Origin of the figure: run id, commit, data hashes. Written to the JSON file and, as text
        chunks, to a PNG. Secrets are redacted.
    permitted_suffixes : collection of str, default {".png", ".pdf", ".svg"}
        Allowed suffixes.
    skip_env_var : str, optional
        Name of an environment variable; if it is set to anything but "", "0" or "false", nothing is
        written.

    Returns
    -------
    Path or None
        Path of the file; None if saving was skipped.

    Raises
    ------
    InvalidInputError
        If the suffix is not permitted.
    InvalidTypeError
        If ``chart`` is not a chart.
    MissingFileError
        If the folder does not exist.
    MissingExtraError
        If Altair or vl-convert is not installed.

    Notes
    -----
    No network access is needed: the chart contains its data, and URLs are rejected.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.report.plots import plot_metric_bars
    >>> path = save_figure(plot_metric_bars({"A": 0.5}), tempfile.mkdtemp() + "/bars.svg")
    >>> sorted(file.name for file in path.parent.iterdir())
    ['bars.meta.json', 'bars.svg']
    """
    target = _target(path, permitted_suffixes)
    resolution = validation.integer(dpi, "dpi", low=1)
    if not hasattr(chart, "to_dict"):
        raise InvalidTypeError(f"`chart` is {chart!r:.80}; it must be an Altair chart")
    if provenance is not None and not isinstance(provenance, Mapping):
        raise InvalidTypeError(f"`provenance` is {provenance!r:.80}; it must be a mapping")
    if skip_env_var and os.environ.get(skip_env_var, "").lower() not in ("", "0", "false"):
        return None
    origin = redact_secrets(dict(provenance or {}))
    data = _rendered(chart, target.suffix.lower(), resolution)
    if target.suffix.lower() == ".png":
        data = _with_texts(data, origin)
    meta = {
        **origin,
        "timestamp_utc": utc_now(),
        "altair_version": version("altair"),
        "figure_dpi": resolution,
        "figure": target.name,
    }
    write_atomic(target, data)
    write_atomic(target.with_suffix(".meta.json"), json_bytes(meta))
    return target


def _target(path: Any, permitted: Collection[str]) -> Path:
    validation.place(path, "path")
    target = Path(path)
    allowed = sorted({suffix.lower() for suffix in permitted} & _SUFFIXES)
    if target.suffix.lower() not in allowed:
        raise InvalidInputError(
            f"`path` is {str(target)!r:.200}; its suffix must be one of {', '.join(allowed)}"
        )
    if not target.parent.is_dir():
        raise MissingFileError(f"{target.parent}: no such folder; create it first")
    return target


def _rendered(chart: Any, suffix: str, dpi: int) -> bytes:
    converter = require("vl_convert", feature="save_figure", extra="report")
    spec = chart.to_dict()
    spec["config"] = _merged(dict(PLOT_STYLE), spec.get("config", {}))
    options: dict[str, Any] = {"vl_version": _vega_lite_version(converter), "allowed_base_urls": []}
    if suffix == ".png":
        options["ppi"] = dpi
    return picture(plain(spec), suffix.removeprefix("."), **options)


def _vega_lite_version(converter: Any) -> str:
    """Return Altair's Vega-Lite version if the converter supports it, else its newest one."""
    wanted = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known: list[str] = converter.get_vegalite_versions()
    return wanted if wanted in known else known[-1]


def _merged(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two configurations; the second takes precedence."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = _merged(dict(below), value)
        else:
            merged[name] = value
    return merged


def _with_texts(png: bytes, provenance: Mapping[str, Any]) -> bytes:
    """Insert one text chunk per entry after the header of a PNG."""
    texts = {"Software": f"eval-toolkit, altair {version('altair')}", **provenance}
    chunks = b"".join(_text_chunk(str(name), value) for name, value in texts.items())
    return png[:_PNG_HEAD] + chunks + png[_PNG_HEAD:]


def _text_chunk(name: str, value: Any) -> bytes:
    """Return an ``iTXt`` chunk with a Latin-1 keyword of at most 79 bytes and UTF-8 text."""
    keyword = "".join(c if " " <= c <= "~" else "?" for c in name).strip()[:79].strip() or "?"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    body = b"iTXt" + keyword.encode("latin-1") + b"\0\0\0\0\0"
    body += text.replace("\0", " ").encode("utf-8", "replace")
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
