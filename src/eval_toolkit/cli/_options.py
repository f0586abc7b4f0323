"""Options shared by commands; each group is passed to the command as a single object."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
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
        """Return the options as keyword arguments of the functions that compute intervals."""
        return SummarySpec(
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            seed=self.seed,
            method=self.method,
            executor=self.executor,
        )

    def made(self, of_cells: Iterable[int]) -> str:
        """Describe how the intervals were computed, given the number of resamples of each cell."""
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
        help=(
            "Negative and positive label, if labels are strings other than 0 and 1 or true and "
            "false."
        ),
    ),
)
_FORMAT = (
    click.option(
        "--quoting/--no-quoting",
        default=True,
        help="Interpret quotes in CSV and TSV files.",
    ),
    click.option("--header", metavar="A,B,…", help="Column names of files without a header."),
    click.option(
        "--separator",
        metavar="CHAR",
        help="Separator of CSV files: , ; | tab … [default: detected].",
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


def grouped(name: str, kind: type) -> Callable[[_Command], _Command]:
    """Pass the options that are fields of a dataclass as a single argument.

    ``name`` is the name of the command's argument.
    """
    own = [item.name for item in fields(kind)]

    def add(command: _Command) -> _Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            taken = {one: kwargs.pop(one) for one in own}
            return command(*args, **{name: kind(**taken)}, **kwargs)

        return wrapped  # type: ignore[return-value]

    return add


def label_options(command: _Command) -> _Command:
    """Add the options for class labels; the command receives ``labels``."""
    from eval_toolkit._internal.tables import LabelMap

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        labels = LabelMap.of(kwargs.pop("positive"), kwargs.pop("labels"))
        return command(*args, labels=labels, **kwargs)

    return _with_options(wrapped, _LABELS)  # type: ignore[no-any-return]


def file_options(command: _Command) -> _Command:
    """Add the options for file formats; the command receives ``file_format``."""
    from eval_toolkit._internal.tables import FileFormat

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        header, mark = kwargs.pop("header"), kwargs.pop("separator")
        file_format = FileFormat(
            quoting=kwargs.pop("quoting"),
            header=header and tuple(name.strip() for name in header.split(",")),
            separator="\t" if mark in ("tab", "\\t") else mark,
            decimal=kwargs.pop("decimal"),
        )
        return command(*args, file_format=file_format, **kwargs)

    return _with_options(wrapped, _FORMAT)  # type: ignore[no-any-return]


def _with_options(command: Any, options: Sequence[Callable[[Any], Any]]) -> Any:
    for option in reversed(options):
        command = option(command)
    return command


def column_options(*, by: bool = True) -> Callable[[_Command], _Command]:
    """Add the options for input columns; the command receives ``wanted``."""
    from eval_toolkit.loaders.columns import Wanted

    def add(command: _Command) -> _Command:
        @label_options
        @file_options
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            roles = ("label", "scores", "group", "id", "labels")
            names = (*roles, "file_format", "where", "drop_missing", "scale")
            taken = {name: kwargs.pop(name) for name in names}
            no_id = kwargs.pop("no_id")
            if no_id and taken["id"] is not None:
                raise click.UsageError("pass either --id or --no-id, not both")
            wanted = Wanted(**taken, by=kwargs.pop("by", ()), keyed=not no_id)
            return command(*args, wanted=wanted, **kwargs)

        options = (*_COLUMNS[:2], *([_BY] if by else []), *_COLUMNS[2:], *_ROWS)
        return _with_options(wrapped, options)  # type: ignore[no-any-return]

    return add


def sampling_options(*, methods: bool, backends: bool = False) -> Callable[[_Command], _Command]:
    """Add the options for the intervals; the command receives ``sampling``."""

    def add(command: _Command) -> _Command:
        @click.option(
            "--confidence",
            default=0.95,
            show_default=True,
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            help="Confidence level of the intervals.",
        )
        @click.option(
            "--resamples",
            "n_resamples",
            default=1000,
            show_default=True,
            type=RESAMPLES,
            help="Bootstrap resamples.",
        )
        @click.option(
            "--seed",
            default=42,
            show_default=True,
            type=click.IntRange(0),
            help="Random seed of the resampling.",
        )
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            names = ("confidence", "n_resamples", "seed", *(["method"] if methods else []))
            chosen = {name: kwargs.pop(name) for name in names}
            with _executor(kwargs.pop("backend", None), kwargs.pop("workers", None)) as executor:
                return command(*args, sampling=Sampling(**chosen, executor=executor), **kwargs)

        decorated: Any = wrapped
        for option in (*(_BACKENDS if backends else ()), *((_METHOD,) if methods else ())):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return add


def direction_options(command: _Command) -> _Command:
    """Add the options for directions; the command receives ``higher_is_better``."""

    @click.option(
        "--higher-is-better",
        "higher",
        metavar="METRIC",
        multiple=True,
        help=(
            "Treat higher values of this metric or column as better, regardless of its name or "
            "log. Repeatable."
        ),
    )
    @click.option(
        "--lower-is-better",
        "lower",
        metavar="METRIC",
        multiple=True,
        help="Treat lower values of this metric or column as better. Repeatable.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        lower, higher = kwargs.pop("lower"), kwargs.pop("higher")
        if both := set(lower) & set(higher):
            raise click.UsageError(
                f"{min(both)}: pass either --lower-is-better or --higher-is-better, not both"
            )
        directions = dict.fromkeys(lower, False) | dict.fromkeys(higher, True)
        return command(*args, higher_is_better=directions, **kwargs)

    decorated: Any = wrapped
    return decorated  # type: ignore[no-any-return]


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
        "--workers",
        type=click.IntRange(1),
        help="Number of parallel workers of --backend.  [default: one per core]",
    ),
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        help="Draw resamples in parallel with this executor; results do not change.",
    ),
)


@contextlib.contextmanager
def _executor(backend: str | None, workers: int | None) -> Iterator[Executor | None]:
    """Yield the executor of ``--backend``; close it when the command ends."""
    if backend is None:
        if workers is not None:
            raise click.UsageError("--workers needs --backend")
        yield None
        return
    from eval_toolkit.integrations.executors import open_executor  # slow import, rarely needed

    with open_executor(backend, workers) as executor:
        yield executor


_FORMS = {
    "json": "Print strict JSON.",
    "md": "Print Markdown.",
    "html": "Print one self-contained HTML page.",
}


def output_options(command: _Command) -> _Command:
    """Add the output formats and ``--out``; the command receives ``output``."""
    option = click.option(
        "--out",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Output file; without a format option, its suffix determines the format.",
    )
    return form_options(command, (option,))


def form_options(
    command: _Command, more: Sequence[Callable[[_Command], _Command]] = ()
) -> _Command:
    """Add ``--json``, ``--md`` and ``--html``; the command receives ``output``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flags = {form: kwargs.pop(f"as_{form}") for form in _FORMS}
        out = kwargs.pop("out") if more else None
        return command(*args, output=Output.of(flags, out), **kwargs)

    forms = [
        click.option(f"--{form}", f"as_{form}", is_flag=True, help=what)
        for form, what in _FORMS.items()
    ]
    return _with_options(wrapped, (*forms, *more))  # type: ignore[no-any-return]
