"""Twelve hours of a night in virtual time: limits, outages, a killed client, a moved server."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.night_run import URL
from tests.support.night_server import Bucket, NightServer
from tests.support.virtual_time import VirtualClock

from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.runs import Outcome
from eval_toolkit.tasks import run_task

HOUR = 3600.0
MOVED = "http://elsewhere.example:8001/v1"


def night(server: NightServer, n: int, out: Path | None, url: str = URL, **options: Any) -> Outcome:
    rows = [
        {"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(n)
    ]
    named = {name: options.pop(name) for name in ("model_id",) if name in options}
    model = OpenAICompatible("toy", base_url=url, **named)
    given = {"graders": ["exact_match"], "formatter": "chat", **options}
    with pytest.MonkeyPatch.context() as patch:
        server.connect(patch)
        return run_task(rows, model, out, **given)


def test_twelve_hours_answer_every_sample_once(tmp_path: Path) -> None:
    clock = VirtualClock()
    server = NightServer(clock, Bucket(20, 20, clock), latency_s=5.0, served={"root": "/toy"})
    server.outages = [
        (1.0 * HOUR, 1.0 * HOUR + 60.0, "502"),
        (3.0 * HOUR, 3.0 * HOUR + 1500.0, "refused"),
        (7.0 * HOUR, 8.0 * HOUR, "refused"),
    ]
    n = 12_000
    out = tmp_path / "night"

    server.stop_at, server.stop = 5.0 * HOUR, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        night(server, n, out)
    assert 5.0 * HOUR <= clock.now <= 5.1 * HOUR

    with pytest.raises(
        ModelError, match="has been unavailable since"
    ):  # an hour is longer than the patience
        night(server, n, out)
    assert 7.5 * HOUR <= clock.now <= 7.6 * HOUR

    clock.now = 8.2 * HOUR
    server.hosts = {"elsewhere.example"}
    done = night(server, n, out, MOVED)
    assert clock.now <= 12.5 * HOUR
    assert done.card["exact_match"].value == 1.0
    assert (done.n_requests, done.n_errors, done.n_failed_requests) == (n, 0, 0)
    assert len(server.answered) == n
    assert set(server.answered.values()) == {1}
    assert server.n_refused <= 0.05 * n
    assert night(server, n, out, MOVED).n_asked == 0


def test_another_model_of_the_same_name_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "r"
    night(NightServer(VirtualClock(), served={"root": "/a"}), 9, out, limit=5)
    other = NightServer(VirtualClock(), served={"root": "/b"})
    other.hosts = {"elsewhere.example"}
    with pytest.raises(ArtifactError, match="does not report the same model"):
        night(other, 9, out, MOVED)
    done = night(other, 9, out, MOVED, model_id="toy-2026")  # the user vouches for it
    assert (done.n_asked, done.n_reused) == (4, 5)
    assert set(other.answered.values()) == {1}


def test_a_model_id_continues_runs_and_caches_anywhere(tmp_path: Path) -> None:
    server = NightServer(VirtualClock(), served={"root": "/a"})
    moved = NightServer(VirtualClock(), served={"root": "/b"})
    moved.hosts = {"elsewhere.example"}
    with ResponseCache(tmp_path / "cache.sqlite") as cache:
        told = {"model_id": "toy-2026", "cache": cache}
        first = night(server, 7, tmp_path / "r", limit=5, **told)
        again = night(moved, 7, tmp_path / "r", MOVED, **told)
        third = night(moved, 7, tmp_path / "s", MOVED, **told)
    assert (first.n_asked, again.n_asked, again.n_reused) == (5, 2, 5)
    assert (third.n_asked, third.n_cached) == (0, 7)
    with pytest.raises(ArtifactError, match="id:toy-2026"):
        night(moved, 7, tmp_path / "r", MOVED, model_id="toy-2027")
