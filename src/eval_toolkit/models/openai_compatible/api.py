"""Conventions of a service besides its requests: keys, token counts, errors, streamed events."""

import os
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.failures import EndpointError
from eval_toolkit.models.openai_compatible.streaming import ChatEvents, Events
from eval_toolkit.models.openai_compatible.usage import Tokens, count, read_usage


class Api:
    """Conventions that an `Endpoint` follows, and the keys that it sends; here those of OpenAI.

    Other services override what they do in another way.

    Parameters
    ----------
    key_env : str, optional
        Environment variable with the key; it may be missing unless the server requires it.
    headers_env : mapping of str to str
        Environment variable of each further header.
    """

    kind = "openai"
    """Kind of models, as in ``openai:NAME``."""

    def __init__(
        self, key_env: str | None = None, headers_env: Mapping[str, str] | None = None
    ) -> None:
        self.key_env = key_env
        self.headers_env = dict(headers_env or {})

    @property
    def sent_along(self) -> str:
        """Which keys are sent, for messages."""
        keys = [self.key_env] if self.key_env and os.environ.get(self.key_env) else []
        keys += self.headers_env.values()
        return f"with the key in {' and '.join(keys)}" if keys else "without a key"

    @property
    def key_hint(self) -> str:
        """Advice if the server requires a key."""
        if self.key_env is None:
            return "set `api_key_env` to the environment variable with the key"
        there = "is set" if os.environ.get(self.key_env) else "is not set"
        return f"the environment variable {self.key_env} {there}"

    def headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the headers, and which of their values are secrets."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        secrets = []
        if self.key_env and (key := os.environ.get(self.key_env, "").strip()):
            headers |= self.key_headers(key)
            secrets.append(key)
        for name, variable in self.headers_env.items():
            value = os.environ.get(variable, "").strip()
            if not value:
                raise ModelError(
                    f"the header {name} comes from the environment variable {variable}, "
                    "which is not set",
                    kind="auth",
                )
            headers[name] = value
            secrets.append(value)
        return headers, tuple(secrets)

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key."""
        return {"Authorization": f"Bearer {key}"}

    def signed(self, method: str, url: str, body: bytes) -> dict[str, str]:
        """Return further headers that sign one request."""
        return {}

    def tokens(self, payload: Mapping[str, Any]) -> Tokens:
        """Return the tokens of the whole prompt and of the answer with its reasoning."""
        return read_usage(payload)

    def is_error(self, payload: Mapping[str, Any]) -> bool:
        """Return whether an answer with status 200 or an event is an error."""
        return bool(payload.get("error")) and "choices" not in payload

    def corrected(
        self, error: EndpointError, headers: Mapping[str, str], body: bytes
    ) -> EndpointError:
        """Return an error with what only this service says in the headers and the body."""
        return error

    def events(self) -> Events:
        """Return an object that puts a streamed answer together."""
        return ChatEvents()


def inner_count(payload: Any, *names: str) -> int | None:
    """Return a number of tokens in nested objects, or None.

    Examples
    --------
    >>> inner_count({"usage": {"n": 3}}, "usage", "n"), inner_count({"usage": None}, "usage", "n")
    (3, None)
    """
    for name in names:
        payload = payload.get(name) if isinstance(payload, dict) else None
    return count(payload)
