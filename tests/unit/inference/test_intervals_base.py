"""One base of every result that has an interval."""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import pytest

import eval_toolkit
from eval_toolkit.analysis.differences import RunDifference
from eval_toolkit.inference import (
    BootstrapCI,
    Interval,
    PairedBootstrapCI,
    delong_roc_variance,
    missing_bounds,
    paired_mean_diff,
    wilson_interval,
)

ENDS = ({"ci_low", "ci_high"}, {"low", "high"})
BANDS = {"ClusteredOLS", "CurveBand", "Looks", "SurvivalCurve"}
"""An interval for each of many points."""
VIEWS = {"Bar", "Cell", "Estimate", "Point"}
"""What a page or a chart shows of a result that somebody stored."""
OTHER = {"Filter", "MissingBounds", "Scale"}
"""Ranges that are no confidence interval; the interval of `MissingBounds` is its ``ci``."""


def test_results_with_two_ends_are_intervals() -> None:
    """Fields of both ends stand in classes that inherit from the base; nobody has one of his own."""
    source = Path(eval_toolkit.__file__).parent
    apart = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name != "Interval":
                named = {
                    ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)
                }
                bases = [ast.unparse(base) for base in node.bases]
                if ENDS[0] <= named or ENDS[1] <= named:
                    apart |= (
                        set() if any(one.startswith("Interval[") for one in bases) else {node.name}
                    )
    assert apart == BANDS | VIEWS | OTHER


@pytest.mark.parametrize(
    "result",
    [
        Interval(0.1, 0.3, 0.95, "t"),
        BootstrapCI(0.2, 0.1, 0.3, 0.95, 100, "BCa"),
        PairedBootstrapCI(0.2, 0.1, 0.3, False, 0.95, 100),
        wilson_interval(4, 9),
        delong_roc_variance([0, 0, 1, 1], [1, 2, 3, 4], [1, 3, 2, 4]),
        paired_mean_diff([0, 1, 0, 1, 0, 1] * 4, [1, 1, 0, 1, 0, 1] * 4),
        RunDifference(slice="s", scorer="a", scorer_b="b", metric="m", ci_low=0.1, ci_high=0.2),
        missing_bounds([1, 1, 0, 1], 1).ci,
    ],
    ids=lambda result: type(result).__name__,
)
def test_both_spellings_and_nothing_can_be_set(result: Interval[float]) -> None:
    assert isinstance(result, Interval)
    assert (result.low, result.high) == (result.ci_low, result.ci_high)
    assert 0.0 < result.confidence < 1.0
    assert isinstance(result.method, str)
    assert isinstance(result.reason, str)
    for name in ("low", "ci_low", "confidence", "anything"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, name, 0.0)
    moved = dataclasses.replace(result, ci_low=-1.0)
    assert (moved.low, moved.high, type(moved)) == (-1.0, result.high, type(result))
    assert dataclasses.replace(moved, ci_low=result.ci_low) == result
    assert result.clipped((result.low, result.high)) == result


def test_contract_names_are_made_as_ever() -> None:
    values = (0.2, 0.1, 0.3, 0.95, 100, "BCa", np.arange(3.0), 2, "why", 9, 8)
    names = [field.name for field in dataclasses.fields(BootstrapCI)]
    assert BootstrapCI(*values) == BootstrapCI(**dict(zip(names, values, strict=True)))
    paired = (0.2, 0.1, 0.3, False, 0.95, 100, "t", 2, 0.04, np.arange(3.0), 0.5, 0.7, "why")
    names = [field.name for field in dataclasses.fields(PairedBootstrapCI)]
    assert PairedBootstrapCI(*paired) == PairedBootstrapCI(**dict(zip(names, paired, strict=True)))
    assert repr(PairedBootstrapCI(*paired)).startswith("PairedBootstrapCI(delta=0.2, ci_low=0.1,")
    for given in (BootstrapCI(*values), PairedBootstrapCI(*paired)):
        assert given.samples is not None
        assert not given.samples.flags.writeable
    with pytest.raises(TypeError, match="missing 3 required positional arguments"):
        BootstrapCI(0.2, 0.1, 0.3)  # type: ignore[call-arg]
