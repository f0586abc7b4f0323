"""Logs of other tools: every importer, up to the stored run and its comparison."""

from pathlib import Path

from tests.fuzz.target import Target, command, each

__all__ = ["TARGETS"]


def _imported(entry: str) -> "Target":
    """Return the target of one tool; ``entry`` is the imported path, "" for the changed file."""
    tool = entry.partition(":")[0]
    path = entry.partition(":")[2]

    def run(folder: Path, name: str) -> None:
        out = folder / "out" / "runs"
        command("import", folder / (path or name), "--json")
        command("import", folder / (path or name), "--out", out)
        made = sorted(out.iterdir())
        command("doctor", *made)
        each(*(lambda one=one: command("compare", one, one) for one in made))

    return Target(f"import_{tool}", f"logs of {tool.replace('_', '-')}", run)


TARGETS = tuple(
    map(
        _imported,
        (
            "inspect:",
            "lm_eval:log",
            "lighteval:log",
            "helm:log",
            "eval_framework:log",
            "astra_rl:",
            "garak:",
            "original:log",
            "predictions:",
        ),
    )
)
