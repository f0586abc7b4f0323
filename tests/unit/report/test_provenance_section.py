"""Where numbers come from: the command, hashes, models and versions, and no secret."""

import json
import shlex
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.support.report_asked_runs import HOSTILE
from tests.support.report_runs import WANTED, Page, plain, written_rows

from eval_toolkit.cli.main import main
from eval_toolkit.report.provenance import _duration, build
from eval_toolkit.report.sections import Section
from eval_toolkit.runs import Run

Shown = Callable[[Section], Page]


def section_of(run: Run) -> Section:
    section = build(run, WANTED)
    assert section is not None
    return section


def facts_of(run: Run) -> dict[str, dict[str, str]]:
    return {
        title: {name: value for name, value, _ in facts}
        for title, facts in section_of(run).data["facts"]
    }


def test_a_run_of_the_command_line_says_how_to_run_it_again(
    tmp_path: Path, shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "my rows.csv"
    rows = "".join(f"r{n},{n % 2},{n / 20}\n" for n in range(20))
    data.write_text(f"id,label,score\n{rows}")
    other = tmp_path / "dev.csv"
    other.write_text(f"id,label,score\n{rows.replace('r', 'd')}")
    args = ["score", str(data), "--metric", "f1", "--save", str(tmp_path / "run")]
    args += ["--threshold-from", str(other)]
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    section = section_of(run)
    (command,) = shown(section).all("code", class_="command")
    # The blank in the name is quoted for a shell, which reads the very arguments back.
    assert shlex.split(command["text"]) == ["eval-toolkit", *args]
    assert section.data["no_command"] == ""
    assert any("add --overwrite or choose another --save" in one for one in section.data["caveats"])
    # Every number depends on the rows that the threshold was chosen on, too.
    digests = {path: f"sha256:{sha256(path.read_bytes()).hexdigest()}" for path in (data, other)}
    assert run.manifest["data_hashes"] == {str(path): digests[path] for path in digests}
    assert facts_of(run)["Data"] == {
        str(data): digests[data],
        f"{other} (threshold chosen on it)": digests[other],
    }


def test_a_command_with_a_secret_says_what_to_put_in(tmp_path: Path) -> None:
    command = "eval-toolkit run capitals --model openai:m --api-key sk-abcdefghijklmnopqrstuvwx"
    run = written_rows(tmp_path, [0, 1], [0.1, 0.9], command=command)
    section = section_of(run)
    assert "sk-abcdef" not in json.dumps(section.data, default=str)
    assert "[redacted]" in section.data["command"]
    assert any("[redacted] replaces a secret" in one for one in section.data["caveats"])


def test_code_has_no_command_and_none_is_invented(judged_run: Run, shown: Shown) -> None:
    section = section_of(judged_run)
    page = shown(section)
    assert page.all("code", class_="command") == []
    assert "No command line is stored" in page.all("section")[0]["text"]
    assert dict(section.data["settings"])["on_error"] == "exclude"
    # The task is a class of the tests: the run cannot tell its code.
    assert any("user-defined class, tests.support.report_asked_runs:Sums" in one
               for one in section.data["caveats"])  # fmt: skip


def test_files_with_their_hashes(judged_run: Run) -> None:
    files = {row[0]: row[1:] for row in section_of(judged_run).data["files"].texts()}
    for name, told in judged_run.manifest["artifacts"].items():
        n = told.get("n_rows")
        assert files[name] == ["" if n is None else f"{n:,}", told["sha256"]]


def test_task_models_judges_and_usage(judged_run: Run) -> None:
    facts = facts_of(judged_run)
    assert facts["The run"]["kind"] == "an evaluation of a model on a task"
    assert facts["The run"]["configuration"] == judged_run.manifest["config_hash"]
    assert facts["The run"]["seeds"] == "run 42"
    assert {"adder", "judge correctness"} <= set(facts["Models"])
    # 12 requests, one of which failed; the judge saw the other 11.
    assert "12 requests" in facts["Usage"]["counts"]
    assert facts["Usage"]["judge correctness"].startswith("11 requests")
    assert facts["Data"]["items"].endswith(judged_run.manifest["item_set_hash"])


@pytest.mark.parametrize(
    ("prompt", "said"), [(0, "not reported by the model"), (12, "12 in prompts, 0 in answers")]
)
def test_tokens_that_nobody_counted_are_not_zero(tmp_path: Path, prompt: int, said: str) -> None:
    usage = {"prompt_tokens": prompt, "completion_tokens": 0, "reasoning_tokens": 0}
    run = written_rows(tmp_path, [0, 1], [0.1, 0.9], usage=usage)
    assert facts_of(run)["Usage"]["tokens"].startswith(said)


def test_rollouts_tell_tester_and_target(rollout_run: Run) -> None:
    facts = facts_of(rollout_run)
    assert facts["Models"]["tester"].startswith("attack static")
    assert facts["Models"]["target"].startswith("model target")
    assert facts["Data"]["seed prompts"] == "seeds, 8"


def test_changes_without_a_commit_are_a_caveat(tmp_path: Path) -> None:
    run = written_rows(tmp_path, [0, 1], [0.1, 0.9], git_sha="a" * 40, dirty_flag=True)
    assert any("uncommitted changes" in one for one in section_of(run).data["caveats"])
    assert facts_of(run)["The run"]["commit"].startswith("a" * 40)


@pytest.mark.parametrize(
    "manifest",
    [
        {"models": None, "usage": None, "env": None, "hardware": None},
        {"judges": {"j": None}, "usage": {"cost": 0.25}, "notes": [HOSTILE]},
        {"config": {"task": "x", "system": {"tester": None}, "seeds": 3, "kind": "other"}},
        {"models": ["x"], "versioned_objects": {"a": {"b": 1}, HOSTILE: HOSTILE}},
    ],
)
def test_manifests_of_any_shape_are_shown(
    tmp_path: Path, manifest: dict[str, Any], shown: Shown
) -> None:
    section = section_of(written_rows(tmp_path, [0, 1], [0.1, 0.9], **manifest))
    page = shown(section)
    assert page.all("script") == []
    assert "sha256" in plain(page.all("section")[0]["text"])


def test_times_as_people_say_them() -> None:
    assert [_duration(seconds) for seconds in (0.04, 59.9, 61.0, 3600.0, 90_061.0)] == [
        "0.0 s",
        "59.9 s",
        "1 min 1 s",
        "1 h 0 min",
        "25 h 1 min",
    ]
