"""Parsing and validation of lm-eval task configurations."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.lm_eval.filters import Pipeline, read_pipelines
from eval_toolkit.tasks.lm_eval.metrics import MetricConfig, read_metrics

OUTPUT_TYPES = ("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling")
_IGNORED = {
    *("task", "task_alias", "tag", "group", "task_list", "metadata"),
    *("should_decontaminate", "doc_to_decontamination_query", "_functions"),
    "unsafe_code",
}
"""Keys that are ignored: names, labels, and keys without effect in lm-eval."""
_REFUSED = {
    "class": "a task written in Python",
    "doc_to_image": "images",
    "doc_to_audio": "audio",
    "use_prompt": "prompts from promptsource",
}
_TEXTS = (
    *("dataset_path", "dataset_name", "training_split", "validation_split", "test_split"),
    *("fewshot_split", "description", "target_delimiter", "fewshot_delimiter", "gen_prefix"),
)
_TABLES = ("dataset_kwargs", "fewshot_config", "generation_kwargs")
_FUNCTIONS = ("process_docs", "process_results", "custom_dataset")
_KNOWN = {
    *_IGNORED,
    *_REFUSED,
    *_TEXTS,
    *_FUNCTIONS,
    *("doc_to_text", "doc_to_target", "doc_to_choice", "dataset_kwargs", "output_type"),
    *("fewshot_config", "num_fewshot", "metric_list", "generation_kwargs", "repeats"),
    "filter_list",
}
_FEWSHOT = (
    *("sampler", "split", "samples", "fewshot_indices", "process_docs", "doc_to_text"),
    *("doc_to_target", "doc_to_choice", "gen_prefix", "fewshot_delimiter", "target_delimiter"),
)
_SAMPLERS = ("default", "first_n")
_MAX_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Alternative keys, in the order in which lm-eval looks them up."""
_DEFAULT_MAX_TOKENS = 256

_RULES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (_TEXTS, lambda value: isinstance(value, str), "text"),
    (_FUNCTIONS, callable, "a !function"),
    (("num_fewshot", "repeats"), lambda value: type(value) is int and value >= 0, "a number"),
    (_TABLES, lambda value: isinstance(value, Mapping), "a table"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FewshotConfig:
    """Source and format of few-shot examples, which default to those of the task."""

    split: str | None
    samples: Sequence[Mapping[str, Any]] | Callable[[], Any] | None
    sampler: str
    indices: tuple[int, ...]
    process_docs: Callable[[Any], Any] | None
    doc_to_text: Any
    doc_to_target: Any
    doc_to_choice: Any
    gen_prefix: str | None
    target_delimiter: str
    fewshot_delimiter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Decoding settings of the model."""

    stop: tuple[str, ...]
    max_tokens: int
    temperature: float
    top_p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """Parsed and validated configuration of an lm-eval task."""

    name: str
    path: Path
    output_type: str
    dataset_path: str | None
    dataset_name: str | None
    dataset_kwargs: Mapping[str, Any]
    custom_dataset: Callable[..., Any] | None
    training_split: str | None
    validation_split: str | None
    test_split: str | None
    process_docs: Callable[[Any], Any] | None
    process_results: Callable[[Any, Any], Any] | None
    doc_to_text: Any
    doc_to_target: Any
    doc_to_choice: Any
    description: str
    target_delimiter: str
    gen_prefix: str | None
    fewshot: FewshotConfig
    num_fewshot: int
    generation: Generation
    repeats: int
    pipelines: tuple[Pipeline, ...]
    metrics: tuple[MetricConfig, ...]
    metadata: Mapping[str, Any]
    tags: tuple[str, ...] = ()
    digest: str = field(default="", compare=False)
    """SHA-256 hash of all keys and of the Python files that define functions."""

    @property
    def sample_split(self) -> str:
        """Split that contains the samples."""
        return str(self.test_split or self.validation_split)


def read_task(config: Mapping[str, Any], path: Path) -> TaskConfig:
    """Parse and validate a task.

    Defaults are filled in, and a single error lists all unknown and unsupported keys. ``path`` is
    used in error messages and to locate data relative to the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> keys = {"task": "quiz", "dataset_path": "json", "test_split": "test"}
    >>> read_task({**keys, "doc_to_text": "{{q}}", "doc_to_target": "a"}, Path("quiz.yaml")).metrics[0].name
    'exact_match'
    """
    problems = _refused(config) + _missing(config)
    odd = _odd(config)
    problems += odd.values()
    config = {key: value for key, value in config.items() if key not in odd}
    output_type = config.get("output_type") or "generate_until"
    if output_type not in OUTPUT_TYPES:
        problems.append(f"output_type {output_type!r} (there are {', '.join(OUTPUT_TYPES)})")
        output_type = "generate_until"
    pipelines = read_pipelines(config.get("filter_list"), output_type, problems)
    metrics = read_metrics(config, output_type, problems)
    generation = _generation(config, problems)
    fewshot = _fewshot(config, problems)
    if problems:
        raise InvalidInputError(f"{path}: cannot be run because of {'; '.join(problems)}")
    tags = config.get("tag") or ()
    return TaskConfig(
        name=config["task"],
        path=path,
        output_type=output_type,
        **{name: config.get(name) for name in ("dataset_path", "dataset_name", *_FUNCTIONS)},
        **{name: config.get(name) for name in ("training_split", "validation_split", "test_split")},
        dataset_kwargs=config.get("dataset_kwargs") or {},
        **{name: config.get(name) for name in ("doc_to_text", "doc_to_target", "doc_to_choice")},
        description=config.get("description") or "",
        target_delimiter=config.get("target_delimiter", " "),
        gen_prefix=config.get("gen_prefix"),
        fewshot=fewshot,
        num_fewshot=config.get("num_fewshot") or 0,
        generation=generation,
        repeats=config.get("repeats") or 1,
        pipelines=pipelines,
        metrics=metrics,
        metadata=_metadata(config),
        tags=(tags,) if isinstance(tags, str) else tuple(tags),
        digest=sha256_text(canonical_json(_plain(config))),
    )


def _metadata(config: Mapping[str, Any]) -> Mapping[str, Any]:
    given = config.get("metadata")
    return given if isinstance(given, Mapping) else {}


def _plain(value: Any) -> Any:
    """Return a JSON-serialisable value, in which functions are replaced by their names."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    plain = value is None or isinstance(value, (str, int, float, bool))
    return value if plain else getattr(value, "__name__", str(value))


def _refused(config: Mapping[str, Any]) -> list[str]:
    """Describe unknown and unsupported keys."""
    problems = []
    for key in config:
        if key not in _KNOWN:
            near = difflib.get_close_matches(key, sorted(_KNOWN), n=1)
            problems.append(f"the unknown key {key!r}" + (f" ({near[0]!r}?)" if near else ""))
        elif key in _REFUSED and config[key]:
            problems.append(f"{key} ({_REFUSED[key]})")
    name = config.get("task")
    if not isinstance(name, str) or not name:
        problems.append(f"the task name {name!r:.60}")
    return problems


def _odd(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys whose values have the wrong type, with a description of each problem."""
    given = {key: value for key, value in config.items() if value is not None}
    return {
        key: f"{key}, which is {given[key]!r:.60} and must be {rule}"
        for keys, fits, rule in _RULES
        for key in keys
        if key in given and not fits(given[key])
    }


def _missing(config: Mapping[str, Any]) -> list[str]:
    """Describe missing required keys."""
    rolling = config.get("output_type") == "loglikelihood_rolling"
    needed = ["doc_to_target"] if rolling else ["doc_to_text", "doc_to_target"]
    if config.get("output_type") == "multiple_choice":
        needed.append("doc_to_choice")
    missing = [f"{key}, which is missing" for key in needed if config.get(key) is None]
    if not config.get("test_split") and not config.get("validation_split"):
        missing.append("test_split and validation_split, one of which is required")
    return missing


def _fewshot(config: Mapping[str, Any], problems: list[str]) -> FewshotConfig:
    given = config.get("fewshot_config") or {}
    problems += [f"fewshot_config.{key}" for key in given if key not in _FEWSHOT]
    sampler = given.get("sampler", "default")
    if sampler not in _SAMPLERS:
        problems.append(f"fewshot_config.sampler {sampler!r} (there are {', '.join(_SAMPLERS)})")
    samples = given.get("samples")
    if samples is not None and not isinstance(samples, list) and not callable(samples):
        problems.append("fewshot_config.samples, which must be a list")

    def own(name: str, default: Any = None) -> Any:
        return given[name] if name in given else config.get(name, default)

    return FewshotConfig(
        split=given.get("split", config.get("fewshot_split")),
        samples=samples,
        sampler=sampler,
        indices=tuple(given.get("fewshot_indices") or ()),
        **{name: own(name) for name in ("process_docs", "doc_to_text", "doc_to_target")},
        **{name: own(name) for name in ("doc_to_choice", "gen_prefix")},
        target_delimiter=own("target_delimiter", " "),
        fewshot_delimiter=own("fewshot_delimiter", "\n\n"),
    )


def _generation(config: Mapping[str, Any], problems: list[str]) -> Generation:
    """Return the decoding settings as in lm-eval, where the temperature is 0 without sampling."""
    given = dict(config.get("generation_kwargs") or {})
    until = given.pop("until", config.get("fewshot_delimiter", "\n\n"))
    stop = [until] if isinstance(until, str) else list(until or ())
    limits = [given.pop(name) for name in _MAX_TOKENS if name in given]
    temperature = float(given.pop("temperature", 0.0))
    if given.pop("do_sample", None) is False:
        temperature = 0.0
    top_p = given.pop("top_p", None)
    if given.get("num_beams") == 1:
        given.pop("num_beams")
    if config.get("output_type", "generate_until") == "generate_until":
        problems += [f"generation_kwargs.{name}" for name in given]
    return Generation(
        stop=tuple(str(text) for text in stop if text != ""),
        max_tokens=int(limits[0]) if limits else _DEFAULT_MAX_TOKENS,
        temperature=temperature,
        top_p=None if top_p is None or temperature == 0.0 else float(top_p),
    )
