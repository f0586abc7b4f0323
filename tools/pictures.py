"""Take a picture of every page, wide and narrow, light and dark: python tools/pictures.py [FOLDER] [--only NAME…].

``make pictures`` makes small runs of every kind, their reports, and a viewer with a run under way, in a temporary
folder, whose name it prints. Pages of the documentation are taken when ``make docs`` has built them. The browser
tests check these pages; the pictures are for people to look at.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.browser import ordinary_runs
from tests.browser.driving import DESK, PHONE, Browser, Page, missing
from tests.browser.serving import served

from eval_toolkit.report import write_report
from eval_toolkit.runs.interim import read_so_far

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "_build" / "html"
REPORTS = {
    "report-rows": ["named"],
    "report-rows-sliced": ["rows"],
    "report-tasks": ["choices"],
    "report-answers": ["open"],
    "report-rollouts": ["rollouts"],
    "compare-rows": ["rows", "rows_b"],
    "compare-three": ["rows", "rows_b", "rows_c"],
    "compare-tasks": ["choices", "choices_b"],
    "compare-rollouts": ["rollouts", "rollouts_b"],
}
VIEWED = {
    "viewer-runs": "/",  # with a trend of each task that has several runs
    "viewer-run-rows": "/runs/{rows}",
    "viewer-run-tasks": "/runs/{choices}",
    "viewer-run-rollouts": "/runs/{rollouts}",
    "viewer-samples": "/runs/{open}/samples",
    "viewer-sample-rows": "/runs/{rows}/sample?row=0",
    "viewer-sample-tasks": "/runs/{choices}/sample?row=0",
    "viewer-sample-rollouts": "/runs/{rollouts}/sample?row=0",
    "viewer-compare": "/compare?a={choices}&b={choices_b}",
    "viewer-live": "/runs/{underway}",
}
DOCS = {
    "docs-index": "index.html",
    "docs-score": "howto/score_a_csv.html",
    "docs-leakage": "howto/find_leakage.html",
    "docs-shards": "howto/shards.html",
}
N_QUESTIONS, N_ANSWERED = 80, 44
"""Of the run under way; its file of allowed requests ends it."""


@contextmanager
def under_way(folder: Path, gate: Path) -> Iterator[None]:
    """Keep a run at `N_ANSWERED` answers until the end of the block.

    Answers come one after another: the interim value is computed every few seconds.
    """
    gate.write_text("12")
    command = [sys.executable, "-m", "tests.browser.ordinary_runs", str(folder), str(N_QUESTIONS)]
    with subprocess.Popen([*command, str(gate)]) as process:
        try:
            while not (interim := read_so_far(folder)) or interim.n_units < N_ANSWERED - 4:
                if process.poll() is not None:
                    raise RuntimeError("the run ended before its pictures were taken")
                time.sleep(0.5)
                gate.write_text(str(min(N_ANSWERED, int(gate.read_text()) + 2)))
            yield
        finally:
            gate.write_text(str(N_QUESTIONS))
            process.wait()


def take(browser: Browser, names: dict[str, str], folder: Path, first: str = "") -> None:
    """Take four pictures of each address; `first` is visited before, for its cookie."""
    allowed = ["file:"] if not first else [first.partition("?")[0]]
    for width in (DESK, PHONE):
        for scheme in ("light", "dark"):
            page = Page(browser, first or "about:blank", allowed, scheme, width)
            for name, address in names.items():
                page.goto(address)
                page.scroll_through()
                page.evaluate("() => window.scrollTo(0, 0)")
                page.on.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
                print(f"{name} {width} {scheme} {page.wider()}".rstrip(), flush=True)
            page.close()


def keys(address: str, browser: Browser) -> dict[str, str]:
    """Return the key of each run, as the links of the list have it."""
    page = Page(browser, address, [address.partition("?")[0]])
    links = page.on.locator("table.runs th a").all()
    found = {
        one.inner_text(): str(one.get_attribute("href")).removeprefix("/runs/") for one in links
    }
    page.close()
    return found


def pictures(folder: Path, only: Sequence[str]) -> None:
    """Make the pages under `folder` and take their pictures."""

    def wanted(names: dict[str, str]) -> dict[str, str]:
        return {name: at for name, at in names.items() if not only or name in only}

    runs, taken = folder / "runs", folder / "pictures"
    taken.mkdir(parents=True, exist_ok=True)
    if not runs.exists():
        ordinary_runs.make_all(runs)
    browser = Browser()
    try:
        for name in wanted(dict.fromkeys(REPORTS, "")):
            write_report([runs / run for run in REPORTS[name]], folder / f"{name}.html")
        take(browser, wanted({n: (folder / f"{n}.html").as_uri() for n in REPORTS}), taken)
        if wanted(VIEWED):
            with under_way(runs / "underway", folder / "gate.txt"), served(runs) as viewer:
                found = keys(viewer.address, browser)
                viewed = {n: viewer.origin + at.format(**found) for n, at in wanted(VIEWED).items()}
                take(browser, viewed, taken, viewer.address)
        pages = {name: SITE / at for name, at in wanted(DOCS).items()}
        if all(page.is_file() for page in pages.values()):
            take(browser, {name: page.as_uri() for name, page in pages.items()}, taken)
        else:
            print("no pictures of the documentation: run `make docs` first")
    finally:
        browser.close()
    print(taken)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="default: a temporary folder")
    names = (*REPORTS, *VIEWED, *DOCS)
    parser.add_argument("--only", nargs="+", default=[], choices=names, metavar="NAME")
    given = parser.parse_args()
    if (lacking := missing()) is not None:
        parser.exit(2, f"{lacking}\n")
    pictures(given.folder or Path(tempfile.mkdtemp(prefix="eval-toolkit-")), given.only)


if __name__ == "__main__":
    main()
