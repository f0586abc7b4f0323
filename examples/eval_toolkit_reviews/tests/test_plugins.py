"""Tests of the plugins' results, and of their discovery by name."""

import asyncio
from pathlib import Path

import pytest
from eval_toolkit_reviews.answers import StarCounter, StarsOff
from eval_toolkit_reviews.guesses import StarGuesses
from eval_toolkit_reviews.rows import PraiseScorer, ReviewsLoader, TemplateCheck
from eval_toolkit_reviews.talk import InsultScorer

from eval_toolkit import evaluate, run_leakage_checks
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import Completion
from eval_toolkit.plugins import PLUGIN_KINDS, installed_plugins
from eval_toolkit.runs import drive, rescore


def test_one_of_every_kind_is_installed_and_works() -> None:
    mine = [one for one in installed_plugins() if one.distribution == "eval-toolkit-reviews"]
    assert {one.kind for one in mine} == set(PLUGIN_KINDS)
    assert [one.problem for one in mine if not one.usable] == []


def test_words_of_praise_tell_good_reviews_from_bad_ones() -> None:
    slices = ReviewsLoader().load_splits()
    result = evaluate({"praise": PraiseScorer()}, slices, run_id="test", n_resamples=50)
    block = result.by_slice["test"]["by_scorer"]["praise"]
    assert block["roc_auc"]["value"] > 0.9


def test_templates_are_found_across_splits() -> None:
    report = run_leakage_checks([TemplateCheck()], ReviewsLoader().load_splits())
    assert report.merged_drop_indices() == {"test": list(range(36))}


@pytest.mark.parametrize(
    ("said", "off"), [("4", 0.0), ("I would say 2 stars.", 2.0), ("5 of 5", 1.0)]
)
def test_how_far_off(said: str, off: float) -> None:
    assert StarsOff().grade(Completion(said, ground_truth="4"))["stars_off"] == off


def test_no_stars_is_an_error_and_no_zero() -> None:
    grade = StarsOff().grade(Completion("I cannot tell.", ground_truth="4"))["stars_off"]
    assert (grade.value, grade.status, grade.reason) == (None, "error", "the answer has no stars")


def test_the_model_counts_words_of_the_last_review() -> None:
    asked = GenerateRequest("Review: it broke.\nStars: 1\nReview: I love it.\nStars:")
    assert asyncio.run(StarCounter().generate(asked)).text == "5"


def test_a_run_of_guesses_is_rescored_by_the_name_of_its_kind(tmp_path: Path) -> None:
    done = drive(StarGuesses(), tmp_path / "guesses", name="guesses")
    again = rescore(tmp_path / "guesses")
    assert again.card["stars_off"].value == done.card["stars_off"].value
    assert again.n_asked == 0


def test_insults() -> None:
    assert InsultScorer().score(["You stupid idiot.", "Hello.", "Useless."]) == [1.0, 0.0, 0.5]
