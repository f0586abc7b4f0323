"""Detection of the names that tests expect a program to define."""

import ast
import builtins
import sys


def names_needed(tree: ast.AST, names: dict[str, str]) -> dict[str, str]:
    """Return the program's names used by its tests, mapped to a module if the name denotes one.

    Names of standard library modules denote these modules. Names of built-ins denote the built-ins,
    unless the tests use no other name; the function under test then has the name of a built-in.
    """
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and _is_set(node)}
    anything = used & {"eval", "exec", "globals", "locals", "vars"}
    names = {
        name: imported
        for name, imported in names.items()
        if not name.startswith("__") and (anything or name in used)
    }
    own = {name: imported for name, imported in names.items() if not hasattr(builtins, name)}
    owners = (one.value for one in nodes if isinstance(one, ast.Attribute))
    for name in {one.id for one in owners if isinstance(one, ast.Name)} & own.keys():
        if name in sys.stdlib_module_names:
            own[name] = own[name] or name
    if not own.keys() & (used - stored):
        own |= {name: names[name] for name in _innermost(nodes, names.keys() - own.keys())}
    return own


def _innermost(nodes: list[ast.AST], names: set[str]) -> set[str]:
    """Return the names whose call arguments contain no calls of other names."""
    calls = [one for one in nodes if isinstance(one, ast.Call) and _called(one) in names]
    inner = [
        one for one in calls if not any(_called(n) in names for n in ast.walk(one) if n != one)
    ]
    return {_called(one) for one in inner}


def _called(node: ast.AST) -> str:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return node.func.id if named else ""  # type: ignore[attr-defined]


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
