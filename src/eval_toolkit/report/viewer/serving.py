"""Serving the viewer: on this machine's own address, until it is interrupted."""

import contextlib
import html
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from eval_toolkit._internal import optional, validation
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.report.viewer.app import create_app
from eval_toolkit.report.viewer.security import new_token

__all__ = ["ADDRESS", "serve"]

ADDRESS = "127.0.0.1"


def serve(
    runs_dir: str | Path,
    *,
    port: int = 0,
    token: str | None = None,
    open_browser: bool = False,
    started: Callable[[str], object] | None = None,
) -> None:
    """Serve the viewer of a folder of runs until it is interrupted.

    Parameters
    ----------
    runs_dir : path
        Searched for runs at any depth; only read.
    port : int, default 0
        On 127.0.0.1; 0 takes one that is free.
    token : str, optional
        What browsers have to show, 16 characters or more; by default one that cannot be guessed.
    open_browser : bool
        Open the address in the browser of this machine.
    started : callable, optional
        Told the address, token and all, once it answers.

    Raises
    ------
    ArtifactError
        If there is no such folder.
    InvalidInputError
        If the port is taken or not allowed, or the token too short.
    MissingExtraError
        If the extra ``view`` is not installed.

    Examples
    --------
    >>> serve("no-such-folder")
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.ArtifactError: no-such-folder: no such folder
    """
    uvicorn = optional.require("uvicorn", feature="the viewer", extra="view")
    shown = new_token() if token is None else token
    app = create_app(runs_dir, token=shown)
    with contextlib.closing(_listening(validation.integer(port, "port"))) as bound:
        address = f"http://{ADDRESS}:{bound.getsockname()[1]}/?token={quote(shown)}"
        if started is not None:
            started(address)
        with _opened(address) if open_browser else contextlib.nullcontext():
            _server(uvicorn, app).run(sockets=[bound])


def _listening(port: int) -> socket.socket:
    """Return a socket that listens: a taken port is known before anybody is told the address."""
    if port > 65535:
        raise InvalidInputError(f"`port` is {port}; it must be at most 65535")
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((ADDRESS, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise InvalidInputError(
            f"port {port} of {ADDRESS}: {(error.strerror or str(error)).lower()}; choose another "
            "`port`, or 0 for any that is free"
        ) from error
    return made


def _server(uvicorn: Any, app: Any) -> Any:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,  # uvicorn's would close every handler that the process has
            log_level="error",
            access_log=False,  # the first address holds the token
            server_header=False,
            proxy_headers=False,  # nobody forwards to here, and a header must not say so
            lifespan="off",
            ws="none",
            limit_concurrency=100,
            timeout_graceful_shutdown=2,
        )
    )


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open an address in a browser by a file that only this user can read.

    Everybody on the machine sees the arguments that a browser is started with.
    """
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="eval-toolkit-view-") as folder:  # of mode 0700
        page = Path(folder) / "open.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">',
            encoding="utf-8",
        )
        threading.Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()
        yield
