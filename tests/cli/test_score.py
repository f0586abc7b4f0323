"""``eval-toolkit score``: what it prints is what the library computes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit import _tables, scorecard
from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.thresholds import TargetFPRSelector

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


def cells(payload: Any, slice_: str = "all", scorer: str = "score") -> Any:
    return payload["by_slice"][slice_]["by_scorer"][scorer]


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
        assert list(payload["by_slice"]) == names
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
        other = _tables.write_table(shuffled, tmp_path / "shuffled.csv")
        args = ("--id", "id", "--by", "source", "--group", "author", "--resamples", "200")
        one, two = (as_json("score", path, *args) for path in (preds, other))
        assert one["by_slice"] == two["by_slice"]

    def test_numeric_slices_sort_as_numbers(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "folds.csv"
        rows = [f"{i % 2},{i / 40},{10 - i % 11}" for i in range(40)]
        path.write_text("\n".join(["label,score,fold", *rows]) + "\n")
        names = list(as_json("score", path, "--by", "fold", "--resamples", "20")["by_slice"])
        assert names == ["all", *(f"fold={i}" for i in range(11))]

    def test_a_missing_slice_value_has_a_name(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "gaps.csv"
        path.write_text("label,score,lang\n0,0.1,de\n1,0.7,\n")
        assert list(as_json("score", path, "--by", "lang")["by_slice"]) == [
            "all",
            "lang=(missing)",
            "lang=de",
        ]

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
        _tables.write_table({n: columns[n][list(rows)] for n in ("label", "score")}, val)
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
        val.write_bytes(preds.read_bytes())
        payload = as_json("score", preds, "--threshold-from", val, "--select", rule)
        assert 0.0 < payload["config"]["thresholds"]["score"]["threshold"] < 1.0

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

    def test_one_threshold_only(self, command: Command, preds: Path) -> None:
        code, _, err = command("score", preds, "--threshold", 0.5, "--threshold-from", "v.csv")
        assert code == 2
        assert "not both" in err


class TestInput:
    @pytest.mark.parametrize(
        "name", ["p.csv", "p.tsv", "p.jsonl", "p.json", "p.parquet", "p.csv.gz", "p.jsonl.gz"]
    )
    def test_every_format_gives_the_same(
        self, as_json: Json, preds: Path, columns: dict[str, Any], tmp_path: Path, name: str
    ) -> None:
        path = _tables.write_table(columns, tmp_path / name)
        args = ("--by", "source", "--id", "id", "--resamples", "50")
        assert (
            as_json("score", path, *args)["by_slice"]
            == (as_json("score", preds, *args)["by_slice"])
        )

    def test_globs_and_several_files(
        self, as_json: Json, preds: Path, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        for part, at in enumerate((slice(0, 80), slice(80, 200))):
            _tables.write_table(
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
        path = _tables.write_table({**columns, "label": words}, tmp_path / "words.csv")
        got = as_json("score", path, *options, "--resamples", 50)["by_slice"]
        assert got == as_json("score", preds, "--resamples", 50)["by_slice"]

    def test_scores_need_not_be_probabilities(
        self, as_json: Json, columns: dict[str, Any], tmp_path: Path
    ) -> None:
        logit = {**columns, "score": np.log(columns["score"] / (1.0 - columns["score"]))}
        block = cells(as_json("score", _tables.write_table(logit, tmp_path / "logits.csv")))
        plain = scorecard(columns["label"], columns["score"], metrics=[ms.roc_auc], seed=42)
        assert block["roc_auc"] == plain["roc_auc"].to_dict()
        for name in ("brier", "log_loss"):
            assert (block[name]["status"], block[name]["value"]) == ("skipped", None)
            assert block[name]["reason"].startswith("needs probabilities, but the scores reach")
            assert block[name]["n_units"] == 200

    def test_few_rows_say_so(self, as_json: Json, tmp_path: Path) -> None:
        path = tmp_path / "few.csv"
        path.write_text("label,score\n0,0.1\n1,0.9\n")
        cell = cells(as_json("score", path))["roc_auc"]
        assert (cell["value"], cell["status"]) == (1.0, "ok")
        assert "bootstrap unavailable: 2 rows" in cell["reason"]


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
        assert f"by={nasty}" in "".join(page.texts)
        assert "http" not in out

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
        assert "give one of --json, --md" in err


def in_terminal(preds: Path, **environment: str) -> str:
    """Return what the command shows on a terminal of 100 columns."""
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "eval_toolkit", "score", str(preds), "--by", "source"],
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


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
class TestTerminal:
    def test_tables_are_framed(self, preds: Path) -> None:
        assert "┃" in in_terminal(preds)

    def test_no_color(self, preds: Path) -> None:
        shown = in_terminal(preds, NO_COLOR="1")
        assert "\x1b[3" not in shown

    def test_a_reader_that_has_gone_is_no_failure(self, preds: Path) -> None:
        with subprocess.Popen(
            [sys.executable, "-m", "eval_toolkit", "score", str(preds), "--by", "author"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == ""
        assert process.returncode == 0


def test_published_area(as_json: Json, shared_data: Path) -> None:
    """The aSAH data of Turck et al. (2010): ROC-AUC of S100b 0.731, of NDKA 0.612."""
    args = ("--label", "outcome", "--positive", "Poor", "--score", "s100b", "--score", "ndka")
    payload = as_json("score", shared_data / "stats" / "aSAH.csv", *args)
    by_scorer = payload["by_slice"]["all"]["by_scorer"]
    assert by_scorer["s100b"]["roc_auc"]["value"] == pytest.approx(0.731, abs=5e-4)
    assert by_scorer["ndka"]["roc_auc"]["value"] == pytest.approx(0.612, abs=5e-4)
    assert by_scorer["ndka"]["brier"]["status"] == "skipped"
