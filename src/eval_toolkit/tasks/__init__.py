"""Benchmarks for language models: data, prompts, graders and execution.

A task is defined by a subclass of `BaseTask`, composed as a `Task`, or loaded from a file with
`load_task`.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.prompts import (
        CHATML as CHATML,
    )
    from eval_toolkit.models.prompts import (
        LLAMA3 as LLAMA3,
    )
    from eval_toolkit.models.prompts import (
        ChatTemplate as ChatTemplate,
    )
    from eval_toolkit.models.prompts import (
        JinjaTemplate as JinjaTemplate,
    )
    from eval_toolkit.models.prompts import (
        check_turns as check_turns,
    )
    from eval_toolkit.models.prompts import (
        format_prompt as format_prompt,
    )
    from eval_toolkit.models.prompts import (
        joined_choice as joined_choice,
    )
    from eval_toolkit.tasks.answers import *
    from eval_toolkit.tasks.base import *
    from eval_toolkit.tasks.composed import *
    from eval_toolkit.tasks.declared import *
    from eval_toolkit.tasks.external_answers import *
    from eval_toolkit.tasks.fewshot_leaks import *
    from eval_toolkit.tasks.lm_eval import *
    from eval_toolkit.tasks.loading import *
    from eval_toolkit.tasks.measuring import *
    from eval_toolkit.tasks.ngram_contamination import *
    from eval_toolkit.tasks.pairing import *
    from eval_toolkit.tasks.perturbations import *
    from eval_toolkit.tasks.planning import *
    from eval_toolkit.tasks.positions import *
    from eval_toolkit.tasks.questions import *
    from eval_toolkit.tasks.rescoring import *
    from eval_toolkit.tasks.robustness_comparison import *
    from eval_toolkit.tasks.rotating import *
    from eval_toolkit.tasks.running import *
    from eval_toolkit.tasks.specs import *
    from eval_toolkit.tasks.stopped_cells import *
    from eval_toolkit.tasks.stopping import *
    from eval_toolkit.tasks.stopping_watch import *
    from eval_toolkit.tasks.styles import *
    from eval_toolkit.tasks.suites import *
    from eval_toolkit.tasks.templates import *
    from eval_toolkit.tasks.types import *
    from eval_toolkit.tasks.ungraded import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "answers": "answer_key_to_index",
        "ungraded": "ask",
        "base": "BaseTask",
        "composed": "Task",
        "declared": "read_task_file",
        "eval_toolkit.models.prompts": (
            "CHATML LLAMA3 ChatTemplate JinjaTemplate check_turns format_prompt joined_choice"
        ),
        "lm_eval": "LmEvalGroup LmEvalTask load_lm_eval_task",
        "loading": "TaskInfo available_tasks load_task",
        "measuring": "measure",
        "ngram_contamination": "Contamination ContaminationEffect ItemOverlap contamination",
        "pairing": "judge_pairs",
        "perturbations": "Perturbation perturbed",
        "robustness_comparison": "Robustness RobustnessCell robustness",
        "planning": "estimate plan_jobs",
        "positions": "PositionBias PositionDifference PositionResult position_bias",
        "questions": "questions_task",
        "rescoring": "judge_run measure_run",
        "rotating": "rotated run_rotations",
        "running": "run_task",
        "fewshot_leaks": "FewshotLeakage SharedQuestion fewshot_leakage",
        "specs": "ChoicesSpec CompletionSpec DataSpec Prompt",
        "external_answers": "grade_answers",
        "stopped_cells": "stopped_card stopped_cell",
        "stopping": "UntilDecided UntilWidth",
        "styles": ("BPBStyle ClozeStyle MCCompletionStyle MCStyle format_mc_prompt letters"),
        "suites": "Aggregate Leaf Suite SuiteRun SuiteValue load_suite run_suite",
        "templates": "FieldSpec Template",
        "types": (
            "NO_SUBJECT Completion Item Loglikelihood Message Part RawCompletion "
            "RawLoglikelihood ResponseType Role Sample"
        ),
        "stopping_watch": "Asked Decision Watch ask_until",
    },
)
