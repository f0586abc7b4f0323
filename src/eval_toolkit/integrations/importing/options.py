"""Options of the log readers."""

from dataclasses import dataclass

from eval_toolkit._internal.tables import LabelMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to import from a log, and which dataset fields to use.

    Examples
    --------
    >>> Wanted(input_field="stem").samples
    True
    """

    named: bool = False
    """Whether the model will be renamed, so that its name in the log is not needed."""
    samples: bool = True
    """Whether to import samples; if False, prompts and answers may be skipped."""
    input_field: str | None = None
    """Field of the dataset row that contains the input of the item."""
    target_field: str | None = None
    """Field of the dataset row that contains the target of the item."""
    group_field: str | None = None
    """Field whose values define groups of items that are not independent."""
    by: tuple[str, ...] = ()
    """Fields whose values define parts of the data to report on."""
    id_field: str | None = None
    """Column that identifies a row; only for plain tables."""
    columns: tuple[str, ...] = ()
    """Numeric columns to import; only for plain tables."""
    labels: LabelMap | None = None
    """Mapping from labels to classes, if labels are strings; only for plain tables."""
