"""The engine: order, bounds, errors that stay where they are, stops that keep what is finished."""

import asyncio
import json
import math
import signal
import threading

import pytest

from eval_toolkit._internal.files import limits
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
    ModelError,
)
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.models.runner import (
    Entry,
    Job,
    JobResult,
    Journal,
    read_outcomes,
    run_jobs,
    run_jobs_async,
    to_columns,
)
from eval_toolkit.models.scripted import ScriptedModel


def jobs_of(n, attempts=1):
    return [
        Job(f"q{i}", attempt, GenerateRequest(f"question {i}", seed=attempt))
        for i in range(n)
        for attempt in range(1, attempts + 1)
    ]


def echo(request):
    return f"answer to {request.prompt}, seed {request.seed}"


def texts(outcomes):
    return [outcome.response.text if outcome.ok else outcome.error.kind for outcome in outcomes]


class Trouble:
    """Answers, except that some prompts fail."""

    def __init__(self, failing, failure):
        self.failing = failing
        self.failure = failure
        self.asked = []

    def __call__(self, request):
        self.asked.append(request.prompt)
        if request.prompt in self.failing:
            raise self.failure
        return "fine"


def test_outcomes_are_in_the_order_of_the_jobs_whatever_finishes_first():
    async def slowest_first(request):
        await asyncio.sleep(0.02 / (1 + int(request.prompt.split()[1])))
        return echo(request)

    jobs = jobs_of(20, attempts=2)
    expected = texts(run_jobs(jobs, ScriptedModel(echo)))
    assert expected[0] == "answer to question 0, seed 1"
    for concurrency in (1, 7, 64):
        outcomes = run_jobs(jobs, ScriptedModel(slowest_first), concurrency=concurrency)
        assert texts(outcomes) == expected
        assert [outcome.job for outcome in outcomes] == jobs


@pytest.mark.parametrize(
    ("argument", "own", "expected"), [(3, 8, 3), (None, 5, 5), (None, None, 16)]
)
def test_no_more_requests_at_once_than_the_argument_or_the_model_says(argument, own, expected):
    under_way, most = 0, 0

    async def answer(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return "x"

    model = ScriptedModel(answer)
    if own is None:
        del model.concurrency
    else:
        model.concurrency = own
    run_jobs(jobs_of(60), model, concurrency=argument)
    assert most == expected


def test_one_failure_leaves_its_neighbours_alone():
    failure = ModelError("no answer within 60 s", kind="timeout", status=504, tries=5)
    outcomes = run_jobs(jobs_of(9), ScriptedModel(Trouble({"question 4"}, failure)))
    assert texts(outcomes) == ["fine"] * 4 + ["timeout"] + ["fine"] * 4
    assert outcomes[4].error == ErrorInfo("timeout", "no answer within 60 s", 504, 5, True)
    assert outcomes.n_errors == outcomes.progress.errors == 1


def test_a_bug_in_a_model_is_an_error_of_one_line():
    failure = KeyError("first\nsecond")
    outcomes = run_jobs(jobs_of(3), ScriptedModel(Trouble({"question 1"}, failure)))
    error = outcomes[1].error
    assert error.kind == "other"
    assert error.message.startswith("KeyError: ")
    assert "\n" not in error.message
    assert not error.retryable


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (RawLoglikelihood([0.0]), "the model returned RawLoglikelihood, not RawCompletion"),
        (RawCompletion("", error=ErrorInfo("server", "down")), "down"),
        (RawCompletion("", error=ErrorInfo("strange", "odd")), "odd"),
        (RawCompletion("x", usage=Usage(cost=float("nan"))), "ValueError: Out of range float"),
        (RawCompletion("x", finish_reason=object()), "TypeError: object cannot be written"),
    ],
)
def test_an_answer_that_is_none_is_an_error(tmp_path, answer, message):
    class Odd(ScriptedModel):
        async def generate(self, request):
            return answer

    outcomes = run_jobs(jobs_of(1), Odd("x"), journal=Journal(tmp_path / "j.jsonl"))
    assert outcomes[0].error.message.startswith(message)
    assert run_jobs(jobs_of(1), ScriptedModel("y"), journal=Journal(tmp_path / "j.jsonl"))[0].ok


def test_fewer_numbers_than_continuations_are_an_error():
    job = Job("q", 1, LoglikelihoodRequest("The", (" a", " b", " c")))

    class Short(ScriptedModel):
        async def loglikelihood(self, request):
            return RawLoglikelihood([-1.0, -2.0])

    error = run_jobs([job], Short("x"))[0].error
    assert error.kind == "garbled"
    assert error.message == "the model returned 2 log-likelihoods for 3 continuations"


@pytest.mark.parametrize("kind", [ModelError, KeyError])
def test_an_error_that_has_no_encoding_is_made_storable(tmp_path, kind):
    failure = kind("lone \ud800 surrogate")
    journal = Journal(tmp_path / "j.jsonl")
    outcomes = run_jobs(
        jobs_of(3), ScriptedModel(Trouble({"question 1"}, failure)), journal=journal
    )
    assert [outcome.ok for outcome in outcomes] == [True, False, True]
    message = outcomes[1].error.message
    message.encode()
    assert "lone \ufffd surrogate" in message or "lone \\ud800 surrogate" in message
    columns = to_columns(outcomes)
    assert read_outcomes(columns)[1].error == outcomes[1].error


def test_an_outcome_is_strict_json_where_a_probability_is_zero():
    job = Job("q", 1, LoglikelihoodRequest("a", ("b", "c")))
    outcome = JobResult(job, RawLoglikelihood([-1.0, -math.inf], ["b", "c"]))
    told = json.loads(json.dumps(outcome.to_dict(), allow_nan=False))
    assert told["response"]["loglikelihoods"] == [-1.0, "-inf"]


@pytest.mark.parametrize(
    "damage", [{"text": 5}, {"text": None}, {"text": "x", "prompt_tokens": -1}, {"txt": "x"}, {}]
)
def test_damaged_answers_are_called_damaged(tmp_path, damage):
    journal = Journal(tmp_path / "j.jsonl")
    run_jobs(jobs_of(3), ScriptedModel("fine"), journal=journal)
    lines = [json.loads(line) for line in journal.path.read_text().splitlines()]
    lines[1]["response"] = damage
    lines[2]["hash"] = "0" * 64
    journal.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcomes = run_jobs(jobs_of(3), ScriptedModel("fine"), journal=journal)
    assert texts(outcomes) == ["fine"] * 3
    assert outcomes.n_reused == 1
    assert outcomes.notes == (
        "1 stored answers are for another model, prompt or parameter; requested again",
        "1 stored answers are damaged; requested again",
    )


def test_secrets_in_an_error_do_not_reach_the_disk(tmp_path):
    secret = "sk-" + "a1B2c3D4e5F6g7H8i9J0k1L2"
    failure = ModelError(f"refused with Authorization: Bearer {secret}", kind="server")
    journal = Journal(tmp_path / "j.jsonl")
    outcomes = run_jobs(
        jobs_of(1), ScriptedModel(Trouble({"question 0"}, failure)), journal=journal
    )
    assert "refused with" in outcomes[0].error.message
    assert secret not in outcomes[0].error.message
    assert secret not in journal.path.read_text()


def test_two_jobs_with_one_key_are_refused():
    job = jobs_of(1)[0]
    with pytest.raises(InvalidInputError) as caught:
        run_jobs([job, job], ScriptedModel("x"))
    assert str(caught.value) == (
        "jobs[0] and jobs[1] are both unit 'q0', attempt 1, step ''; each combination may occur once"
    )
    steps = [Job("q", 1, GenerateRequest("a"), step) for step in ("ask", "judge")]
    assert len(run_jobs(steps, ScriptedModel("x"))) == 2


def test_arguments_are_checked():
    with pytest.raises(InvalidTypeError, match=r"jobs\[0\] is str; it must be a Job"):
        run_jobs(["q"], ScriptedModel("x"))
    with pytest.raises(InvalidTypeError, match="`model` is 'gpt'; it must be a Model"):
        run_jobs(jobs_of(1), "gpt")
    with pytest.raises(InvalidTypeError, match=r"`journal` is 'j.jsonl'; it must be a Journal"):
        run_jobs(jobs_of(1), ScriptedModel("x"), journal="j.jsonl")
    with pytest.raises(InvalidInputError, match="`concurrency` is 0; it must be at least 1"):
        run_jobs(jobs_of(1), ScriptedModel("x"), concurrency=0)
    with pytest.raises(InvalidInputError, match="`give_up_after` is 0"):
        run_jobs(jobs_of(1), ScriptedModel("x"), give_up_after=0)
    with pytest.raises(InvalidInputError, match="`unit_id` is ''; it must be a non-empty string"):
        Job("", 1, GenerateRequest("a"))
    with pytest.raises(InvalidTypeError, match="`request` of unit 'q' is str"):
        Job("q", 1, "a")
    with pytest.raises(InvalidTypeError, match="`step` must be a string, got 1"):
        Job("q", 1, GenerateRequest("a"), 1)
    with pytest.raises(InvalidInputError, match="needs either a response or an error"):
        JobResult(jobs_of(1)[0])


def test_nothing_to_do_is_done():
    assert texts(run_jobs(iter(jobs_of(2)), ScriptedModel("x"))) == ["x", "x"]
    outcomes = run_jobs([], ScriptedModel("x"))
    assert len(outcomes) == 0
    assert outcomes.progress.eta_s == 0.0


def test_a_second_run_asks_only_what_failed(tmp_path):
    jobs = jobs_of(10)
    trouble = Trouble({"question 3", "question 7"}, ModelError("down", kind="server"))
    model = ScriptedModel(trouble)
    first = run_jobs(jobs, model, journal=Journal(tmp_path / "j.jsonl"))
    assert first.n_errors == 2
    trouble.failing, trouble.asked = set(), []
    second = run_jobs(jobs, model, journal=Journal(tmp_path / "j.jsonl"))
    assert trouble.asked == ["question 3", "question 7"]
    assert texts(second) == ["fine"] * 10
    assert [outcome.reused for outcome in second].count(True) == second.n_reused == 8
    third = run_jobs(jobs, model, journal=Journal(tmp_path / "j.jsonl"))
    assert third.n_reused == 10
    assert len(trouble.asked) == 2, "nothing was asked"


def test_an_answer_to_another_request_is_not_reused(tmp_path):
    model = ScriptedModel(echo)
    run_jobs(jobs_of(4), model, journal=Journal(tmp_path / "j.jsonl"))
    changed = [Job("q0", 1, GenerateRequest("another", seed=1)), *jobs_of(4)[1:]]
    outcomes = run_jobs(changed, model, journal=Journal(tmp_path / "j.jsonl"))
    assert [outcome.reused for outcome in outcomes] == [False, True, True, True]
    assert outcomes[0].response.text == "answer to another, seed 1"
    assert outcomes.notes == (
        "1 stored answers are for another model, prompt or parameter; requested again",
    )
    other = run_jobs(changed, ScriptedModel("constant"), journal=Journal(tmp_path / "j.jsonl"))
    assert other.n_reused == 0, "another model"


def test_answers_of_an_earlier_run_are_used_too(tmp_path):
    model = ScriptedModel(echo)
    earlier = run_jobs(jobs_of(4), model)
    finished = {outcome.job.key: Entry.of(outcome) for outcome in earlier[:3]}
    journal = Journal(tmp_path / "j.jsonl")
    outcomes = run_jobs(jobs_of(4), model, journal=journal, finished=finished)
    assert outcomes.n_reused == 3
    assert texts(outcomes) == texts(earlier)
    assert list(journal.read()) == [("q3", 1, "")]


def test_a_damaged_stored_answer_is_asked_again():
    model = ScriptedModel(echo)
    entry = Entry.of(run_jobs(jobs_of(1), model)[0])
    damaged = Entry(*entry.key, entry.request_hash, response={"tex": "?"})
    outcomes = run_jobs(jobs_of(1), model, finished={entry.key: damaged})
    assert outcomes.n_reused == 0
    assert outcomes[0].ok


@pytest.mark.parametrize("kind", ["auth", "not_found", "unsupported"])
def test_a_fatal_error_stops_the_run_and_keeps_the_journal(tmp_path, kind):
    async def answer(request):
        if request.prompt == "question 5":
            raise ModelError("the key was refused", kind=kind, status=401)
        if request.prompt > "question 5":
            await asyncio.sleep(60)
        return "fine"

    journal = Journal(tmp_path / "j.jsonl")
    with pytest.raises(ModelError) as caught:
        run_jobs(jobs_of(10), ScriptedModel(answer), journal=journal)
    assert caught.value.kind == kind
    assert caught.value.status == 401
    assert str(caught.value) == (
        "scripted: the model cannot be used: the key was refused (5 of 10 requests are answered "
        "and kept; run the same command again to resume)"
    )
    assert len(journal.read()) == 5


def test_the_run_gives_up_after_failures_in_a_row():
    everything = Trouble({f"question {i}" for i in range(100)}, ModelError("down", kind="server"))
    with pytest.raises(ModelError, match="7 requests failed in a row: down") as caught:
        run_jobs(jobs_of(100), ScriptedModel(everything), give_up_after=7, concurrency=1)
    assert caught.value.kind == "server"
    assert len(everything.asked) == 7
    half = Trouble({f"question {i}" for i in range(0, 100, 2)}, ModelError("down", kind="server"))
    outcomes = run_jobs(jobs_of(100), ScriptedModel(half), give_up_after=2, concurrency=1)
    assert outcomes.n_errors == 50, "not in a row"
    assert run_jobs(jobs_of(60), ScriptedModel(everything), give_up_after=None).n_errors == 60


@pytest.mark.parametrize("kind", ["too_long", "refused"])
def test_prompts_that_cannot_be_answered_are_no_reason_to_give_up(kind):
    everything = Trouble({f"question {i}" for i in range(99)}, ModelError("no", kind=kind))
    outcomes = run_jobs(jobs_of(99), ScriptedModel(everything), give_up_after=3)
    assert outcomes.n_errors == 99


@pytest.mark.parametrize("error", [ArtifactError("the cache is damaged"), MissingExtraError("pip")])
def test_a_failure_that_is_not_of_the_model_stops_the_run(error):
    with pytest.raises(type(error), match=str(error)):
        run_jobs(jobs_of(9), ScriptedModel(Trouble({"question 2"}, error)))


def test_an_interrupt_ends_cleanly(tmp_path):
    started, cancelled = [], []

    async def answer(request):
        if request.prompt == "question 10":
            signal.raise_signal(signal.SIGINT)
        if request.prompt >= "question 11":
            started.append(request.prompt)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(request.prompt)
                raise
        return "fine"

    journal = Journal(tmp_path / "j.jsonl")
    jobs = [Job(f"q{i}", 1, GenerateRequest(f"question {i}")) for i in range(10, 60)]
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, ScriptedModel(answer), journal=journal, concurrency=4)
    assert journal._file is None, "closed"
    assert cancelled == started
    assert 0 < len(started) <= 4
    assert ("q10", 1, "") in journal.read()


def test_an_interrupt_ends_a_model_that_never_waits(tmp_path):
    def answer(request):
        if request.prompt == "question 100":
            signal.raise_signal(signal.SIGINT)
        return "fine"

    journal = Journal(tmp_path / "j.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs_of(4000), ScriptedModel(answer), journal=journal)
    assert 100 < len(journal.read()) < 4000


def test_cancelling_closes_the_journal_and_the_model(tmp_path):
    closed = []

    class Closing(ScriptedModel):
        async def aclose(self):
            closed.append(asyncio.get_running_loop())

    async def answer(request):
        await asyncio.sleep(0 if request.prompt == "question 0" else 60)
        return "fine"

    journal = Journal(tmp_path / "j.jsonl")

    async def main():
        running = asyncio.create_task(run_jobs_async(jobs_of(5), Closing(answer), journal=journal))
        while ("q0", 1, "") not in journal.read():
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert closed == [asyncio.get_running_loop()]

    asyncio.run(main())
    assert journal._file is None
    assert len(journal.read()) == 1


def test_a_model_that_cannot_be_closed_does_not_cost_the_outcomes():
    class Stuck(ScriptedModel):
        async def aclose(self):
            raise OSError("socket")

    outcomes = run_jobs(jobs_of(2), Stuck("x"))
    assert texts(outcomes) == ["x", "x"]
    assert outcomes.notes == ("closing scripted failed: OSError: socket",)


def test_it_works_inside_a_running_loop():
    async def notebook():
        return run_jobs(jobs_of(5), ScriptedModel(echo))

    assert texts(asyncio.run(notebook())) == texts(run_jobs(jobs_of(5), ScriptedModel(echo)))


def test_errors_come_out_of_a_running_loop_too():
    async def notebook():
        return run_jobs(jobs_of(5), ScriptedModel(Trouble({"question 0"}, ArtifactError("full"))))

    with pytest.raises(ArtifactError, match="full"):
        asyncio.run(notebook())


def test_an_interrupt_inside_a_running_loop_ends_the_run_beside_it(tmp_path):
    main_thread = threading.main_thread().ident
    cancelled = threading.Event()

    async def answer(request):
        if request.prompt == "question 0":
            signal.pthread_kill(main_thread, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def notebook():
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                run_jobs(jobs_of(5), ScriptedModel(answer))
        finally:
            signal.signal(signal.SIGINT, before)

    asyncio.run(notebook())
    assert cancelled.is_set()


def test_a_failing_progress_function_stops_the_run():
    def tell(progress):
        if progress.done:
            raise ZeroDivisionError("in the display")

    with pytest.raises(ZeroDivisionError, match="in the display"):
        run_jobs(jobs_of(3), ScriptedModel("x"), on_progress=tell)


def test_outcomes_say_what_they_are():
    outcomes = run_jobs(jobs_of(2), ScriptedModel("x"))
    assert repr(outcomes) == "JobResults(2 jobs, 0 reused, 0 errors)"
    assert outcomes[:1] == (outcomes[0],)
    assert outcomes.to_dict()["progress"]["done"] == 2
    payload = outcomes[0].to_dict()
    assert payload["unit_id"] == "q0"
    assert payload["response"]["text"] == "x"
    assert payload["error"] is None
    assert len(payload["request_hash"]) == 64


def test_an_interrupt_waits_for_requests_under_way_and_begins_none(tmp_path):
    begun = []

    async def answer(request):
        begun.append(request.prompt)
        if len(begun) == 4:
            signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0.05)
        return "paid"

    journal = Journal(tmp_path / "j.jsonl")
    told = []
    with pytest.raises(KeyboardInterrupt):
        run_jobs(
            jobs_of(40),
            ScriptedModel(answer),
            journal=journal,
            concurrency=4,
            on_progress=told.append,
        )
    assert len(begun) == len(journal.read()) == 4
    assert any(progress.stopping for progress in told)


def test_a_second_interrupt_waits_for_nothing(tmp_path):
    async def answer(request):
        if request.prompt == "question 0":
            signal.raise_signal(signal.SIGINT)
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGINT)
        await asyncio.sleep(600)
        return "late"

    journal = Journal(tmp_path / "j.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs_of(4), ScriptedModel(answer), journal=journal, concurrency=4)
    assert journal.read() == {}


def test_missing_answers_are_requested_before_stored_ones_are_compared(tmp_path, monkeypatch):
    """Comparing takes long if the requests have to be built; a stale answer is requested again."""
    jobs, asked, told = jobs_of(6), [], []
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    jobs[1] = Job("q1", 1, GenerateRequest("another question", seed=1))

    def again(request):
        asked.append(request.prompt)
        return echo(request)

    monkeypatch.setattr(ScriptedModel, "describe", lambda self: {"kind": "scripted"})
    run_jobs(jobs_of(5), ScriptedModel(echo), journal=Journal(tmp_path / "k"))
    found = run_jobs(
        jobs,
        ScriptedModel(again),
        journal=Journal(tmp_path / "k"),
        on_progress=lambda progress: told.append((progress.reused, progress.done)),
        concurrency=1,
    )
    assert asked == ["question 5", "another question"]
    assert texts(found) == [echo(job.request) for job in jobs]
    assert [outcome.reused for outcome in found] == [True, False, True, True, True, False]
    assert told[0] == (5, 5)
    assert (found.progress.reused, found.progress.done) == (4, 6)
    assert found.notes == (
        "1 stored answers are for another model, prompt or parameter; requested again",
    )
