"""In-process vLLM and SGLang models, which batch requests and support several GPUs."""

from eval_toolkit.models.in_process.sglang import SglangModel
from eval_toolkit.models.in_process.vllm import VllmModel

__all__ = ["SglangModel", "VllmModel"]
