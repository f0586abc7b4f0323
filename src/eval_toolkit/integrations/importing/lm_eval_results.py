"""Read the results reported by lm-eval, and relate them to the samples."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing.lm_eval_samples import BYPASS
from eval_toolkit.integrations.importing.logs import LoggedSample, Stated, Value
from eval_toolkit.integrations.importing.plain_files import (
    list_or_empty,
    load_json,
    number_or_none,
    ok_values,
    shown,
)

_SAME = 1e-12
_BESIDE = ("name", "alias", "sample_len", "sample_count")
"""Entries in a task's results that are not metrics."""
_MEAN_ERROR, _BOOTSTRAP = "sample sd / sqrt(n)", "bootstrap of the corpus"
_NAMES_OF_A_MODEL = ("peft", "delta", "pretrained", "model", "path", "engine")
_MADE_BY = {
    **{name: name for name in ("perplexity", "bits_per_byte", "brier_score", "bleu", "chrf")},
    "ppl": "perplexity",
    "chrf++": "chrf++",
    "ter": "ter",
    "mcc": "matthews_corrcoef",
    **dict.fromkeys(("word_perplexity", "byte_perplexity"), "weighted_perplexity"),
    **dict.fromkeys(("acc", "acc_norm", "acc_mutual_info", "acc_bytes", "acc_all"), "mean"),
    **dict.fromkeys(("exact_match", "likelihood"), "mean"),
}
"""Aggregations of lm-eval's built-in metrics, for tasks that do not specify them."""
_NOT_SAID = "unknown rule"


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a results file, possibly empty."""

    path: Path | None = None
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> "Header":
        """Read a results file; raise a one-line error if it is invalid."""
        content = load_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
            raise ArtifactError(f"{path}: not results of lm-eval: there is no object 'results'")
        if not content["results"]:
            raise ArtifactError(f"{path}: 'results' is empty; no task was evaluated")
        for task, numbers in content["results"].items():
            if not isinstance(numbers, dict):
                raise ArtifactError(f"{path}: results.{task} is not an object of numbers")
        return cls(path, content)

    def part(self, name: str) -> Mapping[str, Any]:
        """Return an object of the file; empty if it is missing."""
        found = self.content.get(name)
        return found if isinstance(found, dict) else {}

    def of_task(self, name: str, task: str) -> Mapping[str, Any]:
        """Return the entry of a task in an object of the file."""
        found = self.part(name).get(task)
        return found if isinstance(found, dict) else {}

    @property
    def results(self) -> Mapping[str, Any]:
        """Reported values by task and group."""
        return self.part("results")

    @property
    def model(self) -> str:
        """Name of the model, as in lm-eval's folder names."""
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
        """Start time; "" if unknown."""
        date = self.content.get("date")
        if isinstance(date, bool) or not isinstance(date, (int, float)):
            return ""
        try:
            return datetime.fromtimestamp(date, UTC).isoformat(timespec="seconds")
        except (ValueError, OverflowError, OSError):
            return ""

    def n_of(self, task: str, key: str = "") -> int | None:
        """Return the number of documents of a task or of a value, if known."""
        numbers = self.results.get(task, {})
        counts = numbers.get("sample_count")
        told = counts.get(key) if isinstance(counts, dict) else None
        if not isinstance(told, int):
            told = self.of_task("n-samples", task).get("effective")
        if not isinstance(told, int):
            told = numbers.get("sample_len")
        return told if isinstance(told, int) and not isinstance(told, bool) else None

    def shots(self, task: str) -> int | None:
        """Return the number of few-shot examples of a task, if known."""
        told = self.part("n-shot").get(task, self.part("config").get("num_fewshot"))
        return told if isinstance(told, int) else None

    def aggregations(self, task: str) -> dict[str, str]:
        """Return the aggregation of each metric, from the task's configuration."""
        listed = self.of_task("configs", task).get("metric_list")
        named = [entry for entry in list_or_empty(listed) if isinstance(entry, dict)]
        told = {str(entry.get("metric")): entry.get("aggregation") for entry in named}
        said = {name: " ".join(str(how).split())[:60] for name, how in told.items() if how}
        return _MADE_BY | said


def group_notes(header: Header, task: str, stated: Iterable[Stated]) -> Iterator[str]:
    """Describe whether the numbers of a group are means over its tasks."""
    listed = header.part("group_subtasks").get(task)
    inside = [str(name) for name in listed] if isinstance(listed, list) else []
    yield f"{task} is a group of {len(inside)} tasks; its numbers are as reported"
    for one in stated:
        told = {name: header.results.get(name, {}).get(one.name) for name in inside}
        having = [name for name, value in told.items() if isinstance(value, (int, float))]
        means, sizes = [told[name] for name in having], [header.n_of(name) for name in having]
        if not means or None in sizes:
            continue
        if len(having) < len(inside):
            yield f"{one.name} covers {len(having)} of its tasks; the others have no such metric"
        total = sum(size for size in sizes if size)
        weighted = math.fsum(
            mean * (size or 0) for mean, size in zip(means, sizes, strict=True)
        ) / max(total, 1)
        if math.isclose(one.value, weighted, rel_tol=_SAME, abs_tol=_SAME):
            yield f"{one.name} is the mean over the {total} items of its tasks"
        elif math.isclose(one.value, math.fsum(means) / len(means), rel_tol=_SAME, abs_tol=_SAME):
            yield f"{one.name} is the mean over its tasks with equal weights"
        else:
            yield f"{one.name} is neither the mean over the items of its tasks ({weighted:.6g}) nor over tasks"


def column_of(metric: str, filtered: str) -> str:
    """Return the column of a metric: its name, followed by the filter if there is one.

    Examples
    --------
    >>> column_of("exact_match", "none"), column_of("exact_match", "strict-match")
    ('exact_match', 'exact_match,strict-match')
    """
    return metric if filtered in ("", "none") else f"{metric},{filtered}"


def as_made(
    one: Stated,
    samples: Sequence[LoggedSample],
    aggregations: Mapping[str, str],
    notes: list[str],
) -> Stated:
    """Return a number marked as not recomputable if its aggregation is unknown.

    Custom metrics of a task may be aggregated in any way. Values whose mean differs from the
    reported number are dropped, because neither the number nor its direction can be derived from
    them.
    """
    values = ok_values(samples, one.column)
    said = one.aggregation != "mean" or one.column.partition(",")[0] in aggregations
    if said or not values or (one.n is not None and one.n > len(samples)):
        return one
    mean = math.fsum(values) / len(values)
    if math.isclose(mean, one.value, rel_tol=_SAME, abs_tol=_SAME):
        return one
    for sample in samples:
        cast("dict[str, Value]", sample.values).pop(one.column, None)
    notes.append(
        f"{one.column}: the mean of its values is {mean:.6g}, but the log reports "
        f"{one.value:.6g} by an unknown aggregation; the reported number is kept"
    )
    return replace(one, aggregation=_NOT_SAID, itself=True, stderr_name="")


def stated_numbers(
    header: Header,
    task: str,
    aggregations: Mapping[str, str],
    corpus: Iterable[str],
    notes: list[str],
) -> Iterator[Stated]:
    """Yield the reported numbers of a task, and add notes on invalid numbers."""
    numbers = header.results.get(task, {})
    for key, value in numbers.items():
        metric, _, filtered = key.partition(",")
        if key in _BESIDE or metric == BYPASS or metric.endswith("_stderr"):
            continue
        number = _number(value, f"{task}: {key}", notes)
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
            stderr=_number(numbers.get(error), f"{task}: {error}", notes),
            n=header.n_of(task, key),
            aggregation=how,
            itself=how != "mean",
            stderr_name=_MEAN_ERROR if how == "mean" else _BOOTSTRAP,
        )


def _number(value: Any, what: str, notes: list[str]) -> float | None:
    """Return a finite number; None for strings such as "N/A", and for NaN, with a note."""
    if value is None or isinstance(value, (str, dict, list)):
        return None
    number = number_or_none(value)
    if number is None:
        notes.append(f"{what} is {shown(value)}, which is not a finite number; omitted")
    return number
