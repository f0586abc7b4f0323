"""Language models behind a common protocol: HTTP, numpy, transformers, vLLM, SGLang, llama.cpp.

Names are imported lazily, so using a model over HTTP does not import the numpy model.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.cache import *
    from eval_toolkit.models.callables import *
    from eval_toolkit.models.embedded import *
    from eval_toolkit.models.hosted import *
    from eval_toolkit.models.huggingface import *
    from eval_toolkit.models.in_process import *
    from eval_toolkit.models.llama_cpp import *
    from eval_toolkit.models.loading import *
    from eval_toolkit.models.openai_compatible import *
    from eval_toolkit.models.scripted import *

__all__, __getattr__ = names_on_use(
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
