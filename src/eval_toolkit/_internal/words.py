"""Formatting of numbers and strings for the terminal, the report and the viewer."""

import difflib
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_DIGITS = 3
_MOST_DIGITS = 7
"""Maximum number of decimals; smaller numbers use an exponent."""


def formatted(value: float, spec: str = "") -> str:
    """Format a number for tables and sentences.

    Rounding errors and negative zeros are removed. In addition to Python's formats, ``"g%"`` and
    ``".1f%"`` are percentages, ``"p"`` is a p-value, ``"r"`` has full precision, and ``""`` or
    ``"+"`` has three decimals, or two significant digits for small numbers.

    Examples
    --------
    >>> formatted(0.5), formatted(0.00042), formatted(0.256, ".1f%"), formatted(1e-9, "p")
    ('0.500', '0.00042', '25.6 %', '<0.001')
    >>> formatted(-1e-9, ".3f"), formatted(-1e-9, "+.3f"), formatted(0.1 + 0.2, "r")
    ('0.000', '-0.000', '0.30000000000000004')
    """
    if spec in ("", "+"):
        spec = fitting((value,), spec)
    if spec == "p":
        return p_value(value)
    if spec == "r":
        return str(value)
    if spec.endswith("%"):
        return f"{100 * value:{spec[:-1]}} %"
    if spec[-1] not in "ef":
        return f"{value:{spec}}"
    exact = round(value, 12) + 0.0  # -0.0 is 0.0
    return f"{exact:{spec if '+' in spec else 'z' + spec}}"


def fitting(values: Iterable[float | None], sign: str = "") -> str:
    """Return a format specification that suits several numbers.

    Uses three decimals, or more if needed for two significant digits of the largest number.

    Examples
    --------
    >>> fitting((0.5, 0.4, 0.6)), fitting((-3.1e-06, None, 9.5e-06), "+"), fitting((2e-9,))
    ('.3f', '+.7f', '.1e')
    """
    size = max((abs(one) for one in values if one is not None), default=0.0)
    # Smaller values are rounding errors and shown as zero.
    digits = _DIGITS
    if 1e-12 < size < math.inf:
        digits = max(_DIGITS, 1 - math.floor(math.log10(size)))
    return f"{sign}.1e" if digits > _MOST_DIGITS else f"{sign}.{digits}f"


def number(value: float | None, sign: str = "", digits: int = _DIGITS) -> str:
    """Format a number, or return "" for None; rounding errors are removed.

    With a sign, the sign is shown even if all digits are zero.

    Examples
    --------
    >>> number(0.1 + 0.2 - 0.2995, digits=3), number(0.0005, digits=3), number(-1e-9)
    ('0.001', '0.001', '0.000')
    >>> number(-1e-9, "+"), number(-1e-15, "+"), number(0.0, "+")
    ('-0.000', '+0.000', '+0.000')
    """
    return "" if value is None else formatted(value, f"{sign}.{digits}f")


def value_and_ends(
    value: float | None, low: float | None, high: float | None, spec: str = ""
) -> tuple[str, str]:
    """Format a value and its interval to the same number of decimals; either may be empty.

    Examples
    --------
    >>> value_and_ends(0.5, 0.4, 0.6), value_and_ends(0.5, None, None)
    (('0.500', '[0.400, 0.600]'), ('0.500', ''))
    >>> value_and_ends(-3.1e-06, -1.6e-05, 9.5e-06, "+")
    ('-0.000003', '[-0.000016, +0.000010]')
    """
    spec = spec if spec not in ("", "+") else fitting((value, low, high), spec)
    shown = "" if value is None else formatted(value, spec)
    if low is None or high is None:
        return shown, ""
    return shown, f"[{formatted(low, spec)}, {formatted(high, spec)}]"


def percent_and_ends(
    share: float, low: float | None = None, high: float | None = None
) -> tuple[str, str]:
    """Format a proportion and its interval as percentages to the same number of decimals.

    The number of decimals suits the interval and distinguishes the proportion from 0 and 1. The
    second string is empty without an interval.

    Examples
    --------
    >>> percent_and_ends(0.75, 0.7, 0.8), percent_and_ends(0.985, 0.978, 0.99)
    (('75 %', '[70–80 %]'), ('98.5 %', '[97.8–99.0 %]'))
    >>> percent_and_ends(0.9996), percent_and_ends(1.0)
    (('99.96 %', ''), ('100 %', ''))
    """
    width = 1.0 if low is None or high is None else high - low
    ends = ("0", "100")
    for digits in range(4):
        shown = f"{100 * share:.{digits}f}"
        resolved = width >= 2 * 10.0 ** -(digits + 2) or width == 0.0
        if resolved and (share <= 0.0 or share >= 1.0 or float(shown) not in map(float, ends)):
            break
    if low is None or high is None:
        return f"{shown} %", ""
    return f"{shown} %", f"[{100 * low:.{digits}f}–{100 * high:.{digits}f} %]"


def intervals_made(confidence: float, n_resamples: int, seed: int, of_cells: Iterable[int]) -> str:
    """Describe how intervals were computed; mentions resamples only if they were used.

    Examples
    --------
    >>> intervals_made(0.95, 1000, 42, of_cells=[0, 1000]), intervals_made(0.95, 1000, 42, [0])
    ('95 % intervals, 1000 resamples, seed 42', '95 % intervals')
    """
    drawn = f", {n_resamples} resamples, seed {seed}" if any(of_cells) else ""
    return f"{100 * confidence:g} % intervals{drawn}"


def without_interval(reason: object) -> str:
    """Return the reason for a missing interval, with the prefix "no interval".

    Examples
    --------
    >>> without_interval("2 groups"), without_interval("no interval: 2 groups")
    ('no interval: 2 groups', 'no interval: 2 groups')
    """
    return "no interval: " + str(reason).removeprefix("no interval: ")


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint with the closest valid names, or with all valid names.

    Examples
    --------
    >>> nearest("brir", ["brier", "roc_auc"]), nearest("x", ["brier", "roc_auc"])
    ('did you mean brier?', 'choose from brier, roc_auc')
    """
    close = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"choose from {', '.join(known)}"


def p_value(value: float | None) -> str:
    """Format a p-value; tiny ones are given as an upper bound, not as zero.

    Examples
    --------
    >>> p_value(0.0421), p_value(0.0001), p_value(None)
    ('0.042', '<0.001', '')
    """
    return "<0.001" if value is not None and value < 0.0005 else number(value)


def one_line(text: object) -> str:
    """Return a string on one line, with spaces for nonprintable characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))


def flat(text: object) -> str:
    """Return a string on one line, without bidirectional controls and long stacks of accents."""
    whole = unicodedata.normalize("NFC", str(text))
    line = "".join(c if c in _JOINERS else one_line(c) for c in whole).strip()
    return visible(line, len(line))


_JOINERS = "\u200c\u200d"
"""Invisible characters that change the shape of adjacent letters and emoji."""
_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)} | {
    0x7F: 0x2421
}
"""Control characters to their visible symbols; tabs and line breaks are kept."""
_REORDERING = frozenset(
    [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF]
)
_COMBINING_AT_MOST = 8
_MARKS = frozenset(("Mn", "Me"))
"""Combining marks; selected by category, as some enclosing marks have no combining class."""


def visible(text: object, limit: int = 2000) -> str:
    """Return a string with control characters made visible and its length bounded.

    Bidirectional control characters, lone surrogates, noncharacters and private control characters
    are replaced by their code points; stacks of combining marks are truncated. Line breaks are
    kept.

    The number of characters is reported if some are omitted.

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


def _no_character(code: int) -> bool:
    """Return whether a code point is a surrogate or a noncharacter such as U+FFFE."""
    return 0xD800 <= code < 0xE000 or 0xFDD0 <= code < 0xFDF0 or code & 0xFFFE == 0xFFFE


def _signs(text: str) -> Iterator[str]:
    stack = 0
    for sign in text:
        code = ord(sign)
        stack = stack + 1 if unicodedata.category(sign) in _MARKS else 0
        if stack > _COMBINING_AT_MOST:
            continue
        if code in _PICTURES:
            yield chr(_PICTURES[code])
        elif code in _REORDERING or 0x80 <= code < 0xA0 or _no_character(code):
            yield f"⟨U+{code:04X}⟩"
        else:
            yield sign
