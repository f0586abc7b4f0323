"""Measure the package against its design limits: python tools/limits.py [--walks].

Prints a Markdown table, and exits with 1 if a ceiling is exceeded. If a design limit is not met, the
ceiling is the measured value plus 2 %; it is lowered when the measured value decreases (docs/adr/0030).
The walks trace a command through the package and count the distinct functions and class bodies that
run; they need the embedded model (make model) and take about half a minute.
"""

import argparse
import ast
import collections
import functools
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "eval_toolkit"
MANY = 10
IMPORT = re.compile(r"^ *from eval_toolkit\.([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
NOT_COUNTED = (
    *("<module>", "<listcomp>", "<genexpr>", "<lambda>", "<dictcomp>", "<setcomp>"),
    "__getattr__",
)
ROWS = "id,label,score,language\n" + "".join(
    f"{i},{i % 5 % 2},{(i * 37 % 100) / 100},{'de' if i % 3 else 'en'}\n" for i in range(200)
)
SEEDS = "id,prompt\ngreet,Say hello\njoke,Tell a joke\n"
WALKS = {
    "score FILE --by": ("score", "rows.csv", "--by", "language"),
    "run capitals --limit 2": (
        "run",
        "capitals",
        "--model",
        "embedded",
        "--limit",
        "2",
        "--out",
        "task",
    ),
    "rollout, two seeds": (
        *(
            "rollout",
            "--seeds",
            "seeds.csv",
            "--depth",
            "1",
            "--tester",
            "refinement{max_tokens=8}",
        ),
        *("--tester-model", "embedded", "--target", "embedded", "--max-tokens", "8"),
        *("--scorer", "toxicity", "--max-error-rate", "1", "--out", "rollouts"),
    ),
}
CONTRACTS = {
    "harness/evaluation.py:evaluate": "rows, section 12",
    "harness/evaluation.py:evaluate_scorer_on_slice": "rows, section 12",
    "harness/folded.py:evaluate_folded": "rows, section 12; the guide to extending",
    "inference/refitted_thresholds.py:paired_bootstrap_op_point_diff": "rows, section 4",
    "inference/results.py:BootstrapCI.__init__": "rows, section 4: made by position",
    "inference/results.py:PairedBootstrapCI.__init__": "rows, section 4: made by position",
    "leakage/eda/audit.py:audit_dataset": "rows, section 16",
    "manifest.py:build_manifest": "rows, section 13; the guide to extending",
    "models/responses/samples.py:Completion.__init__": "tasks, section 2.4; the page on tasks",
}
"""Functions whose parameters are fixed by a published signature, with the chapter of the specification."""
NEEDLESS = f"functions with more than {MANY} parameters that no contract fixes"
LIMITS = {
    "names in the package": 32,
    "names in dir(eval_toolkit)": 130,
    NEEDLESS: 0,
    "private modules imported across packages": 0,
    "import cycles": 0,
    "lines in src": 122_000,
    "score FILE --by: functions": 240,
    "score FILE --by: packages": 14,
    "run capitals --limit 2: functions": 500,
    "run capitals --limit 2: packages": 18,
    "rollout, two seeds: functions": 600,
    "rollout, two seeds: packages": 18,
}

CEILINGS = {
    "lines in src": 175_500,
    "score FILE --by: functions": 426,
    "run capitals --limit 2: functions": 1_121,
    "rollout, two seeds: functions": 1_240,
}
"""Ceilings for limits that are not met."""


def sources() -> Iterator[tuple[Path, str]]:
    """Yield every module of the package with its source."""
    for path in sorted(SRC.rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")


def n_names() -> int:
    """Return the number of top-level modules and packages."""
    return sum(
        (path.is_dir() and path.name not in ("schemas", "__pycache__"))
        or (path.suffix == ".py" and not path.name.startswith("__"))
        for path in SRC.iterdir()
    )


@functools.cache
def with_many_parameters() -> tuple[str, ...]:
    """Return the functions with more than ten parameters, including ``*args`` and ``**options``."""
    found = []
    for path, text in sources():
        nodes = [*ast.walk(ast.parse(text))]
        methods = {
            method: f"{node.name}.{method.name}"
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for method in node.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                taken += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
                if sum(one.arg not in ("self", "cls") for one in taken) > MANY:
                    found.append(f"{path.relative_to(SRC)}:{methods.get(node, node.name)}")
    return tuple(found)


def with_needless_parameters() -> list[str]:
    """Return the functions with more than ten parameters that no contract fixes."""
    return [name for name in with_many_parameters() if name not in CONTRACTS]


def private_imports() -> list[str]:
    """Return the imports of private modules across packages, except from `_internal`."""
    found = []
    for path, text in sources():
        home = path.relative_to(SRC).parts[0].removesuffix(".py")
        for module, names in IMPORT.findall(text):
            other, *inner = module.split(".")
            inner += [
                name for name in re.findall(r"\w+", names) if (SRC / other / f"{name}.py").exists()
            ]
            if other not in (home, "_internal") and any(part.startswith("_") for part in inner):
                found.append(f"{path.relative_to(SRC)}: {module}")
    return found


def module_name(path: Path) -> str:
    """Return the dotted name of a module of the package."""
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_at_once(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports executed when a module is imported: not in functions or under TYPE_CHECKING."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def import_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return, for every module, the modules imported with it.

    Parameters
    ----------
    texts : mapping of str to str
        Sources by module name. ``from package import name`` counts as an import of the name if it is
        a module, and otherwise of the package; parent packages are not counted.
    """
    graph: dict[str, set[str]] = {}
    for module, text in texts.items():
        needed: set[str] = set()
        for node in imported_at_once(ast.parse(text)):
            if isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                needed.add(inner if inner in texts else str(node.module))
        graph[module] = needed & texts.keys() - {module}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the import cycles (strongly connected components), with Tarjan's algorithm."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return sorted(found)


def import_cycles() -> list[list[str]]:
    """Return the import cycles within and across packages."""
    return cycles(import_graph({module_name(path): text for path, text in sources()}))


def walk(arguments: tuple[str, ...]) -> tuple[int, int]:
    """Return the numbers of functions and packages that a command uses, in this process."""
    passed: set[tuple[str, str]] = set()

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and "/eval_toolkit/" in code.co_filename
            and code.co_name not in NOT_COUNTED
        ):
            module = code.co_filename.rsplit("/eval_toolkit/", 1)[1].removesuffix(".py")
            passed.add((module, code.co_qualname))

    from eval_toolkit.cli.main import main as command

    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        command(list(arguments))
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return len(passed), len({module.split("/")[0] for module, _ in passed})


def walked(name: str) -> tuple[int, int]:
    """Return the walk of a command run in a separate process and folder."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rows.csv").write_text(ROWS)
        Path(folder, "seeds.csv").write_text(SEEDS)
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--walk", name],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    functions, packages = done.stdout.split()[-2:]
    return int(functions), int(packages)


def measured(with_walks: bool) -> dict[str, int]:
    """Return all measurements by name."""
    sys.path.insert(0, str(SRC.parent))
    import eval_toolkit

    found = collections.OrderedDict(
        {
            "names in the package": n_names(),
            "names in dir(eval_toolkit)": len(dir(eval_toolkit)),
            f"functions with more than {MANY} parameters": len(with_many_parameters()),
            NEEDLESS: len(with_needless_parameters()),
            "private modules imported across packages": len(private_imports()),
            "import cycles": len(import_cycles()),
            "lines in src": sum(len(text.splitlines()) for _, text in sources()),
        }
    )
    for name in WALKS if with_walks else ():
        functions, packages = walked(name)
        found |= {f"{name}: functions": functions, f"{name}: packages": packages}
    return dict(found)


def exceeded(found: Mapping[str, int]) -> list[str]:
    """Return the measurements above their ceiling, or above their limit if there is no ceiling."""
    most = {**LIMITS, **CEILINGS}
    return [name for name, value in found.items() if value > most.get(name, value)]


def main() -> None:
    """Print the table, or the counts of one walk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", action="store_true", help="follow the three commands, too")
    parser.add_argument("--walk", choices=tuple(WALKS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.walk:
        sys.path.insert(0, str(SRC.parent))
        print(*walk(WALKS[asked.walk]))
        return
    found = measured(asked.walks)
    print("| | measured | limit | ceiling |\n| --- | ---: | ---: | ---: |")
    for name, value in found.items():
        limit = LIMITS.get(name, "")
        print(f"| {name} | {value} | {limit} | {CEILINGS.get(name, limit)} |")
    if above := exceeded(found):
        sys.exit(f"above the ceiling: {', '.join(above)}")


if __name__ == "__main__":
    main()
