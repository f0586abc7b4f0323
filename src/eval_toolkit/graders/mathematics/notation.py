r"""Conversion of other notations to LaTeX: Unicode, plain text, units, names, percentages."""

import re

from eval_toolkit.graders.extraction.characters import ascii_numerals

_SIGNS = str.maketrans(
    {
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "÷": "/",
        "π": r"\pi ",
        "∞": r"\infty ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∈": r"\in ",
        "±": r"\pm ",
        "∅": r"\emptyset ",
        "°": r"^\circ ",
        "–": "-",
        "√": "sqrt",
    }
)
_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt\s?(?:\(([^()]{1,100})\)|\{([^{}]{1,100})\}|([0-9]+))")
_RAISED = re.compile(r"(?:\*\*|\^)\s?\(([^()]{1,100})\)")
_STAR = re.compile(r"(?<=[\w)}\]])\s?\*\s?(?=[\w(\\])")
_FUNCTION = re.compile(r"(?<![\\A-Za-z])(pi|infty|sin|cos|tan|log|ln)(?![A-Za-z])")
_INFINITY = re.compile(r"(?<![\\A-Za-z])(?:inf|infinity|oo)(?![A-Za-z])")
_POWER_OF_TEN = re.compile(
    r"\s*([-+]?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s?(?:\\times|\\cdot|[x*])\s{0,2}10\^"
    r"(?:\{\s?([-+]?[0-9]{1,3})\s?\}|(-?[0-9]{1,3}))(?=\s*(?:$|\\text|\s[A-Za-z]))"
)
_NAME = r"\\?[A-Za-z]{1,12}'?(?:_\{?\w{1,9}\}?)?"
_NAMED = re.compile(rf"({_NAME})\s{{0,3}}=\s{{0,3}}([^=]+)")
_NAMED_AFTER = re.compile(r"(-?[0-9.,/]+)\s{0,3}=\s{0,3}([A-Za-z])")
_PERCENT = re.compile(
    r"\s{0,3}(?:\\?%|(?:\\text\{\s?)?(?i:percent(?:age)?|per cent|pct)\s?\}?)\s{0,3}$"
)
# Units such as "km" may directly follow a number; other words need a space, so that 5ab is kept.
_UNIT = re.compile(
    r"(?<=[0-9}])(?:\s?(?:[€£¥₹$]|[cdkmµ]?m|[kmµ]?g|[cdm]?[lL]|ft|in|yd|mi|hrs?|min|sec|mph|lbs?|oz|kw|kph)"
    r"|\s{1,3}(?:an?\s)?[A-Za-z]{2,20})(?:\^\{?[23]\}?)?(?:(?:\s{1,3}|/|\s?per\s)[A-Za-z]{1,20}){0,3}\.?$"
)
WORDS_OF_FORMULAS = frozenset(
    {
        *("and", "or", "by", "to", "not", "is", "are", "if", "for", "when", "where", "with", "in"),
        *("pi", "inf", "infinity", "sin", "cos", "tan", "log", "ln", "sqrt", "exp", "mod"),
        *("times", "plus", "minus", "over", "choose", "percent", "pct", "ab", "xy"),
    }
)
"""Words that are not treated as units."""


def latex(text: str) -> str:
    r"""Convert the symbols and functions of an answer to LaTeX.

    Examples
    --------
    >>> latex("2**(1/4)"), latex("-1 + sqrt(3)"), latex("x ≤ 2π")
    ('2^{1/4}', '-1 + \\sqrt{3}', 'x \\le  2\\pi ')
    """
    text = ascii_numerals(text).translate(_SIGNS)
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match[1] or match[2] or match[3]}}}", text)
    text = _RAISED.sub(r"^{\1}", text).replace("**", "^")
    if match := _POWER_OF_TEN.match(text):
        text = f"{match[1]}e{match[2] or match[3]}{text[match.end() :]}"
    text = _STAR.sub(r" \\cdot ", text)
    return _FUNCTION.sub(r"\\\1 ", _INFINITY.sub(r"\\infty ", text))


def split_name(text: str) -> tuple[str, str]:
    """Split an answer such as x = 2 into name and value; the name may be "".

    Examples
    --------
    >>> split_name("x = 5"), split_name("5 = x"), split_name("7 = 2a + c"), split_name("f(x) = 2")
    (('x', '5'), ('x', '5'), ('', '7 = 2a + c'), ('', 'f(x) = 2'))
    """
    if match := _NAMED.fullmatch(text.strip()):
        return match[1], match[2]
    if match := _NAMED_AFTER.fullmatch(text.strip()):
        return match[2], match[1]
    return "", text


def without_percent(text: str) -> tuple[str, bool]:
    r"""Remove a trailing percent sign or word, and return whether there was one.

    Examples
    --------
    >>> without_percent(r"28\%"), without_percent("28 percent"), without_percent("28")
    (('28', True), ('28', True), ('28', False))
    """
    match = _PERCENT.search(text)
    return (text, False) if match is None else (text[: match.start()], True)


def without_unit(text: str) -> str:
    r"""Remove the unit from a number; other strings are returned unchanged.

    Examples
    --------
    >>> without_unit("42 dollars"), without_unit("5km/h"), without_unit("12 or 13"), without_unit("5ab")
    ('42', '5', '12 or 13', '5ab')
    """
    match = _UNIT.search(text)
    if match is None or not WORDS_OF_FORMULAS.isdisjoint(
        re.findall(r"[A-Za-z]+", match[0].lower())
    ):
        return text
    return text[: match.start()]
