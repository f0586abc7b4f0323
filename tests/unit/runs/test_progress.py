"""How far a run is: counted from its journal as another process writes it."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.models.responses import ErrorInfo
from eval_toolkit.models.runner import Entry, Journal
from eval_toolkit.models.runner import journal_tail as journals
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import Budget, System, run_rollouts
from eval_toolkit.runs import Run, RunProgress, open_run, read_progress, run_state
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.runs.lock import run_lock
from eval_toolkit.runs.open import JOURNAL
from eval_toolkit.runs.progress import Position

HEAD = b'{"journal":1}\n'
WATCHED = Path(__file__).with_name("watched_run.py")
N_SAMPLES = 60  # as there; 6 of their numbers end in 3, and fail


def answered(unit: str, text: str = "4", step: str = "", tokens: int = 2) -> Entry:
    usage = {"prompt_tokens": 10, "completion_tokens": tokens}
    return Entry(unit, 1, step, "ab", response={"text": text}, usage=usage)


def failed(unit: str, kind: str = "timeout", message: str = "no answer", step: str = "") -> Entry:
    return Entry(unit, 1, step, "ab", error=ErrorInfo(kind, message).to_dict())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run that was interrupted, with an empty journal."""
    path = tmp_path / "r1"
    manifest = {"run_id": "r1", "kind": "task", "counts": {"n_planned": 50}}
    with open_run(path, manifest=manifest) as opened:
        opened.journal_path.write_bytes(HEAD + b"{}\n")
    (path / JOURNAL).write_bytes(b"")
    return path


def write(folder: Path, *entries: Entry) -> None:
    with Journal(folder / JOURNAL) as journal:
        for entry in entries:
            journal.append(entry)


def same(one: RunProgress, other: RunProgress) -> bool:
    """Return whether two tell the same, times aside."""
    left, right = (told.to_dict() | {"rate": None, "eta_s": None} for told in (one, other))
    return left == right


class TestCounts:
    def test_answers_errors_tokens_and_judges(self, folder: Path) -> None:
        write(
            folder,
            answered("q1"),
            failed("q2"),
            failed("q3"),
            failed("q4", "rate_limit", "slow\ndown"),
            answered("q1", step="judge:strict", tokens=7),
            failed("q2", step="judge:strict"),
        )
        told = read_progress(folder)
        assert (told.state, told.holder, told.run_id, told.kind) == (
            "incomplete",
            None,
            "r1",
            "task",
        )
        assert (told.n_done, told.n_planned, told.n_errors) == (4, 50, 3)
        assert told.reasons == (("timeout: no answer", 2), ("rate_limit: slow down", 1))
        assert (told.prompt_tokens, told.completion_tokens) == (10, 2)
        assert (told.judges.n_done, told.judges.n_errors) == (2, 1)
        assert told.judges.completion_tokens == 7
        assert (told.rate, told.eta_s) == (None, None)
        assert told.started_at is not None
        assert told.last_at is not None
        assert told.started_at <= told.last_at
        json.dumps(told.to_dict(), allow_nan=False)

    def test_a_request_that_was_asked_again_counts_once(self, folder: Path) -> None:
        write(folder, failed("q1"), failed("q2"), answered("q1"), failed("q2", "other", "again"))
        told = read_progress(folder)
        assert (told.n_done, told.n_errors, told.reasons) == (2, 1, (("other: again", 1),))

    def test_tokens_that_only_the_answer_tells(self, folder: Path) -> None:
        response = {"text": "4", "prompt_tokens": 11, "completion_tokens": 3}
        usage = {"prompt_tokens": 0, "completion_tokens": 0}
        write(folder, Entry("q1", 1, "", "ab", response=response, usage=usage))
        told = read_progress(folder)
        assert (told.prompt_tokens, told.completion_tokens) == (11, 3)

    def test_torn_and_garbled_lines(self, folder: Path) -> None:
        write(folder, answered("q1"))
        lines = [b"garbage\n", b"\xff\xfe\n", b"[1]\n", b'{"unit_id":"q9"}\n', b"\n"]
        with (folder / JOURNAL).open("ab") as stream:
            stream.write(b"".join(lines) + answered("q2").line()[:-9])
        told = read_progress(folder)
        assert (told.n_done, told.n_garbled) == (1, 4)
        assert [entry.unit_id for entry in told.tail()] == ["q1"]

    def test_no_line_and_no_journal(self, folder: Path) -> None:
        told = read_progress(folder)
        assert (told.n_done, told.n_garbled, told.tail()) == (0, 0, [])
        (folder / JOURNAL).unlink()
        told = read_progress(folder)
        assert (told.n_done, told.last_at, told.tail()) == (0, None, [])

    def test_more_than_were_planned_says_that_the_plan_is_unknown(self, folder: Path) -> None:
        write(folder, *(answered(f"q{n}") for n in range(51)))
        assert read_progress(folder).n_planned is None

    def test_a_later_version_and_other_folders_are_refused(
        self, folder: Path, tmp_path: Path
    ) -> None:
        (folder / JOURNAL).write_bytes(b'{"journal":2}\n')
        with pytest.raises(ArtifactError, match="version 2"):
            read_progress(folder)
        with pytest.raises(ArtifactError, match="not a run"):
            read_progress(tmp_path)
        with pytest.raises(ArtifactError, match="no such folder"):
            read_progress(tmp_path / "nowhere")
        with pytest.raises(InvalidTypeError, match="`since` is int"):
            read_progress(folder, since=7)  # type: ignore[arg-type]

    def test_a_run_whose_manifest_is_not_there_yet(self, tmp_path: Path) -> None:
        with run_lock(tmp_path):
            told = read_progress(tmp_path)
        assert (told.state, told.n_done, told.n_planned) == ("running", 0, None)


@pytest.mark.parametrize("odd", [{"12": 12}, [1], "many", None, True])
def test_counts_of_a_finished_run_may_be_anything(folder: Path, odd: Any) -> None:
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    usage = {"prompt_tokens": odd, "completion_tokens": 7}
    counts = {"n_requests": odd, "n_failed_requests": odd}
    judges = {"j": {"n_requests": odd, "usage": usage}, "k": odd}
    finished = {"status": "complete", "usage": usage, "counts": counts, "judges": judges}
    path.write_text(json.dumps(manifest | finished))
    told = read_progress(folder)
    assert (told.state, told.completion_tokens, told.judges.completion_tokens) == ("complete", 7, 7)
    assert told.n_done == (1 if odd is True else None)


class TestSince:
    @settings(max_examples=40, deadline=None)
    @given(
        parts=st.lists(
            st.lists(
                st.tuples(
                    st.sampled_from("abcdef"), st.booleans(), st.sampled_from(["", "judge:j"])
                ),
                max_size=5,
            ),
            max_size=6,
        ),
        cut=st.integers(0, 40),
    )
    def test_reading_on_tells_the_same_as_reading_all(
        self, tmp_path_factory: pytest.TempPathFactory, parts: Any, cut: int
    ) -> None:
        folder = tmp_path_factory.mktemp("run")
        (folder / MANIFEST).write_text('{"run_id": "r1", "status": "running"}')
        journal = folder / JOURNAL
        journal.write_bytes(HEAD)
        position, done = None, set()
        for part in parts:
            for unit, ok, step in part:
                if (unit, step) not in done:  # what was answered is not asked again
                    entry = answered(unit, step=step) if ok else failed(unit, step=step)
                    line = entry.line()
                    with journal.open("ab") as stream:
                        stream.write(line[:cut])
                        stream.flush()
                        position = read_progress(folder, since=position).position
                        stream.write(line[cut:])
                    done |= {(unit, step)} if ok else set()
            told = read_progress(folder, since=position)
            position = told.position
            assert same(told, read_progress(folder))

    def test_the_same_position_may_be_used_twice(self, folder: Path) -> None:
        write(folder, failed("q1"))
        first = read_progress(folder)
        write(folder, answered("q1"), failed("q2"))
        assert same(
            read_progress(folder, since=first.position), read_progress(folder, since=first.position)
        )
        assert (first.n_done, first.n_errors) == (1, 1)

    def test_another_journal_is_read_from_its_beginning(self, folder: Path) -> None:
        write(folder, answered("q1"), answered("q2"), answered("q3"))
        position = read_progress(folder).position
        (folder / JOURNAL).unlink()
        write(folder, failed("p1"))
        assert read_progress(folder, since=position).n_done == 1
        position = read_progress(folder, since=position).position
        lines = [failed("p1"), *(answered(f"p{n}") for n in range(2, 9))]
        (folder / JOURNAL).unlink()
        write(folder, *lines)
        assert read_progress(folder, since=position).n_done == 8

    def test_a_torn_line_that_is_mended_is_read_once(self, folder: Path) -> None:
        write(folder, answered("q1"))
        with (folder / JOURNAL).open("ab") as stream:
            stream.write(answered("q2").line()[:30])
        position = read_progress(folder).position
        write(folder, answered("q2"))  # the journal cuts off what is torn
        told = read_progress(folder, since=position)
        assert (told.n_done, told.n_garbled) == (2, 0)


class TestRate:
    def test_over_the_last_half_minute(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [1000.0]
        monkeypatch.setattr("eval_toolkit.runs.progress.time.time", lambda: clock[0])
        position: Position | None = None
        with run_lock(folder):  # the manifest is older: the run was resumed
            for second in range(45):
                told = read_progress(folder, since=position)
                position = told.position
                assert told.state == "running"
                if second == 0:
                    assert told.rate is None
                    assert told.eta_s is None
                elif second == 20:
                    assert told.rate == 2.0
                    assert told.eta_s == (50 - 40) / 2.0
                if second < 20:
                    write(folder, answered(f"q{second}"), answered(f"r{second}"))
                clock[0] += 1.0
        # Read 44 seconds after the first time: of the last 30 the first 6 had 2 answers each.
        assert told.rate == pytest.approx(2 * 6 / 30)

    def test_from_the_start_where_nothing_was_there_before(self, tmp_path: Path) -> None:
        manifest = {"run_id": "r1", "counts": {"n_planned": 30}}
        with open_run(tmp_path / "r1", manifest=manifest) as opened:
            write(opened.path, *(answered(f"q{n}") for n in range(10)))
            lock = opened.path / "run.lock"
            began = time.time() - 100
            os.utime(lock, (began, began))
            told = read_progress(opened.path)
            assert told.rate == pytest.approx(10 / 100, rel=0.2)
            assert told.eta_s == pytest.approx(20 / 0.1, rel=0.2)


class TestTail:
    def test_the_last_entries_in_their_order(self, folder: Path) -> None:
        long = "x" * 2_001
        write(folder, *(answered(f"q{n}", f"a{n}") for n in range(30)))
        write(folder, answered("long", long), failed("bad"), answered("q", "v", step="judge:j"))
        write(folder, Entry("mc", 1, "", "ab", response={"loglikelihoods": [-1.25, "-inf"]}))
        tail = read_progress(folder).tail(6)
        assert [entry.unit_id for entry in tail] == ["q28", "q29", "long", "bad", "q", "mc"]
        assert tail[0].text == "a28"
        assert tail[2].text == "x" * 1_999 + "…"
        assert (tail[3].ok, tail[3].text, tail[3].error) == (False, None, "timeout: no answer")
        assert tail[4].step == "judge:j"
        assert tail[5].text == "-1.25, -inf"
        assert len(read_progress(folder).tail(100)) == 34
        with pytest.raises(InvalidInputError, match="at least 1"):
            read_progress(folder).tail(0)

    @pytest.mark.parametrize("size", [1, 2, 7, 1 << 16])
    def test_whatever_the_size_of_the_blocks(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        monkeypatch.setattr(journals, "_BLOCK", size)
        write(folder, *(answered(f"q{n}", "é\n" * n) for n in range(9)))
        for torn in (b"", b"x", b'{"unit_id":'):
            (folder / JOURNAL).write_bytes((folder / JOURNAL).read_bytes() + torn)
            tail = read_progress(folder).tail(20)
            assert [(entry.unit_id, entry.text) for entry in tail] == [
                (f"q{n}", "é\n" * n) for n in range(9)
            ]

    def test_half_a_surrogate_pair_can_be_shown(self, folder: Path) -> None:
        write(folder, answered("q\ud83d", "half \ud83d"), failed("q2", "other", "\ud83d"))
        told = read_progress(folder)
        shown = json.dumps([entry.to_dict() for entry in told.tail()], ensure_ascii=False)
        assert "half \ufffd" in shown.encode().decode()
        assert told.reasons == (("other: \ufffd", 1),)


class Counting(io.FileIO):
    """A file that counts the bytes that are read from it."""

    n_read = 0

    def readinto(self, buffer: Any) -> int | None:
        n = super().readinto(buffer)
        Counting.n_read += n or 0
        return n


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Counting]]:
    def opened(path: Path) -> BinaryIO:
        return io.BufferedReader(Counting(str(path), "rb"))

    Counting.n_read = 0
    with monkeypatch.context() as patched:
        patched.setattr(journals, "_opened", opened)
        yield Counting


def test_a_large_journal_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_lines, text = 40, "x" * 1_000_000
    with (folder / JOURNAL).open("wb") as stream:
        stream.write(HEAD)
        for n in range(n_lines):
            stream.write(answered(f"q{n}", text).line())
        for n in range(100):
            stream.write(answered(f"short{n}", "y" * 500).line())
    assert (folder / JOURNAL).stat().st_size > 40_000_000
    told = read_progress(folder)
    assert told.n_done == n_lines + 100
    with counted(monkeypatch) as file:
        tail = told.tail(20)
        assert [entry.unit_id for entry in tail] == [f"short{n}" for n in range(80, 100)]
        assert 0 < file.n_read <= 1 << 17
    with counted(monkeypatch) as file:
        assert len(told.tail(200)) == 100 + 16  # as many of the long ones as 16 MiB hold
        assert 0 < file.n_read <= (1 << 24) + (1 << 17)
    with counted(monkeypatch) as file:
        assert read_progress(folder, since=told.position).n_done == n_lines + 100
        assert file.n_read <= 1 << 16
    write(folder, answered("one more"))
    with counted(monkeypatch) as file:
        assert read_progress(folder, since=told.position).n_done == n_lines + 101
        assert 0 < file.n_read <= 1 << 16
    (folder / JOURNAL).unlink()  # 40 MB


def start(folder: Path, delay: float) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, str(WATCHED), str(folder), str(delay)])


def watch(folder: Path, process: "subprocess.Popen[bytes]", until: int) -> list[RunProgress]:
    """Poll a run until so many requests are finished, or its process is."""
    seen: list[RunProgress] = []
    position: Position | None = None
    for _ in range(3_000):
        # At first there is no folder, and then one without a lock.
        if folder.exists() and run_state(folder) != "not a run":
            told = read_progress(folder, since=position)
            seen.append(told)
            position = told.position
            if (told.n_done or 0) >= until:
                return seen
        if process.poll() is not None:
            return seen
        time.sleep(0.02)
    raise AssertionError("the run did not get there")


def test_a_run_is_followed_killed_and_followed_again(tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    process = start(folder, 0.15)
    try:
        seen = watch(folder, process, 10)
        running = seen[-1]
        assert running.state == "running"
        assert f"process {process.pid}" in str(running.holder)
        assert (running.kind, running.n_planned) == ("task", N_SAMPLES)
        counts = [told.n_done or 0 for told in seen]
        assert counts == sorted(counts)
        assert len(set(counts)) > 1  # it was seen to grow
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = read_progress(folder)
    assert (left.state, left.holder, left.rate) == ("incomplete", None, None)
    assert run_state(folder).startswith("incomplete")
    assert left.n_done is not None
    assert 10 <= left.n_done < N_SAMPLES
    lines = [json.loads(line) for line in (folder / JOURNAL).read_bytes().split(b"\n")[1:-1]]
    assert left.n_done == len(lines)
    assert left.n_errors == sum("error" in line for line in lines)
    expected = Counter("connection: the connection was reset" for line in lines if "error" in line)
    assert dict(left.reasons) == expected
    assert left.tail(3)[-1].unit_id == lines[-1]["unit_id"]

    process = start(folder, 0.0)
    seen = watch(folder, process, N_SAMPLES)
    assert process.wait() == 0
    done = read_progress(folder, since=left.position)
    assert (done.state, done.n_done, done.n_planned) == ("complete", N_SAMPLES, N_SAMPLES)
    assert (done.n_errors, done.eta_s, done.tail()) == (6, 0.0, [])
    assert "n_planned" not in Run.open(folder).manifest["counts"]


@pytest.mark.parametrize(("budget", "planned"), [(None, 12), (Budget(calls=5), 5)])
def test_rollouts_say_how_many_requests_there_will_be(
    tmp_path: Path, budget: Budget | None, planned: int
) -> None:
    folder, seen = tmp_path / "rolled", []

    def target(request: Any) -> str:
        seen.append(read_progress(folder))
        return "No."

    system: System[Any, Any] = System(
        ScriptedModel("Please."), ScriptedModel(target), lambda texts: [0.0] * len(texts)
    )
    # 2 seeds with 3 turns of 2 requests each.
    run_rollouts(system, ["Growl", "Bark"], folder, depth=3, budget=budget, concurrency=1)
    assert {(told.state, told.kind, told.n_planned) for told in seen} == {
        ("running", "rollout", planned)
    }
    done = read_progress(folder)
    assert (done.state, done.n_done, done.n_planned) == ("complete", planned, planned)
    assert "n_planned" not in Run.open(folder).manifest["counts"]
