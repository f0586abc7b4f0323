"""Where a name was written, and that every way from a name to an object asks for it."""

import ast
import inspect
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.each import each

import eval_toolkit
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.graders import stored
from eval_toolkit.graders.judges import Judge
from eval_toolkit.graders.loading import PLAIN_GRADERS, available_graders, named_grader
from eval_toolkit.graders.stored import grader_of_version
from eval_toolkit.models import load_model
from eval_toolkit.models.loading import named_model
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.plugins import (
    TYPED,
    Origin,
    call_plugin,
    finish_plugin,
    load_plugin,
    make_plugin,
    making,
    read_from,
    refuse_address,
    user_hosts,
)
from eval_toolkit.tasks import load_suite, load_task
from eval_toolkit.tasks.loading import named_task
from eval_toolkit.tasks.perturbations import Perturbation, perturbed

SOURCE = Path(eval_toolkit.__file__).parent
FILE = read_from("evil.toml", "[graders]")
ALLOWED = read_from("mine.toml", allow_code=True)


def no_model(**options: Any) -> None:
    raise AssertionError("a file made this run")


class NoGrader:
    """Grader that a file may not name."""

    name, version = "none", "1"

    def grade(self, response: Any) -> float:
        raise AssertionError("a file made this run")


class TestOrigins:
    """Who may name what."""

    def test_typed_names_and_allowed_files_may_name_modules(self) -> None:
        for origin in (TYPED, ALLOWED):
            assert load_plugin("graders", "json:loads", {}, origin=origin)("[1]") == [1]

    def test_a_file_may_not(self) -> None:
        with pytest.raises(InvalidInputError, match=r"evil.toml: \[graders\] names 'json:loads'"):
            load_plugin("graders", "json:loads", {}, origin=FILE)

    def test_a_file_may_name_what_comes_along(self) -> None:
        ours = {"mine": "json:loads"}
        assert load_plugin("graders", "mine", ours, origin=FILE)("[1]") == [1]

    def test_names_in_options_are_of_the_file(self) -> None:
        for model in (f"{__name__}:no_model", f"{__name__}:no_model{{a=1}}"):
            with pytest.raises(InvalidInputError, match=r"evil\.toml"):
                named_grader("judge", {"rubric": "refusal", "model": model}, origin=FILE)

    def test_the_strictest_holds(self) -> None:
        with making(FILE), making(ALLOWED), pytest.raises(InvalidInputError, match=r"evil\.toml"):
            load_model("json:loads")
        with making(ALLOWED):
            load_plugin("graders", "json:loads", {}, origin=TYPED)

    def test_it_ends_with_the_making(self) -> None:
        with pytest.raises(InvalidInputError), making(FILE):
            load_model("json:loads")
        load_plugin("graders", "json:loads", {}, origin=TYPED)

    @pytest.mark.parametrize("consent", ["allow_code", "trust_remote_code"])
    def test_consent_is_the_users(self, consent: str) -> None:
        for options in ({consent: True}, {"a": [{"b": {consent: 1}}]}):
            with pytest.raises(InvalidInputError, match=f"sets {consent}"):
                call_plugin("models", "mine", dict, options, origin=FILE)
            assert call_plugin("models", "mine", dict, options, origin=TYPED) == options
        assert call_plugin("models", "mine", dict, {consent: False}, origin=FILE)

    def test_plugins_take_no_options_of_files_as_models(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from importlib.metadata import EntryPoint, EntryPoints

        point = EntryPoint("theirs", f"{__name__}:no_model", "eval_toolkit.models")
        monkeypatch.setattr(
            "eval_toolkit.plugins.names.entry_points", lambda **_: EntryPoints([point])
        )
        for name, options in (
            ("theirs:http://h", {}),
            ("theirs", {"url": "h"}),
            ("theirs{a=1}", {}),
        ):
            with pytest.raises(InvalidInputError, match="which may contain an address"):
                named_model(name, options, origin=FILE)


class TestWeights:
    """Weights that a file chose are numbers, and no pickles."""

    @pytest.mark.parametrize(("origin", "asked"), [(FILE, {"use_safetensors": True}), (TYPED, {})])
    def test_of_the_hub(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: Origin, asked: dict[str, Any]
    ) -> None:
        loading = "eval_toolkit.models.huggingface.loading"
        given: list[dict[str, Any]] = []

        class Auto:
            @staticmethod
            def from_pretrained(place: str, **options: Any) -> Any:
                given.append(options)
                raise OSError("no weights")

        library = SimpleNamespace(AutoModelForCausalLM=Auto)
        monkeypatch.setattr(f"{loading}.torch_library", lambda: SimpleNamespace(float32="float32"))
        monkeypatch.setattr(f"{loading}.transformers_library", lambda: library)
        (tmp_path / "config.json").write_text("{}")
        model: Any = named_model(
            f"hf:{tmp_path}", {"device": "cpu", "dtype": "float32"}, origin=origin
        )
        with pytest.raises(ModelError, match="no weights"):
            _ = model._module
        assert {name: given[0][name] for name in given[0] if name == "use_safetensors"} == asked
        assert given[0]["trust_remote_code"] is False


class TestAddresses:
    """Hosts that the user named."""

    def test_a_model_of_a_file(self) -> None:
        options = {"base_url": "http://h:1/v1"}
        with pytest.raises(InvalidInputError, match="would send prompts to h:1"):
            named_model("openai:m", options, origin=FILE)
        assert named_model("openai:m", options, origin=TYPED).name == "m"
        with user_hosts(["http://H:1/other"]):
            assert named_model("openai:m", options, origin=FILE).name == "m"
        with user_hosts(["http://h:2/v1"]), pytest.raises(InvalidInputError):
            named_model("openai:m", options, origin=FILE)

    def test_wherever_it_is_made(self) -> None:
        """A class that makes such a model itself is held to it too."""

        def makes(url: str) -> OpenAICompatible:
            return OpenAICompatible("m", base_url=url)

        with pytest.raises(InvalidInputError, match="have not allowed"):
            call_plugin("models", "theirs", makes, {"url": "http://h/v1"}, origin=FILE)

    def test_a_named_host_gets_no_secret_of_the_files_choice(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET", "a secret")
        with user_hosts(["http://h/v1"]), making(FILE):
            refuse_address("h", {"api_key_env": None})
            with pytest.raises(InvalidInputError, match="sets api_key_env"):
                OpenAICompatible("m", base_url="http://h/v1", api_key_env="SECRET")


class TestTasks:
    """Tasks that files name, and tasks of files."""

    def test_python_files(self, tmp_path: Path) -> None:
        (tmp_path / "t.py").write_text("raise SystemExit\n")
        for name in ("t.py", "t.py:T", f"{tmp_path}/t.py", f"{tmp_path}/t.py:T{{seed=1}}"):
            with pytest.raises(InvalidInputError, match="would import the file"):
                named_task(name, {}, origin=FILE)

    @pytest.mark.parametrize("name", ["capitals", "t.toml", "q.jsonl"])
    def test_graders_in_options(self, tmp_path: Path, name: str) -> None:
        """Of a task that a file names: the options after its name are the file's, too."""
        (tmp_path / "t.toml").write_text(
            '[task]\nname = "t"\ndata = "q.jsonl"\n'
            '[prompt]\ninstruction = "{question}"\nanswer = "answer"\n'
        )
        (tmp_path / "q.jsonl").write_text('{"question": "2 + 2?", "answer": "4"}\n')
        place = str(tmp_path / name) if "." in name else name
        typed = f"{place}{{graders=['{__name__}:NoGrader']}}"
        with pytest.raises(InvalidInputError, match=r"evil\.toml"):
            named_task(typed, {}, origin=FILE).graders()
        for origin in (TYPED, ALLOWED):
            (made,) = named_task(typed, {}, origin=origin).graders()
            assert made.name == "none"

    def test_a_changed_task_keeps_its_origin(self, tmp_path: Path) -> None:
        file = tmp_path / "t.toml"
        judge = f'[graders.judge]\nrubric = "refusal"\nmodel = "{__name__}:no_model"\n'
        file.write_text(
            f'[task]\nname = "t"\n[prompt]\ninstruction = "{{q}}"\nanswer = "a"\n{judge}'
        )
        task = load_task(file, rows=[{"q": "a", "a": "b"}])
        for one in (task, perturbed(task, Perturbation("upper"))):
            with pytest.raises(InvalidInputError, match=r"t\.toml"):
                one.graders()

    def test_a_suite_keeps_its_origin(self, tmp_path: Path) -> None:
        file = tmp_path / "s.toml"
        file.write_text('name = "s"\ntasks = ["capitals", {name = "t", tasks = ["boolq"]}]\n')
        for allow in (False, True):
            leaves = list(load_suite(file, allow_code=allow).leaves({"limit": 3}))
            assert [leaf.origin.file for leaf in leaves] == [str(file)] * 2
            assert [leaf.origin.allow_code for leaf in leaves] == [allow] * 2


class TestStored:
    """Graders that a stored run may name."""

    def test_none_of_them_asks_or_runs_programs(self) -> None:
        left_out = {*available_graders()} - {*PLAIN_GRADERS}
        assert {"judge", "panel", "code_pass"} <= left_out
        assert all(grader_of_version(name, "1") is None for name in left_out)

    @pytest.mark.parametrize(
        "version", ["1+a='" + "+x=1" * 20_000, "1+a='" + "+x=1" * 100_000, "1+a=" + "[" * 90_000]
    )
    def test_no_version_is_read_for_long(
        self, monkeypatch: pytest.MonkeyPatch, version: str
    ) -> None:
        tried: list[str] = []
        monkeypatch.setattr(stored, "_is_literal", tried.append)
        assert grader_of_version("exact_match", version) is None
        assert len(tried) <= 100  # each reads a longer text: all of them took minutes

    def test_a_judge_is_not_made_again(self) -> None:
        version = "1+rubric='refusal'+model='scripted:Yes.'"
        assert grader_of_version("judge", version) is None
        assert Judge("refusal", "scripted:Yes.").name == "refusal"


def calls(name: str) -> list[tuple[str, ast.Call]]:
    """Return the calls of a function in the source, with the module of each."""
    return all_calls()[name]


@cache
def all_calls() -> dict[str, list[tuple[str, ast.Call]]]:
    found = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func
                name = (
                    called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                )
                found[name].append((path, node))
    return found


class TestOneWay:
    """The source: a new way from a name to code is added here on purpose or not at all."""

    @pytest.mark.parametrize(
        "function",
        [
            load_plugin,
            make_plugin,
            finish_plugin,
            call_plugin,
            named_grader,
            named_model,
            named_task,
        ],
    )
    def test_the_origin_is_no_default(self, function: Any) -> None:
        origin = inspect.signature(function).parameters["origin"]
        assert origin.kind is origin.KEYWORD_ONLY
        assert origin.default is origin.empty

    @each(
        ("function", "modules"),
        [
            # Names that are not constants of ours: entry points and what `Origin` let through.
            (
                "import_module",
                {
                    *("__init__.py", "_internal/moved.py", "_internal/optional.py", "_internal/sandbox/worker.py", "plugins/names.py"),
                    *("_internal/sandbox/patterns.py", "_internal/sandbox/values.py", "_internal/sandbox/program_side.py"),
                    *("_internal/sandbox/tests_side.py", "plugins/installed.py", "report/contents.py"),
                    *("report/viewer/app.py", "integrations/exporting/writing.py", "cli/main.py"),
                    *("integrations/importing/detection.py", "scorecards/cells.py", "runs/lock.py"),
                },
            ),
            ("imported", {"plugins/names.py", "plugins/installed.py"}),
            ("exec_module", {"tasks/loading.py"}),
            ("spec_from_file_location", {"tasks/loading.py"}),
            ("entry_points", {"plugins/names.py"}),
            ("__import__", set()),
            ("run_path", set()),
            ("run_module", set()),
            ("read_pickle", set()),
            ("unsafe_load", set()),
            ("from_string", {"_internal/sandbox/templates.py"}),
            # Names that the user typed, or passed in Python.
            ("load_grader", {
                *("cli/run.py", "cli/graders.py", "graders/answers.py"),
                *("tasks/measuring.py", "tasks/rescoring.py", "tasks/grading.py"),
            }),
            ("load_model", {
                *("cli/_models.py", "models/callables.py", "tasks/rescoring.py"),
                *("graders/judges/judge.py", "rollouts/attacks/model_probes.py"),
            }),
            ("load_task", {"cli/_tasks.py", "tasks/running.py", "tasks/rescoring.py"}),
            ("as_model", {
                *("models/loading.py", "rollouts/participants.py"),
                *("tasks/ungraded.py", "tasks/running.py"),
            }),
        ],
    )  # fmt: skip
    def test_who_calls(self, function: str, modules: set[str]) -> None:
        assert {path for path, _ in calls(function)} == modules

    @pytest.mark.parametrize("function", ["eval", "exec", "compile"])
    def test_no_text_is_run_here(self, function: str) -> None:
        """Programs, their tests and the code of task files run in workers, and nowhere else."""
        found = {path for path, call in calls(function) if isinstance(call.func, ast.Name)}
        there = ("programs.py", "program_side.py", "tests_side.py")
        allowed = {f"_internal/sandbox/{name}" for name in there}
        assert found <= {*allowed, "_internal/task_code/calls.py"}

    def test_jinja_runs_in_a_sandbox(self) -> None:
        text = (SOURCE / "_internal/sandbox/templates.py").read_text("utf-8")
        assert text.count("ImmutableSandboxedEnvironment(") == text.count("Environment(") == 2
