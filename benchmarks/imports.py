"""Benchmarks of importing logs of lm-eval and Inspect, against other readers."""

import json
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._timing import Effort, Timing, race
from eval_toolkit.integrations.importing import (
    Imported,
    Wanted,
    import_logs,
    measure_log,
    read_logs,
)
from eval_toolkit.integrations.importing.measurement import log_records

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin"
N_LINES, LINES_PER_S = 10_000, 10_000
WRITTEN_PER_S = 5_000
"""Bar for writing a run, which also redacts, hashes and compresses prompts and answers."""
N_SAMPLES, LIMIT_S = 1_000, 0.3


def _line(at: int, right: float) -> dict[str, Any]:
    """Return the line of a generated answer, about a kilobyte as in real logs."""
    question = f"What is {at} plus {3 * at}? " + "Explain every step of the way. " * 8
    asked = {"until": ["\n\n"], "max_gen_toks": 16, "temperature": 0.0, "do_sample": False}
    return {
        "doc_id": at,
        "doc": {"question": question, "answer": str(4 * at)},
        "target": str(4 * at),
        "arguments": {"gen_args_0": {"arg_0": question, "arg_1": asked}},
        "resps": [[str(4 * at)]],
        "filtered_resps": [str(4 * at)],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": f"{at:064x}",
        "prompt_hash": f"{at:064x}",
        "target_hash": f"{at:064x}",
        "exact_match": right,
    }


def _lm_eval(effort: Effort) -> Measurement:
    """Read a sample file into records; the peers only parse its lines or build a table."""
    import pandas as pd

    rights = (np.random.default_rng(1).random(N_LINES) < 0.8).astype(float).tolist()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "samples_sums_2025-01-01T00-00-00.1.jsonl"
        lines = (json.dumps(_line(at, right)) + "\n" for at, right in enumerate(rights))
        path.write_text("".join(lines), encoding="utf-8")

        def ours() -> float:
            (log,) = read_logs(path)
            records = log_records(log)
            return float(records.columns["exact_match"].mean())

        def plain() -> float:
            with path.open(encoding="utf-8") as file:
                read = [json.loads(line) for line in file]
            return math.fsum(line["exact_match"] for line in read) / len(read)

        def pandas() -> float:
            return float(pd.read_json(path, lines=True)["exact_match"].mean())

        require_agreement([ours(), ours()], [plain(), pandas()], 1e-12)
        timed = race({"ours": ours, "plain": plain, "pandas": pandas}, rounds=effort.heavy_rounds)
    note = (
        f"{N_LINES / timed['ours'].seconds:,.0f} samples/s to records; json.loads line by line "
        f"{N_LINES / timed['plain'].seconds:,.0f}, pandas.read_json "
        f"{N_LINES / timed['pandas'].seconds:,.0f} lines/s"
    )
    return Measurement(timed["ours"], timed["pandas"], note)


def _written(effort: Effort) -> Measurement:
    """Convert a sample file to a run; the reference is the time to read it."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "samples_sums_2025-01-01T00-00-00.1.jsonl"
        lines = (json.dumps(_line(at, float(at % 5 > 0))) + "\n" for at in range(N_LINES))
        path.write_text("".join(lines), encoding="utf-8")

        def ours() -> float:
            (found,) = import_logs(path, Path(name) / "runs", overwrite=True)
            return float(found.cells["exact_match"].value or 0.0)

        def read() -> float:
            (log,) = read_logs(path)
            return float(log_records(log).columns["exact_match"].mean())

        require_agreement([ours()], [read()], 1e-12)
        timed = race({"ours": ours, "read": read}, rounds=effort.heavy_rounds)
    note = f"{N_LINES / timed['ours'].seconds:,.0f} samples/s, read, measured and written"
    return Measurement(timed["ours"], timed["read"], note)


def _peer(*arguments: object) -> str:
    command = [PEERS / "python", HERE / "peers" / "inspect_log.py", *map(str, arguments)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1][:300])
    return done.stdout.strip().splitlines()[-1]


def _inspect(effort: Effort) -> Measurement:
    """Compute the statistics of a log written by Inspect; the peer is Inspect's own reader."""
    if not PEERS.is_dir():
        raise ModuleNotFoundError("no inspect_ai", name="inspect_ai")
    with tempfile.TemporaryDirectory() as name:
        path = Path(_peer("make", name, N_SAMPLES).removeprefix("file://"))

        def ours() -> Imported:
            (log,) = read_logs(path, Wanted(samples=False))
            return measure_log(log)

        (checked, *_) = ours().checked
        took, accuracy = map(float, _peer("read", path).split())
        require_agreement([checked.stated], [accuracy], 1e-12)
        timed = race({"ours": ours}, rounds=effort.rounds)["ours"]
    note = f"{checked.verdict}; read_eval_log alone takes {1e3 * took:,.0f} ms"
    return Measurement(timed, Timing((took * 1e9,)), note)


CASES = (
    Case(
        "import-lm-eval",
        f"{N_LINES:,} lines of an lm-eval samples file to records",
        Bar("seconds", N_LINES / LINES_PER_S),
        _lm_eval,
        "pandas.read_json",
    ),
    Case(
        "import-lm-eval-out",
        f"{N_LINES:,} lines of an lm-eval samples file to a run on disk",
        Bar("seconds", N_LINES / WRITTEN_PER_S),
        _written,
        "reading them to records alone",
    ),
    Case(
        "import-inspect",
        f"the statistics of an Inspect log of {N_SAMPLES:,} samples",
        Bar("seconds", LIMIT_S),
        _inspect,
        "inspect_ai.log.read_eval_log",
    ),
)
