"""List the public modules and names of eval-toolkit 1.12: ``python listing.py FILE``.

Each line has a module name, a colon and the names in the module. A module with a missing dependency is
parsed instead of imported.
"""

import ast
import importlib
import pkgutil
import sys
from pathlib import Path

import eval_toolkit


def _listed(module: str) -> list[str]:
    try:
        found = importlib.import_module(module)
    except ImportError:
        path = Path(eval_toolkit.__file__).parent.joinpath(*module.split(".")[1:])
        tree = ast.parse(path.with_suffix(".py").read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return sorted(ast.literal_eval(node.value))
        raise
    own = [
        name
        for name, value in vars(found).items()
        if name[0] != "_" and getattr(value, "__module__", None) == module
    ]
    return sorted(getattr(found, "__all__", own))


def main(file: Path) -> None:
    """Write the list."""
    found = (info.name for info in pkgutil.walk_packages(eval_toolkit.__path__, "eval_toolkit."))
    public = [name for name in found if not any(part[0] == "_" for part in name.split("."))]
    lines = [f"{name}: {' '.join(_listed(name))}" for name in sorted(["eval_toolkit", *public])]
    file.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
