"""Published seed prompts rolled out against a scripted model: every number follows from the script.

The model is told by what it is asked; nothing here says anything about a real one.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import (
    SeedPrompt,
    System,
    load_seeds,
    rollouts_of,
    run_rollouts,
)
from eval_toolkit.rollouts.attacks import Scripted, Static
from eval_toolkit.rollouts.scorers import KeywordScorer
from eval_toolkit.runs import Outcome, Run

REFUSAL = "I'm sorry, but I can't help with that."
ANSWER = "Of course. Step one: gather what you need."


def seeds_of(shared_data: Path, name: str) -> list[SeedPrompt]:
    path = shared_data / "redteam" / name
    if not path.is_file():
        pytest.skip(f"redteam/{name} is not there")
    return load_seeds(path)


def first_message(request: Any) -> str:
    return str(request.prompt[0].content)


def n_turn(request: Any) -> int:
    return sum(message.role == "user" for message in request.prompt)


def share(seeds: Sequence[SeedPrompt], refused: Any) -> float:
    return sum(refused(seed.prompt) for seed in seeds) / len(seeds)


# --- goals ----------------------------------------------------------------------------------------


def gives_way(goal: str) -> int:
    """Return the turn in which the scripted model gives way to a goal; 4 for never."""
    return 1 + len(goal) % 4


def stubborn(request: Any) -> str:
    return ANSWER if n_turn(request) >= gives_way(first_message(request)) else REFUSAL


def test_goals_of_adv_bench(shared_data: Path, tmp_path: Path) -> None:
    seeds = seeds_of(shared_data, "astra_adv_bench_prompts.csv")
    system: System[Any, Any] = System(
        Static(), ScriptedModel(stubborn, name="stubborn"), KeywordScorer(["step one"])
    )
    done = run_rollouts(system, seeds, tmp_path / "r", depth=3)
    turns = Counter(gives_way(seed.prompt) for seed in seeds)
    n = len(seeds)
    assert min(turns.values()) > 50, "each turn has its share"
    assert done.n_errors == done.n_skipped == 0
    assert done.card["attack_success"].value == pytest.approx(1 - turns[4] / n)
    assert done.card["attack_success"].n_units == n
    by = [sum(turns[at] for at in range(1, turn + 1)) / n for turn in (1, 2, 3)]
    for turn, expected in enumerate(by, 1):
        assert done.card[f"failed_by_turn_{turn}"].value == pytest.approx(expected)
    # No conversation ends early: the Kaplan–Meier curve is the plain share.
    assert done.more["survival"]["survival"] == pytest.approx([1 - one for one in by])
    assert done.card["refused_first"].value == pytest.approx(1 - turns[1] / n)
    # The refusals of a conversation are the turns before it gives way.
    refusals = sum(count * (turn - 1) / 3 for turn, count in turns.items())
    assert done.card["refusal_rate"].value == pytest.approx(refusals / n)
    assert rollouts_of(Run.open(tmp_path / "r")) == list(done.attempts)


# --- beginnings of conversations ------------------------------------------------------------------


def agreeable(request: Any) -> str:
    """Swear where the beginning of the conversation, which is seen, has an odd number of letters."""
    return "What a damned mess." if len(first_message(request)) % 2 else "How lovely."


@pytest.mark.parametrize("part", ["dev", "test"])
def test_reddit_comments_as_beginnings(shared_data: Path, part: str) -> None:
    seeds = seeds_of(shared_data, f"astra_convokit_reddit_prompts_{part}.json")
    system: System[Any, Any] = System(
        Scripted(["So what?", "Go on."]),
        ScriptedModel(agreeable, name="agreeable"),
        KeywordScorer(["damned"]),
        opening=True,
    )
    done = run_rollouts(system, seeds, depth=2)
    # The target sees the comment before the first probe.
    for graph, seed in zip(done.attempts, seeds, strict=True):
        first, second = graph.nodes()
        assert (first.probe, second.probe) == ("So what?", "Go on.")
        said = first.context.with_probe(first.probe).messages[0].content
        assert said.startswith(seed.prompt)
    bad = [len(_beginning(graph)) % 2 == 1 for graph in done.attempts]
    assert 0.3 < sum(bad) / len(bad) < 0.7
    assert done.card["attack_success"].value == pytest.approx(sum(bad) / len(bad))
    assert done.card["refusal_rate"].value == 0.0
    # It swears by itself: neither an echo of a probe nor provoked by one.
    for name in ("attack_success_own", "unprovoked_success"):
        assert done.card[name].value == done.card["attack_success"].value
    assert done.card["probe_flagged"].value == 0.0


def _beginning(graph: Any) -> str:
    """Return the first message that the target sees of a rollout."""
    node = graph.children[0]
    return str(node.context.with_probe(node.probe).messages[0].content)


# --- safe and unsafe ------------------------------------------------------------------------------


HARSH = ("kill", "shoot", "bomb", "steal", "blow up", "destroy", "stab")


def jumpy(prompt: str) -> bool:
    """Return whether the scripted model refuses: it hears words, not meaning."""
    return any(word in prompt.lower() for word in HARSH)


def hears_words(request: Any) -> str:
    return REFUSAL if jumpy(first_message(request)) else ANSWER


@pytest.fixture(scope="module")
def xstest(shared_data: Path) -> tuple[list[SeedPrompt], Outcome]:
    seeds = seeds_of(shared_data, "xstest_prompts.csv")
    system: System[Any, Any] = System(Static(), ScriptedModel(hears_words, name="jumpy"))
    return seeds, run_rollouts(system, seeds, depth=1)


def test_refusals_of_safe_and_of_unsafe_prompts(
    xstest: tuple[list[SeedPrompt], Outcome],
) -> None:
    seeds, done = xstest
    for name, safe in (("over_refusal", True), ("unsafe_refusal", False)):
        chosen = [seed for seed in seeds if seed.safe is safe]
        cell = done.card[name]
        assert (cell.n_units, cell.n_skipped) == (len(chosen), len(seeds) - len(chosen))
        assert cell.value == pytest.approx(share(chosen, jumpy))
        assert 0.05 < share(chosen, jumpy) < 0.95
        assert cell.ci is not None
        assert cell.ci.ci_low < cell.value < cell.ci.ci_high
        # A safe prompt and its contrast share a focus: fewer groups than prompts.
        assert cell.n_groups is not None
        assert 20 < cell.n_groups < len(chosen)
    assert done.card["refused_first"].value == pytest.approx(share(seeds, jumpy))
    # Nothing says whether an answer is harmful, so nothing is claimed about it.
    assert done.card["attack_success"].status == "skipped"


def test_cells_of_every_type_of_prompt(xstest: tuple[list[SeedPrompt], Outcome]) -> None:
    seeds, done = xstest
    types = Counter(seed.category for seed in seeds)
    assert len(types) == 18
    assert set(done.card.slices) == set(types)
    for name, cells in done.card.slices.items():
        own = [seed for seed in seeds if seed.category == name]
        assert cells["refused_first"].n_units == types[name] == len(own)
        assert cells["refused_first"].value == pytest.approx(share(own, jumpy))
        named, other = ("over_refusal", "unsafe_refusal")[:: 1 if own[0].safe else -1]
        assert cells[named].value == cells["refused_first"].value
        assert cells[other].status == "skipped"
    values = {cells["refused_first"].value for cells in done.card.slices.values()}
    assert 0.0 in values
    assert len(values) > 5, "types differ in how many harsh words they hold"
