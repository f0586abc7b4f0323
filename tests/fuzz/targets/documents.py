"""Shared files: tasks, suites, claims, rubrics, seed prompts and templates."""

import json
from pathlib import Path

from tests.fuzz.target import Target, command, each
from tests.fuzz.targets.runs import _SCORED, two_runs

from eval_toolkit.cli._judge_options import _rubric
from eval_toolkit.graders.judges import Judge
from eval_toolkit.loaders import OodManifestLoader
from eval_toolkit.models import ScriptedModel
from eval_toolkit.models.messages import Message
from eval_toolkit.models.prompts import JinjaTemplate
from eval_toolkit.models.responses import Completion, RawCompletion

__all__ = ["TARGETS"]

_RUN = ("--model", "scripted: 4", "--limit", 3, "--no-store", "--quiet", "--max-error-rate", 1)


def _task(folder: Path, name: str) -> None:
    files = [folder / name] if name.endswith((".toml", ".yaml")) else _files(folder)
    for file in files:
        command("tasks", "show", file)
        command("tasks", "preview", file, "--limit", 2)
        command("run", file, *_RUN, codes=(0, 1, 2, 3))


def _files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.toml"), *folder.glob("*.yaml")])


def _suite(folder: Path, name: str) -> None:
    file = name if name.startswith("suite") else "suite.toml"
    out = folder / "out" / "runs"
    asked = ("--model", "scripted:x", "--limit", 1, "--quiet", "--out", out)
    command("suite", folder / file, *asked, codes=(0, 1, 2, 3))


def _claims(folder: Path, name: str) -> None:
    given = ("--claims", folder / name, "--baseline", folder / "plain")
    command("gate", folder / "odd", *given, "--junit", folder / "out" / "junit.xml")
    command("validate", folder / name)


def _read_rubric(folder: Path, name: str) -> None:
    for file in ("polite.toml", "scale.yaml") if name == "reply.txt" else (name,):
        judge = Judge(_rubric(str(folder / file)), ScriptedModel("x"))
        response = Completion("4", ground_truth="4", context={"tone": "kind"}, messages=[
            Message("user", "2 + 2?"), Message("assistant", "4"),
        ])  # fmt: skip
        reply = (folder / "reply.txt").read_bytes().decode("utf-8", "replace")
        replies = {step: RawCompletion(reply) for step in judge.requests(response)}
        judge.grade(response, replies)


def _seeds(folder: Path, name: str) -> None:
    talk = ("--tester", "scripted{probes=['{goal}']}", "--target", "scripted:no", "--depth", 1)
    kept = ("--scorer", "refusal", "--no-store", "--quiet")
    command("rollout", "--seeds", folder / name, *talk, *kept, codes=(0, 1, 2, 3))


def _chat_template(folder: Path, name: str) -> None:
    text = (folder / name).read_bytes().decode("utf-8", "replace")
    turns = [Message("system", "Be kind."), Message("user", "Hi\n"), Message("assistant", "A:")]
    for conversation in (turns[:2], turns):
        JinjaTemplate(text, bos_token="<s>", eos_token="</s>").render(conversation)  # noqa: S106


def _task_template(folder: Path, name: str) -> None:
    text = (folder / name).read_bytes().decode("utf-8", "replace")
    (folder / "out").mkdir()
    rows = [{"q": "number 1?", "a": "1", "choices": ["x", "y"]}, {"q": "", "a": "n", "choices": []}]
    data = folder / "out" / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "task": "made",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": text,
        "doc_to_target": "{{a}}",
        "metric_list": [{"metric": "exact_match"}],
    }
    (folder / "out" / "task.yaml").write_text(json.dumps(config))
    command("tasks", "preview", folder / "out" / "task.yaml", "--limit", 2, "--data", data)


def _lm_eval(folder: Path, name: str) -> None:
    files = [folder / name] if name.endswith(".yaml") else _files(folder)
    data = ("--data", folder / "quiz.jsonl")
    for file in files:
        command("tasks", "preview", file, *data, "--limit", 2)
        command("run", file, *data, *_RUN, codes=(0, 1, 2, 3))


def _validate(folder: Path, name: str) -> None:
    schema = {"results.json": "results.v1", "manifest.json": "manifest.v3"}.get(
        Path(name).name, Path(name).stem
    )
    each(
        lambda: command("validate", folder / name),
        lambda: command("validate", folder / name, schema),
    )


def _ood(folder: Path, name: str) -> None:
    loader = OodManifestLoader(folder / "ood.json")
    loader.load_splits()
    loader.describe()


TARGETS = (
    Target("task_toml", "task files (TOML, YAML) and their rows", _task),
    Target("suite_toml", "suites", _suite),
    Target("claims", "claims", _claims, two_runs),
    Target("rubric", "rubrics, replies of judges", _read_rubric),
    Target("seeds", "seed prompts (CSV, JSON, JSONL, text)", _seeds),
    Target("lm_eval", "lm-eval task files and their rows", _lm_eval),
    Target("chat_template", "chat templates (Jinja)", _chat_template),
    Target("task_template", "templates of tasks (Jinja)", _task_template),
    Target("validate", "stored JSON against schemas", _validate, two_runs, _SCORED[:2]),
    Target("ood_manifest", "manifests of data sets", _ood),
)
