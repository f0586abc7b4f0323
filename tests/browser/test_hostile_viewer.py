"""The viewer over runs whose every field is hostile."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.browser import hostile_runs
from tests.browser.conftest import Opens
from tests.browser.driving import DESK, PHONE, Page
from tests.browser.hostile_runs import NAME, NAMES
from tests.browser.serving import Served, served

RUNS = tuple(maker.__name__ for maker in hostile_runs.RUNS)


@pytest.fixture(scope="session")
def hostile_viewer(hostile_run: Callable[[str], Path]) -> Iterator[Served]:
    """A viewer of every hostile run, and of one for each hostile name."""
    for name in (*RUNS, "names"):
        folder = hostile_run(name).parent
    with served(folder) as answering:
        yield answering


@pytest.fixture
def listed(opened: Opens, hostile_viewer: Served) -> Callable[..., Page]:
    """Open the list of runs."""
    allowed = [hostile_viewer.origin + "/"]
    return lambda **options: opened(hostile_viewer.address, allowed=allowed, **options)


def fits(page: Page) -> None:
    """Check that nothing happened, and that the page keeps its shape and its width."""
    page.unfold()
    assert (page.status, page.wider(), page.odd()) == (200, "", "")
    assert page.evaluate("() => document.querySelectorAll('h1, main').length") == 2
    page.check()


def places(page: Page) -> dict[str, str]:
    """Return the address of each run by its place in the folder."""
    found: dict[str, str] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("table.runs tbody tr")].map((row) =>
             [(row.querySelector("th .place") || row.querySelector("th a")).textContent,
              row.querySelector("th a").getAttribute("href")]))"""
    )
    return found


def test_the_list_shows_every_name(listed: Callable[..., Page]) -> None:
    page = listed(width=PHONE)
    fits(page)
    assert page.unread(NAMES) == []
    page.looks("light", DESK)
    assert page.wider() == ""


@pytest.mark.parametrize("name", RUNS)
def test_samples_show_and_do_nothing(
    listed: Callable[..., Page], hostile_viewer: Served, name: str
) -> None:
    page = listed(width=PHONE)
    run = hostile_viewer.origin + places(page)[name]
    page.goto(f"{run}/live")
    if name == "longest":  # it has no records
        return
    page.goto(f"{run}/samples?size=200")
    fits(page)
    links = page.evaluate(
        """() => [...document.querySelectorAll("table.samples tbody th a")].map((a) => a.href)"""
    )
    # The last of the texts are the long ones.
    for link in [links[0], *links[-4:]]:
        page.goto(link)
        fits(page)


def test_what_an_address_says_is_shown_as_text(
    listed: Callable[..., Page], hostile_viewer: Served
) -> None:
    page = listed()
    run = places(page)["metrics"]
    given = [name[:400] for name in NAMES]
    fields = ("q", "sort", "column", "slice", "low", "status", "part.part", "kind", "state")
    fields += ("show", "col")
    for start in range(0, len(given), len(fields)):
        query = urlencode(dict(zip(fields, given[start : start + len(fields)], strict=False)))
        for target in (f"{run}/samples", *["/"] * (start % 4 == 0)):
            page.goto(f"{hostile_viewer.origin}{target}?{query}")
            assert (page.status, page.odd(), page.wider()) == (200, "", "")


def test_a_comparison_of_hostile_runs(listed: Callable[..., Page], hostile_viewer: Served) -> None:
    page = listed(width=PHONE)
    found = places(page)
    keys = [found[name].removeprefix("/runs/") for name in ("completions", "choices", "metrics")]
    for a, b in ((keys[0], keys[1]), (keys[2], keys[2])):
        page.goto(f"{hostile_viewer.origin}/compare?a={a}&b={b}")
        page.on.locator("#statistics .answer, #statistics .box").first.wait_for()
        fits(page)
    assert NAME.partition("\u202e")[0] in page.text
