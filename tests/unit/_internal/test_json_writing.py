"""The writer of many JSON values writes what an encoder of `json` writes."""

import json
from typing import Any

import numpy as np
import pytest

from eval_toolkit._internal.json_writing import json_writer

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"ensure_ascii": False, "sort_keys": True, "default": str},
    {"allow_nan": False, "separators": (",", ":"), "default": str},
    {"skipkeys": True, "default": str},
    {"indent": 2, "default": str},
)
VALUES = (
    None,
    "é\ud800\u2028\n",
    -0.0,
    1e300,
    10**400,
    True,
    [],
    {},
    {"b": [1, 2.5, None, {"é": "\x7f"}], "a": (True, "x"), "": "<"},
    {1: 2, 0.5: 3, None: 4},
)


@pytest.mark.parametrize("options", OPTIONS)
def test_it_writes_the_same(options: dict[str, Any]) -> None:
    write, encoder = json_writer(**options), json.JSONEncoder(**options)
    values = [value for value in VALUES if not (options.get("sort_keys") and value == VALUES[-1])]
    assert [write(value) for value in values] == [encoder.encode(value) for value in values]
    if "default" in options:
        assert write({"a": np.float32(2.0)}) == encoder.encode({"a": np.float32(2.0)})


def test_what_cannot_be_written_is_said_and_leaves_no_trace() -> None:
    write = json_writer(allow_nan=False)
    around: list[Any] = [1]
    around.append(around)
    with pytest.raises(ValueError, match="Circular reference"):
        write(around)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write([float("nan")])
    with pytest.raises(TypeError, match="not JSON serializable"):
        write([object()])
    around.pop()
    assert write(around) == "[1]"
