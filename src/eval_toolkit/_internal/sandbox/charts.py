"""Conversion of Vega-Lite charts to images, in a worker because the library may crash."""

import base64
from typing import Any


def convert(spec: dict[str, Any], kind: str, options: dict[str, Any]) -> str:
    """Return an image, or the chart library, as base64 (workers only).

    The kind "script" returns the JavaScript library that draws charts in a browser.
    """
    import vl_convert

    library: Any = vl_convert  # its type hints are stricter than its implementation
    if kind == "script":
        made = library.javascript_bundle()
    else:
        made = getattr(library, f"vegalite_to_{kind}")(spec, **options)
    return base64.b64encode(made.encode("utf-8") if isinstance(made, str) else made).decode("ascii")
