"""Combination of several attacks, each on its own branches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import Attack
from eval_toolkit.rollouts.attacks.base import Strategy, check_inner, with_score_direction
from eval_toolkit.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class Mixed(Strategy):
    """Combination of several attacks, one per branch: a tree of width n tries n of them.

    Parameters
    ----------
    attacks : sequence of Attack
        Attacks; branch k uses attack k modulo their number.
    name : str, default "mixed"
        Name in tables; each probe is labelled with the attack that generated it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are no attacks, two share a name, or one is not an attack.

    Examples
    --------
    >>> from eval_toolkit.rollouts.attacks import Base64, RolePlay, Static
    >>> attack = Mixed([Static(), RolePlay(), Base64()])
    >>> attack.branches, attack.for_branch(4).name
    (3, 'role_play')
    """

    attacks: Sequence[Attack]
    name: str = ""
    KIND: ClassVar[str] = "mixed"

    def __post_init__(self) -> None:
        given: Any = self.attacks
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidTypeError(f"`attacks` is {given!r:.60}; it must be a list of attacks")
        if not given:
            raise InvalidInputError("`attacks` is empty; pass at least one attack")
        names: list[str] = []
        for at, attack in enumerate(given):
            check_inner(attack, f"attacks[{at}]")
            if attack.name in names:
                raise InvalidInputError(
                    f"two attacks have the name {attack.name!r}; give one of them a different "
                    "`name`"
                )
            names.append(attack.name)
        object.__setattr__(self, "attacks", tuple(given))
        self._name_itself(self.KIND)

    @property
    def branches(self) -> int:
        """Recommended number of probes per turn: one per attack."""
        return len(self.attacks)

    def for_branch(self, branch: int) -> Attack:
        """Return the attack for a branch; branches are numbered from 0.

        A nested `Mixed` is resolved to one of its attacks.
        """
        round_, at = divmod(validation.integer(branch, "branch"), len(self.attacks))
        attack = self.attacks[at]
        choose = getattr(attack, "for_branch", None)
        found: Attack = choose(round_) if callable(choose) else attack
        return found

    def toward(self, *, higher_is_closer: bool) -> Attack:
        """Return a copy with the score direction of every attack set."""
        attacks = [
            with_score_direction(one, higher_is_closer=higher_is_closer) for one in self.attacks
        ]
        same = all(new is old for new, old in zip(attacks, self.attacks, strict=True))
        return self if same else replace(self, attacks=attacks)

    def ask(self, conversation: Any, seed: int) -> str:
        """Return a probe of a random attack; samplers use `for_branch`.

        Raises
        ------
        InvalidInputError
            If that attack queries a model, because only the attack itself can parse the reply.
        """
        attack = self.for_branch(derive_seed(seed, "mixed") % len(self.attacks))
        probe = attack.ask(conversation, seed)
        if not isinstance(probe, str):
            raise InvalidInputError(
                f"the attack {attack.name!r} queries a model; in a mix, use `for_branch(k)`"
            )
        return probe
