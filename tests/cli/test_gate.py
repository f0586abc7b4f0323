"""``eval-toolkit gate``: outcomes, exit codes, and what build servers read."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

from eval_toolkit.claims import load_claims
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

Command = Callable[..., tuple[int, str, str]]

HOSTILE = "[red]a|b</failure>\x00\x1b[31m::error::%0A,\nx"


def cell(value: float, low: float, high: float) -> dict[str, Any]:
    ci = {"point_estimate": value, "ci_low": low, "ci_high": high, "confidence": 0.95}
    return {"value": value, "status": "ok", "reason": None, "ci": ci}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs" / "r2", lift=0.0)


def make_run(folder: Path, *, lift: float, name: str = "guard", version: str = "1") -> Path:
    generator = np.random.default_rng(5)
    y = (np.arange(300) % 3 == 0).astype(np.int64)
    scores = 1 / (1 + np.exp(-(generator.normal(size=300) + (2 + lift) * y)))
    records = Records.from_rows(y, scores, unit_id=[f"u{i:03d}" for i in range(300)])
    block = {"pr_auc": cell(0.91, 0.87, 0.94), "n": 300, "n_positive": 100}
    part = {"n": 300, "n_positive": 100, "by_scorer": {name: block}}
    results = {
        "schema_version": "v1", "run_id": folder.name, "config": {}, "by_slice": {"test": part},
    }  # fmt: skip
    manifest = {"run_id": folder.name, "versioned_objects": {f"scorer:{name}": version}}
    write_run(folder, results=results, manifest=manifest, records={("test", name): records})
    return folder


def claims(folder: Path, *tables: dict[str, Any]) -> Path:
    path = folder / "claims.toml"
    lines = []
    for table in tables:
        lines += ["[[claim]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines))
    return path


def threshold(require: str, **more: Any) -> dict[str, Any]:
    base = {"name": "good", "slice": "test", "scorer": "guard", "metric": "pr_auc"}
    return {**base, "require": require, **more}


class TestOutcome:
    def test_pass(self, command: Command, run: Path, tmp_path: Path) -> None:
        code, out, err = command(
            "gate", run, "--claims", claims(tmp_path, threshold("ci_low >= 0.8"))
        )
        assert (code, err) == (0, "")
        assert "run r2: 1 of 1 claims hold" in out
        line = next(line for line in out.splitlines() if line.startswith("pass"))
        assert "0.87" in line
        assert ">= 0.8" in line

    def test_fail(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, threshold("ci_low >= 0.9"), threshold("value > 0.9", name="point"))
        code, out, err = command("gate", run, "--claims", file)
        assert (code, err) == (1, "")
        assert "1 of 2 claims hold, 1 failed" in out
        line = next(line for line in out.splitlines() if line.startswith("FAIL"))
        assert "is 0.870; it must be >= 0.9" in line
        assert "\x1b" not in out

    def test_a_warning_does_not_fail(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, threshold("value > 0.99", severity="warning"))
        code, out, _ = command("gate", run, "--claims", file)
        assert code == 0
        assert "1 failed as warnings" in out
        assert any(line.startswith("warning") for line in out.splitlines())

    def test_a_metric_that_is_not_there_is_no_evidence(
        self, command: Command, run: Path, tmp_path: Path
    ) -> None:
        file = claims(tmp_path, threshold("value > 0", metric="nope"))
        code, _, err = command("gate", run, "--claims", file)
        assert (code, "there is no 'nope'; available: 'pr_auc'" in err) == (2, True)

    def test_sizes(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, {"name": "enough", "slice": "test", "min_n": 1000})
        code, out, _ = command("gate", run, "--claims", file)
        assert code == 1
        assert "300 rows, fewer than 1000" in out

    def test_json(self, command: Command, run: Path, tmp_path: Path) -> None:
        code, out, err = command(
            "gate", run, "--claims", claims(tmp_path, threshold("ci_low >= 0.9")), "--json"
        )
        assert (code, err) == (1, "")
        payload = json.loads(out)
        assert payload["passed"] is False
        assert payload["claims"][0]["gates"][0]["evidence"]["value"] == 0.87


class TestBaseline:
    def claim(self, margin: float = 0.2) -> dict[str, Any]:
        table = threshold("")
        del table["require"]
        return {**table, "non_inferior_by": margin}

    def test_holds_and_fails(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, self.claim())
        same = make_run(tmp_path / "runs" / "same", lift=0.0)
        code, out, _ = command("gate", run, "--claims", file, "--baseline", same)
        assert code == 0
        assert "> -0.2" in out
        better = make_run(tmp_path / "runs" / "better", lift=3.0)
        assert command("gate", run, "--claims", file, "--baseline", better)[0] == 1

    def test_metrics_of_graders_are_compared(self, command: Command, tmp_path: Path) -> None:
        task = Task(
            "sums",
            Prompt(instruction="{q}"),
            CompletionSpec(answer="a"),
            rows=[{"q": f"{n}", "a": f"the sum is {n}"} for n in range(40)],
            graders=["number_match", "chrf"],
        )
        for name, said in (("old", "the sum is 1"), ("new", "the sum is 2"), ("bad", "?")):
            run_task(task, ScriptedModel(said, name="m"), tmp_path / name)
        base = {"slice": "sums", "scorer": "m"}
        file = claims(
            tmp_path,
            {"name": "right", **base, "metric": "number_match", "non_inferior_by": 0.2},
            {"name": "alike", **base, "metric": "chrf_corpus", "non_inferior_by": 20.0},
        )
        code, out, _ = command(
            "gate", tmp_path / "new", "--claims", file, "--baseline", tmp_path / "old"
        )
        assert code == 0, out
        code, out, _ = command(
            "gate", tmp_path / "bad", "--claims", file, "--baseline", tmp_path / "old"
        )
        assert code == 1
        failed = [line.split()[1] for line in out.splitlines() if line.startswith("FAIL")]
        assert failed == ["alike"]  # 1 right of 40 is not much to lose

    def test_it_must_be_given(self, command: Command, run: Path, tmp_path: Path) -> None:
        code, out, err = command("gate", run, "--claims", claims(tmp_path, self.claim()))
        assert (code, out) == (2, "")
        assert err == "error: claim 'good' needs a baseline run (--baseline RUN)\n"

    def test_another_version_is_refused(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, self.claim())
        other = make_run(tmp_path / "runs" / "other", lift=0.0, version="2")
        code, _, err = command("gate", run, "--claims", file, "--baseline", other)
        assert code == 2
        assert "version" in err
        options = ("--baseline", other, "--allow-version-change")
        assert command("gate", run, "--claims", file, *options)[0] == 0


class TestJUnit:
    def test_hostile_names(self, command: Command, run: Path, tmp_path: Path) -> None:
        junit = tmp_path / "out" / "gate.xml"
        file = claims(
            tmp_path,
            threshold("value > 0.99", name=HOSTILE),
            threshold("value > 0.99", name="soft", severity="warning"),
            threshold("value > 0.5", name="fine"),
        )
        code, out, _ = command("gate", run, "--claims", file, "--junit", junit)
        assert code == 1
        assert "\x1b" not in out
        assert "\x00" not in out
        root = Xml.fromstring(junit.read_bytes())  # noqa: S314
        assert root.attrib == {"tests": "3", "failures": "1", "errors": "0"}
        first, second, third = root.iter("testcase")
        assert first.get("name") == HOSTILE.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
        assert [child.tag for child in first] == ["failure"]
        assert (second.findtext("system-out") or "").startswith("warning: ")
        assert "0.91" in (third.findtext("system-out") or "")

    def test_it_does_not_replace_the_claims(
        self, command: Command, run: Path, tmp_path: Path
    ) -> None:
        file = claims(tmp_path, threshold("value > 0.5"))
        before = file.read_text()
        code, out, err = command("gate", run, "--claims", file, "--junit", file)
        assert (code, out) == (2, "")
        assert f"--junit would overwrite {file}" in err
        assert file.read_text() == before

    def test_it_cannot_be_written(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, threshold("value > 0.5"))
        code, out, err = command("gate", run, "--claims", file, "--junit", file / "x.xml")
        assert (code, out) == (2, "")
        assert "cannot write" in err
        assert err.count("\n") == 1


class TestTargets:
    def test_the_output_is_no_input(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, threshold("value > 0.5"))
        before = file.read_text()
        code, out, err = command("gate", run, "--claims", file, "--out", file)
        assert (code, out) == (2, "")
        assert f"--out would overwrite {file}" in err
        assert file.read_text() == before

    @pytest.mark.parametrize("option", ["--out", "--junit"])
    @pytest.mark.parametrize("name", ["manifest.json", "results.json", "more/new.json"])
    def test_nothing_is_written_into_a_run(
        self, command: Command, run: Path, tmp_path: Path, option: str, name: str
    ) -> None:
        before = {path: path.read_bytes() for path in run.iterdir()}
        file = claims(tmp_path, threshold("value > 0.5"))
        code, out, err = command("gate", run, "--claims", file, option, run / name)
        assert (code, out) == (2, "")
        assert f"{option} is inside the run {run}, which must not change" in err
        assert {path: path.read_bytes() for path in run.iterdir()} == before

    def test_two_targets_are_two_files(self, command: Command, run: Path, tmp_path: Path) -> None:
        file, target = claims(tmp_path, threshold("value > 0.5")), tmp_path / "x.xml"
        code, _, err = command("gate", run, "--claims", file, "--junit", target, "--out", target)
        assert code == 2
        assert "--junit would overwrite" in err
        assert not target.exists()

    def test_all_is_written_or_nothing(self, command: Command, run: Path, tmp_path: Path) -> None:
        file, good = claims(tmp_path, threshold("value > 0.5")), tmp_path / "good"
        options = {"--junit": good, "--out": file / "x"}
        for one, other in (("--junit", "--out"), ("--out", "--junit")):
            named = (one, options["--junit"], other, options["--out"])
            assert command("gate", run, "--claims", file, *named)[0] == 2
            assert not good.exists()


class TestReaderGone:
    """Nobody reads standard output: the exit code says what the claims do."""

    @pytest.mark.parametrize(("require", "code"), [("value > 0.99", 1), ("value > 0.5", 0)])
    @pytest.mark.parametrize("github", ["", "true"])
    def test_the_verdict_stands(
        self,
        unread: Callable[..., tuple[int, str]],
        run: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        require: str,
        code: int,
        github: str,
    ) -> None:
        monkeypatch.setenv("GITHUB_ACTIONS", github)
        file = claims(tmp_path, threshold(require))
        assert unread("gate", run, "--claims", file) == (code, "")


class TestActions:
    @pytest.fixture
    def summary(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
        (tmp_path / "summary.md").write_text("before\n")
        return tmp_path / "summary.md"

    def test_annotations(self, command: Command, run: Path, tmp_path: Path, summary: Path) -> None:
        file = claims(
            tmp_path,
            threshold("value > 0.99", name=HOSTILE),
            threshold("value > 0.99", name="soft", severity="warning"),
            threshold("value > 0.5", name="fine"),
        )
        code, out, err = command("gate", run, "--claims", file)
        assert (code, err) == (1, "")
        commands = [line for line in out.splitlines() if line.lstrip().startswith("::")]
        assert len(commands) == 2
        title = "[red]a|b</failure>␀␛[31m%3A%3Aerror%3A%3A%250A%2C%0Ax"
        assert commands[0].startswith(f"::error title={title}::")
        assert commands[1].startswith("::warning title=soft::")
        lines = summary.read_text().splitlines()
        assert lines[0] == "before"
        table = [line for line in lines if line.startswith("|")]
        assert len(table) == 5
        assert "a\\|b&lt;/failure&gt;" in table[2]

    def test_the_summary_has_no_live_names(
        self, command: Command, run: Path, tmp_path: Path, summary: Path
    ) -> None:
        name = "![x](http://e.org/i.png) `code` &amp;"
        file = claims(tmp_path, threshold("value > 0.99", name=name))
        assert command("gate", run, "--claims", file)[0] == 1
        shown = r"\!\[x\](http\://e.org/i.png) \`code\` &amp;amp;"
        assert shown in summary.read_text()

    def test_json_stays_alone_on_standard_output(
        self, command: Command, run: Path, tmp_path: Path, summary: Path
    ) -> None:
        file = claims(tmp_path, threshold("value > 0.99"))
        code, out, err = command("gate", run, "--claims", file, "--json")
        assert code == 1
        assert json.loads(out)["passed"] is False
        assert err.startswith("::error title=good::")

    def test_a_summary_that_fails_decides_nothing(
        self, command: Command, run: Path, tmp_path: Path, summary: Path
    ) -> None:
        summary.unlink()
        summary.mkdir()
        code, out, err = command("gate", run, "--claims", claims(tmp_path, threshold("value > 0")))
        assert code == 0
        assert "pass" in out
        assert "cannot write the summary" in err

    def test_elsewhere_there_are_none(
        self,
        command: Command,
        run: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        _, out, _ = command("gate", run, "--claims", claims(tmp_path, threshold("value > 0.99")))
        assert "::error" not in out


class TestBadInput:
    def test_no_run(self, command: Command, tmp_path: Path) -> None:
        file = claims(tmp_path, threshold("value > 0"))
        code, _, err = command("gate", tmp_path / "nope", "--claims", file)
        assert (code, err) == (2, f"error: {tmp_path / 'nope'}: no such folder\n")

    def test_a_tampered_run(self, command: Command, run: Path, tmp_path: Path) -> None:
        results = run / "results.json"
        results.write_text(results.read_text().replace("0.87", "0.97"))
        file = claims(tmp_path, threshold("ci_low >= 0.9"))
        code, out, err = command("gate", run, "--claims", file)
        assert (code, out) == (2, "")
        assert "has changed since the run was written" in err

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "has no [[claim]]"),
            ("x = [", "not TOML"),
            ('[[claim]]\nname = "a"\n', "has no condition"),
        ],
    )
    def test_claims(
        self, command: Command, run: Path, tmp_path: Path, text: str, expected: str
    ) -> None:
        (tmp_path / "claims.toml").write_text(text)
        code, out, err = command("gate", run, "--claims", tmp_path / "claims.toml")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert expected in err


class TestWithoutAFile:
    """Bounds of single cells, by their addresses."""

    def test_bounds_decide_as_claims_do(self, command: Command, run: Path) -> None:
        code, out, _ = command(
            *("gate", run, "--at-least", "pr_auc @ all / guard", "0.87"),
            *("--at-most", "pr_auc", "0.93"),
        )
        assert code == 1
        lines = [line for line in out.splitlines() if "pr_auc" in line]
        assert lines[0].startswith("pass")
        assert lines[1].startswith("FAIL")
        assert "run r2: 1 of 2 claims hold, 1 failed" in out

    def test_beside_a_file(self, command: Command, run: Path, tmp_path: Path) -> None:
        file = claims(tmp_path, threshold("ci_low >= 0.8"))
        code, out, _ = command("gate", run, "--claims", file, "--at-least", "pr_auc", "0.8")
        assert (code, "2 of 2 claims hold" in out) == (0, True)

    def test_min_and_max_are_bounds_of_the_interval(self, command: Command, run: Path) -> None:
        cell = Run.open(run)["pr_auc"].to_dict()
        low, high = cell["ci"]["ci_low"], cell["ci"]["ci_high"]
        for option, bound, code in (
            *(("--min", low - 0.001, 0), ("--min", low + 0.001, 1)),
            *(("--max", high - 0.001, 1), ("--max", high + 0.001, 0)),
        ):
            found, out, _ = command("gate", run, option, f"pr_auc={bound}")
            assert found == code
            assert (f"The value, {cell['value']:.3f}, is; more units" in out) == bool(code)

    @pytest.mark.parametrize(
        ("cell", "said"),
        [
            ("pr_aux", "there is no metric 'pr_aux'; did you mean 'pr_auc'?"),
            ("pr_auc @ regoin=GB", "there is no part 'regoin=GB'"),
            ("recall@0.5", "to compute it, score the rows again with --metric recall@0.5"),
        ],
    )
    def test_what_the_run_does_not_have_is_no_evidence(
        self, command: Command, run: Path, cell: str, said: str
    ) -> None:
        code, out, err = command("gate", run, "--at-least", cell, "0.5")
        assert (code, out) == (2, "")
        assert said in err

    def test_a_file_of_predictions_is_not_a_run(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "preds.csv").write_text("id,label,score\na,1,0.5\n")
        code, _, err = command("gate", tmp_path / "preds.csv", "--min", "pr_auc=0.5")
        assert code == 2
        assert f"eval-toolkit score {tmp_path / 'preds.csv'} --save RUN" in err

    def test_the_example_of_the_help_is_a_claims_file(
        self, command: Command, tmp_path: Path
    ) -> None:
        _, out, _ = command("gate", "--help")
        example = out[out.index("  [[claim]]") : out.index("  Other conditions:")]
        (tmp_path / "claims.toml").write_text(textwrap.dedent(example))
        assert [claim.form for claim in load_claims(tmp_path / "claims.toml")] == [
            *("require", "non_inferior_by")
        ]

    def test_a_drop_needs_a_baseline(self, command: Command, run: Path, tmp_path: Path) -> None:
        code, out, err = command("gate", run, "--max-drop", "pr_auc", "0.1")
        assert (code, out) == (2, "")
        assert "needs a baseline run (--baseline RUN)" in err
        better = make_run(tmp_path / "runs" / "better", lift=2.0)
        code, _, _ = command("gate", run, "--max-drop", "pr_auc", "0.001", "--baseline", better)
        assert code == 1
        code, _, _ = command("gate", better, "--max-drop", "pr_auc", "0.1", "--baseline", run)
        assert code == 0

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ((), "pass claims: --claims FILE, --min CELL=NUMBER or --max CELL=NUMBER"),
            (("--min", "pr_auc"), "--min pr_auc: write CELL=NUMBER"),
            (("--max", "pr_auc=low"), "--max pr_auc=low: write CELL=NUMBER"),
            (("--at-least", "pr_auc @ x", "0.5"), "there is no metric 'pr_auc @ x'"),
            (("--at-least", "@ a=1", "0.5"), "is not the address of a cell: it has no metric"),
            (("--max-drop", "pr_auc", "0"), "must be greater than 0"),
            (("--at-least", "pr_auc", "nan"), "`threshold`"),
        ],
    )
    def test_what_cannot_be_asked(
        self, command: Command, run: Path, options: tuple[str, ...], said: str
    ) -> None:
        code, out, err = command("gate", run, *options)
        assert (code, out) == (2, "")
        assert said in err
        assert "Traceback" not in err

    def test_several_cells_of_a_name_are_listed(self, command: Command, tmp_path: Path) -> None:
        block = {"f1": cell(0.5, 0.4, 0.6)}
        by = {name: {"n": 9, "by_scorer": {"m": block}} for name in ("dev", "test")}
        results = {"schema_version": "v1", "run_id": "two", "config": {}, "by_slice": by}
        write_run(tmp_path / "two", results=results, manifest={"run_id": "two"})
        code, out, err = command("gate", tmp_path / "two", "--at-least", "f1", "0.1")
        assert (code, out) == (2, "")
        assert "'f1' is ambiguous; write 'f1 @ slice=dev / m' or 'f1 @ slice=test / m'" in err
        assert command("gate", tmp_path / "two", "--at-least", "f1 @ slice=dev", "0.4")[0] == 0
