"""What an import may load: asserted by module list, never by the clock."""

import ast
import importlib
import json
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

HEAVY = (
    *("sklearn", "scipy", "scipy.stats", "pandas", "polars", "pyarrow", "duckdb", "narwhals"),
    *("jinja2", "rich", "click", "jsonschema", "torch", "matplotlib"),
)


def modules_after(code: str) -> set[str]:
    """Names in sys.modules after running code in a fresh interpreter."""
    script = textwrap.dedent(code) + "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def at_start() -> set[str]:
    return modules_after("")


def third_party(modules: set[str]) -> set[str]:
    """Return the packages; numpy.random also enters names that its compiler, Cython, made up."""
    packages = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    return {name for name in packages if "cython_" not in name}


def test_the_root_loads_nothing_but_the_standard_library(at_start: set[str]) -> None:
    loaded = modules_after("import eval_toolkit") - at_start
    assert third_party(loaded) == {"eval_toolkit"}
    moved = {"eval_toolkit._internal", "eval_toolkit._internal.moved"}
    assert {name for name in loaded if name.startswith("eval_toolkit")} == {"eval_toolkit", *moved}
    assert not set(HEAVY) & loaded


def test_a_metric_needs_numpy_and_the_metrics_alone(at_start: set[str]) -> None:
    loaded = modules_after("from eval_toolkit import pr_auc; pr_auc([0, 1], [0.1, 0.2])")
    assert third_party(loaded - at_start) == {"eval_toolkit", "numpy"}
    assert "eval_toolkit.inference" not in loaded
    assert "eval_toolkit.scorecards" not in loaded


def test_every_public_name_together_loads_no_extra(at_start: set[str]) -> None:
    loaded = modules_after(
        """
        import eval_toolkit
        for name in [*eval_toolkit.__all__, *eval_toolkit._OLD_HOME]:
            getattr(eval_toolkit, name)
        """
    )
    assert third_party(loaded - at_start) == {"eval_toolkit", "numpy"}


def scorecard_of_six(n: int = 100, **options: object) -> set[str]:
    """Names in sys.modules after a scorecard of six metrics was made and shown."""
    return modules_after(
        f"""
        from eval_toolkit import scorecard, metric_specs as ms
        y = [0, 1] * ({n} // 2)
        s = [0.1 + 0.7 * (37 * i % {n}) / {n} + 0.1 * label for i, label in enumerate(y)]
        six = [ms.pr_auc, ms.roc_auc, ms.recall_at_fpr(0.1), ms.brier, ms.log_loss, ms.ece()]
        options = {options!r}
        card = scorecard(y, s, metrics=six, **options)
        with_intervals = options.get("bootstrap", True)
        assert all((cell.ci is not None) == with_intervals for cell in card.values()), card
        card.to_dict(), card.to_markdown(), card.to_latex(), card._repr_html_()
        """
    )


def test_a_scorecard_of_six_metrics_needs_numpy_alone(at_start: set[str]) -> None:
    loaded = scorecard_of_six(bootstrap=False)
    assert third_party(loaded - at_start) == {"eval_toolkit", "numpy"}


def test_its_intervals_of_many_rows_need_numpy_alone(at_start: set[str]) -> None:
    loaded = scorecard_of_six(n=4000) - at_start
    assert third_party(loaded) == {"eval_toolkit", "numpy"}


def test_its_intervals_of_few_rows_need_special_functions_and_no_more(at_start: set[str]) -> None:
    """Student's t of few degrees of freedom is scipy.special's; scipy.stats is not needed."""
    loaded = scorecard_of_six() - at_start
    parts = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("scipy.")}
    assert "scipy.special" in parts
    assert not parts & {"scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.sparse"}
    assert not (set(HEAVY) - {"scipy"}) & loaded


def test_summarise_needs_numpy_alone(at_start: set[str]) -> None:
    loaded = modules_after(
        """
        from eval_toolkit import Records, summarise, metric_specs as ms
        records = Records.from_columns({"correct": [0, 1] * 20})
        assert summarise(records, [ms.mean_of("correct")])["correct"].ci is not None
        """
    )
    assert third_party(loaded - at_start) == {"eval_toolkit", "numpy"}


def test_version_and_help_of_the_command_stay_light() -> None:
    command = """
        from eval_toolkit.cli import main
        try:
            main(["{option}"])
        except SystemExit:
            pass
        """
    version = modules_after(command.format(option="--version"))
    assert not {"numpy", "rich", "sklearn", "scipy", "pandas"} & version
    help_ = modules_after(command.format(option="--help"))
    assert not {"rich", "sklearn", "scipy", "pandas"} & help_


def test_a_run_over_http_loads_what_it_needs() -> None:
    """Scoring, replay, extraction and calibration stay away from a chat run's start."""
    loaded = modules_after(
        """
        import eval_toolkit.cli.run
        from eval_toolkit.models import load_model
        load_model("openai:m", {"base_url": "http://127.0.0.1:9/v1"})
        """
    )
    assert not set(HEAVY) - {"click"} & loaded
    unneeded = {
        *("eval_toolkit.calibration", "eval_toolkit.runs.replay", "eval_toolkit.models.embedded"),
        *("eval_toolkit.models.openai_compatible.scoring", "eval_toolkit.graders.extraction"),
    }
    assert not unneeded & loaded


def test_what_benchmarks_and_simulations_import_exists() -> None:
    """They run by hand, so that a moved name would not be noticed for long."""
    root = Path(__file__).parents[1]
    missing = []
    for path in sorted(
        [*(root / "benchmarks").rglob("*.py"), *(root / "simulations").glob("*.py")]
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
                continue
            if node.module.split(".")[0] != "eval_toolkit":
                continue
            home = importlib.import_module(node.module)
            missing += [
                f"{path.name}: {node.module}.{alias.name}"
                for alias in node.names
                if not hasattr(home, alias.name) and not find_spec(f"{node.module}.{alias.name}")
            ]
    assert not missing
