"""Parser for the tags of a page and the texts of its table cells."""

from html.parser import HTMLParser
from typing import Any


class Cells(HTMLParser):
    """Parser that collects tags and cell texts; ``which`` are the tags of cells."""

    def __init__(self, *which: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self._which = which

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag in self._which:
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data
