"""What a worker does for charts: Vega-Lite to a picture, by a library that may end its process."""

import base64
from typing import Any

__all__ = ["convert"]


def convert(spec: dict[str, Any], kind: str, options: dict[str, Any]) -> str:
    """Return a picture, or the library itself, as base64; for workers alone.

    Parameters
    ----------
    spec : dict
        Vega-Lite.
    kind : {"svg", "png", "pdf", "script"}
        The format; "script" is the JavaScript that draws charts in a browser, whatever the chart.
    options : dict
        Passed to vl-convert.
    """
    import vl_convert

    library: Any = vl_convert  # its types ask for what it does without
    if kind == "script":
        made = library.javascript_bundle()
    else:
        made = getattr(library, f"vegalite_to_{kind}")(spec, **options)
    return base64.b64encode(made.encode("utf-8") if isinstance(made, str) else made).decode("ascii")
