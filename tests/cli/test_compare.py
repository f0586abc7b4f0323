"""``eval-toolkit compare``: pairing in any order, differences of the library, Holm over slices."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit import _tables
from eval_toolkit import metric_specs as ms
from eval_toolkit.inference import correct_p_values, paired_bootstrap_diff

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def part(columns: dict[str, Any], rows: Any, score: str = "score") -> dict[str, Any]:
    """Some rows of a file with one column of scores."""
    kept = {name: columns[name][rows] for name in ("id", "label", "source", "author")}
    return {**kept, "score": columns[score][rows]}


@pytest.fixture
def a(columns: dict[str, Any], tmp_path: Path) -> Path:
    return _tables.write_table(part(columns, np.arange(200)), tmp_path / "a.csv")


@pytest.fixture
def b(columns: dict[str, Any], tmp_path: Path) -> Path:
    """The better scorer, in another order and another format."""
    order = np.random.default_rng(5).permutation(200)
    return _tables.write_table(part(columns, order, "better"), tmp_path / "b.parquet")


def cell(payload: Any, metric: str, slice_: str = "all") -> Any:
    (found,) = [c for c in payload["cells"] if (c["slice"], c["metric"]) == (slice_, metric)]
    return found


class TestNumbers:
    def test_the_difference_is_the_library_s(
        self, as_json: Json, a: Path, b: Path, columns: dict[str, Any]
    ) -> None:
        payload = as_json("compare", a, b, "--seed", 7, "--resamples", 300, "--group", "author")
        diff = paired_bootstrap_diff(
            columns["label"],
            columns["score"],
            columns["better"],
            ms.roc_auc,
            groups=columns["author"],
            n_resamples=300,
            seed=7,
        )
        got = cell(payload, "roc_auc")
        for name in ("delta", "ci_low", "ci_high", "p_value", "value_a", "value_b"):
            assert got[name] == pytest.approx(getattr(diff, name), abs=1e-12)
        assert got["verdict"] == "better"
        assert got["n_groups"] == 40
        assert cell(payload, "brier")["delta"] < 0.0
        assert cell(payload, "brier")["higher_is_better"] is False

    def test_holm_is_over_the_slices_alone(self, as_json: Json, a: Path, b: Path) -> None:
        payload = as_json("compare", a, b, "--by", "source", "--metric", "roc_auc")
        slices = [f"source={name}" for name in ("chat", "mail", "web")]
        assert [c["slice"] for c in payload["cells"]] == ["all", *slices]
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
        assert cell(payload, "roc_auc")["verdict"] == "no clear difference"

    def test_scores_that_are_no_probabilities(
        self, as_json: Json, a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        logits = part({**columns, "better": 9.0 * columns["better"]}, np.arange(200), "better")
        payload = as_json("compare", a, _tables.write_table(logits, tmp_path / "logits.csv"))
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
        fewer = _tables.write_table(part(columns, np.arange(20, 150)), tmp_path / "few.csv")
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
            files.append(_tables.write_table(table, tmp_path / f"{name}.csv"))
        code, out, _ = command("compare", *files)
        assert code == 0
        assert "200 rows, paired on the order of the rows: there is no id column in both" in out

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
        other = _tables.write_table(flipped, tmp_path / "flipped.csv")
        assert f"{other}: row 10: the label of id 'r0009' differs" in refused(a, other)

    def test_nothing_in_common(
        self, refused: Callable[..., str], a: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        table = part(columns, np.arange(200))
        table["id"] = np.array([f"x{i}" for i in range(200)], dtype=object)
        other = _tables.write_table(table, tmp_path / "x.csv")
        assert "a.csv and x.csv have no 'id' in common" in refused(a, other)

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

    def test_duplicate_ids(self, refused: Callable[..., str], a: Path, tmp_path: Path) -> None:
        twice = tmp_path / "twice.csv"
        text = a.read_text()
        twice.write_text(text + text.splitlines()[1] + "\n")
        assert f"{twice}: row 201: 'id' is 'r0000' like {twice}: row 1" in refused(a, twice)

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
        assert "compare two files or the folders of two runs" in refused(a, tmp_path)

    def test_no_run(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert f"{tmp_path}: not a run" in refused(tmp_path, tmp_path)

    @pytest.mark.parametrize("args", [[], ["a.csv"], ["a.csv", "b.csv", "c.csv"]])
    def test_one_or_three(self, command: Command, args: list[str]) -> None:
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
        parts = as_json("score", runs[0], "--by", "source", "--metric", "roc_auc")["by_slice"]
        web = [parts[name]["by_scorer"] for name in ("all/source=web", "source=web")]
        assert web[0] == web[1]

    def test_options_of_files_are_refused(self, command: Command, runs: list[Path]) -> None:
        for args in (("compare", *runs), ("score", runs[0])):
            code, out, err = command(*args, "--label", "y")
            assert (code, out) == (2, "")
            assert err.count("\n") == 1

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

    def test_saving_needs_an_identity(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "p.csv"
        path.write_text("label,score\n0,0.1\n1,0.9\n")
        code, out, err = command("score", path, "--save", tmp_path / "run")
        assert (code, out) == (2, "")
        assert "a row's number is no identity" in err
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("form", ["--md", "--html"])
def test_other_forms(command: Command, a: Path, b: Path, form: str) -> None:
    code, out, err = command("compare", a, b, "--by", "source", form)
    assert (code, err) == (0, "")
    assert "source=chat" in out


def test_plain_text(command: Command, a: Path, b: Path) -> None:
    code, out, err = command("compare", a, b, "--metric", "roc_auc")
    assert (code, err) == (0, "")
    assert out.isascii()
    assert out.startswith("A is a.csv, B is b.parquet: 200 rows, paired on id\n")
    assert out.splitlines()[-1].split()[:2] == ["roc_auc", "200"]
