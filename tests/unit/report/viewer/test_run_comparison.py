"""Two runs side by side: the numbers of ``compare``, and every sample in its case."""

import html
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.viewer_driving import (
    Answer,
    Asking,
    cell,
    plain_run,
    results,
    rollout_run,
    rows_run,
    task_run,
)
from tests.support.viewer_serving import served

from eval_toolkit._internal.display import Count, Estimate, Interval, Number, Status, Table
from eval_toolkit.cli import main
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner import Job, JobResult, to_columns
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.run_names import named_text
from eval_toolkit.report.viewer import statistics
from eval_toolkit.report.viewer.pairs import CASES, Joined, Rule, Side, joined
from eval_toolkit.report.viewer.run_list import RunList
from eval_toolkit.report.viewer.statistics import Told, compared
from eval_toolkit.report.viewer.store import Store
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records

Right = dict[str, float | None]


@pytest.fixture(autouse=True)
def _no_page_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_WAIT_S", 0.0)


def graded_run(folder: Path, right: Right, *, prompt: str = "{}", hashes: str = "") -> Run:
    """A task's run: right or wrong by unit, None where the grader failed."""
    units = list(right)
    records = Records.from_columns(
        {"exact_match": [right[unit] for unit in units]},
        unit_id=units,
        content_hash=[f"{hashes}{unit}" if hashes else "" for unit in units],
        status={"exact_match": ["error" if right[unit] is None else "ok" for unit in units]},
        reason={"exact_match": ["no <b>answer</b>" if right[u] is None else "" for u in units]},
    )
    outcomes = [
        JobResult(
            Job(unit, 1, GenerateRequest(prompt.format(unit))),
            RawCompletion(f"{folder.name} answers {unit}"),
        )
        for unit in units
    ]
    mean = cell(0.5, details={"higher_is_better": True})
    return write_run(
        folder,
        results=results(folder.name, {"exact_match": mean}, "sums"),
        manifest={"run_id": folder.name, "kind": "task", "config": {"kind": "task"}},
        records={("sums", "model"): records},
        tables={RESPONSES: to_columns(outcomes)},
    )


ONE: Right = {"q1": 1, "q2": 1, "q3": 0, "q4": 0, "q5": 1, "only-a": 1}
TWO: Right = {"q5": None, "q4": 0, "q3": 1, "q2": 0, "q1": 1, "only-b": 0}


def compare(ask: Asking, more: str = "", a: str = "one", b: str = "two") -> Answer:
    return ask(f"/compare?a={key_of(ask, a)}&b={key_of(ask, b)}{more}")


def key_of(ask: Asking, name: str) -> str:
    keys = {run.place: run.key for run in ask.app.state.viewer.runs.runs()}
    return str(keys[name])


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells as they read."""
    found = []
    for table in re.findall(r"<table.*?</table>", text, flags=re.DOTALL):
        rows = re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)
        cells = [re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
        found.append([[plain(one) for one in row] for row in cells])
    return found


def plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def samples_of(answer: Answer) -> dict[str, list[str]]:
    """The lines of the samples by unit."""
    return {row[0]: row[1:] for row in tables(answer.text)[-1][1:]}


# --- the statistics are those of the command -------------------------------------------------------


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*args: object) -> str:
        with pytest.raises(SystemExit) as caught:
            main([str(arg) for arg in args])
        assert caught.value.code == 0
        return capsys.readouterr().out

    return run


def by_language(folder: Path, seed: int) -> Run:
    rng = np.random.default_rng(seed)
    y = np.array([0, 1] * 30)
    scores = np.clip(0.25 + 0.4 * y + rng.normal(0, 0.25, 60), 0.01, 0.99)
    part = Records.from_rows(y, scores, unit_id=[f"u{i}" for i in range(60)])
    metrics = {"roc_auc": cell(0.8), "brier": cell(0.2)}
    blocks = {name: {"n": 30, "by_scorer": {"model": metrics}} for name in ("all", "de", "<en>")}
    taken = {"all": np.arange(60), "de": np.arange(30), "<en>": np.arange(30, 60)}
    return write_run(
        folder,
        results={**results(folder.name, {}), "by_slice": blocks},
        manifest={"run_id": folder.name, "config": {"command": "score"}},
        records={(name, "model"): part.take(rows) for name, rows in taken.items()},
    )


def test_the_numbers_are_those_that_compare_prints(runs_dir: Path, cli: Callable[..., str]) -> None:
    by_language(runs_dir / "one", 1)
    by_language(runs_dir / "two", 2)
    told = json.loads(cli("compare", runs_dir / "one", runs_dir / "two", "--json"))
    one, two = (run.key for run in RunList(runs_dir).runs())
    with served(runs_dir) as viewer:
        while "Comparing the two runs" in (page := viewer(f"/compare?a={one}&b={two}")).text:
            time.sleep(0.1)
    (statistics_table, _) = tables(page.text)
    header, *lines = statistics_table
    expected = [
        [
            one["slice"],
            one["metric"],
            one["verdict"],
            f"{one['delta']:+.3f} [{one['ci_low']:+.3f}, {one['ci_high']:+.3f}]",
            str(one["n_units"]),
            f"{one['value_a']:.3f}",
            f"{one['value_b']:.3f}",
            "<0.001" if one["p_value"] < 0.0005 else f"{one['p_value']:.3f}",
            "<0.001" if one["p_adjusted"] < 0.0005 else f"{one['p_adjusted']:.3f}",
        ]
        for one in told["cells"]
    ]
    assert [line[: len(header)] for line in lines] == expected
    assert len(expected) == 6
    assert (told["seed"], told["confidence"], told["n_resamples"]) == (42, 0.95, 1000)


def test_the_sentences_are_those_that_compare_prints(
    ask: Asking, runs_dir: Path, cli: Callable[..., str]
) -> None:
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    printed = " ".join(cli("compare", runs_dir / "one", runs_dir / "two").split())
    said = compared(runs_dir / "one", runs_dir / "two")
    words = settled(ask, "").words
    for line in (*said.lead, *said.notes):
        assert line in words
    for line in said.notes:
        assert " ".join(line.split()) in named_text(printed, ("one", "two"))
    assert "one and two do not differ significantly in exact_match" in said.lead[0]
    assert "one: answers" in " ".join(said.lead)
    assert "1 units only in one, 1 only in two" in words


def settled(ask: Asking, more: str) -> Answer:
    """The page, once the statistics are there."""
    for _ in range(6000):
        answer = compare(ask, more)
        if "Comparing the two runs" not in answer.text:
            return answer
        time.sleep(0.1)
    raise AssertionError("the statistics never came")


def test_of_rollouts_the_failures_by_turn_are_shown_too(ask: Asking, runs_dir: Path) -> None:
    rollout_run(runs_dir / "one")
    rollout_run(runs_dir / "two")
    answer = settled(ask, "")
    told = compared(runs_dir / "one", runs_dir / "two")
    assert answer.status == 200
    for line in told.lead:
        assert line in answer.words
    assert len(told.tables) + 1 == len(tables(answer.text))  # the samples have one of their own


def test_many_records_are_compared_in_a_process_of_their_own(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    monkeypatch.setattr(statistics, "_IN_A_PROCESS_FROM", 1)
    first = compare(ask)
    assert "Comparing the two runs" in first.words  # no page waits for it
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in first.text
    (address,) = re.findall(r'data-follow="([^"]*)"', first.text)
    assert "q1" in samples_of(first)
    for _ in range(6000):
        part = ask(html.unescape(address))
        if part.headers["x-follow"] == "stop":
            break
        assert part.headers["x-follow"] == "go on"
        time.sleep(0.1)
    assert "<html" not in part.text
    assert compared(runs_dir / "one", runs_dir / "two").lead[0] in part.words
    last = compare(ask)
    assert "data-follow" not in last.text
    assert "refresh" not in last.text


def test_a_process_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    told = statistics._apart(tmp_path, tmp_path)
    assert told.bug
    assert "exit status 1" in told.refused


def test_an_exception_is_a_bug_and_not_a_page_that_never_comes(tmp_path: Path) -> None:
    def fails(a: Path, b: Path) -> Told:
        raise MemoryError("all gone")

    job = statistics._Job()
    statistics.Statistics()._make(job, fails, tmp_path, tmp_path)
    assert job.told == Told(refused="unexpected MemoryError: all gone", bug=True)
    assert job.done.is_set()


FINITE = st.floats(allow_nan=False, allow_infinity=False)
CELLS = st.one_of(
    st.none(),
    st.text(),
    st.builds(Count, st.integers()),
    st.builds(Number, FINITE, st.sampled_from([".3f", "", "p"])),
    st.builds(Interval, FINITE, FINITE),
    st.builds(Estimate, FINITE, FINITE, FINITE),
    st.builds(Status, st.text(), st.text(), st.none() | st.integers(1, 9)),
)


@st.composite
def drawn_tables(draw: st.DrawFn) -> Table:
    header = draw(st.lists(st.text(), max_size=4))
    rows = draw(st.lists(st.tuples(*[CELLS] * len(header)), max_size=3))
    return Table(header, rows, draw(st.text()), draw(st.lists(st.text(), max_size=2)))


@settings(max_examples=30)
@given(
    st.builds(
        Told,
        tables=st.lists(drawn_tables(), max_size=2),
        lead=st.lists(st.text()),
        notes=st.lists(st.text()),
        refused=st.text(),
        bug=st.booleans(),
    )
)
def test_what_is_told_survives_the_way_between_processes(told: Told) -> None:
    assert Told.from_dict(json.loads(json.dumps(told.to_dict()))) == told


# --- which sample is in which case ----------------------------------------------------------------


def test_every_common_sample_is_shown_with_both_values(ask: Asking, runs_dir: Path) -> None:
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    answer = compare(ask)
    assert {unit: line[:4] for unit, line in samples_of(answer).items()} == {
        "q1": ["1", "1", "0", "both right"],
        "q2": ["1", "0", "-1", "one right, two wrong"],
        "q3": ["0", "1", "+1", "two right, one wrong"],
        "q4": ["0", "0", "0", "both wrong"],
        "q5": ["1", "error no <b>answer</b>", "", "without a value"],
    }
    assert "5 records in common; 1 only in one, 1 only in two" in answer.words
    assert "<b>answer" not in answer.text


def test_cases_can_be_chosen(ask: Asking, runs_dir: Path) -> None:
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    for show, units in {
        "": ["q2", "q3", "q1", "q4", "q5"],
        "a": ["q2"],
        "b": ["q3"],
        "both": ["q1"],
        "neither": ["q4"],
        "none": ["q5"],
        "'; DROP TABLE x": ["q2", "q3", "q1", "q4", "q5"],
    }.items():
        answer = compare(ask, f"&show={show}")
        assert list(samples_of(answer)) == units, show
        cases = (("all", 5), ("one right, two wrong", 1), ("both wrong", 1), ("without a value", 1))
        for case, n in cases:
            assert f"{case} {n} " in answer.words


def test_a_text_is_found_on_either_side(ask: Asking, runs_dir: Path) -> None:
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    assert list(samples_of(compare(ask, "&q=one+answers+q2"))) == ["q2"]
    assert list(samples_of(compare(ask, "&q=TWO+answers+q3"))) == ["q3"]
    assert list(samples_of(compare(ask, "&q=answers&show=b"))) == ["q3"]
    assert "No sample matches" in compare(ask, "&q=nowhere").words


def test_scores_are_right_on_their_labels_side_of_the_threshold(
    ask: Asking, runs_dir: Path
) -> None:
    ids, y = ["u1", "u2", "u3", "u4"], [1, 0, 1, 0]
    rows_run(runs_dir / "one", Records.from_rows(y, [0.9, 0.2, 0.3, 0.6], unit_id=ids))
    rows_run(runs_dir / "two", Records.from_rows(y, [0.4, 0.1, 0.8, 0.7], unit_id=ids))
    found = samples_of(compare(ask))
    assert list(found) == ["u1", "u3", "u2", "u4"]  # apart by 0.5, 0.5, 0.1, 0.1, ties in A's order
    assert [line[4] for line in found.values()] == [
        "one right, two wrong",
        "two right, one wrong",
        "both right",
        "both wrong",
    ]
    assert found["u1"][:4] == ["1", "0.900", "0.400", "-0.500"]
    lower = samples_of(compare(ask, "&threshold=0.25"))
    assert [lower[unit][4] for unit in ids] == [
        "both right",
        "both right",
        "both right",
        "both wrong",
    ]
    assert compare(ask, "&threshold=nan").status == 200


def test_pages_hold_every_sample_once(ask: Asking, runs_dir: Path) -> None:
    rng = np.random.default_rng(5)
    units = [f"u{i:03d}" for i in range(120)]
    graded_run(runs_dir / "one", {unit: float(rng.integers(2)) for unit in units})
    graded_run(runs_dir / "two", {unit: float(rng.integers(2)) for unit in units[::-1]})
    seen: list[str] = []
    address = "/compare?a={}&b={}&sort=stored".format(key_of(ask, "one"), key_of(ask, "two"))
    while address:
        answer = ask(html.unescape(address))
        seen += samples_of(answer)
        found = re.findall(r'rel="next" href="([^"]*)"', answer.text)
        address = found[0] if found else ""
    assert seen == units
    assert list(samples_of(compare(ask, "&sort=stored&page=999999"))) == units[100:]
    assert len(samples_of(compare(ask, "&size=200"))) == 120
    for nonsense in ("-1", "1e9", "x", "9" * 40):
        assert (
            next(iter(samples_of(compare(ask, f"&sort=stored&page={nonsense}&size={nonsense}"))))
            == units[0]
        )


def joined_of(a: list[float], b: list[float], labels: list[int] | None = None) -> Joined:
    n = len(a)
    return Joined(
        np.arange(n, dtype=np.int32),
        np.arange(n, dtype=np.int32)[::-1].copy(),
        np.array(a, dtype=float),
        np.array(b, dtype=float),
        None if labels is None else np.array(labels, dtype=np.int8),
        np.zeros(n, dtype=bool),
        0,
        0,
    )


scores = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, float("nan")])


@given(st.lists(st.tuples(scores, scores, st.sampled_from([0, 1, -1]))), scores)
def test_cases_are_what_each_pair_says_by_itself(
    rows: list[tuple[float, float, int]], threshold: float
) -> None:
    threshold = 0.5 if np.isnan(threshold) else threshold
    a, b, labels = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    found = joined_of(a, b, labels).cases(Rule("threshold", threshold))
    for (one, other, label), case in zip(rows, found, strict=True):
        if np.isnan(one) or np.isnan(other) or label < 0:
            expected = "none"
        else:
            right = (one >= threshold) == (label == 1), (other >= threshold) == (label == 1)
            names = {(1, 0): "a", (0, 1): "b", (1, 1): "both", (0, 0): "neither"}
            expected = names[int(right[0]), int(right[1])]
        assert CASES[case] == expected
    for higher in (True, False, None):
        found = joined_of(a, b).cases(Rule("graded", higher=higher))
        for one, other, case in zip(a, b, found, strict=True):
            lead = (other - one) if higher is False else (one - other)
            known = not np.isnan(lead)
            expected = "none" if not known else "a" if lead > 0 else "b" if lead < 0 else "equal"
            assert CASES[case] == expected


@given(st.lists(st.tuples(scores, scores)), st.sampled_from([*CASES, ""]), st.data())
def test_places_are_those_of_the_case_in_order(
    rows: list[tuple[float, float]], case: str, data: st.DataObject
) -> None:
    these = joined_of([one for one, _ in rows], [other for _, other in rows])
    cases = these.cases(Rule("graded"))
    n = len(rows)
    wanted = data.draw(st.lists(st.integers(0, max(0, n - 1)), unique=True)) if n else []
    fits = [
        at
        for at in range(n)
        if (not case or CASES[cases[at]] == case)
        and (at in wanted or n - 1 - at in wanted[:2])  # B's rows run the other way
    ]
    found = these.places(cases, case, within=(wanted, wanted[:2]))
    assert found.tolist() == fits

    def apart(at: int) -> float:
        gap = abs(rows[at][0] - rows[at][1])
        return float("inf") if np.isnan(gap) else -gap

    found = these.places(cases, case, within=(wanted, wanted[:2]), by_difference=True)
    assert found.tolist() == sorted(fits, key=apart)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_join_is_that_of_a_dictionary(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("joined")
    drawn: list[dict[tuple[str, int], tuple[int, float, str]]] = []
    for name in ("one", "two"):
        n = int(rng.integers(1, 30))
        keys = [(f"u{i}", 1 + int(rng.integers(2))) for i in rng.permutation(40)[:n]]
        values, ok = rng.random(n), rng.random(n) < 0.8
        hashes = [rng.choice(["", "x", "y"]) for _ in keys]
        records = Records.from_columns(
            {"f1": [value if good else None for value, good in zip(values, ok, strict=True)]},
            unit_id=[unit for unit, _ in keys],
            attempt=[attempt for _, attempt in keys],
            content_hash=hashes,
            status={"f1": ["ok" if good else "skipped" for good in ok]},
            reason={"f1": ["" if good else "why" for good in ok]},
        )
        write_run(
            folder / name,
            results=results(name, {"f1": cell(0.5)}),
            manifest={"run_id": name},
            records={("all", "model"): records},
        )
        # A run stores its records in an order of its own.
        table = duckdb.read_parquet(str(folder / name / "records.parquet"))
        place = {key: at for at, key in enumerate(table.select("unit_id, attempt").fetchall())}
        told = zip(keys, values, ok, hashes, strict=True)
        drawn.append({key: (place[key], v if good else np.nan, h) for key, v, good, h in told})
    sides = [
        Side(folder / name / "records.parquet", "all", "model", "f1") for name in ("one", "two")
    ]
    found = joined(Store(folder), sides[0], sides[1])
    one, two = drawn
    common = sorted((key for key in one if key in two), key=lambda key: one[key][0])
    assert found.rows_a.tolist() == [one[key][0] for key in common]
    assert found.rows_b.tolist() == [two[key][0] for key in common]
    np.testing.assert_array_equal(found.values_a, [one[key][1] for key in common])
    np.testing.assert_array_equal(found.values_b, [two[key][1] for key in common])
    assert found.others.tolist() == [
        bool(one[key][2] and two[key][2] and one[key][2] != two[key][2]) for key in common
    ]
    assert (found.n_only_a, found.n_only_b) == (len(one) - len(common), len(two) - len(common))


# --- one sample of both -----------------------------------------------------------------------------


def open_sample(ask: Asking, answer: Answer, unit: str) -> Answer:
    address = re.search(rf'href="(/compare/sample[^"]*)">{unit}<', answer.text)
    assert address is not None
    return ask(html.unescape(address.group(1)))


def test_a_sample_opens_with_both_answers(ask: Asking, runs_dir: Path) -> None:
    graded_run(runs_dir / "one", ONE, prompt="How much is {}?")
    graded_run(runs_dir / "two", TWO, prompt="How much is {}?")
    page = open_sample(ask, compare(ask), "q3")
    assert "one answers q3" in page.words
    assert "two answers q3" in page.words
    assert page.words.count("How much is q3?") == 1  # both were asked the same
    assert "Both received the same prompt" in page.words
    assert tables(page.text)[0][1] == ["exact_match", "0", "1", "+1"]
    assert "2 of 5" in page.words


def test_prompts_that_differ_are_shown_on_both_sides(ask: Asking, runs_dir: Path) -> None:
    graded_run(runs_dir / "one", ONE, prompt="How much is {}?")
    graded_run(runs_dir / "two", TWO, prompt="Tell me {}!")
    page = open_sample(ask, compare(ask), "q3")
    assert "How much is q3?" in page.words
    assert "Tell me q3!" in page.words
    assert "Both received the same prompt" not in page.words


def test_neighbours_are_those_of_the_list_it_was_opened_from(ask: Asking, runs_dir: Path) -> None:
    graded_run(runs_dir / "one", {f"q{i}": i % 2 for i in range(6)})
    graded_run(runs_dir / "two", dict.fromkeys((f"q{i}" for i in range(6)), 1.0))
    page = open_sample(ask, compare(ask, "&show=b"), "q2")
    assert "2 of 3" in page.words
    titles = [
        re.findall(r"<h1>(.*?)</h1>", ask(html.unescape(address)).text)[0]
        for address in re.findall(r'rel="(?:prev|next)" href="([^"]*)"', page.text)
    ]
    assert titles == ["q0", "q4"]
    (back,) = re.findall(r'<a href="([^"]*)#samples">2 of 3', page.text)
    assert list(samples_of(ask(html.unescape(back)))) == ["q0", "q2", "q4"]


def test_rows_say_what_they_say_once(ask: Asking, runs_dir: Path) -> None:
    ids, texts = ["u1", "u2"], {"u1": "<i>hello</i>", "u2": "bye"}
    rows_run(runs_dir / "one", Records.from_rows([0, 1], [0.1, 0.9], unit_id=ids), texts)
    rows_run(runs_dir / "two", Records.from_rows([0, 1], [0.2, 0.8], unit_id=ids), texts)
    page = open_sample(ask, compare(ask), "u1")
    assert page.words.count("<i>hello</i>") == 1
    assert "<i>" not in page.text
    assert "input, the same in both" in page.words


def test_conversations_stand_next_to_each_other(ask: Asking, runs_dir: Path) -> None:
    rollout_run(runs_dir / "one", reply="Never.")
    rollout_run(runs_dir / "two", reply="Gladly.")
    page = open_sample(ask, compare(ask), "s1")
    assert "Never." in page.words
    assert "Gladly." in page.words
    assert page.words.count("The target failed at turn 2.") == 2


# --- what cannot be compared, and what is not there ------------------------------------------------


def test_runs_that_cannot_be_compared_say_why_and_show_their_samples(
    ask: Asking, runs_dir: Path
) -> None:
    graded_run(runs_dir / "one", ONE, hashes="old-")
    graded_run(runs_dir / "two", TWO, hashes="new-")
    answer = settled(ask, "")
    why = compared(runs_dir / "one", runs_dir / "two").refused
    assert "content" in why
    assert why in answer.words
    assert '<div class="box" role="status"><strong>These runs cannot' in answer.text
    assert str(runs_dir) not in why
    assert len(samples_of(answer)) == 5
    assert "5 have the same id but different content or labels" in answer.words
    page = open_sample(ask, answer, "q1 *")
    assert "Not the same item." in page.words


def test_runs_without_a_column_in_common_are_side_by_side_where_ids_match(
    ask: Asking, runs_dir: Path
) -> None:
    rows_run(runs_dir / "one", Records.from_rows([0, 1], [0.1, 0.9], unit_id=["q1", "zz"]))
    task_run(runs_dir / "two")
    answer = settled(ask, "")
    assert answer.status == 200
    assert "have nothing in common" in answer.words
    assert "different names by eval-toolkit compare A B --pair A=B" in answer.words
    assert samples_of(answer)["q1"][:2] == ["0.100", "1"]
    assert "The runs have no measured column in common" in answer.words


def test_the_chooser_lists_complete_runs(ask: Asking, runs_dir: Path) -> None:
    assert "this folder has 0" in ask("/compare").words
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    assert ask("/compare").text.count("<option") == 2 * 3
    one, two = key_of(ask, "one"), key_of(ask, "two")
    ticked = ask(f"/compare?run={one}&run={two}")
    assert "Reports of one and two" in ticked.words
    (swap,) = re.findall(r'href="([^"]*)">Swap', ticked.text)
    assert "Reports of two and one" in ask(html.unescape(swap)).words


def test_of_ticked_runs_the_older_is_the_baseline(ask: Asking, runs_dir: Path) -> None:
    for name, day in (("new", 3), ("old", 1), ("newest", 4)):
        plain_run(runs_dir / name, name, 0.5, captured_at=f"2026-01-0{day}T00:00:00Z")
    new, old, newest = (f"run={key_of(ask, name)}" for name in ("new", "old", "newest"))
    assert '<a href="/compare">Compare</a>' in ask("/").text  # to where nothing is ticked
    for address in (f"{new}&{old}", f"{old}&{new}"):
        assert "Reports of old and new" in ask(f"/compare?{address}").words
    three = ask(f"/compare?{newest}&{new}&{old}")
    assert "3 runs were selected, but only two can be compared: choose two" in three.words
    assert re.findall(r"selected>(\w+)", three.text) == ["old", "new"]
    one = ask(f"/compare?{newest}")
    assert "Choose two runs" in one.words
    assert re.findall(r"selected>(\w+)", one.text) == ["newest"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("threshold=0,4", "there is no threshold '0,4'"),
        ("threshold=nan", "there is no threshold 'nan'"),
        ("column=nope", "the runs have no column 'nope' in common"),
        ("subject=99", "there is no subject '99'"),
        ("subject=x", "there is no subject 'x'"),
        ("show=<b>", "there is no show '<b>'"),
        ("sort=name", "there is no sort 'name'"),
        ("threshold=0.4&column=exact_match&subject=0&show=a&sort=difference&size=100", ""),
        ("threshold=&column=&subject=&show=&sort=&size=", ""),
    ],
)
def test_what_an_address_asks_in_vain_is_said(
    ask: Asking, runs_dir: Path, query: str, told: str
) -> None:
    graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    a, b = key_of(ask, "one"), key_of(ask, "two")
    answer = ask(f"/compare?a={a}&b={b}&{query}")
    assert answer.status == 200
    assert answer.words.count("Ignored in the filter") == bool(told)
    assert told in answer.words


@pytest.mark.parametrize(
    "address",
    [
        "/compare?a=nope&b=nope",
        "/compare?a=..%2F..%2Fetc&b=%00",
        "/compare/sample?a={one}&b={one}&row=99&row_b=0",
        "/compare/sample?a={one}&b={one}&row=-1&row_b=0",
        "/compare/sample?a={one}&b={one}",
    ],
)
def test_what_is_not_there_is_not_found(ask: Asking, runs_dir: Path, address: str) -> None:
    graded_run(runs_dir / "one", ONE)
    assert ask(address.format(one=key_of(ask, "one"))).status == 404


def test_hostile_names_stay_text(ask: Asking, runs_dir: Path) -> None:
    bad = "<img src=x onerror=alert(1)>"
    graded_run(runs_dir / "one", {bad: 1, "q2": 0})
    graded_run(runs_dir / "two", {bad: 0, "q2": 0})
    for answer in (compare(ask), compare(ask, "&q=%3Cimg"), settled(ask, "&column=%3Cimg%3E")):
        assert answer.status == 200
        assert "<img" not in answer.text
        assert bad in answer.words


def test_an_altered_run_is_not_compared_but_shown(ask: Asking, runs_dir: Path) -> None:
    run = graded_run(runs_dir / "one", ONE)
    graded_run(runs_dir / "two", TWO)
    path = run.path / "results.json"
    path.write_text(path.read_text().replace("0.5", "0.9"))
    answer = settled(ask, "")
    assert "results.json: the file has changed since the run was written" in answer.words
    assert str(runs_dir) not in answer.words
    assert len(samples_of(answer)) == 5
