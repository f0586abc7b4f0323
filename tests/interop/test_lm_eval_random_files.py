"""Random task files of lm-eval's package, with and without code: the same requests and metrics.

The documents are those that `tools.lm_eval_files` makes for a file. Files that lm-eval itself cannot
run on them, or whose metrics it would download, are left out.
"""

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tools.lm_eval_files import Census, Documents, build

from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.tasks import load_lm_eval_task, plan_jobs, run_task
from eval_toolkit.tasks.lm_eval.config import read_task
from eval_toolkit.tasks.lm_eval.files import merged, with_functions

sys.path.insert(0, str(Path(__file__).parent))
from test_lm_eval_parity import PEERS, _model, package

__all__ = ["package"]

N_FILES, N_COMPARED = 40, 25
ANSWERS = ["A", "one thing", "1", "B"]


def _case(file: Path, folder: Path, draw: random.Random) -> dict[str, Any] | None:
    """Return a case of a file with documents, or None if there are none."""
    given = merged(file)
    if Census._kind(given) != "task":
        return None
    try:
        config = with_functions(given, file, allow_code=True)
        task = read_task(config, file)
    except Exception:  # one of the listed reasons
        return None
    documents = Documents(given)
    if build(config, file, documents):
        return None
    rows = [
        {name: f"{cell} {n}" if cell == "one thing" else cell for name, cell in row.items()}
        for n, row in enumerate(documents.rows())
    ]
    splits = (task.sample_split, task.training_split, task.validation_split, task.fewshot.split)
    return {
        "id": file.relative_to(folder).as_posix(),
        "file": file.relative_to(folder).as_posix(),
        "splits": {split: rows for split in splits if split},
        "num_fewshot": draw.choice((0, 0, 1, 2)),
        "answers": ANSWERS,
        "may_fail": True,
    }


def _drawn(folder: Path, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the case of one random file of each folder, in random order."""
    folders = sorted(one for one in folder.iterdir() if one.is_dir())
    for one in draw.sample(folders, len(folders)):
        files = sorted(one.rglob("*.yaml"))
        case = _case(draw.choice(files), folder, draw) if files else None
        if case:
            yield case


@pytest.fixture(scope="module")
def compared(
    package: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
    """The cases that lm-eval can run, with its requests and metrics."""
    folder = tmp_path_factory.mktemp("random")
    seed = os.environ.get("EVAL_TOOLKIT_INTEROP_SEED", "1")
    drawn = _drawn(package, random.Random(seed))  # noqa: S311
    cases = [case for case, _ in zip(drawn, range(N_FILES), strict=False)]
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    script = Path(__file__).with_name("expected.py")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run(
        [PEERS / "bin" / "python", script, folder / "cases.json", folder / "out.json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "", "HF_HOME": str(folder / "hf"), **offline},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((folder / "out.json").read_text("utf-8"))
    return [(case, found[case["id"]]) for case in cases if "error" not in found[case["id"]]]


def _asked(task: Any) -> list[list[list[str]]]:
    """Return the texts of the requests of each document, the first attempt only."""
    samples = task.samples(order="file")
    found: dict[str, list[list[str]]] = {sample.id: [] for sample in samples}
    for job in plan_jobs(task, samples, formatter="plain"):
        request = job.request
        if isinstance(request, GenerateRequest):
            found[job.unit_id] = found[job.unit_id] or [[str(request.prompt)]]
        elif request.rolling:
            found[job.unit_id].append([request.continuations[0]])
        else:
            found[job.unit_id] += [[str(request.prompt), text] for text in request.continuations]
    return list(found.values())


def _same(card: Any, theirs: Mapping[str, Any]) -> Iterator[bool]:
    """Yield whether each metric is equal, of those that have a value here."""
    for key, value in theirs.items():
        metric, _, used = key.partition(",")
        name = metric if used == "none" else f"{metric}@{used}"
        if name in card and card[name].value is not None and isinstance(value, float):
            yield math.isclose(card[name].value, value, rel_tol=1e-9, abs_tol=1e-12)


def test_requests_and_metrics_are_lm_evals(
    package: Path, compared: list[tuple[dict[str, Any], Mapping[str, Any]]]
) -> None:
    assert len(compared) >= N_COMPARED
    n_metrics = 0
    for case, theirs in compared:
        task = load_lm_eval_task(
            package / case["file"],
            rows=case["splits"],
            num_fewshot=case["num_fewshot"],
            allow_code=True,
            lm_eval_shots=True,
        )
        wanted = [
            [[one[0]] if isinstance(one[-1], dict) else one for one in asked]
            for asked in theirs["requests"]
        ]
        assert _asked(task) == wanted, case["id"]
        if task.attempts == 1:
            run = run_task(task, _model(ANSWERS), formatter="plain", order="file")
            same = list(_same(run.card, theirs["metrics"]))
            assert all(same), case["id"]
            n_metrics += len(same)
    assert n_metrics >= N_COMPARED
