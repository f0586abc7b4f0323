"""Deferred work in a background thread."""

import threading
from collections.abc import Callable


class Background:
    """Call a function later in a background thread; repeated requests are merged.

    The thread ends when no call is pending. The next `wake` or `close` re-raises an exception
    raised by the function.
    """

    def __init__(self, work: Callable[[], object], *, interval_s: float = 0.5) -> None:
        self._work = work
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._due = False
        self._error: Exception | None = None

    def wake(self) -> None:
        """Schedule a call within the interval."""
        with self._lock:
            self._raise_error()
            self._due = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Wait for the running call and execute a pending one; `wake` may be called again later."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join()
        self._closing.clear()
        due, self._due = self._due, False
        self._raise_error()
        if due:
            self._work()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _loop(self) -> None:
        while not self._closing.wait(self._interval_s):
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                self._due = False
            try:
                self._work()
            except Exception as error:  # re-raised by `wake` or `close`
                self._error = error
        self._thread = None
