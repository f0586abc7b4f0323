"""Replay: a run again from what is stored, without the model."""

import asyncio
import re

import numpy as np
import pytest

from eval_toolkit._internal.tables import write_table
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    MissingColumnError,
    MissingFileError,
    ModelError,
)
from eval_toolkit.models.cache import CachedModel, ResponseCache
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, Usage
from eval_toolkit.models.runner import Job, Journal, run_jobs, to_columns
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import rescore, write_run
from eval_toolkit.runs.replay import ReplayModel
from eval_toolkit.tasks import plan_jobs, questions_task, run_task

JOBS = [
    *(Job(f"q{i}", 1, GenerateRequest(f"question {i}")) for i in range(5)),
    *(Job("same", attempt, GenerateRequest("drawn", temperature=1.0)) for attempt in (1, 2, 3)),
    Job("choice", 1, LoglikelihoodRequest("The", (" a", " b"))),
]


def recorded():
    n_drawn = 0

    def answer(request):
        nonlocal n_drawn
        if isinstance(request, LoglikelihoodRequest):
            return [-1.0, -2.0]
        if request.prompt == "question 3":
            raise ModelError("it was down", kind="server", status=500, tries=4)
        if request.prompt == "drawn":
            n_drawn += 1
            return f"draw {n_drawn}"
        return RawCompletion(request.prompt.upper(), usage=Usage(5, 1, cost=0.5, latency_s=2.0))

    return ScriptedModel(answer, name="clever")


def said(outcomes):
    return [
        (outcome.error.kind, outcome.error.message)
        if outcome.error
        else getattr(outcome.response, "text", None) or outcome.response.loglikelihoods
        for outcome in outcomes
    ]


def stored_run(folder, outcomes, model, manifest=None):
    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
    head = {"models": [{"name": model.name, **model.describe()}]} if manifest is None else manifest
    write_run(
        folder, results=results, manifest=head, tables={"responses.parquet": to_columns(outcomes)}
    )


@pytest.fixture(params=["run", "journal", "unfinished run"])
def source(request, tmp_path):
    model = recorded()
    journal = Journal(tmp_path / "r" / "journal.jsonl")
    outcomes = run_jobs(JOBS, model, journal=journal)
    if request.param == "run":
        stored_run(tmp_path / "done", outcomes, model)
        return tmp_path / "done", outcomes
    return (journal.path if request.param == "journal" else tmp_path / "r"), outcomes


def test_a_replay_says_what_the_model_said(source):
    path, outcomes = source
    replay = ReplayModel(path)
    assert replay.name == "clever"
    assert replay.describe()["kind"] == "scripted"
    for concurrency in (1, 16):  # and again: several draws start with the first
        again = run_jobs(JOBS, replay, concurrency=concurrency)
        assert said(again) == said(outcomes)
    assert said(outcomes)[5:8] == ["draw 1", "draw 2", "draw 3"]
    usage = again[0].response.usage
    assert (usage.prompt_tokens, usage.cost, usage.latency_s, usage.cached) == (5, 0.0, 0.0, True)
    assert again[3].error.status == 500


@pytest.mark.parametrize("done", [[0], [5], [6, 8], [7]])
def test_a_replay_that_is_gone_on_with_gives_every_job_its_own_answer(source, tmp_path, done):
    """What is in the journal already does not shift the answers of equal requests."""
    path, outcomes = source
    journal = Journal(tmp_path / "again.jsonl")
    run_jobs([JOBS[at] for at in done], ReplayModel(path), journal=journal)
    again = run_jobs(JOBS, ReplayModel(path), journal=journal)
    assert said(again) == said(outcomes)
    part = run_jobs(JOBS[6:], ReplayModel(path))
    assert said(part) == said(outcomes)[6:], "a job without those before it"


def test_jobs_of_other_names_get_the_answers_in_order(source):
    path, outcomes = source
    jobs = [Job(f"other {job.unit_id}", job.attempt, job.request) for job in JOBS]
    assert said(run_jobs(jobs, ReplayModel(path))) == said(outcomes)


def test_a_damaged_answer_is_called_damaged(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    run_jobs(JOBS[:1], ScriptedModel("fine"), journal=journal)
    unsealed = re.sub(r'^{"crc":"\w{8}",', "{", journal.path.read_text(), flags=re.MULTILINE)
    journal.path.write_text(unsealed.replace('"text":"fine"', '"text":5'))
    [outcome] = run_jobs(JOBS[:1], ReplayModel(journal.path))
    assert outcome.error.message == (
        f"{journal.path}: the stored answer is damaged: `text` is 5; it must be a string"
    )


@pytest.mark.parametrize("speaks_chat", [True, False])
@pytest.mark.parametrize("stored", ["run", "journal"])
def test_a_replay_speaks_as_the_model_did(tmp_path, stored, speaks_chat):
    """So that the default prompts are the recorded ones."""
    model = ScriptedModel("x")
    if not speaks_chat:
        model.speaks_chat = False
    prompt = [Message("user", "Hello")] if speaks_chat else "Hello"
    journal = Journal(tmp_path / "j.jsonl")
    outcomes = run_jobs([Job("q", 1, GenerateRequest(prompt))], model, journal=journal)
    stored_run(tmp_path / "r", outcomes, model)
    replay = ReplayModel(tmp_path / "r" if stored == "run" else journal.path)
    assert replay.speaks_chat is speaks_chat


def test_what_is_not_stored_is_an_error_that_says_so(source):
    path, _ = source
    jobs = [*JOBS, Job("new", 1, GenerateRequest("never asked")), Job("q0", 2, JOBS[0].request)]
    outcomes = run_jobs(jobs, ReplayModel(path))
    assert outcomes[-2].error.kind == "other"
    assert outcomes[-2].error.message.endswith(
        " does not contain an answer of clever to 'never asked' with these parameters"
    )
    assert "does not contain more than 1 answer of clever" in outcomes[-1].error.message
    other = GenerateRequest("question 0", max_tokens=3)
    with pytest.raises(ModelError, match="with these parameters"):
        asyncio.run(ReplayModel(path).generate(other))


def test_a_cache_is_replayed(tmp_path):
    with ResponseCache(tmp_path / "cache.sqlite") as cache:
        outcomes = run_jobs(JOBS[:3], CachedModel(recorded(), cache))
    replay = ReplayModel(tmp_path / "cache.sqlite")
    assert replay.name == "clever"
    assert said(run_jobs(JOBS[:3], replay)) == said(outcomes)


def test_a_cache_of_several_models_needs_a_name(tmp_path):
    with ResponseCache(tmp_path / "cache.sqlite") as cache:
        for name in ("one", "two"):
            run_jobs(JOBS[:1], CachedModel(ScriptedModel(f"I am {name}", name=name), cache))
    path = tmp_path / "cache.sqlite"
    with pytest.raises(
        InvalidInputError, match="contains answers of one, two; select one with `name`"
    ):
        ReplayModel(path)
    with pytest.raises(InvalidInputError, match="no answers of 'three'; choose from one, two"):
        ReplayModel(path, name="three")
    assert said(run_jobs(JOBS[:1], ReplayModel(path, name="two"))) == ["I am two"]


def test_models_of_one_name_are_not_mixed_up(tmp_path):
    with ResponseCache(tmp_path / "cache.sqlite") as cache:
        for text in ("x", "y"):
            run_jobs(JOBS[:1], CachedModel(ScriptedModel(text), cache))
    with pytest.raises(InvalidInputError, match="2 models named 'scripted' with different"):
        ReplayModel(tmp_path / "cache.sqlite", name="scripted")


@pytest.mark.parametrize("as_mapping", [True, False])
def test_the_manifest_may_list_models_in_several_ways(tmp_path, as_mapping):
    model = recorded()
    about = model.describe()
    listed = (
        {"clever": about} if as_mapping else [{"name": "clever", "description": about, "role": "x"}]
    )
    stored_run(tmp_path / "r", run_jobs(JOBS, model), model, {"models": listed})
    assert ReplayModel(tmp_path / "r").describe() == about


def test_nothing_to_replay_is_said(tmp_path):
    with pytest.raises(MissingFileError, match="no such file or folder; nothing to replay"):
        ReplayModel(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match="not a run"):
        ReplayModel(tmp_path)
    stored_run(tmp_path / "r", run_jobs(JOBS, recorded()), recorded(), {})
    with pytest.raises(ArtifactError, match="contains no answers of a model"):
        ReplayModel(tmp_path / "r")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ArtifactError, match="does not name the model that it recorded"):
        ReplayModel(tmp_path / "empty.jsonl")
    ResponseCache(tmp_path / "empty.sqlite").close()
    with pytest.raises(ArtifactError, match="contains no answers of a model"):
        ReplayModel(tmp_path / "empty.sqlite")


class TestTables:
    """Answers of another pipeline, in the columns of responses.parquet."""

    def files(self, folder, n=1, order=1):
        columns = to_columns(run_jobs(JOBS, recorded()))
        folder.mkdir()
        for at in range(n):
            some = {name: cells[at::n][::order].copy() for name, cells in columns.items()}
            write_table(some, folder / f"part-{at}.parquet")
        return folder

    @pytest.mark.parametrize("order", [1, -1])
    @pytest.mark.parametrize("n", [1, 4])
    def test_files_and_rows_may_be_in_any_order(self, tmp_path, n, order):
        model = ReplayModel(self.files(tmp_path / "answers", n, order))
        assert (model.name, model.speaks_chat) == ("answers", False)
        assert said(run_jobs(JOBS, model)) == said(run_jobs(JOBS, recorded()))

    def test_the_description_follows_from_the_answers(self, tmp_path):
        one, other = (ReplayModel(self.files(tmp_path / f"a{n}", n)) for n in (1, 3))
        assert one.describe() == other.describe()
        file = self.files(tmp_path / "few", 9) / "part-0.parquet"
        assert ReplayModel(file, name="m").describe() != one.describe()
        assert ReplayModel(file, name="m").name == "m"

    def test_a_run_of_them_can_be_rescored(self, tmp_path):
        rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(6)]
        task = questions_task(rows)
        outcomes = run_jobs(plan_jobs(task, task.samples()), ScriptedModel("It is 4."))
        write_table(to_columns(outcomes), tmp_path / "answers.parquet")
        done = run_task(task, replay=tmp_path / "answers.parquet", out=tmp_path / "run")
        assert (done.n_asked, done.n_replayed, done.n_errors) == (0, 6, 0)
        again = rescore(done.run, graders=["includes"])
        assert again.card["includes"].value == pytest.approx(1 / 6)

    def test_what_is_no_table_of_answers_is_refused(self, tmp_path):
        (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
        write_table({"unit_id": np.array(["q1"], dtype=object)}, tmp_path / "b.parquet")
        for name in ("a", "b"):
            with pytest.raises((ArtifactError, InvalidInputError, MissingColumnError)) as found:
                ReplayModel(tmp_path / f"{name}.parquet")
            assert "\n" not in str(found.value)
        columns = to_columns(run_jobs(JOBS[:1], recorded()))
        columns["response"][0] = "{"
        write_table(columns, tmp_path / "c.parquet")
        with pytest.raises(ArtifactError, match="response is not JSON"):
            ReplayModel(tmp_path / "c.parquet")
