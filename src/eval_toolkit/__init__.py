"""Honest, fast, replayable statistics for evaluating machine-learning systems.

Every public name is importable from here and loaded on first use (PEP 562), so that
``import eval_toolkit`` costs next to nothing.

>>> from eval_toolkit import bootstrap_ci, pr_auc
>>> y = [0, 1] * 20
>>> ci = bootstrap_ci(y, [0.1 * (i % 7) + 0.3 * label for i, label in enumerate(y)], pr_auc)
>>> ci.ci_low < ci.point_estimate < ci.ci_high
True
"""

import importlib
from typing import Any

__version__ = "1.0.0.dev0"

# module → the names it gives to the root
_EXPORTS: dict[str, tuple[str, ...]] = {
    "errors": (
        "ArtifactError",
        "EvalToolkitError",
        "InfeasibleError",
        "InvalidInputError",
        "InvalidTypeError",
        "LeakageError",
        "MissingExtraError",
        "ModelError",
        "PluginError",
        "UndefinedMetricError",
    ),
    "protocols": (
        "DatasetLoader",
        "EvalSliceLike",
        "LeakageCheck",
        "MetricSpec",
        "PoolBuilder",
        "PredictionReader",
        "Scorer",
        "SimilarityStrategy",
        "SliceAwareScorer",
        "Splitter",
        "TextTransform",
        "ThresholdSelector",
        "Versioned",
    ),
    "seeds": ("set_global_seeds",),
}
_MODULES = (
    "artifacts",
    "calibration",
    "inference",
    "metric_specs",
    "metrics",
    "op_metric_specs",
    "operating_points",
    "scorecards",
    "seeds",
    "thresholds",
)
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted([*_HOME, "__version__", "metric_specs", "op_metric_specs"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # looked up once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
