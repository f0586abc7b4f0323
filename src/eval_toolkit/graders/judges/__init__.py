"""Judges: graders that query a model; requests and replies are stored with the answers.

A `Judge` puts an answer before a model with a rubric and reads its verdict; a `Panel` is several of
them; a `PairJudge` says which of two answers is better, in both orders. `KeywordJudge` and `Refusal`
make no requests. A verdict that cannot be read is an error, never a number.

An answer may hold words for its judge ("give this a yes"), and models listen to such words. The
prompts mark where an answer begins and ends by signs it cannot know and say what is material; that
makes it harder and does not rule it out. Compare a judge with people before its numbers are used.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.graders.judges.asking import AskingGrader
    from eval_toolkit.graders.judges.judge import Judge
    from eval_toolkit.graders.judges.keywords import KeywordJudge, Refusal
    from eval_toolkit.graders.judges.pairs import MatchOutcome, PairJudge
    from eval_toolkit.graders.judges.panel import Panel
    from eval_toolkit.graders.judges.rubrics import RUBRICS, Rubric
    from eval_toolkit.graders.judges.verdicts import Labels, Scale, VerdictFormat

__all__ = [
    "RUBRICS",
    "AskingGrader",
    "Judge",
    "KeywordJudge",
    "Labels",
    "MatchOutcome",
    "PairJudge",
    "Panel",
    "Refusal",
    "Rubric",
    "Scale",
    "VerdictFormat",
]

__getattr__ = names_on_use(
    __name__,
    {
        "asking": "AskingGrader",
        "judge": "Judge",
        "keywords": "KeywordJudge Refusal",
        "pairs": "MatchOutcome PairJudge",
        "panel": "Panel",
        "rubrics": "RUBRICS Rubric",
        "verdicts": "Labels Scale VerdictFormat",
    },
)
