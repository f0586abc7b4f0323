"""Batched generation with independent sampling per row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.models._tokens import stop_position
from eval_toolkit.models.huggingface.network import Network, Reading
from eval_toolkit.models.requests import GenerateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Prompt and stopping criteria."""

    place: int
    request: GenerateRequest
    text: str
    prompt: Sequence[int]
    limit: int
    ends: frozenset[int]
    seed: int
    text_after: Callable[[Sequence[int], Sequence[int]], str]
    """Function that returns the text of generated tokens as a continuation of the prompt."""

    n_rows = 1

    @property
    def length(self) -> int:
        """Number of prompt tokens."""
        return len(self.prompt)


@dataclass(slots=True)
class Generated:
    """Generated tokens of a row; finished if ``finish_reason`` is set."""

    row: Row
    ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.row.seed)

    def take(self, token: int) -> None:
        """Add a token, or detect the end of the text."""
        row = self.row
        if token in row.ends:
            self.finish_reason = "stop"
            self.text = row.text_after(row.prompt, self.ids)
            return
        self.ids.append(token)
        full = len(self.ids) >= row.limit
        if not (full or row.request.stop):
            return
        text = row.text_after(row.prompt, self.ids)
        at = stop_position(text, row.request.stop)
        if at is not None:
            self.text, self.finish_reason = text[:at], "stop"
        elif full:
            self.text, self.finish_reason = text, "length"


def decode(network: Network, rows: Sequence[Row], abandoned: Callable[[], bool]) -> list[Generated]:
    """Return the generation for each prompt; unfinished if the caller no longer waits."""
    generated = [Generated(row) for row in rows]
    reading = Reading(network, [row.prompt for row in rows])
    logits, active = reading.after, generated
    while True:
        likeliest = logits.argmax(1).tolist()
        for at, state in enumerate(active):
            request = state.row.request
            if request.heat > 0.0:
                state.take(draw(logits[at].float().cpu().numpy(), request, state.random))
            else:
                state.take(likeliest[at])
        going = [at for at, state in enumerate(active) if state.finish_reason is None]
        if not going or abandoned():
            return generated
        if len(going) < len(active):
            reading.select(going)
            active = [active[at] for at in going]
        logits = reading.read([state.ids[-1:] for state in active])[:, -1]


def draw(logits: NDArray[np.float32], request: GenerateRequest, random: np.random.Generator) -> int:
    """Sample a token at the request's temperature with nucleus sampling."""
    above = logits.astype(np.float64) - logits.max()
    with np.errstate(over="ignore"):  # a tiny temperature turns all but the largest logit into -inf
        weights = np.exp(above / request.heat)
    tokens = np.arange(len(weights))
    if request.top_p is not None and request.top_p < 1.0:
        order = np.argsort(-weights, kind="stable")
        shares = np.cumsum(weights[order])
        tokens = order[: int(np.searchsorted(shares, request.top_p * shares[-1])) + 1]
    shares = np.cumsum(weights[tokens])
    at = int(np.searchsorted(shares, random.random() * shares[-1], side="right"))
    return int(tokens[min(at, len(tokens) - 1)])
