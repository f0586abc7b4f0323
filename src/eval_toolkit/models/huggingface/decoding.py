"""Continuous batching: waiting sequences replace finished ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit.models._tokens import stop_position
from eval_toolkit.models.huggingface.graphs import Stepper
from eval_toolkit.models.huggingface.memory import Budget
from eval_toolkit.models.huggingface.network import Network
from eval_toolkit.models.huggingface.sampling import FREE, GREEDY, NUCLEUS
from eval_toolkit.models.huggingface.slots import COLUMNS, Slots
from eval_toolkit.models.huggingface.trees import Tokens
from eval_toolkit.models.requests import GenerateRequest

_STEPS = 8
"""Number of steps between checks of the generated tokens, in which a GPU runs uninterrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Prompt and stopping criteria of a sequence."""

    place: int
    request: GenerateRequest
    text: str
    prompt: Tokens
    limit: int
    ends: frozenset[int]
    seed: int
    text_after: Callable[[Sequence[int], Sequence[int]], str]
    """Function that decodes generated tokens as a continuation of the prompt."""

    @property
    def reach(self) -> int:
        """Maximum total number of prompt and answer tokens."""
        return len(self.prompt) + self.limit

    @property
    def kind(self) -> int:
        """Sampling mode, by the settings of the row."""
        if self.request.heat <= 0.0:
            return GREEDY
        return NUCLEUS if (self.request.top_p or 1.0) < 1.0 else FREE

    def numbers(self) -> Any:
        """Return the random numbers in [0, 1) for the tokens, as determined by the seed."""
        if self.kind == GREEDY:
            return np.zeros(self.limit)
        return np.random.default_rng(self.seed).random(self.limit)


@dataclass(slots=True)
class Generated:
    """Tokens generated for a row, which is finished if ``finish_reason`` is set."""

    row: Row
    ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None

    def take(self, tokens: Sequence[int]) -> None:
        """Add tokens up to the end of the answer; ignore later ones."""
        row, before = self.row, len(self.ids)
        room = row.limit - before
        end = next((at for at, token in enumerate(tokens[:room]) if token in row.ends), None)
        self.ids += tokens[: room if end is None else end]
        if row.request.stop and self._stop(before):
            return
        if end is not None:
            self.finish_reason = "stop"
        elif len(self.ids) >= row.limit:
            self.finish_reason = "length"
        if self.finish_reason is not None:
            self.text = self._text(len(self.ids))

    def _text(self, n: int) -> str:
        return self.row.text_after(self.row.prompt[-1:].tolist(), self.ids[:n])

    def _stop(self, before: int) -> bool:
        """Truncate the text before the first stop string, and the tokens after it."""
        stops = self.row.request.stop
        if stop_position(self._text(len(self.ids)), stops) is None:
            return False
        for n in range(before + 1, len(self.ids) + 1):
            text = self._text(n)
            at = stop_position(text, stops)
            if at is not None:
                del self.ids[n:]
                self.text, self.finish_reason = text[:at], "stop"
                return True
        return False


@dataclass(slots=True)
class Decoding:
    """Generate answers in the slots of a static cache."""

    network: Network
    budget: Budget
    done: Callable[[Generated], None]
    """Callback that receives each finished row."""
    abandoned: Callable[[], bool]
    n_slots: int = 0
    """Number of slots used by the last attempt."""

    def run(self, rows: Sequence[Row]) -> None:
        """Generate all answers, starting with those that may become longest."""
        waiting = sorted(rows, key=lambda row: (-_columns(row.reach), row.prompt.tolist()))
        while waiting and not self.abandoned():
            # A slot is as long as the longest sequence: much shorter ones get separate slots.
            most = _columns(waiting[0].reach)
            alike = [row for row in waiting if _columns(row.reach) * 4 > most]
            waiting = waiting[len(alike) :]
            longest = max(row.reach for row in alike)
            self.n_slots = min(self.budget.slots_of(longest), len(alike))
            _Pool(self, alike, longest).run()


class _Pool:
    """Sequences that share a pool of slots."""

    def __init__(self, decoding: Decoding, rows: Sequence[Row], length: int) -> None:
        self._decoding = decoding
        self._network = decoding.network
        self._waiting = list(rows)
        n_numbers = max(row.limit for row in rows)
        self._slots = Slots(self._network, decoding.n_slots, length, n_numbers)
        self._live: dict[int, Generated] = {}
        self._free = list(range(decoding.n_slots))
        self._history = self._network.torch.zeros(
            (_STEPS + 1, decoding.n_slots),
            dtype=self._network.torch.long,
            device=self._network.device,
        )
        self._stepper = Stepper(self._slots, self._history)

    def run(self) -> None:
        """Generate until all rows are finished."""
        while (self._waiting or self._live) and not self._decoding.abandoned():
            new = self._admit()
            kind = max(one.row.kind for one in self._live.values())
            left = max(one.row.limit - len(one.ids) - (at in new) for at, one in self._live.items())
            n_steps = min(_STEPS, left)
            reach = max(len(one.row.prompt) + len(one.ids) for one in self._live.values())
            width = min(_columns(reach + n_steps + 1), self._slots.length)
            self._stepper.run(n_steps, width, kind)
            self._collect(n_steps, new)

    def _admit(self) -> set[int]:
        """Prefill free slots with waiting prompts, many at once because they may share a prefix."""
        enough = not self._live or 8 * len(self._free) >= self._slots.n
        if not (self._waiting and self._free and enough):
            return set()
        rows = self._waiting[: len(self._free)]
        places, self._free = self._free[: len(rows)], self._free[len(rows) :]
        self._waiting = self._waiting[len(rows) :]
        slots = self._slots
        where = self._network.to_device(np.array(places, dtype=np.int64))
        slots.order(
            where,
            [(row.request.heat, row.request.top_p or 1.0) for row in rows],
            [row.numbers() for row in rows],
        )
        budget = self._decoding.budget
        logits = slots.fill(
            [row.prompt for row in rows], places, budget.limits(trees=True), budget.tokens
        )
        kind = max(row.kind for row in rows)
        slots.tokens[where] = slots.chosen(self._network.torch.stack(logits), where, kind)
        self._history[0] = slots.tokens
        self._live.update((place, Generated(row)) for place, row in zip(places, rows, strict=True))
        return set(places)

    def _collect(self, n_steps: int, new: set[int]) -> None:
        """Assign the generated tokens to their rows, and free the slots of finished rows."""
        table = self._history[: n_steps + 1].cpu().numpy()
        for place in list(self._live):
            one = self._live[place]
            one.take(table[0 if place in new else 1 :, place].tolist())
            if one.finish_reason is not None:
                del self._live[place]
                self._free.append(place)
                self._decoding.done(one)


def _columns(n: int) -> int:
    return n + -n % COLUMNS
