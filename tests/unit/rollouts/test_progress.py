"""How far rollouts are: counted over all turns, at the rate since they began."""

import itertools
import time

import pytest

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.rollouts.attacks import Refinement, Static


def test_the_rate_is_that_of_all_turns(monkeypatch):
    """At the start of a turn its own rate is 0, which would leave hours to wait."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) / 10)
    told = []
    system = System(Static(), ScriptedModel("No."))
    run_rollouts(system, [f"goal {n}" for n in range(8)], depth=3, on_progress=told.append)
    for progress in told:
        assert progress.rate == pytest.approx(progress.done / progress.elapsed_s)
    assert [p.elapsed_s for p in told] == sorted(p.elapsed_s for p in told)
    later = [p for p in told if 8 <= p.done < 24]
    assert later, "told between the turns"
    assert all(p.eta_s == pytest.approx((24 - p.done) / p.rate) for p in later)
    assert (told[-1].done, told[-1].total) == (24, 24)


def test_answers_that_were_there_do_not_hurry_it(tmp_path):
    def system():
        return System(Refinement(ScriptedModel("Please.")), ["No."])

    run_rollouts(system(), ["a", "b"], tmp_path / "r", depth=1)
    told = []
    run_rollouts(system(), ["a", "b"], tmp_path / "r", depth=1, on_progress=told.append)
    assert (told[-1].done, told[-1].reused, told[-1].rate) == (4, 4, 0.0)
