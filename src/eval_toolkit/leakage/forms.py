"""Normalised and confusable text forms for detecting copies."""

import re
import unicodedata

from eval_toolkit.errors import InvalidTypeError

_INVISIBLE = {"Cc", "Cf", "Cs", "Co"}
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters and marks that are invisible
_VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_MARKS = re.compile("(?<=[A-Za-z])[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")

# Latin letters, each with look-alikes from other alphabets (and phonetic, small-capital and stroked
# letters). Capitals are listed if only the capital looks alike (Greek Ν is an N, ν a v).
_LOOK_ALIKES = {
    "a": "аАαΑɑᴀᎪꓮ",
    "b": "вВΒʙᏴꓐƀЬь",
    "c": "сСϲϹᴄᏟꓚ",
    "d": "ԁԀᴅᎠꓓđɖ",
    "e": "еЕεΕᴇᎬꓰєҽ",
    "f": "ꜰϝꓝƒ",
    "g": "ɡɢԌցᏀꓖ",
    "h": "һҺнНΗʜհᎻꓧħ",
    "i": "іІιΙıɩɪӀӏᎥꓲɨ",
    "j": "јЈϳᴊյᎫꓙ",
    "k": "кКκΚᴋᏦꓗ",
    "l": "ʟᏞꓡł",
    "m": "мМΜᴍᎷꓟ",
    "n": "Νɴոռꓠ",
    "o": "оОοΟσօՕᴏꓳøө",
    "p": "рРρΡᴘᏢꓑ",
    "q": "ԛԚզ",
    "r": "ʀгᎡᏒꓣ",
    "s": "ѕЅꜱᏚꓢ",
    "t": "тТτΤᴛᎢꓔŧ",
    "u": "υսᴜꓴʋ",
    "v": "νѵѴᴠᏙꓦ",
    "w": "ԝԜѡᴡᎳꓪ",
    "x": "хХχΧꓫ",
    "y": "уУγΥүҮʏᎩꓬ",
    "z": "ΖᴢᏃꓜ",
    "'": "‘’‛′ʹʼˈ`´",
    '"': "“”‟″«»",
    "-": "‐‑‒–—―−",
}
_FOLDED = {ord(sign): latin for latin, signs in _LOOK_ALIKES.items() for sign in signs}


class _Normalized(dict[int, str | None]):
    """Lazy translation table that drops invisible characters and symbols."""

    def __missing__(self, code: int) -> str | None:
        kept = None if _is_invisible(code) or _category(code) == "So" else chr(code)
        self[code] = kept
        return kept


class _Folded(dict[int, str | None]):
    """Lazy translation table that drops invisible characters and folds look-alike characters."""

    def __missing__(self, code: int) -> str | None:
        kept = None if _is_invisible(code) else _FOLDED.get(code, chr(code))
        self[code] = kept
        return kept


def _category(code: int) -> str:
    return unicodedata.category(chr(code))


def _is_invisible(code: int) -> bool:
    sign = chr(code)
    if sign.isspace():
        return False
    return (
        _category(code) in _INVISIBLE
        or sign in _FILLERS
        or any(code in selectors for selectors in _VARIATION_SELECTORS)
    )


_NORMALIZED = _Normalized()
_CONFUSABLE = _Folded()


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise InvalidTypeError(f"`text` must be a str, got {type(text).__name__}")
    return text


def normalized_form(text: str) -> str:
    r"""Return a text without case, styling, symbols and invisible characters.

    The form is NFKC in lower case, without control, format, surrogate, private-use and symbol
    characters, with whitespace collapsed. Texts that consist only of symbols keep them, so
    different emoji do not become equal.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Normalised text.

    Raises
    ------
    InvalidTypeError
        If the argument is not a str.

    Examples
    --------
    >>> normalized_form("Ｆｕｌｌ\u200b  width\ttext")
    'full width text'
    """
    composed = unicodedata.normalize("NFKC", _checked(text))
    if composed.isascii() and composed.isprintable():
        return " ".join(composed.lower().split())
    kept = composed.translate(_NORMALIZED)
    # Compose again: removing characters can make marks adjacent to letters.
    lowered = unicodedata.normalize("NFKC", (kept if kept.strip() else composed).lower())
    return " ".join(lowered.split())


def confusable_form(text: str) -> str:
    r"""Return a text with look-alike characters folded to Latin, for comparing appearance.

    Compatibility forms (full width, mathematical and other styled letters) are resolved, invisible
    characters (zero width, bidirectional controls, tags, variation selectors) are dropped,
    look-alikes are folded to Latin, combining marks are removed from Latin letters, letters are
    lower-cased, and whitespace is collapsed. Digits are kept: 0 is not folded to o.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        Folded text.

    Raises
    ------
    InvalidTypeError
        If the argument is not a str.

    Examples
    --------
    >>> confusable_form("\u0440\u0430y\u0440\u0430l") == confusable_form("PayPal\u202e")
    True
    """
    if not (_checked(text).isascii() and text.isprintable() and "`" not in text):
        # Fold before NFKD, which maps the c look-alike ϲ to ς, and again after it.
        signs = unicodedata.normalize("NFKD", text.translate(_CONFUSABLE)).translate(_CONFUSABLE)
        text = unicodedata.normalize("NFC", _MARKS.sub("", signs))
    return " ".join(text.lower().split())
