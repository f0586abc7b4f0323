"""``eval-toolkit tasks`` and ``models``: lists, what a task is made of, the prompts as they are sent."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.support.fault_server import FaultServer

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import contamination, fewshot_leakage, load_task, run_task

QUIZ = """
[task]
name = "quiz"
data = "data/{split}.jsonl"
sample_split = "test"
fewshot_split = "train"

[prompt]
instruction = "{q}"
answer = "a"

[graders.exact_match]
"""


def test_list_says_what_comes_along(command: Command, as_json: Callable[..., Any]) -> None:
    code, out, _ = command("tasks", "list")
    assert code == 0
    assert "capitals_open   completion      included" in out
    names = {task["name"]: task for task in as_json("tasks", "list")["tasks"]}
    assert names["gsm8k"]["needs_data"] is True
    assert names["capitals"]["response_type"] == "loglikelihoods"


def test_show_hashes_the_data(as_json: Callable[..., Any], command: Command) -> None:
    found = as_json("tasks", "show", "capitals", "--fewshot", 2)
    assert found["num_fewshot"] == 2
    assert found["dataset"]["n_rows"] == {"test": 100, "train": 20}
    assert all(len(digest) == 64 for digest in found["dataset"]["files"].values())
    assert "accuracy (version" in command("tasks", "show", "capitals")[1]


def test_preview_shows_the_prompt_that_is_sent(command: Command) -> None:
    code, out, _ = command("tasks", "preview", "capitals", "--fewshot", 1, "--subject", "Europe")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("# capitals Europe/")
    body = lines[lines.index("┌ prompt") + 1 : lines.index("└")]
    assert len(body) == 5
    assert body[0].startswith("│Question: What is the capital of ")
    assert body[1].startswith("│Answer: ")
    assert body[2] == "│"
    assert body[4] == "│Answer:"
    assert sum(line.startswith("choice ") for line in lines) == 4


def test_preview_in_chat_and_as_json(command: Command, as_json: Callable[..., Any]) -> None:
    out = command("tasks", "preview", "capitals_open", "--format", "chat")[1]
    assert "┌ user" in out
    assert "┌ assistant\n│Answer:" in out
    found = as_json("tasks", "preview", "capitals", "--limit", 2)
    assert len(found["samples"]) == 8  # items per subject
    assert json.dumps(found)


def test_models(command: Command, as_json: Callable[..., Any]) -> None:
    assert "embedded" in as_json("models", "list")["models"]
    code, out, _ = command("models", "check", "scripted:Paris")
    assert code == 0
    assert "generate" in out
    assert "'Paris'" in out


def test_models_check_proves_an_endpoint(command: Command) -> None:
    with FaultServer() as server:
        code, out, _ = command("models", "check", "openai:m", "--base-url", server.url)
    assert code == 0
    assert "generate" in out
    code, out, _ = command(
        *("models", "check", "openai:m", "--base-url", "http://127.0.0.1:9/v1", "--max-tries", 1)
    )
    assert code == 1
    assert "no" in out


class TestCheck:
    @pytest.fixture
    def quiz(self, tmp_path: Path) -> Path:
        """Six questions; one is in the pool of examples, two are in the corpus."""
        test = [
            {
                "id": f"q{i}",
                "q": f"Who wrote book number {i} of the long shelf there?",
                "a": f"w{i}",
            }
            for i in range(6)
        ]
        train = [
            {"id": "t0", "q": test[0]["q"].upper(), "a": "w0"},
            {"id": "t1", "q": "What is two plus two in plain figures?", "a": "4"},
        ]
        (tmp_path / "data").mkdir()
        for split, rows in (("test", test), ("train", train)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / "data" / f"{split}.jsonl").write_text(lines)
        (tmp_path / "quiz.toml").write_text(QUIZ)
        (tmp_path / "corpus.txt").write_text(f"… {test[1]['q']} {test[2]['q']} and so on")
        return tmp_path / "quiz.toml"

    def test_items_in_a_corpus_exit_with_1(self, command: Command, quiz: Path) -> None:
        corpus = quiz.parent / "corpus.txt"
        code, out, err = command("tasks", "check", quiz, "--corpus", corpus, "--ngram", 8)
        assert (code, err) == (1, "")
        lines = [line.split() for line in out.splitlines()]
        assert ["items", "in", "the", "corpus", "error", "2", "6"] in [line[:7] for line in lines]
        assert any(line[:2] == ["q1", "1.00"] for line in lines)
        assert "not checked: few-shot examples" in out

    def test_says_what_the_library_says(self, command: Command, quiz: Path) -> None:
        corpus = quiz.parent / "corpus.txt"
        code, out, _ = command(
            *("tasks", "check", quiz, "--corpus", corpus, "--ngram", 8, "--fewshot", 2, "--json")
        )
        assert code == 1
        told = json.loads(out)
        task = load_task(str(quiz), num_fewshot=2)
        assert told["corpus"] == contamination(task, corpus, n=8).to_dict()
        assert told["fewshot"] == fewshot_leakage(task).to_dict()
        assert told["fewshot"]["shown_ids"] == ["q0"]
        assert told["has_errors"] is True

    def test_a_folder_is_a_corpus(self, command: Command, quiz: Path) -> None:
        corpus = quiz.parent / "corpus"
        (corpus / "below").mkdir(parents=True)
        (quiz.parent / "corpus.txt").rename(corpus / "below" / "a.txt")
        (corpus / "empty.txt").write_text("")
        (corpus / "README.md").write_text("what this is")
        code, out, err = command("tasks", "check", quiz, "--corpus", corpus, "--ngram", 8)
        assert (code, err) == (1, "")
        assert "2      6" in out
        assert f"not read in {corpus}: 1 files of other types, such as README.md" in out
        (corpus / "below" / "a.txt").unlink()
        code, _, err = command("tasks", "check", quiz, "--corpus", corpus)
        assert code == 2
        assert "no txt, CSV, TSV, JSONL or Parquet file" in err

    def test_a_corpus_without_the_items_is_fine(self, command: Command, quiz: Path) -> None:
        other = quiz.parent / "other.csv"
        other.write_text(
            "body\nnothing that anybody would ask about in a quiz of any kind at all\n"
        )
        arguments = ("tasks", "check", quiz, "--corpus", other, "--corpus-text", "body")
        code, out, _ = command(*arguments, "--ngram", 8)
        assert code == 0
        assert "items in the corpus  ok" in out
        code, out, _ = command(*arguments)  # the questions have no run of 13 words
        assert code == 0
        assert "items in the corpus  skipped" in out
        assert "not searched: 6 items with fewer than 13 words" in out

    def test_examples_of_other_prompts_are_warnings(self, command: Command, quiz: Path) -> None:
        def shown(seed: int) -> tuple[str, ...]:
            return fewshot_leakage(load_task(str(quiz), num_fewshot=1, seed=seed)).shown_ids

        seed = next(seed for seed in range(50) if not shown(seed))
        arguments = ("tasks", "check", quiz, "--fewshot", 1, "--seed", seed)
        code, out, _ = command(*arguments)
        assert code == 0
        lines = [line.split("  ")[0] for line in out.splitlines() if "warning" in line]
        assert lines == ["items repeated in other prompts"]
        assert "examples equal to an item" in out
        assert command(*arguments, "--strict")[0] == 1

    def test_what_they_did_to_a_run(self, command: Command, quiz: Path, tmp_path: Path) -> None:
        def knows(request: Any) -> str:
            number = request.prompt[-1].content.split()[4]
            return f"w{number}" if number in "12" else "nobody"

        run_task(load_task(str(quiz)), ScriptedModel(knows), tmp_path / "r")
        corpus = quiz.parent / "corpus.txt"
        arguments = ("tasks", "check", quiz, "--ngram", 8, "--run", tmp_path / "r")
        code, out, _ = command(*arguments, "--corpus", corpus)
        assert code == 1
        (line,) = [line for line in out.splitlines() if line.startswith("exact_match")]
        values = [part.split()[0] for part in line.split("  ") if part.strip()][1:]
        assert values == ["0.333", "0.000", "1.000", "0.333"]
        code, _, err = command(*arguments, "--fewshot", 1)
        assert code == 2
        assert "--run needs --corpus" in err

    def test_nothing_to_look_in(self, command: Command, quiz: Path) -> None:
        code, out, err = command("tasks", "check", quiz)
        assert (code, out) == (2, "")
        assert "pass --corpus to search, or --fewshot as in the run" in err


def test_a_hostile_task_file_writes_no_raw_escape(command: Command, tmp_path: Path) -> None:
    """A name, a prompt, a choice and an id with an escape, a C1 control and a bidi override."""
    odd = "\x1b]0;x\x07\x9b31m\u202e"
    rows = [{"q": f"a{odd}", "a": f"b{odd}", "id": f"i{odd}"}]
    (tmp_path / "data").mkdir()
    for split in ("test", "train"):
        (tmp_path / "data" / f"{split}.jsonl").write_text(json.dumps(rows[0]) + "\n")
    quoted = json.dumps(f"quiz{odd}").replace("\\u001b", "\\u001B")
    path = tmp_path / "quiz.toml"
    path.write_text(
        QUIZ.replace('"quiz"', quoted).replace("fewshot_split", 'id = "id"\nfewshot_split')
    )
    for form in ("plain", "chat"):
        code, out, err = command("tasks", "preview", path, "--format", form)
        assert code == 0, err
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err)
    for args in (["show", path], ["check", path]):
        code, out, err = command("tasks", *args)
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err), args
