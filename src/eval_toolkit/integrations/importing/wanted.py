"""What a reader of another tool's log is asked for."""

from dataclasses import dataclass

from eval_toolkit._internal.tables import LabelMap

__all__ = ["Wanted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be taken from a log, and which fields of the dataset's rows say what.

    Examples
    --------
    >>> Wanted(input_field="stem").samples
    True
    """

    named: bool = False
    """Whether the model will have another name than the log's, so that its own does not matter."""
    samples: bool = True
    """False: the statistics alone; prompts and answers may be left where they are."""
    input_field: str | None = None
    """The field of the dataset's row that is the item's input."""
    target_field: str | None = None
    """The field that is the item's target."""
    group_field: str | None = None
    """The field whose equal values make a group of items that are not independent."""
    by: tuple[str, ...] = ()
    """Fields whose values are the parts of the data to report on."""
    id_field: str | None = None
    """Of a plain table: the column that identifies a row."""
    columns: tuple[str, ...] = ()
    """Of a plain table: the columns of numbers to take."""
    labels: LabelMap | None = None
    """Of a plain table: which labels are the classes, where they are words."""
