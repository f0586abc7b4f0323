"""Out-of-distribution data listed in a manifest and pinned by hash."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, tables, validation
from eval_toolkit._internal.files import is_file, read_document
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit._internal.plain import objects
from eval_toolkit._internal.tables import FileFormat, LabelMap, RowPick, classes_of, read_rows
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError
from eval_toolkit.loaders._croissant import description, field_of, file_object, record_set
from eval_toolkit.loaders.fetching import cached_path, default_cache_dir, local_path, pinned_file
from eval_toolkit.slices import EvalSlice

_FORMATS = {
    "parquet": tables.PARQUET,
    "pq": tables.PARQUET,
    "jsonl": tables.JSONL,
    "json": tables.JSON,
    "csv": tables.CSV,
    "tsv": tables.TSV,
    "xlsx": tables.XLSX,
}
_LONGEST = 2_000
"""Maximum length of a URL or a column name."""
_KEYS = {
    "url",
    "sha256",
    "text_field",
    "label_field",
    "label_map",
    "format",
    "sample_size",
    "seed",
}
_COLUMNS = ("text", "label", "source", "row_id", "sha")
_MAX_BYTES = 1 << 30
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """Validated entry of one slice in a manifest."""

    id: str
    url: str
    sha256: str
    media_type: str
    text_field: str = "text"
    label_field: str = "label"
    label_map: LabelMap | None = None
    sample_size: int | None = None
    seed: int | None = None


def ood_dataset_from_manifest(
    yaml_path: str | Path,
    *,
    slices: Sequence[str] | None = None,
    cache_dir: str | Path | None = None,
    backend: str | None = None,
    max_bytes: int = _MAX_BYTES,
    timeout_s: float = _TIMEOUT_S,
) -> Any:
    r"""Return the rows of the pinned files listed in a manifest.

    The manifest is YAML (with the extra ``yaml``), JSON or TOML::

        slices:
          jailbreaks:
            url: https://example.org/jailbreaks.csv   # or file://…, or a path next to the manifest
            sha256: 9f86d081…                          # of the file's bytes
            text_field: prompt                         # default text
            label_field: type                          # default label
            label_map: {benign: 0, attack: 1}          # by default labels are 0 and 1
            format: csv                                # parquet, pq, jsonl, json, csv, tsv, xlsx
                                                       # by default from the name
            sample_size: 500                           # needs a seed
            seed: 7

    Parameters
    ----------
    yaml_path : path
        Manifest file.
    slices : sequence of str, optional
        Slices to load; by default all.
    cache_dir : path, optional
        Folder of downloads, named by hash; by default ``~/.cache/eval-toolkit/ood``. Cached files
        are verified before use, and downloaded again if their hash differs.
    backend : {"pandas", "polars", "pyarrow", "columns"}, optional
        Library of the returned frame; by default the first that is installed.
    max_bytes : int, default 2**30
        Maximum size of a download in bytes.
    timeout_s : float, default 60
        Network timeout in seconds.

    Returns
    -------
    DataFrame
        Columns text, label (0 or 1), source (the slice), row_id ("slice:row", rows counted from 1
        in the file) and sha (sha256 of the text).

    Raises
    ------
    ArtifactError
        If a file is unavailable or its hash does not match the manifest.
    InvalidInputError
        If the manifest is invalid, or a text or label is missing or invalid.
    MissingColumnError
        If a slice or a column is missing (also a KeyError).
    MissingExtraError
        If the manifest is YAML and pyyaml is not installed (also an ImportError).

    Examples
    --------
    >>> import hashlib, json, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("text,label\nhello,0\nattack,1\n")
    >>> digest = hashlib.sha256((folder / "a.csv").read_bytes()).hexdigest()
    >>> manifest = {"slices": {"demo": {"url": "a.csv", "sha256": digest}}}
    >>> _ = (folder / "ood.json").write_text(json.dumps(manifest))
    >>> rows = ood_dataset_from_manifest(folder / "ood.json", backend="columns")
    >>> rows["row_id"].tolist(), rows["label"].tolist()
    (['demo:1', 'demo:2'], [0, 1])
    """
    path = Path(yaml_path)
    validation.integer(max_bytes, "max_bytes", low=1)
    validation.number(timeout_s, "timeout_s", low=0.0, include_low=False)
    cache = default_cache_dir() if cache_dir is None else Path(cache_dir)
    parts = []
    for entry in _entries(path, slices):
        file = pinned_file(
            entry.url,
            entry.sha256,
            base=path.parent,
            cache_dir=cache,
            max_bytes=max_bytes,
            timeout_s=timeout_s,
        )
        parts.append(_rows_of(entry, file))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
    return frames.from_columns(columns, backend)


def _rows_of(entry: _Entry, file: Path) -> dict[str, NDArray[Any]]:
    rows = read_rows(
        [file],
        texts=[entry.text_field],
        labels=[entry.label_field],
        pick=None
        if entry.sample_size is None
        else RowPick(sample_size=entry.sample_size, seed=entry.seed or 0),
        file_format=FileFormat(entry.media_type),
        may_be_empty=True,
    )

    def place(row: int) -> tuple[str, str]:
        return f"{entry.url} (slice {entry.id!r})", rows.place(row)[1]

    texts = rows.columns[entry.text_field].tolist()
    for index, text in enumerate(texts):
        if text is None:
            raise InvalidInputError(
                f"{': '.join(place(index))}: {entry.text_field!r} is empty; every row needs a text"
            )
    labels = classes_of(
        rows.columns[entry.label_field],
        place=place,
        column=entry.label_field,
        labels=entry.label_map,
    )
    n = len(texts)
    numbers = range(1, n + 1) if rows.numbers is None else rows.numbers.tolist()
    return {
        "text": objects(texts),
        "label": labels.astype(np.int64),
        "source": objects([entry.id] * n),
        "row_id": objects([f"{entry.id}:{row}" for row in numbers]),
        "sha": objects([sha256_text(text) for text in texts]),
    }


def _entries(path: Path, slices: Sequence[str] | None) -> list[_Entry]:
    """Return the requested slices of a manifest, validated before any download."""
    payload = read_document(path, error=ArtifactError)
    listed = payload.get("slices") if isinstance(payload, Mapping) else None
    if not isinstance(listed, Mapping) or not listed:
        raise InvalidInputError(
            f"{path}: the manifest must have a mapping `slices` from ids to slices"
        )
    if isinstance(slices, str):
        raise InvalidInputError(f"`slices` is {slices!r}; it must be a list of slice ids")
    wanted = list(listed) if slices is None else list(slices)
    if not wanted:
        raise InvalidInputError("`slices` is empty; pass at least one slice, or omit it")
    for slice_id in wanted:
        if slice_id not in listed:
            raise MissingColumnError(
                f"{path}: there is no slice {slice_id!r}; the slices are "
                f"{', '.join(map(repr, listed))}"
            )
    return [_entry(path, str(slice_id), listed[slice_id]) for slice_id in wanted]


def _entry(path: Path, slice_id: str, fields: Any) -> _Entry:
    where = f"{path}: slice {slice_id!r:.80}"
    if not isinstance(fields, Mapping):
        raise InvalidInputError(f"{where} must be a mapping with url and sha256")
    unknown = sorted(str(key) for key in fields if key not in _KEYS)
    if unknown:
        raise InvalidInputError(
            f"{where}: unknown key {unknown[0]!r:.80}; the keys are {', '.join(sorted(_KEYS))}"
        )
    for key in ("url", "text_field", "label_field", "format"):
        if not isinstance(fields.get(key, "" if key == "url" else "x"), str):
            raise InvalidInputError(f"{where}: {key} is {fields[key]!r:.80}; it must be a string")
        if len(fields.get(key, "")) > _LONGEST:
            raise InvalidInputError(
                f"{where}: {key} has {len(fields[key])} characters; at most {_LONGEST} are allowed"
            )
    if not fields.get("url"):
        raise InvalidInputError(f"{where}: url is missing")
    sha256 = str(fields.get("sha256", "")).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise InvalidInputError(
            f"{where}: sha256 is {fields.get('sha256')!r:.80}; it must be 64 hex digits (in quotes)"
        )
    sample_size, seed = fields.get("sample_size"), fields.get("seed")
    if sample_size is not None:
        validation.integer(sample_size, f"slices.{slice_id}.sample_size", low=1)
        if seed is None:
            raise InvalidInputError(f"{where}: sample_size needs a seed, for reproducibility")
    if seed is not None:
        validation.integer(seed, f"slices.{slice_id}.seed")
    return _Entry(
        id=slice_id,
        url=fields["url"],
        sha256=sha256,
        media_type=_media_type(where, fields),
        text_field=fields.get("text_field", "text"),
        label_field=fields.get("label_field", "label"),
        label_map=LabelMap.of_mapping(fields.get("label_map")),
        sample_size=sample_size,
        seed=seed,
    )


def _media_type(where: str, fields: Mapping[str, Any]) -> str:
    named = fields.get("format")
    if named is None:
        try:
            return tables.media_type_of(fields["url"].partition("?")[0])
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}, or pass `format`") from None
    if named not in _FORMATS:
        raise InvalidInputError(
            f"{where}: format is {named!r}; it must be one of {', '.join(_FORMATS)}"
        )
    return _FORMATS[named]


@dataclass(frozen=True, slots=True)
class OodManifestLoader:
    r"""Loader of a manifest as one slice "all", with the manifest's slices as strata.

    Parameters
    ----------
    yaml_path : path
        Manifest file, as in `ood_dataset_from_manifest`.
    slices : sequence of str, optional
        Slices to load; by default all.
    cache_dir : path, optional
        Folder of downloads; by default ``~/.cache/eval-toolkit/ood``.
    name, description, cite_as, license, url : str
        Metadata for `describe`.
    backend, max_bytes, timeout_s
        As in `ood_dataset_from_manifest`.

    Examples
    --------
    >>> import hashlib, json, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("text,label\nhello,0\nattack,1\n")
    >>> digest = hashlib.sha256((folder / "a.csv").read_bytes()).hexdigest()
    >>> manifest = {"slices": {"demo": {"url": "a.csv", "sha256": digest}}}
    >>> _ = (folder / "ood.json").write_text(json.dumps(manifest))
    >>> OodManifestLoader(folder / "ood.json").load_splits()["all"].strata.tolist()
    ['demo', 'demo']
    """

    yaml_path: str | Path
    slices: Sequence[str] | None = None
    cache_dir: str | Path | None = None
    name: str = ""
    description: str = ""
    cite_as: str = ""
    license: str = ""
    url: str = ""
    _: KW_ONLY
    backend: str | None = None
    max_bytes: int = _MAX_BYTES
    timeout_s: float = _TIMEOUT_S

    def load_splits(self) -> dict[str, EvalSlice]:
        """Download missing files, and return ``{"all": slice}``."""
        frame = ood_dataset_from_manifest(
            self.yaml_path,
            slices=self.slices,
            cache_dir=self.cache_dir,
            backend=self.backend,
            max_bytes=self.max_bytes,
            timeout_s=self.timeout_s,
        )
        return {
            "all": EvalSlice("all", frame, self.description, strata_col="source", id_col="row_id")
        }

    def describe(self) -> dict[str, object]:
        """Return the Croissant description; only local files have sizes, as nothing is downloaded."""
        path = Path(self.yaml_path)
        cache = default_cache_dir() if self.cache_dir is None else Path(self.cache_dir)
        files, records = [], []
        for entry in _entries(path, self.slices):
            at_hand = local_path(entry.url, path.parent) or cached_path(
                entry.url, entry.sha256, cache
            )
            size = at_hand.stat().st_size if is_file(at_hand) else None
            file = file_object(entry.id, entry.url, entry.sha256, size, entry.media_type)
            kinds = {
                entry.text_field: "sc:Text",
                entry.label_field: "sc:Integer" if entry.label_map is None else "sc:Text",
            }
            files.append(file)
            records.append(
                record_set(
                    f"{entry.id}/rows", [field_of(name, kind, file) for name, kind in kinds.items()]
                )
            )
        return description(self, files, records, slices=[file["name"] for file in files])
