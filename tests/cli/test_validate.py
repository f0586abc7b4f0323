"""``eval-toolkit validate``: valid, invalid, and what cannot be judged."""

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]

RESULTS = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
MANIFEST = {"schema_version": "v1", "run_id": "r", "code_versions": {}, "env": {}}
REF = {"uri": "p.csv", "media_type": "text/csv", "columns": {"label": "y", "score": "s"}}
OOD = {"slices": {"a": {"url": "x.csv", "sha256": "0" * 64}}}


def write(folder: Path, payload: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(payload))
    return path


@pytest.mark.parametrize(
    ("payload", "name", "schema"),
    [
        (RESULTS, "results.json", "results.v1.json"),
        (RESULTS, "results_full.json", "results_full.v1.json"),
        (MANIFEST, "manifest.json", "manifest.v1.json"),
        (REF, "ref.json", "prediction_artifact_ref.v1.json"),
        (OOD, "ood.json", "ood_manifest.v1.json"),
        (OOD, "ood.yaml", "ood_manifest.v1.json"),
    ],
)
def test_the_schema_is_guessed(
    command: Command, tmp_path: Path, payload: Any, name: str, schema: str
) -> None:
    path = write(tmp_path, payload, name)
    assert command("validate", path) == (0, f"{path}: valid {schema}\n", "")


def test_a_named_schema(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("validate", write(tmp_path, RESULTS), "results.v1")
    assert code == 0
    assert "valid results.v1" in out


def test_one_line_per_problem(command: Command, tmp_path: Path) -> None:
    payload = {**RESULTS, "run_id": "", "by_slice": {"a\n\x1bb": {"n": "many"}}}
    path = write(tmp_path, payload)
    code, out, err = command("validate", path)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert any("→ n: 'many' is not of type 'integer'" in line for line in lines)
    assert any("run_id: " in line for line in lines)
    assert "\x1b" not in out


def test_the_verdict_stands_when_nobody_reads(
    unread: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    assert unread("validate", write(tmp_path, RESULTS)) == (0, "")
    assert unread("validate", write(tmp_path, {**RESULTS, "config": 3})) == (1, "")


def test_the_output_is_no_input(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, RESULTS)
    before = path.read_text()
    code, _, err = command("validate", path, "--out", path)
    assert code == 2
    assert "--out would overwrite" in err
    assert path.read_text() == before


def test_aliases_that_stand_for_gigabytes(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    names = "abcdefghijklmnopqrstuvwxyz"
    lines = ["slices: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in itertools.pairwise(names)
    ]
    path.write_text("\n".join(lines) + "\n")
    code, out, err = command("validate", path)
    assert (code, out) == (2, "")
    assert err == (
        f"error: {path}: not YAML: line 7: aliases expand to more than 10000000 characters\n"
    )


def test_deep_yaml(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 1500 + "]" * 1500)
    code, _, err = command("validate", path)
    assert (code, err) == (
        2,
        f"error: {path}: not YAML: line 1: nested too deeply (more than 100 levels)\n",
    )


def test_a_long_version_is_shortened(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, {**MANIFEST, "schema_version": "v" * 100_000})
    code, _, err = command("validate", path)
    assert code == 2
    assert len(err) < 1000


def test_json(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, {**RESULTS, "config": 3})
    code, out, _ = command("validate", path, "--json")
    assert code == 1
    payload = json.loads(out)
    assert payload["valid"] is False
    assert payload["problems"] == ["config: 3 is not of type 'object'"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "file.json"),
        ("{", "malformed JSON"),
        ('{"a": NaN}', "NaN is not valid JSON"),
        ("[1]", "its schema is unknown; pass one of manifest.v1.json"),
        ('{"code_versions": {}, "schema_version": "v9"}', "its schema_version 'v9'"),
    ],
)
def test_unreadable(command: Command, tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    code, out, err = command("validate", path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert expected in err


def test_bad_yaml(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("a: [1\nb")
    code, _, err = command("validate", path)
    assert code == 2
    assert "m.yaml: not YAML" in err
    assert err.count("\n") == 1


def test_no_file(command: Command, tmp_path: Path) -> None:
    for name in ("no.json", "no.yaml"):
        code, _, err = command("validate", tmp_path / name)
        assert code == 2
        assert f"{name}: cannot be read" in err


def test_a_folder(command: Command, tmp_path: Path) -> None:
    code, _, err = command("validate", tmp_path)
    assert code == 2
    assert "is a folder; pass files in it, or inspect it with eval-toolkit doctor" in err


def test_unknown_schema(command: Command, tmp_path: Path) -> None:
    code, _, err = command("validate", write(tmp_path, RESULTS), "nope")
    assert code == 2
    assert "there is no schema 'nope'" in err


def test_without_jsonschema(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    code, out, err = command("validate", write(tmp_path, RESULTS))
    assert (code, out) == (2, "")
    assert "pip install 'eval-toolkit[validation]'" in err
