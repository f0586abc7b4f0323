"""How a multiple-choice question is asked: labelled options, texts as continuations, or in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, ClassVar, Protocol

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.prompts import joined_choice
from eval_toolkit.models.responses import ResponseType

__all__ = [
    "STYLES",
    "BPBStyle",
    "ClozeStyle",
    "MCCompletionStyle",
    "MCStyle",
    "TaskStyler",
    "format_mc_prompt",
    "letters",
]


def letters(n: int) -> list[str]:
    """Return the labels of so many choices, from A on.

    Parameters
    ----------
    n : int
        1 to 26.

    Returns
    -------
    list of str
        Upper-case letters.

    Raises
    ------
    InvalidInputError
        If there are not so many letters.

    Examples
    --------
    >>> letters(4)
    ['A', 'B', 'C', 'D']
    """
    if not 1 <= n <= len(ascii_uppercase):
        raise InvalidInputError(f"there are {n} choices; labels A to Z suffice for 1 to 26")
    return list(ascii_uppercase[:n])


def format_mc_prompt(
    question: str, choices: Sequence[str], *, space_prefixed_labels: bool = False
) -> str:
    r"""Return a question with one labelled line per choice below it.

    Parameters
    ----------
    question : str
        Text of the question.
    choices : sequence of str
        Texts of the options.
    space_prefixed_labels : bool
        Write " A." instead of "A.", so that the label is the token that is scored.

    Returns
    -------
    str
        Ends with a newline.

    Examples
    --------
    >>> format_mc_prompt("Question: 2 + 2?", ["3", "4"])
    'Question: 2 + 2?\nA. 3\nB. 4\n'
    """
    space = " " if space_prefixed_labels else ""
    labelled = zip(letters(len(choices)), choices, strict=True)
    return f"{question}\n" + "".join(f"{space}{label}. {text}\n" for label, text in labelled)


class TaskStyler(Protocol):
    """Turns question, choices and the right one into prompt, candidates and reference."""

    @property
    def response_type(self) -> ResponseType:
        """What the model is asked for."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the graders that fit."""
        ...

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        """Return the text of the question."""
        ...

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the reference."""
        ...

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return what is scored; None where the answer is generated."""
        ...

    def get_cue_text(self) -> str:
        """Return the start of the answer (cue)."""
        ...

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the answer of an example."""
        ...

    def get_extra_metadata(self) -> dict[str, Any]:
        """Return what the task's metadata say about the style."""
        ...


_WORDS: Mapping[str, tuple[str, str]] = {
    "eng": ("Question: ", "Answer:"),
    "deu": ("Frage: ", "Antwort:"),
}


@dataclass(frozen=True, slots=True)
class _Style:
    """What all styles share."""

    question_prefix: str = "Question: "
    cue_text: str = "Answer:"

    response_type: ClassVar[ResponseType] = ResponseType.LOGLIKELIHOODS
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "accuracy_norm_bytes", "bits_per_byte")
    task_style: ClassVar[str] = ""

    @classmethod
    def for_language(cls, language: str, **options: Any) -> Any:
        """Return the style with the words of a language ("eng" or "deu").

        Raises
        ------
        InvalidInputError
            If there are no words for the language.
        """
        code = str(language).lower()
        if code not in _WORDS:
            raise InvalidInputError(
                f"`language` is {language!r}; there are words for {', '.join(_WORDS)}: "
                "give question_prefix and cue_text yourself"
            )
        prefix, cue = _WORDS[code]
        return cls(**{"question_prefix": prefix, "cue_text": cue, **options})

    def get_question_text(self, raw_question: str) -> str:
        """Return the question after its prefix."""
        return f"{self.question_prefix}{raw_question}"

    def get_cue_text(self) -> str:
        """Return the start of the answer (cue)."""
        return self.cue_text

    def get_extra_metadata(self) -> dict[str, Any]:
        """Return the name of the style."""
        return {"task_style": self.task_style}


@dataclass(frozen=True, slots=True)
class MCStyle(_Style):
    r"""Options with letters in the prompt; the letters are scored.

    Parameters
    ----------
    question_prefix, cue_text : str
        Around the question.
    space_prefixed_labels : bool
        Write " A." instead of "A.".

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
        """Return the letter of the right choice, after a space."""
        return f" {letters(len(choices))[correct_index]}"

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return the letters, each after a space."""
        return [f" {letter}" for letter in letters(len(choices))]

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the cue and the right letter."""
        return f"{self.cue_text}{self.get_ground_truth(choices, correct_index)}"


@dataclass(frozen=True, slots=True)
class MCCompletionStyle(MCStyle):
    """Options with letters in the prompt; the text of the right one is to be generated.

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
        """Return the text of the right choice."""
        return choices[correct_index]

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return None: the answer is generated."""
        return None

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the cue, a space and the text of the right choice."""
        return self.cue_text + joined_choice(self.cue_text, choices[correct_index])


@dataclass(frozen=True, slots=True)
class ClozeStyle(_Style):
    """The question alone in the prompt; the texts of the choices are scored.

    Parameters
    ----------
    question_prefix, cue_text : str
        Around the question.
    trailing_newline : bool
        End the question with a newline.
    leading_space_continuations : bool
        Score " text" instead of "text".

    Examples
    --------
    >>> ClozeStyle().get_possible_completions(["Madrid", "Rome"])
    [' Madrid', ' Rome']
    """

    trailing_newline: bool = True
    leading_space_continuations: bool = True

    task_style: ClassVar[str] = "cloze"

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        """Return the question; the choices do not show."""
        return self.get_question_text(raw_question) + ("\n" if self.trailing_newline else "")

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the text of the right choice as it is scored."""
        return self._continuation(choices[correct_index])

    def get_possible_completions(
        self, choices: Sequence[str], correct_index: int | None = None
    ) -> list[str] | None:
        """Return the texts of all choices as they are scored."""
        return [self._continuation(choice) for choice in choices]

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """Return the cue and the text of the right choice."""
        return f"{self.cue_text}{self.get_ground_truth(choices, correct_index)}"

    def _continuation(self, choice: str) -> str:
        return f" {choice}" if self.leading_space_continuations else choice


@dataclass(frozen=True, slots=True)
class BPBStyle(ClozeStyle):
    """The question alone in the prompt; only the right text is scored.

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
        """Return the right text alone.

        Raises
        ------
        InvalidInputError
            If it is not said which one is right.
        """
        if correct_index is None:
            raise InvalidInputError("BPBStyle scores the right choice; `correct_index` is missing")
        return [self._continuation(choices[correct_index])]


STYLES: Mapping[str, type[_Style]] = {
    "mc": MCStyle,
    "mc_completion": MCCompletionStyle,
    "cloze": ClozeStyle,
    "bpb": BPBStyle,
}
"""Styles by the names that declared tasks use."""
