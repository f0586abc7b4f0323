"""Benchmarks for language models: data, prompts and graders, and runs of them.

A task is a class (`BaseTask`), a composition (`Task`) or a file (`load_task`).
"""

from typing import TYPE_CHECKING

from eval_toolkit._optional import names_on_use
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.composed import ChoicesSpec, CompletionSpec, DataSpec, Prompt, Task
from eval_toolkit.tasks.declared import read_task_file
from eval_toolkit.tasks.loading import TaskInfo, available_tasks, load_task
from eval_toolkit.tasks.prompts import (
    CHATML,
    LLAMA3,
    ChatTemplate,
    JinjaTemplate,
    check_turns,
    format_prompt,
    joined_choice,
)
from eval_toolkit.tasks.styles import (
    BPBStyle,
    ClozeStyle,
    MCCompletionStyle,
    MCStyle,
    answer_key_to_index,
    format_mc_prompt,
    letters,
)
from eval_toolkit.tasks.templates import FieldSpec, Template
from eval_toolkit.tasks.types import (
    NO_SUBJECT,
    Completion,
    Item,
    Loglikelihood,
    Message,
    RawCompletion,
    RawLoglikelihood,
    ResponseType,
    Role,
    Sample,
)

if TYPE_CHECKING:
    from eval_toolkit.tasks.measuring import measure
    from eval_toolkit.tasks.planning import estimate, plan_jobs
    from eval_toolkit.tasks.running import measure_run, run_task
    from eval_toolkit.tasks.taskrun import TaskRun

__all__ = [
    "CHATML",
    "LLAMA3",
    "NO_SUBJECT",
    "BPBStyle",
    "BaseTask",
    "ChatTemplate",
    "ChoicesSpec",
    "ClozeStyle",
    "Completion",
    "CompletionSpec",
    "DataSpec",
    "FieldSpec",
    "Item",
    "JinjaTemplate",
    "Loglikelihood",
    "MCCompletionStyle",
    "MCStyle",
    "Message",
    "Prompt",
    "RawCompletion",
    "RawLoglikelihood",
    "ResponseType",
    "Role",
    "Sample",
    "Task",
    "TaskInfo",
    "TaskRun",
    "Template",
    "answer_key_to_index",
    "available_tasks",
    "check_turns",
    "estimate",
    "format_mc_prompt",
    "format_prompt",
    "joined_choice",
    "letters",
    "load_task",
    "measure",
    "measure_run",
    "plan_jobs",
    "read_task_file",
    "run_task",
]

# A prompt can be built without loading what runs and measures.
__getattr__ = names_on_use(
    __name__,
    {
        "measuring": ("measure",),
        "planning": ("estimate", "plan_jobs"),
        "running": ("measure_run", "run_task"),
        "taskrun": ("TaskRun",),
    },
)
