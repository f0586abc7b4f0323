"""The sample browser: what it shows is what a plain loop over the records finds."""

import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.hostile import SHORT
from tests.support.viewer_driving import (
    TOKEN,
    Asking,
    cell,
    results,
    rollout_run,
    rows_run,
    task_run,
)

from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner import Job, JobResult, to_columns
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.viewer import create_app, state
from eval_toolkit.report.viewer.records import Filter, fitting, records_at, shape_of
from eval_toolkit.report.viewer.sample_browser import read_filter, to_query
from eval_toolkit.report.viewer.store import Store, TooLongError
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records

N = 230


def made(n: int = N) -> tuple[Records, list[dict[str, Any]]]:
    """Records, and the same as plain rows in the order they are stored."""
    rng = np.random.default_rng(7)
    rows = []
    for at in range(n):
        state_of = ("ok", "ok", "ok", "skipped", "error")[int(rng.integers(0, 5))]
        rows.append(
            {
                "unit": f"u{at:03d}",
                "language": "de" if rng.random() < 0.5 else "en",
                "score": round(float(rng.random()), 2) if state_of == "ok" else None,
                "label": float(rng.integers(0, 2)),
                "status": state_of,
                "reason": "" if state_of == "ok" else f"because of {state_of.upper()} {at % 7}",
            }
        )
    records = Records.from_columns(
        {"score": [row["score"] for row in rows], "label": [row["label"] for row in rows]},
        unit_id=[row["unit"] for row in rows],
        slices={"language": [row["language"] for row in rows]},
        status={"score": [row["status"] for row in rows], "label": ["ok"] * n},
        reason={"score": [row["reason"] for row in rows], "label": [""] * n},
    )
    return records, rows


def units(text: str) -> list[str]:
    """The units of a page, in its order."""
    found = re.findall(r'<th scope="row" class="name"><a href="[^"]*">([^<]*)</a>', text)
    return [html.unescape(one) for one in found]


def browse(ask: Asking, **query: object) -> str:
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    answer = ask(f"/runs/{key}/samples?{urlencode(query)}")
    assert answer.status == 200
    return answer.text


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Any, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("runs")
    records, rows = made()
    rows_run(folder / "r1", records)
    store = Store(folder)
    return store, shape_of(store, folder / "r1"), rows


FILTERS = st.builds(
    Filter,
    q=st.sampled_from(["", "u01", "U0", "error 3", "de", "no such text"]),
    slice=st.sampled_from(["", "all", "other"]),
    scorer=st.sampled_from(["", "model"]),
    parts=st.sampled_from([(), (("language", "de"),), (("language", "xx"),), (("none", "x"),)]),
    column=st.sampled_from(["", "score", "label"]),
    status=st.sampled_from(["", "ok", "skipped", "error"]),
    low=st.sampled_from([None, 0.0, 0.25, 0.5]),
    high=st.sampled_from([None, 0.5, 1.0]),
    sort=st.sampled_from(["", "unit", "-unit", "score", "-score", "-label", "none"]),
)


def expected(rows: list[dict[str, Any]], wanted: Filter) -> list[int]:
    """What a plain loop finds."""
    found = [at for at, row in enumerate(rows) if _fits(row, wanted)]
    name = wanted.sort.removeprefix("-")
    if name not in ("unit", "score", "label"):
        return found
    having = [at for at in found if rows[at][name] is not None]
    rest = [at for at in found if rows[at][name] is None]
    sign = -1 if wanted.sort.startswith("-") else 1
    if name == "unit":
        return sorted(having, key=lambda at: rows[at]["unit"], reverse=sign < 0)
    return [*sorted(having, key=lambda at: (sign * rows[at][name], at)), *rest]


def _fits(row: dict[str, Any], wanted: Filter) -> bool:
    text = "\n".join((row["unit"], row["language"], row["reason"])).lower()
    column = {"score": row["score"], "label": row["label"]}.get(wanted.column)
    states = {"score": [row["status"]], "label": ["ok"]}.get(wanted.column, [row["status"], "ok"])
    in_state = (
        all(one == "ok" for one in states) if wanted.status == "ok" else wanted.status in states
    )
    return (
        wanted.q.lower() in text
        and wanted.slice in ("", "all")
        and all(row["language"] == value for name, value in wanted.parts if name == "language")
        and (not wanted.status or in_state)
        and (
            not wanted.column or wanted.low is None or (column is not None and column >= wanted.low)
        )
        and (
            not wanted.column
            or wanted.high is None
            or (column is not None and column <= wanted.high)
        )
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wanted=FILTERS)
def test_finds_what_a_plain_loop_finds(stored: Any, wanted: Filter) -> None:
    store, shape, rows = stored
    assert [int(row) for row in fitting(store, shape, wanted)] == expected(rows, wanted)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.integers(0, N - 1), unique=True, max_size=20))
def test_records_come_in_the_order_asked_for(stored: Any, rows: list[int]) -> None:
    store, shape, plain = stored
    found = records_at(store, shape, rows, ["score"])
    assert [record.row for record in found] == rows
    assert [record.measured[0].value for record in found] == [plain[at]["score"] for at in rows]


@settings(max_examples=50, deadline=None)
@given(wanted=FILTERS)
def test_an_address_says_what_the_filter_is(stored: Any, wanted: Filter) -> None:
    from urllib.parse import parse_qsl

    _, shape, _ = stored
    read, _ = read_filter(dict(parse_qsl(to_query(wanted))), shape)
    again, ignored = read_filter(dict(parse_qsl(to_query(read))), shape)
    assert again == read
    assert ignored == []


def test_pages_together_are_all_records_once(ask: Asking, runs_dir: Path) -> None:
    records, rows = made()
    rows_run(runs_dir / "r1", records)
    found: list[str] = []
    for page in (1, 2, 3, 4, 5):
        found += units(browse(ask, page=page, sort="-score"))
    wanted = Filter(sort="-score")
    assert found == [rows[at]["unit"] for at in expected(rows, wanted)]
    assert len(units(browse(ask, size=200))) == 200
    assert len(units(browse(ask, size=7))) == 50
    last = [rows[at]["unit"] for at in expected(rows, wanted)][200:]
    assert units(browse(ask, page=10**9, sort="-score")) == last


def test_the_pager_leads_to_the_neighbours(ask: Asking, runs_dir: Path) -> None:
    rows_run(runs_dir / "r1", made()[0])
    first, second = browse(ask), browse(ask, page=2)
    assert "1–50 of 230" in first
    assert "page=2" in first
    assert 'rel="prev"' not in first
    assert 'rel="prev"' in second
    assert "page=3" in second


def test_texts_are_found_wherever_they_stand(ask: Asking, runs_dir: Path) -> None:
    texts = {"a1": "The Quick fox", "a2": "a slow dog", "a3": 'says "hello"\nto Émile'}
    records = Records.from_columns({"score": [0.1, 0.2, 0.3]}, unit_id=list(texts))
    rows_run(runs_dir / "r1", records, texts)
    assert units(browse(ask, q="quick FOX")) == ["a1"]
    assert units(browse(ask, q="émile")) == ["a3"]
    assert units(browse(ask, q='"hello"')) == ["a3"]
    assert "The Quick fox" in browse(ask)


@pytest.mark.parametrize(
    ("q", "expected_units"),
    [
        ("capital of france", ["q1", "q2"]),  # one prompt, stored once
        ("OF COURSE", ["q1"]),
        ("no answer in 60 s", ["q2"]),
        ("five", ["q3"]),
        ("is it right", ["q1"]),  # asked by a judge
        ("nowhere", []),
    ],
)
def test_prompts_and_answers_are_searched(
    ask: Asking, runs_dir: Path, q: str, expected_units: list[str]
) -> None:
    task_run(runs_dir / "t1")
    assert units(browse(ask, q=q, sort="unit")) == expected_units


def test_what_stands_on_the_page_is_found_as_it_stands(ask: Asking, runs_dir: Path) -> None:
    odd = 'Η ΟΔΟΣ in İstanbul, a "quote"\tor two'
    outcomes = [
        JobResult(Job("answered", 1, GenerateRequest("?")), RawCompletion(odd)),
        JobResult(
            Job("asked", 1, GenerateRequest([{"role": "user", "content": odd}])), RawCompletion("a")
        ),
        JobResult(
            Job("chosen", 1, LoglikelihoodRequest("?", [" four", odd])),
            RawLoglikelihood([-1.0, -3.0]),
        ),
        JobResult(Job("failed", 1, GenerateRequest("??")), error=ErrorInfo("timeout", odd)),
        JobResult(Job("plain", 1, GenerateRequest(odd)), RawCompletion("b")),
    ]
    ids = [one.job.unit_id for one in outcomes]
    write_run(
        runs_dir / "t1",
        results=results("t1", {"exact_match": cell(0.5)}),
        manifest={"run_id": "t1", "kind": "task", "config": {"kind": "task"}},
        records={("all", "model"): Records.from_columns({"exact_match": [1.0] * 5}, unit_id=ids)},
        tables={RESPONSES: to_columns(outcomes)},
    )
    for q in ("ΟΔΟΣ", "οδοσ in", "İstanbul", 'a "Quote"', '"quote"\tOR', odd):
        assert units(browse(ask, q=q)) == ids, q


def test_a_row_is_found_by_its_letters(ask: Asking, runs_dir: Path) -> None:
    records = Records.from_rows([0, 1], [0.1, 0.9], unit_id=["a", "b"])
    rows_run(runs_dir / "r1", records, texts={"a": "Η ΟΔΟΣ ΕΙΝΑΙ", "b": "İstanbul"})
    assert units(browse(ask, q="ΟΔΟΣ")) == ["a"]
    assert units(browse(ask, q="İstanbul")) == ["b"]


def test_conversations_are_searched(ask: Asking, runs_dir: Path) -> None:
    rollout_run(runs_dir / "s", 'He said "never", Zoë')
    for q in ("you FOOL", "insult me", 'said "never"', "zoë"):
        assert units(browse(ask, q=q)) == ["s1"], q
    assert units(browse(ask, q="absent")) == []


ODD = ["'", '"', "'; DROP TABLE x; --", '" OR 1=1 --', "?", "%", "\x00", "a\x00b", "\\", "🙂", "-"]
ODD += ["1e999", "nan", "9" * 5000]


def test_nothing_in_an_address_is_sql(ask: Asking, runs_dir: Path) -> None:
    rows_run(runs_dir / "r1", made(20)[0])
    everything = [f"u{at:03d}" for at in range(20)]
    for text in ODD:
        for name in ("slice", "scorer", "part.language"):
            assert units(browse(ask, **{name: text})) == [], (name, text)
        assert units(browse(ask, q=text)) == [], text
        names = ("column", "status", "low", "high", "sort", "size", "page", "show", "col")
        found = units(browse(ask, **dict.fromkeys(names, text)))
        assert sorted(found) == everything, text


def test_names_of_columns_are_only_names(ask: Asking, runs_dir: Path) -> None:
    names = ['a"; DROP TABLE x; --', "what?", "'", "slice", "unit_id", "<b>bold</b>", "ünï"]
    records = Records.from_columns(
        {name: [1.0, 2.0] for name in names},
        unit_id=["u1", "u2"],
        slices={name: ["x", "y"] for name in names},
    )
    rows_run(runs_dir / "r1", records)
    for name in names:
        query = {"column": name, "low": "1.5", "status": "ok", "sort": f"-{name}", "q": "u"}
        text = browse(ask, **query)
        assert units(text) == ["u2"], name
        assert units(browse(ask, **{f"part.{name}": "x"})) == ["u1"], name
        assert "<b>bold" not in text


def test_what_cannot_be_is_left_out_of_the_filter_and_said(ask: Asking, runs_dir: Path) -> None:
    rows_run(runs_dir / "r1", made(20)[0])
    text = html.unescape(browse(ask, column="none", low="abc", status="maybe", sort="none"))
    for said in ("no column 'none'", "'abc' is not a number", "no status 'maybe'", "to sort by"):
        assert said in text
    assert "a range needs a column" in browse(ask, low="0.5")


def test_errors_and_skipped_cells_look_like_what_they_are(ask: Asking, runs_dir: Path) -> None:
    rows_run(runs_dir / "r1", made()[0])
    wrong, quiet = browse(ask, status="error"), browse(ask, status="skipped", column="score")
    assert wrong.count('<span class="status-error">') == len(units(wrong)) > 0
    assert quiet.count('<span class="status-skipped">') == len(units(quiet)) > 0
    assert "status-error" not in quiet


def test_a_search_that_takes_too_long_is_stopped_and_says_so(
    ask: Asking, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_run(runs_dir / "r1", made(20)[0])

    def slow(*_: Any) -> Any:
        raise TooLongError("this took longer than 10 s and was stopped")

    monkeypatch.setattr(state, "fitting", slow)
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    answer = ask(f"/runs/{key}/samples?q=x")
    assert answer.status == 503
    assert "took longer than 10 s" in answer.words


def test_the_store_stops_a_long_question(tmp_path: Path) -> None:
    store = Store(tmp_path)
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    with pytest.raises(TooLongError, match=r"longer than 0\.2 s"):
        store.query(tmp_path, endless, [], limit_s=0.2)
    assert store.query(tmp_path, "SELECT 1", []) == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{outside}')",
        "COPY (SELECT 1) TO '{outside}.new'",
        "ATTACH '{outside}.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ],
)
def test_the_store_reads_nothing_outside_its_folder(tmp_path: Path, sql: str) -> None:
    inside, outside = tmp_path / "runs", tmp_path / "secret.txt"
    inside.mkdir()
    outside.write_text("secret")
    with pytest.raises(ArtifactError):
        Store(inside).query(inside, sql.format(outside=outside), [])
    assert [path.name for path in tmp_path.iterdir() if path != inside] == ["secret.txt"]


def test_hostile_texts_come_out_as_text(ask: Asking, runs_dir: Path) -> None:
    texts = list(SHORT.values())[:80]
    ids = [f"{at:02d} {text}" for at, text in enumerate(texts)]
    records = Records.from_columns(
        {"score": [None] * len(ids)},
        unit_id=ids,
        slices={"part": texts},
        status={"score": ["error"] * len(ids)},
        reason={"score": texts},
    )
    rows_run(runs_dir / "r1", records, dict(zip(ids, texts, strict=True)))
    text = browse(ask, size=100)
    assert len(units(text)) == len(ids)
    assert text.count("<script") == text.count('<script src="/static/')
    assert not re.search(r"<(img|svg|iframe|b|object|embed|style)\b", text.split("<main")[1])


def test_a_run_without_records_says_so(ask: Asking, runs_dir: Path) -> None:
    from tests.support.viewer_driving import plain_run

    plain_run(runs_dir / "r1", "r1", 0.5)
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    answer = ask(f"/runs/{key}/samples")
    assert answer.status == 409
    assert "without records" in answer.words


def test_texts_are_shown_searched_and_sorted_by(ask: Asking, runs_dir: Path) -> None:
    columns = {"answer": ["Rome <b>", "Bonn", None], "exact_match": [1.0, 0.5, 0.0]}
    run = rows_run(runs_dir / "r1", Records.from_columns(columns, unit_id=["a", "b", "c"]))
    store = Store(runs_dir)
    shape = shape_of(store, run.path)
    assert (list(shape.numbers), shape.texts) == (["exact_match"], {"answer"})
    page = browse(ask)
    assert '<td class="words" data-label="answer">Rome &lt;b&gt;</td>' in page
    assert '<td class="num" data-label="exact_match">0.500</td>' in page
    assert units(page) == ["c", "b", "a"], "the worst grade first"
    assert units(browse(ask, q="bonn")) == ["b"]
    assert units(browse(ask, sort="answer")) == ["b", "a", "c"]
    assert units(browse(ask, column="answer", status="skipped")) == ["c"]
    ranged = browse(ask, column="answer", low=0.5, sort="unit")
    assert units(ranged) == ["a", "b", "c"]
    assert "a range needs a column of numbers" in ranged
    (key,) = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[:1]
    assert "<dt>answer</dt><dd>Rome &lt;b&gt;</dd>" in ask(f"/runs/{key}/sample?row=0").text


def test_samples_of_two_runs_with_texts(ask: Asking, runs_dir: Path) -> None:
    for name, said in (("r1", "Rome"), ("r2", "Bonn")):
        columns = {"answer": [said] * 2, "exact_match": [1.0, 0.0]}
        rows_run(runs_dir / name, Records.from_columns(columns, unit_id=["a", "b"]))
    a, b = sorted(set(re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)))
    page = ask(f"/compare/sample?a={a}&b={b}&row=0&row_b=0").text
    assert '<td class="words">Rome</td><td class="words">Bonn</td>' in page
    compared = ask(f"/compare?a={a}&b={b}&column=answer").text
    assert '<option value="exact_match"' in compared
    assert '<option value="answer"' not in compared


def test_rows_of_a_sliced_run_are_shown_once(tmp_path: Path) -> None:
    """`score --by` keeps the slice of all rows beside its parts; a row is in two of them."""
    records, rows = made(8)
    parts = {
        ("all", "model"): records,
        **{
            (f"language={name}", "model"): records.take(
                np.array([row["language"] == name for row in rows])
            )
            for name in ("de", "en")
        },
    }
    write_run(tmp_path / "a", results=results("a", {}), manifest={"run_id": "a"}, records=parts)
    ask = Asking(create_app(tmp_path, token=TOKEN))
    key = re.findall(r'href="/runs/([^"/?]+)"', ask("/").text)[0]
    once = ask(f"/runs/{key}/samples")
    assert sorted(units(once.text)) == [row["unit"] for row in rows]
    every = ask(f"/runs/{key}/samples?slice=")
    assert sorted(units(every.text)) == sorted(2 * units(once.text))
    # Links keep what was chosen.
    sorts = re.findall(rf'href="(/runs/{key}/samples\?[^"]*sort=[^"]*)"', every.text)
    assert sorts
    assert all(link.endswith("slice=") for link in sorts)
