"""Results of all readers on the stored runs of the first edition."""

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fixtures.first_edition import asked
from tests.support.first_edition_cells import (
    Cell,
    Known,
    command,
    csv_cells,
    difference_cells,
    page_of,
    payload_cells,
    records_of,
    row_cells,
    said,
    spelled_in_claims,
    stored_cells,
)

from eval_toolkit.analysis import compare_runs
from eval_toolkit.runs import Run
from eval_toolkit.tasks import measure_run

HERE = Path(__file__).parents[1] / "fixtures" / "first_edition"
RUNS = sorted(
    str(file.parent.relative_to(HERE / "runs"))
    for file in (HERE / "runs").rglob("manifest.json")
    if not file.parent.name.startswith("unfinished-")
)
SCORED: dict[str, Sequence[str]] = {
    "score-a": (),
    "evaluate-a": (),
    "folded-a": (),
    "task-a": ("subject",),
    "task-choices": ("subject",),
    "task-errors": ("subject",),
    "rollouts-a": ("category",),
    "import-lm-eval-a": ("level",),
    "import-astra": (),
}
"""Runs whose records are scored again, with the part columns."""
PAIRS: dict[str, tuple[str, str, Sequence[str]]] = {
    "score": ("score-a", "score-b", ()),
    "evaluate": ("evaluate-a", "evaluate-b", ("--by", "language")),
    "folded": ("folded-a", "folded-b", ()),
    "task": ("task-a", "task-b", ("--by", "subject")),
    "perturbed": ("task-plain", "task-perturbed", ()),
    "rollouts": ("rollouts-a", "rollouts-b", ("--by", "category")),
    "rescored": ("rollouts-tree", "rollouts-rescored", ("--allow-version-change",)),
    "lm-eval": ("import-lm-eval-a", "import-lm-eval-b", ("--by", "level")),
}
RANKED = ("task", "rollouts", "lm-eval")
"""Pairs of runs with a leaderboard."""
TALKED = ("rollouts-a", "rollouts-tree", "rollouts-rescored", "import-astra")
"""Runs with conversations."""
REPORTED = (
    "score-a",
    "evaluate-a",
    "folded-a",
    "rollouts-a",
    "rollouts-tree",
    "import-predictions",
)
"""Runs whose reports contain additional tables."""
EXPORTED = ("evaluate-a", "task-a", "rollouts-a")
FORMATS = (
    *("every-eval-ever", "lm-eval", "eval-framework", "astra", "predictions"),
    *("csv", "latex", "markdown", "model-card", "model-index"),
)
CLAIMS = """
[[claim]]
name = "no errors"
no_errors = true
[[claim]]
name = "no leakage"
no_leakage = true
[[claim]]
name = "twenty"
slice = {slice}
min_n = 20
[[claim]]
name = "few alarms"
slice = {slice}
max_fpr = 0.1
"""


def kind_of(run: Run) -> str:
    """Return the kind of a run."""
    return str((run.manifest.get("config") or {}).get("kind") or "rows")


def digest(value: Any) -> str:
    """Return a short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def run_said(run: Run, work: Path) -> dict[str, Any]:
    """Return the stored results of a run, and which readers report which cells."""
    cells, name = stored_cells(run), str(run.path.relative_to(run.path.parents[1]))
    key = name if name in RUNS else run.path.name
    reached = {
        "rows": {cell.place for cell in row_cells(run)},
        "csv": {cell.place for cell in csv_cells(run)},
    }
    page = page_of(run, work / "report.html")
    reached["report"] = {cell.place for cell, _ in page.shown}
    found: dict[str, Any] = {
        "about": [run.run_id, kind_of(run), sorted({system for _, system in run.subjects})],
        "cells": [
            [*cell, " ".join(name for name, places in reached.items() if cell.place in places)]
            for cell in cells
        ],
        "records": records_of(run),
        "tables": stored_tables(run),
        "claims": claims_held(run, work),
    }
    if key in REPORTED:
        found["report"] = page.others
    if key in SCORED:
        found["scored"] = scored_again(run, SCORED[key])
    if key in TALKED:
        found["transcripts"] = conversations(run)
    if key in EXPORTED:
        found["exports"] = {kind: exported(run, kind, work) for kind in FORMATS}
    return found


def stored_tables(run: Run) -> list[list[Any]]:
    """Return the name, row count and digest of each additional table and of the inputs."""
    found = []
    for name in sorted(run.manifest["artifacts"]):
        if name.endswith(".parquet") and name not in ("records.parquet", "inputs.parquet"):
            columns = run.table(name)
            lines = zip(*(columns[key].tolist() for key in sorted(columns)), strict=True)
            found.append([name, len(next(iter(columns.values()))), digest(sorted(map(str, lines)))])
    if "inputs.parquet" in run.manifest["artifacts"] and run.inputs is not None:
        for slice_name, n in run.inputs.slices.items():
            texts = run.inputs.texts_at(slice_name, range(n))
            found.append([f"inputs of {slice_name}", n, digest(sorted(texts.values()))])
    return found


def scored_again(run: Run, by: Sequence[str]) -> list[Cell]:
    """Return the cells from ``score RUN``.

    For tasks and rollouts, only cells that agree with the run are returned, since ``score`` does not
    know the type of a column and averages all of them.
    """
    options = [word for column in by for word in ("--by", column)]
    payload = said("score", run.path, *options, "--resamples", 200)
    cells, stored = payload_cells(payload, Known.of(run)), set(map(_rounded, stored_cells(run)))
    return cells if kind_of(run) == "rows" else [cell for cell in cells if _rounded(cell) in stored]


def _rounded(cell: Cell) -> Cell:
    """Return a cell rounded to digits that do not depend on the processor."""
    numbers = (None if value is None else float(f"{value:.10g}") for value in cell.numbers)
    return Cell(*cell.place, *numbers, *cell[7:])


def claims_held(run: Run, work: Path) -> dict[str, bool]:
    """Return which claims about the whole run are met."""
    cells, known = stored_cells(run), Known.of(run)
    first = next(name for cell in cells if (name := spelled_in_claims(cell, known)))
    file = work / "claims.toml"
    file.write_text(CLAIMS.format(slice=json.dumps(first)))
    report = said("gate", run.path, "--claims", file)
    return {claim["name"]: claim["passed"] for claim in report["claims"]}


def conversations(run: Run) -> list[list[Any]]:
    """Return the unit, attempt, weight, first failure, turns and words from ``transcripts``."""
    code, out = command("transcripts", run.path, "--format", "jsonl")
    assert code == 0
    return [
        [
            *(one[key] for key in ("unit_id", "attempt", "weight", "first_event_turn")),
            *(len(one["turns"]), digest(one["messages"])),
        ]
        for one in map(json.loads, out.splitlines())
    ]


def exported(run: Run, kind: str, work: Path) -> int:
    """Return the exit code of an export."""
    return command("export", run.path, "--to", kind, "-o", work / f"export-{kind}")[0]


def pair_said(name: str, a: Run, b: Run, work: Path) -> dict[str, Any]:
    """Return the results for two runs: differences, non-inferiority and ranks."""
    options, known = PAIRS[name][2], Known.of(a)
    payload = said("compare", a.path, b.path, *options)
    cells = difference_cells(payload, known)
    changed = "--allow-version-change" in options
    python = compare_runs(a, b, metrics="all", allow_version_change=changed).to_dict()
    found: dict[str, Any] = {
        "compare": cells,
        "python": [line for line in difference_cells(python, known) if line not in cells],
        "claims": not_inferior(a, b, cells, known, work),
    }
    if "survival" in payload:
        turns = payload["survival"]["turns"]
        keys = ("turn", "status", "value_a", "value_b", "delta", "ci_low", "ci_high")
        found["survival"] = [[turn[key] for key in keys] for turn in turns]
    if name in RANKED:
        found["leaderboard"] = ranks(a, b)
    if name == "perturbed":
        robust = said("robustness", a.path, b.path)
        labels = [cell["perturbation"] for cell in robust["cells"]]
        pairs = zip(labels, difference_cells(robust, known), strict=True)
        found["robustness"] = [[label, *cell] for label, cell in pairs]
    return found


def not_inferior(
    a: Run, b: Run, cells: Sequence[Sequence[Any]], known: Known, work: Path
) -> dict[str, bool]:
    """Return which cells of B are non-inferior to A with margin 0.2."""
    lines = []
    for line in cells:
        cell = Cell(*line[:10])
        called = spelled_in_claims(cell, known)
        if called is None or cell.status != "ok":
            continue
        where = {"name": "/".join(cell.place), "slice": called, "scorer": line[10]}
        where |= {"metric": cell.metric, "baseline_scorer": cell.system}
        lines += ["[[claim]]", *(f"{key} = {json.dumps(value)}" for key, value in where.items())]
        lines += ["non_inferior_by = 0.2", "higher_is_better = true", "allow_missing = true"]
    file = work / "claims.toml"
    file.write_text("\n".join(lines))
    options = ("--claims", file, "--baseline", a.path, "--allow-version-change")
    report = said("gate", b.path, *options)
    return {claim["name"]: claim["passed"] for claim in report["claims"]}


def ranks(a: Run, b: Run) -> list[list[Any]]:
    """Return the system, value, interval, rank and rank limits from ``leaderboard``."""
    ranking = said("leaderboard", a.path, b.path, "--draws", 500)["ranking"]
    return [
        [
            *(one["name"], one["value"], one["ci"]["ci_low"], one["ci"]["ci_high"]),
            *(one["rank"], one["rank_low"], one["rank_high"], one["p_best"]),
        ]
        for one in ranking["systems"]
    ]


# --- stored answers to new numbers ------------------------------------------------------------------


def rescored(run: Run) -> list[Cell]:
    """Return the cells from ``rescore`` of a rollout run with another scorer."""
    payload = said("rescore", run.path, "--scorer", "keywords:cannot", "--max-error-rate", 1)
    return payload_cells(payload["results"], Known.of(run))


def measured(run: Run) -> list[Cell]:
    """Return the cells from regrading the answers of a run with other graders."""
    graders = ["f1", "exact_match{ignore_case=true}"]
    done = measure_run(run, asked.Capitals(rows=asked.ITEMS), graders=graders, maj_at=[3])
    return payload_cells(done.results, Known.of(run))


def measured_by_command(run: Run, *options: object) -> list[Cell]:
    """Return the cells from ``run TASK --measure`` or ``--replay`` for a task-file run."""
    task = HERE / "tasks" / f"{run.run_id}.toml"
    return payload_cells(said("run", task, *options)["results"], Known.of(run))


def suite_said(runs: Path) -> list[list[Any]]:
    """Return the means over tasks of the stored suite, without new model requests."""
    file = HERE / "tasks" / "suite.toml"
    payload = said("suite", file, "--model", "scripted:yes", "--out", runs / "suite", "--quiet")
    keys = ("value", "ci_low", "ci_high", "status", "n_units")
    return [[name, *(one[key] for key in keys)] for name, one in payload["aggregates"].items()]


def redone(runs: Path, work: Path) -> dict[str, Any]:
    """Return the cells from regrading or extending stored answers."""
    undisturbed = asked.refined(work / "refined").run
    asked.FAILS.clear()
    healthy = asked.broken(work / "healthy").run
    asked.FAILS.append(True)
    parity = Run.open(runs / "suite" / "parity")
    graders = ("--grader", "exact_match", "--grader", "f1")
    return {
        "rescored": rescored(Run.open(runs / "rollouts-a")),
        "measured": measured(Run.open(runs / "task-a")),
        "measured by command": measured_by_command(parity, "--measure", parity.path, *graders),
        "suite": suite_said(runs),
        "refined": stored_cells(undisturbed),
        "refined, spoken": conversations(undisturbed),
        "healthy": stored_cells(healthy),
    }


# --- what is kept -----------------------------------------------------------------------------------


def copied(runs: Path, *names: str) -> list[Run]:
    """Copy stored runs to a folder, and open them."""
    for name in names:
        if not (runs / name).exists():
            shutil.copytree(HERE / "runs" / name, runs / name)
    return [Run.open(runs / name) for name in names]


def expected(name: str) -> dict[str, Any]:
    """Return the results recorded when the runs were created."""
    content: dict[str, Any] = json.loads((HERE / "expected" / f"{name}.json").read_bytes())
    return content


def write_expected(folder: Path) -> None:
    """Record the results of the current readers."""
    shutil.rmtree(folder / "expected", ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        runs, work = Path(place) / "runs", Path(place) / "work"
        shutil.copytree(folder / "runs", runs)
        work.mkdir()
        for file in sorted(runs.rglob("manifest.json")):
            if not file.parent.name.startswith("unfinished-"):
                name = str(file.parent.relative_to(runs))
                _write(folder, name, run_said(Run.open(file.parent), work))
                for left in work.iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
        for name, (a, b, _) in PAIRS.items():
            told = pair_said(name, Run.open(runs / a), Run.open(runs / b), work)
            _write(folder, f"pair-{name}", told)
        _write(folder, "redone", redone(runs, work))


def _write(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write JSON with one line per cell or row."""
    file = folder / "expected" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    blocks = []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], list | tuple):
            inner = ",\n".join(f"  {json.dumps(line, ensure_ascii=False)}" for line in value)
            blocks.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            blocks.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    file.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def differences(found: Any, wanted: Any, where: str = "") -> list[str]:
    """Return the differences between two structures, with a tolerance of 1e-12 for numbers."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        keys = [*wanted, *(key for key in found if key not in wanted)]
        pairs = [(f"{where}/{key}", found.get(key), wanted.get(key)) for key in keys]
    elif isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        if len(found) != len(wanted):
            return [f"{where}: {len(found)} entries, not {len(wanted)}"]
        pairs = [(f"{where}[{at}]", one, wanted[at]) for at, one in enumerate(found)]
    elif isinstance(wanted, float) and isinstance(found, float | int):
        close = math.isclose(found, wanted, rel_tol=1e-12, abs_tol=1e-12)
        return [] if close else [f"{where}: {found!r}, not {wanted!r}"]
    else:
        return [] if found == wanted else [f"{where}: {found!r}, not {wanted!r}"]
    return [line for pair in pairs for line in differences(pair[1], pair[2], pair[0])]
