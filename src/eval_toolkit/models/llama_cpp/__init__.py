"""GGUF models run by llama.cpp (xllamacpp, extra ``llamacpp``), in process or as a server."""

from eval_toolkit.models.llama_cpp.model import LlamaCppModel
from eval_toolkit.models.llama_cpp.server import LlamaCppServer

__all__ = ["LlamaCppModel", "LlamaCppServer"]
