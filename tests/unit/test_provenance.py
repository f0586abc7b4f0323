"""Where a run comes from: git, files, machine; and what must not be told."""

import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from tests.support.each import each
from tests.support.git_repository import committed

from eval_toolkit import provenance
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.provenance import (
    FileHash,
    FileHashMissing,
    capture_cuda_version,
    capture_git_dirty,
    capture_git_sha,
    capture_gpu_info,
    capture_hardware,
    compute_file_hash,
    figure_metadata,
    file_sha256,
    make_run_dir,
    package_versions,
    redact_secrets,
)

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4, "abc"


# --- git ----------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    committed(tmp_path, "file", "one")
    return tmp_path


def test_git_in_a_repository(repository):
    sha = capture_git_sha(repository)
    assert re.fullmatch("[0-9a-f]{40}", sha)
    assert not capture_git_dirty(repository)
    (repository / "new").write_text("a run folder, say")
    assert not capture_git_dirty(repository), "untracked files are not changed code"
    (repository / "file").write_text("two")
    assert capture_git_dirty(repository)
    assert capture_git_sha(repository) == sha


@pytest.mark.parametrize("name", ["x", "a=b", "a.b"])
def test_programs_of_a_repository_are_not_run(repository, name):
    """A folder of somebody else's may come with a .git whose configuration names programs."""
    canary = repository / "canary"
    runs = f"touch '{canary}'; cat"
    settings = {
        "core.fsmonitor": f"touch '{canary}'; false",
        f"filter.{name}.clean": runs,
        f"filter.{name}.process": runs,
        f"filter.{name}.required": "true",
    }
    for key, value in settings.items():
        subprocess.run(["git", "config", key, value], cwd=repository, check=True)
    (repository / ".gitattributes").write_text(f"* filter={name}\n")
    os.utime(repository / "file", (1, 1))  # its content has to be looked at
    assert capture_git_sha(repository) is not None
    assert not capture_git_dirty(repository)
    (repository / "file").write_text("changed")
    assert capture_git_dirty(repository)
    assert not canary.exists()


def test_a_missing_object_is_not_fetched(repository):
    """A partial clone asks its remote for what is missing, by the program it names."""
    canary = repository / "canary"
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(repository),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": f"touch '{canary}'; git-upload-pack",
    }
    for key, value in settings.items():
        subprocess.run(["git", "config", key, value], cwd=repository, check=True)
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=repository, check=True, capture_output=True
    )
    tree = asked.stdout.decode().strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    capture_git_dirty(repository)
    assert not canary.exists()


def test_outside_git(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert capture_git_sha(tmp_path) is None
    assert not capture_git_dirty(tmp_path)
    assert capture_git_sha(tmp_path / "nowhere") is None
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert capture_git_sha(tmp_path) is None, "no commit yet"


def test_without_git(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert capture_git_sha() is None


def test_a_command_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(provenance, "_TIMEOUT_S", 0.2)
    assert provenance._output([sys.executable, "-c", "import time; time.sleep(30)"]) is None


# --- files --------------------------------------------------------------------------------------


def test_hashes_of_files(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert compute_file_hash(tmp_path / "abc") == FileHash(ABC)
    assert file_sha256(str(tmp_path / "abc")) == ABC
    assert compute_file_hash(tmp_path) == FileHashMissing("not_a_file", tmp_path)
    assert compute_file_hash(tmp_path / "no") == FileHashMissing("missing", tmp_path / "no")
    assert file_sha256(tmp_path) is None
    with pytest.raises(FileNotFoundError, match="no: missing"):
        file_sha256(tmp_path / "no", strict=True)


def test_run_folders_are_new(tmp_path):
    folders = [make_run_dir(tmp_path / "evals") for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(folder.is_dir() for folder in folders)
    assert re.fullmatch(r"run_\d{4}-\d\d-\d\d_\d{6}", folders[0].name)
    assert make_run_dir(str(tmp_path), prefix="night").name.startswith("night_")
    for prefix in ("", "a/b", "a\\b"):
        with pytest.raises(InvalidInputError, match="it must be a plain name"):
            make_run_dir(tmp_path, prefix=prefix)


def test_figure_metadata():
    data = figure_metadata({"run_id": "r"}, dpi=150)
    assert data["run_id"] == "r"
    assert data["figure_dpi"] == 150
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data["timestamp_utc"])
    assert "matplotlib_version" in data


# --- machine ------------------------------------------------------------------------------------


def test_hardware_and_packages():
    hardware = capture_hardware()
    assert hardware["cpu_count"] == os.cpu_count()
    assert hardware["memory_gb"] is None or hardware["memory_gb"] > 0.1
    versions = package_versions()
    assert versions["numpy"] == np.__version__
    assert "sklearn" in versions, "by import name"
    assert "pytest" not in versions


@pytest.fixture
def fake_smi(tmp_path, monkeypatch):
    """A program that prints what nvidia-smi prints on a machine with two H200."""
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\n"
        'case "$1" in --query-gpu=*)\n'
        'echo "NVIDIA H200, 143771, 580.159.04"; echo "NVIDIA H200, 143771, 580.159.04";;\n'
        '*) echo "| NVIDIA-SMI 580.159.04    Driver Version: 580.159.04     CUDA Version: 13.0 |";;\n'
        "esac\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delitem(sys.modules, "torch", raising=False)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_the_cuda_version_is_not_the_drivers(fake_smi, monkeypatch):
    assert capture_gpu_info() == {
        "name": "NVIDIA H200",
        "count": 2,
        "driver_version": "580.159.04",
        "memory_gb": 150.8,
    }
    assert capture_cuda_version() == "13.0"
    torch = types.SimpleNamespace(version=types.SimpleNamespace(cuda="12.4"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert capture_cuda_version() == "12.4", "what torch was built with, once it is loaded"


def test_a_machine_without_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert capture_gpu_info() is None
    assert capture_cuda_version() is None


# --- secrets ------------------------------------------------------------------------------------

KEYS = ("api_key", "apiKey", "OPENAI_API_KEY", "hf_token", "token", "Authorization", "password")
KEYS += (
    "client_secret",
    "private-key",
    "aws_secret_access_key",
    "db.password",
    "Set-Cookie",
    "pwd",
    "azure_key",
    "AZURE_KEY",
    "db_pass",
    "client_key",
    "ssh_key",
    "basic_auth",
    "api_key_2",
    "access_tokens",
)
INNOCENT = ("max_tokens", "tokenizer", "n_tokens", "token_count", "api_key_env", "key", "sort_keys")
INNOCENT += ("eos_token", "pass", "second_pass", "label_key", "sig", "max_token")
INNOCENT += ("primary_key", "secretary", "author", "passwords_checked", "cookie_policy", "")


@each("key", KEYS)
def test_keys_that_name_a_secret(key):
    assert redact_secrets({"a": [{key: "hush"}]}) == {"a": [{key: "[redacted]"}]}
    assert redact_secrets({key: {"x": ["hush", 1, None]}}) == {key: {"x": ["[redacted]", 1, None]}}
    assert redact_secrets({key: "hush"}, keys=False) == {key: "hush"}
    assert redact_secrets({key: 5}) == {key: 5}


@each("key", INNOCENT)
def test_keys_that_do_not(key):
    assert redact_secrets({key: "plain"}) == {key: "plain"}


@each(
    "secret",
    [
        "sk-proj-Ab3dEf6hIj9kLm2nOp5q",
        "sk-ant-api03-Ab3dEf6hIj9kLm2nOp5q",
        "hf_abcdefghijklmnopqrstuv",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "xoxb-1234567890-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-abcdefghijklmnopqrstuvwxyz012345",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_texts_that_look_like_a_secret(secret):
    text = f"401: refused {secret} today"
    assert redact_secrets([text], keys=False) == ["401: refused [redacted] today"]
    assert redact_secrets("word " * 100 + text) == "word " * 100 + "401: refused [redacted] today"
    assert redact_secrets({secret: 1}) == {"[redacted]": 1}
    assert redact_secrets({secret: 1}, keys=False) == {secret: 1}, "a name, not a setting"


@each("secret", ["Bearer abcdefgh123", "x?sig=abc", "my PASSWORD: hunter2", "cookie: a=b"])
def test_secrets_in_long_texts(secret):
    """Long texts are searched in another way than short ones."""
    assert redact_secrets("word " * 100 + secret) == "word " * 100 + redact_secrets(secret)
    assert "[redacted]" in redact_secrets(secret)


def test_headers_addresses_and_arguments():
    assert redact_secrets("Bearer abcdefgh123") == "Bearer [redacted]"
    assert redact_secrets("postgres://me:hunter2@db/x") == "postgres://[redacted]@db/x"
    command = ["run", "--api-key", "hush", "--limit", "5"]
    assert redact_secrets(command) == ["run", "--api-key", "[redacted]", "--limit", "5"]


def test_lists_of_any_kind_of_text():
    secret = np.str_("hf_abcdefghijklmnopqrstuv")
    assert redact_secrets([1.5, None, secret]) == [1.5, None, "[redacted]"]
    assert redact_secrets([secret]) == redact_secrets([str(secret)]) == ["[redacted]"]
    assert redact_secrets(({"a": secret}, 1)) == [{"a": "[redacted]"}, 1]
    assert redact_secrets(["a", "b"]) == ["a", "b"]


@each(
    "text",
    [
        "sk-learn-logistic-regression-model",
        "sk-learn-TfidfLogReg-v2",
        "sk-learn-Pipeline-2024-A1b2c3d4",
        "sk-TfidfLogisticRegressionV2",
        "sk-item-0001-ABCDEFGHIJ",
        "task-ABC1234567890123456",
        "def load(token: str, api_key=None) -> bytes",
        "LogisticRegression(C=1.0, key=3, eos_token='</s>')",
        "unexpected token < at line 3",
        "api_key=${OPENAI_API_KEY}",
        "token=***",
        "KeyError: 'score'",
        "a" * 64,
        "https://example.org/a:b@c",
        "the bearer of this",
        "hf_hub",
        "s3://bucket/key/part-00001",
        "2026-01-02T03:04:05Z",
    ],
)
def test_texts_that_do_not(text):
    assert redact_secrets(text) == text


@each(
    ("text", "safe"),
    [
        ("GET https://x/v1?api_key=abc123&page=2", "GET https://x/v1?api_key=[redacted]&page=2"),
        ("https://a.blob/c?sv=1&sig=abc%3D", "https://a.blob/c?sv=1&sig=[redacted]"),
        ("https://maps/?key=abc", "https://maps/?key=[redacted]"),
        ("failed: password=hunter2pw; retry", "failed: password=[redacted]; retry"),
        ("password: hunter2", "password: [redacted]"),
        ("curl -H 'X-Api-Key: q1w2e3' x", "curl -H 'X-Api-Key: [redacted]' x"),
        ("Authorization: Basic dXNlcg==", "Authorization: [redacted]"),
        ("Cookie: a=b; c=d\nHost: x", "Cookie: [redacted]\nHost: x"),
        ('{"api_key": "two words", "n": 3}', '{"api_key": "[redacted]", "n": 3}'),
        (r"{\"token\": \"abc\"}", r"{\"token\": \"[redacted]\"}"),
        ("Client(token='abc', n=3)", "Client(token='[redacted]', n=3)"),
        ("AccountName=x;AccountKey=abc==;E=1", "AccountName=x;AccountKey=[redacted];E=1"),
        ("run --api-key hush --limit 5", "run --api-key [redacted] --limit 5"),
        ("run --token=hush", "run --token=[redacted]"),
        ("wrong API key: abc", "wrong API key: [redacted]"),
    ],
)
def test_what_follows_the_name_of_a_secret_within_a_text(text, safe):
    assert redact_secrets(text, keys=False) == safe
    assert redact_secrets(safe) == safe


def test_real_keys_are_recognised_whatever_they_are_made_of():
    rng = np.random.default_rng(0)
    base62 = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    made = {
        "sk-": (base62, 48),
        "sk-proj-": ([*base62, "-", "_"], 156),
        "sk-ant-api03-": ([*base62, "-", "_"], 93),
        "sk-or-v1-": (list("0123456789abcdef"), 64),
    }
    for prefix, (letters, length) in made.items():
        keys = [prefix + "".join(rng.choice(letters, length)) for _ in range(200)]
        found = sum(redact_secrets(key) != key for key in keys)
        assert found >= 195, prefix


def test_no_key_of_a_dict_gets_lost():
    one, two = ("sk-" + text * 12 for text in ("Ab3", "Cd4"))
    assert redact_secrets({one: 1, two: 2}) == {"[redacted]": 1, "[redacted]#2": 2}


def test_ids_of_units_are_not_secrets():
    ids = ["hf_abcdefghijklmnopqrstuv", "token=abc"]
    assert redact_secrets({"unit_ids": ids, "note": ids}) == {
        "unit_ids": ids,
        "note": ["[redacted]", "token=[redacted]"],
    }


def test_long_texts_without_structure_are_scanned_in_one_go():
    blob = "Secret" + "aB3-_." * 50_000
    assert redact_secrets(blob) == blob
