"""Display of kinds of evaluation, and the kind of a stored run.

Reports, the viewer, comparisons and exports ask the class of a kind: there is no task, no model and
no data left when a stored run is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from eval_toolkit.errors import EvalToolkitError, PluginError

if TYPE_CHECKING:
    from eval_toolkit._internal.display import Page
    from eval_toolkit.analysis import RunComparison
    from eval_toolkit.plugins import Origin
    from eval_toolkit.protocols import MetricSpec
    from eval_toolkit.runs.blocks import Block, Outcomes
    from eval_toolkit.runs.folder import Run
    from eval_toolkit.runs.selected_units import StoredUnit
    from eval_toolkit.runs.specs import SummarySpec
    from eval_toolkit.scorecards import MetricResult, Records

    Estimator: TypeAlias = Callable[[Records, Sequence[MetricSpec]], Mapping[str, MetricResult]]

__all__ = [
    "BUILT_IN_KINDS",
    "Shown",
    "Words",
    "common_kind",
    "kind_named",
    "load_kind",
    "show_unit",
]


class BuiltInKind(NamedTuple):
    """Where the classes of a kind that comes with the package are."""

    shown: str
    """The class that shows runs of it."""
    stored: str
    """The class whose ``stored`` grades what a run has stored; imported only for that."""


_RECORDS = "eval_toolkit.harness.rescoring:StoredRows"
BUILT_IN_KINDS: Mapping[str, BuiltInKind] = {
    # The answers that were compared are in two other runs: what is stored is the records.
    "pairs": BuiltInKind("eval_toolkit.tasks.pairing:PairsKind", _RECORDS),
    "rollout": BuiltInKind(
        "eval_toolkit.rollouts.kind:MeasuredRollouts",
        "eval_toolkit.rollouts.rescoring:StoredRollouts",
    ),
    "rows": BuiltInKind("eval_toolkit.harness.kind:RowsKind", _RECORDS),
    "task": BuiltInKind(
        "eval_toolkit.tasks.kind:TaskKind", "eval_toolkit.tasks.rescoring:StoredAnswers"
    ),
}
"""Kinds that come with the package, by the name that runs store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Names of the things of a kind.

    Examples
    --------
    >>> Words(units="queries", attempt="ranking").right
    'right'
    """

    what: str = ""
    """What was done, such as "a task put to a model"; by default the kind's name."""
    units: str = "units"
    attempt: str = "answer"
    nth: str = "attempt"
    """What a number is of, as in "attempt 2"."""
    counted: str = "units"
    """What the headline counts."""
    count: str = "n_units"
    """The count of it in the manifest; without one, the rows of the headline's slice."""
    right: str = "right"
    wrong: str = "wrong"
    broke: str = "without a grade, see below"
    """What an attempt that broke is."""
    menu: str = "Samples"
    """Name of the section with single units; empty where a report has none."""
    title: str = "What was asked, and what was answered"
    unanswered: str = "The run holds no request about this sample."
    names_slice: bool = False
    """Whether the headline always says on which slice."""
    multi_turn: bool = False
    """Whether an attempt is a conversation; formats of single answers have no place for it."""
    export: str = "a run of another kind"
    """What a run is called where a format of conversations has no place for it."""
    hub_task: str = "other"
    """The kind of task on a model card."""


class Shown(Protocol):
    """Display methods of a kind, with defaults."""

    words: Words = Words()
    """What things are called."""
    next_metrics: tuple[str, ...] = ()
    """What people ask for after the main metric; by default the other metrics in their order."""

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the blocks of a stored unit.

        By default what it says, what was asked and answered, and what judges said.
        """
        return _default_blocks(unit)

    @classmethod
    def outcomes(cls, records: Records, config: Mapping[str, Any]) -> Outcomes | None:
        """Return the outcome of each attempt; None: right or wrong by the main metric."""
        return None

    @classmethod
    def subject(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return a description of what was evaluated; by default system and slice."""
        return ()

    @classmethod
    def settings_in_words(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return settings to mention in the headline."""
        return ()

    @classmethod
    def metric_groups(
        cls, config: Mapping[str, Any], names: Sequence[str]
    ) -> Sequence[tuple[str, Sequence[str]]]:
        """Return metrics in titled groups, main ones first; by default in stored order."""
        return ()

    @classmethod
    def estimator(cls, run: Run, summary: SummarySpec) -> Estimator | None:
        """Return what estimates metrics of stored records that are no means of their columns.

        Parameters
        ----------
        run : Run
            Run of this kind.
        summary : SummarySpec
            How records become cells.

        Returns
        -------
        callable or None
            From records of the run and the metrics asked for, the cells that take the place of the
            means. None: every cell follows from its columns alone.
        """
        return None

    @classmethod
    def compared_metrics(cls, runs: Sequence[Run]) -> Sequence[str] | None:
        """Return the metrics to compare two runs by; None: all common ones."""
        return None

    @classmethod
    def comparison(cls, page: Page, runs: Sequence[Run], result: RunComparison) -> Page:
        """Return the comparison page of two runs with additions of this kind."""
        return page


@functools.lru_cache(maxsize=64)
def kind_named(name: str) -> type[Shown]:
    """Return the class of the kind of a stored run.

    The name is read from a file, so it stands for what comes with the package or what an installed
    package offers as an entry point of the group ``eval_toolkit.kinds``.

    Parameters
    ----------
    name : str
        Name as in `Run.kind`.

    Returns
    -------
    class
        One that shows what any kind has where the name is not known.

    Examples
    --------
    >>> kind_named("rows").words.units, kind_named("no such kind").words.units
    ('rows', 'units')
    """
    from eval_toolkit.plugins import read_from
    from eval_toolkit.runs.showing import UnknownKind

    try:
        return load_kind(name, origin=read_from("manifest.json", "kind"))
    except EvalToolkitError:  # not installed, broken, or a name that would import something
        return UnknownKind


def load_kind(name: str, *, origin: Origin | None = None) -> type[Shown]:
    """Return the class of a kind by its name, or raise why there is none.

    Parameters
    ----------
    name : str
        One of ours, one that an installed package offers, or ``package.module:object``.
    origin : Origin, optional
        Where the name was written; by default the caller typed it.

    Raises
    ------
    PluginError
        If the name is not known, or stands for something else.
    InvalidInputError
        If a file names ``package.module:object``.

    Examples
    --------
    >>> load_kind("rows").words.units
    'rows'
    """
    from eval_toolkit.plugins import TYPED, load_plugin

    ours = {kind: classes.shown for kind, classes in BUILT_IN_KINDS.items()}
    found = load_plugin("kinds", name, ours, origin=TYPED if origin is None else origin)
    if (
        not isinstance(found, type) or Shown not in found.__mro__
    ):  # a protocol has no subclass check
        raise PluginError(
            f"kind {name!r} is no class of a kind; inherit from eval_toolkit.runs.Kind"
        )
    return found


def common_kind(runs: Sequence[Run]) -> type[Shown]:
    """Return the kind of several runs; one that adds nothing where they are of several."""
    from eval_toolkit.runs.showing import UnknownKind

    kinds = {kind_named(run.kind) for run in runs}
    return kinds.pop() if len(kinds) == 1 else UnknownKind


def show_unit(unit: StoredUnit) -> list[Block]:
    """Return the blocks of a unit; errors of its kind are shown, not raised.

    Parameters
    ----------
    unit : StoredUnit
        Unit of a stored run.

    Returns
    -------
    list of Block
        To be rendered.
    """
    from eval_toolkit.runs.blocks import Note

    kind = kind_named(unit.run.kind)
    try:
        return list(kind.show(unit))
    except Exception as error:  # of a package of somebody else, or of a damaged table
        known = isinstance(error, EvalToolkitError)
        said = str(error) if known else f"{type(error).__name__}: {error}"
        return [Note(f"{unit.run.kind}: {said}", "error"), *_default_blocks(unit)]


def _default_blocks(unit: StoredUnit) -> list[Block]:
    from eval_toolkit.runs.showing import default_blocks  # a kind is made without what shows it

    return default_blocks(unit)
