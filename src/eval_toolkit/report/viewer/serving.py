"""Local web server of the viewer, which runs until it is interrupted."""

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
        Folder that is searched recursively for runs, and never modified.
    port : int, default 0
        Port on 127.0.0.1; 0 selects a free one.
    token : str, optional
        Token required from browsers, at least 16 characters; by default a random one.
    open_browser : bool
        Whether to open the URL in a browser on this machine.
    started : callable, optional
        Function called with the URL, including the token, once the server responds.

    Raises
    ------
    ArtifactError
        If the folder does not exist.
    InvalidInputError
        If the port is in use or not permitted, or the token is too short.
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
    """Return a listening socket, so that a port in use is detected before the URL is announced."""
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
            "`port`, or 0 for any free one"
        ) from error
    return made


def _server(uvicorn: Any, app: Any) -> Any:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,  # uvicorn's config would close all handlers of the process
            log_level="error",
            access_log=False,  # the first URL contains the token
            server_header=False,
            proxy_headers=False,  # there is no proxy, and headers must not claim one
            lifespan="off",
            ws="none",
            limit_concurrency=100,
            timeout_graceful_shutdown=2,
        )
    )


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open a URL in a browser by way of a file that only this user can read.

    The command line of the browser, which is visible to all users, then contains no token.
    """
    import webbrowser

    with tempfile.TemporaryDirectory(prefix="eval-toolkit-view-") as folder:  # mode 0700
        page = Path(folder) / "open.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">',
            encoding="utf-8",
        )
        threading.Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()
        yield
