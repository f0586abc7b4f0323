"""Benchmarks of the command line: scoring a large file by slice, and ``--help``."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._data import binormal
from benchmarks._timing import Effort, Timing, race
from benchmarks.processes import RUNS_PER_ROUND, run_python

N_ROWS = 1_000_000
N_SLICES = 20
COMMAND = ("-m", "eval_toolkit")
SCORE = ("score", "--by", "lang", "--metric", "pr_auc", "--metric", "roc_auc", "--json")


@contextmanager
def stored() -> Iterator[str]:
    """Write labelled scores in twenty slices to a Parquet file."""
    from eval_toolkit._internal import tables

    y, scores = binormal(N_ROWS)
    slices = np.array([f"lang-{i:02d}" for i in range(N_SLICES)], dtype=object)
    lang = slices[np.random.default_rng(1).integers(0, N_SLICES, N_ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.parquet"
        yield str(tables.write_table({"label": y, "score": scores, "lang": lang}, file))


def one_pass(file: str) -> list[float]:
    """Read the file with duckdb and compute two scikit-learn metrics, overall and by slice."""
    import duckdb
    from sklearn.metrics import average_precision_score, roc_auc_score

    with duckdb.connect() as connection:
        read = connection.execute("SELECT label, score, lang FROM read_parquet(?)", [file])
        columns = read.fetchnumpy()
    y, scores, lang = (np.asarray(columns[name]) for name in ("label", "score", "lang"))
    values = [average_precision_score(y, scores), roc_auc_score(y, scores)]
    for name in sorted(set(lang.tolist())):
        at = lang == name
        values += [average_precision_score(y[at], scores[at]), roc_auc_score(y[at], scores[at])]
    return [float(value) for value in values]


def _score(effort: Effort) -> Measurement:
    with stored() as file:
        command = (*COMMAND, SCORE[0], file, *SCORE[1:])
        whole = json.loads(run_python(*command).output)["by_slice"]["all"]
        ours = [
            block["by_scorer"]["score"][metric]["value"]
            for block in (whole, *whole["parts"].values())
            for metric in ("pr_auc", "roc_auc")
        ]
        require_agreement(ours, one_pass(file), 1e-9)
        runs = [run_python(*command) for _ in range(effort.heavy_rounds)]
        peer = race({"peer": partial(one_pass, file)}, rounds=effort.heavy_rounds)["peer"]
    wall = min(run.wall_ns for run in runs) / 1e9
    return Measurement(
        Timing(tuple(run.cpu_ns for run in runs)),
        peer,
        note=f"wall, best: {wall:.1f} s; the peer's imports are not counted",
    )


def _help(effort: Effort) -> Measurement:
    run_python(*COMMAND, "--help")  # leaves compiled bytecode behind
    runs = [run_python(*COMMAND, "--help") for _ in range(effort.rounds * RUNS_PER_ROUND)]
    return Measurement(Timing(tuple(run.cpu_ns for run in runs)))


CASES = (
    Case(
        "score_1m",
        "`eval-toolkit score`: 1 000 000 rows of Parquet, two metrics, R = 1 000, by 20 slices",
        Bar("cost", 5),
        _score,
        "duckdb read and one scikit-learn pass, no intervals",
    ),
    Case("help", "`eval-toolkit --help`", Bar("seconds", 0.2), _help),
)
