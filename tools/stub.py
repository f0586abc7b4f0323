"""Write the stub of the root package and the snapshots of its names: python tools/stub.py.

The package root loads names lazily from a table of their modules; type checkers read the stub.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import eval_toolkit  # noqa: E402 - from this tree

STUB = ROOT / "src" / "eval_toolkit" / "__init__.pyi"
SNAPSHOT = ROOT / "tests" / "public_api.txt"
OLD = ROOT / "tests" / "old_names.txt"
HEAD = """# What type checkers see of the lazy root: every listed name at its home. Made by tools/stub.py.

from eval_toolkit import metric_specs
from eval_toolkit.metric_specs import at_threshold as op_metric_specs
"""


def stub() -> str:
    """Return the unformatted stub."""
    homes = sorted(eval_toolkit._EXPORTS.items())
    imports = [
        f"from eval_toolkit.{home} import {', '.join(names.split())}" for home, names in homes
    ]
    names = [f'    "{name}",' for name in eval_toolkit.__all__]
    exported = "\n".join(["__all__ = [", *names, "]"])
    return "\n".join([HEAD, *imports, "", "__version__: str", "", exported, ""])


def main() -> None:
    """Write the files; ruff sorts and wraps the stub."""
    STUB.write_text(stub(), encoding="utf-8")
    for command in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, str(STUB)], check=True, cwd=ROOT)
    SNAPSHOT.write_text("\n".join(eval_toolkit.__all__) + "\n", encoding="utf-8")
    OLD.write_text("\n".join(sorted(eval_toolkit._OLD_HOME)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
