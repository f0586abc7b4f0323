"""Models on servers with an OpenAI-compatible API."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.openai_compatible.batches import *
    from eval_toolkit.models.openai_compatible.model import *
    from eval_toolkit.models.openai_compatible.report import *
    from eval_toolkit.models.openai_compatible.usage import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "batches": "BatchModel",
        "usage": "Totals",
        "model": "OpenAICompatible",
        "report": "Capability EndpointReport",
    },
)
