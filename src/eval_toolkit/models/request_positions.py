"""Positions of requests in a run, which distinguish identical requests.

Two attempts may send the same request. Models that cache or replay answers must distinguish them
regardless of the order of requests; they have a method ``answer_at(request, place)``.
"""

from dataclasses import dataclass
from typing import Any

from eval_toolkit.models.requests import GenerateRequest, Request
from eval_toolkit.protocols import Model


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a request in a run."""

    job: tuple[str, int, str]
    """Unit, attempt and step."""
    nth: int
    """Number of preceding identical requests, answered or not."""


async def ask(model: Model, request: Request, place: Place | None = None) -> Any:
    """Query a model; the position is passed to models that accept it."""
    if place is not None and hasattr(model, "answer_at"):
        return await model.answer_at(request, place)
    if isinstance(request, GenerateRequest):
        return await model.generate(request)
    return await model.loglikelihood(request)
