"""``eval-toolkit schemas``."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from eval_toolkit.artifacts import load_schema, schema_names
from eval_toolkit.cli import schemas as module

Command = Callable[..., tuple[int, str, str]]


def test_list(command: Command, as_json: Callable[..., Any]) -> None:
    names = [entry["name"] for entry in as_json("schemas", "list")["schemas"]]
    assert names == schema_names()
    code, out, _ = command("schemas", "list")
    assert code == 0
    assert all(name in out for name in names)


@pytest.mark.parametrize("name", ["results.v1", "results.v1.json"])
def test_show(command: Command, name: str) -> None:
    code, out, err = command("schemas", "show", name)
    assert (code, err) == (0, "")
    assert json.loads(out) == load_schema("results.v1")


def test_show_an_unknown_one(command: Command) -> None:
    code, out, err = command("schemas", "show", "result.v1")
    assert (code, out) == (2, "")
    assert "there is no schema 'result.v1'; did you mean 'results.v1.json'?" in err


def test_check(command: Command) -> None:
    code, out, _ = command("schemas", "check")
    assert code == 0
    assert out.count(" ok") == len(schema_names())


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "nonsense"}, "type: 'nonsense' is not valid"),
        (
            {"items": {"$ref": "nope.v1.json"}},
            "$ref nope.v1.json: the file has no schema with this $id",
        ),
        ({"$defs": {}, "$ref": "#/$defs/x"}, "$ref #/$defs/x: not found"),
    ],
)
def test_check_finds(
    command: Command, monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(sys.modules[module.__name__], "load_schema", lambda name: schema)
    code, out, _ = command("schemas", "check")
    assert code == 1
    assert problem in out


def test_without_jsonschema(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    code, out, err = command("schemas", "check")
    assert (code, out) == (2, "")
    assert "pip install 'eval-toolkit[validation]'" in err


def test_alone_it_shows_its_help(command: Command) -> None:
    code, _, err = command("schemas")
    assert code == 2
    assert "list" in err
