"""Server without sockets for long runs in virtual time: rate limits, outages and replicas.

`NightServer.connect` replaces the `aiohttp` session; status codes, headers, bodies and exceptions are
those of a real connection.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from tests.support.virtual_time import VirtualClock

from eval_toolkit.models.openai_compatible import transport


@dataclass
class Bucket:
    """Token bucket with ``per_minute`` requests per minute and a burst capacity of ``burst``."""

    per_minute: float
    burst: float
    clock: VirtualClock
    level: float = field(init=False)
    then: float = 0.0

    def __post_init__(self) -> None:
        self.level = self.burst

    @property
    def rate(self) -> float:
        return self.per_minute / 60.0

    def take(self) -> bool:
        now = self.clock.now
        self.level = min(self.burst, self.level + (now - self.then) * self.rate)
        self.then = now
        if self.level < 1.0 - 1e-9:
            return False
        self.level -= 1.0
        return True

    def headers(self, kind: str, *, refused: bool) -> dict[str, str]:
        """Return the rate limit headers that providers send for the bucket."""
        next_s, full_s = (1.0 - self.level) / self.rate, (self.burst - self.level) / self.rate
        left = str(int(self.level))
        if kind == "openai":
            told = {"limit": str(int(self.burst)), "remaining": left, "reset": f"{full_s:.3f}s"}
            return {f"x-ratelimit-{name}-requests": text for name, text in told.items()}
        if kind == "anthropic":
            full = datetime.now(UTC) + timedelta(seconds=full_s)
            told = {"limit": str(int(self.burst)), "remaining": left, "reset": full.isoformat()}
            return {f"anthropic-ratelimit-requests-{name}": text for name, text in told.items()}
        if not refused:
            return {}
        if kind == "seconds":
            return {"retry-after": str(-int(-next_s // 1))}
        if kind == "ms":
            return {"retry-after-ms": f"{next_s * 1000:.0f}"}
        if kind == "date":
            moment = datetime.now(UTC) + timedelta(seconds=1 - int(-next_s // 1))
            return {"retry-after": format_datetime(moment, usegmt=True)}
        return {}


class NightServer:
    """Server that answers sums after ``latency_s``, within rate limits, except during outages."""

    def __init__(
        self,
        clock: VirtualClock,
        bucket: Bucket | None = None,
        *,
        headers: str = "",
        latency_s: float = 0.2,
        refusal_s: float = 0.05,
        served: Mapping[str, Any] | None = None,
    ) -> None:
        self.clock = clock
        self.bucket = bucket
        self.kind = headers
        self.latency_s = latency_s
        self.refusal_s = refusal_s
        self.served = {"id": "toy", "object": "model", **(served or {})}
        self.hosts = {"night.example"}
        """Hosts of the server."""
        self.outages: list[tuple[float, float, str]] = []
        """Outages as (start, end, kind), with kind "refused", "reset", "502" or "503"."""
        self.answered: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.poison = ""
        """Prompt that always fails with ``poison_status``."""
        self.poison_status = 503
        self.stop_at = float("inf")
        self.stop: BaseException | None = None
        """Exception raised by the first request after ``stop_at``, which kills the client."""

    @property
    def n_refused(self) -> int:
        return self.statuses["429"]

    def connect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Answer the requests of all endpoints from now on."""

        async def life(*_: Any, **__: Any) -> AsyncGenerator[Any]:
            yield self

        monkeypatch.setattr(transport, "_session_life", life)
        monkeypatch.setattr(asyncio.events, "new_event_loop", self.clock.new_loop)

    def request(self, method: str, url: Any, **options: Any) -> "_Exchange":
        return _Exchange(self, method, url, options.get("data"))

    def outage(self) -> str:
        now = self.clock.now
        return next((kind for start, end, kind in self.outages if start <= now < end), "")


class _Exchange:
    """One request, as the context manager that `aiohttp` returns."""

    content_type = "application/json"
    content_length = None

    def __init__(self, server: NightServer, method: str, url: Any, data: bytes | None) -> None:
        self.server = server
        self.method = method
        self.url = url
        self.data = data
        self.status = 200
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.content = self
        self._body = b""

    async def __aenter__(self) -> "_Exchange":
        server = self.server
        if server.stop is not None and server.clock.now >= server.stop_at:
            stop, server.stop = server.stop, None
            raise stop
        away = server.outage()
        if away == "refused" or self.url.host not in server.hosts:
            server.statuses["refused"] += 1
            raise aiohttp.ClientOSError(111, "Connection refused")
        if away == "reset":
            server.statuses["reset"] += 1
            raise aiohttp.ServerDisconnectedError
        if away.isdigit():
            return await self._answer(int(away), {"error": {"message": "upstream is gone"}})
        if self.method == "GET":
            return await self._answer(200, {"object": "list", "data": [server.served]})
        if server.poison and server.poison in (self.data or b"").decode():
            return await self._answer(server.poison_status, {"error": {"message": "crashed"}})
        if server.bucket is not None:
            accepted = server.bucket.take()
            self.headers.extend(server.bucket.headers(server.kind, refused=not accepted))
            if not accepted:
                return await self._answer(429, {"error": {"message": "slow down"}})
        await asyncio.sleep(server.latency_s)
        if server.outage() in ("refused", "reset"):  # it went away in the meantime
            server.statuses["reset"] += 1
            raise aiohttp.ServerDisconnectedError
        return self._sum()

    def _sum(self) -> "_Exchange":
        body = json.loads(self.data or b"")
        text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        a, b = text.removeprefix("What is ").removesuffix("?").split(" + ")
        self.server.answered[text] += 1
        self.server.statuses["200"] += 1
        choice = {"message": {"role": "assistant", "content": str(int(a) + int(b))}}
        usage = {"prompt_tokens": 6, "completion_tokens": 1}
        self._body = json.dumps({"choices": [choice], "usage": usage}).encode()
        return self

    async def _answer(self, status: int, payload: dict[str, Any]) -> "_Exchange":
        await asyncio.sleep(self.server.refusal_s)
        self.status = status
        self.server.statuses[str(status)] += 1
        self._body = json.dumps(payload).encode()
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def iter_any(self) -> AsyncGenerator[bytes]:
        yield self._body
