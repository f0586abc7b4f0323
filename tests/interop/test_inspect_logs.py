"""Logs that the installed Inspect writes: each number that it states, and each that it made.

Inspect runs in its own environment (``.venv-peers``) on a scripted model, reads its own logs, and
says what is in them (`inspect_making`); the reader here must find the same.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing import inspect_log
from eval_toolkit.integrations.importing.inspect_values import columns_of, mean_of, reduced
from eval_toolkit.integrations.importing.logs import Log
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.zipped import Zipped

HERE = Path(__file__).resolve()
PEERS = HERE.parents[2] / ".venv-peers"
KINDS = [
    *("plain", "metrics", "reducers", "epochs", "unreduced", "failures", "failed", "limits"),
    *("turns", "choices", "unscored", "reductions"),
]
NAMES = [*KINDS, *(f"{name} as JSON" for name in KINDS), "frames"]


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What Inspect says about the logs that it has written, by name."""
    if not list(PEERS.glob("lib/python*/site-packages/inspect_ai")):
        absent = pytest.fail if os.environ.get("CI") else pytest.skip
        absent("inspect-ai is not installed in .venv-peers; `make test-interop` installs it")
    folder = tmp_path_factory.mktemp("inspect")
    done = subprocess.run(
        [PEERS / "bin" / "python", HERE.with_name("inspect_making.py"), folder],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "", "HOME": str(folder)},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: Mapping[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
    return told


def _read(told: Mapping[str, Any], **wanted: Any) -> Log:
    path = Path(told["path"])
    assert inspect_log.recognises(path)
    (log,) = inspect_log.read(path, Wanted(**wanted))
    return log


def _numbers(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: None if isinstance(one, Grade) else one for name, one in values.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_is_the_one_that_inspect_reads(truth: Mapping[str, Any], name: str) -> None:
    told = truth[name]
    log = _read(told, group_field="cluster" if "choices" not in name else None)
    if "reductions" in name:
        assert [one.unit_id for one in log.samples] == list(told["reductions"][0]["values"])
        return
    expected = {(str(one["id"]), one["epoch"]): one for one in told["samples"]}
    assert {(one.unit_id, one.attempt) for one in log.samples} == set(expected)
    for found in log.samples:
        one = expected[found.unit_id, found.attempt]
        assert (found.input, found.target) == (one["input"], one["target"])
        assert (found.response, found.group) == (one["answer"], one["cluster"])
        assert (found.error or None) == one["error"]
        assert found.usage["completion_tokens"] == 3 * one["messages"].count(one["answer"])
        said = [message.content for message in found.prompt or ()]
        assert said == one["messages"][: len(said)]
        scores: dict[str, Any] = {}
        for scorer, value in one["scores"].items():
            scores |= columns_of(scorer, value)
        values = _numbers(found.values)
        # A scorer without a value has the columns that it has elsewhere, all empty.
        assert {n: v for n, v in values.items() if v is not None} == {
            n: v for n, v in scores.items() if v is not None
        }
        if one["error"] is not None:
            assert {v.status for v in found.values.values() if isinstance(v, Grade)} == {"error"}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_that_is_stated_is_found_again(truth: Mapping[str, Any], name: str) -> None:
    told = truth[name]
    log = _read(told)
    assert log.n_planned == (told["total"] or 9) // (2 if "reductions" in name else 1)
    n_means = 0
    for score in told["stated"]:
        suffix = f" ({score['reducer']})" if score["reducer"] else ""
        mine = {one.name: one for one in log.stated if one.column == score["column"]}
        for key, value in score["metrics"].items():
            if key == "stderr":
                continue
            one = mine[f"{key}{suffix}"]
            # of how many samples a number is that is no mean, nobody says
            n = score["n"] if key in ("accuracy", "mean") else None
            assert (one.value, one.n) == (value, n)
            if key in ("accuracy", "mean"):
                n_means += 1
                assert one.stderr == score["metrics"].get("stderr")
                how = "clustered by 'cluster'" if one.column == "marks" else "sample sd / sqrt(n)"
                assert one.stderr_name == how
                reducer = None if "unreduced" in name else score["reducer"] or "mean"
                again = mean_of(log.samples, one.column, reducer)
                assert again == pytest.approx(value, abs=1e-12, rel=1e-12)
    assert n_means == sum(bool({"accuracy", "mean"} & set(s["metrics"])) for s in told["stated"])
    assert not [note for note in log.notes if "from the samples it is" in note]


@pytest.mark.parametrize("name", ["reducers", "epochs", "metrics"])
def test_every_reduction_over_epochs_is_made_again(truth: Mapping[str, Any], name: str) -> None:
    log = _read(truth[name])
    n = 0
    for one in truth[name]["reductions"]:
        for unit_id, value in one["values"].items():
            for column, number in columns_of(one["scorer"], value).items():
                tries = [s.values.get(column) for s in log.samples if s.unit_id == unit_id]
                values = [v for v in tries if isinstance(v, float)]
                found = reduced(values, one["reducer"]) if values else None
                assert found == pytest.approx(number, abs=1e-12), (column, one["reducer"])
                n += 1
    assert n > 20


@pytest.mark.parametrize("name", KINDS)
def test_statistics_alone_are_the_same(truth: Mapping[str, Any], name: str) -> None:
    whole, short = _read(truth[name]), _read(truth[name], samples=False)
    assert (whole.stated, whole.notes, whole.binary) == (short.stated, short.notes, short.binary)
    keys = [(one.unit_id, one.attempt, one.values, one.error) for one in whole.samples]
    assert keys == [(one.unit_id, one.attempt, one.values, one.error) for one in short.samples]


def test_failed_samples_are_in_no_number_of_inspect(truth: Mapping[str, Any]) -> None:
    log = _read(truth["failures"])
    (first, _) = log.stated
    assert log.notes[0] == (
        f"2 of 9 samples failed and are not counted in the log: match accuracy "
        f"{first.value:.6g} over 7"
    )
    assert [one.unit_id for one in log.samples if one.error] == ["q/3", "q/7"]


def test_a_log_that_ended_with_an_error_says_so(truth: Mapping[str, Any]) -> None:
    log = _read(truth["failed"])
    assert (truth["failed"]["status"], list(log.stated)) == ("error", [])
    assert log.notes[0].startswith("the log's status is error: RuntimeError")


def test_members_of_many_frames(truth: Mapping[str, Any]) -> None:
    path = Path(truth["frames"]["path"])
    packed = path.read_bytes()
    n_frames = packed.count(zstandard.FRAME_HEADER)
    assert n_frames > 2 * len(Zipped(path).names)
    assert len(_read(truth["frames"]).samples) == 9
