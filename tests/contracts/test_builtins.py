"""Everything that comes with the package keeps the contract that plugins are held to."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.support.each import each
from tests.support.engine_stand_ins import Tokenizer, install_sglang, install_vllm
from tests.support.fault_server import FaultServer
from tests.support.model_fixture import write_tiny_model

from eval_toolkit import EvalSlice, as_scorer, leakage, loaders, splits
from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit import text_dedup as td
from eval_toolkit import thresholds as th
from eval_toolkit._internal import tables
from eval_toolkit.artifacts import (
    CsvPredictionReader,
    JsonlPredictionReader,
    ParquetPredictionReader,
    TsvPredictionReader,
)
from eval_toolkit.calibration import CostMatrix
from eval_toolkit.graders import loading as graders
from eval_toolkit.graders.judges import Judge
from eval_toolkit.harness.loading import SELECTORS, SPLITTERS
from eval_toolkit.leakage.loading import OURS as CHECKS
from eval_toolkit.loaders.loading import OURS as LOADERS
from eval_toolkit.models.cache import CachedModel, ResponseCache
from eval_toolkit.models.embedded import EmbeddedModel
from eval_toolkit.models.in_process import SglangModel, VllmModel
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import Completion
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.protocols import Model
from eval_toolkit.rollouts.attacks import available_attacks, load_attack
from eval_toolkit.rollouts.scorers import load_scorer
from eval_toolkit.tasks import available_tasks, load_task
from eval_toolkit.testing import CONTRACTS, TEXTS

LABELS = [0, 1, 0, 1, 0, 0]
METRICS = [
    *(ms.pr_auc, ms.roc_auc, ms.brier, ms.log_loss, ms.smooth_ece, ms.recall_at_fpr(0.1)),
    *(ms.partial_roc_auc(0.2), ms.ece(), ms.ece(strategy="quantile")),
    *(op.op_f1(0.5), op.op_precision(0.5), op.op_recall(0.5), op.op_specificity(0.5)),
    *(op.op_accuracy(0.5), op.op_balanced_accuracy(0.5), op.op_mcc(0.5), op.op_kappa(0.5)),
    *(op.op_fpr(0.5), op.op_fnr(0.5), op.op_net_benefit(0.5)),
]


def words(text: str) -> dict[str, Any]:
    return {"input_ids": text.split()}


def embedding(texts: list[str]) -> Any:
    """Counts of letters, and one that is never zero."""
    return np.array([[text.lower().count(c) for c in "abcdefghijklm"] + [1.0] for text in texts])


def both_kinds(request: Any) -> Any:
    if isinstance(request, LoglikelihoodRequest):
        return [-float(len(text)) for text in request.continuations]
    return "Rome it is"


CHECK_OBJECTS = [
    leakage.ConfusableFormLeakageCheck(),
    leakage.CrossSplitLeakageCheck(),
    leakage.ExactDuplicateCheck(),
    leakage.GroupLeakageCheck("author"),
    leakage.LabelConflictCheck(),
    leakage.NearDuplicateCheck(0.8),
    leakage.NgramContaminationCheck([TEXTS[0]], n=5),
    leakage.NormalizedFormLeakageCheck(),
    leakage.TargetLeakageCheck(["answer"]),
    leakage.TemporalLeakageCheck("time", ["train", "test"]),
    leakage.TokenizationLeakageCheck(words),
]
SPLITTER_OBJECTS = [
    splits.GroupKFoldSplitter(k=3),
    splits.HoldoutSplitter(),
    splits.PurgedKFoldSplitter(n_splits=3, time_col="time", ignore_groups=True),
    splits.SourceDisjointKFoldSplitter("source"),
    splits.StratifiedGroupKFoldSplitter(k=3),
    splits.StratifiedKFoldSplitter(k=3, ignore_groups=True),
    splits.TimeSeriesSplitter(k=3, ignore_groups=True),
]
SELECTOR_OBJECTS = [
    th.CISafeThresholdSelector(max_fpr_ci_upper=0.5, criterion="safe"),
    th.CostSensitiveSelector(CostMatrix()),
    th.MaxF1Selector(),
    th.TargetFPRSelector(0.2),
    th.TargetPrecisionSelector(0.8),
    th.TargetRecallSelector(0.8),
    th.YoudenJSelector(),
]
OBJECTS = {
    "leakage_check": CHECK_OBJECTS,
    "metric_spec": METRICS,
    "selector": SELECTOR_OBJECTS,
    "similarity": [
        td.EmbeddingCosineStrategy(embedding),
        td.ExactNormalizedHashStrategy(),
        td.JaccardNgramStrategy(),
        td.MinHashLSHStrategy(),
        td.TfidfCosineStrategy(),
    ],
    "splitter": SPLITTER_OBJECTS,
    "text_scorer": [load_scorer(name) for name in ("keywords:idiot", "pattern:x+", "refusal")],
    "slice": [EvalSlice("all", {"text": ["a", "b"], "label": [0, 1]})],
}


@pytest.mark.parametrize(
    ("kind", "given"),
    [(kind, given) for kind, objects in OBJECTS.items() for given in objects],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", None),
)
def test_it_keeps_its_contract(kind: str, given: Any) -> None:
    assert CONTRACTS[kind].check(given) == [name for name, _ in CONTRACTS[kind].checks()]


@pytest.mark.parametrize(
    ("places", "objects"),
    [(CHECKS, CHECK_OBJECTS), (SPLITTERS, SPLITTER_OBJECTS), (SELECTORS, SELECTOR_OBJECTS)],
    ids=["checks", "splitters", "selectors"],
)
def test_no_name_is_left_out(places: dict[str, str], objects: list[Any]) -> None:
    named = {place.partition(":")[2] for place in places.values()}
    assert named <= {type(one).__name__ for one in objects}


# --- what is fitted, loaded or read ------------------------------------------------------------


def test_an_estimator_as_a_scorer() -> None:
    fitted = make_pipeline(CountVectorizer(), LogisticRegression()).fit(list(TEXTS), LABELS)
    CONTRACTS["scorer"].check(as_scorer(fitted), labels=LABELS)


COLUMNS = {"text": ["one", "two", "three"], "label": [0, 1, 1], "split": ["a", "b", "a"]}


def _ood(folder: Path) -> Any:
    csv = tables.write_table(COLUMNS, folder / "rows.csv")
    digest = hashlib.sha256(csv.read_bytes()).hexdigest()
    manifest = folder / "ood.json"
    manifest.write_text(json.dumps({"slices": {"mine": {"url": csv.as_uri(), "sha256": digest}}}))
    return loaders.OodManifestLoader(manifest, cache_dir=folder)


def _hub(folder: Path) -> Any:
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict({"test": datasets.Dataset.from_dict(COLUMNS)}).save_to_disk(folder / "hub")
    return loaders.HFDatasetsLoader(str(folder / "hub"))


LOADER_OBJECTS: dict[str, Callable[[Path], Any]] = {
    "DataFrameLoader": lambda folder: loaders.DataFrameLoader(COLUMNS, split_col="split"),
    "FileLoader": lambda folder: loaders.FileLoader(
        tables.write_table(COLUMNS, folder / "rows.csv"), split_col="split"
    ),
    "HFDatasetsLoader": _hub,
    "OodManifestLoader": _ood,
    "ParquetGlobLoader": lambda folder: loaders.ParquetGlobLoader(
        {"all": str(tables.write_table(COLUMNS, folder / "rows.parquet"))}
    ),
    "SingleSliceLoader": lambda folder: loaders.SingleSliceLoader(EvalSlice("x", COLUMNS)),
}


@pytest.mark.parametrize("name", LOADER_OBJECTS)
def test_loaders(name: str, tmp_path: Path) -> None:
    CONTRACTS["loader"].check(LOADER_OBJECTS[name](tmp_path))


@pytest.mark.parametrize(
    ("suffix", "reader"),
    [
        ("csv", CsvPredictionReader()),
        ("tsv", TsvPredictionReader()),
        ("jsonl", JsonlPredictionReader()),
        ("parquet", ParquetPredictionReader()),
    ],
)
def test_readers_of_predictions(suffix: str, reader: Any, tmp_path: Path) -> None:
    rows = {"id": ["a", "b"], "label": [0.0, 1.0], "score": [0.25, 0.5]}
    file = tables.write_table(rows, tmp_path / f"p.{suffix}")
    CONTRACTS["prediction_reader"].check(reader, uri=str(file), expected=rows)


# --- language models ----------------------------------------------------------------------------

CONTEXTS: dict[str, tuple[str, Any]] = {
    "character_count": ("Rome", {"comparison": "at most", "n": 9}),
    "paragraph_count": ("Rome", {"comparison": "at most", "n": 9}),
    "sentence_count": ("Rome", {"comparison": "at most", "n": 9}),
    "word_count": ("Rome", {"comparison": "at most", "n": 9}),
    "code_pass": ("", {"test_list": ["assert True"]}),
    "exponential_similarity": ("42", None),
    "language_match": ("Rome", {"language": "en"}),
    "length_control": ('{"unit": "words", "type": "max", "count": 9}', None),
    "length_ratio": ("Rome", {"original": "one two three"}),
    "letter_match": ("B", None),
    "number_match": ("42", None),
}
"""What a sample must hold for graders that need more than any reference: reference and context."""
OPTIONS: dict[str, dict[str, Any]] = {
    "keywords": {"phrases": ["Rome"]},
    "regex_match": {"pattern": r"(\w+)"},
}
ASK_A_MODEL = {"judge", "panel"}
"""Not pure functions of a response: they grade what a model said about it."""
RUN_PROGRAMS = {"code_pass"}
"""Each grade starts a process."""


@each("name", sorted(set(graders._OURS) - ASK_A_MODEL))
def test_graders(name: str) -> None:
    grader = graders.load_grader(name, **OPTIONS.get(name, {}))
    if name not in CONTEXTS:
        CONTRACTS["grader"].check(grader)
        return
    truth, context = CONTEXTS[name]
    texts = ["x = 1"] if name in RUN_PROGRAMS else ["Rome", "B", "I say 42.", ""]
    given = [Completion(text, ground_truth=truth, context=context) for text in texts]
    for rule, check in CONTRACTS["grader"].checks(responses=given):
        if rule != "grades_unusual_texts" or name not in RUN_PROGRAMS:
            check(grader)


def test_a_judge_is_a_grader_whose_model_was_asked_before() -> None:
    judge = Judge("correctness", ScriptedModel("yes"))
    names = [rule for rule, _ in CONTRACTS["grader"].checks()]
    for rule, check in CONTRACTS["grader"].checks():
        if rule in names[: names.index("grades_are_valid")]:
            check(judge)


ATTACKS: dict[str, dict[str, Any]] = {
    "refinement": {"model": ScriptedModel("<prompt>Hello.</prompt>")},
    "scripted": {"probes": ["Hello.", "{goal}"]},
    "template": {"text": "Please: {probe}"},
}


@each("name", sorted(available_attacks()))
def test_attacks(name: str) -> None:
    CONTRACTS["attack"].check(load_attack(name, **ATTACKS.get(name, {})))


@pytest.mark.parametrize("answers", ["Rome it is", both_kinds], ids=["text", "both"])
def test_the_scripted_model(answers: Any) -> None:
    CONTRACTS["model"].check(ScriptedModel(answers))


def test_a_model_behind_a_cache(tmp_path: Path) -> None:
    model: Model = CachedModel(ScriptedModel(both_kinds), ResponseCache(tmp_path / "answers"))
    CONTRACTS["model"].check(model)


def test_the_embedded_model(tmp_path: Path) -> None:
    CONTRACTS["model"].check(EmbeddedModel(write_tiny_model(tmp_path / "tiny.gguf")), max_tokens=4)


@pytest.mark.parametrize(
    ("kind", "install"), [(VllmModel, install_vllm), (SglangModel, install_sglang)]
)
def test_models_of_engines(
    kind: Any, install: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    CONTRACTS["model"].check(kind(str(tmp_path), tokenizer=Tokenizer()))


def test_a_model_behind_a_server() -> None:
    with FaultServer() as server:
        model = OpenAICompatible("toy", base_url=server.url, retry_wait_s=0.0)
        CONTRACTS["model"].check(model, prompts=["What is 2 + 3?", "What is 4 + 5?"])


CHOICES = {"text": ["red", "blue"], "label": ["A", "B"]}
ROWS: dict[str, dict[str, Any]] = {
    "arc": {"question": "Which is {n}?", "choices": CHOICES, "answerKey": "B"},
    "arc_adapters": {
        "instruction": "Which is {n}? Answer format: answer1/answer2",
        "answer": "answer2",
    },
    "bbh": {"input": "Is {n} so?", "target": "yes"},
    "boolq": {"passage": "Passage {n}.", "question": "is {n} so", "answer": True},
    "commonsenseqa": {"question": "Which is {n}?", "choices": CHOICES, "answerKey": "A"},
    "gsm8k": {"question": "How many are {n}?", "answer": "Count. #### 7"},
    "hellaswag": {
        "activity_label": "Counting",
        "ctx": "They count to {n},",
        "endings": ["then stop.", "then go on.", "then fly.", "then rest."],
        "label": "1",
    },
    "humaneval": {
        "task_id": "h/{n}",
        "prompt": "def f{n}():\n",
        "canonical_solution": "    return 1\n",
        "test": "def check(f):\n    assert f() == 1\n",
        "entry_point": "f{n}",
    },
    "ifeval": {
        "key": "{n}",
        "prompt": "Say {n} without commas.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{}],
    },
    "mbpp": {
        "task_id": "{n}",
        "text": "Return {n}.",
        "code": "def f():\n    return 1",
        "test_list": ["assert f()", "assert f() == 1", "assert f() > 0"],
        "test_setup_code": "",
    },
    "mmlu": {
        "question": "What is {n}?",
        "choices": ["one", "two"],
        "answer": 1,
        "subject": "counting",
    },
    "mmlu_redux": {"question": "What is {n}?", "choices": ["one", "two"], "answer": 1},
    "piqa": {"goal": "Reach {n}.", "sol1": "Count.", "sol2": "Sleep.", "label": 0},
    "svamp": {
        "ID": "s-{n}",
        "Body": "There are {n} birds.",
        "Question": "How many are there?",
        "Answer": "7",
    },
    "truthfulqa_mc1": {"question": "Is {n} true?", "mc1_targets": {"Yes.": 1, "No.": 0}},
    "truthfulqa_mc2": {"question": "Is {n} true?", "mc2_targets": {"Yes.": 1, "No.": 0}},
    "winogrande": {
        "sentence": "The box {n} did not fit as _ was big.",
        "option1": "it",
        "option2": "he",
        "answer": "1",
    },
}
ROWS["humaneval_chat"] = ROWS["humaneval"]


def _numbered(row: Any, n: int) -> Any:
    if isinstance(row, dict):
        return {key: _numbered(value, n) for key, value in row.items()}
    return row.replace("{n}", str(n)) if isinstance(row, str) else row


@each("name", [info.name for info in available_tasks()])
def test_tasks(name: str) -> None:
    given = {"rows": [_numbered(ROWS[name], n) for n in range(4)]} if name in ROWS else {}
    CONTRACTS["task"].check(load_task(name, **given))


def test_every_kind_of_plugin_is_tried() -> None:
    """No object above is of these; kinds are tried in `broken_answers` and in examples."""
    tried = {*OBJECTS, "scorer", "loader", "prediction_reader", "grader", "attack", "model", "task"}
    assert set(CONTRACTS) - tried == {"kind", "pool_builder", "text_transform"}
    assert {place.partition(":")[2] for place in LOADERS.values()} <= set(LOADER_OBJECTS)
