"""Reports of runs whose every field is hostile: nothing runs, nothing is asked for, all is read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.harness import evaluate, save_run
from eval_toolkit.report import write_report
from eval_toolkit.rollouts import SeedPrompt
from eval_toolkit.slices import EvalSlice
from tests.browser import hostile_runs
from tests.browser.conftest import Opens
from tests.browser.driving import DESK, PHONE, Page
from tests.browser.hostile_runs import HALVES, NAMES, Given
from tests.hostile import HOSTILE, PRODUCT, pieces

ELEMENTS = frozenset(
    "html head meta title style body a header div span nav button main h1 h2 h3 h4 p section table caption thead "
    "tbody tr th td ul ol li dl dt dd details summary figure figcaption script output input label "
    "select option strong em b i code pre footer svg g path rect text line defs clippath circle tspan "
    "title desc symbol use noscript abbr small time mark kbd samp var sub sup br hr form fieldset legend "
    "progress meter article aside blockquote".split()
)
"""What pages are made of; hostile texts hold many others."""
_ODD = """(known) => {
  const odd = [];
  for (const e of document.querySelectorAll("*")) {
    if (!known.includes(e.tagName.toLowerCase())) odd.push("element " + e.tagName);
    for (const a of e.attributes) {
      const name = a.name.toLowerCase(), link = ["href", "src", "action", "data", "xlink:href"];
      if (name.startsWith("on") || name === "srcdoc" || name === "autofocus")
        odd.push("attribute " + e.tagName + " " + a.name);
      if (link.includes(name) && !/^(#|\\/|\\?|data:image\\/svg)/.test(a.value))
        odd.push("link " + e.tagName + " " + a.value.slice(0, 60));
    }
  }
  return odd.slice(0, 10);
}"""
RUNS = ("metrics", "rows", "scorers", "long", "longest", "completions", "choices", "rollouts")


def odd(page: Page) -> list[str]:
    """Return elements, handlers and links that no page of ours has."""
    found: list[str] = page.evaluate(_ODD, sorted(ELEMENTS))
    return found


def unread(page: Page, texts: list[str]) -> list[str]:
    """Return the texts that cannot be read on the page; only what is ordinary in them is sought."""
    shown = " ".join(page.text.split())
    return [text[:80] for text in texts if not all(piece in shown for piece in pieces(text))]


@pytest.fixture(scope="session")
def hostile_report(made: Callable[..., Path]) -> Callable[[str], Path]:
    """The report of a hostile run, both made once."""

    def written(name: str) -> Path:
        run = made(name, getattr(hostile_runs, name))
        return made(f"{name}.html", lambda path: write_report(run, path))

    return written


@pytest.mark.parametrize("name", RUNS)
def test_nothing_happens(opened: Opens, hostile_report: Callable[[str], Path], name: str) -> None:
    page = opened(hostile_report(name), width=PHONE, scheme="dark")
    page.unfold()
    page.scroll_through()
    assert page.wider() == ""
    assert odd(page) == []
    assert page.evaluate("() => document.querySelectorAll('h1, main').length") == 2
    page.on.set_viewport_size({"width": DESK, "height": 900})
    assert page.wider() == ""


@pytest.mark.parametrize(("name", "texts"), [("metrics", NAMES), ("rows", NAMES), ("scorers", NAMES)])
def test_every_name_is_read_as_it_is(
    opened: Opens, hostile_report: Callable[[str], Path], name: str, texts: list[str]
) -> None:
    page = opened(hostile_report(name), scripts=True)
    assert unread(page, texts) == []


def test_a_report_stays_small(hostile_report: Callable[[str], Path]) -> None:
    assert {name: hostile_report(name).stat().st_size < 3_000_000 for name in RUNS} == dict.fromkeys(
        RUNS, True
    )


def test_it_would_be_seen(opened: Opens, tmp_path: Path) -> None:
    # The tests above could pass because nothing is watched: here everything happens.
    path = tmp_path / "open.html"
    text = "".join(
        HOSTILE[name] for name in ("script", "image that fails", "image from elsewhere", "dialog")
    )
    path.write_text(f"<html><body>{text}<p>{PRODUCT}</p><marquee>x</marquee></body></html>")
    page = opened(path)
    page.on.wait_for_timeout(100)
    assert page.evaluate("() => window.__pwned") == 1
    assert any(address.startswith("https://pwned.invalid/") for address in page.requests)
    assert {said.partition(":")[0] for said in page.complaints} >= {"dialog", "error"}
    assert "element MARQUEE" in odd(page)
    with pytest.raises(AssertionError):
        page.check()
    page.forgive()


class TestRefused:
    """What the writers do not take: empty names, and halves of characters in tables."""

    @pytest.mark.parametrize("name", sorted(HALVES))
    def test_halves_of_characters(self, tmp_path: Path, name: str) -> None:
        columns = {"text": ["a", "b"], "label": [0, 1]}
        result = evaluate(
            {"plain": Given()}, [EvalSlice(HOSTILE[name], columns)], run_id="r", n_resamples=20
        )
        with pytest.raises(ArtifactError, match="cannot encode"):
            save_run(result, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        with pytest.raises(InvalidInputError, match="surrogate"):
            SeedPrompt("a goal", id=HOSTILE[name])

    def test_empty_names(self) -> None:
        columns = {"text": ["a", "b"], "label": [0, 1]}
        with pytest.raises(InvalidInputError, match="needs a name"):
            EvalSlice("", columns)
        with pytest.raises(InvalidInputError, match="non-empty"):
            evaluate({"": Given()}, [EvalSlice("s", columns)], run_id="r")
        with pytest.raises(InvalidInputError, match="non-empty"):
            evaluate({"s": Given()}, [EvalSlice("s", columns)], run_id="")
        with pytest.raises(InvalidInputError, match="empty"):
            SeedPrompt("")
