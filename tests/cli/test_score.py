"""``eval-toolkit score``: what it prints is what the library computes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import columns_of

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit import scorecard
from eval_toolkit._internal import tables
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.thresholds import TargetFPRSelector

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def cells(payload: Any, part: str = "all", scorer: str = "score") -> Any:
    (entry,) = payload["by_slice"].values()
    return (entry if part == "all" else entry["parts"][part])["by_scorer"][scorer]


def places(payload: Any) -> list[str]:
    """The slice and then its parts."""
    ((name, entry),) = payload["by_slice"].items()
    return [name, *entry.get("parts", {})]


class TestNumbers:
    def test_the_cells_are_those_of_the_scorecard(
        self, as_json: Json, preds: Path, columns: dict[str, Any]
    ) -> None:
        block = cells(as_json("score", preds))
        card = scorecard(
            columns["label"],
            columns["score"],
            metrics=[ms.pr_auc, ms.roc_auc, ms.brier, ms.log_loss],
            seed=42,
        )
        assert {name: block[name] for name in card} == card.to_dict()
        assert block["n"] == 200
        assert block["n_positive"] == int(columns["label"].sum())
        assert block["is_single_class"] is False

    def test_options_reach_the_scorecard(
        self, as_json: Json, preds: Path, columns: dict[str, Any]
    ) -> None:
        payload = as_json(
            *("score", preds, "--score", "better", "--group", "author", "--metric", "roc_auc"),
            *("--metric", "recall_at_fpr=0.1", "--confidence", "0.9", "--resamples", "300"),
            *("--seed", "7", "--method", "percentile"),
        )
        card = scorecard(
            columns["label"],
            columns["better"],
            metrics=[ms.roc_auc, ms.recall_at_fpr(0.1)],
            groups=columns["author"],
            confidence=0.9,
            n_resamples=300,
            seed=7,
            method="percentile",
        )
        block = cells(payload, scorer="better")
        assert {name: block[name] for name in card} == card.to_dict()
        assert block["roc_auc"]["n_groups"] == 40

    def test_slices(self, as_json: Json, preds: Path, columns: dict[str, Any]) -> None:
        payload = as_json("score", preds, "--by", "source", "--by", "label", "--metric", "roc_auc")
        names = ["all", "source=chat", "source=mail", "source=web", "label=0", "label=1"]
        assert places(payload) == names
        at = columns["source"] == "mail"
        card = scorecard(columns["label"][at], columns["score"][at], metrics=[ms.roc_auc], seed=42)
        assert cells(payload, "source=mail")["roc_auc"] == card["roc_auc"].to_dict()
        one_class = cells(payload, "label=0")["roc_auc"]
        assert (one_class["value"], one_class["status"]) == (None, "skipped")
        assert "negative" in one_class["reason"]

    def test_several_scorers(self, as_json: Json, preds: Path) -> None:
        payload = as_json("score", preds, "--score", "score", "--score", "better")
        by_scorer = payload["by_slice"]["all"]["by_scorer"]
        assert list(by_scorer) == ["score", "better"]
        assert by_scorer["better"]["roc_auc"]["value"] > by_scorer["score"]["roc_auc"]["value"]

    def test_the_order_of_rows_with_ids_does_not_matter(
        self, as_json: Json, preds: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        order = np.random.default_rng(0).permutation(200)
        shuffled = {name: column[order] for name, column in columns.items()}
        other = tables.write_table(shuffled, tmp_path / "shuffled.csv")
        args = ("--by", "source", "--group", "author", "--resamples", "200")
        one, two = (as_json("score", path, *args) for path in (preds, other))
        assert one["by_slice"] == two["by_slice"]

    def test_numeric_slices_sort_as_numbers(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "folds.csv"
        rows = [f"{i % 2},{i / 40},{10 - i % 11}" for i in range(40)]
        path.write_text("\n".join(["label,score,fold", *rows]) + "\n")
        names = places(as_json("score", path, "--by", "fold", "--resamples", "50"))
        assert names == ["all", *(f"fold={i}" for i in range(11))]

    def test_a_missing_slice_value_has_a_name(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "gaps.csv"
        path.write_text("label,score,lang\n0,0.1,de\n1,0.7,\n")
        names = places(as_json("score", path, "--by", "lang"))
        assert names == ["all", "lang=(missing)", "lang=de"]

    def test_parts_of_two_columns_are_never_one(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "odd.csv"
        path.write_text("label,score,a,a=b\n0,0.1,b=c,x\n1,0.8,d,c\n")
        payload = as_json("score", path, "--by", "a", "--by", "a=b")
        assert places(payload) == ["all", 'a="b=c"', "a=d", '"a=b"=c', '"a=b"=x']

    def test_payload_names_itself(self, as_json: Json, preds: Path) -> None:
        one, two = (as_json("score", preds, "--seed", seed) for seed in (1, 2))
        assert one["schema_version"] == "v1"
        assert one["run_id"].startswith("score-")
        assert one["run_id"] != two["run_id"]
        assert one["config"]["files"] == [str(preds)]


class TestThresholds:
    def test_given(self, as_json: Json, preds: Path, columns: dict[str, Any]) -> None:
        block = cells(as_json("score", preds, "--threshold", "0.6"))
        expected = scorecard(
            columns["label"], columns["score"], metrics=[op.op_f1(0.6), op.op_recall(0.6)], seed=42
        )
        assert {name: block[name] for name in expected} == expected.to_dict()
        assert {"op_precision_at_0.6", "op_fpr_at_0.6", "pr_auc"} < set(block)

    def test_chosen_on_other_rows(
        self, as_json: Json, preds: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        val = tmp_path / "val.csv"
        rows = range(0, 200, 2)
        tables.write_table({n: columns[n][list(rows)] for n in ("label", "score")}, val)
        payload = as_json(
            *("score", preds, "--threshold-from", val, "--select", "fpr=0.1", "--metric", "recall")
        )
        chosen = TargetFPRSelector(0.1).select(columns["label"][::2], columns["score"][::2])
        cell = cells(payload)["op_recall_at_fpr_0.10_fitted_on_val"]
        assert cell["details"]["threshold"] == chosen.threshold
        assert cell["details"]["n_fit"] == 100
        assert payload["config"]["thresholds"]["score"]["criterion"] == "fpr_0.10"

    @pytest.mark.parametrize(
        "rule", ["max-f1", "youden-j", "recall=0.9", "precision=0.5", "fpr=0.2", "safe-fpr=0.5"]
    )
    def test_every_rule(self, as_json: Json, preds: Path, tmp_path: Path, rule: str) -> None:
        val = tmp_path / "val.csv"
        val.write_text(preds.read_text().replace("\nr", "\nv"))
        payload = as_json("score", preds, "--threshold-from", val, "--select", rule)
        assert 0.0 < payload["config"]["thresholds"]["score"]["threshold"] < 1.0

    def test_rows_of_the_same_ids_are_not_other_rows(
        self, command: Command, preds: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        ids = columns["id"].copy()
        ids[:195] = [f"v{i}" for i in range(195)]
        overlapping = {**columns, "id": ids, "score": columns["better"]}
        val = tables.write_table(overlapping, tmp_path / "val.csv")
        code, out, err = command("score", preds, "--threshold-from", val)
        assert (code, out) == (2, "")
        assert f"{val}: row 196: a row with this id is also scored (5 such rows)" in err

    def test_rows_of_the_same_content_are_not_other_rows(
        self, command: Command, tmp_path: Path
    ) -> None:
        paths = []
        for name, odd in (("test", "h3"), ("val", "h3"), ("fine", "h9")):
            rows = [f"{i % 2},{i / 12},{name}{i}" for i in range(12)]
            rows[7] = f"1,0.5,{odd}"
            paths.append(tmp_path / f"{name}.csv")
            paths[-1].write_text("\n".join(["label,score,content_hash", *rows]) + "\n")
        code, out, err = command("score", paths[0], "--threshold-from", paths[1])
        assert (code, out) == (2, "")
        assert f"{paths[1]}: row 8: a row with this content_hash is also scored" in err
        _, out, _ = command("score", paths[0], "--threshold-from", paths[2])
        assert "chosen on 12 other rows, keyed by content_hash" in out

    def test_numbers_that_start_again_are_told_apart_by_hashes(
        self, as_json: Json, tmp_path: Path
    ) -> None:
        for name in ("test", "val"):
            rows = [f"{i},{i % 2},{i / 12},{name}{i}" for i in range(12)]
            text = "\n".join(["id,label,score,content_hash", *rows]) + "\n"
            (tmp_path / f"{name}.csv").write_text(text)
        args = ("score", tmp_path / "test.csv", "--threshold-from", tmp_path / "val.csv")
        chosen = as_json(*args)["config"]["thresholds"]["score"]
        assert (chosen["n_fit"], chosen["told_apart_by"]) == (12, "id")

    def test_rows_are_called_others_only_where_that_was_checked(
        self, command: Command, preds: Path, tmp_path: Path
    ) -> None:
        val = tmp_path / "val.csv"
        val.write_text(preds.read_text().replace("\nr", "\nv"))
        _, out, _ = command("score", preds, "--threshold-from", val)
        assert "chosen on 200 other rows, keyed by id)" in out
        for options in ([preds, "--threshold-from", val, "--no-id"], [preds, "--threshold-from"]):
            if len(options) == 2:
                val.write_text(val.read_text().replace("id,", "name,", 1))
                options.append(val)
            code, out, _ = command("score", *options)
            assert code == 0
            assert "chosen on 200 rows; without ids in both files, they may be" in out
            assert "other rows" not in out

    @pytest.mark.parametrize("rule", ["max-f1", "foo"])
    def test_a_rule_without_rows_to_choose_on(
        self, command: Command, preds: Path, rule: str
    ) -> None:
        code, out, err = command("score", preds, "--select", rule)
        assert (code, out) == (2, "")
        assert "--select and --threshold-from must be used together" in err

    def test_each_metric_may_have_its_own(self, as_json: Json, preds: Path) -> None:
        block = cells(as_json("score", preds, "--metric", "f1=0.3", "--metric", "f1=0.7"))
        assert {"op_f1_at_0.3", "op_f1_at_0.7"} < set(block)

    def test_never_on_the_scored_rows(self, command: Command, preds: Path) -> None:
        code, out, err = command("score", preds, "--threshold-from", preds)
        assert (code, out) == (2, "")
        assert "must be chosen on other rows" in err

    def test_a_run_takes_no_file_of_thresholds(
        self, command: Command, preds: Path, tmp_path: Path
    ) -> None:
        code, out, err = command("score", tmp_path, "--threshold-from", preds)
        assert (code, out) == (2, "")
        assert "--threshold-from reads files of predictions" in err

    def test_recall_at_a_rate_names_its_threshold(self, command: Command, tmp_path: Path) -> None:
        file = tmp_path / "preds.csv"
        rows = [f"{i},{int(i > 19 or i == 12)},{i / 40}\n" for i in range(40)]
        file.write_text("id,label,score\n" + "".join(rows))
        _, out, _ = command("score", file, "--metric", "recall@fpr=0")
        assert "recall_at_fpr_0 is reached at threshold 0.5 on these rows" in out
        assert "(false-positive rate 0)" in out

    def test_a_percentage_is_no_threshold_of_probabilities(
        self, command: Command, tmp_path: Path
    ) -> None:
        file = tmp_path / "preds.csv"
        file.write_text("id,label,score\n" + "".join(f"{i},{i % 2},{i}.5%\n" for i in range(40)))
        code, out, err = command("score", file, "--threshold", 50)
        assert (code, out) == (2, "")
        assert "--threshold is 50, but 'score' is read as probabilities" in err
        assert "pass 0.5" in err
        assert command("score", file, "--threshold", 0.5)[0] == 0

    def test_one_threshold_only(self, command: Command, preds: Path) -> None:
        code, _, err = command("score", preds, "--threshold", 0.5, "--threshold-from", "v.csv")
        assert code == 2
        assert "not both" in err


class TestIdentity:
    def test_the_usual_column_is_used_and_named(
        self, command: Command, as_json: Json, preds: Path
    ) -> None:
        assert as_json("score", preds)["config"]["id"] == "id"
        _, out, _ = command("score", preds)
        assert "positive, keyed by id; 95 % intervals" in out

    def test_unequal_groups_say_what_they_are_worth(self, command: Command, tmp_path: Path) -> None:
        """Kish: (Σn)²/Σn² is 100²/(82² + 18) for one group of 82 rows and 18 of one."""
        path = tmp_path / "p.csv"
        rows = [f"{i % 2},{(i % 7) / 7 + (i % 2) / 5},{max(0, i - 81)}" for i in range(100)]
        path.write_text("label,score,author\n" + "\n".join(rows) + "\n")
        _, out, _ = command("score", path, "--group", "author", "--metric", "brier")
        assert "100 rows in 19 groups (equivalent to 1.48 of equal size), 50 positive" in out

    def test_no_id_takes_rows_as_they_come(
        self, command: Command, as_json: Json, preds: Path
    ) -> None:
        payload = as_json("score", preds, preds, "--no-id")
        assert payload["config"]["id"] is None
        assert payload["by_slice"]["all"]["n"] == 400
        assert "told apart" not in command("score", preds, "--no-id")[1]

    def test_a_column_of_some_files_is_no_identity(self, as_json: Json, tmp_path: Path) -> None:
        one, two = tmp_path / "1.csv", tmp_path / "2.csv"
        one.write_text("id,label,score\na,0,0.1\na,1,0.2\n")
        two.write_text("label,score\n0,0.1\n1,0.2\n")
        assert as_json("score", one, two)["config"]["id"] is None

    def test_one_of_both(self, command: Command, preds: Path) -> None:
        code, _, err = command("score", preds, "--id", "id", "--no-id")
        assert code == 2
        assert "pass either --id or --no-id, not both" in err

    def test_saving_needs_one(self, command: Command, preds: Path, tmp_path: Path) -> None:
        code, _, err = command("score", preds, "--no-id", "--save", tmp_path / "r")
        assert code == 2
        assert "row numbers are not ids" in err


class TestOptions:
    def test_a_run_is_stored_already(self, command: Command, preds: Path, tmp_path: Path) -> None:
        run = tmp_path / "run"
        assert command("score", preds, "--save", run)[0] == 0
        for options in (("--save", tmp_path / "again"), ("--select", "max-f1"), ("--group", "g")):
            code, out, err = command("score", run, *options)
            assert (code, out) == (2, "")
            assert options[0] in err
        assert not (tmp_path / "again").exists()

    def test_overwriting_is_for_runs(self, command: Command, preds: Path) -> None:
        code, _, err = command("score", preds, "--overwrite")
        assert code == 2
        assert "--overwrite needs --save" in err

    @pytest.mark.parametrize("number", ["1", "49", "99999999999999999999"])
    def test_resamples_make_an_interval(self, command: Command, preds: Path, number: str) -> None:
        code, out, err = command("score", preds, "--resamples", number)
        assert (code, out) == (2, "")
        assert f"{number} is not in the range 50<=x<=1000000" in err

    def test_quotes_as_they_stand(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "q.csv"
        path.write_text('label,score,t\n0,0.1,"x\n1,0.8,y\n')
        assert as_json("score", path, "--no-quoting")["by_slice"]["all"]["n"] == 2

    def test_files_without_column_names(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "bare.csv"
        path.write_text("0,0.1\n1,0.8\n")
        payload = as_json("score", path, "--header", "label, score")
        assert payload["by_slice"]["all"]["n"] == 2

    def test_a_run_in_folds_says_that_rows_are_pooled(
        self, command: Command, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        records = Records.from_rows(
            columns["label"], columns["score"], unit_id=columns["id"].tolist()
        )
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        folds = {**results, "by_fold": {"0": {"by_slice": {}}}}
        for name, payload in (("folds", folds), ("whole", results)):
            write_run(
                tmp_path / name,
                results=payload,
                manifest={"run_id": "r"},
                records={("test", "guard"): records},
            )
        said = "run r; pooled out-of-fold rows, not means over folds; "
        assert command("score", tmp_path / "folds")[1].startswith(said)
        assert "pooled" not in command("score", tmp_path / "whole")[1]


class TestInput:
    @pytest.mark.parametrize(
        "name", ["p.csv", "p.tsv", "p.jsonl", "p.json", "p.parquet", "p.csv.gz", "p.jsonl.gz"]
    )
    def test_every_format_gives_the_same(
        self, as_json: Json, preds: Path, columns: dict[str, Any], tmp_path: Path, name: str
    ) -> None:
        path = tables.write_table(columns, tmp_path / name)
        args = ("--by", "source", "--id", "id", "--resamples", "50")
        assert (
            as_json("score", path, *args)["by_slice"]
            == (as_json("score", preds, *args)["by_slice"])
        )

    def test_globs_and_several_files(
        self, as_json: Json, preds: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        for part, at in enumerate((slice(0, 80), slice(80, 200))):
            tables.write_table(
                {name: column[at] for name, column in columns.items()},
                tmp_path / f"part{part}.csv",
            )
        whole = as_json("score", preds)["by_slice"]
        assert as_json("score", tmp_path / "part*.csv")["by_slice"] == whole
        files = (tmp_path / "part0.csv", tmp_path / "part1.csv")
        assert as_json("score", *files)["by_slice"] == whole

    @pytest.mark.parametrize("names", [("y_true", "y_score"), ("target", "prob"), ("y", "score")])
    def test_usual_names_are_found(
        self, as_json: Json, tmp_path: Path, names: tuple[str, str]
    ) -> None:
        path = tmp_path / "named.csv"
        path.write_text(f"{names[0]},{names[1]}\n0,0.1\n1,0.9\n")
        config = as_json("score", path)["config"]
        assert (config["label"], config["scores"]) == (names[0], [names[1]])

    @pytest.mark.parametrize(
        ("labels", "options"),
        [
            (("ham", "spam"), ["--labels", "ham,spam"]),
            (("ham", "spam"), ["--positive", "spam"]),
            (("-1", "1"), ["--labels=-1,1"]),
            (("1", "2"), ["--positive", "2.0"]),
            (("False", "True"), []),
            (("0.0", "1.0"), []),
        ],
    )
    def test_labels_of_other_kinds(
        self,
        as_json: Json,
        preds: Path,
        columns: dict[str, Any],
        tmp_path: Path,
        labels: tuple[str, str],
        options: list[str],
    ) -> None:
        words = np.array(labels, dtype=object)[columns["label"]]
        path = tables.write_table({**columns, "label": words}, tmp_path / "words.csv")
        got = as_json("score", path, *options, "--resamples", 50)["by_slice"]
        assert got == as_json("score", preds, "--resamples", 50)["by_slice"]

    def test_scores_need_not_be_probabilities(
        self, as_json: Json, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        logit = {**columns, "score": np.log(columns["score"] / (1.0 - columns["score"]))}
        block = cells(as_json("score", tables.write_table(logit, tmp_path / "logits.csv")))
        plain = scorecard(columns["label"], columns["score"], metrics=[ms.roc_auc], seed=42)
        assert block["roc_auc"] == plain["roc_auc"].to_dict()
        for name in ("brier", "log_loss"):
            assert (block[name]["status"], block[name]["value"]) == ("skipped", None)
            assert block[name]["reason"].startswith("needs probabilities, but the scores range")
            assert block[name]["n_units"] == 200

    def test_few_rows_say_so(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "few.csv"
        path.write_text("label,score\n0,0.1\n1,0.9\n")
        cell = cells(as_json("score", path))["roc_auc"]
        assert (cell["value"], cell["status"]) == (1.0, "ok")
        assert "ci" not in cell
        assert cell["reason"].startswith("no interval: 1 positive row")
        assert "an interval for roc_auc needs at least 3 of each class" in cell["reason"]


class _Cells(HTMLParser):
    """The texts of table cells, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class TestForms:
    def test_plain_text_when_piped(self, command: Command, preds: Path) -> None:
        code, out, err = command("score", preds, "--by", "source")
        assert (code, err) == (0, "")
        assert out.isascii()
        assert "\x1b" not in out
        lines = out.splitlines()
        assert lines[0].startswith("preds.csv: 200 rows, ")
        metrics = ["pr_auc", "roc_auc", "brier", "log_loss"]
        assert lines[2].split() == ["slice", "rows", "positive", *metrics]
        assert [line.split()[0] for line in lines[4:]] == ["all"] + [
            f"source={name}" for name in ("chat", "mail", "web")
        ]

    def test_one_slice_is_listed_by_metric(self, command: Command, preds: Path) -> None:
        _, out, _ = command("score", preds, "--metric", "roc_auc", "--metric", "brier")
        assert [line.split()[0] for line in out.splitlines()[2:]] == [
            "metric",
            "-------",
            "roc_auc",
            "brier",
        ]

    def test_reasons_stand_below_the_table(self, command: Command, preds: Path) -> None:
        _, out, _ = command("score", preds, "--by", "label", "--metric", "roc_auc")
        assert "roc_auc, label=0: skipped: roc_auc is undefined: all" in out

    def test_markdown(self, command: Command, preds: Path) -> None:
        code, out, _ = command("score", preds, "--by", "source", "--md")
        assert code == 0
        table = [line for line in out.splitlines() if line.startswith("|")]
        assert len(table) == 6
        assert len({line.count("|") for line in table}) == 1

    def test_html_is_one_escaped_page(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        nasty = "<script>alert(1)</script>"
        path.write_text(f"label,score,by\n0,0.1,{nasty}\n1,0.9,{nasty}\n")
        code, out, _ = command("score", path, "--by", "by", "--html")
        page = _Cells()
        page.feed(out)
        assert code == 0
        assert out.startswith("<!doctype html>")
        assert not {"script", "link", "img"} & set(page.tags)
        assert f'by="{nasty}"' in "".join(page.texts)
        assert "://" not in out
        assert "default-src &#x27;none&#x27;; script-src &#x27;none&#x27;" in out

    def test_html_shows_the_beginning_of_long_texts(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text(f"label,score,by\n0,0.1,{'x' * 100_000}\n1,0.9,{'x' * 100_000}\n")
        code, out, _ = command("score", path, "--by", "by", "--html")
        assert code == 0
        assert max(map(len, re.findall("x+", out))) < 2_001
        assert "100,003 characters, the first 2,000 are shown" in out

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("[a](javascript:x)", r"\[a\](javascript:x)"),
            ("![a](http://e.org/x.png)", r'"\!\[a\](http\://e.org/x.png)"'),
            ("[a][b]", r"\[a\]\[b]"),
            ("[a]: b", r'"\[a\]: b"'),
            ("`rm`", r"\`rm\`"),
            ("&lt;b&gt;", '"&amp;lt;b&amp;gt;"'),
            ("www.e.org", r"www\.e.org"),
            ("*a* ~~b~~ _c_ d_e", r'"\*a\* \~\~b\~\~ \_c\_ d_e"'),
        ],
    )
    def test_markdown_shows_names_as_they_are(
        self, command: Command, tmp_path: Path, name: str, shown: str
    ) -> None:
        path = tmp_path / "x.csv"
        path.write_text(f"label,score,by\n0,0.1,{name}\n1,0.9,{name}\n")
        _, out, _ = command("score", path, "--by", "by", "--md")
        assert f"| by={shown} | 2 |" in out

    def test_markdown_leads_are_no_headings(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "# x.csv"
        path.write_text("label,score\n0,0.1\n1,0.9\n")
        _, out, _ = command("score", path, "--md")
        assert "\n\\# x.csv: 2 rows" in out

    def test_intervals_stay_readable_in_markdown(self, command: Command, preds: Path) -> None:
        _, out, _ = command("score", preds, "--md")
        assert "\\" not in out

    def test_html_has_no_control_characters(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text("label,score,by\n0,0.1,a\x1b[31m\x07\u202eb\n1,0.9,c\n", encoding="utf-8")
        _, out, _ = command("score", path, "--by", "by", "--html")
        assert r"a\u001b[31m\u0007\u202eb" in out
        assert not {"\x1b", "\x07", "\u202e"} & set(out)

    def test_names_from_files_cannot_break_a_table(self, command: Command, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text(
            'label,score,by\n0,0.1,"a|b\n[bold]\x1b[31m"\n1,0.9,"a|b\n[bold]\x1b[31m"\n'
        )
        for form in ([], ["--md"]):
            _, out, _ = command("score", path, "--by", "by", *form)
            assert "\x1b" not in out
            assert "[bold]" in out

    @pytest.mark.parametrize(
        ("name", "start"),
        [("r.json", "{"), ("r.md", "## "), ("r.html", "<!doc"), ("r.txt", "preds")],
    )
    def test_out_writes_a_file(
        self, command: Command, preds: Path, tmp_path: Path, name: str, start: str
    ) -> None:
        target = tmp_path / "new" / name
        code, out, err = command("score", preds, "--out", target)
        assert (code, out, err) == (0, "", f"wrote {target}\n")
        assert target.read_text().startswith(start)

    def test_a_flag_wins_over_the_suffix(
        self, command: Command, preds: Path, tmp_path: Path
    ) -> None:
        target = tmp_path / "r.txt"
        command("score", preds, "--json", "--out", target)
        assert json.loads(target.read_text())["schema_version"] == "v1"

    def test_one_form_at_a_time(self, command: Command, preds: Path) -> None:
        code, out, err = command("score", preds, "--json", "--md")
        assert (code, out) == (2, "")
        assert "choose one of --json, --md" in err


def in_terminal(*args: object, **environment: str) -> str:
    """Return what Python shows on a terminal of 100 columns."""
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *map(str, args)],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm", **environment},
    )
    os.close(child)
    shown = b""
    try:
        while piece := os.read(parent, 4096):
            shown += piece
    except OSError:  # Linux says EIO where others say end of file
        pass
    os.close(parent)
    assert process.wait() == 0
    return shown.decode()


NARROW = {
    "score": ("--by", "source"),
    "compare": ("--score", "score", "--score", "better", "--by", "source"),
}
WIDTHS = (80, 100, 40)
EACH = """
import os, sys
from eval_toolkit.cli import main
for width in sys.argv[1].split(","):
    os.environ["COLUMNS"] = width
    for line in sys.argv[2].splitlines():
        try:
            main(line.split("\\t"))
        except SystemExit as ended:
            assert ended.code == 0
        print("\\f", end="", flush=True)
"""


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, int], str]]:
    """What each command shows at each width, all of them asked for in one process."""
    path = tmp_path_factory.mktemp("narrow") / "preds.csv"
    tables.write_table(columns_of(), path)
    commands = ["\t".join([name, str(path), *options]) for name, options in NARROW.items()]
    widths = ",".join(map(str, WIDTHS))
    *shown, end = in_terminal("-c", EACH, widths, "\n".join(commands), NO_COLOR="1").split("\f")
    assert not end.strip()
    keys = [(name, width) for width in WIDTHS for name in NARROW]
    return path, dict(zip(keys, shown, strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
class TestTerminal:
    def test_tables_are_framed(self, preds: Path) -> None:
        assert "┃" in in_terminal("-m", "eval_toolkit", "score", preds, "--by", "source")

    def test_no_color(self, preds: Path) -> None:
        shown = in_terminal("-m", "eval_toolkit", "score", preds, "--by", "source", NO_COLOR="1")
        assert "\x1b[3" not in shown

    @pytest.mark.parametrize("width", WIDTHS)
    @pytest.mark.parametrize("asked", NARROW)
    def test_narrow_tables_are_whole(
        self,
        narrow: tuple[Path, dict[tuple[str, int], str]],
        as_json: Json,
        asked: str,
        width: int,
    ) -> None:
        preds, pages = narrow
        shown = re.sub(r"\x1b\[\d*m", "", pages[asked, width])
        assert "…" not in shown
        if width >= 80:
            assert max(map(len, shown.splitlines())) <= width
        payload = as_json(asked, preds, *NARROW[asked])
        found = payload.get("cells") or [
            {"slice": "all", "part": name, "value": cell["value"]}
            for name in places(payload)
            for metric, cell in cells(payload, name).items()
            if isinstance(cell, dict)
        ]
        for cell in found:
            assert cell["part"] in shown
            for key in ("value", "value_a", "value_b", "delta", "p_adjusted"):
                if cell.get(key) is not None:
                    small = key == "p_adjusted" and cell[key] < 0.001
                    assert ("<0.001" if small else f"{cell[key]:.3f}") in shown

    def test_a_reader_that_has_gone_is_no_failure(
        self, unread: Callable[..., tuple[int, str]], preds: Path
    ) -> None:
        assert unread("score", preds, "--by", "author") == (0, "")

    def test_a_closed_output_is_no_failure(self, preds: Path) -> None:
        done = subprocess.run(
            ["sh", "-c", '"$0" -m eval_toolkit score "$1" >&-', sys.executable, str(preds)],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_a_full_disk_is_a_failure(self, preds: Path) -> None:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "eval_toolkit", "score", str(preds)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1


def test_published_area(as_json: Json, shared_data: Path) -> None:
    """The aSAH data of Turck et al. (2010): ROC-AUC of S100b 0.731, of NDKA 0.612."""
    args = ("--label", "outcome", "--positive", "Poor", "--score", "s100b", "--score", "ndka")
    payload = as_json("score", shared_data / "stats" / "aSAH.csv", *args)
    by_scorer = payload["by_slice"]["all"]["by_scorer"]
    assert by_scorer["s100b"]["roc_auc"]["value"] == pytest.approx(0.731, abs=5e-4)
    assert by_scorer["ndka"]["roc_auc"]["value"] == pytest.approx(0.612, abs=5e-4)
    assert by_scorer["ndka"]["brier"]["status"] == "skipped"


def test_resamples_are_named_where_a_cell_is_made_of_them(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    rows = [f"{i},{i % 2},{(i * 7 % 40) / 40}" for i in range(40)]
    (tmp_path / "p.csv").write_text("id,label,score\n" + "\n".join(rows))
    _, closed, _ = command("score", tmp_path / "p.csv", "--metric", "roc_auc")
    assert closed.splitlines()[0].endswith("keyed by id; 95 % intervals")
    _, drawn, _ = command("score", tmp_path / "p.csv", "--metric", "roc_auc", "--metric", "ece")
    assert drawn.splitlines()[0].endswith("95 % intervals, 1000 resamples, seed 42")


def test_a_column_that_can_serve_as_ids_is_named(command: Command, tmp_path: Path) -> None:
    rows = [(f"m {i}", i // 2, i % 2, i / 40) for i in range(40)]
    for name, said in (("subject line", "pass --id 'subject line'"), ("label", "no column has")):
        kept = ["subject line", "user_id", "label", "score"]
        kept = kept if name in kept[:1] else kept[1:]
        file = tmp_path / "preds.csv"
        lines = [",".join(map(str, row[-len(kept) :])) for row in rows]
        file.write_text("\n".join([",".join(kept), *lines]) + "\n")
        code, _, err = command("score", file, "--save", tmp_path / "run")
        assert code == 2
        assert said in err


class TestLeakage:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        rows = [f"{i},mail number {i * i},{i % 2},{(i * 7 % 40) / 40}\n" for i in range(40)]
        preds, train = tmp_path / "preds.csv", tmp_path / "train.csv"
        preds.write_text("id,text,label,score\n" + "".join(rows))
        train.write_text("id,text,label,score\n" + "".join(rows[:3]))
        return train, preds

    def test_what_check_found_is_stored(
        self, command: Command, files: tuple[Path, Path], tmp_path: Path
    ) -> None:
        found, run = tmp_path / "check.json", tmp_path / "run"
        claims = tmp_path / "claims.toml"
        claims.write_text('[[claim]]\nname = "clean"\nno_leakage = true\n')
        code, out, _ = command("check", *files, "--json")
        assert code == 1
        found.write_text(out)
        preds = files[1]
        assert command("score", preds, "--save", run)[0] == 0
        code, out, _ = command("gate", run, "--claims", claims)
        assert (code, "score PREDS --leakage FILE --save RUN" in out) == (1, True)
        code, *_ = command("score", preds, "--save", run, "--overwrite", "--leakage", found)
        assert code == 0
        code, out, _ = command("gate", run, "--claims", claims)
        assert (code, "ExactDuplicateCheck: 3 rows" in out) == (1, True)
        assert command("report", run)[0] == 0
        page = (run / "report.html").read_text()
        assert "What did the leakage checks find?" in page

    def test_what_is_refused(
        self, command: Command, files: tuple[Path, Path], tmp_path: Path
    ) -> None:
        train, preds = files
        found = tmp_path / "check.json"
        found.write_text(command("check", train, "--json")[1])
        save = ("--save", tmp_path / "run")
        assert "--leakage needs --save" in command("score", preds, "--leakage", found)[2]
        code, _, err = command("score", preds, "--leakage", found, *save)
        assert code == 2
        assert "checked train with 3 rows, but 40 rows are scored" in err
        found.write_text("[]")
        code, _, err = command("score", preds, "--leakage", found, *save)
        assert (code, "is not the result of eval-toolkit check" in err) == (2, True)
