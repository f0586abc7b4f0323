"""Ray and Dask, the real ones: the same bytes as without them, and what happens when one fails."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from tests.distributed.conftest import installed
from tests.unit.integrations.test_executors import CALLS

from eval_toolkit.cli.main import cli
from eval_toolkit.inference import bootstrap_ci, resampling
from eval_toolkit.integrations.executors import RayExecutor, open_executor
from eval_toolkit.metrics import roc_auc

FILES = ("results.json", "records.parquet")
N = 3000
RNG = np.random.default_rng(11)
Y = (RNG.random(N) < 0.3).astype(int)
S = np.clip(0.3 * Y + 0.6 * RNG.random(N), 0, 1)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1_000_000)


@pytest.fixture(scope="module")
def preds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = zip(range(N), Y, S, RNG.random(N), RNG.integers(0, 300, N), strict=True)
    lines = [f"r{i},{y},{s:.6f},{t:.6f},g{g},{'ab'[g % 2]}" for i, y, s, t, g in rows]
    path = tmp_path_factory.mktemp("data") / "preds.csv"
    path.write_text("\n".join(["id,y,s,t,g,part", *lines]), encoding="utf-8")
    return path


def scored(preds: Path, out: Path, *more: str) -> dict[str, bytes]:
    line = ["score", str(preds), "--label", "y", "--score", "s", "--score", "t", "--by", "part"]
    line += ["--group", "g", "--metric", "pr_auc", "--metric", "ece=10", "--resamples", "400"]
    result = CliRunner().invoke(cli, [*line, "--save", str(out), *more])
    assert result.exit_code == 0, result.output
    return {name: (out / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def plain(preds: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return scored(preds, tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture
def dask_found(dask_address: str) -> Iterator[None]:
    """What ``DASK_SCHEDULER_ADDRESS`` says."""
    import dask

    with dask.config.set({"scheduler-address": dask_address}):
        yield


@pytest.mark.parametrize("backend", ["threads", "processes", "ray", "dask"])
def test_a_stored_run_has_the_same_bytes_on_every_backend(
    backend: str,
    preds: Path,
    plain: dict[str, bytes],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    for fixture in {"ray": ["ray"], "dask": ["dask_found"]}.get(backend, []):
        request.getfixturevalue(fixture)
    found = scored(preds, tmp_path / "run", "--backend", backend, "--workers", "2")
    for name in FILES:
        assert found[name] == plain[name]


@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_the_same_bits(
    executor: Executor, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = repr(CALLS[name]())
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    assert repr(CALLS[name](executor=executor)) == expected


def test_work_is_done_elsewhere(executor: Executor) -> None:
    pids = set(executor.map(pid_after, [0.3] * 4))
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2  # a second worker may start after the first has done everything


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def complain(number: int) -> int:
    raise KeyError(f"no number {number}")


def test_errors_are_those_that_were_raised(executor: Executor) -> None:
    with pytest.raises(KeyError) as found:
        executor.submit(complain, 3).result()
    assert str(found.value) == "'no number 3'"
    with pytest.raises(KeyError):
        list(executor.map(complain, [1, 2]))
    assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]


def die(number: int) -> int:
    os._exit(9)


def test_a_dead_worker_is_one_error_and_the_next_call_works(executor: Executor) -> None:
    with pytest.raises(BrokenExecutor, match="worker"):
        list(executor.map(die, [1]))
    assert list(executor.map(abs, [-1, -2])) == [1, 2]


def idle(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


def test_what_waits_can_be_cancelled(executor: Executor) -> None:
    futures = [executor.submit(idle, 2.0) for _ in range(6)]  # two at a time
    assert all(future.cancel() for future in futures)
    with pytest.raises(CancelledError):
        futures[-1].result()
    assert executor.submit(abs, -5).result(timeout=60) == 5


def test_after_shutdown_nothing_is_taken(executor: Executor) -> None:
    executor.submit(abs, -1).result()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(abs, -1)


def test_a_ray_that_ran_before_runs_on(ray: ModuleType) -> None:
    with open_executor("ray") as executor:
        assert list(executor.map(abs, [-2])) == [2]
    assert ray.is_initialized()
    assert isinstance(executor, RayExecutor)


def test_the_executor_of_a_users_dask_client(dask_address: str) -> None:
    distributed = installed("distributed")
    with distributed.Client(dask_address, set_as_default=False) as client:
        theirs = client.get_executor()
        assert bootstrap_ci(Y, S, roc_auc, executor=theirs) == bootstrap_ci(Y, S, roc_auc)
        assert theirs.submit(abs, -4).result() == 4  # left open


def test_a_cluster_of_our_own_is_gone_afterwards() -> None:
    installed("distributed")

    def fail() -> Any:
        with open_executor("dask", 1) as executor:
            children.append(psutil.Process(executor.submit(os.getpid).result()))
            raise KeyboardInterrupt

    children: list[psutil.Process] = []
    with pytest.raises(KeyboardInterrupt):
        fail()
    gone, _ = psutil.wait_procs(children, timeout=20)
    assert len(gone) == 1
