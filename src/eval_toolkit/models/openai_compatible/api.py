"""Conventions of a service other than its requests: keys, token counts, errors and events."""

import os
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.failures import EndpointError
from eval_toolkit.models.openai_compatible.streaming import ChatEvents, Events
from eval_toolkit.models.openai_compatible.usage import Tokens, count, read_usage


class Api:
    """Conventions and keys used by an `Endpoint`; this class implements those of OpenAI.

    Subclasses for other services override what differs.

    Parameters
    ----------
    key_env : str, optional
        Environment variable that contains the API key; it may be unset unless the server requires a
        key.
    headers_env : mapping of str to str
        Environment variable for each additional header.
    """

    kind = "openai"
    """Kind of model, as in ``openai:NAME``."""

    def __init__(
        self, key_env: str | None = None, headers_env: Mapping[str, str] | None = None
    ) -> None:
        self.key_env = key_env
        self.headers_env = dict(headers_env or {})

    @property
    def sent_along(self) -> str:
        """Description of the keys sent with requests, used in messages."""
        keys = self._keys
        return f"with the key in {' and '.join(keys)}" if keys else "without a key"

    @property
    def _keys(self) -> list[str]:
        own = [self.key_env] if self.key_env and os.environ.get(self.key_env) else []
        return [*own, *self.headers_env.values()]

    @property
    def has_key(self) -> bool:
        """Whether requests contain a key, for which services limit the rate."""
        return bool(self._keys)

    @property
    def key_hint(self) -> str:
        """Advice for the user if the server requires a key."""
        if self.key_env is None:
            return "set `api_key_env` to the environment variable that contains the key"
        there = "is set" if os.environ.get(self.key_env) else "is not set"
        return f"the environment variable {self.key_env} {there}"

    def headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the headers, and the secrets they contain."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        secrets = []
        if self.key_env and (key := os.environ.get(self.key_env, "").strip()):
            headers |= self.key_headers(key)
            secrets.append(key)
        for name, variable in self.headers_env.items():
            value = os.environ.get(variable, "").strip()
            if not value:
                raise ModelError(
                    f"the environment variable {variable} for the header {name} is not set",
                    kind="auth",
                )
            headers[name] = value
            secrets.append(value)
        return headers, tuple(secrets)

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that contain the key."""
        return {"Authorization": f"Bearer {key}"}

    def signed(self, method: str, url: str, body: bytes) -> dict[str, str]:
        """Return additional headers with the signature of a request."""
        return {}

    def tokens(self, payload: Mapping[str, Any]) -> Tokens:
        """Return the token counts of the entire prompt and of the answer, including reasoning."""
        return read_usage(payload)

    def is_error(self, payload: Mapping[str, Any]) -> bool:
        """Return whether an event or a response with status 200 is an error."""
        return bool(payload.get("error")) and "choices" not in payload

    def corrected(
        self, error: EndpointError, headers: Mapping[str, str], body: bytes
    ) -> EndpointError:
        """Add service-specific details from the response headers and body to an error."""
        return error

    def events(self) -> Events:
        """Return an object that assembles a streamed answer."""
        return ChatEvents()


def inner_count(payload: Any, *names: str) -> int | None:
    """Return a token count from nested objects, or None.

    Examples
    --------
    >>> inner_count({"usage": {"n": 3}}, "usage", "n"), inner_count({"usage": None}, "usage", "n")
    (3, None)
    """
    for name in names:
        payload = payload.get(name) if isinstance(payload, dict) else None
    return count(payload)
