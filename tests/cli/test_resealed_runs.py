"""Runs that were changed and sealed again: every command ends with 0, 1 or 2 and one line."""

import copy
import hashlib
import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from eval_toolkit.artifacts.strict_json import json_bytes
from eval_toolkit.manifest import seal_manifest

ROWS = "id,label,score,lang\n" + "".join(
    f"u{i},{i % 2},{(i * 7 % 20) / 40 + i % 2 / 3:.3f},de\n" for i in range(24)
)
CLAIMS = """
[[claim]]
name = "high"
slice = "all"
scorer = "score"
metric = "roc_auc"
require = "ci_low >= 0.5"
[[claim]]
name = "no worse"
slice = "all"
scorer = "score"
metric = "roc_auc"
non_inferior_by = 0.01
[[claim]]
name = "clean"
no_leakage = true
[[claim]]
name = "whole"
no_errors = true
"""
VALUES: list[Any] = [None, True, -1, 1.5e308, "x", "", [], {}, [1], {"a": 1}, ["x", None], "\ufffe"]
_GONE = object()


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else []
    inner = list(enumerate(value))[:2] if isinstance(value, list) else inner
    for name, below in inner:
        yield from places(below, (*place, name))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    made = copy.deepcopy(value)
    inside = made
    for name in place[:-1]:
        inside = inside[name]
    if new is _GONE:
        del inside[place[-1]]
    else:
        inside[place[-1]] = new
    return made


def seal(folder: Path, manifest: Any, results: Any) -> None:
    data = json_bytes(results)
    for name in ("results.json", "manifest.json"):  # to write over them is to wait for the disk
        (folder / name).unlink(missing_ok=True)
    (folder / "results.json").write_bytes(data)
    listed = manifest.get("artifacts")
    if isinstance(listed, dict) and isinstance(listed.get("results.json"), dict):
        digest = hashlib.sha256(data).hexdigest()
        manifest = changed(manifest, ("artifacts", "results.json", "sha256"), digest)
    (folder / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))


@pytest.fixture
def runs(command: Command, tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    for name in ("odd", "plain"):
        args = ["--by", "lang", "--metric", "roc_auc", "--resamples", 50]
        code, _, err = command("score", tmp_path / "rows.csv", *args, "--save", tmp_path / name)
        assert code == 0, err
    return tmp_path / "odd", tmp_path / "plain"


@pytest.mark.parametrize("kind", ["manifest", "results"])
def test_every_place_with_another_value(
    command: Command, runs: tuple[Path, Path], tmp_path: Path, kind: str
) -> None:
    odd, plain = runs
    manifest = json.loads((odd / "manifest.json").read_bytes())
    results = json.loads((odd / "results.json").read_bytes())
    values = [*VALUES, _GONE]
    given = list(places(manifest if kind == "manifest" else results))
    wrong = []
    for at, place in enumerate(given):
        new = values[at * 3 % len(values)]  # so that each value has its turn
        if kind == "manifest":
            seal(odd, changed(manifest, place, new), results)
        else:
            seal(odd, manifest, changed(results, place, new))
        for args in (
            ("compare", odd, plain, "--resamples", 50),
            ("gate", odd, "--claims", tmp_path / "claims.toml", "--baseline", plain),
        ):
            code, _, err = command(*args)
            if code not in (0, 1, 2) or (code == 2 and err.count("\n") != 1):
                wrong.append((args[0], place, new, err[-200:]))
    assert wrong == []


ODD: list[tuple[tuple[str, ...], Any]] = [
    (("by_slice",), []),
    (("by_slice", "all", "by_scorer"), "x"),
    (("by_slice", "all", "by_scorer", "score", "roc_auc"), {"value": {}, "status": "ok"}),
    (("by_slice", "all", "by_scorer", "score", "roc_auc", "ci"), [1]),
    (("by_slice", "all", "by_scorer", "score", "roc_auc", "ci", "ci_low"), {}),
    (("by_slice", "all", "by_scorer", "score", "roc_auc", "status"), "fine"),
    (("by_slice", "all", "n"), "many"),
]


@pytest.mark.parametrize(("place", "new"), ODD)
def test_reports_and_pages(
    command: Command, runs: tuple[Path, Path], tmp_path: Path, place: tuple[str, ...], new: Any
) -> None:
    odd, _ = runs
    manifest = json.loads((odd / "manifest.json").read_bytes())
    results = json.loads((odd / "results.json").read_bytes())
    seal(odd, manifest, changed(results, place, new))
    code, _, err = command("report", odd, "--out", tmp_path / "report.html")
    assert code in (0, 2), err
    told = err if code == 2 else html.unescape((tmp_path / "report.html").read_text())
    assert f"results.json: {' → '.join(place[:-1])}" in told  # a section that fails says why
    code, _, err = command("view", tmp_path, "--export", tmp_path / "site")
    assert code in (0, 2), err


def test_an_integer_that_no_float_can_hold(command: Command, runs: tuple[Path, Path]) -> None:
    odd, plain = runs
    text = (odd / "results.json").read_text().replace('"n": 24', f'"n": {"9" * 400}')
    (odd / "results.json").write_text(text)
    manifest = json.loads((odd / "manifest.json").read_bytes())
    manifest["artifacts"]["results.json"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (odd / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))
    code, _, err = command("compare", odd, plain)
    assert code == 2
    assert "an integer has 400 digits; at most 308 are allowed" in err
