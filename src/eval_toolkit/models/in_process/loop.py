"""Event loop that runs in its own thread."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT")


class LoopThread:
    """Event loop in a daemon thread, started on first use.

    An engine is bound to the event loop in which it was started, but is used from several loops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, work: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """Run a coroutine in the thread and return its result; cancelling the call cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        return await asyncio.wrap_future(future)

    def wait(self, work: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """Run a coroutine in the thread and block until its result is available."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="eval-toolkit-engine", daemon=True
                ).start()
            return self._loop
