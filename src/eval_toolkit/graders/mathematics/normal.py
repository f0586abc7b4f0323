r"""Normal form of LaTeX answers, which maps equivalent notations to the same string.

The rules are those commonly used for the MATH benchmark: whitespace, ``\left`` and ``\right``,
trailing units and a leading ``x =`` are removed; fractions are written in one way, and optional
braces are added. Words inside an answer, as in ``3 \text{ or } 5``, are kept. Numbers become
integers or fractions in lowest terms.
"""

import re
from fractions import Fraction

from eval_toolkit.graders.extraction.numbers import read_number
from eval_toolkit.graders.mathematics.notation import latex, split_name, without_unit

_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|mathrm|mathbf|operatorname)(?![A-Za-z])|\\q?quad(?![A-Za-z])"
    r"|\\[!,;: ]|\\?[$%]|\^\{?\\circ\}?|\\circ|°|~|\s+"
)
_FRACTION = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_TEXT = re.compile(r"\\(?:text|mbox|textbf|textit|textrm|textnormal|mathrm)\{([^{}]*)\}")
_UNIT = re.compile(rf"(?<=.){_TEXT.pattern}(?:\^\{{?[23]\}}?)?$")
_ROOT = re.compile(r"\\sqrt([^\W_])")
_ABOVE = re.compile(r"\\frac([^\W_])")
_BELOW = re.compile(r"\\frac(\{[^{}]*\})([^\W_])")
_NO_ZERO = re.compile(r"(?<![0-9])\.(?=[0-9])")
_QUOTIENT = re.compile(r"(-?)([0-9]+|[a-z])/([0-9]+|[a-z])")


def normal_form(answer: str) -> str:
    r"""Return the normal form of an answer.

    Parameters
    ----------
    answer : str
        LaTeX or plain text, without surrounding dollar signs.

    Returns
    -------
    str
        Normal form, which is the same for many but not all spellings of an answer: ``\sqrt{8}`` is
        unchanged.

    Examples
    --------
    >>> normal_form(r"x = \dfrac12") == normal_form("0.5") == normal_form("1/2") == normal_form("½")
    True
    >>> normal_form(r"5\text{ cm}"), normal_form("1,000"), normal_form("42 dollars")
    ('5', '1000', '42')
    >>> normal_form(r"3 \text{ or } 5"), normal_form(r"\text{blue}")
    ('3or5', 'blue')
    """
    text = answer.strip().rstrip(".")
    if whole := _TEXT.fullmatch(text):
        return " ".join(whole[1].split()).strip("()")
    text = without_unit(split_name(latex(text))[1])
    if (number := read_number(text)) is not None:
        return latex_number(number)
    text = _TEXT.sub(r"\1", _UNIT.sub("", _DROPPED.sub("", text)))
    text = _FRACTION.sub(r"\\frac", text)
    text = _ROOT.sub(r"\\sqrt{\1}", text)
    text = _BELOW.sub(r"\\frac\1{\2}", _ABOVE.sub(r"\\frac{\1}", text))
    text = _NO_ZERO.sub("0.", text)
    if quotient := _QUOTIENT.fullmatch(text):
        text = "{}\\frac{{{}}}{{{}}}".format(*quotient.groups())
    return text


def latex_number(number: Fraction) -> str:
    r"""Format a number as LaTeX; fractions are reduced to lowest terms.

    Examples
    --------
    >>> latex_number(Fraction(-6, 4)), latex_number(Fraction(3))
    ('-\\frac{3}{2}', '3')
    """
    if number.denominator == 1:
        return str(number.numerator)
    sign = "-" if number < 0 else ""
    return f"{sign}\\frac{{{abs(number.numerator)}}}{{{number.denominator}}}"
