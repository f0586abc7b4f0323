"""Numbers and texts as people read them, the same in the terminal, the report and the viewer."""

from eval_toolkit._words import (
    intervals_made,
    number,
    one_line,
    p_value,
    value_and_ends,
    visible,
    with_ends,
    without_interval,
)

__all__ = [
    "intervals_made",
    "number",
    "one_line",
    "p_value",
    "value_and_ends",
    "visible",
    "with_ends",
    "without_interval",
]
