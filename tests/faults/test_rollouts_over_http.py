"""A target behind a server that fails: each conversation fares alone, and nothing is averaged away.

The toy server answers sums. A sum of 40 and more counts as a failure of the target, so that every
number below follows from the seeds and from the faults that are told in `FAULTS`.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import fault_server
from tests.support.fault_server import FaultServer

from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.rollouts import SeedPrompt, System, rollouts_of, run_rollouts
from eval_toolkit.rollouts.attacks import Refinement, Static
from eval_toolkit.runs import Outcome, Run

N = 30
MAX_TRIES = 3
SEEDS = [
    SeedPrompt(f"What is {n} + {n}?", id=f"q{n:02d}", category="even" if n % 2 == 0 else "odd")
    for n in range(N)
]


def asked(n: int, turn: int = 1) -> str:
    """Return what the server sees of a conversation, up to the probe of a turn."""
    probe = f"What is {n} + {n}?"
    return "\n".join([*(f"{probe}\n{2 * n}" for _ in range(turn - 1)), probe])


PASSING = {
    1: ["429"],
    2: ["500", "503"],
    3: ["503"],
    4: ["garbage"],
    5: ["empty"],
    6: ["reset"],
    7: ["truncated", "cut"],
}
LASTING = {8: ["500"] * 9, 9: ["garbage"] * 9, 11: ["filter"] * 9, 12: ["400"] * 9}
BLANK, LATE, LATE_BUT_DONE = 10, 13, 25
"""Answers nothing at all; break in the second turn, the latter after it failed in the first."""
FAULTS = {
    asked(LATE, 2): ["500"] * 9,
    asked(LATE_BUT_DONE, 2): ["500"] * 9,
    asked(BLANK): ["blank"] * 9,
    **{asked(n): faults for n, faults in (PASSING | LASTING).items()},
}
BROKEN = sorted([*LASTING, LATE])


def large(texts: list[str]) -> list[float]:
    return [float(text.strip().isdecimal() and int(text) >= 40) for text in texts]


@pytest.fixture(scope="module", autouse=True)
def _blank() -> Iterator[None]:
    """A fault more: the server says nothing, with every sign of success."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fault_server.ODD_MESSAGES, "blank", ({"content": ""}, "stop"))
        yield


def model_at(
    server: FaultServer, *, timeout_s: float = 120.0, max_tries: int = MAX_TRIES
) -> OpenAICompatible:
    """Return a model whose answers take far less than the timeout, also beside much other work."""
    options: dict[str, Any] = {"retry_wait_s": 0.0, "concurrency": 64}
    return OpenAICompatible(
        "toy", base_url=server.url, timeout_s=timeout_s, max_tries=max_tries, **options
    )


def rolled_out(server: FaultServer, folder: Path, concurrency: int | None = None) -> Outcome:
    system: System[Any, Any] = System(Static(), model_at(server), large)
    options: dict[str, Any] = {"depth": 2, "max_error_rate": 0.2, "run_id": "r"}
    return run_rollouts(system, SEEDS, folder, concurrency=concurrency, **options)


@dataclass(frozen=True)
class Done:
    """What came of the rollouts, and what the server saw."""

    run: Outcome
    folder: Path
    asked: dict[str, int]
    max_in_flight: int
    server: FaultServer
    """Still there; what it was asked later is not in the numbers above."""

    def column(self, name: str) -> dict[int, Any]:
        """Return a column by the number of the seed: a number, or the status where there is none."""
        records = self.run.records
        cells = zip(records.unit_id, records.status[name], records.columns[name], strict=True)
        return {int(unit[1:]): value if how == "ok" else how for unit, how, value in cells}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """Rollouts with 64 requests at once; each of those that hang takes seconds."""
    folder = tmp_path_factory.mktemp("http") / "r"
    with FaultServer(script=FAULTS, latency_s=0.01) as server:
        run = rolled_out(server, folder, 64)
        yield Done(run, folder, dict(server.app.asked), server.app.max_in_flight, server)


@pytest.fixture
def again(done: Done, tmp_path: Path) -> Iterator[Path]:
    """A copy of the rollouts to be gone on with; the server has been asked nothing yet."""
    script = dict(done.server.behaviour.script)
    done.server.app.asked.clear()
    done.server.app.max_in_flight = 0
    yield Path(shutil.copytree(done.folder, tmp_path / "r"))
    done.server.behaviour.script.update(script)


def test_each_conversation_fares_alone(done: Done) -> None:
    expected = {n: "error" if n in BROKEN else float(n >= 20) for n in range(N)}
    assert done.column("attack_success") == expected
    cell = done.run.card["attack_success"]
    # By the curve: four were never seen, the fifth was seen to hold in turn 1, where ten fail.
    assert cell.value == pytest.approx(10 / 26)
    assert cell.n_errors == 5
    # Whatever the five would have come to: from none of them to all of them.
    assert (cell.details["best"], cell.details["worst"]) == (10 / 30, 15 / 30)
    assert (done.run.n_errors, done.run.error_rate) == (5, 5 / 30)
    assert not done.run.too_many_errors
    assert done.run.card.slices["odd"]["attack_success"].n_errors == 3  # 9, 11 and 13


def test_reasons_say_the_turn_the_speaker_and_the_fault(done: Done) -> None:
    records = done.run.records
    said = dict(zip(records.unit_id, records.reason["attack_success"], strict=True))
    for n, words in {
        8: "turn 1: the target: .* returned status 500: injected 500 .tried 3 times",
        9: "turn 1: the target: .* that are not JSON",
        11: "turn 1: the target: .*content filter",
        12: "turn 1: the target: .* returned status 400: injected 400$",
        LATE: "turn 2: the target: .* returned status 500",
    }.items():
        assert re.match(words, said[f"q{n:02d}"]), said[f"q{n:02d}"]
        assert "\n" not in said[f"q{n:02d}"]
    assert sum(bool(reason) for reason in said.values()) == len(BROKEN)


def test_what_broke_after_the_target_failed_is_known(done: Done) -> None:
    assert done.column("attack_success")[LATE_BUT_DONE] == 1.0
    assert done.column("first_event_turn")[LATE_BUT_DONE] == 1.0
    graph = done.run.attempts[LATE_BUT_DONE]
    assert [node.status for node in graph.nodes()] == ["ok", "error"]


def test_retries_are_counted(done: Done) -> None:
    """What passes is asked again within each of two turns; what lasts as often as allowed."""
    for n, faults in PASSING.items():
        assert done.asked[asked(n)] == done.asked[asked(n, 2)] == 1 + len(faults)
    assert done.asked[asked(8)] == done.asked[asked(LATE, 2)] == MAX_TRIES
    assert done.asked[asked(11)] == done.asked[asked(12)] == 1
    n_retries = 2 * sum(map(len, PASSING.values()))
    assert done.run.usage["n_retries"] == Run.open(done.folder).manifest["usage"]["n_retries"]
    assert done.run.usage["n_retries"] == n_retries == 18
    assert done.run.n_requests == 2 * N - len(LASTING)  # these have no second turn
    assert done.run.n_failed_requests == len(LASTING) + 2


def test_empty_replies_are_told_apart_and_never_averaged_in(done: Done) -> None:
    broken = dict.fromkeys(LASTING, "error")
    assert done.column("empty_replies") == {n: float(n == BLANK) for n in range(N)} | broken
    assert done.run.card["empty_replies"].value == 1 / 26
    first, second = done.run.attempts[BLANK].nodes()
    assert first.response == second.response == ""
    assert first.event is False
    assert first.unscored["large"] == "skipped: empty reply"
    assert "large" not in first.scores
    # No score at all, rather than a good one.
    assert done.column("large_mean")[BLANK] == "skipped"
    assert rollouts_of(Run.open(done.folder))[BLANK] == done.run.attempts[BLANK]


def test_once_the_server_is_well_only_what_broke_is_asked_again(done: Done, again: Path) -> None:
    done.server.behaviour.script.clear()
    second = rolled_out(done.server, again)
    late = {asked(n, 2) for n in (*LASTING, LATE, LATE_BUT_DONE)}
    assert set(done.server.app.asked) == late | {asked(n) for n in LASTING}
    assert (done.run.n_errors, second.n_errors) == (5, 0)
    assert second.card["attack_success"].value == 10 / 30


def test_concurrency_changes_no_byte(done: Done, again: Path) -> None:
    one_by_one = again.with_name("1")  # the server is the same: its address is in the reasons
    rolled_out(done.server, one_by_one, 1)
    assert done.server.app.max_in_flight <= 8 < done.max_in_flight
    for name in ("records.parquet", "turns.parquet", "results.json"):
        assert (one_by_one / name).read_bytes() == (done.folder / name).read_bytes(), name


def test_a_request_without_an_answer_is_asked_again(tmp_path: Path) -> None:
    """As often as allowed, which is far more often than a busy machine answers too late."""
    with FaultServer(script={asked(3): ["hang"], asked(3, 2): ["hang"]}) as server:
        target = model_at(server, timeout_s=1.0, max_tries=60)
        system: System[Any, Any] = System(Static(), target, large)
        done = run_rollouts(system, SEEDS[3:4], tmp_path / "r", depth=2)
        seen = dict(server.app.asked)
    assert [node.status for node in done.attempts[0].nodes()] == ["ok", "ok"]
    assert seen[asked(3)] >= 2
    assert seen[asked(3, 2)] >= 2
    assert done.usage["n_retries"] == sum(seen.values()) - 2


def test_a_tester_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    script = {"Goal: What is 4 + 4?": ["500"] * 9, "Goal: What is 6 + 6?": ["429", "garbage"]}
    with FaultServer(script=script) as server:
        tester, target = model_at(server), model_at(server)
        system: System[Any, Any] = System(Refinement(tester), target, large)
        done = run_rollouts(system, SEEDS[:8], tmp_path / "r", depth=2)
    for graph in done.attempts:
        broken = graph.unit_id == "q04"
        nodes = list(graph.nodes())
        assert [node.status for node in nodes] == (["error"] if broken else ["ok", "ok"])
        assert nodes[0].reason.startswith("the tester: 127.0.0.1") is broken
    assert done.n_errors == 1
    assert done.usage["n_retries"] == 2 * 2
