"""Text for a terminal: names from files may hold anything, also control sequences."""

__all__ = ["one_line"]


def one_line(text: object) -> str:
    """Return a text on one line, with a blank for every character that does not print."""
    return "".join(c if c.isprintable() else " " for c in str(text))
