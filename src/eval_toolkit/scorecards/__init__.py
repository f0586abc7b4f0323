"""Scorecards: metrics of a slice with status, interval, sample size and provenance.

`scorecard` takes labels and scores; `summarise` takes `Records` of any kind (rows, samples,
rollouts). Both return cells of the same type.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.scorecards.cells import *
    from eval_toolkit.scorecards.records import *
    from eval_toolkit.scorecards.sanity import *
    from eval_toolkit.scorecards.score import *
    from eval_toolkit.scorecards.summary import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "cells": "MetricResult Scorecard",
        "records": "Records unit_starts",
        "sanity": "sanity_notes",
        "score": "scorecard",
        "summary": "summarise",
    },
)
