"""Metadata about evidence: axes, pairing of rows, and use of aggregates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.optional import names_on_use
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

__all__ = ["AggregateEvidence", "EvidenceAxis", "EvidenceStatus", "PairingMetadata"]

_, __getattr__ = names_on_use(__name__, {})  # only the names that have moved

EvidenceStatus: TypeAlias = Literal["inferential", "descriptive", "diagnostic", "unsupported"]


def _named(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise InvalidTypeError(f"`{name}` must be a string, got {value!r}")
    if not value:
        raise InvalidInputError(f"`{name}` is empty; it must be a non-empty string")


@dataclass(frozen=True, slots=True)
class EvidenceAxis(Displayed):
    """Coordinate of a result, such as its model, data or attack.

    Examples
    --------
    >>> EvidenceAxis("language", "de").to_dict()
    {'name': 'language', 'value': 'de'}
    """

    name: str
    value: str

    def __post_init__(self) -> None:
        _named(self.name, "name")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {"name": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class PairingMetadata(Displayed):
    """How two results are paired: whether they share units, and at which level.

    Examples
    --------
    >>> PairingMetadata(paired=True).to_dict()["unit"]
    'row'
    """

    paired: bool
    unit: str = "row"
    valid_scope: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.paired, bool):
            raise InvalidTypeError(f"`paired` must be True or False, got {self.paired!r}")
        _named(self.unit, "unit")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "paired": self.paired,
            "unit": self.unit,
            "valid_scope": self.valid_scope,
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True, repr=False)
class AggregateEvidence(Displayed):
    """Aggregate over several results: its method, and its permitted use.

    Raises
    ------
    InvalidInputError
        If the status is not one of the four values, or the method is empty.

    Examples
    --------
    >>> AggregateEvidence("descriptive", "mean over slices").to_dict()["status"]
    'descriptive'
    """

    status: EvidenceStatus
    method: str
    axes: tuple[EvidenceAxis, ...] = ()
    notes: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validation.choice(self.status, "status", get_args(EvidenceStatus))
        _named(self.method, "method")
        object.__setattr__(self, "axes", tuple(self.axes))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "status": self.status,
            "method": self.method,
            "axes": [axis.to_dict() for axis in self.axes],
            "notes": self.notes,
            "metadata": dict(self.metadata),
        }
