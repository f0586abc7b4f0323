"""Descriptions of datasets in Croissant 1.0, a JSON-LD vocabulary."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from eval_toolkit._internal import tables
from eval_toolkit._internal.hashing import sha256_file

_CROISSANT_TERMS = (
    "citeAs",
    "column",
    "equivalentProperty",
    "extract",
    "field",
    "fileObject",
    "fileProperty",
    "fileSet",
    "format",
    "includes",
    "isLiveDataset",
    "jsonPath",
    "key",
    "md5",
    "parentField",
    "path",
    "recordSet",
    "references",
    "regex",
    "repeated",
    "replace",
    "samplingRate",
    "separator",
    "source",
    "subField",
    "transform",
)
_FORMATS = {
    tables.CSV: "text/csv",
    tables.TSV: "text/tab-separated-values",
    tables.JSONL: "application/jsonlines",
    tables.JSON: "application/json",
    tables.PARQUET: "application/x-parquet",
}
"""Media types of the file formats."""


class _Described(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def _context(extras: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **{term: f"cr:{term}" for term in _CROISSANT_TERMS},
        # Our own keys are mapped to null, since they are not part of the vocabulary.
        **dict.fromkeys(extras),
    }


def description(
    loader: _Described,
    distribution: Sequence[Mapping[str, Any]],
    record_sets: Sequence[Mapping[str, Any]] = (),
    **extras: Any,
) -> dict[str, object]:
    """Return the Croissant description of a loader, with additional keys."""
    return {
        "@context": _context(extras),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": loader.name or type(loader).__name__,
        "description": loader.description,
        "citeAs": getattr(loader, "cite_as", ""),
        "license": getattr(loader, "license", ""),
        "url": getattr(loader, "url", ""),
        "distribution": [dict(file) for file in distribution],
        **({"recordSet": [dict(records) for records in record_sets]} if record_sets else {}),
        **extras,
    }


def _id(name: str) -> str:
    """Return a name as a Croissant identifier, with other characters replaced by ``_``."""
    return re.sub(r"[^\w./~-]+", "_", name)


def file_object(
    name: str, url: str, sha256: str, n_bytes: int | None, media_type: str
) -> dict[str, Any]:
    """Return the Croissant FileObject of a file; its size may be unknown."""
    return {
        "@type": "cr:FileObject",
        "@id": _id(name),
        "name": name,
        "contentUrl": url,
        "sha256": sha256,
        "contentSize": "" if n_bytes is None else f"{n_bytes} B",
        "encodingFormat": _FORMATS.get(tables.MEDIA_TYPES.get(media_type, ""), media_type),
    }


def local_file(path: Path, name: str, media_type: str) -> dict[str, Any]:
    """Return the Croissant FileObject of a local file, with its hash."""
    return file_object(name, path.as_posix(), sha256_file(path), path.stat().st_size, media_type)


def record_set(name: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the Croissant RecordSet of a table."""
    return {
        "@type": "cr:RecordSet",
        "@id": _id(name),
        "name": name,
        "field": [{**field, "@id": _id(f"{name}/{field['name']}")} for field in fields],
    }


def field_of(name: str, data_type: str, file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Croissant Field of a column of a file."""
    is_json = file["encodingFormat"] == _FORMATS[tables.JSON]
    extract = {"jsonPath": f"$[*].{name}"} if is_json else {"column": name}
    return {
        "@type": "cr:Field",
        "name": name,
        "dataType": data_type,
        "source": {"fileObject": {"@id": file["@id"]}, "extract": extract},
    }
