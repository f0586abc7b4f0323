"""The house stays in order: few names, no private module used from outside."""

import ast
import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

import eval_toolkit

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def limits() -> Any:
    spec = importlib.util.spec_from_file_location("limits", ROOT / "tools" / "limits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_few_names_stand_beside_one_another(limits: Any) -> None:
    assert limits.n_names() <= limits.LIMITS["names in the package"]


def test_functions_take_few_parameters_unless_a_contract_fixes_them(limits: Any) -> None:
    assert limits.with_needless_parameters() == []
    # A contract whose function is gone or has few parameters now is no longer one.
    assert limits.CONTRACTS.keys() <= set(limits.with_many_parameters())


def test_no_private_module_is_imported_across_packages(limits: Any) -> None:
    assert limits.private_imports() == []


def test_no_modules_import_one_another(limits: Any) -> None:
    assert limits.import_cycles() == []


def test_a_measure_above_its_ceiling_is_named(limits: Any) -> None:
    found = {"import cycles": 0, "lines in src": limits.CEILINGS["lines in src"], "no limit": 9}
    assert limits.exceeded(found) == []
    assert limits.exceeded({**found, "import cycles": 1}) == ["import cycles"]
    above = {name: ceiling + 1 for name, ceiling in limits.CEILINGS.items()}
    assert limits.exceeded(above) == list(limits.CEILINGS)
    assert all(ceiling > limits.LIMITS[name] for name, ceiling in limits.CEILINGS.items())


def test_a_cycle_is_seen_where_imports_run_with_the_module(limits: Any) -> None:
    texts = {
        "p": "",
        "p.a": "from p import b",
        "p.b": "import p.c",
        "p.c": "try:\n    from p.a import name\nexcept ImportError:\n    pass",
        "p.later": "def run():\n    from p.typed import x",
        "p.typed": "if TYPE_CHECKING:\n    from p.later import y\nimport p.later",
    }
    assert limits.cycles(limits.import_graph(texts)) == [["p.a", "p.b", "p.c"]]


def test_no_name_of_a_package_is_that_of_a_module_in_it() -> None:
    """Importing the module would put it in the place of the name, which is loaded when it is used."""
    found = []
    for path in sorted((ROOT / "src" / "eval_toolkit").rglob("__init__.py")):
        text = path.read_text("utf-8")
        inside = {one.stem for one in path.parent.iterdir() if one.name != "__init__.py"}
        for table in re.findall(r"names_on_use\(\s*__name__,\s*(\{.*?\})", text, re.DOTALL):
            given = {name for names in ast.literal_eval(table).values() for name in names.split()}
            found += [f"{path.parent.name}.{name}" for name in given & inside]
    assert found == []


def test_type_checkers_see_what_a_table_of_names_lists() -> None:
    """mypy takes any name of a package that makes them on use, so that it would not say."""
    tables = 0
    for path in sorted((ROOT / "src" / "eval_toolkit").rglob("__init__.py")):
        text = path.read_text("utf-8")
        found = re.search(
            r"__all__, __getattr__ = names_on_use\(\s*__name__,\s*(\{.*?\})", text, re.S
        )
        if found is None:
            continue
        tables += 1
        shown: set[str] = set()
        for module, names in re.findall(r"^    from ([\w.]+) import (\([^)]*\)|.*)", text, re.M):
            inside = importlib.import_module(module)
            listed = getattr(inside, "__all__", vars(inside)) if names == "*" else ()
            shown |= {*listed, *re.findall(r"as (\w+)", names)}
        given = {name for names in ast.literal_eval(found[1]).values() for name in names.split()}
        assert given <= shown, path
    assert tables > 25


def test_every_benchmark_met_its_bar() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results.json").read_text("utf-8"))["cases"]
    assert len(stored) >= 40
    assert [case["case"] for case in stored if case["verdict"] != "met"] == []


def test_nothing_here_imports_an_old_name_from_the_root() -> None:
    found = []
    for folder in ("README.md", "docs", "examples", "benchmarks", "simulations", "src", "tests"):
        base = ROOT / folder
        for path in [base] if base.is_file() else sorted(base.rglob("*")):
            if path.suffix in (".md", ".py"):
                text = path.read_text("utf-8")
                for names in re.findall(r"from eval_toolkit import (\([^)]*\)|.*)", text):
                    old = set(re.findall(r"\w+", names)) & eval_toolkit._OLD_HOME.keys()
                    found += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(old)]
    assert found == []
