"""One browser per test process, and pages without network access."""

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import hostile_runs, ordinary_runs
from tests.browser.driving import Browser, Page, missing

Opens = Callable[..., Page]
Makes = Callable[[Path], Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium once; without it, skip the test (fail in CI)."""
    lacking = missing()
    if lacking is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(lacking)
        pytest.skip(lacking)
    started = Browser()
    yield started
    started.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opens]:
    """Return a function that opens pages; afterwards, fail if a page made requests or logged errors."""
    pages: list[Page] = []

    def open_page(address: str | Path, **options: Any) -> Page:
        where = address.as_uri() if isinstance(address, Path) else address
        page = Page(browser, where, **options)
        pages.append(page)
        return page

    try:
        yield open_page
        for page in pages:
            page.check()
    finally:
        for page in pages:
            page.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Makes], Path]:
    """Create a read-only folder or file once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "browser"

    def make(name: str, work: Makes) -> Path:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = root / f"{name}.done"
            if not done.exists():
                work(root / name)
                done.touch()
        return root / name

    return make


@pytest.fixture(scope="session")
def runs(made: Callable[[str, Makes], Path]) -> Path:
    """Return ordinary runs of every kind; see `ordinary_runs`."""
    return made("runs", ordinary_runs.make_all)


@pytest.fixture(scope="session")
def hostile_run(made: Callable[[str, Makes], Path]) -> Callable[[str], Path]:
    """Return a hostile run by the name of its function in `hostile_runs`; all share one folder."""
    return lambda name: made(f"hostile/{name}", getattr(hostile_runs, name))
