"""JSON, TOML and YAML within limits: every hostile document is one line, and soon."""

import itertools
import json
import os
import socket
import stat
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from tests.support.each import each

from eval_toolkit._internal.files import (
    limits,
    open_regular,
    parse_json,
    parse_toml,
    parse_yaml,
    read_document,
    read_regular,
)
from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit.errors import ArtifactError, EvalToolkitError, InvalidInputError
from eval_toolkit.models import ScriptedModel
from eval_toolkit.tasks import load_suite, load_task, run_suite
from eval_toolkit.tasks.lm_eval.files import read_config

DEEP = "nested too deeply"


def alias_bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in itertools.pairwise("abcdefghij"):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    return "\n".join(lines)


YAML = {
    "flow lists": ("[" * 100_000, DEEP),
    "flow tables": ("{a: " * 100_000, DEEP),
    "block lists": ("- " * 100_000, DEEP),
    "keys": ("? " * 100_000, DEEP),
    "indented": ("\n".join(" " * i + "a:" for i in range(1_500)), DEEP),
    "aliases": (alias_bomb(), "aliases expand to more than"),
    "long alias": (f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 200}]", "aliases expand to more than"),
    "list in itself": ("a: &a [*a]", r"the alias \*a is inside the node"),
    "table in itself": ("&a {b: *a}", r"the alias \*a is inside the node"),
    "merged with itself": ("a: &a {<<: *a}", r"the alias \*a is inside the node"),
    "date": ("a: 2001-13-45", "month must be in 1..12"),
    "integer": (f"a: {'9' * 900}", "an integer has"),
    "digits": (f"a: {'9' * 5_000}", "a number has 5000 characters"),
    "hexadecimal": (f"a: 0x{'f' * 5_000}", "a number has"),
    "base 60": ("a: " + ":".join(["59"] * 100_000), "a number has"),
    "empty integer": ("a: !!int ''", "a value cannot be read"),
    "no truth value": ("a: !!bool maybe", "a value cannot be read"),
    "no time": ("a: !!timestamp x", "a value cannot be read"),
    "code": ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
    "list as a key": ("? [a]\n: 1", "unhashable key"),
    "undefined alias": ("a: *b", "undefined alias"),
    "two documents": ("a: 1\n---\nb: 1", "single document"),
    "control character": ("a: \x07", "characters are not allowed"),
}

TOML = {
    "dotted": ("a." * 100_000 + "a = 1", DEEP),
    "dotted table": (f"[{'a.' * 100_000}a]", DEEP),
    "quoted": ('"a".' * 100_000 + "a = 1", DEEP),
    "spaced": ("a . " * 100_000 + "a = 1", DEEP),
    "lists": ("a = " + "[" * 100_000, DEEP),
    "tables": ("a = " + "{a = " * 100_000, DEEP),
    "integer": (f"a = {'9' * 100}", "an integer has 333 bits"),
    "digits": (f"a = {'9' * 100_000}", "4300 digits"),
    "hexadecimal": (f"a = 0x{'f' * 5_000}", "an integer has 20000 bits"),
    "date": ("a = 2001-02-31", "Invalid date"),
    "month": ("a = 2001-13-45", "not TOML"),
    "open text": ('a = """' + '"\n' * 100_000, "Unterminated string"),
}


@each("name", sorted(YAML))
def test_yaml(name):
    text, message = YAML[name]
    with pytest.raises(InvalidInputError, match=message) as raised:
        parse_yaml(text, "x.yaml")
    assert str(raised.value).startswith("x.yaml: not YAML: ")
    assert "\n" not in str(raised.value)


@each("name", sorted(TOML))
def test_toml(name):
    text, message = TOML[name]
    with pytest.raises(InvalidInputError, match=message) as raised:
        parse_toml(text, "x.toml")
    assert str(raised.value).startswith("x.toml: not TOML: ")
    assert "\n" not in str(raised.value)


def test_what_people_write_is_read():
    text = "a: &a {x: [1, 2.5, null, true]}\nb: {<<: *a, y: 2001-12-31}\nc: [*a, *a]"
    assert parse_yaml(text, "x.yaml")["c"] == [{"x": [1, 2.5, None, True]}] * 2
    assert parse_yaml("a: " + "[" * 98 + "]" * 98, "x.yaml")
    assert parse_yaml(f"a: '{'1' * 5_000}'", "x.yaml") == {"a": "1" * 5_000}
    assert parse_toml(f'a = "{"x.y[" * 500}"  # {"[" * 500}', "x.toml")
    assert parse_toml("'a.b'.c = 18446744073709551615", "x.toml") == {"a.b": {"c": 2**64 - 1}}


@each(
    ("text", "message"),
    [
        ("[" * 100_000, DEEP),
        ("[" * 101 + "]" * 101, DEEP),
        ('{"a":' * 300 + "1" + "}" * 300, DEEP),
        ("1e999", "1e999 is not valid JSON"),
        ('{"a": [1, -1E+400]}', "-1E\\+400 is not valid JSON"),
        ("1" * 350 + ".5", "is not valid JSON"),
        ("1" * 5_000, "an integer has 5000 digits"),
        ("[NaN]", "NaN is not valid JSON"),
        (b"\xff", "not UTF-8 at byte 0"),
        ("[1,", "malformed JSON"),
    ],
)
def test_json(text, message):
    with pytest.raises(ArtifactError, match=message) as raised:
        parse_json(text, "x.json")
    assert str(raised.value).startswith("x.json: ")
    assert len(str(raised.value)) < 200


def test_json_of_other_tools():
    assert parse_json("[Infinity, 1e999]", "x.json", strict=False) == [float("inf")] * 2
    assert parse_json("[1e-999, 1e3, 12345678901234567890]", "x.json") == [
        0.0,
        1000.0,
        12345678901234567890,
    ]
    assert parse_json("[" * 100 + "]" * 100, "x.json")


def test_a_document_that_is_too_long(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n" + "#" * limits.DOCUMENT_BYTES)
    with pytest.raises(InvalidInputError, match="is larger than the limit of 2 MiB"):
        read_document(path)


def test_three_levels_of_two_hundred_includes(tmp_path):
    for n in range(200):
        (tmp_path / f"c{n}.yaml").write_text("x: 1\n")
        (tmp_path / f"b{n}.yaml").write_text(
            "include: [" + ", ".join(f"c{k}.yaml" for k in range(200)) + "]\n"
        )
    top = tmp_path / "a.yaml"
    top.write_text("include: [" + ", ".join(f"b{k}.yaml" for k in range(200)) + "]\ntask: t\n")
    with pytest.raises(InvalidInputError, match=r"a\.yaml: includes more than 1000 files"):
        read_config(top)


def test_a_chain_of_includes(tmp_path):
    for n in range(300):
        (tmp_path / f"a{n}.yaml").write_text(f"include: a{n + 1}.yaml\n")
    with pytest.raises(InvalidInputError, match="nests them more than 100 deep"):
        read_config(tmp_path / "a0.yaml")


@pytest.mark.parametrize(
    "text",
    [
        *("root:x:0:0:hidden\n", "a: [hidden\n", "[hidden]\n", "*hidden"),
        "root:*:20228:0:99999:7:::\nhidden:!:20228::::::\n",  # as /etc/shadow: YAML of odd keys
    ],
)
def test_what_an_included_file_says_is_not_repeated(tmp_path, text):
    (tmp_path / "passwd").write_text(text)
    (tmp_path / "a.yaml").write_text(f"include: {tmp_path / 'passwd'}\ntask: t\n")
    with pytest.raises(InvalidInputError) as raised:
        read_config(tmp_path / "a.yaml")
    assert "hidden" not in str(raised.value)
    assert "root" not in str(raised.value).replace(str(tmp_path), "")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # the path of a socket may have 100 characters
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/s")
        for path, kind in [
            (pipe, "a pipe"),
            (tmp_path, "a folder"),
            (Path(folder) / "s", "a socket"),
            (Path("/dev/zero"), "a device"),
        ]:
            for reader in (open_regular, read_regular, sha256_file, read_document):
                with pytest.raises((ArtifactError, InvalidInputError), match=f"{kind}, not a regu"):
                    reader(path)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_regular(tmp_path / "b") == b"x"
    with open_regular(tmp_path / "b") as stream:
        assert stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "c")


LM_EVAL = """
task: t
dataset_path: json
dataset_kwargs: {{data_files: {name}}}
test_split: test
doc_to_text: q
doc_to_target: a
"""


@pytest.mark.parametrize("name", ["é" * 300, "a/" * 3000, "a\0b"])
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("suite.yaml", "name: s\ntasks: [{name}]\n"),
        ("suite.yaml", "name: s\ndata: {name}\ntasks: [capitals]\n"),
        ("task.yaml", "task: {{name: t, data: {name}}}\nprompt: {{instruction: q, answer: a}}\n"),
        ("lm.yaml", "include: {name}\ntask: t\n"),
        ("lm.yaml", LM_EVAL),
    ],
)
def test_a_name_that_no_file_can_have_is_no_file(tmp_path, name, file, text):
    """Before Python 3.14, `Path.exists` raises OSError for it."""
    path = tmp_path / file
    path.write_text(text.format(name=json.dumps(name)), "utf-8")

    def read() -> object:
        if file == "suite.yaml":
            return run_suite(load_suite(path), ScriptedModel("x"), limit=1)
        return load_task(path).samples()

    with pytest.raises(EvalToolkitError):
        read()


def test_no_room_is_taken_for_what_is_not_there(tmp_path):
    """A small file was read into room for the largest one, which a limit of memory refuses."""
    path = tmp_path / "small"
    path.write_bytes(b"small")
    tracemalloc.start()
    try:
        assert read_regular(path) == b"small"
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [1, {"test": 2}, True])
def test_data_that_is_no_path(tmp_path, data):
    with pytest.raises(InvalidInputError, match="it must be a path"):
        load_task("capitals", data=data)


def test_a_folder_of_all_there_is_is_no_folder_of_data(tmp_path, monkeypatch):
    """A task file may say ``data = "/"``."""
    monkeypatch.setattr("eval_toolkit.tasks.data._MOST_FILES", 3)
    for n in range(4):
        (tmp_path / f"test-{n}.jsonl").write_text("{}\n")
    with pytest.raises(InvalidInputError, match="contains more than 3 files"):
        load_task("capitals", data=tmp_path).samples()
