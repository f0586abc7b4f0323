"""Models with an OpenAI-compatible HTTP interface."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.openai_compatible.batches import BatchModel
    from eval_toolkit.models.openai_compatible.model import OpenAICompatible
    from eval_toolkit.models.openai_compatible.report import Capability, EndpointReport
    from eval_toolkit.models.openai_compatible.usage import Totals

__all__ = ["BatchModel", "Capability", "EndpointReport", "OpenAICompatible", "Totals"]

__getattr__ = names_on_use(
    __name__,
    {
        "batches": "BatchModel",
        "usage": "Totals",
        "model": "OpenAICompatible",
        "report": "Capability EndpointReport",
    },
)
