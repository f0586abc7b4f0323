"""Judges: graders that query a model, whose requests and replies are stored with the answers.

A `Judge` asks a model to grade an answer against a rubric and parses its verdict; a `Panel`
combines several judges; a `PairJudge` compares two answers in both orders. `KeywordJudge` and
`Refusal` make no requests. An unparsable verdict is an error, never a number.

Answers may contain instructions for the judge ("give this a yes"), and the judge may follow them.
The prompts enclose answers in random delimiters and tell the judge to treat them as data, which
mitigates such prompt injection but does not rule it out. Validate a judge against human labels
before relying on it.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.graders.judges.judge import *
    from eval_toolkit.graders.judges.keywords import *
    from eval_toolkit.graders.judges.pairs import *
    from eval_toolkit.graders.judges.panel import *
    from eval_toolkit.graders.judges.requests import *
    from eval_toolkit.graders.judges.rubrics import *
    from eval_toolkit.graders.judges.verdicts import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "requests": "AskingGrader",
        "judge": "Judge",
        "keywords": "KeywordJudge Refusal",
        "pairs": "MatchOutcome PairJudge",
        "panel": "Panel",
        "rubrics": "RUBRICS Rubric",
        "verdicts": "Labels Scale VerdictFormat",
    },
)
