"""Import of lm-eval's ``results_*.json`` and ``samples_*.jsonl``."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing import lm_eval_samples
from eval_toolkit.integrations.importing.lm_eval_results import (
    Header,
    as_made,
    column_of,
    group_notes,
    stated_numbers,
)
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted

__all__ = ["NAME", "column_of", "read", "recognises"]

NAME = "lm-eval"
_TIME = r"(?P<time>\d{4}-\d\d-\d\dT[\d.:+-]+?)"
_RESULTS = re.compile(rf"(?P<before>.*)results_{_TIME}\.json")
_SAMPLES = re.compile(rf"(?P<before>.*?)samples_(?P<task>.+)_{_TIME}\.jsonl")
_HEAD = 1 << 16
_RIGHT_OR_WRONG = ("acc", "acc_norm", "acc_mutual_info", "exact_match", "em")
_OF_TASK = (
    *("dataset_path", "dataset_name", "output_type", "repeats", "num_fewshot", "metric_list"),
    *("generation_kwargs", "filter_list", "description", "test_split", "validation_split"),
)
_OF_RUN = (
    *("model", "model_args", "limit", "gen_kwargs", "batch_size", "num_fewshot", "random_seed"),
    *("numpy_seed", "torch_seed", "fewshot_seed", "model_sha", "model_dtype"),
)
_OF_FILE = ("git_hash", "system_instruction_sha", "chat_template_sha", "fewshot_as_multiturn")


def recognises(path: Path) -> bool:
    """Return whether a file looks like results or samples of lm-eval."""
    if path.suffix not in (".json", ".jsonl") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            file.seek(max(len(head), path.stat().st_size - _HEAD))
            tail = file.read(_HEAD)
    except OSError:
        return False
    if path.suffix == ".jsonl":
        return _SAMPLES.fullmatch(path.name) is not None or _is_sample(head)
    if b'"config_general"' in head:  # lighteval uses similar file names
        return False
    if _RESULTS.fullmatch(path.name) is not None:
        return True
    if re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"results"\s*:\s*\{', head) is None:
        return False
    return re.search(rb'"(config|configs|versions)"\s*:|_stderr', head + tail) is not None


def _is_sample(head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"{") and all(
        key in start for key in (b'"doc_id"', b'"doc"', b'"resps"')
    )


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read one log per task, with samples if they are in the same folder.

    The path is a file ``results_<time>.json``, or one of its ``samples_<task>_<time>.jsonl``, from
    which a single log is read.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "old.json"
    >>> _ = path.write_text('{"results": {"piqa": {"acc": 0.6, "acc_stderr": 0.01}}, '
    ...     '"config": {"model_args": "pretrained=a/b,revision=main"}}')
    >>> log = read(path, Wanted())[0]
    >>> log.model, log.stated[0].value, log.stated[0].stderr
    ('a/b', 0.6, 0.01)
    """
    if path.suffix == ".jsonl":
        named = _SAMPLES.fullmatch(path.name)
        header = _header_beside(path, named)
        task = "" if named is None else named["task"]
        return [_task_log(header, _known_task(header, task, path), path, wanted)]
    header = Header.of(path)
    beside = dict(_samples_beside(path, header))
    logs = [_task_log(header, task, beside.get(task), wanted) for task in sorted({*header.results})]
    # a group of tasks with answers only has neither samples nor reported numbers
    return [log for log in logs if log.samples or log.stated] or logs


def _header_beside(path: Path, named: re.Match[str] | None) -> Header:
    """Return the header of the results file that belongs to a samples file, if there is one."""
    if named is None:
        return Header()
    beside = path.with_name(f"{named['before']}results_{named['time']}.json")
    return Header.of(beside) if beside.is_file() else Header()


def _samples_beside(path: Path, header: Header) -> Iterator[tuple[str, Path]]:
    """Yield task and path of the samples files with the same timestamp."""
    named = _RESULTS.fullmatch(path.name)
    if named is None:
        return
    for other in sorted(path.parent.iterdir()):
        found = _SAMPLES.fullmatch(other.name)
        if found and (found["before"], found["time"]) == (named["before"], named["time"]):
            yield _known_task(header, found["task"], other), other


def _known_task(header: Header, named: str, path: Path) -> str:
    """Return the original name of a task; file names replace some characters."""
    if named in header.results or not header.results:
        return named or path.stem
    alike = [task for task in header.results if _safe(task) == _safe(named)]
    if len(alike) == 1:
        return alike[0]
    raise ArtifactError(
        f"{path}: {header.path} in the same folder has no results of {named!r}; it has "
        f"{', '.join(sorted(header.results))[:300]}"
    )


def _safe(task: str) -> str:
    return re.sub(r"[\W_]+", "_", task)


def _task_log(header: Header, task: str, path: Path | None, wanted: Wanted) -> Log:
    aggregations = header.aggregations(task)
    notes: list[str] = []
    found = None
    if path is not None:
        found = lm_eval_samples.read_samples(
            path,
            wanted,
            shots=header.shots(task),
            averaged=lambda metric: aggregations.get(metric, "mean") == "mean",
            column_of=column_of,
        )
        notes += found.notes
    stated = list(stated_numbers(header, task, aggregations, found.corpus if found else (), notes))
    if found is not None:
        stated = [as_made(one, found.samples, aggregations, notes) for one in stated]
    grouped = task in header.part("groups")
    if grouped:
        notes += group_notes(header, task, stated)
    model = header.model
    if not model:
        model = _folder_model(path or header.path)
        notes += (
            [] if wanted.named else [f"the files do not name a model; it is called {model!r} here"]
        )
    columns = {one.column for one in stated} | set(found.columns if found else ())
    repeats = 1 if found is None else found.n_repeats
    n_planned = header.n_of(task)
    return Log(
        tool=NAME,
        task=task,
        model=model,
        samples=() if found is None else found.samples,
        stated=stated,
        tool_version=str(header.content.get("lm_eval_version") or ""),
        files=[str(one) for one in (header.path, path) if one is not None],
        created=header.created,
        settings=_settings(header, task, repeats),
        higher_is_better=_directions(header, task, columns),
        binary=frozenset(
            one
            for one in columns
            if one.partition(",")[0] in _RIGHT_OR_WRONG and not grouped  # groups are means of rates
        ),
        n_planned=n_planned,
        notes=tuple(notes),
    )


def _directions(header: Header, task: str, columns: Iterable[str]) -> dict[str, bool | None]:
    """Return the direction of each column; logs written before lm-eval 0.4 do not state it."""
    told = header.of_task("higher_is_better", task)
    stated = {column: told.get(column.partition(",")[0]) for column in columns}
    return {column: up for column, up in stated.items() if isinstance(up, bool)}


def _folder_model(path: Path | None) -> str:
    """Return the model name from lm-eval's folder name, with its slash restored."""
    folder = "" if path is None else path.resolve().parent.name
    return folder.replace("__", "/") if "__" in folder else "unnamed"


def _settings(header: Header, task: str, repeats: int) -> dict[str, Any]:
    def kept(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        return {name: given[name] for name in names if given.get(name) is not None}

    version = header.part("versions").get(task)
    return {
        **kept(header.content, _OF_FILE),
        **kept(header.part("config"), _OF_RUN),
        **({} if version is None else {"task_version": version}),
        **({} if header.shots(task) is None else {"num_fewshot": header.shots(task)}),
        **({"repeats": repeats} if repeats > 1 else {}),
        "task": kept(header.of_task("configs", task), _OF_TASK),
    }
