"""DROP metric: answers of several spans, compared as bags of words with equal numbers."""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.graders.context import told
from eval_toolkit.models.responses import Completion

__all__ = ["TEXT_LIMIT", "Drop", "drop_answer"]

TEXT_LIMIT = 20_000
"""Maximum number of characters read, from the start of a text."""

_BETWEEN_TOKENS = re.compile(r"[ -]")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_BETWEEN_SPANS = re.compile(r",(?!(?<=[0-9],)[0-9]{3}(?![0-9]))")
"""A comma, unless it separates thousands."""
_Rules = tuple[str, ...]
_RULES: tuple[_Rules, ...] = (("punctuation", "articles"), ("punctuation",), ())
"""Normalisation: DROP's own rules, and weaker ones for spans that these would empty."""


def drop_answer(answer: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Return the spans of a DROP answer: a number, a date or spans.

    Parameters
    ----------
    answer : mapping or sequence of str
        Mapping with ``number``, ``date`` (``day``, ``month``, ``year``) and ``spans``, one of which
        is set; or the spans themselves.

    Returns
    -------
    tuple of str
        The number; the date as day, month and year; or the spans.

    Raises
    ------
    InvalidInputError
        If it is neither.

    Examples
    --------
    >>> drop_answer({"number": "", "date": {"day": "3", "month": "May", "year": ""}, "spans": []})
    ('3 May',)
    >>> drop_answer(["Rome", "Bonn"])
    ('Rome', 'Bonn')
    """
    if isinstance(answer, Mapping):
        if answer.get("number") not in (None, ""):
            return (str(answer["number"]),)
        if answer.get("spans"):
            return drop_answer(answer["spans"])
        date = answer.get("date") or {}
        return (" ".join(str(date.get(part, "")) for part in ("day", "month", "year")).strip(),)
    if isinstance(answer, str) or not all(isinstance(span, str) for span in answer):
        raise InvalidInputError(f"an answer of `answers` is {answer!r}; it must be a list of spans")
    return tuple(answer)


@dataclass(frozen=True, slots=True)
class Drop:
    """F1 and exact match as defined by the DROP benchmark.

    The text is split into spans at commas that do not separate thousands, and so is each reference:
    one acceptable answer. Answers whose spans have commas of their own are given as lists in the
    sample's context, under ``answers``, each as `drop_answer` reads it; the references are not
    looked at then. The best answer counts, for each column by itself.

    A span is split at blanks and hyphens; its tokens lose case, punctuation (unless they are
    numbers) and English articles, and numbers are written alike. A span of an answer of which
    nothing would be left, such as "A", keeps its articles, and if need be its punctuation; so does
    the text when it is compared with it. Exact match wants the same spans and as many of them. F1
    is that of the sets of tokens, 0 where the span of the answer has numbers and none of them is in
    the text's; spans are paired so that the sum is largest, divided by the larger number of spans,
    and rounded to two decimals.

    The first `TEXT_LIMIT` characters of a text are read.

    Examples
    --------
    >>> Drop().grade(Completion("Rome, the 3 hills", ground_truth="3 hills, Rome"))
    {'drop_f1': 1.0, 'drop_exact_match': 1.0}
    >>> Drop().grade(Completion("4 hills", ground_truth="3 hills"))["drop_f1"]
    0.0
    """

    name = "drop"
    response_types = COMPLETIONS

    @property
    def version(self) -> str:
        """Version of the grader; changes when its results may change."""
        return options_version(self, "2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the columns that the grader fills."""
        return {"drop_f1": ColumnInfo(bounds=(0.0, 1.0)), "drop_exact_match": RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the best F1 and whether any answer matches exactly."""
        spans = _BETWEEN_SPANS.split(response.completion[:TEXT_LIMIT])
        golds = [[_wanted(span) for span in answer] for answer in _answers(response)]
        text = {
            rules: [_normal(span, rules) for span in spans]
            for rules in {rules for gold in golds for rules, _ in gold}
        }
        return {
            "drop_f1": max(_f1(text, gold) for gold in golds),
            "drop_exact_match": float(any(_agree(text, gold) for gold in golds)),
        }


def _answers(response: Completion) -> list[Sequence[str]]:
    given = told(response, "answers")
    answers: list[Sequence[str]] = (
        [_BETWEEN_SPANS.split(truth) for truth in references(response)]
        if given is None
        else [drop_answer(answer) for answer in given]
    )
    # Annotators left answers empty where they had none.
    answers = [answer for answer in answers if answer and answer[0].strip()]
    if not answers:
        raise InvalidInputError("the sample has no reference to grade against")
    return answers


def _wanted(span: str) -> tuple[_Rules, str]:
    """Return the normalisation rules for a span, and the normalised span."""
    read = [(rules, _normal(span, rules)) for rules in _RULES]
    return next((one for one in read if one[1]), read[0])


def _normal(span: str, rules: _Rules) -> str:
    tokens = (_token(token, rules) for token in _BETWEEN_TOKENS.split(span))
    return " ".join(filter(None, tokens))


def _token(token: str, rules: _Rules) -> str:
    token = token.lower()
    if "punctuation" in rules and not _is_number(token):
        token = token.translate(_PUNCTUATION)
    if _is_number(token):
        token = str(float(token))
    if "articles" in rules:
        token = _ARTICLES.sub(" ", token)
    return " ".join(token.split())


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _agree(text: Mapping[_Rules, list[str]], gold: list[tuple[_Rules, str]]) -> bool:
    """Return whether a text has exactly the spans of an answer."""
    found = {rules: {span for by, span in gold if by == rules} for rules in text}
    columns = zip(
        *([span in found[by] for span in spans] for by, spans in text.items()), strict=True
    )
    same = [any(column) for column in columns]
    return len(same) == len(gold) and all(same) and all(span in text[by] for by, span in gold)


def _f1(text: Mapping[_Rules, list[str]], gold: list[tuple[_Rules, str]]) -> float:
    from scipy.optimize import linear_sum_assignment

    mine = {rules: [set(span.split()) for span in spans] for rules, spans in text.items()}
    wanted = [(rules, set(span.split())) for rules, span in gold]
    scores = np.zeros((len(gold), len(next(iter(text.values())))))
    for row, (rules, bag) in enumerate(wanted):
        must = {token for token in bag if _is_number(token)}
        for column, said in enumerate(mine[rules]):
            if not must or must & said:
                scores[row, column] = _bag_f1(said, bag)
    total = scores[linear_sum_assignment(scores, maximize=True)].sum()
    return float(np.round(total / max(scores.shape), 2))


def _bag_f1(said: set[str], wanted: set[str]) -> float:
    if not said or not wanted:
        return float(said == wanted)
    return 2.0 * len(said & wanted) / (len(said) + len(wanted))
