"""Participants of conversations: tester, target and scorers."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypedDict, Unpack, cast

from eval_toolkit._internal.hashing import object_digest
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.prompts import Formatter
from eval_toolkit.models.responses.reasoning import REASONING_TAGS, Tags, checked_tags
from eval_toolkit.protocols import Attack, Model, TextScorer
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import ActionT, StateT
from eval_toolkit.rollouts.participant_requests import (
    UNKNOWN,
    Decoding,
    Heard,
    Probed,
    RequestPlace,
    after_probes,
    ask_probes,
    ask_responses,
    identities_for,
    identity_of,
    prompt_of,
    text_of,
)
from eval_toolkit.runs.context import Context

_ALIASES = {
    "attacker": "tester",
    "auditor": "tester",
    "defender": "target",
    "moderator": "scorer",
}
_TOLD_ELSEWHERE = ("_identities", "decoding", "opening", "reasoning_tags", "scored", "scorers")
"""Attributes that do not affect conversations, or that are described elsewhere."""
_DIGITS = 16
_REFUSAL = "refusal"
_MODEL = ("name", "describe", "generate", "loglikelihood")
_ATTACK = ("name", "version", "ask")


class _SystemOptions(TypedDict, total=False):
    """Keyword options of `System`: settings of a target model, and aliases of the participants."""

    temperature: float
    top_p: float | None
    max_tokens: int | None
    stop: Sequence[str]
    attacker: Any
    auditor: Any
    defender: Any
    moderator: Any


class System(Generic[StateT, ActionT]):
    """Tester, target and scorers of conversations.

    All calls are batched over conversations. Instead of passing tester and target, a subclass may
    define the conversation by overriding `probe`, `respond`, `advance`, `start`, and optionally
    ``reward(states, probes, responses)``. Its states may be of any type, but must be strings or
    plain JSON values if the run is stored. The attribute values at the start of a run are part of
    the system's identity: answers are not reused if they differ.

    Parameters
    ----------
    tester : Attack, Model, callable, sequence of str or None
        Source of probes: an attack; a model, which refines its probes iteratively; a function that
        maps conversations to probes; or a list of probes, one per turn. None if a subclass defines
        `probe`. A function receives a list of `Conversation` objects (strings with ``messages``),
        and a list of seeds if it has a second parameter that is required or named seed or seeds; a
        coroutine function receives a single conversation and seed. It may raise `StopAttack` to end
        a conversation.
    target : Model, callable, sequence of str or None
        System under test: a model; a function that maps conversations, which end with a probe, to
        responses; or a list of responses, one per turn.
    scorer : TextScorer, callable or sequence of them, optional
        Scorers of the replies; the first defines failures.
    refusal : bool or TextScorer, default True
        Whether to detect refusals as well, or the scorer to use for this, which is renamed to
        "refusal". Scores at or above its threshold count as refusals.
    opening : bool, default False
        Whether seed prompts open the conversation and are visible to the target. Otherwise, they
        are the tester's goal and hidden from the target.
    system_prompt, formatter, temperature, top_p, max_tokens, stop
        Settings of a target model: system message, conversion of messages to a prompt, and sampling
        parameters.
    reasoning_tags : sequence of (str, str)
        Tags that delimit the reasoning in a reply, as in `split_reasoning`. Reasoning is hidden
        from scorers, judges and the other participant; pass () to keep it.
    attacker, auditor, defender, moderator
        Aliases: ``attacker`` and ``auditor`` for ``tester``, ``defender`` for ``target``,
        ``moderator`` for ``scorer``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a parameter is invalid.

    Examples
    --------
    >>> system = System(["Say a bad word."], lambda states: ["No."] * len(states))
    >>> state = system.start("A bad word")
    >>> probes = system.probe([state], [1])
    >>> responses = system.respond([state], probes, [2])
    >>> print(system.advance(state, probes[0], responses[0]).responses)
    ('No.',)
    """

    @gathers(
        _SystemOptions,
        temperature=0.0,
        top_p=None,
        max_tokens=None,
        stop=(),
        **dict.fromkeys(_ALIASES),
    )
    def __init__(
        self,
        tester: Any = None,
        target: Any = None,
        scorer: Any = None,
        *,
        refusal: Any = True,
        opening: bool = False,
        system_prompt: str = "",
        formatter: Formatter | None = None,
        reasoning_tags: Tags = REASONING_TAGS,
        **options: Unpack[_SystemOptions],
    ) -> None:
        self.reasoning_tags = checked_tags(reasoning_tags)
        given = _with_aliases({"tester": tester, "target": target, "scorer": scorer}, options)
        self.opening = bool(opening)
        self.decoding = Decoding(
            system_prompt=system_prompt,
            formatter=formatter,
            temperature=options["temperature"],
            top_p=options["top_p"],
            max_tokens=options["max_tokens"],
            stop=tuple(options["stop"]),
        )
        self.tester = _tester(given["tester"])
        self.target = _target(given["target"])
        # Computed now, since calls may change the state of a function.
        self._identities = {
            "probe": _identity(self.tester, self, "probe"),
            "respond": _identity(self.target, self, "respond"),
        }
        self.scored, self.scorers = made_scorers(given["scorer"], refusal)
        if self.scorer is not None:  # an attack that uses scores is given their direction
            from eval_toolkit.rollouts.attacks.base import with_score_direction

            self.tester = with_score_direction(
                self.tester, higher_is_closer=self.scorer.higher_is_worse
            )
        if self.tester is None and type(self).probe is System.probe:
            raise InvalidInputError("`tester` is missing; pass one, or override `probe`")
        if self.target is None and type(self).respond is System.respond:
            raise InvalidInputError("`target` is missing; pass one, or override `respond`")

    @property
    def scorer(self) -> TextScorer | None:
        """Scorer that defines failures, wrapped in a cache."""
        return self.scorers[0] if self.scored else None

    @property
    def tester_name(self) -> str:
        """Name of the tester in tables."""
        return _name(self.tester, self, "tester")

    @property
    def target_name(self) -> str:
        """Name of the target in tables."""
        return _name(self.target, self, "target")

    def start(self, prompt: str) -> StateT:
        """Return the state before the first turn."""
        return cast("StateT", Conversation(prompt, opening=self.opening))

    def probe(self, states: Sequence[StateT], seeds: Sequence[int]) -> Sequence[ActionT]:
        """Return the tester's probe for each conversation, given one seed per probe.

        Raises
        ------
        ModelError
            If the tester fails for a conversation. Samplers instead use `ask_probes`, in which a
            failure does not affect other conversations.
        """
        asked = [RequestPlace(str(n), 1, "probe", seed) for n, seed in enumerate(seeds)]
        with Context() as asking:
            found = ask_probes(self.tester, states, asked, asking, self._identities["probe"])
        return [text_of(said, self) for said in found]  # type: ignore[misc]

    def respond(
        self, states: Sequence[StateT], probes: Sequence[ActionT], seeds: Sequence[int]
    ) -> Sequence[StateT]:
        """Return the target's response to the probe of each conversation.

        Raises
        ------
        ModelError
            If the target fails for a conversation.
        """
        asked = [RequestPlace(str(n), 1, "response", seed) for n, seed in enumerate(seeds)]
        with Context() as asking:
            found = ask_responses(
                self.target,
                self.decoding,
                after_probes(states, probes),
                asked,
                asking,
                self._identities["respond"],
            )
        return [text_of(said, self) for said in found]  # type: ignore[misc]

    def advance(self, state: StateT, probe: ActionT, response: StateT) -> StateT:
        """Return the state after a turn."""
        if isinstance(state, Conversation):
            return cast("StateT", state.with_probe(str(probe)).with_response(str(response)))
        return cast("StateT", f"{state}{probe}{response}")

    def describe(self) -> dict[str, Any]:
        """Return all settings that affect results, as a JSON-serialisable dict without secrets."""
        usual = self.reasoning_tags == REASONING_TAGS
        return {
            "kind": type(self).__qualname__,
            "tester": _described(self.tester, self._identities["probe"]),
            "target": _described(self.target, self._identities["respond"]),
            "decoding": self.decoding.to_dict(),
            "opening": self.opening,
            **({} if usual else {"reasoning_tags": [list(pair) for pair in self.reasoning_tags]}),
            **self._made_of(),
        }

    def _made_of(self) -> dict[str, Any]:
        """Return the attributes of a system that overrides `probe` or `respond`."""
        if all(getattr(type(self), m) is getattr(System, m) for m in ("probe", "respond")):
            return {}
        parts = {
            name: _part(value)
            for name, value in sorted(vars(self).items())
            if name not in _TOLD_ELSEWHERE and not isinstance(value, TextScorer)
        }
        return {"attributes": parts}

    def ask_probes(
        self, states: Sequence[StateT], asked: "Sequence[RequestPlace]", asking: Context
    ) -> "list[Probed]":
        """Request probes on behalf of a sampler; failures are returned instead of raised."""
        if type(self).probe is System.probe:
            return ask_probes(self.tester, states, asked, asking, self._identities["probe"])
        jobs = [one.job(prompt_of(state)) for one, state in zip(asked, states, strict=True)]
        seeds = [one.seed for one in asked]
        identities = identities_for(self._identities["probe"], states)
        return [*asking.call(self.probe, jobs, [states, seeds], identities)]

    def ask_responses(
        self,
        states: Sequence[StateT],
        probes: Sequence[ActionT],
        asked: "Sequence[RequestPlace]",
        asking: Context,
    ) -> list[Heard]:
        """Request responses on behalf of a sampler; an outcome is None beyond the budget."""
        probed = after_probes(states, probes)
        if type(self).respond is System.respond:
            return ask_responses(
                self.target, self.decoding, probed, asked, asking, self._identities["respond"]
            )
        jobs = [one.job(prompt_of(state)) for one, state in zip(asked, probed, strict=True)]
        seeds = [one.seed for one in asked]
        identities = [self._identities["respond"]] * len(jobs)
        return asking.call(self.respond, jobs, [states, probes, seeds], identities)


def _with_aliases(given: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with aliases resolved."""
    for alias, name in _ALIASES.items():
        if options[alias] is None:
            continue
        if given[name] is not None:
            raise InvalidInputError(f"`{alias}` is an alias of `{name}`; pass only one of them")
        given[name] = options[alias]
    return given


def _tester(given: Any) -> Any:
    if given is None or isinstance(given, Attack):
        return given
    if isinstance(given, Model) or (isinstance(given, Sequence) and not isinstance(given, str)):
        from eval_toolkit.rollouts.attacks import as_attack

        return as_attack(given)
    return _function(given, "tester", "an attack, a model, a function or a list of probes")


def _target(given: Any) -> Any:
    if given is None or isinstance(given, Model):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str):
        return _Replies(given)
    return _function(given, "target", "a model, a function or a list of responses")


def _function(given: Any, name: str, wanted: str) -> Any:
    if not isinstance(given, (str, type)) and callable(given):
        return given
    hint = ""
    if isinstance(given, str):
        load = "load_model" if name == "target" else "load_attack or load_model"
        hint = f"; for a name use {load}"
    elif not isinstance(given, type):
        kinds = {"a model": _MODEL} | ({"an attack": _ATTACK} if name == "tester" else {})
        for kind, members in kinds.items():
            missing = [member for member in members if not hasattr(given, member)]
            if missing and len(missing) < len(members) - 1:
                hint = f"; {kind} needs {', '.join(missing)}"
    raise InvalidTypeError(f"`{name}` is {given!r:.80}; it must be {wanted}{hint}")


class _Replies:
    """Target with scripted responses, one per turn; the last one is repeated."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        for at, text in enumerate(self.texts):
            if not isinstance(text, str):
                raise InvalidTypeError(f"target[{at}] is {text!r:.60}; it must be a string")
        if not self.texts:
            raise InvalidInputError("`target` is an empty list; pass at least one response")
        self.name = "scripted"

    def __call__(self, states: Sequence[Conversation]) -> list[str]:
        return [self.texts[min(state.n_turns, len(self.texts) - 1)] for state in states]


def made_scorers(given: Any, refusal: Any) -> tuple[bool, tuple[TextScorer, ...]]:
    """Return whether there is a harm scorer, and all scorers, each wrapped in a cache."""
    from eval_toolkit.rollouts.scorers import (
        CachedScorer,
        RefusalScorer,
        as_text_scorer,
        check_scorers,
    )

    several = isinstance(given, Sequence) and not isinstance(given, str)
    listed = list(given) if several else [] if given is None else [given]
    made = [as_text_scorer(one) for one in listed]
    if refusal is True:
        made += [] if any(scorer.name == _REFUSAL for scorer in made) else [RefusalScorer()]
    elif refusal is not False:
        finds = as_text_scorer(refusal)
        version = f"{finds.name} {finds.version}"
        renamed = finds.name != _REFUSAL
        made.append(as_text_scorer(finds, name=_REFUSAL, version=version) if renamed else finds)
    check_scorers(made)
    kept = [s if isinstance(s, CachedScorer) else CachedScorer(s) for s in made]
    return bool(listed), tuple(kept)


def _name(speaker: Any, system: Any, fallback: str) -> str:
    if speaker is None:
        return str(getattr(system, "name", type(system).__name__))
    name = getattr(speaker, "name", None) or getattr(speaker, "__name__", None)
    return str(name or fallback)


def _identity(speaker: Any, system: Any, method: str) -> str:
    """Return the identity of a function or an overridden method; "" for models and attacks."""
    if getattr(type(system), method) is not getattr(System, method):
        return identity_of(system, method)
    return "" if isinstance(speaker, (Model, Attack)) else identity_of(speaker)


def _described(speaker: Any, identity: str) -> dict[str, Any]:
    if identity:
        return {"kind": "function", "name": identity}
    if isinstance(speaker, Model):
        return {"kind": "model", "name": speaker.name, "description": dict(speaker.describe())}
    described = {"kind": "attack", "name": speaker.name, "version": str(speaker.version)}
    own = getattr(speaker, "describe", None)
    return {**(dict(own()) if callable(own) else {}), **described}


def _part(value: Any) -> Any:
    """Return the description of an attribute, or its digest."""
    if _speaks(value):
        return _described(value, "")
    if isinstance(value, (list, tuple)) and any(map(_speaks, value)):
        return [_part(one) for one in value]
    if isinstance(value, Mapping) and any(map(_speaks, value.values())):
        return {str(name): _part(one) for name, one in value.items()}
    digest = object_digest(value)
    return f"{type(value).__qualname__}:{digest[:_DIGITS] if digest else UNKNOWN}"


def _speaks(value: Any) -> bool:
    return isinstance(value, (Model, Attack)) and not isinstance(value, type)
