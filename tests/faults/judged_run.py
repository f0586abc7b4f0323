"""Run to be killed during judging: ``python judged_run.py FOLDER``.

Every request to the model and the judge is logged in ``asked.txt`` before it is answered.
"""

import asyncio
import os
import sys
from pathlib import Path

from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import run_task
from eval_toolkit.tasks.base import BaseTask

N_ITEMS = 80
CONCURRENCY = 4


class Numbers(BaseTask[str]):
    NAME = "Numbers"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item):
        return f"Square of {item['id']}?"

    def _get_ground_truth(self, item):
        return str(int(item["id"]) ** 2)


def number(request):
    return request.prompt[-1].content.partition("Square of ")[2].partition("?")[0]


async def answer(request):
    os.write(ASKED, f"answer {number(request)}\n".encode())
    return str(int(number(request)) ** 2)


async def verdict(request):
    os.write(ASKED, f"verdict {number(request)}\n".encode())
    await asyncio.sleep(0.05)  # slow enough to be killed in time on a busy machine
    return "yes" if int(number(request)) % 3 else "no"


def main():
    task = Numbers(rows=[{"id": str(n)} for n in range(N_ITEMS)])
    judge = Judge("correctness", ScriptedModel(verdict, name="judge", concurrency=CONCURRENCY))
    model = ScriptedModel(answer, name="model")
    run_task(task, model, FOLDER / "run", graders=[judge])


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    FOLDER.mkdir(parents=True, exist_ok=True)
    ASKED = os.open(FOLDER / "asked.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    main()
