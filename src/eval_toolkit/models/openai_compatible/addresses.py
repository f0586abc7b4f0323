"""Addresses of servers."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import SplitResult, urlsplit

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import InvalidInputError

_OPENAI_HOST = "api.openai.com"


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server, from ``base_url``."""

    base: str
    root: str
    """The address without its final ``/v1``, under which servers offer non-OpenAI paths."""
    host: str
    query: str = ""
    tries_v1: bool = True
    """Whether ``/v1`` is tried if the address has no path."""

    @classmethod
    def read(cls, base_url: str) -> "Address":
        """Parse an address; raise an error with an explanation if it is invalid."""
        parts = _parts(base_url)
        if parts is None:
            shown = redact_secrets(base_url)
            raise InvalidInputError(
                f"`base_url` is {shown!r}; it must look like 'http://localhost:8000/v1'"
            )
        if "@" in parts.netloc or redact_secrets(base_url) != base_url:
            raise InvalidInputError(
                f"`base_url` for {parts.hostname} contains a password or a key; remove it and "
                "name an environment variable with `api_key_env` or `headers_env`"
            )
        base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        query = f"?{parts.query}" if parts.query else ""
        return cls(base, base.removesuffix("/v1"), parts.netloc, query)

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service."""
        return self.host == _OPENAI_HOST

    @property
    def is_openai_by_https(self) -> bool:
        """Whether OpenAI's key may be sent there by default."""
        return self.is_openai and self.base.startswith("https://")

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        name = urlsplit(self.base).hostname or ""
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name == "localhost" or name.endswith(".localhost")

    @property
    def shown(self) -> str:
        """Host, path and query, for messages and manifests."""
        return f"{self.base.partition('://')[2]}{self.query}"

    @property
    def below_v1(self) -> "Address | None":
        """The address with ``/v1`` appended; None if the address has a path."""
        if urlsplit(self.base).path or not self.tries_v1:
            return None
        return replace(self, base=f"{self.base}/v1")

    def url(self, path: str) -> str:
        """Return the URL of a path; paths that start with / are relative to the root."""
        start = f"{self.root}{path}" if path.startswith("/") else f"{self.base}/{path}"
        return f"{start}&{self.query[1:]}" if self.query and "?" in path else f"{start}{self.query}"


def addresses_of(base_url: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses in ``base_url``, which must differ; the addresses are not parsed."""
    urls = (base_url,) if isinstance(base_url, str) else tuple(base_url)
    if not urls:
        raise InvalidInputError("`base_url` is empty; it must contain an address")
    twice = next((url for url in urls if urls.count(url) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"`base_url` contains {redact_secrets(twice)} twice; omit one")
    return urls


def _parts(address: Any) -> SplitResult | None:
    """Return the parts of an address; None if no request could be sent there."""
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError):  # no text; no IPv6 address or no port where there is one
        return None
    return parts if known and len(address.split()) == 1 else None
