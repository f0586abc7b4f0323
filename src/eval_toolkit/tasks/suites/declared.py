"""Definition of suites: trees of tasks with shared settings, and aggregates over tasks."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_there, malformed
from eval_toolkit._internal.validation import choice
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.loading import named_grader
from eval_toolkit.plugins import TYPED, Origin, read_from
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.declared import read_tables
from eval_toolkit.tasks.loading import named_task

OF_TASKS = (
    *("data", "num_fewshot", "subjects", "seed", "revision", "shuffle_choices"),
    "user_prompt_suffix",
)
"""Settings that apply to the creation of a task."""
OF_RUNS = (
    *("limit", "order", "attempts", "formatter", "temperature", "top_p", "max_tokens", "stop"),
    *("graders", "pass_at", "pass_hat", "maj_at", "on_error", "max_error_rate", "confidence"),
)
"""Settings that apply to the run of a task."""
_SETTINGS = (*OF_TASKS, *OF_RUNS)
_METHODS = ("mean", "median")


@dataclass(frozen=True, slots=True)
class Leaf:
    """Task of a suite.

    Parameters
    ----------
    task : str, path or BaseTask
        Task, or its name as in `load_task`.
    label : str, optional
        Name of the task in the suite, and of its run folder; by default, the name of the task.
    settings : mapping
        Settings of this task only, for its creation and its run.
    origin : Origin, default TYPED
        Origin of the names of the task and graders; `load_suite` sets it to the file.

    Raises
    ------
    InvalidInputError
        If a setting is unknown.

    Examples
    --------
    >>> Leaf("arc", settings={"num_fewshot": 5}).settings["num_fewshot"]
    5
    """

    task: str | Path | BaseTask[Any]
    label: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = TYPED

    def __post_init__(self) -> None:
        _check_settings(self.settings, f"task {self.name!r}")

    @property
    def name(self) -> str:
        """Label of the task or, by default, its name."""
        if self.label is not None:
            return self.label
        if isinstance(self.task, BaseTask):
            return str(self.task.NAME)
        text = str(self.task)
        is_file = text.lower().endswith((".toml", ".yaml", ".yml", ".py"))
        return Path(text).stem if is_file else text.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Mean or median over tasks.

    Parameters
    ----------
    name : str
        Name of the aggregate.
    sources : sequence of tuple of str
        Pairs of task and metric.
    method : {"mean", "median"}, default "mean"
        Aggregation function; all sources have equal weight.

    Examples
    --------
    >>> Aggregate("knowledge", [("arc", "accuracy"), ("boolq", "accuracy")]).method
    'mean'
    """

    name: str
    sources: Sequence[tuple[str, str]]
    method: str = "mean"

    def __post_init__(self) -> None:
        choice(self.method, f"method of {self.name!r}", _METHODS)
        if not self.sources:
            raise InvalidInputError(f"aggregate {self.name!r} has no sources")


@dataclass(frozen=True, slots=True)
class Suite:
    """Group of tasks and nested suites with shared settings.

    Parameters
    ----------
    name : str
        Name of the suite.
    tasks : sequence of Leaf, Suite, str or BaseTask
        Tasks and nested suites, in order.
    settings : mapping
        Defaults for all tasks; settings of a nested suite or a task take precedence.
    aggregates : sequence of Aggregate
        Aggregates over tasks of the suite.

    Raises
    ------
    InvalidInputError
        If there are no tasks, two tasks have the same name, or a setting is unknown.

    Examples
    --------
    >>> suite = Suite("small", ["arc", Suite("maths", ["gsm8k"], {"limit": 10})], {"limit": 50})
    >>> [(leaf.name, leaf.settings["limit"]) for leaf in suite.leaves()]
    [('arc', 50), ('gsm8k', 10)]
    """

    name: str
    tasks: Sequence["Leaf | Suite | str | BaseTask[Any]"]
    settings: Mapping[str, Any] = field(default_factory=dict)
    aggregates: Sequence[Aggregate] = ()

    def __post_init__(self) -> None:
        _check_settings(self.settings, f"suite {self.name!r}")
        if not self.tasks:
            raise InvalidInputError(f"suite {self.name!r} has no tasks")
        names = [leaf.name for leaf in self.leaves()]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInputError(
                    f"suite {self.name!r} has two tasks {name!r}; give one of them a different `label`"
                )
        for aggregate in self.all_aggregates():
            for task, _ in aggregate.sources:
                if task not in names:
                    raise InvalidInputError(
                        f"aggregate {aggregate.name!r} uses {task!r}, which is not a task of the "
                        f"suite; {_nearest(task, names)}"
                    )

    def leaves(self, above: Mapping[str, Any] | None = None) -> Iterator[Leaf]:
        """Yield every task with its effective settings; inner settings take precedence."""
        settings = {**(above or {}), **self.settings}
        for one in self.tasks:
            if isinstance(one, Suite):
                yield from one.leaves(settings)
            else:
                leaf = one if isinstance(one, Leaf) else Leaf(one)
                yield replace(leaf, settings={**settings, **leaf.settings})

    def all_aggregates(self) -> Iterator[Aggregate]:
        """Yield the aggregates of the suite and of nested suites."""
        yield from self.aggregates
        for one in self.tasks:
            if isinstance(one, Suite):
                yield from one.all_aggregates()


def made_task(leaf: Leaf) -> BaseTask[Any]:
    """Create the task of a leaf."""
    given = {name: leaf.settings[name] for name in OF_TASKS if name in leaf.settings}
    if isinstance(leaf.task, BaseTask):
        if given:
            raise InvalidInputError(
                f"task {leaf.name!r} is an existing object; it does not accept the setting "
                f"{next(iter(given))!r}"
            )
        return leaf.task
    return named_task(leaf.task, given, origin=leaf.origin)


def run_options(leaf: Leaf) -> dict[str, Any]:
    """Return the run settings of a leaf, with graders loaded with the permissions of its origin."""
    given = {name: leaf.settings[name] for name in OF_RUNS if name in leaf.settings}
    graders = given.get("graders")
    if isinstance(graders, Sequence) and not isinstance(graders, str):
        given["graders"] = [named_grader(one, {}, origin=leaf.origin) for one in graders]
    return given


def load_suite(path: str | Path, *, allow_code: bool = False) -> Suite:
    r"""Load a suite from a TOML or YAML file.

    Parameters
    ----------
    path : path
        File with ``name``, ``tasks`` and settings at the top level. A table of ``tasks`` has
        ``task`` (a task) or ``tasks`` (a nested suite, with its ``name``), and its own settings.
        Each table of ``aggregates`` has ``name``, ``sources`` (tables with ``task`` and ``metric``)
        and ``method``. Paths of task and data files are first resolved relative to the file.
    allow_code : bool, default False
        Whether to run Python code that the suite or its task files refer to.

    Returns
    -------
    Suite
        Validated suite.

    Raises
    ------
    InvalidInputError
        If a key is unknown or missing; the message names the file.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.toml"
    >>> _ = file.write_text('name = "small"\nlimit = 20\n[[tasks]]\ntask = "capitals"\n')
    >>> [leaf.name for leaf in load_suite(file).leaves()]
    ['capitals']
    """
    file = Path(path)
    try:
        with malformed(file, "suite"):
            return _suite(read_tables(file), file, str(file.stem), allow_code)
    except InvalidInputError as error:
        text = str(error)
        raise type(error)(text if text.startswith(str(file)) else f"{file}: {text}") from None


def _suite(table: Mapping[str, Any], file: Path, default: str | None, allow_code: bool) -> Suite:
    name = table.get("name", default)
    if not isinstance(name, str) or not name:
        raise InvalidInputError("a nested suite has no `name`; add one")
    _refuse_unknown(table, ("name", "tasks", "aggregates", *_SETTINGS), f"suite {name!r}")
    tasks = table.get("tasks")
    if not isinstance(tasks, list):
        raise InvalidInputError(f"suite {name!r}: `tasks` must be a list of tasks")
    return Suite(
        name,
        [_entry(one, file, allow_code) for one in tasks],
        _settings(table, file),
        [_aggregate(one) for one in table.get("aggregates", ())],
    )


def _entry(given: Any, file: Path, allow_code: bool) -> Leaf | Suite:
    origin = read_from(file, "tasks", allow_code=allow_code)
    if isinstance(given, str):
        return Leaf(_beside(given, file), origin=origin)
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"`tasks` contains {given!r:.60}; each entry must be a name or a table"
        )
    if "tasks" in given:
        return _suite(given, file, None, allow_code)
    if not isinstance(given.get("task"), str):
        raise InvalidInputError(f"`tasks` contains {dict(given)!r:.60}, which has no `task`")
    _refuse_unknown(given, ("task", "label", *_SETTINGS), f"task {given['task']!r}")
    task, settings = _beside(given["task"], file), _settings(given, file)
    label = given.get("label")
    if not isinstance(label, (str, type(None))):
        raise InvalidInputError(
            f"task {given['task']!r}: `label` is {label!r:.60}; it must be a string"
        )
    return Leaf(task, label, settings, origin)


def _settings(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    found = {name: table[name] for name in _SETTINGS if name in table}
    if isinstance(found.get("data"), str):
        found["data"] = _beside(found["data"], file)
    return found


def _beside(name: str, file: Path) -> str:
    """Resolve a name relative to the suite file if such a file exists."""
    there = file.parent / name
    return str(there) if is_there(there) and not Path(name).is_absolute() else name


def _aggregate(given: Any) -> Aggregate:
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise InvalidInputError(
            f"`aggregates` contains {given!r:.60}; each entry must be a table with a name"
        )
    where = f"aggregate {given['name']!r}"
    _refuse_unknown(given, ("name", "sources", "method"), where)
    sources, listed = [], given.get("sources", [])
    if not isinstance(listed, list):
        raise InvalidInputError(
            f"{where}: `sources` is {listed!r:.60}; it must be a list of tables"
        )
    for one in listed:
        if not isinstance(one, Mapping) or {*one} != {"task", "metric"}:
            raise InvalidInputError(f"{where}: a source needs `task` and `metric`, got {one!r:.60}")
        sources.append((str(one["task"]), str(one["metric"])))
    return Aggregate(given["name"], sources, given.get("method", "mean"))


def _check_settings(settings: Mapping[str, Any], where: str) -> None:
    _refuse_unknown(settings, _SETTINGS, where)


def _refuse_unknown(given: Iterable[str], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidInputError(f"{where} has no setting {name!r}; {_nearest(name, known)}")


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
