"""Models of vLLM and SGLang, which batch requests and use several GPUs, in this process."""

from eval_toolkit.models.in_process.sglang import SglangModel
from eval_toolkit.models.in_process.vllm import VllmModel

__all__ = ["SglangModel", "VllmModel"]
