"""Progress: what is done, what it took, how long it will take."""

import pytest

from eval_toolkit.errors import ModelError
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion, Usage
from eval_toolkit.models.runner import Job, Journal, Progress, progress, run_jobs
from eval_toolkit.models.scripted import ScriptedModel


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_counts_tokens_cost_and_errors(tmp_path):
    def answer(request):
        if request.prompt == "q2":
            raise ModelError("down", kind="server")
        return RawCompletion("x", usage=Usage(prompt_tokens=10, completion_tokens=2, cost=0.25))

    jobs = [Job(f"q{i}", 1, GenerateRequest(f"q{i}")) for i in range(4)]
    model = ScriptedModel(answer)
    seen = []
    outcomes = run_jobs(jobs, model, journal=Journal(tmp_path / "j.jsonl"), on_progress=seen.append)
    assert (seen[0].done, seen[0].total) == (0, 4)
    last = seen[-1]
    assert (last.done, last.errors, last.reused) == (4, 1, 0)
    assert (last.prompt_tokens, last.completion_tokens, last.cost) == (30, 6, 0.75)
    assert outcomes.progress.done == 4
    again = run_jobs(jobs, model, journal=Journal(tmp_path / "j.jsonl"), on_progress=seen.append)
    assert (again.progress.done, again.progress.reused) == (4, 3)
    assert again.progress.cost == 0.0, "reused answers cost nothing now"


def test_tokens_of_the_answer_count_where_the_usage_has_none():
    model = ScriptedModel(lambda request: RawCompletion("x", prompt_tokens=7, completion_tokens=3))
    counted = run_jobs([Job("q", 1, GenerateRequest("q"))], model).progress
    assert (counted.prompt_tokens, counted.completion_tokens) == (7, 3)


def test_it_is_told_ten_times_a_second_at_most(clock):
    told = []
    tally = progress.Tally(1000, 0, told.append)
    for _ in range(1000):
        clock.now += 0.002
        tally.count(None)
    assert 15 < len(told) <= 21


def test_the_rate_is_that_of_the_last_seconds(clock):
    tally = progress.Tally(1000, 100, None)
    assert tally.snapshot().rate == 0.0
    assert tally.snapshot().eta_s is None
    for _ in range(100):  # 10 a second for 10 s …
        clock.now += 0.1
        tally.count(None)
        tally.snapshot()
    assert tally.snapshot().rate == pytest.approx(10.0)
    assert tally.snapshot().eta_s == pytest.approx(80.0)
    for _ in range(20):  # … then 1 a second
        clock.now += 1.0
        tally.count(None)
        tally.snapshot()
    assert tally.snapshot().rate == pytest.approx(1.0, rel=0.1)


def test_a_snapshot_does_not_change_and_is_plain():
    snapshot = Progress(done=1, total=3, rate=2.0)
    with pytest.raises(AttributeError):
        snapshot.done = 2
    assert snapshot.to_dict()["eta_s"] == 1.0
