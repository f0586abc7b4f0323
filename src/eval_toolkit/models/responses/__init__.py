"""Model answers, raw (``Raw…``) or along with their samples.

Names follow the published task interface. Both of its spellings are accepted as arguments and
available as attributes: ``text`` and ``completion``, ``completion_text`` and ``completion``,
``prompt_tokens`` and ``prompt_sequence_positions``; log-likelihoods as a list in the order of the
choices, or as a mapping from choice to number.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.responses.fields import *
    from eval_toolkit.models.responses.raw import *
    from eval_toolkit.models.responses.reasoning import *
    from eval_toolkit.models.responses.samples import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "samples": "Completion Loglikelihood",
        "fields": "ErrorInfo ResponseType Usage",
        "raw": "RawCompletion RawLoglikelihood",
        "reasoning": "REASONING_TAGS ReplyParts split_reasoning",
    },
)
