"""The 25 instruction types with their rules and arguments."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.ifeval import counts, layout, words
from eval_toolkit.graders.ifeval.languages import is_in_language

_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "number": ("a number", lambda value: type(value) is int),
    "text": ("a string", lambda value: isinstance(value, str) and bool(value)),
    "texts": (
        "a list of strings",
        lambda value: (
            isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class _Rule:
    follows: Callable[..., bool]
    needs: Mapping[str, str]
    """Name and type of each argument."""


def _rule(follows: Callable[..., bool], **needs: str) -> _Rule:
    return _Rule(follows, needs)


_RULES: Mapping[str, _Rule] = {
    "change_case:capital_word_frequency": _rule(
        words.capital_words, capital_frequency="number", capital_relation="text"
    ),
    "change_case:english_capital": _rule(words.all_upper_case),
    "change_case:english_lowercase": _rule(words.all_lower_case),
    "combination:repeat_prompt": _rule(words.repeats_prompt, prompt_to_repeat="text"),
    "combination:two_responses": _rule(layout.two_responses),
    "detectable_content:number_placeholders": _rule(layout.placeholders, num_placeholders="number"),
    "detectable_content:postscript": _rule(layout.postscript, postscript_marker="text"),
    "detectable_format:constrained_response": _rule(layout.one_of_the_options),
    "detectable_format:json_format": _rule(layout.is_json),
    "detectable_format:multiple_sections": _rule(
        layout.sections, section_spliter="text", num_sections="number"
    ),
    "detectable_format:number_bullet_lists": _rule(layout.bullets, num_bullets="number"),
    "detectable_format:number_highlighted_sections": _rule(
        layout.highlights, num_highlights="number"
    ),
    "detectable_format:title": _rule(layout.title),
    "keywords:existence": _rule(words.has_keywords, keywords="texts"),
    "keywords:forbidden_words": _rule(words.no_forbidden_words, forbidden_words="texts"),
    "keywords:frequency": _rule(
        words.keyword_frequency, keyword="text", frequency="number", relation="text"
    ),
    "keywords:letter_frequency": _rule(
        words.letter_frequency, letter="text", let_frequency="number", let_relation="text"
    ),
    "language:response_language": _rule(is_in_language, language="text"),
    "length_constraints:nth_paragraph_first_word": _rule(
        layout.paragraphs_and_first_word,
        num_paragraphs="number",
        nth_paragraph="number",
        first_word="text",
    ),
    "length_constraints:number_paragraphs": _rule(layout.paragraphs, num_paragraphs="number"),
    "length_constraints:number_sentences": _rule(
        counts.number_of_sentences, num_sentences="number", relation="text"
    ),
    "length_constraints:number_words": _rule(
        counts.number_of_words, num_words="number", relation="text"
    ),
    "punctuation:no_comma": _rule(words.no_comma),
    "startend:end_checker": _rule(words.ends_with, end_phrase="text"),
    "startend:quotation": _rule(words.in_quotes),
}


def instruction_ids() -> list[str]:
    """Return the ids of supported instructions.

    Returns
    -------
    list of str
        Sorted instruction ids.

    Examples
    --------
    >>> len(instruction_ids())
    25
    """
    return sorted(_RULES)


def follows(instruction_id: str, text: str, /, **arguments: Any) -> bool:
    """Return whether a response follows an instruction.

    Parameters
    ----------
    instruction_id : str
        One of `instruction_ids`.
    text : str
        Response of the model; a blank response follows no instruction.
    **arguments
        Arguments of the instruction, named as in the data. None and empty values are ignored, since
        the published data contains them in every row.

    Returns
    -------
    bool
        Whether the response follows the instruction.

    Raises
    ------
    InvalidInputError
        If the instruction is unknown, or an argument is missing, unknown or of the wrong type.

    Examples
    --------
    >>> follows("punctuation:no_comma", "Yes and no.")
    True
    >>> follows("length_constraints:number_words", "Too short.", num_words=9, relation="at least")
    False
    """
    rule = _RULES.get(instruction_id)
    if rule is None:
        near = difflib.get_close_matches(str(instruction_id), _RULES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"there is no instruction {instruction_id!r}{hint}")
    given = {name: value for name, value in arguments.items() if value not in (None, "", [], ())}
    for name in sorted(given.keys() - rule.needs.keys()):
        raise InvalidInputError(f"{instruction_id} has no argument {name!r}")
    for name, kind in rule.needs.items():
        given[name] = _argument(given.get(name), kind, f"{instruction_id}: `{name}`")
    return bool(text.strip()) and rule.follows(text, **given)


def _argument(value: Any, kind: str, place: str) -> Any:
    what, fits = _KINDS[kind]
    if kind == "number" and isinstance(value, float) and value.is_integer():
        value = int(value)  # integer columns with missing values are read as floats
    if not fits(value):
        shown = "is missing" if value is None else f"is {value!r:.60}"
        raise InvalidInputError(f"{place} {shown}; it must be {what}")
    return value
