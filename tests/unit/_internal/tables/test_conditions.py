"""Filters of rows: which rows satisfy a condition, and what is refused."""

import numpy as np
import pytest

from eval_toolkit._internal.tables import conditions_of, numbers_in, rows_that
from eval_toolkit.errors import InvalidInputError

TABLE = {
    "lang": np.array(["de", "en", None, "de"], dtype=object),
    "n": np.array(["1", "02", "10", "0,5"], dtype=object),
    "share (%)": np.array(["1.5", "x", "-2", ""], dtype=object),
    "spam": np.array(["True", "false", "TRUE", None], dtype=object),
    "day": np.array(["2024-01-31", "2024-02-01", "2023-12-01", "2024-01-01"], dtype=object),
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("lang = 'de'", [0, 3]),
        ("lang == de", [0, 3]),
        ('"lang" = "de" AND n = 1', [0]),
        ("lang != 'de'", [1]),  # as in SQL, a missing value satisfies no comparison
        ("lang in ('en', 'fr')", [1]),
        ("lang not in ('en')", [0, 3]),
        ("lang is missing", [2]),
        ("lang IS NOT NULL", [0, 1, 3]),
        ("n > 1", [1, 2]),
        ("n=2", [1]),  # a number without quotes is compared as a number
        ("n = '2'", []),
        ("n <= 0.5", [3]),
        ("`share (%)` < 0", [2]),
        ("spam = true", [0, 2]),
        ("day >= 2024-01-31", [0, 1]),
        ("n<10and lang='de'", None),
        ("lang = 'it''s'", []),
    ],
)
def test_rows_that_satisfy(text: str, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(InvalidInputError, match="`where` is"):
            conditions_of(text)
        return
    assert np.flatnonzero(rows_that(conditions_of(text), TABLE)).tolist() == rows


@pytest.mark.parametrize(
    "text",
    [
        *("", "lang", "lang =", "= 'de'", "lang ~ 'de'", "lang = 'de", "lang in 'de'", "lang in ("),
        *("lang = 'de' or n = 1", "lang = 'de'; drop table rows", "lang is 3", "lang like 'd%'"),
        *("1 = 1 and", "(lang = 'de')", "lang = 'de' n = 1"),
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="write COLUMN = 'text'"):
        conditions_of(text)


def test_a_cell_with_a_nul_is_no_number() -> None:
    """Cells are joined by NUL to be parsed at once."""
    table = {"n": np.array(["1\x002", "3"], dtype=object)}
    assert np.flatnonzero(rows_that(conditions_of("n > 0"), table)).tolist() == [1]
    assert numbers_in(["1\x002", "3"]).tolist()[1:] == [3.0]
