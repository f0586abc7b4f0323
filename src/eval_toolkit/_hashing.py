"""Identity: sha256 of files, texts and canonical JSON. Nothing else in the package hashes."""

import hashlib
import json
from pathlib import Path
from typing import Any

__all__ = ["canonical_json", "content_hash", "sha256_file", "sha256_text"]

_CHUNK = 1 << 20


def sha256_text(text: str) -> str:
    """Return the sha256 of a text's UTF-8 bytes; lone surrogates are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Return the sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return what JSON does not know as what it does: arrays in full, the rest as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def canonical_json(payload: Any) -> str:
    """Return compact JSON with sorted keys: equal payloads give equal text."""
    return json.dumps(
        payload, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain
    )


def content_hash(item: Any, target: Any) -> str:
    """Return the identity of a unit: sha256 of its canonical raw input and target."""
    return sha256_text(
        json.dumps([item, target], sort_keys=True, ensure_ascii=False, default=_plain)
    )
