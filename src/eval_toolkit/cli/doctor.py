"""``eval-toolkit doctor``: report the state of the installation or of runs."""

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from eval_toolkit import __version__
from eval_toolkit._internal import kernel
from eval_toolkit._internal.display import Page, Status, Table
from eval_toolkit._internal.files import pieces_of
from eval_toolkit._internal.kernel import neardup
from eval_toolkit._internal.optional import how_to_install
from eval_toolkit._internal.sandbox.levels import measured_level
from eval_toolkit.artifacts import read_json
from eval_toolkit.artifacts.remote import address_of, is_remote, local_path
from eval_toolkit.cli._exit import EvidenceSaysNo
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output, progress
from eval_toolkit.cli._weights import weights_there
from eval_toolkit.cli.plugins import found_plugins, plugins_table
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.loaders.fetching import default_cache_dir
from eval_toolkit.provenance import capture_hardware, package_versions
from eval_toolkit.runs import Run, find_runs, run_state
from eval_toolkit.runs.lock import LOCK, lock_holder
from eval_toolkit.runs.open import JOURNAL

EXTRAS = {
    "dataframe": "pandas",
    "validation": "jsonschema",
    "yaml": "yaml",
    "excel": "openpyxl",
    "remote": "fsspec",
    "llm": "aiohttp",
    "bedrock": "botocore",
    "hf": "transformers",
    "llamacpp": "xllamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "text": "sacrebleu",
    "math": "math_verify",
    "safety": "h5py",
    "report": "vl_convert",
    "view": "uvicorn",
    "logs": "zstandard",
    "ray": "ray",
    "dask": "distributed",
    "mlflow": "mlflow",
}
"""Optional extras, each with a module that it installs."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EVAL_TOOLKIT_KERNEL")
_LEFTOVERS = (".staging-*", ".*.tmp", f".{LOCK}.*")


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@output_options
def doctor(paths: Sequence[str], output: Output) -> None:
    """Report the state of the installation or of runs.

    PATHS are runs, folders of runs, or URLs of runs. Exit with code 1 if a run is incomplete or
    altered. A broken plugin is listed but does not change the exit code (`eval-toolkit plugins`
    then exits with code 1).
    """
    if not paths:
        output.emit(_machine_page())
        return
    here = [local_path(path) for path in paths if not is_remote(path)]
    runs = _runs(here)
    entries = [_examined(run) for run in progress(runs, "reading", len(runs))]
    entries += [_examined_there(path) for path in paths if is_remote(path)]
    strays = [str(path) for path in _strays(here, runs)]
    output.emit(_runs_page(entries, strays))
    if any(entry["state"] in ("incomplete", "altered") for entry in entries):
        raise EvidenceSaysNo


# --- runs ---------------------------------------------------------------------------------------


def _runs(paths: Sequence[Path]) -> list[Path]:
    """Return the distinct runs at or below the given paths."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise InvalidInputError(f"{path}: no such run or folder")
        if path.is_file() and path.name != "manifest.json":
            raise InvalidInputError(f"{path}: is a file; pass a run folder or a folder of runs")
        folder = path.parent if path.is_file() else path
        here = [folder] if run_state(folder) != "not a run" else find_runs(folder)
        found.update(dict.fromkeys(here))
    return list(found)


def _examined(run: Path) -> dict[str, Any]:
    """Return the state of a run, the reason, leftover files and the recommended action."""
    state, _, why = run_state(run).partition(": ")
    if state == "incomplete" and _says_complete(run):
        state = "altered"
    holder = lock_holder(run)
    locked = (run / LOCK).exists()
    leftovers = [] if holder else sorted(path.name for path in _matching(run))
    journal = run / JOURNAL
    again = "write the run again with overwrite, or delete the folder"
    if journal.is_file():
        n = max(0, sum(piece.count(b"\n") for piece in pieces_of(journal)) - 1)
        again = f"run the same command again to resume after the {n} requests in {JOURNAL}"
    todo = {
        "incomplete": again,
        "altered": "restore the files from a backup, or repeat the run",
        "running": f"wait for {holder}; if that process no longer exists, delete {LOCK}",
    }.get(state, "")
    if locked and not holder:
        leftovers.insert(0, LOCK)
    if leftovers:
        what = f"delete {', '.join(leftovers)}: left by a process that died"
        todo = f"{todo}; {what}" if todo else what
    return {
        "run": str(run),
        "state": state,
        "reason": why,
        "locked_by": holder,
        "stale_lock": locked and not holder,
        "leftovers": leftovers,
        "what_to_do": todo,
    }


def _examined_there(address: str) -> dict[str, Any]:
    """Return the state of a run at a URL: whether all of it can be downloaded."""
    shown, why = address_of(address), ""
    try:
        Run.open(address)
    except ArtifactError as error:
        why = str(error).removeprefix(f"{shown}: ")
    return {
        "run": shown,
        "state": "incomplete" if why else "complete",
        "reason": why,
        "locked_by": None,
        "stale_lock": False,
        "leftovers": [],
        "what_to_do": "upload it again" if why else "",
    }


def _says_complete(run: Path) -> bool:
    try:
        manifest = read_json(run / "manifest.json")
    except ArtifactError:
        return False
    return isinstance(manifest, dict) and manifest.get("status") == "complete"


def _matching(folder: Path) -> Iterator[Path]:
    for pattern in _LEFTOVERS:
        yield from folder.glob(pattern)


def _strays(paths: Sequence[Path], runs: Sequence[Path]) -> Iterator[Path]:
    """Yield temporary files next to runs; those inside a run are listed with the run."""
    folders = {path for path in paths if path.is_dir()} | {run.parent for run in runs}
    for folder in sorted(folders - set(runs)):
        yield from sorted(_matching(folder))


def _runs_page(entries: Sequence[dict[str, Any]], strays: Sequence[str]) -> Page:
    rows = [
        [entry["run"], Status(entry["state"]), entry["reason"], entry["what_to_do"]]
        for entry in entries
    ]
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry["state"]] = counts.get(entry["state"], 0) + 1
    told = ", ".join(f"{n} {state}" for state, n in counts.items()) or "none"
    payload = {"runs": list(entries), "strays": list(strays)}
    notes = [
        f"{stray}: a temporary file; delete it if nothing is being written" for stray in strays
    ]
    tables = [Table(["run", "state", "reason", "advice"], rows)] if rows else []
    return Page("Runs", payload, [f"runs: {told}"], tables, notes)


# --- the machine --------------------------------------------------------------------------------


def _machine_page() -> Page:
    extras = {
        name: {"module": module, "installed": find_spec(module) is not None}
        for name, module in EXTRAS.items()
    }
    offered = found_plugins()
    own = {"eval-toolkit": __version__, "python": platform.python_version()}
    payload: dict[str, dict[str, Any]] = {
        "versions": own | package_versions(),
        "kernel": {"bootstrap": kernel.backend(), "near_duplicates": neardup.backend()},
        "extras": extras,
        "machine": _machine(),
        "sandbox": _sandbox(),
        "weights": weights_there(),
        "caches": _caches(),
        "plugins": {f"{info.kind} {info.name}": info.to_dict() for info in offered},
    }
    tables = [
        Table(["package", "version"], [[*item] for item in payload["versions"].items()]),
        Table(
            ["kernel", "back-end"],
            [[name, _kernel_words(which)] for name, which in payload["kernel"].items()],
        ),
        Table(
            ["extra", "state"],
            [[name, _extra_words(name, found)] for name, found in extras.items()],
        ),
        Table(
            ["weights", "state"],
            [[name, entry["path"] or entry["state"]] for name, entry in payload["weights"].items()],
        ),
        Table(["sandbox", ""], _sandbox_rows(payload["sandbox"])),
        Table(["machine", ""], [[name, str(value)] for name, value in payload["machine"].items()]),
        Table(["cache", "state"], [[path, state] for path, state in payload["caches"].items()]),
    ]
    if offered:
        tables.append(plugins_table(offered))
    notes = [f"{info.kind} {info.name}: {info.problem}" for info in offered if not info.usable]
    return Page("Doctor", payload, (), tables, notes)


def _sandbox() -> dict[str, Any]:
    """Describe the sandbox for model-written programs on this machine, and how to improve it."""
    found = measured_level()
    return {
        "level": found.level.value,
        "way": found.way,
        "reasons": dict(found.reasons),
        "advice": found.advice(),
    }


def _sandbox_rows(found: dict[str, Any]) -> list[list[str]]:
    level = f"{found['level']} ({found['way']})" if found["way"] else found["level"]
    advice = [["advice", found["advice"]]] if found["advice"] else []
    return [["level", level], *([*item] for item in found["reasons"].items()), *advice]


def _kernel_words(backend: str) -> str:
    if backend == "native":
        return "native (C)"
    why = "EVAL_TOOLKIT_KERNEL=numpy is set" if kernel.native else "the C kernel was not built"
    return f"numpy ({why}; same numbers, slower)"


def _extra_words(name: str, found: dict[str, Any]) -> Status:
    if found["installed"]:
        return Status(f"{found['module']} is installed")
    return Status("missing", how_to_install(name))


def _machine() -> dict[str, Any]:
    usage = shutil.disk_usage(Path.cwd())
    machine: dict[str, Any] = {
        "system": platform.platform(),
        **capture_hardware(),
        "free_memory_gb": _free_memory_gb(),
        "free_disk_gb": round(usage.free / 1e9, 1),
        "blas_threads": _blas_threads(),
    }
    machine |= {name: os.environ[name] for name in _THREADS if name in os.environ}
    return machine


def _free_memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 1e9, 1)
    except (AttributeError, OSError, ValueError):  # not available on Windows and macOS
        return None


def _blas_threads() -> int | None:
    """Return the number of BLAS threads, from threadpoolctl."""
    try:
        from threadpoolctl import threadpool_info  # type: ignore[import-untyped]
    except ImportError:
        return None
    return max((pool["num_threads"] for pool in threadpool_info()), default=None)


def _caches() -> dict[str, str]:
    folder = default_cache_dir()
    if not folder.is_dir():
        return {str(folder): "empty"}
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return {str(folder): f"{len(files)} files, {size / 1e6:.1f} MB"}
