"""Run folders: what is written is read back, and nothing else is."""

import copy
import errno
import json
import math
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from eval_toolkit._internal.files import atomic
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.tables import read_table, write_table
from eval_toolkit.artifacts import validate_manifest, write_json_strict
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.manifest import build_manifest, seal_manifest, write_manifest
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner import Job, JobResult, Journal
from eval_toolkit.models.runner.journal import Entry
from eval_toolkit.report import write_report
from eval_toolkit.runs import Run, find_runs, open_run, run_lock, run_state, write_run
from eval_toolkit.runs.resuming import holds
from eval_toolkit.scorecards import Records


def payload(run_id="r1", value=0.8):
    block = {"n": 2, "n_positive": 1, "pr_auc": {"value": value, "status": "ok", "reason": ""}}
    return {
        "schema_version": "v1",
        "run_id": run_id,
        "config": {"n_resamples": 10},
        "by_slice": {"test": {"n": 2, "n_positive": 1, "by_scorer": {"m.v1": block}}},
    }


def some_records(shift=0.0):
    return {
        ("test", "m.v1"): Records.from_rows(
            [1, 0],
            [0.9 - shift, 0.1],
            inputs=["b", "a"],
            group=["g", "g"],
            slices={"lang": ["x", "y"]},
        ),
        ("test", "judge"): Records.from_columns(
            {"reward": [0.5, None, None]},
            unit_id=["q1", "q1", "q2"],
            status={"reward": ["ok", "error", "skipped"]},
            reason={"reward": [None, "time-out", "no answer"]},
        ),
    }


def equal(a: Records, b: Records) -> bool:
    same = a.unit_id.tolist() == b.unit_id.tolist() and a.attempt.tolist() == b.attempt.tolist()
    same &= (
        a.content_hash.tolist() == b.content_hash.tolist() and a.group.tolist() == b.group.tolist()
    )
    for field in ("slices", "columns", "status", "reason"):
        one, two = getattr(a, field), getattr(b, field)
        same &= list(one) == list(two) and all(one[k].tolist() == two[k].tolist() for k in one)
    return same


@pytest.fixture
def run(tmp_path):
    return write_run(
        tmp_path / "r1",
        results=payload(),
        results_full={**payload(), "full": True},
        manifest=build_manifest(run_id="r1", config={"k": 3}),
        records=some_records(),
    )


# --- reading back -------------------------------------------------------------------------------


def test_a_run_is_read_back_as_written(run):
    again = Run.open(run.path)
    assert again.results == payload()
    assert again.results_full == {**payload(), "full": True}
    assert again.run_id == "r1"
    assert again.subjects == [("test", "judge"), ("test", "m.v1")]
    for key, records in some_records().items():
        assert equal(again.records(*key), records)
    assert run_state(run.path) == "complete"
    assert repr(again).startswith(f"Run('r1', {str(run.path)!r})")
    assert Run.open(run.path / "manifest.json").run_id == "r1"


def test_the_folder_holds_what_the_architecture_says(run):
    assert sorted(path.name for path in run.path.iterdir()) == [
        *("manifest.json", "records.parquet", "results.json", "results_full.json")
    ]
    assert run.manifest["status"] == "complete"
    assert run.manifest["artifacts"]["records.parquet"]["n_rows"] == 5
    validate_manifest(run.manifest)


def test_absent_values_are_null_in_the_table(run):
    import duckdb

    table = duckdb.read_parquet(str(run.path / "records.parquet"))
    rows = table.select(
        "slice", "scorer", "unit_id", "attempt", "reward", '"reward.status"'
    ).fetchall()
    assert rows[:3] == [
        ("test", "judge", "q1", 1, 0.5, "ok"),
        ("test", "judge", "q1", 2, None, "error"),
        ("test", "judge", "q2", 1, None, "skipped"),
    ]
    assert [row[4:] for row in rows[3:]] == [(None, None)] * 2


def test_equal_runs_have_equal_bytes(run, tmp_path):
    backwards = dict(reversed(some_records().items()))
    other = write_run(tmp_path / "other", results=payload(), manifest={}, records=backwards)
    for name in ("results.json", "records.parquet"):
        assert (other.path / name).read_bytes() == (run.path / name).read_bytes()


def voting_records():
    return {
        ("test", "m"): Records.from_columns(
            {"right": [1, 0, 0], "answer": ["Rome\0", None, "né\n1.0"]},
            unit_id=list("abc"),
            reason={"answer": ["", "no answer", ""]},
        ),
        ("test", "n"): Records.from_columns(
            {"right": [1, 0], "answer": [None, None]}, unit_id=["a", "b"]
        ),
        ("test", "o"): Records.from_columns({"right": [1]}),
    }


def test_texts_are_stored_as_texts(tmp_path):
    import duckdb

    run = write_run(
        tmp_path / "r1", results=payload(), manifest={"run_id": "r1"}, records=voting_records()
    )
    described = run.manifest["artifacts"]["records.parquet"]
    assert described["text_columns"] == ["answer"]
    table = duckdb.read_parquet(str(run.path / "records.parquet"))
    assert dict(zip(table.columns, map(str, table.types), strict=True))["answer"] == "VARCHAR"
    assert table.select("answer").fetchall() == [("Rome\0",), (None,), ("né\n1.0",), *[(None,)] * 3]
    again = Run.open(run.path)
    first, second, third = voting_records().values()
    assert equal(again.records("test", "m"), first)
    assert equal(again.records("test", "o"), third)
    silent = again.records("test", "n")
    assert silent.columns["answer"].tolist() == [None, None]
    assert silent.status["answer"].tolist() == second.status["answer"].tolist() == ["skipped"] * 2
    assert holds(again, payload(), {key: again.records(*key) for key in again.subjects})


def test_numbers_and_texts_do_not_share_a_column(tmp_path):
    records = voting_records()
    records["test", "o"] = Records.from_columns({"answer": [1.0]})
    with pytest.raises(
        InvalidInputError, match="'answer' contains numbers in one subject and strings"
    ):
        write_run(tmp_path / "r1", results=payload(), manifest={}, records=records)


@pytest.mark.parametrize("texts", [["reward"], ["other"], "answer", [1]])
def test_a_manifest_that_is_wrong_about_texts_is_refused(tmp_path, texts):
    run = write_run(
        tmp_path / "r1", results=payload(), manifest={"run_id": "r1"}, records=voting_records()
    )
    manifest = copy.deepcopy(dict(run.manifest))
    manifest["artifacts"]["records.parquet"]["text_columns"] = texts
    write_json_strict(seal_manifest(manifest), run.path / "manifest.json")
    with pytest.raises(ArtifactError, match="the layout of the records is malformed"):
        Run.open(run.path).records("test", "m")


def test_a_text_that_is_ok_and_not_there_is_refused(tmp_path):
    run = write_run(
        tmp_path / "r1", results=payload(), manifest={"run_id": "r1"}, records=voting_records()
    )
    path = run.path / "records.parquet"
    table = read_table(path)
    table["answer.status"] = np.array(["ok"] * 6, dtype=object)
    path.unlink()
    write_table(table, path)
    manifest = copy.deepcopy(dict(run.manifest))
    manifest["artifacts"][path.name]["sha256"] = sha256_file(path)
    write_json_strict(seal_manifest(manifest), run.path / "manifest.json")
    with pytest.raises(ArtifactError, match="answer has a row with status ok but without a string"):
        Run.open(run.path).records("test", "m")


def test_a_run_without_records_or_full_results(tmp_path):
    run = write_run(tmp_path / "plain", results=payload(), manifest={})
    assert run.results_full is None
    assert run.subjects == []
    with pytest.raises(ArtifactError, match="the run was written without records"):
        run.records("test", "m.v1")
    validate_manifest(run.manifest)


def test_unknown_records_are_named(run):
    with pytest.raises(
        MissingColumnError, match=r"no records of slice 'test' and scorer 'm'"
    ) as no:
        run.records("test", "m")
    assert "('test', 'judge'), ('test', 'm.v1')" in str(no.value)
    assert isinstance(no.value, KeyError)


def test_columns_whose_names_clash_in_a_table(tmp_path):
    names = ["slice", "a", "a.status", "A", "attempt", "", "part:x", "a~2"]
    records = Records.from_columns(
        {name: [float(i)] for i, name in enumerate(names)}, slices={"x": ["p"], "X": ["q"]}
    )
    run = write_run(tmp_path / "r", results=payload(), manifest={}, records={("s", "m"): records})
    assert equal(run.records("s", "m"), records)


def test_a_subject_without_rows_is_kept(tmp_path):
    empty = some_records()["test", "m.v1"].take(np.zeros(2, dtype=bool))
    run = write_run(
        tmp_path / "r",
        results=payload(),
        manifest={},
        records={("s", "m"): empty, ("t", "m"): empty},
    )
    assert run.subjects == [("s", "m"), ("t", "m")]
    assert equal(run.records("s", "m"), empty)


def test_no_subjects_at_all(tmp_path):
    run = write_run(tmp_path / "r", results=payload(), manifest={}, records={})
    assert Run.open(run.path).subjects == []


# --- refusing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["manifest.json", "results.json", "results_full.json", "records.parquet"]
)
@pytest.mark.parametrize("where", [0.0, 0.3, 0.7, 1.0])
def test_a_changed_byte_is_refused(run, name, where):
    path = run.path / name
    data = bytearray(path.read_bytes())
    at = min(int(where * len(data)), len(data) - 1)
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError):
        Run.open(run.path)
    assert run_state(run.path).startswith(("incomplete: ", "not a run"))


def test_white_space_in_the_manifest_is_a_change_too(run):
    path = run.path / "manifest.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(ArtifactError, match=r"manifest.json was altered"):
        Run.open(run.path)


def test_the_message_says_which_file_changed(run):
    (run.path / "results.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"results.json: the file has changed since the run"):
        Run.open(run.path)
    assert "results.json: the file has changed" in run_state(run.path)
    assert Run.open(run.path, verify=False).results == {}


def test_a_change_after_opening_is_seen_when_reading(run):
    opened = Run.open(run.path)
    (run.path / "results.json").write_text("{}")
    with pytest.raises(ArtifactError, match="the file has changed"):
        _ = opened.results


def test_a_missing_file_is_refused(run):
    (run.path / "records.parquet").unlink()
    assert run_state(run.path) == "incomplete: records.parquet is missing"


def test_a_manifest_cannot_point_outside(run):
    manifest = {**run.manifest, "artifacts": {**run.manifest["artifacts"], "../x": {"sha256": "0"}}}
    write_json_strict(seal_manifest(manifest), run.path / "manifest.json")
    with pytest.raises(ArtifactError, match=r"lists '../x', which is not a file of a run"):
        Run.open(run.path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"attempt": 1.5}, "the attempt 1.5 is not a whole number"),
        ({"attempt": math.inf}, "the attempt inf is not a whole number"),
        ({"attempt": "one"}, "could not convert string to float"),
        ({"reward": math.inf}, "reward contains inf; values must be finite"),
        ({"reward": -1e200}, r"reward contains -1e\+200; values must be finite"),
    ],
)
def test_records_that_were_sealed_again_are_read_as_numbers_or_refused(run, change, problem):
    path = run.path / "records.parquet"
    table = read_table(path)
    for name, value in change.items():
        table[name] = np.array([value] * len(table[name]))
        table[f"{name}.status"] = np.array(["ok"] * len(table[name]), dtype=object)
    path.unlink()
    write_table(table, path)
    manifest = copy.deepcopy(dict(run.manifest))
    manifest["artifacts"][path.name]["sha256"] = sha256_file(path)
    write_json_strict(seal_manifest(manifest), run.path / "manifest.json")
    with pytest.raises(ArtifactError, match=f"records.parquet: .*{problem}"):
        Run.open(run.path).records(*run.subjects[0])


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"depth": 10**9}, "config → depth: is 1000000000; it must be at most 10000"),
        ({"width": [{}]}, "config → width → 0: is {}; it must be integer"),
        ({"scorers": {"x": 1}}, "config → scorers → x: is 1; it must be object"),
        ({"system": {"decoding": [1]}}, r"config → system → decoding: is \[1\]; it must be object"),
    ],
)
def test_a_manifest_has_the_types_that_readers_rely_on(run, config, problem):
    """Whoever sealed it: turns are counted up to the depth, and names looked up in tables."""
    manifest = {**run.manifest, "config": {"kind": "rollout", **config}}
    write_json_strict(seal_manifest(manifest), run.path / "manifest.json")
    with pytest.raises(ArtifactError, match=f"manifest.json: {problem}"):
        Run.open(run.path)


def test_states_of_folders_that_are_no_finished_run(tmp_path):
    assert run_state(tmp_path / "nowhere") == "not a run"
    assert run_state(tmp_path) == "not a run"
    (tmp_path / "manifest.json").write_text('{"name": "a web app"}')
    assert run_state(tmp_path) == "not a run"
    (tmp_path / "manifest.json").write_text('{"run_id": "r", "stat')
    assert run_state(tmp_path).startswith("incomplete: ")
    (tmp_path / "manifest.json").write_text('{"run_id": "r"}')
    assert "write_run did not write it" in run_state(tmp_path)
    (tmp_path / "manifest.json").write_text('{"run_id": "r", "status": "running"}')
    assert run_state(tmp_path) == "incomplete: the command that wrote it did not finish"
    with pytest.raises(
        ArtifactError, match="the run is incomplete: the command that wrote it did not finish"
    ):
        Run.open(tmp_path)
    with run_lock(tmp_path):
        assert run_state(tmp_path) == "running"
        with pytest.raises(ArtifactError, match="the run is being written"):
            Run.open(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "results.json").write_text("{}")
    assert run_state(tmp_path) == "incomplete: there is no manifest.json"
    with pytest.raises(ArtifactError, match="no such folder"):
        Run.open(tmp_path / "nowhere")


def test_a_folder_with_nothing_but_a_dead_lock_is_incomplete(tmp_path):
    (tmp_path / "run.lock").write_text("")
    assert run_state(tmp_path) == "incomplete: the command that wrote it did not finish"
    assert find_runs(tmp_path) == [tmp_path]


# --- writing ------------------------------------------------------------------------------------


def test_a_finished_run_is_not_replaced_unasked(run):
    with pytest.raises(ArtifactError, match="contains a finished run; pass overwrite=True"):
        write_run(run.path, results=payload(value=0.1), manifest={})
    assert Run.open(run.path).results == payload()


def test_replacing_leaves_nothing_of_the_old_run(run):
    (run.path / "report.html").write_text("of the old run")
    (run.path / "notes.txt").write_text("of the user")
    new = write_run(run.path, results=payload("r2", 0.1), manifest={}, overwrite=True)
    assert new.run_id == "r2"
    assert new.results_full is None
    assert sorted(path.name for path in run.path.iterdir()) == [
        *("manifest.json", "notes.txt", "results.json")
    ]


def test_files_that_are_no_run_are_not_replaced_unasked(tmp_path):
    (tmp_path / "results.json").write_text("precious")
    with pytest.raises(
        ArtifactError, match=r"contains results.json, which is not part of an unfin"
    ):
        write_run(tmp_path, results=payload(), manifest={})
    assert (tmp_path / "results.json").read_text() == "precious"
    assert write_run(tmp_path, results=payload(), manifest={}, overwrite=True).run_id == "r1"
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="is a file; pass a folder for the run"):
        write_run(tmp_path / "file", results=payload(), manifest={})


def test_an_unfinished_run_is_taken_over(tmp_path):
    write_json_strict({"run_id": "r1", "status": "running"}, tmp_path / "manifest.json")
    (tmp_path / ".staging-dead").mkdir()
    (tmp_path / "results.json").write_text("half")
    assert write_run(tmp_path, results=payload(), manifest={}).results == payload()
    assert not list(tmp_path.glob(".*"))


def test_names_of_the_run_must_agree(tmp_path):
    with pytest.raises(
        InvalidInputError, match="`manifest` belongs to run 'a' but `results` to run"
    ):
        write_run(tmp_path / "r", results=payload("b"), manifest={"run_id": "a"})
    assert not (tmp_path / "r").exists()
    nameless = {"config": {}, "by_slice": {}}
    assert write_run(tmp_path / "named", results=nameless, manifest={}).run_id == "named"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"results": [1]}, "`results` must be a mapping, got list"),
        ({"records": {("s", "m"): 3}}, r"records\[\('s', 'm'\)\] is 3; it must be Records"),
        ({"manifest": 3}, "`manifest` must be a mapping, got int"),
        (
            {"records": {"test": None}},
            r"`records` has the key 'test'; keys must be pairs \(slice, scorer\)",
        ),
    ],
)
def test_wrong_types(tmp_path, given, message):
    with pytest.raises(InvalidTypeError, match=message):
        write_run(tmp_path / "r", **{"results": payload(), "manifest": {}, **given})
    assert list(tmp_path.iterdir()) == []


def test_secrets_do_not_reach_the_disk(tmp_path):
    key = "sk-proj-" + "Ab3" * 12
    results = payload()
    results["config"]["api_key"] = "not even this"
    results["by_slice"]["test"]["by_scorer"]["m.v1"]["error"] = f"401: wrong key {key}"
    records = Records.from_columns({"score": [None]}, reason={"score": [f"refused {key}"]})
    run = write_run(
        tmp_path / "r",
        results=results,
        results_full=results,
        manifest={"config": {"headers": {"Authorization": f"Bearer {key}"}}},
        records={("test", "m"): records},
    )
    stored = b"".join(path.read_bytes() for path in run.path.iterdir())
    assert key.encode() not in stored
    assert b"not even this" not in stored
    assert run.records("test", "m").reason["score"].tolist() == ["refused [redacted]"]


def test_names_and_ids_that_resemble_keys_are_kept(tmp_path):
    names = ["sk-learn-TfidfLogReg-v2", "sk-learn-TfidfLinearSVC-v2", "sk-" + "Ab3" * 12, "token"]
    ids = [f"sk-item-{i:04d}-ABCDEFGHIJ" for i in range(3)] + ["hf_abcdefghijklmnopqrstuv"]
    block = {"n": 4, "n_positive": 2, "pr_auc": 0.8, "scores": [0.1, 0.2, 0.3, 0.4]}
    part = {"n": 4, "n_positive": 2, "unit_ids": ids, "by_scorer": dict.fromkeys(names, block)}
    results = {**payload(), "by_slice": {"password": part}}
    held = Records.from_rows([0, 1, 0, 1], block["scores"], unit_id=ids)
    run = write_run(
        tmp_path / "r",
        results=results,
        results_full=results,
        manifest={"versioned_objects": {f"scorer:{name}": "1" for name in names}},
        records={("password", name): held for name in names},
    )
    for stored in (run.results, run.results_full):
        assert stored["by_slice"] == results["by_slice"]
    assert sorted(run.results["by_slice"]["password"]["by_scorer"]) == sorted(
        scorer for _, scorer in run.subjects
    )
    assert run.records("password", names[0]).unit_id.tolist() == sorted(ids)
    assert len(run.manifest["versioned_objects"]) == len(names)


def test_records_altered_after_the_run_was_opened_are_refused(tmp_path):
    a = write_run(tmp_path / "a", results=payload(), manifest={}, records=some_records())
    b = write_run(tmp_path / "b", results=payload(), manifest={}, records=some_records(0.2))
    opened = Run.open(a.path)
    trusting = Run.open(a.path, verify=False)
    (b.path / "records.parquet").replace(a.path / "records.parquet")
    with pytest.raises(
        ArtifactError, match=r"records\.parquet: the file has changed since the run"
    ):
        opened.records("test", "m.v1")
    assert trusting.records("test", "m.v1").columns["score"].max() == pytest.approx(0.7)
    (a.path / "records.parquet").unlink()
    with pytest.raises(ArtifactError, match=r"records\.parquet is missing"):
        opened.records("test", "m.v1")


def test_text_that_is_no_unicode_is_refused_and_nothing_is_left(tmp_path):
    records = Records.from_columns({"score": [1.0]}, unit_id=["\ud800"])
    with pytest.raises(
        ArtifactError, match=r"the run could not be written: .*; nothing was written"
    ):
        write_run(tmp_path / "r", results=payload(), manifest={}, records={("s", "m"): records})
    assert list(tmp_path.iterdir()) == []


# --- one writer at a time -----------------------------------------------------------------------


def test_a_second_writer_is_refused(run):
    with run_lock(run.path):
        assert run_state(run.path) == "complete", "the old run stands while a new one is staged"
        with pytest.raises(ArtifactError, match=r"another process is writing this run \(process"):
            write_run(run.path, results=payload(), manifest={}, overwrite=True)
    assert not (run.path / "run.lock").exists()


def test_threads_do_not_share_a_lock(tmp_path):
    refused = []

    def second():
        try:
            with run_lock(tmp_path):
                pass
        except ArtifactError as error:
            refused.append(str(error))

    with run_lock(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert "another process is writing this run" in refused[0]


def dead_pid():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    import socket

    lock = tmp_path / "run.lock"
    for stale in (
        {"pid": dead_pid(), "host": socket.gethostname()},
        {"pid": os.getpid(), "host": socket.gethostname(), "started": "long ago"},
        {"pid": 2**70, "host": socket.gethostname()},
    ):
        lock.write_text(json.dumps(stale))
        with run_lock(tmp_path):
            assert json.loads(lock.read_text())["pid"] == os.getpid()
        assert not lock.exists()
    for torn in ("", "{", "[]", "\xff"):
        lock.write_text(torn, encoding="latin-1")
        with run_lock(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_another_host_is_respected(tmp_path):
    (tmp_path / "run.lock").write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    refusal = pytest.raises(ArtifactError, match=r"process 1 on elsewhere\); wait for it, or del")
    with refusal, run_lock(tmp_path):
        pass


def test_a_lock_that_is_held_in_another_container_is_respected(tmp_path):
    """There the host may have the same name, and the process another id."""
    import fcntl
    import socket

    lock = tmp_path / "run.lock"
    owner = {"pid": dead_pid(), "host": socket.gethostname(), "flock": True}
    lock.write_text(json.dumps(owner))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ArtifactError, match="another process is writing"), run_lock(tmp_path):
            pass
    with run_lock(tmp_path):
        assert json.loads(lock.read_text())["flock"] is True


def test_a_fork_does_not_keep_the_lock(tmp_path):
    program = (
        "import os, sys, time; from eval_toolkit.runs import run_lock\n"
        "with run_lock(sys.argv[1]):\n"
        "    child = os.fork()\n"
        "    os.write(1, b'%d\\n' % child)\n"
        "    if child == 0: time.sleep(60)\n"
        "    os._exit(1)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as done:
        child = max(int(done.stdout.readline()) for _ in range(2))
        done.wait()
        try:
            with run_lock(tmp_path):
                pass
        finally:
            os.kill(child, 9)


# --- finding ------------------------------------------------------------------------------------


def test_runs_are_found_at_any_depth(run, tmp_path):
    deep = write_run(tmp_path / "a" / "b" / "r2", results=payload("r2"), manifest={}).path
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "manifest.json").write_text('{"run_id": "no"}')
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "manifest.json").write_text("{}")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "results.json").write_text("{}")
    assert find_runs(tmp_path) == [deep, run.path, tmp_path / "torn"]
    with pytest.raises(ArtifactError, match="no such folder"):
        find_runs(tmp_path / "nowhere")


# --- with the manifest module -------------------------------------------------------------------


def test_a_manifest_written_into_a_finished_run_keeps_it_valid(run):
    class Judge:
        version = "7"

    manifest = build_manifest(run_id="r1", config={"k": 5}, versioned={"judge": Judge()})
    write_manifest(manifest, run.path)
    again = Run.open(run.path)
    assert again.manifest["config"] == {"k": 5}
    assert again.manifest["versioned_objects"] == {"judge": "7"}
    with pytest.raises(ArtifactError, match=r"belongs to the finished run 'r1', not to 'r2'"):
        write_manifest(build_manifest(run_id="r2", config={}), run.path)


# --- disks that refuse --------------------------------------------------------------------------


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def full_disk_at(monkeypatch, step):
    """Let the disk be full at one of the moments when files are synced."""
    real, calls = os.fsync, []

    def fsync(handle):
        calls.append(handle)
        if len(calls) == step:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(atomic.os, "fsync", fsync)


@pytest.mark.parametrize("step", range(1, 9))
def test_a_full_disk_leaves_the_old_run(run, monkeypatch, step):
    before = contents(run.path)
    full_disk_at(monkeypatch, step)
    with pytest.raises(ArtifactError, match="written: No space left on device; the existing run"):
        write_run(
            run.path, results=payload(), manifest={}, records=some_records(0.5), overwrite=True
        )
    assert contents(run.path) == before
    assert Run.open(run.path).results == payload()


def test_a_disk_that_refuses_a_rename_leaves_a_wreck_that_says_so(run, monkeypatch):
    real = Path.replace

    def refuse(self, target):
        if Path(target) == run.path / "records.parquet":
            raise OSError(errno.EIO, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(ArtifactError, match="Input/output error; the run is incomplete; write it"):
        write_run(run.path, results=payload(), manifest={}, records=some_records(), overwrite=True)
    assert run_state(run.path) == "incomplete: the command that wrote it did not finish"


def test_a_full_disk_leaves_nothing_of_a_new_run(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left on device; nothing was written"):
        write_run(tmp_path / "new", results=payload(), manifest={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file size are POSIX")
def test_a_real_refusal_of_the_system(run):
    """A limit on file size makes every write fail for good, duckdb's too."""
    code = """
import resource, sys
sys.dont_write_bytecode = True  # what does not fit would be cut, kept, and break later imports
import numpy as np
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records
rng = np.random.default_rng(0)
records = Records.from_columns({"score": rng.random(20000)})
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
results = {"run_id": "r2", "config": {}, "by_slice": {}}
try:
    write_run(sys.argv[1], results=results, manifest={}, records={("s", "m"): records}, overwrite=True)
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, check=True
    )
    assert "the run could not be written" in done.stdout
    assert "the existing run is unchanged" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert Run.open(run.path).results == payload()
    assert not list(run.path.glob(".*"))


def test_a_folder_that_may_not_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="the run could not be written: Not a directory"):
        write_run(tmp_path / "file" / "run", results=payload(), manifest={})


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}


def test_a_run_is_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("EVAL_TOOLKIT_RUN_MODE", raising=False)
    before = os.umask(0o022)
    try:
        for _ in range(2):  # written, and replaced
            run = write_run(
                tmp_path / "deep" / "r1",
                results=payload(),
                manifest={"run_id": "r1"},
                results_full=payload(),
                records=some_records(),
                overwrite=True,
            )
        write_report(run, run.path / "report.html")
        found = modes(run.path)
        assert found.pop("r1") == 0o700
        assert set(found) >= {"manifest.json", "results.json", "records.parquet", "report.html"}
        assert set(found.values()) == {0o600}
        with open_run(tmp_path / "r2", manifest={"run_id": "r2"}) as opened:
            with Journal(opened.path / "journal.jsonl") as journal:
                asked = Job("q1", 1, GenerateRequest("?"))
                journal.append(Entry.of(JobResult(asked, RawCompletion("!"))))
            unfinished = modes(opened.path)
        assert unfinished.pop("r2") == 0o700
        assert set(unfinished.values()) == {0o600}
        monkeypatch.setenv("EVAL_TOOLKIT_RUN_MODE", "750")
        shared = modes(write_run(tmp_path / "r3", results=payload("r3"), manifest={}).path)
        assert shared.pop("r3") == 0o750
        assert set(shared.values()) == {0o640}
        monkeypatch.setenv("EVAL_TOOLKIT_RUN_MODE", "rwx")
        with pytest.raises(InvalidInputError, match="EVAL_TOOLKIT_RUN_MODE is 'rwx'; it must be"):
            write_run(tmp_path / "r4", results=payload("r4"), manifest={})
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "by_slice", [{"x": 1}, {"x": {"by_scorer": []}}, {"x": {"by_scorer": {"m": 3}}}]
)
def test_what_cannot_be_read_is_not_written(tmp_path, by_slice):
    results = {**payload(), "by_slice": by_slice}
    with pytest.raises(InvalidInputError, match=r"`results`: by_slice.*\(schema results.v1\)"):
        write_run(tmp_path / "r1", results=results, manifest={"run_id": "r1"})
    assert not (tmp_path / "r1").exists()
