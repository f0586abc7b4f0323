"""Plugins for language models: a task, a grader and a model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.graders import ColumnInfo, Grade
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, ResponseType
from eval_toolkit.tasks import BaseTask
from eval_toolkit_reviews.rows import BLAME, PRAISE, read_reviews

__all__ = ["ReviewStars", "StarCounter", "StarsOff"]

_NUMBER = re.compile(r"[1-5]")


class ReviewStars(BaseTask[str]):
    """Task to predict the number of stars of a review."""

    NAME = "review_stars"
    RESPONSE_TYPE = ResponseType.COMPLETION
    ID_FIELD = "id"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"

    def __init__(self, num_fewshot: int = 0, *, rows: Any = None, **options: Any) -> None:
        reviews = read_reviews()
        given = {
            split: [row for row in reviews if row["split"] == split] for split in ("train", "test")
        }
        super().__init__(num_fewshot, rows=given if rows is None else rows, **options)

    def graders(self) -> list[Any]:
        """Return the grader of this package; graders with registered names can use `METRICS` instead."""
        return [StarsOff()]

    def _get_instruction_text(self, item: Mapping[str, Any]) -> str:
        return f"Review: {item['text']}\nHow many stars, 1 to 5?"

    def _get_cue_text(self, item: Mapping[str, Any]) -> str:
        return "Stars:"

    def _get_ground_truth(self, item: Mapping[str, Any]) -> str:
        return str(item["stars"])


@dataclass(frozen=True)
class StarsOff:
    """Grader for the error of an answer in stars, and its correctness."""

    name: str = "stars_off"
    version: str = "1"
    response_types = (ResponseType.COMPLETION,)

    def columns(self) -> dict[str, ColumnInfo]:
        """Return the type and direction of each column."""
        return {
            self.name: ColumnInfo(higher_is_better=False, bounds=(0.0, 4.0)),
            f"{self.name}_right": ColumnInfo(bounds=(0.0, 1.0), binary=True),
        }

    def grade(self, response: Any) -> dict[str, Any]:
        """Return the distance to the reference; missing if the answer has no number of stars."""
        said = _NUMBER.search(response.completion)
        truths = [_NUMBER.search(truth or "") for truth in response.ground_truth_list]
        known = [int(truth[0]) for truth in truths if truth is not None]
        if not known:
            return dict.fromkeys(self.columns(), Grade.skipped("the reference has no stars"))
        if said is None:
            return dict.fromkeys(self.columns(), Grade.error("the answer has no stars"))
        off = min(abs(int(said[0]) - truth) for truth in known)
        return {self.name: float(off), f"{self.name}_right": float(off == 0)}

    def answer(self, response: Any) -> str | None:
        """Return the number of stars, used for majority votes over several attempts."""
        said = _NUMBER.search(response.completion)
        return None if said is None else said[0]


class StarCounter:
    """A "language model" that counts words of praise and blame."""

    def __init__(self, middle: str = "3") -> None:
        self.name = "star_counter"
        self.middle = middle

    def describe(self) -> dict[str, Any]:
        """Return the settings that affect the answers."""
        return {"kind": "star_counter", "middle": self.middle}

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Return a number of stars."""
        prompt = request.prompt
        text = prompt if isinstance(prompt, str) else " ".join(turn.content for turn in prompt)
        # The last review is the question; what is before it are examples.
        text = text.rpartition("Review:")[2].lower()
        praise = sum(word in text for word in PRAISE)
        blame = sum(word in text for word in BLAME)
        said = "5" if praise > blame else "1" if blame > praise else self.middle
        for stop in request.stop:
            said = said.partition(stop)[0]
        return RawCompletion(said, finish_reason="stop")

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise, since log-likelihoods are not supported."""
        raise ModelError("star_counter has no log-likelihoods", kind="unsupported")
