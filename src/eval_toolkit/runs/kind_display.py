"""Display of kinds of evaluation, and the kind of a stored run.

Reports, the viewer, comparisons and exports use the class of a kind, since the task, the model and
the data of a stored run are not available.
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
    """Class that displays runs of the kind."""
    stored: str
    """Class whose ``stored`` regrades stored runs; imported only for that."""


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
"""Built-in kinds by their stored name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Terms used for the units, attempts and results of a kind.

    Examples
    --------
    >>> Words(units="queries", attempt="ranking").right
    'right'
    """

    what: str = ""
    """Description of the evaluation, e.g. "scores of rows"; by default the kind's name."""
    units: str = "units"
    attempt: str = "answer"
    nth: str = "attempt"
    """Word before the number of an attempt, as in "attempt 2"."""
    counted: str = "units"
    """Items counted in the headline."""
    count: str = "n_units"
    """Key of their count in the manifest; without one, the rows of the headline's slice count."""
    right: str = "right"
    wrong: str = "wrong"
    broke: str = "without a grade, see below"
    """Label of a failed attempt."""
    menu: str = "Samples"
    """Name of the section with individual units; empty if a report has none."""
    title: str = "Requests and answers"
    unanswered: str = "The run contains no request for this sample."
    names_slice: bool = False
    """Whether the headline always names the slice."""
    multi_turn: bool = False
    """Whether an attempt is a conversation, which formats of single answers cannot represent."""
    export: str = "a run of another kind"
    """Name of a run that a format of conversations cannot represent."""
    hub_task: str = "other"
    """Task type on a model card."""

    @property
    def verdicts(self) -> dict[str, str]:
        """Labels of the verdicts right and wrong."""
        return {"right": self.right, "wrong": self.wrong}


class Shown(Protocol):
    """Display methods of a kind, with defaults."""

    words: Words = Words()
    """Terms used in the display."""
    next_metrics: tuple[str, ...] = ()
    """Metrics shown after the main one; by default the others in stored order."""

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the blocks of a stored unit.

        By default these are the input, the requests and answers, and the verdicts of judges.
        """
        return _default_blocks(unit)

    @classmethod
    def outcomes(cls, records: Records, config: Mapping[str, Any]) -> Outcomes | None:
        """Return the outcome of each attempt; None means right or wrong by the main metric."""
        return None

    @classmethod
    def subject(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return a description of what was evaluated; by default system and slice."""
        return ()

    @classmethod
    def in_words(cls, metric: str, share: str, *, right_or_wrong: bool) -> str:
        """Return a sentence about a share of units; "" if the name of the metric suffices.

        Parameters
        ----------
        metric : str
            Name of the metric, whose value is the share.
        share : str
            Share and number of units, such as "82 of 100" or "82 % of 100".
        right_or_wrong : bool
            Whether every attempt is right or wrong by the metric, and higher is better.
        """
        return ""

    @classmethod
    def not_known(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return what the numbers of such a run do not show."""
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
        """Return the estimator of metrics of stored records that are not means of columns.

        Parameters
        ----------
        run : Run
            Run of this kind.
        summary : SummarySpec
            How records become cells.

        Returns
        -------
        callable or None
            Function from records of the run and the requested metrics to the cells that replace the
            means. The value is None if every cell is computed from its columns.
        """
        return None

    @classmethod
    def compared_metrics(cls, runs: Sequence[Run]) -> Sequence[str] | None:
        """Return the metrics for the comparison of two runs; None means all common ones."""
        return None

    @classmethod
    def comparison(cls, page: Page, runs: Sequence[Run], result: RunComparison) -> Page:
        """Return the comparison page of two runs with additions of this kind."""
        return page


@functools.lru_cache(maxsize=64)
def kind_named(name: str) -> type[Shown]:
    """Return the class of the kind of a stored run.

    The name is read from a file, so only built-in kinds and entry points of the group
    ``eval_toolkit.kinds`` are accepted.

    An unknown name yields a generic class.

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
    """Return the class of a kind by its name; raise if there is none.

    The name is that of a built-in kind or of an entry point, or ``package.module:object`` unless it
    comes from a file.

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
            f"kind {name!r} is not a class of kinds; inherit from eval_toolkit.runs.Kind"
        )
    return found


def common_kind(runs: Sequence[Run]) -> type[Shown]:
    """Return the common kind of several runs, or a generic one if their kinds differ."""
    from eval_toolkit.runs.unit_display import UnknownKind

    kinds = {kind_named(run.kind) for run in runs}
    return kinds.pop() if len(kinds) == 1 else UnknownKind


def show_unit(unit: StoredUnit) -> list[Block]:
    """Return the blocks of a unit; errors of its kind are displayed instead of raised."""
    from eval_toolkit.runs.blocks import Note

    kind = kind_named(unit.run.kind)
    try:
        return list(kind.show(unit))
    except Exception as error:  # from third-party code or a damaged table
        known = isinstance(error, EvalToolkitError)
        said = str(error) if known else f"{type(error).__name__}: {error}"
        return [Note(f"{unit.run.kind}: {said}", "error"), *_default_blocks(unit)]


def _default_blocks(unit: StoredUnit) -> list[Block]:
    from eval_toolkit.runs.unit_display import default_blocks  # only needed for display

    return default_blocks(unit)
