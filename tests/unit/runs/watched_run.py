"""Run of a slow model, for viewer tests: ``python watched_run.py FOLDER DELAY``."""

import asyncio
import sys
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import BaseTask, run_task

N_SAMPLES = 60


class Squares(BaseTask[str]):
    NAME = "Squares"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item: Any) -> str:
        return f"question {item['n']}"

    def _get_ground_truth(self, item: Any) -> str:
        return str(item["n"] ** 2)


async def answer(request: Any) -> str:
    number = int(request.prompt.split("question ")[1].split()[0])
    await asyncio.sleep(DELAY)
    if number % 10 == 3:
        raise ModelError("the connection was reset", kind="connection")
    return str(number**2)


if __name__ == "__main__":
    DELAY = float(sys.argv[2])
    task = Squares(rows=[{"n": n} for n in range(N_SAMPLES)])
    model = ScriptedModel(answer, concurrency=2)
    run_task(task, model, sys.argv[1], formatter="plain", graders=["exact_match"])
