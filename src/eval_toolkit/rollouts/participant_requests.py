"""Requests to testers and targets, which may be models, attacks or functions."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.hashing import canonical_json, object_digest
from eval_toolkit.errors import InvalidTypeError, ModelError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.prompts import Formatter, check_formatter, format_prompt, formatter_name
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import REASONING_TAGS, RawCompletion, ReplyParts
from eval_toolkit.models.runner import Job
from eval_toolkit.protocols import Attack, Model
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.runs.context import Context, Said
from eval_toolkit.runs.function_calls import NothingToSay

UNKNOWN = "unknown"
"""Placeholder for a digest that cannot be computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Decoding parameters of a target model.

    Examples
    --------
    >>> Decoding(max_tokens=64).temperature
    0.0
    """

    system_prompt: str = ""
    """System prompt of the target, e.g. with a defence."""
    formatter: Formatter | None = None
    """Function that formats the messages; by default, only models without chat receive a string."""
    temperature: float = 0.0
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.formatter is not None:
            check_formatter(self.formatter)
        self.request((Message(Role.USER, "?"),), None, 0)  # validates before a run starts

    def request(
        self, messages: Sequence[Message], model: Model | None, seed: int
    ) -> GenerateRequest:
        """Build the request to a model from messages."""
        said = list(messages)
        if self.system_prompt:
            said.insert(0, Message(Role.SYSTEM, self.system_prompt))
        chats = getattr(model, "speaks_chat", True)
        formatter = self.formatter or ("chat" if chats else "plain")
        return GenerateRequest(
            format_prompt(said, formatter),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=tuple(self.stop),
            seed=seed if self.temperature > 0 else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        form = None if self.formatter is None else formatter_name(self.formatter)
        return {
            "system_prompt": self.system_prompt,
            "formatter": form,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "stop": list(self.stop),
        }


Heard = Said | NothingToSay
"""Outcome of a request; `NothingToSay` if a function ended the conversation."""
Probed = Said | str | Exception
"""Outcome of a request for a probe; for attacks, it may be a string or an exception."""


@dataclass(frozen=True, slots=True)
class RequestPlace:
    """Turn and conversation to which a request belongs."""

    unit_id: str
    attempt: int
    step: str
    seed: int
    branch: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """Unit id and attempt of the conversation."""
        return (self.unit_id, self.attempt)

    def job(self, prompt: Any) -> Job:
        """Return the job that identifies a function's answer in storage."""
        return Job(*self.key, GenerateRequest(prompt, seed=self.seed), self.step)


def ask_probes(
    tester: Any,
    states: Sequence[Any],
    asked: Sequence[RequestPlace],
    asking: Context,
    identity: str,
) -> list[Probed]:
    """Request probes from a tester; ``identity`` identifies functions."""
    if isinstance(tester, Attack):
        return _attacked(tester, states, asked, asking)
    jobs = [one.job(prompt_of(state)) for one, state in zip(asked, states, strict=True)]
    function, arguments = _with_seeds(tester, [states], [one.seed for one in asked])
    return [*asking.call(function, jobs, arguments, identities_for(identity, states))]


def ask_responses(
    target: Any,
    decoding: Decoding,
    probed: Sequence[Any],
    asked: Sequence[RequestPlace],
    asking: Context,
    identity: str,
) -> list[Heard]:
    """Request responses from a target; each state ends with a probe."""
    pairs = list(zip(asked, probed, strict=True))
    if isinstance(target, Model):
        jobs = [
            Job(*one.key, decoding.request(_messages(state), target, one.seed), one.step)
            for one, state in pairs
        ]
        return [*asking.ask(target, jobs)]
    jobs = [one.job(prompt_of(state)) for one, state in pairs]
    function, arguments = _with_seeds(target, [probed], [one.seed for one in asked])
    return asking.call(function, jobs, arguments, [identity] * len(jobs))


def after_probes(states: Sequence[Any], probes: Sequence[Any]) -> list[Any]:
    """Return the states with the probes appended."""
    return [
        state.with_probe(str(probe)) if isinstance(state, Conversation) else f"{state}{probe}"
        for state, probe in zip(states, probes, strict=True)
    ]


def _attacked(
    tester: Attack, states: Sequence[Any], asked: Sequence[RequestPlace], asking: Context
) -> list[Probed]:
    """Request probes from an attack, batching the requests of all branches to the same model."""
    found: list[Probed] = []
    waiting: dict[int, tuple[Any, list[int], list[Job]]] = {}
    attacks: list[Any] = []
    for at, (one, state) in enumerate(zip(asked, states, strict=True)):
        attack: Any = tester
        try:
            attack = of_branch(tester, one.branch)
            probe = attack.ask(state, one.seed)
        except Exception as error:  # an attack may fail in any way; the others continue
            found.append(error)
            continue
        finally:
            attacks.append(attack)
        if isinstance(probe, GenerateRequest) and getattr(attack, "model", None) is None:
            found.append(InvalidTypeError(f"the attack {attack.name} queries a model but has none"))
        elif isinstance(probe, GenerateRequest):
            model = attack.model
            _, places, jobs = waiting.setdefault(id(model), (model, [], []))
            places.append(at)
            jobs.append(Job(*one.key, probe, one.step))
            found.append(None)
        elif isinstance(probe, str):
            found.append(probe)
        else:
            found.append(
                InvalidTypeError(f"the attack {attack.name} returned {probe!r:.60}, not a string")
            )
    for model, places, jobs in waiting.values():
        for at, outcome in zip(places, asking.ask(model, jobs), strict=True):
            found[at] = _read(attacks[at], outcome, states[at])
    return found


def _read(attack: Any, outcome: Said, state: Any) -> Probed:
    """Extract the probe from a model's reply with the attack's ``read`` method, if it has one."""
    read = getattr(attack, "read", None)
    if outcome is None or outcome.response is None or not callable(read):
        return outcome
    try:
        text = read(spoken(outcome.response).answer, state)
    except Exception as error:  # a reply without a probe
        return error
    if isinstance(text, str):
        return str(text)
    return InvalidTypeError(
        f"`read` of the attack {attack.name} returned {text!r:.60}, not a string"
    )


def of_branch(tester: Any, branch: int) -> Any:
    """Return the attack for a branch; testers without branches are returned unchanged."""
    choose = getattr(tester, "for_branch", None)
    return choose(branch) if callable(choose) else tester


def spoken(response: Any, system: Any = None) -> ReplyParts:
    """Split a reply into visible answer and reasoning.

    The reasoning is delimited by the system's ``reasoning_tags``. If the reply ends within the
    reasoning, the answer is empty.

    Examples
    --------
    >>> spoken(RawCompletion("<think>Rude.</think>No.")).answer
    'No.'
    """
    if not isinstance(response, RawCompletion):
        return ReplyParts("")
    return response.parts(getattr(system, "reasoning_tags", REASONING_TAGS))


def text_of(said: Probed, system: Any = None) -> str:
    """Return the text, or raise the error that explains why there is none."""
    if isinstance(said, str):
        return said
    if isinstance(said, Exception):
        raise said
    if said is None or said.response is None:
        why = (
            "the request was not sent" if said is None or said.error is None else said.error.message
        )
        kind = "other" if said is None or said.error is None else said.error.kind
        raise ModelError(why, kind=kind if kind in ModelError.KINDS else "other")
    return spoken(said.response, system).answer


def _with_seeds(
    function: Any, arguments: list[Sequence[Any]], seeds: Sequence[int]
) -> tuple[Callable[..., Any], list[Sequence[Any]]]:
    """Return a function and its arguments, including seeds if the function accepts them.

    Seeds are passed if the function has one more parameter that is required, or is named seed or
    seeds.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function, arguments
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for place in places[len(arguments) : len(arguments) + 1]:
        if place.default is place.empty or place.name in ("seed", "seeds"):
            return function, [*arguments, seeds]
    return function, arguments


def _messages(state: Any) -> tuple[Message, ...]:
    if isinstance(state, Conversation):
        return state.messages
    return (Message(Role.USER, str(state)),)


def prompt_of(state: Any) -> Any:
    """Return a state in the form in which requests contain it."""
    if isinstance(state, Conversation) and state.probe is not None:
        return state.messages
    return str(state)


def identity_of(speaker: Any, method: str = "") -> str:
    """Return the identifier of a function or method, made up of its name and digest.

    `System.describe` covers all other components of a system.
    """
    described = speaker if method == "" else getattr(type(speaker), method)
    name = getattr(described, "__qualname__", type(described).__qualname__)
    return f"{name}:{object_digest(described) or UNKNOWN}"


def identities_for(identity: str, states: Sequence[Any]) -> list[str]:
    """Return the tester's identity for each state, including the scores visible in it."""
    seen = (
        [turn.score for turn in state.turns] if isinstance(state, Conversation) else []
        for state in states
    )
    return [
        f"{identity}{canonical_json(scores)}" if any(s is not None for s in scores) else identity
        for scores in seen
    ]
