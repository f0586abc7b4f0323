"""Transformers models that run in this process and batch requests (extra ``hf``)."""

from eval_toolkit.models.huggingface.model import HuggingFaceModel

__all__ = ["HuggingFaceModel"]
