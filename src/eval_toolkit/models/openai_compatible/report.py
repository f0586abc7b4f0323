"""Report on an endpoint's capabilities, for ``eval-toolkit models check``."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.openai_compatible.endpoint import Endpoint
from eval_toolkit.models.openai_compatible.proving import prove
from eval_toolkit.models.openai_compatible.scoring import Server, WholeText
from eval_toolkit.models.openai_compatible.wire import garbled
from eval_toolkit.models.requests import GenerateRequest

CUE = "A B C D E"
_GENERATE = ("chat", "completions")


@dataclass(frozen=True, slots=True)
class Capability:
    """Result of checking one capability of an endpoint.

    Examples
    --------
    >>> Capability("chat", True, "answers 'Yes'", 0.2).to_dict()["ok"]
    True
    """

    name: str
    ok: bool
    detail: str
    latency_s: float | None = None

    @property
    def shown(self) -> str:
        """Result and response time as text."""
        return self.detail if self.latency_s is None else f"{self.detail} in {self.latency_s:.2f} s"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """Capabilities of an endpoint.

    Examples
    --------
    >>> report = EndpointReport("m", "localhost:8000/v1", (Capability("chat", True, "fine"),))
    >>> report["chat"].ok
    True
    """

    model: str
    base_url: str
    capabilities: tuple[Capability, ...]
    limit: int = 0
    """Maximum number of concurrent requests."""

    @property
    def ok(self) -> bool:
        """Whether the endpoint generates text."""
        return any(found.ok for found in self.capabilities if found.name in _GENERATE)

    def lines(self) -> list[tuple[str, str, str]]:
        """Return one row per check: capability, "yes" or "no", and result."""
        ways = [found.name for found in self.capabilities if found.ok and found.name in _GENERATE]
        how = f"by {' and '.join(ways)}" if ways else "neither chat nor completions"
        return [
            ("generate", "yes" if self.ok else "no", how),
            *((one.name, "yes" if one.ok else "no", one.shown) for one in self.capabilities),
        ]

    def __getitem__(self, name: str) -> Capability:
        for found in self.capabilities:
            if found.name == name:
                return found
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "model": self.model,
            "base_url": self.base_url,
            "ok": self.ok,
            "capabilities": [found.to_dict() for found in self.capabilities],
            "limit": self.limit,
        }


async def examine(
    server: Server,
    generate: Callable[[GenerateRequest], Awaitable[Any]],
    ways: tuple[str, ...],
) -> EndpointReport:
    """Test all capabilities of an endpoint; the report lists failures.

    ``ways`` are the scoring methods to test. Raises `ModelError` if the server cannot be reached or
    requires a key.
    """
    endpoint, model = server.endpoint, server.dialect.model
    lines = [await _line("models", _models(endpoint, model))]
    chat = GenerateRequest((Message(Role.USER, "Answer with one word: yes."),), max_tokens=8)
    lines.append(await _line("chat", _generated(generate, chat)))
    text = GenerateRequest("One, two, three,", max_tokens=4)
    lines.append(await _line("completions", _generated(generate, text)))
    cue = GenerateRequest(
        (Message(Role.USER, "Say the letters of the alphabet."), Message(Role.ASSISTANT, CUE)),
        max_tokens=8,
    )
    lines.append(await _line("prefill", _prefill(generate, cue)))
    lines.append(await _line("tokenize", _tokenize(server)))
    if ways:
        lines += await _loglikelihood(server, ways)
    limit = endpoint.totals().limit
    return EndpointReport(model, endpoint.address.shown, tuple(lines), limit)


async def _line(name: str, check: Awaitable[tuple[bool, str, float | None]]) -> Capability:
    try:
        return Capability(name, *await check)
    except ModelError as error:
        if error.kind in ("connection", "auth"):
            raise
        return Capability(name, False, str(error))


async def _models(endpoint: Endpoint, model: str) -> tuple[bool, str, float | None]:
    def read(payload: Any) -> list[str]:
        data = payload.get("data")
        if type(data) is not list:
            raise garbled("no model list")
        return [str(entry.get("id")) for entry in data if type(entry) is dict]

    reply = await endpoint.ask("models", None, read)
    names = reply.value
    listed = model in names
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    detail = f"{len(names)} listed: {shown}" if listed else f"{model!r} is not among {shown}"
    return listed, detail, reply.latency_s


async def _generated(
    generate: Callable[[GenerateRequest], Awaitable[Any]], request: GenerateRequest
) -> tuple[bool, str, float | None]:
    answer = await generate(request)
    return True, f"answers {answer.text[:40]!r}", answer.usage.latency_s


async def _prefill(
    generate: Callable[[GenerateRequest], Awaitable[Any]], request: GenerateRequest
) -> tuple[bool, str, float | None]:
    answer = await generate(request)
    goes_on = answer.text.lstrip(" ,\n").startswith("F")
    how = "continues" if goes_on else "does not continue"
    return goes_on, f"{how} {CUE!r}: {answer.text[:40]!r}", answer.usage.latency_s


async def _tokenize(server: Server) -> tuple[bool, str, float | None]:
    ids, _ = await server.tokens("One, two, three")
    return True, f"{len(ids)} tokens", None


async def _loglikelihood(server: Server, ways: tuple[str, ...]) -> list[Capability]:
    try:
        scoring = await prove(server, ways)
    except ModelError as error:
        return [Capability("loglikelihood", False, str(error))]
    found = [Capability("loglikelihood", True, f"verified with {scoring.name}")]
    if isinstance(scoring, WholeText):
        how = "all choices in one request" if scoring.takes_lists else "one request per choice"
        found.append(Capability("list prompts", scoring.takes_lists, how))
    return found
