"""Mutation testing: change one operator, constant or return at a time, and run the tests.

    python tools/mutants.py MODULE_FILE [--sample 15] [--seed 1] -- tests/unit/test_x.py ...

The file is rewritten for each change and restored at the end. Prints a line for each change and the
number of killed mutants; the changes depend only on the file, the sample size and the seed.

With `--fork`, each change is applied in a fork of this process and no file is written, which is faster
and allows parallel runs. Processes started by the tests then use the unchanged module.
"""

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

COMPARED = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def mutate(node: ast.AST) -> str | None:
    """Mutate a node in place; return a description of the change, or None if there is none."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            node.ops = [COMPARED[type(op)]()]
            return f"comparison {type(op).__name__} to {type(node.ops[0]).__name__}"
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            node.op = COMPUTED[type(op)]()
            return f"arithmetic {type(op).__name__} to {type(node.op).__name__}"
        case ast.Constant(value=bool(value)):
            node.value = not value
            return f"constant {value}"
        case ast.Constant(value=int(value)):
            node.value = value + 1
            return f"constant {value}"
        case ast.Return(value=ast.expr() as value):
            node.value = ast.Constant(None)
            return f"return {ast.unparse(value)[:40]}"
    return None


def places(tree: ast.Module) -> list[int]:
    """Return the indices of the nodes that can be mutated, which are inside functions."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    }
    found = []
    for at, node in enumerate(ast.walk(tree)):
        if id(node) in inside and mutate(node) is not None:
            found.append(at)
    return found


def written(path: Path, tree: ast.Module, command: list[str]) -> bool:
    """Return whether a test fails with the change written to the file."""
    path.write_text(ast.unparse(tree), "utf-8")
    try:
        return (
            subprocess.run(command, capture_output=True, check=False, timeout=900).returncode != 0
        )
    except subprocess.TimeoutExpired:
        return True


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Pytest plugin that imports one module from a mutated syntax tree instead of its file."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self.path, self.tree = path.resolve(), ast.fix_missing_locations(tree)
        parts = self.path.with_suffix("").parts
        self.name = ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")

    def pytest_load_initial_conftests(self) -> None:
        """Install the importer before that of pytest."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the mutated module; None for other modules."""
        if name != self.name:
            return None
        inside = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            name, self.path, loader=self, submodule_search_locations=inside
        )

    def exec_module(self, module: ModuleType) -> None:
        """Execute the mutated module."""
        exec(compile(self.tree, str(self.path), "exec"), vars(module))  # noqa: S102


def warm_up() -> None:
    """Import modules that the tests need and no mutant changes, so that forks inherit them."""
    for name in (
        "numpy",
        "scipy.special",
        "scipy.stats",
        "duckdb",
        "click",
        "rich",
        "jinja2",
        "pytest",
    ):
        importlib.import_module(name)


def forked(path: Path, tree: ast.Module, options: list[str]) -> bool:
    """Return whether a test fails in a fork of this process with the mutated module."""
    child = os.fork()
    if not child:
        signal.alarm(900)  # ends the copy
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        os._exit(int(pytest.main(options, plugins=[Changed(path, tree)])))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def main() -> int:
    """Run the tests on a sample of mutants; return the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--sample", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fork", action="store_true", help="change copies of this process")
    given = parser.parse_args()
    text = given.module.read_text("utf-8")
    every = places(ast.parse(text))
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))  # noqa: S311
    options = ["-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", *given.tests]
    command = [sys.executable, "-m", "pytest", *options]
    survived = 0
    if given.fork:
        warm_up()
        if forked(given.module, ast.parse(text), options):
            sys.exit("the tests fail without a change")
    try:
        for at in sorted(chosen):
            tree = ast.parse(text)
            node = list(ast.walk(tree))[at]
            line, what = node.lineno, mutate(node)  # type: ignore[attr-defined]
            if given.fork:
                killed = forked(given.module, tree, options)
            else:
                killed = written(given.module, tree, command)
            survived += not killed
            print(f"{'killed  ' if killed else 'SURVIVED'} line {line}: {what}", flush=True)
    finally:
        if not given.fork:
            given.module.write_text(text, "utf-8")
    print(f"{given.module}: {len(chosen) - survived} of {len(chosen)} killed", flush=True)
    return survived


if __name__ == "__main__":
    sys.exit(min(main(), 100))
