"""Texts of data on a page: nothing hides, nothing reorders, nothing grows without bound."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit._internal.display import Estimate
from eval_toolkit._internal.words import p_value, value_and_ends, visible


@each(
    ("given_text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc", "a\nb\tc"),
        ("\x00\x1b[31m", "␀␛[31m"),
        ("\r\n", "␍\n"),
        ("\x7f", "␡"),
        ("\x85", "⟨U+0085⟩"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\u2028", "⟨U+2028⟩"),
        ("漢字 עברית 👩‍🔬", "漢字 עברית 👩‍🔬"),
        (3.5, "3.5"),
    ],
)
def test_what_does_not_print_has_a_sign(given_text: object, shown: str) -> None:
    assert visible(given_text) == shown


@pytest.mark.parametrize("marks", ["\u0301" * 500, "\u0301\u0302\u0317\u0489\u0334" * 60])
def test_stacks_of_marks_are_cut(marks: str) -> None:
    assert visible("a" + marks) == "a" + marks[:8]


def test_a_long_text_says_how_long_it_is() -> None:
    shown = visible("x" * 5_000_000, limit=100)
    assert shown == "x" * 100 + "… (5,000,000 characters, the first 100 are shown)"


@given(st.text(st.characters(exclude_categories=[]), max_size=300))
def test_no_control_reordering_or_surrogate_is_left(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    kinds = {unicodedata.category(sign) for sign in shown if sign not in "\n\t"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert not any(unicodedata.bidirectional(sign) in _REORDERS for sign in shown)


_REORDERS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def test_a_p_value_is_never_nothing() -> None:
    assert [p_value(p) for p in (0.0004999, 0.0005, 1.0, None)] == ["<0.001", "0.001", "1.000", ""]


@each(
    ("given_numbers", "sign", "shown"),
    [
        ((0.123456, 0.01, 0.2), "", "0.123 [0.010, 0.200]"),
        ((0.0, 0.0, 0.0), "", "0.000 [0.000, 0.000]"),
        ((12345.6, None, None), "", "12345.600"),
        # Two figures of the largest, and the side of zero of every one.
        ((-3.1e-06, -1.6e-05, 9.5e-06), "+", "-0.000003 [-0.000016, +0.000010]"),
        ((0.0004, -0.0003, 0.0011), "+", "+0.0004 [-0.0003, +0.0011]"),
        ((0.02, -0.0003, 0.041), "+", "+0.020 [-0.000, +0.041]"),
        ((-2e-9, -3e-9, -1e-9), "+", "-2.0e-09 [-3.0e-09, -1.0e-09]"),
        ((-1e-15, -1e-15, 1e-15), "+", "+0.000 [+0.000, +0.000]"),
        ((None, None, None), "", ""),
    ],
)
def test_a_value_and_its_ends_have_the_digits_they_need(
    given_numbers: tuple[float | None, float | None, float | None], sign: str, shown: str
) -> None:
    assert str(Estimate(*given_numbers, spec=sign)) == shown


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_what_is_written_is_the_number_on_its_side_of_zero(value: float, end: float) -> None:
    """Within 1/20 of the larger: the second figure of it, rounded."""
    told, ends = value_and_ends(value, min(value, end), max(value, end), "+")
    size = max(abs(value), abs(end))
    assert abs(float(told) - value) <= 0.051 * size + 1e-12
    assert told[0] == ("-" if round(value, 12) < 0 else "+")
    low, high = map(float, ends.strip("[]").split(", "))
    assert low <= float(told) <= high
