"""Report, viewer, charts, analysis and exports know no kind of evaluation by its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.each import each

import eval_toolkit
from eval_toolkit.runs.kind_display import BUILT_IN_KINDS

ROOT = Path(eval_toolkit.__file__).parent
PACKAGES = ("report", "analysis", "integrations/exporting")
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
KINDS = ("harness", "tasks", "rollouts")
NEED_A_KIND = {
    # astra-rl's format is one of conversations and nothing else.
    "integrations/exporting/astra.py": {"rollouts"},
    # Formats of other tools name single answers and references, and messages of conversations.
    "integrations/exporting/answers.py": {"tasks"},
    "integrations/exporting/every_eval_ever_samples.py": {"rollouts"},
}
"""Why an export reads tables of one kind; reports, viewer, charts and analysis never do."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def kinds_in(node: ast.AST) -> set[str]:
    """Return the names of kinds among the texts below a node."""
    texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return {text for text in texts if isinstance(text, str)} & set(BUILT_IN_KINDS)


def branches(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that choose by a kind's name: comparisons, cases, tables from such names."""
    for node in ast.walk(tree):
        chooses = isinstance(node, ast.Compare | ast.match_case) and kinds_in(node)
        keys = [key for key in getattr(node, "keys", ()) if isinstance(key, ast.Constant)]
        tells_apart = (
            isinstance(node, ast.Dict)
            and len({key.value for key in keys} & set(BUILT_IN_KINDS)) > 1
        )
        if chooses or tells_apart:
            yield getattr(node, "lineno", 0) or node.pattern.lineno  # type: ignore[attr-defined]


@each("path", FILES, ids=name_of)
def test_no_source_branches_on_a_kind(path: Path) -> None:
    assert list(branches(ast.parse(path.read_text()))) == []


@each("path", FILES, ids=name_of)
def test_no_source_imports_a_kind(path: Path) -> None:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [one.name for one in node.names] if isinstance(node, ast.Import) else []
        for parts in (module.split(".") for module in modules):
            if parts[0] == "eval_toolkit" and len(parts) > 1 and parts[1] in KINDS:
                found.add(parts[1])
    assert found <= NEED_A_KIND.get(name_of(path), set())


@pytest.mark.parametrize(
    "source",
    [
        'if run.kind == "task": pass',
        'x = {"task": 1, "rollout": 2}.get(run.kind)',
        'if kind in ("rows", "pairs"): pass',
        'match kind:\n    case "rollout":\n        pass',
    ],
)
def test_the_check_sees_a_branch(source: str) -> None:
    assert list(branches(ast.parse(source))) != []


def test_the_check_looks_at_sources() -> None:
    assert {name_of(path).partition("/")[0] for path in FILES} >= {"report", "analysis"}
    assert len(FILES) > 60
