"""Bad input: one line that names the file, the row and the remedy; exit 2; nothing written."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]

ROWS = "id,label,score,lang\na,0,0.1,de\nb,1,0.8,de\nc,1,0.6,en\n"


@pytest.fixture
def refused(command: Command, tmp_path: Path) -> Callable[..., str]:
    """Run a command that must refuse: return its one line."""

    def run(*args: object) -> str:
        target = tmp_path / "written.json"
        code, out, err = command(*args, "--out", target)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert err.startswith("error: ")
        assert not target.exists()
        return err

    return run


def csv(folder: Path, text: str, name: str = "p.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestFiles:
    def test_absent(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert f"{tmp_path / 'no.csv'}: no such file" in refused("score", tmp_path / "no.csv")
        csv(tmp_path, ROWS, "predictions.csv")
        err = refused("score", tmp_path / "prediction.csv")
        assert err.endswith("prediction.csv: no such file; did you mean predictions.csv?\n")

    def test_no_match(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert "no*.csv: no file matches" in refused("score", tmp_path / "no*.csv")

    def test_empty(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert "p.csv: the file is empty (0 bytes)" in refused("score", csv(tmp_path, ""))

    def test_header_only(self, refused: Callable[..., str], tmp_path: Path) -> None:
        err = refused("score", csv(tmp_path, "label,score\n"))
        assert "p.csv: the file has no rows below the column names" in err

    def test_truncated_gzip(self, refused: Callable[..., str], tmp_path: Path) -> None:
        path = tmp_path / "p.csv.gz"
        data = gzip.compress((ROWS + "d,0,0.3,en\n" * 5000).encode())
        path.write_bytes(data[: len(data) // 2])
        assert "p.csv.gz" in refused("score", path)

    @pytest.mark.parametrize("name", ["p.parquet", "p.json", "p.jsonl", "p.csv.gz", "p.csv"])
    def test_binary_junk(self, refused: Callable[..., str], tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(bytes(range(256)) * 20)
        assert name in refused("score", path)

    def test_unknown_format(self, refused: Callable[..., str], tmp_path: Path) -> None:
        err = refused("score", csv(tmp_path, ROWS, "p.xls"))
        assert "cannot infer the format from the name" in err

    def test_a_folder(self, refused: Callable[..., str], tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        assert "folder" in refused("score", folder)

    def test_the_second_file_is_named(self, refused: Callable[..., str], tmp_path: Path) -> None:
        one = csv(tmp_path, ROWS)
        two = csv(tmp_path, "id,label,score,lang\nd,5,0.3,de\n", "q.csv")
        assert f"{two}: row 1: 'label' is 5" in refused("score", one, two)

    @pytest.mark.parametrize("name", ["p.csv", "sub/../p.csv", "link.csv"])
    def test_the_output_is_no_input(self, command: Command, tmp_path: Path, name: str) -> None:
        path = csv(tmp_path, ROWS)
        (tmp_path / "sub").mkdir()
        (tmp_path / "link.csv").symlink_to(path)
        code, out, err = command("score", path, "--out", tmp_path / name)
        assert (code, out) == (2, "")
        assert f"{tmp_path / name}: --out would overwrite {path}; choose another name" in err
        assert path.read_text() == ROWS

    def test_a_page_that_cannot_be_written_leaves_no_run(
        self, command: Command, tmp_path: Path
    ) -> None:
        blocker = csv(tmp_path, "", "blocker")
        options = ("--save", tmp_path / "run", "--out", blocker / "r.json")
        code, out, err = command("score", csv(tmp_path, ROWS), *options)
        assert (code, out) == (2, "")
        assert "cannot write" in err
        assert not (tmp_path / "run").exists()

    def test_a_run_that_cannot_be_written_leaves_no_page(
        self, command: Command, tmp_path: Path
    ) -> None:
        page = csv(tmp_path, "before", "page.json")
        blocker = csv(tmp_path, "", "blocker")
        options = ("--save", blocker, "--out", page)
        assert command("score", csv(tmp_path, ROWS), *options)[0] == 2
        assert page.read_text() == "before"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["blocker", "p.csv", "page.json"]

    def test_the_page_is_no_part_of_the_run(self, command: Command, tmp_path: Path) -> None:
        folder = tmp_path / "run"
        options = ("--save", folder, "--out", folder / "manifest.json")
        code, _, err = command("score", csv(tmp_path, ROWS), *options)
        assert code == 2
        assert f"--out would overwrite {folder}" in err
        assert not folder.exists()

    def test_unwritable_target(self, command: Command, tmp_path: Path) -> None:
        blocker = csv(tmp_path, "", "blocker")
        code, out, err = command("score", csv(tmp_path, ROWS), "--out", blocker / "r.json")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "cannot write" in err


class TestColumns:
    def test_no_label_column(self, refused: Callable[..., str], tmp_path: Path) -> None:
        err = refused("score", csv(tmp_path, "kept,score\n0,0.1\n"))
        assert "none of the columns label, y_true, y, target exists" in err
        assert "specify the column with --label" in err
        assert "'kept', 'score'" in err
        err = refused("score", csv(tmp_path, "kept,score\n0,0.1\n1,0.3\n1,0.2\n"))
        assert "pass --label kept; the columns are" in err

    def test_percentages_are_suggested_as_scores(
        self, refused: Callable[..., str], tmp_path: Path
    ) -> None:
        rows = "".join(f"mail {n};{n % 2};{n},5 %;{n * 3}\n" for n in range(9))
        err = refused("score", csv(tmp_path, f"text;label;Spam-Wahrscheinlichkeit;len\n{rows}"))
        assert "pass --score Spam-Wahrscheinlichkeit; the columns are" in err

    def test_two_columns_may_be_meant(self, refused: Callable[..., str], tmp_path: Path) -> None:
        path = csv(tmp_path, "label,target,score,prob\n0,1,0.1,0.2\n")
        err = refused("score", path)
        assert "the labels may be in 'label' or 'target'; pass --label label or" in err
        err = refused("score", path, "--label", "label")
        assert "in 'score' or 'prob'; pass --score score or --score prob" in err

    @pytest.mark.parametrize("option", ["--label", "--score", "--by", "--group", "--id"])
    def test_a_named_column_is_missing(
        self, refused: Callable[..., str], tmp_path: Path, option: str
    ) -> None:
        err = refused("score", csv(tmp_path, ROWS), option, "nope")
        assert f"p.csv: there is no column 'nope' ({option})" in err
        assert "'id', 'label', 'score', 'lang'" in err

    @pytest.mark.parametrize("option", ["--by", "--group", "--id"])
    def test_the_score_has_one_role(
        self, refused: Callable[..., str], tmp_path: Path, option: str
    ) -> None:
        err = refused("score", csv(tmp_path, ROWS), option, "score")
        assert "p.csv: 'score' is the score, and cannot also be a slice, group or id" in err

    def test_too_many_slices(self, refused: Callable[..., str], tmp_path: Path) -> None:
        rows = "".join(f"{i % 2},0.5,k{i}\n" for i in range(1001))
        err = refused("score", csv(tmp_path, "label,score,key\n" + rows), "--by", "key")
        assert "--by key has 1001 different values; at most 1000" in err


class TestCells:
    @pytest.mark.parametrize("cell", ["abc", "50%", "inf"])
    def test_a_score_that_is_no_number(
        self, refused: Callable[..., str], tmp_path: Path, cell: str
    ) -> None:
        err = refused("score", csv(tmp_path, f"label,score\n0,0.1\n1,{cell}\n"))
        assert "p.csv: row 2: 'score' is " in err
        assert "it must be a finite number" in err

    def test_in_json_too(self, refused: Callable[..., str], tmp_path: Path) -> None:
        rows = '{"label": 0, "score": 0.1}\n{"label": 1, "score": "high"}\n'
        err = refused("score", csv(tmp_path, rows, "p.jsonl"))
        assert "p.jsonl: row 2: 'score' is 'high'; it must be a finite number" in err

    def test_words_for_labels_without_a_map(
        self, refused: Callable[..., str], tmp_path: Path
    ) -> None:
        err = refused("score", csv(tmp_path, "label,score\ncat,0.1\ndog,0.9\n"))
        assert "p.csv: row 1: 'label' is 'cat'; labels must be 0 or 1" in err
        assert err.endswith(": pass --labels cat,dog, the positive one last\n")
        err = refused("score", csv(tmp_path, "label,score\nham,0.1\nspam,0.9\nfish,0.5\n"))
        assert "pass --labels NEGATIVE,POSITIVE, or --positive LABEL" in err
        assert err.endswith("the labels are 'fish', 'ham', 'spam'\n")

    def test_a_label_the_map_does_not_know(
        self, refused: Callable[..., str], tmp_path: Path
    ) -> None:
        path = csv(tmp_path, "label,score\nham,0.1\nspam,0.9\nmaybe,0.5\n")
        err = refused("score", path, "--labels", "ham,spam")
        assert "row 3: 'label' is 'maybe', which is none of the labels ('ham', 'spam')\n" in err

    def test_no_row_is_positive(self, refused: Callable[..., str], tmp_path: Path) -> None:
        path = csv(tmp_path, "label,score\nham,0.1\nspam,0.9\n")
        err = refused("score", path, "--positive", "SPAM")
        assert "'label' is never 'SPAM'; the labels are 'ham', 'spam'" in err

    @pytest.mark.parametrize("pair", ["ham", "ham,", "a,b,c", "x,x"])
    def test_a_map_that_is_none(
        self, refused: Callable[..., str], tmp_path: Path, pair: str
    ) -> None:
        err = refused("score", csv(tmp_path, ROWS), "--labels", pair)
        assert "as in --labels ham,spam" in err

    def test_two_maps_that_disagree(self, refused: Callable[..., str], tmp_path: Path) -> None:
        err = refused("score", csv(tmp_path, ROWS), "--labels", "a,b", "--positive", "a")
        assert "pass only one" in err

    @pytest.mark.parametrize(("cell", "shown"), [("2", "2"), ("0.7", "0.7"), ("-1", "-1")])
    def test_other_numbers_for_labels(
        self, refused: Callable[..., str], tmp_path: Path, cell: str, shown: str
    ) -> None:
        err = refused("score", csv(tmp_path, f"label,score\n0,0.1\n{cell},0.9\n"))
        assert f"p.csv: row 2: 'label' is {shown}; labels must be 0 or 1" in err

    @pytest.mark.parametrize(
        ("row", "column"), [(",0.9", "label"), ("1,", "score"), ("1,NA", "score")]
    )
    def test_a_missing_value(
        self, refused: Callable[..., str], tmp_path: Path, row: str, column: str
    ) -> None:
        err = refused("score", csv(tmp_path, f"label,score\n0,0.1\n{row}\n"))
        assert f"p.csv: row 2: '{column}' is missing; " in err
        assert "pass --drop-missing to leave out such rows" in err

    @pytest.mark.parametrize("options", [["--id", "id"], []])
    def test_duplicate_ids(
        self, refused: Callable[..., str], tmp_path: Path, options: list[str]
    ) -> None:
        path = csv(tmp_path, ROWS + "b,0,0.3,en\n")
        err = refused("score", path, *options)
        assert f"{path}: row 4: 'id' is 'b', as in {path}: row 2; ids must be unique" in err
        assert "pass --no-id" in err

    def test_two_systems_are_not_one_table(
        self, refused: Callable[..., str], tmp_path: Path
    ) -> None:
        rows = "mail-id,label,score\na,0,0.1\nb,1,0.8\nc,1,0.7\n"
        paths = [csv(tmp_path, rows, name) for name in ("one.csv", "two.csv")]
        err = refused("score", *paths)
        assert f"{paths[1]}: row 1: 'mail-id' is 'a', as in {paths[0]}: row 1" in err
        assert err.endswith(f", or compare the files: compare {paths[0]} {paths[1]}\n")

    def test_a_file_twice(self, refused: Callable[..., str], tmp_path: Path) -> None:
        path = csv(tmp_path, ROWS)
        assert f"{path}: row 1: 'id' is 'a', as in {path}: row 1" in refused("score", path, path)

    def test_a_missing_usual_id(self, refused: Callable[..., str], tmp_path: Path) -> None:
        err = refused("score", csv(tmp_path, ROWS + ",0,0.3,en\n"))
        assert "row 4: 'id' is missing; every row needs its id, or pass --no-id" in err

    def test_a_value_named_like_the_missing_ones(
        self, refused: Callable[..., str], tmp_path: Path
    ) -> None:
        rows = "label,score,g\n0,0.1,\n1,0.8,(missing)\n"
        err = refused("score", csv(tmp_path, rows), "--by", "g")
        assert "p.csv: row 2: 'g' is '(missing)', which is reserved for missing values" in err

    def test_quotes_name_the_option(self, refused: Callable[..., str], tmp_path: Path) -> None:
        err = refused("score", csv(tmp_path, 'label,score,t\n0,0.1,"x\n1,0.8,y\n'))
        assert "--no-quoting treats quotes as ordinary characters" in err

    @pytest.mark.parametrize(("option", "what"), [("--id", "id"), ("--group", "group")])
    def test_a_missing_key(
        self, refused: Callable[..., str], tmp_path: Path, option: str, what: str
    ) -> None:
        path = csv(tmp_path, "key,label,score\na,0,0.1\n,1,0.8\n")
        err = refused("score", path, option, "key")
        assert f"row 2: 'key' is missing; every row needs its {what}" in err

    def test_too_many_cells(self, refused: Callable[..., str], tmp_path: Path) -> None:
        assert "p.csv" in refused("score", csv(tmp_path, "label,score\n0,0.1\n1,0.8,9,9\n"))


class TestNames:
    @pytest.mark.parametrize(
        ("metric", "hint"),
        [
            ("roc_acu", "did you mean roc_auc"),
            ("zzz", "choose from pr_auc, roc_auc"),
            ("f1@fpr=0.1", "'fpr=0.1' is not a number; write f1@0.5"),
            ("roc_auc=0.1", "write roc_auc or roc_auc@fpr=0.01"),
            ("recall_at_fpr=low", "'low' is not a number"),
            ("recall_at_fpr=7", "it must lie in [0, 1]"),
            ("ece=2.5", "the number of bins must be an integer"),
            ("ece=1e12", "at most 10000"),
            ("ece=inf", "'inf' is not a finite number"),
            ("ece=nan", "'nan' is not a finite number"),
            ("f1=inf", "'inf' is not a finite number"),
        ],
    )
    def test_metric(
        self, refused: Callable[..., str], tmp_path: Path, metric: str, hint: str
    ) -> None:
        assert hint in refused("score", csv(tmp_path, ROWS), "--metric", metric)

    @pytest.mark.parametrize(
        ("rule", "hint"),
        [
            ("best", "choose one of max-f1, youden-j, recall=X"),
            ("recall", "needs a target, as in --select recall=0.9"),
            ("fpr=x", "'x' is not a number"),
            ("precision=0.999", "no threshold reaches precision"),
        ],
    )
    def test_selector(
        self, refused: Callable[..., str], tmp_path: Path, rule: str, hint: str
    ) -> None:
        val = csv(tmp_path, "label,score\n1,0.1\n0,0.9\n1,0.8\n", "val.csv")
        args = ("--threshold-from", val, "--select", rule)
        assert hint in refused("score", csv(tmp_path, ROWS), *args)

    def test_one_class_to_choose_on(self, refused: Callable[..., str], tmp_path: Path) -> None:
        val = csv(tmp_path, "label,score\n0,0.1\n0,0.9\n", "val.csv")
        assert "val.csv: " in refused("score", csv(tmp_path, ROWS), "--threshold-from", val)
