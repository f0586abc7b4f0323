"""A server that is gone for a while, in virtual time: waited for, or left with everything kept."""

import socket
import socketserver
import ssl
import threading
from pathlib import Path

import pytest
from tests.support.night_run import night_model, run_night, sums
from tests.support.night_server import NightServer
from tests.support.virtual_time import VirtualClock

from eval_toolkit._internal.display.progress import ProgressBar
from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.openai_compatible.failures import can_heal
from eval_toolkit.models.runner import Journal, Progress, run_jobs


@pytest.mark.parametrize("kind", ["refused", "reset", "502", "503", "504", "529"])
@pytest.mark.parametrize("seconds", [60.0, 1500.0])
def test_a_server_that_comes_back_is_waited_for(kind: str, seconds: float) -> None:
    server = NightServer(VirtualClock(), latency_s=1.0)
    server.outages = [(20.0, 20.0 + seconds, kind)]
    found = run_night(server, sums(2500), night_model(), patience_s=None)
    assert found.n_errors == 0
    assert set(server.answered.values()) == {1}
    assert server.clock.now < 20.0 + seconds + 30.0 + 60.0
    assert server.statuses[kind] < 64 * 5 + 200


def test_an_hour_is_waited_for_if_asked() -> None:
    server = NightServer(VirtualClock(), latency_s=1.0)
    server.outages = [(20.0, 3620.0, "refused")]
    found = run_night(server, sums(2500), night_model(), patience_s=7200.0)
    assert found.n_errors == 0


def test_longer_than_the_patience_stops_and_keeps_everything(tmp_path: Path) -> None:
    server = NightServer(VirtualClock(), latency_s=1.0)
    server.outages = [(20.0, 5000.0, "refused")]
    journal = tmp_path / "journal.jsonl"
    with pytest.raises(
        ModelError, match=r"has been unavailable since .* patience of 30 min 00 s.*kept"
    ) as caught:
        run_night(server, sums(2500), night_model(), journal=Journal(journal), patience_s=None)
    assert caught.value.kind == "unreachable"
    assert 1800.0 <= server.clock.now <= 1900.0
    known = Journal(journal).read()
    assert len(known) == len(server.answered) > 500
    assert all(entry.ok for entry in known.values())  # nothing is stored as failed
    server.clock.now = 5000.0
    found = run_night(server, sums(2500), night_model(), journal=Journal(journal), patience_s=None)
    assert (found.n_errors, found.n_reused) == (0, len(known))
    assert set(server.answered.values()) == {1}


def test_a_server_that_never_answered_is_not_waited_for_unless_asked() -> None:
    server = NightServer(VirtualClock())
    server.outages = [(0.0, 300.0, "refused")]
    with pytest.raises(ModelError, match="requests failed in a row"):
        run_night(server, sums(100), night_model(), patience_s=None)
    assert server.clock.now < 60.0
    found = run_night(server, sums(100), night_model(), patience_s=600.0)
    assert found.n_errors == 0


def test_a_prompt_that_fails_alone_is_no_outage() -> None:
    server = NightServer(VirtualClock(), latency_s=1.0)
    server.poison = "What is 700 + 1?"
    found = run_night(server, sums(2500), night_model(), patience_s=None)
    assert [outcome.job.unit_id for outcome in found if not outcome.ok] == ["q700"]
    assert server.clock.now < 200.0


def test_a_prompt_that_fails_while_no_other_is_asked_ends_with_the_patience() -> None:
    server = NightServer(VirtualClock(), latency_s=1.0)
    server.poison = "What is 9 + 1?"
    with pytest.raises(ModelError, match="has been unavailable since") as caught:
        run_night(server, sums(10), night_model(concurrency=1), patience_s=60.0)
    assert caught.value.kind == "unreachable"
    assert server.clock.now < 200.0


def test_progress_says_since_when_the_server_is_away() -> None:
    server = NightServer(VirtualClock(), latency_s=1.0)
    server.outages = [(20.0, 200.0, "refused")]
    lines: list[str] = []
    told: list[Progress] = []
    bar = ProgressBar(lines.append)

    def tell(progress: Progress) -> None:
        told.append(progress)
        bar(progress)

    with bar:
        run_night(server, sums(2500), night_model(), patience_s=None, on_progress=tell)
    away = [progress for progress in told if progress.away_since is not None]
    assert away
    assert away[0].to_dict()["away_since"] == away[0].away_since.isoformat(timespec="seconds")
    assert told[-1].away_since is None
    assert sum("server unreachable since " in line for line in lines) >= 1
    assert "server unreachable" not in lines[-1]


def test_tls_that_is_refused_stops_at_once() -> None:
    class Plain(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.request.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever).start()
        model = OpenAICompatible("toy", base_url=f"https://127.0.0.1:{server.server_address[1]}/v1")
        try:
            with pytest.raises(
                ModelError, match=r"requests stopped: .* cannot be reached"
            ) as caught:
                run_jobs(sums(3), model, patience_s=None)
        finally:
            server.shutdown()
        assert model.totals().n_requests <= 3
    assert (caught.value.kind, caught.value.tries) == ("unreachable", 1)
    assert "\n" not in str(caught.value)


def test_what_can_heal() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    later = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    wrapped = OSError("cannot connect")
    wrapped.os_error = unknown  # type: ignore[attr-defined]  # as aiohttp's errors have it
    refused = ssl.SSLError(1, "wrong version number")
    refused.reason = "WRONG_VERSION_NUMBER"
    cut = ssl.SSLError(8, "EOF occurred in violation of protocol")
    cut.reason = "UNEXPECTED_EOF_WHILE_READING"
    certificate = ssl.SSLCertVerificationError(1, "certificate has expired")
    healing = {
        (type(error).__name__, str(error)[:12], known): can_heal(error, known=known)
        for error in (unknown, later, wrapped, refused, cut, certificate)
        for known in (False, True)
    }
    never = {key for key, heals in healing.items() if not heals}
    assert {name for name, _, known in never if known} == {"SSLError", "SSLCertVerificationError"}
    assert not can_heal(unknown, known=False)
    assert not can_heal(wrapped, known=False)
    assert can_heal(later, known=False)
    assert can_heal(cut, known=False)
