"""Execution of task runs: `run_task`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.artifacts import read_json
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.prompts import Formatter, formatter_name
from eval_toolkit.models.servers import server_of_model
from eval_toolkit.protocols import Model
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.specs import (
    ASK_DEFAULTS,
    SUMMARY_DEFAULTS,
    AskOptions,
    AskSpec,
    SummaryOptions,
    SummarySpec,
)
from eval_toolkit.seeds import resolve_seed
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.grading import GraderLike, GradingSettings
from eval_toolkit.tasks.kind import TaskKind, at_once
from eval_toolkit.tasks.planning import (
    attempts_of,
    check_task,
    decoding_of,
    default_formatter,
    estimate,
    greedy_again,
    plan_jobs,
)
from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth
from eval_toolkit.tasks.types import Sample

if TYPE_CHECKING:
    from eval_toolkit.tasks.stopping_watch import Watch

__all__ = ["estimate", "plan_jobs", "run_task"]

_BATCHING = ("batch_size", "max_batch_tokens")
"""Batching options of models, which may change the last digits of log-likelihoods."""


class _TaskOptions(SummaryOptions, AskOptions, total=False):
    """Options of `run_task`: decoding, graders, `SummarySpec` and `AskSpec`."""

    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    stop: Sequence[str] | None
    graders: Sequence[GraderLike] | None
    pass_at: Sequence[int]
    pass_hat: Sequence[int]
    maj_at: Sequence[int]
    replay: str | Path | None
    run_id: str | None
    prompt: str | None
    system: str | None
    answer: str | None
    by: str | None
    base_url: str | Sequence[str] | None
    shard: str | None


@gathers(
    _TaskOptions,
    **dict.fromkeys(("temperature", "top_p", "max_tokens", "stop", "graders")),
    **dict.fromkeys(("pass_at", "pass_hat", "maj_at"), ()),
    **dict.fromkeys(("replay", "run_id", "prompt", "system", "answer", "by", "base_url", "shard")),
    **SUMMARY_DEFAULTS,
    **ASK_DEFAULTS,
)
def run_task(
    task: Any,
    model: Any = None,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    order: str = "shuffled",
    attempts: int | None = None,
    formatter: Formatter | None = None,
    seed: int | None = None,
    until: UntilWidth | UntilDecided | None = None,
    **options: Unpack[_TaskOptions],
) -> Outcome:
    """Run a task: query a model, grade the answers, summarise the grades and store the run.

    Parameters
    ----------
    task : BaseTask, str, path, DataFrame, dataset or sequence of rows
        Task to run; a name or file as in `load_task`; or a table of questions with references (a
        file such as "questions.jsonl", or rows in memory) as in `questions_task`.
    model : Model, str, callable or object with ``invoke``, optional
        Model, or an object that `models.as_model` can convert to one, such as "openai:gpt-4o" or a
        function that maps a prompt to an answer. Not needed with ``replay``.
    base_url : str or sequence of str, optional
        Address of one or several OpenAI-compatible servers, for models and judges specified by
        name: ``run_task("quiz.jsonl", "openai:small", base_url="http://localhost:8000/v1")`` is
        equivalent to the name ``"openai:small{base_url='http://localhost:8000/v1'}"``.
    out : path, optional
        Folder of the run. An interrupted run is resumed, and a finished run is extended: failed
        requests are retried, a larger ``limit`` or more ``attempts`` add requests, and new graders
        are applied to all answers. By default, nothing is written.
    limit : int, optional
        Maximum number of items per subject.
    order : {"shuffled", "file"}
        Whether a limit selects random items or the first items of the file.
    attempts : int, optional
        Number of attempts per sample; by default, the task's own, which is usually 1.
    formatter : str, ChatTemplate or callable, optional
        Prompt format, as in `prompts.format_prompt`. By default, chat models receive messages,
        log-likelihoods use plain strings, and ``replay`` uses the format of the stored run.
    temperature, top_p, max_tokens, stop
        As in `DecodingSpec`. The default is greedy decoding or, over HTTP, the server's
        temperature; ``max_tokens`` and ``stop`` override the limit and the stop sequences of the
        task.
    seed : int, optional
        Random seed of the run; by default, the seed of the task.
    prompt, system, answer, by : str, optional
        Prompt, system message, reference column and subject column of a table of questions or a
        task file, as in `questions_task`: ``prompt="{question} Answer with one word."``
    graders : sequence of Grader, str, mapping or function, optional
        Graders to use instead of the task's graders; a function takes (answer) or (answer,
        reference). Judges are queried once all answers are available, for every answer that did not
        fail, using the same cache and journal.
    pass_at, pass_hat, maj_at : sequence of int
        Values of k for pass@k (at least one of k attempts is correct), pass^k (all are correct)
        and maj@k (the majority answer of k attempts is correct).
    on_error, max_error_rate, confidence
        As in `SummarySpec`.
    until : UntilWidth or UntilDecided, optional
        Stopping rule. Items are requested in random order, and all intervals are anytime-valid.
        Answers beyond the last counted item are kept.
    concurrency, cache, replay, give_up_after, patience_s, on_progress
        As in `AskSpec`.
    run_id : str, optional
        Name of the run; by default, the name of the folder.
    shard : str, optional
        Shard of the samples to evaluate, such as "2/8"; `merge_runs` joins the shards.

    Returns
    -------
    Outcome
        Outcome of the run. Identical answers give byte-identical ``records.parquet`` and
        ``results.json``, regardless of concurrency and interruptions.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option does not apply to the task.
    ArtifactError
        If the folder contains a run with a different task, model, prompt, decoding or seed, or
        another process is writing to it.
    ModelError
        If the model fails permanently; answers received so far are kept.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.responses import ResponseType
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    >>> task = Capitals(rows=[
    ...     {"country": "Italy", "capital": "Rome"}, {"country": "Spain", "capital": "Madrid"},
    ... ])
    >>> done = run_task(task, ScriptedModel("Rome"), graders=["exact_match"])
    >>> done.card["exact_match"].value, done.n_requests
    (0.5, 2)
    """
    task = _task(task, {name: options[name] for name in ("prompt", "system", "answer", "by")})
    validation.place(out, "out", NoneType)
    ask = AskSpec.of(options)
    run_id = options["run_id"]
    if run_id is not None and (not isinstance(run_id, str) or not run_id.strip()):
        raise InvalidInputError(f"`run_id` is {run_id!r:.80}; it must be a non-empty string")
    _check_against(until, out)
    attempts = attempts_of(task, attempts)
    summary = SummarySpec.of(options)
    model = _made(model, options["base_url"])
    with server_of_model(model):  # default address of judges
        measuring = GradingSettings.of(
            task,
            options["graders"],
            options["pass_at"],
            options["pass_hat"],
            options["maj_at"],
            summary,
            attempts,
        )
    asked = _queried_model(model, options["replay"])
    decoding = decoding_of(
        task,
        asked,
        temperature=options["temperature"],
        top_p=options["top_p"],
        max_tokens=options["max_tokens"],
        stop=options["stop"],
    )
    given = _recorded_form(options["replay"]) if formatter is None else formatter
    form = default_formatter(task, asked) if given is None else given
    number = resolve_seed(task.seed if seed is None else seed)
    samples = task.samples(limit, order=order)
    begun = out is not None and (Path(out) / JOURNAL).is_file()  # its requests were checked
    planned: dict[str, Any] = {"formatter": form, "decoding": decoding, "attempts": attempts}
    jobs = plan_jobs(task, samples, **planned, seed=number, check=not begun)
    watched: dict[str, Any] = {
        "seed": task.seed,
        "order": order,
        "confidence": options["confidence"],
    }
    watch = None if until is None else until.watch(samples, measuring.metrics(), **watched)
    kind = TaskKind(
        task=task,
        measuring=measuring,
        samples=samples,
        settings={
            "formatter": formatter_name(form),
            "decoding": decoding.to_dict(),
            "seed": number,
            "limit": limit,
            "order": order,
            "attempts": attempts,
            **({} if until is None else {"until": until.to_dict()}),
        },
        model=asked,
        jobs=jobs,
        watch=watch,
    )
    told = getattr(task, "how_graded", None) if options["graders"] is None else None
    how = () if told is None else told(samples)
    notes = (*task.data_notes, *how, *greedy_again(decoding.temperature, attempts))
    if decoding.temperature is None:
        notes = (
            *notes,
            "the default temperature of the server; pass --temperature 0 for greedy decoding",
        )
    return drive(
        kind,
        out,
        name=task.NAME,
        run_id=options["run_id"],
        ask=ask,
        max_error_rate=summary.max_error_rate,
        engine=_engine(None if options["replay"] else model, options["concurrency"]),
        notes=(*notes, *_fewer(watch, samples)),
        shard=options["shard"],
    )


def _check_against(until: UntilWidth | UntilDecided | None, out: str | Path | None) -> None:
    against = getattr(until, "against", None)
    if against is not None and out is not None and Path(out).resolve() == against.path.resolve():
        raise InvalidInputError(
            f"`against` is {out}, the folder of this run; choose another folder"
        )


def _fewer(watch: Watch | None, samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return a note about samples that are excluded because the other run lacks them."""
    left = 0 if watch is None else len(samples) - len(watch.samples)
    return (f"{left:,} samples are excluded, because the other run lacks them",) * (left > 0)


def _recorded(replay: str | Path) -> Mapping[str, Any]:
    """Return the stored configuration of the replayed run, if any."""
    place = Path(replay)
    manifest = (place.parent if place.name == JOURNAL else place) / MANIFEST
    return (read_json(manifest).get("config") or {}) if manifest.is_file() else {}


def _recorded_form(replay: str | Path | None) -> str | None:
    """Return the stored prompt format of the replayed run, if any."""
    if replay is None:
        return None
    form = _recorded(replay).get("formatter")
    if isinstance(form, str) and ":" in form:
        raise InvalidInputError(
            f"`formatter` is missing; {replay} was run with {form!r}, of which only the hash is "
            "stored; pass the same formatter"
        )
    return None if form is None else str(form)


def _engine(model: Model | None, concurrency: int | None) -> dict[str, Any]:
    """Return the request settings that do not affect the answers."""
    limits = {name: getattr(model, name, None) for name in _BATCHING}
    batching = {name: limit for name, limit in limits.items() if limit is not None}
    return {
        "concurrency": at_once(model, concurrency),
        "model_batching": batching or None,
    }


def _task(given: Any, texts: Mapping[str, str | None]) -> BaseTask[Any]:
    """Return the task, loading it if it is a name, a file or a table of questions."""
    told: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    if isinstance(given, BaseTask):
        if told:
            name = next(iter(told))
            raise InvalidInputError(
                f"`{name}`: the task {given.NAME!r} defines its own; the option is only for tables of "
                "questions and task files"
            )
        return given
    if isinstance(given, (str, Path)):
        from eval_toolkit.tasks.loading import load_task

        return load_task(given, **told)
    if given is None or isinstance(given, (type, int, float)):
        check_task(given)
    from eval_toolkit.tasks.questions import questions_task

    return questions_task(given, **told)


def _made(model: Any, base_url: str | Sequence[str] | None) -> Model | None:
    """Convert a name, a function or another object that answers prompts to a model."""
    is_model = model is None or (isinstance(model, Model) and not isinstance(model, type))
    if is_model and base_url is None:
        return model  # type: ignore[no-any-return]
    from eval_toolkit.models.callables import as_model

    return as_model(model, base_url=base_url)


def _queried_model(model: Model | None, replay: str | Path | None) -> Model:
    """Return the model to query, which with ``replay`` returns stored answers."""
    if replay is not None:
        from eval_toolkit.runs.replay import ReplayModel

        stored = ReplayModel(replay, name=None if model is None else model.name)
        decoding = _recorded(replay).get("decoding")
        if isinstance(decoding, Mapping):
            stored.own_temperature = decoding.get("temperature") is None
        return stored
    if model is None:
        raise InvalidInputError("`model` is missing; pass a model, or `replay` with stored answers")
    return model
