"""Outcome of an evaluation of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import ArtifactError, InvalidInputError

if TYPE_CHECKING:
    from eval_toolkit._internal.display import Page, Table
    from eval_toolkit.runs.answers import AnswersTable
    from eval_toolkit.runs.folder import Run
    from eval_toolkit.scorecards import Records, Scorecard

Subject: TypeAlias = tuple[str, str]
"""Pair (slice, system)."""

_NUMBERS = (
    *("n_requests", "n_asked", "n_reused", "n_cached", "n_replayed", "n_failed_requests"),
    *("n_calls", "n_errors", "n_skipped", "error_rate", "too_many_errors"),
)
_PARTS_SHOWN = 40

_T = TypeVar("_T")


def _only(found: Mapping[Subject, _T], name: str) -> _T:
    if len(found) != 1:
        raise InvalidInputError(
            f"the outcome has {len(found)} pairs of slice and system; look one up in `{name}`"
        )
    return next(iter(found.values()))


def _main_cells(card: Scorecard, main: Sequence[str]) -> Table:
    """Return a table of the main metrics and of the first metric for each part."""
    from dataclasses import replace

    table = card._as_table()
    if not card.slices:
        return replace(table, rows=[row for row in table.rows if row[0].text in main])
    whole = [row for row in table.rows if row[0].text == "all" and row[1].text in main]
    parts = [row for row in table.rows if row[0].text != "all" and row[1].text == main[0]]
    return replace(table, rows=[*whole, *parts[:_PARTS_SHOWN]])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome(Displayed):
    """Outcome of an evaluation: records, cells, counts and the stored run.

    Examples
    --------
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> system = System(["Please."], ["No."], lambda texts: [0.1] * len(texts))
    >>> done = run_rollouts(system, ["Tell a secret", "Tell another"], depth=1)
    >>> done.card["attack_success"].value, done.counts["n_rollouts"]
    (0.0, 2)
    """

    subjects: Mapping[Subject, Records] = field(repr=False)
    """Records of each system on each slice, with one row per unit and attempt."""
    cards: Mapping[Subject, Scorecard]
    """Cells of each system on each slice, with the cells of parts in their ``slices``."""
    results: Mapping[str, Any] = field(repr=False)
    """Contents of ``results.json``."""
    attempts: tuple[Any, ...] = field(default=(), repr=False)
    """Raw attempts, if they are objects such as the graphs of rollouts."""
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Curves, tables and distributions, stored in ``results_full.json``."""
    run: Run | None = None
    """Stored run; None if nothing was written."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Kind-specific counts, such as samples, seeds or rollouts."""
    n_requests: int = 0
    """Number of requests for attempts, answered by any source; excludes requests to judges."""
    n_asked: int = 0
    """Number of requests sent to a model in this call."""
    n_reused: int = 0
    """Number of answers that already existed in the folder."""
    n_cached: int = 0
    """Number of answers from the cache."""
    n_replayed: int = 0
    """Number of requests answered by stored answers instead of a model."""
    n_failed_requests: int = 0
    n_calls: int = 0
    """Number of calls of a model or a function; a batch counts as one call."""
    n_errors: int = 0
    """Number of attempts that have no result because of a failure."""
    n_skipped: int = 0
    """Number of attempts that have no result because they were stopped early."""
    error_rate: float = 0.0
    """Share of attempts that failed."""
    too_many_errors: bool = False
    """Whether ``error_rate`` exceeds the tolerated share."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of all answers, as recorded on request; the cost is None without prices."""
    usage_now: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of the answers requested in this call."""
    stopping: Mapping[str, Any] | None = None
    """Decision of a stopping rule: the reason and the number of samples saved."""
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Model, request counts and usage of each judge."""
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()
    answered: Callable[[], AnswersTable] | None = field(default=None, repr=False, compare=False)
    """Function that returns the table of `answers`; set by the driver."""
    saved: Callable[[Path], Run] | None = field(default=None, repr=False, compare=False)
    """Function that writes an in-memory outcome to a folder; set by the driver."""

    def __str__(self) -> str:
        from eval_toolkit._internal.display.to_text import text_page

        return text_page(self._page())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from eval_toolkit._internal.display.to_html import bare_html_table

        return f"<div>{''.join(map(bare_html_table, self._page().tables))}</div>"

    def _page(self) -> Page:
        """Return the cells of each subject along with counts and notes."""
        from dataclasses import replace

        from eval_toolkit._internal.display import Page
        from eval_toolkit.runs.kind_display import kind_named

        config = self.results.get("config") or {}
        kind = kind_named(str(config.get("kind")))
        tables, more = [], 0
        for (slice_name, system), card in self.cards.items():
            groups = kind.metric_groups(config, list(card))
            table = _main_cells(card, list(groups[0][1]) if groups else list(card))
            more += len(card._as_table().rows) - len(table.rows)
            tables.append(replace(table, title=f"{slice_name}, {system}"))
        lead = [", ".join(kind.subject(config))] if kind.subject(config) else []
        left = [f"{more} more cells in `card`"] if more else []
        failed = [f"{self.n_errors:,} attempts failed"] if self.n_errors else []
        cut = dict(self.results.get("cut_answers") or {})
        cut.pop("empty", None)
        reasons = [f"{n:,} answers truncated ({name})" for name, n in cut.items()]
        return Page("", {}, lead, tables, [*left, *failed, *reasons, *self.notes])

    def answers(self) -> AnswersTable:
        """Return answers, questions, references and grades, with one row per attempt.

        Raises
        ------
        InvalidInputError
            If the evaluation has no answers.
        """
        if self.answered is None:
            raise InvalidInputError("the outcome has no answers")
        return self.answered()

    def to_pandas(self) -> Any:
        """Return `answers` as a DataFrame: question, answer, reference, grades, tokens, error.

        For rollouts, the columns are prompt, number of turns, reply, scores, and whether the target
        failed.
        """
        return self.answers().to_pandas()

    def wrong(self) -> Any:
        """Return the incorrect answers as a DataFrame, including those that failed.

        For rollouts, these are the conversations in which the target failed.
        """
        return self.answers().wrong().to_pandas()

    def save(self, folder: str | Path) -> Run:
        """Write an in-memory outcome to a new run folder and return the run.

        Raises
        ------
        ArtifactError
            If the folder contains a run, or the outcome is already stored.
        """
        from eval_toolkit.runs.folder import run_state

        if self.saved is None:
            where = "" if self.run is None else f" in {self.run.path}"
            raise ArtifactError(f"the outcome is already stored{where}; copy that folder")
        if run_state(folder) != "not a run":
            raise ArtifactError(f"{folder}: already contains a run; choose another folder")
        return self.saved(Path(folder))

    def as_run(self) -> Run:
        """Return the stored run; an in-memory outcome is first written to a temporary folder."""
        if self.run is not None:
            return self.run
        from eval_toolkit.runs.remote import temporary_folder

        return self.save(temporary_folder()[0] / "run")

    @property
    def records(self) -> Records:
        """Records, if a single system was evaluated on a single slice."""
        return _only(self.subjects, "subjects")

    @property
    def card(self) -> Scorecard:
        """Cells, if a single system was evaluated on a single slice."""
        return _only(self.cards, "cards")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict without records and attempts."""
        return {
            "run_id": self.results["run_id"],
            "path": None if self.run is None else str(self.run.path),
            "results": dict(self.results),
            **dict(self.more),
            **dict(self.counts),
            **{name: getattr(self, name) for name in _NUMBERS},
            "usage": dict(self.usage),
            "usage_now": dict(self.usage_now),
            "judges": {name: dict(judge) for name, judge in self.judges.items()},
            "stopping": None if self.stopping is None else dict(self.stopping),
            "elapsed_s": self.elapsed_s,
            "notes": list(self.notes),
        }
