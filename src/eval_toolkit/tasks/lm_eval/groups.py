"""Groups and tags of lm-eval, whose tasks run together as the subjects of one task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.graders.base import ColumnInfo, Grade, columns_of
from eval_toolkit.models.messages import Message
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.lm_eval.config import read_task
from eval_toolkit.tasks.lm_eval.files import merged, read_config
from eval_toolkit.tasks.lm_eval.task import LmEvalTask
from eval_toolkit.tasks.types import Item, Sample

_OF_GROUP = ("group", "group_alias", "task", "aggregate_metric_list", "metadata", "tag")


@dataclass(frozen=True, slots=True)
class _Member:
    """Task in a group, with its configuration."""

    config: Mapping[str, Any]
    path: Path


def _index(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Map the names of tasks, groups and tags to the files in some folders that define them."""
    found: dict[str, list[Path]] = {}
    for folder in folders:
        for file in sorted(folder.rglob("*.yaml")):
            try:
                config = merged(file)
            except EvalToolkitError:  # an unrelated file, reported only if it is needed
                continue
            name = config.get("group") or config.get("task")
            tags = config.get("tag") or []
            for one in [name, *([tags] if isinstance(tags, str) else tags)]:
                if isinstance(one, str):
                    found.setdefault(one, []).append(file)
    return found


def members_of(
    config: Mapping[str, Any], path: Path, folders: Sequence[Path], *, allow_code: bool
) -> list[tuple[Mapping[str, Any], Path]]:
    """Return the tasks of a group, including tasks of nested groups and tags.

    The keys of each task are updated with the keys that the group sets. Tasks, groups and tags are
    searched for in ``folders``.
    """
    found = _members(config, path, _index(folders), allow_code, ())
    members: dict[str, _Member] = {}
    for member in found:
        members.setdefault(str(member.config["task"]), member)
    if not members:
        raise InvalidInputError(f"{path}: the group {config.get('group')!r} has no tasks")
    return [(member.config, member.path) for member in members.values()]


def _members(
    config: Mapping[str, Any],
    path: Path,
    index: Mapping[str, list[Path]],
    allow_code: bool,
    chain: tuple[str, ...],
) -> Iterator[_Member]:
    name = str(config.get("group"))
    if name in chain:
        raise InvalidInputError(f"{path}: circular group: {' contains '.join((*chain, name))}")
    listed = config.get("task") or []
    shared = {key: value for key, value in config.items() if key not in _OF_GROUP}
    for one in [listed] if isinstance(listed, (str, Mapping)) else listed:
        given = {"task": one} if isinstance(one, str) else dict(one)
        names = given.get("group") or given.get("task")
        own = {key: value for key, value in given.items() if key not in ("task", "group")}
        if isinstance(given.get("task"), list):  # a nested group
            inner = {**given, **shared}
            yield from _members(inner, path, index, allow_code, (*chain, name))
            continue
        files = index.get(str(names))
        if not files and "dataset_path" in own:  # a task defined in the list itself
            yield _Member({**shared, **own, "task": f"{name}::{names}"}, path)
            continue
        if not files:
            raise InvalidInputError(
                f"{path}: no file in the same folder defines the task, group or tag {names!r}; "
                "pass the folder that contains it as `search`"
            )
        for file in files:
            found = read_config(file, allow_code=allow_code)
            if "group" in found:
                inner = {**found, **shared, **own}
                yield from _members(inner, file, index, allow_code, (*chain, name))
            else:
                yield _Member({**found, **shared, **own}, file)


def primary_metrics(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the cells with a group's metrics, over all items or macro-averaged.

    Examples
    --------
    >>> primary_metrics({"aggregate_metric_list": [{"metric": "acc", "weight_by_size": False}]})
    ['acc_macro']
    """
    given = config.get("aggregate_metric_list") or []
    names = []
    for one in [given] if isinstance(given, Mapping) else given:
        filters = one.get("filter_list") or ["none"]
        if one.get("aggregation", "mean") != "mean":
            raise InvalidInputError(
                f"aggregate_metric_list: the aggregation {one['aggregation']!r} of "
                f"{one['metric']!r} is not supported; use 'mean'"
            )
        for name in [filters] if isinstance(filters, str) else filters:
            suffix = "" if name == "none" else f"@{name}"
            weighed = one.get("weight_by_size", True)
            names.append(f"{one['metric']}{suffix}" + ("" if weighed else "_macro"))
    return names


@dataclass(frozen=True, slots=True)
class _GroupGrader:
    """Grader that applies to each sample the grader of its own task."""

    by_task: Mapping[str, Grader]
    name: str = "lm_eval"

    @property
    def response_types(self) -> Any:
        """Response types of the first grader, which all graders share."""
        return getattr(next(iter(self.by_task.values())), "response_types", None)

    @property
    def version(self) -> str:
        """Version, which changes with the version of any grader."""
        versions = {task: str(grader.version) for task, grader in self.by_task.items()}
        return f"1+{sha256_text(canonical_json(versions))[:16]}"

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the columns of all graders."""
        return {
            column: info
            for grader in self.by_task.values()
            for column, info in columns_of(grader).items()
        }

    def metrics(self) -> list[MetricSpec]:
        """Return the distinct metrics of all graders."""
        found = {
            spec.name: spec
            for grader in self.by_task.values()
            for spec in getattr(grader, "metrics", list)()
        }
        return list(found.values())

    def grade(self, response: Any) -> Mapping[str, float | Grade]:
        """Grade a response with the grader of its task; columns of other tasks are skipped."""
        given = self.by_task[response.subject].grade(response)
        none = Grade.skipped(f"the task {response.subject} does not use this metric")
        return {**dict.fromkeys(self.columns().keys() - given.keys(), none), **given}


class _GroupSource:
    """Data source that describes the data of all tasks in a group."""

    by_subject = True

    def __init__(self, tasks: Mapping[str, LmEvalTask]) -> None:
        self._tasks = tasks

    def subjects(self) -> list[str]:
        """Return the names of the tasks."""
        return list(self._tasks)

    def rows(self, split: str, subject: str | None) -> list[dict[str, Any]]:
        """Return the rows of a task in a split."""
        task = self._tasks[str(subject)]
        return [dict(item) for item in task._items(str(subject), split)]

    def describe(self) -> dict[str, Any]:
        """Return a single hash of the data descriptions of all tasks."""
        told = {name: task._source.describe() for name, task in self._tasks.items()}
        files = {
            f"{name}/{file}": digest
            for name, one in told.items()
            for file, digest in one["files"].items()
        }
        digests = {name: one["sha256"] for name, one in told.items()}
        whole = sha256_text(canonical_json(digests))
        return {"path": None, "revision": None, "sha256": whole, "files": files}


_SHARED = (
    "RESPONSE_TYPE",
    "stop_sequences",
    "max_tokens",
    "temperature",
    "top_p",
    "attempts",
)
"""Attributes that must be the same for all tasks of a group, since they run together."""


class LmEvalGroup(BaseTask[str]):
    """Group of lm-eval tasks that run together; created by `load_lm_eval_task`.

    Each task is a subject. A metric over all items is the mean over tasks weighted by size
    (``weight_by_size: true``), and ``<metric>_macro`` is the unweighted mean over tasks. Both are
    reported with confidence intervals; ``PRIMARY_METRICS`` lists those that the file requests.

    Parameters
    ----------
    name : str
        Name of the group.
    tasks : sequence of LmEvalTask
        Tasks of the group, each created with its name as ``subject``.
    primary : sequence of str
        Names of the cells that the group's file requests.
    seed : int, default 42
        Random seed of the tasks.

    Raises
    ------
    InvalidInputError
        If only some of the tasks generate text, or the tasks differ in decoding or in the number of
        attempts.
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[LmEvalTask],
        *,
        primary: Sequence[str] = (),
        version: str = "1",
        seed: int = DEFAULT_SEED,
    ) -> None:
        self.NAME, self.VERSION = name, version
        self.tasks = {task.NAME: task for task in tasks}
        first = tasks[0]
        for task in tasks[1:]:
            for what in _SHARED:
                if getattr(task, what) != getattr(first, what):
                    raise InvalidInputError(
                        f"the tasks {first.NAME!r} and {task.NAME!r} of the group {name!r} differ "
                        f"in {what.lower()}; run them separately"
                    )
        self.RESPONSE_TYPE = first.RESPONSE_TYPE
        self.stop_sequences, self.max_tokens = first.stop_sequences, first.max_tokens
        self.temperature, self.top_p = first.temperature, first.top_p
        self.attempts = first.attempts
        self.SUBJECTS = list(self.tasks)
        self.SAMPLE_SPLIT, self.FEWSHOT_SPLIT = first.SAMPLE_SPLIT, first.FEWSHOT_SPLIT
        self.PRIMARY_METRICS = list(primary) or None
        super().__init__(first.num_fewshot, rows=[], seed=seed)
        self._source = _GroupSource(self.tasks)

    def _items(self, subject: Any, split: str) -> Sequence[Item]:
        task = self.tasks[str(subject)]
        items = task.documents()
        self._splits[str(subject)] = {task.SAMPLE_SPLIT: items}
        return items

    @property
    def data_notes(self) -> list[str]:
        """Notes on the data read so far."""
        return [note for task in self.tasks.values() for note in task.data_notes]

    def _create_samples(self, item: dict[str, Any], index: int, subject: str) -> list[Sample]:
        return self.tasks[subject]._create_samples(item, index, subject)

    def _get_messages(self, item: dict[str, Any]) -> list[Message]:
        subject = item.subject if isinstance(item, Item) else next(iter(self.tasks))
        return self.tasks[subject]._get_messages(item)

    def graders(self) -> list[Grader]:
        """Return a single grader that delegates to the graders of the tasks."""
        by_task = {name: task.graders()[0] for name, task in self.tasks.items()}
        return [_GroupGrader(by_task)]

    def describe(self) -> dict[str, Any]:
        """Return the description of the task for the manifest, which requires reading the data."""
        told = {name: task.config.digest for name, task in self.tasks.items()}
        shots = {task.num_fewshot for task in self.tasks.values()}
        return {
            **super().describe(),
            "num_fewshot": max(shots),
            "lm_eval": {
                "tasks": told,
                "shots": "lm_eval" if next(iter(self.tasks.values())).lm_eval_shots else "own",
            },
        }


def make_members(
    found: Sequence[tuple[Mapping[str, Any], Path]],
    *,
    data: Any,
    rows: Any,
    overrides: Mapping[str, Any],
    options: Mapping[str, Any],
) -> list[LmEvalTask]:
    """Create the tasks of a group.

    ``data`` is a path with ``{task}`` or ``{subject}`` (the ``dataset_name``), or a path per task;
    ``overrides`` contains keys to set in every task.
    """
    tasks = []
    for config, path in found:
        name = str(config["task"])
        given = {"data": _of_member(data, name, "data"), "rows": _of_member(rows, name, "rows")}
        task = read_task({**config, **overrides, "task": name}, path)
        tasks.append(LmEvalTask(task, subject=name, **given, **options))
    return tasks


def _of_member(given: Any, name: str, what: str) -> Any:
    if isinstance(given, Mapping):
        if name not in given:
            raise InvalidInputError(
                f"`{what}` has no entry for the task {name!r}; it has {', '.join(map(repr, given))}"
            )
        return given[name]
    if given is None:
        return None
    if what == "rows":
        raise InvalidInputError("`rows` of a group must be a mapping from task to rows")
    return str(given).replace("{task}", name)
