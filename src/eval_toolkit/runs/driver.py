"""Driver of evaluations of any kind.

`drive` opens and locks the folder, refuses to mix runs or to lose answers, lets the kind produce
missing attempts and grade them, and writes the run atomically. `rescore` does the same with the
stored attempts of another run. Without a folder, nothing is written; the results are the same.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.specs import AskSpec

if TYPE_CHECKING:
    from eval_toolkit.runs.folder import Run
    from eval_toolkit.runs.merging import Joined
    from eval_toolkit.runs.shards import Share
    from eval_toolkit.runs.units import Unit

_OF_THE_RUN = (
    *("status", "artifacts", "manifest_sha256", "run_id", "captured_at", "inputs"),
    *("merged", "joins"),
)
"""Manifest entries that are not copied to a rescored run; "inputs" describes a legacy table."""
_OF_DATA = ("data_hashes", "data_revisions", "versioned_objects")


def drive(
    kind: Kind[Any],
    out: str | Path | None = None,
    *,
    name: str,
    run_id: str | None = None,
    ask: AskSpec | None = None,
    max_error_rate: float = 0.0,
    engine: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    shard: str | None = None,
) -> Outcome:
    """Run an evaluation: produce missing attempts, then grade, summarise and store them.

    Parameters
    ----------
    kind : Kind
        Kind of evaluation.
    out : path, optional
        Folder of the run. An interrupted run is resumed, and missing answers are added to a
        finished one.
    name : str
        Name of the run if it has no folder.
    run_id : str, optional
        Name of the run; by default, the name of the folder.
    ask : AskSpec, optional
        Request settings.
    max_error_rate : float, default 0.0
        Maximum tolerated share of failed attempts.
    engine : mapping, optional
        Request settings to record in the manifest.
    notes : sequence of str
        Notes that precede those of the driver.
    shard : str, optional
        Shard of the units to evaluate, such as "2/8"; `merge_runs` merges the shards.

    Returns
    -------
    Outcome
        Outcome of the evaluation. Equal answers give byte-identical records and results, even in
        resumed runs.

    Raises
    ------
    ArtifactError
        If the folder contains another run, or another process is writing to it.
    ModelError
        If a model fails permanently; existing answers are kept.

    Examples
    --------
    A kind that only defines how to answer and score a unit; see `Kind`:

    >>> import tempfile
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.runs import Unit
    >>> class Rounding(Kind):
    ...     name = "rounding"
    ...     def config(self):
    ...         return {"system": "round"}
    ...     def units(self):
    ...         return [Unit(id=f"{x}", input=x, reference=int(x + 0.5)) for x in (0.4, 0.5, 1.5)]
    ...     def respond(self, inputs):
    ...         return [round(x) for x in inputs]
    ...     def score(self, unit, output):
    ...         return {"right": float(output == unit.reference)}
    ...     def metrics(self):
    ...         return [ms.mean_of("right")]
    >>> folder = tempfile.mkdtemp() + "/r"
    >>> drive(Rounding(), folder, name="demo").n_asked, drive(Rounding(), folder, name="demo").n_asked
    (3, 0)
    """
    share = None
    if shard is not None:
        from eval_toolkit.runs.shards import Shard, Share

        share = Share.of(kind, Shard.read(shard), [*notes, *kind.notes])
        kind = kind.share(share.shard)
    driver = driver_of(
        kind, ask or AskSpec(), run_id, name, max_error_rate, dict(engine or {}), tuple(notes)
    )
    return replace(driver, share=share).run(None if out is None else Path(out))


def driver_of(kind: Kind[Any], *settings: Any) -> Driver:
    """Return the driver of a kind; the driver that queries models is imported only if needed."""
    if not kind.asks:
        return Driver(kind, *settings)
    from eval_toolkit.runs.query_driver import AskingDriver

    return AskingDriver(kind, *settings)


def config_of(kind: Kind[Any]) -> dict[str, Any]:
    """Return a kind's configuration as a JSON-serialisable dict without secrets."""
    config = {"kind": kind.name, **kind.config()}
    safe: dict[str, Any] = redact_secrets(sanitize_for_json(config))
    return safe


def placed(units: Iterable[Unit]) -> list[Unit]:
    """Assign positions to units that have none."""
    rows = enumerate(units)
    return [unit if unit.row is not None else replace(unit, row=row) for row, unit in rows]


@dataclass(frozen=True, slots=True)
class Driver:
    """Driver of evaluations that send no requests; see `AskingDriver` for the others."""

    kind: Kind[Any]
    ask: AskSpec
    run_id: str | None
    name: str
    max_error_rate: float
    engine: Mapping[str, Any]
    notes: tuple[str, ...]
    source: Run | None = None
    """Run whose attempts are regraded; None if new attempts are produced."""
    share: Share | None = None
    joined: Joined | None = None
    """Shards that were merged into the source run, if any."""

    def run(self, folder: Path | None) -> Outcome:
        """Run the evaluation and return its outcome; store it if there is a folder."""
        started = time.monotonic()
        attempts = self.kind.produce(None)  # type: ignore[arg-type]  # it sends no requests
        name = self.run_id or (self.name if folder is None else folder.resolve().name)
        found = self.outcome(attempts, self.config(), name, started)
        if folder is not None:
            return self.store(found, folder, attempts)
        return replace(found, saved=lambda place: _run_of(self.store(found, place, attempts)))

    @property
    def is_empty(self) -> bool:
        """Whether the evaluation is a shard without units."""
        return self.share is not None and not self.share.units

    @property
    def first_notes(self) -> Sequence[str]:
        """Notes made before the first request; a merged run has the notes of its shards."""
        return self.notes if self.joined is not None else (*self.notes, *self.kind.notes)

    def config(self) -> dict[str, Any]:
        """Return the configuration of the run."""
        if self.joined is not None:
            return dict(self.joined.config)
        shard = {} if self.share is None else {"shard": str(self.share.shard)}
        return config_of(self.kind) | shard

    def outcome(
        self,
        attempts: Any,
        config: Mapping[str, Any],
        run_id: str,
        started: float,
        *,
        took: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
    ) -> Outcome:
        """Grade the attempts; ``took`` and ``notes`` describe the requests."""
        nothing = Graded(subjects={}, cards={}, n_errors=0)
        graded = nothing if self.is_empty else self.kind.grade(attempts)
        if self.joined is not None:
            self.joined.check(graded.subjects)
        if self.share is not None:
            self.share.check(self.kind.name, graded.subjects)
        rate = 0.0
        if graded.n_errors:
            n = sum(len(records) for records in graded.subjects.values())
            rate = graded.n_errors / max(n, graded.n_errors)  # failed attempts may have no record
        return Outcome(
            subjects=graded.subjects,
            cards=graded.cards,
            results=self._results(graded, config, run_id),
            attempts=graded.attempts,
            more=graded.more,
            counts=graded.counts,
            **(took or {}),
            n_errors=graded.n_errors,
            n_skipped=graded.n_skipped,
            error_rate=rate,
            too_many_errors=rate > self.max_error_rate,
            stopping=graded.stopping,
            elapsed_s=time.monotonic() - started,
            answered=partial(self.kind.answers_table, attempts, graded),
            notes=tuple(dict.fromkeys((*self.first_notes, *graded.notes, *notes))),
        )

    def _results(self, graded: Graded, config: Mapping[str, Any], run_id: str) -> dict[str, Any]:
        """Return the contents of ``results.json``."""
        cells: dict[str, Any] = dict(graded.by_slice or {})
        for (slice_name, system), records in () if cells else graded.subjects.items():
            card = graded.cards[slice_name, system]
            entry = card_entry(system, records, card, by=self.kind.by)
            for part, block in entry.get("parts", {}).items():
                known = cells.get(slice_name, {}).get("parts", {}).get(part, block)
                known["by_scorer"] |= block["by_scorer"]
            cells.setdefault(slice_name, entry)["by_scorer"] |= entry["by_scorer"]
        return {
            "schema_version": "v1",
            "run_id": run_id,
            "config": config,
            "by_slice": cells,
            **graded.extra,
        }

    def head(self, config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return the manifest entries that are known before the first request."""
        from eval_toolkit.manifest import build_manifest

        own = dict(self.kind.manifest(config))
        manifest = build_manifest(
            run_id=self.run_id or folder.resolve().name,
            config=config,
            seeds=own.pop("seeds", None),
            data_revisions=own.pop("data_revisions", None),
            data_files=own.pop("data_files", None),
        )
        manifest = replace(manifest, versioned_objects=own.pop("versioned_objects", {}))
        before: dict[str, Any] = {}
        if self.source is not None:
            before = {k: v for k, v in self.source.manifest.items() if k not in _OF_THE_RUN}
            if self.joined is None and folder.resolve() != self.source.path.resolve():
                captured_at = self.source.manifest.get("captured_at")
                before["rescored"] = {"run_id": self.source.run_id, "manifest": captured_at}
        engine = {"engine": dict(self.engine)} if self.engine else {}
        if self.share is not None:
            own["shard"] = dict(self.share.whole)
        if self.joined is not None:
            before.pop("shard", None)
            own |= self.joined.told
        notes = [*self.first_notes]
        entries = manifest.to_dict()
        # A kind restored from a stored run has no access to the data.
        entries |= {
            name: before[name] for name in _OF_DATA if before.get(name) and not entries.get(name)
        }
        return {**before, **entries, "kind": self.kind.name, **own, **engine, "notes": notes}

    def store(
        self, found: Outcome, folder: Path, attempts: Any, *, overwrite: bool = False
    ) -> Outcome:
        """Write the outcome of a kind that sends no requests; nothing is resumed."""
        from eval_toolkit.runs.units import UNITS, units_table
        from eval_toolkit.runs.writing import write_run

        units, tables = self.kind.units(), dict(self.kind.tables(attempts))
        about = None
        # A kind with its own table of units describes it in its manifest.
        if found.subjects and UNITS not in tables:
            tables[UNITS], about = units_table(found.subjects, units)
        run = write_run(
            folder,
            results=found.results,
            results_full=self.full(found),
            manifest={
                **self.head(found.results["config"], folder),
                "run_id": found.results["run_id"],
                **({"item_set_hash": item_set_hash(units)} if units else {}),
                **({} if about is None else {"units": about}),
                **({"counts": dict(found.counts)} if found.counts else {}),
                "notes": list(found.notes),
            },
            records=found.subjects or None,
            tables=tables,
            overwrite=overwrite,
        )
        return replace(found, run=run)

    def full(self, found: Outcome) -> dict[str, Any] | None:
        """Return the contents of ``results_full.json``, or None."""
        return {**found.results, self.kind.full: dict(found.more)} if found.more else None


def _run_of(found: Outcome) -> Run:
    assert found.run is not None  # noqa: S101 - it was just written
    return found.run


def store(
    kind: Kind[Any], found: Outcome, folder: Path, attempts: Any, *, overwrite: bool = False
) -> Outcome:
    """Write the outcome that `drive` returned for a kind that sends no requests."""
    driver = Driver(kind, AskSpec(), str(found.results["run_id"]), "", 0.0, {}, ())
    return driver.store(found, folder, attempts, overwrite=overwrite)


def item_set_hash(units: Iterable[Unit]) -> str:
    """Return a hash of the ids and contents of all units."""
    digest, separator = hashlib.sha256(b"["), b""
    for pair in sorted((unit.id, unit.content_hash) for unit in units):
        digest.update(separator + canonical_json(pair).encode("utf-8", "surrogatepass"))
        separator = b","
    digest.update(b"]")
    return digest.hexdigest()


def refuse_taken(out: Path, source: Run, *, in_place: bool = False) -> None:
    """Raise an error, before any request, if a rescored run cannot be written to a folder.

    With ``in_place``, the source folder, an unfinished run or an earlier rescoring may be
    overwritten; answers and verdicts are kept.
    """
    from eval_toolkit.runs.folder import run_state

    own = out.resolve() == source.path.resolve()
    state = run_state(out) if out.exists() else "not a run"
    if in_place and (own or state != "complete" or _rescored_from(out) == source.run_id):
        return
    if own:
        raise InvalidInputError(f"`out` is {out}, the run itself; choose another folder")
    if state != "not a run":
        raise ArtifactError(f"{out}: already contains a run; choose another folder")


def _rescored_from(folder: Path) -> str | None:
    """Return the id of the run whose attempts were regraded; None if the run is not rescored."""
    from eval_toolkit.runs.folder import Run

    source = Run.open(folder).manifest.get("rescored")
    return str(source.get("run_id")) if isinstance(source, Mapping) else None
