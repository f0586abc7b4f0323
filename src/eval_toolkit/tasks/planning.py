"""Planning of a run's requests, and estimation of their cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.prompts import Formatter, check_formatter, format_prompt
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.runner import Job
from eval_toolkit.protocols import Model
from eval_toolkit.runs.multipart import PART
from eval_toolkit.runs.specs import DecodingSpec
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.rows_on_disk import SampleOnDisk
from eval_toolkit.tasks.types import Part, Sample

_SEED_LIMIT = 2**31
"""Exclusive upper bound of seeds, since servers accept signed 32-bit integers."""
_MOST_REQUESTS = 3_000_000
"""Maximum number of requests, which are kept in memory."""
COUNTED = 200
CHARACTERS_PER_TOKEN = 4


def check_task(task: Any) -> None:
    """Raise an error unless the argument is a task."""
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")


def greedy_again(temperature: float | None, attempts: int) -> list[str]:
    """Return a note if greedy decoding makes all attempts at a sample identical."""
    if attempts == 1 or temperature != 0.0:
        return []
    return [f"{attempts} attempts at temperature 0 repeat the same greedy request"]


def decoding_of(
    task: BaseTask[Any],
    model: Model | None = None,
    *,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    stop: Sequence[str] | None = None,
) -> DecodingSpec:
    """Return the decoding settings: the caller's, else the task's, else greedy decoding.

    If the model is behind a server (``own_temperature``), the temperature defaults to that of the
    server instead. For log-likelihoods, nothing is decoded, and settings raise an error.
    """
    if task.RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS:
        given = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
        for name, value in {**given, "stop": stop}.items():
            if value is not None:
                raise InvalidInputError(
                    f"`{name}` is {value!r}, but {task.NAME!r} requests log-likelihoods and "
                    "generates nothing; omit the option"
                )
        return DecodingSpec()
    texts: Any = () if stop is None else stop  # not tuple(), which would split a single string
    heat = 0.0 if temperature is None else temperature
    usual = None if getattr(model, "own_temperature", False) else 0.0
    by_task = usual if task.temperature is None else task.temperature
    said = DecodingSpec(temperature=heat, top_p=top_p, max_tokens=max_tokens, stop=texts)
    own: dict[str, Any] = {
        "temperature": by_task if temperature is None else said.temperature,
        "top_p": task.top_p if top_p is None else said.top_p,
        "max_tokens": task.max_tokens if max_tokens is None else said.max_tokens,
        "stop": (task.stop_sequences or ()) if stop is None else said.stop,
    }
    try:
        return replace(said, **own)
    except InvalidInputError as error:
        raise InvalidInputError(f"task {task.NAME!r}: {error}") from None


def default_formatter(task: BaseTask[Any], model: Model | None = None) -> str:
    """Return the default format of a task's prompts.

    The default is "plain" for log-likelihoods and for models with ``speaks_chat = False``,
    otherwise "chat".

    Examples
    --------
    >>> class Quiz(BaseTask[str]):
    ...     NAME = "Quiz"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    >>> default_formatter(Quiz(rows=[{"q": "?"}]))
    'chat'
    """
    scored = task.RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS
    return "plain" if scored or not getattr(model, "speaks_chat", True) else "chat"


def plan_jobs(
    task: BaseTask[Any],
    samples: Sequence[Sample],
    *,
    formatter: Formatter | None = None,
    decoding: DecodingSpec | None = None,
    attempts: int | None = None,
    seed: int = DEFAULT_SEED,
    check: bool = True,
) -> list[Job]:
    """Return the requests of a task, one per sample and attempt, or per part of a sample.

    Parameters
    ----------
    task : BaseTask
        Task of the samples.
    samples : sequence of Sample
        Samples to evaluate.
    formatter : str, ChatTemplate or callable, optional
        Prompt format, as in `prompts.format_prompt`; by default, the result of `default_formatter`.
    decoding : DecodingSpec, optional
        Decoding settings; by default, the settings of the task.
    attempts : int, optional
        Number of attempts per sample; by default, the number that the task defines.
    seed : int, default 42
        Random seed of the run. If answers may be sampled (temperature not 0), each attempt at
        each sample gets its own seed, independent of the other samples.
    check : bool, default True
        Whether to build every request now, so that an error is raised here. If False, requests for
        answers about samples on disk are only built when they are sent.

    Returns
    -------
    list of Job
        Jobs, ordered by sample and then by attempt. The parts of an attempt have the steps
        ``part:0``, ``part:1``, …, which `joining.joined` combines.

    Raises
    ------
    InvalidInputError
        If a sample cannot be requested, log-likelihoods are requested with several attempts, or
        there would be more than three million requests.

    Examples
    --------
    >>> class Quiz(BaseTask[str]):
    ...     NAME = "Quiz"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return item["q"]
    ...     def _get_ground_truth(self, item):
    ...         return item["a"]
    >>> task = Quiz(rows=[{"id": "one", "q": "1 + 1?", "a": "2"}])
    >>> [job.key for job in plan_jobs(task, task.samples(), attempts=2)]
    [('one', 1, ''), ('one', 2, '')]
    """
    attempts = attempts_of(task, attempts)
    if attempts * len(samples) > _MOST_REQUESTS:
        raise InvalidInputError(
            f"{attempts} attempts at each of {len(samples)} samples are more than {_MOST_REQUESTS} "
            "requests; reduce `attempts`, or set `limit`"
        )
    form = default_formatter(task) if formatter is None else check_formatter(formatter)
    how = decoding_of(task) if decoding is None else decoding
    plan = _Plan(task, form, how, attempts, seed)
    return [job for sample in samples for job in plan.jobs(sample, check=check)]


def attempts_of(task: BaseTask[Any], attempts: int | None = None) -> int:
    """Return the number of attempts per sample, which defaults to the task's setting.

    Log-likelihoods allow only a single attempt.

    Examples
    --------
    >>> class Quiz(BaseTask[str]):
    ...     NAME = "Quiz"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     attempts = 4
    >>> attempts_of(Quiz(rows=[{"q": "?"}])), attempts_of(Quiz(rows=[{"q": "?"}]), 1)
    (4, 1)
    """
    given = task.attempts if attempts is None else attempts
    attempts = validation.integer(given, "attempts", low=1)
    if attempts > 1 and task.RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS:
        raise InvalidInputError(
            f"`attempts` is {attempts}, but {task.NAME!r} requests log-likelihoods, which are the "
            "same in every attempt; use 1"
        )
    return attempts


@dataclass(frozen=True, slots=True)
class _Plan:
    """Settings that turn samples into requests."""

    task: BaseTask[Any]
    formatter: Formatter
    decoding: DecodingSpec
    attempts: int
    seed: int

    @property
    def is_usual(self) -> bool:
        """Whether each sample has one request per attempt."""
        usual = type(self.task)._create_samples is BaseTask._create_samples
        return usual and self.task.RESPONSE_TYPE is ResponseType.COMPLETION

    def jobs(self, sample: Sample, *, check: bool) -> list[Job]:
        """Return the requests of a sample; those of a sample on disk are built when used."""
        if not isinstance(sample, SampleOnDisk):
            return self.made(sample)
        if not check and self.is_usual:
            return [_JobOnDisk(self, sample, nth, nth + 1, "") for nth in range(self.attempts)]
        made = enumerate(self.made(sample.loaded()))
        return [_JobOnDisk(self, sample, nth, job.attempt, job.step) for nth, job in made]

    def made(self, sample: Sample) -> list[Job]:
        """Return the requests of a sample."""
        try:
            return self._made(sample)
        except InvalidInputError as error:
            raise InvalidInputError(f"sample {sample.id!r}: {error}") from error

    def _made(self, sample: Sample) -> list[Job]:
        if sample.parts:
            return [
                Job(sample.id, 1, _part_request(part, self.formatter), f"{PART}{at}")
                for at, part in enumerate(sample.parts)
            ]
        prompt: Any = sample.text
        if prompt is None or self.formatter != "plain":
            prompt = format_prompt(sample.messages, self.formatter)
        if self.task.RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS:
            scored = LoglikelihoodRequest(prompt, sample.possible_completions or ())
            return [Job(sample.id, 1, scored)]
        return [
            Job(sample.id, attempt, self._generated(prompt, sample.id, attempt))
            for attempt in range(1, self.attempts + 1)
        ]

    def _generated(self, prompt: Any, unit_id: str, attempt: int) -> GenerateRequest:
        how, seed = self.decoding, None
        if how.temperature != 0.0:
            seed = derive_seed(self.seed, "decoding", unit_id, attempt) % _SEED_LIMIT
        return GenerateRequest(
            prompt,
            max_tokens=how.max_tokens,
            temperature=how.temperature,
            top_p=how.top_p,
            stop=how.stop,
            seed=seed,
        )


class _JobOnDisk(Job):
    """Request about a sample on disk, which is built when it is used."""

    __slots__ = ("nth", "plan", "sample")

    plan: _Plan
    sample: Sample
    nth: int

    def __init__(self, plan: _Plan, sample: Sample, nth: int, attempt: int, step: str) -> None:
        hold = object.__setattr__  # a loop over the names takes three times as long
        hold(self, "unit_id", sample.id)
        hold(self, "attempt", attempt)
        hold(self, "step", step)
        hold(self, "plan", plan)
        hold(self, "sample", sample)
        hold(self, "nth", nth)

    @property
    def request(self) -> Request:
        """Request to the model."""
        return self.loaded().request

    def loaded(self) -> Job:
        """Return the job with its request in memory."""
        return self.plan.made(self.sample.loaded())[self.nth]


def _part_request(part: Part, formatter: Formatter) -> LoglikelihoodRequest:
    prompt = part.prompt
    if not isinstance(prompt, str):
        prompt = format_prompt(prompt, formatter)
    return LoglikelihoodRequest(prompt, part.continuations, rolling=part.rolling)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Displayed):
    """Estimated size and cost of a run.

    Examples
    --------
    >>> Estimate(n_samples=2, n_requests=2, prompt_tokens=9, completion_tokens=None, how="").n_requests
    2
    """

    n_samples: int
    n_requests: int
    prompt_tokens: int
    """Number of tokens in all prompts and scored choices."""
    completion_tokens: int | None
    """Maximum number of generated tokens, one per scored choice over HTTP; None without a limit."""
    how: str
    """Description of how tokens were counted."""
    cost: float | None = None
    """Maximum cost, or the cost of the prompts if answers have no limit; None without prices."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def estimate(
    task: BaseTask[Any],
    model: Model | None = None,
    *,
    limit: int | None = None,
    order: str = "shuffled",
    attempts: int | None = None,
    formatter: Formatter | None = None,
    max_tokens: int | None = None,
) -> Estimate:
    """Estimate the requests, tokens and cost of a run without querying the model.

    Parameters
    ----------
    task : BaseTask
        Task to estimate.
    model : Model, optional
        Model that counts the tokens, if it supports this. Its ``default_max_tokens`` limits
        generated answers, and its ``prices`` (per million prompt and completion tokens) determine
        the cost.
    limit, order, attempts, formatter, max_tokens
        As in `running.run_task`.

    Returns
    -------
    Estimate
        Estimated counts and cost. Tokens are extrapolated from up to 200 prompts counted by the
        model or a local server, or else estimated as one per four characters, not including the
        tokens of a chat template. For log-likelihoods over HTTP, the prompt and one generated token
        are counted once per choice, which is an upper bound, since choices of a single token may
        need only one request.

    Raises
    ------
    InvalidInputError
        If an option does not apply to the task.

    Examples
    --------
    >>> class Quiz(BaseTask[str]):
    ...     NAME = "Quiz"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     max_tokens = 8
    ...     def _get_instruction_text(self, item):
    ...         return item["q"]
    ...     def _get_ground_truth(self, item):
    ...         return item["a"]
    >>> estimate(Quiz(rows=[{"q": "What is 1 + 1?", "a": "2"}])).to_dict()
    {'n_samples': 1, 'n_requests': 1, 'prompt_tokens': 4, 'completion_tokens': 8, 'how': 'one token per 4 characters', 'cost': None}
    """
    attempts = attempts_of(task, attempts)
    samples = task.samples(limit, order=order)
    decoding = decoding_of(task, max_tokens=max_tokens)
    form = default_formatter(task, model) if formatter is None else formatter
    jobs = plan_jobs(task, samples, formatter=form, decoding=decoding, attempts=1)
    again = bool(getattr(model, "reads_prompts_again", False))
    texts = [text for job in jobs for text in _texts_read(job.request, again=again)]
    total, how = _tokens_of(
        texts, model, plain=all(isinstance(job.request.prompt, str) for job in jobs)
    )
    total, n_requests = total * attempts, len(jobs) * attempts
    generated: int | None = len(texts) * attempts if again else 0
    if task.RESPONSE_TYPE is ResponseType.COMPLETION:
        limit_each = decoding.max_tokens
        if limit_each is None and jobs and isinstance(jobs[0].request.prompt, str):
            limit_each = getattr(model, "default_max_tokens", None)
        generated = None if limit_each is None else limit_each * n_requests
    prices: tuple[float, ...] | None = getattr(model, "prices", None)
    cost = None if prices is None else (total * prices[0] + (generated or 0) * prices[1]) / 1e6
    return Estimate(
        n_samples=len(samples),
        n_requests=n_requests,
        prompt_tokens=total,
        completion_tokens=generated,
        how=how,
        cost=cost,
    )


def _tokens_of(texts: Sequence[str], model: Any, *, plain: bool) -> tuple[int, str]:
    """Return the total number of tokens, and how it was counted."""
    step = max(1, len(texts) // COUNTED)
    some = texts[::step][:COUNTED]
    count: Callable[[str], int] | None = getattr(model, "count_tokens", None)
    ask = getattr(model, "token_counts", None) if plain and some else None
    counts = list(map(count, some)) if count is not None else ask(some) if ask else None
    if counts is None:
        n = sum(-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts)
        return n, f"one token per {CHARACTERS_PER_TOKEN} characters"
    # Scaled by length, since prompts differ more in length than in characters per token.
    share = sum(map(len, texts)) / max(1, sum(map(len, some)))
    whose = "the model" if count is not None else "the server"
    return round(sum(counts) * share), f"counted by {whose} in {len(some)} of {len(texts)} prompts"


def _texts_read(request: Request, *, again: bool) -> list[str]:
    """Return the texts that a model reads: one or, with ``again``, the prompt for every choice."""
    if not (again and isinstance(request, LoglikelihoodRequest)):
        return [request_text(request)]
    prompt = request.prompt
    text = prompt if isinstance(prompt, str) else "".join(turn.content for turn in prompt)
    return [text + choice for choice in dict.fromkeys(request.continuations)]


def request_text(request: Request) -> str:
    """Return the entire content of a request as a single string."""
    prompt = request.prompt
    text = prompt if isinstance(prompt, str) else "".join(turn.content for turn in prompt)
    return text + "".join(getattr(request, "continuations", ()))
