"""``eval-toolkit plugins`` and ``doctor``: what packages offer, and what of it is broken."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import columns_of

from eval_toolkit._internal import tables
from eval_toolkit.plugins import PLUGIN_KINDS

Command = Callable[..., tuple[int, str, str]]

MODULE = """
class Short:
    name = "Short"

    def validate(self, splits):
        raise RuntimeError("not today")

class Half:
    criterion = "half"

    def select(self, y_true, y_score):
        from eval_toolkit import MaxF1Selector, ThresholdResult
        found = MaxF1Selector().select(y_true, y_score)
        return ThresholdResult(
            found.threshold, found.f1, found.precision, found.recall, self.criterion
        )
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution on the path: its module, and metadata as an installer writes them."""
    (tmp_path / "offered_things.py").write_text(MODULE)
    info = tmp_path / "offered_things-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered-things\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(
        "[eval_toolkit.checks]\nshort = offered_things:Short\n"
        "[eval_toolkit.selectors]\nhalf = offered_things:Half\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "offered_things", raising=False)
    return info / "entry_points.txt"


def offered(payload: Any) -> dict[str, tuple[str, str]]:
    return {
        f"{one['kind']} {one['name']}": (f"{one['distribution']} {one['version']}", one["state"])
        for one in payload["plugins"]
        if one["distribution"] == "offered-things"
    }


def test_every_kind_with_its_group_and_where_names_are_taken(as_json: Callable[..., Any]) -> None:
    payload = as_json("plugins")
    assert list(payload["kinds"]) == list(PLUGIN_KINDS)
    assert payload["kinds"]["checks"]["group"] == "eval_toolkit.checks"
    assert "exact_duplicate" in payload["kinds"]["checks"]["ours"]
    assert payload["kinds"]["scorers"]["ours"] == []


def test_where_names_are_taken_is_true() -> None:
    """Every command and option that the table names is there."""
    import click

    from eval_toolkit.cli.main import cli

    for kind in PLUGIN_KINDS.values():
        for use in kind.used_by.split(", "):
            first, *rest = use.split()
            found: Any = cli.get_command(click.Context(cli), first)
            if isinstance(found, click.Group):
                found = found.get_command(click.Context(found), rest[0])
            options = {name for parameter in found.params for name in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= options, use


def test_what_a_package_offers(as_json: Callable[..., Any], package: Path) -> None:
    assert offered(as_json("plugins")) == {
        "checks short": ("offered-things 2.5", "ok"),
        "selectors half": ("offered-things 2.5", "ok"),
    }
    assert offered(as_json("plugins", "selectors")) == {
        "selectors half": ("offered-things 2.5", "ok")
    }
    assert "checks short" in as_json("doctor")["plugins"]


def test_what_is_broken_is_named_and_exits_with_1(command: Command, package: Path) -> None:
    package.write_text(package.read_text() + "[eval_toolkit.graders]\ngone = offered_things:Gone\n")
    code, out, err = command("plugins", "--json")
    assert (code, err) == (1, "")
    assert offered(json.loads(out)) == {
        "checks short": ("offered-things 2.5", "ok"),
        "graders gone": ("offered-things 2.5", "broken"),
        "selectors half": ("offered-things 2.5", "ok"),
    }
    words = "graders gone: grader 'gone': module 'offered_things' has no attribute 'Gone'"
    for args in (("plugins",), ("doctor",)):
        assert words in command(*args)[1]
    assert command("graders", "list")[0] == 0  # and breaks nothing else
    code, _, err = command("graders", "show", "gone")
    assert (code, err.count("\n")) == (2, 1)
    assert "has no attribute 'Gone'" in err


def test_a_check_that_fails_is_named(command: Command, package: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\na,0\nb,1\n")
    code, out, err = command("check", rows, "--check", "Short", "--no-near")
    assert (code, out) == (2, "")
    assert err == "error: check 'Short': validate failed: RuntimeError: not today\n"


def test_a_selector_by_name(
    as_json: Callable[..., Any], package: Path, preds: Path, tmp_path: Path
) -> None:
    other = tables.write_table(
        {name: [f"x{value}" if name == "id" else value for value in column]
         for name, column in columns_of(seed=4).items()},
        tmp_path / "other.csv",
    )  # fmt: skip
    payload = as_json(
        "score", preds, "--threshold-from", other, "--select", "half", "--resamples", "50"
    )
    assert "half" in json.dumps(payload["config"]["thresholds"])


def test_names_of_selectors_in_any_spelling(command: Command, package: Path, preds: Path) -> None:
    package.write_text(
        package.read_text().replace("half =", "MyHalf =") + "recall = offered_things:Half\n"
    )
    found = offered(json.loads(command("plugins", "--json")[1]))
    assert found["selectors recall"] == ("offered-things 2.5", "hidden")  # ours takes a number
    for written in ("my_half", "MyHalf", "my-half"):
        args = ("score", preds, "--threshold-from", preds, "--select", written)
        assert "is unknown" not in command(*args, "--resamples", "50")[2]


def test_a_selector_that_nobody_offers(command: Command, preds: Path) -> None:
    code, _, err = command("score", preds, "--threshold-from", preds, "--select", "half")
    assert code == 2
    assert "--select 'half' is unknown; choose one of max-f1, youden-j" in err
