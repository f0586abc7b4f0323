"""Attacks: strategies that generate the probes of a tester.

They are meant for testing your own models, as in published red-teaming benchmarks. An attack is a
small object with a name, a version and a method ``ask(conversation, seed)``; the same conversation
and seed always give the same probe. `Static` and `Scripted` send fixed probes; templates, encodings
and `BestOfN` modify the probes of another attack and can be nested; `Refinement` and `Crescendo`
query a model; `Mixed` runs several attacks on separate branches.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.rollouts.attacks.base import *
    from eval_toolkit.rollouts.attacks.best_of_n import *
    from eval_toolkit.rollouts.attacks.crescendo import *
    from eval_toolkit.rollouts.attacks.encodings import *
    from eval_toolkit.rollouts.attacks.loading import *
    from eval_toolkit.rollouts.attacks.mixed import *
    from eval_toolkit.rollouts.attacks.refinement import *
    from eval_toolkit.rollouts.attacks.static import *
    from eval_toolkit.rollouts.attacks.templates import *

__all__, __getattr__ = names_on_use(
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
