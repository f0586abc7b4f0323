"""Reports of ordinary runs, opened from a file in a browser that can reach nothing else."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.conftest import Opens
from tests.browser.driving import DESK, PHONE, Page
from tests.browser.ordinary_runs import labels_and_scores

from eval_toolkit._internal.display import Cell, Count, Interval, Number, Table, Text
from eval_toolkit._internal.display.to_html import html_table
from eval_toolkit._internal.words import number
from eval_toolkit.metrics import metrics_at_threshold
from eval_toolkit.report import write_report

REPORTS = {
    "rows": ["rows"],
    "choices": ["choices"],
    "open": ["open"],
    "rollouts": ["rollouts"],
    "named": ["named"],
    "rows compared": ["rows", "rows_b"],
    "three compared": ["rows", "rows_b", "rows_c"],
    "tasks compared": ["choices", "choices_b"],
    "rollouts compared": ["rollouts", "rollouts_b"],
}


@pytest.fixture(scope="session")
def report(made: Callable[..., Path], runs: Path) -> Callable[[str], Path]:
    """The report of a name, written once."""

    def written(name: str) -> Path:
        return made(
            f"{name.replace(' ', '-')}.html",
            lambda path: write_report([runs / run for run in REPORTS[name]], path),
        )

    return written


def drawn(page: Page) -> list[list[int]]:
    """Return, for each chart once it was scrolled to, how many pictures and marks it has."""
    page.scroll_through()
    counted: list[list[int]] = page.evaluate(
        """() => [...document.querySelectorAll("figure[data-chart] .chart")]
             .filter((chart) => chart.checkVisibility()).map((chart) => [
             chart.querySelectorAll("svg").length,
             chart.querySelectorAll("svg [class*=mark-] > *").length])"""
    )
    return counted


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_opens_without_a_network(
    opened: Opens, report: Callable[[str], Path], name: str
) -> None:
    page = opened(report(name), scheme="light", width=DESK)
    charts = drawn(page)
    assert charts
    assert all(pictures == 1 and marks > 2 for pictures, marks in charts)
    page.unfold()
    assert page.wider() == ""
    assert page.violations() == ""
    # All that the scheme can change is how well things are seen.
    page.looks("dark", PHONE)
    assert page.wider() == ""
    assert page.violations("color-contrast") == ""
    assert all(pictures == 1 and marks > 2 for pictures, marks in drawn(page))


_FIRST_SCREEN = """() => ["p.said", ".trust", ".claims", ".settings"].map((where) => {
  const found = document.querySelector(where);
  return found && found.checkVisibility() ? Math.round(found.getBoundingClientRect().top) : null;
})"""


class TestFirstScreen:
    @pytest.mark.parametrize("width", [DESK, PHONE])
    @pytest.mark.parametrize("name", ["rows", "open", "rollouts", "rollouts compared"])
    def test_the_answer_comes_first(
        self, opened: Opens, report: Callable[[str], Path], name: str, width: int
    ) -> None:
        page = opened(report(name), width=width)
        said, trust, _, settings = page.evaluate(_FIRST_SCREEN)
        assert said < 350
        assert said < trust
        if name != "rollouts compared":
            assert trust < 900
        else:
            assert said < settings < min(trust, 900)
            assert "Stay calm, whatever a guest says." in page.text

    @pytest.mark.parametrize("width", [DESK, PHONE])
    def test_three_runs_are_answered_with_the_counts_of_each(
        self, opened: Opens, report: Callable[[str], Path], width: int
    ) -> None:
        page = opened(report("three compared"), width=width)
        said, trust, _, _ = page.evaluate(_FIRST_SCREEN)
        assert said < 350
        assert said < trust < 900
        lines = page.on.locator(".answer").first.locator("p").all_inner_texts()
        assert [line.partition(":")[0] for line in lines[1:4]] == ["rows", "rows_b", "rows_c"]

    def test_a_phone_shows_intervals_and_what_differs_without_scrolling(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        right = "(e) => e.getBoundingClientRect().right"
        page = opened(report("rows"), width=PHONE)
        for cell in page.on.locator("table.metrics td:nth-child(3)").all():
            assert not cell.is_visible() or cell.evaluate(right) <= PHONE
        page = opened(report("rollouts compared"), width=PHONE)
        assert page.on.locator("table.settings td").last.evaluate(right) <= PHONE
        differences = page.on.locator("th", has_text=re.compile("^difference")).all()
        shown = [one.evaluate(right) for one in differences if one.is_visible()]
        assert shown
        assert max(shown) <= PHONE

    def test_classes_have_the_names_of_the_user(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("named"))
        heads = page.on.locator("table.confusion").first.locator("th").all_inner_texts()
        assert heads == ["predicted loud", "predicted calm", "loud", "calm"]
        page.unfold()
        labels = page.on.locator("#worst tbody td:nth-child(2)").all_inner_texts()
        assert set(labels) == {"loud", "calm"}

    def test_nothing_that_is_read_as_one_breaks_over_lines(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("tasks compared"), width=PHONE)
        pieces = ".answer .whole, td .better, td .worse, .ci"
        heights = page.evaluate(
            """(pieces) => [...document.querySelectorAll(pieces)].filter((e) => e.checkVisibility())
                 .map((e) => e.getClientRects().length)""",
            pieces,
        )
        assert len(heights) > 10
        assert set(heights) == {1}

    def test_three_runs_have_their_verdict_and_difference_on_a_phone(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("three compared"), width=PHONE)
        head = page.on.locator("#differences th", has_text=re.compile("^difference")).first
        assert head.evaluate("(e) => e.getBoundingClientRect().right") <= PHONE

    def test_a_phone_says_why_a_metric_has_no_value(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("rows"), width=PHONE)
        row = page.on.locator("table.metrics tbody tr", has_text="lacking").first
        reason = row.locator(".on-phone")
        assert reason.inner_text() == "skipped: there are no positives above the cut"
        assert reason.evaluate("(e) => e.getBoundingClientRect().right") <= PHONE
        page.looks("light", DESK)
        assert not reason.is_visible()

    def test_shares_of_choices_have_bars(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("choices"))
        bar = page.on.locator(".choice-table .bar > span").first
        share = page.on.locator(".choice-table tbody td:nth-child(3)").first.inner_text()
        width, whole = bar.evaluate(
            "(e) => [e.getBoundingClientRect().width, e.parentElement.getBoundingClientRect().width]"
        )
        assert whole > 100
        assert 100 * width / whole == pytest.approx(float(share.removesuffix(" %")), abs=0.5)

    def test_the_title_of_a_wide_table_stays_in_view(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("rollouts compared"), width=PHONE)
        titles = page.on.locator("caption > span").all()
        assert titles
        for title in titles:
            assert title.evaluate("(e) => e.getBoundingClientRect().right") <= PHONE

    def test_a_phone_reads_lines_in_place_of_wide_charts(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("rows compared"), width=PHONE)
        wide, lines = (
            page.on.locator(f"#differences-metrics {one}") for one in (".chart", ".bars")
        )
        assert not wide.is_visible()
        assert lines.is_visible()
        assert lines.locator("li").count() > 2
        assert "↑ better" in lines.inner_text()
        page.looks("light", DESK)
        assert not lines.is_visible()
        assert all(pictures == 1 and marks > 2 for pictures, marks in drawn(page))


class TestSlider:
    """The numbers beside the slider are those of `metrics_at_threshold`, whoever moves it."""

    RATES = ("precision", "recall", "fpr", "f1")
    COUNTS = ("tp", "fp", "fn", "tn")

    def shown(self, page: Page) -> dict[str, str]:
        told: dict[str, str] = page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll("[data-shown]")]
                 .map((e) => [e.dataset.shown, e.textContent]))"""
        )
        told["exact"] = page.on.locator("[data-shown=threshold]").get_attribute("data-threshold")
        return told

    def expected(self, told: dict[str, str]) -> dict[str, str]:
        labels, scores = labels_and_scores()
        at = metrics_at_threshold(labels, scores, float(told["exact"]))
        words = {name: f"{at[name]:,}" for name in self.COUNTS}
        for name in self.RATES:
            words[name] = "undefined" if name in at["undefined"] else number(at[name])
        return words

    def check(self, page: Page) -> float:
        told = self.shown(page)
        assert {name: told[name] for name in (*self.COUNTS, *self.RATES)} == self.expected(told)
        assert float(told["threshold"]) == pytest.approx(float(told["exact"]), rel=1e-5)
        return float(told["exact"])

    def test_every_position_has_the_numbers_of_the_library(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("rows"))
        slider = page.on.locator("[data-explorer] input[type=range]")
        low, high = (float(slider.get_attribute(name)) for name in ("min", "max"))
        seen = []
        for step in range(26):
            slider.fill(str(low + (high - low) * step / 25))
            seen.append(self.check(page))
            assert low + (high - low) * step / 25 <= seen[-1] + 1e-9  # the next score counts alike
        assert seen == sorted(seen)
        assert self.shown(page)["precision"] == "undefined"
        assert len(set(seen)) > 20
        assert (low, high) == (seen[0], seen[-1])

    def test_keys_move_it(self, opened: Opens, report: Callable[[str], Path]) -> None:
        page = opened(report("rows"), width=PHONE)
        slider = page.on.locator("[data-explorer] input[type=range]")
        slider.focus()
        seen = [self.check(page)]
        for key in ("ArrowRight", "ArrowRight", "PageUp", "ArrowLeft", "Home", "End"):
            slider.press(key)
            seen.append(self.check(page))
        scores = labels_and_scores()[1]
        assert seen[0] < seen[1] < seen[2] < seen[3]
        assert seen[4] < seen[3]
        assert seen[5] <= min(scores)
        assert seen[6] > max(scores)
        assert slider.get_attribute("aria-valuetext").startswith(self.shown(page)["threshold"])

    def test_the_cost_is_that_of_the_counts(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("rows"))
        page.on.locator("[data-cost=fp]").fill("2.5")
        page.on.locator("[data-cost=fn]").fill("7")
        told = self.shown(page)
        assert float(told["cost"]) == 2.5 * int(told["fp"]) + 7 * int(told["fn"])
        page.on.locator("[data-cheapest]").click()
        self.check(page)
        labels, scores = labels_and_scores()
        costs = []
        for threshold in {*scores, 2.0}:
            at = metrics_at_threshold(labels, scores, threshold)
            costs.append(2.5 * at["fp"] + 7 * at["fn"])
        assert float(self.shown(page)["cost"]) == min(costs)


class TestWithoutScripts:
    @pytest.mark.parametrize("name", ["rows", "rollouts", "tasks compared"])
    def test_tables_and_figures_are_there(
        self, opened: Opens, report: Callable[[str], Path], name: str
    ) -> None:
        page = opened(report(name), scripts=False, width=PHONE)
        figures = page.on.locator("figure[data-chart]")
        assert figures.count() > 0
        for at in range(figures.count()):
            seen = [figures.nth(at).locator(one) for one in (".chart svg", ".bars")]
            assert [one.first.is_visible() for one in seen if one.count()].count(True) == 1
        assert page.on.locator("table").first.is_visible()
        for control in page.on.locator(".only-live").all():
            assert not control.is_visible()
        assert page.on.locator("button:visible").count() == 0

    def test_the_threshold_table_stands_open(
        self, opened: Opens, report: Callable[[str], Path]
    ) -> None:
        page = opened(report("rows"), scripts=False)
        row = page.on.locator(".without-script tbody tr").filter(
            has=page.on.locator("th", has_text=re.compile(r"^0\.5$"))._thing
        )
        assert row.is_visible()
        labels, scores = labels_and_scores()
        at = metrics_at_threshold(labels, scores, 0.5)
        assert row.locator("td").all_inner_texts()[:2] == [
            number(at["precision"]),
            number(at["recall"]),
        ]


def luminance(colour: str) -> float:
    """Return the relative luminance of rgb(…), as the accessibility guidelines define it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_closed_parts_are_open_on_paper(opened: Opens, report: Callable[[str], Path]) -> None:
    page = opened(report("rows"))
    closed = "() => document.querySelectorAll('details:not([open])').length"
    tell = "(what) => window.dispatchEvent(new Event(what))"
    before = page.evaluate(closed)
    assert before > 0
    page.evaluate(tell, "beforeprint")
    assert page.evaluate(closed) == 0
    page.evaluate(tell, "afterprint")
    assert page.evaluate(closed) == before


@pytest.mark.parametrize(
    ("cells", "ascending"),
    [
        (
            [Number(0.042), Number(1e-9, "p"), Number(1.0), Number(0.001)],
            ["<0.001", "0.001", "0.042", "1.000"],
        ),
        (
            [Interval(0.01, 0.2), Interval(-0.064, 0.1), Interval(-0.1, 0.1), Interval(0.002, 0.1)],
            ["[-0.100, 0.100]", "[-0.064, 0.100]", "[0.002, 0.100]", "[0.010, 0.200]"],
        ),
        ([Count(1200), Text("b"), Count(30), Text("A")], ["30", "1,200", "A", "b"]),
        ([Text("30"), Text("1,200")], ["1,200", "30"]),  # names that look like numbers
    ],
)
def test_tables_sort_by_number(
    opened: Opens, report: Callable[[str], Path], cells: list[Cell], ascending: list[str]
) -> None:
    page = opened(report("rows compared"))
    made = html_table(Table(["a", "b"], [["x", cell] for cell in cells]), sortable=True)
    seen = page.evaluate(
        """(made) => {
             const table = document.querySelector("table[data-sortable]");
             const holder = document.createElement("template");
             holder.innerHTML = made;
             const body = table.tBodies[0];
             body.replaceChildren(...holder.content.querySelectorAll("tbody tr"));
             table.querySelectorAll("thead th button")[1].click();
             return [...body.rows].map((one) => one.cells[1].textContent);
           }""",
        made,
    )
    assert seen == ascending


@pytest.mark.parametrize("theme", ["auto", "dark"])
def test_paper_is_white_and_ink_dark(
    opened: Opens, report: Callable[[str], Path], theme: str
) -> None:
    page = opened(report("rows"), width=PHONE * 2)
    while page.on.locator(".theme").inner_text() != f"Theme: {theme}":
        page.on.locator(".theme").click()
    page.on.emulate_media(media="print")
    colours = page.evaluate(
        """() => ["body", "h1", "td", "figure text, svg text"].map((where) => {
             const style = getComputedStyle(document.querySelector(where));
             return [style.color, style.backgroundColor, style.fill];
           })"""
    )
    assert luminance(colours[0][1]) > 0.95
    assert [
        name for name, (ink, _, _) in zip("bht", colours, strict=False) if luminance(ink) > 0.2
    ] == []
    assert luminance(colours[3][2]) < 0.3
    assert not page.on.locator("nav").first.is_visible()
    assert page.wider() == ""


def test_the_theme_can_be_chosen(opened: Opens, report: Callable[[str], Path]) -> None:
    page = opened(report("open"))
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for word, is_dark in (("light", False), ("dark", True), ("auto", False)):
        page.on.locator(".theme").click()
        assert page.on.locator(".theme").inner_text() == f"Theme: {word}"
        assert (luminance(page.evaluate(ground)) < 0.1) == is_dark
    assert page.evaluate(ground) == light


def test_errors_stand_out_and_skipped_do_not(opened: Opens, report: Callable[[str], Path]) -> None:
    page = opened(report("rows"))
    looks = page.evaluate(
        """() => [".status-error", ".status-skipped"].map((where) => {
             const style = getComputedStyle(document.querySelector(where));
             return [style.color, style.backgroundColor, style.fontWeight];
           })"""
    )
    assert looks[0] != looks[1]
    assert "a column that is not there" in page.text
    assert "there are no positives above the cut" in page.text
