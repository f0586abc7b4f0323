"""Token buckets, with and without the headers of providers, in virtual time."""

import random

import pytest
from tests.support.night_run import (
    HEADERS,
    PER_MINUTE,
    night_model,
    run_night,
    sums,
    through_bucket,
)
from tests.support.night_server import Bucket, NightServer
from tests.support.virtual_time import VirtualClock

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.pace import Pace


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("per_minute", PER_MINUTE)
def test_a_limit_costs_neither_answers_nor_requests_nor_time(per_minute: int, headers: str) -> None:
    found = through_bucket(per_minute, headers, burst=per_minute)
    assert found.n_answered == found.n
    assert found.wasted <= 0.05
    assert found.seconds <= 1.1 * found.ideal_s


@pytest.mark.parametrize("per_minute", PER_MINUTE)
def test_a_bucket_of_one_request_is_no_worse(per_minute: int) -> None:
    found = through_bucket(per_minute, "", burst=1)
    assert found.n_answered == found.n
    assert found.wasted <= 0.05
    assert found.seconds <= 1.15 * found.ideal_s


def test_a_lifted_limit_is_noticed() -> None:
    clock = VirtualClock()
    server = NightServer(clock, Bucket(60, 60, clock))
    found = run_night(server, sums(300), night_model(), patience_s=None)
    assert server.bucket is not None
    server.bucket = None
    first = clock.now
    again = run_night(server, sums(3000), night_model(), patience_s=None)
    assert found.n_errors == again.n_errors == 0
    assert clock.now - first < 600.0  # 60 per minute would take 3 000 s


def test_refusals_use_up_no_tries() -> None:
    clock = VirtualClock()
    server = NightServer(clock, Bucket(2, 1, clock))
    found = run_night(server, sums(12), night_model(max_tries=1), patience_s=None)
    assert found.n_errors == 0
    assert max(outcome.response.usage.tries for outcome in found if outcome.response) > 1


class Moody:
    """Refuses a share of the requests, whatever their rate."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.random = random.Random(3)  # noqa: S311

    def take(self) -> bool:
        return self.random.random() >= self.share

    def headers(self, _: str, *, refused: bool) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_refusals_that_do_not_depend_on_the_rate_do_not_lower_it(share: float) -> None:
    clock = VirtualClock()
    server = NightServer(clock, Moody(share))  # type: ignore[arg-type]
    found = run_night(server, sums(2000), night_model(), patience_s=None)
    assert found.n_errors == 0
    assert clock.now < 200.0  # 6 s without refusals; each is followed by a pause


def test_a_prompt_refused_without_end_fails_alone() -> None:
    clock = VirtualClock()
    server = NightServer(clock)
    server.poison, server.poison_status = "What is 7 + 1?", 429
    found = run_night(server, sums(300), night_model(), patience_s=None)
    failed = [outcome for outcome in found if outcome.error is not None]
    assert found.n_errors == len(failed) == 1
    assert "returned status 429" in str(failed[0].error)
    assert clock.now < 120.0


def test_refusals_without_end_stop_the_run_after_its_patience() -> None:
    clock = VirtualClock()
    server = NightServer(clock, Bucket(60, 60, clock))
    server.outages = [(30.0, 1e9, "429")]
    with pytest.raises(ModelError, match=r"requests stopped.*returned status 429") as caught:
        run_night(server, sums(500), night_model(total_timeout_s=60.0), patience_s=900.0)
    assert caught.value.kind == "unreachable"
    assert 900.0 <= clock.now <= 1000.0
    n_before = server.statuses["429"]
    assert n_before < 300  # tried seldom


def test_a_busy_server_gets_fewer_requests_at_once() -> None:
    clock = VirtualClock()
    server = NightServer(clock)
    server.outages = [(6.0, 6.3, "503")]
    model = night_model()
    found = run_night(server, sums(1500), model, patience_s=None, close_model=False)
    assert found.n_errors == 0
    assert 0 < server.statuses["503"] <= 64
    assert model.totals().limit < 64


def test_a_rate_grows_while_nothing_is_refused() -> None:
    pace, now = Pace(1.0), 0.0
    pace.start(now)
    pace.refuse(now, 0.1, None)
    assert pace.rate == 0.5
    for _ in range(1000):
        now = max(now, 0.1) + pace.wait_for(max(now, 0.1))
        pace.start(now)
    assert pace.rate > 100.0
