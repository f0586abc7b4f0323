"""Stored artifacts: metric cells, prediction files and references, strict JSON and its schemas.

Prediction files are verified: `write_predictions` returns a `PredictionArtifactRef` with hash and
row count, and `load_predictions` checks both before it returns any values.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.artifacts.pairing import *
    from eval_toolkit.artifacts.predictions import *
    from eval_toolkit.artifacts.readers import *
    from eval_toolkit.artifacts.refs import *
    from eval_toolkit.artifacts.states import *
    from eval_toolkit.artifacts.strict_json import *
    from eval_toolkit.artifacts.validation import *

__all__, __getattr__ = names_on_use(
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
