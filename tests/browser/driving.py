"""Browser in a separate thread, with pages that record errors and requests."""

import asyncio
import inspect
import os
import shutil
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.hostile import PRODUCT, pieces

__all__ = ["AXE", "DESK", "PHONE", "Browser", "Page", "missing"]

AXE = Path(__file__).resolve().parents[2] / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
PHONE, DESK = 390, 1280
_SECONDS = 600.0
"""Time limit of a step in seconds, generous for busy machines."""
_SERIOUS = ("serious", "critical")
_WIDER = """() => {
  const page = document.documentElement, width = page.clientWidth, out = [];
  if (page.scrollWidth <= width) return [];
  const clipped = (e) => { for (; e && e !== document.body; e = e.parentElement)
    if (getComputedStyle(e).overflowX !== "visible") return true; return false; };
  const note = (e, right, text) => {
    if (right > width + 1 && !clipped(e.parentElement))
      out.push(`${Math.round(right)} ${e.localName}.${e.getAttribute("class")} ${text.trim().slice(0, 60)}`);
  };
  document.querySelectorAll("body *").forEach(
    (e) => note(e, e.getBoundingClientRect().right, e.textContent));
  // Of a text that cannot be broken the element may be as narrow as the page.
  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let one; (one = texts.nextNode()); ) {
    range.selectNodeContents(one);
    if (!clipped(one.parentElement))
      note(one.parentElement, range.getBoundingClientRect().right, one.data);
  }
  return [page.scrollWidth + " > " + width, ...out.slice(0, 8)];
}"""
_ODD = r"""() => {
  const odd = [], links = ["href", "src", "action", "formaction", "data", "xlink:href"];
  const known = new Set(("html head meta title link style body header main footer nav section article " +
    "div span p a h1 h2 h3 h4 ul ol li dl dt dd table caption thead tbody tr th td details summary " +
    "figure figcaption script noscript form label input select option button output progress " +
    "strong em b i sup sub code pre br wbr svg g path rect text tspan line circle defs clipPath").split(" "));
  for (const e of document.querySelectorAll("*")) {
    if (!known.has(e.localName)) odd.push("element " + e.localName);
    if (e.localName === "style" && !e.closest("head")) odd.push("style in the page");
    if (e.localName === "meta" && !/^($|content-security)/i.test(e.httpEquiv)) odd.push("meta");
    for (const { name, value } of e.attributes) {
      if (/^(on|v-|@|:)/.test(name) || ["srcdoc", "srcset", "autofocus", "ping"].includes(name))
        odd.push("attribute " + e.localName + " " + name);
      if (links.includes(name) && !/^(#|\/(?!\/)|\?|data:,$)/.test(value))
        odd.push("link " + e.localName + " " + value.slice(0, 60));
    }
  }
  return [...new Set(odd)].join("\n");
}"""
_SET = "() => [window.__pwned, ({}).polluted, ({}).z].filter((x) => x !== undefined)"


def missing() -> str | None:
    """Return the missing dependency of the browser tests, or None."""
    lacking = [] if shutil.which("chromium") else ["chromium"]
    lacking += [] if AXE.is_file() else ["axe-core"]
    return f"{' and '.join(lacking)} missing; run `make browser`" if lacking else None


UNUSED = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),  # two pages per window: ten times ours
    # What playwright turns off; the last option of this name counts.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "OptimizationHints"),
    *("PaintHolding", "ThirdPartyStoragePartitioning", "NetworkTimeServiceQuerying"),
)
"""Features of the browser that the tests do not look at."""


class Browser:
    """Debian's chromium, driven from a separate thread.

    An event loop in the main thread would make every `asyncio.run` of the code under test fail, in
    all tests of the process.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        try:
            self._playwright, self._browser = self.wait(self._launch())
        except BaseException:
            self._end()
            raise

    async def _launch(self) -> tuple[Any, Any]:
        from playwright.async_api import async_playwright

        playwright = await async_playwright().start()
        options = [f"--disable-features={','.join(UNUSED)}"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=options
        )
        return playwright, browser

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a coroutine and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    def synced(self, thing: Any) -> Any:
        """Wrap a playwright object so that its methods wait for their results."""
        return _Synced(thing, self) if type(thing).__module__.startswith("playwright") else thing

    def new_page(self, **options: Any) -> tuple[Any, Any]:
        """Return a new browser context and its page, unwrapped."""

        async def opened() -> tuple[Any, Any]:
            context = await self._browser.new_context(**options)
            context.set_default_timeout(900 * _SECONDS)  # milliseconds
            return context, await context.new_page()

        return self.wait(opened())

    def close(self) -> None:
        async def closed() -> None:
            await self._browser.close()
            await self._playwright.stop()

        try:
            self.wait(closed())
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Synced:
    """Proxy that calls playwright in the browser's thread and waits for the results."""

    def __init__(self, thing: Any, browser: Browser) -> None:
        self._thing, self._browser = thing, browser

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if not callable(found):
            return self._browser.synced(found)

        def call(*arguments: Any, **named: Any) -> Any:
            async def called() -> Any:
                result = found(*arguments, **named)
                return await result if inspect.isawaitable(result) else result

            result = self._browser.wait(called())
            if isinstance(result, list):
                return [self._browser.synced(one) for one in result]
            return self._browser.synced(result)

        return call


@dataclass
class Page:
    """A page with its requests and errors; ``on`` is playwright's page.

    Only URLs that begin with one of ``allowed`` are answered; others are rejected and recorded.
    """

    browser: Browser
    address: str
    allowed: Sequence[str] = ()
    scheme: str = "light"
    width: int = DESK
    scripts: bool = True
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Console errors, script errors and dialogs."""
    status: int | None = None

    def __post_init__(self) -> None:
        self._context, self._page = self.browser.new_page(
            color_scheme=self.scheme,
            viewport={"width": self.width, "height": 900},
            java_script_enabled=self.scripts,
            reduced_motion="reduce",
            service_workers="block",
        )
        self.on = self.browser.synced(self._page)
        self.browser.wait(self._watch())
        self.goto(self.address)

    async def _watch(self) -> None:
        page, complaints = self._page, self.complaints
        await page.route("**/*", self._answer)
        page.on("request", lambda request: self._note(request.url))
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("popup", lambda popup: complaints.append(f"window: {popup.url}"))
        page.on("dialog", self._refuse)
        page.on(
            "console",
            lambda said: (
                complaints.append(f"{said.type}: {said.text}")
                if said.type in ("error", "warning")
                else None
            ),
        )

    def _note(self, address: str) -> None:
        if not self._allows(address):
            self.requests.append(address[:200])

    def _allows(self, address: str) -> bool:
        ours = (self.address.partition("#")[0], *self.allowed)
        return address.startswith(("data:image/", "blob:", "about:blank")) or (
            address.startswith(ours) if self.allowed else address.partition("#")[0] == ours[0]
        )

    async def _answer(self, route: Any) -> None:
        await (route.continue_() if self._allows(route.request.url) else route.abort())

    async def _refuse(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def goto(self, address: str) -> None:
        """Open a URL and wait until it is loaded."""
        response = self.on.goto(address, wait_until="load")
        self.status = response.status if response is not None else None

    def evaluate(self, script: str, *arguments: Any) -> Any:
        """Return the result of a script."""
        return self.on.evaluate(script, *arguments)

    @property
    def text(self) -> str:
        """Return all text of the page, including collapsed text, without scripts and styles."""
        return str(
            self.evaluate(
                """() => {
                  const copy = document.body.cloneNode(true);
                  copy.querySelectorAll("script, style").forEach((e) => e.remove());
                  return document.title + "\\n" + copy.textContent;
                }"""
            )
        )

    def looks(self, scheme: str, width: int) -> None:
        """Switch the page to another colour scheme and width."""
        self.on.emulate_media(color_scheme=scheme)
        self.on.set_viewport_size({"width": width, "height": 900})

    def unfold(self) -> None:
        """Open all collapsed elements and tab panels."""
        self.evaluate(
            "() => document.querySelectorAll('details').forEach((e) => { e.open = true })"
        )
        self.evaluate(
            "() => document.querySelectorAll('[data-panel-of]').forEach((e) => { e.hidden = false })"
        )

    def scroll_through(self) -> None:
        """Scroll every chart into view, so that it is drawn."""
        for figure in self.on.locator("figure[data-chart]:visible").all():
            figure.scroll_into_view_if_needed()
            if not figure.locator(".chart").is_visible():
                continue  # a narrow screen shows its lines of text
            figure.locator(".chart .vega-embed:not(.coming) svg.marks").wait_for()

    def forgive(self) -> None:
        """Discard recorded events, for tests that expect them."""
        self.requests.clear()
        self.complaints.clear()
        self.goto("about:blank")

    def wider(self) -> str:
        """Return the elements wider than the window, or ""."""
        return "\n".join(self.evaluate(_WIDER))

    def odd(self) -> str:
        """Return unexpected elements, handlers and links, or ""."""
        return str(self.evaluate(_ODD))

    def unread(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that are not visible on the page; only ordinary characters are compared."""
        shown = " ".join(self.text.split())
        return [text[:80] for text in texts if not all(piece in shown for piece in pieces(text))]

    def violations(self, *rules: str) -> str:
        """Return the serious and critical violations reported by axe-core, or ""."""
        # Not as a script of the page, which its content policy refuses.
        if not self.evaluate("() => 'axe' in window"):
            self.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
        found = self.evaluate(
            """async (rules) => (await axe.run(document, {resultTypes: ["violations"],
                 ...(rules.length ? {runOnly: rules} : {})})).violations""",
            list(rules),
        )
        return "\n".join(
            f"{rule['id']} ({rule['impact']}): {node['target']} {node['failureSummary']}"[:400]
            for rule in found
            if rule["impact"] in _SERIOUS
            for node in rule["nodes"][:3]
        )

    def check(self) -> None:
        """Fail if the page executed a script, made requests or logged errors."""
        done = self.evaluate(_SET) if self.scripts else []
        assert (done, self.requests, self.complaints) == ([], [], [])
        assert not self.scripts or PRODUCT not in self.text

    def close(self) -> None:
        self.browser.wait(self._context.close())
