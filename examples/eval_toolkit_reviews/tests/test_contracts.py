"""Contract tests of the plugins: one test per rule."""

from typing import Any

import pytest
from eval_toolkit_reviews.answers import ReviewStars, StarCounter, StarsOff
from eval_toolkit_reviews.guesses import StarGuesses
from eval_toolkit_reviews.rows import (
    LeastRegretSelector,
    PraiseScorer,
    ProductSplitter,
    ReviewsLoader,
    TemplateCheck,
)
from eval_toolkit_reviews.talk import AngryCustomer, InsultScorer

from eval_toolkit.models.responses import Completion
from eval_toolkit.testing import contract_checks

LOADER = ReviewsLoader()
RESPONSES = [Completion(text, ground_truth="4") for text in ("4", "Stars: 5", "none")]
PLUGINS: list[tuple[str, Any, dict[str, Any]]] = [
    ("loader", LOADER, {}),
    ("scorer", PraiseScorer(), {"examples": LOADER.load_splits()["test"].features[:8]}),
    ("leakage_check", TemplateCheck(), {"splits": LOADER.load_splits()}),
    ("splitter", ProductSplitter(), {"slice_": LOADER.load_splits()["train"]}),
    ("selector", LeastRegretSelector(), {}),
    ("task", ReviewStars(), {}),
    ("grader", StarsOff(), {"responses": RESPONSES}),
    ("model", StarCounter(), {"prompts": ["Review: I love it.", "Review: it broke."]}),
    ("text_scorer", InsultScorer(), {}),
    ("attack", AngryCustomer(), {}),
    ("kind", StarGuesses(), {}),
]


@pytest.mark.parametrize(
    ("plugin", "check"),
    [
        pytest.param(plugin, check, id=f"{kind}-{rule}")
        for kind, plugin, given in PLUGINS
        for rule, check in contract_checks(kind, **given)
    ],
)
def test_contract(plugin: Any, check: Any) -> None:
    check(plugin)
