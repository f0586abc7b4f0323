"""Resume a run whose model has moved to another address."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs.folder import MANIFEST, run_head

_ADDRESS = "base_url"
_ID = "id:"


def served_by(model: Any) -> Mapping[str, Any] | None:
    """Return the model that a server reports, or None."""
    if not hasattr(model, "served"):
        return None

    async def request_model() -> Any:
        try:
            return await model.served()
        finally:
            await model.aclose()

    with ThreadPoolExecutor(1) as thread:  # a loop may be running in this one
        found: Mapping[str, Any] | None = thread.submit(
            lambda: asyncio.run(request_model())
        ).result()
    return found


def follow_moved(folder: Path, model: Any, served: Mapping[str, Any] | None) -> None:
    """Accept the model of a run at a different address if nothing else differs.

    Raises `ArtifactError` unless both servers report the same model or the user confirms this with
    a ``model_id``.
    """
    if not hasattr(model, "answers_as") or not (folder / MANIFEST).exists():
        return
    listed = run_head(folder)[1].get("models")
    stored = listed[0] if isinstance(listed, list) and listed else None
    here = dict(model.describe())
    if not isinstance(stored, Mapping) or not isinstance(stored.get("description"), Mapping):
        return
    there = stored["description"]
    if there == here or {**there, _ADDRESS: ""} != {**here, _ADDRESS: ""}:
        return
    old, new = str(there.get(_ADDRESS)), str(here[_ADDRESS])
    if old.startswith(_ID):  # the user named another model, or none
        return
    if new.startswith(_ID) or (served is not None and served == stored.get("served")):
        model.answers_as(old)
    else:
        raise ArtifactError(
            f"{folder}: the model of this run was at {old}, and the server at {new} does not "
            f"report the same model; pass --model-id NAME if it is the same, or choose another "
            f"folder"
        )
