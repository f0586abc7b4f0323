"""Write the package map in docs/architecture.md: python tools/architecture.py.

Layers are read from the import contract in pyproject.toml, descriptions from package docstrings.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "eval_toolkit"
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- map: made by tools/architecture.py -->\n", "<!-- end of the map -->"
DATA = {"schemas": "JSON Schemas of the stored files."}
"""Folders without modules, and so without docstrings; they belong to the last layer."""


def names() -> set[str]:
    """Return the modules, packages and folders of ``ls src/eval_toolkit``."""
    return {
        path.stem
        for path in SRC.iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }


def layers() -> dict[str, list[str]]:
    """Return the names in each layer of the import contract, by title, from top to bottom."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    contract = text.split("\nlayers = [\n", 1)[1].split("\n]", 1)[0]
    found: dict[str, list[str]] = {}
    for line in map(str.strip, contract.splitlines()):
        if line.startswith("#"):
            found[line.removeprefix("# ")] = here = []
        else:
            here += re.findall(r"\w+", line)
    here += DATA
    return found


def sentence(name: str) -> str:
    """Return the first sentence of a docstring, which is its first line."""
    if name in DATA:
        return DATA[name]
    path = SRC / name / "__init__.py" if (SRC / name).is_dir() else SRC / f"{name}.py"
    said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return said.split("\n", 1)[0]


def house() -> str:
    """Return the map: a table per layer."""
    lines = []
    for title, inside in layers().items():
        lines += [f"**{title}**", "", "| | |", "|---|---|"]
        lines += [f"| `{name}` | {sentence(name)} |" for name in inside]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Update the map on the page."""
    before, rest = PAGE.read_text("utf-8").split(START)
    PAGE.write_text(f"{before}{START}\n{house()}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
