"""API reference: one page per public module, generated from ``__all__`` and the docstrings."""

import importlib
import inspect
import pkgutil
import typing
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from docs._ext.docstrings import attribute_doc, attribute_source, prepared

import eval_toolkit
from eval_toolkit._internal.moved import MOVED

__all__ = ["api_pages", "documented_names", "known_names", "public_modules"]

_SHORT = 100  # characters of a value worth showing

_WITHOUT_A_PAGE = {"cli"}  # the commands have their own reference
_OPEN = {
    "integrations",
    "testing",
}  # packages whose modules are imported one by one, like moved ones


@cache
def public_modules() -> dict[str, ModuleType]:
    """Return the public modules of `eval_toolkit` by name."""
    found: dict[str, ModuleType] = {}
    for info in pkgutil.iter_modules(eval_toolkit.__path__):
        if not info.name.startswith("_") and info.name not in _WITHOUT_A_PAGE:
            _descend(f"eval_toolkit.{info.name}", found)
    return found


def _descend(name: str, found: dict[str, ModuleType]) -> None:
    module = importlib.import_module(name)
    short = name.removeprefix("eval_toolkit.")
    if getattr(module, "__all__", None):
        found[short] = module
    for inner in pkgutil.iter_modules(getattr(module, "__path__", [])):
        below = inner.ispkg or short in _OPEN or f"{short}.{inner.name}" in MOVED.values()
        if below and not inner.name.startswith("_"):
            _descend(f"{name}.{inner.name}", found)


@cache
def documented_names() -> dict[str, list[str]]:
    """Return the names on each module's page; objects of several modules are on their home page."""
    modules = public_modules()
    shown: dict[str, list[str]] = {short: [] for short in modules}
    for short, module in modules.items():
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType) and _home(name, value, short) == short:
                shown[short].append(name)
    return {short: sorted(names) for short, names in shown.items() if names}


def _home(name: str, value: Any, short: str) -> str:
    """Return the module that documents an object: its own, or the one nearest to the root."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return short
    holders = [
        other
        for other, module in public_modules().items()
        if name in module.__all__ and getattr(module, name) is value
    ]
    made = value.__module__.removeprefix("eval_toolkit.")
    return min(
        holders,
        key=lambda other: (other.count("."), not f"{made}.".startswith(f"{other}."), other),
    )


@cache
def known_names() -> dict[str, str]:
    """Return the documented objects by short and dotted name, without ambiguous short names."""
    known: dict[str, str] = {}
    twice: set[str] = set()
    for short, names in documented_names().items():
        for name in names:
            full = f"eval_toolkit.{short}.{name}"
            twice |= {name} & known.keys()
            known |= {name: full, f"{short}.{name}": full}
    return {name: full for name, full in known.items() if name not in twice}


def api_pages() -> dict[str, str]:
    """Return a page in reStructuredText for each public module."""
    pages = {short: _page(short, names) for short, names in documented_names().items()}
    return {"eval_toolkit": _root(), **pages}


def _root() -> str:
    """Return the page of the package root, with its names and their descriptions."""
    title = "eval_toolkit"
    lines = [title, "=" * len(title), "", ".. module:: eval_toolkit", ""]
    lines += ["Names to import from the root; each is loaded when it is first used.", ""]
    rows = []
    for name in eval_toolkit.__all__:
        value = getattr(eval_toolkit, name)
        if name == "__version__":
            rows.append((f"``{name}``", "The version of the package."))
        elif isinstance(value, ModuleType):
            short = value.__name__.removeprefix("eval_toolkit.")
            rows.append((f":doc:`{name} <{short}>`", value.__doc__ or ""))
        else:
            full = _full_name(name, value)
            rows.append((f":py:obj:`{name} <{full}>`", _said(name, value, full)))
    return "\n".join([*lines, *_table(rows)])


def _summary(short: str, names: list[str]) -> list[str]:
    module = public_modules()[short]
    rows = []
    for name in names:
        full = f"eval_toolkit.{short}.{name}"
        rows.append((f":py:obj:`{name} <{full}>`", _said(name, getattr(module, name), full)))
    return _table(rows)


def _table(rows: list[tuple[str, str]]) -> list[str]:
    lines = [".. list-table::", "   :class: names", "   :widths: auto", ""]
    for shown, said in rows:
        paragraph = inspect.cleandoc(said).split("\n\n")[0]
        (first, *_) = prepared([" ".join(paragraph.split())], known_names())
        lines += [f"   * - {shown}", f"     - {first}"]
    return [*lines, ""]


def _full_name(name: str, value: Any) -> str:
    """Return the full name under which a name of the root is documented."""
    for short, names in documented_names().items():
        if name in names and getattr(public_modules()[short], name) is value:
            return f"eval_toolkit.{short}.{name}"
    raise LookupError(name)


def _said(name: str, value: Any, full: str) -> str:
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.getdoc(value) or ""
    short = full.removeprefix("eval_toolkit.").removesuffix(f".{name}")
    module = public_modules()[short]
    return attribute_doc(module, name) or _told(module, name, value)


def _page(short: str, names: list[str]) -> str:
    module = importlib.import_module(f"eval_toolkit.{short}")
    title = f"eval_toolkit.{short}"
    lines = [title, "=" * len(title), "", f".. module:: {title}", ""]
    lines += [*prepared(inspect.cleandoc(module.__doc__ or "").splitlines(), known_names()), ""]
    kinds: dict[str, list[str]] = {"Functions": [], "Classes": [], "Data": []}
    for name in names:
        kinds[_kind(getattr(module, name))].append(name)
    lines += _summary(short, names)
    for heading, listed in kinds.items():
        if not listed:
            continue
        lines += [heading, "-" * len(heading), ""]
        for name in sorted(listed):
            lines += _entry(short, name, module)
    return "\n".join(lines)


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "Classes"
    return "Functions" if inspect.isroutine(value) else "Data"


def _entry(short: str, name: str, module: ModuleType) -> list[str]:
    value = getattr(module, name)
    full = f"eval_toolkit.{short}.{name}"
    own = getattr(value, "__name__", name)
    if (
        own != name
        and (elsewhere := known_names().get(own))
        and isinstance(value, type | FunctionType)
    ):
        return [
            f".. py:data:: {name}",
            "",
            f"   Another name of :py:obj:`{own} <{elsewhere}>`.",
            "",
        ]
    if inspect.isclass(value):
        return [f".. autoclass:: {full}", "   :members:", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {full}", ""]
    said = attribute_doc(module, name) or _told(module, name, value)
    return [
        f".. py:data:: {name}",  # below its module; in full it would stand there twice
        *([f"   :value: {shown}"] if len(shown := _shown(value)) <= _SHORT else []),
        "",
        *(f"   {line}" for line in prepared(inspect.cleandoc(said).splitlines(), known_names())),
        "",
    ]


def _told(module: ModuleType, name: str, value: Any) -> str:
    """Describe a value without a docstring."""
    if typing.get_origin(value) is typing.Literal:
        return "One of " + ", ".join(f"``{choice!r}``" for choice in typing.get_args(value)) + "."
    if type(value).__module__ in ("typing", "types", "collections.abc"):
        return f"Short for ``{attribute_source(module, name)}``."
    if type(value).__module__.startswith("eval_toolkit"):
        return f"A `{type(value).__name__}`."
    return (
        f"``{shown}``."
        if len(shown := _shown(value)) <= _SHORT
        else f"A ``{type(value).__name__}``."
    )


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if " at 0x" not in shown and "\n" not in shown else "…" * (_SHORT + 1)
