"""Best-of-n: many perturbed copies of one probe.

After Hughes et al., "Best-of-N jailbreaking", 2024.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from eval_toolkit._internal import validation
from eval_toolkit.protocols import Attack
from eval_toolkit.rollouts.attacks.base import Wrapper, checked_share, checked_texts
from eval_toolkit.rollouts.attacks.static import Static
from eval_toolkit.rollouts.conversations import Conversation

CHANGES = ("capitals", "shuffle", "noise")
_WORD = re.compile(r"[^\W\d_]{4,}")
_FIRST, _LAST = 33, 126
"""Code points of the first and last visible ASCII characters."""


@dataclass(frozen=True, slots=True)
class BestOfN(Wrapper):
    """Random perturbations of the probe's letters, different on every branch.

    In a tree of width ``n``, all branches are tried, and the attack succeeds if any branch does.
    Wrap an encoding around it rather than the reverse, since a perturbed encoding cannot be
    decoded. If the inner attack queries a model, the perturbations are seeded by the model's reply,
    so identical replies (temperature 0) are perturbed identically.

    Parameters
    ----------
    inner : Attack, default Static()
        Attack whose probe is modified.
    n : int, default 8
        Number of probes per turn.
    changes : sequence of {"capitals", "shuffle", "noise"}
        "shuffle" permutes the inner letters of words, "capitals" swaps upper and lower case,
        "noise" replaces a character by its neighbour in ASCII; applied in this order.
    share : float, default 0.6
        Fraction of words that are shuffled, and of letters whose case is swapped.
    noise : float, default 0.06
        Fraction of characters replaced by noise.
    name : str, default "best_of_n"
        Name in tables, followed by the inner attack's name.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option is out of range, or a change is unknown.

    Examples
    --------
    >>> attack = BestOfN(n=4)
    >>> attack.branches, len({attack.ask("Tell me a joke", seed) for seed in range(4)})
    (4, 4)
    >>> BestOfN(changes=["capitals"]).ask("Tell me a joke", 1).lower()
    'tell me a joke'
    """

    inner: Attack = field(default_factory=Static)
    n: int = 8
    changes: Sequence[str] = CHANGES
    share: float = 0.6
    noise: float = 0.06
    name: str = ""
    KIND: ClassVar[str] = "best_of_n"

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "n", validation.integer(self.n, "n", low=1))
        set_(self, "changes", checked_texts(self.changes, "changes"))
        for change in self.changes:
            validation.choice(change, "changes", CHANGES)
        for name in ("share", "noise"):
            set_(self, name, checked_share(getattr(self, name), name))
        self._check()

    @property
    def branches(self) -> int:
        """Recommended number of probes per turn: ``n`` times that of the inner attack."""
        return self.n * int(getattr(self.inner, "branches", 1))

    def wrap(self, text: str, conversation: Conversation, seed: int) -> str:
        """Return the modified probe."""
        draw = random.Random(seed).random  # noqa: S311 - of it only `random` is promised to stay
        if "shuffle" in self.changes:
            text = _WORD.sub(
                lambda word: _mixed(word[0], draw) if draw() < self.share else word[0], text
            )
        if "capitals" in self.changes:
            text = "".join(_recased(sign) if draw() < self.share else sign for sign in text)
        if "noise" in self.changes:
            text = "".join(_moved(sign, draw) if draw() < self.noise else sign for sign in text)
        return text


def _mixed(word: str, draw: Callable[[], float]) -> str:
    """Return a word with its inner letters shuffled."""
    letters = list(word[1:-1])
    for last in range(len(letters) - 1, 0, -1):
        other = int(draw() * (last + 1))
        letters[last], letters[other] = letters[other], letters[last]
    return "".join([word[0], *letters, word[-1]])


def _recased(sign: str) -> str:
    # Letters that change length with case, such as "ß" and "İ", are unchanged.
    other = sign.swapcase()
    return other if len(other) == 1 else sign


def _moved(sign: str, draw: Callable[[], float]) -> str:
    code = ord(sign)
    if not _FIRST <= code <= _LAST:
        return sign
    step = 1 if draw() < 0.5 else -1
    return chr(code + step if _FIRST <= code + step <= _LAST else code - step)
