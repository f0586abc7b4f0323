"""A kind of evaluation: reviews whose stars are guessed from their words, without any model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit.runs import Kind, Unit, Words
from eval_toolkit_reviews.rows import BLAME, PRAISE, read_reviews

__all__ = ["StarGuesses"]


@dataclass(frozen=True)
class StarGuesses(Kind[Any]):
    """Guesses the stars of reviews: 3, one more per word of praise, one less per word of blame.

    Runs name the kind, and `rescore`, reports and the viewer find this class by that name.

    Parameters
    ----------
    split : str, default "test"
        Reviews of which split.
    """

    split: str = "test"

    name = "star_guesses"
    words = Words(what="stars guessed from words", units="reviews", attempt="guess")

    @classmethod
    def stored(cls, *run: Any) -> "StarGuesses":
        """Return the kind of a stored run; `rescore` scores its guesses again."""
        return cls(run[0].manifest["config"]["slice"])

    def config(self) -> Mapping[str, Any]:
        """Return what a run is known by."""
        return {"system": "words", "slice": self.split}

    def units(self) -> Sequence[Unit]:
        """Return one unit per review."""
        return [
            Unit(id=row["id"], input=row["text"], reference=row["stars"])
            for row in read_reviews()
            if row["split"] == self.split
        ]

    def respond(self, inputs: list[str]) -> Sequence[int]:
        """Return a guess per review."""
        return [_guess(text.lower()) for text in inputs]

    def score(self, unit: Unit, output: int) -> Mapping[str, float]:
        """Return by how many stars a guess is off."""
        return {"stars_off": abs(float(output) - float(unit.reference))}

    def metrics(self) -> Sequence[Any]:
        """Return the mean, which lies between 0 and 4."""
        return [ms.mean_of("stars_off", higher_is_better=False, bounds=(0.0, 4.0))]


def _guess(text: str) -> int:
    praise, blame = (sum(word in text for word in words) for words in (PRAISE, BLAME))
    return min(5, max(1, 3 + praise - blame))
