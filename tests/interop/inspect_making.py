"""Logs written by the installed Inspect, and Inspect's own reading of them.

Run in the peers' environment: ``python inspect_making.py FOLDER`` writes the logs and ``truth.json``.
Inspect is imported inside the functions, so the tests can import this module without it.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

N = 9


def _number(state: Any) -> int:
    return int(state.sample_id.split("/")[1])


def _scorers() -> dict[str, Any]:
    from inspect_ai import scorer as of

    def scorer(name: str, metrics: Any, value: Callable[[int, int], Any]) -> Any:
        @of.scorer(metrics=metrics, name=name)
        def make() -> Any:
            async def score(state: Any, target: Any) -> Any:
                return of.Score(value=value(_number(state), state.epoch), answer="x")

            return score

        return make()

    nan = float("nan")
    intervals = [of.ci(), of.ci_wilson(), of.grouped(of.accuracy(), "subject")]
    errors = [of.stderr(cluster="cluster"), of.bootstrap_stderr(), of.std(), of.var()]
    return {
        "marks": scorer(
            "marks",
            [of.accuracy(), *errors, *intervals],
            lambda n, epoch: nan if n == 3 else "CIPN"[n % 4],
        ),
        "keys": scorer(
            "keys",
            {"*": [of.mean(), of.stderr()], "a": [of.std()]},
            lambda n, epoch: (
                nan if n == 3 else {"a": n / 7, "b": n % 2 == 0, "c": nan if n == 2 else 0.1}
            ),
        ),
        "coin": scorer(
            "coin",
            [of.accuracy(), of.stderr()],
            lambda n, epoch: (
                nan if (n, epoch) == (1, 2) else "C" if (n * 5 + epoch * 2) % 3 else "I"
            ),
        ),
        "tenths": scorer(
            "tenths", [of.mean(), of.stderr()], lambda n, epoch: (n * 7 + epoch * 3) % 10 / 10
        ),
        "match": of.match(location="exact"),
    }


def _tasks() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name, the task arguments and the evaluation arguments of each log."""
    from inspect_ai import Epochs
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import choice
    from inspect_ai.solver import generate, multiple_choice, solver

    @solver
    def flaky() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state = await generate(state)
            if _number(state) % 4 == 3:
                raise RuntimeError(f"boom {_number(state)}")
            return state

        return solve

    @solver
    def sure() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state = await generate(state)
            state.messages.append(type(state.messages[0])(content="Are you sure?"))
            return await generate(state)

        return solve

    def about(n: int) -> dict[str, str]:
        return {"cluster": f"c{n % 3}", "subject": "odd" if n % 2 else "even", "long": "x" * 3000}

    rows = [
        Sample(id=f"q/{n}", input=f"What is {n} + 1?", target=str(n + 1), metadata=about(n))
        for n in range(N)
    ]
    picks = [
        Sample(id=f"p/{n}", input=f"Pick {n}", choices=["red", "green"], target="AB"[n % 2])
        for n in range(4)
    ]
    data, scorers = MemoryDataset(rows), _scorers()
    reducers = ["mean", "median", "mode", "max", "at_least_2", "pass_at_2", "pass_k_2"]
    plain = {"dataset": data, "solver": generate()}
    yield "plain", {**plain, "scorer": scorers["match"]}, {}
    yield "metrics", {**plain, "scorer": [scorers["marks"], scorers["keys"]]}, {}
    both = [scorers["coin"], scorers["tenths"]]
    yield "reducers", {**plain, "scorer": both}, {"epochs": Epochs(4, reducers)}
    yield "epochs", {**plain, "scorer": [*both, scorers["keys"]]}, {"epochs": 3}
    yield "unreduced", {**plain, "scorer": both}, {"epochs": Epochs(3, [])}
    failing = {"dataset": data, "solver": flaky(), "scorer": [scorers["match"], scorers["tenths"]]}
    yield "failures", failing, {"fail_on_error": False}
    yield "failed", failing, {}
    yield "limits", {**plain, "solver": sure(), "scorer": scorers["match"]}, {"message_limit": 3}
    yield "turns", {**plain, "solver": sure(), "scorer": scorers["match"]}, {}
    picking = {"dataset": MemoryDataset(picks), "solver": multiple_choice(), "scorer": choice()}
    yield "choices", picking, {}
    yield "unscored", {**plain, "scorer": scorers["match"]}, {"score": False}
    yield "reductions", {**plain, "scorer": both}, {"log_samples": False, "epochs": 2}


def _answers(input: Any, *rest: Any) -> Any:  # noqa: A002 - as Inspect calls it
    from inspect_ai.model import ModelOutput, ModelUsage

    asked = input[0].text
    said = str(len(asked)) if "Pick" not in asked else "ANSWER: A"
    if "What is" in asked:
        n = int(asked.split()[2])
        said = str(n + 1) if n % 2 else "no idea " + "y" * 300
    output = ModelOutput.from_content("mockllm/model", said)
    output.usage = ModelUsage(input_tokens=10, output_tokens=3, total_tokens=13)
    return output


def _plain(value: Any) -> Any:
    """Return a score as Inspect's numeric value, or None if it has none."""
    from inspect_ai.scorer import value_to_float

    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    number = value_to_float()(value)
    return None if math.isnan(number) else number


def _truth(path: str) -> dict[str, Any]:
    """Return the samples and metrics that Inspect reads from a log."""
    from inspect_ai.log import read_eval_log

    log = read_eval_log(path, resolve_attachments=True)
    samples = [
        {
            "id": one.id,
            "epoch": one.epoch,
            "input": one.input if isinstance(one.input, str) else one.input[-1].text,
            "target": one.target,
            "answer": one.output.completion if one.output.choices else None,
            "messages": [message.text for message in one.messages],
            "error": None if one.error is None else one.error.message,
            "cluster": one.metadata.get("cluster"),
            "scores": {name: _plain(score.value) for name, score in (one.scores or {}).items()},
        }
        for one in log.samples or []
    ]
    results = log.results
    stated = [
        {
            "column": one.name if one.name == one.scorer else f"{one.scorer}.{one.name}",
            "reducer": one.reducer,
            "n": one.scored_samples,
            "metrics": {key: metric.value for key, metric in one.metrics.items()},
        }
        for one in (results.scores if results else [])
    ]
    reductions = [
        {
            "scorer": one.scorer,
            "reducer": one.reducer or "mean",
            "values": {str(item.sample_id): _plain(item.value) for item in one.samples},
        }
        for one in log.reductions or []
    ]
    total = results.total_samples if results else None
    shown = {"status": log.status, "samples": samples, "stated": stated}
    return {"path": path, **shown, "reductions": reductions, "total": total}


def main(folder: Path) -> None:
    """Write all logs: as compressed by Inspect, as JSON, and with many small frames."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai._util import zipfile as packing
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import get_model

    truth = {}
    for name, task, options in _tasks():
        model = get_model("mockllm/model", custom_outputs=_answers)
        place = str(folder / name)
        (log,) = evaluate(
            Task(name=name, **task), model=model, log_dir=place, display="none", **options
        )
        truth[name] = _truth(log.location)
        whole = read_eval_log(log.location)
        write_eval_log(whole, f"{place}.json", format="json")
        truth[f"{name} as JSON"] = truth[name] | {"path": f"{place}.json"}
    packing._MAX_INPUT_PER_FRAME = 1000
    write_eval_log(read_eval_log(truth["plain"]["path"]), str(folder / "frames.eval"))
    truth["frames"] = truth["plain"] | {"path": str(folder / "frames.eval")}
    (folder / "truth.json").write_text(json.dumps(truth), "utf-8")


if __name__ == "__main__":
    os.environ["INSPECT_DISPLAY"] = "none"
    main(Path(sys.argv[1]))
