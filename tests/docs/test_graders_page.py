"""docs/graders.md: one line for every grader, with the columns and metrics it really has."""

import re
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.graders import available_graders, load_grader
from eval_toolkit.graders.base import columns_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "graders.md"
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
    for cells in [line.strip("|").split("|")]
}
NEEDED: dict[str, dict[str, Any]] = {
    "regex_match": {"pattern": "x"},
    "keywords": {"phrases": ["x"]},
}
BY_RUBRIC = {"judge", "panel"}


def test_every_grader_has_one_line() -> None:
    assert set(ROWS) == set(available_graders())


@pytest.mark.parametrize("name", sorted(set(ROWS) - BY_RUBRIC))
def test_the_line_says_what_the_grader_says(name: str) -> None:
    grader = load_grader(name, **NEEDED.get(name, {}))
    columns, metrics, better, said = ROWS[name]
    infos = columns_of(grader)
    told = [column for column in re.split(r", ", columns) if column]
    assert told == [column if info.metric else f"*{column}*" for column, info in infos.items()]
    own = getattr(grader, "metrics", None)
    assert [part for part in metrics.split(", ") if part] == [
        spec.name for spec in (own() if callable(own) else [])
    ]
    ways = {True: "up", False: "down", None: "neither"}
    directions = {ways[info.higher_is_better] for info in infos.values() if info.metric}
    assert directions <= set(re.findall(r"up|down|neither", better))
    assert len(said) > 10
