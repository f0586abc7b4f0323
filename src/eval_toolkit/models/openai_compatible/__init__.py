"""Models behind the HTTP interface that OpenAI introduced and most servers speak today."""

from eval_toolkit.models.openai_compatible.endpoint import Totals
from eval_toolkit.models.openai_compatible.model import OpenAICompatible
from eval_toolkit.models.openai_compatible.report import Capability, EndpointReport

__all__ = ["Capability", "EndpointReport", "OpenAICompatible", "Totals"]
