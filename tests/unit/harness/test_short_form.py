"""`evaluate(table, {name: column or scorer})`, the plain case."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from eval_toolkit.errors import EvalToolkitError, MissingColumnError
from eval_toolkit.harness import evaluate
from eval_toolkit.scorecards import scorecard

Y = [0, 1] * 30
P = [round(0.2 + 0.3 * y + (i * 7 % 30) / 60, 3) for i, y in enumerate(Y)]
TEXT = ["good" * y + "bad" * (1 - y) for y in Y]
FRAME = pd.DataFrame({"y": Y, "p": P, "text": TEXT}, index=range(100, 160))


def long(texts: list[str]) -> list[float]:
    return [len(text) / 10 for text in texts]


@pytest.mark.parametrize(
    "frame", [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME, preserve_index=False)]
)
def test_columns_of_scores(frame: Any) -> None:
    result = evaluate(frame, {"old": "p"})
    card = scorecard(Y, P)
    for metric, cell in card.items():
        assert result[f"{metric} / old"].value == pytest.approx(cell.value)
    assert result.run_id == "evaluation"
    assert any("'y'" in note for note in result.notes)
    assert "labels: column 'y'" in str(result)


def test_functions_estimators_and_columns_together() -> None:
    frame = FRAME.assign(length=[len(text) for text in TEXT])
    model = LogisticRegression().fit(frame[["length"]], Y)
    result = evaluate(frame, {"old": "p", "long": long, "model": model}, metrics=["f1@0.35"])
    assert result["f1@0.35 / long"].value == 1.0
    assert result["f1@0.35 / model"].status == "ok"


def test_rows_in_another_order_are_the_same_rows() -> None:
    frame = FRAME.assign(id=[f"r{i:02}" for i in range(60)])
    first = evaluate(frame, {"old": "p", "long": long})
    again = evaluate(frame.sample(frac=1.0, random_state=3), {"old": "p", "long": long})
    assert again.to_dict()["by_slice"] == first.to_dict()["by_slice"]


def test_options_apply_as_to_slices() -> None:
    result = evaluate(FRAME, {"a": "p", "b": long}, run_id="r", paired_diffs=[("a", "b")], seed=1)
    assert result.run_id == "r"
    assert "b_minus_a" in result.by_slice["all"]["paired_diffs"]


def test_scores_that_look_wrong_have_a_note() -> None:
    frame = FRAME.assign(y=1 - np.array(Y))
    (note,) = [one for one in evaluate(frame, {"long": long}).notes if "swapped" in one]
    assert note.startswith("long on all: ")


@pytest.mark.parametrize(
    ("data", "scorers", "message"),
    [
        (FRAME, {"old": "q"}, "there is no column 'q'"),
        (FRAME, {"old": 7}, r"scorers\['old'\] is 7; it must be the name of a column"),
        (FRAME, {}, "`scorers` is empty"),
        (FRAME, "p", "it must map names to scorers"),
        (FRAME.drop(columns="text"), {"f": long}, r"scorers\['f'\] needs inputs"),
        (
            FRAME,
            {"f": lambda frame: frame["p"]},
            r"scorers\['f'\] failed with TypeError: .*it receives",
        ),
        (FRAME.assign(y="no"), {"old": "p"}, "labels must be 0 or 1"),
        (FRAME.assign(y=np.where(Y, "a", "b")), {"old": "p"}, "such as positive='b'$"),
        (FRAME.assign(p=100), {"old": "p"}, r"must be finite and in \[0, 1\]"),
    ],
)
def test_what_cannot_be_evaluated(data: Any, scorers: Any, message: str) -> None:
    with pytest.raises(EvalToolkitError, match=message):
        evaluate(data, scorers)


def test_labels_may_be_words_of_any_column() -> None:
    words = FRAME.assign(label=np.where(Y, "b", "a"))
    with pytest.raises(MissingColumnError, match="pass label='y' or label='label'"):
        evaluate(words, {"old": "p"})
    told = evaluate(words, {"old": "p"}, label="label", positive="b")
    assert told.by_slice == evaluate(FRAME, {"old": "p"}).by_slice
