"""Styles of multiple-choice questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, ClassVar, Protocol

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.prompts import joined_choice
from eval_toolkit.models.responses import ResponseType


def letters(n: int) -> list[str]:
    """Return the letters that label n choices, starting with A.

    Parameters
    ----------
    n : int
        Number of choices, from 1 to 26.

    Returns
    -------
    list of str
        Upper-case letters.

    Raises
    ------
    InvalidInputError
        If there are no choices, or more than 26.

    Examples
    --------
    >>> letters(4)
    ['A', 'B', 'C', 'D']
    """
    if not 1 <= n <= len(ascii_uppercase):
        raise InvalidInputError(f"there are {n} choices; the labels A to Z allow 1 to 26")
    return list(ascii_uppercase[:n])


def format_mc_prompt(
    question: str, choices: Sequence[str], *, space_prefixed_labels: bool = False
) -> str:
    r"""Return a question followed by one labelled line per choice.

    Parameters
    ----------
    question : str
        Text of the question.
    choices : sequence of str
        Choices, labelled A, B, C, ….
    space_prefixed_labels : bool
        Whether to write " A." instead of "A.", to match the scored token.

    Returns
    -------
    str
        Prompt that ends with a newline.

    Examples
    --------
    >>> format_mc_prompt("Question: 2 + 2?", ["3", "4"])
    'Question: 2 + 2?\nA. 3\nB. 4\n'
    """
    space = " " if space_prefixed_labels else ""
    labelled = zip(letters(len(choices)), choices, strict=True)
    return f"{question}\n" + "".join(f"{space}{label}. {text}\n" for label, text in labelled)


class TaskStyler(Protocol):
    """Interface of styles, which format questions with choices as prompts and scored strings."""

    @property
    def response_type(self) -> ResponseType:
        """Type of response requested from the model."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of suitable graders."""
        ...

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        """Return the prompt text of the question."""
        ...

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the reference."""
        ...

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return the strings to score, or None if the answer is generated."""
        ...

    def get_cue_text(self) -> str:
        """Return the cue, i.e. the beginning of the answer."""
        ...

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the answer of a few-shot example."""
        ...

    def get_extra_metadata(self) -> dict[str, Any]:
        """Return the metadata of the style."""
        ...


_WORDS: Mapping[str, tuple[str, str]] = {
    "eng": ("Question: ", "Answer:"),
    "deu": ("Frage: ", "Antwort:"),
}


@dataclass(frozen=True, slots=True)
class _Style:
    """Base class of all styles."""

    question_prefix: str = "Question: "
    cue_text: str = "Answer:"

    response_type: ClassVar[ResponseType] = ResponseType.LOGLIKELIHOODS
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "accuracy_norm_bytes", "bits_per_byte")
    task_style: ClassVar[str] = ""

    @classmethod
    def for_language(cls, language: str, **options: Any) -> Any:
        """Return the style with the wording for a language ("eng" or "deu").

        Raises
        ------
        InvalidInputError
            If the language is not supported.
        """
        code = str(language).lower()
        if code not in _WORDS:
            raise InvalidInputError(
                f"`language` is {language!r}; only {', '.join(_WORDS)} are supported: "
                "for others, pass question_prefix and cue_text"
            )
        prefix, cue = _WORDS[code]
        return cls(**{"question_prefix": prefix, "cue_text": cue, **options})

    def get_question_text(self, raw_question: str) -> str:
        """Return the question with its prefix."""
        return f"{self.question_prefix}{raw_question}"

    def get_cue_text(self) -> str:
        """Return the cue, i.e. the beginning of the answer."""
        return self.cue_text

    def get_extra_metadata(self) -> dict[str, Any]:
        """Return the name of the style."""
        return {"task_style": self.task_style}


@dataclass(frozen=True, slots=True)
class MCStyle(_Style):
    r"""Style with lettered options in the prompt, whose letters are scored.

    Parameters
    ----------
    question_prefix, cue_text : str
        Text before the question, and beginning of the answer.
    space_prefixed_labels : bool
        Whether to write " A." instead of "A.".

    Examples
    --------
    >>> style = MCStyle()
    >>> style.get_instruction_text("2 + 2?", ["3", "4"])
    'Question: 2 + 2?\nA. 3\nB. 4\n'
    >>> style.get_possible_completions(["3", "4"]), style.get_ground_truth(["3", "4"], 1)
    ([' A', ' B'], ' B')
    """

    space_prefixed_labels: bool = False

    task_style: ClassVar[str] = "multiple_choice"

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        """Return the question and one labelled line per choice."""
        return format_mc_prompt(
            self.get_question_text(raw_question),
            choices,
            space_prefixed_labels=self.space_prefixed_labels,
        )

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the letter of the correct choice, after a space."""
        return f" {letters(len(choices))[correct_index]}"

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return the letters, each after a space."""
        return [f" {letter}" for letter in letters(len(choices))]

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the cue and the correct letter."""
        return f"{self.cue_text}{self.get_ground_truth(choices, correct_index)}"


@dataclass(frozen=True, slots=True)
class MCCompletionStyle(MCStyle):
    """Style with lettered options in the prompt and a generated answer.

    Parameters
    ----------
    question_prefix, cue_text, space_prefixed_labels
        As in `MCStyle`.

    Examples
    --------
    >>> MCCompletionStyle().get_fewshot_target_text(["Madrid", "Rome"], 1)
    'Answer: Rome'
    """

    response_type: ClassVar[ResponseType] = ResponseType.COMPLETION
    metrics: ClassVar[tuple[str, ...]] = ("exact_match",)

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the text of the correct choice."""
        return choices[correct_index]

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return None, because the answer is generated."""
        return None

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the cue, a space and the text of the correct choice."""
        return self.cue_text + joined_choice(self.cue_text, choices[correct_index])


@dataclass(frozen=True, slots=True)
class ClozeStyle(_Style):
    """Style in which the choices are scored as continuations of the question.

    Parameters
    ----------
    question_prefix, cue_text : str
        Text before the question, and beginning of the answer.
    trailing_newline : bool
        Whether to end the question with a newline.
    leading_space_continuations : bool
        Whether to score " text" instead of "text".

    Examples
    --------
    >>> ClozeStyle().get_possible_completions(["Madrid", "Rome"])
    [' Madrid', ' Rome']
    """

    trailing_newline: bool = True
    leading_space_continuations: bool = True

    task_style: ClassVar[str] = "cloze"

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        """Return the question, without the choices."""
        return self.get_question_text(raw_question) + ("\n" if self.trailing_newline else "")

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the text of the correct choice in the form in which it is scored."""
        return self._continuation(choices[correct_index])

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return the texts of all choices in the form in which they are scored."""
        return [self._continuation(choice) for choice in choices]

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the cue and the text of the correct choice."""
        return f"{self.cue_text}{self.get_ground_truth(choices, correct_index)}"

    def _continuation(self, choice: str) -> str:
        return f" {choice}" if self.leading_space_continuations else choice


@dataclass(frozen=True, slots=True)
class BPBStyle(ClozeStyle):
    """Style in which only the correct choice is scored, for bits per byte.

    Parameters
    ----------
    question_prefix, cue_text, trailing_newline, leading_space_continuations
        As in `ClozeStyle`.

    Examples
    --------
    >>> BPBStyle().get_possible_completions(["Madrid", "Rome"], 1)
    [' Rome']
    """

    metrics: ClassVar[tuple[str, ...]] = ("bits_per_byte",)
    task_style: ClassVar[str] = "bpb"

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return a list with only the correct choice.

        Raises
        ------
        InvalidInputError
            If the index of the correct choice is not passed.
        """
        if correct_index is None:
            raise InvalidInputError(
                "`correct_index` is missing; BPBStyle scores only the correct choice"
            )
        return [self._continuation(choices[correct_index])]


STYLES: Mapping[str, type[_Style]] = {
    "mc": MCStyle,
    "mc_completion": MCCompletionStyle,
    "cloze": ClozeStyle,
    "bpb": BPBStyle,
}
"""Styles, keyed by their names in task declarations."""
