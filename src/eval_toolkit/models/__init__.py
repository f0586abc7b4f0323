"""Language models behind a common protocol: HTTP, numpy, transformers, vLLM, SGLang, llama.cpp.

Names are imported lazily: a model over HTTP does not import the numpy model, and vice versa.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.cache import CachedModel, ResponseCache
    from eval_toolkit.models.callables import CallableModel, as_model
    from eval_toolkit.models.embedded import EmbeddedModel, fetch_model, model_path
    from eval_toolkit.models.hosted import Anthropic, AzureOpenAI, Bedrock, Gemini
    from eval_toolkit.models.huggingface import HuggingFaceModel
    from eval_toolkit.models.in_process import SglangModel, VllmModel
    from eval_toolkit.models.llama_cpp import LlamaCppModel, LlamaCppServer
    from eval_toolkit.models.loading import available_models, load_model
    from eval_toolkit.models.openai_compatible import BatchModel, OpenAICompatible
    from eval_toolkit.models.scripted import ScriptedModel

__all__ = [
    "Anthropic",
    "AzureOpenAI",
    "BatchModel",
    "Bedrock",
    "CachedModel",
    "CallableModel",
    "EmbeddedModel",
    "Gemini",
    "HuggingFaceModel",
    "LlamaCppModel",
    "LlamaCppServer",
    "OpenAICompatible",
    "ResponseCache",
    "ScriptedModel",
    "SglangModel",
    "VllmModel",
    "as_model",
    "available_models",
    "fetch_model",
    "load_model",
    "model_path",
]

__getattr__ = names_on_use(
    __name__,
    {
        "cache": "CachedModel ResponseCache",
        "callables": "CallableModel as_model",
        "embedded": "EmbeddedModel fetch_model model_path",
        "hosted": "Anthropic AzureOpenAI Bedrock Gemini",
        "huggingface": "HuggingFaceModel",
        "in_process": "SglangModel VllmModel",
        "llama_cpp": "LlamaCppModel LlamaCppServer",
        "loading": "available_models load_model",
        "openai_compatible": "BatchModel OpenAICompatible",
        "scripted": "ScriptedModel",
    },
)
