"""What a server says that it serves, by which a moved server is recognised."""

import asyncio
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.endpoint import Endpoint

_WITHIN_S = 10.0
_OF_THE_SERVER = frozenset({"created", "permission", "owned_by", "object"})
"""Fields that differ between servers of one model, or between two requests."""


async def served_model(endpoint: Endpoint, model: str) -> dict[str, Any] | None:
    """Return the entry of a model in the server's list, without fields about the server."""

    def read(payload: Mapping[str, Any]) -> dict[str, Any] | None:
        listed = payload.get("data")
        entries = [one for one in listed if isinstance(one, dict)] if listed else []
        found = next((one for one in entries if one.get("id") == model), None)
        if found is None:
            return None
        return {name: value for name, value in found.items() if name not in _OF_THE_SERVER}

    try:
        async with asyncio.timeout(_WITHIN_S):
            return (await endpoint.ask_once("models", read)).value
    except (ModelError, TimeoutError):
        return None
