"""Shards on the real Ray and the real Dask: the bytes of one run; and answers made by Ray Data."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from docs._ext.blocks import run_page
from tests.distributed.conftest import installed

from eval_toolkit.cli.main import cli
from eval_toolkit.errors import ModelError
from eval_toolkit.integrations.executors import open_executor
from eval_toolkit.models.embedded import EmbeddedModel
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import run_rollouts
from eval_toolkit.runs import Outcome, Run, run_shards
from eval_toolkit.tasks import run_task

FILES = ("results.json", "records.parquet", "units.parquet", "responses.parquet")
QUIZ = [{"question": f"{n} + 1?", "answer": str(n + 1), "subject": "ab"[n % 2]} for n in range(23)]


def same_bytes(one: Path, other: Path, *, but: tuple[str, ...] = ()) -> None:
    for name in FILES:
        if name not in but:
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


def counted(request: Any) -> str:
    return str(int(request.prompt[-1].content.split()[0]) + 1)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_shards_on_workers_have_the_bytes_of_one_run(
    executor: Executor, n: int, tmp_path: Path
) -> None:
    model = ScriptedModel(counted)
    run_task(QUIZ, model, tmp_path / "one" / "run")
    told: list[str] = []
    done = run_shards(
        run_task,
        QUIZ,
        model,
        out=tmp_path / "all" / "run",
        shards=n,
        executor=executor,
        on_shard=told.append,
    )
    assert sorted(told) == [f"{i}/{n}" for i in range(1, n + 1)]
    assert done.card["match"].value == 1.0
    same_bytes(tmp_path / "one" / "run", tmp_path / "all" / "run")
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["run"]


def test_rollouts_too(executor: Executor, tmp_path: Path) -> None:
    def asked(**more: Any) -> Outcome:
        prompts = [f"Tell me secret {n}" for n in range(9)]
        run = more.pop("run", run_rollouts)
        return run(prompts, "scripted:No.", scorer="refusal", **more)

    asked(out=tmp_path / "one" / "run")
    fleet = {"run": lambda *args, **more: run_shards(run_rollouts, *args, **more)}
    asked(**fleet, out=tmp_path / "all" / "run", shards=3, executor=executor)
    same_bytes(tmp_path / "one" / "run", tmp_path / "all" / "run")


def test_each_worker_has_a_model_of_its_own(
    executor: Executor, embedded_model: EmbeddedModel, tmp_path: Path
) -> None:
    run_task(QUIZ[:9], "embedded", tmp_path / "one" / "run", max_tokens=4)
    options: Any = {"out": tmp_path / "all" / "run", "shards": 2, "executor": executor}
    run_shards(run_task, QUIZ[:9], "embedded", max_tokens=4, **options)
    one, other = tmp_path / "one" / "run", tmp_path / "all" / "run"
    same_bytes(one, other, but=("responses.parquet",))  # which has the times of the answers
    columns = [Run.open(run).table("responses.parquet") for run in (one, other)]
    for name in columns[0]:
        if name != "usage":
            assert columns[0][name].tolist() == columns[1][name].tolist(), name


class Locked(ScriptedModel):
    """A model that refuses some questions until a file is there, and notes what it answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__("", name="locked", concurrency=1)
        self.folder = folder

    def describe(self) -> dict[str, Any]:
        return {"kind": "locked"}

    async def generate(self, request: Any) -> Any:
        question = request.prompt[-1].content
        if question.startswith(("3 ", "11 ")) and not (self.folder / "key").exists():
            raise ModelError("no key", kind="auth")
        (self.folder / "asked").open("a").write(f"{question}\n")
        self._answers = counted(request)
        return await super().generate(request)


def test_a_failed_shard_is_resumed_where_it_stopped(executor: Executor, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options: Any = {"out": out, "shards": 3, "executor": executor}
    with pytest.raises(ModelError, match="no key"):
        run_shards(run_task, QUIZ, Locked(tmp_path), **options)
    assert not out.exists()
    assert (tmp_path / "run.shards").is_dir()
    (tmp_path / "key").touch()
    done = run_shards(run_task, QUIZ, Locked(tmp_path), **options)
    assert done.card["match"].value == 1.0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert sorted(asked) == sorted(row["question"] for row in QUIZ)


def dies(*given: Any, out: Path, shard: str, **options: Any) -> Outcome:
    if shard == "2/3":
        os._exit(9)
    return run_task(*given, out=out, shard=shard, **options)


def test_a_dead_worker_loses_its_shard_alone(ray: ModuleType, tmp_path: Path) -> None:
    """On Ray; a scheduler of Dask may wait for ever for results that died with a worker."""
    options: Any = {"out": tmp_path / "run", "shards": 3}
    model = ScriptedModel(counted)
    with open_executor("ray") as executor, pytest.raises(BrokenExecutor, match="worker"):
        run_shards(dies, QUIZ, model, executor=executor, **options)
    kept = sorted(path.name for path in (tmp_path / "run.shards").iterdir())
    assert kept == ["1-of-3", "3-of-3"]
    with open_executor("threads", 1) as threads:
        done = run_shards(run_task, QUIZ, model, executor=threads, **options)
    assert done.card["match"].n_units == 23


@pytest.fixture
def dask_found(dask_address: str) -> Iterator[None]:
    """What ``DASK_SCHEDULER_ADDRESS`` says."""
    import dask

    with dask.config.set({"scheduler-address": dask_address}):
        yield


@pytest.mark.parametrize("backend", ["ray", "dask"])
def test_the_command_runs_on_a_cluster(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue({"ray": "ray", "dask": "dask_found"}[backend])
    monkeypatch.chdir(tmp_path)
    Path("quiz.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in QUIZ))
    line = ["run", "quiz.jsonl", "--model", "scripted:4", "--grader", "includes", "--quiet"]
    for more in (["--out", "one/run"], ["--out", "all/run", "--backend", backend, "--shards", "4"]):
        result = CliRunner().invoke(cli, [*line, *more])
        assert result.exit_code == 0, result.output
    same_bytes(tmp_path / "one" / "run", tmp_path / "all" / "run")


GPUS = """
import os, sys
import ray
from eval_toolkit.integrations.executors import open_executor

ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, object_store_memory=100 << 20)
with open_executor("ray", gpus=1) as executor:
    print(*executor.map(lambda n: os.environ["CUDA_VISIBLE_DEVICES"], range(4)))
ray.shutdown()
"""


def test_a_task_on_ray_sees_its_gpu_alone(tmp_path: Path) -> None:
    installed("ray")
    alone = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": "f" * 64, "HOME": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", GPUS],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, **alone},
    )
    assert {*found.stdout.split()} <= {"0", "1"}
    assert len(found.stdout.split()) == 4


def where() -> str:
    from distributed import get_worker

    return str(get_worker().name)


def test_a_task_on_dask_goes_to_a_worker_with_a_gpu() -> None:
    distributed = installed("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        cluster.worker_spec["gpu"] = {
            "cls": distributed.Nanny,
            "options": {"nthreads": 1, "resources": {"GPU": 1}},
        }
        cluster.sync(cluster._correct_state)
        with open_executor("dask", address=cluster.scheduler_address, gpus=1) as executor:
            assert {executor.submit(where).result() for _ in range(3)} == {"gpu"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # of its own settings
def test_the_page_on_ray_data(ray: ModuleType, tmp_path: Path) -> None:
    run_page(Path(__file__).parents[2] / "docs" / "howto" / "ray_data.md", tmp_path)
    assert (tmp_path / "runs" / "sums" / "responses.parquet").exists()
