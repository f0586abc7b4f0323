"""Check the messages for missing extras: ``python -sE missing.py``.

Run after `smoke` in the same environment and folder. Each feature of an extra without installed packages
must name the extra in a one-line message, with exit code 2.
"""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "eval-toolkit")


def _frame_wanted() -> None:
    from eval_toolkit import metric_specs, scorecard

    scorecard([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4], metrics=[metric_specs.roc_auc]).to_pandas()


def _mlflow_wanted() -> None:
    from eval_toolkit.integrations.mlflow import log_run

    log_run("run")


_GREET = ["run", "greetings.toml", "--no-store", "--model"]
_CAPITALS = ["run", "capitals_open", "--limit", "1", "--no-store", "--model"]
_TALK = ["rollout", "--seeds", "goals.txt", "--tester", "static", "--target", "scripted:x"]

MODULES = {
    "dataframe": ["pandas"],
    "validation": ["jsonschema"],
    "yaml": ["yaml"],
    "excel": ["openpyxl"],
    "remote": ["fsspec"],
    "llm": ["aiohttp"],
    "bedrock": ["botocore"],
    "hf": ["datasets", "transformers"],
    "llamacpp": ["xllamacpp"],
    "vllm": ["vllm"],
    "sglang": ["sglang"],
    "text": ["sacrebleu", "py3langid"],
    "math": ["math_verify"],
    "safety": ["h5py"],
    "report": ["altair", "vl_convert"],
    "view": ["starlette", "uvicorn"],
    "logs": ["zstandard"],
    "ray": ["ray"],
    "dask": ["distributed"],
    "mlflow": ["mlflow"],
}
"""Packages installed by each extra."""
WANTED: dict[str, list[list[str] | Callable[[], None]]] = {
    "dataframe": [_frame_wanted],
    "validation": [["validate", "run/results.json"], ["schemas", "check"]],
    "yaml": [["run", "quiz.yaml", "--data", "quiz", "--model", "scripted:yes", "--no-store"]],
    "excel": [["score", "book.xlsx"]],
    "remote": [["score", "memory://nowhere/rows.csv"], ["report", "memory://run", "-o", "x.html"]],
    "llm": [[*_CAPITALS, "openai:m", "--base-url", "http://127.0.0.1:9/v1"]],
    "bedrock": [[*_CAPITALS, "bedrock:name{region='eu-central-1'}"]],
    "hf": [
        [*_CAPITALS, "hf:quiz"],
        [*_CAPITALS, "hf:name/model"],
        [*_GREET, "scripted:x", "--data", "name/set"],
    ],
    "llamacpp": [[*_CAPITALS, "llamacpp:tiny.gguf"]],
    "vllm": [[*_CAPITALS, "vllm:name/model"]],
    "sglang": [[*_CAPITALS, "sglang:name/model"]],
    "text": [
        [*_GREET, "scripted:x", "--grader", grader]
        for grader in ("bleu", "ter", "language_match{language='en'}")
    ],
    "math": [[*_GREET, "scripted:x", "--grader", "math_match"]],
    "safety": [[*_TALK, "--no-store", "--scorer", "toxicity"]],
    "report": [["report", "run", "-o", "no.html"]],
    "view": [["view", "."]],
    "logs": [["import", "packed.eval"]],
    "ray": [["score", "rows.csv", "--backend", "ray"]],
    "dask": [["score", "rows.csv", "--backend", "dask"]],
    "mlflow": [_mlflow_wanted],
}
"""Features that require each extra."""


def _said(wanted: list[str] | Callable[[], None]) -> str:
    """Return the error message, preceded by the exit code if it is not 2."""
    from eval_toolkit.errors import MissingExtraError

    if callable(wanted):
        try:
            wanted()
        except MissingExtraError as error:
            return f"{error}\n"
        return "nothing\n"
    done = subprocess.run([COMMAND, *wanted], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode == 2 else f"{done.returncode}\n{done.stderr}"


def main() -> None:
    """Try all features that are not installed."""
    known = set(metadata("eval-toolkit").get_all("Provides-Extra") or ()) - {"all"}
    assert set(MODULES) == set(WANTED) == known, known ^ set(MODULES)
    absent = [extra for extra, names in MODULES.items() if not any(map(find_spec, names))]
    faults = []
    for extra in absent:
        for wanted in WANTED[extra]:
            said = _said(wanted)
            if said.count("\n") != 1 or f"pip install 'eval-toolkit[{extra}]'" not in said:
                faults.append(f"without {extra}, {wanted}: {said}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"not installed and named: {', '.join(absent) or 'none'}")


if __name__ == "__main__":
    main()
