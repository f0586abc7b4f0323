"""``eval-toolkit compare``: pairing in any order, differences of the library, Holm over slices."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import tables
from eval_toolkit.analysis import compare_runs
from eval_toolkit.inference import correct_p_values, paired_bootstrap_diff, tango_interval
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import (
    Budget,
    System,
    compare_survival,
    rollouts_of,
    run_rollouts,
    seeds_of,
)
from eval_toolkit.rollouts.attacks import Scripted
from eval_toolkit.rollouts.scorers import as_text_scorer
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def part(columns: dict[str, Any], rows: Any, score: str = "score") -> dict[str, Any]:
    """Some rows of a file with one column of scores."""
    kept = {name: columns[name][rows] for name in ("id", "label", "source", "author")}
    return {**kept, "score": columns[score][rows]}


def graded(folder: Path, answers: Any, *graders: Any) -> Path:
    """A run of forty sums, graded."""
    rows = [{"q": f"{n}", "a": f"the sum is {n}"} for n in range(40)]
    task = Task(
        "sums",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=rows,
        graders=list(graders),
    )
    run_task(task, ScriptedModel(answers, name="m"), folder)
    return folder


@pytest.fixture
def a(columns: dict[str, Any], tmp_path: Path) -> Path:
    return tables.write_table(part(columns, np.arange(200)), tmp_path / "a.csv")


@pytest.fixture
def b(columns: dict[str, Any], tmp_path: Path) -> Path:
    """The better scorer, in another order and another format."""
    order = np.random.default_rng(5).permutation(200)
    return tables.write_table(part(columns, order, "better"), tmp_path / "b.parquet")


def cell(payload: Any, metric: str, part: str = "all") -> Any:
    (found,) = [c for c in payload["cells"] if (c["part"], c["metric"]) == (part, metric)]
    return found


class TestNumbers:
    def test_the_difference_is_the_library_s(
        self, as_json: Json, a: Path, b: Path, columns: dict[str, Any]
    ) -> None:
        options = ("--seed", 7, "--resamples", 300, "--group", "author")
        metrics = ("--metric", "pr_auc", "--metric", "brier")
        payload = as_json("compare", a, b, *options, *metrics)
        diff = paired_bootstrap_diff(
            columns["label"],
            columns["score"],
            columns["better"],
            ms.pr_auc,
            groups=columns["author"],
            n_resamples=300,
            seed=7,
        )
        got = cell(payload, "pr_auc")
        for name in ("delta", "ci_low", "ci_high", "p_value", "value_a", "value_b"):
            assert got[name] == pytest.approx(getattr(diff, name), abs=1e-12)
        assert got["verdict"] == "better"
        assert got["n_groups"] == 40
        assert cell(payload, "brier")["delta"] < 0.0
        assert cell(payload, "brier")["higher_is_better"] is False

    def test_holm_is_over_the_slices_alone(self, as_json: Json, a: Path, b: Path) -> None:
        payload = as_json("compare", a, b, "--by", "source", "--metric", "roc_auc")
        slices = [f"source={name}" for name in ("chat", "mail", "web")]
        assert [c["part"] for c in payload["cells"]] == ["all", *slices]
        assert {c["slice"] for c in payload["cells"]} == {"all"}
        cells = [cell(payload, "roc_auc", name) for name in slices]
        adjusted = correct_p_values([c["p_value"] for c in cells], method="holm")
        assert [c["p_adjusted"] for c in cells] == pytest.approx(adjusted.tolist())
        assert cell(payload, "roc_auc")["p_adjusted"] == cell(payload, "roc_auc")["p_value"]

    def test_swapping_sides_changes_the_sign(self, as_json: Json, a: Path, b: Path) -> None:
        one, two = as_json("compare", a, b), as_json("compare", b, a)
        assert cell(one, "roc_auc")["delta"] == -cell(two, "roc_auc")["delta"]
        assert cell(two, "roc_auc")["verdict"] == "worse"

    def test_two_columns_of_one_file(self, as_json: Json, preds: Path, a: Path, b: Path) -> None:
        scores = ("--score", "score", "--score", "better", "--id", "id")
        one, two = as_json("compare", preds, *scores), as_json("compare", a, b)
        assert (one["run_a"], one["run_b"]) == ("score", "better")
        assert cell(one, "pr_auc")["ci_low"] == cell(two, "pr_auc")["ci_low"]

    def test_a_score_for_each_side(self, as_json: Json, preds: Path, b: Path) -> None:
        payload = as_json("compare", b, preds, "--score", "score", "--score", "better")
        assert cell(payload, "roc_auc")["delta"] == 0.0
        assert cell(payload, "roc_auc")["verdict"] == "no significant difference"

    def test_scores_that_are_no_probabilities(
        self, as_json: Json, a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        logits = part({**columns, "better": 9.0 * columns["better"]}, np.arange(200), "better")
        payload = as_json("compare", a, tables.write_table(logits, tmp_path / "logits.csv"))
        assert cell(payload, "brier")["status"] == "skipped"
        assert "needs probabilities" in cell(payload, "brier")["reason"]
        assert cell(payload, "roc_auc")["status"] == "ok"

    def test_one_class_slices_are_skipped(self, as_json: Json, a: Path, b: Path) -> None:
        payload = as_json("compare", a, b, "--by", "label", "--metric", "roc_auc")
        assert cell(payload, "roc_auc", "label=0")["status"] == "skipped"


class TestPairing:
    def test_common_rows_are_compared_and_the_rest_counted(
        self, as_json: Json, a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        fewer = tables.write_table(part(columns, np.arange(20, 150)), tmp_path / "few.csv")
        pairing = as_json("compare", a, fewer)["pairing"]
        assert pairing == {
            "paired_on": "id",
            "n_paired": 130,
            "n_only_a": 70,
            "n_only_b": 0,
            "n_dropped": 0,
        }

    def test_without_ids_the_order_pairs_and_is_noted(
        self, command: Command, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        files = []
        for name in ("score", "better"):
            table = {"label": columns["label"], "score": columns[name]}
            files.append(tables.write_table(table, tmp_path / f"{name}.csv"))
        code, out, _ = command("compare", *files)
        assert code == 0
        assert "200 rows, paired by row order (no common id column)" in out

    def test_ids_of_another_name_pair_rows_in_any_order(
        self, command: Command, as_json: Json, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        ids = {"batch_id": ["b1"] * 200, "message_id": [f"m{i}" for i in range(200)]}
        one, two = (
            {**ids, "label": columns["label"], "score": columns[name]}
            for name in ("score", "better")
        )
        a = tables.write_table(one, tmp_path / "a.csv")
        b = tables.write_table(two, tmp_path / "b.csv")
        backwards = tables.write_table(
            {k: list(v[::-1]) for k, v in two.items()}, tmp_path / "back.csv"
        )
        code, out, _ = command("compare", a, backwards)
        assert code == 0
        assert "200 rows, paired by message_id\n" in out
        assert cell(as_json("compare", a, backwards), "roc_auc") == cell(
            as_json("compare", a, b), "roc_auc"
        )

    def test_ids_that_are_unique_and_common_are_chosen(
        self, as_json: Json, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        files = []
        for name in "ab":
            table = {
                "id": np.arange(200) % 50,  # restarts in every batch
                "runId": [f"{name}{i}" for i in range(200)],
                "mail id": np.arange(200),
                "label": columns["label"],
                "score": columns["score"],
            }
            files.append(tables.write_table(table, tmp_path / f"{name}.csv"))
        assert as_json("compare", *files)["pairing"]["paired_on"] == "mail id"

    def test_slices_that_differ_are_dropped_when_told(
        self, as_json: Json, a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        table = part(columns, np.arange(200))
        table["source"][9] = "other"
        other = tables.write_table(table, tmp_path / "b.csv")
        payload = as_json("compare", a, other, "--by", "source", "--on-mismatch", "drop")
        assert payload["pairing"]["n_dropped"] == 1
        assert cell(payload, "roc_auc")["n_units"] == 199

    def test_slices_written_as_other_numbers_are_the_same(
        self, as_json: Json, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        fold = np.arange(200) % 2
        one = tables.write_table({**columns, "fold": fold}, tmp_path / "one.csv")
        two = tables.write_table({**columns, "fold": fold.astype(float)}, tmp_path / "two.parquet")
        payload = as_json("compare", one, two, "--by", "fold", "--group", "fold")
        assert payload["pairing"]["n_paired"] == 200

    def test_slices_of_one_side_are_named(
        self, command: Command, a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        table = part(columns, np.arange(200))
        del table["source"], table["author"]
        other = tables.write_table(table, tmp_path / "b.csv")
        code, out, _ = command("compare", a, other, "--by", "source", "--group", "author")
        assert code == 0
        assert "columns read from a only: source, author\n" in out

    def test_no_id_pairs_by_order(self, command: Command, a: Path) -> None:
        code, out, _ = command("compare", a, a, "--no-id")
        assert code == 0
        assert f"{a} (2) - {a} (1)" in out  # the same file twice
        assert "paired by row order" in out

    def test_equal_hashes_are_checked(self, as_json: Json, tmp_path: Path) -> None:
        files = hashed(tmp_path, "h1")
        assert as_json("compare", *files)["pairing"]["paired_on"] == "id, content hashes checked"


def hashed(folder: Path, second: str) -> list[Path]:
    """Twelve rows with content hashes; row r03 of B has another one."""
    files = []
    for name, odd in (("a", "h1"), ("b", second)):
        rows = [f"r{i:02d},{i % 2},{i / 12},{odd if i == 3 else 'h1'}" for i in range(12)]
        path = folder / f"{name}.csv"
        path.write_text("\n".join(["id,label,score,content_hash", *rows]) + "\n")
        files.append(path)
    return files


class TestSeveral:
    @pytest.fixture
    def files(self, tmp_path: Path) -> list[Path]:
        made = []
        for at, name in enumerate("abc"):
            made.append(tmp_path / f"{name}.csv")
            rows = [
                f"r{i:02d},{i % 2},{((i * 7 + at * 11 * (i % 3)) % 40) / 40}" for i in range(40)
            ]
            made[-1].write_text("\n".join(["id,label,score", *rows[at:], ""]))
        return made

    @pytest.mark.parametrize("more", [[], ["--all-pairs"]])
    def test_one_family_of_p_values(
        self, as_json: Json, files: list[Path], more: list[str]
    ) -> None:
        payload = as_json("compare", *files, "--metric", "roc_auc", "--metric", "brier", *more)
        systems = [one["systems"] for one in payload["comparisons"]]
        assert systems == [["a", "b"], ["a", "c"], *([["b", "c"]] if more else [])]
        cells = [cell for one in payload["comparisons"] for cell in one["cells"]]
        p_values = [cell["p_value"] for cell in cells]
        adjusted = correct_p_values(p_values, method="holm").tolist()
        assert [cell["p_adjusted"] for cell in cells] == adjusted
        # Rows that every file has: as if the first file had no others.
        assert payload["pairing"]["n_paired"] == {cell["n_units"] for cell in cells}.pop() == 38
        assert payload["pairing"]["n_only"] == {"a": 2, "b": 1, "c": 0}

    def test_systems_are_named_by_their_files(self, command: Command, files: list[Path]) -> None:
        code, out, _ = command("compare", *files, "--metric", "roc_auc")
        assert code == 0
        assert "a.csv, b.csv and c.csv: 38 rows, paired by id\n" in out
        assert [line.split()[:4] for line in out.splitlines()[-2:]] == [
            ["roc_auc", "b", "-", "a"],
            ["roc_auc", "c", "-", "a"],
        ]

    def test_columns_of_one_file(self, as_json: Json, tmp_path: Path) -> None:
        rows = [f"{i % 2},{i / 40},{(i * 7 % 40) / 40},{(i * 3 % 40) / 40}" for i in range(40)]
        path = tmp_path / "p.csv"
        path.write_text("\n".join(["y,p,q,r", *rows, ""]))
        scores = [word for name in "pqr" for word in ("--score", name)]
        payload = as_json("compare", path, *scores, "--metric", "roc_auc")
        assert [one["systems"] for one in payload["comparisons"]] == [["p", "q"], ["p", "r"]]


class TestRefusals:
    @pytest.fixture
    def refused(self, command: Command, tmp_path: Path) -> Callable[..., str]:
        def run(*args: object) -> str:
            code, out, err = command("compare", *args, "--out", tmp_path / "written.json")
            assert (code, out) == (2, "")
            assert err.count("\n") == 1
            assert not (tmp_path / "written.json").exists()
            return err

        return run

    def test_another_content(self, refused: Callable[..., str], tmp_path: Path) -> None:
        first, second = hashed(tmp_path, "h2")
        err = refused(first, second)
        assert f"{second}: row 4: the content hash of id 'r03' differs from {first}: row 4" in err
        assert "--on-mismatch drop" in err

    def test_dropped_when_told(self, as_json: Json, tmp_path: Path) -> None:
        files = hashed(tmp_path, "h2")
        payload = as_json("compare", *files, "--on-mismatch", "drop")
        assert payload["pairing"]["n_dropped"] == 1
        assert cell(payload, "roc_auc")["n_units"] == 11

    def test_another_label(
        self, refused: Callable[..., str], a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        flipped = part(columns, np.arange(200))
        flipped["label"][9] = 1 - flipped["label"][9]
        other = tables.write_table(flipped, tmp_path / "flipped.csv")
        assert f"{other}: row 10: the label of id 'r0009' differs" in refused(a, other)

    def test_nothing_in_common(
        self, refused: Callable[..., str], a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        table = part(columns, np.arange(200))
        table["id"] = np.array([f"x{i}" for i in range(200)], dtype=object)
        other = tables.write_table(table, tmp_path / "x.csv")
        assert "a.csv and x.csv have no 'id' in common: a.csv has '" in refused(a, other)

    def test_other_lengths_without_ids(self, refused: Callable[..., str], tmp_path: Path) -> None:
        one, two = tmp_path / "1.csv", tmp_path / "2.csv"
        one.write_text("label,score\n0,0.1\n1,0.2\n")
        two.write_text("label,score\n0,0.1\n")
        assert "2.csv has 1 rows but 1.csv has 2" in refused(one, two)

    def test_other_labels_without_ids(self, refused: Callable[..., str], tmp_path: Path) -> None:
        one, two = tmp_path / "1.csv", tmp_path / "2.csv"
        one.write_text("label,score\n0,0.1\n1,0.2\n")
        two.write_text("label,score\n1,0.1\n0,0.2\n")
        assert f"{two}: row 1: the label differs from {one}: row 1" in refused(one, two)

    @pytest.mark.parametrize(
        ("column", "option", "what"),
        [("source", "--by", "slice 'source'"), ("author", "--group", "group")],
    )
    @pytest.mark.parametrize("ids", [True, False])
    def test_slices_and_groups_that_b_has_otherwise(
        self,
        refused: Callable[..., str],
        columns: dict[str, Any],
        tmp_path: Path,
        column: str,
        option: str,
        what: str,
        ids: bool,
    ) -> None:
        files = []
        for name in ("a", "b"):
            table = part(columns, np.arange(200))
            if name == "b":
                table[column][9] = "other"
            if not ids:
                del table["id"]
            files.append(tables.write_table(table, tmp_path / f"{name}.csv"))
        key = "of id 'r0009' " if ids else ""
        expected = f"{files[1]}: row 10: the {what} {key}differs from {files[0]}: row 10"
        assert expected in refused(*files, option, column)

    def test_content_hashes_without_ids(self, refused: Callable[..., str], tmp_path: Path) -> None:
        files = hashed(tmp_path, "h2")
        for path in files:
            path.write_text(path.read_text().replace("id,", "name,"))
        assert "row 4: the content hash differs from" in refused(*files)

    def test_the_output_is_no_input(
        self, command: Command, a: Path, b: Path, tmp_path: Path
    ) -> None:
        for target in (a, b):
            before = target.read_bytes()
            code, out, err = command("compare", a, b, "--out", target)
            assert (code, out) == (2, "")
            assert err == f"error: {target}: --out would overwrite {target}; choose another name\n"
            assert target.read_bytes() == before

    def test_pairs_are_of_runs(self, command: Command, a: Path, b: Path) -> None:
        code, out, err = command("compare", a, b, "--pair", "x=y")
        assert (code, out) == (2, "")
        assert "--pair applies to runs" in err

    def test_duplicate_ids(self, refused: Callable[..., str], a: Path, tmp_path: Path) -> None:
        twice = tmp_path / "twice.csv"
        text = a.read_text()
        twice.write_text(text + text.splitlines()[1] + "\n")
        assert f"{twice}: row 201: 'id' is 'r0000', as in {twice}: row 1" in refused(a, twice)

    def test_a_named_id_must_be_in_both(
        self, refused: Callable[..., str], a: Path, b: Path
    ) -> None:
        assert "there is no column 'key' (--id)" in refused(a, b, "--id", "key")

    def test_truncated(self, refused: Callable[..., str], a: Path, tmp_path: Path) -> None:
        cut = tmp_path / "cut.csv.gz"
        data = gzip.compress(a.read_bytes())
        cut.write_bytes(data[: len(data) // 2])
        assert "cut.csv.gz" in refused(a, cut)

    def test_a_file_and_a_run(self, refused: Callable[..., str], a: Path, tmp_path: Path) -> None:
        assert f"{a}: is a file; compare files with files, or store it" in refused(a, tmp_path)

    def test_no_run(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert f"{tmp_path}: not a run" in refused(tmp_path, tmp_path)

    @pytest.mark.parametrize("args", [[], ["a.csv"], ["no.csv", "b.csv", "c.csv"]])
    def test_one_or_none(self, command: Command, args: list[str]) -> None:
        assert command("compare", *args)[0] == 2


class TestRuns:
    @pytest.fixture
    def runs(self, command: Command, a: Path, b: Path, tmp_path: Path) -> list[Path]:
        """Both files as stored runs."""
        folders = []
        for path in (a, b):
            folder = tmp_path / "runs" / path.stem
            args = ("--by", "source", "--group", "author", "--save", folder, "--resamples", 200)
            assert command("score", path, *args)[0] == 0
            folders.append(folder)
        return folders

    def test_like_the_files(self, as_json: Json, runs: list[Path], a: Path, b: Path) -> None:
        payload = as_json("compare", *runs, "--metric", "roc_auc", "--metric", "brier")
        files = as_json("compare", a, b, "--group", "author", "--by", "source")
        for metric in ("roc_auc", "brier"):
            for slice_ in ("all", "source=web"):
                one, two = cell(payload, metric, slice_), cell(files, metric, slice_)
                for name in ("delta", "ci_low", "ci_high", "p_value", "n_units", "n_groups"):
                    assert one[name] == pytest.approx(two[name], abs=1e-12)

    def test_a_run_is_scored_again(self, as_json: Json, runs: list[Path], a: Path) -> None:
        stored = as_json("score", runs[0], "--metric", "roc_auc")
        fresh = as_json("score", a, "--group", "author", "--metric", "roc_auc", "--id", "id")
        assert (
            stored["by_slice"]["all"]["by_scorer"]["score"]["roc_auc"]
            == fresh["by_slice"]["all"]["by_scorer"]["score"]["roc_auc"]
        )

    def test_a_run_is_scored_by_what_it_was_scored_by(
        self, as_json: Json, runs: list[Path]
    ) -> None:
        args = ("score", runs[0], "--metric", "roc_auc")
        stored = as_json(*args)["by_slice"]
        assert list(stored) == ["all"]
        assert list(stored["all"]["parts"]) == ["source=chat", "source=mail", "source=web"]
        assert as_json(*args, "--by", "source", "--by", "source")["by_slice"] == stored

    def test_parts_are_those_that_are_asked_for(
        self, command: Command, as_json: Json, preds: Path, tmp_path: Path
    ) -> None:
        options = ("--by", "source", "--by", "label", "--resamples", 50)
        assert command("score", preds, *options, "--save", tmp_path / "r")[0] == 0
        sources = [f"source={name}" for name in ("chat", "mail", "web")]
        entry = as_json("score", tmp_path / "r")["by_slice"]["all"]
        assert list(entry["parts"]) == [*sources, "label=0", "label=1"]
        entry = as_json("score", tmp_path / "r", "--by", "label")["by_slice"]["all"]
        assert list(entry["parts"]) == ["label=0", "label=1"]

    def test_options_of_files_are_refused(self, command: Command, runs: list[Path]) -> None:
        for args in (("compare", *runs), ("score", runs[0])):
            code, out, err = command(*args, "--label", "y")
            assert (code, out) == (2, "")
            assert err.count("\n") == 1

    def test_by_is_for_parts_that_the_runs_have(
        self, command: Command, as_json: Json, runs: list[Path]
    ) -> None:
        payload = as_json("compare", *runs, "--by", "source", "--metric", "roc_auc")
        assert [c["part"] for c in payload["cells"]] == [
            *("all", "source=chat", "source=mail", "source=web"),
        ]
        assert payload["cells"] == as_json("compare", *runs, "--metric", "roc_auc")["cells"]
        alone = as_json("compare", *runs, "--metric", "roc_auc @ source=web")
        assert [c["part"] for c in alone["cells"]] == ["source=web"]
        told = ("value_a", "value_b", "delta", "ci_low", "ci_high", "p_value", "n_units")
        for name in told:
            assert alone["cells"][0][name] == cell(payload, "roc_auc", "source=web")[name]
        code, out, err = command("compare", *runs, "--by", "language")
        assert (code, out) == (2, "")
        assert "--by: run " in err
        assert "has no part 'language'; it has 'source'" in err
        code, out, err = command("compare", *runs, "--by", "source", "--label", "y")
        assert (code, out) == (2, "")
        assert "--label, --score, --group and --id are for files" in err

    def test_an_altered_run_is_refused(self, command: Command, runs: list[Path]) -> None:
        results = runs[1] / "results.json"
        results.write_text(results.read_text().replace("0.", "0.1", 1))
        code, out, err = command("compare", *runs)
        assert (code, out) == (2, "")
        assert "results.json" in err

    def test_a_run_is_not_overwritten(self, command: Command, runs: list[Path], a: Path) -> None:
        code, out, err = command("score", a, "--save", runs[0])
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "pass --overwrite to replace it" in err

    def test_a_run_is_overwritten_when_told(
        self, command: Command, as_json: Json, runs: list[Path], a: Path
    ) -> None:
        assert command("score", a, "--save", runs[0], "--overwrite")[0] == 0
        assert list(as_json("score", runs[0])["by_slice"]) == ["all"]

    def test_overwriting_a_run_spares_the_input(
        self, command: Command, runs: list[Path], a: Path
    ) -> None:
        inside = runs[0] / "results_full.csv"
        inside.write_bytes(a.read_bytes())
        code, out, err = command("score", inside, "--save", runs[0], "--overwrite")
        assert (code, out) == (2, "")
        assert f"--save would overwrite {inside}" in err

    def test_nothing_is_written_into_a_run(self, command: Command, runs: list[Path]) -> None:
        target = runs[0] / "results.json"
        before = target.read_bytes()
        for args in (("score", runs[1]), ("compare", *runs)):
            code, out, err = command(*args, "--out", target)
            assert (code, out) == (2, "")
            assert f"{target}: --out is inside the run {runs[0]}" in err
        assert target.read_bytes() == before

    def test_units_left_out_are_told(
        self, command: Command, columns: dict[str, Any], runs: list[Path], tmp_path: Path
    ) -> None:
        fewer = tables.write_table(part(columns, np.arange(150)), tmp_path / "fewer.csv")
        assert command("score", fewer, "--save", tmp_path / "r150")[0] == 0
        code, out, _ = command("compare", runs[0], tmp_path / "r150", "--metric", "roc_auc")
        assert code == 0
        assert "slice 'all', scorer 'score': left out 50 units only in A, 0 only in B" in out

    @pytest.fixture
    def two_scorers(self, command: Command, preds: Path, tmp_path: Path) -> list[Path]:
        """Runs with the scorers score and better, and score2 and better2."""
        text = preds.read_text()
        other = tmp_path / "renamed.csv"
        other.write_text(text.replace("score,better", "score2,better2", 1))
        folders = []
        for path, end in ((preds, ""), (other, "2")):
            scores = ("--score", f"score{end}", "--score", f"better{end}")
            folders.append(tmp_path / f"two{end}")
            assert command("score", path, *scores, "--save", folders[-1])[0] == 0
        return folders

    def test_scorers_of_other_names_are_paired(
        self, command: Command, as_json: Json, two_scorers: list[Path]
    ) -> None:
        code, out, err = command("compare", *two_scorers)
        assert (code, out) == (2, "")
        assert "Pair scorers that have different names with --pair A=B" in err
        payload = as_json("compare", *two_scorers, "--pair", "score=better2")
        assert {(c["scorer"], c["scorer_b"]) for c in payload["cells"]} == {("score", "better2")}
        assert cell(payload, "roc_auc")["verdict"] == "better"

    @pytest.mark.parametrize(
        ("pairs", "why"),
        [
            (["score"], "--pair score must be two scorers, as in old=new"),
            (["=x"], "must be two scorers"),
            (["score=score2", "score=better2"], "names a scorer of A twice"),
            (["score=nope"], "has no scorer 'nope'"),
        ],
    )
    def test_pairs_that_are_none(
        self, command: Command, two_scorers: list[Path], pairs: list[str], why: str
    ) -> None:
        options = [text for pair in pairs for text in ("--pair", pair)]
        code, out, err = command("compare", *two_scorers, *options)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert why in err

    def test_another_version_is_refused_unless_allowed(
        self, command: Command, tmp_path: Path, columns: dict[str, Any]
    ) -> None:
        folders = [versioned(tmp_path / name, name, columns) for name in ("1", "2")]
        code, out, err = command("compare", *folders)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "scorer:guard" in err
        code, out, err = command("compare", *folders, "--allow-version-change")
        assert (code, err) == (0, "")
        assert "version of scorer:guard: 1 in A, 2 in B" in out

    def test_saving_needs_an_identity(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "p.csv"
        path.write_text("label,score\n0,0.1\n1,0.9\n")
        code, out, err = command("score", path, "--save", tmp_path / "run")
        assert (code, out) == (2, "")
        assert "row numbers are not ids" in err
        assert not (tmp_path / "run").exists()


@pytest.fixture
def failed_runs(tmp_path: Path) -> list[Path]:
    """Two tries at 30 questions of three subjects; in B one subject and one more try failed."""
    ids = [f"{subject}/{i}" for subject in "xyz" for i in range(10)]
    folders = []
    for name in ("a", "b"):
        failed = [name == "b" and (unit < "y" or unit == "z/3") for unit in ids]
        first = ["error" if lost else "ok" for lost in failed]
        second = ["error" if name == "b" and unit < "y" else "ok" for unit in ids]
        records = Records.from_columns(
            {"right": [float(i % 3 == 0) for i in range(60)]},
            unit_id=ids * 2,
            attempt=[1] * 30 + [2] * 30,
            group=[f"{unit[0]}{int(unit[2]) // 2}" for unit in ids] * 2,
            slices={"subject": [unit[0] for unit in ids] * 2},
            status={"right": first + second},
            reason={"right": ["timeout: slow" if s == "error" else "" for s in first + second]},
        )
        results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": {}}
        folder = tmp_path / f"failed-{name}"
        write_run(folder, results=results, manifest={"run_id": name}, records={("q", "m"): records})
        folders.append(folder)
    return folders


class TestGraders:
    @pytest.mark.parametrize("grader", ["chrf", {"grader": "chrf", "word_order": 2}])
    def test_scores_of_a_corpus_are_compared_by_name_too(
        self, as_json: Json, tmp_path: Path, grader: Any
    ) -> None:
        one = graded(tmp_path / "one", "the sum is 1", grader)
        two = graded(tmp_path / "two", "2", grader)
        every = cell(as_json("compare", one, two), "chrf_corpus")
        named = cell(as_json("compare", one, two, "--metric", "chrf_corpus"), "chrf_corpus")
        assert named == every
        assert every["status"] == "ok"
        stored = Run.open(two).results["by_slice"]["sums"]["by_scorer"]["m"]["chrf_corpus"]
        assert every["value_b"] == pytest.approx(stored["value"])

    def test_interval_and_p_value_are_on_one_side(self, command: Command, tmp_path: Path) -> None:
        def knows(*wrong: int) -> Callable[[Any], str]:
            def answer(request: Any) -> str:
                n = int(request.prompt[-1].content)
                return "?" if n in wrong else f"the sum is {n}"

            return answer

        one = graded(tmp_path / "one", knows(1, 2, 3, 4, 5), "exact_match")
        two = graded(tmp_path / "two", knows(), "exact_match")
        code, out, _ = command("compare", one, two)
        # 5 discordant pairs of 40, all one way: McNemar's exact p is 2 / 2**5, above 0.05. The score
        # test that Tango's interval inverts has chi-squared 5, p 0.025.
        assert code == 0
        assert re.search(r"\[\+0\.026, \+0\.261\] +0\.025 +better$", out, re.MULTILINE)
        assert "A and B differ on 5 of 40 units (12.5 %) in exact_match" in out
        four = graded(tmp_path / "four", knows(1, 2, 3), "exact_match")
        line = command("compare", four, two)[1].splitlines()[-3]
        assert f"{tango_interval(3, 0, 40).ci_low:+.3f}, " in line  # below 0
        assert " 0.083 " in line  # chi-squared 3
        assert line.endswith("no significant difference")

    def test_nothing_compared_is_not_fine(self, command: Command, tmp_path: Path) -> None:
        one = graded(tmp_path / "one", "1", "exact_match")
        two = graded(tmp_path / "two", "1", "f1")
        code, out, err = command("compare", one, two)
        assert code == 2
        assert "skipped" in out
        assert err.startswith("error: nothing could be compared: exact_match: the records of B")

    def test_a_run_that_is_not_there_is_named(self, command: Command, tmp_path: Path) -> None:
        one = graded(tmp_path / "one", "1", "exact_match")
        code, out, err = command("compare", tmp_path / "nope", one)
        assert (code, out) == (2, "")
        assert f"{tmp_path / 'nope'}: no such folder" in err


class TestFailures:
    def test_units_without_a_value_are_told(
        self, command: Command, as_json: Json, failed_runs: list[Path]
    ) -> None:
        code, out, _ = command("compare", *failed_runs)
        assert code == 0
        assert "slice 'q', scorer 'm': 10 units have no value in B (right)" in out
        found = cell(as_json("compare", *failed_runs), "right")
        assert (found["n_units"], found["n_failed"], found["n_lost"]) == (20, 10, 10)
        assert found["n_groups"] == 10
        _, back, _ = command("compare", *reversed(failed_runs))
        assert "10 units have no value in A (right)" in back

    def test_a_subject_that_failed_keeps_its_row(
        self, command: Command, failed_runs: list[Path]
    ) -> None:
        code, out, _ = command("compare", *failed_runs, "--by", "subject")
        assert code == 0
        rows = [line for line in out.splitlines() if line.startswith("subject=")]
        assert [line.split()[0] for line in rows] == ["subject=x", "subject=y", "subject=z"]
        assert rows[0].endswith("skipped")
        assert (
            "right, subject=x: none of 10 common units has a value on both sides; "
            "in B: timeout: slow"
        ) in out


def rolled_out(folder: Path, patience: int, **options: Any) -> Path:
    """A run of twenty seeds whose target growls from a turn on, later at some seeds than at others."""

    def reply(request: Any) -> str:
        said = [message.content for message in request.prompt]
        left = (int(said[0].split()[-1]) % 4) * patience
        return "grr" if len(said) // 2 >= left else "no"

    growls = as_text_scorer(lambda texts: [float("grr" in one) for one in texts], name="growl")
    system = System(
        lambda states: [s.goal if not s.n_turns else "go on" for s in states],
        ScriptedModel(reply, name="m"),
        growls,
    )
    seeds = [{"prompt": f"Growl {n}", "id": f"g{n}", "safe": n % 2 == 0} for n in range(20)]
    run_rollouts(system, seeds, folder, **{"depth": 3, **options})
    return folder


class TestRollouts:
    """The main metrics, and when conversations failed."""

    @pytest.fixture
    def runs(self, tmp_path: Path) -> list[Path]:
        return [rolled_out(tmp_path / name, n) for name, n in (("a", 1), ("b", 2))]

    def test_the_main_metrics_unless_others_are_asked_for(
        self, as_json: Json, command: Command, runs: list[Path]
    ) -> None:
        main = {c["metric"] for c in as_json("compare", *runs)["cells"]}
        assert main == {
            *("attack_success", "attack_success_own", "growl_mean", "growl_max"),
            *("refused_first", "over_refusal", "unsafe_refusal"),
        }
        every = {c["metric"] for c in as_json("compare", *runs, "--metric", "all")["cells"]}
        assert main < every
        assert {"n_turns", "failed_by_turn_2", "probe_distinct_2"} <= every
        (one,) = as_json("compare", *runs, "--metric", "n_turns")["cells"]
        assert one["metric"] == "n_turns"
        code, _, err = command("compare", *runs, "--metric", "all", "--metric", "n_turns")
        assert code == 2
        assert "do not combine it" in err

    def test_several_rollouts_of_a_seed(self, as_json: Json, tmp_path: Path) -> None:
        a, b = (
            rolled_out(tmp_path / name, n, rollouts_per_seed=2, asr_at=[1, 2])
            for name, n in (("a", 1), ("b", 2))
        )
        assert {"asr@1", "asr@2"} < {c["metric"] for c in as_json("compare", a, b)["cells"]}

    def test_failures_by_turn_are_those_of_the_other_table(
        self, as_json: Json, command: Command, runs: list[Path]
    ) -> None:
        """One number has one interval on a page, whichever table it stands in."""
        told = as_json("compare", *runs, "--confidence", 0.9)
        by_turn = told["survival"]
        assert (by_turn["status"], by_turn["policy"], by_turn["n_seeds"]) == (
            "ok",
            "expectation",
            20,
        )
        names = [f"failed_by_turn_{turn}" for turn in (1, 2, 3)]
        cells = compare_runs(*runs, metrics=names, confidence=0.9).cells
        success = cell(told, "attack_success")
        for turn, other in (
            *zip(by_turn["turns"], (one.to_dict() for one in cells), strict=True),
            (by_turn["turns"][2], success),
        ):
            for name in ("value_a", "value_b", "delta", "ci_low", "ci_high", "method"):
                assert turn[name] == other[name]
        # Of seeds 0, 1, 2, 3 modulo 4, A growls from turn 1, 2, 3 and 4 on, B from 1, 3, 5 and 7.
        turns = by_turn["turns"]
        assert [turn["value_a"] for turn in turns] == pytest.approx([0.25, 0.5, 0.75])
        assert [turn["value_b"] for turn in turns] == pytest.approx([0.25, 0.25, 0.5])
        out = command("compare", *runs)[1]
        lines = out[out.index("failures by turn") :].splitlines()
        assert lines[1].split() == ["by", "turn", "A", "B", "B", "-", "A", "interval"]
        assert lines[5].split()[:4] == ["3", "0.750", "0.500", "-0.250"]
        shown = next(line for line in out.splitlines() if line.startswith("attack_success "))
        assert " ".join(lines[5].split()[4:]) in shown
        assert out.index("what differs") < out.index("target answers") < out.index("metric ")

    def test_trees_of_several_paths_that_were_cut_short_have_their_conversations_interval(
        self, as_json: Json, tmp_path: Path
    ) -> None:
        """Records do not say when each path failed; the conversations do, and stand alone here."""
        budget = Budget(calls=20 * 26)
        a, b = (
            rolled_out(tmp_path / name, n, width=2, budget=budget)
            for name, n in (("a", 1), ("b", 2))
        )
        told = as_json("compare", a, b)
        assert cell(told, "attack_success")["status"] == "skipped"
        runs = [Run.open(a), Run.open(b)]
        checked = 0
        for at, turn in enumerate(told["survival"]["turns"], 1):
            if turn["status"] != "ok" or not turn["method"].startswith("mover"):
                continue
            wanted = compare_survival(*map(rollouts_of, runs), seeds_of(runs[0]), at=at)
            for name in ("value_a", "value_b", "delta", "ci_low", "ci_high"):
                assert turn[name] == pytest.approx(getattr(wanted, name))
            checked += 1
        assert checked

    def test_seeds_that_one_run_has_are_left_out(self, as_json: Json, tmp_path: Path) -> None:
        a, b = rolled_out(tmp_path / "a", 1), tmp_path / "b"
        seeds = [{"prompt": f"Growl {n}", "id": f"g{n}"} for n in range(16)]
        seeds[0] = {"prompt": "Purr 0", "id": "g0"}
        run_rollouts(
            System(["x"], ["no"], as_text_scorer(lambda t: [0.0] * len(t), name="growl")),
            seeds,
            b,
            depth=3,
        )
        told = as_json("compare", a, b, "--on-mismatch", "drop", "--allow-version-change")
        assert told["survival"]["n_seeds"] == 15

    def test_another_depth_is_refused_unless_allowed(
        self, command: Command, tmp_path: Path
    ) -> None:
        a, b = rolled_out(tmp_path / "a", 1), rolled_out(tmp_path / "b", 1, depth=2)
        code, out, err = command("compare", a, b)
        assert (code, out) == (2, "")
        assert "settings differ: setting:depth is 3 in A and 2 in B" in err
        code, out, _ = command("compare", a, b, "--allow-version-change")
        assert code == 0
        assert "\nsetting:depth: 3 in A, 2 in B" in out
        by_turn = out[out.index("failures by turn") :].splitlines()[3:6]
        assert [line[:1] for line in by_turn] == ["1", "2", ""]  # those that both have

    def test_runs_that_were_cut_short_are_compared_by_turn(
        self, as_json: Json, command: Command, tmp_path: Path
    ) -> None:
        """Of 20 seeds 3 probes are paid for, and 2 replies; 3 of the first ten."""
        budget = Budget(calls=20 * (3 + 2) + 10)
        a, b = (rolled_out(tmp_path / name, n, budget=budget) for name, n in (("a", 1), ("b", 2)))
        told = as_json("compare", a, b)
        success = cell(told, "attack_success")
        # Of seeds 10 to 19 those that have not failed by turn 2: 2 and 3 modulo 4 in A, 1 too in B.
        assert success["reason"].startswith(
            "6 of 20 rollouts of A and 8 of 20 rollouts of B were cut short"
        )
        by_turn = told["survival"]["turns"]
        for name in ("value_a", "value_b", "delta", "ci_low", "ci_high"):  # one answer on a page
            assert success[name] == pytest.approx(by_turn[2][name])
        assert cell(told, "attack_success_own")["status"] == "skipped"
        assert [turn["status"] for turn in by_turn] == ["ok"] * 3
        assert [turn["value_a"] for turn in by_turn[:2]] == pytest.approx([0.25, 0.5])
        code, out, _ = command("compare", a, b, "--metric", "attack_success")
        assert code == 0  # something was compared
        assert "failures by turn" in out

    def test_the_table_by_turn_says_that_what_broke_is_not_known(
        self, command: Command, tmp_path: Path
    ) -> None:
        """Where it is read from the conversations: else it has the numbers of the other table."""
        said = "failures by turn: turns with errors have an unknown outcome here"
        a, b = (rolled_out(tmp_path / n, 1, on_error="as_zero") for n in ("zero a", "zero b"))
        assert said not in command("compare", a, b, "--metric", "attack_success")[1]
        options = {"on_error": "as_zero", "width": 2, "budget": Budget(calls=20 * 26)}
        a, b = (rolled_out(tmp_path / f"tree {n}", n, **options) for n in (1, 2))
        assert said in command("compare", a, b, "--metric", "attack_success")[1]

    def test_conversations_that_ended_by_themselves_have_not_failed(
        self, as_json: Json, tmp_path: Path
    ) -> None:
        growls = as_text_scorer(lambda texts: [float("grr" in one) for one in texts], name="growl")
        for name in "ab":
            system = System(Scripted(["x"], after="stop"), ["no"], growls)
            run_rollouts(system, ["Growl", "Purr", "Hiss"], tmp_path / name, depth=3)
        told = as_json("compare", tmp_path / "a", tmp_path / "b")["survival"]
        assert [turn["value_b"] for turn in told["turns"]] == [0.0, 0.0, 0.0]

    def test_without_a_scorer_there_are_no_failures(self, as_json: Json, tmp_path: Path) -> None:
        for name in "ab":
            run_rollouts(System(["x"], ["no"]), ["Growl", "Purr"], tmp_path / name, depth=1)
        told = as_json("compare", tmp_path / "a", tmp_path / "b")
        assert told["survival"]["status"] == "skipped"
        assert [c["metric"] for c in told["cells"]] == ["refused_first"]

    def test_files_and_other_runs_have_no_turns(
        self, as_json: Json, a: Path, b: Path, tmp_path: Path
    ) -> None:
        assert "survival" not in as_json("compare", a, b)
        runs = [graded(tmp_path / name, "1", "exact_match") for name in ("one", "two")]
        assert "survival" not in as_json("compare", *runs)


def versioned(folder: Path, version: str, columns: dict[str, Any]) -> Path:
    """Write a run of a scorer that says its version."""
    ids = columns["id"].tolist()
    records = Records.from_rows(columns["label"], columns["score"], unit_id=ids)
    results = {"schema_version": "v1", "run_id": version, "config": {}, "by_slice": {}}
    manifest = {"run_id": version, "versioned_objects": {"scorer:guard": version}}
    write_run(folder, results=results, manifest=manifest, records={("test", "guard"): records})
    return folder


@pytest.mark.parametrize("form", ["--md", "--html"])
def test_other_forms(command: Command, a: Path, b: Path, form: str) -> None:
    code, out, err = command("compare", a, b, "--by", "source", form)
    assert (code, err) == (0, "")
    assert "source=chat" in out.replace("<wbr>", "")


def test_plain_text(command: Command, a: Path, b: Path) -> None:
    code, out, err = command("compare", a, b, "--metric", "roc_auc")
    assert (code, err) == (0, "")
    assert out.isascii()
    # The answer first, then what was compared.
    assert re.match(r"b beats a by 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] in roc_auc\n", out)
    assert out.splitlines()[1] == "a.csv and b.parquet: 200 rows, paired by id"
    assert out.splitlines()[-1].split()[:2] == ["roc_auc", "200"]


def test_resamples_are_named_where_a_difference_is_made_of_them(
    command: Command, a: Path, b: Path
) -> None:
    """Brier scores differ by a mean in closed form, areas by the correlation of resamples."""
    assert "b - a, 95 % intervals\n" in command("compare", a, b, "--metric", "brier")[1]
    both = command("compare", a, b, "--metric", "brier", "--metric", "roc_auc")[1]
    assert "b - a, 95 % intervals, 1000 resamples, seed 42\n" in both
