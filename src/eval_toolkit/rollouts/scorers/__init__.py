"""Scorers: functions that map texts to scores for harmfulness or other flaws.

A scorer is any object with a name, a version, a threshold, a direction and ``score(texts)``
(`protocols.TextScorer`); `as_text_scorer` creates one from a function. Scorers that need a model,
weights or rules of their own are imported on first use.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.rollouts.scorers.base import *
    from eval_toolkit.rollouts.scorers.cached import *
    from eval_toolkit.rollouts.scorers.checking import *
    from eval_toolkit.rollouts.scorers.huggingface import *
    from eval_toolkit.rollouts.scorers.judged import *
    from eval_toolkit.rollouts.scorers.keywords import *
    from eval_toolkit.rollouts.scorers.loading import *
    from eval_toolkit.rollouts.scorers.refusal import *
    from eval_toolkit.rollouts.scorers.toxicity import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "base": (
            "as_text_scorer requests_through check_scorers is_event unwrapped with_mode with_threshold"
        ),
        "cached": "CachedScorer",
        "checking": "checked_categories checked_scores checked_turns",
        "huggingface": "HuggingFaceScorer",
        "judged": "JudgeScorer",
        "keywords": "KeywordScorer PatternScorer",
        "loading": "available_scorers load_scorer",
        "refusal": "RefusalScorer",
        "toxicity": "ToxicityScorer",
    },
)
