"""Benchmarks of the embedded model, including loading: scoring questions and generating texts.

``python -m benchmarks.embedded questions|texts`` runs one benchmark once and prints its result and
peak memory.
"""

import asyncio
import json
import sys

from benchmarks._case import Bar, Case, Measurement
from benchmarks._timing import Effort, Timing

N_TEXTS, N_TOKENS = 32, 64


async def _answer_questions() -> dict[str, float]:
    from eval_toolkit.models.embedded import EmbeddedModel
    from eval_toolkit.tasks import load_task, plan_jobs

    model, task = EmbeddedModel(), load_task("capitals")
    samples = task.samples()
    asked = [job.request for job in plan_jobs(task, samples, formatter="plain")]
    answers = await asyncio.gather(*(model.loglikelihood(request) for request in asked))
    right = sum(
        answer.by_choice[sample.ground_truth] == max(answer.loglikelihoods)
        for sample, answer in zip(samples, answers, strict=True)
    )
    return {"right": right, "n": len(answers)}


async def _write_texts() -> dict[str, float]:
    from eval_toolkit.models.embedded import EmbeddedModel
    from eval_toolkit.models.messages import Message, Role
    from eval_toolkit.models.requests import GenerateRequest
    from eval_toolkit.tasks import load_task

    model = EmbeddedModel()
    countries = [sample.id.rpartition("/")[2] for sample in load_task("capitals").samples()]
    asked = [
        GenerateRequest(
            (Message(Role.USER, f"Tell me something about {country}."),), max_tokens=N_TOKENS
        )
        for country in countries[:N_TEXTS]
    ]
    answers = await asyncio.gather(*(model.generate(request) for request in asked))
    return {"tokens": sum(answer.completion_tokens or 0 for answer in answers)}


def _questions(effort: Effort) -> Measurement:
    runs, said = _runs("questions", effort)
    note = (
        f"{said['right']} of {said['n']} right; peak memory {said['peak_kb'] / 1e6:.2f} GB; "
        "loading included"
    )
    return Measurement(Timing(runs), note=note)


def _texts(effort: Effort) -> Measurement:
    runs, said = _runs("texts", effort)
    rate = said["tokens"] / (min(runs) / 1e9)
    note = f"{said['tokens']} tokens, {rate:.0f} per CPU second with loading"
    return Measurement(Timing(runs), note=note)


def _runs(job: str, effort: Effort) -> tuple[tuple[float, ...], dict[str, float]]:
    from benchmarks.processes import run_python

    runs = [run_python("-m", "benchmarks.embedded", job) for _ in range(effort.heavy_rounds)]
    return tuple(run.cpu_ns for run in runs), json.loads(runs[-1].output)


CASES = (
    Case(
        "embedded_questions",
        "Embedded model: 100 four-choice questions, one thread",
        Bar("seconds", 8.0),
        _questions,
    ),
    Case(
        "embedded_texts",
        f"Embedded model: {N_TEXTS} answers of {N_TOKENS} tokens, one thread",
        Bar("seconds", 30.0),
        _texts,
    ),
)

if __name__ == "__main__":
    from benchmarks._child import peak_kilobytes

    work = {"questions": _answer_questions, "texts": _write_texts}[sys.argv[1]]
    print(json.dumps({**asyncio.run(work()), "peak_kb": peak_kilobytes()}))
