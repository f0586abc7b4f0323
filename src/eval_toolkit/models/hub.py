"""Access to the Hugging Face hub without retries when offline."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from eval_toolkit._internal.optional import require


@contextlib.contextmanager
def hub_quietly(*switches: Any) -> Iterator[str]:
    """Silence the hub client, and disable its requests if the hub cannot be reached.

    Offline, the client uses its cache, so downloaded files are still found. ``switches`` are
    further modules with a variable ``HF_HUB_OFFLINE``. Yields a prefix for error messages if the
    host cannot be reached, else "".
    """
    client = require("huggingface_hub.constants", feature="the Hugging Face hub", extra="hf")
    host = urlsplit(client.ENDPOINT).hostname or ""
    prefix = "" if _is_known(host) else f"{host} cannot be reached: "
    places = (client, *switches)
    before = [place.HF_HUB_OFFLINE for place in places]
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        for place in places if prefix else ():
            place.HF_HUB_OFFLINE = True
        yield prefix
    finally:
        logger.setLevel(level)
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


def _is_known(host: str) -> bool:
    """Return whether a host name can be resolved locally or by a proxy."""
    import socket
    import urllib.request

    if urllib.request.getproxies():
        return True
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True
