"""What a kind of evaluation supplies; everything else is the driver's.

An evaluation produces attempts, grades them into records, summarises the records, and stores a
run. Rows, tasks and rollouts differ in the first two steps alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from eval_toolkit.errors import ArtifactError
from eval_toolkit.responses import REASONING_TAGS
from eval_toolkit.responses.reasoning import Tags
from eval_toolkit.runner.jobs import Key
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.folder import Run
from eval_toolkit.runs.writing import Columns
from eval_toolkit.scorecards import Records, Scorecard

__all__ = ["Graded", "Identity", "Kind"]

AttemptsT = TypeVar("AttemptsT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What must be equal for a folder's run to be resumed."""

    settings: tuple[str, ...]
    """Names in the configuration; the rest may change between calls."""
    digest: str | None = None
    """Hash of what is not stored, such as secrets in the description of a model."""
    what: str = "evaluation that differs in a part"
    """What the digest is of, as in "a model that differs in a part"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What attempts come to."""

    slice: str
    """Name of the set of units: a task, a set of seeds."""
    system: str
    """Name of what was evaluated: a model, a target."""
    records: Records
    card: Scorecard
    n_errors: int
    """Attempts without a result because something failed."""
    n_skipped: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the kind's own, for the outcome and the manifest."""
    attempts: tuple[Any, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of ``results.json``."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Curves, tables and distributions for ``results_full.json``."""
    stopping: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Kind(Protocol[AttemptsT]):
    """A kind of evaluation. Subclasses inherit what is written out here.

    ``units`` are described to the driver by their ids and content hashes; ``produce`` yields raw
    attempts through the context, which journals every answer; ``grade`` turns attempts, new or
    stored, into records and cells. Rescoring is ``restore`` and ``grade`` on a stored run.
    """

    name: str
    """Stored as ``kind`` in the configuration and the manifest."""
    by: str | None = None
    """Name of the parts that cells are also made for, such as "subject"."""
    full: str = "more"
    """Where ``results_full.json`` holds curves and distributions."""

    def config(self) -> Mapping[str, Any]:
        """Return the configuration in plain JSON types, without secrets."""
        ...

    def identity(self) -> Identity:
        """Return what must be equal for a folder to be resumed."""
        ...

    def units(self) -> Sequence[tuple[str, str]]:
        """Return id and content hash of each unit."""
        ...

    def produce(self, context: Context) -> AttemptsT:
        """Produce the attempts that are not there yet, and return all of them."""
        raise ArtifactError(f"a kind of {self.name!r} has stored attempts alone")

    def grade(self, attempts: AttemptsT) -> Graded:
        """Return records and cells; asks nobody."""
        ...

    def restore(self, run: Run, context: Context) -> AttemptsT:
        """Return the stored attempts of a run, for `rescore`; judges alone may be asked."""
        raise ArtifactError(f"{run.path}: runs of kind {self.name!r} cannot be rescored")

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the manifest says besides the configuration, which has no secrets any more.

        ``seeds``, ``data_revisions`` and ``versioned_objects`` go where `build_manifest` has them.
        """
        return {}

    def tables(self, attempts: AttemptsT) -> Mapping[str, Columns]:
        """Return further tables of the run."""
        return {}

    def about(self, attempts: AttemptsT) -> Mapping[str, Any]:
        """Return what the manifest says about the tables."""
        return {}

    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of each judge by its name, with ``model``."""
        return {}

    def n_planned(self) -> int | None:
        """Return how many requests there will be at most, judges' aside."""
        return None

    def asks_for(self, key: Key) -> bool:
        """Return whether an answer or a verdict under this key may be asked for."""
        return True

    def advice(self) -> str:
        """Return what to ask for so that no answer of an unfinished run is lost."""
        return "ask for as many units and attempts"

    def refuse(self, folder: Path, begun: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Raise if the run in a folder is another one, in better words than the driver has."""
        return

    def refuse_unfinished(
        self, folder: Path, there: Mapping[str, Any], config: Mapping[str, Any]
    ) -> None:
        """Raise if the answers of an unfinished run would not be asked for by this one."""
        return

    @property
    def reasoning_tags(self) -> Tags:
        """What the reasoning in answers stands between."""
        return REASONING_TAGS
