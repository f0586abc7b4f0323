"""Budgets, the adaptive limit and the order of those who wait."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit.models.openai_compatible.limits import Budget, Limiter
from eval_toolkit.models.openai_compatible.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def spend(budget: Budget, clock: Clock, n: int, amount: float = 1.0) -> list[float]:
    """When each of n requests that come at once may start."""
    starts = []
    for _ in range(n):
        while (wait := budget.wait_for(amount)) > 0.0:
            clock.now += wait
        budget.take(amount)
        starts.append(clock.now)
    return starts


@given(st.integers(1, 2000), st.floats(0.0, 200.0))
def test_no_minute_holds_more_requests_than_the_budget(per_minute: int, idle: float) -> None:
    clock = Clock()
    budget = Budget(per_minute, clock=clock)
    starts = spend(budget, clock, min(per_minute, 100) + 1)
    clock.now += idle
    starts += spend(budget, clock, min(per_minute, 100) + 1)
    for first in starts:
        within = sum(first <= start < first + 60.0 - 1e-6 for start in starts)
        assert within <= per_minute


@pytest.mark.parametrize("per_minute", [1, 60, 600, 10_000])
def test_a_budget_is_used_up_and_not_only_kept(per_minute: int) -> None:
    clock = Clock()
    starts = spend(Budget(per_minute, clock=clock), clock, 2 * per_minute + 1)
    assert starts[-1] <= 125.0


def test_tokens_settle_to_what_was_used() -> None:
    clock = Clock()
    budget = Budget(6000, clock=clock)
    budget.take(1000)
    before = budget.wait_for(10)
    budget.take(100 - 1000)  # the answer took 100 only
    assert before > 5.0
    assert budget.wait_for(10) == 0.0


def test_a_request_larger_than_the_burst_starts_and_the_next_waits() -> None:
    clock = Clock()
    budget = Budget(600, clock=clock)
    assert budget.wait_for(5000) == 0.0
    budget.take(5000)
    assert budget.wait_for(1) > 400.0


def test_the_limit_halves_once_for_requests_under_way_together() -> None:
    limiter = Limiter(64)
    started = [limiter.cuts for _ in range(64) if limiter.admit(0)]
    for cuts in started:
        limiter.release(cuts, overloaded=True)
    assert (limiter.limit, limiter.cuts) == (32.0, 1)
    assert limiter.admit(0)
    limiter.release(limiter.cuts, overloaded=True)
    assert limiter.limit == 16.0


def test_the_limit_grows_by_one_per_round_and_never_above_the_ceiling() -> None:
    limiter = Limiter(12, limit=10.0)
    for _ in range(10):
        limiter.admit(0)
        limiter.release(limiter.cuts, answered=True)
    assert limiter.limit == pytest.approx(11.0, abs=0.1)
    for _ in range(100):
        limiter.admit(0)
        limiter.release(limiter.cuts, answered=True)
    assert limiter.limit == 12.0


def test_the_limit_never_falls_below_one_and_may_be_fixed() -> None:
    limiter, fixed = Limiter(2), Limiter(2, adaptive=False)
    for _ in range(5):
        for one in (limiter, fixed):
            one.admit(0)
            one.release(one.cuts, overloaded=True)
    assert limiter.limit == 1.0
    assert fixed.limit == 2.0


def test_those_who_wait_are_served_in_order_and_no_more_than_allowed() -> None:
    async def main() -> tuple[list[int], int]:
        limiter, order, most = Limiter(3), [], 0

        async def one(number: int) -> None:
            nonlocal most
            if not limiter.admit(0):
                await limiter.wait(0)
            order.append(number)
            most = max(most, limiter.in_flight)
            await asyncio.sleep(0)
            limiter.release(limiter.cuts, answered=True)

        await asyncio.gather(*map(one, range(20)))
        return order, most

    assert asyncio.run(main()) == (list(range(20)), 3)


def test_who_gives_up_waiting_leaves_no_trace() -> None:
    async def main() -> int:
        limiter = Limiter(1)
        assert limiter.admit(0)
        first, second = (asyncio.create_task(limiter.wait(0)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        limiter.release(limiter.cuts)
        await second
        third = asyncio.create_task(limiter.wait(0))
        await asyncio.sleep(0)
        limiter.release(limiter.cuts)  # third's turn, and it is cancelled before it notices
        third.cancel()
        await asyncio.gather(first, third, return_exceptions=True)
        return limiter.in_flight

    assert asyncio.run(main()) == 0


def test_a_budget_holds_up_and_a_timer_goes_on() -> None:
    async def main() -> int:
        clock = Clock()
        limiter = Limiter(8, requests=Budget(60_000, clock=clock))
        granted = sum(limiter.admit(0) for _ in range(2000))
        waiting = asyncio.create_task(limiter.wait(0))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert granted == 8
        for _ in range(8):
            limiter.release(limiter.cuts)
        await waiting
        return limiter.in_flight

    assert asyncio.run(main()) == 1


def test_waiting_for_a_budget_ends_by_itself() -> None:
    async def main() -> int:
        limiter = Limiter(500, requests=Budget(6000))  # 120 at once, then one per 10 ms
        for _ in range(125):
            if not limiter.admit(0):
                await limiter.wait(0)
        return limiter.in_flight

    assert asyncio.run(main()) == 125


def test_only_servers_with_a_key_get_few_requests_at_first() -> None:
    """Services limit the rate of a key; servers without keys are mostly the user's own."""
    rooms = []
    for ramps in (True, False):
        pace = Pace(1.0, ramps=ramps)
        pace.start(0.0)
        rooms.append(pace.room(0.1, 64))
    assert rooms[0] < 3.0
    assert rooms[1] == 64
