"""The bundled schemas: what they let through, what they stop, and what they say about it."""

import copy
import json
import sys
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
import referencing
from tests.support.each import each

from eval_toolkit.artifacts import (
    MetricState,
    PredictionArtifactRef,
    PredictionColumns,
    error_metric,
    load_schema,
    schema_names,
    schema_problems,
    skipped_metric,
    validate_manifest,
    validate_payload,
    validate_prediction_artifact_ref,
    validate_results,
)
from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.inference.results import BootstrapCI

NAMES = [
    "manifest.v1.json",
    "manifest.v2.json",
    "manifest.v3.json",
    "ood_manifest.v1.json",
    "prediction_artifact_ref.v1.json",
    "results.v1.json",
    "results_full.v1.json",
]
OLD = {
    "run_id": "demo",
    "schema_version": "v1",
    "config": {},
    "by_slice": {
        "dev": {"n": 100, "n_positive": 50, "by_scorer": {"model": {"pr_auc": 0.8}}},
    },
}
CI = BootstrapCI(0.8, 0.7, 0.9, 0.95, 1000, "BCa").to_dict()


def with_block(block):
    payload = copy.deepcopy(OLD)
    payload["by_slice"]["dev"]["by_scorer"]["model"] = block
    return payload


def test_the_schemas_there_are():
    assert schema_names() == NAMES
    folder = files("eval_toolkit").joinpath("schemas")
    assert sorted(entry.name for entry in folder.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_valid_schema_that_allows_more_fields(name):
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["$id"] == name
    assert schema["version"] == name.split(".")[1]
    assert load_schema(name.removesuffix(".json")) == schema
    assert '"additionalProperties": false' not in json.dumps(schema)


def objects(node):
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from objects(inner)


@pytest.mark.parametrize("name", NAMES)
def test_each_stands_alone(name):
    """A file is all that a validator needs: it looks nowhere else, least of all on the net."""
    file = files("eval_toolkit").joinpath("schemas", name)
    schema = json.loads(file.read_text(encoding="utf-8"))
    nowhere = referencing.Registry()  # an empty one, which fetches nothing
    validator = jsonschema.Draft202012Validator(schema, registry=nowhere)
    assert not validator.is_valid({})
    held = {part["$id"]: part for part in objects(schema) if isinstance(part.get("$id"), str)}
    assert all(part == load_schema(held_name) for held_name, part in held.items())
    wanted = {part["$ref"] for part in objects(schema) if isinstance(part.get("$ref"), str)}
    assert {reference for reference in wanted if not reference.startswith("#")} <= set(held)
    wrong = {"prediction_artifacts": [{"uri": 5}]}
    problems = [error.message for error in validator.iter_errors(wrong)]
    if name.startswith(("results", "manifest.v2", "manifest.v3")):
        assert "5 is not of type 'string'" in problems


def test_results_with_scores_are_results():
    nowhere = referencing.Registry()
    full = jsonschema.Draft202012Validator(load_schema("results_full.v1"), registry=nowhere)
    assert full.is_valid(OLD)
    wrong = with_block({"pr_auc": "0.8"})
    assert [error.message for error in full.iter_errors(wrong)]


def test_an_unknown_schema_is_named_with_a_suggestion():
    with pytest.raises(InvalidInputError, match=r"no schema 'result.v1'; did you mean 'results.v1"):
        validate_payload({}, "result.v1")


def test_the_chapter_on_validation():
    validate_payload(OLD, schema_name="results.v1.json")
    validate_results(OLD)
    with pytest.raises(jsonschema.ValidationError, match="'config' is a required property"):
        validate_payload({k: v for k, v in OLD.items() if k != "config"}, "results.v1")


FULL_BLOCK = {
    "n": 100,
    "n_positive": 50,
    "is_single_class": False,
    "pr_auc": MetricState(0.8, "ok", ci=BootstrapCI(0.8, 0.7, 0.9, 0.95, 1000, "BCa"), n_units=100),
    "roc_auc": skipped_metric("one class only"),
    "brier": error_metric("ZeroDivisionError", n=3),
    "f1": np.float64(0.5),
    "pr_auc_ci": CI,
    "tpr_at_fpr": {"0.01": None, "0.05": 0.4},
    "headline": {"threshold": {"criterion": "max_f1", "value": 0.4}},
    "transferred_operating_points": {"op": {"threshold": 0.3}},
    "scores": [0.1, 0.2],
    "attack_style": "direct",
    "notes": ["free", "text"],
    "nothing": None,
}


@pytest.mark.parametrize(
    "block",
    [
        {},
        FULL_BLOCK,
        {"skipped": "declined by the scorer", "n": 3, "n_positive": 1, "scores": []},
        {
            "error": "boom",
            "error_state": error_metric("boom"),
            "exc_type": "RuntimeError",
            "traceback": "…",
            "n": 3,
            "n_positive": 1,
            "scores": [],
        },
        {"pr_auc": float("nan")},
        {"pr_auc_ci": {"point_estimate": float("nan"), "ci_95": [None, None]}},
    ],
)
def test_blocks_of_either_age_are_valid(block):
    assert schema_problems(with_block(block), "results.v1") == []
    assert schema_problems(with_block(block), "results_full.v1") == []


@each(
    ("block", "problem"),
    [
        ({"pr_auc": "0.8"}, "pr_auc: '0.8' is a number written as a string"),
        ({"pr_auc": " NaN"}, "pr_auc: ' NaN' is a number written as a string"),
        (
            {"pr_auc": {"value": None, "status": "ok"}},
            "pr_auc → value: None is not of type 'number'",
        ),
        ({"pr_auc": {"status": "ok"}}, "pr_auc: 'value' is a required property"),
        ({"x": {"value": 0.5, "status": "skipped"}}, "x → value: 0.5 is not of type 'null'"),
        ({"x": {"value": 0.5, "status": "fine"}}, "x → status: 'fine' is not one of"),
        ({"x": {"value": 0.5}}, "x: 'status' is a required property"),
        ({"x": {**CI, "n_resamples": -1}}, "x → n_resamples: -1 is less than the minimum of 0"),
        ({"x": {**CI, "confidence": 95}}, "x → confidence: 95 is greater than or equal to"),
        ({"x": {**CI, "ci_95": [0.1]}}, "x → ci_95: [0.1] is too short"),
        ({"n": -1}, "n: -1 is less than the minimum of 0"),
        ({"n_positive": 1.5}, "n_positive: 1.5 is not of type 'integer'"),
        ({"scores": ["a"]}, "scores → 0: 'a' is not of type 'number', 'null'"),
        ({"skipped": True}, "skipped: True is not of type 'string'"),
        ({"error_state": {}}, "error_state: 'status' is a required property"),
        (0.8, "model: 0.8 is not of type 'object'"),
    ],
)
def test_by_slice_is_really_typed(block, problem):
    problems = schema_problems(with_block(block), "results.v1")
    assert any(problem in line for line in problems), problems
    with pytest.raises(jsonschema.ValidationError):
        validate_payload(with_block(block), "results_full.v1.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dev": {"n": 3}}, "by_slice → dev: 'by_scorer' is a required property"),
        ({"dev": {"by_scorer": [], "n": 3}}, "by_slice → dev → by_scorer: [] is not of type"),
        ({"a.b": 3}, "by_slice → a.b: 3 is not of type 'object'"),
        (
            {"dev": {"by_scorer": {}, "strata": {"p": {"by_scorer": {"m": {"f1": "1"}}}}}},
            "by_slice → dev → strata → p → by_scorer → m → f1: '1' is a number written as a string",
        ),
        (
            {"dev": {"by_scorer": {}, "parts": {"language=de": {"by_scorer": {"m": {"f1": "1"}}}}}},
            "by_slice → dev → parts → language=de → by_scorer → m → f1: '1' is a number written as a string",
        ),
        (
            {"dev": {"by_scorer": {}, "paired_diffs": {"b_minus_a": {"delta": "x"}}}},
            "by_slice → dev → paired_diffs → b_minus_a → delta",
        ),
    ],
)
def test_slices_strata_and_differences_are_typed(change, problem):
    problems = schema_problems({**OLD, "by_slice": change}, "results.v1")
    assert any(problem in line for line in problems), problems


def test_all_problems_are_listed_in_order():
    payload = {**with_block({"z": "1", "a": "2"}), "run_id": ""}
    lines = schema_problems(payload, "results.v1")
    assert [line.split(":")[0].split(" → ")[-1] for line in lines] == ["a", "z", "run_id"]
    assert all("\n" not in line for line in lines)


def test_whole_results_of_today():
    diff = {**CI, "delta": 0.1, "p_value": 0.2, "overlaps_zero": True}
    payload = {
        **with_block(FULL_BLOCK),
        "git_sha": None,
        "by_fold": {"seed=42/fold=0": {"by_slice": OLD["by_slice"], "extra": 1}},
        "fold_summary": {"test": {"m": {"pr_auc": {"mean": 1.0}}}},
        "claim_report": {"claims": [], "has_failures": False},
        "prediction_artifacts": [
            PredictionArtifactRef("p.csv", "text/csv", PredictionColumns("y", "s"))
        ],
        "evidence_axes": [{"name": "a", "value": "b"}],
        "pairing_metadata": {"paired": True},
        "aggregate_evidence": {},
        "threshold_policy": {},
        "a_field_of_tomorrow": [1],
    }
    payload["by_slice"]["dev"]["paired_diffs"] = {"a": diff, "b": {"skipped": "one class"}}
    payload["by_slice"]["dev"]["strata"] = {"p": {"n": 1, "by_scorer": {"m": {"f1": 1}}}}
    validate_results(payload)
    bad = copy.deepcopy(payload)
    bad["by_fold"]["seed=42/fold=0"]["by_slice"]["dev"]["n"] = "3"
    with pytest.raises(jsonschema.ValidationError, match="'3' is not of type 'integer'"):
        validate_results(bad)
    bad = {**payload, "prediction_artifacts": [{"uri": "p.csv"}]}
    with pytest.raises(jsonschema.ValidationError, match="'media_type' is a required property"):
        validate_results(bad)


# --- manifests ----------------------------------------------------------------------------------

V1 = {"schema_version": "v1", "run_id": "r", "code_versions": {"a": "1"}, "env": {}}
V2 = {**V1, "schema_version": "v2", "captured_at": "2026-01-02T03:04:05Z", "guardrails": ["x"]}
V3 = {**V2, "schema_version": "v3", "contamination_flags": {"d": "unknown"}, "guardrails": {}}


@pytest.mark.parametrize("manifest", [V1, V2, V3])
def test_manifests_of_every_age(manifest):
    validate_manifest({**manifest, "a_field_of_tomorrow": 1})
    with pytest.raises(jsonschema.ValidationError, match="'env' is a required property"):
        validate_manifest({k: v for k, v in manifest.items() if k != "env"})


@each(
    ("manifest", "message"),
    [
        ({**V2, "captured_at": "yesterday"}, "'yesterday' does not match"),
        ({**V2, "gpu_info": {"count": "two"}}, "'two' is not of type 'integer'"),
        ({**V3, "guardrails": [1]}, "is not of type 'string', 'object'"),
        ({**V3, "guardrails": "x"}, "is not of type 'array', 'object'"),
        ({**V3, "contamination_flags": {"d": "clean"}}, "'clean' is not one of"),
        ({k: v for k, v in V3.items() if k != "contamination_flags"}, "'contamination_flags' is a"),
        ({**V3, "status": "complete"}, "is a required property"),
        ({**V3, "source_roles": [{"source": "a"}]}, "'role' is a required property"),
    ],
)
def test_manifests_are_typed(manifest, message):
    with pytest.raises(jsonschema.ValidationError, match=message):
        validate_manifest(manifest)


@pytest.mark.parametrize("payload", [{"schema_version": "v9"}, {}, [1]])
def test_an_unknown_version_of_a_manifest(payload):
    with pytest.raises(InvalidInputError, match="it must be 'v1', 'v2' or 'v3'"):
        validate_manifest(payload)


# --- the others ---------------------------------------------------------------------------------


def test_references():
    ref = PredictionArtifactRef(
        "p.csv", "text/csv", PredictionColumns("y", "s", group="g"), "a" * 64, 3, ["a", "b"]
    )
    validate_prediction_artifact_ref(ref)
    validate_prediction_artifact_ref(ref.to_dict())
    for change in ({"n_rows": True}, {"sha256": "x"}, {"role": []}, {"columns": {"label": "y"}}):
        with pytest.raises(jsonschema.ValidationError):
            validate_prediction_artifact_ref({**ref.to_dict(), **change})


def test_datasets_to_fetch():
    entry = {"url": "https://example.org/x.csv", "sha256": "a" * 64, "label_map": {"bad": 1}}
    validate_payload({"slices": {"ood": entry}}, "ood_manifest.v1")
    for change in (
        {"sha256": "a"},
        {"sample_size": 10},
        {"format": "xml"},
        {"label_map": {"a": 2}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate_payload({"slices": {"ood": {**entry, **change}}}, "ood_manifest.v1")
    with pytest.raises(jsonschema.ValidationError):
        validate_payload({"slices": {}}, "ood_manifest.v1")


def test_without_jsonschema_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(MissingExtraError, match=r"eval-toolkit\[validation\]") as error:
        validate_payload(OLD, schema_name="results.v1.json")
    assert isinstance(error.value, ImportError)
    assert "results.v1.json" in schema_names(), "listing needs no extra"
