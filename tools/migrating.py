"""Write the table of moved names in docs/migrating.md: python tools/migrating.py.

The table is generated from `_internal/moved.py`, which resolves imports of old names.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from eval_toolkit._internal.moved import (  # noqa: E402 - from this tree
    MOVED,
    MOVED_NAMES,
    MOVED_PLACES,
)

PAGE = ROOT / "docs" / "migrating.md"
START, END = "<!-- moved: made by tools/migrating.py -->\n", "<!-- end of what has moved -->"


def _full(name: str) -> str:
    return f"`eval_toolkit.{name}`" if name else "`eval_toolkit`"


def rows() -> list[tuple[str, str]]:
    """Return old and new locations of modules, individual names and names in the package root."""
    found = [(_full(old), _full(new)) for old, new in sorted(MOVED.items())]
    for place, names in MOVED_PLACES.items():
        for name, meant in names.items():
            was = ".".join(filter(None, (place, name)))
            found.append((_full(was), _full(meant)))
    for home, names in MOVED_NAMES.items():
        listed = ", ".join(f"`{name}`" for name in names.split())
        found.append((f"from `eval_toolkit`: {listed}", _full(home)))
    return found


def table() -> str:
    """Return the table."""
    lines = ["| it was imported as | it is now in |", "|---|---|"]
    return "\n".join([*lines, *(f"| {was} | {now} |" for was, now in rows())])


def main() -> None:
    """Update the table on the page."""
    before, rest = PAGE.read_text("utf-8").split(START)
    PAGE.write_text(f"{before}{START}\n{table()}\n\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
