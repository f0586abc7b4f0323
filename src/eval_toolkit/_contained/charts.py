"""What a worker does for charts: Vega-Lite to a picture, by a library that may end its process."""

import base64
from typing import Any

__all__ = ["convert"]


def convert(spec: dict[str, Any], kind: str, options: dict[str, Any]) -> str:
    """Return a picture as base64; for workers alone.

    Parameters
    ----------
    spec : dict
        Vega-Lite.
    kind : {"svg", "png", "pdf"}
        The format.
    options : dict
        Passed to vl-convert.
    """
    import vl_convert

    made = getattr(vl_convert, f"vegalite_to_{kind}")(spec, **options)
    return base64.b64encode(made.encode("utf-8") if isinstance(made, str) else made).decode("ascii")
