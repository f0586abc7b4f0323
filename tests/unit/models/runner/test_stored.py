"""Stored responses: exactly what was answered, each prompt once."""

import numpy as np
import pytest

from eval_toolkit._internal import tables as _tables
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawCompletion
from eval_toolkit.models.runner import (
    Job,
    JobResult,
    read_entries,
    read_outcomes,
    run_jobs,
    to_columns,
)
from eval_toolkit.models.runner.stored import COLUMNS
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, write_run

TALK = (Message(Role.SYSTEM, "Be short."), Message(Role.USER, "é\n?"), Message("assistant", "A:"))
JOBS = [
    Job("a", 1, GenerateRequest("same", max_tokens=5, stop=("\n",), seed=1)),
    Job("a", 2, GenerateRequest("same", max_tokens=5, stop=("\n",), seed=2)),
    Job("b", 1, GenerateRequest(TALK, temperature=0.7, top_p=0.9)),
    Job("b", 1, LoglikelihoodRequest(TALK, (" yes", " no")), "judge"),
    Job("c", 1, LoglikelihoodRequest("", ("whole text",), rolling=True)),
    Job("d", 1, GenerateRequest("half \ud83d of a pair")),
    Job("e", 1, GenerateRequest((Message("user", "half \ud83d"),))),
    Job("f", 1, GenerateRequest('[["user","é"]]')),
    Job("g", 1, GenerateRequest("")),
]


def answer(request):
    if isinstance(request, LoglikelihoodRequest):
        return [-float(n) for n in range(len(request.continuations))]
    return RawCompletion("fine", prompt=request.prompt if isinstance(request.prompt, str) else "")


def outcomes():
    failed = JobResult(
        Job("h", 1, GenerateRequest("same")),
        error=ErrorInfo("server", "down", 500, 3),
        request_hash="ff",
    )
    return [*run_jobs(JOBS, ScriptedModel(answer)), failed]


def same(first, second):
    return (first.job, first.response, first.error, first.request_hash) == (
        second.job,
        second.response,
        second.error,
        second.request_hash,
    )


def test_the_round_trip_through_a_run_is_exact(tmp_path):
    given = outcomes()
    columns = to_columns(given)
    assert tuple(columns) == COLUMNS
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
    write_run(tmp_path / "r", results=results, manifest={}, tables={"responses.parquet": columns})
    stored = Run.open(tmp_path / "r").table("responses.parquet")
    for read in (read_outcomes(columns), read_outcomes(stored)):
        assert len(read) == len(given)
        assert all(map(same, read, given))
        assert [outcome.reused for outcome in read] == [True] * len(JOBS) + [False]
    assert read_entries(stored) == read_entries(columns)


def test_each_prompt_is_stored_once():
    columns = to_columns(outcomes())
    assert columns["prompt"].tolist().count("same") == 1
    assert columns["prompt"][1] == columns["prompt"][-1] == ""
    assert columns["prompt_hash"][0] == columns["prompt_hash"][1] == columns["prompt_hash"][-1]
    assert columns["attempt"].dtype == np.int64
    assert '"prompt":null' in columns["response"][0], "what was sent is the prompt"


def test_a_later_run_goes_on_from_stored_entries():
    given = run_jobs(JOBS, ScriptedModel(answer))
    again = run_jobs(JOBS, ScriptedModel(answer), finished=read_entries(to_columns(given)))
    assert again.n_reused == len(JOBS)
    assert all(map(same, again, given))


def test_no_outcomes_are_no_rows():
    columns = to_columns([])
    assert {len(column) for column in columns.values()} == {0}
    assert read_outcomes(columns) == []


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("response", "{", "stored responses, row 0: response is not JSON"),
        ("response", "[" * 100_000, "stored responses, row 0: response is not JSON"),
        (
            "params",
            "[" * 100_000,
            "stored responses, row 0: invalid request: params: .*nested too deeply",
        ),
        ("params", "[1]", "stored responses, row 0: invalid request"),
        ("response", None, "stored responses, row 0: needs either an answer or an error"),
        ("response", '{"tex": 1}', "stored responses, row 0: the stored answer is damaged"),
        ("params", '{"temp": 1}', "stored responses, row 0: invalid request"),
    ],
)
def test_a_damaged_table_says_where(column, cell, message):
    columns = to_columns(outcomes()[:2])
    columns[column][0] = cell
    with pytest.raises(ArtifactError, match=message):
        read_outcomes(columns)


def test_a_missing_column_is_named():
    columns = to_columns(outcomes())
    del columns["usage"]
    with pytest.raises(ArtifactError, match="stored responses have no column 'usage'"):
        read_entries(columns)


def test_a_benchmark_of_five_shots_is_small(tmp_path):
    generator = np.random.default_rng(0)
    words = np.array(
        ["".join(map(chr, generator.integers(97, 123, n))) for n in generator.integers(2, 9, 3000)]
    )

    def questions(n):
        ranks = np.minimum(generator.zipf(1.2, (n, 60)), 3000) - 1
        return [" ".join(row) + "\nA. b\nB. c\nC. d\nD. e\nAnswer:" for row in words[ranks]]

    shots = questions(57 * 5)
    asked = questions(14_042)
    made = []
    for n, question in enumerate(asked):
        drawn = [shots[5 * (n % 57) + k] for k in generator.permutation(5)]
        job = Job(f"s{n % 57}/{n}", 1, GenerateRequest("\n\n".join([*drawn, question])))
        made.append(
            JobResult(job, RawCompletion(" A", finish_reason="stop"), request_hash=f"{n:064}")
        )
    path = _tables.write_table(to_columns(made), tmp_path / "responses.parquet")
    assert sum(len(outcome.job.request.prompt) for outcome in made) > 20e6
    assert path.stat().st_size < 25e6


def test_an_attempt_that_is_no_number_says_where():
    columns = {**to_columns(outcomes()[:2]), "attempt": ["one", 2]}
    with pytest.raises(ArtifactError, match="stored responses, row 0: attempt is not a number"):
        read_outcomes(columns)
