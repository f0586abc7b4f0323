"""Parsing of server addresses."""

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
    """Server address parsed from ``base_url``."""

    base: str
    root: str
    """Address without the final ``/v1``, which is the root of paths outside the OpenAI API."""
    host: str
    query: str = ""
    tries_v1: bool = True
    """Whether to try ``/v1`` if the address has no path."""

    @classmethod
    def read(cls, base_url: str) -> "Address":
        """Parse an address; raise `InvalidInputError` if it is invalid."""
        parts = _parts(base_url)
        if parts is None:
            shown = redact_secrets(base_url)
            raise InvalidInputError(
                f"`base_url` is {shown!r}; it must be a URL such as 'http://localhost:8000/v1'"
            )
        if "@" in parts.netloc or redact_secrets(base_url) != base_url:
            raise InvalidInputError(
                f"`base_url` for {parts.hostname} contains a password or key; remove it and "
                "specify an environment variable with `api_key_env` or `headers_env`"
            )
        base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        query = f"?{parts.query}" if parts.query else ""
        return cls(base, base.removesuffix("/v1"), parts.netloc, query)

    @property
    def is_openai(self) -> bool:
        """Whether the address is OpenAI's own service."""
        return self.host == _OPENAI_HOST

    @property
    def is_openai_by_https(self) -> bool:
        """Whether OpenAI's key may be sent to this address by default."""
        return self.is_openai and self.base.startswith("https://")

    @property
    def is_loopback(self) -> bool:
        """Whether the server runs on this machine."""
        name = urlsplit(self.base).hostname or ""
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return name == "localhost" or name.endswith(".localhost")

    @property
    def shown(self) -> str:
        """Host, path and query for messages and manifests."""
        return f"{self.base.partition('://')[2]}{self.query}"

    @property
    def below_v1(self) -> "Address | None":
        """Address with ``/v1`` appended; None if it already has a path."""
        if urlsplit(self.base).path or not self.tries_v1:
            return None
        return replace(self, base=f"{self.base}/v1")

    def url(self, path: str) -> str:
        """Return the URL of a path; paths that start with / are relative to the root."""
        start = f"{self.root}{path}" if path.startswith("/") else f"{self.base}/{path}"
        return f"{start}&{self.query[1:]}" if self.query and "?" in path else f"{start}{self.query}"


def addresses_of(base_url: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses in ``base_url`` as strings; they must be distinct."""
    urls = (base_url,) if isinstance(base_url, str) else tuple(base_url)
    if not urls:
        raise InvalidInputError("`base_url` is empty; pass at least one URL")
    twice = next((url for url in urls if urls.count(url) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"`base_url` contains {redact_secrets(twice)} twice; remove one")
    return urls


def _parts(address: Any) -> SplitResult | None:
    """Split an address into its components; return None if it is not a valid HTTP URL."""
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError):  # not a string, or an invalid IPv6 address or port
        return None
    return parts if known and len(address.split()) == 1 else None
