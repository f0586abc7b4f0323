"""``eval-toolkit score --save --text``: the run also holds what its rows say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit._internal import tables
from eval_toolkit.runs import Run

Command = Callable[..., tuple[int, str, str]]
N = 60


def _saved(run: Path) -> list[str]:
    """Return what is said about a saved run, and nothing else."""
    return [f"wrote {run}", f"next: eval-toolkit report {run}"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    columns = {
        "id": [f"r{59 - n:02d}" for n in range(N)],
        "text": [{7: None, 9: "api_key=abc123def"}.get(n, f"mail {n} <b>") for n in range(N)],
        "language": ["en", "de", "fr"] * (N // 3),
        "label": [n % 2 for n in range(N)],
        "score": [round((n * 37 % 60) / 60, 3) for n in range(N)],
    }
    path: Path = tables.write_table(columns, tmp_path / "rows.jsonl")
    return path


def test_every_row_is_found_by_unit_and_by_place(
    command: Command, rows: Path, tmp_path: Path
) -> None:
    code, _, err = command(
        "score", rows, "--by", "language", "--save", tmp_path / "r1", "--text", "text"
    )
    assert (code, err.splitlines()) == (0, _saved(tmp_path / "r1"))
    run = Run.open(tmp_path / "r1")
    inputs = run.inputs
    assert inputs is not None
    assert inputs.slices == {"all": N}  # once, not again for every language
    assert inputs.text_at("all", 3) == "mail 3 <b>"
    for name, scorer in run.subjects:
        units = run.records(name, scorer).unit_id.tolist()
        found = inputs.texts_of(name, units)
        for unit in units:
            place = 59 - int(unit[1:])
            expected = {7: None, 9: "api_key=[redacted]"}.get(place, f"mail {place} <b>")
            assert found.get(unit) == expected


def test_places_go_on_from_one_file_to_the_next(
    command: Command, rows: Path, tmp_path: Path
) -> None:
    more = {"id": ["z1", "z2"], "text": ["first", "second"], "label": [0, 1], "score": [0.1, 0.9]}
    other = tables.write_table(more, tmp_path / "zz.jsonl")
    code, _, err = command("score", rows, other, "--save", tmp_path / "r1", "--text", "text")
    assert (code, err.splitlines()) == (0, _saved(tmp_path / "r1"))
    inputs = Run.open(tmp_path / "r1").inputs
    assert inputs is not None
    assert inputs.texts_at("all", [N + 1, N]) == {N + 1: "second", N: "first"}


def test_results_and_records_do_not_change(
    command: Command, as_json: Callable[..., Any], rows: Path, tmp_path: Path
) -> None:
    plain, more = tmp_path / "a" / "r1", tmp_path / "b" / "r1"
    assert command("score", rows, "--save", plain)[0] == 0
    assert command("score", rows, "--save", more, "--text", "text")[0] == 0
    assert Run.open(plain).inputs is None
    for name in ("results.json", "records.parquet"):
        assert (plain / name).read_bytes() == (more / name).read_bytes()
    compared = as_json("compare", plain, more)["cells"]
    assert {(cell["status"], cell["delta"], cell["n_units"]) for cell in compared} == {("ok", 0, N)}


def test_the_rows_a_threshold_is_chosen_on_need_no_text(
    command: Command, rows: Path, tmp_path: Path
) -> None:
    other = {"id": ["z1", "z2", "z3"], "label": [0, 1, 1], "score": [0.1, 0.9, 0.8]}
    chosen = tables.write_table(other, tmp_path / "dev.jsonl")
    code, _, err = command(
        *("score", rows, "--save", tmp_path / "r1", "--text", "text", "--threshold-from", chosen)
    )
    assert (code, err.splitlines()) == (0, _saved(tmp_path / "r1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "text"], "--text needs --save"),
        (["--text", "body", "--save", "r1"], "there is no column 'body' (--text)"),
        (["--text", "label", "--save", "r1"], "--text is 'label', the label or the score"),
    ],
)
def test_what_does_not_fit_is_said(
    command: Command,
    rows: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = command("score", rows, *options)
    assert code == 2
    assert message in err
    assert not (tmp_path / "r1").exists()
