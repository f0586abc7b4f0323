"""Predictions as people have them: odd names, words, percent, log-odds, gaps, filters."""

from typing import Any

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.loaders.columns import Wanted
from eval_toolkit.loaders.predictions import read_predictions


@pytest.mark.parametrize(
    ("label", "score"),
    [
        ("y", "p"),
        ("Class", "Predicted Probability"),
        ("ground truth", "spam_score"),
        ("target", "y_pred"),
        ("truth", "prob_1"),
        ("gold", "logit"),
    ],
)
def test_columns_are_guessed_and_told(label: str, score: str) -> None:
    found = read_predictions({"text": ["a", "b"], label: [0, 1], score: [0.1, 0.9], "n": [3, 4]})
    assert (found.label, list(found.scores)) == (label, [score])
    assert found.notes == (f"label: {label!r}, score: {score!r}",)
    assert not read_predictions({"label": [0, 1], "score": [0.1, 0.9]}).notes


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("y", "target", "p"), "'y' or 'target'; pass label='y' or label='target'"),
        (("y", "p", "proba"), "'p' or 'proba'; pass scores='p' or scores='proba'"),
        (("y", "score_old", "score_new"), "'score_old' or 'score_new'; pass scores='score_old'"),
        (("kept", "score"), "exists, nor one with a similar name; pass label='kept'"),
        (("y", "model_a"), "exists, nor one with a similar name; pass scores='model_a'"),
    ],
)
def test_no_guess_between_two(columns: tuple[str, ...], said: str) -> None:
    values: dict[str, Any] = {name: [0.1, 0.3, 0.9] for name in columns}
    values[columns[0]] = [0, 1, 1]
    if columns[1] == "target":
        values["target"] = [1, 0, 1]
    with pytest.raises(
        MissingColumnError, match=r"the (labels|scores) may be in|none of"
    ) as caught:
        read_predictions(values)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["message_id", "mail id", "messageId", "UUID", "user-ID"])
def test_unique_values_of_a_column_named_like_ids_are_ids(name: str) -> None:
    rows = {"topic_id": [1, 1], name: ["b", "a"], "label": [0, 1], "score": [0.1, 0.9]}
    found = read_predictions(rows)
    assert (found.id, found.ids.tolist()) == (name, ["a", "b"])
    assert read_predictions(rows, Wanted(keyed=False)).id is None
    assert read_predictions(rows, Wanted(group=name)).id is None
    assert read_predictions({**rows, name: ["a", None]}).id is None


@pytest.mark.parametrize(
    ("words", "positive"),
    [(("ham", "spam"), "spam"), (("No", "Yes"), "Yes"), (("-1", "1"), "1"), ((-1, 1), "1")],
)
def test_a_positive_class_beyond_doubt(words: tuple[Any, Any], positive: str) -> None:
    found = read_predictions({"label": [words[1], words[0]], "score": [0.1, 0.9]})
    assert found.y_true.tolist() == [True, False]
    assert found.notes[-1].startswith(f"positive: {positive!r}")


@pytest.mark.parametrize("words", [("cat", "dog"), ("spam", "toxic"), ("spam", "eggs")])
def test_other_words_are_not_guessed(words: tuple[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="pass label_map="):
        read_predictions({"label": words, "score": [0.1, 0.9]})


@pytest.mark.parametrize(
    ("cells", "scale", "scores"),
    [
        (["3.99 %", "50%"], None, [0.0399, 0.5]),
        (["3,99 %", "50 %"], "percent", [0.0399, 0.5]),
        ([3.99, 50], "percent", [0.0399, 0.5]),
        ([0.0, -1e3], "logit", [0.5, 0.0]),
        ([0.25, 1], "probability", [0.25, 1.0]),
    ],
)
def test_scales(cells: list[Any], scale: Any, scores: list[float]) -> None:
    found = read_predictions({"label": [0, 1], "score": cells}, Wanted(scale=scale))
    assert found.scores["score"].tolist() == pytest.approx(scores)
    assert bool(found.notes) == (scale != "probability")


def test_percent_signs_in_some_cells_only() -> None:
    with pytest.raises(InvalidInputError, match="1 of 2 cells have a percent sign"):
        read_predictions({"label": [0, 1], "score": ["50 %", "0.5"]})
    with pytest.raises(InvalidInputError, match="`scale` is 'odds'"):
        Wanted(scale="odds")  # type: ignore[arg-type]


GAPS = {
    "id": ["a", "b", "c", "d", "e"],
    "label": [0, 1, None, 1, 0],
    "score": ["0.1", "NA", "0.3", "0.9", "0.2"],
    "group": ["x", "x", "y", None, "z"],
    "lang": ["de", "de", "de", None, "en"],
}


def test_rows_with_gaps_are_dropped_and_counted() -> None:
    wanted = Wanted(drop_missing=True, by=("lang",), group="group")
    found = read_predictions(GAPS, wanted)
    assert found.ids is not None
    assert found.ids.tolist() == ["a", "e"]
    assert found.notes == (
        "dropped 3 rows with missing values: 'score' in 1, 'label' in 1, 'group' in 1",
    )
    assert found.where(1) == "the data: row 5"
    with pytest.raises(
        InvalidInputError, match=r"row 2: .score. is missing .3 such rows.*drop_mis"
    ):
        read_predictions(GAPS, Wanted(group="group"))
    with pytest.raises(InvalidInputError, match="every row has a missing value"):
        read_predictions({**GAPS, "score": [""] * 5}, wanted)


def test_a_filter_comes_before_all_checks(tmp_path: Any) -> None:
    table = tmp_path / "p.csv"
    table.write_text("label,score,lang\n0,0.2,de\nmaybe,x,en\n1,0.9,de\n")
    found = read_predictions([table, table], Wanted(where=("lang = 'de'",)))
    assert found.notes == ("4 of 6 rows: lang = 'de'",)
    assert np.array_equal(found.y_true, [0, 1, 0, 1])
    assert [found.rows.place(row)[1] for row in range(4)] == ["row 1", "row 3"] * 2
    with pytest.raises(InvalidInputError, match="no row satisfies `where` lang = 'fr': 'lang' is"):
        read_predictions(table, Wanted(where=("lang = 'fr'",)))
    with pytest.raises(MissingColumnError, match="there is no column 'language'; the columns are"):
        read_predictions(table, Wanted(where=("language = 'fr'",)))
