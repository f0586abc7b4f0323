"""Change one operator, constant or return at a time in a module, and see which tests notice.

    python tools/mutants.py MODULE_FILE [--sample 15] [--seed 1] -- tests/unit/test_x.py ...

The file is written anew for each change and put back at the end. Prints a line for each change and
how many were killed; the changes depend on the file, the sample and the seed alone.
"""

import argparse
import ast
import random
import subprocess
import sys
from pathlib import Path

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
    """Change a node in its place; return what was done, or None where nothing can be."""
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
    """Return which nodes of a walk can be changed: those inside functions."""
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


def main() -> int:
    """Try the sample; return how many survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--sample", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    text = given.module.read_text("utf-8")
    every = places(ast.parse(text))
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))  # noqa: S311
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", *given.tests]
    survived = 0
    try:
        for at in sorted(chosen):
            tree = ast.parse(text)
            node = list(ast.walk(tree))[at]
            line, what = node.lineno, mutate(node)  # type: ignore[attr-defined]
            given.module.write_text(ast.unparse(tree), "utf-8")
            try:
                done = subprocess.run(command, capture_output=True, check=False, timeout=300)
                killed = done.returncode != 0
            except subprocess.TimeoutExpired:
                killed = True
            survived += not killed
            print(f"{'killed  ' if killed else 'SURVIVED'} line {line}: {what}", flush=True)
    finally:
        given.module.write_text(text, "utf-8")
    print(f"{given.module}: {len(chosen) - survived} of {len(chosen)} killed", flush=True)
    return survived


if __name__ == "__main__":
    sys.exit(min(main(), 100))
