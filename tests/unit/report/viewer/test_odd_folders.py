"""Runs that were altered, are odd, huge, in the way or gone: pages say so and go on."""

import copy
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.support.shown_blocks import notes, replies
from tests.support.viewer_driving import (
    Asking,
    cell,
    plain_run,
    results,
    rollout_run,
    rows_run,
    task_run,
)

from eval_toolkit._internal import tables as _tables
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.artifacts import write_json_strict
from eval_toolkit.errors import ArtifactError, MissingExtraError
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner import Job, JobResult, to_columns
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.viewer import integrity, pairs, rendering, run_list, runs_page, statistics
from eval_toolkit.report.viewer.records import records_at, shape_of
from eval_toolkit.report.viewer.run_list import RunList
from eval_toolkit.report.viewer.statistics import Statistics, Told
from eval_toolkit.report.viewer.store import Store, pattern
from eval_toolkit.report.viewer.unit import blocks_of
from eval_toolkit.rollouts import display
from eval_toolkit.runs import Run, selected_units, write_run
from eval_toolkit.runs.blocks import Facts, Group, Text, flattened
from eval_toolkit.scorecards import Records


def key_of(ask: Asking, run_id: str = "") -> str:
    found = re.findall(rf'href="/runs/([a-z0-9-]+)">{run_id}', ask("/").text)
    return str(found[0])


def scored(folder: Path, scores: list[float], **slices: list[str]) -> Run:
    columns = {"label": [float(at % 2) for at in range(len(scores))], "score": scores}
    units = [f"u{at}" for at in range(len(scores))]
    return rows_run(folder, Records.from_columns(columns, unit_id=units, slices=slices))


# --- altered ----------------------------------------------------------------------------------------


def test_the_list_names_a_run_whose_results_were_altered_and_keeps_its_number_to_itself(
    ask: Asking, runs_dir: Path
) -> None:
    path = plain_run(runs_dir / "r1", "r1", 0.5).path / "results.json"
    assert "0.500" in ask("/").words
    path.write_text(path.read_text().replace("0.5", "0.9"))
    words = ask("/?state=altered").words
    assert "altered results.json: the file has changed" in words
    assert "0.900" not in words
    assert "No run matches" in ask("/?state=complete").words


def test_every_page_of_a_run_says_that_its_records_were_altered_and_the_list_knows_then(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "_WAIT_S", 60.0)
    one, other = (scored(runs_dir / name, [0.1, score]) for name, score in (("a", 0.9), ("b", 0.8)))
    a, b = key_of(ask, "a"), key_of(ask, "b")
    addresses = [f"/runs/{a}/samples", f"/runs/{a}/sample?row=0", f"/compare?a={a}&b={b}"]
    addresses.append(f"/compare/sample?a={a}&b={b}&row=0&row_b=0")
    for address in addresses:
        assert "was altered" not in ask(address).words
    shutil.copy(other.path / "records.parquet", one.path / "records.parquet")
    for address in addresses:
        assert re.search(
            "(This run|a) was altered after it was written. records.parquet: the file has changed",
            ask(address).words,
        ), address
    assert "altered records.parquet: the file has changed" in ask("/").words


# --- odd --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("name", ["results.json", "manifest.json"])
def test_a_number_that_is_too_large_keeps_no_other_run_from_being_listed(
    ask: Asking, runs_dir: Path, name: str, digits: int
) -> None:
    plain_run(runs_dir / "r1", "r1", 0.5)
    path = plain_run(runs_dir / "r2", "r2", 0.5).path / name
    place = '"value": 0.5' if name == "results.json" else '"status"'
    more = '"value": ' if name == "results.json" else '"n": '
    rest = "" if name == "results.json" else ', "status"'
    path.write_text(path.read_text().replace(place, f"{more}1{'0' * digits}{rest}", 1))
    for sort in ("value", "n"):
        answer = ask(f"/?sort={sort}")
        assert answer.status == 200
        assert {"r1", "r2"} <= set(re.findall(r'href="/runs/[^"]+">([^<]*)</a>', answer.text))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("name", ["results.json", "manifest.json", "run.lock"])
def test_a_pipe_in_a_run_does_not_hold_the_list_up(runs_dir: Path, name: str) -> None:
    run = plain_run(runs_dir / "r1", "r1", 0.5)
    if name == "run.lock":
        (run.path / "manifest.json").write_text('{"run_id": "r1", "status": "running"}')
    else:
        (run.path / name).unlink()
    os.mkfifo(run.path / name)
    found: list[str] = []
    looks = threading.Thread(
        target=lambda: found.extend(one.state for one in RunList(runs_dir).runs()), daemon=True
    )
    looks.start()
    looks.join(600)
    assert not looks.is_alive()
    assert found == ["incomplete"]


def test_who_looks_again_holds_nobody_up(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_run(runs_dir / "r1", "r1", 0.5)
    runs = RunList(runs_dir)
    (known,) = runs.runs()
    monkeypatch.setattr(run_list, "_LOOK_AGAIN_S", -1.0)
    looking, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> list[Path]:
        looking.set()
        go_on.wait(600)
        return []

    monkeypatch.setattr(run_list, "walk_runs", slow)
    other = threading.Thread(target=runs.runs)
    other.start()
    try:
        assert looking.wait(600)
        assert runs.runs() == [known]
        assert runs.run(known.key) == known
    finally:
        go_on.set()
        other.join()


def test_a_known_run_is_found_without_a_walk_and_not_read_again(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_run(runs_dir / "r1", "r1", 0.5)
    runs = RunList(runs_dir)
    (known,) = runs.runs()
    read: list[Path] = []
    monkeypatch.setattr(run_list, "_LOOK_AGAIN_S", -1.0)
    monkeypatch.setattr(run_list, "is_run", read.append)
    assert runs.runs()[0] is known
    monkeypatch.setattr(run_list, "walk_runs", None)  # nothing that could be called
    assert runs.run(known.key) is known
    assert read == []


def test_a_long_list_has_pages(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_page, "_PER_PAGE", 2)
    for at in range(5):
        plain_run(runs_dir / f"r{at}", f"r{at}", 0.5)
    address, found = "/?sort=run&q=r", []
    while address:
        answer = ask(address)
        found += re.findall(r'href="/runs/[^"]+">([^<]*)</a>', answer.text)
        following = re.search(r'rel="next" href="([^"]+)"', answer.text)
        address = following[1].replace("&amp;", "&") if following else ""
    assert found == [f"r{at}" for at in range(5)]
    assert "5–5 of 5" in answer.words


def test_a_folder_whose_name_is_no_text_says_so(ask: Asking, runs_dir: Path) -> None:
    run = scored(runs_dir / "r1", [0.1, 0.9])
    try:
        run.path.rename(runs_dir / os.fsdecode(b"r\xff"))
    except OSError:
        pytest.skip("this file system has no such names")
    answer = ask(f"/runs/{key_of(ask)}/samples")
    assert answer.status == 409
    assert "name is not UTF-8" in answer.words
    with pytest.raises(ArtifactError, match="rename it"):
        pattern(Path("r\udcff"))


# --- gone -------------------------------------------------------------------------------------------


def test_what_was_removed_a_moment_ago_is_not_found(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [scored(runs_dir / name, [0.1, 0.9]) for name in ("a", "b")]
    a, b = key_of(ask, "a"), key_of(ask, "b")
    monkeypatch.setattr(run_list, "_LOOK_AGAIN_S", 3600.0)
    ask("/")
    shutil.rmtree(runs[0].path)
    for address in ("", "/samples", "/sample?row=0", "/live", "/report.html"):
        assert ask(f"/runs/{a}{address}").status == 404, address
    for address in (f"/compare?a={a}&b={b}", f"/compare/sample?a={a}&b={b}&row=0&row_b=0"):
        assert ask(address).status == 404, address
    # also where it goes between two looks within one request
    monkeypatch.setattr(integrity, "written", lambda _: (runs_dir / "gone").stat())
    assert ask(f"/runs/{b}").status == 404


def test_the_chart_library_that_is_not_installed_is_said(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingExtraError("charts need the extra 'report'")

    monkeypatch.setattr(rendering, "charts_file", missing)
    answer = ask("/static/charts.js")
    assert (answer.status, "the extra 'report'" in answer.words) == (409, True)


# --- huge -------------------------------------------------------------------------------------------


def test_parts_with_long_values_are_typed_and_not_chosen(ask: Asking, runs_dir: Path) -> None:
    values = ["x" * 10_000, "short"]
    scored(runs_dir / "r1", [0.1, 0.9], topic=values, kind=["one", "two\nlines"])
    samples = f"/runs/{key_of(ask)}/samples"
    answer = ask(samples)
    assert len(answer.body) < 20_000
    assert '<input type="text" name="part.topic"' in answer.text
    assert ">u1</a>" in ask(f"{samples}?part.topic=short").text
    assert ">u0</a>" not in ask(f"{samples}?part.topic=short").text
    long = ask(f"{samples}?part.topic={'x' * 10_000}")
    assert "all but the first 500 characters of part.topic" in long.words
    assert len(long.body) < 20_000
    # a browser sends the line end of an option in two signs
    lines = ask(f"{samples}?part.kind={quote('two' + chr(13) + chr(10) + 'lines')}").text
    assert (">u1</a>" in lines, ">u0</a>" in lines) == (True, False)


def asked_run(folder: Path, answers: list[str]) -> Run:
    outcomes = [
        JobResult(Job("q1", 1, GenerateRequest("Why?"), f"s{at}"), RawCompletion(answer))
        for at, answer in enumerate(answers)
    ]
    return write_run(
        folder,
        results=results(folder.name, {"exact_match": cell(0.5)}),
        manifest={"run_id": folder.name, "kind": "task"},
        records={("all", "model"): Records.from_columns({"exact_match": [1.0]}, unit_id=["q1"])},
        tables={RESPONSES: to_columns(outcomes)},
    )


def test_of_many_and_long_answers_the_beginnings_are_shown(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected_units, "_REQUESTS_AT_MOST", 3)
    monkeypatch.setattr(selected_units, "_CELL_BYTES", 1000)
    monkeypatch.setattr(selected_units, "_BEGINNING", 50)
    run = asked_run(runs_dir / "r1", ["short", 'a "quoted" ' + "word " * 500, "three", "four"])
    store = Store(runs_dir)
    shape = shape_of(store, run.path)
    (record,) = records_at(store, shape, [0], [])
    asked, hidden = blocks_of(store, run, record)
    assert isinstance(asked, Group)
    found = [one for one in asked.blocks if isinstance(one, Group)]
    long = ('a "quoted" ' + "word " * 500)[:50] + "… (2,511 characters, the first 50 are shown)"
    told = [[one for one in group.blocks if isinstance(one, Text)] for group in found]
    assert [(one.title, texts[-1].text) for one, texts in zip(found, told, strict=True)] == [
        ("s0", "short"),
        ("s1", long),
        ("s2", "three"),
    ]
    assert [texts[0].text for texts in told] == ["Why?"] * 3
    assert Facts((("too long", "to be shown in full"),)) in list(flattened(found[1].blocks))
    assert hidden.text == "1 more requests are in responses.parquet."
    words = ask(f"/runs/{key_of(ask)}/sample?row=0").words
    assert "1 more requests are in responses.parquet" in words


def test_answers_that_do_not_fit_into_memory_leave_the_rest_of_the_page(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ArtifactError("responses.parquet: failed to allocate data")

    task_run(runs_dir / "r1")
    monkeypatch.setattr(selected_units._Batch, "_cells", fails)
    answer = ask(f"/runs/{key_of(ask)}/sample?row=0")
    assert answer.status == 200
    assert "cannot be read: responses.parquet: failed to allocate" in answer.words
    assert "exact_match 1" in answer.words


def test_of_a_long_conversation_the_first_turns_are_shown_and_all_are_counted(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rollout_run(runs_dir / "r1", reply="No. " * 10)
    store = Store(runs_dir)
    shape = shape_of(store, run.path)
    (record,) = records_at(store, shape, [0], [])
    whole = blocks_of(store, run, record)
    monkeypatch.setattr(display, "_TURNS_AT_MOST", 2)
    monkeypatch.setattr(selected_units, "_BEGINNING", 7)
    talk = blocks_of(store, run, record)
    assert [one.text for one in replies(talk)] == [
        "No. No.… (40 characters, the first 7 are shown)",
        "You fool.",
    ]
    for one in (whole, talk):  # a turn, then two that follow it, the first of which fails
        assert "The target failed at turn 2. 3 turns in 2 branches" in notes(one)[0]


def test_more_pairs_than_can_be_kept_are_refused_and_not_cut(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        scored(runs_dir / name, [0.1, 0.9])
    address = f"/compare?a={key_of(ask, 'a')}&b={key_of(ask, 'b')}"
    monkeypatch.setattr(pairs, "_AT_MOST", 1)
    answer = ask(address)
    assert answer.status == 200
    assert "more than 1 pairs of records in common" in answer.words
    monkeypatch.setattr(pairs, "_AT_MOST", 2)
    assert "2 records in common" in ask(address).words


# --- statistics that failed -------------------------------------------------------------------------


def test_a_comparison_that_failed_unexpectedly_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [Told(refused="killed", bug=True), Told(refused="not comparable"), Told(lead=["no"])]
    monkeypatch.setattr(statistics, "compared", lambda *_: answers.pop(0))
    kept = Statistics()

    def asked() -> Any:
        return kept.of("key", Path("a"), Path("b"), wait_s=60)

    assert asked().refused == "killed"
    assert asked().refused == "not comparable"
    assert asked().refused == "not comparable"  # that is no accident: it is kept


def test_a_comparison_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_TIMEOUT_S", 0.001)
    assert "took longer than" in statistics._apart(tmp_path, tmp_path).refused


# --- files that are none ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_stands_in_the_place_of_a_table_blocks_nothing_and_shows_nothing(
    ask: Asking, runs_dir: Path, tmp_path: Path, kind: str
) -> None:
    odd, plain = scored(runs_dir / "odd", [0.1, 0.9]), scored(runs_dir / "plain", [0.2, 0.8])
    table = odd.path / "records.parquet"
    elsewhere = table.rename(tmp_path / "elsewhere.parquet")
    if kind == "pipe":
        os.mkfifo(table)
    elif kind == "link":
        table.symlink_to(elsewhere)
    else:
        table.mkdir()
    reason = {"pipe": "a pipe, not a reg", "link": "is a link", "folder": "a folder, not a reg"}
    for _ in range(6):  # more often than the viewer has connections
        words = ask(f"/runs/{key_of(ask, 'odd')}/samples").words
        assert reason[kind] in words
        assert "u0" not in words
    assert "u0" in ask(f"/runs/{key_of(ask, 'plain')}/samples").words
    assert plain.path.name == "plain"
    with pytest.raises(ArtifactError, match=reason[kind]):
        pattern(table)


def test_a_slice_with_a_name_that_no_chart_can_hold(ask: Asking, runs_dir: Path) -> None:
    for name in ("a", "b"):
        scored(runs_dir / name, [0.1, 0.9] * 6, odd=["x\ufffe", "y\x00\uffff"] * 6)
    a, b = key_of(ask, "a"), key_of(ask, "b")
    for address in (f"/runs/{a}", f"/runs/{a}/samples", f"/compare?a={a}&b={b}"):
        assert ask(address).status == 200
    assert "⟨U+FFFE⟩" in ask(f"/runs/{a}").words + ask(f"/runs/{a}/samples").words


def test_values_that_are_no_numbers_are_told_and_no_bug(ask: Asking, runs_dir: Path) -> None:
    """Whoever changed the table sealed the run again."""
    run = scored(runs_dir / "a", [0.1, 0.9])
    path = run.path / "records.parquet"
    table = _tables.read_table(path)
    table["score"] = np.array(["{}"] * len(table["score"]), dtype=object)
    path.unlink()
    _tables.write_table(table, path)
    manifest = copy.deepcopy(dict(run.manifest))
    manifest["artifacts"][path.name]["sha256"] = sha256_file(path)
    write_json_strict(seal_manifest(manifest), run.path / "manifest.json")
    key = key_of(ask, "a")
    for address in (f"/runs/{key}/samples", f"/runs/{key}/sample?row=0"):
        answer = ask(address)
        assert answer.status == 409
        assert "the table is malformed: ValueError: could not convert string" in answer.words
