"""Local Ray and Dask clusters, each started once and stopped at the end."""

import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from types import ModuleType

import pytest

from eval_toolkit.integrations.executors import open_executor


def installed(name: str) -> ModuleType:
    """Import a module; if it is missing, skip the test (fail in CI)."""
    if importlib.util.find_spec(name) is None:
        reason = f"{name} is not installed: run `make test-distributed`"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def ray() -> Iterator[ModuleType]:
    """Start Ray as a user would; the package connects to it."""
    module = installed("ray")
    with open_executor("ray", 1) as first:  # a process may start several, one after the other
        assert first.submit(abs, -1).result() == 1
    with open_executor("ray", 2) as executor:
        assert not module.is_initialized()  # nothing was asked of it yet
        assert executor.submit(abs, -1).result() == 1
        yield module
    assert not module.is_initialized()


@pytest.fixture(scope="session")
def dask_address() -> Iterator[str]:
    """Return the address of a running Dask scheduler."""
    distributed = installed("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=["ray", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "ray":
        request.getfixturevalue("ray")
        with open_executor("ray") as joined:
            yield joined
    else:
        with open_executor("dask", address=request.getfixturevalue("dask_address")) as joined:
            yield joined
