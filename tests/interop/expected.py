"""Requests and results of lm-eval for each case; run in an environment with lm-eval.

``python expected.py CASES.json OUT.json`` downloads nothing: the cases contain the documents, and
`fake_model` answers.
"""

import json
import logging
import sys
from pathlib import Path

import datasets
import lm_eval.api.task as task_module
from lm_eval.api.model import LM
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

sys.path.insert(0, str(Path(__file__).parent))
import fake_model

logging.disable(logging.WARNING)
TASKS = Path(task_module.__file__).parents[1] / "tasks"
SHOT_SEED = 1234
NOT_OF_A_TASK = ("tag", "group", "task_list")


class Fake(LM):
    """lm-eval model that answers with `fake_model`."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def loglikelihood(self, requests):
        return [fake_model.loglikelihood(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [fake_model.loglikelihood("", request.args[0])[0] for request in requests]

    def generate_until(self, requests):
        return [
            self._before_stops(fake_model.completion(context, self.answers), options["until"])
            for context, options in (request.args for request in requests)
        ]

    @staticmethod
    def _before_stops(answer, until):
        """Truncate an answer at the first stop string."""
        for stop in [until] if isinstance(until, str) else until:
            answer = answer.partition(stop)[0]
        return answer


def given(splits):
    """Return the documents as a `datasets` dataset."""
    rows = {split: datasets.Dataset.from_list(part) for split, part in splits.items()}
    return datasets.DatasetDict(rows)


def made(case):
    """Create the lm-eval task of a case."""
    datasets.load_dataset = lambda **_: given(case["splits"])
    config = load_yaml(TASKS / case["file"])
    config = {key: value for key, value in config.items() if key not in NOT_OF_A_TASK}
    config.update(case.get("overrides", {}))
    task = task_module.ConfigurableTask(config=config)
    shots = case.get("num_fewshot")
    task.set_config("num_fewshot", (task.config.num_fewshot or 0) if shots is None else shots)
    task.set_fewshot_seed(SHOT_SEED)
    return task


def plain(value):
    """Convert a value to JSON types."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def chats(task):
    """Return the prompt of every document as chat messages."""
    task.set_fewshot_seed(SHOT_SEED)
    return [
        json.loads(
            task.fewshot_context(
                doc,
                num_fewshot=task.config.num_fewshot,
                apply_chat_template=True,
                fewshot_as_multiturn=True,
                chat_template=lambda turns, add_generation_prompt: json.dumps(turns),
                gen_prefix=task.doc_to_prefix(doc),
            )
        )
        for doc in task.eval_docs
    ]


def told(results, name):
    """Return the aggregated metrics of a task or group."""
    return {
        key: plain(value)
        for key, value in results[name].items()
        if "," in key and "_stderr" not in key
    }


def of_task(case):
    """Return the requests, the scores of each document, and the aggregated metrics."""
    task = made(case)
    name = task.config.task
    found = evaluate(
        Fake(case["answers"]), {"tasks": {name: task}, "groups": {}}, bootstrap_iters=0
    )
    documents = [
        {
            "filter": line["filter"],
            "at": line["doc_id"],
            "scores": {metric: plain(line[metric]) for metric in line["metrics"]},
        }
        for line in found["samples"][name]
    ]
    asked: dict[int, list] = {}
    for instance in sorted(task.instances, key=lambda one: (one.doc_id, one.idx)):
        asked.setdefault(instance.doc_id, []).append(list(instance.args))
    return {
        "requests": [asked[at] for at in sorted(asked)],
        "documents": documents,
        "metrics": told(found["results"], name),
        "num_fewshot": task.config.num_fewshot,
        "chats": chats(task) if task.OUTPUT_TYPE == "generate_until" else None,
    }


def of_group(case):
    """Return the aggregated metrics of a group of task files in a folder."""
    datasets.load_dataset = lambda path, name=None, **_: given(case["splits"][name])
    manager = TaskManager(include_path=case["folder"], include_defaults=False)
    loaded = manager.load(case["group"])
    for task in loaded["tasks"].values():
        task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(SHOT_SEED)
    found = evaluate(Fake(case["answers"]), loaded, bootstrap_iters=0)
    return {
        "metrics": told(found["groups"], case["group"]),
        "tasks": {name: told(found["results"], name) for name in loaded["tasks"]},
    }


def main(cases, out):
    """Write the expected results of all cases."""
    expected = {}
    for case in json.loads(Path(cases).read_text("utf-8")):
        try:
            expected[case["id"]] = of_group(case) if "group" in case else of_task(case)
        except Exception as error:  # metrics that are downloaded, documents that do not fit
            if not case.get("may_fail"):
                raise
            expected[case["id"]] = {"error": f"{type(error).__name__}: {error}"}
    Path(out).write_text(json.dumps(expected, default=str), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
