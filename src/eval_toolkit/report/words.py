"""Numbers and texts as people read them, the same in the terminal, the report and the viewer."""

import unicodedata
from collections.abc import Iterator

__all__ = ["number", "one_line", "p_value", "visible"]


def number(value: float | None, sign: str = "", digits: int = 3) -> str:
    """Return a number with some digits, or nothing; what differs by rounding errors reads the same.

    Examples
    --------
    >>> number(0.1 + 0.2 - 0.2995, digits=3), number(0.0005, digits=3), number(-1e-9, "+")
    ('0.001', '0.001', '+0.000')
    """
    return "" if value is None else f"{round(value, 12):{sign}z.{digits}f}"


def one_line(text: object) -> str:
    """Return a text on one line, with a blank for every character that does not print."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def p_value(value: float | None) -> str:
    """Return a p-value; one that rounds to nothing is not nothing.

    Examples
    --------
    >>> p_value(0.0421), p_value(0.0001), p_value(None)
    ('0.042', '<0.001', '')
    """
    return "<0.001" if value is not None and value < 0.0005 else number(value)


_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)} | {
    0x7F: 0x2421
}
"""Control characters and the signs that stand for them; tabs and line ends stay."""
_REORDERING = frozenset(
    [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF]
)
_COMBINING_AT_MOST = 8


def visible(text: object, limit: int = 2000) -> str:
    """Return a text that cannot hide anything: controls have signs, and its length is bounded.

    Signs that reorder text, lone surrogates and private control characters are written as their
    code; stacks of combining marks are cut. Line ends stay.

    Parameters
    ----------
    text : object
        Whatever it is, as `str` shows it.
    limit : int, default 2000
        Characters to show; what is left out is counted.

    Examples
    --------
    >>> visible("a" + chr(0) + chr(0x202E) + "b")
    'a␀⟨U+202E⟩b'
    >>> visible("x" * 50, limit=10)
    'xxxxxxxxxx… (50 characters, the first 10 are shown)'
    """
    whole = str(text)
    shown = whole[:limit]
    if not (shown.isascii() and shown.isprintable()):
        shown = "".join(_signs(shown))
    if len(whole) > limit:
        shown += f"… ({len(whole):,} characters, the first {limit:,} are shown)"
    return shown


def _signs(text: str) -> Iterator[str]:
    stack = 0
    for sign in text:
        code = ord(sign)
        stack = stack + 1 if unicodedata.combining(sign) else 0
        if stack > _COMBINING_AT_MOST:
            continue
        if code in _PICTURES:
            yield chr(_PICTURES[code])
        elif code in _REORDERING or 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000:
            yield f"⟨U+{code:04X}⟩"
        else:
            yield sign
