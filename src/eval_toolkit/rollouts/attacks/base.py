"""Base classes and helpers of attacks."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, ClassVar

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, canonical_value, sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.protocols import Attack, Model
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.runs.function_calls import NothingToSay
from eval_toolkit.seeds import derive_seed

_FIELDS = re.compile(r"\{(goal|probe)\}")
_LONGEST_SHOWN = 40


class StopAttack(NothingToSay):
    """Raised by an attack to end the conversation without an error.

    Examples
    --------
    >>> from eval_toolkit.rollouts.attacks import Scripted
    >>> after_one = Conversation("A joke").with_probe("Hello").with_response("Hi.")
    >>> try:
    ...     Scripted(["Hello"], after="stop").ask(after_one, seed=1)
    ... except StopAttack as end:
    ...     print(end)
    all 1 probes were sent
    """


def is_attack(given: Any) -> bool:
    """Return whether an object is an attack instance, not a class."""
    return isinstance(given, Attack) and not isinstance(given, type)


def as_conversation(given: Any) -> Conversation:
    """Return a conversation; a string becomes the goal of a new conversation."""
    return given if isinstance(given, Conversation) else Conversation(given)


def filled(text: str, goal: str, probe: str = "{probe}") -> str:
    """Fill ``{goal}`` and ``{probe}`` into a template, leaving other braces unchanged.

    Examples
    --------
    >>> filled('About {goal}: {"a": 1}', "{probe}")
    'About {probe}: {"a": 1}'
    """
    # In a single pass, so that inserted text is never read as a template.
    values = {"goal": goal, "probe": probe}
    return _FIELDS.sub(lambda match: values[match[1]], text)


def checked_texts(given: Any, name: str, *, empty: bool = False) -> tuple[str, ...]:
    """Validate a non-empty list of strings and return it as a tuple."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` is {given!r:.60}; it must be a list of strings")
    texts = tuple(given)
    for at, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"{name}[{at}] is {text!r:.60}; it must be a string")
    if not texts and not empty:
        raise InvalidInputError(f"`{name}` is empty; pass at least one string")
    return texts


def check_inner(given: Any, name: str = "inner") -> None:
    """Raise an error if an object is not an attack and therefore cannot be wrapped."""
    if not is_attack(given):
        raise InvalidTypeError(
            f"`{name}` is {given!r:.60}; it must be an attack, with `name`, `version` and "
            "`ask(conversation, seed)`"
        )


def with_score_direction(attack: Any, *, higher_is_closer: bool) -> Any:
    """Set the score direction of an attack; attacks that do not use scores are returned unchanged.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.rollouts.attacks import Base64, Refinement
    >>> attack = Base64(Refinement(ScriptedModel("Hello")))
    >>> with_score_direction(attack, higher_is_closer=False).inner.higher_is_closer
    False
    """
    toward = getattr(attack, "toward", None)
    return toward(higher_is_closer=higher_is_closer) if callable(toward) else attack


def _json_option(value: Any) -> Any:
    """Return an option as a JSON value."""
    if is_attack(value):
        tell = getattr(value, "describe", None)
        return dict(tell()) if callable(tell) else {"name": value.name, "version": value.version}
    if isinstance(value, Model):
        return {**canonical_value(value.describe()), "name": value.name}
    if isinstance(value, (list, tuple)):
        return [_json_option(item) for item in value]
    return canonical_value(value)


def _shown(value: Any) -> str:
    """Return an option value as a string for use in a version; long values are hashed."""
    if is_attack(value):
        text = f"{value.name}@{value.version}"
    elif isinstance(value, (str, int, float, type(None))):
        text = repr(value)
    else:
        text = canonical_json(_json_option(value))
    return text if len(text) <= _LONGEST_SHOWN else sha256_text(text)[:12]


class Strategy:
    """Base class of attacks: dataclasses whose fields determine the probes.

    A subclass sets ``KIND``, its name on the command line, and ``NUMBER``, which must be increased
    whenever its probes change for the same options.
    """

    __slots__ = ()
    KIND: ClassVar[str] = "attack"
    NUMBER: ClassVar[str] = "1"
    name: str

    @property
    def version(self) -> str:
        """Version: ``NUMBER`` and all non-default options; changes whenever the probes may."""
        given = [self.NUMBER]
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            usual = option.default
            if option.default_factory is not MISSING:
                usual = option.default_factory()
            if option.init and option.name != "name" and value != usual:
                given.append(f"{option.name}={_shown(value)}")
        return "+".join(given)

    def toward(self, *, higher_is_closer: bool) -> Attack:
        """Return the attack with its score direction set; attacks without one return themselves."""
        return self  # type: ignore[return-value]  # a subclass has `ask`

    def describe(self) -> dict[str, Any]:
        """Return all settings that determine the probes, as a JSON-serialisable dict."""
        options = {
            option.name: _json_option(getattr(self, option.name))
            for option in fields(self)  # type: ignore[arg-type]
            if option.init and option.name != "name"
        }
        return {"attack": self.KIND, "name": self.name, "version": self.version, **options}

    def _name_itself(self, usual: str) -> None:
        """Set the default name unless a name was given."""
        if not isinstance(self.name, str):
            raise InvalidTypeError(f"`name` is {self.name!r:.60}; it must be a string")
        object.__setattr__(self, "name", self.name.strip() or usual)


class Wrapper(Strategy):
    """Base class of attacks that modify the probe of another attack.

    If the inner attack queries a model, its request is forwarded, and the probe parsed from the
    reply is modified. A subclass defines a field ``inner`` and a method ``wrap``.
    """

    __slots__ = ()
    inner: Attack

    def wrap(self, text: str, conversation: Conversation, seed: int) -> str:
        """Return the modified probe of the inner attack."""
        raise NotImplementedError

    def ask(self, conversation: Any, seed: int) -> str | GenerateRequest:
        """Return the modified probe of the inner attack, or its request to a model."""
        state = as_conversation(conversation)
        probe = self.inner.ask(state, seed)
        return self._wrapped(probe, state, seed) if isinstance(probe, str) else probe

    def read(self, reply: str, conversation: Any) -> str:
        """Parse a model's reply and return the modified probe."""
        state = as_conversation(conversation)
        reads = getattr(self.inner, "read", None)
        probe = reads(reply, state) if callable(reads) else reply
        # Replies come without a seed; one is derived from the reply and the state.
        return self._wrapped(probe, state, derive_seed(0, "reply", reply, str(state)))

    def _wrapped(self, text: str, state: Conversation, seed: int) -> str:
        return self.wrap(text, state, derive_seed(seed, self.KIND, state.n_turns))

    def toward(self, *, higher_is_closer: bool) -> Attack:
        """Return a copy with the score direction of the inner attack set."""
        inner = with_score_direction(self.inner, higher_is_closer=higher_is_closer)
        made: Attack = self if inner is self.inner else replace(self, inner=inner)  # type: ignore[type-var]
        return made

    @property
    def model(self) -> Model | None:
        """Model that the inner attack queries, or None."""
        found: Model | None = getattr(self.inner, "model", None)
        return found

    @property
    def branches(self) -> int:
        """Recommended number of probes per turn."""
        return int(getattr(self.inner, "branches", 1))

    @property
    def for_branch(self) -> Callable[[int], Attack]:
        """Attack for a branch: this wrapper around the inner attack's own attack for that branch.

        Defined only if the inner attack defines it, so that identical branches are not requested.
        """
        choose = getattr(self.inner, "for_branch", None)
        if not callable(choose):
            raise AttributeError(f"the attack {self.name!r} is the same in every branch")

        def chosen(branch: int) -> Attack:
            # A name derived from the parts is derived again.
            name = "" if self.name == self._usual_name() else self.name
            made: Attack = replace(self, inner=choose(branch), name=name)  # type: ignore[type-var]
            return made

        return chosen

    def _usual_name(self) -> str:
        # The default attack "static" is omitted from names.
        inside = self.inner.name
        return self.KIND if inside == "static" else f"{self.KIND}+{inside}"

    def _check(self) -> None:
        """Validate the fields shared by all wrappers."""
        check_inner(self.inner)
        self._name_itself(self._usual_name())


def checked_share(value: Any, name: str) -> float:
    """Validate a fraction between 0 and 1 and return it."""
    if isinstance(value, bool):
        raise InvalidTypeError(f"`{name}` must be a number, got {value!r}")
    return validation.number(value, name, low=0.0, high=1.0)


def is_wrapper(made: Any) -> bool:
    """Return whether an attack class wraps another attack as ``inner``."""
    return is_dataclass(made) and any(item.name == "inner" and item.init for item in fields(made))
