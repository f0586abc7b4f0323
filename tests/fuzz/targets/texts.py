"""Strings: model responses, names with options, near-duplicates and model weights."""

import contextlib
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.target import BrokenError, Target, each

from eval_toolkit.cli._models import read_arguments
from eval_toolkit.cli._threshold_selectors import selector
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import Grade, available_graders, load_grader
from eval_toolkit.graders.stored import grader_of_version
from eval_toolkit.metric_specs import named
from eval_toolkit.models.embedded.gguf import read_gguf
from eval_toolkit.models.loading import model_spec
from eval_toolkit.models.responses import Completion, Loglikelihood
from eval_toolkit.plugins import name_and_options
from eval_toolkit.rollouts.attacks import load_attack
from eval_toolkit.tasks import ResponseType
from eval_toolkit.tasks.measuring import columns_of, grades_by
from eval_toolkit.text_dedup import (
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    TfidfCosineStrategy,
    duplicate_clusters,
    near_dedup,
)

__all__ = ["TARGETS"]

_LEFT_OUT = ("judge", "panel", "code_pass")
"""Excluded graders: two query models (`rubric` covers their responses), one runs programs."""
_OPTIONS = {
    "keywords": {"phrases": ["sorry", "I cannot"]},
    "regex_match": {"pattern": r"answer is (\w+)"},
}


@cache
def _graders(kind: type) -> list[Any]:
    names = [name for name in available_graders() if name not in _LEFT_OUT]
    made = [load_grader(name, **_OPTIONS.get(name, {})) for name in names]
    wanted = ResponseType.COMPLETION if kind is Completion else ResponseType.LOGLIKELIHOODS
    return [grader for grader in made if wanted in grader.response_types]


def _graded(folder: Path, name: str) -> None:
    """Grade one response with every grader that supports it."""
    if name.endswith(".txt"):
        _replied((folder / name).read_bytes().decode("utf-8", "replace"), folder)
        return
    try:
        given = json.loads((folder / name).read_bytes())
        kind = Loglikelihood if "loglikelihoods" in given else Completion
        response = kind(**(given if kind is Loglikelihood else _wanted(given)))
    except (ValueError, TypeError, RecursionError):
        return  # no response that a task would make
    for grader in _graders(kind):
        for grade in grades_by(grader, columns_of(grader), response).values():
            if not isinstance(grade, Grade | str) and not math.isfinite(grade):
                raise BrokenError(f"{grader.name} gives {grade}")


def _replied(text: str, folder: Path) -> None:
    """Grade a model's response to a valid item; no grader may fail."""
    found = [json.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))]
    responses = [
        Completion(**_wanted({**given, "completion": text}))
        for given in found
        if "completion" in given
    ]
    for grader in _graders(Completion):
        for response in responses:
            with contextlib.suppress(InvalidInputError):  # its context does not tell what is needed
                grader.grade(response)
                break


def _wanted(given: dict[str, Any]) -> dict[str, Any]:
    keys = ("completion", "ground_truth", "context", "reasoning", "finish_reason")
    return {key: given[key] for key in keys if key in given}


def _named(folder: Path, name: str) -> None:
    """Parse each line as every type of name that a command accepts."""
    text = (folder / name).read_bytes().decode("utf-8", "replace")
    y_true, y_score = np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.8, 0.4, 0.3, 0.9])
    reads = (
        lambda line: named(line, at=0.5).compute(y_true, y_score),
        lambda line: named(line).compute(y_true, y_score),
        selector,
        name_and_options,
        model_spec,
        lambda line: read_arguments([line]),
        lambda line: load_attack(line) if ":" not in line else None,
        lambda line: load_grader(line) if ":" not in line else None,
        lambda line: grader_of_version(*line.partition(" ")[::2]),
    )
    lines = text.splitlines()[:12]
    each(*(lambda read=read, line=line: read(line) for read in reads for line in lines))


def _near(folder: Path, name: str) -> None:
    text = (folder / name).read_bytes().decode("utf-8", "surrogateescape")
    texts = text.split("\n")[:60]
    for strategy in (TfidfCosineStrategy(), JaccardNgramStrategy(), MinHashLSHStrategy()):
        near_dedup(texts, threshold=0.6, strategy=strategy)
        duplicate_clusters(texts, threshold=0.6, strategy=strategy)


def _weights(folder: Path, name: str) -> None:
    found = read_gguf(folder / name)
    for tensor in found.tensors.values():
        tensor.read()


TARGETS = (
    Target("graders", "replies of models, by 46 graders", _graded),
    Target("names", "metrics, selectors, names with options", _named),
    Target("near_duplicates", "texts, compared by the compiled kernels", _near),
    Target("gguf", "weights of models", _weights),
)
