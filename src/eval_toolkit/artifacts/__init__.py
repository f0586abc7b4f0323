"""Stored artifacts: metric cells, prediction files and references, strict JSON and its schemas.

Prediction files are verified: `write_predictions` returns a `PredictionArtifactRef` with hash and
row count, and `load_predictions` checks both before it returns any values.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.artifacts.pairing import PairedPredictions, pair_predictions
    from eval_toolkit.artifacts.predictions import (
        PredictionArrays,
        load_predictions,
        write_predictions,
    )
    from eval_toolkit.artifacts.readers import (
        CsvPredictionReader,
        JsonlPredictionReader,
        ParquetPredictionReader,
        TsvPredictionReader,
    )
    from eval_toolkit.artifacts.refs import PredictionArtifactRef, PredictionColumns
    from eval_toolkit.artifacts.states import MetricState, error_metric, skipped_metric
    from eval_toolkit.artifacts.strict_json import (
        json_bytes,
        read_json,
        sanitize_for_json,
        write_json_strict,
    )
    from eval_toolkit.artifacts.validation import (
        load_schema,
        schema_names,
        schema_problems,
        validate_manifest,
        validate_payload,
        validate_prediction_artifact_ref,
        validate_results,
    )

__all__ = [
    "CsvPredictionReader",
    "JsonlPredictionReader",
    "MetricState",
    "PairedPredictions",
    "ParquetPredictionReader",
    "PredictionArrays",
    "PredictionArtifactRef",
    "PredictionColumns",
    "TsvPredictionReader",
    "error_metric",
    "json_bytes",
    "load_predictions",
    "load_schema",
    "pair_predictions",
    "read_json",
    "sanitize_for_json",
    "schema_names",
    "schema_problems",
    "skipped_metric",
    "validate_manifest",
    "validate_payload",
    "validate_prediction_artifact_ref",
    "validate_results",
    "write_json_strict",
    "write_predictions",
]

__getattr__ = names_on_use(
    __name__,
    {
        "pairing": "PairedPredictions pair_predictions",
        "predictions": "PredictionArrays load_predictions write_predictions",
        "readers": (
            "CsvPredictionReader JsonlPredictionReader ParquetPredictionReader TsvPredictionReader"
        ),
        "refs": "PredictionArtifactRef PredictionColumns",
        "states": "MetricState error_metric skipped_metric",
        "strict_json": "json_bytes read_json sanitize_for_json write_json_strict",
        "validation": (
            "load_schema schema_names schema_problems validate_manifest validate_payload "
            "validate_prediction_artifact_ref validate_results"
        ),
    },
)
