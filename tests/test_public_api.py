"""The root: a snapshot of its names, all of them real, documented and typed."""

import ast
import importlib
import inspect
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest

import eval_toolkit
from eval_toolkit._internal.moved import MOVED_NAMES
from tests.support.each import each

HERE = Path(__file__).resolve().parent
SNAPSHOT = (HERE / "public_api.txt").read_text(encoding="utf-8").splitlines()
OLD_NAMES = (HERE / "old_names.txt").read_text(encoding="utf-8").splitlines()
STUB = Path(eval_toolkit.__file__).with_name("__init__.pyi")

MODULES = (
    *("analysis", "artifacts", "calibration", "claims", "claims.evidence", "errors", "harness"),
    *("harness.scorers", "inference", "leakage", "loaders", "manifest", "metrics", "protocols"),
    *("provenance", "scorecards", "slices", "splits", "text_dedup", "thresholds"),
    "thresholds.operating_points",
    *("metric_specs", "metric_specs.at_threshold", "seeds"),
    *("graders", "graders.judges", "models", "models.messages", "models.prompts"),
    *("models.requests", "models.responses", "models.runner", "plugins"),
    *("rollouts", "runs", "tasks"),
    *("leakage.eda", "report", "report.plots", "report.viewer"),
    *("integrations.assertions", "integrations.executors", "integrations.exporting"),
    *("integrations.github", "integrations.importing", "integrations.junit"),
    *("integrations.mlflow", "integrations.sklearn", "testing"),
)

# what the published documents import from the root
SEED_NAMES = {
    *("pr_auc", "roc_auc", "brier_score", "bootstrap_ci", "paired_bootstrap_diff"),
    *("expected_calibration_error", "expected_calibration_error_equal_mass"),
    *("expected_calibration_error_l2", "expected_calibration_error_l2_debiased"),
    *("expected_calibration_error_debiased", "paired_bootstrap_op_point_diff"),
    *("ThresholdResult", "metrics_at_threshold", "MaxF1Selector", "set_global_seeds"),
    *("Scorer", "SliceAwareScorer", "LeakageCheck", "Splitter", "ThresholdSelector"),
    *("DatasetLoader", "SimilarityStrategy", "Versioned"),
    *("scorecard", "metric_specs", "MetricResult", "MetricSpec", "Scorecard", "MetricState"),
    *("OperatingPointSpec", "FittedOperatingPoint", "is_metric_defined_for_slice"),
    *("EvalSlice", "LeakageFinding", "evaluate", "evaluate_folded", "RunResult"),
    *("NormalizedFormLeakageCheck", "LabelConflictCheck", "StratifiedKFoldSplitter"),
    *("NearDuplicateCheck", "CrossSplitLeakageCheck", "near_dedup", "cross_dedup"),
    *("TfidfCosineStrategy", "ExactNormalizedHashStrategy", "EmbeddingCosineStrategy"),
    *("JaccardNgramStrategy", "MinHashLSHStrategy", "build_manifest", "write_manifest"),
    *("PredictionColumns", "PredictionArtifactRef", "error_metric", "skipped_metric"),
    *("validate_payload", "bootstrap_metric_from_predictions", "load_prediction_arrays"),
    *("paired_diff_from_prediction_refs",),
}


def public_functions() -> dict[str, types.FunctionType]:
    """Every function of the public modules, by dotted name."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(f"eval_toolkit.{module_name}")
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                found[f"{module_name}.{name}"] = getattr(module, name)
    return found


FUNCTIONS = public_functions()
every_function = each("function", FUNCTIONS.values(), ids=list(FUNCTIONS))


class TestNames:
    def test_snapshot(self) -> None:
        # A name added on purpose goes into tests/public_api.txt; a name removed breaks somebody.
        assert eval_toolkit.__all__ == SNAPSHOT

    def test_sorted_without_duplicates(self) -> None:
        assert sorted(set(SNAPSHOT)) == SNAPSHOT

    def test_old_names(self) -> None:
        # They are not listed, and still import.
        assert sorted(eval_toolkit._OLD_HOME) == OLD_NAMES
        assert not set(OLD_NAMES) & set(SNAPSHOT)

    @each("name", SNAPSHOT + OLD_NAMES)
    def test_every_name_resolves(self, name: str) -> None:
        assert getattr(eval_toolkit, name) is not None
        assert name in vars(eval_toolkit)  # looked up once

    def test_dir_lists_names_and_modules(self) -> None:
        listed = dir(eval_toolkit)
        assert listed == sorted(listed)
        assert {*eval_toolkit.__all__, "artifacts", "inference", "thresholds"} <= set(listed)
        assert len(listed) <= 130
        assert set(listed) <= {*SNAPSHOT, *MODULES, "integrations"}

    def test_a_wrong_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="module 'eval_toolkit' has no attribute 'pr_acu'"):
            eval_toolkit.pr_acu  # noqa: B018
        with pytest.raises(ImportError, match="cannot import name 'pr_acu'"):
            from eval_toolkit import pr_acu  # noqa: F401

    def test_star_import(self) -> None:
        namespace: dict[str, Any] = {}
        exec("from eval_toolkit import *", namespace)  # noqa: S102
        assert set(eval_toolkit.__all__) <= set(namespace)

    @each("module", sorted({*eval_toolkit._EXPORTS, *MOVED_NAMES}))
    def test_names_are_those_of_their_homes(self, module: str) -> None:
        home = importlib.import_module(f"eval_toolkit.{module}")
        table = f"{eval_toolkit._EXPORTS.get(module, '')} {MOVED_NAMES.get(module, '')}"
        for name in table.split():
            assert name in home.__all__
            assert getattr(eval_toolkit, name) is getattr(home, name)

    def test_names_of_the_published_documents(self) -> None:
        assert set(eval_toolkit.__all__) >= SEED_NAMES

    def test_specs_come_as_modules(self) -> None:
        from eval_toolkit import metric_specs as ms
        from eval_toolkit import op_metric_specs as op

        assert isinstance(ms, types.ModuleType)
        assert isinstance(op, types.ModuleType)
        assert ms.pr_auc.name == "pr_auc"

    def test_a_root_name_is_never_shadowed_by_a_module(self) -> None:
        # Importing a submodule binds its name at the root; a function of that name would vanish.
        package = Path(eval_toolkit.__file__).parent
        modules = {path.stem for path in package.iterdir() if path.suffix in ("", ".py")}
        assert modules & set(SNAPSHOT) <= {"metric_specs", "op_metric_specs"}

    def test_version(self) -> None:
        assert eval_toolkit.__version__ == "1.0.0.dev0"


class TestStub:
    TREE = ast.parse(STUB.read_text(encoding="utf-8"))

    def imported(self) -> dict[str, str]:
        return {
            alias.name: node.module or ""
            for node in self.TREE.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def test_it_lists_the_root_s_names(self) -> None:
        (listed,) = (
            ast.literal_eval(node.value)
            for node in self.TREE.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        assert sorted(listed) == eval_toolkit.__all__

    def test_it_imports_each_from_its_home(self) -> None:
        homes = {name: f"eval_toolkit.{home}" for name, home in eval_toolkit._HOME.items()}
        modules = {"metric_specs": "eval_toolkit", "at_threshold": "eval_toolkit.metric_specs"}
        assert self.imported() == homes | modules

    def test_package_is_typed(self) -> None:
        assert STUB.with_name("py.typed").is_file()


class TestFunctions:
    @every_function
    def test_docstring_has_a_summary_and_an_example(self, function: Any) -> None:
        doc = inspect.getdoc(function) or ""
        summary = doc.split("\n\n")[0]
        assert summary.endswith("."), summary
        assert "\n" not in summary
        assert len(summary) <= 100
        assert "\nExamples\n--------\n" in doc
        assert "\n>>> " in doc.split("\nExamples\n")[1]

    @every_function
    def test_every_parameter_and_the_result_are_typed(self, function: Any) -> None:
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, parameter.name
        assert signature.return_annotation is not inspect.Signature.empty

    @every_function
    def test_types_can_be_read_at_run_time(self, function: Any) -> None:
        assert "return" in typing.get_type_hints(function)

    @every_function
    def test_every_parameter_is_described(self, function: Any) -> None:
        doc = inspect.getdoc(function) or ""
        if "\nParameters\n" not in doc:
            return  # the summary and the example say it all
        described = doc.split("\nParameters\n")[1].split("\nReturns\n")[0]
        for name in inspect.signature(function).parameters:
            assert name in described, name

    @each("name", [n for n in SNAPSHOT + OLD_NAMES if inspect.isclass(getattr(eval_toolkit, n))])
    def test_every_class_is_explained(self, name: str) -> None:
        own = vars(getattr(eval_toolkit, name)).get("__doc__") or ""
        assert len(own.split("\n")[0]) > 5
        assert not own.startswith(f"{name}(")  # what dataclass writes when nobody did


def test_python_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eval_toolkit", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "eval-toolkit, version 1.0.0.dev0\n"
