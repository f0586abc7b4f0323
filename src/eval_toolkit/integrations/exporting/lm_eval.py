"""Export to ``results_<time>.json`` and ``samples_<task>_<time>.jsonl`` of lm-eval."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.integrations.exporting.answers import (
    SCORED,
    Answer,
    Answers,
    answers_of,
    text_sha256,
)
from eval_toolkit.integrations.exporting.cells import (
    all_blocks,
    as_mapping,
    begun_at,
    captured_at,
    config_of,
    origin_of,
    unrepresented_data,
)
from eval_toolkit.integrations.exporting.names import file_names
from eval_toolkit.report.cells import Block, Cell
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named
from eval_toolkit.scorecards.parts import WHOLE

_FILTER = "none"
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_TOOL, _OURS = "lm-eval", "eval_toolkit"


def lm_eval_files(run: Run, *, samples: bool = True) -> dict[str, bytes]:
    """Return a run in lm-eval's format: one folder per model, with slices as tasks.

    ``<metric>_stderr,none`` is the sample standard deviation divided by √n, as in lm-eval, or "N/A"
    if a metric is not a mean of samples. Intervals, status and reasons are stored under
    ``eval_toolkit``. A cell without a value has no key in ``results``.

    With ``samples``, sample files are added for slices with records.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"org/m": {"acc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"arc": part}},
    ... )
    >>> (content,) = lm_eval_files(run).values()
    >>> json.loads(content)["results"]["arc"]["acc,none"]
    0.75
    """
    if kind_named(run.kind).words.multi_turn:
        raise InvalidInputError(
            f"{run.path}: lm-eval's format has no conversations; export rollouts to astra or "
            "every-eval-ever"
        )
    by_model: dict[str, list[Block]] = {}
    for block in all_blocks(run):
        if block.cells and block.part == WHOLE:
            by_model.setdefault(block.scorer, []).append(block)
    if not by_model:
        raise InvalidInputError(f"{run.path}: the run has no metric values to export")
    stamp = (begun_at(run) or captured_at(run)).strftime("%Y-%m-%dT%H-%M-%S.%f")
    files: dict[str, bytes] = {}
    folders = file_names(by_model)
    for model, blocks in by_model.items():
        answers = {one.block.name: one for one in answers_of(run, blocks)}
        lines = {name: _lines(one) for name, one in answers.items()} if samples else {}
        payload = _results(run, model, blocks, answers, lines)
        files[f"{folders[model]}/results_{stamp}.json"] = json_bytes(payload)
        tasks = file_names(block.name for block in blocks)
        for name, told in lines.items():
            content = b"".join(json_bytes(line, indent=None) for line in told)
            files[f"{folders[model]}/samples_{tasks[name]}_{stamp}.jsonl"] = content
    return files


# --- results --------------------------------------------------------------------------------------


def _results(
    run: Run,
    model: str,
    blocks: Sequence[Block],
    answers: Mapping[str, Answers],
    lines: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    config = config_of(run)
    task = as_mapping(config.get("task"))
    told = as_mapping(as_mapping(config.get("model")).get("description"))
    wall = run.manifest.get("wall_clock_seconds")
    origin = origin_of(run)
    theirs = origin.settings if origin is not None and origin.tool == _TOOL else {}
    source = str(theirs.get("model") or told.get("kind") or (origin.tool if origin else _OURS))
    begun = begun_at(run)
    alone = len(blocks) == 1  # task settings of a log apply only to a single task
    return {
        "results": {block.name: _numbers(block, answers.get(block.name)) for block in blocks},
        "group_subtasks": {block.name: [] for block in blocks},
        "configs": {
            block.name: {
                **_task_config(block, config, answers.get(block.name)),
                **(as_mapping(theirs.get("task")) if alone else {}),
            }
            for block in blocks
        },
        "versions": {block.name: _version(task.get("version")) for block in blocks},
        "n-shot": {block.name: int(task.get("num_fewshot") or 0) for block in blocks},
        "higher_is_better": {
            block.name: {_named(name)[0]: c.higher_is_better for name, c in block.cells.items()}
            for block in blocks
        },
        "n-samples": {
            block.name: _counts(block, task, origin.n_planned if origin and alone else None)
            for block in blocks
        },
        "config": {
            "model": source,
            "model_args": theirs.get("model_args") or {"model": model, **told},
            "batch_size": theirs.get("batch_size"),
            "batch_sizes": [],
            "device": theirs.get("device"),
            "use_cache": None,
            "limit": theirs.get("limit", config.get("limit")),
            "bootstrap_iters": config.get("n_resamples"),
            "gen_kwargs": theirs.get("gen_kwargs") or as_mapping(config.get("decoding")),
            **{name: theirs.get(name) for name in _SEEDS},
        },
        "git_hash": theirs.get("git_hash") if origin else run.manifest.get("git_sha"),
        "date": None if begun is None else begun.timestamp(),
        "pretty_env_info": "",
        "transformers_version": None,
        "lm_eval_version": (origin.version or None) if origin and theirs else None,
        "upper_git_hash": None,
        "task_hashes": {name: _task_hash(told) for name, told in lines.items()},
        "model_source": source,
        "model_name": model,
        "model_name_sanitized": file_names([model])[model],
        "system_instruction": None,
        "system_instruction_sha": None,
        "fewshot_as_multiturn": theirs.get("fewshot_as_multiturn"),
        "chat_template": None,
        "chat_template_sha": None,
        "total_evaluation_time_seconds": None if wall is None or origin else str(wall),
        "eval_toolkit": unrepresented_data(
            run, [one for one in all_blocks(run) if one.scorer == model]
        ),
    }


def _named(name: str) -> tuple[str, str]:
    """Return the metric and the filter; names in runs imported from lm-eval contain both."""
    metric, _, filtered = name.partition(",")
    return metric, filtered or _FILTER


def _numbers(block: Block, answers: Answers | None) -> dict[str, Any]:
    means = {} if answers is None else {one.cell.name: one for one in answers.metrics}
    n = block.n if answers is None else len(answers.unit_ids)
    told: dict[str, Any] = {"name": block.name, "alias": block.name, "sample_len": n}
    for name, cell in block.cells.items():
        if not cell.has_value:
            continue
        metric, filtered = _named(name)
        told[f"{metric},{filtered}"] = cell.value
        mean = means.get(name)
        stderr = mean.stderr if mean is not None and mean.is_mean else _stated_error(cell)
        told[f"{metric}_stderr,{filtered}"] = "N/A" if stderr is None else stderr
    return told


def _stated_error(cell: Cell) -> float | None:
    """Return the standard error that a log without samples reports for a number."""
    error = cell.details.get("standard_error") if cell.details.get("stated") else None
    return error if isinstance(error, int | float) else None


def _task_config(
    block: Block, config: Mapping[str, Any], answers: Answers | None
) -> dict[str, Any]:
    task = as_mapping(config.get("task"))
    data = as_mapping(task.get("dataset"))
    found = () if answers is None else answers.metrics
    means = {_named(one.cell.name)[0] for one in found if one.is_mean}
    if answers is None:  # in a log without samples, means are named like their columns
        means |= {_named(name)[0] for name, c in block.cells.items() if c.details.get("mean")}
    listed = {_named(name)[0]: cell.higher_is_better for name, cell in block.cells.items()}
    output = {"loglikelihoods": "multiple_choice", "completion": "generate_until"}
    told = {
        "task": block.name,
        "dataset_path": data.get("path"),
        "dataset_kwargs": {"revision": data["revision"]} if data.get("revision") else None,
        "test_split": task.get("sample_split"),
        "fewshot_split": task.get("fewshot_split"),
        "num_fewshot": task.get("num_fewshot"),
        "output_type": output.get(str(task.get("response_type"))),
        "repeats": config.get("attempts"),
        "metric_list": [
            {
                "metric": name,
                "aggregation": "mean" if name in means else name,
                "higher_is_better": better,
            }
            for name, better in listed.items()
        ],
        "generation_kwargs": dict(as_mapping(config.get("decoding"))) or None,
        "metadata": {"version": _version(task.get("version"))},
    }
    return {name: value for name, value in told.items() if value is not None}


def _version(version: Any) -> Any:
    """Return a version as a number if possible, as in lm-eval."""
    text = "" if version is None else str(version)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text or None


def _counts(block: Block, task: Mapping[str, Any], planned: int | None) -> dict[str, Any]:
    rows = as_mapping(as_mapping(task.get("dataset")).get("n_rows")).get(
        str(task.get("sample_split"))
    )
    known = rows if isinstance(rows, int) else planned
    return {"original": block.n if known is None else known, "effective": block.n}


def _task_hash(lines: Sequence[Mapping[str, Any]]) -> str:
    parts = "".join(
        f"{line['doc_hash']}{line['prompt_hash']}{line['target_hash']}" for line in lines
    )
    return hashlib.sha256(parts.encode()).hexdigest()


# --- samples --------------------------------------------------------------------------------------


def _lines(answers: Answers) -> list[dict[str, Any]]:
    """Return one line per unit and filter; multiple attempts become repeats of the requests."""
    return [line for at, unit in enumerate(answers.unit_ids) for line in _line(answers, at, unit)]


def _line(answers: Answers, at: int, unit: str) -> Iterator[dict[str, Any]]:
    tries = answers.attempts(unit)
    first = tries[0]
    reference = answers.references.get(unit)
    right = answers.right_texts(unit)
    target = "" if not right else right[0] if len(right) == 1 else json.dumps(right)
    if first.choices and reference is not None and reference.correct:
        target = str(reference.correct[0])
    doc = {"id": unit, **answers.parts(at)}
    if answers.content_hash(at):
        doc["content_hash"] = answers.content_hash(at)
    asked = answers.question(unit, first)
    if asked:
        doc["input"] = asked
    values, states = _values(answers, at)
    filters = dict.fromkeys(_named(name)[1] for name in values)
    arguments, resps, kept = _requests_and_responses(tries)
    told = {
        "doc_id": at,
        "doc": doc,
        "target": target,
        "arguments": arguments,
        "resps": resps,
        "filtered_resps": kept,
        "doc_hash": text_sha256(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": text_sha256(first.prompt_text),
        "target_hash": text_sha256(target),
    }
    for one in filters or (_FILTER,):
        mine = {_named(name)[0]: v for name, v in values.items() if _named(name)[1] == one}
        absent = {_named(name)[0]: v for name, v in states.items() if _named(name)[1] == one}
        line = {**told, "filter": one, "metrics": list(mine), **mine}
        yield {**line, "eval_toolkit": {"absent": absent}} if absent else line


def _requests_and_responses(tries: Sequence[Answer]) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """Return requests, responses to each request (one per repeat), and filtered responses."""
    first = tries[0]
    if first.outcome is None:
        return {}, [], []
    context: Any = first.prompt
    if not isinstance(context, str):
        context = [json.dumps(first.messages, ensure_ascii=False)]
    if first.choices:
        arguments = {
            f"gen_args_{n}": {"arg_0": context, "arg_1": text}
            for n, (text, _, _) in enumerate(first.choices)
        }
        scored = [[_score(number, greedy) for _, number, greedy in t.choices] for t in tries]
        resps = [[one[n] for one in scored if n < len(one)] for n in range(len(first.choices))]
        return arguments, resps, [resp[0] for resp in resps]
    arguments = {"gen_args_0": {"arg_0": context, "arg_1": first.settings}}
    texts = ["" if one.text is None else one.text for one in tries]
    return arguments, [texts], [texts[0]]


def _score(number: float, greedy: bool | None) -> list[str]:
    """Return a score as a string in lm-eval's format; unknown values are omitted."""
    return [str(number)] if greedy is None else [str(number), str(greedy)]


def _values(answers: Answers, at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metrics of a unit, and the reasons for missing values."""
    values: dict[str, Any] = {}
    states: dict[str, Any] = {}
    for metric in answers.metrics:
        name = metric.cell.name
        values[name] = float(metric.values[at]) if metric.measured[at] else None
        if metric.failed[at] or not metric.measured[at]:
            status, reason = answers.why(metric.spec.column, at)
            states[name] = {"status": status, "reason": reason}
    if set(SCORED) <= answers.records.columns.keys():
        row = int(answers.units.starts[at])
        pair = [float(answers.records.columns[name][row]) for name in SCORED]
        known = all(answers.records.status[name][row] == "ok" for name in SCORED)
        # for a corpus metric, store its inputs: the label and the score
        for name in answers.block.cells:
            values.setdefault(name, pair if known else None)
    return values, states
