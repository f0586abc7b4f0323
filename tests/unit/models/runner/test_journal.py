"""The journal: finished is written, torn costs nothing, garbled costs one line."""

import errno
import json
import os
import threading

import pytest

from eval_toolkit._internal.files import limits
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models._background import Background
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.models.runner import Entry, Job, JobResult, Journal, run_jobs
from eval_toolkit.models.runner.entries import JournalledEntry, JournalledResult
from eval_toolkit.models.runner.journal_tail import JournalSoFar, read_on
from eval_toolkit.models.scripted import ScriptedModel

JOB = Job("q1", 1, GenerateRequest("2 + 2 ="))


def entry(n, text="fine"):
    return Entry(f"q{n}", 1, "", "ab", response={"text": text}, usage={"tries": 1})


def filled(path, n):
    with Journal(path) as journal:
        for i in range(n):
            journal.append(entry(i))
    return path.read_bytes()


def test_a_line_is_there_when_append_returns(tmp_path):
    journal = Journal(tmp_path / "deep" / "journal.jsonl")
    journal.describe(model="m", description={"kind": "x", "api_key": "abc"})
    journal.append(entry(0))
    head, line = map(json.loads, journal.path.read_text().splitlines())
    assert len(head.pop("crc")) == len(line.pop("crc")) == 8
    assert head == {
        "journal": 1,
        "model": "m",
        "description": {"kind": "x", "api_key": "[redacted]"},
    }
    assert line == {
        "unit_id": "q0",
        "attempt": 1,
        "step": "",
        "hash": "ab",
        "response": {"text": "fine"},
        "usage": {"tries": 1},
    }
    journal.close()


def test_no_file_is_an_empty_journal_and_reading_makes_none(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.read() == {}
    journal.close()
    assert not journal.path.exists()


def test_the_last_line_of_a_key_counts(tmp_path):
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.append(Entry("q0", 1, "", "ab", error={"kind": "timeout", "message": "late"}))
        journal.append(entry(0))
    assert journal.read()["q0", 1, ""].ok


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_costs_nothing_and_the_next_starts_afresh(tmp_path, cut):
    path = tmp_path / "j.jsonl"
    data = filled(path, 3)
    path.write_bytes(data[:-cut])
    there = Journal(path).read()
    whole = 3 if cut == 1 else 2  # without its line break alone, a line is whole
    assert len(there) == whole
    assert there.n_garbled == 0
    with Journal(path) as journal:
        journal.append(entry(9))
    after = journal.read()
    assert [key[0] for key in after] == [*(f"q{i}" for i in range(whole)), "q9"]
    assert after.n_garbled == 0


def test_a_torn_first_line_is_written_again(tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"jour')
    assert Journal(path).read() == {}
    with Journal(path) as journal:
        journal.append(entry(0))
    assert journal.read().head == {"journal": 1}
    assert len(journal.read()) == 1


def test_a_torn_line_longer_than_the_window_is_found_whole(tmp_path, monkeypatch):
    monkeypatch.delattr("os.pread", raising=False)  # as on Windows
    path = tmp_path / "j.jsonl"
    data = filled(path, 1)
    path.write_bytes(data + b'{"unit_id": "' + b"x" * 300_000)
    with Journal(path) as journal:
        journal.append(entry(5))
    assert list(journal.read()) == [("q0", 1, ""), ("q5", 1, "")]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\0",
        b"\xff\xfe{",
        b"not json",
        b"[" * 100_000,
        b'{"unit_id": "q"}',
        b'{"unit_id":"q","attempt":true,"step":"","hash":"a","response":{}}',
        b'{"unit_id":"q","attempt":1,"step":"","hash":"a"}',
        b'{"unit_id":"q","attempt":1,"step":"","hash":"a","response":{"x":NaN}}',
        b"3",
    ],
)
def test_a_garbled_line_is_counted_and_the_rest_is_kept(tmp_path, garbage):
    path = tmp_path / "j.jsonl"
    lines = filled(path, 4).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], garbage + b"\n", *lines[3:]]))
    there = Journal(path).read()
    assert len(there) == 4
    assert there.n_garbled == 1


def test_garbled_lines_are_reported(tmp_path):
    path = tmp_path / "j.jsonl"
    model = ScriptedModel("4")
    run_jobs([JOB], model, journal=Journal(path))
    with path.open("ab") as stream:
        stream.write(b"garbage\ngarbage\n")
    outcomes = run_jobs([JOB], model, journal=Journal(path))
    assert outcomes.n_reused == 1
    assert outcomes.notes == ("2 unreadable lines of the journal were ignored",)


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("this is\nnot a journal\n")
    with pytest.raises(
        ArtifactError, match=r"notes.txt: not a journal; none of its lines can be read"
    ):
        Journal(path).read()
    path.write_text('{"journal": 2}\n')
    with pytest.raises(ArtifactError, match="the journal has version 2, but this version of"):
        Journal(path).read()
    with pytest.raises(ArtifactError, match="cannot be read: a folder, not a regular file"):
        Journal(tmp_path).read()


def test_a_full_disk_stops_with_one_line_and_leaves_whole_lines(tmp_path, monkeypatch):
    path = tmp_path / "j.jsonl"
    room = 900
    write = os.write

    def short(file, data):
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = write(file, bytes(data)[:room])
        room -= n
        return n

    jobs = [Job(f"q{i}", 1, GenerateRequest(f"{i}")) for i in range(30)]
    model = ScriptedModel("fine")
    monkeypatch.setattr(os, "write", short)
    with pytest.raises(ArtifactError) as caught:
        run_jobs(jobs, model, journal=Journal(path))
    monkeypatch.undo()
    assert str(caught.value) == (
        f"{path}: the journal cannot be written: No space left on device; finished requests "
        "are kept; repeat the run to resume"
    )
    there = Journal(path).read()
    assert 0 < len(there) < 30
    assert path.read_bytes().endswith(b"\n"), "nothing half-written is left"
    outcomes = run_jobs(jobs, model, journal=Journal(path))
    assert outcomes.n_reused == len(there)
    assert outcomes.n_errors == 0


def test_a_failing_sync_stops_the_next_append_or_close(tmp_path, monkeypatch):
    synced = threading.Event()

    def failing(file):
        synced.set()
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(tmp_path / "j.jsonl")
    monkeypatch.setattr(os, "fsync", failing)
    journal.append(entry(0))
    assert synced.wait(600), "synced without being asked"
    with pytest.raises(ArtifactError, match="cannot be written: Input/output error"):
        journal.close()
    monkeypatch.undo()
    assert len(journal.read()) == 1


def test_closing_syncs_and_appending_opens_again(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file)))
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(entry(0))
    journal.close()
    assert synced
    journal.close()
    journal.append(entry(1))
    journal.close()
    assert len(journal.read()) == 2
    assert journal.path.read_text().count('"journal"') == 1


def test_odd_texts_and_numbers_come_back_as_they_were(tmp_path):
    odd = "line\nbreak\u2028\u0085 \0 \x1b é 中 😀 \"'\\ NaN"
    request = LoglikelihoodRequest(odd, (odd, " b", " b"))
    responses = [
        (JOB.request, RawCompletion(odd, finish_reason="length", usage=Usage(3, 4, 0.5, 1.5, 2))),
        (GenerateRequest(odd), RawCompletion("", prompt=odd, prompt_tokens=0)),
        (GenerateRequest("a"), RawCompletion("x", prompt="as it was sent")),
        (request, RawLoglikelihood([-0.1, float("-inf"), -2], request.continuations)),
        (request, RawLoglikelihood([-0.1, -3, -2], n_tokens=[1, 2, 3], is_greedy=[1, 0, 0])),
        (request, RawLoglikelihood({"other": -1.0, "names": -2.0}, prompt=odd, prompt_tokens=7)),
    ]
    outcomes = [
        JobResult(Job(f"q{i}", 1, request, odd), response, request_hash="h")
        for i, (request, response) in enumerate(responses)
    ]
    with Journal(tmp_path / "j.jsonl") as journal:
        for outcome in outcomes:
            journal.append(Entry.of(outcome))
    assert journal.path.read_bytes().isascii()
    there = journal.read()
    for outcome in outcomes:
        again = there[outcome.job.key].answer(outcome.job, "h")
        assert again.response == outcome.response
        assert there[outcome.job.key].answer(outcome.job, "other") is None


def test_what_the_request_says_is_not_written_again(tmp_path):
    long = "word " * 1000
    job = Job("q", 1, LoglikelihoodRequest(long, (" yes", " no")))
    line = Entry.of(
        JobResult(job, RawLoglikelihood([-1, -2], (" yes", " no"), prompt=long), request_hash="h")
    ).line()
    assert len(line) < 300


def test_an_entry_with_an_error_is_no_answer():
    outcome = JobResult(JOB, error=ErrorInfo("timeout", "late"), request_hash="h")
    assert Entry.of(outcome).answer(JOB, "h") is None
    assert json.loads(Entry.of(outcome).line())["error"]["kind"] == "timeout"


def test_many_lines_are_read(tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_bytes(b'{"journal": 1}\n' + b"".join(entry(n).line() for n in range(20_000)))
    assert len(Journal(path).read()) == 20_000


def test_background_work_is_done_once_for_many_calls_and_again_after_a_rest():
    done = []
    background = Background(lambda: done.append(1), interval_s=0.01)
    for _ in range(50):
        background.wake()
    background.close()
    assert 1 <= len(done) <= 50
    n = len(done)
    background.close()
    assert len(done) == n, "nothing is due"
    background.wake()
    background.close()
    assert len(done) == n + 1


@pytest.mark.parametrize("odd", ["1e999", "NaN", "9" * 400, "[" * 200 + "]" * 200])
def test_a_line_with_a_number_that_is_none_is_counted_and_asked_again(tmp_path, odd):
    """1e999 is JSON by its letters, and infinity once it is read."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        for name in ("q1", "q2"):
            outcome = JobResult(Job(name, 1, GenerateRequest("?")), RawCompletion("!"))
            journal.append(Entry.of(outcome))
    head, first, second = path.read_text().splitlines()
    path.write_text("\n".join([head, f'{first[:-1]}, "odd": {odd}}}', second]) + "\n")
    entries = Journal(path).read()
    assert [key[0] for key in entries] == ["q2"]
    assert entries.n_garbled == 1


def append_to(path):
    with Journal(path) as journal:
        outcome = JobResult(Job("q1", 1, GenerateRequest("?")), RawCompletion("$(touch canary)"))
        journal.append(Entry.of(outcome))


@pytest.mark.parametrize("there", [b"alias x=y", b"", None])
def test_a_link_in_the_place_of_a_journal_leads_to_no_other_file(tmp_path, there):
    """A folder that came from somebody else would say which file of the user is written to."""
    mine = tmp_path / "bashrc"
    if there is not None:
        mine.write_bytes(there)
    (tmp_path / "journal.jsonl").symlink_to(mine)
    with pytest.raises(ArtifactError, match=r"journal\.jsonl: cannot be written: a link"):
        append_to(tmp_path / "journal.jsonl")
    assert (mine.read_bytes() if mine.exists() else None) == there


def test_a_pipe_in_the_place_of_a_journal_blocks_nothing(tmp_path):
    path = tmp_path / "journal.jsonl"
    os.mkfifo(path)
    with pytest.raises(ArtifactError, match="a pipe, not a regular file"):
        Journal(path).read()
    with pytest.raises(ArtifactError, match="a pipe, not a regular file"):
        append_to(path)


def test_a_line_without_end_is_not_read(tmp_path, monkeypatch):
    """A file of gigabytes of zeros takes no room in an archive."""
    monkeypatch.setattr(limits, "LINE_BYTES", 1 << 20)
    path = tmp_path / "journal.jsonl"
    with path.open("wb") as stream:
        stream.truncate(1 << 33)
    for read in (
        Journal(path).read,
        lambda: read_on(path, JournalSoFar()),
        lambda: append_to(path),
    ):
        with pytest.raises(ArtifactError, match=r"too long|longer than"):
            read()


def test_a_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        for n in range(3):
            journal.append(entry(n))
    whole = path.read_bytes()
    start = whole.index(b"\n", whole.index(b"\n") + 1)  # the second answer
    stop = whole.index(b"\n", start + 1)
    for at in range(start + len(b'\n{"crc":"'), stop):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = Journal(path).read()
        assert ("q1", 1, "") not in found
        assert ("q0", 1, "") in found
        assert ("q2", 1, "") in found
        assert found.n_garbled == 1


def test_a_journal_without_checksums_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "j.jsonl"
    old = {"unit_id": "q0", "attempt": 1, "step": "", "hash": "ab", "response": {"text": "4"}}
    path.write_text(f'{{"journal":1}}\n{json.dumps(old)}\n')
    with Journal(path) as journal:
        journal.append(entry(1))
    found = Journal(path).read()
    assert sorted(key[0] for key in found) == ["q0", "q1"]
    assert found.n_garbled == 0
    assert path.read_bytes().count(b'"crc"') == 1


def test_answers_may_stay_in_the_journal(tmp_path, monkeypatch):
    """Beyond a size, only positions are held; the answers are the same."""
    written = [
        Entry("q1", 1, "", "ab", response={"text": "4"}, usage={"prompt_tokens": 3}),
        Entry('"é\\', 2, "judge:a\nb", "cd", response={"text": "ü" * 90, "prompt": "x"}),
        Entry("q2", 1, "", "ef", error={"kind": "timeout", "message": "late"}),
        Entry("q1", 1, "", "ad", response={"text": "5"}),
    ]
    with Journal(tmp_path / "j") as journal:
        spans = [journal.append(entry) for entry in written]
    held = journal.read()
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    stored = Journal(tmp_path / "j").read()
    assert type(stored["q1", 1, ""]) is JournalledEntry
    assert list(stored) == list(held)
    assert {key: entry.loaded() for key, entry in stored.items()} == held
    assert [entry.ok for entry in stored.values()] == [True, True, False]
    job = Job("q1", 1, GenerateRequest("2 + 3 ="))
    assert stored["q1", 1, ""].answer(job, "other") is None
    assert stored["q1", 1, ""].answer(job, "ad").loaded() == held["q1", 1, ""].answer(job, "ad")
    first = JournalledResult(job, journal.parts, spans[0])
    assert (first.response.text, first.request_hash, first.ok) == ("4", "ab", True)


def test_a_damaged_line_is_not_taken_for_an_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    path = tmp_path / "j"
    with Journal(path) as journal:
        span = journal.append(Entry("q1", 1, "", "ab", response={"text": "4"}))
        kept = journal.read()["q1", 1, ""]
    path.write_bytes(path.read_bytes().replace(b'"4"', b'"5"'))
    found = Journal(path).read()
    assert (list(found), found.n_garbled) == ([], 1)
    with pytest.raises(ArtifactError, match="was changed while it was in use"):
        kept.loaded()
    path.write_bytes(path.read_bytes()[: span[0] + 3])
    with pytest.raises(ArtifactError, match="was changed while it was in use"):
        kept.loaded()
