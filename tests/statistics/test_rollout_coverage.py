"""Coverage of what a run says about failures; run with ``pytest -m slow -s`` for the tables.

Five turns, one in ten fails; conversations break at random, or the same seed is rolled out three times.
"""

import itertools
import math

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.rollouts import SeedPrompt, compare_survival, measure_rollouts, rollout_scorecard
from eval_toolkit.rollouts.graphs import Graph, Node

pytestmark = pytest.mark.slow

TURNS, HAZARD, DRAWS = 5, 0.1, 400
TRUTH = 1.0 - (1.0 - HAZARD) ** TURNS
NOISE = 4.0 * math.sqrt(0.05 * 0.95 / DRAWS)
METRICS = [
    ms.mean_of(name, higher_is_better=False, bounds=(0.0, 1.0))
    for name in ("attack_success", "failed_by_turn_3")
]


def rolled_out(rng, unit, attempt, hazard, lost, state):
    nodes = []
    for _ in range(TURNS):
        if rng.random() < lost:
            nodes.append(Node("", "p", None, status=state, reason="lost"))
            break
        nodes.append(Node("", "p", "r", event=bool(rng.random() < hazard), echo=False))
        if nodes[-1].event:
            break
    for before, after in itertools.pairwise(nodes):
        before.children.append(after)
    return Graph("Go", nodes[:1], unit_id=unit, attempt=attempt)


def drawn(rng, n, *, lost, state="error", attempts=1, icc=0.0):
    """Return rollouts of n seeds whose chances to fail differ, so that rollouts of one agree."""
    graphs = []
    for unit in range(n):
        size = (1.0 - icc) / icc if icc else math.inf
        hazard = rng.beta(HAZARD * size, (1.0 - HAZARD) * size) if icc else HAZARD
        graphs += [
            rolled_out(rng, f"s{unit}", attempt, hazard, lost, state)
            for attempt in range(1, attempts + 1)
        ]
    return graphs


def truth_by(turn, icc):
    """True share of failures: of one chance, or over the seeds' beta distribution."""
    if not icc:
        return 1.0 - (1.0 - HAZARD) ** turn
    size = (1.0 - icc) / icc
    a, b = HAZARD * size, (1.0 - HAZARD) * size
    return 1.0 - math.prod((b + at) / (a + b + at) for at in range(turn))


@pytest.mark.parametrize(
    ("n", "lost", "attempts", "icc"),
    [(50, 0.1, 1, 0.0), (300, 0.1, 1, 0.0), (50, 0.2, 1, 0.0), (50, 0.1, 3, 0.3), (20, 0.0, 3, 0.3)],
)  # fmt: skip
@pytest.mark.parametrize("state", ["error", "skipped"])
def test_shares_of_failures_hold_the_truth_whatever_broke(n, lost, attempts, icc, state):
    rng = np.random.default_rng([n, round(100 * lost), attempts, len(state)])
    seeds = [SeedPrompt(f"p{unit}", id=f"s{unit}") for unit in range(n)]
    turns = {"attack_success": TURNS, "failed_by_turn_3": 3}
    hits, bounded, used, mean = dict.fromkeys(turns, 0), 0, dict.fromkeys(turns, 0), 0.0
    for _ in range(DRAWS):
        graphs = drawn(rng, n, lost=lost, state=state, attempts=attempts, icc=icc)
        records = measure_rollouts(graphs, seeds, [], depth=TURNS)
        card = rollout_scorecard(records, METRICS, graphs=graphs, depth=TURNS)
        for name, turn in turns.items():
            cell, truth = card[name], truth_by(turn, icc)
            if cell.ci is not None:
                used[name] += 1
                hits[name] += cell.ci.ci_low <= truth <= cell.ci.ci_high
        whole = card["attack_success"]
        mean += (whole.value or 0.0) / DRAWS
        low, high = whole.details.get("bounds_ci", (0.0, 1.0))
        bounded += low <= truth_by(TURNS, icc) <= high
    shares = {name: hits[name] / used[name] for name in turns}
    print(f"\n{n} seeds, {lost} lost, {attempts} rollouts, {state}: {shares}, mean {mean:.3f}")
    assert used["attack_success"] == DRAWS
    assert mean == pytest.approx(truth_by(TURNS, icc), abs=0.02)
    assert min(shares.values()) >= 0.93 - NOISE
    assert bounded / DRAWS >= 0.95 - NOISE


def test_the_same_target_is_not_worse_where_its_conversations_break():
    """By the mean of what is known it would be: 0.41 against 0.55."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(DRAWS):
        a, b = drawn(rng, 100, lost=0.0), drawn(rng, 100, lost=0.2)
        found = compare_survival(a, b, at=TURNS, depth=TURNS)
        wrong += not found.ci_low <= 0.0 <= found.ci_high
    print(f"\na difference that is none: {wrong / DRAWS:.3f}")
    assert wrong / DRAWS <= 0.05 + NOISE
