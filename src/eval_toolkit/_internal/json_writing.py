"""A JSON encoder that is reused for many small values."""

import json
from collections.abc import Callable
from json import encoder
from typing import Any


def json_writer(**options: Any) -> Callable[[Any], str]:
    r"""Return a function that encodes values like `json.JSONEncoder`, but faster for small values.

    `json.JSONEncoder.encode` creates a new C encoder for each value, which takes longer than
    encoding a small value; this function creates the encoder once.

    Examples
    --------
    >>> write = json_writer(sort_keys=True, separators=(",", ":"))
    >>> print(write({"b": [1.5, None], "a": "é"}), write("a"))
    {"a":"\u00e9","b":[1.5,null]} "a"
    """
    slow = json.JSONEncoder(**options)
    make, ascii_only = getattr(encoder, "c_make_encoder", None), slow.ensure_ascii
    if make is None or options.get("indent") is not None:
        return slow.encode
    quoted = encoder.encode_basestring_ascii if ascii_only else encoder.encode_basestring
    separators = slow.key_separator, slow.item_separator
    how = slow.sort_keys, slow.skipkeys, slow.allow_nan
    chunks = make(None, slow.default, quoted, None, *separators, *how)

    def write(value: Any) -> str:
        try:
            return "".join(chunks(value, 0))
        except RecursionError:  # a circular reference, which encode() reports
            return slow.encode(value)

    return write
