"""Viewer server on loopback, with a client that acts like a browser."""

import contextlib
import http.client
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from tests.support.viewer_driving import TOKEN, Answer

from eval_toolkit.report.viewer import create_app, serving
from eval_toolkit.report.viewer.security import session_of


@dataclass(frozen=True)
class Served:
    """A running viewer and its port."""

    port: int

    def __call__(self, address: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        cookie = f"eval_toolkit_view_{self.port}={session_of(TOKEN)}"
        connection.request("GET", address, headers={"Cookie": cookie})
        got = connection.getresponse()
        body = got.read()
        connection.close()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, body)


@contextlib.contextmanager
def served(runs_dir: Path) -> Iterator[Served]:
    """Serve a folder of runs like `serve`, but in a thread that can be stopped."""
    with contextlib.closing(serving._listening(0)) as bound:
        server = serving._server(uvicorn, create_app(runs_dir, token=TOKEN))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield Served(bound.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
