"""Options shared by commands; each group is passed to the command as a single object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from eval_toolkit._internal.words import intervals_made
from eval_toolkit.cli._output import Output
from eval_toolkit.runs.specs import SummarySpec

if TYPE_CHECKING:
    from eval_toolkit.inference import Executor

_Command = TypeVar("_Command", bound=Callable[..., Any])
METHODS = ("BCa", "percentile", "basic", "studentized")
BACKENDS = ("threads", "processes", "ray", "dask")
RESAMPLES = click.IntRange(50, 1_000_000)  # minimum for the tails of a 95 % interval


@dataclass(frozen=True)
class Sampling:
    """Options for confidence intervals."""

    confidence: float
    n_resamples: int
    seed: int
    method: str | None = None
    executor: Executor | None = None
    """Executor for resampling; not stored, since it does not affect results."""

    def summary(self) -> SummarySpec:
        """Return keyword arguments for the functions that compute intervals."""
        return SummarySpec(
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            seed=self.seed,
            method=self.method,
            executor=self.executor,
        )

    def made(self, of_cells: Iterable[int]) -> str:
        """Describe how the intervals were computed, given each cell's number of resamples."""
        return intervals_made(self.confidence, self.n_resamples, self.seed, of_cells)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "confidence": self.confidence,
            "n_resamples": self.n_resamples,
            "seed": self.seed,
            "method": self.method,
        }


_COLUMNS = (
    click.option(
        "--label",
        metavar="COLUMN",
        help="Label column; by default label, y_true, y, target, class, truth, …",
    ),
    click.option(
        "--score",
        "scores",
        metavar="COLUMN",
        multiple=True,
        help=(
            "Score column; by default score, prob, probability, p, proba, prediction, … Repeatable."
        ),
    ),
    click.option(
        "--group",
        metavar="COLUMN",
        help=(
            "Group column; rows of the same group (same author, same template) are not independent."
        ),
    ),
    click.option(
        "--id",
        metavar="COLUMN",
        help=(
            "Column with unique row ids; by default unit_id, row_id, id or a similar name such "
            "as message_id."
        ),
    ),
    click.option("--no-id", is_flag=True, help="Ignore id columns: the rows have no ids."),
)
_ROWS = (
    click.option(
        "--where",
        metavar="CONDITION",
        multiple=True,
        help=(
            "Use only the rows that satisfy a condition, e.g. lang = 'de', score >= 0.5 and "
            "lang in ('de', 'fr'), or lang is missing. Repeatable."
        ),
    ),
    click.option(
        "--drop-missing",
        is_flag=True,
        help="Drop rows with a missing label, score, group or id, and report their number.",
    ),
    click.option(
        "--scale",
        type=click.Choice(["probability", "percent", "logit"]),
        help=(
            "Scale of the scores: percentages (0 to 100) and log-odds are converted to "
            "probabilities."
        ),
    ),
)
_LABELS = (
    click.option("--positive", metavar="LABEL", help="Label of the positive class."),
    click.option(
        "--labels",
        metavar="NEG,POS",
        help=("Negative and positive label, if labels are strings other than 0/1 or true/false."),
    ),
)
_FORMAT = (
    click.option(
        "--quoting/--no-quoting",
        default=True,
        help="Interpret quotes in CSV and TSV files.",
    ),
    click.option("--header", metavar="A,B,…", help="Column names for files without a header."),
    click.option(
        "--separator",
        metavar="CHAR",
        help="Column separator in CSV files: , ; | tab … [default: detected].",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Decimal mark of numbers in CSV files [default: detected].",
    ),
)
_BY = click.option(
    "--by",
    metavar="COLUMN",
    multiple=True,
    help="Slice column: report results for each of its values. Repeatable.",
)


def passing(
    name: str,
    made: Callable[..., Any],
    options: Sequence[Callable[[Any], Any]] = (),
    taken: Iterable[str] | None = None,
) -> Callable[[_Command], _Command]:
    """Add options to a command, which receives their values as a single object.

    Parameters
    ----------
    name : str
        Name of the command's argument.
    made : callable
        Function that creates the object; its parameters are named like the options.
    options : sequence of decorators
        Options to add; any other option in ``taken`` must be added by another decorator.
    taken : iterable of str, optional
        Names of the options to collect; by default the parameters of ``made``. If a command lacks
        an option, the parameter keeps its default.
    """
    taken = tuple(inspect.signature(made).parameters if taken is None else taken)

    def add(command: _Command) -> _Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            values = {one: kwargs.pop(one) for one in taken if one in kwargs}
            return command(*args, **{name: made(**values)}, **kwargs)

        decorated: Any = wrapped
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return add


def label_options(command: _Command) -> _Command:
    """Add the options for class labels; the command receives ``labels``."""
    from eval_toolkit._internal.tables import LabelMap

    return passing("labels", LabelMap.of, _LABELS)(command)


def file_options(command: _Command) -> _Command:
    """Add the options for file formats; the command receives ``file_format``."""
    from eval_toolkit._internal.tables import FileFormat

    def read(quoting: bool, header: str | None, separator: str | None, decimal: str | None) -> Any:
        return FileFormat(
            quoting=quoting,
            header=header and tuple(name.strip() for name in header.split(",")),  # type: ignore[arg-type]
            separator="\t" if separator in ("tab", "\\t") else separator,
            decimal=decimal,
        )

    return passing("file_format", read, _FORMAT)(command)


def column_options(*, by: bool = True) -> Callable[[_Command], _Command]:
    """Add the options for input columns; the command receives ``wanted``."""
    from eval_toolkit.loaders.columns import Wanted

    def read(*, no_id: bool, **taken: Any) -> Wanted:
        if no_id and taken["id"] is not None:
            raise click.UsageError("pass either --id or --no-id, not both")
        return Wanted(**taken, keyed=not no_id)

    options = (*_COLUMNS[:2], *([_BY] if by else []), *_COLUMNS[2:], *_ROWS)
    roles = ("label", "scores", "group", "id", "labels", "by")
    taken = (*roles, "file_format", "where", "drop_missing", "scale", "no_id")
    return passing("wanted", read, (*options, label_options, file_options), taken)


def sampling_options(*, methods: bool, backends: bool = False) -> Callable[[_Command], _Command]:
    """Add the options for the intervals; the command receives ``sampling``."""
    chosen = (*((_METHOD,) if methods else ()), *(_BACKENDS if backends else ()))
    # A command may have an option of its own with one of the other names.
    own = ("confidence", "n_resamples", "seed", *(("method",) if methods else ()))
    own += ("backend", "workers") if backends else ()
    return passing("sampling", _sampling, (*chosen, *_SAMPLING), own)


_SAMPLING = (
    click.option(
        "--confidence",
        default=0.95,
        show_default=True,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Confidence level of the intervals.",
    ),
    click.option(
        "--resamples",
        "n_resamples",
        default=1000,
        show_default=True,
        type=RESAMPLES,
        help="Number of bootstrap resamples.",
    ),
    click.option(
        "--seed",
        default=42,
        show_default=True,
        type=click.IntRange(0),
        help="Random seed for resampling.",
    ),
)


def _directions(lower: Sequence[str], higher: Sequence[str]) -> dict[str, bool]:
    """Return whether higher values are better, by metric."""
    if both := set(lower) & set(higher):
        raise click.UsageError(
            f"{min(both)}: pass either --lower-is-better or --higher-is-better, not both"
        )
    return dict.fromkeys(lower, False) | dict.fromkeys(higher, True)


direction_options = passing(
    "higher_is_better",
    _directions,
    (
        click.option(
            "--higher-is-better",
            "higher",
            metavar="METRIC",
            multiple=True,
            help=(
                "Treat higher values of this metric or column as better, regardless of its name or "
                "log. Repeatable."
            ),
        ),
        click.option(
            "--lower-is-better",
            "lower",
            metavar="METRIC",
            multiple=True,
            help="Treat lower values of this metric or column as better. Repeatable.",
        ),
    ),
)
"""Add the options for directions; the command receives ``higher_is_better``."""
_METHOD = click.option(
    "--method",
    type=click.Choice(METHODS, case_sensitive=False),
    help=(
        "Bootstrap method for the intervals.  [default: score intervals, which are valid with "
        "few rows]"
    ),
)
_BACKENDS = (
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        help="Draw resamples in parallel with this executor; results do not change.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help="Number of parallel workers for --backend.  [default: one per core]",
    ),
)


def _sampling(backend: str | None = None, workers: int | None = None, **chosen: Any) -> Sampling:
    """Return the interval options; the ``--backend`` executor is closed when the command ends."""
    if backend is None:
        if workers is not None:
            raise click.UsageError("--workers needs --backend")
        return Sampling(**chosen)
    from eval_toolkit.integrations.executors import open_executor  # slow import, rarely needed

    opened = click.get_current_context().with_resource(open_executor(backend, workers))
    return Sampling(**chosen, executor=opened)


_FORMS = (
    click.option("--json", "as_json", is_flag=True, help="Print strict JSON."),
    click.option("--md", "as_md", is_flag=True, help="Print Markdown."),
    click.option("--html", "as_html", is_flag=True, help="Print one self-contained HTML page."),
)
form_options = passing("output", Output.of, _FORMS, ("as_json", "as_md", "as_html"))
"""Add ``--json``, ``--md`` and ``--html``; the command receives ``output``."""
output_options = passing(
    "output",
    Output.of,
    (
        *_FORMS,
        click.option(
            "--out",
            metavar="FILE",
            type=click.Path(dir_okay=False),
            help="Output file; without a format option, its suffix determines the format.",
        ),
    ),
)
"""Add the output formats and ``--out``; the command receives ``output``."""
