"""Conversion of numerals to ASCII: full-width and other digits, ½, ², and the minus sign."""

import re
import unicodedata

_DIGIT = re.compile(r"(?![0-9])\d")
_VULGAR = re.compile(r"(?:(\d)[ \u00a0\u2009\u202f]?)?([¼-¾⅐-⅞])")
_RAISED = re.compile(r"(?<=[\w)}\]])[⁻⁺]?[⁰¹²³⁴-⁹]{1,9}")
_WIDE = "".join(map(chr, range(0xFF01, 0xFF5F)))
_SIGNS = str.maketrans(f"{_WIDE}−﹣⁄∕", f"{unicodedata.normalize('NFKC', _WIDE)}--//")


def ascii_numerals(text: str) -> str:
    """Return a string with its numerals in ASCII; other characters are unchanged.

    Digits of any script become 0 to 9, full-width signs become ASCII, a fraction such as "½"
    becomes "1/2" (after a space if it follows an integer), and superscript digits follow a "^".

    Examples
    --------
    >>> ascii_numerals("１２３"), ascii_numerals("2½"), ascii_numerals("5 cm²"), ascii_numerals("−⅓")
    ('123', '2 1/2', '5 cm^2', '-1/3')
    """
    if text.isascii():
        return text
    text = _RAISED.sub(lambda match: "^" + _raised(match[0]), text)
    text = _VULGAR.sub(_quotient, text)
    return _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text.translate(_SIGNS))


def _quotient(match: re.Match[str]) -> str:
    written = unicodedata.normalize("NFKC", match[2])
    return f"{match[1]} {written}" if match[1] else written


def _raised(signs: str) -> str:
    plain = unicodedata.normalize("NFKC", signs).replace("−", "-")
    return plain if len(plain) == 1 else f"{{{plain}}}"
