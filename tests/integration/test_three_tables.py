"""Runs with inputs, references and seeds in tables of their own are read as those with one table.

``tests/fixtures/three_tables`` holds a run of each kind, and what was said of its units then.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.first_edition import asked
from tests.support.first_edition_readers import differences

from eval_toolkit.analysis import compare_runs
from eval_toolkit.report import write_report
from eval_toolkit.rollouts import rescore_rollouts, seeds_of
from eval_toolkit.runs import Run, SummarySpec, rescore
from eval_toolkit.tasks import measure_run
from eval_toolkit.tasks.references import references_of

HERE = Path(__file__).parents[1] / "fixtures" / "three_tables"
EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text())
OLD = ("inputs.parquet", "references.parquet", "seeds.parquet")
every_run = pytest.mark.parametrize("name", EXPECTED)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all runs, which are only read."""
    return Path(shutil.copytree(HERE / "runs", tmp_path_factory.mktemp("old") / "runs"))


@pytest.fixture(autouse=True)
def _nobody_asked() -> Iterator[None]:
    asked.ASKED.clear()
    yield
    assert asked.ASKED == []


def said(run: Run) -> dict[str, Any]:
    """Return what readers say of a run's units, in JSON types."""
    units = {name: run.records(name, system).unit_id.tolist() for name, system in run.subjects}
    found: dict[str, Any] = {}
    if run.inputs is not None:
        found["inputs"] = {name: run.inputs.texts_of(name, ids) for name, ids in units.items()}
        found["rows"] = {name: run.inputs.texts_at(name, [0, 1, 7]) for name in run.inputs.slices}
        found["digests"] = {name: run.inputs.digests_of(name, ids) for name, ids in units.items()}
    ids = [unit for some in units.values() for unit in some]
    found["references"] = {unit: asdict(one) for unit, one in references_of(run, ids).items()}
    if run.kind == "rollout":
        found["seeds"] = [asdict(seed) for seed in seeds_of(run)]
    return dict(json.loads(json.dumps(found)))


@every_run
def test_readers_say_what_they_said(name: str, runs: Path) -> None:
    run = Run.open(runs / name)
    assert {one for one in OLD if (run.path / one).is_file()}
    found = said(run)
    assert {key: found[key] for key in EXPECTED[name]} == EXPECTED[name]


@every_run
def test_compared_with_itself_and_reported(name: str, runs: Path, tmp_path: Path) -> None:
    run = Run.open(runs / name)
    cells = compare_runs(run, run).cells
    assert cells
    assert all(cell.delta == 0.0 for cell in cells if cell.status == "ok")
    assert write_report([run, run], tmp_path / "r.html").is_file()


@every_run
def test_records_are_summarised_again_and_units_stay(name: str, runs: Path, tmp_path: Path) -> None:
    run = Run.open(runs / name)
    done = rescore(run, tmp_path / "again", summary=SummarySpec(n_resamples=200))
    assert done.run is not None
    assert not {one for one in OLD if (done.run.path / one).is_file()}
    assert said(done.run) == said(run)


WORDED_THEN = {
    r"; at least (\d+) are needed": r", at least \1 are needed",
    "20, intervals may undercover": "20 intervals may cover less",
    "without known bounds need": "whose bounds are not known need",
    "are censored after their last observed turn": "count up to where they were seen",
    "the unprovoked part of attack_success; only bounds are available, no interval": (
        "the part of attack_success that was not provoked, of which bounds alone are known"
    ),
    r"mean of the known values; (\d+) of (\d+) rollouts were cut short, which may depend on the outcome": (
        r"over those that are known; whether the \1 cut short among \2 rollouts are depends on "
        "whether the target failed"
    ),
}


def as_stated_then(cells: Any) -> Any:
    """Return cells without the bounds of their columns, and with a reason as it was worded then."""
    if isinstance(cells, str):
        for now, then in WORDED_THEN.items():
            cells = re.sub(now, then, cells)
        return cells
    if not isinstance(cells, dict):
        return cells
    return {
        key: {name: value for name, value in inner.items() if name != "bounds"}
        if key == "details"
        else as_stated_then(inner)
        for key, inner in cells.items()
    }


def test_answers_are_measured_again(runs: Path, tmp_path: Path) -> None:
    run = Run.open(runs / "task")
    done = measure_run(run, asked.Choices(rows=asked.ITEMS), out=tmp_path / "again")
    assert not differences(as_stated_then(done.results["by_slice"]), run.results["by_slice"])
    assert said(done.run) == {**said(run), **EXPECTED["task"]}
    assert not [name for name in OLD if (done.run.path / name).exists()]
    assert ("inputs" in run.manifest, "inputs" in done.run.manifest) == (True, False)


def test_conversations_are_scored_again(runs: Path, tmp_path: Path) -> None:
    run = Run.open(runs / "rollouts")
    done = rescore_rollouts(run, asked.FOOL, tmp_path / "again", refusal=False)
    differ = differences(as_stated_then(done.results["by_slice"]), run.results["by_slice"])
    # The direction of the first turn's score was not known then, nor what errors could make of it.
    assert not [place for place in differ if "words_turn_1/details/" not in place]
    assert said(done.run)["seeds"] == EXPECTED["rollouts"]["seeds"]
    other = rescore_rollouts(tmp_path / "again", asked.CLOWN, refusal=False)
    assert other.card["attack_success"].value == 0.0


@pytest.mark.parametrize(
    ("name", "words", "n"),
    [("score", "TEXT 7 IN", 2), ("task", "capital of Ghana", 1), ("rollouts", "goal 1", 1)],
)
def test_the_viewer_finds_what_units_say(name: str, words: str, n: int, runs: Path) -> None:
    pytest.importorskip("starlette")
    from tests.support.viewer_driving import TOKEN, Asking

    from eval_toolkit.report.viewer import create_app

    ask = Asking(create_app(runs, token=TOKEN))
    (address,) = re.findall(rf'"(/runs/{name}-[0-9a-f]+)"', ask("/").text)
    page = ask(f"{address}/samples?q={words.replace(' ', '+')}")
    rows = set(re.findall(r'href="(/runs/[^"]*/sample\?[^"]*)"', page.text))
    assert len({re.findall(r"row=(\d+)", unescape(row))[0] for row in rows}) == n
    assert words.lower() in page.words.lower()
