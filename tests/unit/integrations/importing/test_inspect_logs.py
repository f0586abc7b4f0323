"""Inspect's logs: every part of the format that is read, and files that are damaged or strange.

Zip files are put together by hand: zipfile cannot write zstandard, nor what is wrong. Logs that
the real Inspect wrote are read in tests/interop and, where they are there, from the shared data.
"""

import builtins
import itertools
import json
import math
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hostile import SHORT

from eval_toolkit.errors import (
    ArtifactError,
    EvalToolkitError,
    InvalidInputError,
    MissingExtraError,
)
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing import inspect_log, zipped
from eval_toolkit.integrations.importing.inspect_values import is_known, mean_of, reduced
from eval_toolkit.integrations.importing.logs import Log, LoggedSample
from eval_toolkit.integrations.importing.measurement import log_records
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.models.messages import Message

NAN = float("nan")
STORED, DEFLATE, ZSTANDARD = 0, 8, 93
Members = Iterable[tuple[str, bytes]]


def _packed(data: bytes, method: int, frames: int = 1) -> bytes:
    if method == STORED:
        return data
    if method == DEFLATE:
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(data) + packer.flush()
    step = max(1, math.ceil(len(data) / frames))
    pieces = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
    return b"".join(zstandard.compress(piece) for piece in pieces)


def _zip(
    members: Members,
    method: int = ZSTANDARD,
    *,
    frames: int = 1,
    flags: int = 0,
    told: Mapping[str, Any] | None = None,
    descriptor: bool = False,
    zip64: bool = False,
) -> bytes:
    """Return a zip file as Inspect writes it; ``told`` replaces what the directory says."""
    body, directory, n = b"", b"", 0
    for name, data in members:
        lie = {"crc": zlib.crc32(data), "size": len(data), "method": method} | dict(told or {})
        packed, at, stem = _packed(data, method, frames), len(body), name.encode()
        bits = flags | (8 if descriptor else 0)
        here = (0, 0, 0) if descriptor else (lie["crc"], len(packed), lie["size"])
        extra = b"\x99\x99\x04\x00abcd"  # longer than in the directory, as it may be
        head = struct.pack("<HHHHH", 63, bits, lie["method"], 0, 0x21)
        body += b"PK\x03\x04" + head + struct.pack("<III", *here)
        body += struct.pack("<HH", len(stem), len(extra)) + stem + extra + packed
        if descriptor:
            body += b"PK\x07\x08" + struct.pack("<III", lie["crc"], len(packed), lie["size"])
        sizes, large = (len(packed), lie["size"]), b""
        if zip64:
            large = struct.pack("<HHQQ", 1, 16, lie["size"], len(packed))
            sizes = (0xFFFFFFFF, 0xFFFFFFFF)
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + head
        directory += struct.pack("<III", lie["crc"], *sizes)
        directory += struct.pack("<HHHHHII", len(stem), len(large), 0, 0, 0, 0, at) + stem + large
        n += 1
    end = struct.pack("<HHHHIIH", 0, 0, n, n, len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _sample(unit_id: Any, value: Any, epoch: int = 1, **more: Any) -> dict[str, Any]:
    """Return a sample with a score of ``match``; ``...`` for one without scores."""
    scores = {} if value is ... else {"match": {"value": value, "answer": "x"}}
    question = f"What is {unit_id}?"
    return {
        "id": unit_id,
        "epoch": epoch,
        "input": question,
        "target": str(unit_id),
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": "It is one."},
        ],
        "output": {"choices": [{"message": {"role": "assistant", "content": "It is one."}}]},
        "scores": scores,
        "metadata": {"topic": f"t{len(str(unit_id))}"},
        "model_usage": {"mock/m": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}},
        **more,
    }


def _score(value: float, stderr: float | None = None, **more: Any) -> dict[str, Any]:
    metrics = {"accuracy": {"name": "accuracy", "value": value, "params": {}}}
    if stderr is not None:
        metrics["stderr"] = {"name": "stderr", "value": stderr, "params": {}}
    return {"name": "match", "scorer": "match", "params": {}, "metrics": metrics, **more}


def _header(*scores: Mapping[str, Any], ids: Iterable[Any] = (), **more: Any) -> dict[str, Any]:
    spec = {
        "task": "sums",
        "model": "mock/m",
        "created": "2026-01-02T03:04:05+00:00",
        "dataset": {"name": "d", "samples": 9, "sample_ids": list(ids)},
        "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"},
        "scorers": [{"name": "match", "metrics": [{"name": "inspect_ai/accuracy"}]}],
    }
    spec |= more.pop("eval", {})
    results = {"total_samples": more.pop("total", 4), "scores": list(scores)}
    return {"version": 2, "status": "success", "eval": spec, "results": results, **more}


PLAIN = [_sample(name, mark) for name, mark in zip("abcd", "CICC", strict=True)]
STATED = _score(0.75, 0.25, scored_samples=4)


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Inspect keeps of a sample beside it."""
    kept = {k: v for k, v in sample.items() if k not in ("messages", "output", "attachments")}
    for name, inner in (("error", "message"), ("limit", "type")):
        if name in kept:
            kept[name] = kept[name][inner]
    return kept


def _members(
    header: Mapping[str, Any], samples: Iterable[Mapping[str, Any]], **more: Any
) -> list[tuple[str, bytes]]:
    start = {"version": header["version"], "eval": header["eval"]}
    kept = list(samples)
    inside = [
        ("_journal/start.json", _json(start)),
        *((f"samples/{one['id']}_epoch_{one['epoch']}.json", _json(one)) for one in kept),
        ("summaries.json", _json([_summary(one) for one in kept])),
        ("header.json", _json(header)),
    ]
    return inside + [(name, _json(value)) for name, value in more.items()]


def _eval_file(folder: Path, header: Any, samples: Any, **options: Any) -> Path:
    path = folder / "log.eval"
    path.write_bytes(_zip(_members(header, samples), **options))
    return path


def _json_file(folder: Path, header: Any, samples: Any = None, **more: Any) -> Path:
    path = folder / "log.json"
    whole = {**header, **({} if samples is None else {"samples": samples}), **more}
    path.write_bytes(_json(whole))
    return path


WRITERS = [_eval_file, _json_file]


def _read(path: Path, **wanted: Any) -> Log:
    assert inspect_log.recognises(path)
    (log,) = inspect_log.read(path, Wanted(**wanted))
    return log


def _column(log: Log, name: str = "match") -> list[float | str]:
    """Return the column: numbers, and the status of what is none."""
    values = [sample.values[name] for sample in log.samples]
    return [one.status if isinstance(one, Grade) else one for one in values]


class TestZipped:
    @pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTANDARD])
    @pytest.mark.parametrize("options", [{}, {"descriptor": True}, {"zip64": True}, {"frames": 5}])
    def test_what_was_packed_comes_out(
        self, tmp_path: Path, method: int, options: dict[str, Any]
    ) -> None:
        inside = [("a.json", b"[1, 2, 3]" * 999), ("empty.json", b""), ("../../b", b"{}")]
        (tmp_path / "a.eval").write_bytes(_zip(inside, method, **options))
        file = zipped.Zipped(tmp_path / "a.eval")
        assert [(name, file.read(name)) for name in file.names] == inside
        assert list(tmp_path.iterdir()) == [tmp_path / "a.eval"]  # a name is no place on the disk

    def test_of_members_with_one_name_the_last_counts(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(_zip([("h", b"old"), ("x", b"-"), ("h", b"new")]))
        assert zipped.Zipped(tmp_path / "a").read("h") == b"new"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"flags": 1}, "'h' is encrypted"),
            ({"method": STORED, "told": {"method": 12}}, "compression method 12"),
            (
                {"told": {"size": 3 << 30}, "zip64": True},
                "3221225472 bytes uncompressed, more than 200",
            ),
            ({"told": {"size": 10}}, "'h' is damaged"),
            ({"told": {"size": 10}, "method": DEFLATE}, "'h' is damaged"),
            ({"told": {"size": 99_999}}, "'h' is damaged"),
            ({"told": {"crc": 1}}, "'h' is damaged"),
            ({"method": STORED, "told": {"method": DEFLATE}}, "'h' is damaged"),
            ({"method": STORED, "told": {"method": ZSTANDARD}}, "'h' is damaged"),
        ],
    )
    def test_what_cannot_be_right_is_one_line(
        self, tmp_path: Path, options: dict[str, Any], said: str
    ) -> None:
        (tmp_path / "a").write_bytes(_zip([("h", b"\xff" * 9_000)], **options))
        with pytest.raises(ArtifactError, match=said) as caught:
            zipped.Zipped(tmp_path / "a").read("h")
        assert "\n" not in str(caught.value)

    def test_a_member_that_is_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(_zip([]))
        with pytest.raises(ArtifactError, match="no member 'h' among its 0 members"):
            zipped.Zipped(tmp_path / "a").read("h")

    @settings(max_examples=60)
    @given(data=st.data(), method=st.sampled_from([STORED, DEFLATE, ZSTANDARD]))
    def test_a_damaged_file_is_refused_or_reads_the_same(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, method: int
    ) -> None:
        inside = [("header.json", b'{"version": 2}' * 4), ("b", b"\x00\x01\x02")]
        whole = _zip(inside, method)
        at = data.draw(st.integers(0, len(whole) - 1))
        cut = data.draw(st.booleans())
        broken = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        path = tmp_path_factory.mktemp("zip") / "a"
        path.write_bytes(broken)
        try:
            file = zipped.Zipped(path)
            found = [(name, file.read(name)) for name in file.names]
        except ArtifactError:
            return
        assert {data for _, data in found} <= {data for _, data in inside}

    def test_zstandard_is_an_extra(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = _eval_file(tmp_path, _header(STATED), PLAIN)
        monkeypatch.setitem(sys.modules, "zstandard", None)
        with pytest.raises(MissingExtraError, match=r"log\.eval .*eval-toolkit\[logs\]"):
            inspect_log.read(path, Wanted())
        deflated = _eval_file(tmp_path, _header(STATED), PLAIN, method=DEFLATE)
        assert len(_read(deflated).samples) == 4


class TestSamples:
    @pytest.mark.parametrize("write", WRITERS)
    def test_a_log_in_our_words(self, tmp_path: Path, write: Callable[..., Path]) -> None:
        path = write(tmp_path, _header(STATED, ids="abcd"), PLAIN)
        log = _read(path)
        assert (log.tool, log.task, log.model) == ("inspect", "sums", "mock/m")
        assert (log.tool_version, log.created) == ("0.3.285", "2026-01-02T03:04:05+00:00")
        assert (log.files, log.n_planned, log.notes) == ([str(path)], 4, ())
        assert log.binary == {"match"}
        assert log.samples[0] == LoggedSample(
            unit_id="a",
            values={"match": 1.0},
            input="What is a?",
            target="a",
            prompt=(Message("user", "What is a?"),),
            response="It is one.",
            usage={"prompt_tokens": 7, "completion_tokens": 3},
        )
        (stated,) = log.stated
        assert (stated.column, stated.name, stated.value) == ("match", "accuracy", 0.75)
        assert (stated.stderr, stated.n, stated.aggregation) == (0.25, 4, "mean")
        assert stated.stderr_name == "sample sd / sqrt(n)"

    @pytest.mark.parametrize("write", WRITERS)
    def test_statistics_alone_have_the_same_values(
        self, tmp_path: Path, write: Callable[..., Path]
    ) -> None:
        path = write(tmp_path, _header(STATED, ids="abcd"), PLAIN)
        whole, short = _read(path, by=("topic",)), _read(path, by=("topic",), samples=False)
        assert whole.stated == short.stated
        assert whole.samples[0].parts == {"topic": "t1"}
        bare = [replace(one, prompt=None, response=None) for one in whole.samples]
        assert bare == list(short.samples)

    @pytest.mark.parametrize(
        ("write", "name", "said"),
        [(_eval_file, "log.json", "is a zip file"), (_json_file, "log.eval", "is JSON")],
    )
    def test_the_content_decides_and_a_wrong_name_is_said(
        self, tmp_path: Path, write: Callable[..., Path], name: str, said: str
    ) -> None:
        renamed = write(tmp_path, _header(STATED, ids="abcd"), PLAIN).rename(tmp_path / name)
        assert _read(renamed).notes[0] == f"{name} {said} despite its name, and was read as such"

    def test_statistics_leave_the_samples_alone(self, tmp_path: Path) -> None:
        members = _members(_header(STATED), PLAIN)
        spoilt = [(n, b"no JSON" if n.startswith("samples/") else data) for n, data in members]
        path = tmp_path / "log.eval"
        path.write_bytes(_zip(spoilt))
        assert _column(_read(path, samples=False)) == [1.0, 0.0, 1.0, 1.0]
        with pytest.raises(ArtifactError, match=r"samples/a_epoch_1\.json: malformed JSON"):
            inspect_log.read(path, Wanted())

    @pytest.mark.parametrize("kept", ["...", "Key removed from summary (> 1k)", None])
    def test_a_field_that_the_summaries_shorten_is_read_from_the_samples(
        self, tmp_path: Path, kept: str | None
    ) -> None:
        summaries = [_summary(one) | {"metadata": {"topic": kept} if kept else {}} for one in PLAIN]
        members = [*_members(_header(STATED), PLAIN), ("summaries.json", _json(summaries))]
        path = tmp_path / "log.eval"
        path.write_bytes(_zip(members))
        log = _read(path, group_field="topic", samples=False)
        assert [one.group for one in log.samples] == ["t1"] * 4
        assert log.samples[0].prompt is None
        with pytest.raises(
            InvalidInputError, match="sample 'a' has no field 'story'; it has id, input"
        ):
            inspect_log.read(path, Wanted(group_field="story"))

    def test_samples_come_in_the_order_of_the_dataset(self, tmp_path: Path) -> None:
        shuffled = [PLAIN[at] for at in (2, 0, 3, 1)]
        log = _read(_eval_file(tmp_path, _header(STATED, ids="abcd"), shuffled))
        assert [one.unit_id for one in log.samples] == list("abcd")

    @pytest.mark.parametrize(
        ("value", "number"),
        [
            ("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (False, 0.0), (3, 3.0),
            (-0.5, -0.5), ("yes", 1.0), ("No", 0.0), ("TRUE", 1.0), ("0.75", 0.75),
            (NAN, "skipped"), (math.inf, "skipped"), ("blue", "skipped"), ("nan", "skipped"),
            (10**400, "skipped"), (None, "skipped"),
        ],
    )  # fmt: skip
    def test_what_a_value_counts(self, tmp_path: Path, value: Any, number: float | str) -> None:
        log = _read(_json_file(tmp_path, _header(), [_sample("a", value), _sample("b", "P")]))
        assert _column(log) == [number, 0.5]
        assert log.binary == frozenset()

    def test_a_text_that_is_no_number_is_said(self, tmp_path: Path) -> None:
        log = _read(_json_file(tmp_path, _header(), [_sample("a", "blue"), _sample("b", "C")]))
        (note,) = log.notes
        assert note.startswith("match: 1 of 2 values are not numbers (such as 'blue')")

    def test_scores_of_several_keys(self, tmp_path: Path) -> None:
        marks = [{"fit": 3, "tone": "C"}, {"fit": NAN, "tone": "I"}, NAN, [0.5]]
        named = [_sample(at, ...) | {"scores": {"j": {"value": m}}} for at, m in enumerate(marks)]
        named[2]["scores"]["j"]["reason"] = "refusal"
        key = {"name": "fit", "scorer": "j", "metrics": {"mean": {"name": "mean", "value": 3.0}}}
        log = _read(_eval_file(tmp_path, _header(key), named))
        assert _column(log, "j.fit") == [3.0, "skipped", "skipped", "skipped"]
        assert _column(log, "j.tone") == [1.0, 0.0, "skipped", "skipped"]
        assert _column(log, "j.0") == ["skipped"] * 3 + [0.5]
        assert log.samples[2].values["j.fit"] == Grade.skipped("unscored: refusal")
        assert [(one.column, one.value) for one in log.stated] == [("j.fit", 3.0)]
        assert log.binary == {"j.tone"}

    def test_an_accuracy_says_that_more_is_better(self, tmp_path: Path) -> None:
        """A scorer's name may say nothing; what the log calls the mean of its values does."""
        named = [_sample(at, ...) | {"scores": {"j": {"value": at}}} for at in (0, 1)]
        metrics = {name: {"name": name, "value": 0.5} for name in ("accuracy", "std")}
        for stated, up in (({"accuracy", "std"}, True), ({"std"}, None)):
            score = {"name": "j", "scorer": "j", "metrics": {n: metrics[n] for n in sorted(stated)}}
            log = _read(_json_file(tmp_path, _header(score), named))
            assert log.direction("j") is up

    def test_a_scorer_that_scored_nothing_has_a_column(self, tmp_path: Path) -> None:
        log = _read(_json_file(tmp_path, _header(), [_sample("a", NAN), _sample("b", NAN)]))
        assert _column(log) == ["skipped", "skipped"]

    def test_conversations_and_texts_kept_elsewhere(self, tmp_path: Path) -> None:
        parts = [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "text", "text": "It is"},
            {"type": "image", "image": "data:"},
            {"type": "text", "text": "tc://h2"},
        ]
        call = {"id": "1", "function": "add", "arguments": {"a": 1}}
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "attachment://h1"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "2", "function": "add", "tool_call_id": "1"},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": "old"},
        ]
        sample = _sample("a", "C") | {
            "input": messages[:2],
            "messages": messages,
            "output": {"choices": [{"message": {"content": parts}}]},
            "attachments": {"h1": "A long text", "h2": "two"},
        }
        (one,) = _read(_eval_file(tmp_path, _header(), [sample])).samples
        assert one.input == "system: Be brief.\nuser: A long text"
        assert one.response == "It is\ntwo"
        assert one.prompt == (
            Message("system", "Be brief."),
            Message("user", "A long text"),
            Message("assistant", '[calls add {"a":1}]'),
            Message("user", "[add] 2"),
            Message("user", "It is\n[image]\ntwo"),
        )

    def test_an_earlier_message_tells_items_apart(self, tmp_path: Path) -> None:
        asked = {"role": "user", "content": "What colour is the sky?"}
        samples = [
            _sample(n, "C") | {"input": [{"role": "system", "content": f"Document {n}"}, asked]}
            for n in (1, 2)
        ]
        samples.append(_sample(3, "C") | {"input": [asked]})
        log = _read(_json_file(tmp_path, _header(), samples))
        assert [one.input for one in log.samples] == [
            "system: Document 1\nuser: What colour is the sky?",
            "system: Document 2\nuser: What colour is the sky?",
            "What colour is the sky?",
        ]
        assert len(set(log_records(log).content_hash.tolist())) == 3

    def test_cancelled_samples_did_not_fail(self, tmp_path: Path) -> None:
        samples = [
            _sample("a", "C"),
            _sample("b", ...) | {"error": {"message": "ValueError('boom')"}},
            _sample("c", ...) | {"error": {"message": "CancelledError('by cancel scope 7f')"}},
        ]
        log = _read(_json_file(tmp_path, _header(status="error"), samples))
        grades = [one.values["match"] for one in log.samples]
        assert [one.status for one in grades if isinstance(one, Grade)] == ["error", "skipped"]
        assert "1 of 3 samples failed" in log.notes
        assert "1 of 3 samples were cancelled when the evaluation was stopped" in log.notes

    def test_infinite_values_are_told_from_texts(self, tmp_path: Path) -> None:
        """Inspect counts a text as 0; what is infinite makes its mean infinite, too."""
        samples = [_sample("a", 1.0), _sample("b", math.inf), _sample("c", "maybe")]
        notes = _read(_json_file(tmp_path, _header(), samples)).notes
        assert "match: 1 of 3 values are infinite; they are skipped here" in notes
        assert any(note.startswith("match: 1 of 3 values are not numbers") for note in notes)

    def test_tokens_are_those_of_the_model_under_test(self, tmp_path: Path) -> None:
        judge = {"input_tokens": 900, "output_tokens": 90, "total_tokens": 990}
        mine = {"input_tokens": 4, "output_tokens": 3, "total_tokens": 17, "total_cost": 0.5}
        sample = _sample("a", "C") | {"model_usage": {"judge": judge, "mock/m": mine}}
        (one,) = _read(_json_file(tmp_path, _header(), [sample])).samples
        # 10 of the 14 tokens that were read came from the provider's cache
        assert one.usage == {"prompt_tokens": 14, "completion_tokens": 3, "cost": 0.5}

    def test_fields_of_the_dataset_are_looked_for_in_the_metadata(self, tmp_path: Path) -> None:
        sample = _sample("a", "C") | {"metadata": {"stem": "Raw?", "gold": ["x"], "level": 3}}
        path = _json_file(tmp_path, _header(), [sample])
        fields = {"input_field": "stem", "target_field": "gold", "by": ("level",)}
        (one,) = _read(path, **fields).samples
        assert (one.input, one.target, one.parts) == ("Raw?", ["x"], {"level": "3"})

    def test_hostile_texts_stay_as_they_are(self, tmp_path: Path) -> None:
        samples = []
        for name, text in SHORT.items():
            said = {"choices": [{"message": {"content": text}}]}
            one = _sample(f"{name}|{text}", "C") | {"input": text, "target": text, "output": said}
            samples.append(one)
        log = _read(_json_file(tmp_path, _header(), samples))
        assert len(log.samples) == len(SHORT) > 100
        for found, (name, text) in zip(log.samples, SHORT.items(), strict=True):
            whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            assert (found.input, found.target, found.response) == (whole, whole, whole)
            assert found.unit_id == f"{name}|{whole}"


class TestFailures:
    FAILED = _sample("d", ..., error={"message": "Boom\napi_key=sk-abc", "traceback": "…"})

    @pytest.mark.parametrize("write", WRITERS)
    @pytest.mark.parametrize("samples", [True, False])
    def test_failed_samples_stay_and_are_counted(
        self, tmp_path: Path, write: Callable[..., Path], samples: bool
    ) -> None:
        header = _header(_score(2 / 3, scored_samples=3))
        log = _read(write(tmp_path, header, [*PLAIN[:3], self.FAILED]), samples=samples)
        assert _column(log) == [1.0, 0.0, 1.0, "error"]
        assert log.samples[3].error == "Boom api_key=[redacted]"
        assert log.samples[3].values["match"] == Grade.error("Boom api_key=[redacted]")
        assert log.notes == (
            "1 of 4 samples failed and are not counted in the log: match accuracy 0.666667 over 3",
        )

    def test_a_log_in_which_all_failed_has_the_columns_of_its_scorers(self, tmp_path: Path) -> None:
        header = _header(status="error", error={"message": "Boom", "traceback": ""})
        log = _read(_json_file(tmp_path, header, [self.FAILED]))
        assert _column(log) == ["error"]
        assert log.notes == ("the log's status is error: Boom", "1 of 1 samples failed")

    def test_a_failed_sample_that_was_scored_keeps_its_score(self, tmp_path: Path) -> None:
        kept = _sample("a", "C", error={"message": "Boom"})
        kept["scores"]["exact"] = {"value": NAN}
        log = _read(_json_file(tmp_path, _header(), [kept]))
        assert (_column(log), _column(log, "exact")) == ([1.0], ["skipped"])
        assert log.samples[0].error is None
        assert log.notes == ("1 of 1 samples failed but were scored",)

    def test_limits_are_said(self, tmp_path: Path) -> None:
        limited = [_sample(n, v, limit={"type": "token"}) for n, v in (("a", "C"), ("b", ...))]
        log = _read(_eval_file(tmp_path, _header(), [*limited, PLAIN[2]]))
        assert _column(log) == [1.0, "skipped", 1.0]
        assert "the sample reached a limit: token" in log.samples[1].values["match"].reason
        assert log.notes == ("2 of 3 samples reached a limit (token 2)",)

    def test_an_unfinished_log_is_read_from_its_journal(self, tmp_path: Path) -> None:
        start = {"version": 2, "eval": _header(ids="abcd")["eval"]}
        members = [
            ("_journal/start.json", _json(start)),
            ("samples/b_epoch_1.json", _json(PLAIN[0])),
            ("_journal/summaries/10.json", _json([_summary(PLAIN[0])])),
            ("_journal/summaries/9.json", _json([_summary(_sample("a", "I"))])),
        ]
        path = tmp_path / "log.eval"
        path.write_bytes(_zip(members))
        for samples in (True, False):  # of the two summaries of one sample the later counts
            log = _read(path, samples=samples)
            assert (_column(log), log.n_planned, log.stated) == ([1.0], 4, [])
            assert log.notes == ("the log is unfinished: it has 1 of 4 samples and no results",)
            assert log.settings["status"] == "unfinished"

    def test_a_cancelled_log_without_samples_has_its_reductions(self, tmp_path: Path) -> None:
        reductions = [
            {"scorer": "match", "samples": [{"value": v, "sample_id": n} for n, v in rows]}
            for rows in ([(1, 1.0), (2, 0.5)],)
        ]
        header = _header(_score(0.75), status="cancelled", total=4, eval={"config": {"epochs": 2}})
        for path in (
            _json_file(tmp_path, header, None, reductions=reductions),
            _json_file(
                tmp_path,
                header | {"results": header["results"] | {"sample_reductions": reductions}},
            ),
        ):
            log = _read(path)
            assert [(one.unit_id, one.values) for one in log.samples] == [
                ("1", {"match": 1.0}),
                ("2", {"match": 0.5}),
            ]
            assert log.n_planned == 2
            assert log.notes[0] == "the log's status is cancelled"
            assert "no samples; its values are the mean" in log.notes[1]

    def test_a_header_alone_has_what_it_states(self, tmp_path: Path) -> None:
        log = _read(_json_file(tmp_path, _header(STATED)))
        assert (list(log.samples), log.stated[0].value, log.notes) == ([], 0.75, ())

    def test_samples_without_scores(self, tmp_path: Path) -> None:
        log = _read(_eval_file(tmp_path, _header(), [_sample("a", ...)]))
        assert (log.samples[0].values, log.notes) == ({}, ("the samples have no scores",))


class TestStated:
    def test_other_numbers_are_kept_with_how_they_were_made(self, tmp_path: Path) -> None:
        metrics = {
            "accuracy": {"name": "accuracy", "value": 0.75},
            "mean": {"name": "mean", "value": 0.75},
            "stderr": {"name": "stderr", "value": 0.1, "params": {"cluster": "topic"}},
            "bootstrap_stderr": {"name": "bootstrap_stderr", "value": 0.2},
            "lower": {"name": "lower", "group": "ci", "value": 0.3},
            "odd": {"name": "odd", "group": "grouped", "value": 0.4},
            "var": {"name": "var", "value": NAN},
        }
        log = _read(_json_file(tmp_path, _header(_score(0) | {"metrics": metrics}), PLAIN))
        found = [(one.name, one.aggregation, one.stderr, one.stderr_name) for one in log.stated]
        assert found == [
            ("accuracy", "mean", 0.1, "clustered by 'topic'"),
            ("mean", "mean", 0.1, "clustered by 'topic'"),
            ("bootstrap_stderr", "bootstrap_stderr", None, ""),
            ("lower", "ci lower", None, ""),
            ("odd", "grouped odd", None, ""),
        ]
        assert (
            log.notes[0]
            == "match: the log reports nan as its var, which is not a finite number; omitted"
        )
        assert log.notes[1].startswith("the log's standard errors are clustered by 'topic': pass")
        assert len(log.notes) == 2
        assert len(_read(Path(log.files[0]), group_field="topic").notes) == 1

    def test_a_bootstrapped_error_stands_alone_beside_a_mean(self, tmp_path: Path) -> None:
        metrics = {"mean": {"value": 0.75}, "b": {"name": "bootstrap_stderr", "value": 0.2}}
        log = _read(_json_file(tmp_path, _header(_score(0) | {"metrics": metrics}), PLAIN))
        assert [(one.stderr, one.stderr_name) for one in log.stated] == [(0.2, "bootstrap")]

    def test_a_metric_of_the_task_with_a_known_name_is_no_mean(self, tmp_path: Path) -> None:
        scorers = [{"name": "match", "metrics": {"*": [{"name": "accuracy", "options": {}}]}}]
        path = _json_file(tmp_path, _header(_score(0.2), eval={"scorers": scorers}), PLAIN)
        assert [one.aggregation for one in _read(path).stated] == ["the task's own accuracy"]

    def test_a_number_of_no_column_is_left_out_and_said(self, tmp_path: Path) -> None:
        twofold = [_sample("a", {"x": 1, "y": 2})]
        log = _read(_json_file(tmp_path, _header(_score(0.0)), twofold))
        assert (log.stated, len(log.notes)) == ([], 1)
        assert log.notes[0].startswith("match: the log reports accuracy 0.0; omitted")

    def test_epochs_are_attempts_and_other_reductions_are_made_again(self, tmp_path: Path) -> None:
        tries = {"a": [1, 0, 1, 0], "b": [0.25, 0.25, 1, NAN]}
        samples = [
            _sample(name, value, epoch)
            for name, values in tries.items()
            for epoch, value in enumerate(values, 1)
        ]
        # by hand; b has three values. pass_at_2: 1 - C(2,2)/C(4,2) and 1 - C(2,2)/C(3,2)
        means = {
            "mean": (0.5 + 0.5) / 2,
            "median": (0.5 + 0.25) / 2,
            "mode": (1 + 0.25) / 2,
            "max": 1.0,
            "at_least_2": 0.5,
            "pass_at_2": (5 / 6 + 2 / 3) / 2,
            "pass_k_2": (1 / 6 + 0) / 2,
            "majority": 0.123,
        }
        scores = [_score(value, reducer=name) for name, value in means.items()]
        header = _header(*scores, total=8, eval={"config": {"epochs": 4}})
        log = _read(_eval_file(tmp_path, header, samples))
        assert [(one.unit_id, one.attempt) for one in log.samples[3:5]] == [("a", 4), ("b", 1)]
        assert [one.aggregation for one in log.stated[:3]] == [
            "mean",
            "mean of median",
            "mean of mode",
        ]
        assert log.stated[-1].aggregation == "mean of majority"
        said = "6 means over other reductions of the epochs match the samples"
        assert log.notes == (said,)
        wrong = [one | {"metrics": {"accuracy": {"value": 0.9}}} for one in scores[3:4]]
        header = _header(*wrong, total=8, eval={"config": {"epochs": 4}})
        (note,) = _read(_json_file(tmp_path, header, samples)).notes
        assert note == (
            "match: the log reports accuracy (max) 0.9 (mean of max); from the samples it is 1"
        )

    def test_without_a_reducer_every_try_counts(self, tmp_path: Path) -> None:
        samples = [_sample("a", "C", n) for n in (1, 2, 3)] + [_sample("b", "I", 1)]
        config = {"config": {"epochs": 3, "epochs_reducer": []}}
        log = _read(_json_file(tmp_path, _header(_score(0.75), eval=config), samples))
        assert log.stated[0].aggregation == "mean of all attempts"
        assert log.notes[0].startswith("1 means over other reductions")

    def test_reductions_of_several_kinds_are_held_to_what_is_stated(self, tmp_path: Path) -> None:
        kinds = {"max": 1.0, "mean": 0.5, "own": 0.25}
        reductions = [
            {"scorer": "match", "reducer": name, "samples": [{"value": value, "sample_id": 1}]}
            for name, value in kinds.items()
        ]
        stated = [_score(v if n != "own" else 0.3, reducer=n) for n, v in kinds.items()]
        log = _read(_json_file(tmp_path, _header(*stated), None, reductions=reductions))
        assert _column(log) == [0.5]
        assert log.notes[1:] == (
            "match: the log reports accuracy (own) 0.3 (mean of own); from the samples it is 0.25",
            "1 means over other reductions of the epochs match the samples",
        )

    @given(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=7),
        st.integers(1, 7),
    )
    def test_counting_reducers_are_chances_over_draws(self, values: list[float], k: int) -> None:
        draws = list(itertools.combinations(values, k))
        right = [[value >= 1 for value in draw] for draw in draws]
        for name, holds in (("pass_at", any), ("pass_k", all)):
            found = reduced(values, f"{name}_{k}")
            if not draws:
                assert found is None
            else:
                chance = sum(map(holds, right)) / len(draws)
                assert found == pytest.approx(chance, abs=1e-12)
        assert reduced(values, f"at_least_{k}") == float(values.count(1.0) >= k)
        assert is_known(f"pass_at_{k}")
        assert not is_known("pass_at_0")

    @given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=4), max_size=6))
    def test_means_leave_out_what_has_no_value(self, items: list[list[int | None]]) -> None:
        samples = [
            LoggedSample(
                unit_id=str(at),
                attempt=n,
                values={"a": Grade.skipped("-") if value is None else float(value)},
            )
            for at, tries in enumerate(items)
            for n, value in enumerate(tries, 1)
        ]
        there = [[value for value in tries if value is not None] for tries in items]
        there = [values for values in there if values]
        means = [sum(values) / len(values) for values in there]
        every = [value for values in there for value in values]
        for reducer, wanted in (("mean", means), (None, every)):
            expected = pytest.approx(sum(wanted) / len(wanted)) if wanted else None
            assert mean_of(samples, "a", reducer) == expected


class TestOldLogs:
    def test_one_score_without_a_name_and_texts_in_the_transcript(self, tmp_path: Path) -> None:
        sample = {
            "id": 1,
            "epoch": 1,
            "input": "tc://h",
            "target": "x",
            "score": {"value": "C"},
            "transcript": {"events": [], "content": {"h": "The long text"}},
        }
        header = _header(eval={"config": {}, "dataset": {}, "scorers": None})
        header |= {"version": 1}
        header["results"] = {
            "scorer": {"name": "pattern", "params": {}},
            "metrics": {"accuracy": {"name": "accuracy", "value": 1.0, "options": {}}},
        }
        log = _read(_json_file(tmp_path, header, [sample]))
        assert log.samples[0].values == {"pattern": 1.0}
        assert log.samples[0].input == "The long text"
        assert (log.stated[0].column, log.stated[0].n, log.n_planned) == ("pattern", None, None)

    def test_an_eval_file_without_summaries(self, tmp_path: Path) -> None:
        members = [one for one in _members(_header(), PLAIN) if one[0] != "summaries.json"]
        path = tmp_path / "log.eval"
        path.write_bytes(_zip(members, DEFLATE))
        assert _column(_read(path, samples=False)) == [1.0, 0.0, 1.0, 1.0]


def _bytes(data: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "log.eval"
        path.write_bytes(data)
        return path

    return write


def _with(header: Any, samples: Any = None) -> Callable[[Path], Path]:
    return lambda folder: _json_file(folder, header, samples)


GOOD = _zip(_members(_header(STATED), PLAIN))
LOST = [one for one in _members(_header(STATED), PLAIN) if not one[0].startswith("samples/b")]
BAD = {
    "empty": (_bytes(b""), r"log\.eval: the file is empty \(0 bytes\)"),
    "cut short": (_bytes(GOOD[:-30]), "truncated: .* `inspect log recover` may"),
    "cut in half": (_bytes(GOOD[: len(GOOD) // 2]), "truncated"),
    "no log": (_bytes(_zip([("a.txt", b"a")])), "neither 'header.json' nor '_journal/start.json'"),
    "an empty zip": (_bytes(_zip([])), "neither 'header.json'"),
    "a text": (_bytes(b"task,accuracy\n"), "neither a zip file nor JSON"),
    "a number": (_bytes(b"7"), "the log is a int; it must be an object"),
    "no UTF-8": (_bytes(b'{"version": 2, "eval": "\xff"}'), "not UTF-8 at byte 24"),
    "nested": (_bytes(b"[" * 100_000), "nested too deeply"),
    "digits": (_bytes(b'{"version": ' + b"1" * 5_000 + b"}"), "malformed JSON: Exceeds the limit"),
    "a version to come": (
        _with(_header() | {"version": 3}),
        "`version` is 3; only versions 1 and 2",
    ),
    "no version": (_with(_header() | {"version": None}), "`version` is None"),
    "no eval": (_with(_header() | {"eval": [1]}), "`eval` is a list; it must be an object"),
    "no task": (_with(_header(eval={"task": ""})), "`eval.task` is missing"),
    "nothing": (_with(_header(), []), "0 samples and no results; its status is success"),
    "started": (
        _bytes(_zip([("_journal/start.json", _json({"version": 2, "eval": _header()["eval"]}))])),
        "0 samples and no results; its status is unfinished",
    ),
    "NaN stated": (_with(_header(_score(NAN)), []), "0 samples and no results"),
    "twice": (_with(_header(), [PLAIN[0], PLAIN[0]]), "sample 'a' of epoch 1 occurs twice"),
    "1 and '1'": (_with(_header(), [_sample(1, "C"), _sample("1", "C")]), "occurs twice"),
    "lost": (
        _bytes(_zip(LOST)),
        "1 of 4 samples listed in the summaries are missing from samples/, such as 'b'",
    ),
    "no id": (_with(_header(), [{"epoch": 1}]), r"samples\[0\]: `id` is None"),
    "no epoch": (_with(_header(), [_sample("a", "C", 0)]), r"samples\[0\]: `epoch` is 0"),
    "scores": (_with(_header(), [PLAIN[0] | {"scores": [1]}]), "sample 'a': `scores` is a list"),
    "roles": (
        _with(_header(), [PLAIN[0] | {"messages": [{"role": "x"}]}]),
        "sample 'a': a message has the role 'x'",
    ),
    "samples": (_with(_header(), {"a": 1}), "`samples` is a dict; it must be a list"),
    "summaries": (
        _bytes(_zip([*_members(_header(), []), ("summaries.json", b"{}")])),
        r"summaries\.json is a dict; it must be a list",
    ),
}


class TestBadFiles:
    @pytest.mark.parametrize("name", BAD)
    def test_one_clear_line(self, tmp_path: Path, name: str) -> None:
        write, said = BAD[name]
        path = write(tmp_path)
        with pytest.raises(ArtifactError, match=said) as caught:
            inspect_log.read(path, Wanted())
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == [path]

    def test_a_file_that_is_too_large(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = _json_file(tmp_path, _header(STATED))
        monkeypatch.setattr("eval_toolkit.integrations.importing.inspect_parts.LARGEST_MEMBER", 9)
        with pytest.raises(ArtifactError, match="bytes; logs of at most 9 can be read"):
            inspect_log.read(path, Wanted())

    def test_what_is_inside_counts_and_not_the_name(self, tmp_path: Path) -> None:
        as_json, as_eval = tmp_path / "zip.json", tmp_path / "text.eval"
        as_json.write_bytes(GOOD)
        as_eval.write_bytes(b"\xef\xbb\xbf" + _json(_header(STATED) | {"samples": PLAIN}))
        assert _read(as_json).samples == _read(as_eval).samples

    def test_bare_infinity_and_secrets_in_the_header(self, tmp_path: Path) -> None:
        spec = {
            "model_args": {"api_key": "hush", "limit": math.inf},
            "task_args": {"x": "y" * 9999},
        }
        log = _read(_json_file(tmp_path, _header(STATED, eval=spec), PLAIN))
        assert log.settings["model_args"] == {"api_key": "[redacted]", "limit": None}
        assert log.settings["task_args"] == "omitted: 10007 characters"
        assert "hush" not in repr(log)

    @given(st.binary(max_size=200), st.sampled_from(["a.json", "a.eval", "a"]))
    def test_any_bytes_are_recognised_or_not_and_read_or_refused(
        self, tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
    ) -> None:
        path = tmp_path_factory.mktemp("any") / name
        path.write_bytes(data)
        assert inspect_log.recognises(path) is (name == "a.eval")
        with pytest.raises(EvalToolkitError):
            inspect_log.read(path, Wanted())

    def test_what_is_no_log_is_not_recognised(self, tmp_path: Path) -> None:
        other = tmp_path / "results.json"
        other.write_text('{"results": {"arc": {"acc": 1}}, "eval": {"a": 1}}')
        assert not inspect_log.recognises(other)
        assert not inspect_log.recognises(tmp_path)
        assert not inspect_log.recognises(tmp_path / "absent.eval")

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="cannot be read"):
            inspect_log.read(tmp_path, Wanted())

    def test_nothing_is_imported_for_a_json_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = _json_file(tmp_path, _header(STATED), PLAIN)
        real = builtins.__import__

        def refuse(name: str, *rest: Any) -> Any:
            assert not name.startswith(("inspect_ai", "zstandard"))
            return real(name, *rest)

        monkeypatch.setattr(builtins, "__import__", refuse)
        assert len(_read(path).samples) == 4


class TestPublishedLogs:
    """Logs that Inspect's own repository holds: what their headers state is found again."""

    @pytest.mark.parametrize(
        ("name", "n", "stated"),
        [
            ("inspect_2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval", 10, []),
            ("inspect_2025-05-12T20-28-13-04-00_no-samples.json", 3, [2 / 3]),
            ("inspect_2025-05-12T20-28-13-04-00_popularity.json", 3, [2 / 3]),
            ("inspect_log_formats.eval", 1, [0.0]),
            ("inspect_log_formats.json", 1, [0.0]),
            ("inspect_log_read_sample.eval", 1, [1.0]),
        ],
    )
    def test_means(self, shared_data: Path, name: str, n: int, stated: list[float]) -> None:
        log = _read(shared_data / "tool_logs" / name)
        assert len(log.samples) == n == log.n_planned
        assert [one.value for one in log.stated] == stated
        for one in log.stated:
            assert mean_of(log.samples, one.column, "mean") == pytest.approx(one.value, abs=1e-12)
        if "no-samples" not in name:
            assert all(one.response and one.prompt and one.input for one in log.samples)
