"""Benchmarks for language models: their data, prompts and graders, and how they are run.

A task is a class (`BaseTask`), a composition (`Task`) or a file (`load_task`).
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.models.prompts import (
        CHATML,
        LLAMA3,
        ChatTemplate,
        JinjaTemplate,
        check_turns,
        format_prompt,
        joined_choice,
    )
    from eval_toolkit.tasks.answers import answer_key_to_index
    from eval_toolkit.tasks.base import BaseTask
    from eval_toolkit.tasks.composed import Task
    from eval_toolkit.tasks.declared import read_task_file
    from eval_toolkit.tasks.external_answers import grade_answers
    from eval_toolkit.tasks.fewshot_leaks import FewshotLeakage, SharedQuestion, fewshot_leakage
    from eval_toolkit.tasks.lm_eval import LmEvalGroup, LmEvalTask, load_lm_eval_task
    from eval_toolkit.tasks.loading import TaskInfo, available_tasks, load_task
    from eval_toolkit.tasks.measuring import measure
    from eval_toolkit.tasks.ngram_contamination import (
        Contamination,
        ContaminationEffect,
        ItemOverlap,
        contamination,
    )
    from eval_toolkit.tasks.pairing import judge_pairs
    from eval_toolkit.tasks.perturbations import Perturbation, perturbed
    from eval_toolkit.tasks.planning import estimate, plan_jobs
    from eval_toolkit.tasks.positions import (
        PositionBias,
        PositionDifference,
        PositionResult,
        position_bias,
    )
    from eval_toolkit.tasks.questions import questions_task
    from eval_toolkit.tasks.rescoring import judge_run, measure_run
    from eval_toolkit.tasks.robustness_comparison import Robustness, RobustnessCell, robustness
    from eval_toolkit.tasks.rotating import rotated, run_rotations
    from eval_toolkit.tasks.running import run_task
    from eval_toolkit.tasks.specs import ChoicesSpec, CompletionSpec, DataSpec, Prompt
    from eval_toolkit.tasks.stopped_cells import stopped_card, stopped_cell
    from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth
    from eval_toolkit.tasks.stopping_watch import Asked, Decision, Watch, ask_until
    from eval_toolkit.tasks.styles import (
        BPBStyle,
        ClozeStyle,
        MCCompletionStyle,
        MCStyle,
        format_mc_prompt,
        letters,
    )
    from eval_toolkit.tasks.suites import (
        Aggregate,
        Leaf,
        Suite,
        SuiteRun,
        SuiteValue,
        load_suite,
        run_suite,
    )
    from eval_toolkit.tasks.templates import FieldSpec, Template
    from eval_toolkit.tasks.types import (
        NO_SUBJECT,
        Completion,
        Item,
        Loglikelihood,
        Message,
        Part,
        RawCompletion,
        RawLoglikelihood,
        ResponseType,
        Role,
        Sample,
    )
    from eval_toolkit.tasks.ungraded import ask

__all__ = [
    "CHATML",
    "LLAMA3",
    "NO_SUBJECT",
    "Aggregate",
    "Asked",
    "BPBStyle",
    "BaseTask",
    "ChatTemplate",
    "ChoicesSpec",
    "ClozeStyle",
    "Completion",
    "CompletionSpec",
    "Contamination",
    "ContaminationEffect",
    "DataSpec",
    "Decision",
    "FewshotLeakage",
    "FieldSpec",
    "Item",
    "ItemOverlap",
    "JinjaTemplate",
    "Leaf",
    "LmEvalGroup",
    "LmEvalTask",
    "Loglikelihood",
    "MCCompletionStyle",
    "MCStyle",
    "Message",
    "Part",
    "Perturbation",
    "PositionBias",
    "PositionDifference",
    "PositionResult",
    "Prompt",
    "RawCompletion",
    "RawLoglikelihood",
    "ResponseType",
    "Robustness",
    "RobustnessCell",
    "Role",
    "Sample",
    "SharedQuestion",
    "Suite",
    "SuiteRun",
    "SuiteValue",
    "Task",
    "TaskInfo",
    "Template",
    "UntilDecided",
    "UntilWidth",
    "Watch",
    "answer_key_to_index",
    "ask",
    "ask_until",
    "available_tasks",
    "check_turns",
    "contamination",
    "estimate",
    "fewshot_leakage",
    "format_mc_prompt",
    "format_prompt",
    "grade_answers",
    "joined_choice",
    "judge_pairs",
    "judge_run",
    "letters",
    "load_lm_eval_task",
    "load_suite",
    "load_task",
    "measure",
    "measure_run",
    "perturbed",
    "plan_jobs",
    "position_bias",
    "questions_task",
    "read_task_file",
    "robustness",
    "rotated",
    "run_rotations",
    "run_suite",
    "run_task",
    "stopped_card",
    "stopped_cell",
]

__getattr__ = names_on_use(
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
