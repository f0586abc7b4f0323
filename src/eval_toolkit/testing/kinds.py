"""Contract for kinds of evaluation."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run, drive
from eval_toolkit.runs.blocks import Block
from eval_toolkit.runs.kinds import Kind
from eval_toolkit.runs.selected_units import units_at
from eval_toolkit.runs.units import Unit
from eval_toolkit.testing.rules import Suite, check_json, expect

__all__ = ["KIND"]

_RECORDS = "records.parquet"


@dataclass(frozen=True)
class _Nothing:
    """Empty inputs: kinds provide their own units."""


def is_a_kind(kind: Any, given: _Nothing) -> None:
    """The kind is an instance of `Kind`."""
    expect(Kind in type(kind).__mro__, "an object", kind)


def class_has_a_name(kind: Any, given: _Nothing) -> None:
    """The class has a single-line name, which identifies it in stored runs."""
    name = getattr(type(kind), "name", None)
    expect(isinstance(name, str) and name.strip() and name.isprintable(), "`name`", name)


def configuration_is_json(kind: Any, given: _Nothing) -> None:
    """The configuration is JSON with string keys and does not change between calls."""
    told = kind.config()
    expect(isinstance(told, Mapping), "`config()`", told)
    check_json(dict(told), "`config()`")
    again = canonical_json(dict(kind.config()))
    expect(again == canonical_json(dict(told)), "`config()` twice", again)


def identity_is_in_configuration(kind: Any, given: _Nothing) -> None:
    """Every setting in the identity is also in the configuration."""
    known = {"kind", *kind.config()}
    settings = kind.identity().settings
    expect(known.issuperset(settings), f"the settings {sorted(known)}", settings)


def unit_ids_are_unique(kind: Any, given: _Nothing) -> None:
    """Units have unique ids, which do not change between calls."""
    units = list(kind.units())
    expect(units and all(isinstance(unit, Unit) for unit in units), "`units()`", units)
    ids = [unit.id for unit in units]
    expect(len(set(ids)) == len(ids), "unique ids", ids)
    again = [(unit.id, unit.content_hash) for unit in kind.units()]
    expect(again == [(u.id, u.content_hash) for u in units], "`units()` twice", again)


def metric_names_are_unique(kind: Any, given: _Nothing) -> None:
    """The metrics are MetricSpec objects with unique names."""
    metrics = kind.metrics()
    fine = isinstance(metrics, Sequence) and all(isinstance(one, MetricSpec) for one in metrics)
    expect(fine, "`metrics()`", metrics)
    names = [one.name for one in metrics]
    expect(len(set(names)) == len(names), "unique metric names", names)


def scores_every_unit(kind: Any, given: _Nothing) -> None:
    """Every attempt is answered and scored: columns contain finite numbers or None."""
    done = drive(kind, name="contract")
    for records in done.subjects.values():
        for name, states in records.status.items():
            reasons = records.reason[name][states == "error"].tolist()
            expect(not reasons, f"the column {name!r}", f"{len(reasons)} errors: {reasons[:1]}")
    expect(done.n_errors == 0, "its units", f"{done.n_errors} errors")


def resumes_without_requests(kind: Any, given: _Nothing) -> None:
    """Repeating a finished run sends no requests and stores the same records."""
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-") as place:
        folder = Path(place) / "run"
        drive(kind, folder, name="contract")
        before = (folder / _RECORDS).read_bytes()
        if type(kind).asks:
            again = drive(kind, folder, name="contract")
            expect(again.n_asked == 0, "the same call again", f"{again.n_asked} requests")
        expect((folder / _RECORDS).read_bytes() == before, "the same call again", "other records")


def can_show_units(kind: Any, given: _Nothing) -> None:
    """`show` returns display blocks for each stored unit."""
    with tempfile.TemporaryDirectory(prefix="eval-toolkit-") as place:
        folder = Path(place) / "run"
        drive(kind, folder, name="contract")
        run = Run.open(folder)
        for subject in run.subjects:
            records = run.records(*subject)
            for unit in units_at(run, records, *subject, range(len(records))):
                blocks = type(kind).show(unit)
                fine = isinstance(blocks, Sequence) and all(isinstance(b, Block) for b in blocks)
                expect(fine, f"`show` of {unit.place.unit_id!r}", blocks)


KIND = Suite(
    "kind",
    (
        is_a_kind,
        class_has_a_name,
        configuration_is_json,
        identity_is_in_configuration,
        unit_ids_are_unique,
        metric_names_are_unique,
        scores_every_unit,
        resumes_without_requests,
        can_show_units,
    ),
    _Nothing,
)
