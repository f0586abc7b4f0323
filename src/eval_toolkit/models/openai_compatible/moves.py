"""Model list entries, used to recognise a server that has moved."""

import asyncio
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.endpoint import Endpoint

_WITHIN_S = 10.0
_OF_THE_SERVER = frozenset({"created", "permission", "owned_by", "object"})
"""Fields that may differ between servers for the same model, or between two requests."""
_NO_LIST = (404, 405, 501)


async def served_model(endpoint: Endpoint, model: str) -> dict[str, Any] | None:
    """Return a model's entry in a model list, without fields that describe the server."""
    try:
        return await listed_model(endpoint, model)
    except ModelError:
        return None


async def listed_model(endpoint: Endpoint, model: str) -> dict[str, Any] | None:
    """Request the entry of a model; return None if the server does not list it.

    Raises `ModelError` if the server cannot be reached or refuses to answer.
    """

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
    except TimeoutError:
        raise ModelError(
            f"{endpoint.address.shown} did not return its model list within {_WITHIN_S:g} s",
            kind="connection",
        ) from None
    except ModelError as error:
        if error.status in _NO_LIST or error.kind in ("garbled", "bad_request"):
            return None
        raise
