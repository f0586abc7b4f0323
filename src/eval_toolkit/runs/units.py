"""Units: the items that an evaluation asks about, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._hashing import content_hash

__all__ = ["Unit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One item: a row, a sample of a benchmark, a seed prompt, a query.

    Parameters
    ----------
    id : str
        The data's own key.
    content_hash : str, optional
        Hash of input and reference; made of them by default.
    group : str, optional
        Units of one group are resampled together; by default each is a group of its own.
    parts : mapping of str to str, optional
        Names and values of the parts that it belongs to, such as ``{"language": "de"}``.
    input : object, optional
        What is asked, in JSON types.
    reference : object, optional
        What would be right, in JSON types.

    Examples
    --------
    >>> Unit(id="q1", input="2 + 2?", reference="4").content_hash[:8]
    '0958482c'
    """

    id: str
    content_hash: str = ""
    group: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    input: Any = field(default=None, repr=False)
    reference: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        said = self.input is not None or self.reference is not None
        if said and not self.content_hash:  # of nothing the content is not known
            object.__setattr__(self, "content_hash", content_hash(self.input, self.reference))
