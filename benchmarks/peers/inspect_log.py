"""Write and read a log with Inspect AI: ``make FOLDER N`` and ``read FILE``."""

import sys
import time

from inspect_ai import Task, eval  # noqa: A004 - the published name
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import match
from inspect_ai.solver import solver


@solver
def answer():
    """Answer four of five questions correctly without a model, which would need network access."""

    async def solve(state, generate):
        at = int(state.sample_id[1:])
        said = str(2 * at + (at % 5 == 0))
        state.output = ModelOutput.from_content("mock", said)
        state.messages.append(state.output.message)
        return state

    return solve


def make(folder: str, n: str) -> None:
    """Ask ``n`` questions and print the path of the log."""
    samples = [
        Sample(id=f"q{at}", input=f"{at} + {at}?", target=str(2 * at)) for at in range(int(n))
    ]
    task = Task(dataset=samples, solver=answer(), scorer=match(), name="sums")
    (log,) = eval(task, model="mockllm/model", log_dir=folder, display="none", log_realtime=False)
    print(log.location)


def read(path: str) -> None:
    """Print the CPU seconds to read a log (best of three) and its accuracy."""
    took = []
    for _ in range(3):
        start = time.process_time()
        log = read_eval_log(path)
        took.append(time.process_time() - start)
    print(min(took), log.results.scores[0].metrics["accuracy"].value)


if __name__ == "__main__":
    {"make": make, "read": read}[sys.argv[1]](*sys.argv[2:])
