"""The list of runs: found, told apart by state, sorted and filtered by the address."""

import hashlib
import html
import re
from pathlib import Path

import pytest
from tests.support.hostile import SHORT
from tests.support.viewer_driving import Asking, plain_run, rollout_run, task_run

from eval_toolkit.artifacts import json_bytes
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.report.viewer import run_list
from eval_toolkit.report.viewer.run_list import RunList
from eval_toolkit.report.viewer.trends import trends_of
from eval_toolkit.runs import run_state, write_run

VALUES = {"beta": 0.5, "alpha": 0.9, "gamma": 0.7}


def names(text: str) -> list[str]:
    """The runs of a list, in its order."""
    return [html.unescape(name) for name in re.findall(r'<a href="/runs/[^"]+">([^<]*)</a>', text)]


@pytest.fixture
def three(runs_dir: Path) -> Path:
    for name, value in VALUES.items():
        plain_run(runs_dir / "deep" / name, name, value, kind="task" if name == "beta" else None)
    return runs_dir


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("run", sorted(VALUES)),
        ("-run", sorted(VALUES, reverse=True)),
        ("value", sorted(VALUES, key=VALUES.__getitem__)),
        ("-value", sorted(VALUES, key=VALUES.__getitem__, reverse=True)),
    ],
)
def test_sorts_by_a_column(ask: Asking, three: Path, sort: str, expected: list[str]) -> None:
    assert names(ask(f"/?sort={sort}").text) == expected


def test_unknown_sorts_and_filters_are_no_error(ask: Asking, three: Path) -> None:
    assert len(names(ask("/?sort=nothing").text)) == 3
    assert names(ask("/?kind=nothing").text) == []


def test_runs_without_a_value_come_last_either_way(ask: Asking, three: Path) -> None:
    (three / "torn").mkdir()
    (three / "torn" / "results.json").write_text("{}")
    for sort in ("value", "-value"):
        assert names(ask(f"/?sort={sort}").text)[-1] == "torn"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=alph", ["alpha"]),
        ("q=ALPHA", ["alpha"]),
        ("q=deep+gam", ["gamma"]),
        ("q=nothing+here", []),
        ("kind=task", ["beta"]),
        ("state=running", []),
    ],
)
def test_filters(ask: Asking, three: Path, query: str, expected: list[str]) -> None:
    assert names(ask(f"/?{query}").text) == expected


def test_links_in_the_header_keep_the_filter_and_turn_the_order(ask: Asking, three: Path) -> None:
    text = ask("/?q=a&sort=run").text
    assert 'aria-sort="ascending"' in text
    assert "/?q=a&amp;sort=-run" in text


def test_states_and_numbers_are_told(ask: Asking, runs_dir: Path) -> None:
    task_run(runs_dir / "task")
    rollout_run(runs_dir / "rollout")
    (runs_dir / "torn").mkdir()
    (runs_dir / "torn" / "results.json").write_text("{}")
    (runs_dir / "notes").mkdir()
    (runs_dir / "notes" / "manifest.json").write_text('{"nothing": "of a run"}')
    answer = ask("/")
    assert sorted(names(answer.text)) == ["rollout", "task", "torn"]
    assert "exact_match" in answer.words
    assert "there is no manifest.json" in answer.words
    assert answer.text.count("status-error") == 1


def test_a_new_run_is_shown_and_a_removed_one_is_gone(ask: Asking, runs_dir: Path) -> None:
    assert "no run in this folder" in ask("/").words
    run = plain_run(runs_dir / "r1", "r1", 0.5)
    assert names(ask("/").text) == ["r1"]
    for path in run.path.iterdir():
        path.unlink()
    assert names(ask("/").text) == []


def test_runs_of_one_name_have_keys_of_their_own(runs_dir: Path) -> None:
    for place in ("a/r", "b/r", "a-r", "A/r"):
        plain_run(runs_dir / place, "r", 0.5)
    found = RunList(runs_dir).runs()
    assert len({run.key for run in found}) == len(found) == 4
    assert all(re.fullmatch(r"[a-z0-9-]+", run.key) for run in found)


def test_a_run_that_did_not_change_is_not_read_again(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_list, "_LOOK_AGAIN_S", -1.0)
    plain_run(runs_dir / "r1", "r1", 0.5)
    found = RunList(runs_dir)
    first = found.runs()
    assert found.runs()[0] is first[0]
    plain_run(runs_dir / "r2", "r2", 0.5)
    assert [run.run_id for run in found.runs()] == ["r1", "r2"]


def test_hostile_names_are_only_text(ask: Asking, runs_dir: Path) -> None:
    for at, text in enumerate(list(SHORT.values())[:60]):
        plain_run(runs_dir / f"r{at}", text, 0.5)
    answer = ask("/")
    assert answer.status == 200
    assert len(re.findall(r"<tr>\s*<td>", answer.text)) == 60
    assert "<svg" in answer.text, "60 runs of one task have a trend"
    assert not re.search(
        r"<(?!/?(?:html|head|body|meta|title|link|a|header|div|nav|button|main|h1|"
        r"p|span|form|label|input|select|option|table|thead|tbody|tr|th|td|br|strong|"
        r"figure|figcaption|svg|g|path|line|circle|text|"
        r"footer|script|!doctype)\b)[a-z!]",
        answer.text,
    )
    assert answer.text.count("<script") == answer.text.count('<script src="/static/')


@pytest.mark.parametrize(
    "by_slice",
    [
        "text",
        {"all": {"by_scorer": {"m": {"accuracy": {"status": "ok", "value": "high"}}}}},
        {"all": {"by_scorer": {"m": {"accuracy": {"status": "ok", "value": 1, "ci": "wide"}}}}},
        {"all": {"by_scorer": {"m": {"accuracy": {"status": "ok", "ci": {"ci_low": []}}}}}},
        {"all": {"by_scorer": ["m"]}},
        {"all": {"n": "many", "by_scorer": {"m": {"accuracy": 0.5}}}},
    ],
)
def test_odd_results_keep_no_other_run_from_being_listed(
    ask: Asking, three: Path, by_slice: object
) -> None:
    odd = {"schema_version": "v1", "run_id": "odd", "config": {}, "by_slice": {}}
    run = write_run(three / "odd", results=odd, manifest={"run_id": "odd"})
    data = json_bytes({**odd, "by_slice": by_slice})  # whoever wrote it sealed it
    (run.path / "results.json").write_bytes(data)
    artifacts = {"results.json": {"sha256": hashlib.sha256(data).hexdigest()}}
    sealed = seal_manifest({**run.manifest, "artifacts": artifacts})
    (run.path / "manifest.json").write_bytes(json_bytes(sealed))
    assert run_state(run.path) == "complete"
    for sort in ("value", "n", "when"):
        assert sorted(names(ask(f"/?sort={sort}").text)) == ["alpha", "beta", "gamma", "odd"]


def test_cost_and_duration_are_listed_and_sorted_by(ask: Asking, runs_dir: Path) -> None:
    for name, cost, seconds in (("cheap", 0.5, 61.0), ("dear", 1.25, 3.0)):
        usage = {"prompt_tokens": 1000, "completion_tokens": 234, "cost": cost}
        judges = {"strict": {"usage": {"cost": 0.25, "prompt_tokens": 1}}}
        more = {"usage": usage, "judges": judges, "wall_clock_seconds": seconds}
        plain_run(runs_dir / name, name, 0.5, **more)
    plain_run(runs_dir / "odd", "odd", 0.5, usage={"cost": "high"}, wall_clock_seconds=-1)
    words = ask("/").words
    for told in ("0.75", "1.5", "1,235 tokens", "1 min 1 s", "3 s"):
        assert told in words
    assert names(ask("/?sort=-cost").text)[:2] == ["dear", "cheap"]
    assert names(ask("/?sort=-seconds").text)[:2] == ["cheap", "dear"]


def test_runs_of_one_task_make_a_trend(runs_dir: Path) -> None:
    for at, (name, value) in enumerate((("mon", 0.5), ("tue", 0.9), ("wed", 0.7))):
        when = f"2026-11-0{at + 1}T10:00:00Z"
        plain_run(runs_dir / name, name, value, captured_at=when, item_set_hash="same")
    plain_run(runs_dir / "other", "other", 0.1, item_set_hash="other items")
    (trend,) = trends_of(RunList(runs_dir).runs())
    assert [one.run.run_id for one in trend.points] == ["mon", "tue", "wed"]
    assert trend.ends == (0.5, 0.9)
    low, high, middle = (one.y for one in trend.points)
    assert low > middle > high, "larger values are drawn higher"
    assert trend.words.endswith("mon 0.500, tue 0.900, wed 0.700")
