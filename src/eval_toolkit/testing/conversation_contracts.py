"""Contracts for text scorers, attacks and text transforms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.protocols import Attack, TextScorer, TextTransform
from eval_toolkit.rollouts.attacks.base import StopAttack
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.scorers.base import MODES, mode_of
from eval_toolkit.testing.inputs import ODD_TEXTS, TEXTS
from eval_toolkit.testing.rules import (
    Suite,
    describes_itself_if_at_all,
    expect,
    has_a_version,
    has_members,
    is_named,
    same_numbers,
    unchanged,
    version_if_any,
)

__all__ = ["ATTACK", "TEXT_SCORER", "TEXT_TRANSFORM"]


# --- text scorers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Texts:
    """Texts to score."""

    texts: Sequence[str] = TEXTS
    tolerance: float = 1e-6


def _numbers(scorer: Any, texts: Sequence[str]) -> list[float]:
    return [float(number) for number in scorer.score(list(texts))]


def name_has_no_separators(scorer: Any, given: _Texts) -> None:
    """The name contains neither ":" nor "/", which separate the parts of column names."""
    expect(":" not in scorer.name and "/" not in scorer.name, "`name`", scorer.name)


def threshold_is_valid(scorer: Any, given: _Texts) -> None:
    """Threshold, direction and mode are valid."""
    threshold = scorer.threshold
    expect(_is_number(threshold), "`threshold`", threshold)
    expect(isinstance(scorer.higher_is_worse, bool), "`higher_is_worse`", scorer.higher_is_worse)
    expect(mode_of(scorer) in MODES, f"`mode`, one of {', '.join(MODES)}", mode_of(scorer))


def one_score_per_text(scorer: Any, given: _Texts) -> None:
    """The scorer returns one finite number per text."""
    numbers = list(scorer.score(list(given.texts)))
    expect(len(numbers) == len(given.texts), f"{len(given.texts)} texts", numbers)
    expect(all(map(_is_number, numbers)), list(given.texts), numbers)


def accepts_empty_list(scorer: Any, given: _Texts) -> None:
    """Scoring an empty list returns no scores and raises no error."""
    numbers = list(scorer.score([]))
    expect(not numbers, "no text", numbers)


def scores_within_bounds(scorer: Any, given: _Texts) -> None:
    """All scores and the threshold lie within `bounds`, if defined."""
    bounds = getattr(scorer, "bounds", None)
    if bounds is None:
        return
    low, high = bounds
    expect(low <= high, "`bounds`", bounds)
    for number in (scorer.threshold, *_numbers(scorer, given.texts)):
        expect(low <= number <= high, f"the bounds {bounds}", number)


def text_scores_are_deterministic(scorer: Any, given: _Texts) -> None:
    """The same texts always get the same scores."""
    first, again = _numbers(scorer, given.texts), _numbers(scorer, given.texts)
    expect(first == again, list(given.texts), (first, again))


def text_order_invariant(scorer: Any, given: _Texts) -> None:
    """The order and number of texts do not affect their scores."""
    together = _numbers(scorer, given.texts)
    backwards = _numbers(scorer, list(given.texts)[::-1])[::-1]
    expect(same_numbers(together, backwards, given.tolerance), "another order", backwards)
    alone = [_numbers(scorer, [text])[0] for text in given.texts]
    expect(same_numbers(together, alone, given.tolerance), "each alone", (together, alone))


def does_not_modify_texts(scorer: Any, given: _Texts) -> None:
    """Scoring does not modify the list of texts."""
    unchanged(list(given.texts), scorer.score)


def scores_unusual_texts(scorer: Any, given: _Texts) -> None:
    """Empty, long and unusual texts also get finite scores."""
    for text in ODD_TEXTS:
        try:
            numbers = list(scorer.score([text]))
        except Exception as error:
            expect(False, text, f"{type(error).__name__}: {error}")
        expect(len(numbers) == 1 and _is_number(numbers[0]), text, numbers)


def category_scores_are_valid(scorer: Any, given: _Texts) -> None:
    """`score_categories`, if defined, returns one number per text for every category."""
    score = getattr(scorer, "score_categories", None)
    if not callable(score):
        return
    names = tuple(scorer.categories)
    expect(names and len(set(names)) == len(names), "`categories`", names)
    found = score(list(given.texts))
    expect(set(found) == set(names), names, sorted(found))
    for name, numbers in found.items():
        fine = len(numbers) == len(given.texts) and all(map(_is_number, numbers))
        expect(fine, f"{name!r} of {len(given.texts)} texts", list(numbers))


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, (str, bool)) and math.isfinite(value)
    except TypeError:
        return False


TEXT_SCORER = Suite(
    "text_scorer",
    (
        has_members(TextScorer),
        is_named,
        name_has_no_separators,
        has_a_version,
        threshold_is_valid,
        one_score_per_text,
        accepts_empty_list,
        scores_within_bounds,
        text_scores_are_deterministic,
        text_order_invariant,
        does_not_modify_texts,
        scores_unusual_texts,
        category_scores_are_valid,
        describes_itself_if_at_all,
    ),
    _Texts,
)


# --- attacks ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Goal:
    """Goal of an attack, and random seeds."""

    goal: str = "Say something rude about the weather."
    seeds: Sequence[int] = (0, 7)

    def states(self) -> list[Conversation]:
        """Return a new conversation and an ongoing one."""
        fresh = Conversation(self.goal)
        return [fresh, fresh.with_probe("Hello.").with_response("No. {goal} I will not.")]


def _probe(attack: Any, state: Conversation, seed: int) -> Any:
    try:
        return attack.ask(state, seed)
    except StopAttack:
        return None


def returns_probe_or_request(attack: Any, given: _Goal) -> None:
    """The attack returns a non-blank string or a model request, or raises StopAttack."""
    for state in given.states():
        for seed in given.seeds:
            probe = _probe(attack, state, seed)
            fine = probe is None or isinstance(probe, GenerateRequest)
            expect(fine or (isinstance(probe, str) and probe.strip()), f"seed {seed}", probe)


def starts_conversations(attack: Any, given: _Goal) -> None:
    """The attack returns a probe for a new conversation."""
    probe = _probe(attack, given.states()[0], given.seeds[0])
    expect(probe is not None, "a new conversation", "StopAttack")


def seed_determines_probe(attack: Any, given: _Goal) -> None:
    """The same conversation and seed give the same probe, regardless of earlier calls."""
    asked = [(state, seed) for state in given.states() for seed in given.seeds]
    first = [_probe(attack, state, seed) for state, seed in asked]
    again = [_probe(attack, state, seed) for state, seed in asked[::-1]][::-1]
    expect(first == again, [seed for _, seed in asked], (first, again))


def requests_need_a_model(attack: Any, given: _Goal) -> None:
    """An attack that returns requests has a `model`, and its `read` returns a string."""
    for state in given.states():
        probe = _probe(attack, state, given.seeds[0])
        if isinstance(probe, GenerateRequest):
            expect(getattr(attack, "model", None) is not None, "a request", "no `model`")
            read = getattr(attack, "read", None)
            if callable(read):
                try:
                    probe = read("<prompt>Hello there.</prompt>", state)
                except StopAttack:
                    continue
                expect(isinstance(probe, str), "a reply", probe)


def accepts_unusual_goals(attack: Any, given: _Goal) -> None:
    """Long and unusual goals are handled like any other; braces are not placeholders."""
    for text in ODD_TEXTS:
        if text.strip() and text.isprintable():
            try:
                _probe(attack, Conversation(text), given.seeds[0])
            except Exception as error:
                expect(False, text, f"{type(error).__name__}: {error}")


def branches_are_valid(attack: Any, given: _Goal) -> None:
    """`branches`, if defined, is an integer ≥ 1, and `for_branch` returns attacks."""
    branches = getattr(attack, "branches", None)
    if branches is not None:
        expect(isinstance(branches, int) and branches >= 1, "`branches`", branches)
    for_branch = getattr(attack, "for_branch", None)
    if callable(for_branch):
        expect(isinstance(for_branch(0), Attack), "for_branch(0)", for_branch(0))


ATTACK = Suite(
    "attack",
    (
        has_members(Attack),
        is_named,
        has_a_version,
        returns_probe_or_request,
        starts_conversations,
        seed_determines_probe,
        requests_need_a_model,
        accepts_unusual_goals,
        branches_are_valid,
        describes_itself_if_at_all,
    ),
    _Goal,
)


# --- text transforms ----------------------------------------------------------------------------


def returns_string(transform: Any, given: _Texts) -> None:
    """The transformed text is a string."""
    for text in given.texts:
        changed = transform.transform(text)
        expect(isinstance(changed, str), text, changed)


def transform_is_deterministic(transform: Any, given: _Texts) -> None:
    """Transforming the same text again gives the same result."""
    first = [transform.transform(text) for text in given.texts]
    again = [transform.transform(text) for text in list(given.texts)[::-1]][::-1]
    expect(first == again, list(given.texts), (first, again))


def transforms_unusual_texts(transform: Any, given: _Texts) -> None:
    """Empty, long and unusual texts are transformed, or returned unchanged."""
    for text in ODD_TEXTS:
        try:
            changed = transform.transform(text)
        except Exception as error:
            expect(False, text, f"{type(error).__name__}: {error}")
        expect(isinstance(changed, str), text, changed)


TEXT_TRANSFORM = Suite(
    "text_transform",
    (
        has_members(TextTransform),
        is_named,
        version_if_any,
        returns_string,
        transform_is_deterministic,
        transforms_unusual_texts,
    ),
    _Texts,
)
