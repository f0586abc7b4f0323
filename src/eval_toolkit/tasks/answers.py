"""Parsing of choices and answer keys in common dataset formats."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.templates import text_of

ANSWER_KINDS = ("auto", "index", "number", "letter", "label", "text")


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of an item, with optional labels and the indices of the correct choices."""

    texts: list[str]
    labels: list[str] = field(default_factory=list)
    right: list[int] = field(default_factory=list)


def answer_key_to_index(key: str) -> int:
    """Convert an answer key to the index of a choice; "A" and "1" denote the first choice.

    Parameters
    ----------
    key : str
        Letter in either case, or number starting at 1.

    Returns
    -------
    int
        Zero-based index of the choice.

    Raises
    ------
    InvalidInputError
        If the key is neither a letter nor a positive number.

    Examples
    --------
    >>> answer_key_to_index("C"), answer_key_to_index("3")
    (2, 2)
    """
    text = str(key).strip()
    if len(text) == 1 and text.upper() in ascii_uppercase:
        return ascii_uppercase.index(text.upper())
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text) - 1
    raise InvalidInputError(f"the answer key is {key!r}; it must be a letter or a positive number")


def read_choices(value: Any, place: str) -> Choices:
    """Parse the choices in a field, which may have any of the common formats."""
    what = f"{place}: a choice"
    if isinstance(value, Mapping) and isinstance(value.get("text"), list):
        labels = value.get("label") or []
        found = Choices(
            [text_of(text, what) for text in value["text"]],
            [text_of(label, what) for label in labels],
        )
    elif isinstance(value, Mapping):
        odd = next((mark for mark in value.values() if mark not in (0, 1)), None)
        if odd is not None:
            raise InvalidInputError(
                f"{place}: the choices map a string to {odd!r:.40}; every string must map to 1 (correct) "
                "or 0"
            )
        # Published files contain empty incorrect choices, which cannot be scored.
        marks = {text: mark for text, mark in value.items() if text or mark}
        found = Choices(list(marks), right=[at for at, mark in enumerate(marks.values()) if mark])
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        if not all("text" in one for one in value):
            raise InvalidInputError(f"{place}: the choices are objects without 'text'")
        labels = [one.get("label") for one in value]
        found = Choices(
            [text_of(one["text"], what) for one in value],
            [text_of(label, what) for label in labels if label is not None],
        )
    elif isinstance(value, list):
        found = Choices([text_of(one, what) for one in value])
    else:
        raise InvalidInputError(
            f"{place}: the choices are {type(value).__name__} {value!r:.60}; they must be a list "
            "(set parse=true for a list in a string)"
        )
    return _checked(found, place)


def _checked(found: Choices, place: str) -> Choices:
    if not found.texts:
        raise InvalidInputError(f"{place}: the list of choices is empty")
    if "" in found.texts:
        raise InvalidInputError(f"{place}: choice {found.texts.index('') + 1} is empty")
    if found.labels and len(found.labels) != len(found.texts):
        raise InvalidInputError(
            f"{place}: there are {len(found.texts)} choices but {len(found.labels)} labels"
        )
    return found


def right_choices(
    answer: Any, found: Choices, kind: str, mapped: Mapping[str, str | int], place: str
) -> int:
    """Return the zero-based index of the choice that an answer denotes."""
    if mapped:
        key = text_of(answer, f"{place}: the answer")
        if key not in mapped:
            raise InvalidInputError(
                f"{place}: the answer is {key!r}, which is not in answer_map; its keys are "
                f"{', '.join(map(repr, mapped))}"
            )
        answer = mapped[key]
        kind = "text" if isinstance(answer, str) else "index"
    if kind == "auto":
        kind = _kind(answer, found, place)
    index = _index(answer, found, kind, place)
    if not 0 <= index < len(found.texts):
        raise InvalidInputError(
            f"{place}: the answer {answer!r} is not one of the {len(found.texts)} choices; "
            "the label may be hidden"
        )
    return index


def _kind(answer: Any, found: Choices, place: str) -> str:
    """Return how an answer denotes a choice; raise an error if this is ambiguous."""
    if found.labels:
        return "label"
    if not isinstance(answer, str):
        return "index"
    if answer not in found.texts:
        if len(answer) == 1 and answer.isalpha():
            return "letter"
        raise InvalidInputError(
            f"{place}: the answer {answer!r} is not one of the choices; set answer_is (index, "
            "number, letter)"
        )
    other = -1
    if answer.isdecimal():
        other = int(answer)
    elif len(answer) == 1 and answer.isalpha():
        other = answer_key_to_index(answer)
    if 0 <= other < len(found.texts) and other != found.texts.index(answer):
        raise InvalidInputError(
            f"{place}: the answer {answer!r} is the text of one choice and the position of another; "
            "set answer_is (text, index, letter)"
        )
    return "text"


def _index(answer: Any, found: Choices, kind: str, place: str) -> int:
    if kind in ("label", "text"):
        known = found.labels if kind == "label" else found.texts
        text = text_of(answer, f"{place}: the answer")
        if text not in known:
            raise InvalidInputError(
                f"{place}: the answer {text!r} is not the {kind} of a choice; the {kind}s are "
                f"{', '.join(map(repr, known)) or 'missing'}"
            )
        if kind == "label" and known.count(text) > 1:
            raise InvalidInputError(f"{place}: the answer {text!r} is the label of two choices")
        return known.index(text)
    if kind == "letter":
        return answer_key_to_index(text_of(answer, f"{place}: the answer"))
    if isinstance(answer, bool):
        return int(answer)
    try:
        return int(text_of(answer, f"{place}: the answer")) - (kind == "number")
    except ValueError as error:
        raise InvalidInputError(f"{place}: the answer {answer!r} is not a whole number") from error
