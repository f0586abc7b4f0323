"""Static images of charts, drawn in a separate process.

vl-convert crashes on strings that it cannot draw. `shown_spec` escapes the characters that are
known to cause crashes; the separate process isolates any others. One worker process draws all
charts.
"""

import base64
from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal.sandbox import Contained, Failed, Limits, Overrun
from eval_toolkit._internal.words import visible
from eval_toolkit.errors import ArtifactError

_LIMITS = Limits(seconds=30.0, memory_mb=None, file_mb=64, open_files=256)
"""No limit on the address space, because the library reserves far more of it than it uses."""


def shown_spec(spec: Any) -> Any:
    r"""Return a Vega-Lite specification with control and reordering characters escaped.

    Names of slices and scorers come from files and may contain any character. Keys and values are
    escaped alike, so that fields still match.

    Examples
    --------
    >>> shown_spec({"a\ufffe": ["b\x00", 1.0]})
    {'a⟨U+FFFE⟩': ['b␀', 1.0]}
    """
    if isinstance(spec, str):
        return spec if spec.isascii() and spec.isprintable() else visible(spec, len(spec))
    if isinstance(spec, Mapping):
        return {shown_spec(key): shown_spec(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [shown_spec(value) for value in spec]
    return spec


def picture(spec: Mapping[str, Any], kind: str, **options: Any) -> bytes:
    """Render a chart as an image.

    The kind "script" returns the JavaScript library instead. Options are passed to vl-convert.

    Examples
    --------
    >>> spec = {"data": {"values": [{"a": 1}]}, "mark": "bar",
    ...         "encoding": {"x": {"field": "a", "type": "quantitative"}}}
    >>> picture(spec, "svg")[:4]
    b'<svg'
    """
    draw = Contained("eval_toolkit._internal.sandbox.charts:convert", _LIMITS)
    try:
        drawn = draw(shown_spec(spec), kind, options)
    except Overrun as error:
        why = "it took too long" if error.kind == "time" else "the chart library crashed"
        raise ArtifactError(f"a chart could not be drawn: {why}") from error
    except Failed as error:
        raise ArtifactError(
            f"a chart could not be drawn: {' '.join(str(error).split())}"
        ) from error
    except OSError as error:
        raise ArtifactError(
            f"the process that draws charts could not be started: {error}"
        ) from error
    return base64.b64decode(drawn)
