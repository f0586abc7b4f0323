"""docs/plugins.md: its table is the list of kinds, and every contract and strategy is named."""

import re
import tomllib
from pathlib import Path

from eval_toolkit import testing
from eval_toolkit.plugins import PLUGIN_KINDS
from eval_toolkit.testing import strategies

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "eval_toolkit_reviews"
CONTRACT = {"checks": "check_leakage_check"}
"""Where it is not ``check_`` and the kind."""


def test_the_table_is_the_list_of_kinds() -> None:
    rows = re.findall(
        r"^\| (\w+) \| `([\w.]+)` \| `(\w+)` \| `(\w+)` \| (.+) \|$", PAGE, flags=re.MULTILINE
    )
    assert rows == [
        (
            kind.name,
            kind.group,
            kind.protocol,
            CONTRACT.get(kind.name, f"check_{kind.name.removesuffix('s')}"),
            kind.used_by,
        )
        for kind in PLUGIN_KINDS.values()
    ]
    assert all(hasattr(testing, row[3]) for row in rows)


def test_every_contract_and_strategy_is_named() -> None:
    for name in testing.__all__:
        if name.startswith("check_"):
            assert f"`{name}`" in PAGE or f"{name}(" in PAGE, name
    for name in strategies.__all__:
        assert f"`{name}`" in PAGE or f"strategies.{name}" in PAGE, name


def test_the_example_offers_one_of_every_kind() -> None:
    offered = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    groups = offered["entry-points"]
    assert set(groups) == {kind.group for kind in PLUGIN_KINDS.values()}
    for places in groups.values():
        for place in places.values():
            module, _, name = place.partition(":")
            source = (EXAMPLE / "src" / f"{module.replace('.', '/')}.py").read_text("utf-8")
            assert f"class {name}" in source


def test_what_the_page_quotes_of_the_example_is_there() -> None:
    quoted = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    for block in quoted:
        for group, names in tomllib.loads(block)["project"]["entry-points"].items():
            assert names == groups["entry-points"][group]


def test_the_script_uses_every_name() -> None:
    """What `make test-plugin` runs on the command line."""
    script = (ROOT / "tests" / "install" / "plugin.sh").read_text("utf-8")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    for names in project["entry-points"].values():
        for name in names:
            assert re.search(rf"\b{name}\b", script), name
