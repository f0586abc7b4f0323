"""``eval-toolkit run``: what it prints, what it keeps, how it goes on, how it ends."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.support.fault_server import FaultServer

from eval_toolkit.runs import Run, run_state

TASK = """
[task]
name = "sums"
data = "sums.jsonl"
subject = "kind"

[prompt]
instruction = "What is {a} + {b}? Answer with the number only."
answer = "answer"

[graders.number_match]

[decoding]
max_tokens = 16
"""


HALF = """
from eval_toolkit.errors import ModelError
from eval_toolkit.models import ScriptedModel

def likely(request):
    if len(request.prompt) % 2:
        raise ModelError("down", kind="server")
    return [-float(len(text)) for text in request.continuations]

model = ScriptedModel(likely, name="half")
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Twenty sums in two subjects; the scripted answer 3 is right once in ten."""
    rows = [
        {
            "id": f"q{i:02d}",
            "kind": "even" if i % 2 else "odd",
            "a": i,
            "b": 1,
            "answer": str(i + 1),
        }
        for i in range(20)
    ]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "sums.toml"
    file.write_text(TASK)
    return file


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


class TestPage:
    def test_overall_by_subject_and_notes(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        code, out, _ = command("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        assert code == 0
        assert "task sums, model scripted: 20 samples, 2 subjects, 0 examples, format chat" in out
        lines = [line.split() for line in out.splitlines()]
        # The lower end of 1 in 20: -log(0.95) / 20 (Brown, Cai and DasGupta 2001).
        assert ["number_match", "0.050", "[0.003,", "0.236]", "0.050", "20", "0"] in lines
        assert any(line[:2] == ["number_match_macro", "0.050"] for line in lines)
        assert any(line[:5] == ["odd", "10", "0", "0.100", "[0.005,"] for line in lines)
        assert "20 requests sent, 0 cached answers" in out

    def test_json(self, as_json: Callable[..., Any], task: Path) -> None:
        found = as_json("run", task, "--model", "scripted:3", "--no-store")
        cell = found["results"]["by_slice"]["sums"]["by_scorer"]["scripted"]["number_match"]
        assert cell["value"] == 0.05
        assert (found["n_requests"], found["error_rate"], found["path"]) == (20, 0.0, None)

    def test_the_same_command_finds_its_folder_again(
        self, command: Command, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        first = command("run", task, "--model", "scripted:3", "--limit", 2)[1]
        again = command("run", task, "--model", "scripted:3", "--limit", 2)[1]
        more = command("run", task, "--model", "scripted:3", "--limit", 4)[1]
        other = command("run", task, "--model", "scripted:4", "--limit", 2)[1]
        assert "4 requests sent, 0 cached answers" in first
        assert "0 requests sent, 4 cached answers" in again
        assert "4 requests sent, 4 cached answers" in more
        assert "4 requests sent, 0 cached answers" in other
        assert len(list((tmp_path / "runs").iterdir())) == 2

    def test_dry_run_asks_nothing(self, command: Command, task: Path, server: FaultServer) -> None:
        code, out, _ = command(
            *("run", task, "--dry-run", "--model", "openai:m", "--base-url", server.url),
            *("--attempts", 3),
        )
        assert code == 0
        assert "requests                    60" in out
        assert "completion tokens, at most  960" in out
        assert not server.app.asked

    def test_attempts_and_pass_at(self, as_json: Callable[..., Any], task: Path) -> None:
        found = as_json(
            *("run", task, "--model", "scripted:3", "--no-store", "--attempts", 3),
            *("--pass-at", 2, "--temperature", 0.5),
        )
        cells = found["results"]["by_slice"]["sums"]["by_scorer"]["scripted"]
        assert cells["number_match_pass@2"]["value"] == 0.05
        assert cells["number_match"]["n_units"] == 20
        assert found["n_requests"] == 60

    def test_attempts_are_the_task_s_own_unless_told(
        self, as_json: Callable[..., Any], tmp_path: Path
    ) -> None:
        (tmp_path / "test.jsonl").write_text('{"q": "2 + 2?", "a": "4"}\n')
        file = tmp_path / "votes.yaml"
        file.write_text(
            "task: votes\ndataset_path: json\ndataset_kwargs: {data_files: {test: test.jsonl}}\n"
            'test_split: test\ndoc_to_text: "{{q}}"\ndoc_to_target: "{{a}}"\nrepeats: 3\n'
        )
        asked = ("run", file, "--model", "scripted:4", "--no-store")
        assert as_json(*asked)["n_requests"] == 3
        assert as_json(*asked, "--attempts", 1)["n_requests"] == 1
        assert as_json(*asked, "--dry-run")["n_requests"] == 3

    def test_dry_run_counts_judges(self, as_json: Any, command: Command, task: Path) -> None:
        judge = "judge{rubric='correctness', model='scripted:Yes', votes=3, temperature=1.0}"
        asked = ("run", task, "--dry-run", "--grader", judge, "--grader", "f1")
        told = as_json(*asked)
        assert told["judges"] == {"correctness": 3 * told["n_requests"]}
        out = command(*asked, "--until-width", 0.1)[1]
        assert "requests to the judge correctness" in out
        assert "upper bound: the run may stop early" in out

    def test_dry_run_counts_with_the_models_own_limit_and_prices(
        self, command: Command, as_json: Callable[..., Any], task: Path, server: FaultServer
    ) -> None:
        task.write_text(TASK.replace("max_tokens = 16", ""))
        arguments = ("run", task, "--dry-run", "--model", "openai:m", "--base-url", server.url)
        found = as_json(*arguments, "--format", "plain", "--prices", "1,2")
        assert found["completion_tokens"] == 20 * 1024
        assert found["cost"] == pytest.approx((found["prompt_tokens"] + 2 * 20 * 1024) / 1e6)
        code, out, _ = command(*arguments, "--format", "plain", "--prices", "1,2")
        assert code == 0
        assert "cost, at most" in out
        code, out, _ = command(*arguments, "--prices", "1,2")
        assert "completion tokens, at most  no limit set" in out
        assert "cost, for the prompts only" in out
        assert not server.app.asked

    def test_attempts_at_temperature_0_are_remarked_on(self, command: Command, task: Path) -> None:
        _, out, _ = command("run", task, "--model", "scripted:3", "--no-store", "--attempts", 2)
        assert "temperature 0" in out


class TestWhatItTook:
    def test_the_cache_and_a_replay_are_no_requests(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        arguments = ("run", task, "--model", "scripted:3", "--cache", tmp_path / "c.db")
        command(*arguments, "--limit", 2, "--out", tmp_path / "r")
        _, out, _ = command(*arguments, "--limit", 3, "--no-store")
        assert "2 requests sent, 4 from the cache, 0 cached answers" in out
        _, out, _ = command("run", task, "--replay", tmp_path / "r", "--limit", 2, "--no-store")
        assert "0 requests sent, 4 replayed, 0 cached answers" in out

    def test_what_was_spent_now_and_in_all(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        with FaultServer() as server:
            arguments = (
                *("run", task, "--model", "openai:m", "--base-url", server.url),
                *("--prices", "1000000,0", "--out", tmp_path / "r"),
            )
            _, first, _ = command(*arguments)
            _, again, _ = command(*arguments)
        spent = first.split(", cost ")[1].split()[0]
        assert "in total" not in first
        assert spent.startswith("$")
        assert f"cost $0 now, {spent} in total" in again
        assert "0 tokens now, " in again


class TestGrading:
    def test_a_grader_that_does_not_fit_is_refused_at_once(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        arguments = ("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        code, _, err = command(*arguments, "--grader", "accuracy")
        assert code == 2
        assert "'accuracy' grades log-likelihoods, but 'sums' asks for completions" in err
        assert not (tmp_path / "r").exists()

    def test_failed_grading_is_graded_again_not_asked_again(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        arguments = ("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        code, out, _ = command(*arguments, "--grader", "letter_match")
        assert code == 3
        assert "20 of 20 samples were answered but not graded; grade again with --measure" in out
        assert "asks again" not in out

    def test_a_repeated_pass_at_is_one(self, command: Command, task: Path) -> None:
        code, out, _ = command(
            *("run", task, "--model", "scripted:3", "--no-store", "--attempts", 2),
            *("--pass-at", 2, "--pass-at", 2),
        )
        assert code == 0
        assert "number_match_pass@2" in out

    def test_unbounded_is_a_word(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "half_of_them.py").write_text(HALF)
        monkeypatch.syspath_prepend(tmp_path)
        code, out, _ = command(
            *("run", "capitals", "--model", "half_of_them:model", "--no-store"),
            *("--on-error", "as_zero", "--max-error-rate", 1),
        )
        assert code == 0
        overall, failed = out.split("failed samples")
        (line,) = [line for line in overall.splitlines() if line.startswith("bits_per_byte ")]
        assert "skipped: " in line
        (line,) = [line for line in failed.splitlines() if line.startswith("bits_per_byte ")]
        assert line.split()[4:6] == ["unbounded", "unbounded"]  # as zero, at worst


class TestAgain:
    def test_measure_grades_stored_answers_anew(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        command("run", task, "--model", "scripted:The answer is 3.", "--out", tmp_path / "r")
        code, out, _ = command(
            *("run", task, "--measure", tmp_path / "r", "--grader", "exact_match"),
            *("--out", tmp_path / "again"),
        )
        assert code == 0
        assert "exact_match        0.000" in out
        assert run_state(tmp_path / "again") == "complete"

    @pytest.mark.parametrize(
        ("said", "options"),
        [
            ("<think>Or 5?</think>3", ()),
            ("<scratch>Or 5?</scratch>3", ("--reasoning-tags", "<scratch>", "</scratch>")),
        ],
    )
    def test_reasoning_is_not_graded(
        self,
        as_json: Callable[..., Any],
        task: Path,
        tmp_path: Path,
        said: str,
        options: tuple[str, ...],
    ) -> None:
        """The scripted answer 3 is right for one sum of twenty, 2 + 1."""
        grader = ("--grader", "exact_match")
        model = ("--model", f"scripted:{said}", "--out", tmp_path / "r")
        found = as_json("run", task, *model, *grader, *options)
        again = as_json("run", task, "--measure", tmp_path / "r", *grader, *options, "--no-store")
        for page in (found, again):
            cells = page["results"]["by_slice"]["sums"]["by_scorer"]["scripted"]
            assert cells["exact_match"]["value"] == 0.05

    def test_replay_needs_no_model(self, command: Command, task: Path, tmp_path: Path) -> None:
        command("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        code, out, _ = command("run", task, "--replay", tmp_path / "r", "--limit", 3, "--no-store")
        assert code == 0
        assert "model scripted: 6 samples" in out

    def test_compare_two_prompts(self, command: Command, task: Path, tmp_path: Path) -> None:
        command("run", task, "--model", "scripted:3", "--out", tmp_path / "a")
        other = tmp_path / "other.toml"
        other.write_text(TASK.replace("Answer with the number only.", "Just the number."))
        command("run", other, "--model", "scripted:4", "--out", tmp_path / "b")
        code, out, _ = command("compare", tmp_path / "a", tmp_path / "b")
        assert code == 0
        lines = [line.split() for line in out.splitlines()]
        assert any(line[:5] == ["number_match", "20", "0.050", "0.050", "+0.000"] for line in lines)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("nothing_like_this",), "there is no task 'nothing_like_this'"),
            (("capitals",), "pass a --model to query, or --replay a stored run"),
            (("capitals", "--model", "embeded"), "did you mean 'embedded'?"),
            (("capitals", "--model", "scripted:x", "--subject", "Asai"), "Asai"),
            (("gsm8k", "--model", "scripted:x", "--data", "no.jsonl"), "no.jsonl"),
            (
                ("capitals", "--model", "scripted:x", "--temperature", "1"),
                "'capitals' requests log-likelihoods",
            ),
            (
                ("capitals_open", "--model", "scripted:x", "--grader", "exact_mach"),
                "did you mean 'exact_match'?",
            ),
            (("capitals", "--model", "scripted:x", "--model-arg", "x"), "must be KEY=VALUE"),
            (("capitals", "--model", "openai:m", "--prices", "1"), "must be two to four numbers"),
            (
                ("capitals_open", "--model", "scripted:x", "--format", "banana"),
                "error: --format is 'banana'; choose one of",
            ),
            (
                ("capitals_open", "--model", "scripted:x", "--pass-at", "5"),
                "error: --pass-at is 5, but each sample has 1 attempts; pass --attempts 5",
            ),
            (
                ("capitals", "--model", "openai:m", "--api-key-env", "NOT_SET_ANYWHERE"),
                "NOT_SET_ANYWHERE is not set",
            ),
        ],
    )
    def test_one_line_and_exit_code_2(
        self,
        command: Command,
        tmp_path: Path,
        arguments: tuple[str, ...],
        message: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        code, out, err = command("run", *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert list(tmp_path.iterdir()) == []

    def test_another_model_in_the_same_folder(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        command("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        before = (tmp_path / "r" / "manifest.json").read_bytes()
        code, _, err = command("run", task, "--model", "scripted:4", "--out", tmp_path / "r")
        assert code == 2
        assert err.count("\n") == 1
        assert "model" in err
        assert (tmp_path / "r" / "manifest.json").read_bytes() == before

    def test_measure_takes_answers_as_they_are(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        command("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        for extra, message in (
            (("--model", "scripted:3"), "remove --model"),
            (("--limit", "2"), "remove --limit"),
            (("--attempts", "2"), "remove --attempts"),
            (("--order", "file"), "remove --order"),
            (("--prices", "1,2"), "remove --prices"),
            (("--dry-run",), "remove --dry-run"),
            (("--no-store", "--out", "x"), "pass either --out or --no-store, not both"),
            (("--out", ""), "--out is empty"),
        ):
            code, _, err = command("run", task, "--measure", tmp_path / "r", *extra)
            assert code == 2
            assert message in err


class TestServers:
    def test_failures_are_counted_and_the_exit_code_is_3(
        self, command: Command, task: Path, tmp_path: Path
    ) -> None:
        with FaultServer(forever=0.2) as server:
            arguments = ("run", task, "--model", "openai:m", "--base-url", server.url,
                         "--max-tries", 2, "--out", tmp_path / "r")  # fmt: skip
            code, out, _ = command(*arguments)
            failed = int(out.split(" of 20 samples failed")[0].split()[-1])
            assert code == 3
            assert failed > 0
            assert "failed samples" in out
            assert "at worst" in out
            code, out, _ = command(*arguments, "--max-error-rate", 1)
            assert code == 0
            assert f"{failed} requests sent, {20 - failed} cached answers" in out
        assert run_state(tmp_path / "r") == "complete"

    def test_a_server_that_has_moved(self, command: Command, task: Path, tmp_path: Path) -> None:
        with FaultServer() as server:
            code, _, err = command(
                *("run", task, "--model", "openai:m", "--out", tmp_path / "r"),
                *("--base-url", server.url.replace("/v1", "/moved")),
            )
        assert code == 3
        assert "set --base-url to that address" in err

    def test_a_server_that_is_not_there(self, command: Command, task: Path, tmp_path: Path) -> None:
        code, out, _ = command(
            *("run", task, "--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"),
            *("--max-tries", 1, "--out", tmp_path / "r"),
        )
        assert code == 3
        assert "20 of 20 samples failed" in out
        assert "20 × connection: 127.0.0.1:9" in out

    def test_a_full_disk_is_no_usage_error(
        self, command: Command, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write

        def write(handle: int, data: memoryview) -> int:
            if b"/q1" in bytes(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data)

        monkeypatch.setattr(os, "write", write)
        arguments = ("run", task, "--model", "scripted:3", "--out", tmp_path / "r")
        code, _, err = command(*arguments)
        assert code == 3
        assert "No space left on device" in err
        assert "run the same command again to resume" in err
        monkeypatch.undo()
        assert command(*arguments)[0] == 0

    def test_the_key_is_nowhere(
        self, command: Command, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_KEY", "sk-verysecret1234567890")
        with FaultServer(forever=0.2) as server:
            _, out, err = command(
                *("run", task, "--model", "openai:m", "--base-url", server.url),
                *("--api-key-env", "MY_KEY", "--max-tries", 1, "--out", tmp_path / "r"),
            )
        assert "verysecret" not in out + err
        for file in (tmp_path / "r").rglob("*"):
            assert b"verysecret" not in file.read_bytes(), file

    def test_ctrl_c_keeps_what_was_answered(self, task: Path, tmp_path: Path) -> None:
        with FaultServer(latency_s=0.2) as server:
            command = [
                *(sys.executable, "-m", "eval_toolkit", "run", str(task), "--model", "openai:m"),
                *("--base-url", server.url, "--concurrency", "2", "--out", str(tmp_path / "r")),
            ]
            process = subprocess.Popen(
                command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            journal = tmp_path / "r" / "journal.jsonl"
            deadline = time.monotonic() + 600
            while time.monotonic() < deadline:
                if journal.exists() and journal.read_bytes().count(b"\n") >= 4:
                    break
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=600)
            assert process.returncode == 130
            assert "run the same command again to resume" in err
            assert "Traceback" not in err
            kept = journal.read_bytes().count(b"\n") - 1
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
        assert f"{20 - kept} requests sent, {kept} cached answers" in done.stdout
        assert Run.open(tmp_path / "r").manifest["status"] == "complete"


class TestStoppingEarly:
    def test_it_says_why_and_what_it_saved(self, command: Command, task: Path) -> None:
        arguments = ("run", task, "--model", "scripted:3", "--no-store", "--until-width", 0.9)
        code, out, _ = command(*arguments)
        assert code == 0
        assert "stopped early" in out
        assert "saved" in out

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (["--until-decided"], "--until-decided and --against RUN must be used together"),
            (["--against", "."], "--until-decided and --against RUN must be used together"),
            (["--margin", "0.1"], "--margin needs --until-decided"),
            (["--until-metric", "x"], "--until-metric needs"),
            (["--until-width", "0.5", "--order", "file"], "not a random sample"),
            (["--until-width", "0.5", "--until-metric", "nope"], "nope"),
        ],
    )
    def test_options_that_do_not_fit(
        self, command: Command, task: Path, given: list[str], message: str
    ) -> None:
        code, out, err = command("run", task, "--model", "scripted:3", "--no-store", *given)
        assert (code, out) == (2, "")
        assert message in err

    def test_perturbed_questions_are_named(self, as_json: Callable[..., Any], task: Path) -> None:
        told = as_json(
            *("run", task, "--model", "scripted:3", "--no-store", "--quiet"),
            *("--perturb", "typos=0.2", "--perturb", "upper"),
        )
        described = told["results"]["config"]["task"]["perturbations"]
        assert [one["kind"] for one in described] == ["typos", "upper"]

    def test_a_perturbation_needs_a_number(self, command: Command, task: Path) -> None:
        code, _, err = command("run", task, "--model", "scripted:3", "--perturb", "typos=many")
        assert code == 2
        assert "'many' is not a number" in err
