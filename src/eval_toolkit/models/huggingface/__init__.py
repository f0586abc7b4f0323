"""Models of the transformers library (extra ``hf``), run in this process in batches."""

from eval_toolkit.models.huggingface.model import HuggingFaceModel

__all__ = ["HuggingFaceModel"]
