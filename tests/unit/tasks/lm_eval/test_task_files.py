"""Task files of lm-eval, read without it. `tests/interop` compares them with lm-eval itself."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError, MissingFileError, PluginError
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawLoglikelihood
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import (
    LmEvalTask,
    estimate,
    load_lm_eval_task,
    load_task,
    plan_jobs,
    run_task,
)
from eval_toolkit.tasks.lm_eval import files
from eval_toolkit.tasks.lm_eval.files import read_yaml
from eval_toolkit.tasks.planning import decoding_of

CHOICE = """
task: quiz
dataset_path: quiz
training_split: train
test_split: test
output_type: multiple_choice
doc_to_text: "Q: {{q}}\\nA:"
doc_to_choice: ["no", "yes"]
doc_to_target: label
"""
TEXT = """
task: quiz
dataset_path: quiz
test_split: test
doc_to_text: "Q: {{q}}\\nA:"
doc_to_target: "{{a}}"
"""
ROWS = [{"q": f"number {n}?", "label": n % 2} for n in range(8)]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str, name: str = "quiz.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return written


def prompts(task: Any) -> list[Any]:
    return [
        job.request.prompt for job in plan_jobs(task, task.samples(order="file"), formatter="plain")
    ]


def scored(*numbers: float, greedy: Any = None) -> ScriptedModel:
    def answer(request: LoglikelihoodRequest) -> RawLoglikelihood:
        n = len(request.continuations)
        return RawLoglikelihood(numbers[:n], request.continuations, is_greedy=greedy)

    return ScriptedModel(answer)


def answered(task: Any, text: str, **options: Any) -> Any:
    return run_task(task, ScriptedModel(text), formatter="plain", **options)


class TestFiles:
    def test_load_task_knows_the_format(self, write: Write) -> None:
        task = load_task(write(CHOICE), rows=ROWS, num_fewshot=0)
        assert isinstance(task, LmEvalTask)
        assert prompts(task)[0] == "Q: number 0?\nA:"

    def test_load_task_still_reads_our_own_yaml(self, write: Write) -> None:
        text = 'task: {name: ours}\nprompt: {instruction: "{q}", choices: [a, b], answer: label}\n'
        assert load_task(write(text), rows=[{"q": "?", "label": 0}]).NAME == "ours"

    def test_neither_format_is_named(self, write: Write) -> None:
        with pytest.raises(
            InvalidInputError, match=r"neither an eval-toolkit task file .* it has metadata"
        ):
            load_task(write("metadata: {version: 1}"))

    def test_an_option_that_is_not_there(self, write: Write) -> None:
        with pytest.raises(InvalidInputError, match="has no option 'shuffle_choices'"):
            load_task(write(CHOICE), shuffle_choices=True)

    def test_what_is_included_comes_first_and_lists_are_replaced(self, write: Write) -> None:
        write(CHOICE + "metric_list: [{metric: acc}, {metric: acc_norm}]\n", "base.yaml")
        write("description: 'Answer. '\n", "_more")
        path = write("include: [base.yaml, _more]\ntask: other\nmetric_list: [{metric: acc}]\n")
        task = load_lm_eval_task(path, rows=ROWS)
        assert task.NAME == "other"
        assert list(task.graders()[0].columns()) == ["acc"]
        assert prompts(task)[0] == "Answer. Q: number 0?\nA:"

    def test_a_file_that_includes_itself(self, write: Write) -> None:
        write("include: quiz.yaml\n", "b.yaml")
        with pytest.raises(
            InvalidInputError, match=r"quiz\.yaml includes b\.yaml includes quiz\.yaml"
        ):
            load_lm_eval_task(write("include: b.yaml\ntask: a\n"))

    def test_one_file_may_be_included_twice(self, write: Write) -> None:
        write(CHOICE, "base.yaml")
        write("include: base.yaml\n", "b.yaml")
        path = write("include: [base.yaml, b.yaml]\ntask: twice\n")
        assert load_lm_eval_task(path, rows=ROWS).NAME == "twice"

    def test_a_file_that_is_not_there(self, write: Write) -> None:
        with pytest.raises(MissingFileError, match=r"nowhere\.yaml: no such file"):
            load_lm_eval_task(write("include: nowhere.yaml\n"))

    def test_everything_that_cannot_be_is_said_at_once(self, write: Write) -> None:
        text = CHOICE + (
            "doc_to_image: picture\ndescripton: x\nfewshot_config: {sampler: balanced}\n"
            "metric_list: [{metric: rouge}, {metric: acc, aggregation: mode}]\n"
        )
        with pytest.raises(InvalidInputError) as caught:
            load_lm_eval_task(write(text))
        for part in (
            "doc_to_image (images)",
            "the unknown key 'descripton' ('description'?)",
            "sampler 'balanced'",
            "the metric 'rouge'",
            "the aggregation 'mode' of 'acc'",
        ):
            assert part in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (CHOICE.replace("test_split: test", ""), "test_split and validation_split"),
            (CHOICE.replace('doc_to_choice: ["no", "yes"]', ""), "doc_to_choice, which is missing"),
            (CHOICE + "output_type: guess\n", "output_type 'guess'"),
            (TEXT + "filter_list: [{name: a, filter: []}, {name: a, filter: []}]\n", "'a' occurs twice"),
            (CHOICE + "fewshot_config: 7\n", "fewshot_config, which is 7 and must be a table"),
            (TEXT + "generation_kwargs: {max_gen_toks: []}\n", "the task is malformed: TypeError: int"),
            (TEXT + "metric_list: [{metric: exact_match, regexes_to_ignore: 7}]\n", "regexes_to_ignore"),
            ("group: a\ntask: 0.5\n", "the task is malformed: TypeError: 'float'"),
            ("group: a\ntask: [7]\n", "the task is malformed: TypeError: 'int'"),
            (CHOICE + "num_fewshot: many\n", "num_fewshot, which is 'many'"),
            (CHOICE + "dataset_kwargs: {data_dir: x}\n", "dataset_kwargs.data_dir"),
            (TEXT + "generation_kwargs: {num_beams: 4}\n", "generation_kwargs.num_beams"),
            (TEXT + "filter_list: [{name: a, filter: [{function: magic}]}]\n", "filter 'magic'"),
            (TEXT + "filter_list: [{name: a, filter: [{function: regex, regex_pattern: '('}]}]\n", "not a valid pattern"),
            (CHOICE + "filter_list: [{name: a, filter: [{function: lowercase}]}]\n", "no generated answers to filter"),
            (TEXT + "metric_list: [{metric: f1, hf_evaluate: true}]\n", "library evaluate"),
            (TEXT + "metric_list: [{metric: exact_match, ignore_all: true}]\n", "option 'ignore_all'"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_run(self, write: Write, text: str, reason: str) -> None:
        with pytest.raises(InvalidInputError) as caught:
            load_lm_eval_task(write(text))
        assert reason in str(caught.value)

    def test_broken_yaml(self, write: Write) -> None:
        with pytest.raises(InvalidInputError, match="not YAML"):
            load_lm_eval_task(write("task: [\n"))

    def test_other_tags_are_not_run(self, write: Write) -> None:
        with pytest.raises(InvalidInputError, match="not YAML"):
            load_lm_eval_task(write(CHOICE + "description: !!python/object/apply:os.getcwd []\n"))


class TestCode:
    def test_functions_are_named_and_not_run(self, write: Write) -> None:
        write("raise SystemExit", "utils.py")
        path = write(CHOICE + "process_docs: !function utils.process_docs\n")
        with pytest.raises(InvalidInputError) as caught:
            load_lm_eval_task(path)
        assert "process_docs is a !function, which would import utils.py" in str(caught.value)
        assert "allow_code=True" in str(caught.value)

    def test_allowed_code_changes_documents_and_results(self, write: Write) -> None:
        write(
            "def docs(data):\n"
            "    return data.filter(lambda d: d['label'] == 1).map(lambda d: {'q': d['q'].upper()})\n"
            "def score(doc, results):\n"
            "    return {'length': len(results[0])}\n",
            "utils.py",
        )
        path = write(
            TEXT.replace("{{a}}", "{{label}}")
            + "process_docs: !function utils.docs\nprocess_results: !function utils.score\n"
            "metric_list: [{metric: length, aggregation: mean}]\n"
        )
        task = load_lm_eval_task(path, rows=ROWS, allow_code=True)
        assert prompts(task)[0] == "Q: NUMBER 1?\nA:"
        assert answered(task, "four").card["length"].value == 4.0

    def test_a_function_that_is_not_there(self, write: Write) -> None:
        write("x = 1", "utils.py")
        path = write(CHOICE + "process_docs: !function utils.docs\n")
        with pytest.raises(PluginError, match="does not define 'docs'"):
            load_lm_eval_task(path, allow_code=True)

    def test_code_that_fails_on_the_data_is_named(self, write: Write) -> None:
        write("def docs(data):\n    return data.sorted()\n", "utils.py")
        path = write(CHOICE + "process_docs: !function utils.docs\n")
        with pytest.raises(InvalidInputError, match="process_docs failed: AttributeError"):
            load_lm_eval_task(path, rows=ROWS, allow_code=True).samples()

    def test_the_code_is_part_of_the_tasks_identity(self, write: Write) -> None:
        path = write(CHOICE + "process_docs: !function utils.docs\n")
        digests = []
        for name in ("a", "b"):
            write(f"def docs(data):\n    return list(data)  # {name}\n", "utils.py")
            task = load_lm_eval_task(path, rows=ROWS, allow_code=True)
            digests.append(task.describe()["lm_eval"]["config_sha256"])
        assert digests[0] != digests[1]


class TestTemplates:
    def test_templates_keep_their_last_newline_and_know_regex_replace(self, write: Write) -> None:
        text = TEXT.replace("Q: {{q}}\\nA:", "{{q|regex_replace('[0-9]+', '#')}}\\n")
        assert prompts(load_lm_eval_task(write(text), rows=[{"q": "a 12 b", "a": "x"}])) == [
            "a # b\n"
        ]

    def test_a_missing_column_is_named_with_the_row(self, write: Write) -> None:
        task = load_lm_eval_task(write(TEXT), rows=[{"question": "?", "a": "x"}])
        with pytest.raises(
            InvalidInputError, match="row 1: doc_to_text: 'q' is undefined; the columns"
        ):
            task.samples()

    def test_templates_run_in_a_sandbox(self, write: Write) -> None:
        text = TEXT.replace("{{q}}", "{{ q.__class__.__mro__ }}")
        task = load_lm_eval_task(write(text), rows=[{"q": "?", "a": "x"}])
        with pytest.raises(InvalidInputError, match="unsafe"):
            task.samples()

    def test_a_column_is_taken_as_it_is(self, write: Write) -> None:
        text = TEXT.replace('"Q: {{q}}\\nA:"', "q")
        assert prompts(load_lm_eval_task(write(text), rows=[{"q": "{{a}}", "a": "x"}])) == ["{{a}}"]

    def test_choices_may_be_a_table_or_a_template_of_a_list(self, write: Write) -> None:
        for given in ("{a: 'no', b: 'yes'}", "\"{{['no', q]}}\""):
            text = CHOICE.replace('["no", "yes"]', given)
            (sample,) = load_lm_eval_task(write(text), rows=[{"q": "yes", "label": 1}]).samples()
            assert sample.possible_completions == (" no", " yes")
            assert sample.ground_truth == (" yes",)

    def test_choices_that_are_no_texts(self, write: Write) -> None:
        text = CHOICE.replace('["no", "yes"]', "[no, yes]")  # YAML reads booleans here
        with pytest.raises(
            InvalidInputError, match=r"doc_to_choice\[0\] is False; it must be a string"
        ):
            load_lm_eval_task(write(text), rows=ROWS).samples()


class TestPrompts:
    def test_description_examples_question_and_prefix(self, write: Write) -> None:
        text = CHOICE + (
            'description: "About {{q}}: "\ngen_prefix: "So:"\ntarget_delimiter: "\\n"\n'
            'fewshot_delimiter: " | "\n'
        )
        rows = {"test": [{"q": "a?", "label": 1}], "train": [{"q": "b?", "label": 0}]}
        task = load_lm_eval_task(write(text), rows=rows, num_fewshot=1)
        (sample,) = task.samples()
        assert sample.text == "About a?: Q: b?\nA:\nSo: no | Q: a?\nA:\nSo:"
        assert [(turn.role.value, turn.content) for turn in sample.messages] == [
            ("system", "About a?: "),
            ("user", "Q: b?\nA:"),
            ("assistant", "So: no"),
            ("user", "Q: a?\nA:"),
            ("assistant", "So:"),
        ]

    def test_several_contexts_are_parts_of_one_attempt(self, write: Write) -> None:
        text = (
            CHOICE.replace('"Q: {{q}}\\nA:"', '"{{label}}"')
            .replace('["no", "yes"]', '"{{[q + one, q + two]}}"')
            .replace("doc_to_target: label", 'doc_to_target: "is late."')
        )
        row = {"q": "Ann met Bo; ", "one": "Ann", "two": "Bo", "label": 1}
        task = load_lm_eval_task(write(text), rows=[row])
        jobs = plan_jobs(task, task.samples())
        assert [(job.step, job.request.prompt, job.request.continuations) for job in jobs] == [
            ("part:0", "Ann met Bo; Ann", (" is late.",)),
            ("part:1", "Ann met Bo; Bo", (" is late.",)),
        ]
        right = ScriptedModel(lambda request: [-1.0 if request.prompt.endswith("Bo") else -2.0])
        assert run_task(task, right).card["acc"].value == 1.0

    def test_decoding_is_the_files(self, write: Write) -> None:
        text = (
            TEXT
            + "generation_kwargs: {until: END, max_gen_toks: 9, temperature: 0.5, top_p: 0.9}\n"
        )
        how = decoding_of(load_lm_eval_task(write(text), rows=[{"q": "?", "a": "x"}]))
        assert (how.stop, how.max_tokens, how.temperature, how.top_p) == (("END",), 9, 0.5, 0.9)
        greedy = text.replace("until: END", "do_sample: false")
        how = decoding_of(load_lm_eval_task(write(greedy), rows=[{"q": "?", "a": "x"}]))
        assert (how.stop, how.temperature, how.top_p) == (("\n\n",), 0.0, None)

    def test_what_is_asked_for_beats_the_file(self, write: Write) -> None:
        text = TEXT + "generation_kwargs: {until: END, temperature: 0.5}\n"
        task = load_lm_eval_task(write(text), rows=[{"q": "?", "a": "x"}])
        assert decoding_of(task, temperature=0.0, stop=["."]).to_dict()["temperature"] == 0.0


class TestExamples:
    def test_an_item_is_never_its_own_example(self, write: Write) -> None:
        # lm-eval shows 4 of 12 items their own answer with 4 examples from the only split there is.
        text = CHOICE.replace("training_split: train\n", "")
        rows = [{"q": f"{n}?", "label": n % 2} for n in range(6)] + [{"q": "0?", "label": 0}]
        task = load_lm_eval_task(write(text), rows=rows, num_fewshot=5)
        for prompt in prompts(task):
            *shots, asked = prompt.split("\n\n")
            assert len(shots) == len(set(shots)) == 5
            assert not any(shot.startswith(asked) for shot in shots)

    def test_a_limit_or_other_items_change_no_examples(self, write: Write) -> None:
        rows = {"test": ROWS, "train": [{"q": f"t{n}", "label": n % 2} for n in range(30)]}
        path = write(CHOICE)
        whole = {s.id: s.text for s in load_lm_eval_task(path, rows=rows, num_fewshot=3).samples()}
        part = load_lm_eval_task(path, rows={**rows, "test": ROWS[4:]}, num_fewshot=3).samples(2)
        assert [whole[sample.id] for sample in part] == [sample.text for sample in part]

    def test_examples_drawn_in_turn_are_pythons_own(self, write: Write) -> None:
        train = [{"q": f"t{n}", "label": n % 2} for n in range(10)]
        task = load_lm_eval_task(
            write(CHOICE), rows={"test": ROWS, "train": train}, num_fewshot=2, lm_eval_shots=True
        )
        draw = random.Random(1234)  # noqa: S311
        for prompt in prompts(task):
            shots = [
                f"Q: {row['q']}\nA: {('no', 'yes')[row['label']]}" for row in draw.sample(train, 2)
            ]
            assert prompt.split("\n\n")[:2] == shots

    def test_examples_that_stand_in_the_file_are_taken_in_order(self, write: Write) -> None:
        text = CHOICE + (
            "num_fewshot: 2\nfewshot_config:\n  sampler: first_n\n"
            "  samples: [{q: a, label: 1}, {q: b, label: 0}, {q: c, label: 0}]\n"
        )
        assert prompts(load_lm_eval_task(write(text), rows=ROWS))[0].startswith(
            "Q: a\nA: yes\n\nQ: b\nA: no\n\n"
        )

    def test_some_places_of_the_examples(self, write: Write) -> None:
        text = CHOICE + "fewshot_config: {sampler: first_n, fewshot_indices: [3, 1]}\n"
        rows = {"test": ROWS, "train": [{"q": f"t{n}", "label": 0} for n in range(5)]}
        task = load_lm_eval_task(write(text), rows=rows, num_fewshot=2)
        assert prompts(task)[0].startswith("Q: t3\nA: no\n\nQ: t1\nA: no\n\n")

    def test_too_few_examples(self, write: Write) -> None:
        task = load_lm_eval_task(
            write(CHOICE), rows={"test": ROWS, "train": ROWS[:1] * 3}, num_fewshot=2
        )
        with pytest.raises(InvalidInputError, match="but only 1 examples differ"):
            task.samples()


class TestChoices:
    def metrics(self, *names: str) -> str:
        return f"metric_list: [{', '.join(f'{{metric: {name}}}' for name in names)}]\n"

    def test_lengths_are_of_characters_and_of_bytes(self, write: Write) -> None:
        # By characters -4/4 beats -3/2; by bytes "ää" has 4 of them, and -3/4 wins.
        text = CHOICE.replace('["no", "yes"]', '["Rome", "ää"]') + self.metrics(
            "acc", "acc_norm", "acc_bytes"
        )
        task = load_lm_eval_task(write(text), rows=[{"q": "?", "label": 0}])
        card = run_task(task, scored(-4.0, -3.0)).card
        assert [card[name].value for name in ("acc", "acc_norm", "acc_bytes")] == [0.0, 1.0, 0.0]

    def test_mutual_information_asks_for_the_choices_alone(self, write: Write) -> None:
        task = load_lm_eval_task(
            write(CHOICE + self.metrics("acc", "acc_mutual_info")), rows=ROWS[1:2]
        )
        jobs = plan_jobs(task, task.samples())
        assert [(job.step, job.request.prompt) for job in jobs] == [
            ("part:0", "Q: number 1?\nA:"),
            ("part:1", ""),
        ]
        alone = ScriptedModel(lambda request: [-1.0, -2.0] if request.prompt else [-1.0, -5.0])
        card = run_task(task, alone).card
        assert (card["acc"].value, card["acc_mutual_info"].value) == (0.0, 1.0)

    def test_brier_score_is_over_all_choices(self, write: Write) -> None:
        task = load_lm_eval_task(write(CHOICE + self.metrics("brier_score")), rows=ROWS[:1])
        cell = run_task(task, scored(math.log(0.75), math.log(0.25))).card["brier_score"]
        assert cell.value == pytest.approx(2 * 0.25**2)
        (info,) = task.graders()[0].columns().values()
        assert (info.higher_is_better, info.bounds) == (False, (0.0, 2.0))

    def test_correlation_and_f1_are_sklearns(self, write: Write) -> None:
        from sklearn.metrics import f1_score, matthews_corrcoef

        draw = random.Random(5)  # noqa: S311
        rows = [{"q": str(n), "label": draw.randrange(2)} for n in range(40)]
        said = {str(n): draw.randrange(2) for n in range(40)}

        def answer(request: LoglikelihoodRequest) -> list[float]:
            chosen = said[request.prompt.split()[1]]
            return [-1.0 - (chosen != at) for at in range(2)]

        task = load_lm_eval_task(write(CHOICE + self.metrics("mcc", "f1")), rows=rows)
        card = run_task(task, ScriptedModel(answer)).card
        gold, chosen = [row["label"] for row in rows], [said[row["q"]] for row in rows]
        assert card["mcc"].value == pytest.approx(matthews_corrcoef(gold, chosen), abs=1e-12)
        assert card["f1"].value == pytest.approx(f1_score(gold, chosen), abs=1e-12)
        assert card["f1"].ci is not None

    def test_correlation_of_three_classes(self, write: Write) -> None:
        from sklearn.metrics import matthews_corrcoef

        text = CHOICE.replace('["no", "yes"]', '["a", "b", "c"]') + self.metrics("mcc")
        rows = [{"q": str(n), "label": n % 3} for n in range(12)]
        task = load_lm_eval_task(write(text), rows=rows)

        def answer(request: LoglikelihoodRequest) -> list[float]:
            return [-1.0 - (int(request.prompt.split()[1]) % 4 % 3 != at) for at in range(3)]

        value = run_task(task, ScriptedModel(answer)).card["mcc"].value
        assert value == pytest.approx(
            matthews_corrcoef([n % 3 for n in range(12)], [n % 4 % 3 for n in range(12)])
        )

    def test_a_label_outside_the_choices_is_no_wrong_answer(self, write: Write) -> None:
        rows = [*ROWS[:3], {"q": "hidden", "label": 7}]
        done = run_task(load_lm_eval_task(write(CHOICE), rows=rows), scored(-1.0, -2.0))
        assert done.n_errors == 1
        (reason,) = {r for r in done.records.reason["acc"] if r}
        assert "not one of the 2 choices" in reason

    def test_several_right_choices(self, write: Write) -> None:
        text = CHOICE.replace("doc_to_target: label", "doc_to_target: '{{[0, 1]}}'")
        task = load_lm_eval_task(write(text), rows=ROWS[:1])
        assert run_task(task, scored(-2.0, -1.0)).card["acc"].value == 1.0

    def test_all_right_has_an_interval(self, write: Write) -> None:
        rows = [{"q": str(n), "label": 0} for n in range(20)]
        cell = run_task(load_lm_eval_task(write(CHOICE), rows=rows), scored(-1.0, -2.0)).card["acc"]
        assert cell.value == 1.0
        assert cell.ci.ci_low < 0.9

    def test_our_own_graders_fit_too(self, write: Write) -> None:
        task = load_lm_eval_task(write(CHOICE), rows=ROWS)
        card = run_task(task, scored(-1.0, -2.0), graders=["accuracy"]).card
        assert card["accuracy"].value == 0.5


class TestLoglikelihoods:
    TEXT = TEXT + "output_type: loglikelihood\n"

    def test_perplexity_is_of_the_mean(self, write: Write) -> None:
        rows = [{"q": str(n), "a": f" {n}"} for n in range(3)]
        task = load_lm_eval_task(write(self.TEXT), rows=rows)
        card = run_task(task, scored(-2.0, greedy=[True])).card
        assert card["perplexity"].value == pytest.approx(math.exp(2.0))
        assert card["acc"].value == 1.0

    def test_a_model_that_does_not_tell_greed_is_skipped(self, write: Write) -> None:
        done = run_task(
            load_lm_eval_task(write(self.TEXT), rows=[{"q": "1", "a": " x"}]), scored(-2.0)
        )
        assert done.card["acc"].status == "skipped"
        assert done.n_errors == 0

    def test_whole_texts_by_words_and_bytes(self, write: Write) -> None:
        text = TEXT.replace('"{{a}}"', "a") + "output_type: loglikelihood_rolling\n"
        rows = [{"q": "", "a": "one two"}, {"q": "", "a": "ä b c d"}]
        task = load_lm_eval_task(write(text), rows=rows)
        (first, *_) = plan_jobs(task, task.samples(order="file"))
        assert (first.request.prompt, first.request.rolling) == ("", True)
        card = run_task(task, scored(-6.0)).card
        assert card["word_perplexity"].value == pytest.approx(math.exp(12 / 6))
        assert card["byte_perplexity"].value == pytest.approx(math.exp(12 / 15))
        assert card["bits_per_byte"].value == pytest.approx(12 / 15 / math.log(2))


class TestTexts:
    def grade(self, write: Write, more: str, said: str, right: str = "4") -> dict[str, Any]:
        task = load_lm_eval_task(
            write(TEXT + more), rows=[{"q": "?", "a": right, "choices": ["salt", "Iron ore"]}]
        )
        return {name: cell.value for name, cell in answered(task, said).card.items()}

    @pytest.mark.parametrize(
        ("steps", "said", "right"),
        [
            ("[{function: take_first}]", "4", "4"),
            ("[{function: remove_whitespace}, {function: take_first}]", " 4\n", "4"),
            ("[{function: lowercase}, {function: take_first}]", "ABC", "abc"),
            ("[{function: uppercase}, {function: take_first}]", "abc", "ABC"),
            ("[{function: regex}, {function: take_first}]", "so #### 1,004.", "1,004."),
            ("[{function: regex, regex_pattern: '(a)|(b)', group_select: -1}, {function: take_first}]", "a b", "b"),
            ("[{function: regex, regex_pattern: 'x'}, {function: take_first}]", "none", "[invalid]"),
            ("[{function: regex, regex_pattern: 'x', fallback: '?'}, {function: take_first}]", "n", "?"),
            ("[{function: map, mapping_dict: {a: A}, default_value: '-'}, {function: take_first}]", "a", "A"),
            ("[{function: map, mapping_dict: {a: A}, default_value: '-'}, {function: take_first}]", "b", "-"),
            ("[{function: regex, regex_pattern: '\\b[AB]\\b'}, {function: take_first}, {function: map, mapping_dict: {A: 0, B: 1}}, {function: take_first}]", "I say B", "1"),
            ("[{function: multi_choice_regex, regex_pattern: '\\([AB]\\)'}, {function: take_first}]", "It is (B)", "(B)"),
            ("[{function: multi_choice_regex, regex_pattern: '\\([AB]\\)', ignore_case: true, ignore_punctuation: true}, {function: take_first}]", "iron, ore!", "(B)"),
            ("[{function: multi_choice_regex, regex_pattern: '\\([AB]\\)'}, {function: take_first}]", "Answer: A", "(A)"),
            ("[{function: multi_choice_regex, regex_pattern: '\\([AB]\\)'}, {function: take_first}]", "dunno", "[invalid]"),
            ("[{function: format_span}, {function: take_first}]", "Person: Ann, Bo $$ location: none $$ Date: 1999", "per: ann $ per: bo $ date: 1999"),
            ("[{function: lowercase}]", "ABC", "abc"),
        ],
    )  # fmt: skip
    def test_filters(self, write: Write, steps: str, said: str, right: str) -> None:
        more = f"filter_list: [{{name: f, filter: {steps}}}]\n"
        assert self.grade(write, more, said, right) == {"exact_match@f": 1.0}
        assert self.grade(write, more, said, f"{right}~") == {"exact_match@f": 0.0}

    def test_tags_are_read_from_pairs(self, write: Write) -> None:
        from eval_toolkit.tasks.lm_eval.filters import read_pipelines

        (pipeline,) = read_pipelines(
            [{"filter": [{"function": "regex_pos"}, {"function": "take_first"}]}],
            "generate_until",
            [],
        )
        assert pipeline.apply("[('Ann', 'NOUN'), ('ran', 'VERB')]", {}) == ["NOUN", "VERB"]
        assert pipeline.apply("none", {}) == ["invalid"]

    @pytest.mark.parametrize(
        ("options", "said", "right"),
        [
            ("ignore_case: true", "Rome", "ROME"),
            ("ignore_punctuation: true", "Rome.", "Ro-me"),
            ("ignore_numbers: true", "Rome 12", "Rome 3"),
            ("regexes_to_ignore: [',', '\\$', '(?s).*#### ']", "$1,000", "x\n#### 1000"),
        ],
    )
    def test_what_does_not_count(self, write: Write, options: str, said: str, right: str) -> None:
        plain = "metric_list: [{metric: exact_match}]\n"
        assert self.grade(write, plain, said, right) == {"exact_match": 0.0}
        lenient = f"metric_list: [{{metric: exact_match, {options}}}]\n"
        assert self.grade(write, lenient, said, right) == {"exact_match": 1.0}

    def test_any_of_several_references_will_do(self, write: Write) -> None:
        text = TEXT.replace("{{a}}", "{{aliases}}")
        task = load_lm_eval_task(write(text), rows=[{"q": "?", "aliases": ["Rome", "Roma"]}])
        assert answered(task, "Roma").card["exact_match"].value == 1.0
        assert answered(task, "Rom").card["exact_match"].value == 0.0

    def test_corpus_scores_are_sacrebleus(self, write: Write) -> None:
        sacrebleu = pytest.importorskip("sacrebleu")
        text = TEXT + "metric_list: [{metric: bleu}, {metric: chrf}, {metric: ter}]\n"
        rows = [{"q": str(n), "a": f"the cat number {n} sat on the mat"} for n in range(12)]
        card = answered(
            load_lm_eval_task(write(text), rows=rows), "a cat number 3 sat on the mat"
        ).card
        said, truths = ["a cat number 3 sat on the mat"] * 12, [[row["a"] for row in rows]]
        assert card["bleu"].value == pytest.approx(sacrebleu.corpus_bleu(said, truths).score)
        assert card["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(said, truths).score)
        assert card["ter"].value == pytest.approx(sacrebleu.corpus_ter(said, truths).score)
        assert card["bleu"].ci is not None

    def test_attempts_vote(self, write: Write) -> None:
        text = TEXT + (
            "repeats: 3\nfilter_list:\n"
            "  - {name: first, filter: [{function: take_first}]}\n"
            "  - {name: maj, filter: [{function: majority_vote}, {function: take_first}]}\n"
        )
        task = load_lm_eval_task(write(text), rows=[{"q": "?", "a": "4"}])
        assert estimate(task).n_requests == 3
        done = run_task(task, ScriptedModel(["4", "5", "4"]), formatter="plain")
        assert (done.n_requests, done.results["config"]["attempts"]) == (3, 3)
        assert done.card["exact_match@maj"].value == 1.0
        assert done.card["exact_match@first"].value == pytest.approx(2 / 3)
        one = run_task(task, ScriptedModel("4"), formatter="plain", attempts=1)
        assert one.n_requests == 1
        assert one.card["exact_match@maj"].reason == (
            "no unit has a value: 0 errors, 1 skipped; at most 1 of 3 attempts have a value"
        )

    def test_log_likelihoods_are_asked_for_once(self, write: Write) -> None:
        task = load_lm_eval_task(write(CHOICE + "repeats: 3\n"), rows=ROWS)
        assert run_task(task, scored(-1.0, -2.0)).n_requests == len(ROWS)

    def test_a_pattern_that_would_not_end_counts_as_nothing_found(self, write: Write) -> None:
        more = "filter_list: [{name: f, filter: [{function: regex, regex_pattern: '(a+)+$'}, {function: take_first}]}]\n"
        assert self.grade(write, more, "a" * 5000 + "b", "[invalid]") == {"exact_match@f": 1.0}

    def test_ten_megabytes_are_graded_in_no_time(self, write: Write) -> None:
        more = (
            "filter_list: [{name: f, filter: [{function: regex, regex_pattern: '#### ([0-9]+)'}, {function: take_first}]}, {name: g, filter: [{function: take_first}]}]\n"
            "metric_list: [{metric: exact_match, regexes_to_ignore: ['(?s).*#### ']}]\n"
        )
        said = "#### 4 " + "spam " * 2_000_000
        assert self.grade(write, more, said) == {"exact_match@f": 1.0, "exact_match@g": 0.0}


class TestYaml:
    @pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
    def test_either_loader_reads_the_same(
        self, write: Write, monkeypatch: pytest.MonkeyPatch, loader: str
    ) -> None:
        yaml = pytest.importorskip("yaml")
        if not hasattr(yaml, loader):
            pytest.skip(f"pyyaml was built without {loader}")
        if loader == "SafeLoader":
            monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
        path = write("a: [1, 0x1F, yes, '1', 2026-01-02]\nb: !function utils.go\n")
        files._loader.cache_clear()
        read = read_yaml(path)
        assert [str(one) for one in read["a"]] == ["1", "31", "True", "1", "2026-01-02"]
        assert (read["b"].name, read["b"].folder) == ("utils.go", path.parent)
        assert issubclass(files._loader(path.parent), getattr(yaml, loader))
        for text in ("a: [", "a: !!python/object/apply:os.getcwd []", "a: \x00"):
            with pytest.raises(InvalidInputError, match="not YAML"):
                read_yaml(write(text))
        files._loader.cache_clear()


class TestData:
    def test_files_beside_the_task(self, write: Write, tmp_path: Path) -> None:
        (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        more = "dataset_path: json\ndataset_kwargs: {data_files: {test: test.jsonl}}\n"
        assert len(load_lm_eval_task(write(CHOICE + more)).samples()) == 8

    def test_columns_of_numbers_in_csv_are_numbers(self, write: Write, tmp_path: Path) -> None:
        (tmp_path / "test.csv").write_text("q,label\n7,1\nb,0\n")
        more = "dataset_path: csv\ndataset_kwargs: {data_files: {test: test.csv}}\n"
        first, second = load_lm_eval_task(write(CHOICE + more)).samples(order="file")
        assert (first.text, first.ground_truth, second.ground_truth) == (
            "Q: 7\nA:",
            (" yes",),
            (" no",),
        )

    def test_a_format_without_files(self, write: Write) -> None:
        with pytest.raises(InvalidInputError, match="specify the files in dataset_kwargs"):
            load_lm_eval_task(write(CHOICE + "dataset_path: json\n"))

    def test_other_data_with_the_name_of_the_subset(self, write: Write, tmp_path: Path) -> None:
        (tmp_path / "part_test.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
        path = write(CHOICE + "dataset_name: part\n")
        data = str(tmp_path / "{subject}_{split}.jsonl")
        assert len(load_lm_eval_task(path, data=data).samples()) == 1

    def test_a_run_is_stored_and_found_again(self, write: Write, tmp_path: Path) -> None:
        task = load_lm_eval_task(write(CHOICE), rows=ROWS)
        run_task(task, scored(-1.0, -2.0), tmp_path / "run", limit=3)
        again = run_task(task, scored(-1.0, -2.0), tmp_path / "run")
        assert (again.n_requests, again.n_reused) == (8, 3)
        assert again.run.manifest["task"]["lm_eval"]["file"] == "quiz.yaml"


class TestGroups:
    @pytest.fixture
    def group(self, write: Write) -> Path:
        for name, tag in (("one", "few"), ("two", "many"), ("three", "many")):
            write(CHOICE.replace("quiz", name, 1) + f"tag: {tag}\n", f"{name}.yaml")
        write("group: inner\ntask: [many]\n", "inner.yaml")
        return write(
            "group: all\ntask: [one, inner]\n"
            "aggregate_metric_list: [{metric: acc, weight_by_size: false}, {metric: acc_norm}]\n"
        )

    @pytest.fixture
    def rows(self) -> dict[str, Any]:
        return {"one": ROWS[:2], "two": ROWS[:3], "three": ROWS[:5]}

    def test_tasks_tags_and_groups_are_its_subjects(
        self, group: Path, rows: dict[str, Any]
    ) -> None:
        task = load_lm_eval_task(group, rows=rows)
        assert task.subjects == ["one", "three", "two"]
        done = run_task(task, scored(-1.0, -2.0))
        assert done.card["acc"].value == pytest.approx((1 + 2 + 3) / 10)
        assert done.card["acc_macro"].value == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 3)
        assert done.card.slices["two"]["acc"].value == pytest.approx(2 / 3)
        assert task.PRIMARY_METRICS == ["acc_macro", "acc_norm"]

    def test_the_same_item_in_two_tasks_is_two_units(
        self, group: Path, rows: dict[str, Any]
    ) -> None:
        ids = [sample.id for sample in load_lm_eval_task(group, rows=rows).samples()]
        assert len(set(ids)) == len(ids) == 10

    def test_a_stored_group_is_gone_on_with(
        self, group: Path, rows: dict[str, Any], tmp_path: Path
    ) -> None:
        task = load_lm_eval_task(group, rows=rows)
        run_task(task, scored(-1.0, -2.0), tmp_path / "run", limit=1)
        again = run_task(task, scored(-1.0, -2.0), tmp_path / "run")
        assert (again.n_requests, again.n_reused) == (10, 3)

    def test_a_name_that_is_nowhere(self, write: Write) -> None:
        with pytest.raises(
            InvalidInputError,
            match="no file in the same folder defines the task, group or tag 'nobody'",
        ):
            load_lm_eval_task(write("group: g\ntask: [nobody]\n"))

    def test_a_group_in_itself(self, write: Write) -> None:
        with pytest.raises(InvalidInputError, match="circular group: g contains g"):
            load_lm_eval_task(write("group: g\ntask: [g]\n"))

    def test_keys_of_the_list_beat_those_of_the_file(self, write: Write) -> None:
        write(CHOICE, "quiz.yaml")
        path = write("group: g\ntask: [{task: quiz, description: 'Say: '}]\n", "g.yaml")
        assert prompts(load_lm_eval_task(path, rows={"quiz": ROWS}))[0] == "Say: Q: number 0?\nA:"

    def test_tasks_of_different_numbers_of_attempts(self, write: Write) -> None:
        write(TEXT.replace("quiz", "one", 1), "one.yaml")
        write(TEXT.replace("quiz", "many", 1) + "repeats: 4\n", "many.yaml")
        group = write("group: both\ntask: [one, many]\n", "both.yaml")
        rows = {name: [{"q": "?", "a": "4"}] for name in ("one", "many")}
        with pytest.raises(InvalidInputError, match="differ in attempts; run them separately"):
            load_lm_eval_task(group, rows=rows)
        write(TEXT.replace("quiz", "one", 1) + "repeats: 4\n", "one.yaml")
        assert run_task(load_lm_eval_task(group, rows=rows), ScriptedModel("4")).n_requests == 8

    def test_tasks_that_ask_for_different_things(self, write: Write) -> None:
        write(CHOICE.replace("quiz", "a", 1), "a.yaml")
        write(TEXT.replace("quiz", "b", 1), "b.yaml")
        with pytest.raises(InvalidInputError, match="differ in response_type; run them separately"):
            load_lm_eval_task(
                write("group: g\ntask: [a, b]\n"), rows={"a": ROWS, "b": [{"q": "?", "a": "x"}]}
            )

    def test_rows_must_name_every_task(self, group: Path) -> None:
        with pytest.raises(InvalidInputError, match="`rows` has no entry for the task 'three'"):
            load_lm_eval_task(group, rows={"one": ROWS})

    def test_metrics_of_one_task_alone_are_skipped_in_the_others(self, write: Write) -> None:
        write(CHOICE.replace("quiz", "a", 1) + "metric_list: [{metric: acc}]\n", "a.yaml")
        write(CHOICE.replace("quiz", "b", 1) + "metric_list: [{metric: acc_bytes}]\n", "b.yaml")
        task = load_lm_eval_task(
            write("group: g\ntask: [a, b]\n"), rows={"a": ROWS[:2], "b": ROWS[:2]}
        )
        card = run_task(task, scored(-1.0, -2.0)).card
        assert (card["acc"].n_units, card["acc"].n_skipped) == (2, 2)


def test_every_request_is_of_the_kind_the_file_names(write: Write) -> None:
    for text, kind in ((CHOICE, LoglikelihoodRequest), (TEXT, GenerateRequest)):
        task = load_lm_eval_task(write(text), rows=[{"q": "?", "a": "x", "label": 0}])
        (job,) = plan_jobs(task, task.samples())
        assert isinstance(job.request, kind)
