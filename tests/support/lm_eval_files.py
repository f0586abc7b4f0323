"""Small files in the format of lm-eval."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TIME = "2025-01-01T00-00-00.123456"
Line = dict[str, Any]


def question(n: int, **more: Any) -> Line:
    """Return the sample line of a generated answer."""
    line: Line = {
        "doc_id": n,
        "doc": {
            "question": f"{n} + {n}?",
            "answer": str(2 * n),
            "level": "easy" if n % 2 else "hard",
        },
        "target": str(2 * n),
        "arguments": {"gen_args_0": {"arg_0": f"Q: {n} + {n}?\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [[f" {2 * n}"]],
        "filtered_resps": [str(2 * n)],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": "0" * 64,
        "exact_match": 1.0,
    }
    return line | more


def choice(n: int, numbers: Sequence[float], right: int = 0, **more: Any) -> Line:
    """Return the sample line of scored choices, with numbers and flags as strings, as in lm-eval."""
    texts = [f" choice {at}" for at in range(len(numbers))]
    line: Line = {
        "doc_id": n,
        "doc": {"question": f"which {n}?", "choices": texts, "label": right},
        "target": str(right),
        "arguments": {
            f"gen_args_{at}": {"arg_0": f"which {n}?", "arg_1": text}
            for at, text in enumerate(texts)
        },
        "resps": [[[str(number), "False"]] for number in numbers],
        "filtered_resps": [[str(number), "False"] for number in numbers],
        "filter": "none",
        "metrics": ["acc"],
        "acc": float(max(range(len(numbers)), key=numbers.__getitem__) == right),
    }
    return line | more


def stated(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and standard error as in lm-eval: sample standard deviation / sqrt(n)."""
    n = len(values)
    mean = sum(values) / n
    return mean, math.sqrt(sum((one - mean) ** 2 for one in values) / (n - 1) / n)


def write_samples(folder: Path, task: str, lines: Sequence[Any], time: str = TIME) -> Path:
    """Write a sample file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{time}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_results(folder: Path, results: Mapping[str, Mapping[str, Any]], **more: Any) -> Path:
    """Write a result file in the format of lm-eval 0.4."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "results": results,
        "configs": {},
        "versions": dict.fromkeys(results, 1.0),
        "n-shot": dict.fromkeys(results, 0),
        "config": {"model": "hf", "model_args": "pretrained=org/small"},
        "date": 1735689600.0,
        "lm_eval_version": "0.4.8",
        "model_name": "org/small",
        **more,
    }
    path = folder / f"results_{TIME}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_log(folder: Path, rights: Sequence[float], task: str = "sums", **more: Any) -> Path:
    """Write results and samples with correct and wrong answers; return the results."""
    lines = [question(n, exact_match=right) for n, right in enumerate(rights)]
    write_samples(folder, task, lines)
    mean, error = stated(rights)
    numbers = {"alias": task, "exact_match,none": mean, "exact_match_stderr,none": error}
    n = {"original": 5 * len(rights), "effective": len(rights)}
    return write_results(folder, {task: numbers}, **{"n-samples": {task: n}, **more})
