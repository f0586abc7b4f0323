"""Several servers of one model: processes that are killed and come back, and cases in virtual time."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from tests.support.fault_server import FaultApp, FaultServer, true_loglikelihood
from tests.support.judge_server import command
from tests.support.virtual_time import VirtualClock

from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models import load_model
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import BatchModel, OpenAICompatible
from eval_toolkit.models.openai_compatible.fleet import Fleet
from eval_toolkit.models.openai_compatible.usage import Totals
from eval_toolkit.models.patience import Patience, be_patient
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.runs import Run
from eval_toolkit.tasks import run_task

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command"]  # a fixture


class Process:
    """A fault server in a process of its own, which is killed and started again at its port."""

    def __init__(self, port: int = 0) -> None:
        words = [sys.executable, "-m", "tests.support.fault_server", "--latency-ms", "10"]
        self._process = subprocess.Popen(
            [*words, "--port", str(port)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def n_answered(self) -> int:
        with urllib.request.urlopen(self.url.replace("/v1", "/counts")) as answer:  # noqa: S310
            return sum(json.load(answer)["answered"].values())


@pytest.fixture
def three() -> Iterator[list[Process]]:
    processes = [Process() for _ in range(3)]
    yield processes
    for process in processes:
        process.kill()


def sums(n: int) -> list[dict[str, Any]]:
    return [{"question": f"What is {i} + 1?", "answer": i + 1} for i in range(n)]


def test_one_of_three_is_killed_and_comes_back(three: list[Process], tmp_path: Path) -> None:
    n, told = 900, set[int]()

    def tell(progress: Any) -> None:
        if progress.done >= 150 and not told:
            three[1].kill()
            told.add(1)
        if progress.done >= 200 and 2 not in told:
            three[1] = Process(three[1].port)
            told.add(2)
        if 2 in told and back() == 0 and progress.done < n - 20:
            time.sleep(0.02)  # until a request has tried it again

    def back() -> int:
        return three[1].n_answered()

    model = OpenAICompatible("toy", base_url=[one.url for one in three], concurrency=8)
    assert model.concurrency == 24
    found = run_task(sums(n), model, out=tmp_path / "run", on_progress=tell)
    assert told == {1, 2}
    run = Run.open(tmp_path / "run")
    ids = run.table("responses.parquet")["unit_id"].tolist()
    assert (found.n_errors, len(ids), len(set(ids))) == (0, n, n)
    assert three[1].n_answered() > 0, "it was asked again after it came back"
    counts = run.manifest["engine"]["addresses"]
    assert [one["address"] for one in counts] == [one.url.partition("//")[2] for one in three]
    assert sum(one["n_answers"] for one in counts) == n
    assert min(one["n_answers"] for one in counts) > n / 10
    assert [one["n_left_out"] > 0 for one in counts] == [False, True, False]
    # the same command again asks nothing
    again = run_task(
        sums(n),
        OpenAICompatible("toy", base_url=[one.url for one in three], concurrency=8),
        out=tmp_path / "run",
    )
    assert again.n_asked == 0


class NamedApp(FaultApp):
    """Says something of its model."""

    length = 4096

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "toy", "max_model_len": self.length}]})


class NamedServer(FaultServer):
    def _new_app(self) -> FaultApp:
        return NamedApp(self.behaviour)


def asked(model: OpenAICompatible, n: int) -> list[Any]:
    async def together() -> list[Any]:
        requests = [
            GenerateRequest((Message("user", f"What is {i} + 1?"),), max_tokens=4) for i in range(n)
        ]
        calls = (model.generate(request) for request in requests)
        try:
            return list(await asyncio.gather(*calls, return_exceptions=True))
        finally:
            await model.aclose()

    return asyncio.run(together())


def test_servers_of_other_models_are_refused() -> None:
    with NamedServer() as one, NamedServer() as other:
        other.app.length = 8192  # type: ignore[attr-defined]
        urls = [one.url, other.url]
        answers = asked(OpenAICompatible("toy", base_url=urls), 60)
        found = [str(error) for error in answers if isinstance(error, ModelError)]
        assert any("serves a different model from" in text for text in found)
        assert any(
            "`max_model_len` is" in text and "pass --model-id NAME" in text for text in found
        )
        vouched = OpenAICompatible("toy", base_url=urls, model_id="toy-1")
        assert [answer.text for answer in asked(vouched, 4)] == ["1", "2", "3", "4"]
        assert vouched.describe()["base_url"] == "id:toy-1"
        assert asyncio.run(vouched.served()) == {"id": "toy", "max_model_len": 4096}


def test_a_server_that_comes_back_with_another_model_stays_out() -> None:
    with NamedServer() as one, NamedServer() as other:
        model = OpenAICompatible("toy", base_url=[one.url, other.url], concurrency=2)
        assert all(answer.text for answer in asked(model, 12))
        other.app.length = 8192  # type: ignore[attr-defined]
        n_before = other.app.asked.total()
        assert n_before > 0
        # in another event loop every server is examined again
        assert all(answer.text for answer in asked(model, 12))
        assert other.app.asked.total() == n_before


def test_choices_are_scored_by_what_each_server_can_do() -> None:
    with FaultServer() as one, FaultServer(echo="ignored") as other:
        model = OpenAICompatible("toy", base_url=[one.url, other.url], concurrency=1)
        requests = [LoglikelihoodRequest(f"Say {i} is", (" Paris", " Rome")) for i in range(8)]

        async def together() -> list[Any]:
            return list(await asyncio.gather(*map(model.loglikelihood, requests)))

        for request, answer in zip(requests, asyncio.run(together()), strict=True):
            told = [true_loglikelihood(str(request.prompt), text) for text in (" Paris", " Rome")]
            assert list(answer.loglikelihoods) == pytest.approx(told, abs=1e-6)
        assert min(count["n_answers"] for count in model.by_address()) > 0


def test_several_addresses_on_the_command_line(command: Command, tmp_path: Path) -> None:
    rows = tmp_path / "sums.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in sums(30)), "utf-8")
    with FaultServer(latency_s=0.01) as one, FaultServer(latency_s=0.01) as other:
        where = ("--base-url", one.url, "--base-url", other.url)
        out = tmp_path / "run"
        code, shown, err = command("run", rows, "--model", "toy", *where, "--out", out)
        assert code == 0, err
        assert "1.000" in shown
        assert f"prompts go to {one.url}" in err
        assert f"prompts go to {other.url}" in err
        counts = Run.open(out).manifest["engine"]["addresses"]
        assert sum(one["n_answers"] for one in counts) == 30
        assert min(one.app.answered.total(), other.app.answered.total()) > 5
        code, _, err = command("run", rows, "--model", "azure:toy", *where, "--no-store")
        assert code == 2
        assert "only openai: models accept several" in err


def test_addresses_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        OpenAICompatible("toy", base_url=["http://a/v1", "http://a/v1"])
    with pytest.raises(InvalidInputError, match="`base_url` is empty"):
        OpenAICompatible("toy", base_url=[])
    model: Any = load_model("openai:toy{base_url=['http://b.x/v1', 'http://a.x/v1']}")
    assert model.describe()["base_url"] == "a.x/v1, b.x/v1"
    with pytest.raises(InvalidInputError, match="pass one `base_url`"):
        model.check_sync()
    with pytest.raises(InvalidInputError, match="pass one `base_url`"):
        BatchModel(model, tmp_path / "batches.jsonl")


# --- in virtual time -----------------------------------------------------------------------------


class Server:
    """A model at an address; ``down`` are the times at which it fails, and how."""

    def __init__(self, name: str, *, takes_s: float = 1.0) -> None:
        self.takes_s = takes_s
        self.down: list[tuple[float, float, str]] = []
        self.poison: object = None
        self.times: list[float] = []
        self.endpoint: Any = SimpleNamespace(
            has_others=False,
            address=SimpleNamespace(shown=name),
            max_tries=5,
            delay=lambda n_assigned: 0.0,
            totals=Totals,
            ask_once=self.models,
        )

    async def aclose(self) -> None:
        pass

    def fail(self) -> None:
        now = asyncio.get_running_loop().time()
        for since, until, kind in self.down:
            if since <= now < until:
                raise ModelError(f"{self.endpoint.address.shown} is {kind}", kind=kind)

    async def models(self, path: str, read: Any) -> Any:
        self.fail()
        return SimpleNamespace(value=read({"data": [{"id": "toy"}]}))

    async def generate(self, prompt: object) -> str:
        self.fail()
        self.times.append(asyncio.get_running_loop().time())
        if prompt == self.poison:
            raise ModelError("it broke", kind="connection")
        await asyncio.sleep(self.takes_s)
        self.fail()
        return f"answer to {prompt}"


def in_turn(
    servers: list[Server], n: int, *, patience: Patience | None = None, at_once: int = 8
) -> tuple[Fleet[Any], list[Any], float]:
    """Ask a fleet ``n`` prompts, some at once; return it, the answers and the time taken."""
    fleet: Fleet[Any] = Fleet(servers, "toy", is_vouched=False)
    clock, gate = VirtualClock(), asyncio.Semaphore(at_once)

    async def one(prompt: int) -> str:
        async with gate:
            return await fleet.ask(lambda server: server.generate(prompt))

    async def every() -> list[Any]:
        if patience is not None:
            be_patient(patience)
        return await asyncio.gather(*map(one, range(n)), return_exceptions=True)

    with asyncio.Runner(loop_factory=clock.new_loop) as runner:
        return fleet, runner.run(every()), clock.now


def all_answered(answers: list[Any]) -> bool:
    return answers == [f"answer to {prompt}" for prompt in range(len(answers))]


def test_faster_servers_get_more() -> None:
    servers = [Server("a", takes_s=1.0), Server("b", takes_s=3.0)]
    _, answers, seconds = in_turn(servers, 400)
    assert all_answered(answers)
    assert len(servers[0].times) == pytest.approx(300, abs=20)
    assert seconds == pytest.approx(400 / (4 + 4 / 3), rel=0.1)


def test_a_server_that_is_away_is_tried_again_with_growing_waits() -> None:
    servers = [Server("a"), Server("b")]
    servers[1].down = [(10.0, 130.0, "connection")]
    tries: list[float] = []
    servers[1].endpoint.ask_once = lambda path, read: _noted(servers[1], tries, path, read)
    fleet, answers, seconds = in_turn(servers, 1600)
    assert all_answered(answers)
    gaps = [b - a for a, b in itertools.pairwise(tries[1:])]
    assert gaps[:4] == pytest.approx([1.0, 2.0, 4.0, 8.0], abs=1.1)
    assert max(gaps) < 32.0
    assert len(tries) < 12
    assert max(servers[1].times) > 130.0
    assert fleet.by_address()[1]["n_left_out"] == 1
    assert seconds < (1600 + 120 * 8) / 16 * 2.2


async def _noted(server: Server, tries: list[float], path: str, read: Any) -> Any:
    tries.append(asyncio.get_running_loop().time())
    return await server.models(path, read)


@pytest.mark.parametrize("kind", ["auth", "not_found", "unreachable"])
def test_a_server_that_refuses_is_left_out(kind: str) -> None:
    servers = [Server("a"), Server("b")]
    servers[0].down = [(0.0, 1e9, kind)]
    _, answers, _ = in_turn(servers, 50)
    assert all_answered(answers)
    servers = [Server("a"), Server("b")]
    for server in servers:
        server.down = [(0.0, 1e9, kind)]
    _, answers, seconds = in_turn(servers, 50)
    assert {error.kind for error in answers} == {kind}
    assert str(answers[0]).startswith("all 2 servers refuse requests: a is ")
    assert seconds < 5.0


def test_the_run_waits_only_if_all_are_away() -> None:
    told: list[bool] = []
    patience = Patience(600.0)
    patience.changed = lambda: told.append(patience.away_since is not None)
    servers = [Server("a"), Server("b")]
    servers[0].down = [(10.0, 100.0, "connection")]
    servers[1].down = [(50.0, 400.0, "connection")]
    _, answers, seconds = in_turn(servers, 800, patience=patience)
    assert all_answered(answers)
    assert told == [True, False]
    assert seconds > 100.0
    for server in servers:
        server.down, server.times = [(10.0, 5000.0, "connection")], []
    _, answers, seconds = in_turn(servers, 200, patience=Patience(600.0))
    lost = [one for one in answers if isinstance(one, ModelError)]
    assert 50 < len(answers) - len(lost) < 200
    assert {error.kind for error in lost} == {"unreachable"}
    assert "all 2 servers have been unavailable since" in str(lost[0])
    assert 610.0 <= seconds < 700.0


def test_servers_that_were_never_there_end_the_run_soon() -> None:
    servers = [Server("a"), Server("b")]
    for server in servers:
        server.down = [(0.0, 1e9, "connection")]
    _, answers, seconds = in_turn(servers, 20, patience=Patience(600.0))
    assert {error.kind for error in answers} == {"connection"}
    assert seconds < 30.0


def test_a_prompt_that_fails_alone_stops_no_other() -> None:
    servers = [Server("a"), Server("b"), Server("c")]
    for server in servers:
        server.poison = 17
    _, answers, seconds = in_turn(servers, 300)
    failed = answers.pop(17)
    assert isinstance(failed, ModelError)
    assert 5 <= failed.tries <= 10
    assert all(isinstance(answer, str) for answer in answers)
    assert seconds < 60.0
