"""The response cache: by model, parameters and request; shared; never wrong in silence."""

import asyncio
import sqlite3
import subprocess
import sys

import pytest

from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.models.cache import CachedModel, ResponseCache
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, request_hash
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.models.runner import Job, Journal, run_jobs
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.protocols import Model
from eval_toolkit.runs.replay import ReplayModel


@pytest.fixture
def path(tmp_path):
    return tmp_path / "caches" / "cache.sqlite"


def generate(model, *args, **kwargs):
    return asyncio.run(model.generate(GenerateRequest(*args, **kwargs)))


def test_a_hit_is_the_same_answer_at_no_cost(path):
    raw = RawCompletion(
        "é 中\n\0",
        prompt="Hello",
        finish_reason="length",
        prompt_tokens=3,
        usage=Usage(3, 4, cost=0.5, latency_s=1.5, tries=3),
    )
    inner = ScriptedModel(lambda request: raw)
    with ResponseCache(path) as cache:
        model = CachedModel(inner, cache)
        assert generate(model, "Hello").usage.cost == 0.5
        before_writing = generate(model, "Hello")
        cache.flush()
        after_writing = generate(model, "Hello")
    for hit in (before_writing, after_writing):
        assert hit.usage == Usage(3, 4, cost=0.0, latency_s=0.0, tries=1, cached=True)
        hit.usage = raw.usage
        assert hit == raw
    assert inner.n_calls == 1


def test_it_is_there_in_the_next_process(path):
    with ResponseCache(path) as cache:
        generate(CachedModel(ScriptedModel("x"), cache), "Hello")
    with ResponseCache(path) as cache:
        assert len(cache) == 1
        inner = ScriptedModel("x")
        assert generate(CachedModel(inner, cache), "Hello").usage.cached
        assert inner.n_calls == 0


@pytest.mark.parametrize(
    "other",
    [
        GenerateRequest("Hello "),
        GenerateRequest("Hello", max_tokens=5),
        GenerateRequest("Hello", temperature=0.5, seed=1),
        GenerateRequest("Hello", stop=("\n",)),
        GenerateRequest("Hello", seed=2),
    ],
)
def test_a_different_request_is_asked(path, other):
    inner = ScriptedModel("x")
    with ResponseCache(path) as cache:
        model = CachedModel(inner, cache)
        generate(model, "Hello")
        asyncio.run(model.generate(other))
        assert inner.n_calls == 2
        asyncio.run(model.generate(other))
        assert inner.n_calls == 2


def test_a_different_model_is_asked(path):
    with ResponseCache(path) as cache:
        generate(CachedModel(ScriptedModel("x"), cache), "Hello")
        assert generate(CachedModel(ScriptedModel("y"), cache), "Hello").text == "y"
        assert [name for name, _ in cache.models()] == ["scripted", "scripted"]


def test_draws_without_a_seed_are_never_kept(path):
    inner = ScriptedModel(["one", "two"])
    with ResponseCache(path) as cache:
        model = CachedModel(inner, cache)
        texts = [generate(model, "Hello", temperature=1.0).text for _ in range(2)]
        assert texts == ["one", "two"]
        assert len(cache) == 0


class Fickle(ScriptedModel):
    """Has another answer each time, as any server may even at temperature 0."""

    def __init__(self):
        super().__init__("x", name="fickle")

    async def generate(self, request):
        self.n_calls += 1
        text = f"{self.n_calls}"
        await asyncio.sleep(0.001)
        return RawCompletion(text)


@pytest.mark.parametrize("concurrency", [1, 4, 64])
def test_two_attempts_are_never_one_answer(path, concurrency):
    """Whatever the concurrency; nor are two units with the same prompt."""
    jobs = [
        Job(unit, attempt, GenerateRequest(prompt))
        for unit, prompt in (("a", "one"), ("b", "two"), ("c", "one"))
        for attempt in (1, 2, 3)
    ]
    asked = Fickle()
    with ResponseCache(path) as cache:
        first = run_jobs(jobs, CachedModel(asked, cache), concurrency=concurrency)
        again = run_jobs(jobs, CachedModel(asked, cache), concurrency=concurrency)
        part = run_jobs(jobs[:5], CachedModel(asked, cache), concurrency=concurrency)
        assert len(cache) == 9
    answers = [outcome.response.text for outcome in first]
    assert asked.n_calls == len(set(answers)) == 9
    assert [outcome.response.text for outcome in again] == answers
    assert [outcome.response.text for outcome in part] == answers[:5]
    replayed = run_jobs(jobs, ReplayModel(path), concurrency=concurrency)
    assert [outcome.response.text for outcome in replayed] == answers


def test_a_run_that_is_gone_on_with_keeps_its_attempts_apart(path, tmp_path):
    jobs = [Job("a", attempt, GenerateRequest("one")) for attempt in (1, 2, 3)]
    asked = Fickle()
    with ResponseCache(path) as cache:
        journal = Journal(tmp_path / "j.jsonl")
        run_jobs(jobs[:1], CachedModel(asked, cache), journal=journal)
        done = run_jobs(jobs, CachedModel(asked, cache), journal=journal)
    assert [outcome.response.text for outcome in done] == ["1", "2", "3"]


def test_numbers_are_kept_with_their_choices(path):
    request = LoglikelihoodRequest("Italy:", (" Rome", " Rome", " Oslo"))
    raw = RawLoglikelihood(
        [-0.5, -0.75, float("-inf")], request.continuations, n_tokens=[1, 1, 2], is_greedy=[1, 0, 0]
    )
    inner = ScriptedModel(lambda request: raw)
    with ResponseCache(path) as cache:
        model = CachedModel(inner, cache)
        asyncio.run(model.loglikelihood(request))
        cache.flush()
        hit = asyncio.run(model.loglikelihood(request))
    assert hit.usage.cached
    hit.usage = raw.usage
    assert hit == raw


def test_errors_are_not_kept(path):
    answers = [
        ModelError("down", kind="server"),
        RawCompletion("", error=ErrorInfo("x", "y")),
        "ok",
    ]
    with ResponseCache(path) as cache:
        model = CachedModel(ScriptedModel(answers), cache)
        with pytest.raises(ModelError, match="down"):
            generate(model, "Hello")
        assert generate(model, "Hello").error is not None
        assert generate(model, "Hello").text == "ok"
        assert len(cache) == 1


def test_everything_else_is_the_models_own(path):
    closed = []

    class Full(ScriptedModel):
        def render(self, messages):
            return "rendered"

        async def aclose(self):
            closed.append(1)

    inner = Full("x", name="full", concurrency=7)
    with ResponseCache(path) as cache:
        model = CachedModel(inner, cache)
        assert isinstance(model, Model)
        assert (model.name, model.concurrency, model.render(())) == ("full", 7, "rendered")
        assert model.count_tokens("12345678") == 2
        assert model.describe() == inner.describe()
        asyncio.run(model.aclose())
        assert closed == [1]
        assert not hasattr(model, "speaks_chat")
        inner.speaks_chat = False
        assert model.speaks_chat is False
        bare = CachedModel(ScriptedModel("x"), cache)
        asyncio.run(bare.aclose())
        assert not hasattr(bare, "render")
        assert not hasattr(bare, "anything_else")


def test_a_run_writes_everything_it_was_told(path):
    jobs = [Job(f"q{i}", 1, GenerateRequest(f"{i}")) for i in range(1500)]
    with ResponseCache(path) as cache:
        run_jobs(jobs, CachedModel(ScriptedModel("x"), cache))
        with ResponseCache(path) as other:
            assert len(other) == 1500, "on disk before the cache is closed"


def test_secrets_in_a_description_are_not_written(path):
    class Careless(ScriptedModel):
        def describe(self):
            return {"kind": "careless", "api_key": "very-secret-key"}

    with ResponseCache(path) as cache:
        generate(CachedModel(Careless("x"), cache), "Hello")
    assert b"very-secret-key" not in path.read_bytes()


def test_a_file_that_is_no_cache_is_refused_in_one_line(path):
    path.parent.mkdir()
    path.write_text("this is not a database, and it is longer than a header of SQLite" * 20)
    with pytest.raises(ArtifactError) as caught:
        ResponseCache(path)
    assert str(caught.value) == (
        f"{path}: not a response cache, or damaged (file is not a database); delete it or choose "
        "another"
    )
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(ArtifactError, match="this SQLite file is not a response cache"):
        ResponseCache(path)


def test_a_later_version_is_refused(path):
    ResponseCache(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(ArtifactError, match="this cache has version 7, but this version of"):
        ResponseCache(path)


def test_damage_found_later_is_said(path):
    request = GenerateRequest("Hello")
    with ResponseCache(path) as cache:
        model = CachedModel(ScriptedModel("x"), cache)
        asyncio.run(model.generate(request))
        cache.flush()
        connection = sqlite3.connect(path)
        connection.execute("UPDATE responses SET response = '{'")
        connection.commit()
        connection.close()
        with pytest.raises(ArtifactError, match="a stored answer cannot be read"):
            cache.get(request_hash(request, model.describe()), request)


def test_a_folder_or_a_closed_cache_is_refused(path, tmp_path):
    with pytest.raises(ArtifactError, match="the cache cannot be used: unable to open"):
        ResponseCache(tmp_path)
    cache = ResponseCache(path)
    cache.close()
    cache.close()
    with pytest.raises(ArtifactError, match="this cache is closed"):
        cache.get("ab" * 32, GenerateRequest("Hello"))


WRITER = """
import sys
from eval_toolkit.models.cache import CachedModel, ResponseCache
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.runner import Job, run_jobs
path, start, closing = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "close"
cache = ResponseCache(path)
model = CachedModel(ScriptedModel("x"), cache)
if closing:
    run_jobs([Job(f"q{i}", 1, GenerateRequest(f"{i}")) for i in range(start, start + 400)], model)
    cache.close()
else:  # nobody closes anything
    import asyncio
    asyncio.run(model.generate(GenerateRequest(f"{start}")))
"""


def test_several_processes_share_one_file(path):
    path.parent.mkdir()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(start), "close"])
        for start in (0, 200, 400)
    ]
    assert [writer.wait(600) for writer in writers] == [0, 0, 0]
    with ResponseCache(path) as cache:
        assert len(cache) == 800


def test_a_process_that_just_ends_loses_nothing(path):
    path.parent.mkdir()
    assert subprocess.run([sys.executable, "-c", WRITER, str(path), "5", "leave"]).returncode == 0
    with ResponseCache(path) as cache:
        assert len(cache) == 1
