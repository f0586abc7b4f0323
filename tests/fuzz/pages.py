"""Check that data appears on pages only as text."""

from html.parser import HTMLParser

from tests.fuzz.mutating import MARK
from tests.fuzz.target import BrokenError

__all__ = ["check_page"]

_EVENTS = ("href", "src", "action", "formaction", "xlink:href")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("script", "style") else ""
        for name, value in [(tag, None), *attrs]:
            if MARK in name:
                raise BrokenError(f"text of the data became markup: <{tag} {attrs!r:.200}>")
            if name in _EVENTS and (value or "").strip().lower().startswith("javascript:"):
                raise BrokenError(f"text of the data became a script: <{tag} {name}={value!r:.80}>")
            if name.startswith("on"):
                raise BrokenError(f"an element has a handler: <{tag} {name}={value!r:.80}>")
        self.links += [value for name, value in attrs if name == "href" and value]

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside and f"<{MARK}" in data:
            raise BrokenError(f"text of the data stands in a {self._inside} as it is")

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            raise BrokenError("text of the data became a comment")


def check_page(text: str) -> list[str]:
    """Return the links of a page; raise `BrokenError` if data appears other than as text."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.links
