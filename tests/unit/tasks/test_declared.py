"""Tasks declared in files, and names that stand for tasks."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError, MissingFileError, PluginError
from eval_toolkit.tasks import BaseTask, Task, available_tasks, load_task, read_task_file
from eval_toolkit.tasks.declared import read_declaration

SMALL = """
[task]
name = "small"
[prompt]
instruction = "{q}"
answer = "a"
"""
ROWS = [{"q": "1+1", "a": 2}]


def written(folder: Path, text: str, name: str = "task.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestFiles:
    def test_the_least(self, tmp_path: Path) -> None:
        task = read_task_file(written(tmp_path, SMALL), rows=ROWS)
        (sample,) = task.samples()
        assert (sample.messages[0].content, sample.ground_truth) == ("1+1", "2")
        assert [grader.name for grader in task.graders()] == ["exact_match", "f1"]

    def test_a_key_that_is_named_must_be_one(self, tmp_path: Path) -> None:
        file = written(tmp_path, SMALL.replace('"small"', '"small"\nid = "id"'))
        rows = [{"id": 1, "q": "1+1", "a": 2}, {"q": "2+2", "a": 4}]
        with pytest.raises(InvalidInputError, match="row 2: the key 'id' is missing"):
            read_task_file(file, rows=rows).samples()
        assert len(read_task_file(written(tmp_path, SMALL), rows=rows).samples()) == 2

    def test_everything(self, tmp_path: Path) -> None:
        (tmp_path / "dev.jsonl").write_text(
            json.dumps({"k": "7", "s": "law", "p": "x", "q": "Q", "c": "['u', 'v']", "a": "1"})
            + "\n"
            + json.dumps({"k": "8", "s": "law", "p": "x", "q": "R", "c": "['u', 'v']", "a": "0"})
        )
        text = """
        [task]
        name = "full"
        version = "2"
        description = "d"
        language = "eng"
        licence = "MIT"
        homepage = "h"
        response = "loglikelihoods"
        data = "{split}.jsonl"
        sample_split = "dev"
        fewshot_split = "dev"
        id = "k"
        group = "p"
        subject = "s"
        num_fewshot = 1
        [prompt]
        instruction = "Q: {q}"
        cue = "A:"
        system = "S"
        initial = "I"
        style = "mc"
        choices = { field = "c", parse = true }
        answer = "a"
        answer_is = "index"
        shuffle_choices = true
        [graders.accuracy]
        [graders.accuracy_norm_chars]
        [decoding]
        stop = ["\\n"]
        max_tokens = 3
        """
        task = read_task_file(written(tmp_path, text))
        samples = task.samples()
        assert sorted((s.id, s.group, s.subject) for s in samples) == [
            ("law/7", "x", "law"),
            ("law/8", "x", "law"),
        ]
        assert len(samples[0].messages) == 5
        assert (task.VERSION, task.LANGUAGE, task.shuffle_choices) == ("2", "eng", True)
        assert (task.stop_sequences, task.max_tokens) == (["\n"], 3)
        names = [grader.name for grader in task.graders()]
        assert names == ["accuracy", "accuracy_norm_chars"]
        assert read_task_file(tmp_path / "task.toml", num_fewshot=0).num_fewshot == 0

    def test_data_beside_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "own.jsonl").write_text(json.dumps(ROWS[0]))
        path = written(tmp_path, SMALL.replace("[prompt]", 'data = "own.jsonl"\n[prompt]'))
        monkeypatch.chdir(tmp_path.parent)
        assert len(read_task_file(path).samples()) == 1
        assert len(read_task_file(path, rows=ROWS * 3).samples()) == 3

    def test_yaml(self, tmp_path: Path) -> None:
        pytest.importorskip("yaml")
        text = "task: {name: small}\nprompt: {instruction: '{q}', choices: ['2', '3'], answer: a}\n"
        for name in ("t.yaml", "t.yml"):
            task = read_task_file(written(tmp_path, text, name), rows=[{"q": "x", "a": "2"}])
            assert task.samples()[0].ground_truth == " 2"
        with pytest.raises(InvalidInputError, match="not YAML: "):
            read_task_file(written(tmp_path, "a: [", "t.yaml"))
        with pytest.raises(InvalidInputError, match="contains list; it must contain tables"):
            read_task_file(written(tmp_path, "[1]", "t.yaml"))

    def test_graders_as_a_list(self, tmp_path: Path) -> None:
        text = 'graders = ["f1", {grader = "number_match", where = "boxed"}]\n' + SMALL
        task = read_task_file(written(tmp_path, text), rows=ROWS)
        assert [grader.name for grader in task.graders()] == ["f1", "number_match"]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("[task", "not TOML: "),
            ("", r"\[task\] name is missing"),
            ('[task]\nname = "x"', r"\[prompt\] instruction is missing"),
            ("[tasks]", "there is no table 'tasks'; did you mean 'task'?"),
            ("name = 'x'", r"'name' belongs in the table \[task\]"),
            (f"{SMALL}ciu = 1", r"\[prompt\]: there is no key 'ciu'; did you mean 'cue'"),
            (f"{SMALL}[decoding]\nzzz = 1", r"\[decoding\]: there is no key 'zzz'; there are max_"),
            ("task = 3", r"\[task\] is 3; it must be a table"),
            (f"{SMALL}cue = 3", r"\[prompt\] cue is 3; it must be a string"),
            (f"{SMALL}choices = 3", r"choices is 3; it must be a field, or a list of strings"),
            (f"{SMALL}choices = []", r"choices is \[\]; it must be a field, or a list"),
            (f"{SMALL}choices = {{feld = 'x'}}", "no key 'feld'; did you mean 'field'?"),
            (f"{SMALL}choices = {{after = 'x'}}", "choices: 'field' is missing"),
            (f"{SMALL}answer_map = {{x = [1]}}", "answer_map is .*; it must be a table"),
            (f"{SMALL}shuffle_choices = 1", "shuffle_choices is 1; it must be true or false"),
            (f"{SMALL}[decoding]\nstop = 'x'", "stop is 'x'; it must be a list of strings"),
            (f"{SMALL}[decoding]\nmax_tokens = -1", "max_tokens is -1; it must be a number"),
            (
                f"{SMALL}[graders]\nx = 3",
                r"\[graders\] is .*; it must be a list of names, or a table that maps names to options",
            ),
            (
                SMALL.replace("[prompt]", 'response = "loglikelihoods"\n[prompt]'),
                "response is 'loglikelihoods', but the prompt asks for 'completion'",
            ),
        ],
    )
    def test_strict(self, tmp_path: Path, text: str, reason: str) -> None:
        path = written(tmp_path, text)
        with pytest.raises(InvalidInputError, match=reason) as caught:
            read_task_file(path, rows=ROWS)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)

    def test_bad_texts_name_the_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, SMALL.replace("{q}", "{q"))
        with pytest.raises(InvalidInputError, match=f"{path}: the template '{{q' has an unmatched"):
            read_task_file(path, rows=ROWS)
        path = written(tmp_path, f'{SMALL}style = "mcq"')
        with pytest.raises(InvalidInputError, match=f"{path}: `style` is 'mcq'"):
            read_task_file(path, rows=ROWS)

    def test_unknown_options(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="no option 'num_shots'; did you mean 'num_few"):
            read_task_file(written(tmp_path, SMALL), num_shots=3)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(MissingFileError, match=r"no.toml: no such file"):
            read_task_file(tmp_path / "no.toml")


PYTHON = """
from eval_toolkit.tasks import BaseTask, ResponseType

class {name}(BaseTask[str]):
    NAME = "{name}"
    RESPONSE_TYPE = ResponseType.COMPLETION
    def _get_instruction_text(self, item): return item["q"]
    def _get_ground_truth(self, item): return str(item["a"])
"""


class TestNames:
    def test_those_that_come_along(self) -> None:
        infos = {info.name: info for info in available_tasks()}
        assert set(infos) >= {
            *("arc", "arc_adapters", "bbh", "boolq", "commonsenseqa", "gsm8k", "mmlu_redux"),
            *("piqa", "svamp", "truthfulqa_mc1"),
        }
        assert infos["gsm8k"].response_type == "completion"
        assert infos["boolq"].response_type == "loglikelihoods"
        assert infos["gsm8k"].to_dict()["hub"] == "openai/gsm8k"
        assert all(info.description for info in infos.values() if info.origin == "definition")
        assert list(infos) == sorted(infos)

    @pytest.mark.parametrize("name", ["gsm8k", "GSM8K", "gsm-8k"])
    def test_however_it_is_spelt(self, name: str) -> None:
        task = load_task(name, rows=[{"question": "q", "answer": "w #### 1"}], num_fewshot=None)
        assert isinstance(task, Task)
        assert task.samples()[0].ground_truth == "1"

    def test_the_nearest_is_named(self) -> None:
        with pytest.raises(PluginError, match=r"there is no task 'gsm9k'; did you mean 'gsm8k'?"):
            load_task("gsm9k")
        with pytest.raises(PluginError, match="there is no task 'qqqqqq'; the names are arc"):
            load_task("qqqqqq")

    def test_a_declared_file(self, tmp_path: Path) -> None:
        assert load_task(written(tmp_path, SMALL), rows=ROWS).NAME == "small"

    def test_a_python_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, PYTHON.format(name="Alpha"), "tasks.py")
        assert load_task(path, rows=ROWS).samples()[0].ground_truth == "2"
        assert load_task(f"{path}:Alpha", rows=ROWS, num_fewshot=0).NAME == "Alpha"
        with pytest.raises(
            PluginError, match="there is no task class 'Alfa'; did you mean 'Alpha'"
        ):
            load_task(f"{path}:Alfa")
        path.write_text(PYTHON.format(name="Alpha") + PYTHON.format(name="Beta"))
        with pytest.raises(
            PluginError, match=r"defines 2 task classes \(Alpha, Beta\); select one with"
        ):
            load_task(path)
        assert load_task(f"{path}:Beta", rows=ROWS).NAME == "Beta"
        path.write_text("1 / 0")
        with pytest.raises(PluginError, match="importing it failed: ZeroDivisionError"):
            load_task(path)
        with pytest.raises(MissingFileError, match="no such file"):
            load_task(tmp_path / "no.py")

    def test_a_place_in_a_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = (
            PYTHON.format(name="Gamma") + "\nready = Gamma(rows=[{'q': 'x', 'a': 1}])\nthree = 3\n"
        )
        written(tmp_path, text, "some_package_of_tasks.py")
        monkeypatch.syspath_prepend(str(tmp_path))
        place = "some_package_of_tasks"
        assert load_task(f"{place}:Gamma", rows=ROWS).NAME == "Gamma"
        ready = load_task(f"{place}:ready")
        assert isinstance(ready, BaseTask)
        with pytest.raises(InvalidInputError, match="is an existing object; it takes no options"):
            load_task(f"{place}:ready", seed=1)
        with pytest.raises(
            PluginError, match="is an int, which is not a valid BaseTask, and is not callable"
        ):
            load_task(f"{place}:three")
        with pytest.raises(InvalidInputError, match="has no option 'shots'; it has"):
            load_task(f"{place}:Gamma", shots=1)
        with pytest.raises(PluginError, match="is not a valid BaseTask"):
            load_task("builtins:dict")

    def test_every_definition_is_complete(self) -> None:
        from eval_toolkit.tasks import loading

        folder = Path(loading.__file__).parent / "definitions"
        files = sorted(folder.glob("*.toml"))
        assert files
        for file in files:
            declared = read_declaration(file)
            assert declared.name == file.stem
            assert declared.task.get("homepage", "").startswith("https://")
            made: Any = declared.make(rows=[{}])
            assert made.RESPONSE_TYPE is declared.response_type
            assert made.graders()

    def test_both_published_forms_of_arc(self) -> None:
        hub = {
            "id": "x",
            "question": "Q?",
            "choices": {"text": ["a", "b"], "label": ["1", "2"]},
            "answerKey": "2",
        }
        original = {
            "id": "x",
            "question": {
                "stem": "Q?",
                "choices": [{"text": "a", "label": "1"}, {"text": "b", "label": "2"}],
            },
            "answerKey": "2",
        }
        one, two = (load_task("arc", rows=[row]).samples()[0] for row in (hub, original))
        assert one.messages == two.messages
        assert one.possible_completions == two.possible_completions == (" a", " b")
        assert one.ground_truth == " b"

    def test_hellaswag_loses_its_marks(self) -> None:
        # What is in brackets goes as lm-eval 0.4.13's own cleaning takes it out (run on these texts).
        row = {
            "activity_label": "Removing ice from car",
            "ctx": "Then, the man writes over the snow. [header] How [title] Scrape [step] it. then",
            "endings": [", the man adds wax.", "[substeps] a person board.", "up.", "down."],
            "label": "2",
        }
        sample = load_task("hellaswag", rows={"validation": [row]}).samples()[0]
        assert sample.messages[0].content == (
            "Removing ice from car: Then, the man writes over the snow. How. Scrape it. then"
        )
        assert sample.possible_completions[1] == " a person board."
        assert sample.ground_truth == " up."

    def test_truthfulqa_mc2_has_several_true_choices(self) -> None:
        row = {"question": "Is the sky blue?", "mc2_targets": {"Yes": 1, "By day": 1, "No": 0}}
        sample = load_task("truthfulqa_mc2", rows=[row]).samples()[0]
        assert sample.ground_truth == (" Yes", " By day")

    def test_mmlu_has_subjects(self) -> None:
        row = {"question": "2 + 2?", "choices": ["3", "4"], "answer": 1, "subject": "arithmetic"}
        sample = load_task("mmlu", rows=[row]).samples()[0]
        assert (sample.subject, sample.ground_truth) == ("arithmetic", " B")
