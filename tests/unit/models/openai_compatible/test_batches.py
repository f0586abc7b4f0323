"""Requests in batch files: submitted once, collected by whoever asks again, partial failures."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.batch_server import BatchApp
from tests.support.each import each
from tests.support.hosted_servers import Emulated

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models import BatchModel, OpenAICompatible, ScriptedModel
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import batches
from eval_toolkit.models.prices import Prices, Spending
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.runner import Job, JobResults, run_jobs
from eval_toolkit.models.servers import user_server


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_FIRST_PAUSE_S", 0.01)


def request(n: int) -> GenerateRequest:
    return GenerateRequest((Message("user", f"What is {n} + 1?"),))


def run(app: Any, path: Path, n: int = 3, *, repeats: int = 1, **options: Any) -> JobResults:
    with Emulated(app) as server:
        inner = OpenAICompatible("toy", base_url=f"{server.url}/v1", retry_wait_s=0.0, **options)
        jobs = [Job(f"q{i}", at, request(i)) for i in range(n) for at in range(1, repeats + 1)]
        # Each emulation has another port, which belongs to the identity of a model.
        inner.describe = lambda: {"kind": "toy"}  # type: ignore[method-assign]
        return run_jobs(jobs, BatchModel(inner, path))


def texts(found: JobResults) -> list[Any]:
    return [one.response.text if one.response else one.error and one.error.message for one in found]


def test_answers_come_by_their_ids_from_one_batch(tmp_path: Path) -> None:
    app, path = BatchApp(), tmp_path / "batches.jsonl"
    found = run(app, path, repeats=2, prices=(1.0, 2.0))
    assert texts(found) == ["1", "1", "2", "2", "3", "3"]
    assert len(app.batches) == 1
    assert [*app.paid.values()] == [2, 2, 2]  # attempts are requests of their own
    assert found[0].response is not None
    assert found[0].response.usage.cost == pytest.approx((7 * 1.0 + 1 * 2.0) / 1e6)
    assert app.log == [
        "POST /v1/files",
        "POST /v1/batches",
        *["GET /v1/batches/ID"] * 2,
        "GET /v1/files/ID/content",
    ]
    entries = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert [sorted(entry) for entry in entries] == [["file", "ids", "path"], ["batch", "file"]]


def test_another_process_collects_what_was_submitted(tmp_path: Path) -> None:
    app, path = BatchApp(), tmp_path / "batches.jsonl"
    run(app, path)
    path.write_bytes(path.read_bytes() + b'\n{"file": "file-9", "ba')  # torn by a crash
    assert texts(run(app, path)) == ["1", "2", "3"]
    assert texts(run(app, path, n=4)) == ["1", "2", "3", "4"]
    assert len(app.batches) == 2
    assert set(app.paid.values()) == {1}


@each("fault", ["429", "500", "expired", "missing"])
def test_passing_failures_are_submitted_again(tmp_path: Path, fault: str) -> None:
    app = BatchApp({"What is 1": [fault, fault]})
    found = run(app, tmp_path / f"{fault}.jsonl")
    assert texts(found) == ["1", "2", "3"]
    assert len(app.batches) == 3
    assert set(app.paid.values()) == {1}
    tries = [one.response.usage.tries for one in found if one.response]
    assert tries == [1, 3, 1]


def test_final_failures_are_outcomes_that_another_run_asks_again(tmp_path: Path) -> None:
    app = BatchApp({"What is 1": ["400"], "What is 2": ["500", "500"]})
    found = run(app, tmp_path / "log.jsonl", max_tries=2)
    assert [one.ok for one in found] == [True, False, False]
    assert found[1].error is not None
    assert (found[1].error.kind, found[1].error.status) == ("bad_request", 400)
    assert "returned status 400: injected 400" in found[1].error.message
    assert found[2].error is not None
    assert (found[2].error.kind, found[2].error.tries) == ("server", 2)
    assert texts(run(app, tmp_path / "log.jsonl", max_tries=2)) == ["1", "2", "3"]
    assert len(app.batches) == 3
    assert set(app.paid.values()) == {1}


@each(
    ("end", "words", "n"),
    [
        ({"status": "expired"}, "", 1),
        ({"status": "cancelled"}, "the batch batch-1 is cancelled: no reason given", 1),
        (
            {
                "status": "failed",
                "errors": {"data": [{"code": "invalid", "message": "bad line 1"}]},
            },
            "the batch batch-1 is failed: bad line 1",
            1,
        ),
        (
            {
                "status": "failed",
                "errors": {"data": [{"code": "token_limit_exceeded", "message": "later"}]},
            },
            "",
            2,
        ),
    ],
)
def test_batches_that_end_otherwise(
    tmp_path: Path, end: dict[str, Any], words: str, n: int
) -> None:
    name = f"{end['status']}-{n}.jsonl"
    app = BatchApp(ends={1: end})
    try:
        found = run(app, tmp_path / name)
        message = str(texts(found)[0]) if words else ""
    except ModelError as error:
        message = str(error)
    assert words in message
    assert len(app.batches) == n
    if words:
        found = run(app, tmp_path / name)  # begins anew
    assert texts(found) == ["1", "2", "3"]


@each(
    ("step", "faults", "n"),
    [
        ("POST /v1/files", [503], 1),
        ("POST /v1/batches", [503, 429], 1),
        ("POST /v1/batches", [0], 1),  # it was taken, and the answer was lost
        ("GET /v1/batches/ID", [500, 502], 1),
        ("GET /v1/files/ID/content", [503], 1),
        ("GET /v1/batches/ID", [404], 2),  # gone
        ("GET /v1/files/ID/content", [404], 2),  # gone
    ],
)
def test_a_step_that_fails_is_repeated_and_nothing_is_submitted_twice(
    tmp_path: Path, step: str, faults: list[int], n: int
) -> None:
    app = BatchApp()
    app.faults = {step: list(faults)}
    name = f"{step}-{faults}".replace("/", "-")
    assert texts(run(app, tmp_path / name)) == ["1", "2", "3"]
    assert len(app.batches) == n


def test_a_batch_is_found_among_many(tmp_path: Path) -> None:
    """The client was stopped after the server took the batch, before it noted its name."""
    app, path = BatchApp(), tmp_path / "log.jsonl"
    run(app, path)
    lines = [line for line in path.read_text("utf-8").split("\n") if '"ids"' in line]
    for other in range(5):
        run(app, tmp_path / f"{other}.jsonl", n=1)
    path.write_text("\n".join(lines), "utf-8")
    assert texts(run(app, path)) == ["1", "2", "3"]
    assert len(app.batches) == 6


def test_files_are_of_one_endpoint_and_of_limited_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_MOST_REQUESTS", 4)
    app = BatchApp()
    assert texts(run(app, tmp_path / "a.jsonl", n=6)) == list("123456")
    assert [len(app.files[f"file-{n}"].splitlines()) for n in (1, 2)] == [4, 2]
    monkeypatch.setattr(batches, "_MOST_BYTES", 200)
    app = BatchApp()
    assert texts(run(app, tmp_path / "b.jsonl", n=6)) == list("123456")
    assert len(app.batches) > 2


def test_what_a_batch_cannot_do_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "log.jsonl"
    with pytest.raises(
        InvalidTypeError, match="batches require an openai:NAME model, not Scripted"
    ):
        BatchModel(ScriptedModel("4"), place)
    with pytest.raises(InvalidInputError, match="cannot be streamed; remove stream=true"):
        BatchModel(OpenAICompatible("m", base_url="http://h/v1", stream=True), place)
    with user_server({}, prices=Prices(other=(1.0, 1.0)), spending=Spending(1.0)):
        inner = OpenAICompatible("m", base_url="http://h/v1")
        with pytest.raises(InvalidInputError, match="or both --max-cost and --max-tokens-total"):
            BatchModel(inner, place)
    model = BatchModel(OpenAICompatible("m", base_url="http://h/v1"), place)
    with pytest.raises(ModelError, match="m: batches do not support log-likelihoods") as caught:
        asyncio.run(model.loglikelihood(LoglikelihoodRequest("a", ("b",))))
    assert caught.value.kind == "unsupported"
    assert not place.exists()
