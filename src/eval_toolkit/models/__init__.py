"""Language models behind one protocol: over HTTP, in numpy, transformers, llama.cpp, scripted.

Names are imported when they are used: a model over HTTP does not load numpy's, nor the other way
round.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval_toolkit.models.cache import CachedModel, ResponseCache
    from eval_toolkit.models.embedded import EmbeddedModel, fetch_model, model_path
    from eval_toolkit.models.huggingface import HuggingFaceModel
    from eval_toolkit.models.llama_cpp import LlamaCppModel, LlamaCppServer
    from eval_toolkit.models.loading import available_models, load_model
    from eval_toolkit.models.openai_compatible import OpenAICompatible
    from eval_toolkit.models.scripted import ScriptedModel

__all__ = [
    "CachedModel",
    "EmbeddedModel",
    "HuggingFaceModel",
    "LlamaCppModel",
    "LlamaCppServer",
    "OpenAICompatible",
    "ResponseCache",
    "ScriptedModel",
    "available_models",
    "fetch_model",
    "load_model",
    "model_path",
]

_HOMES = {
    "cache": ("CachedModel", "ResponseCache"),
    "embedded": ("EmbeddedModel", "fetch_model", "model_path"),
    "huggingface": ("HuggingFaceModel",),
    "llama_cpp": ("LlamaCppModel", "LlamaCppServer"),
    "loading": ("available_models", "load_model"),
    "openai_compatible": ("OpenAICompatible",),
    "scripted": ("ScriptedModel",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
