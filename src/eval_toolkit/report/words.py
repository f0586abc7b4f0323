"""Numbers and texts as people read them, the same in the terminal, the report and the viewer."""

from eval_toolkit._words import number, one_line, p_value, value_and_ends, visible, with_ends

__all__ = ["number", "one_line", "p_value", "value_and_ends", "visible", "with_ends"]
