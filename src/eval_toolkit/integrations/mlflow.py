"""Logging of runs to MLflow: cells with intervals, provenance, and files."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.integrations.results import Measured, measured_results, stored_run
from eval_toolkit.runs import Run
from eval_toolkit.scorecards.parts import WHOLE

__all__ = ["log_run", "mlflow_name"]

_EXPERIMENT = "eval-toolkit"
_KEPT_SIGNS = "_-. :"
_NAME_LENGTH = 250
_VALUE_LENGTH = 5000
"""Maximum length of a tag or parameter; MLflow allows 6 000 or 8 000, older servers less."""
_PER_BATCH = 100
_FILES = ("results.json", "results_full.json", "manifest.json", "report.html")
_OWN = "eval_toolkit."


def mlflow_name(*parts: str) -> str:
    """Return the MLflow name of a cell.

    Parameters
    ----------
    *parts : str
        Parts of the name, such as slice, scorer and metric; empty parts are skipped.

    Returns
    -------
    str
        Parts joined by ``/``. Letters, digits, ``_ - . :`` and spaces are kept, other characters
        become ``_``, surrounding spaces are stripped, and a part consisting only of dots becomes
        ``_``. Names longer than 250 characters are truncated and end in 8 digits of their hash.

    Examples
    --------
    >>> mlflow_name("language=de", "guard", "op_f1_at_0.5")
    'language_de/guard/op_f1_at_0.5'
    """
    made = "/".join(filter(None, map(_part, parts))) or "_"
    if len(made) <= _NAME_LENGTH:
        return made
    digest = hashlib.sha256("/".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{made[: _NAME_LENGTH - 9].rstrip(' /.')}-{digest}"


def _part(text: str) -> str:
    kept = "".join(sign if sign.isalnum() or sign in _KEPT_SIGNS else "_" for sign in text).strip()
    return "_" if text and not kept.strip(".") else kept


def log_run(
    run: Measured,
    *,
    prefix: str = "",
    run_id: str | None = None,
    experiment: str = _EXPERIMENT,
    client: Any = None,
    artifacts: bool = True,
) -> str:
    """Log a run to MLflow; needs the ``mlflow`` extra.

    Parameters
    ----------
    run : Run, path, Scorecard, RunResult, Outcome or mapping
        Object to log. Parameters, hashes and files are logged only for stored runs.
    prefix : str, default ""
        First part of every name, and folder of the artifacts; needed to log several runs to the
        same MLflow run.
    run_id : str, optional
        MLflow run to log to. By default the active run; without one, or if ``client`` is given, a
        new run is created and finished.
    experiment : str, default "eval-toolkit"
        Experiment of a new run; created if it does not exist.
    client : mlflow.MlflowClient, optional
        Client to use; by default a client for the configured tracking server.
    artifacts : bool, default True
        Whether to log ``results.json``, ``results_full.json``, ``manifest.json`` and
        ``report.html``, if they exist.

    Returns
    -------
    str
        Id of the MLflow run.

    Raises
    ------
    MissingExtraError
        If MLflow is not installed.
    ArtifactError
        If a path does not contain a finished run, or the run was altered.
    InvalidInputError
        If an argument is invalid or there are no cells.

    Notes
    -----
    A cell is logged as ``<slice>/<system>/<metric>``, a cell of a part as
    ``<slice>/<part>/<system>/<metric>``, together with ``…_ci_low``, ``…_ci_high`` and ``…_n``,
    under the names of `mlflow_name`. If two cells have the same name, the second one ends in
    ``-2``. A cell without a value is logged as a tag ``eval_toolkit.skipped.<name>`` or
    ``eval_toolkit.error.<name>`` with the reason. Parameters are the run's configuration; tags are
    its name, hashes, versions and seeds. Values that exceed MLflow's length limits are truncated.

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     log_run("runs/r7")
    """
    mlflow = require("mlflow", feature="log_run", extra="mlflow")
    if not isinstance(experiment, str) or not experiment or not isinstance(prefix, str):
        raise InvalidInputError("`experiment` must be a non-empty string and `prefix` a string")
    stored = _stored(run)
    told = _run_data(measured_results(run if stored is None else stored).rows(), prefix, stored)
    if not told.metrics and not told.tags:
        raise InvalidInputError("`run` has no cells; there is nothing to log")
    active = None if client is not None else mlflow.active_run()
    client = client or mlflow.MlflowClient()
    name = None if stored is None else stored.run_id
    target, made = run_id or (active.info.run_id if active else None), False
    if target is None:
        found = client.get_experiment_by_name(experiment)
        place = found.experiment_id if found else client.create_experiment(experiment)
        target, made = client.create_run(place, run_name=name).info.run_id, True
    try:
        _refuse_another(client, target, told, prefix)
        _send(mlflow, client, target, told)
        if stored is not None and artifacts:
            for file in _FILES:
                if (stored.path / file).is_file():
                    place = mlflow_name(prefix) if prefix else None
                    client.log_artifact(target, str(stored.path / file), place)
    except BaseException:
        if made:
            client.set_terminated(target, "FAILED")
        raise
    if made:
        client.set_terminated(target)
    return str(target)


def _refuse_another(client: Any, target: str, told: "_RunData", prefix: str) -> None:
    """Raise if a different run was logged under the same names and would be partly overwritten."""
    there = client.get_run(target).data
    own = [name for name in told.tags if name.endswith(f"{_OWN}manifest_sha256")]
    for have, given in (
        (there.tags, {name: told.tags[name] for name in own}),
        (there.params, told.params),
    ):
        for name, value in given.items():
            if have.get(name, value) != value:
                raise InvalidInputError(
                    f"another run was logged to the MLflow run {target} with the same prefix "
                    f"{prefix!r} ({name} differs); give each run its own prefix"
                )


def _stored(run: Measured) -> Run | None:
    try:
        return stored_run(run)
    except InvalidTypeError:
        return None


@dataclass(frozen=True)
class _RunData:
    metrics: dict[str, float]
    params: dict[str, str]
    tags: dict[str, str]


def _run_data(rows: Sequence[Mapping[str, Any]], prefix: str, stored: Run | None) -> _RunData:
    metrics: dict[str, float] = {}
    tags: dict[str, str] = {}
    used: set[str] = set()
    for row in rows:
        part = "" if row["part"] == WHOLE else row["part"]
        place = (row["slice"], part, row["system"], row["metric"])
        name = _free(mlflow_name(prefix, *place), used)
        if row["status"] != "ok" or row["value"] is None:
            tags[mlflow_name(f"{_OWN}{row['status']}.{name.replace('/', '.')}")] = row["reason"]
            continue
        metrics[name] = row["value"]
        for part, key in (("ci_low", "ci_low"), ("ci_high", "ci_high"), ("n", "n_units")):
            if row[key] is not None:
                metrics[_with_end(name, part)] = float(row[key])
    if stored is None:
        return _RunData(metrics, {}, _cut(tags))
    params, own = _flat(stored.manifest.get("config")), _tags(stored)
    if prefix:
        params = {mlflow_name(prefix, name): value for name, value in params.items()}
        own = {mlflow_name(prefix, name): value for name, value in own.items()}
    return _RunData(metrics, _cut(params), _cut({**own, **tags}))


def _free(name: str, used: set[str]) -> str:
    """Return the name, with a numeric suffix if another cell already uses it."""
    free, number = name, 1
    while free in used:
        number += 1
        free = _with_end(name, str(number), "-")
    used.add(free)
    return free


def _with_end(name: str, end: str, sign: str = "_") -> str:
    return f"{name[: _NAME_LENGTH - len(end) - 1]}{sign}{end}"


def _flat(node: Any, place: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the leaves of a configuration, with keys joined by dots."""
    if isinstance(node, Mapping) and node:
        return {
            name: value
            for key, item in node.items()
            for name, value in _flat(item, (*place, str(key))).items()
        }
    if not place:
        return {}
    text = node if isinstance(node, str) else json.dumps(node, sort_keys=True, default=str)
    return {mlflow_name(".".join(place)): text}


def _tags(run: Run) -> dict[str, str]:
    """Return the identity of a run: its name, hashes, versions and seeds."""
    manifest = run.manifest
    tags = {"run_id": run.run_id, "manifest_sha256": manifest.get("manifest_sha256")}
    tags |= {key: manifest.get(key) for key in ("git_sha", "config_hash", "captured_at")}
    results = manifest["artifacts"].get("results.json") or {}
    tags["results_sha256"] = results.get("sha256")
    groups = (
        ("data", "data_hashes"),
        ("version", "code_versions"),
        ("object", "versioned_objects"),
        ("seed", "seeds"),
    )
    for word, key in groups:
        tags |= {f"{word}.{name}": value for name, value in (manifest.get(key) or {}).items()}
    return {
        mlflow_name(_OWN + name): str(value) for name, value in tags.items() if value is not None
    }


def _cut(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value if len(value) <= _VALUE_LENGTH else value[: _VALUE_LENGTH - 1] + "…"
        for name, value in values.items()
    }


def _send(mlflow: Any, client: Any, run_id: str, told: _RunData) -> None:
    now = int(time.time() * 1000)
    entities = mlflow.entities
    for kind, items in (
        ("params", [entities.Param(*pair) for pair in told.params.items()]),
        ("tags", [entities.RunTag(*pair) for pair in told.tags.items()]),
        ("metrics", [entities.Metric(*pair, now, 0) for pair in told.metrics.items()]),
    ):
        for batch in _batches(items):
            client.log_batch(run_id, **{kind: batch})


def _batches(items: Sequence[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, _PER_BATCH)):
        yield batch
