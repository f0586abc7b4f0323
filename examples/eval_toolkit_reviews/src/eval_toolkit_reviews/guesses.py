"""An evaluation kind: predict the stars of reviews from their words, without a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit.runs import Kind, Unit, Words
from eval_toolkit_reviews.rows import BLAME, PRAISE, read_reviews

__all__ = ["StarGuesses"]


@dataclass(frozen=True)
class StarGuesses(Kind[Any]):
    """Predicts 3 stars, plus one per word of praise, minus one per word of blame.

    Runs store the name of the kind, by which `rescore`, reports and the viewer find this class.

    Parameters
    ----------
    split : str, default "test"
        Split of the reviews.
    """

    split: str = "test"

    name = "star_guesses"
    words = Words(what="stars guessed from words", units="reviews", attempt="guess")

    @classmethod
    def stored(cls, *run: Any) -> "StarGuesses":
        """Restore the kind of a stored run, for `rescore`."""
        return cls(run[0].manifest["config"]["slice"])

    def config(self) -> Mapping[str, Any]:
        """Return the configuration that identifies a run."""
        return {"system": "words", "slice": self.split}

    def units(self) -> Sequence[Unit]:
        """Return one unit per review."""
        return [
            Unit(id=row["id"], input=row["text"], reference=row["stars"])
            for row in read_reviews()
            if row["split"] == self.split
        ]

    def respond(self, inputs: list[str]) -> Sequence[int]:
        """Return one prediction per review."""
        return [_guess(text.lower()) for text in inputs]

    def score(self, unit: Unit, output: int) -> Mapping[str, float]:
        """Return the absolute error of a prediction in stars."""
        return {"stars_off": abs(float(output) - float(unit.reference))}

    def metrics(self) -> Sequence[Any]:
        """Return the mean error, between 0 and 4."""
        return [ms.mean_of("stars_off", higher_is_better=False, bounds=(0.0, 4.0))]


def _guess(text: str) -> int:
    praise, blame = (sum(word in text for word in words) for words in (PRAISE, BLAME))
    return min(5, max(1, 3 + praise - blame))
