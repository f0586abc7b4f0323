"""Which direction is better: by name, as the log says, as the user says, or not known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from eval_toolkit.runs import Run

Json = Callable[..., Any]
N = 60
LESS = ("jailbroken", "wer", "loss", "toxicity", "perplexity")
"""Of which less is better."""


@pytest.fixture
def imported(command: Command, tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Import two tables with a column that is 0 on 40 of 60 items of "few", and on 20 of "many"."""

    def run(column: str, *options: object) -> tuple[Path, Path]:
        for model, zeros in (("few", 40), ("many", 20)):
            rows = [f"q{n},{0 if n < zeros else 1}" for n in range(N)]
            (tmp_path / f"{model}.csv").write_text("\n".join([f"id,{column}", *rows]))
            args = ("--model", model, "--task", "t", "--column", column, "--out", tmp_path / model)
            code, _, err = command("import", tmp_path / f"{model}.csv", *args, *options)
            assert (code, err) == (0, "")
        few, many = (next((tmp_path / model).iterdir()) for model in ("few", "many"))
        return few, many

    return run


@pytest.mark.parametrize("column", LESS)
def test_less_of_it_is_better_by_its_name(
    command: Command, as_json: Json, imported: Callable[..., tuple[Path, Path]], column: str
) -> None:
    few, many = imported(column)
    cell = as_json("compare", few, many)["cells"][0]
    assert (cell["delta"] > 0, cell["higher_is_better"], cell["verdict"]) == (True, False, "worse")
    board = as_json("leaderboard", few, many, "--draws", 200)
    assert board["ranking"]["best"] == ["few"]
    assert "less is better" in command("leaderboard", few, many, "--draws", 200)[1]


def test_an_unknown_direction_has_a_difference_and_no_winner(
    command: Command, as_json: Json, imported: Callable[..., tuple[Path, Path]]
) -> None:
    few, many = imported("zing")
    cell = as_json("compare", few, many)["cells"][0]
    assert (cell["higher_is_better"], cell["verdict"]) == (None, "different")
    out = command("compare", few, many)[1]
    assert not {"better", "worse", "beats"} & set(out.partition("zing: ")[0].split())
    assert "--lower-is-better zing or --higher-is-better zing" in out
    code, out, err = command("leaderboard", few, many)
    assert (code, out) == (2, "")
    assert "--lower-is-better zing or --higher-is-better zing" in err


@pytest.mark.parametrize(("option", "verdict"), [("--lower", "worse"), ("--higher", "better")])
@pytest.mark.parametrize("column", ["zing", "wer"])
def test_the_users_word_wins(
    as_json: Json,
    imported: Callable[..., tuple[Path, Path]],
    column: str,
    option: str,
    verdict: str,
) -> None:
    few, many = imported(column)
    said = (f"{option}-is-better", column)
    assert as_json("compare", few, many, *said)["cells"][0]["verdict"] == verdict
    best = as_json("leaderboard", few, many, *said, "--draws", 200)["ranking"]["best"]
    assert best == ["few" if verdict == "worse" else "many"]


def test_said_at_the_import_it_is_stored(
    as_json: Json, imported: Callable[..., tuple[Path, Path]]
) -> None:
    few, many = imported("zing", "--lower-is-better", "zing")
    for path in (few, many):
        block = Run.open(path).results["by_slice"]["t"]["by_scorer"][path.parent.name]
        assert block["zing"]["details"]["higher_is_better"] is False
    assert as_json("compare", few, many)["cells"][0]["verdict"] == "worse"


def test_a_run_of_before_keeps_its_direction(
    as_json: Json, imported: Callable[..., tuple[Path, Path]]
) -> None:
    """What a run states wins over the name: runs stored with another direction stay as they are."""
    few, many = imported("wer", "--higher-is-better", "wer")
    assert as_json("compare", few, many)["cells"][0]["verdict"] == "better"


def test_a_name_that_no_run_has_is_refused(
    command: Command, imported: Callable[..., tuple[Path, Path]]
) -> None:
    few, many = imported("jailbroken")
    for args in (("compare", few, many), ("leaderboard", few, many)):
        code, _, err = command(*args, "--lower-is-better", "jailbrokn")
        assert code == 2
        assert "'jailbrokn'; did you mean 'jailbroken'?" in err
    both = ("--lower-is-better", "jailbroken", "--higher-is-better", "jailbroken")
    assert "not both" in command("compare", few, many, *both)[2]
    csv = few.parent.parent / "few.csv"
    code, _, err = command("import", csv, "--column", "jailbroken", "--lower-is-better", "x")
    assert code == 2
    assert "'x'" in err


def test_a_gate_needs_to_know(
    command: Command, imported: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    """20 of 60 more: with a margin of 0.1 worse where less is better, fine where more is."""
    few, many = imported("zing")
    claims = tmp_path / "claims.toml"
    claims.write_text(
        '[[claim]]\nname = "no worse"\nslice = "t"\nscorer = "many"\nbaseline_scorer = "few"\n'
        'metric = "zing"\nnon_inferior_by = 0.1\n'
    )
    gate = ("gate", many, "--claims", claims, "--baseline", few)
    code, _, err = command(*gate)
    assert code == 2
    assert "--lower-is-better zing or --higher-is-better zing" in err
    assert command(*gate, "--lower-is-better", "zing")[0] == 1
    assert command(*gate, "--higher-is-better", "zing")[0] == 0


def test_a_report_says_what_the_user_says(
    command: Command, imported: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    few, many = imported("zing")
    told = {}
    for option in ((), ("--lower-is-better", "zing"), ("--higher-is-better", "zing")):
        page = tmp_path / "page.html"
        code, _, err = command("report", few, many, "-o", page, "--no-charts", *option)
        assert (code, err) == (0, "")
        told[option[:1]] = page.read_text("utf-8")
    few_name, many_name = few.name, many.name
    assert f"{few_name} beats {many_name}" in told[("--lower-is-better",)]
    assert f"{many_name} beats {few_name}" in told[("--higher-is-better",)]
    assert " beats " not in told[()]
