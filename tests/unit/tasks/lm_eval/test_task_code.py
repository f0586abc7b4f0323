"""Python functions of lm-eval task files: where they run, and what they may import."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit._internal.sandbox.levels import measured_level
from eval_toolkit._internal.task_code.rows import Documents
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, PluginError
from eval_toolkit.models.responses import RawLoglikelihood
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import load_lm_eval_task, plan_jobs, run_task

CHOICE = """
task: quiz
dataset_path: quiz
test_split: test
output_type: multiple_choice
doc_to_text: "Q: {{q}}"
doc_to_choice: ["no", "yes"]
doc_to_target: label
"""
TEXT = """
task: quiz
dataset_path: quiz
test_split: test
doc_to_text: "Q: {{q}}"
doc_to_target: "{{a}}"
"""
LABELS = [0, 0, 0, 1, 1]
ROWS = [{"q": f"number {n}?", "label": label, "a": str(n)} for n, label in enumerate(LABELS)]
Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a task file beside a Python file."""

    def loaded(text: str, code: str = "", **options: Any) -> Any:
        (tmp_path / "utils.py").write_text(code, "utf-8")
        path = tmp_path / "quiz.yaml"
        path.write_text(text, "utf-8")
        return load_lm_eval_task(path, **{"rows": ROWS, "allow_code": bool(code), **options})

    return loaded


def prompts(task: Any) -> list[Any]:
    jobs = plan_jobs(task, task.samples(order="file"), formatter="plain")
    return [job.request.prompt for job in jobs]


def always_yes() -> ScriptedModel:
    """Return a model that prefers the second choice."""
    return ScriptedModel(lambda request: RawLoglikelihood((-2.0, -1.0), request.continuations))


def value(task: Any, model: ScriptedModel, name: str) -> float:
    run = run_task(task, model, formatter="plain")
    assert run.n_errors == 0
    found = run.card[name].value
    assert found is not None
    return found


class TestContainment:
    def test_code_runs_in_another_process(self, load: Load) -> None:
        code = "import os\ndef ask(doc): return f'process {os.getpid()}'\n"
        asked = prompts(load(TEXT + "doc_to_text: !function utils.ask\n", code))[0]
        assert asked.startswith("process ")
        assert asked != f"process {os.getpid()}"

    @pytest.mark.skipif(not measured_level().way, reason="this system has no sandbox")
    @pytest.mark.parametrize(
        "attempt", ["open('{}').read()", "open('{}', 'a')", "__import__('socket').socket()"]
    )
    def test_code_reaches_no_files_and_no_network(
        self, load: Load, tmp_path_factory: pytest.TempPathFactory, attempt: str
    ) -> None:
        other = tmp_path_factory.mktemp("other") / "secret"
        other.write_text("secret")
        other.parent.chmod(0o755)
        code = f"def ask(doc): return str({attempt.format(other)})\n"
        task = load(TEXT + "doc_to_text: !function utils.ask\n", code)
        with pytest.raises(InvalidInputError, match=r"ask fails: \w*Error"):
            prompts(task)
        assert other.read_text() == "secret"

    def test_an_import_that_never_ends_is_an_error(
        self, load: Load, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from eval_toolkit._internal.sandbox import Limits
        from eval_toolkit.tasks.lm_eval import code

        monkeypatch.setattr(code, "_LIMITS", Limits(seconds=3.0, memory_mb=4096))
        code._worker.cache_clear()
        with pytest.raises(PluginError, match="longer than 3 s"):
            load(TEXT + "doc_to_text: !function utils.ask\n", "while True: pass\n")
        code._worker.cache_clear()


class TestImports:
    def test_helpers_of_lm_eval_need_no_lm_eval(self, load: Load) -> None:
        code = (
            "import datasets, evaluate\n"
            "from lm_eval.api.registry import register_filter\n"
            "from lm_eval.utils import general_detokenize\n"
            "def docs(data: datasets.Dataset): return data.filter(lambda d: d['label'])\n"
            "def ask(doc): return general_detokenize('is n\\'t ( ' + doc['q'] + ' )')\n"
        )
        text = CHOICE + "process_docs: !function utils.docs\ndoc_to_text: !function utils.ask\n"
        assert prompts(load(text, code)) == ["isn't (number 3?)", "isn't (number 4?)"]

    def test_a_missing_package_is_named(self, load: Load) -> None:
        with pytest.raises(PluginError, match="No module named 'not_there'"):
            load(TEXT + "doc_to_text: !function utils.ask\n", "import not_there\n")

    def test_downloads_are_refused(self, load: Load) -> None:
        code = "import datasets\ndef docs(data): return datasets.load_dataset('a')['test']\n"
        task = load(TEXT + "process_docs: !function utils.docs\n", code)
        with pytest.raises(InvalidInputError, match="needs the network"):
            task.samples()


class TestValues:
    def test_numpy_integers_are_labels(self, load: Load) -> None:
        code = "import numpy as np\ndef target(doc): return np.int64(doc['label'])\n"
        task = load(CHOICE + "doc_to_target: !function utils.target\n", code)
        assert value(task, always_yes(), "acc") == 2 / 5

    def test_a_function_over_pairs_of_classes(self, load: Load) -> None:
        # All five are "yes": F1 of "yes" is 2·2/(2+5) with weight 2/5, of "no" 0.
        text = CHOICE + (
            "metric_list:\n  - {metric: f1, aggregation: !function utils.weighted, average: x, "
            "hf_evaluate: true}\n  - {metric: acc, ignore_case: true}\n"
        )
        code = "from lm_eval.utils import weighted_f1_score as weighted\n"
        task = load(text, code)
        assert value(task, always_yes(), "f1") == pytest.approx(2 / 5 * 4 / 7, rel=1e-12)
        assert value(task, always_yes(), "acc") == 2 / 5

    def test_a_function_over_references_and_answers(self, load: Load) -> None:
        code = "def share(items): return sum(gold == said for gold, said in items) / len(items)\n"
        text = TEXT + "metric_list: [{metric: acc, aggregation: !function utils.share}]\n"
        assert value(load(text, code), ScriptedModel("3"), "acc") == 1 / 5

    def test_a_function_over_results_of_the_task(self, load: Load) -> None:
        text = TEXT + (
            "process_results: !function utils.results\n"
            "metric_list: [{metric: spread, aggregation: !function utils.spread}]\n"
        )
        code = (
            "def results(doc, answers): return {'spread': {'n': int(doc['a'])}}\n"
            "def spread(items): n = [one['n'] for one in items]; return max(n) - min(n)\n"
        )
        assert value(load(text, code), ScriptedModel("3"), "spread") == 4.0

    def test_the_median_of_results(self, load: Load) -> None:
        text = TEXT + (
            "process_results: !function utils.results\n"
            "metric_list: [{metric: n, aggregation: median}]\n"
        )
        code = "def results(doc, answers): return {'n': int(doc['a']) ** 2}\n"
        assert value(load(text, code), ScriptedModel("3"), "n") == 4.0  # of 0, 1, 4, 9, 16

    def test_a_metric_that_takes_pairs(self, load: Load) -> None:
        code = "def same(pair): return float(pair[0] == pair[1])\n"
        text = TEXT + "metric_list: [{metric: !function utils.same, aggregation: mean}]\n"
        assert value(load(text, code), ScriptedModel("3"), "same") == 1 / 5

    def test_filters_of_the_task(self, load: Load) -> None:
        text = TEXT + (
            "filter_list:\n  - name: none\n    filter:\n"
            "      - {function: !function utils.Last, regex_pattern: '([0-9])', group_select: -1}\n"
            "      - {function: take_first}\n"
        )
        code = (
            "from lm_eval.filters.extraction import RegexFilter\n"
            "class Last(RegexFilter):\n    pass\n"
        )
        assert value(load(text, code), ScriptedModel("not 1 but 3"), "exact_match") == 1 / 5

    def test_accuracy_of_evaluate_is_equality(self, load: Load) -> None:
        text = TEXT + "metric_list: [{metric: accuracy, hf_evaluate: true}]\n"
        assert value(load(text), ScriptedModel("3"), "accuracy") == 1 / 5


class TestPrograms:
    TEXT = TEXT.replace('"{{a}}"', '"assert double(2) == {{a}}"') + (
        "unsafe_code: true\nmetric_list: [{metric: !function utils.passed, aggregation: mean}]\n"
    )
    CODE = (
        "import evaluate\n"
        "metric = evaluate.load('code_eval')\n"
        "metric.compute(references=['assert one() == 1'], predictions=[['x = 1']], k=[1])\n"
        "def passed(references, predictions):\n"
        "    found, _ = metric.compute(references=references, predictions=[predictions], k=[1])\n"
        "    return found['pass@1']\n"
    )

    @pytest.mark.skipif(measured_level().level != "jailed", reason="this system has no jail")
    def test_programs_of_models_run_in_their_own_sandbox(self, load: Load) -> None:
        task = load(self.TEXT, self.CODE)
        program = ScriptedModel("def double(n): return 2 * n")
        assert value(task, program, "passed") == 1 / 5  # of 0, 1, 2, 3, 4 only 4 is right


class TestData:
    def test_unknown_options_of_the_data_are_named_when_it_is_read(self, load: Load) -> None:
        text = TEXT + "dataset_kwargs: {header: null, features: x}\n"
        assert len(load(text).samples()) == 5
        with pytest.raises(EvalToolkitError, match=r"because of dataset_kwargs\.header; pass"):
            load(text, rows=None)


class TestDocuments:
    def test_methods_of_datasets(self) -> None:
        rows = Documents([{"a": 2, "b": "x"}, {"a": 1, "b": "y"}])
        assert rows["a"] == [2, 1]
        assert rows[0] == {"a": 2, "b": "x"}
        assert rows[:1] == {"a": [2], "b": ["x"]}
        assert rows.column_names == list(rows.features) == ["a", "b"]
        assert rows.map(lambda row, at: {"n": at}, with_indices=True, remove_columns="b") == [
            {"a": 2, "n": 0},
            {"a": 1, "n": 1},
        ]
        assert rows.map(lambda table: {"c": [n * 2 for n in table["a"]]}, batched=True)[1] == {
            "a": 1,
            "b": "y",
            "c": 2,
        }
        assert rows.filter(lambda a: a == 1, input_columns="a") == [{"a": 1, "b": "y"}]
        assert rows.rename_column("a", "n").select([1]).to_list() == [{"n": 1, "b": "y"}]
        assert sorted(rows.shuffle(seed=1)["a"]) == [1, 2]
        assert rows.flatten() == rows.take(2) == rows.skip(0)
        assert Documents.from_dict(rows.to_dict()) == rows == Documents.from_list(rows)
        assert rows.add_column("c", [3, 4]).select_columns(["c"]) == [{"c": 3}, {"c": 4}]


def test_functions_may_be_named_from_the_folder_of_all_tasks(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "quiz"
    (folder / "english").mkdir(parents=True)
    (folder / "shared.py").write_text("def ask(doc): return doc['q'].upper()\n", "utf-8")
    named = "lm_eval.tasks.quiz.shared.ask"
    path = folder / "english" / "quiz.yaml"
    path.write_text(TEXT + f"doc_to_text: !function {named}\n", "utf-8")
    task = load_lm_eval_task(path, rows=ROWS[:1], allow_code=True)
    assert prompts(task) == ["NUMBER 0?"]
