"""Convert log samples to run tables: answers, references, inputs and turns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.graders import Grade
from eval_toolkit.integrations.importing.items import as_text
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, LoggedTurn
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.payloads import to_json
from eval_toolkit.models.requests import (
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    request_hash,
)
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood
from eval_toolkit.models.responses.fields import Usage
from eval_toolkit.models.runner import Job, JobResult, to_columns
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.rollouts.seeds.stored import seed_units
from eval_toolkit.rollouts.turns import TURNS, turns_table
from eval_toolkit.runs.units import Unit
from eval_toolkit.tasks.references import sample_units
from eval_toolkit.tasks.types import Sample

_LONGEST_ERROR = 2_000
_NO_USAGE = Usage(0, 0, 0.0)


def log_tables(log: Log) -> dict[str, Any]:
    """Return the response and turn tables of a run; unit tables are written elsewhere.

    Columns are keyed by file name; tables without data are omitted.

    Examples
    --------
    >>> sample = LoggedSample(
    ...     unit_id="1", input="2 + 2 =", target="4", values={"acc": 1.0}, prompt="2 + 2 =",
    ...     response="4")
    >>> sorted(log_tables(Log(tool="t", task="sums", model="m", samples=[sample])))
    ['responses.parquet']
    """
    if log.kind == "rows":
        return {}
    tables: dict[str, Any] = {}
    answered = [sample for sample in log.samples if _is_answered(sample)]
    if answered:
        tables[RESPONSES] = _responses(log, answered)
    if log.kind == "rollout" and any(sample.turns for sample in log.samples):
        tables[TURNS] = turns_table(map(_graph, log.samples))
    return tables


def log_units(log: Log) -> list[Unit]:
    """Return the units of the samples, with inputs and references."""
    units = _first_of_each(log.samples)
    asked = [Unit(id=unit, input=sample.input) for unit, sample in units.items()]
    if log.kind == "task":
        right = sample_units(_reference(unit, sample) for unit, sample in units.items())
        pairs = zip(right, asked, strict=True)
        return [replace(one, input=plain.input, row=None) for one, plain in pairs]
    prompts = [_seed(unit, sample) for unit, sample in units.items()]
    if log.kind == "rollout" and all(prompt is not None for prompt in prompts):
        return seed_units(prompt for prompt in prompts if prompt is not None)
    return asked


def usage_of(samples: Sequence[LoggedSample]) -> dict[str, Any]:
    """Return the total tokens and cost of the samples, as far as they are known."""
    usages = [_usage(sample) for sample in samples if sample.usage]
    return {
        "prompt_tokens": sum(usage.prompt_tokens for usage in usages),
        "completion_tokens": sum(usage.completion_tokens for usage in usages),
        "cost": sum(usage.cost for usage in usages),
    }


def _first_of_each(samples: Sequence[LoggedSample]) -> dict[str, LoggedSample]:
    units: dict[str, LoggedSample] = {}
    for sample in samples:
        units.setdefault(whole_text(sample.unit_id), sample)
    return units


def _is_answered(sample: LoggedSample) -> bool:
    """Return whether the log contains an answer or an error for the sample."""
    return sample.response is not None or bool(sample.choices) or sample.error is not None


def _responses(log: Log, samples: Sequence[LoggedSample]) -> dict[str, Any]:
    """Return the table of requests and responses; unknown values are omitted."""
    columns = to_columns(_outcomes(log, samples))
    columns["usage"][:] = [_reported_usage(sample) for sample in samples]
    columns["params"][:] = [_without_temperature(params) for params in columns["params"]]
    return columns


def _reported_usage(sample: LoggedSample) -> str | None:
    if not sample.usage:
        return None
    usage = {} if sample.error is not None and sample.response is None else sample.usage
    told = {name: value for name, value in _usage(sample).to_dict().items() if name in usage}
    return to_json(told) if told else None


@cache
def _without_temperature(params: str) -> str:
    kept = json.loads(params)
    kept.pop("temperature", None)
    return to_json(kept)


def _outcomes(log: Log, samples: Sequence[LoggedSample]) -> Iterator[JobResult]:
    model = canonical_json({"kind": "imported", "name": log.model})
    for sample in samples:
        request = _request(sample)
        job = Job(whole_text(sample.unit_id) or "-", sample.attempt, request)
        response, error = _answer(sample)
        yield JobResult(job, response, error, request_hash=request_hash(request, model))


def _request(sample: LoggedSample) -> Request:
    prompt: Any = sample.prompt
    if not isinstance(prompt, str):
        prompt = tuple(prompt or ()) or sample.input or ""
    texts = tuple(choice.text for choice in sample.choices if choice.text)
    if texts:
        if sample.prompt is None:
            return LoglikelihoodRequest("", texts, rolling=True)
        return LoglikelihoodRequest(prompt, texts)
    return GenerateRequest(prompt)


def _answer(sample: LoggedSample) -> tuple[RawCompletion | RawLoglikelihood | None, Any]:
    usage = _usage(sample)
    scored = [choice for choice in sample.choices if choice.text]
    if scored:
        greedy = [bool(choice.is_greedy) for choice in scored]
        known = all(choice.is_greedy is not None for choice in scored)
        return (
            RawLoglikelihood(
                [choice.logprob for choice in scored],
                [choice.text for choice in scored],
                is_greedy=greedy if known else None,
                usage=usage,
            ),
            None,
        )
    if sample.response is not None:
        return RawCompletion(whole_text(sample.response), usage=usage), None
    said = " ".join((sample.error or "the log contains no answer").split())
    return None, ErrorInfo("other", said[:_LONGEST_ERROR])


def _usage(sample: LoggedSample) -> Usage:
    told = sample.usage
    if not told:
        return _NO_USAGE
    tokens = [told.get(name) for name in ("prompt_tokens", "completion_tokens")]
    asked, written = (n if isinstance(n, int) and n >= 0 else 0 for n in tokens)
    cost = told.get("cost")
    return Usage(asked, written, float(cost) if isinstance(cost, (int, float)) else 0.0)


def _reference(unit: str, sample: LoggedSample) -> Sample:
    """Return a sample that contains only the reference."""
    target = sample.target
    truth: Any = None if target is None else as_text(target)
    if isinstance(target, (list, tuple)):
        truth = [as_text(one) for one in target]
    texts = [choice.text for choice in sample.choices]
    places = list(sample.correct or ())
    known = texts and places
    return Sample(
        unit,
        "",
        (Message(Role.USER, ""),),
        truth,
        tuple(texts) if known else None,
        context={"doc": None, "choices": texts, "right": places} if known else None,
    )


def _graph(sample: LoggedSample) -> Graph[str, str]:
    """Return a conversation as a chain of turns."""
    begin = sample.input or ""
    graph: Graph[str, str] = Graph(
        begin, unit_id=whole_text(sample.unit_id), attempt=sample.attempt
    )
    place: Any = graph
    for turn in sample.turns:
        node = _node(begin, turn)
        place.children.append(node)
        place = node
    graph.relink()
    return graph


def _node(begin: str, turn: LoggedTurn) -> Node[str, str]:
    scores, unscored = _scores(turn.values)
    failed = turn.reply is None
    return Node(
        begin,
        turn.utterance,
        turn.reply,
        scores=scores,
        unscored=unscored,
        status="error" if failed else "ok",
        reason="the log contains no reply" if failed else "",
    )


def _scores(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    scores, unscored = {}, {}
    for name, value in values.items():
        if not isinstance(value, Grade):
            scores[name] = float(value)
        elif value.value is not None and value.status == "ok":
            scores[name] = value.value
        else:
            unscored[name] = f"{value.status}: {value.reason}"
    return scores, unscored


def _seed(unit: str, sample: LoggedSample) -> SeedPrompt | None:
    if not sample.input:
        return None
    target = sample.target if isinstance(sample.target, str) else ""
    return SeedPrompt(sample.input, id=unit, topic=sample.group or "", target=target)
