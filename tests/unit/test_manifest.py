"""Manifests: every field of the contract, and what is refused."""

import json
import sys
import tempfile

import pytest
from tests.support.git_repository import committed

from eval_toolkit import __version__
from eval_toolkit._internal.command_line import recording_command
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit.artifacts import (
    PredictionArtifactRef,
    PredictionColumns,
    read_json,
    validate_manifest,
)
from eval_toolkit.claims.evidence import AggregateEvidence, EvidenceAxis, PairingMetadata
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.manifest import (
    MANIFEST_SCHEMA_VERSION,
    RECOMMENDED_SOURCE_ROLES,
    RunManifest,
    SourceRoleRecord,
    build_manifest,
    collect_versions,
    make_manifest,
    seal_manifest,
    validate_source_roles,
    write_manifest,
)


class Scorer:
    def __init__(self, version="0.0.0"):
        self.version = version


def test_the_extending_guide():
    m = build_manifest(
        run_id="custom-harness-demo",
        config={"k": 3, "seed": 42, "scorer": "dummy"},
        seeds={"global": 42, "bootstrap": 42},
        versioned={"dummy": Scorer()},
    )
    with tempfile.TemporaryDirectory() as d:
        path = write_manifest(m, d)
        stored = read_json(path)
    assert m.schema_version == MANIFEST_SCHEMA_VERSION == "v3"
    assert m.versioned_objects == {"dummy": "0.0.0"}
    assert stored["seeds"] == {"global": 42, "bootstrap": 42}
    validate_manifest(stored)


def test_two_names_one_function():
    assert make_manifest is build_manifest


def test_everything_at_once(tmp_path):
    (tmp_path / "data.csv").write_text("abc")
    ref = PredictionArtifactRef("p.csv", "text/csv", PredictionColumns("y", "s"))
    manifest = make_manifest(
        run_id="r",
        config={"b": 1, "a": [1, 2]},
        data_files={"train": tmp_path / "data.csv", "lost": tmp_path / "no.csv"},
        seeds={"global": 1},
        extra_code_versions={"mine": "2.0"},
        data_revisions={"hub/data": "abc123"},
        metadata={"who": "me"},
        versioned=[Scorer("1"), Scorer("2"), object(), Scorer(3)],
        leakage_report={"findings": []},
        source_roles=[SourceRoleRecord("a", "train", 10), {"source": "b", "role": "locked_eval"}],
        required_source_roles=("train", "locked_eval"),
        guardrails={"no_test_tuning": "thresholds come from validation rows"},
        prediction_artifacts=[ref],
        contamination_flags={"a": "verified_disjoint"},
        wall_clock_seconds=3,
        repo_root=tmp_path,
        git_sha="f" * 40,
    )
    payload = manifest.to_dict()
    validate_manifest(payload)
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload
    assert payload["git_sha"] == "f" * 40
    assert payload["dirty_flag"] is False
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc"
    assert payload["data_hashes"] == {"train": f"sha256:{digest}", "lost": ""}
    assert payload["config_hash"] == "sha256:" + sha256_text('{"a":[1,2],"b":1}')
    assert payload["config"] == {"b": 1, "a": [1, 2]}
    assert payload["code_versions"] == {"eval_toolkit": __version__, "mine": "2.0"}
    assert payload["versioned_objects"] == {"Scorer": "1", "Scorer#2": "2"}
    assert payload["prediction_artifacts"] == [ref.to_dict()]
    assert payload["wall_clock_seconds"] == 3.0
    assert [role["role"] for role in payload["source_roles"]] == ["train", "locked_eval"]
    assert payload["env"]["python"] == sys.version.split()[0]
    assert {"platform", "machine", "eval_toolkit", "numpy", "sklearn"} <= set(payload["env"])
    assert payload["hardware"]["cpu_count"] >= 1


def test_the_config_file_is_hashed_when_named(tmp_path):
    (tmp_path / "c.toml").write_text("abc")
    manifest = build_manifest(run_id="r", config={}, config_path=tmp_path / "c.toml")
    assert manifest.config_hash.startswith("sha256:ba7816bf")
    with pytest.raises(ArtifactError, match=r"`config_path` is .*no.toml, which does not exist"):
        build_manifest(run_id="r", config={}, config_path=tmp_path / "no.toml")


def test_data_files_may_be_paths_alone(tmp_path):
    (tmp_path / "a").write_text("abc")
    for given in ([tmp_path / "a"], tmp_path / "a", str(tmp_path / "a")):
        hashes = build_manifest(run_id="r", config={}, data_files=given).data_hashes
        assert list(hashes) == [str(tmp_path / "a")]


def test_git_is_asked_where_told(tmp_path):
    committed(tmp_path, "code.py", "1")
    (tmp_path / "code.py").write_text("2")
    manifest = build_manifest(run_id="r", config={}, repo_root=tmp_path)
    assert manifest.dirty_flag
    assert len(manifest.git_sha) == 40


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"run_id": ""}, InvalidInputError, "`run_id` is ''; it must be a non-empty string"),
        ({"source_roles": [{"source": "a"}]}, InvalidInputError, r"source_roles\[0\] has no role"),
        ({"required_source_roles": ["train"]}, InvalidInputError, "no source has the role 'train'"),
        (
            {"guardrails": {}},
            InvalidInputError,
            "`guardrails` is empty; omit it or pass at least one rule",
        ),
        (
            {"guardrails": {"a": ""}},
            InvalidInputError,
            "`guardrails` has 'a': ''; names and rules must not be empty",
        ),
        (
            {"guardrails": "no retuning"},
            InvalidTypeError,
            "`guardrails` must be a mapping from names to rules",
        ),
        (
            {"contamination_flags": {"d": "clean"}},
            InvalidInputError,
            r"contamination_flags\['d'\] is 'clean'; it must be one of verified_disjoint",
        ),
    ],
)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        build_manifest(**{"run_id": "r", "config": {}, **given})


def test_problems_of_source_roles():
    records = [
        SourceRoleRecord("a", "train"),
        SourceRoleRecord("a", "calibration"),
        SourceRoleRecord("a", "train", n_rows=-1),
        {"source": " ", "role": "x"},
        {"source": "b", "role": "excluded", "n_rows": True},
    ]
    assert validate_source_roles(records, required_roles=["train", "locked_eval"]) == [
        "source_roles[2]: n_rows is -1; it must be a non-negative integer",
        "source_roles[2] repeats the role 'train' of 'a'",
        "source_roles[3] has no source",
        "source_roles[4]: n_rows is True; it must be a non-negative integer",
        "no source has the role 'locked_eval'",
    ]
    assert "locked_eval" in RECOMMENDED_SOURCE_ROLES


def test_versions_by_name_and_by_class():
    assert collect_versions({"a": Scorer("1"), "b": object(), "c": Scorer(2)}) == {"a": "1"}
    assert collect_versions(None) == {}
    assert collect_versions(iter([Scorer("1"), Scorer("1")])) == {"Scorer": "1", "Scorer#2": "1"}
    assert collect_versions([Scorer(3), Scorer("x")]) == {"Scorer#2": "x"}


def test_secrets_are_redacted_and_do_not_move_the_hash(tmp_path):
    manifests = [
        build_manifest(
            run_id="r",
            config={"model": "m", "api_key": secret},
            metadata={"url": f"https://me:{secret}@host"},
            versioned={"token": Scorer("1")},
        )
        for secret in ("first-secret", "second-secret")
    ]
    assert manifests[0].config_hash == manifests[1].config_hash
    text = write_manifest(manifests[0], tmp_path).read_text()
    assert "first-secret" not in text
    assert read_json(tmp_path / "manifest.json")["versioned_objects"] == {"token": "1"}
    by_hand = RunManifest("r", metadata={"password": "first-secret"})
    assert "first-secret" not in json.dumps(by_hand.to_dict())
    write_manifest({"run_id": "r", "config": {"password": "first-secret"}}, tmp_path)
    assert "first-secret" not in (tmp_path / "manifest.json").read_text()


def test_a_config_that_is_no_mapping():
    manifest = build_manifest(run_id="r", config=["a"])
    assert manifest.config == {"config": ["a"]}


def test_the_seal():
    sealed = seal_manifest({"b": 1, "a": "é"})
    assert sealed["manifest_sha256"] == sha256_text('{"a":"é","b":1}')
    assert seal_manifest({**sealed, "b": 2})["manifest_sha256"] != sealed["manifest_sha256"]


# --- evidence -----------------------------------------------------------------------------------


def test_evidence():
    axis = EvidenceAxis("language", "de")
    evidence = AggregateEvidence("inferential", "paired bootstrap", [axis], metadata={"n": 3})
    assert evidence.to_dict() == {
        "status": "inferential",
        "method": "paired bootstrap",
        "axes": [{"name": "language", "value": "de"}],
        "notes": "",
        "metadata": {"n": 3},
    }
    assert PairingMetadata(True, valid_scope="test").to_dict() == {
        "paired": True,
        "unit": "row",
        "valid_scope": "test",
        "notes": "",
    }
    with pytest.raises(InvalidInputError, match="`status` is 'proof'; choose one of 'inferential'"):
        AggregateEvidence("proof", "x")
    with pytest.raises(InvalidInputError, match="`method` is empty"):
        AggregateEvidence("descriptive", "")
    with pytest.raises(InvalidTypeError, match="`paired` must be True or False, got 1"):
        PairingMetadata(1)
    with pytest.raises(InvalidTypeError, match="`name` must be a string, got 3"):
        EvidenceAxis(3, "x")


def test_the_command_line_is_kept_without_its_secrets() -> None:
    key = "sk-proj-" + "a1B2" * 8
    args = ["run", "capitals", "--model-arg", f"api_key={key}", "--out", "my runs/a"]
    with recording_command("eval-toolkit", args):
        told = build_manifest(run_id="r", config={}).to_dict()["command"]
    assert told.startswith("eval-toolkit run capitals --model-arg ")
    assert told.endswith(" --out 'my runs/a'")
    assert key not in told
    assert build_manifest(run_id="r", config={}).to_dict()["command"] == ""
