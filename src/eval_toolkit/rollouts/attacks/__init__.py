"""Attacks: strategies that generate the probes of a tester.

For testing your own models, as published red-teaming benchmarks do. An attack is a small object
with a name, a version and ``ask(conversation, seed)``; the same conversation and seed give the same
probe. `Static` and `Scripted` send fixed probes; templates, encodings and `BestOfN` modify the
probes of another attack and can be nested; `Refinement` and `Crescendo` query a model; `Mixed` uses
several attacks in parallel.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.rollouts.attacks.base import StopAttack
    from eval_toolkit.rollouts.attacks.best_of_n import BestOfN
    from eval_toolkit.rollouts.attacks.crescendo import Crescendo
    from eval_toolkit.rollouts.attacks.encodings import (
        Base64,
        Homoglyphs,
        Leetspeak,
        Reversed,
        Rot13,
        ZeroWidth,
    )
    from eval_toolkit.rollouts.attacks.loading import as_attack, available_attacks, load_attack
    from eval_toolkit.rollouts.attacks.mixed import Mixed
    from eval_toolkit.rollouts.attacks.refinement import Refinement
    from eval_toolkit.rollouts.attacks.static import Scripted, Static
    from eval_toolkit.rollouts.attacks.templates import (
        PrefixInjection,
        RefusalSuppression,
        RolePlay,
        Template,
    )

__all__ = [
    "Base64",
    "BestOfN",
    "Crescendo",
    "Homoglyphs",
    "Leetspeak",
    "Mixed",
    "PrefixInjection",
    "Refinement",
    "RefusalSuppression",
    "Reversed",
    "RolePlay",
    "Rot13",
    "Scripted",
    "Static",
    "StopAttack",
    "Template",
    "ZeroWidth",
    "as_attack",
    "available_attacks",
    "load_attack",
]

__getattr__ = names_on_use(
    __name__,
    {
        "base": "StopAttack",
        "best_of_n": "BestOfN",
        "crescendo": "Crescendo",
        "encodings": "Base64 Homoglyphs Leetspeak Reversed Rot13 ZeroWidth",
        "loading": "as_attack available_attacks load_attack",
        "mixed": "Mixed",
        "refinement": "Refinement",
        "static": "Scripted Static",
        "templates": "PrefixInjection RefusalSuppression RolePlay Template",
    },
)
