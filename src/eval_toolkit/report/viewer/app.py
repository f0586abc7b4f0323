"""Web application: routes and error pages."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal import optional
from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.report.viewer import rendering
from eval_toolkit.report.viewer.security import HEADERS, Guard, checked_token
from eval_toolkit.report.viewer.state import NotFoundError, Viewer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

ROUTES = (
    ("/", "runs_page:show", "runs"),
    ("/runs/{key}", "run_page:show", "run"),
    ("/runs/{key}/report.html", "run_page:download", "report"),
    ("/runs/{key}/samples", "sample_browser:show", "samples"),
    ("/runs/{key}/sample", "sample_page:show", "sample"),
    ("/runs/{key}/live", "live:show", "live"),
    ("/compare", "run_comparison:show", "compare"),
    ("/compare/sample", "sample_comparison:show", "compare-sample"),
)
"""Routes as URL path, module and function, and name. Each function takes the request and returns a
response; it is called in a separate thread."""


def create_app(runs_dir: str | Path, *, token: str) -> Any:
    """Return the viewer of a folder of runs as an ASGI application.

    Parameters
    ----------
    runs_dir : path
        Folder that is searched recursively for runs, and never modified.
    token : str
        Token required from browsers; at least 16 characters.

    Returns
    -------
    Starlette
        Application, which must be served on localhost only, as `serve` does.

    Raises
    ------
    ArtifactError
        If the folder does not exist.
    InvalidInputError
        If the token is too short.
    MissingExtraError
        If the extra ``view`` is not installed.

    Examples
    --------
    >>> import tempfile
    >>> app = create_app(tempfile.mkdtemp(), token="not-to-be-guessed")
    >>> [route.name for route in app.routes][:2]
    ['static', 'runs']
    """
    applications = optional.require("starlette.applications", feature="the viewer", extra="view")
    from starlette.middleware import Middleware
    from starlette.routing import Route

    if not Path(runs_dir).is_dir():
        raise ArtifactError(f"{runs_dir}: no such folder")
    routes = [Route("/static/{name}", _endpoint("app:static_file"), name="static")]
    routes += [Route(path, _endpoint(where), name=name) for path, where, name in ROUTES]
    app: Starlette = applications.Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=checked_token(token))],
        exception_handlers={404: _no_such_page, 500: _unexpected},
    )
    app.router.redirect_slashes = False
    app.state.viewer = Viewer.of(runs_dir)
    return app


def _endpoint(where: str) -> Any:
    """Return a handler that imports its module on first use."""
    module, _, name = where.partition(":")

    def handle(request: "Request") -> "Response":
        show = getattr(import_module(f"eval_toolkit.report.viewer.{module}"), name)
        try:
            response: Response = show(request)
        except NotFoundError as error:
            return message(str(error), 404)
        except FileNotFoundError:  # removed in the meantime
            return message("The run or file of this page no longer exists.", 404)
        except EvalToolkitError as error:
            return message(str(error), 409, bug=True)
        return response

    return handle


def message(text: str, status: int, *, bug: bool = False) -> "Response":
    """Return a page that shows a single message.

    ``bug`` is whether the message reports a bug.
    """
    from starlette.responses import HTMLResponse

    titles = {404: "Not found", 500: "An error occurred"}
    title = titles.get(status, "This cannot be shown")
    html = rendering.page("message.html", title=title, text=text, bug=bug)
    return HTMLResponse(html, status_code=status)


def _no_such_page(request: "Request", error: Exception) -> "Response":
    return message("There is no such page here.", 404)


def _unexpected(request: "Request", error: Exception) -> "Response":
    response = message(f"unexpected {type(error).__name__}: {error}", 500, bug=True)
    # This response bypasses the guard, which adds the headers to all others.
    response.headers.update({name.decode(): value.decode() for name, value in HEADERS.items()})
    return response


def static_file(request: "Request") -> "Response":
    """Return a static file."""
    from starlette.responses import Response

    name = request.path_params["name"]
    files = rendering.static_files()
    found = rendering.charts_file() if name == "charts.js" else files.get(name)
    if found is None:
        return message("There is no such file here.", 404)
    media, data = found
    return Response(
        data,
        media_type=f"{media}; charset=utf-8",
        headers={"cache-control": "private, max-age=86400, immutable"},
    )
