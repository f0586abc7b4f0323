"""Executors by name on threads and processes; Ray and Dask themselves are in tests/distributed."""

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.unit.integrations.sent_metrics import Foreign, deadly, median, picky, share_above

from eval_toolkit import metric_specs as ms
from eval_toolkit import scorecard
from eval_toolkit.analysis import compare_records
from eval_toolkit.cli._options import BACKENDS as CLI_BACKENDS
from eval_toolkit.cli.main import cli
from eval_toolkit.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
)
from eval_toolkit.inference import (
    bootstrap_ci,
    column_statistics,
    paired_bootstrap_diff,
    paired_bootstrap_op_point_diff,
    refitted_thresholds,
    resampling,
)
from eval_toolkit.integrations import executors
from eval_toolkit.integrations.executors import DaskExecutor, RayExecutor, open_executor
from eval_toolkit.metrics import pr_auc, roc_auc
from eval_toolkit.scorecards import Records

RNG = np.random.default_rng(7)
Y = (RNG.random(90) < 0.4).astype(int)
A = np.clip(0.3 * Y + 0.6 * RNG.random(90), 0, 1)
B = np.clip(0.1 * Y + 0.7 * RNG.random(90), 0, 1)


def records(scores: Any) -> dict[str, Records]:
    columns = {"label": Y.astype(float), "score": scores}
    return {"all": Records.from_columns(columns, unit_id=[f"u{i:02}" for i in range(90)])}


CALLS: dict[str, Callable[..., Any]] = {
    "scorecard": lambda **more: scorecard(
        Y, A, metrics=[ms.pr_auc, ms.brier, ms.ece()], method="BCa", n_resamples=300, **more
    ),
    "callable": lambda **more: bootstrap_ci(Y, A, median, n_resamples=300, **more),
    "studentized": lambda **more: bootstrap_ci(
        Y, A, roc_auc, method="studentized", n_resamples=130, **more
    ),
    "paired": lambda **more: paired_bootstrap_diff(Y, A, B, pr_auc, n_resamples=300, **more),
    "refitted_thresholds": lambda **more: paired_bootstrap_op_point_diff(
        Y, A, B, Y.copy(), B, A, median, share_above, n_resamples=130, **more
    ),
    "compared": lambda **more: compare_records(
        records(A), records(B), [ms.roc_auc], n_resamples=300, **more
    ).to_dict(),
    "undefined": lambda **more: scorecard(
        Y, A, metrics=[Foreign("picky", picky)], n_resamples=300, **more
    ),
}


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return {name: call() for name, call in CALLS.items()}


@pytest.fixture(scope="module", params=["threads", "processes"])
def pool(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with open_executor(request.param, {"threads": 2}.get(request.param, 1)) as executor:
        yield executor


class Counted:
    """An executor that counts what it is given."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.n_tasks = 0

    def map(self, fn: Any, /, *iterables: Any) -> Any:
        tasks = [list(one) for one in iterables]
        self.n_tasks += len(tasks[0])
        return self.inner.map(fn, *tasks)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_the_same_bits(
    pool: Executor, name: str, plain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    counted = Counted(pool)
    assert repr(CALLS[name](executor=counted)) == repr(plain[name])
    assert counted.n_tasks >= 3  # blocks of 64 out of 130 or 300 resamples


def test_what_a_metric_raised_first_is_told_on_any_executor(plain: dict[str, Any]) -> None:
    assert "first: LookupError: mean 0." in plain["undefined"]["picky"].reason


def test_small_work_is_done_in_place() -> None:
    with open_executor("threads") as executor:
        counted = Counted(executor)
        bootstrap_ci(Y, A, roc_auc, executor=counted)
    assert counted.n_tasks == 0


def test_a_python_function_counts_as_more_work_than_a_kernel() -> None:
    """5000 calls on 90 rows take half a second, 5000 resamples of the kernel some milliseconds."""
    with open_executor("threads") as executor:
        counted = Counted(executor)
        bootstrap_ci(Y, A, median, n_resamples=5000, executor=counted)
    assert counted.n_tasks > 1


@pytest.mark.parametrize("name", ["callable", "refitted_thresholds"])
def test_the_time_of_a_call_decides_how_work_is_cut(
    name: str, plain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that takes a second makes a task of every block, and the same bits."""
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr(column_statistics, "time", clock)
    monkeypatch.setattr(refitted_thresholds, "time", clock)
    with open_executor("threads", 2) as executor:
        counted = Counted(executor)
        found = CALLS[name](executor=counted)
    assert repr(found) == repr(plain[name])
    assert (
        counted.n_tasks == {"callable": 5, "refitted_thresholds": 3}[name]
    )  # of 300 and 130 resamples


@pytest.mark.parametrize("method", ["BCa", "studentized"])
def test_what_is_no_executor_is_refused_however_small_the_work(method: str) -> None:
    with pytest.raises(InvalidTypeError, match="`executor` must have a `map`"):
        bootstrap_ci(Y, A, roc_auc, method=method, executor=3)  # type: ignore[arg-type]


def test_an_executor_of_the_user_is_left_open(pool: Executor, monkeypatch: Any) -> None:
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    bootstrap_ci(Y, A, roc_auc, executor=pool)
    assert pool.submit(abs, -3).result() == 3


def test_a_dead_worker_is_one_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    with (
        open_executor("processes", 1) as executor,
        pytest.raises(BrokenExecutor, match=r"^a worker died before it finished \(.*\); it may"),
    ):
        bootstrap_ci(Y, A, deadly, executor=executor)


def test_a_metric_that_cannot_be_sent_says_so(
    pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    local = {"n_resamples": 130, "executor": pool}
    if "Process" not in type(pool).__name__:
        assert bootstrap_ci(Y, A, lambda y, s: 0.5 + s[0], **local) is not None
        return
    with pytest.raises(InvalidInputError, match=r"cannot be pickled .*threads$"):
        bootstrap_ci(Y, A, lambda y, s: 0.5 + s[0], **local)


def test_an_interrupt_cancels_what_waits() -> None:
    go = threading.Event()

    def interrupted() -> None:
        with open_executor("threads", 1) as executor:
            waiting.append(executor.submit(go.wait))
            waiting.extend(executor.submit(abs, i) for i in range(3))
            threading.Timer(0.05, go.set).start()
            raise KeyboardInterrupt

    waiting: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [one.cancelled() for one in waiting] == [False, True, True, True]


def test_names_and_numbers_are_checked() -> None:
    with pytest.raises(InvalidInputError, match="`backend`"), open_executor("spark"):
        pass
    with pytest.raises(InvalidInputError, match="`workers`"), open_executor("threads", 0):
        pass
    with (
        pytest.raises(InvalidInputError, match="threads run only on this machine"),
        open_executor("threads", address="10.0.0.1"),
    ):
        pass
    assert CLI_BACKENDS == executors.BACKENDS


@pytest.mark.parametrize(("made", "module"), [(RayExecutor, "ray"), (DaskExecutor, "distributed")])
def test_without_the_package_the_extra_is_named(
    made: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    extra = {"distributed": "dask"}.get(module, module)
    with pytest.raises(MissingExtraError, match=rf"pip install 'eval-toolkit\[{extra}\]'"):
        made()


@pytest.fixture
def preds(tmp_path: Path) -> Path:
    lines = [f"r{i},{y},{a:.6f},{b:.6f}" for i, (y, a, b) in enumerate(zip(Y, A, B, strict=True))]
    path = tmp_path / "preds.csv"
    path.write_text("\n".join(["id,y,a,b", *lines]), encoding="utf-8")
    return path


def test_the_command_line_draws_the_same(preds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    for line in (
        ["score", str(preds), "--label", "y", "--score", "a", "--json"],
        ["compare", str(preds), "--label", "y", "--score", "a", "--score", "b", "--json"],
    ):
        plain = CliRunner().invoke(cli, line)
        parallel = CliRunner().invoke(cli, [*line, "--backend", "threads", "--workers", "2"])
        assert plain.exit_code == parallel.exit_code == 0, parallel.output
        assert plain.output == parallel.output


def test_workers_are_for_a_backend(preds: Path) -> None:
    result = CliRunner().invoke(cli, ["score", str(preds), "--workers", "2"])
    assert result.exit_code == 2
    assert "--workers needs --backend" in result.output


class OldRay(ModuleType):
    """As much of Ray as starts: it leaves its mode of authentication in the environment."""

    def __init__(self, fails: str = "") -> None:
        super().__init__("ray")
        self.tokens: list[str | None] = []
        self.fails = fails

    def is_initialized(self) -> bool:
        return False

    def init(self, **settings: Any) -> None:
        if self.fails:
            raise RuntimeError(self.fails)
        self.tokens.append(os.environ.get("RAY_AUTH_TOKEN"))
        os.environ["RAY_AUTH_MODE"] = "token"

    def shutdown(self) -> None:
        pass

    def remote(self, **settings: Any) -> Any:
        return lambda function: function


def test_every_ray_of_a_process_has_the_same_token(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = OldRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    before = dict(os.environ)
    for _ in range(2):
        with open_executor("ray", 1) as executor:
            executor._started()  # type: ignore[attr-defined]
        assert dict(os.environ) == before
    first, second = ray.tokens
    assert first is not None
    assert first == second


def test_a_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", OldRay("\x1b[36mno port\x1b[39m\nTraceback …"))
    before = dict(os.environ)
    with (
        open_executor("ray", 1) as executor,
        pytest.raises(InfeasibleError, match=r"^Ray did not start: no port$"),
    ):
        executor._started()  # type: ignore[attr-defined]
    assert dict(os.environ) == before
