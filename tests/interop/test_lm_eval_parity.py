"""Task files of lm-eval's package, here and there: the same requests, the same scores.

Expected values are made by the installed lm-eval, in its own environment (``.venv-peers``).
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.models.requests import GenerateRequest, Request
from eval_toolkit.models.responses import RawLoglikelihood
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import load_lm_eval_task, plan_jobs, run_task
from eval_toolkit.tasks.planning import decoding_of

sys.path.insert(0, str(Path(__file__).parent))
import fake_model
from cases import CASES, WITH_CODE, real_variants

HERE = Path(__file__).resolve()
PEERS = HERE.parents[2] / ".venv-peers"
REAL = HERE.parents[3] / "shared" / "data"
VARIANTS = [variant for case in (*CASES, *WITH_CODE) for variant in case.variants()]
VARIANTS += real_variants(REAL)
NEEDS_CODE = {case.file for case in WITH_CODE}
GROUP = "ours"
SIZES = {"one": 4, "two": 9, "three": 6}


def _ids(variants: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the cases, each once."""
    for at, variant in enumerate(variants):
        twins = [one["id"] for one in variants[:at]]
        if variant["id"] in twins:
            variant["id"] += f"~{at}"
    return [variant["id"] for variant in variants]


IDS = _ids(VARIANTS)
TEXTS = [variant for variant in VARIANTS if variant["answers"] != [""]]


def _rows(name: str) -> dict[str, list[dict[str, Any]]]:
    return {"test": [{"q": f"{name} {n}?", "label": n % 2} for n in range(SIZES[name])]}


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of lm-eval's tasks."""
    found = sorted(PEERS.glob("lib/python*/site-packages/lm_eval/tasks"))
    if not found:
        absent = pytest.fail if os.environ.get("CI") else pytest.skip
        absent("lm-eval is not installed in .venv-peers; `make test-interop` installs it")
    return found[0]


@pytest.fixture(scope="session")
def group_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group of three tasks of our own."""
    folder = tmp_path_factory.mktemp("group")
    (folder / "_base").write_text(
        "dataset_path: ours\ntest_split: test\noutput_type: multiple_choice\n"
        'doc_to_text: "Q: {{q}}"\ndoc_to_choice: ["no", "yes"]\ndoc_to_target: label\n'
        "metric_list: [{metric: acc}, {metric: acc_norm}]\n"
    )
    for name in SIZES:
        tag = "" if name == "one" else "tag: others\n"
        text = f"include: _base\ntask: ours_{name}\ndataset_name: {name}\n{tag}"
        (folder / f"{name}.yaml").write_text(text)
    (folder / "group.yaml").write_text(
        f"group: {GROUP}\ntask: [ours_one, others]\naggregate_metric_list:\n"
        "  - {metric: acc, weight_by_size: true}\n  - {metric: acc_norm, weight_by_size: false}\n"
    )
    return folder


@pytest.fixture(scope="session")
def expected(
    package: Path, group_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Any]:
    """What lm-eval asks and finds, for every case at once."""
    folder = tmp_path_factory.mktemp("expected")
    group = {
        "id": GROUP,
        "group": GROUP,
        "folder": str(group_folder),
        "splits": {name: _rows(name) for name in SIZES},
        "answers": [""],
    }
    (folder / "cases.json").write_text(json.dumps([*VARIANTS, group]), "utf-8")
    script = Path(__file__).with_name("expected.py")
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run(
        [PEERS / "bin" / "python", script, folder / "cases.json", folder / "out.json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "", "HF_HOME": str(folder / "hf"), **quiet},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: Mapping[str, Any] = json.loads((folder / "out.json").read_text("utf-8"))
    return found


def _model(answers: list[str]) -> ScriptedModel:
    def answer(request: Request) -> Any:
        if isinstance(request, GenerateRequest):
            return fake_model.completion(str(request.prompt), answers)
        pairs = [fake_model.loglikelihood(str(request.prompt), t) for t in request.continuations]
        numbers, greedy = zip(*pairs, strict=True)
        return RawLoglikelihood(numbers, request.continuations, is_greedy=greedy)

    return ScriptedModel(answer)


def _ours(package: Path, variant: Mapping[str, Any], **options: Any) -> Any:
    return load_lm_eval_task(
        package / variant["file"],
        rows=variant["splits"],
        num_fewshot=variant["num_fewshot"],
        overrides=variant["overrides"],
        allow_code=variant["file"] in NEEDS_CODE,
        lm_eval_shots=True,
        **options,
    )


def _asked(task: Any) -> list[list[list[Any]]]:
    """Return the requests of every document as lm-eval writes them."""
    samples = task.samples(order="file")
    found: dict[str, list[list[Any]]] = {sample.id: [] for sample in samples}
    for job in plan_jobs(task, samples, formatter="plain"):
        request = job.request
        if isinstance(request, GenerateRequest):
            found[job.unit_id].append([request.prompt, request])
        elif request.rolling:
            found[job.unit_id].append([request.continuations[0]])
        else:
            found[job.unit_id] += [[request.prompt, text] for text in request.continuations]
    return list(found.values())


def _same_decoding(task: Any, request: GenerateRequest, theirs: Mapping[str, Any]) -> None:
    until = theirs["until"]
    assert list(request.stop) == ([until] if isinstance(until, str) else until)
    assert request.max_tokens == theirs.get("max_gen_toks", 256)
    sampled = theirs.get("do_sample", True)
    assert request.temperature == (theirs.get("temperature", 0.0) if sampled else 0.0)
    assert decoding_of(task).stop == request.stop


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
class TestEveryFile:
    def test_asks_what_lm_eval_asks(
        self, package: Path, expected: Mapping[str, Any], variant: dict[str, Any]
    ) -> None:
        task, theirs = _ours(package, variant), expected[variant["id"]]
        assert task.num_fewshot == theirs["num_fewshot"]
        ours = _asked(task)
        assert len(ours) == len(theirs["requests"])
        for mine, wanted in zip(ours, theirs["requests"], strict=True):
            assert [one[0] for one in mine] == [one[0] for one in wanted]
            for one, other in zip(mine, wanted, strict=True):
                if len(one) > 1 and isinstance(one[1], GenerateRequest):
                    _same_decoding(task, one[1], other[1])
                else:
                    assert one == other

    def test_scores_what_lm_eval_scores(
        self, package: Path, expected: Mapping[str, Any], variant: dict[str, Any]
    ) -> None:
        task, theirs = _ours(package, variant), expected[variant["id"]]
        done = run_task(task, _model(variant["answers"]), formatter="plain", order="file")
        assert done.n_errors == 0
        at = {sample.id: n for n, sample in enumerate(task.samples(order="file"))}
        places = np.array([at[unit] for unit in done.records.unit_id])
        compared = 0
        for line in theirs["documents"]:
            for metric, value in line["scores"].items():
                name = metric if line["filter"] == "none" else f"{metric}@{line['filter']}"
                if isinstance(value, list) or name not in done.records.columns:
                    continue  # of sums: the aggregate below tells
                (mine,) = done.records.columns[name][places == line["at"]]
                assert mine == pytest.approx(value, abs=1e-12), (name, line["at"])
                compared += 1
        for key, value in theirs["metrics"].items():
            metric, _, used = key.partition(",")
            cell = done.card[metric if used == "none" else f"{metric}@{used}"]
            assert cell.value == pytest.approx(value, rel=1e-9, abs=1e-12), key
            assert cell.ci is not None
            assert cell.ci.ci_low - 1e-9 <= value <= cell.ci.ci_high + 1e-9
            compared += 1
        assert compared


@pytest.mark.parametrize("variant", TEXTS, ids=[variant["id"] for variant in TEXTS])
def test_a_chat_says_what_lm_eval_says(
    package: Path, expected: Mapping[str, Any], variant: dict[str, Any]
) -> None:
    samples = _ours(package, variant).samples(order="file")
    for sample, theirs in zip(samples, expected[variant["id"]]["chats"], strict=True):
        assert [turn.to_dict() for turn in sample.messages] == theirs


class TestGroups:
    def test_sizes_weigh_as_in_lm_eval(
        self, expected: Mapping[str, Any], group_folder: Path
    ) -> None:
        rows = {f"ours_{name}": _rows(name) for name in SIZES}
        task = load_lm_eval_task(group_folder / "group.yaml", rows=rows)
        done = run_task(task, _model([""]), formatter="plain")
        theirs = expected[GROUP]
        assert task.PRIMARY_METRICS == ["acc", "acc_norm_macro"]
        assert done.card["acc"].value == pytest.approx(theirs["metrics"]["acc,none"], rel=1e-12)
        macro = done.card["acc_norm_macro"].value
        assert macro == pytest.approx(theirs["metrics"]["acc_norm,none"], rel=1e-12)
        for name, found in theirs["tasks"].items():
            assert done.card.slices[name]["acc"].value == pytest.approx(found["acc,none"])


class TestPackage:
    def test_mmlu_is_57_subjects(self, package: Path) -> None:
        task = load_lm_eval_task(package / "mmlu" / "default" / "_mmlu.yaml")
        assert len(task.subjects) == 57  # Hendrycks et al. (2021)
        assert task.PRIMARY_METRICS == ["acc"]


class TestVotes:
    """The one file of the package whose answers are voted on, with 8 of its 64 attempts."""

    def test_majority_is_lm_evals_where_votes_do_not_tie(self, package: Path) -> None:
        row = {"question": "What is 2 + 2?", "answer": "It is 4.\n#### 4"}
        votes = ["The answer is 4."] * 5 + ["The answer is 5."] * 3
        task = load_lm_eval_task(
            package / "gsm8k" / "gsm8k-cot-self-consistency.yaml",
            rows=[row],
            overrides={"repeats": 8},
        )
        assert task.attempts == 8
        done = run_task(task, ScriptedModel(votes), formatter="plain", attempts=8)
        assert done.card["exact_match@maj@64"].value == 1.0
        assert done.card["exact_match@maj@8"].value == 1.0
        assert math.isclose(done.card["exact_match@score-first"].value or 0.0, 5 / 8)


def test_there_are_thirty_files_that_need_no_code() -> None:
    assert len({case.file for case in CASES}) >= 30
