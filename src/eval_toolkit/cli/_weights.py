"""Model weights that ``eval-toolkit models fetch`` downloads: purpose, status and path."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ModelError

WEIGHTS = {
    "model": "the embedded language model, 93 MB",
    "toxicity": "the toxicity scorer, 8 MB (extra safety)",
}


def _functions(which: str) -> tuple[Callable[[], Path], Callable[..., Path]]:
    if which == "model":
        from eval_toolkit.models.embedded.fetching import fetch_model, model_path

        return model_path, fetch_model
    from eval_toolkit.rollouts.scorers.toxicity.fetching import fetch_toxicity, toxicity_path

    return toxicity_path, fetch_toxicity


def fetch_weights(which: str, *, force: bool) -> Path:
    """Download one of `WEIGHTS` and return its path."""
    return _functions(which)[1](force=force)


def weights_there() -> dict[str, dict[str, Any]]:
    """Return for each entry of `WEIGHTS` whether it exists, and its path or download command."""
    found: dict[str, dict[str, Any]] = {}
    for which, what in WEIGHTS.items():
        try:
            path, state = str(_functions(which)[0]()), "fetched"
        except ModelError:
            path, state = None, f"missing: eval-toolkit models fetch --only {which}"
        found[which] = {"what": what, "fetched": path is not None, "path": path, "state": state}
    return found
