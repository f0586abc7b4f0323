"""Keys in the environment: this process has them, its children and who looks at it have not."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eval_toolkit
from eval_toolkit._internal.environment import child_environment, secret_variables

SOURCE = Path(eval_toolkit.__file__).parent
LINUX = sys.platform.startswith("linux")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("HF_TOKEN", True),
        ("DB_PASSWORD", True),
        ("MY_KEY", True),
        ("GITHUB_TOKEN", True),
        ("PATH", False),
        ("HOME", False),
        ("KEYBOARD", False),
        ("MAX_TOKENS", False),
        ("OPENBLAS_NUM_THREADS", False),
        ("PIP_INDEX_URL", False),
    ],
)
def test_which_variables_are_secret(monkeypatch, name, secret):
    monkeypatch.setenv(name, "value")
    assert (name in secret_variables()) is secret
    assert (name in child_environment()) is not secret


def test_others_are_added():
    assert child_environment({"LC_ALL": "C"})["LC_ALL"] == "C"


def python(code):
    environment = {**os.environ, "SOME_API_KEY": "hush-hush", "OTHER": "kept"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.skipif(not LINUX, reason="reads /proc")
class TestProc:
    LOOK = "print(open('/proc/self/environ').read())"

    def test_it_shows_a_key_before(self):
        assert "hush-hush" in python(self.LOOK)

    def test_a_command_hides_its_keys(self):
        told = python(
            "import sys\n"
            "from eval_toolkit.cli import main\n"
            "sys.argv = ['eval-toolkit', '--version']\n"
            "try: main()\n"
            f"except SystemExit: {self.LOOK}"
        )
        assert "hush-hush" not in told
        assert "OTHER=kept" in told

    def test_the_process_itself_keeps_them(self):
        told = python(
            "import os, subprocess, sys\n"
            "from eval_toolkit._internal.environment import hide_secrets\n"
            "hide_secrets()\n"
            "print(os.environ['SOME_API_KEY'])\n"
            "subprocess.run([sys.executable, '-c', "
            "\"import os; print(repr(os.environ['SOME_API_KEY']))\"])"
        )
        assert "hush-hush" in told  # in Python …
        assert "''" in told or told.count("hush-hush") == 1  # … and not in what a child inherits

    def test_an_importing_process_is_left_alone(self):
        assert "hush-hush" in python(f"import eval_toolkit\neval_toolkit.Run\n{self.LOOK}")


STARTS = re.compile(r"\b(subprocess\.(run|Popen|check_output|call)|os\.(system|popen))\(")


def test_every_child_is_given_an_environment_without_secrets():
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if STARTS.search(text) else ():
            if isinstance(node, ast.Call) and STARTS.match(f"{ast.unparse(node.func)}("):
                given = [ast.unparse(one.value) for one in node.keywords if one.arg == "env"]
                found.append((f"{file.relative_to(SOURCE)}:{node.lineno}", *given))
    assert found
    allowed = ("child_environment(", "_environment(")
    assert [where for where, *given in found if not "".join(given).startswith(allowed)] == []


def test_worker_processes_of_scorers_get_keys_by_another_way(monkeypatch):
    from eval_toolkit.integrations.executors import open_executor

    monkeypatch.setenv("SOME_API_KEY", "hush")
    with open_executor("processes", workers=1) as executor:
        assert executor.submit(os.getenv, "SOME_API_KEY").result() == "hush"
