"""Requests of a run with their position, to distinguish equal requests.

Two attempts may be one request. A model that keeps or replays answers must know which of them is
meant, whatever the order in which they are asked: it has a method ``answer_at(request, place)``.
"""

from dataclasses import dataclass
from typing import Any

from eval_toolkit.models.requests import GenerateRequest, Request
from eval_toolkit.protocols import Model

__all__ = ["Place", "ask"]


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a request in a run."""

    job: tuple[str, int, str]
    """Unit, attempt and step."""
    nth: int
    """How many equal requests stand before it, asked now or answered already."""


async def ask(model: Model, request: Request, place: Place | None = None) -> Any:
    """Return the answer of a model; the position is passed to models that need it."""
    if place is not None and hasattr(model, "answer_at"):
        return await model.answer_at(request, place)
    if isinstance(request, GenerateRequest):
        return await model.generate(request)
    return await model.loglikelihood(request)
