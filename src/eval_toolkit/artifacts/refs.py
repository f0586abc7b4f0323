"""References to stored predictions: location, column roles, hash and row count."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.artifacts.remote import address_of
from eval_toolkit.artifacts.strict_json import sanitize_for_json
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

_SHA256 = re.compile(r"[0-9a-f]{64}")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(f"`{name}` must be a string, got {value!r}")
    if not value:
        raise InvalidInputError(f"`{name}` is empty; it must be a non-empty string")
    return value


def _keys(payload: Any, cls: type, what: str, *, strict: bool) -> dict[str, Any]:
    """Validate the keys of a stored mapping; raise for misspelt keys."""
    if not isinstance(payload, Mapping):
        raise InvalidTypeError(f"{what} must be a mapping, got {type(payload).__name__}")
    known = [item.name for item in fields(cls)]
    for key in payload:
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.75)
        if key not in known and (strict or near):
            hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(known)}"
            raise InvalidInputError(f"{what} has no key {key!r}{hint}")
    return {key: payload[key] for key in known if key in payload}


@dataclass(frozen=True, slots=True)
class PredictionColumns:
    """Roles of the columns of a prediction file.

    Parameters
    ----------
    label, score : str
        Columns of the 0/1 labels and of the scores.
    row_id : str, optional
        Column of row ids, on which two files are paired.
    content_hash : str, optional
        Column of hashes of the scored content, which reveal changed rows.
    scorer, slice, text : str, optional
        Columns of the scorer name, the slice name and the text.
    provenance : mapping of str to str
        Additional informative columns, by role.
    group : str, optional
        Column of groups; rows of a group are not independent.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is empty or not a string.

    Examples
    --------
    >>> PredictionColumns(label="y_true", score="p", row_id="id").to_dict()
    {'label': 'y_true', 'score': 'p', 'row_id': 'id'}
    """

    label: str
    score: str
    row_id: str | None = None
    content_hash: str | None = None
    scorer: str | None = None
    slice: str | None = None
    text: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in (item.name for item in fields(self) if item.name != "provenance"):
            value = getattr(self, name)
            if value is not None or name in ("label", "score"):
                _text(value, name)
        if not isinstance(self.provenance, Mapping):
            raise InvalidTypeError(f"`provenance` must be a mapping, got {self.provenance!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the columns that are set."""
        present = {item.name: getattr(self, item.name) for item in fields(self)}
        plain: dict[str, Any] = sanitize_for_json({k: v for k, v in present.items() if v})
        return plain

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "PredictionColumns":
        """Build the columns from a mapping; raise for unknown keys, which may be misspelt.

        Examples
        --------
        >>> PredictionColumns.from_dict({"label": "y", "score": "s"}).score
        's'
        """
        known = _keys(payload, cls, "`columns`", strict=True)
        for name in ("label", "score"):
            if name not in known:
                raise InvalidInputError(f"`columns` has no {name!r}; this entry is required")
        return cls(**known)


@dataclass(frozen=True, slots=True, repr=False)
class PredictionArtifactRef(Displayed):
    """A reference to stored predictions, with the information needed to read and verify them.

    The file is not opened; `load_predictions` reads it and checks hash and row count.

    Parameters
    ----------
    uri : str or path
        Path, or URL such as ``s3://…``.
    media_type : str
        Determines the reader: ``text/csv``, ``text/tab-separated-values``, ``application/jsonl``,
        ``application/vnd.apache.parquet``, or a type of a custom reader.
    columns : PredictionColumns or mapping
        Roles of the columns.
    sha256 : str
        Hash of the file; "" if unknown, which disables the check.
    n_rows : int, optional
        Number of rows.
    role : str or sequence of str, default "predictions"
        Purpose of the file, as free text.
    metadata : mapping
        Additional information.

    Raises
    ------
    InvalidInputError
        If a value is empty or out of range.
    InvalidTypeError
        If a value is of the wrong type.

    Examples
    --------
    >>> ref = PredictionArtifactRef(
    ...     uri="s3://bucket/predictions.csv",
    ...     media_type="text/csv",
    ...     columns=PredictionColumns(label="y", score="s"),
    ...     n_rows=10_000,
    ... )
    >>> PredictionArtifactRef.from_dict(ref.to_dict()) == ref
    True
    """

    uri: str
    media_type: str
    columns: PredictionColumns
    """Roles of the columns; a mapping is converted."""
    sha256: str = ""
    n_rows: int | None = None
    role: str | Sequence[str] = "predictions"
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settle = object.__setattr__
        uri: Any = self.uri
        settle(self, "uri", _text(os.fspath(uri) if isinstance(uri, os.PathLike) else uri, "uri"))
        _text(self.media_type, "media_type")
        columns: Any = self.columns
        if not isinstance(columns, PredictionColumns):
            settle(self, "columns", PredictionColumns.from_dict(columns))
        settle(self, "sha256", _sha256(self.sha256))
        if self.n_rows is not None:
            settle(self, "n_rows", validation.integer(self.n_rows, "n_rows"))
        settle(self, "role", _role(self.role))
        if not isinstance(self.metadata, Mapping):
            raise InvalidTypeError(f"`metadata` must be a mapping, got {self.metadata!r}")

    def __repr__(self) -> str:
        return Displayed.__repr__(self._without_secrets())

    def _repr_html_(self) -> str:
        return Displayed._repr_html_(self._without_secrets())

    def _without_secrets(self) -> "PredictionArtifactRef":
        return replace(self, uri=address_of(self.uri))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; hash, row count and metadata only if they are known.

        User, password and query are removed from URLs, so no secrets are stored.
        """
        payload: dict[str, Any] = {
            "uri": address_of(self.uri),
            "media_type": self.media_type,
            "role": self.role if isinstance(self.role, str) else list(self.role),
            "columns": self.columns.to_dict(),
        }
        if self.sha256:
            payload["sha256"] = self.sha256
        if self.n_rows is not None:
            payload["n_rows"] = self.n_rows
        if self.metadata:
            payload["metadata"] = sanitize_for_json(self.metadata)
        return payload

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "PredictionArtifactRef":
        """Build the reference from a stored mapping; keys of later versions are ignored.

        Raises
        ------
        InvalidInputError
            If a key is missing or appears to be misspelt (``n_row``).

        Examples
        --------
        >>> PredictionArtifactRef.from_dict(
        ...     {"uri": "p.csv", "media_type": "text/csv", "columns": {"label": "y", "score": "s"}}
        ... ).role
        'predictions'
        """
        known = _keys(payload, cls, "a prediction reference", strict=False)
        for name in ("uri", "media_type", "columns"):
            if name not in known:
                raise InvalidInputError(
                    f"a prediction reference has no {name!r}; this key is required"
                )
        return cls(**known)


def _sha256(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(f"`sha256` must be a string, got {value!r}")
    digest = value.removeprefix("sha256:").lower()
    if digest and not _SHA256.fullmatch(digest):
        raise InvalidInputError(f"`sha256` is {value!r}; it must be 64 hexadecimal digits or ''")
    return digest


def _role(role: Any) -> str | tuple[str, ...]:
    if isinstance(role, str):
        return _text(role, "role")
    if not isinstance(role, (list, tuple)):
        raise InvalidTypeError(f"`role` must be a string or a list of strings, got {role!r}")
    if not role:
        raise InvalidInputError("`role` is empty; it must contain at least one string")
    return tuple(_text(item, f"role[{i}]") for i, item in enumerate(role))
