"""docs/migrating.md is true: what has moved, what 1.12 had, which import lines to write."""

import importlib
import importlib.util
import inspect
import re
from typing import Any

import pytest
from tests.docs.pages import DOCS, ROOT
from tests.support.each import each

PAGE = (DOCS / "migrating.md").read_text("utf-8")
NAMES = ROOT / "tests" / "interop" / "original" / "names.txt"
QUOTED = {
    word for quoted in re.findall(r"`([^`\n]+)`", PAGE) for word in re.findall(r"\w+", quoted)
}


def names_of_1_12() -> list[tuple[str, str]]:
    """Return every public module of eval-toolkit 1.12, with each of its names."""
    found = []
    for line in NAMES.read_text("utf-8").splitlines():
        module, names = line.split(":")
        found += [(module, name) for name in names.split()]
    return found


@pytest.fixture(scope="module")
def migrating() -> Any:
    path = ROOT / "tools" / "migrating.py"
    spec = importlib.util.spec_from_file_location("migrating", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_made_of_the_sources(migrating: Any) -> None:
    shown = PAGE.split(migrating.START)[1].split(migrating.END)[0]
    assert shown.strip() == migrating.table(), "run `python tools/migrating.py`"


def test_everything_of_1_12_is_here_or_on_the_page() -> None:
    missing = []
    for module, name in names_of_1_12():
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            missing.append((module, name))
    assert [(module, name) for module, name in missing if name not in QUOTED] == []
    # One that comes back is no longer listed as missing, and one that goes is noticed.
    assert len(names_of_1_12()) == 639
    assert len({name for _, name in missing}) == 82


@each("line", re.findall(r"`(from eval_toolkit[\w.]* import [\w, ]+)`", PAGE))
def test_import_lines_to_write_work(line: str) -> None:
    exec(line, {})  # noqa: S102


def test_arguments_are_called_as_the_page_says() -> None:
    from eval_toolkit import calibration, claims, inference, manifest
    from eval_toolkit.leakage import eda
    from eval_toolkit.text_dedup import TfidfCosineStrategy

    for function, arguments in (
        (inference.correct_p_values, "p"),
        (inference.fdr_bh_correct, "p"),
        (inference.bonferroni_correct, "p"),
        (calibration.bayes_optimal_threshold, "prior fp_cost fn_cost"),
        (claims.required_metric_gate, "slice_name scorer metric_path"),
        (manifest.validate_source_roles, "records"),
        (TfidfCosineStrategy.pairs_across, "self query reference k_neighbors k"),
        (eda.shannon_entropy, "text"),
    ):
        assert [*inspect.signature(function).parameters][: len(arguments.split())] == (
            arguments.split()
        )
    assert {"c", "n_folds", "k"} <= {*inspect.signature(eda.distribution_shift).parameters}
    assert "obfuscation" in inspect.signature(eda.summarize_split).parameters
