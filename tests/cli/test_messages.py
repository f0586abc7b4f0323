"""Messages speak of options: what the library calls its arguments, no command can be given."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import eval_toolkit
from eval_toolkit._internal.words import number
from eval_toolkit.cli._messages import _PHRASES, in_options
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import load_task, run_task

Command = Callable[..., tuple[int, str, str]]
PACKAGE = Path(eval_toolkit.__file__).parent

RUN = ("run", "capitals_open", "--model", "scripted:x", "--no-store", "--quiet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--until-width", 0.1, "--until-metric", "x"], "--until-metric is 'x', which cannot be"),
        (["--until-width", 5], "--until-width is 5"),
        (["--until-width", "nan"], "--until-width is nan"),
        (["--until-width", 0.1, "--order", "file"], "--order is 'file'"),
        (["--attempts", 2, "--pass-hat", 4], "--pass-hat is 4, but each sample has 2 attempts; pass --attempts 4"),
        (["--attempts", 2, "--maj-at", 4], "--maj-at is 4, but"),
        (["--subject", "Mars"], "--subject: there is no subject 'Mars'"),
        (["--perturb", "typos=2"], "--perturb typos=2: a probability must lie between 0 and 1"),
        (["--perturb", "typo"], "--perturb typo: did you mean typos?"),
        (["--perturb", "paraphrase"], "--perturb paraphrase: choose from typos, upper"),
        (["--grader", "judge"], "grader 'judge': needs model, as in judge{model=…}"),
        (["--grader", "panel"], "grader 'panel': needs judges"),
        (["--grader", "f1", "--grader", "f1"], "as in bleu{name='other'}"),
        (["--allow-code"], "--allow-code applies to task files (TOML, YAML)"),
        (["--lm-eval-shots"], "--lm-eval-shots applies to YAML files of lm-eval"),
    ],
)  # fmt: skip
def test_run(command: Command, options: list[object], message: str) -> None:
    code, out, err = command(*RUN, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert "`" not in err.replace("`graders show`", "")


def test_code_of_a_file_is_allowed_by_an_option(command: Command, tmp_path: Path) -> None:
    (tmp_path / "u.py").write_text("def f(rows):\n    return rows\n")
    file = tmp_path / "t.yaml"
    file.write_text(
        "task: t\ndataset_path: json\noutput_type: generate_until\ntest_split: test\n"
        "doc_to_text: '{{q}}'\ndoc_to_target: a\nprocess_docs: !function u.f\n"
    )
    code, _, err = command("run", file, "--model", "scripted:x", "--no-store")
    assert code == 2
    assert "pass --allow-code if you trust the file" in err


def test_of_a_very_long_message_both_ends_are_shown(command: Command, tmp_path: Path) -> None:
    """A file can cause one of any length: a key of it, or as many keys as there is room for."""
    file = tmp_path / "t.toml"
    file.write_text("x" * 100_000 + " = 1\n")
    code, _, err = command("tasks", "show", file)
    assert code == 2
    assert len(err) < 4_200
    assert "characters) …" in err
    assert err.startswith(f"error: {file}: there is no table 'xxx")
    assert err.endswith("there are decoding, graders, prompt, task\n")


def test_the_name_of_a_folder_tells_a_terminal_nothing(command: Command, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,label,score\n" + "".join(f"{i},{i % 2},{i / 30}\n" for i in range(30)))
    run = tmp_path / "a\x1b[31m\u202eb\x9b"
    assert command("score", rows, "--resamples", 50, "--save", run)[0] == 0
    code, out, err = command("report", run, "--no-charts")
    assert (code, err) == (0, "")
    assert "a\\x1b[31m\\u202eb\\x9b" in out


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    said = ScriptedModel("It is Rome")
    run_task(load_task("capitals_open"), said, tmp_path / "r", order="file")
    return tmp_path / "r"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["leaderboard", "a=RUN", "b=RUN", "--bayes", "--metric", "f1"], "--bayes needs binary values"),
        (["leaderboard", "a=RUN", "b=RUN", "--task", "no"], "--task: no run has 'no'"),
        (["run", "capitals_open", "--model", "scripted:x", "--until-decided", "--against", "RUN",
          "--grader", "number_match"], "--against: run 'r' has no 'number_match'"),
        (["judge", "pairs", "RUN", "RUN", "--task", "capitals_open", "--judge", "scripted:x",
          "--criteria", " "], "--criteria is ' '"),
    ],
)  # fmt: skip
def test_other_commands(command: Command, graded: Path, args: list[str], message: str) -> None:
    code, out, err = command(*(arg.replace("RUN", str(graded)) for arg in args))
    assert (code, out) == (2, "")
    assert message in err
    assert "`" not in err


def test_runs_of_nothing_in_common_are_not_told_of_options_that_are_not_there(
    command: Command, graded: Path, tmp_path: Path
) -> None:
    run_task(load_task("capitals"), ScriptedModel(lambda r: -1.0), tmp_path / "c", limit=1)
    told = command("compare", graded, tmp_path / "c")[2]
    assert told.endswith("Pair scorers that have different names with --pair A=B\n")
    told = command("robustness", graded, tmp_path / "c")[2]
    assert "nothing in common" in told
    assert "pair" not in told


def test_without_a_command_only_phrases_are_put_into_options() -> None:
    assert in_options("`order` is 'x'") == "`order` is 'x'"
    assert in_options("pass overwrite=True") == "pass --overwrite"


def test_values_that_differ_by_rounding_errors_read_the_same() -> None:
    assert 0.9125 != 0.9125 + 2.0**-53
    assert number(0.9125) == number(0.9125 + 2.0**-53) == number(0.9125 - 2.0**-53)
    assert number(-1e-15, "+") == "+0.000"
    assert number(None) == ""


def test_each_reworded_phrase_occurs_in_a_library_message() -> None:
    """A phrase that was reworded in the library alone would no longer name the option."""
    sources = "".join(
        path.read_text("utf-8") for path in PACKAGE.rglob("*.py") if path.name != "_messages.py"
    )
    written = re.sub(r'"\s*f?"', "", sources).replace("{{", "{").replace("}}", "}")
    parts = [part for phrase in _PHRASES for part in phrase.split("; ")]
    assert [part for part in parts if part not in written] == []
