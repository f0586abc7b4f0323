"""Conversion of docstrings to reStructuredText, with links for names and a reference list.

The docstrings are written for ``help()``. Their markup (backticks, bars and ``[1]_``) is converted here
to that of Sphinx.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["attribute_doc", "attribute_source", "prepared"]

_PIECES = re.compile(r"(``.+?``|:[\w:]+:`[^`]+`|(?<![`\w])`[^`\n]+`(?![`_]))")
_TARGET = re.compile(r"^(\s*)\.\. \[(\d+)\] ")


def prepared(lines: Iterable[str], known: dict[str, str] | None = None) -> list[str]:
    """Return the lines of a docstring as reStructuredText.

    Parameters
    ----------
    lines : iterable of str
        Lines of the docstring, without common indentation.
    known : dict of str to str, optional
        Full names of linked names.
    """
    return list(_translated(lines, known or {}))


def _translated(lines: Iterable[str], known: dict[str, str]) -> Iterator[str]:
    verbatim = -1  # indentation above which lines stand as they are
    example = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if (
            (example := line.lstrip().startswith(">>>") or (example and bool(line.strip())))
            or (verbatim >= 0 and (not line.strip() or indent > verbatim))
            or _is_table(line)
        ):
            yield line
        else:
            verbatim = indent if line.rstrip().endswith("::") else -1
            if target := _TARGET.match(line):
                line = f"{target[1]}{target[2]}. {line[target.end() :]}"
            yield _prose(line, known)


def _is_table(line: str) -> bool:
    return bool(re.fullmatch(r"\s*[=+|-][=+| -]*", line)) or line.lstrip().startswith("| ")


def _prose(line: str, known: dict[str, str]) -> str:
    parts = _PIECES.split(line)
    return "".join(_code(part, known) if i % 2 else _plain(part) for i, part in enumerate(parts))


def _plain(text: str) -> str:
    text = re.sub(r"\[(\d+)\]_", r"[\1]", text)
    text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return re.sub(r"""(?<=\w)_(?=[\s.,;)"']|$)(?!\s+:)""", r"\_", text)


def _code(text: str, known: dict[str, str]) -> str:
    if text.startswith(("``", ":")):
        return text
    name = text.strip("`")
    if full := known.get(name.removesuffix("()").removeprefix("eval_toolkit.")):
        return f":py:obj:`{name} <{full}>`"
    return f"``{name}``"


def attribute_doc(module: ModuleType, name: str) -> str:
    """Return the docstring of an assigned name, from a module or the modules of a package."""
    return next((said for said, _ in _found(module, name) if said), "")


def attribute_source(module: ModuleType, name: str) -> str:
    """Return the source of the value assigned to a name."""
    return next((source for _, source in _found(module, name)), "")


def _found(module: ModuleType, name: str) -> Iterator[tuple[str, str]]:
    places = [Path(str(module.__file__))]
    if hasattr(module, "__path__"):
        places += sorted(Path(module.__path__[0]).rglob("*.py"))
    for place in places:
        if name in (assigned := _assignments(place)):
            yield assigned[name]


@cache
def _assignments(path: Path) -> dict[str, tuple[str, str]]:
    """Return the docstring and the value of each assignment in a module."""
    body = ast.parse(path.read_text("utf-8")).body
    found = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,) = node.targets
        if not isinstance(target, ast.Name) or not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        below = following.value if isinstance(following, ast.Expr) else None
        said = below.value if isinstance(below, ast.Constant) else ""
        source = ast.unparse(node.value) if node.value is not None else ""
        found[target.id] = (said if isinstance(said, str) else "", source)
    return found
