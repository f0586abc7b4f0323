"""The page of the architecture is true: its map, its layers, its sentences, its paths."""

import importlib.util
import re
import tomllib
from typing import Any

import pytest
from tests.docs.pages import ROOT

SRC = ROOT / "src" / "eval_toolkit"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
HAND_WRITTEN = PAGE[: PAGE.index("<!-- map")] + PAGE[PAGE.index("<!-- end of the map") :]
PATH = re.compile(r"`([\w.]+/[\w./]*|[\w]+\.py)`")


@pytest.fixture(scope="module")
def architecture() -> Any:
    path = ROOT / "tools" / "architecture.py"
    spec = importlib.util.spec_from_file_location("architecture", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_map_is_made_of_the_sources(architecture: Any) -> None:
    shown = PAGE.split(architecture.START)[1].split(architecture.END)[0]
    assert shown.strip() == architecture.house().strip(), "run `python tools/architecture.py`"


def test_the_map_has_every_name_of_ls_once(architecture: Any) -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(named) == sorted(architecture.names())


def test_the_layers_are_those_of_the_contract(architecture: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract, *_ = project["tool"]["importlinter"]["contracts"]
    names = [name for line in contract["layers"] for name in re.findall(r"\w+", line)]
    layers = architecture.layers()
    assert [name for inside in layers.values() for name in inside] == [*names, "schemas"]
    assert len(layers) == 7  # six layers on the ground
    titles = re.findall(r"^\*\*(.+)\*\*$", PAGE, flags=re.MULTILINE)
    assert titles == list(layers)


def test_every_package_opens_with_one_sentence(architecture: Any) -> None:
    for name in architecture.names():
        said = architecture.sentence(name)
        assert re.fullmatch(r"[^.]*(?:\.[^ .][^.]*)*\.", said), f"{name}: {said!r}"


def test_every_path_on_the_page_exists() -> None:
    paths = PATH.findall(HAND_WRITTEN)
    assert len(paths) > 40
    missing = [path for path in paths if not any((base / path).exists() for base in (ROOT, SRC))]
    assert missing == []


def test_every_name_in_capitals_is_in_the_module_beside_it() -> None:
    found = re.findall(r"`([A-Z_]{4,})` in `([\w/]+\.py)`", PAGE)
    assert found
    for name, module in found:
        assert re.search(rf"^{name}\b", (SRC / module).read_text("utf-8"), re.MULTILINE), name
