"""Nothing runs because a file says so: task, suite and rubric files, and other people's runs.

Every attack here leaves a file, the canary, if it is run or imported. Each of them did before names
had an origin, except where a test says that it is there to stay so.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from eval_toolkit.artifacts.strict_json import json_bytes
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import load_task, run_task

QUIZ = """
[task]
name = "quiz"
data = "quiz.jsonl"

[prompt]
instruction = "{q}"
answer = "a"

"""
GRADED = QUIZ + "[graders.exact_match]\n"
ROWS = "".join(f'{{"q": "What is {n} + 0?", "a": "{n}"}}\n' for n in range(6))


class Attack:
    """A folder with everything an attacker may put beside a file, and the canary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.canary = folder / "canary"
        self.touch = f"touch {self.canary}"
        leaves = f"from pathlib import Path\nPath({str(self.canary)!r}).touch()\n"
        for name in ("evil.py", "canary_module.py", "utils.py"):
            (folder / name).write_text(leaves + "def thing(*args, **options): ...\n")
        (folder / "quiz.jsonl").write_text(ROWS)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def judge(self, table: str = "") -> str:
        """Options of a judge whose model is a command."""
        options = f'model="os:system", model_options={{command="{self.touch}"}}'
        return f'{{rubric="refusal", {options}{table}}}'

    def graders(self) -> dict[str, str]:
        """What a task file may say about graders, by what it tries."""
        run = f'args=["touch", "{self.canary}"]'
        judge = self.judge()[1:-1].replace(", model", "\nmodel")
        return {
            "command": f'[graders."os:system"]\ncommand = "{self.touch}"\n',
            "program": f'[graders."subprocess:run"]\n{run.replace("=", " = ", 1)}\n',
            "in a list": f"graders = [\"os:system{{command='{self.touch}'}}\"]\n",
            "module": 'graders = ["canary_module:thing"]\n',
            "package": 'graders = ["os.path:join", "canary_module:thing"]\n',
            "judge": f"[graders.judge]\n{judge}\n",
            "judge in braces": f"graders = ['''judge{self.judge()}''']\n",
            "judge's module": '[graders.judge]\nrubric = "refusal"\nmodel = "canary_module:thing"\n',
            "judge's module with options": (
                '[graders.judge]\nrubric = "refusal"\nmodel = "canary_module:thing{a=1}"\n'
            ),
            "panel": f"[graders.panel]\njudges = [{self.judge()}, {self.judge(', name=' + chr(34) + 'b' + chr(34))}]\n",
            "consent": '[graders.judge]\nrubric = "refusal"\nmodel = "canary_module:thing"\n'
            "model_options = { allow_code = true }\n",
            "remote code": '[graders.judge]\nrubric = "refusal"\nmodel = "hf:evil"\n'
            "model_options = { trust_remote_code = true }\n",
        }

    def task(self, graders: str, name: str = "evil.toml") -> Path:
        """Write a task whose graders are an attack."""
        bare = graders.startswith("graders")
        return self.write(name, (graders if bare else "") + QUIZ + ("" if bare else graders))


KINDS = (
    *("command", "program", "in a list", "module", "package"),
    *("judge", "judge in braces", "judge's module", "judge's module with options", "panel"),
    *("consent", "remote code"),
)


@pytest.fixture
def attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attack]:
    """In the attacker's folder, whose modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Attack(tmp_path)
    for name in ("canary_module", "evil"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the quiz."""
    folder = tmp_path_factory.mktemp("quiz")
    (folder / "quiz.jsonl").write_text(ROWS)
    (folder / "quiz.toml").write_text(GRADED)
    run_task(load_task(folder / "quiz.toml"), ScriptedModel("3"), folder / "answered")
    return folder / "answered"


@pytest.fixture
def answered(attack: Attack, answers: Path) -> Path:
    """A copy of the run, beside its task."""
    attack.write("quiz.toml", GRADED)
    return Path(shutil.copytree(answers, attack.folder / "answered"))


def refused(attack: Attack, said: tuple[int, str, str], *words: str) -> None:
    """Check that a command refused in one line with these words, and that nothing was run."""
    code, _, err = said
    assert not attack.canary.exists()
    assert code == 2, err
    assert len(err.splitlines()) == 1, err
    for word in words:
        assert word in err


class TestTaskFiles:
    """``[graders]`` of a task file."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_show(self, attack: Attack, command: Command, kind: str) -> None:
        path = attack.task(attack.graders()[kind])
        refused(attack, command("tasks", "show", path), "evil.toml: [graders]", "--allow-code")

    @pytest.mark.parametrize("kind", KINDS)
    def test_run(self, attack: Attack, command: Command, kind: str) -> None:
        path = attack.task(attack.graders()[kind])
        said = command("run", path, "--model", "scripted:3", "--out", "out", "--quiet")
        refused(attack, said, "evil.toml: [graders]", "--allow-code")

    @pytest.mark.parametrize("kind", KINDS)
    def test_yaml(self, attack: Attack, command: Command, kind: str) -> None:
        pytest.importorskip("yaml")
        toml = attack.task(attack.graders()[kind])
        import tomllib

        path = attack.write("evil.yaml", json.dumps(tomllib.loads(toml.read_text())))
        refused(attack, command("tasks", "show", path), "evil.yaml: [graders]", "--allow-code")

    @pytest.mark.parametrize("kind", KINDS)
    def test_preview_makes_no_grader(self, attack: Attack, command: Command, kind: str) -> None:
        path = attack.task(attack.graders()[kind])
        code, _, err = command("tasks", "preview", path)
        assert not attack.canary.exists()
        # A name that would be imported is refused as the file is read; a judge is not made here.
        assert code == (0 if kind in _NOT_MADE else 2), err

    @pytest.mark.parametrize("kind", KINDS)
    def test_other_commands(
        self, attack: Attack, command: Command, answered: Path, kind: str
    ) -> None:
        path = attack.task(attack.graders()[kind])
        asks = ("--judge", "scripted:Yes.", "--quiet")
        for words in (
            ("judge", "run", answered, "--task", path, *asks, "--out", "judged"),
            ("judge", "pairs", answered, answered, "--task", path, *asks, "--out", "pairs"),
            ("tasks", "check", path),
            ("positions", path, "--model", "scripted:3", "--quiet", "--out", "positions"),
        ):
            _, _, err = command(*words)
            assert not attack.canary.exists(), words
            assert "unexpected" not in err

    def test_what_is_said(self, attack: Attack, command: Command) -> None:
        path = attack.task('graders = ["canary_module:thing"]\n')
        _, _, err = command("tasks", "show", path.name)
        assert err == (
            "error: evil.toml: [graders] names 'canary_module:thing', which would import the module "
            "canary_module; a file may name built-ins and installed plugins only: pass --allow-code "
            "if you trust the file\n"
        )

    def test_the_user_may_allow_it(self, attack: Attack, command: Command) -> None:
        path = attack.task(
            '[graders."eval_toolkit.graders.texts:ExactMatch"]\nignore_case = true\n'
        )
        code, _, err = command("tasks", "show", path)
        assert code == 2
        assert "--allow-code" in err
        code, out, err = command("tasks", "show", path, "--allow-code")
        assert (code, err) == (0, "")
        assert "exact_match (version 1+ignore_case=True)" in out
        code, _, err = command("run", path, "--model", "scripted:3", "--allow-code", "--quiet")
        assert code == 0, err

    def test_the_command_line_may_name_modules(self, attack: Attack, command: Command) -> None:
        path = attack.task("[graders.exact_match]\n")
        typed = "eval_toolkit.graders.texts:ExactMatch"
        said = command("run", path, "--model", "scripted:3", "--grader", typed, "--quiet")
        assert said[0] == 0, said[2]

    def test_python_may_name_modules(self, attack: Attack) -> None:
        path = attack.task("[graders.exact_match]\n")
        task = load_task(path, graders=["eval_toolkit.graders.texts:ExactMatch"])
        assert [grader.name for grader in task.graders()] == ["exact_match"]


_NOT_MADE = ("judge", "judge's module", "judge's module with options", "panel", "judge in braces")


class TestSuites:
    """Tasks and graders that a suite names."""

    def names(self, attack: Attack) -> dict[str, str]:
        attack.write("lm.yaml", _LM_EVAL)
        attack.task('graders = ["canary_module:thing"]\n')
        return {
            "command": f"os:system{{command='{attack.touch}'}}",
            "program": f"subprocess:run{{args=['touch', '{attack.canary}']}}",
            "module": "canary_module:thing",
            "Python file": "evil.py",
            "Python file with a dot": "./evil.py",
            "Python file with a class": "evil.py:thing",
            "absolute Python file": str(attack.folder / "evil.py"),
            "consent": "lm.yaml{allow_code=true}",
            "consent for a task": "evil.toml{allow_code=true}",
            "function": "lm.yaml",
            "task file": "evil.toml",
        }

    NAMES = (
        *("command", "program", "module", "Python file", "Python file with a dot"),
        *("Python file with a class", "absolute Python file", "consent", "consent for a task"),
        *("function", "task file"),
    )

    @pytest.mark.parametrize("form", ["name", "table", "inner"])
    @pytest.mark.parametrize("kind", NAMES)
    def test_tasks(self, attack: Attack, command: Command, kind: str, form: str) -> None:
        pytest.importorskip("yaml")
        name = json.dumps(self.names(attack)[kind])
        tasks = {
            "name": f"tasks = [{name}]\n",
            "table": f"[[tasks]]\ntask = {name}\n",
            "inner": f'[[tasks]]\nname = "inner"\ntasks = [{{task = {name}}}]\n',
        }
        suite = attack.write("suite.toml", tasks[form])
        said = command("suite", suite, "--model", "scripted:3", "--quiet", "--out", "out")
        refused(attack, said, "--allow-code")

    @pytest.mark.parametrize("where", ["suite", "task", "options of a task"])
    @pytest.mark.parametrize("kind", ["os:system", "canary_module:thing", "judge", "options"])
    def test_graders(self, attack: Attack, command: Command, kind: str, where: str) -> None:
        attack.task("[graders.exact_match]\n", "quiz.toml")
        grader = {
            "os:system": f"\"os:system{{command='{attack.touch}'}}\"",
            "canary_module:thing": '"canary_module:thing"',
            "judge": f"'''judge{attack.judge()}'''",
            "options": f'{{grader = "judge", {attack.judge()[1:-1]}}}',
        }[kind]
        setting = f"graders = [{grader}]\n"
        text = {
            "suite": f'{setting}tasks = ["quiz.toml"]\n',
            "task": f'[[tasks]]\ntask = "quiz.toml"\n{setting}',
            "options of a task": f"tasks = [{json.dumps(f'quiz.toml{{graders=[{grader}]}}')}]\n",
        }[where]
        suite = attack.write("suite.toml", text)
        said = command("suite", suite, "--model", "scripted:3", "--quiet", "--out", "out")
        refused(attack, said, "suite.toml", "--allow-code")

    def test_consent_is_not_a_setting(self, attack: Attack, command: Command) -> None:
        attack.write("lm.yaml", _LM_EVAL)
        suite = attack.write("suite.toml", '[[tasks]]\ntask = "lm.yaml"\nallow_code = true\n')
        refused(attack, command("suite", suite, "--model", "scripted:3"), "allow_code")

    def test_the_user_may_allow_it(self, attack: Attack, command: Command) -> None:
        attack.write(
            "mine.py",
            "from eval_toolkit.tasks import BaseTask, ResponseType\n"
            "class Mine(BaseTask):\n"
            "    NAME, DATASET_PATH = 'mine', 'quiz.jsonl'\n"
            "    RESPONSE_TYPE = ResponseType.COMPLETION\n"
            "    def _get_instruction_text(self, item): return item['q']\n"
            "    def _get_ground_truth(self, item): return item['a']\n",
        )
        suite = attack.write("suite.toml", 'tasks = ["mine.py"]\n')
        words = ("suite", suite, "--model", "scripted:3", "--quiet", "--out", "out")
        refused(attack, command(*words), "suite.toml: tasks", "the file", "mine.py")
        code, out, err = command(*words, "--allow-code")
        assert code == 0, err
        assert "exact_match" in out


_LM_EVAL = """
task: evil
dataset_path: json
test_split: test
doc_to_text: "{{q}}"
doc_to_target: a
process_docs: !function utils.thing
"""


class TestTables:
    """Graders that the rows of a table of questions or of answers name."""

    KINDS = ("os:system", "canary_module:thing", "judge", "consent")

    @pytest.mark.parametrize(
        "words",
        [
            ("run", "rows.jsonl", "--model", "scripted:3", "--quiet", "--no-store"),
            ("tasks", "show", "rows.jsonl"),
            ("tasks", "preview", "rows.jsonl"),
            ("tasks", "new", "rows.jsonl"),
            ("grade", "rows.jsonl", "--quiet"),
        ],
    )
    @pytest.mark.parametrize("kind", KINDS)
    def test_field(
        self, attack: Attack, command: Command, kind: str, words: tuple[str, ...]
    ) -> None:
        grader = {
            "os:system": f"os:system{{command='{attack.touch}'}}",
            "canary_module:thing": "canary_module:thing",
            "judge": f"judge{attack.judge()}",
            "consent": "judge{model='hf:evil', model_options={trust_remote_code=true}}",
        }[kind]
        row = {"question": "1 + 2?", "response": "3", "answer": "3", "grader": grader}
        attack.write("rows.jsonl", json.dumps(row) + "\n")
        said = command(*words)
        refused(attack, said, "rows.jsonl, row 1" if words[0] != "grade" else "", "--grader")
        assert "--allow-code" not in said[2]


class TestLmEval:
    """``!function`` and options of lm-eval's files."""

    @pytest.mark.parametrize("words", [("tasks", "show"), ("tasks", "preview"), ("tasks", "check")])
    def test_functions(self, attack: Attack, command: Command, words: tuple[str, ...]) -> None:
        pytest.importorskip("yaml")
        path = attack.write("lm.yaml", _LM_EVAL)
        said = command(*words, path, "--data", "quiz.jsonl")
        refused(attack, said, "lm.yaml: process_docs", "utils.py", "--allow-code")

    def test_functions_of_what_is_included(self, attack: Attack, command: Command) -> None:
        pytest.importorskip("yaml")
        attack.write("inner.yaml", _LM_EVAL)
        path = attack.write("lm.yaml", "include: inner.yaml\ntask: other\n")
        refused(attack, command("tasks", "show", path), "lm.yaml: process_docs", "--allow-code")

    def test_members_of_groups(self, attack: Attack, command: Command) -> None:
        pytest.importorskip("yaml")
        attack.write("inner.yaml", _LM_EVAL)
        path = attack.write("group.yaml", "group: all\ntask: [evil]\n")
        refused(attack, command("tasks", "show", path), "inner.yaml: process_docs")

    @pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!python/name:os.system"])
    def test_objects_of_yaml(self, attack: Attack, command: Command, tag: str) -> None:
        pytest.importorskip("yaml")
        path = attack.write("lm.yaml", f'task: evil\ndoc_to_text: {tag} ["{attack.touch}"]\n')
        refused(attack, command("tasks", "show", path), "not YAML")

    @pytest.mark.parametrize(
        "name", ["pandas", "sql", "spark", "generator", "text", "Json", "webdataset", "lance"]
    )
    def test_readers_of_the_datasets_library(
        self, attack: Attack, command: Command, name: str
    ) -> None:
        pytest.importorskip("datasets")
        task = QUIZ.replace('data = "quiz.jsonl"', f'hub = "{name}"')
        path = attack.write("evil.toml", task + "[graders.exact_match]\n")
        refused(attack, command("tasks", "preview", path), name, "file format")


class TestAddresses:
    """A file sends nothing to a host that the user did not name."""

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ("", ("api.openai.com", "have not allowed")),
            ('base_url = "http://203.0.113.7/v1"', ("203.0.113.7", "have not allowed")),
            ('base_url = "http://localhost:9/v1"', ("localhost:9", "have not allowed")),
            (
                'base_url = "http://203.0.113.7/v1", api_key_env = "SECRET"',
                ("api_key_env", "203.0.113.7"),
            ),
            ('headers_env = { x = "SECRET" }', ("headers_env", "api.openai.com")),
        ],
    )
    def test_judges_of_task_files(
        self,
        attack: Attack,
        command: Command,
        monkeypatch: pytest.MonkeyPatch,
        options: str,
        words: tuple[str, ...],
    ) -> None:
        monkeypatch.setenv("SECRET", "a secret")
        judge = f'[graders.judge]\nrubric = "refusal"\nmodel = "openai:m"\nmodel_options = {{{options}}}\n'
        path = attack.task(judge)
        refused(attack, command("tasks", "show", path), "evil.toml: [graders]", *words)
        said = command("run", path, "--model", "scripted:3", "--quiet", "--out", "out")
        refused(attack, said, "evil.toml: [graders]", *words)

    def test_hosts_that_the_user_named(
        self, attack: Attack, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = attack.task(
            '[graders.judge]\nrubric = "refusal"\nmodel = "openai:m"\n'
            'model_options = {base_url = "http://localhost:9/v1"}\n'
        )
        assert command("tasks", "show", path, "--allow-code")[0] == 0
        monkeypatch.setenv("EVAL_TOOLKIT_HOSTS", "example.org, localhost:9")
        assert command("tasks", "show", path)[0] == 0
        monkeypatch.setenv("EVAL_TOOLKIT_HOSTS", "localhost")
        assert command("tasks", "show", path)[0] == 2
        monkeypatch.delenv("EVAL_TOOLKIT_HOSTS")
        same = ("--model", "openai:m", "--base-url", "http://localhost:9/v1")
        code, _, err = command("run", path, *same, "--dry-run")
        assert code == 0, err
        other = ("--model", "openai:m", "--base-url", "http://localhost:8/v1")
        assert command("run", path, *other, "--quiet", "--out", "out")[0] == 2

    def test_a_host_named_by_https_is_not_asked_without(
        self, attack: Attack, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Prompts, and OpenAI's key, would be sent for all on the way to read."""
        monkeypatch.setenv("OPENAI_API_KEY", "a secret")

        def task(scheme: str) -> Path:
            options = f'{{base_url = "{scheme}://api.openai.com/v1"}}'
            judge = f'rubric = "refusal"\nmodel = "openai:m"\nmodel_options = {options}\n'
            return attack.task(f"[graders.judge]\n{judge}")

        said = ("--model", "openai:m", "--base-url", "https://api.openai.com/v1", "--dry-run")
        refused(attack, command("run", task("http"), *said), "without encryption", "api.openai.com")
        code, _, err = command("run", task("https"), *said)
        assert code == 0, err
        monkeypatch.setenv("EVAL_TOOLKIT_HOSTS", "https://api.openai.com")
        refused(attack, command("tasks", "show", task("http")), "without encryption")
        assert command("tasks", "show", task("https"))[0] == 0

    def test_the_key_is_not_sent_without_encryption(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "a secret")
        for scheme, sent in (("http", False), ("https", True)):
            model = OpenAICompatible("m", base_url=f"{scheme}://api.openai.com/v1")
            assert ("Authorization" in model._endpoint._transport.api.headers()[0]) is sent


def resealed(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a run's manifest as an attacker would: all hashes are right afterwards."""
    manifest = json.loads((run / "manifest.json").read_text())
    change(manifest)
    (run / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))
    Run.open(run)


class TestStoredRuns:
    """Graders in a manifest, in both runs of a pair, with valid hashes."""

    def versions(self, attack: Attack) -> dict[str, tuple[str, str]]:
        model = f"model='os:system'+model_options={{'command': '{attack.touch}'}}"
        judge = {"rubric": "refusal", "model": "canary_module:thing"}
        return {
            "judge": ("judge", f"1+rubric='refusal'+{model}"),
            "judge with columns": ("judge(refusal)", f"1+rubric='refusal'+{model}"),
            "judge's module": ("judge", "1+rubric='refusal'+model='canary_module:thing'"),
            "spelled otherwise": ("Judge", f"1+rubric='refusal'+{model}"),
            "in braces": (f"judge{attack.judge()}", "1"),
            "panel": ("panel", f"1+judges={[judge, {**judge, 'name': 'b'}]!r}"),
            "module": ("canary_module:thing", "1"),
            "command": ("os:system", f"1+command='{attack.touch}'"),
            "consent": ("judge", "1+rubric='refusal'+model='canary_module:thing'+allow_code=True"),
        }

    KINDS = (
        *("judge", "judge with columns", "judge's module", "spelled otherwise", "in braces"),
        *("panel", "module", "command", "consent"),
    )

    @pytest.fixture(params=KINDS)
    def pair(self, attack: Attack, answered: Path, request: pytest.FixtureRequest) -> list[Path]:
        name, version = self.versions(attack)[request.param]
        runs = [attack.folder / "runs" / one for one in ("a", "b")]
        for run in runs:
            shutil.copytree(answered, run)

            def add(manifest: dict[str, Any], run: Path = run) -> None:
                manifest["config"]["graders"][name] = version
                manifest["run_id"] = run.name

            resealed(run, add)
        return runs

    def test_every_command(self, attack: Attack, command: Command, pair: list[Path]) -> None:
        a, b = pair
        claims = attack.write(
            "claims.toml",
            '[[claim]]\nname = "c"\nslice = "quiz"\nscorer = "scripted"\nmetric = "exact_match"\n'
            "non_inferior_by = 0.1\n",
        )
        quiz = attack.folder / "quiz.toml"
        judged = ("--judge", "scripted:Yes.", "--rubric", "correctness", "--quiet", "--out", "j")
        for words in (
            ("compare", a, b),
            ("report", a, b, "--out", "report.html"),
            ("gate", b, "--claims", claims, "--baseline", a),
            ("leaderboard", f"one={a}", f"two={b}"),
            ("robustness", a, b),
            ("export", a, "--to", "csv", "--out", "csv"),
            ("view", attack.folder / "runs", "--export", "site", "--compare", "a", "b"),
            ("validate", a / "manifest.json"),
            ("doctor", a),
            ("judge", "run", a, "--task", quiz, *judged),
        ):
            code, _, err = command(*words)
            assert not attack.canary.exists(), words
            assert code in ((2,) if words[0] == "judge" else (0, 1)), (words, err)

    def test_what_was_stored_is_compared(
        self, attack: Attack, as_json: Callable[..., Any], pair: list[Path]
    ) -> None:
        found = as_json("compare", *pair)
        assert "exact_match" in json.dumps(found)
        assert not attack.canary.exists()

    def test_the_served_comparison(self, attack: Attack, pair: list[Path]) -> None:
        pytest.importorskip("starlette")
        from tests.support.viewer_serving import served

        from eval_toolkit.report.viewer.run_list import RunList

        a, b = (run.key for run in RunList(attack.folder / "runs").runs())
        with served(attack.folder / "runs") as ask:
            while "Comparing the two runs" in (page := ask(f"/compare?a={a}&b={b}")).text:
                time.sleep(0.05)
        assert page.status == 200
        assert "exact_match" in page.text
        assert not attack.canary.exists()

    def test_judge_run_names_what_it_cannot_make(
        self, attack: Attack, command: Command, pair: list[Path]
    ) -> None:
        judged = ("--judge", "scripted:Yes.", "--quiet", "--out", "judged")
        said = command("judge", "run", pair[0], "--task", attack.folder / "quiz.toml", *judged)
        refused(attack, said, "be recreated from the stored settings")


class TestOtherFiles:
    """Files that name nothing that could run; they are here to stay so."""

    @pytest.mark.parametrize("text", ["os:system", "canary_module:thing", "evil.py"])
    def test_rubrics_claims_and_seeds(
        self, attack: Attack, command: Command, answered: Path, text: str
    ) -> None:
        rubric = attack.write(
            "rubric.toml", f'name = "x"\ncriteria = "y"\nverdict = "{text}"\nmodel = "{text}"\n'
        )
        claims = attack.write(
            "claims.toml",
            f'[[claim]]\nname = "c"\nslice = "{text}"\nscorer = "{text}"\nmetric = "{text}"\n'
            'require = "value > 0"\n',
        )
        seeds = attack.write("seeds.jsonl", json.dumps({"prompt": text, "id": text}) + "\n")
        quiz = attack.folder / "quiz.toml"
        for words in (
            ("judge", "run", answered, "--task", quiz, "--judge", "scripted:x", "--rubric", rubric),
            ("gate", answered, "--claims", claims),
            ("rollout", "--seeds", seeds, "--tester", "static", "--target", "scripted:no",
             "--scorer", "refusal", "--out", "rolled", "--quiet"),
            ("import", seeds, "--out", "imported"),
        ):  # fmt: skip
            code, _, err = command(*words)
            assert not attack.canary.exists(), words
            assert code != 3, (words, err)
