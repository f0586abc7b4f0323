"""Runs against a `NightServer` in virtual time; ``python -m tests.support.night_run`` prints a table.

The table shows token buckets with and without the headers of providers: excess requests, and
the time relative to the minimum that the bucket allows.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.night_server import Bucket, NightServer
from tests.support.virtual_time import VirtualClock

from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.runner import Job, JobResults
from eval_toolkit.models.runner.engine import run_jobs_async

URL = "http://night.example/v1"
HEADERS = ("", "seconds", "ms", "date", "openai", "anthropic")
PER_MINUTE = (20, 60, 500)
MINUTES = 10


def sums(n: int) -> list[Job]:
    texts = (f"What is {i} + 1?" for i in range(n))
    requests = (GenerateRequest((Message("user", text),)) for text in texts)
    return [Job(f"q{i}", 1, request) for i, request in enumerate(requests)]


def night_model(**options: Any) -> OpenAICompatible:
    """Return a model with a key, since services limit the rate of keys."""
    options = {"concurrency": 64, "api_key_env": "NIGHT_KEY", **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NIGHT_KEY", "key-of-the-night")
        return OpenAICompatible("toy", base_url=URL, **options)


def run_night(
    server: NightServer, jobs: list[Job], model: OpenAICompatible, **options: Any
) -> JobResults:
    """Run jobs in virtual time."""
    random.seed(1)  # the jitter of retries
    with pytest.MonkeyPatch.context() as patch:
        server.connect(patch)
        with asyncio.Runner(loop_factory=server.clock.new_loop) as runner:
            return runner.run(run_jobs_async(jobs, model, **options))


@dataclass(frozen=True)
class Pass:
    """Requests and time of a run against a token bucket."""

    n: int
    n_answered: int
    n_refused: int
    seconds: float
    ideal_s: float

    @property
    def wasted(self) -> float:
        """Fraction of requests that were rejected."""
        return self.n_refused / (self.n + self.n_refused)


def through_bucket(per_minute: int, headers: str, burst: float, minutes: float = MINUTES) -> Pass:
    clock = VirtualClock()
    server = NightServer(clock, Bucket(per_minute, burst, clock), headers=headers)
    n = int(per_minute * minutes)
    found = run_night(server, sums(n), night_model(), patience_s=None)
    ideal = (n - burst) / per_minute * 60.0 + server.latency_s
    n_once = sum(count == 1 for count in server.answered.values())
    return Pass(n, min(n_once, n - found.n_errors), server.n_refused, clock.now, ideal)


def main() -> None:
    print("| headers | per minute | burst | answered | refused | time / ideal |")
    print("|---|---:|---:|---:|---:|---:|")
    for headers in HEADERS:
        for per_minute in PER_MINUTE:
            for burst in (per_minute, 1):
                found = through_bucket(per_minute, headers, burst)
                print(
                    f"| {headers or 'none'} | {per_minute} | {burst} | {found.n_answered:,} of "
                    f"{found.n:,} | {found.wasted:.1%} | {found.seconds / found.ideal_s:.3f} |"
                )


if __name__ == "__main__":
    main()
