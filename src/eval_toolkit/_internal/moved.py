"""Modules that have a new home; their old names still import, as the very same modules."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "find_moved"]

MOVED = {
    "eda": "leakage.eda",
    "evidence": "claims.evidence",
    "judges": "graders.judges",
    "messages": "models.messages",
    "op_metric_specs": "metric_specs.at_threshold",
    "operating_points": "thresholds.operating_points",
    "plots": "report.plots",
    "prompts": "models.prompts",
    "requests": "models.requests",
    "responses": "models.responses",
    "runner": "models.runner",
    "scorers": "harness.scorers",
    "viewer": "report.viewer",
}
"""Old name in the package, and the new one."""
_ROOT = "eval_toolkit."


class _Alias:
    """Loads a module under its old name: the module at its new home, as it is there."""

    def __init__(self, home: str) -> None:
        self._module = import_module(home)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def get_code(self, fullname: str) -> Any:
        """Return what ``python -m`` runs under the old name."""
        return self._spec.loader.get_code(self._spec.name)  # type: ignore[union-attr]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the old name there


class _OldNames:
    """Finds modules by their old names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT):
            return None
        old, _, rest = fullname.removeprefix(_ROOT).partition(".")
        if old not in MOVED:
            return None
        home = ".".join(filter(None, (MOVED[old], rest)))
        return ModuleSpec(fullname, _Alias(_ROOT + home))  # type: ignore[arg-type]  # duck-typed


def find_moved() -> None:
    """Let the old names of modules be imported.

    Examples
    --------
    >>> from eval_toolkit.messages import Message
    >>> Message.__module__
    'eval_toolkit.models.messages'
    """
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        # First: the path of a moved package would give its modules a second time.
        sys.meta_path.insert(0, _OldNames())
