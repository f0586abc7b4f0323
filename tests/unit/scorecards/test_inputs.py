"""What `scorecard` takes first: words, parts, weights under two names, and no metrics at all."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.scorecards import scorecard

Y = np.array([0, 1] * 30)
S = 0.3 + 0.3 * Y + np.linspace(-0.25, 0.25, 60)
WORDS = np.where(Y == 1, "spam", "ham")
LANG = np.where(np.arange(60) < 30, "de", "en")


def test_no_metrics_are_the_usual_ones() -> None:
    assert list(scorecard(Y, S)) == ["pr_auc", "roc_auc", "brier", "log_loss"]
    more = list(scorecard(Y, S, threshold=0.4))[4:]
    assert more == [f"op_{name}_at_0.4" for name in ("f1", "precision", "recall", "fpr")]


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (WORDS, "spam"),
        (WORDS.tolist(), "spam"),
        (pd.Series(WORDS), "spam"),
        (pd.Series(WORDS, dtype="category"), "spam"),
        (pl.Series(WORDS), "spam"),
        (Y + 1, 2),
        (1 - Y, 0),
        (Y.astype(float), 1),
        (Y == 1, True),
        (Y.astype(str), None),
        (Y == 1, None),
    ],
)
def test_labels_of_any_kind_are_the_same_classes(labels: Any, positive: Any) -> None:
    assert scorecard(labels, S, positive=positive) == scorecard(Y, S)


@pytest.mark.parametrize(
    ("labels", "positive", "message"),
    [
        (WORDS, None, r"y_true\[0\] is 'ham'; labels must be 0 or 1: .* positive='spam'"),
        (Y + 1, None, r"y_true\[1\] is 2; labels must be 0 or 1"),
        (
            WORDS,
            "eggs",
            "`positive` is 'eggs', but no row has this label; the labels are 'ham', 'spam'",
        ),
        ([None, *WORDS[1:]], "spam", r"y_true\[0\] is missing"),
        ([np.nan, *Y[1:]], None, "y_true"),
        (WORDS[:5], "spam", "`y_true` has 5 rows but `y_score` has 60"),
    ],
)
def test_labels_that_cannot_be_read(labels: Any, positive: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        scorecard(labels, S, positive=positive)


class TestParts:
    def test_each_part_is_the_scorecard_of_its_rows(self) -> None:
        weights = 1.0 + np.arange(60) % 3
        card = scorecard(Y, S, by=pd.Series(LANG, name="lang"), weights=weights, threshold=0.4)
        assert (card.by, list(card.slices)) == ("lang", ["de", "en"])
        at = LANG == "de"
        alone = scorecard(Y[at], S[at], weights=weights[at], threshold=0.4)
        assert dict(card.slices["de"]) == dict(alone)
        assert dict(card) == dict(scorecard(Y, S, weights=weights, threshold=0.4))

    def test_groups_are_those_of_the_rows(self) -> None:
        groups = np.arange(60) // 3
        card = scorecard(Y, S, by=LANG, groups=groups)
        assert card.by == "part"
        assert card.slices["en"]["roc_auc"].n_groups == 10

    def test_missing_parts_are_a_part(self) -> None:
        card = scorecard(Y, S, by=[None, *LANG[1:]], bootstrap=False)
        assert card.slices["(missing)"]["roc_auc"].status == "skipped"
        assert len(card.slices) == 3

    def test_a_wrong_number_of_parts(self) -> None:
        with pytest.raises(InvalidInputError, match="`by` has 59 rows"):
            scorecard(Y, S, by=LANG[1:])


def test_weights_have_two_names() -> None:
    weights = 1.0 + np.arange(60) % 3
    assert scorecard(Y, S, weights=weights) == scorecard(Y, S, sample_weight=weights)
    with pytest.raises(InvalidInputError, match="synonyms"):
        scorecard(Y, S, weights=weights, sample_weight=weights)


def test_data_that_look_wrong_have_notes() -> None:
    assert scorecard(Y, S).notes == ()
    card = scorecard(1 - Y, S)
    assert "swapped" in card.notes[0]
    assert "swapped" in str(card)
    assert "swapped" in card._repr_html_()
