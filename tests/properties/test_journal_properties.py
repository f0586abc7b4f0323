"""Whatever is answered comes back; wherever a journal is cut, every whole line counts."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit._internal import tables
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.models.runner import (
    Entry,
    Job,
    JobResult,
    Journal,
    read_outcomes,
    run_jobs,
    to_columns,
)
from eval_toolkit.models.scripted import ScriptedModel

ODD = st.characters()  # every code point, halves of surrogate pairs too
TEXT = st.text(ODD, max_size=20) | st.sampled_from(
    ["", "\n", "\r\n\u2028", "\0", '{"a": NaN}', "null"]
)
STORED = st.text(max_size=12)  # what a table can hold as an id
COUNT = st.integers(0, 2**31)
PROMPT = TEXT | st.lists(
    st.builds(Message, st.sampled_from(list(Role)), TEXT), min_size=1, max_size=3
).map(tuple)
LOGPROB = st.floats(max_value=0.0, allow_nan=False)
USAGE = st.builds(
    Usage,
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    cost=st.floats(0, 1e9),
    latency_s=st.floats(0, 1e9),
    tries=st.integers(1, 9),
    cached=st.booleans(),
)
GENERATE = st.builds(
    GenerateRequest,
    PROMPT,
    max_tokens=st.none() | st.integers(1, 9999),
    temperature=st.floats(0, 5),
    top_p=st.none() | st.floats(0, 1, exclude_min=True),
    stop=st.lists(TEXT.filter(bool), max_size=2),
    seed=st.none() | st.integers(0, 2**64),
)


@st.composite
def answered(draw, request):
    """Draw an answer to a request; sometimes it repeats the prompt that was sent."""
    sent = request.prompt if isinstance(request.prompt, str) and draw(st.booleans()) else draw(TEXT)
    if isinstance(request, GenerateRequest):
        return RawCompletion(
            draw(TEXT),
            prompt=sent,
            prompt_tokens=draw(st.none() | COUNT),
            completion_tokens=draw(st.none() | COUNT),
            finish_reason=draw(st.none() | TEXT.filter(bool)),
            usage=draw(USAGE),
        )
    n = len(request.continuations)
    return RawLoglikelihood(
        draw(st.lists(LOGPROB, min_size=n, max_size=n)),
        draw(st.sampled_from([(), request.continuations])),
        n_tokens=draw(st.none() | st.lists(st.integers(1, 99), min_size=n, max_size=n)),
        is_greedy=draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n)),
        prompt=sent,
        prompt_tokens=draw(st.none() | COUNT),
        usage=draw(USAGE),
    )


@st.composite
def outcomes(draw):
    """Draw outcomes of jobs with different keys; some prompts repeat."""
    keys = draw(
        st.lists(st.tuples(STORED.filter(bool), st.integers(0, 5), STORED), max_size=5, unique=True)
    )
    made = []
    for unit_id, attempt, step in keys:
        repeated = made and draw(st.booleans())
        prompt = made[-1].job.request.prompt if repeated else draw(PROMPT)
        if draw(st.booleans()):
            texts = draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4))
            request = LoglikelihoodRequest(prompt, tuple(texts))
        else:
            request = draw(GENERATE)
        job = Job(unit_id, attempt, request, step)
        if draw(st.booleans()):
            made.append(JobResult(job, draw(answered(request)), request_hash="ab"))
        else:
            error = ErrorInfo(
                "other", draw(st.sampled_from(["down", "é\n"])), draw(st.none() | COUNT)
            )
            made.append(JobResult(job, error=error, request_hash="ab"))
    return made


def same(first, second):
    return (first.job, first.response, first.error) == (second.job, second.response, second.error)


@given(outcomes())
@settings(max_examples=80)
def test_columns_hold_exactly_what_was_answered(given_outcomes):
    read = read_outcomes(to_columns(given_outcomes))
    assert len(read) == len(given_outcomes)
    assert all(map(same, read, given_outcomes))


@given(outcomes().filter(bool))
@settings(max_examples=25)
def test_a_file_holds_exactly_what_the_columns_hold(given_outcomes):
    columns = to_columns(given_outcomes)
    texts = [name for name in columns if name != "attempt"]
    with tempfile.TemporaryDirectory() as folder:
        path = tables.write_table(columns, Path(folder) / "r.parquet")
        stored = tables.read_table(path, texts=texts, columns=["attempt"])
    assert {name: stored[name].tolist() for name in columns} == {
        name: column.tolist() for name, column in columns.items()
    }


@given(outcomes())
@settings(max_examples=40)
def test_a_journal_holds_exactly_what_was_answered(given_outcomes):
    with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/j.jsonl") as journal:
        for outcome in given_outcomes:
            journal.append(Entry.of(outcome))
        entries = journal.read()
    assert len(entries) == len(given_outcomes)
    for outcome in given_outcomes:
        again = entries[outcome.job.key].answer(outcome.job, "ab")
        assert again is None if outcome.response is None else same(again, outcome)


def whole_keys(data):
    """Return the keys of whole lines, read in another way than the journal does."""
    keys = []
    for line in data.split(b"\n"):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if "unit_id" in found:
            keys.append(found["unit_id"])
    return keys


@given(cut=st.integers(0, 2500), damage=st.none() | st.integers(0, 2500))
@settings(max_examples=40)
def test_wherever_a_journal_is_cut_or_damaged_the_run_ends_the_same(cut, damage):
    jobs = [Job(f"q{i}", 1, GenerateRequest(f"question {i}")) for i in range(8)]
    asked = []

    def answer(request):
        asked.append(request.prompt)
        return request.prompt.upper()

    model = ScriptedModel(answer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j.jsonl"
        expected = [
            outcome.response.text for outcome in run_jobs(jobs, model, journal=Journal(path))
        ]
        data = bytearray(path.read_bytes()[:cut])
        if damage is not None and damage < len(data):
            data[damage] = 0
        path.write_bytes(data)
        finished = set(whole_keys(bytes(data)))
        asked.clear()
        again = run_jobs(jobs, model, journal=Journal(path))
        assert [outcome.response.text for outcome in again] == expected
        assert len(asked) == 8 - len(finished), "finished requests are not asked again"
        assert set(Journal(path).read()) == {job.key for job in jobs}
