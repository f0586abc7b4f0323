"""In-process transformers models (extra ``hf``), which batch requests."""

from eval_toolkit.models.huggingface.model import HuggingFaceModel

__all__ = ["HuggingFaceModel"]
