"""Score cache on disk, keyed by scorer, version and input."""

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import IO, Any

from eval_toolkit._internal.files import parse_json
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError


class ScoreCache(Mapping[str, float]):
    """Scores in a folder of append-only JSON Lines files.

    Parameters
    ----------
    path : str or Path
        Folder of the cache; created if it does not exist.

    Notes
    -----
    Each line is appended in a single write, so several processes can share a folder. Unreadable
    lines, such as those truncated by a crash, are ignored, and their inputs are scored again.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ScoreCache(folder).update({"key": 0.25})
    ...     ScoreCache(folder)["key"]
    0.25
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path) / "scores.jsonl"
        self._scores: dict[str, float] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        for line in self.path.read_bytes().splitlines():
            try:
                key, score = parse_json(line, self.path)
            except (ValueError, TypeError):  # truncated line, or not a pair
                continue
            if isinstance(key, str) and isinstance(score, float):
                self._scores[key] = score

    def update(self, scores: Mapping[str, float]) -> None:
        """Add scores and write them to disk."""
        if not scores:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{json.dumps([key, float(score)])}\n" for key, score in scores.items())
        with self.path.open("a+b", buffering=0) as stream:
            if self._torn(stream):
                lines = f"\n{lines}"
            stream.write(lines.encode())
            os.fsync(stream.fileno())
        self._scores.update(scores)

    @staticmethod
    def _torn(stream: IO[bytes]) -> bool:
        """Return whether the last line is incomplete."""
        if stream.seek(0, os.SEEK_END) == 0:
            return False
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"

    def __getitem__(self, key: str) -> float:
        return self._scores[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        return f"ScoreCache({str(self.path.parent)!r}, {len(self)} scores)"


def as_cache(cache: Any) -> "ScoreCache | MutableMapping[str, float] | None":
    """Convert a `cache` argument (folder path, dict, `ScoreCache` or None) to a cache."""
    if cache is None or isinstance(cache, (ScoreCache, MutableMapping)):
        return cache
    if isinstance(cache, (str, Path)):
        return ScoreCache(cache)
    raise InvalidTypeError(
        f"`cache` is a {type(cache).__name__}; it must be a dict, a ScoreCache or the path of a folder"
    )


def cache_identity(scorer: Any, name: str, fitted_on: str = "", columns: Sequence[str] = ()) -> str:
    """Return the part of the cache key that identifies the scorer.

    ``columns`` are the ordered column names if the scorer receives a data frame. Raises an error if
    the scorer has no version, because stale scores could not be detected.
    """
    version = getattr(scorer, "version", None)
    if not isinstance(version, str) or not version:
        raise InvalidInputError(
            f"scorer {name!r} has no `version`; add one (a string that changes whenever its "
            "scores may change), or omit `cache`"
        )
    kind = type(scorer)
    identity = [name, kind.__module__, kind.__qualname__, version, fitted_on, *columns]
    return sha256_text(json.dumps(identity))


def cache_key(identity: str, item: Any, name: str) -> str:
    """Return the cache key of one input.

    Raises an error if the input contains anything but strings and numbers, because other values
    have no stable hash.
    """
    try:
        text = json.dumps(item, sort_keys=True, ensure_ascii=True)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"scorer {name!r}: inputs of type {type(item).__name__} cannot be cached; they must be "
            "strings, numbers, or lists and dicts of these"
        ) from None
    return sha256_text(f"{identity}:{text}")
