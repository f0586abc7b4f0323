"""Old names of modules import the modules at their new homes."""

import importlib
import subprocess
import sys

import pytest
from tests.support.each import each

import eval_toolkit
from eval_toolkit._internal.moved import MOVED


@each("old", sorted(MOVED))
def test_old_name_is_the_same_module(old: str) -> None:
    home = importlib.import_module(f"eval_toolkit.{MOVED[old]}")
    assert importlib.import_module(f"eval_toolkit.{old}") is home
    assert getattr(eval_toolkit, old) is home
    assert home.__spec__ is not None
    assert home.__spec__.name == home.__name__ == f"eval_toolkit.{MOVED[old]}"


def test_modules_inside_a_moved_package() -> None:
    code = (
        "from eval_toolkit.runner.journal import Journal as old\n"
        "from eval_toolkit.models.runner.journal import Journal as new\n"
        "assert old is new"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"eval_toolkit\.messengers"):
        importlib.import_module("eval_toolkit.messengers")
    with pytest.raises(ModuleNotFoundError, match=r"eval_toolkit\.messages\.inner"):
        importlib.import_module("eval_toolkit.messages.inner")


def test_a_moved_module_can_be_run() -> None:
    subprocess.run([sys.executable, "-m", "eval_toolkit.messages"], check=True)


@pytest.mark.parametrize("package", ["metrics", "analysis", "runs", "report.plots"])
def test_packages_list_what_they_export(package: str) -> None:
    module = importlib.import_module(f"eval_toolkit.{package}")
    assert set(module.__all__) <= set(dir(module))
