"""The viewer in a browser: its main pages, a million records, a comparison, a run under way."""

import queue
import re
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import duckdb
import pytest
from tests.browser import ordinary_runs, serving
from tests.browser.conftest import Opens
from tests.browser.driving import DESK, PHONE, Page
from tests.browser.serving import MILLION, Served, served

from eval_toolkit._internal.words import number
from eval_toolkit.report.metric_groups import displayed
from eval_toolkit.report.run_names import named_text
from eval_toolkit.report.viewer.serving import _opened as opening
from eval_toolkit.runs import Run


@pytest.fixture(scope="session")
def viewer(runs: Path) -> Iterator[Served]:
    """A viewer of the ordinary runs."""
    with served(runs) as answering:
        yield answering


@pytest.fixture
def visited(opened: Opens, viewer: Served) -> Callable[..., Page]:
    """Open the viewer's list of runs by the address with the token."""

    def visit(**options: object) -> Page:
        return opened(viewer.address, allowed=[viewer.origin + "/"], **options)

    return visit


def href_of(page: Page, run_id: str) -> str:
    """Return the address of a run's page, as the list gives it."""
    link = page.on.locator("table.runs th a", has_text=re.compile(f"^{re.escape(run_id)}$"))
    return str(link.get_attribute("href"))


class TestMainPages:
    def test_they_fit_and_everybody_can_use_them(
        self, visited: Callable[..., Page], viewer: Served
    ) -> None:
        page = visited()
        keys = {name: href_of(page, name) for name in ordinary_runs.KINDS}
        pages = ["/", *(keys[name] for name in ("rows", "rollouts"))]
        pages += [f"{keys[name]}/samples" for name in ("rows", "choices", "rollouts")]
        pages += [f"{keys[name]}/sample?row=0" for name in ("rows", "choices", "open", "rollouts")]
        pages.append(f"/compare?a={key(keys['choices'])}&b={key(keys['choices_b'])}")
        for target in pages:
            page.looks("light", DESK)
            page.goto(viewer.origin + target)
            page.unfold()
            assert (target, page.status, page.wider()) == (target, 200, "")
            assert (target, page.violations()) == (target, "")
            page.looks("dark", PHONE)
            assert (target, page.wider()) == (target, "")
            assert (target, page.violations("color-contrast")) == (target, "")

    def test_the_token_leaves_the_address(self, visited: Callable[..., Page]) -> None:
        page = visited()
        assert "token" not in page.on.url
        assert page.status == 200
        # A link that leaves the viewer must not tell where it was.
        assert page.evaluate("() => document.cookie") == ""

    def test_a_private_file_leads_in(
        self, opened: Opens, viewer: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: queue.Queue[str] = queue.Queue()
        monkeypatch.setattr(webbrowser, "open", told.put)
        with opening(viewer.address):
            address = told.get(timeout=600)
            page = opened(address, allowed=[viewer.origin + "/", address])
            page.on.locator("table.runs").wait_for()

    def test_a_key_in_a_filter_leaves_the_focus_where_it_is(
        self, visited: Callable[..., Page]
    ) -> None:
        page = visited()
        page.on.evaluate("() => { window.isTheSame = true; }")
        page.on.locator("select[name=kind]").focus()
        page.on.keyboard.press("ArrowDown")
        page.on.wait_for_timeout(300)
        focus = "() => window.isTheSame === true && document.activeElement.name"
        assert page.evaluate(focus) == "kind"
        assert page.on.locator("select[name=kind]").input_value() != ""

    def test_the_list_sorts_and_filters(self, visited: Callable[..., Page]) -> None:
        page = visited(scripts=False)
        names = "table.runs tbody th a"
        assert sorted(page.on.locator(names).all_inner_texts()) == sorted(ordinary_runs.KINDS)
        page.on.locator("thead a.sort", has_text=re.compile("^run$")).click()
        assert page.on.locator(names).all_inner_texts() == sorted(ordinary_runs.KINDS)
        page.on.locator("thead a.sort", has_text=re.compile("^run$")).click()
        assert page.on.locator(names).all_inner_texts() == sorted(ordinary_runs.KINDS)[::-1]
        page.on.locator("input[type=search]").fill("choices")
        page.on.locator("button", has_text="Show").click()
        assert page.on.locator(names).all_inner_texts() == ["choices_b", "choices"]

    def test_samples_worth_reading_come_first_in_columns_to_choose(
        self, visited: Callable[..., Page], viewer: Served
    ) -> None:
        page = visited(scripts=False)
        page.goto(viewer.origin + href_of(page, "open") + "/samples")
        heads = page.on.locator("table.samples thead th").all_inner_texts()
        assert [head.split()[0] for head in heads[:5]] == [
            *("unit", "verdict", "input", "answer", "reference")
        ]
        first = page.on.locator("table.samples tbody tr").first.inner_text()
        assert "wrong" in first
        assert "What is " in first
        page.on.locator(".cases a", has_text="right").click()
        chips = page.on.locator("td.verdicts").all_inner_texts()
        assert set(chips) == {"right"}
        page.on.locator("summary", has_text="Columns").click()
        for name in ("input", "part.subject"):
            page.on.locator(f"input[value='{name}']").uncheck()
        page.on.locator("button", has_text="Show").click()
        heads = page.on.locator("table.samples thead th").all_inner_texts()
        assert [head.split()[0] for head in heads[:4]] == ["unit", "verdict", "answer", "reference"]
        assert set(page.on.locator("td.verdicts").all_inner_texts()) == {"right"}

    def test_a_run_page_draws_its_charts(
        self, visited: Callable[..., Page], viewer: Served
    ) -> None:
        page = visited()
        page.goto(viewer.origin + href_of(page, "rows"))
        page.scroll_through()
        figures = page.on.locator("figure[data-chart]:visible").count()
        assert figures > 2
        assert page.on.locator(".vega-embed svg.marks:visible").count() == figures

    @pytest.mark.parametrize("name", ["open", "rollouts", "rows"])
    def test_samples_lead_to_their_pages_without_scripts(
        self, visited: Callable[..., Page], viewer: Served, name: str
    ) -> None:
        page = visited(scripts=False)
        page.goto(viewer.origin + href_of(page, name) + "/samples")
        link = page.on.locator("table.samples tbody th a").first
        unit = link.inner_text()
        link.click()
        assert unit in page.on.locator("h1").inner_text()
        said = {"open": "What is ", "rollouts": "Growl at guest", "rows": "message number"}
        assert said[name] in page.on.locator("main").inner_text()
        page.on.locator("a[rel=next]").first.click()
        assert unit not in page.on.locator("h1").inner_text()


def key(href: str) -> str:
    return href.removeprefix("/runs/")


@pytest.fixture(scope="session")
def large(made: Callable[..., Path]) -> Path:
    """A folder with a run of a million records."""
    return made("large", lambda folder: serving.million(folder / "million"))


@pytest.fixture(scope="session")
def large_viewer(large: Path) -> Iterator[Served]:
    """A viewer of it."""
    with served(large) as answering:
        yield answering


class TestMillion:
    """Pages of a run of a million records show what duckdb finds in its file."""

    def found(self, large: Path, where: str, order: str = "") -> list[str]:
        """Return ids that fit, in order."""
        source = str(large / "million" / "records.parquet")
        with duckdb.connect() as connection:
            rows = connection.execute(
                f"SELECT unit_id FROM read_parquet(?) WHERE {where} ORDER BY {order} unit_id",  # noqa: S608
                [source],
            ).fetchall()
        return [unit for (unit,) in rows]

    def shown(self, page: Page) -> tuple[list[str], str]:
        units = page.on.locator("table.samples tbody th a").all_inner_texts()
        return units, page.on.locator(".pager .meta").first.inner_text()

    def follow(self, page: Page, link: Any) -> None:
        """Click, and wait for the page that comes: its rows are read at once."""
        before = page.on.url
        link.click()
        page.on.wait_for_url(lambda url: url != before)

    def test_it_pages_to_the_last_record(self, opened: Opens, large_viewer: Served) -> None:
        page = opened(large_viewer.address, allowed=[large_viewer.origin + "/"])
        page.goto(f"{large_viewer.origin}{href_of(page, 'million')}/samples")
        errors = [f"u{1000 * n + 7:07d}" for n in range(50)]
        assert self.shown(page) == (errors, f"1–50 of {MILLION:,}"), "what broke comes first"
        self.follow(page, page.on.locator(".cases a", has_text="by id"))
        assert self.shown(page) == ([f"u{n:07d}" for n in range(50)], f"1–50 of {MILLION:,}")
        self.follow(page, page.on.locator("a[rel=next]").first)
        assert self.shown(page)[0] == [f"u{n:07d}" for n in range(50, 100)]
        self.follow(page, page.on.locator(".pager a", has_text="Last").first)
        last = [f"u{n:07d}" for n in range(MILLION - 50, MILLION)]
        assert self.shown(page) == (last, f"{MILLION - 49:,}–{MILLION:,} of {MILLION:,}")
        self.follow(page, page.on.locator("a[rel=prev]").first)
        assert self.shown(page)[0][0] == f"u{MILLION - 100:07d}"
        page.on.locator("input[name=page]").fill("12345")
        self.follow(page, page.on.locator("button", has_text="Go"))
        assert self.shown(page)[0][0] == f"u{12344 * 50:07d}"
        assert page.wider() == ""

    @pytest.mark.parametrize(
        ("query", "where", "order"),
        [
            ({"q": "TIMEOUT after 70"}, """contains("score.reason", 'timeout after 70')""", ""),
            ({"q": "u00123"}, "contains(unit_id, 'u00123')", ""),
            ({"column": "score", "status": "error"}, """"score.status" = 'error'""", ""),
            (
                {"part.language": "de", "column": "score", "low": "0.25", "high": "0.2501"},
                """"part:language" = 'de' AND score BETWEEN 0.25 AND 0.2501""",
                "",
            ),
            (
                {"sort": "-score", "q": "00777"},
                "contains(unit_id, '00777')",
                "score DESC NULLS LAST,",
            ),
            ({"q": "100%_'; DROP TABLE records; --"}, "false", ""),
        ],
    )
    def test_search_and_filters_find_what_duckdb_finds(
        self,
        opened: Opens,
        large_viewer: Served,
        large: Path,
        query: dict[str, str],
        where: str,
        order: str,
    ) -> None:
        page = opened(large_viewer.address, allowed=[large_viewer.origin + "/"], scripts=False)
        address = f"{large_viewer.origin}{href_of(page, 'million')}/samples"
        query = {"sort": "unit", **query}
        page.goto(f"{address}?{urlencode(query)}")
        expected = self.found(large, where, order)
        if not expected:
            assert "No record matches" in page.on.locator("main").inner_text()
            return
        units, told = self.shown(page)
        assert told == f"1–{min(50, len(expected))} of {len(expected):,}"
        assert units == expected[:50]
        n_pages = -(-len(expected) // 50)
        page.goto(f"{address}?{urlencode({**query, 'page': n_pages})}")
        assert self.shown(page)[0] == expected[(n_pages - 1) * 50 :]

    def test_the_form_asks_for_the_same(
        self, opened: Opens, large_viewer: Served, large: Path
    ) -> None:
        page = opened(large_viewer.address, allowed=[large_viewer.origin + "/"])
        page.goto(f"{large_viewer.origin}{href_of(page, 'million')}/samples")
        page.on.locator("select[name='part.language']").select_option("fr")
        page.on.locator("summary", has_text="By value").click()
        page.on.locator("select[name=column]").select_option("score")
        page.on.locator("select[name=status]").select_option("error")
        page.on.locator("button", has_text="Show").click()
        expected = self.found(large, """"score.status" = 'error' AND "part:language" = 'fr'""")
        assert self.shown(page) == (expected[:50], f"1–50 of {len(expected):,}")


class TestComparison:
    @pytest.mark.parametrize("names", [("choices", "choices_b"), ("rows", "rows_b")])
    def test_it_shows_what_compare_prints(
        self, visited: Callable[..., Page], viewer: Served, runs: Path, names: tuple[str, str]
    ) -> None:
        command = [sys.executable, "-m", "eval_toolkit", "compare", *(str(runs / n) for n in names)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        page = visited()
        a, b = (key(href_of(page, name)) for name in names)
        page.goto(f"{viewer.origin}/compare?a={quote(a)}&b={quote(b)}")
        page.on.locator("#statistics .answer").wait_for()
        lines = printed.splitlines()
        named = re.sub(r"B - A = ([^;]*)", r"\1 (B minus A)", lines[0])
        named = re.sub(r"\b[AB]\b", lambda side: names[side[0] == "B"], named)
        named = re.sub(r"\b[a-z]+_[a-z]+\b|\bbrier\b", lambda name: displayed(name[0]), named)
        reply = "↑ Yes" if " beats " in named else "= Not clearly"
        assert page.on.locator("#statistics .said").inner_text() == f"{reply}: {named}"
        rows_of, ends = [], 0
        for head in [at for at, line in enumerate(lines) if set(line) == {"-", " "}]:
            ends = (lines.index("", head) if "" in lines[head:] else len(lines)) + 1
            rows_of += [re.split(r" {2,}", line.strip()) for line in lines[head + 1 : ends - 1]]
        rows = page.on.locator("#statistics tbody tr").all()
        cells = [[one.inner_text() for one in row.locator("th, td").all()] for row in rows]
        # The page puts verdict and difference first, and the interval beside the difference.
        shown = [re.split(r" (?=\[)|\t", "\t".join(filter(None, row))) for row in cells]
        assert [sorted(row) for row in shown] == [sorted(row) for row in rows_of]
        assert all(row[0] == printed[0] for row, printed in zip(shown, rows_of, strict=True))
        assert any(row[0] in ("accuracy", "roc_auc") for row in rows_of)
        for note in lines[ends:]:
            assert named_text(note, names) in page.on.locator("#statistics").inner_text()

    def test_two_ticks_lead_to_it(self, visited: Callable[..., Page]) -> None:
        page = visited(scripts=False)
        for name in ("choices", "choices_b"):
            page.on.locator(f"input[type=checkbox][value='{key(href_of(page, name))}']").check()
        page.on.locator("button", has_text="Compare the two").click()
        told = page.on.locator("main .lead a").all_inner_texts()
        assert set(told) >= {"choices", "choices_b"}

    def test_samples_stand_side_by_side(self, visited: Callable[..., Page], viewer: Served) -> None:
        page = visited()
        a, b = (key(href_of(page, name)) for name in ("choices", "choices_b"))
        page.goto(f"{viewer.origin}/compare?a={a}&b={b}")
        tabs = page.on.locator("nav.cases a").all_inner_texts()
        # Wrong are the items 1, 5, 9 … of 40 in A and 1, 9, 17 … in B.
        assert any(
            tab.startswith("choices right, choices_b wrong") and tab.endswith("0") for tab in tabs
        ), tabs
        assert any(
            tab.startswith("choices_b right, choices wrong") and tab.endswith("5") for tab in tabs
        ), tabs
        page.on.locator("nav.cases a", has_text="choices_b right, choices wrong").click()
        units = page.on.locator("table.samples tbody th a").all_inner_texts()
        expected = ["q05", "q13", "q21", "q29", "q37"]
        assert sorted(unit.rpartition("/")[2] for unit in units) == expected
        page.on.locator("nav.cases a", has_text="all").first.click()
        page.on.locator("nav.cases a[aria-current]", has_text="largest difference").wait_for()
        units = page.on.locator("table.samples tbody th a").all_inner_texts()
        assert sorted(unit.rpartition("/")[2] for unit in units[:5]) == expected
        page.looks("dark", PHONE)
        width = page.on.locator("td.case").first.evaluate("(e) => e.getBoundingClientRect().right")
        assert width <= PHONE


def test_a_live_page_follows_a_run_until_it_is_complete(opened: Opens, tmp_path: Path) -> None:
    n = 12
    folder, gate = tmp_path / "runs" / "slow", tmp_path / "gate.txt"
    folder.parent.mkdir()
    gate.write_text("3")
    command = [sys.executable, "-m", "tests.browser.ordinary_runs", str(folder), str(n), str(gate)]
    with served(folder.parent) as viewer, subprocess.Popen(command) as process:
        while not (folder / "journal.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.02)
        page = opened(viewer.address, allowed=[viewer.origin + "/"])
        assert "running" in page.on.locator("table.runs tbody").inner_text()
        page.goto(viewer.origin + href_of(page, "slow"))
        page.evaluate("() => { window.stayed = true; }")
        for allowed in (3, 7, 8):
            gate.write_text(str(allowed))
            page.on.locator(f"[role=progressbar][aria-valuenow='{allowed}']").wait_for()
            assert f"{allowed} of {n}" in page.on.locator(".said").first.inner_text()
        assert page.evaluate("() => window.stayed"), "it was loaded anew while the run went on"
        assert page.wider() == ""
        assert page.violations() == ""
        gate.write_text(str(n))
        assert process.wait(600) == 0
        page.on.locator("figure[data-chart]").first.wait_for()
        assert page.on.locator("h1").inner_text() == "slow"
        cell = Run.open(folder).results["by_slice"]["Sums"]["by_scorer"]["hasty"]["exact_match"]
        assert number(cell["value"]) in page.on.locator("main").inner_text()


class TestRefused:
    @pytest.mark.parametrize(
        "host",
        [
            "pwned.invalid",
            "pwned.invalid:{port}",
            "127.0.0.1",
            "127.0.0.1:1",
            "localhost.pwned.invalid:{port}",
            "127.0.0.1:{port}.pwned.invalid",
            "[::1]:{port}",
            "",
            "127.0.0.1:{port}@pwned.invalid",
        ],
    )
    def test_a_foreign_host(self, viewer: Served, host: str) -> None:
        status, body = viewer.ask("/", host=host.format(port=viewer.port))
        assert status in (400, 421)
        assert "choices" not in body

    @pytest.mark.parametrize("token", [None, "wrong", "0" * 43, "%00", "null"])
    def test_no_token(self, viewer: Served, token: str | None) -> None:
        for target in ("/", "/compare", "/static/style.css", "/runs/x/samples"):
            status, body = viewer.ask(target, token=token)
            assert (status, "choices" in body) == (403, False)

    @pytest.mark.parametrize(
        "target",
        [
            "/../../../../etc/passwd",
            "/static/../app.py",
            "/static/..%2fapp.py",
            "/static/%2e%2e/app.py",
            "/static/%2fetc%2fpasswd",
            "/static//etc/passwd",
            "/runs/..",
            "/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
            "/runs/../../../../etc/passwd/samples",
            "/runs/%2fetc%2fpasswd/report.html",
            "/runs/rows%00/samples",
            "/runs/..%5c..%5cwindows/sample",
            "/compare?a=../../etc/passwd&b=%2fetc%2fpasswd",
            "//etc/passwd",
        ],
    )
    def test_a_path_out_of_the_folder(self, viewer: Served, target: str) -> None:
        status, body = viewer.ask(target)
        assert status in (400, 404)
        assert "root:" not in body
        assert "import" not in body

    def test_writing(self, viewer: Served) -> None:
        assert {
            method: viewer.ask("/", method=method)[0]
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
        } == dict.fromkeys(("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"), 405)
