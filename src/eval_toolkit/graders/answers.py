"""Answers extracted by graders, used as votes in maj@k."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import TEXT, ColumnInfo, Grade, columns_of
from eval_toolkit.graders.loading import load_grader
from eval_toolkit.protocols import Grader

_NO_ANSWER = Grade.skipped("the response contains no answer to vote with")


def _has_answer(grader: Any) -> bool:
    return callable(getattr(grader, "answer", None))


@dataclass(frozen=True, slots=True)
class WithAnswer:
    """Grader that also stores the extracted answer in the column ``<name>_answer``.

    The grader's method ``answer(response)`` returns a string, or None if there is no answer; equal
    strings count as the same answer. The answer is the number for `NumberMatch`, the letter for
    `LetterMatch`, the match for `RegexMatch`, the normalised response for `ExactMatch`, and the
    choice for `ChoiceAccuracy`.

    Parameters
    ----------
    grader : Grader or str
        Grader to wrap; its columns, name and version are unchanged.

    Raises
    ------
    InvalidInputError
        If the grader has no method ``answer``.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Completion
    >>> grader = WithAnswer("number_match")
    >>> [grader.grade(Completion(text, ground_truth="8"))["number_match_answer"]
    ...  for text in ("8", "so 8.0")]
    ['8', '8']
    """

    grader: Any

    def __post_init__(self) -> None:
        inner = load_grader(self.grader)
        if isinstance(inner, WithAnswer) or not _has_answer(inner):
            raise InvalidInputError(
                f"`grader` is {inner.name!r}, which does not extract an answer; it needs a "
                "method `answer(response)`"
            )
        object.__setattr__(self, "grader", inner)

    @property
    def name(self) -> str:
        """Name of the wrapped grader."""
        return str(self.grader.name)

    @property
    def version(self) -> str:
        """Version of the wrapped grader."""
        return str(self.grader.version)

    @property
    def response_types(self) -> Any:
        """Response types of the wrapped grader."""
        return getattr(self.grader, "response_types", None)

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the columns of the wrapped grader plus the answer column."""
        return {**columns_of(self.grader), f"{self.name}_answer": TEXT}

    def metrics(self) -> list[Any]:
        """Return the corpus metrics of the wrapped grader."""
        own = getattr(self.grader, "metrics", None)
        return list(own()) if callable(own) else []

    def grade(self, response: Any) -> Mapping[str, float | str | Grade]:
        """Return the grades of the wrapped grader plus the extracted answer."""
        found = self.grader.answer(response)
        answer = _NO_ANSWER if found is None else str(found)
        return {**self.grader.grade(response), f"{self.name}_answer": answer}


def with_answers(graders: Iterable[Grader]) -> list[Grader]:
    """Wrap graders that extract answers in `WithAnswer`, as maj@k requires.

    Parameters
    ----------
    graders : iterable of Grader
        Graders of a task.

    Returns
    -------
    list of Grader
        Graders in the same order; those that extract no answers are unchanged.

    Raises
    ------
    InvalidInputError
        If no grader extracts answers.

    Examples
    --------
    >>> from eval_toolkit.graders import ExactMatch, TokenF1
    >>> [list(grader.columns()) for grader in with_answers([ExactMatch(), TokenF1()])]
    [['exact_match', 'exact_match_answer'], ['f1']]
    """
    given = list(graders)
    wrapped: list[Grader] = [
        WithAnswer(grader) if _has_answer(grader) and not isinstance(grader, WithAnswer) else grader
        for grader in given
    ]
    if not any(isinstance(grader, WithAnswer) for grader in wrapped):
        names = ", ".join(grader.name for grader in given)
        raise InvalidInputError(
            f"maj@k needs a grader that extracts an answer, such as exact_match; got {names}"
        )
    return wrapped
