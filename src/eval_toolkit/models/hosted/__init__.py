"""Models from services with their own APIs: Anthropic, Gemini, Bedrock, Azure."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.hosted.anthropic import *
    from eval_toolkit.models.hosted.azure import *
    from eval_toolkit.models.hosted.bedrock import *
    from eval_toolkit.models.hosted.gemini import *

__all__, __getattr__ = names_on_use(
    __name__,
    {"anthropic": "Anthropic", "azure": "AzureOpenAI", "bedrock": "Bedrock", "gemini": "Gemini"},
)
