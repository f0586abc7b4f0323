r"""The normal form of a LaTeX answer, by which equal spellings are equal texts.

The rules are those usual for the MATH benchmark: no white space, no ``\left`` and ``\right``, one
kind of fraction, braces where LaTeX lets them be left out, no unit at the end, no ``x =`` before the
answer. Words in the midst of it, as in ``3 \text{ or } 5``, are part of the answer.
"""

import re

__all__ = ["normal_form"]

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|mathrm|mathbf|operatorname)(?![A-Za-z])|\\[!,;: ]|\\?[$%]"
    r"|\^\{?\\circ\}?|\\circ|°|~|\s+"
)
_FRACTION = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_TEXT = re.compile(r"\\(?:text|mbox|textbf|textit|textrm)\{([^{}]*)\}")
_UNIT = re.compile(rf"(?<=.){_TEXT.pattern}(?:\^\{{?[23]\}}?)?$")
_ROOT = re.compile(r"\\sqrt([^\W_])")
_ABOVE = re.compile(r"\\frac([^\W_])")
_BELOW = re.compile(r"\\frac(\{[^{}]*\})([^\W_])")
_NO_ZERO = re.compile(r"(?<![0-9])\.(?=[0-9])")
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(?:\{?,\}?[0-9]{3})+(?:\.[0-9]+)?")
_QUOTIENT = re.compile(r"(-?)([0-9]+|[a-z])/([0-9]+|[a-z])")
_WHOLE = re.compile(r"(-?[0-9]+)\.0*")


def normal_form(answer: str) -> str:
    r"""Return the answer in its normal form.

    Parameters
    ----------
    answer : str
        LaTeX, without dollars around it.

    Returns
    -------
    str
        The same for many spellings of one answer; not every one: ``\sqrt{8}`` stays what it is.

    Examples
    --------
    >>> normal_form(r"x = \dfrac12") == normal_form("0.5") == normal_form("1/2")
    True
    >>> normal_form(r"5\text{ cm}"), normal_form("1,000"), normal_form(r"\text{blue}")
    ('5', '1000', 'blue')
    >>> normal_form(r"3 \text{ or } 5")
    '3or5'
    """
    text = answer.strip().rstrip(".")
    if whole := _TEXT.fullmatch(text):
        return " ".join(whole[1].split()).strip("()")
    text = _TEXT.sub(r"\1", _UNIT.sub("", _DROPPED.sub("", text)))
    text = _FRACTION.sub(r"\\frac", text)
    left, equals, right = text.partition("=")
    if equals and len(left) <= 2 and "=" not in right:
        text = right
    text = _ROOT.sub(r"\\sqrt{\1}", text)
    text = _BELOW.sub(r"\\frac\1{\2}", _ABOVE.sub(r"\\frac{\1}", text))
    text = _NO_ZERO.sub("0.", text)
    if _THOUSANDS.fullmatch(text):
        text = text.replace("{,}", "").replace(",", "")
    if whole := _WHOLE.fullmatch(text):
        text = whole[1]
    if quotient := _QUOTIENT.fullmatch(text):
        text = "{}\\frac{{{}}}{{{}}}".format(*quotient.groups())
    return r"\frac{1}{2}" if text == "0.5" else text
