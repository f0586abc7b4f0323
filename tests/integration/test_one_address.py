"""One address reaches the same cell of every kind of run, whoever reads it.

Rows of a file, rows of the harness, folds, a task, rollouts and an imported log are each stored
twice; the cell of one of their parts has the same value and interval from Python, the gate, the
exports, the comparison, the report, the leaderboard and pytest's assertion.
"""

import csv
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.report_runs import Page, plain

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import tables
from eval_toolkit._internal.display import Estimate
from eval_toolkit.analysis import compare_runs
from eval_toolkit.claims import evaluate_gate
from eval_toolkit.cli import main
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.harness import evaluate, evaluate_folded, save_run
from eval_toolkit.integrations.assertions import assert_metric, assert_not_worse
from eval_toolkit.integrations.exporting import export_files, export_run
from eval_toolkit.integrations.importing import import_logs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report import report_html
from eval_toolkit.report.sections import Wanted
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.rollouts.running import run_rollouts
from eval_toolkit.rollouts.scorers import as_text_scorer
from eval_toolkit.rollouts.system import System
from eval_toolkit.runs import Run
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedKFoldSplitter
from eval_toolkit.tasks import CompletionSpec, DataSpec, Prompt, Task, run_task

N = 90
SUBJECTS = ("Africa", "Asia & Oceania", "Europe")
RNG = np.random.default_rng(11)
LABELS = RNG.integers(0, 2, N)
SCORES = [np.clip(0.3 + k * LABELS + RNG.normal(0, 0.2, N), 0, 1) for k in (0.2, 0.4)]
COLUMNS = {
    "id": np.array([f"q{n:02}" for n in range(N)], dtype=object),
    "label": LABELS,
    "subject": np.array([SUBJECTS[n % 3] for n in range(N)], dtype=object),
}


@dataclass(frozen=True)
class Kind:
    """How a kind is made, the cell that is looked for, and what compares it."""

    made: Callable[[Path, int], Run]
    metric: str
    part: str
    system: str
    ranked: bool = True
    """Whether the metric is a mean over units, which a leaderboard ranks by."""

    @property
    def address(self) -> str:
        return f"{self.metric} @ {self.part} / {self.system}"


def invoke(*args: object) -> tuple[int, str, str]:
    """Run the command line: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    return int(caught.value.code or 0), out.getvalue(), err.getvalue()


def command(*args: object) -> Any:
    code, out, err = invoke(*args, "--json")
    assert code == 0, err
    return json.loads(out)


def scored(folder: Path, at: int) -> Run:
    file = tables.write_table({**COLUMNS, "model": SCORES[at]}, folder.parent / f"{at}.csv")
    options = ("--by", "subject", "--save", folder, "--resamples", 200, "--metric", "roc_auc")
    command("score", file, "--score", "model", *options)
    return Run.open(folder)


class Knows:
    version = "1"

    def __init__(self, at: int) -> None:
        self._scores = dict(zip(COLUMNS["id"], SCORES[at], strict=True))

    def predict_proba(self, X: Any) -> Any:
        return [self._scores[name] for name in X]


ROWS = EvalSlice("test", COLUMNS, feature_col="id", id_col="id", strata_col="subject")


def evaluated(folder: Path, at: int) -> Run:
    result = evaluate(
        {"model": Knows(at)}, [ROWS], run_id=folder.name, metrics=[ms.roc_auc], n_resamples=200
    )
    return save_run(result, folder)


def folded(folder: Path, at: int) -> Run:
    result = evaluate_folded(
        {"model": Knows(at)},
        StratifiedKFoldSplitter(k=3),
        ROWS,
        run_id=folder.name,
        metrics=[ms.roc_auc],
        n_resamples=200,
    )
    return save_run(result, folder)


def asked(folder: Path, at: int) -> Run:
    task = Task(
        "quiz",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        data=DataSpec(subject_field="subject"),
        rows=[
            {"id": f"q{n}", "q": f"{n} + {n} =", "a": str(2 * n), "subject": SUBJECTS[n % 3]}
            for n in range(N)
        ],
        graders=["exact_match"],
    )

    def answer(request: Any) -> str:
        n = int(str(request.prompt[-1].content).split()[0])
        return str(2 * n) if n % (5, 3)[at] else "no"

    return run_task(task, ScriptedModel(answer, name="model"), folder).run


def rolled(folder: Path, at: int) -> Run:
    def reply(request: Any) -> str:
        return "grr" if int(str(request.prompt[0].content).split()[-1]) % (5, 3)[at] == 0 else "no"

    growls = as_text_scorer(lambda texts: [float("grr" in one) for one in texts], name="growl")
    seeds = [
        {"prompt": f"Growl {n}", "id": f"g{n:02}", "category": SUBJECTS[n % 3]} for n in range(N)
    ]
    return run_rollouts(
        System(Static(), ScriptedModel(reply, name="model"), growls), seeds, folder, depth=1
    ).run


def imported(folder: Path, at: int) -> Run:
    """A log of another tool: what we export in its format, read back."""
    logs = folder.parent / f"logs{at}"
    export_run(asked(folder.parent / f"asked{at}", at), logs, "eval-framework")
    (found,) = import_logs(logs, folder.parent / f"imported{at}")
    assert found.run is not None
    return found.run


KINDS = {
    "score": Kind(scored, "roc_auc", "subject=Africa", "model", ranked=False),
    "evaluate": Kind(evaluated, "roc_auc", 'subject="Asia & Oceania"', "model", ranked=False),
    "folds": Kind(folded, "roc_auc", "fold=1", "model", ranked=False),
    "task": Kind(asked, "exact_match", "subject=Africa", "model"),
    "rollouts": Kind(rolled, "attack_success", 'category="Asia & Oceania"', "model"),
    "imported": Kind(imported, "exact_match", "subject=Africa", "model"),
}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def runs(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """A and B of one kind."""
    folder = tmp_path_factory.mktemp("runs")
    return kind.made(folder / "a", 0), kind.made(folder / "b", 1)


@pytest.fixture(scope="module")
def cell(kind: Kind, runs: tuple[Run, Run]) -> tuple[float, float, float]:
    """Value and interval, found in the results of A without the walker."""
    ((_, entry),) = runs[0].results["by_slice"].items()
    (name,) = [one for one in entry["parts"] if one == kind.part]
    stored = entry["parts"][name]["by_scorer"][kind.system][kind.metric]
    return stored["value"], stored["ci"]["ci_low"], stored["ci"]["ci_high"]


def test_python(kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...]) -> None:
    found = runs[0][kind.address]
    assert found.ci is not None
    assert (found.value, found.ci.ci_low, found.ci.ci_high) == cell
    assert runs[0].cells.find(f"{kind.metric}@{kind.part}").cell == found


def test_the_gate(
    kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...], tmp_path: Path
) -> None:
    told = command("gate", runs[0].path, "--at-least", kind.address, cell[1])
    evidence = told["claims"][0]["gates"][0]["evidence"]
    assert told["passed"]
    assert evidence["value"] == cell[1]
    assert (evidence["cell"]["value"], evidence["cell"]["ci"]["ci_high"]) == (cell[0], cell[2])
    assert invoke("gate", runs[0].path, "--at-least", kind.address, cell[1] + 1e-9)[0] == 1
    claims = tmp_path / "claims.toml"
    claims.write_text(
        f"[[claim]]\nname = 'value'\nat = '{kind.address}'\nrequire = 'value == {cell[0]!r}'\n"
        f"[[claim]]\nname = 'upper'\nat = '{kind.address}'\nrequire = 'ci_high <= {cell[2]!r}'\n"
        f"[[claim]]\nname = 'rows'\nat = '{kind.part}'\nmin_n = 9\n",
        encoding="utf-8",
    )
    report = evaluate_gate(runs[0], claims)
    assert [(claim.passed, claim.name) for claim in report.claims] == [
        *((True, name) for name in ("value", "upper", "rows")),
    ]


def test_a_drop_against_a_baseline(kind: Kind, runs: tuple[Run, Run]) -> None:
    options = ("--baseline", runs[1].path, "--max-drop", kind.address, 0.001)
    code, out, _ = invoke("gate", runs[0].path, *options, "--json")
    evidence = json.loads(out)["claims"][0]["gates"][0]["evidence"]
    up = 1 if evidence["higher_is_better"] else -1
    lower = min(up * evidence["ci_low"], up * evidence["ci_high"])
    assert code == (0 if lower > -0.001 else 1)
    assert evidence["part"] == kind.part
    assert evidence["value_b"] == pytest.approx(runs[0][kind.address].value, abs=1e-12)
    assert_not_worse(runs[0], runs[0], kind.address, max_drop=0.9)
    worse, better = sorted(runs, key=lambda run: up * (run[kind.address].value or 0.0))
    with pytest.raises(AssertionError, match="in the baseline"):
        assert_not_worse(worse, better, kind.address, max_drop=1e-9)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_every_cell_is_exported(
    kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...], form: str
) -> None:
    (content,) = export_files(runs[0], form).values()
    if form == "csv":
        lines = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    else:
        lines = json.loads(content)
    walked = list(runs[0].cells)
    assert len(lines) == len(walked) == len(runs[0].cells)
    place = ("part", "system", "metric")
    (line,) = [
        line
        for line in lines
        if tuple(line[key] for key in place) == (kind.part, kind.system, kind.metric)
    ]
    assert tuple(float(line[key]) for key in ("value", "ci_low", "ci_high")) == cell
    for found, line in zip(walked, lines, strict=True):
        assert [line[key] for key in ("slice", *place)] == [
            *(found.slice, found.part, found.system, found.metric),
        ]


def test_tables_to_read_have_every_cell(kind: Kind, runs: tuple[Run, Run]) -> None:
    n = len(runs[0].cells)
    markdown = export_files(runs[0], "markdown")["results.md"].decode()
    assert sum(line.startswith("| ") for line in markdown.splitlines()) == n + 1
    latex = export_files(runs[0], "latex")["results.tex"].decode()
    table = latex.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    assert sum(line.endswith(r"\\") for line in table.splitlines()) == n


def test_the_comparison(kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...]) -> None:
    told = command("compare", *(run.path for run in runs), "--metric", kind.address)
    (found,) = told["cells"]
    assert (found["part"], found["scorer"], found["metric"]) == (
        *(kind.part, kind.system, kind.metric),
    )
    assert found["value_a"] == pytest.approx(cell[0], abs=1e-12)
    assert found["value_b"] == pytest.approx(runs[1][kind.address].value, abs=1e-12)
    key = kind.part.partition("=")[0]
    every = compare_runs(*runs, metrics=[kind.metric], by=key)
    assert every[kind.address].delta == found["delta"]
    parts = runs[0].cells.parts(runs[0].cells.slices[0])
    alone = {name for name in parts if "&" not in name.replace(" & ", "")}
    assert {one.part for one in every.cells} == {"all", *alone}


def test_the_report(kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...]) -> None:
    page = Page(report_html(runs[0], wanted=Wanted(charts=False)))
    lines = [plain(one["text"]) for one in page.all("tr")]
    (line,) = [line for line in lines if line.startswith(kind.part)]
    assert str(Estimate(*cell)) in line


def test_the_leaderboard(kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...]) -> None:
    metric = f"{kind.metric} @ {kind.part}"
    named = [f"{name}={run.path}" for name, run in zip("ab", runs, strict=True)]
    if not kind.ranked:
        code, _, err = invoke("leaderboard", *named, "--metric", metric)
        assert code == 2
        assert "is not a mean over units" in err
        return
    told = command("leaderboard", *named, "--metric", metric)
    (task,) = told["tasks"]
    assert (task["part"], task["metric"]) == (kind.part, kind.metric)
    assert task["values"]["a"] == pytest.approx(cell[0], abs=1e-12)
    assert task["values"]["b"] == pytest.approx(runs[1][kind.address].value, abs=1e-12)
    (own,) = [one["ci"] for one in told["ranking"]["systems"] if one["name"] == "a"]
    assert (own["ci_low"], own["ci_high"]) == pytest.approx(cell[1:], abs=1e-12)


def test_pytest(kind: Kind, runs: tuple[Run, Run], cell: tuple[float, ...]) -> None:
    assert_metric(runs[0], kind.address, at_least=cell[1], at_most=cell[2])
    with pytest.raises(AssertionError, match="the lower bound") as caught:
        assert_metric(runs[0].path, kind.address, at_least=cell[1] + 1e-9)
    assert kind.address in str(caught.value)


def test_a_wrong_name_is_answered_with_the_nearest(kind: Kind, runs: tuple[Run, Run]) -> None:
    metric, part, system = kind.metric, kind.part, kind.system
    for address, near in (
        (f"{metric}x @ {part}", metric),
        (f"{metric} @ {part.replace('=', 's=')}", part),
        (f"{metric} @ {part} / {system}s", system),
    ):
        with pytest.raises(MissingColumnError, match="did you mean") as caught:
            runs[0][address]
        assert repr(near) in str(caught.value)
        code, _, err = invoke("gate", runs[0].path, "--at-least", address, 0)
        assert code == 2
        assert "did you mean" in err
    with pytest.raises(InvalidInputError, match="write metric @ part / system"):
        runs[0]["/ model"]
