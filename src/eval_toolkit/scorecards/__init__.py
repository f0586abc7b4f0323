"""Scorecards: every metric of a slice with its status, interval, n and provenance.

`scorecard` takes labels and scores; `summarise` takes `Records` of any kind (rows, samples,
rollouts). Both return the same cells.
"""

from eval_toolkit.scorecards.cells import MetricResult, Scorecard
from eval_toolkit.scorecards.records import Records, unit_starts
from eval_toolkit.scorecards.score import scorecard
from eval_toolkit.scorecards.summary import summarise

__all__ = ["MetricResult", "Records", "Scorecard", "scorecard", "summarise", "unit_starts"]
