"""Create the README screenshots: ``make demo demo-llm``, then ``python docs/images/take.py``.

Needs playwright and Debian's chromium (``make browser``).
"""

from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
RUNS = HERE.parents[1] / "runs" / "demo"
PICTURES = {
    "report-rows.png": RUNS / "rows" / "report.html",
    "report-rollouts.png": RUNS / "rollouts.html",
}
SIZE = {"width": 1000, "height": 1100}


def main() -> None:
    """Take a screenshot of the top of each report."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for name, report in PICTURES.items():
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(report.as_uri())
            page.wait_for_timeout(1500)  # the charts that are in view have been drawn
            page.screenshot(path=HERE / name)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
