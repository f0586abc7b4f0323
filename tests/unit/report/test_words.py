"""Texts of data on a page: nothing hides, nothing reorders, nothing grows without bound."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.report.words import p_value, visible


@pytest.mark.parametrize(
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


def test_stacks_of_marks_are_cut() -> None:
    shown = visible("a" + "\u0301" * 500)
    assert sum(map(bool, map(unicodedata.combining, shown))) == 8


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
