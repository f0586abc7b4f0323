"""Support for lm-eval task files, with the same prompts, requests and scores as in lm-eval."""

from eval_toolkit.tasks.lm_eval.groups import LmEvalGroup
from eval_toolkit.tasks.lm_eval.loading import load_lm_eval_task
from eval_toolkit.tasks.lm_eval.task import LmEvalTask

__all__ = ["LmEvalGroup", "LmEvalTask", "load_lm_eval_task"]
