"""Old names of modules import the modules at their new homes."""

import importlib
import inspect
import subprocess
import sys

import pytest
from tests.support.each import each

import eval_toolkit
from eval_toolkit._internal.moved import MOVED, MOVED_PLACES


@each("old", sorted(MOVED))
def test_old_name_is_the_same_module(old: str) -> None:
    home = importlib.import_module(f"eval_toolkit.{MOVED[old]}")
    assert importlib.import_module(f"eval_toolkit.{old}") is home
    if "." not in old:
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


def test_parts_of_a_moved_package_have_lines_of_their_own() -> None:
    eda = importlib.import_module("eval_toolkit.leakage.eda")
    assert importlib.import_module("eval_toolkit.eda.lexical_association") is eda
    assert importlib.import_module("eval_toolkit.eda.distribution_shift") is eda
    assert inspect.isfunction(eda.distribution_shift)  # what has a part's name is not hidden
    obfuscation = importlib.import_module("eval_toolkit.leakage.eda.obfuscation")
    assert importlib.import_module("eval_toolkit.eda.obfuscation") is obfuscation


PLACES = [(place, *pair) for place, names in MOVED_PLACES.items() for pair in names.items()]


@pytest.mark.parametrize(("place", "name", "meant"), PLACES)
def test_names_are_found_where_they_were(place: str, name: str, meant: str) -> None:
    home, _, now = meant.rpartition(".")
    where = importlib.import_module(f"eval_toolkit.{place}".rstrip("."))
    assert getattr(where, name) is getattr(importlib.import_module(f"eval_toolkit.{home}"), now)
    with pytest.raises(AttributeError, match=f"module '{where.__name__}' has no attribute 'nome'"):
        where.nome  # noqa: B018


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
