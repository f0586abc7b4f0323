"""How kinds of evaluation are displayed, and lookup of the kind of a stored run.

Reports, the viewer, comparisons and exports use the class of a kind, since a stored run has no
task, model or data objects.
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


class BuiltInKind(NamedTuple):
    """Import paths of the classes of a built-in kind."""

    shown: str
    """Class that displays runs of this kind."""
    stored: str
    """Class whose method ``stored`` regrades stored runs; it is imported only for that purpose."""


_RECORDS = "eval_toolkit.harness.rescoring:StoredRows"
BUILT_IN_KINDS: Mapping[str, BuiltInKind] = {
    # The compared answers are in two other runs; only the records are stored.
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
"""Built-in kinds by stored name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Terms used for the units, attempts and results of a kind.

    Examples
    --------
    >>> Words(units="queries", attempt="ranking").right
    'right'
    """

    what: str = ""
    """Description of the evaluation, e.g. "scores of rows"; by default, the name of the kind."""
    units: str = "units"
    attempt: str = "answer"
    nth: str = "attempt"
    """Word that precedes the number of an attempt, as in "attempt 2"."""
    counted: str = "units"
    """Items counted in the headline."""
    count: str = "n_units"
    """Manifest key of their number; without one, the rows of the headline slice are counted."""
    right: str = "right"
    wrong: str = "wrong"
    broke: str = "without a grade, see below"
    """Label of a failed attempt."""
    menu: str = "Samples"
    """Title of the section with individual units; empty if reports have no such section."""
    title: str = "Requests and answers"
    unanswered: str = "The run contains no request for this sample."
    names_slice: bool = False
    """Whether the headline always includes the name of the slice."""
    multi_turn: bool = False
    """Whether an attempt is a conversation, which single-answer formats cannot represent."""
    export: str = "a run of another kind"
    """Description of a run that conversation formats cannot represent."""
    hub_task: str = "other"
    """Task type on a model card."""

    @property
    def verdicts(self) -> dict[str, str]:
        """Labels for correct and incorrect results."""
        return {"right": self.right, "wrong": self.wrong}


class Shown(Protocol):
    """Display methods of a kind of evaluation, with defaults."""

    words: Words = Words()
    """Terms used in the display."""
    next_metrics: tuple[str, ...] = ()
    """Metrics to show after the main one; by default, all others in stored order."""

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the display blocks of a stored unit.

        By default, these are the input, the requests and answers, and the verdicts of judges.
        """
        return _default_blocks(unit)

    @classmethod
    def outcomes(cls, records: Records, config: Mapping[str, Any]) -> Outcomes | None:
        """Return the outcome of each attempt; None if the main metric determines it."""
        return None

    @classmethod
    def subject(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Describe what was evaluated; by default, the system and the slice."""
        return ()

    @classmethod
    def in_words(cls, metric: str, share: str, *, right_or_wrong: bool) -> str:
        """Describe a share of units in a sentence; return "" if the metric name is enough.

        Parameters
        ----------
        metric : str
            Name of the metric, whose value is the share.
        share : str
            Share and number of units, such as "82 of 100" or "82 % of 100".
        right_or_wrong : bool
            Whether the metric rates every attempt as correct or incorrect, and higher is better.
        """
        return ""

    @classmethod
    def not_known(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Describe what the numbers of such a run do not show."""
        return ()

    @classmethod
    def settings_in_words(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return the settings to mention in the headline."""
        return ()

    @classmethod
    def metric_groups(
        cls, config: Mapping[str, Any], names: Sequence[str]
    ) -> Sequence[tuple[str, Sequence[str]]]:
        """Return metrics in titled groups, main ones first; by default, in stored order."""
        return ()

    @classmethod
    def estimator(cls, run: Run, summary: SummarySpec) -> Estimator | None:
        """Return an estimator of those metrics of stored records that are not means of columns.

        Parameters
        ----------
        run : Run
            Run of this kind.
        summary : SummarySpec
            How records are summarised.

        Returns
        -------
        callable or None
            Function that maps records and the requested metrics to the cells that replace the
            means; None if every cell is computed from columns.
        """
        return None

    @classmethod
    def compared_metrics(cls, runs: Sequence[Run]) -> Sequence[str] | None:
        """Return the metrics for the comparison of two runs; None for all shared metrics."""
        return None

    @classmethod
    def comparison(cls, page: Page, runs: Sequence[Run], result: RunComparison) -> Page:
        """Return the comparison page of two runs with additions specific to this kind."""
        return page


@functools.lru_cache(maxsize=64)
def kind_named(name: str) -> type[Shown]:
    """Return the class of the kind of a stored run.

    The name is read from a file, so only built-in kinds and entry points of the group
    ``eval_toolkit.kinds`` are accepted.

    A generic class is returned for unknown names.

    Examples
    --------
    >>> kind_named("rows").words.units, kind_named("no such kind").words.units
    ('rows', 'units')
    """
    from eval_toolkit.plugins import read_from
    from eval_toolkit.runs.unit_display import UnknownKind

    try:
        return load_kind(name, origin=read_from("manifest.json", "kind"))
    except EvalToolkitError:  # not installed, broken, or a name that would import code
        return UnknownKind


def load_kind(name: str, *, origin: Origin | None = None) -> type[Shown]:
    """Load the class of a kind by name; raise an error if there is none.

    The name is a built-in kind, an entry point or, unless it comes from a file,
    ``package.module:object``.

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
    ):  # protocols do not support issubclass
        raise PluginError(
            f"kind {name!r} is not a kind of evaluation; it must be a subclass of "
            f"eval_toolkit.runs.Kind"
        )
    return found


def common_kind(runs: Sequence[Run]) -> type[Shown]:
    """Return the kind shared by several runs, or a generic one if their kinds differ."""
    from eval_toolkit.runs.unit_display import UnknownKind

    kinds = {kind_named(run.kind) for run in runs}
    return kinds.pop() if len(kinds) == 1 else UnknownKind


def show_unit(unit: StoredUnit) -> list[Block]:
    """Return the display blocks of a unit; errors raised by its kind are displayed."""
    from eval_toolkit.runs.blocks import Note

    kind = kind_named(unit.run.kind)
    try:
        return list(kind.show(unit))
    except Exception as error:  # from third-party code or a damaged table
        known = isinstance(error, EvalToolkitError)
        message = str(error) if known else f"{type(error).__name__}: {error}"
        return [Note(f"{unit.run.kind}: {message}", "error"), *_default_blocks(unit)]


def _default_blocks(unit: StoredUnit) -> list[Block]:
    from eval_toolkit.runs.unit_display import default_blocks  # only needed for display

    return default_blocks(unit)
