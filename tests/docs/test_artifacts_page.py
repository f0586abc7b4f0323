"""docs/artifacts.md: every block runs, in order, with the published values."""

from typing import Any

import pytest
from docs._ext.blocks import fences, run_page
from sklearn.metrics import average_precision_score
from tests.docs.pages import DOCS

PAGE = DOCS / "artifacts.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    pytest.importorskip("jsonschema")
    return run_page(PAGE).names


def test_there_are_blocks() -> None:
    assert [fence.language for fence in fences(PAGE.read_text("utf-8"))] == ["python"] * 7


def test_the_rows_are_those_of_the_published_walkthrough(names: dict[str, Any]) -> None:
    assert names["arrays"].labels.sum() == 111


def test_point_estimate(names: dict[str, Any]) -> None:
    # 0.96495 is the published value; scikit-learn gives it on the same rows.
    expected = average_precision_score(names["labels"], names["baseline_scores"])
    assert expected == pytest.approx(0.96495, abs=5e-6)
    assert names["ci"]["point_estimate"] == pytest.approx(expected, abs=1e-12)


def test_paired_difference(names: dict[str, Any]) -> None:
    # The candidate separates perfectly: PR-AUC 1.0, difference +0.03505 as published.
    assert names["diff"]["delta"] == pytest.approx(0.03505, abs=5e-6)


def test_a_bad_shape_is_refused(names: dict[str, Any]) -> None:
    import jsonschema

    payload = {**names["result_payload"], "by_slice": {"dev": {"n": "many"}}}
    with pytest.raises(jsonschema.ValidationError):
        names["validate_payload"](payload, schema_name="results.v1.json")
