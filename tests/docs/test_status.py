"""docs/status.md promises: every listed name exists, every listed test exists."""

import ast
import contextlib
import importlib
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (?P<name>.+?) \| (?P<status>done|left out) \| (?P<shown>.+?) \|$")


def rows() -> list[tuple[str, str, str]]:
    text = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    body = [line for line in lines if not line.startswith(("| name ", "| ---"))]
    matches = [(line, ROW.match(line)) for line in body]
    bad = [line for line, match in matches if match is None]
    assert not bad, f"not a status row: {bad[0]}"
    return [(m["name"], m["status"], m["shown"]) for _, m in matches if m]


@cache
def ids_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
            found |= {f"{node.name}::{f.name}" for f in node.body if isinstance(f, ast.FunctionDef)}
    return found


def resolve(dotted: str) -> None:
    """Import ``a.b.c`` below eval_toolkit, or find ``a`` at the root."""
    place, target = "eval_toolkit", importlib.import_module("eval_toolkit")
    for part in dotted.removeprefix("eval_toolkit.").split("."):
        place = f"{place}.{part}"
        with contextlib.suppress(ModuleNotFoundError):  # it is no module, but something in one
            importlib.import_module(place)
        target = getattr(target, part)


ROWS = rows()
MEASURED = "`benchmarks/RESULTS.md`"


def test_there_is_a_row_for_a_good_hundred_things() -> None:
    assert len(ROWS) > 100


def test_no_row_twice() -> None:
    names = [name for name, _, _ in ROWS]
    assert len(names) == len(set(names)), sorted({n for n in names if names.count(n) > 1})


@pytest.mark.parametrize(("name", "status", "shown"), ROWS, ids=[name for name, _, _ in ROWS])
def test_row(name: str, status: str, shown: str) -> None:
    if status == "left out":
        assert len(shown) > 15, "a reason, please"
        return
    for dotted in re.findall(r"`([A-Za-z_][\w.]*)`", name):
        resolve(dotted)
    ids = re.findall(r"`([^`]+)`", shown)
    assert ids, f"{name}: no test named"
    for test_id in ids:
        path, _, test = test_id.partition("::")
        if path.startswith(("make ", "benchmarks", "docs/")):
            target = path.split()[0]
            assert target == "make" or (ROOT / target).exists(), path
            continue
        assert (ROOT / path).is_file(), f"{path} does not exist"
        assert test in ids_in(path), f"{path} has no test {test}"


def test_a_benchmark_that_is_done_met_its_bar() -> None:
    """A row that ends in the name of a case, (rank_1k), speaks for the figure stored under it."""
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    verdicts = {case["case"]: case["verdict"] for case in results["cases"]}
    claimed = [
        case[1]
        for name, status, shown in ROWS
        if status == "done" and MEASURED in shown and (case := re.search(r"\((\w+)\)$", name))
    ]
    assert len(claimed) >= 15
    assert {case: verdicts.get(case, "not run") for case in claimed} == dict.fromkeys(
        claimed, "met"
    )
