"""Server outages: one request at a time probes an unavailable server until it responds."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from eval_toolkit._internal.display.progress import duration
from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.retries import seems_gone
from eval_toolkit.models.patience import Patience

T = TypeVar("T")

_LONGEST_WAIT_S = 30.0


class Outage:
    """Outage of a server, which ends when the server responds or the patience is exhausted."""

    def __init__(self, patience: Patience) -> None:
        self.over = False
        self._patience = patience
        self._since = _now()
        self._wait_s = 1.0
        self._turn = asyncio.Lock()
        self._began_at = datetime.now().astimezone()
        patience.tell(self._began_at)

    async def wait(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Wait until the outage ends or it is this request's turn to probe, then send it."""
        async with self._turn:
            if not self.over:
                left = self._since + self._patience.seconds - _now()
                await asyncio.sleep(max(0.0, min(self._wait_s, left)))
                self._wait_s = min(_LONGEST_WAIT_S, 2.0 * self._wait_s)
                return await self._tried(ask)
        return await ask()

    async def _tried(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            found = await ask()
        except ModelError as error:
            if not seems_gone(error):
                self.end()
            elif _now() >= self._since + self._patience.seconds:
                raise ModelError(
                    f"the server has been unavailable since {self._began_at:%H:%M:%S}, longer than the "
                    f"patience of {duration(self._patience.seconds)}: {error}",
                    kind="unreachable",
                ) from None
            else:
                self._patience.tell(self._began_at)
            raise
        self.end()
        return found

    def end(self) -> None:
        """End the outage and release all waiting requests."""
        if not self.over:
            self.over = True
            self._patience.tell(None)


def _now() -> float:
    return asyncio.get_running_loop().time()
