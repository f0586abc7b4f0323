"""lm-eval's ``results_*.json`` with the ``samples_*.jsonl`` beside it, of 0.4 and before."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_toolkit.artifacts.strict_json import read_bytes
from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing import lm_eval_samples
from eval_toolkit.integrations.importing.logs import Log, Stated
from eval_toolkit.integrations.importing.wanted import Wanted

__all__ = ["NAME", "column_of", "read", "recognises"]

NAME = "lm-eval"
_TIME = r"(?P<time>\d{4}-\d\d-\d\dT[\d.:+-]+?)"
_RESULTS = re.compile(rf"(?P<before>.*)results_{_TIME}\.json")
_SAMPLES = re.compile(rf"(?P<before>.*?)samples_(?P<task>.+)_{_TIME}\.jsonl")
_HEAD = 1 << 16
_SAME = 1e-12
_BESIDE = ("name", "alias", "sample_len", "sample_count")
"""What stands beside the numbers of a task and is none."""
_LESS_IS_BETTER = frozenset(
    {"ppl", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "brier_score"}
    | {"ter", "wer"}
)
"""Where a file of before 0.4 does not say."""
_RIGHT_OR_WRONG = ("acc", "acc_norm", "acc_mutual_info", "exact_match", "em")
_MEAN_ERROR, _BOOTSTRAP = "sample sd / sqrt(n)", "bootstrap of the corpus"
_NAMES_OF_A_MODEL = ("peft", "delta", "pretrained", "model", "path", "engine")
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
    """Say whether a file looks like results or samples of lm-eval."""
    if path.suffix not in (".json", ".jsonl") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if path.suffix == ".jsonl":
        return _SAMPLES.fullmatch(path.name) is not None or _is_sample(head)
    if b'"config_general"' in head:  # lighteval names its files alike
        return False
    if _RESULTS.fullmatch(path.name) is not None:
        return True
    return re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"results"\s*:\s*\{', head) is not None


def _is_sample(head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"{") and all(
        key in start for key in (b'"doc_id"', b'"doc"', b'"resps"')
    )


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Return a log for each task: with samples where they lie beside the results.

    Parameters
    ----------
    path : Path
        ``results_<time>.json``, or one of its ``samples_<task>_<time>.jsonl``.
    wanted : Wanted
        What to take.

    Returns
    -------
    list of Log
        Of results all tasks and groups, by name; of samples one.

    Raises
    ------
    ArtifactError
        If a file is damaged; the line says which and where.

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
    header = _Header.of(path)
    beside = dict(_samples_beside(path, header))
    return [_task_log(header, task, beside.get(task), wanted) for task in sorted({*header.results})]


@dataclass(frozen=True, slots=True)
class _Header:
    """A file of results, or what stands for it where there is none."""

    path: Path | None = None
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> "_Header":
        content = _parsed(path)
        if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
            raise ArtifactError(f"{path}: no results of lm-eval: there is no object 'results'")
        if not content["results"]:
            raise ArtifactError(f"{path}: 'results' is empty; no task was evaluated")
        for task, numbers in content["results"].items():
            if not isinstance(numbers, dict):
                raise ArtifactError(f"{path}: results.{task} is no object of numbers")
        return cls(path, content)

    def part(self, name: str) -> Mapping[str, Any]:
        """Return an object of the file; an empty one where there is none."""
        found = self.content.get(name)
        return found if isinstance(found, dict) else {}

    def of_task(self, name: str, task: str) -> Mapping[str, Any]:
        """Return what an object of the file says about a task."""
        found = self.part(name).get(task)
        return found if isinstance(found, dict) else {}

    @property
    def results(self) -> Mapping[str, Any]:
        return self.part("results")

    @property
    def model(self) -> str:
        """The model's name, by the rule that lm-eval makes the folder's name by."""
        told = self.content.get("model_name")
        if isinstance(told, str) and told:
            return told
        config = self.part("config")
        given: Any = config.get("model_args")
        if isinstance(given, str):
            pairs = (part.partition("=") for part in given.split(","))
            given = {name.strip(): value for name, _, value in pairs}
        for name in _NAMES_OF_A_MODEL if isinstance(given, dict) else ():
            if isinstance(given.get(name), str) and given[name]:
                return str(given[name])
        return str(config.get("model") or "")

    @property
    def created(self) -> str:
        date = self.content.get("date")
        if isinstance(date, bool) or not isinstance(date, (int, float)):
            return ""
        try:
            return datetime.fromtimestamp(date, UTC).isoformat(timespec="seconds")
        except (ValueError, OverflowError, OSError):
            return ""

    def n_of(self, task: str) -> int | None:
        """Return how many documents a task had, where the file says so."""
        told = self.of_task("n-samples", task).get("effective")
        if not isinstance(told, int):
            told = self.results.get(task, {}).get("sample_len")
        return told if isinstance(told, int) and not isinstance(told, bool) else None

    def shots(self, task: str) -> int | None:
        told = self.part("n-shot").get(task, self.part("config").get("num_fewshot"))
        return told if isinstance(told, int) else None

    def aggregations(self, task: str) -> dict[str, str]:
        """Return how each metric is made of its column, as the task's configuration says."""
        listed = self.of_task("configs", task).get("metric_list")
        named = [entry for entry in listed if isinstance(entry, dict)] if listed else []
        told = {str(entry.get("metric")): entry.get("aggregation", "mean") for entry in named}
        return {metric: " ".join(str(how).split())[:60] for metric, how in told.items()}


def _parsed(path: Path) -> Any:
    """Return what a file holds; lm-eval writes NaN, and where a number counts it is refused."""
    data = read_bytes(path)
    if not data:
        raise ArtifactError(f"{path}: the file is empty (0 bytes)")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ArtifactError(
            f"{path}: line {error.lineno}: malformed JSON: {error.msg} (column {error.colno})"
        ) from error
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: malformed JSON: {error}") from None


def _header_beside(path: Path, named: re.Match[str] | None) -> _Header:
    """Return the results that a file of samples belongs to, where they lie beside it."""
    if named is None:
        return _Header()
    beside = path.with_name(f"{named['before']}results_{named['time']}.json")
    return _Header.of(beside) if beside.is_file() else _Header()


def _samples_beside(path: Path, header: _Header) -> Iterator[tuple[str, Path]]:
    """Yield the files of samples of the same time, by the task each is of."""
    named = _RESULTS.fullmatch(path.name)
    if named is None:
        return
    for other in sorted(path.parent.iterdir()):
        found = _SAMPLES.fullmatch(other.name)
        if found and (found["before"], found["time"]) == (named["before"], named["time"]):
            yield _known_task(header, found["task"], other), other


def _known_task(header: _Header, named: str, path: Path) -> str:
    """Return the task's own name: a file's name has other signs in place of some."""
    if named in header.results or not header.results:
        return named or path.stem
    alike = [task for task in header.results if _safe(task) == _safe(named)]
    if len(alike) == 1:
        return alike[0]
    raise ArtifactError(
        f"{path}: {header.path} beside it has no results of {named!r}; it has: "
        f"{', '.join(sorted(header.results))[:300]}"
    )


def _safe(task: str) -> str:
    return re.sub(r"[\W_]+", "_", task)


def _task_log(header: _Header, task: str, path: Path | None, wanted: Wanted) -> Log:
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
    stated = list(_stated(header, task, aggregations, found.corpus if found else ()))
    if task in header.part("groups"):
        notes += _of_group(header, task, stated)
    model = header.model
    if not model:
        model = _folder_model(path or header.path)
        notes.append(f"the files name no model; it is called {model!r} here")
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
        lower_is_better=frozenset(_lower(header, task, columns)),
        binary=frozenset(one for one in columns if one.partition(",")[0] in _RIGHT_OR_WRONG),
        n_planned=n_planned,
        notes=tuple(notes),
    )


def _of_group(header: _Header, task: str, stated: Iterable[Stated]) -> Iterator[str]:
    """Say how the numbers of a group are made of its tasks' own, where they are a mean of them."""
    listed = header.part("group_subtasks").get(task)
    inside = [str(name) for name in listed] if isinstance(listed, list) else []
    yield f"{task} is a group of {len(inside)} tasks; its numbers are as stated"
    sizes = [header.n_of(name) for name in inside]
    for one in stated:
        told = [header.results.get(name, {}).get(one.name) for name in inside]
        means = [value for value in told if isinstance(value, (int, float))]
        if not means or len(means) < len(inside) or None in sizes:
            continue
        total = sum(size for size in sizes if size)
        weighted = math.fsum(
            mean * (size or 0) for mean, size in zip(means, sizes, strict=True)
        ) / max(total, 1)
        if math.isclose(one.value, weighted, rel_tol=_SAME, abs_tol=_SAME):
            yield f"{one.name} is the mean over the {total} items of its tasks"
        elif math.isclose(one.value, math.fsum(means) / len(means), rel_tol=_SAME, abs_tol=_SAME):
            yield f"{one.name} is the mean of its tasks, each counting the same"
        else:
            yield f"{one.name} is no mean of its tasks, over items ({weighted:.6g}) or over tasks"


def column_of(metric: str, filtered: str) -> str:
    """Return the column of a metric: its name, with the filter unless there is none.

    Examples
    --------
    >>> column_of("exact_match", "none"), column_of("exact_match", "strict-match")
    ('exact_match', 'exact_match,strict-match')
    """
    return metric if filtered in ("", "none") else f"{metric},{filtered}"


def _stated(
    header: _Header, task: str, aggregations: Mapping[str, str], corpus: Iterable[str]
) -> Iterator[Stated]:
    """Yield the numbers that the results state about a task."""
    numbers = header.results.get(task, {})
    for key, value in numbers.items():
        metric, _, filtered = key.partition(",")
        if key in _BESIDE or metric.endswith("_stderr"):
            continue
        number = _number(value, f"{header.path}: results.{task}: {key}")
        if number is None:
            continue
        error = f"{metric}_stderr" + (f",{filtered}" if filtered else "")
        column = column_of(metric, filtered)
        how = aggregations.get(metric, "mean")
        if column in corpus and how == "mean":
            how = "corpus"
        yield Stated(
            column=column,
            name=key,
            value=number,
            stderr=_number(numbers.get(error), f"{header.path}: results.{task}: {error}"),
            n=header.n_of(task),
            aggregation=how,
            stderr_name=_MEAN_ERROR if how == "mean" else _BOOTSTRAP,
        )


def _number(value: Any, where: str) -> float | None:
    """Return a finite number, None for a text such as "N/A", or raise."""
    if value is None or isinstance(value, (str, dict, list)):
        return None
    try:
        number = float(value)
    except OverflowError:
        raise ArtifactError(f"{where} is too large for a number") from None
    if not math.isfinite(number):
        raise ArtifactError(f"{where} is {number}; it must be a finite number")
    return number


def _lower(header: _Header, task: str, columns: Iterable[str]) -> Iterator[str]:
    told = header.of_task("higher_is_better", task)
    for column in columns:
        metric = column.partition(",")[0]
        if told.get(metric) is False or (metric not in told and metric in _LESS_IS_BETTER):
            yield column


def _folder_model(path: Path | None) -> str:
    """Return the model that lm-eval names a folder after, with its slash again."""
    folder = "" if path is None else path.resolve().parent.name
    return folder.replace("__", "/") if "__" in folder else "unnamed"


def _settings(header: _Header, task: str, repeats: int) -> dict[str, Any]:
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
